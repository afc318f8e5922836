"""The verdicts: every primary finding with its interval, the guardrails, and what they rest on."""

from __future__ import annotations

import math
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
        yield Text("No findings: too few valid trials for a comparison.")
        return
    yield ShapeOnly("html", _table(view, view.parts, _counted(view), "Verdict table"))


def of_part(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """The same of one workload, where a shape has a table for each."""
    if part.findings:
        yield Text(f"{_about(part)}.")
        if said := averaged(part, view):
            yield Text(sentence(said))
        yield _table(view, (part,), _counted(view), f"Verdicts of {part.workload}")


def _counted(view: ReportView) -> str:
    """What the column of numbers counts."""
    sides = [each.compared for each in view.findings if each.compared]
    if not sides:
        return view.terms.counted
    return "sessions" if sides[0].sessions else "pairs"


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
    drawn = Picture(strip_scale(on[0]), words.ruler(on[1]).replace(" ", "·"))
    head = tuple(
        Column(name, look, drawn if look == "strip" else None)
        for name, look in zip(names, _LOOKS, strict=True)
    )
    return Table(head, tuple(rows), about, look="stacked")


def _group(part: WorkloadView, view: ReportView) -> RowGroup:
    said = (_about(part), averaged(part, view))
    return RowGroup((part.workload, TextSpan("; ".join(filter(None, said)), "small")))


def _about(part: WorkloadView) -> str:
    """``read IOPS, more is better; against none; smallest detectable difference 1.2 %``."""
    metric = ", ".join(filter(None, (part.metric.title, words.direction(part.metric.higher))))
    against = f"against {words.baselines([row.finding for row in part.findings])}"
    return "; ".join(filter(None, (metric, against, races.could_tell(part))))


def _row(
    row: VerdictRow, view: ReportView, on: tuple[IntervalScale, IntervalScale]
) -> tuple[Words, ...]:
    finding, unit = row.finding, row.metric.display_unit
    drawn, written = on
    return (
        view.level(row),
        *told(finding),
        Picture(verdict_strip(row, drawn, view.margin), strip(finding, written).replace(" ", "·")),
        number(row.base, unit),
        number(row.value, unit),
        words.number(finding),
    )


def told(finding: Finding) -> tuple[Words, Words]:
    """The verdict, with what ranks say, and what would tell it where nobody can; and the change
    with its interval."""
    more = "; ".join(filter(None, (words.by_ranks(finding), words.needs(finding))))
    verdict = TextSpan(words.VERDICTS[finding.verdict], f"verdict {finding.verdict}")
    interval = TextSpan(f"({words.interval(finding)})", "k")
    return (
        (verdict, TextSpan(more, "small")) if more else verdict,
        (f"{format_change(finding.ratio)} ", interval),
    )


def guardrails(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """What must not suffer."""
    if not part.guardrails:
        return
    yield Heading("Guardrails: metrics that must not get worse", 3)
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
            number(row.base, row.metric.display_unit),
            number(row.value, row.metric.display_unit),
        )
        for row in part.guardrails
    )
    yield Table(head, rows, f"Guardrails of {part.workload}", look="stacked")


def _held(row: VerdictRow) -> tuple[str, str]:
    return words.guard(row.finding, row.tolerated), words.needs(row.finding)


SECOND = "The second family: other metrics of this load"
"""What heads it, in every shape."""


