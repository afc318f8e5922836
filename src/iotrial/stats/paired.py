"""Runs that nobody randomised: what imported results can give.

A level is compared with its baseline over *paired cells*: cells alike in workload and every other
factor.  Each pair gives one log ratio (of the geometric means of its runs); their mean is the
effect.  A factor that a level's runs do not tell (``unknown``) cannot be matched, and is averaged
over for that comparison.

- Many pairs (10 and more): percentile bootstrap over pairs, 20,000 resamples, seeded.
- Fewer, where every cell was run again: Welch's interval from the spread within the cells.
- Fewer, from 2, without repeats: Student's t over pairs (a bootstrap of few is too narrow).
- One run against one run: a ratio without an interval, and no claim.

Every interval stands by itself, at the confidence of the study: nobody planned these comparisons
as a family.  Besides each workload alone, all workloads together are compared, quantity by
quantity.  A censored value gives a bound, or nothing where both sides are censored.

References:
    B. Efron and R. J. Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 13.
    B. L. Welch, Biometrika 34 (1947) 28-35.
    P. J. Fleming and J. J. Wallace (1986), CACM 29, 218-221 (ratios are averaged geometrically).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from iotrial.model.finding import Comparison, Finding, Verdict
from iotrial.model.grid import Grid
from iotrial.model.measurement import higher_is_better
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.stats.best_cells import sentences
from iotrial.stats.blocks import ARITHMETIC
from iotrial.stats.grid import grids, not_additive
from iotrial.stats.pairs import ALL, Contrast, Pair, Side, Table, contrasts, tables
from iotrial.stats.verdict import verdict
from iotrial.units import amount

MANY = 10
RESAMPLES = 20_000
_SEED = 1
_KEPT = 512
"""Pairs up to which the draws are kept: 41 MB."""
_TOLD = 8

Floats = NDArray[np.float64]


def judge_recorded(results: Results) -> Comparison:
    """Every level against its factor's baseline: all workloads together, then each; the metrics
    that answer first, then the others."""
    study = results.study
    asked = [(table, each) for table in tables(results) for each in contrasts(study, table.cells)]
    # Those with as many pairs one after another: their resamples are the same.
    turns = sorted(range(len(asked)), key=lambda place: _pairs_told(asked[place][1]))
    made = {place: _finding(study, *asked[place]) for place in turns}
    found = [made[place] for place in range(len(asked))]
    ordered = tuple(sorted(found, key=lambda f: (f.workload != ALL, not f.primary)))
    crossed = grids(results)
    said = answer(results, ordered, crossed)
    return Comparison(study.question, ordered, said, _method(results), grids=crossed)


def _finding(study: Study, table: Table, contrast: Contrast) -> Finding:
    name, pairs = table.metric, contrast.pairs
    told = [pair for pair in pairs if pair.side == ""]
    bound: Side = ""
    claim: Verdict = "cannot-tell"
    low = high = None
    if told:
        logs = np.array([pair.log for pair in told])
        ratio = math.exp(float(logs.mean()))
        low, high = _interval(told, logs, study.decide.confidence)
        count = _count(told)
        if low is not None and high is not None:
            claim = verdict(low, high, study.decide.margin, higher_is_better=higher_is_better(name))
    else:
        sides = {pair.side for pair in pairs}
        bound = pairs[0].side or "" if len(sides) == 1 else ""
        logs = np.array([pair.log for pair in pairs])
        ratio = math.exp(float(logs.mean())) if bound else math.nan
        count = _count(pairs)
    folders = {f for pair in told or pairs for c in (*pair.level, *pair.base) for f in c.folders}
    return Finding(
        table.workload,
        name,
        contrast.factor,
        contrast.level,
        contrast.baseline,
        ratio,
        low,
        high,
        claim,
        count,
        tuple(sorted(folders)),
        table.primary,
        bound=bound,
    )


def _pairs_told(contrast: Contrast) -> int:
    return sum(pair.side == "" for pair in contrast.pairs)


def _count(pairs: Sequence[Pair]) -> int:
    """Pairs; or, for one pair, the repeats that both sides have."""
    if len(pairs) > 1:
        return len(pairs)
    return min(sum(len(c.logs) for c in side) for side in (pairs[0].level, pairs[0].base))


def _interval(
    pairs: Sequence[Pair], logs: Floats, confidence: float
) -> tuple[float | None, float | None]:
    repeated = _welch(pairs, confidence) if len(logs) < MANY else None
    if repeated is not None:
        ends = repeated
    elif len(logs) > 1 and float(logs.std()) > ARITHMETIC:
        ends = _over_pairs(logs, confidence)
    else:  # one ratio, or the very same again: nothing says how far it may be off
        return None, None
    return math.exp(ends[0]), math.exp(ends[1])


def _over_pairs(logs: Floats, confidence: float) -> tuple[float, float]:
    if len(logs) >= MANY:
        return bootstrap(logs, confidence)
    half = float(logs.std(ddof=1)) / math.sqrt(len(logs)) * _t(len(logs) - 1, confidence)
    return float(logs.mean()) - half, float(logs.mean()) + half


def bootstrap(values: Floats, confidence: float) -> tuple[float, float]:
    """Percentile interval of the mean of ``values`` (n,), by :data:`RESAMPLES` resamples."""
    count, middle = len(values), float(values.mean())
    apart = (values - middle).astype(np.float32)
    parts = (_drawn(count),) if count <= _KEPT else _draws(count)
    # Not ``@``: the threads of a BLAS cost many times more than so small a product.
    means = np.concatenate([np.einsum("ij,j->i", part, apart) for part in parts]) / count
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return middle + float(low), middle + float(high)


@lru_cache(maxsize=1)
def _drawn(count: int) -> NDArray[np.float32]:
    """How often each of ``count`` values is drawn, a row a resample.  They are the same for all
    that are as many, and thousands of comparisons have as many pairs."""
    return np.concatenate(list(_draws(count)))


def _draws(count: int) -> Iterator[NDArray[np.float32]]:
    """The same in parts that take little memory."""
    chance = np.random.default_rng(_SEED)
    step = max(1, 4_000_000 // count)
    for at in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - at)
        places = (
            chance.integers(0, count, (rows, count)) + np.arange(0, rows * count, count)[:, None]
        )
        found = np.bincount(places.ravel(), minlength=rows * count)
        yield found.reshape(rows, count).astype(np.float32)


def spread(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Variance of the mean of the pairs' log ratios, and its degrees of freedom: from repeats
    where there are few pairs, else over the pairs; None where neither shows any."""
    repeated = _within(pairs) if len(pairs) < MANY else None
    logs = np.array([pair.log for pair in pairs])
    if repeated is not None or len(logs) < 2 or float(logs.std()) <= ARITHMETIC:  # noqa: PLR2004
        return repeated
    return float(logs.var(ddof=1)) / len(logs), len(logs) - 1.0


