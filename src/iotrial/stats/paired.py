"""Runs that nobody randomised: what imported results can give.

A level is compared with its baseline over *paired cells* (:mod:`iotrial.stats.pairs`).  The pairs
of one session give one log ratio together: whatever was so on that day is in all of them.

- Several sessions: the mean over them with Student's t; from 41 sessions on a percentile bootstrap
  over sessions, 20,000 resamples, seeded (of fewer its interval is too narrow).  The comparisons
  that answer the question are one family, corrected by Bonferroni's inequality.
- One session: the ratio is described.  There is no interval, and no claim, however many cells.

Besides each workload alone, all workloads together are compared, quantity by quantity.  A censored
value gives a bound, or nothing where both sides are censored.

*Opposites*: an average over groups may be the effect in none of them.  +20 % on reads and -20 % on
writes average to nothing, and "all" would call that *same*.  The groups are the workloads where all
are averaged, and the levels of every other factor.  A doubt needs two things: the groups' effects
differ beyond chance, and one of them is better while another is worse by its own interval and the
study's margin.  Beyond chance is Welch's test of equal means under unequal variances: Cochran's Q
with the correction for variances that are estimated from few values.  The values are the sessions
of a group, or where there is but one session its pairs: what is then said is of that session.  All
such tests of a study share the level 0.01 (Bonferroni).  Of fewer than four values, or of the very
same ones, the spread is not known: where fewer than two workloads have one, no test is possible,
what they came to is held against the margin alone, and the doubt says so.

*Alone*: runs that are compared with nothing, and what they may be.  A file that does not say how
fio was run names its workload by its job: it never meets a run that says ``randread``, though it
may be one.  Which of the other workloads measure the same is known, and so is what to say on the
next import.

References:
    B. Efron and R. J. Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 13.
    P. J. Fleming and J. J. Wallace (1986), CACM 29, 218-221 (ratios are averaged geometrically).
    W. G. Cochran, Biometrics 10 (1954) 101-129 (Q).
    B. L. Welch, Biometrika 38 (1951) 330-336 (its correction).
    M. Gail and R. Simon, Biometrics 41 (1985) 361-372 (effects that differ in direction are what
    an average hides; those that differ in size are not).
"""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.special import fdtrc, stdtrit

from iotrial.model.finding import Comparison, Finding, Grid, Verdict
from iotrial.model.measurement import METRICS, split
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Study
from iotrial.model.trial import UNKNOWN, Doubt, TrialRecord
from iotrial.stats.blocks import ARITHMETIC, Floats, ratio_of
from iotrial.stats.grid import grids, not_additive, sentences, value
from iotrial.stats.pairs import (
    ALL,
    CellPair,
    CellTable,
    PairContrast,
    Side,
    by_session,
    contrasts,
    primary_tables,
    sessions,
    tables,
)
from iotrial.stats.verdict import verdict
from iotrial.units import amount, format_change

LEVEL = 0.01
"""The share of studies whose groups are all alike that are doubted all the same."""
_WORKLOAD = "workload"
_NAMED = 3
_FEWEST = 4
"""Sessions, or pairs of one session, from which a group's spread is an error to test against."""


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """Of one group: its mean log ratio, that one's ``variance`` and degrees of freedom (0: not
    known), and the ``sessions`` that it is of, where they are several."""

    group: str
    log: float
    variance: float
    df: float
    sessions: int = 0

    def interval(self, confidence: float) -> tuple[float, float]:
        """Of the ratio, by Student's t; the point where the variance is not known."""
        if not self.df:
            return ratio_of(self.log), ratio_of(self.log)
        half = math.sqrt(self.variance) * float(stdtrit(self.df, (1 + confidence) / 2))
        return ratio_of(self.log - half), ratio_of(self.log + half)


@dataclass(frozen=True, slots=True)
class _Split:
    """A contrast parted by ``name``: a factor, or the workload."""

    table: CellTable
    contrast: PairContrast
    name: str
    effects: tuple[GroupEffect, ...]


@dataclass(frozen=True, slots=True)
class _HiddenEffect:
    """``level`` of ``factor``, whose average over ``workload`` (one, or all) hides opposites."""

    workload: str
    factor: str
    level: str
    doubt: Doubt


def opposites(results: Results) -> Iterator[_HiddenEffect]:
    """Each primary effect that averages opposite ones, with a doubt about the whole study."""
    splits = [
        each
        for table in tables(results, sessions(results.valid))
        if table.primary
        for contrast in contrasts(results.study, table.cells)
        for each in _splits(table, contrast)
    ]
    tested = [each for each in splits if len(_known(each)) > 1]
    level = LEVEL / len(tested) if tested else 0.0
    for each in splits:
        if said := _doubted(each, level, results.study):
            yield _HiddenEffect(
                each.table.workload, each.contrast.factor, each.contrast.level, said
            )


