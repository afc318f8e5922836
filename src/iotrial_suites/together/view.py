"""What a report of several results folders says, as data: suites of checks and studies together.

The published comparison of clustered arrays had this order: environment and packages, functional
tests, stress tests, performance.  Here each row leads to its evidence, and what is missing, failed
or doubtful stands where it would be looked for: a suite that was not run is said not to have been
run.  Text is fit to look at and not escaped for any format, as in :mod:`iotrial.report.view`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from iotrial.judgement import Judged
from iotrial.report import words
from iotrial.report.document import FORMAT, document
from iotrial.report.evidence import DoubtGroup
from iotrial.report.evidence import HostFacts as Facts
from iotrial.report.view import ReportView, WorkloadView
from iotrial.report.words import visible
from iotrial.stats.recommend import TOLD
from iotrial.units import format_value
from iotrial_suites.case import CaseResult, CheckResults, State
from iotrial_suites.report import lines, seconds, summary

STRESS = "stress"
"""The suite whose cases have a table of their own."""
NEAR = 0.95
"""Of what the link carries: nearer than this, the link is what was measured."""
_LINK = "iperf3"
_NAMED = 6
"""Comparisons that are named where several are undecided."""
_TOLD = ("kernel", "distribution", "cpu", "cpus", "memory")
_PROGRAMS = "programs "


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A session of checks; ``at`` is the way from where the report will lie to its folder, with
    ``/`` at the end."""

    name: str
    at: str
    checked: CheckResults


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """A study; ``at`` as in :class:`SessionFolder`."""

    name: str
    at: str
    view: ReportView


@dataclass(frozen=True, slots=True)
class _HostRow:
    """A machine as one folder tells of it: ``about`` are its kernel, distribution and what it has;
    ``packages`` the programs that matter, in their own words."""

    host: str
    about: tuple[str, ...]
    packages: tuple[str, ...]
    told_by: str
    href: str


@dataclass(frozen=True, slots=True)
class _CaseRow:
    """A case.  ``evidence`` leads to its folder ('': it has none), ``href`` to its commands on the
    page of its session."""

    case: str
    title: str
    state: State
    why: tuple[str, ...]
    seconds: str
    href: str
    evidence: str


