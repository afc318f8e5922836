"""Checks and studies as one Markdown document.  Tables as GitHub reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.judgement.parts import VerdictRow
from iotrial.report import words
from iotrial.report.markdown import escape
from iotrial.report.together.view import HostRow, Measured, Session, Together
from iotrial.report.view import Part
from iotrial.units import format_value

_BAD = ("fail", "known failure")


def markdown(all_: Together) -> str:
    """The document."""
    return "\n".join(_lines(all_)).rstrip() + "\n"


def _lines(all_: Together) -> Iterator[str]:
    yield f"# {escape(all_.title)}"
    for sentence in all_.leads:
        yield from ("", escape(sentence))
    yield from ("", "## 1 Environment and packages", "")
    head = ("host", "system", "packages", "told by")
    yield from _table(head, [_host(each) for each in all_.hosts])
    for title, sessions in (
        ("2 Functional tests", all_.functional),
        ("3 Stress tests", all_.stress),
    ):
        yield from ("", f"## {title}")
        for each in sessions:
            yield from _session(each)
        if not sessions:
            yield from ("", "None was run.")
    yield from ("", "## 4 Performance")
    for study in all_.measured:
        yield from _study(study)
    if not all_.measured:
        yield from ("", "Nothing was measured.")
    yield from ("", "## 5 What this does not show", "")
    yield from (f"- {escape(gap)}" for gap in all_.gaps or ("Nothing that was asked for.",))


def _host(each: HostRow) -> tuple[str, ...]:
    about, packages = ("<br>".join(map(escape, said)) for said in (each.about, each.packages))
    return escape(each.host), about, packages or "–", _link(each.told_by, each.href)


def _session(each: Session) -> Iterator[str]:
    yield from ("", f"### {escape(each.title)}", "")
    where = f" On {escape(each.hosts)}." if each.hosts else ""
    stopped = f" **Ended early: {escape(each.stopped)}.**" if each.stopped else ""
    yield f"{escape(each.summary)}.{where} {_link(each.name, each.href)}.{stopped}"
    yield ""
    rows = [
        (
            _link(case.case, case.href),
            "<br>".join(map(escape, (case.title, *case.why))),
            f"**{case.state}**" if case.state in _BAD else case.state,
            case.seconds,
            _link("files", case.evidence) if case.evidence else "–",
        )
        for case in each.cases
    ]
    if rows:
        yield from _table(("case", "passes where", "result", "time", "evidence"), rows)


def _study(study: Measured) -> Iterator[str]:
    yield from ("", f"### {escape(study.question or study.name)}", "", escape(study.answer), "")
    if study.pretended:
        yield from (f"> **{words.PRETENDED}**", "")
    yield f"{escape(study.trials)} {_link(study.name, study.href)}."
    yield ""
    head = ("workload", "level", "verdict", "change (interval)", "baseline", "this level", "blocks")
    rows = [_row(part, href, row) for part, href in study.parts for row in part.findings]
    yield from _table(head, rows)
    for group in study.doubts:
        invalid = " (does not count)" if group.invalid else ""
        what = "; ".join(map(escape, group.what))
        yield from ("", f"- **{escape(group.check)}**{invalid}: {what}. {escape(group.advice)}.")


def _row(part: Part, href: str, row: VerdictRow) -> tuple[str, ...]:
    finding, unit = row.finding, row.metric.unit
    base, value = (
        "–" if number is None else escape(format_value(number, unit))
        for number in (row.base, row.value)
    )
    verdict = words.verdict(finding)
    return (
        _link(part.workload, href),
        escape(f"{finding.factor}={finding.level}"),
        verdict if finding.verdict in ("same", "cannot-tell") else f"**{verdict}**",
        words.change(finding),
        f"{base} ({escape(finding.baseline)})",
        value,
        str(finding.n),
    )


def _link(text: str, href: str) -> str:
    return f"[{escape(text)}](<{href}>)"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