def heterogeneity(effects: Sequence[GroupEffect]) -> float:
    """The p-value of Welch's test that all effects (two or more, variances known) are equal."""
    weights = [1 / each.variance for each in effects]
    total, count = math.fsum(weights), len(effects)
    middle = math.fsum(w * each.log for w, each in zip(weights, effects, strict=True)) / total
    q = math.fsum(w * (each.log - middle) ** 2 for w, each in zip(weights, effects, strict=True))
    lost = math.fsum(
        (1 - w / total) ** 2 / each.df for w, each in zip(weights, effects, strict=True)
    )
    corrected = 1 + 2 * (count - 2) / (count**2 - 1) * lost
    return float(fdtrc(count - 1, (count**2 - 1) / (3 * lost), q / (count - 1) / corrected))


def _splits(table: CellTable, contrast: PairContrast) -> Iterator[_Split]:
    told = [pair for pair in contrast.pairs if pair.side == ""]
    names = dict.fromkeys(name for pair in told for name, _ in pair.key[1])
    for name in ([_WORKLOAD] if table.workload == ALL else []) + list(names):
        groups = _grouped(told, name)
        if len(groups) > 1:
            effects = tuple(_effect(label, pairs) for label, pairs in groups.items())
            yield _Split(table, contrast, name, effects)


def _grouped(pairs: Sequence[CellPair], name: str) -> Mapping[str, list[CellPair]]:
    found: dict[str, list[CellPair]] = defaultdict(list)
    for pair in pairs:
        label = pair.key[0] if name == _WORKLOAD else dict(pair.key[1]).get(name, UNKNOWN)
        if label != UNKNOWN:
            found[label].append(pair)
    return found


def _effect(group: str, pairs: Sequence[CellPair]) -> GroupEffect:
    """By its sessions where there are several, else by its pairs.  Repeats within a cell say how
    steady a moment was, and nothing of how far cells are apart."""
    units = by_session(pairs)
    logs = units if len(units) > 1 else np.array([pair.log for pair in pairs])
    middle = float(logs.mean())
    if len(logs) < _FEWEST or float(logs.std()) <= ARITHMETIC:
        return GroupEffect(group, middle, 0.0, 0.0, sessions=len(units))
    variance = float(logs.var(ddof=1)) / len(logs)
    return GroupEffect(group, middle, variance, len(logs) - 1.0, sessions=len(units))


def _known(parted: _Split) -> list[GroupEffect]:
    return [each for each in parted.effects if each.df]


def _doubted(parted: _Split, level: float, study: Study) -> Doubt | None:
    known = _known(parted)
    tested = len(known) > 1
    if not tested and parted.name != _WORKLOAD:  # levels that were run once scatter by themselves
        return None
    up, down = _sides(known if tested else parted.effects, study)
    if not up or not down:
        return None
    units = "sessions" if any(each.sessions > 1 for each in parted.effects) else "pairs"
    how = f"too few {units} in each for a significance test"
    if tested:
        p = heterogeneity(known)
        if p >= level:
            return None
        said = f"p = {p:.1g}" if p >= 1e-15 else "p < 1e-15"  # noqa: PLR2004 (a float tells no less)
        test = f"Welch's test of equal effects, {said}"
        how = f"the difference is significant given the scatter of their {units}: {test}"
    told = [pair.log for pair in parted.contrast.pairs if pair.side == ""]
    average = format_change(ratio_of(fmean(told)))
    contrast, table = parted.contrast, parted.table
    where = "" if parted.name == _WORKLOAD else f"{parted.name}="
    return Doubt(
        "opposites",
        f"{table.workload}, {table.metric}: {contrast.factor}={contrast.level} against"
        f" {contrast.baseline} is {_groups_listed(up, where)}, but {_groups_listed(down, where)};"
        f" {average} is their average ({how})",
        "Decide for each level separately: iotrial compare --where FACTOR=LEVEL",
    )


def _sides(
    effects: Sequence[GroupEffect], study: Study
) -> tuple[list[GroupEffect], list[GroupEffect]]:
    """Those above 1 and those below it, by their intervals and the margin."""
    confidence, margin = study.decide.confidence, study.decide.margin
    found = {
        way: [
            each
            for each in effects
            if verdict(*each.interval(confidence), margin, higher_is_better=True) == way
        ]
        for way in ("better", "worse")
    }
    up = sorted(found["better"], key=lambda each: -each.log)
    return up, sorted(found["worse"], key=lambda each: each.log)


def _groups_listed(effects: Sequence[GroupEffect], where: str) -> str:
    told = [f"{format_change(ratio_of(e.log))} for {where}{e.group}" for e in effects[:_NAMED]]
    more = f" and {len(effects) - _NAMED} more" if len(effects) > _NAMED else ""
    return ", ".join(told) + more


# -- what can be claimed --------------------------------------------------------------------------

MANY = 40
RESAMPLES = 20_000
_SEED = 1
_TOLD = 8
_APART = 4


