"""The verdicts: every primary finding with its interval, the guardrails, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import Finding
from iotrial.report import knees, panels, races, words
from iotrial.report.blocks import (
    Block,
    Collapsible,
    Column,
    Heading,
    Picture,
    Row,
    RowGroup,
    ShapeOnly,
    Table,
    Text,
    TextSpan,
    Words,
    sentence,
)
from iotrial.report.view import ReportView, WorkloadView
from iotrial.report.words import IntervalScale, scale, strip
from iotrial.units import format_change, format_value

STRIP = 180  # pixels
_CELLS = 23
_HEAD = ("level", "verdict", "change (interval)", "", "baseline", "this level")
_LOOKS = ("", "", "", "strip", "n", "n", "n")


def table(view: ReportView) -> Iterator[Block]:
    """One table of all workloads."""
    if not any(part.findings for part in view.parts):
        yield Text("There are no findings: not enough trials are valid to compare anything.")
        return
    yield ShapeOnly("html", _table(view, view.parts, view.terms.counted, "Verdict table"))


def of_part(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """The same of one workload, where a shape has a table for each."""
    if part.findings:
        yield Text(f"{_about(part)}.")
        if said := averaged(part, view):
            yield Text(sentence(said))
        yield _table(view, (part,), view.terms.counted, f"Verdicts of {part.workload}")


def _table(view: ReportView, parts: Sequence[WorkloadView], counted: str, about: str) -> Table:
    """Of several workloads, each is a group."""
    found = [finding for finding in view.findings if finding.primary]
    on = scale(found, view.margin, STRIP), scale(view.findings, view.margin, _CELLS)
    rows: list[Row | RowGroup] = []
    for part in parts:
        if (part.findings and len(parts) != 1) or parts is view.parts:
            rows += [_group(part, view)] if part.findings else []
        rows += [_row(row, view, on) for row in part.findings]
    names = (*_HEAD, counted)
    head = tuple(Column(name, look) for name, look in zip(names, _LOOKS, strict=True))
    return Table(head, tuple(rows), about)


def _group(part: WorkloadView, view: ReportView) -> RowGroup:
    said = (_about(part), averaged(part, view))
    return RowGroup((part.workload, TextSpan("; ".join(filter(None, said)), "small")))


def _about(part: WorkloadView) -> str:
    """``read IOPS, more is better; against none; could tell from 1.2 %``."""
    metric = ", ".join(filter(None, (part.metric.title, words.direction(part.metric.higher))))
    against = f"against {words.baselines([row.finding for row in part.findings])}"
    return "; ".join(filter(None, (metric, against, races.could_tell(part))))


def _row(
    row: VerdictRow, view: ReportView, on: tuple[IntervalScale, IntervalScale]
) -> tuple[Words, ...]:
    finding, unit = row.finding, row.metric.unit
    drawn, written = on
    return (
        view.level(row),
        *told(finding),
        Picture(verdict_strip(row, drawn, view.margin), strip(finding, written).replace(" ", "·")),
        number(row.base, unit),
        number(row.value, unit),
        str(finding.n),
    )


def told(finding: Finding) -> tuple[Words, Words]:
    """The verdict, with what would tell it where nobody can; and the change with its interval."""
    needs = words.needs(finding)
    verdict = TextSpan(words.VERDICTS[finding.verdict], f"verdict {finding.verdict}")
    interval = TextSpan(f"({words.interval(finding)})", "k")
    return (
        (verdict, TextSpan(needs, "small")) if needs else verdict,
        (f"{format_change(finding.ratio)} ", interval),
    )


def guardrails(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """What must not suffer."""
    if not part.guardrails:
        return
    yield Heading("Guardrails: what must not suffer", 3)
    head = (
        *(Column("metric"), Column("level"), Column("tolerated", "k")),
        *(Column("change (interval)", "k"), Column("baseline", "n"), Column("this level", "n")),
    )
    rows: tuple[Row, ...] = tuple(
        (
            row.metric.title,
            view.level(row),
            "\n".join(filter(None, _held(row))),
            words.change(row.finding),
            number(row.base, row.metric.unit),
            number(row.value, row.metric.unit),
        )
        for row in part.guardrails
    )
    yield Table(head, rows, f"Guardrails of {part.workload}")


def _held(row: VerdictRow) -> tuple[str, str]:
    return words.guard(row.finding, row.tolerated), words.needs(row.finding)


def knees_of(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """Where more of an ordered factor gives no more; a page draws it."""
    for line in knees.lines(part, view.margin):
        yield ShapeOnly("markdown", Text(sentence(line)))


def terms(view: ReportView, note: str) -> Iterator[Block]:
    """What the numbers mean and rest on.  ``note`` says what the page lacks ('': nothing)."""
    parts = [part for part in view.parts if part.findings]
    shaded = f"Shaded: changes under {words.share(view.margin)}, which do not matter. "
    could = "“Could tell from”: the smallest difference these trials would have shown."
    able = any(races.could_tell(part).startswith("could") for part in view.parts)
    said = (shaded if parts else "") + (could if able else "")
    yield ShapeOnly("html", Text(said.strip(), "note"))
    if note:
        yield ShapeOnly("html", Text(note, "note"))
    done: list[str | TextSpan] = [words.done(view.counts, view.terms.one)]
    if view.doubt_groups:
        many = words.count(len(view.doubt_groups), "doubt")
        done += [" ", TextSpan(many, href="#doubts"), " to read before believing this."]
    if view.tools:
        done.append(f" Measured with {', '.join(view.tools)}.")
    yield Text(tuple(done), "note")
    if view.method:
        method = Text(view.method, "note")
        yield ShapeOnly(
            "html", Collapsible(TextSpan("How the intervals were made", "note"), (method,))
        )
        yield ShapeOnly("markdown", method)


def averaged(part: WorkloadView, view: ReportView) -> str:
    """What to think of averaged effects that grids contradict."""
    factors = [row.finding.factor for row in part.findings]
    return panels.averaged(view.panels, part.workload, factors)


def number(value: float | None, unit: str) -> str:
    return "–" if value is None else format_value(value, unit)


def verdict_strip(row: VerdictRow, on: IntervalScale, margin: float) -> Markup:
    """The interval beside its numbers, drawn with the sheet's colours; all strips on one scale."""
    finding = row.finding
    ends = [finding.ratio if end is None else end for end in (finding.low, finding.high)]
    left, right, low, high, none, at = (
        round(6 + on.place(ratio) * (on.width - 12), 1)
        for ratio in (1 - margin, 1 + margin, *ends, 1.0, finding.ratio)
    )
    return Markup(
        '<svg class="strip {v}" width="{w}" height="18" viewBox="0 0 {w} 18" aria-hidden="true">'
        '<rect class="band" x="{l}" width="{b}" height="18"/>'
        '<path class="none" d="M{n} 0V18"/><path class="line" d="M{a} 9H{z}"/>'
        '<circle cx="{m}" cy="9" r="4.5"/></svg>'
    ).format(
        v=finding.verdict, w=on.width, l=left, b=round(right - left, 1), n=none, a=low, z=high, m=at
    )
