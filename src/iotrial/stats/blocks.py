"""The linear model of a randomised block design: log response = block + cell + error.

A block is one round in which every treatment is tried once; a cell is a treatment.  Drift between
blocks cancels, because treatments are compared within blocks only.  Cells may be missing (failed
trials, a study cut by its budget): the intra-block analysis by least squares needs no balance.
The error is one variance for all cells, pooled within blocks.

*Whole plots.*  A hard factor is changed least often: within a block all treatments with one of its
levels follow one another.  What changes from one setting-up to the next (the array is made anew,
the firmware flashed) is shared by all trials of such a whole plot, so they are no replicates of
the hard factor.  There are two errors, between whole plots of a block and between trials of a
whole plot, and a contrast is judged in the stratum it lives in:

- ``within``: its weights sum to 0 in each whole plot (easy factors, and their interactions with
  hard ones); the error is that within whole plots;
- ``whole``: its weights are equal within each whole plot (hard factors and interactions of these);
  it is one of the whole plots' means, with the residual block × whole plot as error;
- ``blocks``: both at once; the contrast is taken in each block by itself, with Student's t over the
  blocks.  That needs nothing but independent blocks, and has the fewest degrees of freedom.

References:
    R. C. Bose (1950), *Least Squares Aspects of Analysis of Variance*, Institute of Statistics
    Mimeo Series 9 (intra-block normal equations, connectedness).
    J. A. John and E. R. Williams (1995), *Cyclic and Computer Generated Designs*, 2nd ed.,
    chapter 1 (reduced normal equations, the information matrix and its generalised inverse).
    W. G. Cochran and G. M. Cox (1957), *Experimental Designs*, 2nd ed., 4.2 (randomised blocks),
    7.1 (whole plots).
    B. Jones and C. J. Nachtsheim (2009), Split-plot designs: what, why, and how, Journal of
    Quality Technology 41, 340-361.
    F. Yates (1935), Complex experiments, JRSS Suppl. 2, 181-247 (two errors, two strata).
    B. Efron and C. Stein (1981), The jackknife estimate of variance, Annals of Statistics 9,
    586-596.
    R. M. Bell and D. F. McCaffrey (2002), Bias reduction in standard errors for linear regression
    with multi-stage samples, Survey Methodology 28, 169-181 (degrees of freedom; few clusters).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from iotrial.model.study import Study
from iotrial.model.trial import Treatment

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

_MOST = 700.0
SHARE = 0.85
"""Of the standard error by the pooled noise, that a contrast's own never counts for less than
(:mod:`iotrial.stats.unequal`)."""
_NOTHING = 1e-9
ARITHMETIC = 1e-12
"""Logarithms of measured rates carry about 15 digits: no standard error is believed to be below
this, so that rounding never passes for a difference."""


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Which block and which cell each observation is in: two index vectors of equal length.

    Indices count from 0 without gaps; no cell occurs twice in a block.  ``least`` is the standard
    deviation that their rounding alone gives the observations (:func:`rounding`): repeats that are
    alike to the last digit show no less.
    """

    block: Indices
    cell: Indices
    least: float = 0.0

    @property
    def incidence(self) -> Floats:
        """Blocks x cells: 1 where the cell was observed in the block."""
        counts = np.zeros((self.block.max(initial=-1) + 1, self.cell.max(initial=-1) + 1))
        counts[self.block, self.cell] = 1.0
        return counts


@dataclass(frozen=True, slots=True)
class ContrastFit:
    """Contrasts of cell effects on the log scale, for one study or for many of one layout.

    ``estimate`` has shape (contrasts,) or (contrasts, studies); ``sd``, the standard deviation of
    one trial, is a number or (studies,).  ``unit`` is the contrasts' covariance for an error
    variance of 1.  ``df`` are the residual degrees of freedom; with 0 of them ``sd`` is nan.
    ``own`` (shape of ``estimate``) are the standard errors by the contrasts' own values in the
    blocks, ``own_df`` (contrasts,) their degrees of freedom (below 1: not known).  ``least`` is
    the layout's.
    """

    estimate: Floats
    unit: Floats
    sd: Floats
    df: int
    own: Floats
    own_df: Floats
    least: float = 0.0

    @property
    def correlation(self) -> Floats:
        """Of the contrasts with one another: (contrasts, contrasts)."""
        scale = np.sqrt(np.diag(self.unit))
        return np.asarray(self.unit / np.outer(scale, scale))

    @property
    def standard_error(self) -> Floats:
        """Same shape as ``estimate``: the larger of the contrast's own standard error,
        :data:`SHARE` of that by the pooled noise, and that by rounding alone."""
        scale = np.sqrt(np.diag(self.unit))
        pooled = np.multiply.outer(scale, np.maximum(SHARE * self.sd, self.least))
        return np.asarray(np.maximum(np.fmax(pooled, self.own), ARITHMETIC))

    def interval(self, critical: Floats) -> tuple[Floats, Floats]:
        """Ends of the intervals of the ratios, for critical values of |t| (contrasts,), infinite
        where there are no degrees of freedom; needs ``df`` > 0."""
        half = (critical * self.standard_error.T).T
        return ratio(self.estimate - half), ratio(self.estimate + half)


