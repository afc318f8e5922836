"""Results against results: is anything worse than it was, and what else differs?

The two sides were measured at different times.  How far sessions of one thing are apart says
whether another is out of line, and nothing within a session says it: a disk that is emptier, a
warmer room, a neighbour are the same for all trials of a session.  So the unit is the session: a
results folder, or of one that was gone on with after a night each spell of it, and of imported
results each of theirs (:mod:`iotrial.stats.pairs`).

Per workload and treatment that both sides have, the ratio of geometric means over the sessions:

- Several sessions on a side: Student's interval on the log scale, the variance between sessions
  pooled over both sides.  A side whose sessions have fewer trials than those that this variance is
  of has more noise of trials in its means, which is added.
- One on each: the ratio is described, and nothing is claimed; unless somebody says how far sessions
  of this machine are apart (``between``, a standard deviation).  Then Welch's half width from the
  trials and the normal one between sessions are added in quadrature.
- Paired: folders were measured in turn, so that the n-th of one side stands beside the n-th of the
  other; Student's t of their differences.

All intervals together hold at the study's confidence (Šidák).

*Unlike.*  A workload that both folders have by one name is compared only where it did the same: the
same tool with the same options on a target of the same kind and size.  Of imported runs what is
alike in all runs of a workload is known, and nothing else.  What else differs (host, kernel, disk,
version of the tool) is in every change that is seen between the two, and is said.

References: B. L. Welch, Biometrika 34 (1947) 28-35; Z. Šidák, JASA 62 (1967) 626-633;
T. Kalibera and R. Jones, ISMM 2013, 63-74.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, get_args

import numpy as np
from scipy.special import ndtri, stdtrit

from iotrial.model.finding import (
    Comparison,
    Difference,
    DifferenceKind,
    Finding,
    SessionComparison,
    Verdict,
)
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Doubt, Treatment, TrialRecord, treatment_text
from iotrial.model.workload import Workload
from iotrial.stats.blocks import ARITHMETIC, Floats, ratio_of
from iotrial.stats.pairs import answering, sessions
from iotrial.stats.verdict import verdict
from iotrial.units import format_change, format_noise

Key = tuple[str, Treatment]
RESULTS = "results"
"""The factor of what is found between two sides."""


@dataclass
class _Cell:
    """Trials of one treatment on one side: logs by session, and their folders."""

    sessions: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    trials: list[str] = field(default_factory=list)

    @property
    def means(self) -> Floats:
        """One of each session."""
        return np.array([fmean(logs) for logs in self.sessions.values()])

    @property
    def logs(self) -> Floats:
        return np.array([log for logs in self.sessions.values() for log in logs])


def regress(  # noqa: PLR0913 (keywords)
    former: Sequence[Results],
    latter: Sequence[Results],
    *,
    without: Mapping[str, str] | None = None,
    between: float = 0.0,
    paired: bool = False,
    advice: str = "Add sessions.",
) -> Comparison:
    """Findings with ``factor`` = ``results``: ``latter`` against ``former``, per treatment.

    ``level`` is the treatment, ``baseline`` the name of the former side.  ``without`` are
    workloads left out, each with why; ``between`` is the standard deviation between sessions as a
    relative difference (0: nobody said).  ``advice`` says what gives an interval where one session
    of each side has none.
    """
    first = former[0]
    primary = first.study.decide.leading
    if first.study.design.kind == "recorded":
        primary = answering(first)
    ours, theirs = (_cells(each, primary, whole=paired) for each in (former, latter))
    if paired:
        ours, theirs = _side_by_side(ours, theirs)
    left_out = without or {}
    shared = [key for key in ours if key in theirs and key[0] not in left_out]
    shared.sort(key=_place(first.study))
    confidence = first.study.decide.confidence
    each = confidence ** (1 / len(shared)) if shared else confidence
    names = called(first, latter[0]) if paired else _sides_called(former, latter)
    findings = tuple(
        _finding(
            key, primary[key[0]], ours[key], theirs[key], first, baseline=names[0],
            interval=_interval(ours[key], theirs[key], each, math.log1p(between), paired=paired),
            paired=paired,
        )
        for key in shared
    )  # fmt: skip
    several = any(len(c.sessions) > 1 for side in (ours, theirs) for c in side.values())
    told = _sentence(findings, *names, advice="" if several or between > 0 else advice)
    return Comparison(
        question=f"Is {names[1]} worse than {names[0]}?",
        findings=findings,
        recommendation=" ".join((told, *_left_out(left_out))),
        method=_method(first, findings, between, paired=paired),
        differences=differences(first, latter[0]),
    )


def _method(first: Results, findings: Sequence[Finding], between: float, *, paired: bool) -> str:
    alone = ""
    without = [each for each in findings if each.low is None]
    if any(each.compared and each.compared.sessions == (1, 1) for each in without):
        alone = " A single session without a given variation has no interval."
    elif paired and any(each.n == 1 for each in without):
        alone = " A single pair has no interval."
    elif without and not between:
        alone = (
            " Sessions that are exactly alike, such as pretended ones, show no variation, and give"
            " no interval."
        )
    how = "sessions as units, Student's t with their variance pooled"
    if paired:
        how = "measured in alternation, Student's t of the differences"
    elif between:
        how = f"sessions as units, with a given standard deviation of {between:.3g}"
    decide = first.study.decide
    return (
        f"{len(findings)} common treatments; {how}; simultaneous confidence"
        f" {decide.confidence:.3g} (Šidák); margin {decide.margin:.3g}.{alone}"
    )


def _cells(side: Sequence[Results], primary: Mapping[str, str], *, whole: bool) -> dict[Key, _Cell]:
    """``whole``: each folder is one session."""
    found: dict[Key, _Cell] = defaultdict(_Cell)
    for number, results in enumerate(side):
        taken = {} if whole else sessions(results.valid)
        for record in results.valid:
            value = _value(record, primary)
            if value is not None:
                stage = (("stage", str(record.trial.stage)),) if record.trial.stage else ()
                cell = found[record.trial.workload, (*stage, *record.trial.treatment)]
                session = f"{number}/{taken.get(record.trial.folder)}"
                cell.sessions[session].append(math.log(value))
                cell.trials.append(record.trial.folder)
    return found


def _place(study: Study) -> Callable[[Key], tuple[int, ...]]:
    """Where a treatment stands among the others: as in the study, not as its trials came."""
    names = [workload.name for workload in study.judged]
    places = {
        (factor.name, level.label): place
        for factor in study.factors
        for place, level in enumerate(factor.levels)
    }

    def place(key: Key) -> tuple[int, ...]:
        return names.index(key[0]), *(places.get(part, 0) for part in key[1])

    return place


def _side_by_side(ours: dict[Key, _Cell], theirs: dict[Key, _Cell]) -> list[dict[Key, _Cell]]:
    """Of each treatment the turns in which both sides have it, in one order."""
    found: list[dict[Key, _Cell]] = [{}, {}]
    for key in (each for each in ours if each in theirs):
        both = [turn for turn in ours[key].sessions if turn in theirs[key].sessions]
        if both:
            for kept, side in zip(found, (ours, theirs), strict=True):
                cell = side[key]
                kept[key] = _Cell({turn: cell.sessions[turn] for turn in both}, cell.trials)
    return found


def _value(record: TrialRecord, primary: Mapping[str, str]) -> float | None:
    name = primary.get(record.trial.workload)
    value = record.value(name) if name else None
    return value if value is not None and value > 0 else None


def _finding(  # noqa: PLR0913 (the parts of one comparison)
    key: Key,
    name: str,
    ours: _Cell,
    theirs: _Cell,
    former: Results,
    *,
    baseline: str,
    interval: float | None,
    paired: bool,
) -> Finding:
    """``baseline`` is what the former results are called, ``interval`` half of its width on the log
    scale."""
    a, b = ours.means, theirs.means
    shift = float(b.mean() - a.mean())
    low = high = None
    if interval is not None:
        low, high = ratio_of(shift - interval), ratio_of(shift + interval)
    workload, treatment = key
    single = len(a) == len(b) == 1
    return Finding(
        workload=workload,
        metric=name,
        factor=RESULTS,
        level=treatment_text(treatment),
        baseline=baseline,
        ratio=ratio_of(shift),
        low=low,
        high=high,
        verdict=_verdict(low, high, former.study, name),
        n=min(len(ours.logs), len(theirs.logs)) if single else min(len(a), len(b)),
        trials=(*ours.trials, *theirs.trials),
        compared=SessionComparison(
            math.exp(float(a.mean())), math.exp(float(b.mean())),
            None if paired else (len(a), len(b)),
        ),
    )  # fmt: skip


def _verdict(low: float | None, high: float | None, study: Study, name: str) -> Verdict:
    if low is None or high is None:
        return "cannot-tell"
    higher = study.metrics.higher(name)
    return verdict(low, high, study.decide.margin, higher_is_better=higher)


def _interval(
    ours: _Cell, theirs: _Cell, confidence: float, between: float, *, paired: bool
) -> float | None:
    """Half of its width; None where nothing says how far sessions, or trials of one, are apart."""
    smaller = 0.0
    a, b = ours.means, theirs.means
    shares = 1 / len(a) + 1 / len(b)
    if between and not paired:
        within = _welch(ours.logs, theirs.logs, confidence)
        normal = float(ndtri((1 + confidence) / 2)) * between * math.sqrt(shares)
        return None if within is None else math.hypot(within, normal)
    squares = float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum())
    df = len(a) + len(b) - 2
    if df and not paired:
        smaller = _smaller((ours, theirs), df)
    if paired:
        apart = b - a
        squares, df, shares = float(((apart - apart.mean()) ** 2).sum()), len(a) - 1, 1 / len(a)
    if not df or squares <= ARITHMETIC:
        return None
    return _student(squares / df * shares + smaller, 1.0, df, confidence)


def _smaller(sides: Sequence[_Cell], df: int) -> float:
    """What the variance of a difference is larger by than the variance between sessions says,
    because those of a side have fewer trials than the sessions that it was taken from."""
    noise = _noise(sides)
    shares = [(len(side.sessions), fmean(1 / len(x) for x in side.sessions.values()))
              for side in sides]  # fmt: skip
    known = math.fsum((many - 1) * share for many, share in shares) / df
    return noise * math.fsum(max(0.0, share - known) / many for many, share in shares)


def _noise(sides: Iterable[_Cell]) -> float:
    """The variance of the trials of a session (0: no session has two)."""
    logs = [each for side in sides for each in side.sessions.values()]
    df = sum(len(each) - 1 for each in logs)
    squares = math.fsum((log - fmean(each)) ** 2 for each in logs for log in each)
    return squares / df if df else 0.0


POWER = 0.9
"""With which a session as long as :func:`blocks_needed` says decides a change of the margin."""
WORTH = 1.05
"""By so many times an interval must be wider for more blocks to be worth their time."""
FEWEST = 2
"""Blocks, from which a study has intervals of its own."""


def blocks_needed(former: Sequence[Results], *, most: int, between: float = 0.0) -> tuple[int, str]:
    """In how many blocks, ``most`` at most, a session to come of the same study is to be measured
    that will be compared with the ``former`` ones by :func:`regress`; and why, in words ('': all of
    them).

    The fewest with which each comparison decides a change of the margin with a power of
    :data:`POWER`, or that more blocks would not shorten its interval by 5 % (:data:`WORTH`):
    sessions are apart by more than their blocks.  ``between`` as in :func:`regress`.
    """
    study = former[0].study
    cells = [
        each
        for each in _cells(former, study.decide.leading, whole=False).values()
        if between or len(each.sessions) > FEWEST
    ]
    if not cells or most <= FEWEST:
        return most, ""
    each = study.decide.confidence ** (1 / len(cells))
    known = [_Spread.of(cell, each, math.log1p(between)) for cell in cells]
    margin = math.log1p(study.decide.margin)
    enough = next(
        blocks
        for blocks in range(FEWEST, most + 1)
        if blocks == most or all(one.enough(blocks, most, margin) for one in known)
    )
    if enough == most:
        return most, ""
    largest = max(known, key=lambda one: one.half(enough))
    apart = (
        f"sessions are {format_noise(largest.apart)} apart, trials {format_noise(largest.noise)}"
    )
    if all(one.decides(enough, margin) for one in known):
        why = f"decide a change of {study.decide.margin:.3g} with a power of {POWER:.0%}"
    else:
        why = "give an interval that all would make less than 5 % shorter"
    return enough, f"{enough} of {most} blocks {why}: {apart}"


def pairs_needed(results: Results, least: int, most: int) -> int:
    """How many pairs measured in turn, from ``least`` to ``most``, decide a change of the margin
    with a power of :data:`POWER`, by the noise of these trials."""
    study = results.study
    cells = list(_cells([results], study.decide.leading, whole=True).values())
    each = study.decide.confidence ** (1 / max(len(cells), 1))
    noise = math.sqrt(2 * max((_noise([cell]) for cell in cells), default=0.0))
    margin = math.log1p(study.decide.margin)
    return next(
        (
            pairs
            for pairs in range(least, most)
            if sum(float(stdtrit(pairs - 1, p)) for p in _tails(each)) * noise
            <= margin * math.sqrt(pairs)
        ),
        most,
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """How far the means of sessions are ``apart`` by themselves and trials by ``noise`` (standard
    deviations of logs); ``past`` is the variance of the mean of the former sessions; ``critical``
    and ``power`` are of the distribution that the interval is by."""

    apart: float
    noise: float
    past: float
    critical: float
    power: float

    @classmethod
    def of(cls, cell: _Cell, confidence: float, between: float) -> _Spread:
        many, noise = len(cell.sessions), _noise([cell])
        share = noise * fmean(1 / len(each) for each in cell.sessions.values())
        if between:
            past, tails = (between**2 + share) / many, (float(ndtri(p)) for p in _tails(confidence))
            return cls(between, math.sqrt(noise), past, *tails)
        variance = float(cell.means.var(ddof=1))
        tails = (float(stdtrit(many - 1, p)) for p in _tails(confidence))
        apart = math.sqrt(max(0.0, variance - share))
        return cls(apart, math.sqrt(noise), variance / many, *tails)

    def error(self, blocks: int) -> float:
        """The standard error of a comparison with a session of so many blocks."""
        return math.sqrt(self.apart**2 + self.noise**2 / blocks + self.past)

    def half(self, blocks: int) -> float:
        return self.critical * self.error(blocks)

    def decides(self, blocks: int, margin: float) -> bool:
        return (self.critical + self.power) * self.error(blocks) <= margin

    def enough(self, blocks: int, most: int, margin: float) -> bool:
        return self.decides(blocks, margin) or self.half(blocks) <= WORTH * self.half(most)


def _tails(confidence: float) -> tuple[float, float]:
    return (1 + confidence) / 2, POWER


def _student(variance: float, share: float, df: float, confidence: float) -> float:
    return float(stdtrit(df, (1 + confidence) / 2)) * math.sqrt(variance * share)


def _welch(a: Floats, b: Floats, confidence: float) -> float | None:
    """Half of Welch's interval; None where a side has no second trial."""
    if len(a) < 2 or len(b) < 2:  # noqa: PLR2004 (a variance needs two)
        return None
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0:
        return 0.0
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return _student(va + vb, 1.0, df, confidence)