@dataclass(frozen=True, slots=True)
class SessionTable:
    """The cases of one session that belong into one table."""

    name: str
    title: str
    when: str
    summary: str
    hosts: str
    href: str
    cases: tuple[_CaseRow, ...]
    stopped: str = ""
    undone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a study found.  ``parts`` are its workloads, each with the link to it; ``pretended``:
    its numbers are made up."""

    name: str
    question: str
    answer: str
    when: str
    trials: str
    method: str
    margin: float
    href: str
    parts: tuple[tuple[WorkloadView, str], ...]
    doubts: tuple[DoubtGroup, ...]
    pretended: bool = False


@dataclass(frozen=True, slots=True)
class CombinedReport:
    """The whole report.  ``leads`` are its first sentences; ``gaps`` what it does not show."""

    title: str
    leads: tuple[str, ...]
    hosts: tuple[_HostRow, ...]
    functional: tuple[SessionTable, ...]
    stress: tuple[SessionTable, ...]
    measured: tuple[StudyResult, ...]
    gaps: tuple[str, ...]


def together(sessions: Sequence[SessionFolder], studies: Sequence[StudyFolder]) -> CombinedReport:
    """All of them as one report, in the order in which they are given."""
    functional = tuple(filter(None, (_session(each, stress=False) for each in sessions)))
    stress = tuple(filter(None, (_session(each, stress=True) for each in sessions)))
    measured = tuple(map(_measured, studies))
    return CombinedReport(
        title=_title(measured),
        leads=(*_made_up(measured), *_leads(functional, stress, measured)),
        hosts=tuple(_hosts(sessions, studies)),
        functional=functional,
        stress=stress,
        measured=measured,
        gaps=tuple(_gaps(functional, stress, measured)),
    )


def _made_up(measured: Sequence[StudyResult]) -> Iterator[str]:
    """Before anything else, where numbers are made up: which."""
    named = [each.name for each in measured if each.pretended]
    if named:
        yield f"{words.PRETENDED} This is so of {words.some(named, _NAMED)}."


def _session(each: SessionFolder, *, stress: bool) -> SessionTable | None:
    mine = [one for one in each.checked.results if _stress(one.case) is stress]
    names = [name for name, _ in each.checked.suites if (name == STRESS) is stress]
    undone = tuple(key for key in each.checked.undone if _stress(key[0]) is stress)
    if not (mine or names or undone):
        return None
    kept = CheckResults(each.checked.suites, each.checked.machines, tuple(mine), undone=undone)
    return SessionTable(
        name=visible(each.name),
        title=visible(", ".join(names)),
        when=_day(each.checked.started),
        summary=summary(kept),
        hosts=visible(", ".join(machine.name for machine in each.checked.machines)),
        href=f"{each.at}report.html",
        cases=tuple(_case(each.at, one) for one in mine),
        stopped=visible(each.checked.stopped),
        undone=tuple(visible(case) for case in dict.fromkeys(case for case, _ in undone)),
    )


def _stress(case: str) -> bool:
    return case.partition("/")[0] == STRESS


def _case(at: str, result: CaseResult) -> _CaseRow:
    return _CaseRow(
        case=visible(result.name),
        title=visible(result.title),
        state=result.state,
        why=lines(result),
        seconds=seconds(result.seconds),
        href=f"{at}report.html#{quote(result.anchor)}",
        evidence=f"{at}{quote(result.folder)}/" if result.folder else "",
    )


def _measured(each: StudyFolder) -> StudyResult:
    view, page = each.view, f"{each.at}report.html"
    return StudyResult(
        name=visible(each.name),
        question=view.question,
        answer=view.answer,
        when=_day(view.started or 0.0),
        trials=words.done(view.counts, view.terms.one),
        method=view.method,
        margin=view.margin,
        href=page,
        parts=tuple((part, f"{page}#w{at}") for at, part in enumerate(view.parts, 1)),
        doubts=view.doubt_groups,
        pretended=view.pretended,
    )


def _day(at: float) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d %H:%M} UTC" if at else ""


# -- machines --------------------------------------------------------------------------------


def _hosts(sessions: Sequence[SessionFolder], studies: Sequence[StudyFolder]) -> Iterator[_HostRow]:
    for each in sessions:
        for machine in each.checked.machines:
            about = (f"Linux {machine.kernel}", machine.distribution)
            told = (said or f"no {tool}" for tool, said in machine.tools.items())
            yield _HostRow(
                visible(machine.name),
                tuple(visible(word) for word in about if word),
                tuple(map(visible, told)),
                visible(each.name),
                f"{each.at}report.html",
            )
    for study in studies:
        for facts in study.view.machines:
            yield _of_facts(facts, study)


def _of_facts(facts: Facts, study: StudyFolder) -> _HostRow:
    known = dict(facts.facts)
    about = [f"Linux {known[name]}" if name == "kernel" else _said(name, known[name])
             for name in _TOLD if known.get(name)]  # fmt: skip
    programs = [
        said if (name := key.removeprefix(_PROGRAMS)) in said else f"{name} {said}"
        for key, said in facts.facts
        if key.startswith(_PROGRAMS)
    ]
    page = f"{study.at}report.html#machine"
    return _HostRow(facts.host, tuple(about), tuple(programs), visible(study.name), page)


def _said(name: str, value: str) -> str:
    return {"cpus": f"{value} CPUs", "memory": f"memory {value}"}.get(name, value)


# -- what stands first, and what is missing -----------------------------------------------------


def _title(measured: Sequence[StudyResult]) -> str:
    """The question that the report answers: a study of the link alone only prepares for it."""
    of_disks = [each for each in measured if any(part.tool != _LINK for part, _ in each.parts)]
    return next((each.question for each in (*of_disks, *measured) if each.question), "Checks")


def _leads(
    functional: Sequence[SessionTable],
    stress: Sequence[SessionTable],
    measured: Sequence[StudyResult],
) -> Iterator[str]:
    for what, sessions in (("Functional tests", functional), ("Stress tests", stress)):
        told = "; ".join(f"{each.title}: {each.summary}" for each in sessions)
        yield f"{what}: {told or 'none was run'}."
    for each in measured:
        first, others = words.headline(each.answer)
        shown = (sentence for sentence in others if sentence.startswith(TOLD))
        said = " ".join((first.rstrip(".") + ".", *shown))
        yield f"Performance, {each.name}: {said}"
    if not measured:
        yield "Performance: nothing was measured."


def _gaps(
    functional: Sequence[SessionTable],
    stress: Sequence[SessionTable],
    measured: Sequence[StudyResult],
) -> Iterator[str]:
    if not functional:
        yield "No functional suite was run: what is measured here may be broken."
    if not stress:
        yield "No stress suite was run: nothing is said of arrays that lose a member under load."
    for each in (*functional, *stress):
        if each.stopped:
            yield f"{each.title} ended early: {each.stopped}."
        if each.undone:
            yield (
                f"{each.title} has no result of {words.some(each.undone, _NAMED)}:"
                " the session was stopped; `iotrial check --resume` resumes it."
            )
        for state, how in (("not run", "was not run"), ("known failure", "is known to fail")):
            for case in (one for one in each.cases if one.state == state):
                yield f"{case.case} {how}: {'; '.join(case.why) or 'no reason recorded'}."
    for study in measured:
        yield from _undecided(study)
    yield from _at_links(measured)


def _undecided(study: StudyResult) -> Iterator[str]:
    rows = [(part.workload, row) for part, _ in study.parts for row in part.findings]
    open_ = [
        f"{workload} ({row.finding.factor}={row.finding.level})"
        for workload, row in rows
        if row.finding.verdict == "cannot-tell"
    ]
    if open_:
        share = (
            f"any of {len(rows)}" if len(open_) == len(rows) > 1 else f"{len(open_)} of {len(rows)}"
        )
        plural = "comparison" if len(rows) == 1 else "comparisons"
        yield f"{study.name} cannot tell {share} {plural}: {words.some(open_, _NAMED)}."
    if not rows:
        yield f"{study.name} has no findings: too few trials are valid."


# -- the link -----------------------------------------------------------------------------------


def _links(measured: Sequence[StudyResult]) -> dict[str, float]:
    """What iperf3 reached at most in any of the studies, in bytes/s, by metric."""
    found: dict[str, float] = {}
    for study in measured:
        for part, _ in study.parts:
            values = [value for row in part.findings for value in (row.value, row.base) if value]
            if part.tool == _LINK and values:
                found[part.metric.name] = max(found.get(part.metric.name, 0.0), *values)
    return found


def _at_links(measured: Sequence[StudyResult]) -> Iterator[str]:
    """Loads whose every level comes near the link: they show the link."""
    links = _links(measured)
    for study in measured:
        for part, _ in study.parts:
            name, values = part.metric.name, [
                value for row in part.findings for value in (row.value, row.base) if value
            ]  # fmt: skip
            if part.tool == _LINK or name not in links or not values:
                continue
            for share, how in ((1.0, ""), (0.5, " half of")):
                ceiling = links[name] * share
                near = all(NEAR * ceiling <= value <= ceiling / NEAR for value in values)
                if near and (share == 1 or name.startswith("write")):
                    most = format_value(links[name], "bytes/s")
                    yield (
                        f"{study.name}: {part.workload} is at{how} what the link carries ({most})"
                        " at every level, and cannot show what an array costs."
                    )


def data(
    all_: CombinedReport, sessions: Sequence[SessionFolder], studies: Sequence[tuple[str, Judged]]
) -> dict[str, Any]:
    """For ``report --as json`` of several folders: what ``check --json`` and ``compare --json`` say
    of each folder, with the folder's name and what all of them do not show.  ``studies`` are names
    of folders, and what they came to."""
    return {
        "format": FORMAT,
        "title": all_.title,
        "summary": list(all_.leads),
        "hosts": [asdict(each) for each in all_.hosts],
        "checks": [{"folder": each.name, **each.checked.as_dict()} for each in sessions],
        "studies": [{"folder": name, **document(judged)} for name, judged in studies],
        "gaps": list(all_.gaps),
    }