def rounding(values: Sequence[float]) -> float:
    """The standard deviation on the log scale that the last decimal digit of the finest of these
    positive numbers leaves open: 1000 and 1010 are known to ±0.5, uniformly."""
    if not values:
        return 0.0
    digits = (Decimal(repr(float(value))).normalize().as_tuple().exponent for value in values)
    finest = min((each for each in digits if isinstance(each, int)), default=0)
    step = 10.0 ** min(finest, 0)
    return step / math.sqrt(12) / math.exp(math.fsum(map(math.log, values)) / len(values))


def ratio(logs: Floats) -> Floats:
    """exp, kept finite: one degree of freedom can ask for an interval no double can hold."""
    return np.asarray(np.exp(np.clip(logs, -_MOST, _MOST)))


def ratio_of(log: float) -> float:
    """exp of one number, kept finite in the same way."""
    return math.exp(max(-_MOST, min(_MOST, log)))


def change_of(log: float) -> float:
    """exp - 1, kept finite: the relative change that a difference of logs is."""
    return math.expm1(min(log, _MOST))


def fit(
    layout: BlockLayout, logs: Floats, contrasts: Floats, whole: Indices | None = None
) -> ContrastFit:
    """Least squares of ``logs`` (observations,) or (observations, studies) on block + cell.

    ``contrasts`` is (contrasts, cells), rows summing to 0 over cells that blocks connect (two
    cells seen in one block always are).  ``whole`` is the block that each observation is in where
    those of ``layout`` are parts of blocks: what is independent of what.
    """
    incidence = layout.incidence
    sizes = incidence.sum(axis=1)
    by_block = _totals(layout.block, len(sizes))
    by_cell = _totals(layout.cell, incidence.shape[1])
    means = ((by_block @ logs).T / sizes).T
    anchored, parts = _anchored(_information(incidence, sizes))
    effects = solve(anchored, by_cell @ logs - incidence.T @ means, assume_a="pos")
    unit = contrasts @ solve(anchored, contrasts.T, assume_a="pos")
    expected = means - ((incidence @ effects).T / sizes).T
    residuals = logs - expected[layout.block] - effects[layout.cell]
    df = len(logs) - len(sizes) - incidence.shape[1] + parts
    sd = np.sqrt((residuals**2).sum(axis=0) / df) if df else np.full(logs.shape[1:], np.nan)
    own, own_df = np.full((len(contrasts), *logs.shape[1:]), np.nan), np.zeros(len(contrasts))
    if df and len(contrasts):
        together = layout if whole is None else BlockLayout(whole, layout.cell, layout.least)
        if incidence.shape[1] > MANY_CELLS or together.incidence.all():
            share = solve(anchored, contrasts.T, assume_a="pos").T
            weights = share[:, layout.cell] - ((share @ incidence.T) / sizes)[:, layout.block]
            own, own_df = _own_errors(weights, residuals, together)
        else:
            own, own_df = _own_errors_without_some(layout, logs, contrasts, together)
    return ContrastFit(contrasts @ effects, unit, np.asarray(sd), df, own, own_df, layout.least)


MANY_CELLS = 300
"""Beyond these what a missing cell does to a block's part is taken to be what it does on average:
the exact sum takes long."""
UNEVEN = 5.0
"""How many times noisier, or less noisy, than the others one cell may be where trials are missing,
so that the errors of contrasts hold."""


def _own_errors(weights: Floats, residuals: Floats, layout: BlockLayout) -> tuple[Floats, Floats]:
    """Standard errors of contrasts by their parts in the blocks, and their degrees of freedom.

    ``weights`` (contrasts, observations) are what the estimates are sums of, 0 in sum over a block;
    ``layout.block`` says what is independent of what.  With every cell in every block it is the
    standard error of the mean of the contrast's values, and blocks - 1.
    """
    by_block = _totals(layout.block, len(layout.incidence))
    parts = np.stack([by_block @ (row * residuals.T).T for row in weights])
    seen = ((by_block @ (weights**2).T).T > 0).sum(axis=1)
    df = np.maximum(seen - 1.0, 0.0)
    return (np.sqrt((parts**2).sum(axis=1).T * (seen / np.maximum(df, 1.0))).T, df)