def _sentence(findings: tuple[Finding, ...], former: str, latter: str, *, advice: str) -> str:
    if not findings:
        return f"{former} and {latter} share no workload and treatment: no comparison is possible."
    worse = [f for f in findings if f.verdict == "worse"]
    if worse:
        return f"Yes: {latter} is worse for {', '.join(map(_named, worse))}, against {former}."
    if advice and all(f.low is None for f in findings):
        widest = max(findings, key=lambda f: abs(math.log(f.ratio)))
        return (
            f"No claim: one session of each, {former} and {latter}, gives no estimate of the"
            f" variation between sessions. {advice} The largest change is {_named(widest)}."
        )
    unclear = sum(1 for f in findings if f.verdict == "cannot-tell")
    if unclear:
        rest = "; the others are not worse" if unclear < len(findings) else ""
        many = f"{unclear} of {len(findings)} comparisons of {latter} with {former}"
        return f"Cannot tell for {many}{rest}."
    return f"No: no comparison in {latter} is worse than in {former}."


def called(former: Results, latter: Results) -> tuple[str, str]:
    """The names of two folders as they are; where both are alike, as they were given."""
    names = former.folder.name, latter.folder.name
    if all(names) and names[0] != names[1]:
        return names
    return str(former.folder), str(latter.folder)


