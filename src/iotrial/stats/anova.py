"""Analysis of variance: how much of the variation each factor and interaction explains.

On the log scale, log response = block + main effects + interactions of two + what is left of the
treatments (``higher``) + residual.  Blocks come first: they are taken out of everything else.
Sums of squares of type II: of each effect after all others that do not contain it; of type III:
after all others, with codes that sum to 0.  They agree where every treatment was measured equally
often.

A share of the total (eta²) grows with noise alone, so the share corrected for it is given beside:
omega² = (SS - df·MSE) / (SS_total + MSE), at least 0.  Its interval is Scheffé's for the length of
the effects, which holds with at least the confidence; the other sums of squares are taken as they
are.  MSE is the residual mean square; for effects of hard factors alone
it is that between whole plots (:mod:`iotrial.stats.strata`).

References:
    F. Yates (1934), The analysis of multiple classifications with unequal numbers in the
    different classes, JASA 29, 51-66 (types II and III before they were called so).
    Ø. Langsrud (2003), ANOVA for unbalanced data: use Type II instead of Type III sums of squares,
    Statistics and Computing 13, 163-167.
    W. L. Hays (1963), *Statistics for Psychologists* (omega²); S. Olejnik and J. Algina (2003),
    Generalized eta and omega squared statistics, Psychological Methods 8, 434-447.
    H. Scheffé (1953), A method for judging all contrasts in the analysis of variance, Biometrika
    40, 87-104 (all contrasts of an effect lie within the noise's length of the estimates).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import fdtri

from iotrial.model.finding import Share
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.stats.alias import Model, Term, estimable
from iotrial.stats.blocks import Floats, Indices, fit
from iotrial.stats.effects import coordinates, varied
from iotrial.stats.responses import Responses, counted, responses
from iotrial.stats.strata import fit_in, whole_plots

Type = Literal["II", "III"]
MOST_PARAMETERS = 200
"""Beyond this the table is longer than anybody reads, and slow to make."""
MOST_CELLS = 2000
"""Treatments beyond which the model takes too long."""
_NOTHING = 1e-12
_RANK = 1e-9
"""Of the largest eigenvalue: below it a direction is rounding."""


@dataclass(frozen=True, slots=True)
class _Squares:
    """A sum of squares and its degrees of freedom."""

    value: float
    df: int

    @property
    def mean(self) -> float:
        return self.value / self.df if self.df else float("nan")


def shares(results: Results) -> tuple[Share, ...]:
    """What explains the variation of each workload's primary metric; nothing for a study of one
    factor, or without residual degrees of freedom."""
    by_workload, study = counted(results), results.study
    found: list[Share] = []
    for workload, metric in study.decide.primary:
        data = responses(by_workload.get(workload, ()), metric, study)
        found += anova(study, workload, data)
    return tuple(found)


def anova(study: Study, workload: str, data: Responses, kind: Type = "II") -> tuple[Share, ...]:
    """The table of one workload: blocks, effects, higher, whole plots, residual."""
    own = varied(data.cells, study.factors)
    if len(own) < 2 or len(data.cells) > MOST_CELLS:  # noqa: PLR2004  one factor explains all
        return ()
    places, counts = coordinates(data.cells, own), [len(labels) for _, labels in own]
    model = estimable(places, counts)
    if model.matrix.shape[1] > MOST_PARAMETERS:
        return ()
    columns = within(model.matrix[data.layout.cell], data.layout.block)
    logs = within(data.logs[:, None], data.layout.block)[:, 0]
    fitted = fit(data.layout, data.logs, np.zeros((0, len(data.cells))))
    if not fitted.df:
        return ()
    residual = _Squares(float(fitted.sd) ** 2 * fitted.df, fitted.df)
    total = float(((data.logs - data.logs.mean()) ** 2).sum())
    if total <= _NOTHING:
        return ()
    normal = _normal(columns, logs)
    effects = {term: squares_of(term, model, normal, kind) for term in model.terms}
    left, rank = normal.left(range(columns.shape[1]))
    treatments = _Squares(float((logs**2).sum()) - residual.value, _df_of_cells(data, residual))
    explained = normal.total - left
    higher = _Squares(max(treatments.value - explained, 0.0), max(treatments.df - rank, 0))
    whole = _between_plots(data, whole_plots(study, data.cells))
    if whole:
        residual = _Squares(residual.value - whole.value, residual.df - whole.df)
    hard = {place for place, (factor, _) in enumerate(own) if factor.hard}
    names = [factor.name for factor, _ in own]
    blocks = _Squares(total - float((logs**2).sum()), int(data.layout.block.max()))
    made = [_other(workload, "blocks", blocks, total)]
    for term, squares in effects.items():
        error = whole if whole and set(term) <= hard else residual
        if squares.df and error.df:
            source = tuple(names[place] for place in term)
            made.append(_share(workload, source, squares, error, (total, study.decide.confidence)))
    made += [_other(workload, "higher", higher, total)] if higher.df else []
    made += [_other(workload, "whole plots", whole, total)] if whole else []
    return (*made, _other(workload, "residual", residual, total))


def within(columns: Floats, block: Indices) -> Floats:
    """``columns`` (observations, k) less their means in each block."""
    counts = np.bincount(block)
    sums = np.zeros((len(counts), columns.shape[1]))
    np.add.at(sums, block, columns)
    return np.asarray(columns - (sums.T / counts).T[block])


@dataclass(frozen=True, slots=True)
class _Normal:
    """The normal equations of the whole model: far smaller than its columns."""

    products: Floats
    moments: Floats
    total: float

    def left(self, chosen: Sequence[int]) -> tuple[float, int]:
        """What the ``chosen`` columns leave unexplained, and their rank."""
        if not chosen:
            return self.total, 0
        values, vectors = np.linalg.eigh(self.products[np.ix_(chosen, chosen)])
        real = values > _RANK * values[-1]
        parts = vectors[:, real].T @ self.moments[list(chosen)]
        return self.total - float((parts**2 / values[real]).sum()), int(real.sum())


def _normal(columns: Floats, logs: Floats) -> _Normal:
    return _Normal(columns.T @ columns, columns.T @ logs, float(logs @ logs))


def squares_of(term: Term, model: Model, normal: _Normal, kind: Type) -> _Squares:
    """What ``term`` explains after the other terms that count under ``kind``."""
    others = [
        other
        for other in model.terms
        if other != term and (kind == "III" or not set(term) < set(other))
    ]
    before = [at for other in others for at in _places(model, other)]
    less, rank = normal.left(before)
    more, whole = normal.left([*before, *_places(model, term)])
    return _Squares(max(less - more, 0.0), whole - rank)


def _places(model: Model, term: Term) -> range:
    own = model.columns(term)
    return range(own.start, own.stop)


def _df_of_cells(data: Responses, residual: _Squares) -> int:
    return len(data.logs) - (int(data.layout.block.max()) + 1) - residual.df


def _between_plots(data: Responses, plots: Sequence[int]) -> _Squares | None:
    """Block × whole plot: the error between whole plots, as a part of the residual."""
    if not plots:
        return None
    nothing = np.zeros((0, len(data.cells)))
    inner = fit_in("within", data.layout, data.logs, nothing, plots)
    both = fit(data.layout, data.logs, nothing)
    if not inner.df or both.df <= inner.df:
        return None
    value = float(both.sd) ** 2 * both.df - float(inner.sd) ** 2 * inner.df
    return _Squares(max(value, 0.0), both.df - inner.df)


def _other(workload: str, name: str, squares: _Squares, total: float) -> Share:
    part = squares.value / total
    return Share(workload, (name,), squares.df, squares.value, part, part)


def _share(
    workload: str,
    source: tuple[str, ...],
    squares: _Squares,
    error: _Squares,
    terms: tuple[float, float],
) -> Share:
    total, confidence = terms
    corrected = max(squares.value - squares.df * error.mean, 0.0) / (total + error.mean)
    low, high = (
        _portion(end, total - squares.value)
        for end in reach(squares.value, squares.df, error.mean, error.df, confidence)
    )
    return Share(
        workload, source, squares.df, squares.value, squares.value / total, corrected,
        min(low, corrected), max(high, corrected),
    )  # fmt: skip


def _portion(own: float, others: float) -> float:
    return own / (own + others) if own else 0.0


def reach(squares: float, df: int, error: float, error_df: int, confidence: float) -> tuple[
    float, float
]:  # fmt: skip
    """The interval of the sum of squares that the effects themselves have, without noise.

    ``squares`` is the squared length of the true effects plus noise; the noise is no longer than
    s·sqrt(df·F) with the stated confidence, and a sum no longer or shorter than its parts allow.
    With one degree of freedom it is Student's interval of the effect's size.  It begins at 0 where
    the F test finds nothing.
    """
    noise = math.sqrt(df * error * float(fdtri(df, error_df, confidence)))
    length = math.sqrt(squares)
    return max(length - noise, 0.0) ** 2, (length + noise) ** 2