def _own_errors_without_some(
    layout: BlockLayout, logs: Floats, contrasts: Floats, together: BlockLayout
) -> tuple[Floats, Floats]:
    """:func:`_own_errors` where cells are missing in blocks: the jackknife over blocks.

    Each block of ``together`` is left out in turn; the squares of what this changes in an estimate
    add up to its variance but for a factor.  Where it cannot be left out, because a cell has been
    seen in this block only, the noise is not known.  The factor, and the degrees of freedom of a
    chi square with the same mean and variance, depend on which cells are noisier: they are the
    least favourable of even noise and of one cell :data:`UNEVEN` times as noisy, or less noisy.
    """
    errors, dfs = np.full((len(contrasts), *logs.shape[1:]), np.nan), np.zeros(len(contrasts))
    seen = layout.incidence
    kept = np.repeat(seen[None], len(together.incidence), axis=0)
    kept[together.block, layout.block, layout.cell] = 0.0
    shares = [_effect_shares(incidence, contrasts) for incidence in (seen, *kept)]
    for at in range(len(contrasts)):
        row, *without = ((of[at] - to[at][:, None]) for of, to in shares)
        estimator = row * seen
        changes = np.stack(without) * kept - estimator
        changes = changes[~(np.abs(changes) <= ARITHMETIC).all(axis=(1, 2))]
        if len(changes) < 2 or np.isnan(changes).any():  # noqa: PLR2004 (one value has no spread)
            continue
        own = (estimator**2).sum(axis=0)
        # A cell of which even its worst is little in the whole decides nothing, and costs time.
        weighty = np.flatnonzero(UNEVEN**2 * own > own.sum() / 10)
        of_cell = changes[:, :, weighty].transpose(2, 0, 1)
        flat = changes.reshape(len(changes), -1)
        spread = np.stack([flat @ flat.T, *(of_cell @ of_cell.transpose(0, 2, 1))])
        factor, dfs[at] = _least_favourable(spread, np.array([own.sum(), *own[weighty]]))
        values = changes[:, layout.block, layout.cell] @ logs
        errors[at] = np.sqrt(factor * (values**2).sum(axis=0))
    return errors, dfs


def _effect_shares(incidence: Floats, contrasts: Floats) -> tuple[Floats, Floats]:
    """(contrasts, cells) and (contrasts, blocks): an observation counts in the least-squares
    estimate with its cell's share less its block's; nan where the blocks connect no longer what a
    contrast compares."""
    sizes = np.maximum(incidence.sum(axis=1), 1.0)
    information = _information(incidence, sizes)
    share = solve(_anchored(information)[0], contrasts.T, assume_a="pos").T
    share[(np.abs(share @ information - contrasts) > _NOTHING).any(axis=1)] = np.nan
    return share, (share @ incidence.T) / sizes


def _least_favourable(spread: Floats, own: Floats) -> tuple[float, float]:
    """What the sum of squared changes is multiplied by, and its degrees of freedom.

    ``spread`` (1 + cells, changes, changes) is the changes' covariance where all noise has the
    variance 1, and what of it is each cell's; ``own`` (1 + cells,) the estimate's variance.
    """
    mean = np.trace(spread, axis1=1, axis2=2)
    beside, alone = np.tensordot(spread, spread[0]), (spread**2).sum(axis=(1, 2))
    ratios = np.array([[UNEVEN**2 - 1], [UNEVEN**-2 - 1]])
    total = np.append(mean[0], mean[0] + ratios * mean[1:])
    variance = np.append(own[0], own[0] + ratios * own[1:])
    squares = np.append(alone[0], alone[0] + 2 * ratios * beside[1:] + ratios**2 * alone[1:])
    # At least 1, for no covariance exceeds the root of its variances: below it is rounding.
    return float((variance / total).max()), max(1.0, float((total**2 / squares).min()))


def _information(incidence: Floats, sizes: Floats) -> Floats:
    """What blocks tell of the cells' differences, (cells, cells)."""
    return np.asarray(np.diag(incidence.sum(axis=0)) - incidence.T @ (incidence.T / sizes).T)


def _totals(index: Indices, count: int) -> csr_array:
    """A matrix that adds up observations by ``index``."""
    ones = np.ones(len(index))
    return csr_array((ones, (index, np.arange(len(index)))), shape=(count, len(index)))


def _anchored(information: Floats) -> tuple[Floats, int]:
    """The information matrix made invertible, and into how many parts the blocks fall.

    Effects are known up to a constant in each connected part.  Adding the part's all-ones matrix
    fixes that constant and leaves every contrast within the part as it is (John and Williams,
    section 1.6).
    """
    parts, label = connected_components(np.abs(information) > ARITHMETIC)
    same = label[:, None] == label[None, :]
    return information + same / same.sum(axis=0), int(parts)


# -- whole plots ----------------------------------------------------------------------------------