def judge_recorded(results: Results, hidden: Sequence[_HiddenEffect] = ()) -> Comparison:
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
    decide: DecisionRule, table: CellTable, contrast: PairContrast, units: Floats, *, family: int
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


def _count(pairs: Sequence[CellPair]) -> int:
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
    t = float(stdtrit(len(units) - 1, (1 + confidence) / 2))
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
    hidden: Sequence[_HiddenEffect] = (),
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
        told = ["No comparison is possible with these runs."] if asked else _unvaried(results)
    runs = len(results.valid)
    cells = {(record.trial.workload, record.trial.treatment) for record in results.valid}
    of = len(set(sessions(results.valid).values()))
    in_all = f"{of:,} sessions" if of > 1 else "one session"
    claimed = any(finding.low for finding in asked)
    of_cells = "1 cell" if len(cells) == 1 else f"{len(cells):,} cells"
    told.append(f"They are {runs:,} imported runs of {of_cells} in {in_all}.")
    if asked and not claimed and of > 1:
        told.append(
            "No claim: no level has several sessions in common with its baseline. Measure all"
            " treatments again on other days, and import all sessions together."
        )
    elif asked and not claimed:
        told.append(
            "No claim: one session gives no estimate of the variation between sessions. Measure"
            " all treatments again on other days, and import all sessions together."
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
    return ["No factor was varied.", *([f"{', '.join(said[:_TOLD])}{more}."] if said else [])]


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
        f"one per session, {of:,} sessions, Student's t{many}; {claims} simultaneous claims at"
        f" {results.study.decide.confidence:.3g} (Bonferroni)"
        if of > 1
        else "one session only: a ratio without an interval (n: its pairs)"
    )
    return (
        "Paired cells: ratios of cells that differ in one factor only, averaged on the log"
        f" scale; {how}. The runs were neither randomised nor blocked: any change between them"
        " is confounded with the effect."
    )


# -- compared with nothing ------------------------------------------------------------------------

_SHOWN, _LISTED = 3, 12
_BY_JOB = "no-options"
"""The doubt of a format that has nothing but the job's name for a workload."""


def alone(results: Results, findings: Sequence[Finding]) -> Iterator[Doubt]:
    """Doubts that runs are in no comparison, if some are and others are not, or if they may only
    be called otherwise."""
    used = {folder for finding in findings for folder in finding.trials}
    left = [record for record in results.valid if record.trial.folder not in used]
    strangers = {name: others for name in _by_job(left) if (others := _may_be(name, results.valid))}
    if strangers:
        named = "; ".join(f"{name} may be {' or '.join(o)}" for name, o in strangers.items())
        yield Doubt(
            "alone",
            f"{_runs(left, results)}: a workload is only named by its job ({named})",
            f"Import again, and label each run: {_label(results, strangers)}",
        )
    elif used and left:
        yield Doubt(
            "alone",
            f"{_runs(left, results)}: no other run differs in one factor only",
            "Label the runs: --label, or --map.",
        )


def _runs(left: Sequence[TrialRecord], results: Results) -> str:
    names = [r.source.partition("/")[2] or r.trial.folder for r in left]
    more = ", …" if len(names) > _SHOWN else ""
    listed = ", ".join(names[:_SHOWN])
    return f"{len(left)} of {len(results.valid)} runs are in no comparison ({listed}{more})"


def _by_job(records: Sequence[TrialRecord]) -> list[str]:
    """The workloads of which nothing is known but the name of a job."""
    names = dict.fromkeys(record.trial.workload for record in records)
    told = {record.trial.workload for record in records if not _is_by_job(record)}
    return [name for name in names if name not in told]


def _is_by_job(record: TrialRecord) -> bool:
    return any(doubt.check == _BY_JOB for doubt in record.doubts)


def _may_be(name: str, records: Sequence[TrialRecord]) -> list[str]:
    """The workloads, known by more than a job's name, that do the same operations."""
    mine = next(_operations(record) for record in records if record.trial.workload == name)
    return list(
        dict.fromkeys(
            record.trial.workload
            for record in records
            if not _is_by_job(record) and _operations(record) == mine
        )
    )


def _operations(record: TrialRecord) -> set[str]:
    return {
        operation
        for each in record.measurements
        for operation, quantity in [split(each.metric)]
        if each.job == "all" and quantity in ("iops", "bw")
    }


def _label(results: Results, strangers: dict[str, list[str]]) -> str:
    """The option, with a workload for each run where there are few."""
    copied = any(doubt.check == "copies" for doubt in results.doubts)
    if copied or len(results.records) > _LISTED:
        first = next(iter(strangers.values()))[0]
        return f"--label workload={shlex.quote(first)},… (one for each run, in order)"
    ordered = sorted(results.records, key=lambda record: record.trial.number)
    every = [
        strangers[name][0] if (name := record.trial.workload) in strangers else name
        for record in ordered
    ]
    return f"--label {shlex.quote('workload=' + ','.join(every))}"
