"""How large the steps of a series are whose places are known, where neighbouring nights are alike.

A step is the difference of the plain means of the nights before and after it, outliers clipped.
How far it may be off depends on how long the level wanders, which no series of some months tells
well.  So each wander of a grid (:data:`WANDERS`) gives a standard error, with the variance that
all nights of the series have under it, and a weight: how likely it makes these nights (restricted
likelihood, by a Kalman filter).  The interval holds 95 % of the mixture of the t distributions
about the difference.

Two things are on purpose not the best for noise that is exactly as assumed.  The difference is of
plain means, not the generalised least squares estimate, which rests on a wander that real nights
need not follow.  And the likelihood counts as its square root (:data:`_LEARNED`), which keeps
wanders that explain the nights somewhat worse.  How often intervals hold: benchmarks/history.py.

References:
    H. D. Patterson and R. Thompson (1971), Recovery of inter-block information when block sizes are
    unequal, Biometrika 58, 545-554 (restricted likelihood).
    A. C. Harvey (1989), Forecasting, structural time series models and the Kalman filter, 3.4.
    J. A. Hoeting, D. Madigan, A. E. Raftery and C. T. Volinsky (1999), Bayesian model averaging: a
    tutorial, Statistical Science 14, 382-417.
    P. Gruenwald and T. van Ommen (2017), Inconsistency of Bayesian inference for misspecified
    linear models, and a proposal for repairing it, Bayesian Analysis 12, 1069-1103.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from iotrial.stats.blocks import Floats
from iotrial.stats.noise import CONFIDENCE, StandardDeviation

WANDERS = (
    (0.0, 0.0),
    *((a, f) for a in (0.25, 0.5, 0.75, 1.0) for f in (0.3, 0.6, 0.8, 0.9, 0.97)),
)
"""What noise may be like: the share of its variance that wanders, and the autocorrelation of the
wandering part from night to night."""
_WHITE = 0.1
"""How plausible white noise is beforehand."""
_LEARNED = 0.5
_SHARE, _KEEP = np.array(WANDERS).T
_PLAUSIBLE = np.log([_WHITE] + [(1 - _WHITE) / (len(WANDERS) - 1)] * (len(WANDERS) - 1))
_LEAST = 1e-6
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class LogStep:
    """The level after a place less that before it, and the half of its interval, as logs."""

    size: float
    half: float


def log_steps(
    values: Floats,
    variances: Floats,
    places: Sequence[int],
    *,
    known: StandardDeviation | None = None,
    least: float = 0.0,
) -> tuple[LogStep, ...]:
    """The steps at ``places``, indices of the first values after them, in their order.

    ``values`` are logs without outliers, ``variances`` those of each night in units of their mean;
    ``known`` is a noise measured elsewhere, ``least`` the least standard deviation there is."""
    n = len(values)
    values = values - values.mean()
    design = np.stack([np.arange(n) >= place for place in (0, *places)], axis=1).astype(np.float64)
    squares, logs = _filtered(np.column_stack([values, design]), variances)
    inner, mixed = squares[:, 1:, 1:], squares[:, 1:, 0]
    fitted = np.linalg.solve(inner, mixed[:, :, None])[:, :, 0]
    rest = np.maximum(squares[:, 0, 0] - (mixed * fitted).sum(axis=1), n * least**2)
    df = n - len(places) - 1
    if known:
        rest, df = rest + known.df * known.sd**2, df + known.df
    logs += np.linalg.slogdet(inner)[1] + df * np.log(rest)
    weights = _PLAUSIBLE - _LEARNED * logs / 2
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    weighted = design / variances[:, None]
    parts = np.linalg.solve(weighted.T @ design, weighted.T)[1:]
    errors = [np.sqrt(rest / df * _variance(part, variances)) for part in parts]
    return tuple(
        LogStep(float(part @ values), _half(each, weights, df))
        for part, each in zip(parts, errors, strict=True)
    )


def _filtered(columns: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """For each wander the sums of products of all columns, made independent from night to night,
    and the log of the determinant of their covariance."""
    state = np.zeros((len(WANDERS), columns.shape[1]))
    unsure = _SHARE.copy()
    squares = np.zeros((len(WANDERS), columns.shape[1], columns.shape[1]))
    logs = np.zeros(len(WANDERS))
    for column, variance in zip(columns, variances, strict=True):
        spread = unsure + np.maximum(variance - _SHARE, _LEAST)
        new = column - state
        squares += new[:, :, None] * new[:, None, :] / spread[:, None, None]
        logs += np.log(spread)
        gain = unsure / spread
        state = (state + gain[:, None] * new) * _KEEP[:, None]
        unsure = unsure * (1 - gain) * _KEEP**2 + _SHARE * (1 - _KEEP**2)
    return squares, logs


def _variance(part: Floats, variances: Floats) -> Floats:
    """Of the sum of nights that ``part`` weighs, for each wander, in units of a night's."""
    lag = np.arange(len(part))
    products = np.correlate(part, part, "full")[len(part) - 1 :]
    products[1:] *= 2
    alike = _SHARE * (_KEEP[:, None] ** lag @ products)
    white = np.maximum(variances - _SHARE[:, None], _LEAST) @ part**2
    return np.asarray(alike + white)


def _half(errors: Floats, weights: Floats, df: int) -> float:
    """What :data:`CONFIDENCE` of the mixture of t distributions with these standard errors is
    within."""
    low, high = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * np.array([errors.min(), errors.max()])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = float(weights @ (2 * stdtr(df, middle / errors) - 1))
        low, high = (middle, high) if inside < CONFIDENCE else (low, middle)
    return float(high)