def second_family(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """What the question does not name, metric by metric."""
    if not part.secondary:
        return
    found = [row.finding for row in part.secondary]
    on = scale(found, view.margin, STRIP), scale(found, view.margin, _CELLS)
    rows: list[Row | RowGroup] = []
    for title in dict.fromkeys(row.metric.title for row in part.secondary):
        own = [row for row in part.secondary if row.metric.title == title]
        said = ", ".join(filter(None, (title, words.direction(own[0].metric.higher))))
        rows += [RowGroup((said, "")), *(_row(row, view, on) for row in own)]
    drawn = Picture(strip_scale(on[0]), words.ruler(on[1]).replace(" ", "·"))
    head = tuple(
        Column(name, look, drawn if look == "strip" else None)
        for name, look in zip((*_HEAD, view.terms.counted), _LOOKS, strict=True)
    )
    yield Heading(SECOND, 3)
    yield Table(head, tuple(rows), f"Second family of {part.workload}", look="stacked")


def knees_of(part: WorkloadView, view: ReportView) -> Iterator[Block]:
    """Where more of an ordered factor gives no more; a page draws it."""
    for line in knees.lines(part, view.margin):
        yield ShapeOnly("markdown", Text(sentence(line)))


def terms(view: ReportView, note: str) -> Iterator[Block]:
    """What the numbers mean and rest on.  ``note`` says what the page lacks ('': nothing)."""
    parts = [part for part in view.parts if part.findings]
    shaded = f"Shaded: equivalence margin ±{words.share(view.margin)}. "
    could = "Smallest detectable difference: 4 of 5 such studies would have shown it."
    able = any(races.could_tell(part).startswith("smallest") for part in view.parts)
    said = (shaded if parts else "") + (could if able else "")
    yield ShapeOnly("html", Text(said.strip(), "note"))
    if note:
        yield ShapeOnly("html", Text(note, "note"))
    done: list[str | TextSpan] = [words.done(view.counts, view.terms.one)]
    if view.doubt_groups:
        many = words.count(len(view.doubt_groups), "doubt")
        done += [" ", TextSpan(many, href="#doubts"), " to read before using these results."]
    if view.tools:
        done.append(f" Measured with {', '.join(view.tools)}.")
    yield Text(tuple(done), "note")
    if view.method:
        method = Text(view.method, "note")
        yield ShapeOnly("html", Collapsible(TextSpan("Method of the intervals", "note"), (method,)))
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
        _across(on, ratio) for ratio in (1 - margin, 1 + margin, *ends, 1.0, finding.ratio)
    )
    return Markup(
        '<svg class="strip {v}" width="{w}" height="18" viewBox="0 0 {w} 18" aria-hidden="true">'
        '<rect class="band" x="{l}" width="{b}" height="18"/>'
        '<path class="none" d="M{n} 0V18"/><path class="line" d="M{a} 9H{z}"/>'
        '<circle cx="{m}" cy="9" r="4.5"/></svg>'
    ).format(
        v=finding.verdict, w=on.width, l=left, b=round(right - left, 1), n=none, a=low, z=high, m=at
    )


def strip_scale(on: IntervalScale) -> Markup:
    """The axis above the strips: changes in %, a few of them."""
    ticks = _ticks((on.low - 1) * 100, (on.high - 1) * 100)
    last = len(ticks) - 1
    marks = Markup("").join(
        Markup('<path class="none" d="M{x} 14V18"/><text x="{x}" y="11">{said}</text>').format(
            x=_across(on, 1 + tick / 100), said=_signed(tick) + (" %" if place == last else "")
        )
        for place, tick in enumerate(ticks)
    )
    return Markup(
        '<svg class="strip axis" width="{w}" height="18" viewBox="0 0 {w} 18" role="img"'
        ' aria-label="Changes from {low} to {high} %">{marks}</svg>'
    ).format(w=on.width, low=words.bare(on.low), high=words.bare(on.high), marks=marks)


def _across(on: IntervalScale, ratio: float) -> float:
    """Pixels from the left of a strip."""
    return round(6 + on.place(ratio) * (on.width - 12), 1)


_STEPS = (1, 2, 5)
_ROOM = 3  # labels that a strip has room for


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, 0 among them where it lies between: as many as have room."""
    power = math.floor(math.log10(high - low)) - 1
    steps = (step * 10.0**at for at in (power, power + 1, power + 2) for step in _STEPS)
    ranges = ((step, math.ceil(low / step), math.floor(high / step)) for step in steps)
    step, first, last = next(each for each in ranges if each[2] - each[1] < _ROOM)
    return [step * number for number in range(first, last + 1)]


def _signed(tick: float) -> str:
    return f"{tick:+g}".replace("-", "−") if tick else "0"
