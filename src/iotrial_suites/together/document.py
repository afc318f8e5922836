"""Checks and studies of one matter as a document, each thing beside its evidence.

Its evidence lies beside it: links lead to the pages of the single folders and to the files in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.judgement.parts import VerdictRow
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    Callout,
    Column,
    Contents,
    Document,
    Fold,
    Group,
    Heading,
    Items,
    Picture,
    Row,
    Section,
    Span,
    Table,
    Text,
    Words,
)
from iotrial.report.evidence import DoubtGroup
from iotrial.report.strip import Scale, scale
from iotrial.report.verdicts import STRIP, number, verdict_strip
from iotrial.units import format_change
from iotrial_suites.report.words import state
from iotrial_suites.together.view import HostRow, Measured, Session, Together


def document(all_: Together) -> Document:
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


def _hosts(hosts: Sequence[HostRow]) -> Table:
    head = (Column("host", "head"), Column("system"), Column("packages"), Column("told by"))
    rows = tuple(
        (
            each.host,
            "\n".join(each.about) or "–",
            "\n".join(each.packages) or "–",
            Span(each.told_by, href=each.href),
        )
        for each in hosts
    )
    return Table(head, rows, "Environment", "No folder tells of a machine.")


def _gaps(all_: Together) -> Items:
    whole = "Every suite was run, every case has a result, and every comparison is decided."
    return Items(all_.gaps or (whole,))


def _sessions(sessions: Sequence[Session]) -> Iterator[Block]:
    for each in sessions:
        yield Heading(each.title, 3)
        when = f", {each.when}" if each.when else ""
        said: list[str | Span] = [f"{each.summary}. "]
        said += [f"On {each.hosts}{when}. "] if each.hosts else []
        said += ["All commands with what they said: ", Span(each.name, href=each.href), "."]
        said += [" ", Span(f"Ended early: {each.stopped}.", "worse")] if each.stopped else []
        yield Text(tuple(said), "note")
        yield _cases(each)
    if not sessions:
        yield Text("None was run.")


def _cases(session: Session) -> Table:
    head = (
        *(Column("case", "k"), Column("passes where"), Column("result")),
        *(Column("time", "n"), Column("evidence")),
    )
    rows: tuple[Row, ...] = tuple(
        (
            Span(case.case, href=case.href),
            (case.title, *(Span(line, "small") for line in case.why)),
            state(case.state),
            case.seconds,
            Span("files", href=case.evidence) if case.evidence else "–",
        )
        for case in session.cases
    )
    return Table(head, rows, session.title, "No case has a result.")


def _studies(measured: Sequence[Measured]) -> Iterator[Block]:
    for each in measured:
        yield Heading(each.question or each.name, 3)
        if each.pretended:
            yield Text(words.PRETENDED, "alert")
        yield Text(each.answer)
        when = f" Measured {each.when}." if each.when else ""
        shaded = f". Shaded: changes under {words.share(each.margin)}, which do not matter."
        link = Span(each.name, href=each.href)
        yield Text((f"{each.trials}{when} Every trial with its raw files: ", link, shaded), "note")
        yield _findings(each)
        if each.doubts:
            yield Heading("Doubts", 4)
        yield from (_doubt(group, each) for group in each.doubts)
        if each.method:
            yield Fold("How the intervals were made", (Text(each.method, "note"),))
    if not measured:
        yield Text("Nothing was measured.")


def _findings(study: Measured) -> Table:
    found = [row.finding for part, _ in study.parts for row in part.findings]
    on = scale(found, study.margin, STRIP)
    head = (
        *(Column("level"), Column("verdict"), Column("change (interval)"), Column("", "strip")),
        *(Column("baseline", "n"), Column("this level", "n"), Column("blocks", "n")),
    )
    rows: list[Row | Group] = []
    for part, href in study.parts:
        if part.findings:
            about = (part.metric.title, words.direction(part.metric.higher))
            load = f"{part.tool}; {', '.join(filter(None, about))}"
            rows.append(Group((Span(part.workload, href=href), Span(load, "small"))))
            rows += [_finding(row, on, study.margin) for row in part.findings]
    empty = "There are no findings: not enough trials are valid to compare anything."
    return Table(head, tuple(rows), f"Findings of {study.name}", empty)


def _finding(row: VerdictRow, on: Scale, margin: float) -> tuple[Words, ...]:
    finding, unit = row.finding, row.metric.unit
    needs = words.needs(finding)
    verdict = Span(words.VERDICTS[finding.verdict], f"verdict {finding.verdict}")
    return (
        f"{finding.factor}={finding.level}",
        (verdict, Span(needs, "small")) if needs else verdict,
        (f"{format_change(finding.ratio)} ", Span(f"({words.interval(finding)})", "k")),
        Picture(verdict_strip(row, on, margin)),
        (number(row.base, unit), Span(finding.baseline, "small")),
        number(row.value, unit),
        str(finding.n),
    )


def _doubt(group: DoubtGroup, study: Measured) -> Callout:
    where: tuple[str | Span, ...] = ("The whole study.",)
    if group.trials:
        trials = words.count(len(group.trials), "trial")
        where = (f"{trials}: ", Span("which", href=f"{study.href}#doubts"), ".")
    said = tuple(Text(what) for what in group.what)
    remedy = Text((f"What to do: {group.advice}. ", *where), "note")
    return Callout(group.check, (*said, remedy), "does not count" if group.invalid else "")