def _welch(pairs: Sequence[Pair], confidence: float) -> tuple[float, float] | None:
    """Of the mean over pairs whose cells were all run again, from the spread within the cells;
    None where some cell was run once."""
    within = _within(pairs)
    if within is None:
        return None
    middle = math.fsum(pair.log for pair in pairs) / len(pairs)
    half = math.sqrt(within[0]) * _t(within[1], confidence)
    return middle - half, middle + half


def _within(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    cells = [cell for pair in pairs for side in (pair.level, pair.base) for cell in side]
    if any(len(cell.logs) < 2 for cell in cells):  # noqa: PLR2004 (one run has no spread)
        return None
    parts, freedom = [], 0.0
    for pair in pairs:
        for side in (pair.level, pair.base):
            for cell in side:
                values = np.array(cell.logs)
                share = 1.0 / (len(pairs) * len(side))
                part = share**2 * float(values.var(ddof=1)) / len(values)
                parts.append(part)
                freedom += part**2 / (len(values) - 1)
    return (sum(parts), sum(parts) ** 2 / freedom) if freedom else None


def _t(df: float, confidence: float) -> float:
    return float(student.ppf((1 + confidence) / 2, df))


def answer(results: Results, findings: Sequence[Finding], crossed: Sequence[Grid] = ()) -> str:
    """The answer: what can be claimed, factor by factor; then what it rests on.

    Where several factors are asked for, names come first, then the best cells of the grids
    ``crossed``, then amounts; no average of a factor whose effect depends on another is told.
    """
    asked = [finding for finding in findings if finding.primary]
    depend = not_additive(crossed)
    several = len({finding.factor for finding in asked}) > 1
    names: list[str] = []
    amounts: list[str] = []
    for factor, group in groupby(_widest(asked), key=lambda finding: finding.factor):
        claims = list(group)
        told = [f"{f.level} {f.verdict}" for f in claims if f.verdict != "cannot-tell"]
        if told and factor not in depend:
            line = f"{factor} against {claims[0].baseline}: {', '.join(told[:_TOLD])}."
            counts = crossed and several and all(amount(f.level) is not None for f in claims)
            (amounts if counts else names).append(line)
    said = [*names, *sentences(crossed), *amounts]
    if not said:
        said.append("Nothing can be told from these runs." if asked else "Nothing was varied.")
    runs = len(results.valid)
    cells = {(record.trial.workload, record.trial.treatment) for record in results.valid}
    said.append(f"They are {runs:,} imported runs of {len(cells):,} cells.")
    if runs == len(cells):
        said.append("No cell was run twice: one pair of runs (n = 1) is a ratio, and no claim.")
    return " ".join(said)


def _widest(asked: Sequence[Finding]) -> list[Finding]:
    """The findings over all workloads together, where there are any."""
    return [finding for finding in asked if finding.workload == ALL] or list(asked)


def _method(results: Results) -> str:
    return (
        f"Paired cells: ratios of cells alike but for one factor, averaged on the log scale; from"
        f" {MANY} pairs a percentile bootstrap ({RESAMPLES:,} resamples), below that Welch's from"
        f" repeats where every cell has some, else Student's t; each interval by itself at"
        f" {results.study.decide.confidence:.3g}. The runs were neither randomised nor blocked:"
        " whatever changed between them counts as an effect."
    )
