"""Runs that nobody randomised: what imported results can give.

A level is compared with its baseline over *paired cells*: cells alike in workload and every other
factor.  A factor that a level's runs do not tell (``unknown``) cannot be matched, and is averaged
over for that comparison.  The pairs of one session give one log ratio together: whatever was so on
that day is in all of them (:mod:`iotrial.stats.sessions`).

- Several sessions: the mean over them with Student's t; from 41 sessions on a percentile bootstrap
  over sessions, 20,000 resamples, seeded (of fewer its interval is too narrow).  The comparisons
  that answer the question are one family, corrected by Bonferroni's inequality.
- One session: the ratio is described.  There is no interval, and no claim, however many cells.

Besides each workload alone, all workloads together are compared, quantity by quantity.  A censored
value gives a bound, or nothing where both sides are censored.

References:
    B. Efron and R. J. Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 13.
    P. J. Fleming and J. J. Wallace (1986), CACM 29, 218-221 (ratios are averaged geometrically).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from iotrial.model.finding import Comparison, Finding, Verdict
from iotrial.model.grid import Grid
from iotrial.model.measurement import METRICS
from iotrial.model.results import Results
from iotrial.model.study import Decide
from iotrial.stats.best_cells import sentences, value
from iotrial.stats.blocks import ARITHMETIC
from iotrial.stats.grid import grids, not_additive
from iotrial.stats.opposites import Hidden
from iotrial.stats.pairs import (
    ALL,
    Contrast,
    Pair,
    Side,
    Table,
    contrasts,
    primary_tables,
    ratio_of,
    tables,
)
from iotrial.stats.sessions import by_session, sessions
from iotrial.stats.verdict import verdict
from iotrial.units import amount, format_change

MANY = 40
RESAMPLES = 20_000
_SEED = 1
_TOLD = 8
_APART = 4

Floats = NDArray[np.float64]


def judge_recorded(results: Results, hidden: Sequence[Hidden] = ()) -> Comparison:
    """Every level against its factor's baseline: all workloads together, then each; the metrics
    that answer first, then the others.  ``hidden`` are the averages that say nothing."""
    study = results.study
    taken = sessions(results.valid)
    every = [
        (table, contrast, by_session(contrast.pairs_told))
        for table in tables(results, taken)
        for contrast in contrasts(study, table.cells)
    ]
    claims = sum(table.primary and _spread(logs) for table, _, logs in every)
    found = [_finding(study.decide, *each, family=max(claims, 1)) for each in every]
    ordered = tuple(sorted(found, key=lambda f: (f.workload != ALL, not f.primary)))
    crossed = grids(results)
    method = _method(results, claims, len(set(taken.values())))
    said = answer(results, ordered, crossed, hidden)
    return Comparison(study.question, ordered, said, method, grids=crossed)


def _finding(
    decide: Decide, table: Table, contrast: Contrast, units: Floats, *, family: int
) -> Finding:
    """``units`` are the log ratios of the sessions, where there are several."""
    name, pairs = table.metric, contrast.pairs
    told = contrast.pairs_told
    bound: Side = ""
    claim: Verdict = "cannot-tell"
    low = high = None
    if told:
        logs = units if len(units) else np.array([pair.log for pair in told])
        ratio = ratio_of(float(logs.mean()))
        if _spread(units):
            error = (1 - decide.confidence) / (family if table.primary else 1)
            low, high = (ratio_of(end) for end in _interval(units, 1 - error))
            claim = verdict(low, high, decide.margin, higher_is_better=METRICS.higher(name))
    else:
        sides = {pair.side for pair in pairs}
        bound = pairs[0].side or "" if len(sides) == 1 else ""
        logs = np.array([pair.log for pair in pairs])
        ratio = ratio_of(float(logs.mean())) if bound else math.nan
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
        len(units) or _count(told or pairs),
        tuple(sorted(folders)),
        table.primary,
        bound=bound,
    )


def _count(pairs: Sequence[Pair]) -> int:
    """Pairs of one session; or, of one pair, the repeats that both sides have."""
    if len(pairs) > 1:
        return len(pairs)
    return min(sum(len(c.logs) for c in side) for side in (pairs[0].level, pairs[0].base))


def _spread(units: Floats) -> bool:
    """Whether sessions say how far they are apart: several, that are not the very same."""
    return len(units) > 1 and float(units.std()) > ARITHMETIC


def _interval(units: Floats, confidence: float) -> tuple[float, float]:
    if len(units) > MANY:
        return bootstrap(units, confidence)
    t = float(student.ppf((1 + confidence) / 2, len(units) - 1))
    half = float(units.std(ddof=1)) / math.sqrt(len(units)) * t
    return float(units.mean()) - half, float(units.mean()) + half


def bootstrap(values: Floats, confidence: float) -> tuple[float, float]:
    """Percentile interval of the mean of ``values`` (n,), by :data:`RESAMPLES` resamples."""
    chance = np.random.default_rng(_SEED)
    step = max(1, 4_000_000 // len(values))
    means = np.concatenate(
        [
            values[chance.integers(0, len(values), (min(step, RESAMPLES - at), len(values)))].mean(
                axis=1
            )
            for at in range(0, RESAMPLES, step)
        ]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def answer(
    results: Results,
    findings: Sequence[Finding],
    crossed: Sequence[Grid] = (),
    hidden: Sequence[Hidden] = (),
) -> str:
    """The answer: what can be claimed, factor by factor, or what was seen; then what it rests on.

    Where several factors are asked for, names come first, then the best cells of the grids
    ``crossed``, then amounts; no average of a factor whose effect depends on another is told, nor
    one over all workloads where one of them says otherwise.
    """
    asked = [finding for finding in findings if finding.primary]
    depend = not_additive(crossed)
    several = crossed and len({finding.factor for finding in asked}) > 1
    names: list[str] = []
    amounts: list[str] = []
    for factor, line, counts in _factors(asked, {(each.factor, each.level) for each in hidden}):
        if factor not in depend:
            (amounts if several and counts else names).append(line)
    told = [*names, *sentences(crossed), *amounts]
    if not told:
        told = ["Nothing can be told from these runs."] if asked else _unvaried(results)
    runs = len(results.valid)
    cells = {(record.trial.workload, record.trial.treatment) for record in results.valid}
    of = len(set(sessions(results.valid).values()))
    in_all = f"{of:,} sessions" if of > 1 else "one session"
    claimed = any(finding.low for finding in asked)
    of_cells = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
    told.append(f"They are {runs:,} imported runs of {of_cells} in {in_all}.")
    if asked and not claimed and of > 1:
        told.append(
            "Nothing is claimed: no level has sessions that differ beside its baseline's."
            " Measure all of it again on other days, and import them together."
        )
    elif asked and not claimed:
        told.append(
            "Nothing is claimed: what was measured in one session only says how that one came out."
            " Measure all of it again on other days, and import them together."
        )
    return " ".join(told)


def _unvaried(results: Results) -> list[str]:
    """The middle and the ends of what was measured, where nothing differs."""
    said = []
    for table in primary_tables(results, sessions(results.valid)):
        for cell in table.cells.values():
            low, middle, high = (
                value(table.metric, ratio_of(log))
                for log in (min(cell.logs), cell.middle, max(cell.logs))
            )
            ends = f" ({low} … {high} in {len(cell.logs)} runs)" if len(cell.logs) > 1 else ""
            said.append(f"{table.workload} {table.metric} {middle}{ends}")
    more = f" and {len(said) - _TOLD} more" if len(said) > _TOLD else ""
    return ["Nothing was varied.", *([f"{', '.join(said[:_TOLD])}{more}."] if said else [])]


def _factors(
    asked: Sequence[Finding], hidden: set[tuple[str, str]]
) -> Iterator[tuple[str, str, bool]]:
    """Each factor, what is said of its levels, and whether all of them are amounts."""
    by_factor: dict[str, dict[str, Finding]] = defaultdict(dict)
    for each in _widest(asked):
        by_factor[each.factor].setdefault(each.level, each)
    for factor, levels in by_factor.items():
        said = []
        for level, each in levels.items():
            own = [f for f in asked if (f.factor, f.level) == (factor, level)]
            told = _level(each, own, (factor, level) in hidden)
            said += [f"{level} {told}"] if told else []
        more = f" and {len(said) - _TOLD} more levels" if len(said) > _TOLD else ""
        if said:
            base = next(iter(levels.values())).baseline
            line = f"{factor} against {base}: {', '.join(said[:_TOLD])}{more}."
            yield factor, line, all(amount(level) is not None for level in levels)


def _level(widest: Finding, own: Sequence[Finding], hidden: bool) -> str:  # noqa: FBT001
    """What is said of one level, from the finding over the most and all of its findings."""
    apart = [f for f in own if f.workload != ALL]
    told = [f for f in apart if f.verdict != "cannot-tell"]
    verdicts = {f.verdict for f in (widest, *told)} - {"cannot-tell"}
    if hidden or len(verdicts) > 1 or any(_beyond(f, widest) for f in told):
        # What an interval leaves open is not told one by one.
        shown = [f for f in apart if f.low is None or f.verdict != "cannot-tell"]
        return _listed(shown) if shown else ""
    if widest.workload == ALL and widest.verdict != "cannot-tell":
        return widest.verdict
    if told and len(told) == len(apart):
        return told[0].verdict
    if told:
        return f"{told[0].verdict} for {', '.join(_named(told[:_TOLD], apart))}"
    known = [f for f in own if f.low is None and not f.bound and not math.isnan(f.ratio)]
    if widest in known and (widest.workload == ALL or len(apart) == 1):
        return format_change(widest.ratio)
    return _listed(known) if known else ""


def _beyond(one: Finding, widest: Finding) -> bool:
    """Whether what is claimed of one workload lies outside of what is claimed of all together."""
    if widest.workload != ALL or widest.low is None or widest.high is None:
        return False
    return not widest.low <= one.ratio <= widest.high


def _named(told: Sequence[Finding], apart: Sequence[Finding]) -> list[str]:
    """By workload, and by metric where a workload has several."""
    workloads = len({f.workload for f in apart})
    if workloads == len(apart):
        return [f.workload for f in told]
    return [f.metric if workloads == 1 else f"{f.workload} {f.metric}" for f in told]


def _listed(apart: Sequence[Finding]) -> str:
    """The furthest apart, the largest gain first; by metric where a workload has several."""
    far = sorted(apart, key=lambda f: -abs(math.log(f.ratio)) if f.ratio > 0 else 0.0)[:_APART]
    told = []
    far.sort(key=lambda f: -f.ratio)
    for each, name in zip(far, _named(far, apart), strict=True):
        verdict = each.verdict.replace("-", " ") if each.low is not None else ""
        told.append(" ".join(filter(None, (name, verdict, format_change(each.ratio)))))
    more = [f"{len(apart) - len(far)} more"] if len(apart) > len(far) else []
    by = "metric" if len({f.workload for f in apart}) == 1 < len(apart) else "workload"
    return f"by {by} ({', '.join((*told, *more))})"


def _widest(asked: Sequence[Finding]) -> list[Finding]:
    """The findings over all workloads together, where there are any."""
    return [finding for finding in asked if finding.workload == ALL] or list(asked)


def _method(results: Results, claims: int, of: int) -> str:
    many = f"; from {MANY + 1} a percentile bootstrap ({RESAMPLES:,} resamples)" * (of > MANY)
    how = (
        f"each of {of:,} sessions gives one, with Student's t over them{many}; {claims} claims"
        f" together at {results.study.decide.confidence:.3g} (Bonferroni)"
        if of > 1
        else "all of them in one session, which gives a ratio without an interval (n: its pairs)"
    )
    return (
        f"Paired cells: ratios of cells alike but for one factor, averaged on the log scale; {how}."
        " The runs were neither randomised nor blocked: whatever changed between them counts as"
        " an effect."
    )