def _sides_called(former: Sequence[Results], latter: Sequence[Results]) -> tuple[str, str]:
    """The same of two sides, each by its first folder."""
    names = called(former[0], latter[0])
    one, other = (
        f"{name} and {len(side) - 1} more" if len(side) > 1 else name
        for name, side in zip(names, (former, latter), strict=True)
    )
    return one, other


def _named(finding: Finding) -> str:
    return f"{finding.workload} with {finding.level} ({format_change(finding.ratio)})"


def _left_out(workloads: Mapping[str, str]) -> list[str]:
    return [f"{name} is excluded: different load ({why})." for name, why in workloads.items()]


# -- what else differs ----------------------------------------------------------------------------

_MACHINE = {
    "machine_id": "machine",
    "machine": "model",
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "memory": "memory (bytes)",
    "kernel": "kernel",
    "kernel_parameters": "boot parameters",
    "distribution": "distribution",
    "cpu_governor": "CPU governor",
    "clocksource": "clock",
}
_PLACES = ("filename", "directory", "name", "description")
"""Options that say where a load went, which may be what is asked about."""
_OF_FILE = ("backing_file", "backing_inode")
_SHOWN = 6


def unlike_loads(former: Study, latter: Study) -> dict[str, str]:
    """The workloads that both have and that are not the same load, each with what differs:
    ``iodepth = 4 and 1``."""
    theirs = {each.name: each for each in latter.judged}
    found = {}
    for own in former.judged:
        if other := theirs.get(own.name):
            known = former.design.kind == latter.design.kind != "recorded"
            said = list(_options(own, other, whole=known)) + (
                list(_targets(former, latter)) if known else []
            )
            if said:
                found[own.name] = "; ".join(said[:_SHOWN])
    return found


