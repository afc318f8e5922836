"""All pairs of levels of one factor: who is better than whom, and how surely.

A stage of a staged study asks for the best level, and the best is not known beforehand.  So every
level is compared with every other, by main effects as in :mod:`iotrial.stats.judge`, and the
intervals hold for all pairs at once: whichever level comes out best, its comparisons are among
them.  The critical value is that of as many independent comparisons (the studentized maximum
modulus), which by Šidák's inequality suffices whatever their correlations; Tukey's studentized
range would be 1 to 2 % shorter, and does not hold for missing cells.

References:
    J. W. Tukey (1953), The problem of multiple comparisons (all pairs; unpublished memorandum, in
    *Collected Works* VIII).
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144.
    M. R. Stoline and H. K. Ury (1979), Technometrics 21, 87-93 (the maximum modulus).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.model.finding import Verdict
from iotrial.model.results import Results
from iotrial.stats import contrasts as compared
from iotrial.stats.anytime import bound_at
from iotrial.stats.blocks import Floats
from iotrial.stats.contrasts import Contrast
from iotrial.stats.effects import comparisons
from iotrial.stats.responses import counted, responses
from iotrial.stats.strata import Stratum, fit_in, stratum, whole_plots


@dataclass(frozen=True, slots=True)
class Pairs:
    """``gain`` (levels, levels) is how much better the row's level is than the column's, on the
    log scale: positive is better, whatever the metric; ``error`` its standard error, ``df`` the
    degrees of freedom of that.  nan where two levels were never compared.  ``blocks`` is the
    number of blocks."""

    labels: tuple[str, ...]
    gain: Floats
    error: Floats
    df: int
    blocks: int = 0

    @property
    def count(self) -> int:
        """How many comparisons there are."""
        return len(self.labels) * (len(self.labels) - 1) // 2

    def mean(self) -> dict[str, float]:
        """How much better each level is than the average of all (nan-free: levels that were
        compared with none are left out)."""
        usual = {
            label: float(np.nanmean(row))
            for label, row in zip(self.labels, self.gain, strict=True)
            if np.isfinite(np.delete(row, self.labels.index(label))).any()
        }
        return usual or dict.fromkeys(self.labels[:1], 0.0)


@dataclass(frozen=True, slots=True)
class Judged:
    """Pairs with their simultaneous intervals; ``margin`` on the log scale."""

    pairs: Pairs
    half: Floats
    margin: float

    def beyond(self, level: str) -> bool:
        """Whether some other level was shown to be better by more than the margin."""
        at = self.pairs.labels.index(level)
        return bool((self.pairs.gain[at] + self.half[at] < -self.margin).any())

    def verdict(self, level: str, other: str) -> Verdict:
        """``level`` against ``other``; where one has no data nobody can tell."""
        if not {level, other} <= set(self.pairs.labels):
            return "cannot-tell"
        row, column = (self.pairs.labels.index(name) for name in (level, other))
        low = self.pairs.gain[row, column] - self.half[row, column]
        high = self.pairs.gain[row, column] + self.half[row, column]
        if low >= -self.margin and high <= self.margin:
            return "same"
        return "better" if low > 0 else "worse" if high < 0 else "cannot-tell"

    def words(self, level: str, other: str) -> tuple[float, float, float]:
        """The ratio of ``level`` to ``other`` in goodness, and the ends of its interval."""
        row, column = (self.pairs.labels.index(name) for name in (level, other))
        middle, half = self.pairs.gain[row, column], self.half[row, column]
        low, ratio, high = (float(np.exp(x)) for x in (middle - half, middle, middle + half))
        return ratio, low, high


def judged(pairs: Pairs, margin: float, confidence: float, *, look: int = 0) -> Judged:
    """``margin`` is a fraction; ``confidence`` is that of all pairs together, at all looks where
    ``look`` is the block after which the study was looked at (0: once)."""
    half = np.full_like(pairs.error, np.nan)
    if pairs.df and pairs.count:
        half = bound_at(pairs.count, look, pairs.df, confidence) * pairs.error
    return Judged(pairs, half, math.log1p(margin))


def pairwise(results: Results, workload: str, factor: str) -> Pairs:
    """Of one workload's primary metric; the labels are those with data, in the study's order."""
    study = results.study
    metric = dict(study.decide.primary)[workload]
    data = responses(counted(results).get(workload, ()), metric, study)
    measured = {label for cell in data.cells for name, label in cell if name == factor}
    labels = [level.label for level in study.factor(factor).levels if level.label in measured]
    gain, error = (np.full((len(labels), len(labels)), np.nan) for _ in range(2))
    np.fill_diagonal(gain, 0.0)
    np.fill_diagonal(error, 0.0)
    found = [c for base in labels for c in _against(results, data.cells, (factor, base), labels)]
    found = list(compared.measured(found, data.layout))
    rows = compared.weights(found, len(data.cells))
    plots = whole_plots(study, data.cells)
    freedom = []
    for where, group in _by_stratum(rows, plots):
        fitted = fit_in(where, data.layout, data.logs, rows[group], plots)
        freedom.append(fitted.df)
        for contrast, estimate, spread in zip(
            [found[at] for at in group], fitted.estimate, fitted.standard_error, strict=True
        ):
            at = labels.index(contrast.level), labels.index(contrast.baseline)
            way = -1.0 if study.metrics.higher(metric) is False else 1.0
            gain[at], gain[at[::-1]] = way * estimate, -way * estimate
            error[at] = error[at[::-1]] = spread
    blocks = int(data.layout.block.max(initial=-1)) + 1
    return Pairs(tuple(labels), gain, error, min(freedom, default=0), blocks)


def _against(
    results: Results,
    cells: Sequence[tuple[tuple[str, str], ...]],
    base: tuple[str, str],
    labels: Sequence[str],
) -> list[Contrast]:
    """The comparisons of a factor's later levels with the level ``base``: (factor, label)."""
    factor, label = base
    baselines = compared.baselines(results) | {factor: label}
    later = labels[labels.index(label) + 1 :]
    every = comparisons(results.study, cells, baselines)
    return [each for each in every if each.factor == factor and each.level in later]


def _by_stratum(rows: Floats, plots: Sequence[int]) -> list[tuple[Stratum, list[int]]]:
    """Rows that are fitted together; those that need blocks by themselves, one each."""
    groups: dict[tuple[Stratum, int], list[int]] = {}
    for at, row in enumerate(rows):
        where = stratum(row, plots)
        groups.setdefault((where, at if where == "blocks" else 0), []).append(at)
    return [(where, group) for (where, _), group in groups.items()]
