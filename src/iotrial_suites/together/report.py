"""One report of several folders, of studies and of checks: what ``iotrial report`` writes.

Each thing stands beside its evidence: links lead to the pages of the single folders and to the
files in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from iotrial.cli.output import json_text, writing
from iotrial.errors import UsageError
from iotrial.judgement import Judged, judge
from iotrial.judgement.parts import VerdictRow
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    BulletList,
    Callout,
    Collapsible,
    Column,
    Contents,
    Document,
    Heading,
    Picture,
    Row,
    RowGroup,
    Section,
    Table,
    Text,
    TextSpan,
    Words,
)
from iotrial.report.evidence import DoubtGroup
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial.report.sections import FolderReport, WrittenReport
from iotrial.report.study import html as page_of
from iotrial.report.verdicts import STRIP, number, told, verdict_strip
from iotrial.report.view import view
from iotrial.report.words import IntervalScale, scale
from iotrial.store import open_results
from iotrial_suites.case import CheckResults
from iotrial_suites.report import state
from iotrial_suites.report import written as files_of
from iotrial_suites.session.session import HEADER, checked
from iotrial_suites.together.view import (
    CombinedReport,
    SessionFolder,
    SessionTable,
    StudyFolder,
    StudyResult,
    _HostRow,
    data,
    together,
)


def document(all_: CombinedReport) -> Document:
    """All of it, in the order of the published comparison."""
    sections = (
        ("environment", "environment", "Environment and packages", [_hosts(all_.hosts)]),
        ("functional", "functional", "Functional tests", _sessions(all_.functional)),
        ("stress", "stress", "Stress tests", _sessions(all_.stress)),
        ("performance", "performance", "Performance", _studies(all_.measured)),
        ("gaps", "what it does not show", "What this does not show", [_gaps(all_)]),
    )
    return Document(
        all_.title,
        (
            *(Text(sentence, "lead") for sentence in all_.leads),
            Contents(tuple((name, short) for name, short, _, _ in sections)),
        ),
        tuple(
            Section(f"{place} {title}", tuple(blocks), name)
            for place, (name, _, title, blocks) in enumerate(sections, start=1)
        ),
        "Links work where this page lies in its place beside the folders.",
    )


def _hosts(hosts: Sequence[_HostRow]) -> Table:
    head = (Column("host", "head"), Column("system"), Column("packages"), Column("told by"))
    rows = tuple(
        (
            each.host,
            "\n".join(each.about) or "–",
            "\n".join(each.packages) or "–",
            TextSpan(each.told_by, href=each.href),
        )
        for each in hosts
    )
    return Table(head, rows, "Environment", "No folder tells of a machine.")


def _gaps(all_: CombinedReport) -> BulletList:
    whole = "Every suite was run, every case has a result, and every comparison is decided."
    return BulletList(all_.gaps or (whole,))


def _sessions(sessions: Sequence[SessionTable]) -> Iterator[Block]:
    for each in sessions:
        yield Heading(each.title, 3)
        when = f", {each.when}" if each.when else ""
        said: list[str | TextSpan] = [f"{each.summary}. "]
        said += [f"On {each.hosts}{when}. "] if each.hosts else []
        said += ["All commands with what they said: ", TextSpan(each.name, href=each.href), "."]
        said += [" ", TextSpan(f"Ended early: {each.stopped}.", "worse")] if each.stopped else []
        yield Text(tuple(said), "note")
        yield _cases(each)
    if not sessions:
        yield Text("None was run.")


def _cases(session: SessionTable) -> Table:
    head = (
        *(Column("case", "k"), Column("passes where"), Column("result")),
        *(Column("time", "n"), Column("evidence")),
    )
    rows: tuple[Row, ...] = tuple(
        (
            TextSpan(case.case, href=case.href),
            (case.title, *(TextSpan(line, "small") for line in case.why)),
            state(case.state),
            case.seconds,
            TextSpan("files", href=case.evidence) if case.evidence else "–",
        )
        for case in session.cases
    )
    return Table(head, rows, session.title, "No case has a result.")


def _studies(measured: Sequence[StudyResult]) -> Iterator[Block]:
    for each in measured:
        yield Heading(each.question or each.name, 3)
        if each.pretended:
            yield Text(words.PRETENDED, "alert")
        yield Text(each.answer)
        when = f" Measured {each.when}." if each.when else ""
        shaded = f". Shaded: equivalence margin ±{words.share(each.margin)}."
        link = TextSpan(each.name, href=each.href)
        yield Text((f"{each.trials}{when} Every trial with its raw files: ", link, shaded), "note")
        yield _findings(each)
        if each.doubts:
            yield Heading("Doubts", 4)
        yield from (_doubt(group, each) for group in each.doubts)
        if each.method:
            yield Collapsible("How the intervals were made", (Text(each.method, "note"),))
    if not measured:
        yield Text("Nothing was measured.")


def _findings(study: StudyResult) -> Table:
    found = [row.finding for part, _ in study.parts for row in part.findings]
    on = scale(found, study.margin, STRIP)
    head = (
        *(Column("level"), Column("verdict"), Column("change (interval)"), Column("", "strip")),
        *(Column("baseline", "n"), Column("this level", "n"), Column("blocks", "n")),
    )
    rows: list[Row | RowGroup] = []
    for part, href in study.parts:
        if part.findings:
            about = (part.metric.title, words.direction(part.metric.higher))
            load = f"{part.tool}; {', '.join(filter(None, about))}"
            rows.append(RowGroup((TextSpan(part.workload, href=href), TextSpan(load, "small"))))
            rows += [_finding(row, on, study.margin) for row in part.findings]
    empty = "There are no findings: not enough trials are valid to compare anything."
    return Table(head, tuple(rows), f"Findings of {study.name}", empty)


def _finding(row: VerdictRow, on: IntervalScale, margin: float) -> tuple[Words, ...]:
    finding, unit = row.finding, row.metric.unit
    return (
        f"{finding.factor}={finding.level}",
        *told(finding),
        Picture(verdict_strip(row, on, margin)),
        (number(row.base, unit), TextSpan(finding.baseline, "small")),
        number(row.value, unit),
        str(finding.n),
    )


def _doubt(group: DoubtGroup, study: StudyResult) -> Callout:
    where: tuple[str | TextSpan, ...] = ("The whole study.",)
    if group.trials:
        trials = words.count(len(group.trials), "trial")
        where = (f"{trials}: ", TextSpan("which", href=f"{study.href}#doubts"), ".")
    said = tuple(Text(what) for what in group.what)
    remedy = Text((f"What to do: {group.advice}. ", *where), "note")
    return Callout(group.check, (*said, remedy), "excluded" if group.invalid else "")


def _written(folders: Sequence[Path], kind: str, base: Path) -> WrittenReport:
    """The document, and the page of each folder that it leads to."""
    sessions: list[SessionFolder] = []
    studies: list[StudyFolder] = []
    judged: list[tuple[str, Judged]] = []
    pages: dict[Path, str | None] = {}
    for folder in dict.fromkeys(folders):
        name = folder.absolute().name
        at = f"{quote(os.path.relpath(folder.absolute(), base))}/"
        page = folder / "report.html"
        if _takes(folder):
            sessions.append(SessionFolder(name, at, _checks(folder, page)))
            pages[page] = None
            continue
        if folder.is_dir() and not (folder / "plan.jsonl").is_file():
            raise UsageError(
                f"{folder} is neither a study's results nor a session of checks: it has no"
                f" plan.jsonl and no {HEADER}",
                advice="Name folders that `iotrial run` and `iotrial check` printed.",
            )
        of = judge(open_results(folder))
        seen = view(of)
        pages[page] = page_of(seen)
        judged.append((name, of))
        studies.append(StudyFolder(name, at, seen))
    all_ = together(sessions, studies)
    if kind == "json":
        return WrittenReport(json_text(data(all_, sessions, judged)) + "\n", pages)
    return WrittenReport((html if kind == "html" else markdown)(document(all_)), pages)


def _takes(folder: Path) -> bool:
    return (folder / HEADER).is_file()


def _checks(folder: Path, page: Path) -> CheckResults:
    """A session; its page is written where the session was killed before it was."""
    whole = checked(folder)
    if not page.exists():
        with writing(page):
            files_of(whole, folder)
    return whole


REPORT = FolderReport(
    "together",
    "functional tests, stress and performance as one page",
    {"html": "html", "md": "md", "json": "json"},
    _takes,
    _written,
    studies=True,
)