def unlike_machines(former: Results, latter: Results) -> Iterator[Doubt]:
    """A doubt for each host that is not what it was, and for tools of other versions."""
    names = called(former, latter)
    for name, own, other in _pairs(former, latter):
        if said := [*_facts(own, other), *_programs(own, other), *_disks(own, other)]:
            yield _doubt(name, said, names)
    if former.study.design.kind == latter.study.design.kind == "recorded":
        own_tools, other_tools = (
            ", ".join(sorted({record.tool for record in each.valid})) for each in (former, latter)
        )
        if own_tools != other_tools:
            yield _doubt("all", [f"tool {own_tools} and {other_tools}"], names)


def _pairs(former: Results, latter: Results) -> list[tuple[str, _Facts, _Facts]]:
    """The facts of each host that both have; of others those of the first."""
    hosts = [name for name in former.facts if name in latter.facts]
    if former.facts and latter.facts and not hosts:
        both = " and ".join((*former.facts, *latter.facts))
        own_facts, other_facts = (next(iter(each.facts.values())) for each in (former, latter))
        return [(both, own_facts, other_facts)]
    return [(name, former.facts[name], latter.facts[name]) for name in hosts]


_Facts = Mapping[str, Any]
_OF_KERNEL = ("kernel", "boot parameters")