Stratum = Literal["", "within", "whole", "blocks"]
"""Empty: there are no whole plots, and one error."""
ROUNDING = 1e-9


def whole_plots(study: Study, cells: Sequence[Treatment]) -> tuple[int, ...]:
    """Which whole plot of a block each cell is in, counted from 0; empty where no factor is hard
    or only one of its levels is there."""
    hard = {factor.name for factor in study.factors if factor.hard}
    parts = [tuple(pair for pair in cell if pair[0] in hard) for cell in cells]
    places = {part: number for number, part in enumerate(dict.fromkeys(parts))}
    return tuple(places[part] for part in parts) if len(places) > 1 else ()


def stratum(row: Floats, plots: Sequence[int]) -> Stratum:
    """In which stratum the contrast with the weights ``row`` (cells,) lives."""
    if not plots:
        return ""
    groups = [row[np.asarray(plots) == plot] for plot in dict.fromkeys(plots)]
    if all(abs(group.sum()) < ROUNDING for group in groups):
        return "within"
    if all(np.ptp(group) < ROUNDING for group in groups):
        return "whole"
    return "blocks"


def by_stratum(rows: Floats, plots: Sequence[int]) -> list[tuple[Stratum, list[int]]]:
    """The places of the contrasts that are fitted together; those that need blocks by themselves,
    one each."""
    groups: dict[tuple[Stratum, int], list[int]] = {}
    for place, row in enumerate(rows):
        where = stratum(row, plots)
        groups.setdefault((where, place if where == "blocks" else 0), []).append(place)
    return [(where, group) for (where, _), group in groups.items()]


def fit_in(
    where: Stratum, layout: BlockLayout, logs: Floats, rows: Floats, plots: Sequence[int]
) -> ContrastFit:
    """:func:`fit` in one stratum: same arguments, same result."""
    if where == "within":
        inner = BlockLayout(_within(layout, plots), layout.cell, layout.least)
        return fit(inner, logs, rows, layout.block)
    if where == "whole":
        return _fit_whole(layout, logs, rows, plots)
    if where == "blocks":
        return _fit_blocks(layout, logs, rows)
    return fit(layout, logs, rows)


def _within(layout: BlockLayout, plots: Sequence[int]) -> Indices:
    """The whole plot of each observation, as if it were its block."""
    own = np.asarray(plots, dtype=np.intp)[layout.cell]
    keys = layout.block * (own.max(initial=0) + 1) + own
    _, numbered = np.unique(keys, return_inverse=True)
    return np.asarray(numbered, dtype=np.intp)


def _fit_whole(
    layout: BlockLayout, logs: Floats, rows: Floats, plots: Sequence[int]
) -> ContrastFit:
    """The means of whole plots, each adjusted for the cells it lacks."""
    within = _within(layout, plots)
    own = np.asarray(plots, dtype=np.intp)
    same = (own[:, None] == own[None, :]).astype(np.float64)
    inner = BlockLayout(within, layout.cell)
    deviation = fit(inner, logs, np.eye(len(own)) - same / same.sum(axis=0)).estimate
    level = logs - deviation[layout.cell]
    counts = np.bincount(within)
    sums = np.zeros((len(counts), *np.shape(logs)[1:]))
    np.add.at(sums, within, level)
    means = (sums.T / counts).T
    _, first = np.unique(within, return_index=True)
    outer = BlockLayout(layout.block[first], own[layout.cell[first]], layout.least)
    together = np.zeros((len(rows), own.max() + 1))
    np.add.at(together.T, own, rows.T)
    return fit(outer, means, together)


def _fit_blocks(layout: BlockLayout, logs: Floats, rows: Floats) -> ContrastFit:
    """One contrast, taken in every block that has all its cells."""
    row = rows[0]
    needed = np.abs(row) > ROUNDING
    whole = np.flatnonzero((layout.incidence[:, needed] > 0).all(axis=1))
    values = np.zeros((len(layout.incidence), *np.shape(logs)[1:]))
    np.add.at(values, layout.block, (row[layout.cell] * logs.T).T)
    values = values[whole]
    df = max(len(whole) - 1, 0)
    length = float(row @ row)
    mean = values.mean(axis=0) if len(whole) else np.full(np.shape(logs)[1:], np.nan)
    spread = ((values - mean) ** 2).sum(axis=0)
    sd = np.sqrt(spread / df / length) if df else np.full(np.shape(logs)[1:], np.nan)
    unit = np.array([[length / max(len(whole), 1)]])
    own = math.sqrt(float(unit[0, 0])) * np.asarray(sd)[None, ...]
    return ContrastFit(
        np.asarray(mean)[None, ...],
        unit,
        np.asarray(sd),
        df,
        own,
        np.array([float(df)]),
        layout.least,
    )