def differences(former: Results, latter: Results) -> tuple[Difference, ...]:
    """Kernel, machine, versions of tools, settings in force and study: what differs in them,
    besides what is asked about."""
    found: dict[tuple[DifferenceKind, str, str, str], list[str]] = defaultdict(list)
    for host, own, other in _pairs(former, latter):
        for name, before, after in _unlike_facts(own, other):
            kind: DifferenceKind = "kernel" if name in _OF_KERNEL else "machine"
            found[kind, name, before, after].append(host)
        for name, before, after in _unlike_disks(own, other):
            found["machine", name, before, after].append(host)
        for name, before, after in _unlike_programs(own, other):
            found["tool", name, before, after].append(host)
    for each in unlike_settings(former, latter):
        said = f"{each.tunable} on {each.device}" if each.device else each.tunable
        before, after = (" or ".join(values) for values in (each.before, each.after))
        found["settings", said, before, after].append(treatment_text(each.treatment))
    for name, before, after in _unlike_studies(former.study, latter.study):
        found["study", name, before, after] = []
    order = get_args(DifferenceKind)
    told = [Difference(*key, tuple(dict.fromkeys(where))) for key, where in found.items()]
    return tuple(sorted(told, key=lambda each: order.index(each.kind)))


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A ``tunable`` that was not the same in a ``treatment`` on both sides: its values ``before``
    and ``after``, on a ``device`` ('': the host's)."""

    treatment: Treatment
    device: str
    tunable: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def unlike_settings(former: Results, latter: Results) -> Iterator[SettingDifference]:
    """Of each treatment that both have: what was not the same before its loads; and of the queues
    of the targets what was not when the studies began, and is read before no load."""
    ours, theirs = (_in_force(each) for each in (former, latter))
    shared = [each for each in ours if each in theirs]
    for treatment in shared:
        own, other = ours[treatment], theirs[treatment]
        for device, name in (key for key in own if key in other and own[key] != other[key]):
            before, after = (tuple(sorted(each[device, name])) for each in (own, other))
            yield SettingDifference(treatment, device, name, before, after)
    read = {name for side in (ours, theirs) for known in side.values() for _, name in known}
    for device, name, was, now in _unlike_queues(former, latter):
        for treatment in shared if name not in read else ():
            yield SettingDifference(treatment, device, name, (was,), (now,))


def _unlike_queues(former: Results, latter: Results) -> Iterator[tuple[str, str, str, str]]:
    """Device of the latter, tunable, and its values when the studies began."""
    for host, own, other in _pairs(former, latter):
        place = f"{host}:" if len(latter.facts) > 1 else ""
        for one, two in _of_targets(own, other):
            for folder, name in (("queue", "queue"), ("iosched", "queue.iosched")):
                left, right = (each.get(folder) or {} for each in (one, two))
                for key in (key for key in left if left[key] != right.get(key, left[key])):
                    before, after = (_chosen(str(each[key])) for each in (left, right))
                    if before != after:
                        yield f"{place}{two['name']}", f"{name}.{key}", before, after


def _chosen(value: str) -> str:
    """Of ``none [bfq]`` what is in force."""
    _, bracket, rest = value.partition("[")
    return rest.partition("]")[0] if bracket else value


def _of_targets(own: _Facts, other: _Facts) -> Iterator[tuple[_Facts, _Facts]]:
    """What was noted of the devices of the targets that both have, each with its ``name`` and the
    ``target``."""
    left, right = own.get("targets") or {}, other.get("targets") or {}
    for name in (name for name in left if name in right):
        found = [_of_target(facts, name) for facts in (own, other)]
        if all(found):
            yield found[0], found[1]


def _of_target(facts: _Facts, target: str) -> _Facts:
    device = str((facts["targets"][target] or {}).get("device") or "")
    known = (facts.get("devices") or {}).get(device)
    return {**known, "name": device, "target": target} if known else {}


def _in_force(results: Results) -> dict[Treatment, dict[tuple[str, str], set[str]]]:
    found: dict[Treatment, dict[tuple[str, str], set[str]]] = defaultdict(dict)
    for record in results.valid:
        for device, name, value in record.before:
            found[record.trial.treatment].setdefault((device, name), set()).add(value)
    return found


def _unlike_studies(own: Study, other: Study) -> Iterator[tuple[str, str, str]]:
    """Keys of the study files, as they are written."""
    try:
        left, right = (dict(_keys(tomllib.loads(each.text), "")) for each in (own, other))
    except tomllib.TOMLDecodeError:
        return  # that of imported results is none
    for key in dict.fromkeys((*left, *right)):
        if left.get(key) != right.get(key):
            before, after = (str(each.get(key, "not given")) for each in (left, right))
            yield key, before, after


def _keys(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _keys(each, f"{name}.{key}" if name else key)
    else:
        yield name, value


def _doubt(host: str, said: list[str], names: tuple[str, str]) -> Doubt:
    return Doubt(
        "unlike",
        f"{host}: differences between {names[0]} and {names[1]}: {'; '.join(said)}",
        "These differences are confounded with every change between the two, unless they are"
        " the change under test.",
    )


def _options(own: Workload, other: Workload, *, whole: bool) -> Iterator[str]:
    """What the loads differ in; ``whole``: what only one of them says differs too."""
    if own.tool != other.tool:
        yield f"{own.tool} and {other.tool}"
    left, right = dict(own.options), dict(other.options)
    for name in dict.fromkeys((*left, *right)):
        told = name in left and name in right
        if name not in _PLACES and (whole or told) and left.get(name) != right.get(name):
            a, b = (each.get(name, "not given") for each in (left, right))
            yield f"{name} = {a} and {b}"
    for name in ("jobfile", "argv", "cache", "metrics"):
        if getattr(own, name) != getattr(other, name):
            yield f"the {name} differs"


def _targets(former: Study, latter: Study) -> Iterator[str]:
    left, right = ({each.name: each for each in study.targets} for study in (former, latter))
    for name in (name for name in left if name in right):
        own, other = left[name], right[name]
        for what in ("kind", "size", "filesystem"):
            a, b = (getattr(each, what, "") for each in (own, other))
            if a != b:
                yield f"{what} of target {name} = {a or 'none'} and {b or 'none'}"


def _facts(own: _Facts, other: _Facts) -> Iterator[str]:
    return (f"{name} {a} and {b}" for name, a, b in _unlike_facts(own, other))


def _unlike_facts(own: _Facts, other: _Facts) -> Iterator[tuple[str, str, str]]:
    for key, name in _MACHINE.items():
        a, b = own.get(key), other.get(key)
        if a and b and a != b:
            yield name, str(a), str(b)


def _programs(own: _Facts, other: _Facts) -> Iterator[str]:
    return (f"{name} {a} and {b}" for name, a, b in _unlike_programs(own, other))


def _unlike_programs(own: _Facts, other: _Facts) -> Iterator[tuple[str, str, str]]:
    left, right = own.get("programs") or {}, other.get("programs") or {}
    for name in left:
        if right.get(name) and left[name] and left[name] != right[name]:
            yield name, str(left[name]), str(right[name])


def _disks(own: _Facts, other: _Facts) -> Iterator[str]:
    return (f"{name} {a} and {b}" for name, a, b in _unlike_disks(own, other))


def _unlike_disks(own: _Facts, other: _Facts) -> Iterator[tuple[str, str, str]]:
    left, right = own.get("targets") or {}, other.get("targets") or {}
    for name in (name for name in left if name in right):
        a, b = (_disk(each.get(name)) for each in (left, right))
        if a != b:
            yield f"disk of {name}", a, b
    for one, two in _of_targets(own, other):
        a, b = (str(each.get("firmware_rev") or each.get("rev") or "") for each in (one, two))
        if a and b and a != b:
            yield f"firmware of {one['target']}", a, b


def _disk(target: Mapping[str, Any] | None) -> str:
    """What tells a disk from another; nothing of a file that iotrial made."""
    identity = (target or {}).get("identity") or {}
    ids = {n: v for n, v in (identity.get("ids") or {}).items() if n not in _OF_FILE}
    return ", ".join(f"{name} {value}" for name, value in sorted(ids.items()))
