"""Text: the verdicts on a terminal of any width, with or without colour; and in brief,
for who sees a report for the first time.

Pure: the caller prints.  Names are put in as plain text, never as Rich markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import Verdict
from iotrial.model.results import Results
from iotrial.report import (
    ceiling,
    differing,
    effects,
    hosts,
    knees,
    offered,
    panels,
    races,
    scaling,
    staged,
    words,
)
from iotrial.report.evidence import DoubtGroup
from iotrial.report.layout import TextLine, TextTable, paragraphs
from iotrial.report.verdicts import SECOND, averaged
from iotrial.report.view import ReportView, WorkloadView
from iotrial.report.words import IntervalScale, ruler, scale, strip

_GAP = 3
"""Cells between two columns."""
_STRIP = 20
_NARROW = 10
"""A strip of less shows nothing: there is none then."""
_CHANGE = 22
_VERDICT = 11
_NAMED = 6
_FEW = 6
"""Columns of a grid up to which its rows are named in full."""
_WITH_UNITS = 5
"""Columns up to which each cell has its unit: six of them are wider than a terminal."""
_MOST = 24
"""Lines on what is needed."""
_STYLES: dict[Verdict, str] = {
    "better": "bold green",
    "worse": "bold red",
    "same": "bold",
    "cannot-tell": "yellow",
}


@dataclass(frozen=True, slots=True)
class _Room:
    """Widths in cells, alike for all tables of a report; a strip of 0: there is none."""

    level: int
    change: int
    n: int
    strip: int


def verdict_table(view: ReportView) -> RenderableType:
    """The answer, a table of verdicts per workload, what they rest on, and the doubts."""
    return _Report(view)


@dataclass(frozen=True, slots=True)
class _Report:
    """As wide as what it is rendered for."""

    view: ReportView

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        view, room = self.view, _room(self.view, options.max_width)
        on = scale((f for f in view.findings if f.primary), view.margin, room.strip or _STRIP)
        yield from paragraphs(_lines(view, on, room))


def _room(view: ReportView, width: int) -> _Room:
    """Numbers have what they need; of what is left the levels' names have first, then the strip."""
    rows = [row for part in view.parts for row in part.findings]
    change = max([_CHANGE, *(len(words.numbers(row.finding)) for row in rows)])
    n = max([1, *(len(words.number(row.finding)) for row in rows)])
    level = max([len("level"), *(cell_len(view.level(row)) for row in rows)])
    left = width - change - n - _VERDICT - 3 * _GAP
    strip = min(_STRIP, left - _GAP - level)
    return _Room(level, change, n, strip if strip >= _NARROW else 0)


def _lines(view: ReportView, on: IntervalScale, room: _Room) -> Iterator[RenderableType]:
    if view.pretended:
        yield Text(words.PRETENDED, style="bold yellow")
    head, others = words.headline(view.answer)
    yield Text(head, style="bold")
    yield from map(Text, others)
    yield Text()
    yield from _of_differences(view)
    first = panels.leads(view.panels, view.findings)
    if first:
        yield from _of_grids(view)
    for part in view.parts:
        if part.findings:
            yield _heading(part)
            if said := averaged(part, view):
                yield Text(said, style="yellow")
            yield from map(Text, offered.line(part))
            yield _table(part, view, on, room)
            yield from _by_ranks(part, view)
            yield from _needed(part, view)
            yield from _scaling(part)
            yield from _guardrails(part)
            yield from map(Text, knees.lines(part, view.margin))
            yield from _of_factors(part)
            yield from _race(part)
            yield from _second_family(part, view)
            yield from _usage(part, view)
            if part.others:
                names = dict.fromkeys(row.finding.metric for row in part.others)
                yield Text(f"other metrics: {words.some(list(names), _NAMED)}", style="dim")
            yield Text()
    if not first:
        yield from _of_grids(view)
    yield from _of_stages(view)
    yield from _of_ceiling(view)
    yield from _of_hosts(view)
    yield from _of_blocks(view)
    yield from _of_borne(view)
    yield Text(_terms(view), style="dim")
    for group in view.doubt_groups:
        yield Text()
        yield from _doubt(group, view.terms.one)


def _of_differences(view: ReportView) -> Iterator[RenderableType]:
    """What two folders differ in besides their numbers, before anybody reads these."""
    if view.differences is None:
        return
    table = TextTable(show_header=False)
    for cells in differing.rows(view.differences):
        table.add_row(*cells)
    yield Text(differing.TITLE if view.differences else differing.NOTHING, style="bold")
    if view.differences:
        yield table
    yield Text()


def _heading(part: WorkloadView) -> Text:
    baselines = words.baselines([row.finding for row in part.findings])
    said = [part.metric.title, words.direction(part.metric.higher), f"against {baselines}"]
    said.append(races.could_tell(part))
    heading = Text(part.workload, style="bold")
    return heading.append("  " + ", ".join(filter(None, said)), style="not bold")


def _table(part: WorkloadView, view: ReportView, on: IntervalScale, room: _Room) -> TextTable:
    table = TextTable(ruled=True, show_header=True)
    table.add_column("level", no_wrap=True, min_width=room.level)
    table.add_column("change in % (interval)", no_wrap=True, min_width=room.change)
    table.add_column("verdict", no_wrap=True, min_width=_VERDICT)
    table.add_column("n", justify="right", no_wrap=True, min_width=room.n)
    if room.strip:
        table.add_column(Text(ruler(on)), no_wrap=True, min_width=on.width)
    for row in part.findings:
        finding = row.finding
        style = _STYLES[finding.verdict]
        drawn = [Text(strip(finding, on), style=style.removeprefix("bold "))] if room.strip else []
        table.add_row(
            Text(view.level(row)),
            Text(words.numbers(finding)),
            Text(words.VERDICTS[finding.verdict], style=style),
            words.number(finding),
            *drawn,
        )
    return table


def _of_grids(view: ReportView) -> Iterator[RenderableType]:
    """Two numeric factors that are crossed: every cell, and the best of them."""
    those = panels.shown(view.panels, panels.SHORT)
    for panel in those:
        few = len(panel.grid.columns) <= _FEW
        units = len(panel.grid.columns) <= _WITH_UNITS and not panels.repeated(panel)
        about = panel.about + (f"; in {panel.unit}" if panel.unit and not units else "")
        yield Text(panel.title, style="bold").append(f"  {about}", style="not bold")
        corner, *columns = panels.heads(panel)
        table = TextTable(ruled=few, show_header=True)
        table.add_column(corner)
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
        for row, cells in panels.rows(panel, units=units):
            shown = (Text(text, style="bold" if best else "") for text, best in cells)
            table.add_row(Text(f"{panel.grid.down} {row}" if few else row), *shown)
        yield table
        yield from map(Text, panels.lines(panel))
        yield Text()
    if more := panels.left(view.panels, those):
        yield Text(more, style="dim")
        yield Text()


def _by_ranks(part: WorkloadView, view: ReportView) -> Iterator[RenderableType]:
    """What ranks say beside the intervals, level by level."""
    told = [
        f"{view.level(row)} {words.by_ranks(row.finding).removeprefix(words.RANKS)}"
        for row in part.findings
        if row.finding.ranks
    ]
    if told:
        yield TextLine(f"{words.RANKS}{', '.join(told)}", 3)


def _needed(part: WorkloadView, view: ReportView) -> Iterator[RenderableType]:
    """What each comparison needs that nobody can tell yet."""
    told = [(row, words.needs(row.finding)) for row in part.findings]
    open_ = [f"{view.level(row)}: {needs}" for row, needs in told if needs]
    yield from (Text(line, style="yellow") for line in open_[:_MOST])
    if len(open_) > _MOST:
        yield Text(f"and {len(open_) - _MOST} more like these", style="yellow")


def _of_factors(part: WorkloadView) -> Iterator[RenderableType]:
    """Interactions, what explains the variation, and what is best in two things at once."""
    if part.interactions:
        yield Text(effects.counted(part))
        table = TextTable(ruled=True, show_header=True)
        table.add_column("interaction", overflow="fold")
        table.add_column("% (interval)", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        for each in effects.listed(part):
            if each.verdict == "differs":
                named = effects.name(each)
                named += f" (or {effects.beside(each)})" if each.beside else ""
                numbers = f"{words.bare(each.ratio)} ({effects.interval(each)})"
                table.add_row(Text(named), Text(numbers), effects.LIKENESS[each.verdict])
        if table.row_count:
            yield table
    if part.shares:
        yield Text(f"variation explained: {effects.explained(part.shares)}")
    yield from map(Text, effects.fronts(part))


def _ruled(head: Sequence[str], rows: Iterable[Sequence[str]]) -> TextTable:
    table = TextTable(*head, ruled=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _of_hosts(view: ReportView) -> Iterator[RenderableType]:
    """What each host of several contributed."""
    if not view.hosts:
        return
    yield Text("Hosts", style="bold")
    yield _ruled(hosts.HEAD, hosts.lines(view.hosts))
    yield Text()


def _of_blocks(view: ReportView) -> Iterator[RenderableType]:
    """Where each block ran, where they are spread over hosts."""
    if not view.block_hosts:
        return
    yield Text(hosts.BLOCK_TITLE, style="bold")
    yield _ruled(hosts.BLOCK_HEAD, hosts.block_rows(view.block_hosts))
    yield Text()


def _of_stages(view: ReportView) -> Iterator[RenderableType]:
    """What each stage kept and why; at last what is in use against what was chosen."""
    if not view.stages:
        return
    yield Text("Stages", style="bold")
    for row in view.stages:
        yield Text(f"{row.number}  {row.title}: {row.done}")
        yield from (TextLine(line, 3) for line in row.lines)
    yield Text()
    yield Text("Current against new", style="bold")
    table = TextTable(*staged.CHOICE, ruled=True)
    for choice in view.choices:
        style = "bold" if choice.new != choice.current else ""
        table.add_row(*(Text(cell, style=style) for cell in staged.cells(choice)))
    yield table
    yield Text()


def _of_ceiling(view: ReportView) -> Iterator[RenderableType]:
    """The latency-against-load curve of a search for the highest value."""
    if not view.ceiling or not view.ceiling.points:
        return
    yield Text("Latency against load", style="bold")
    table = TextTable(*ceiling.HEAD, ruled=True)
    for row in ceiling.rows(view.ceiling):
        table.add_row(*(Text(cell, style="bold" if row[-1] else "") for cell in row))
    yield table
    yield Text()


def _race(part: WorkloadView) -> Iterator[RenderableType]:
    """Who went when, and with how many trials."""
    if part.race is None or not part.race.looks:
        return
    table = TextTable(ruled=True, show_header=True)
    for head in races.HEADS:
        number = head in {"after block", "trials"}
        table.add_column(
            head,
            overflow="fold",
            no_wrap=head != "treatment",
            justify="right" if number else "left",
        )
    for row in races.rows(part.race, races.MOST):
        table.add_row(*map(Text, row))
    yield Text()
    yield table


def _scaling(part: WorkloadView) -> Iterator[RenderableType]:
    """Each step of a factor that counts, and what was seen then."""
    if not part.scaling:
        return
    yield Text("Scaling")
    yield _ruled(scaling.HEAD, map(scaling.cells, part.scaling))


def _of_borne(view: ReportView) -> Iterator[RenderableType]:
    """What CPUs, links, adapters, devices and paths bore."""
    for borne in view.borne:
        head = Text("Load distribution", style="bold")
        yield head.append(f"  {borne.workload}, {borne.treatment}", style="not bold")
        yield _ruled(scaling.BORNE_HEAD, scaling.borne_rows(borne))
        if more := scaling.borne_more(borne):
            yield Text(more, style="dim")
        yield Text()


def _guardrails(part: WorkloadView) -> Iterator[RenderableType]:
    for row in part.guardrails:
        yield Text(_guardrail(row))


def _usage(part: WorkloadView, view: ReportView) -> Iterator[RenderableType]:
    """How busy hosts and devices were."""
    if own := view.usages_of(part)[:_MOST]:
        yield Text(scaling.USAGE)
        yield _ruled(*scaling.usage_rows(own))


def _second_family(part: WorkloadView, view: ReportView) -> Iterator[RenderableType]:
    if not part.secondary:
        return
    yield Text(SECOND)
    rows = [
        (
            row.finding.metric,
            view.level(row),
            words.numbers(row.finding),
            words.VERDICTS[row.finding.verdict],
            words.number(row.finding),
        )
        for row in part.secondary
    ]
    yield _ruled(("metric", "level", "change in % (interval)", "verdict", "n"), rows)


def _guardrail(row: VerdictRow) -> str:
    finding = row.finding
    held = words.guard(finding, row.tolerated)
    numbers = f"{words.bare(finding.ratio)} ({words.interval(finding)})"
    said = f"guardrail {finding.metric} {finding.level}: {numbers}, {held}"
    return "; ".join(filter(None, (said, words.needs(finding))))


def _terms(view: ReportView) -> str:
    counts = view.counts
    trials = [f"{words.count(counts.valid, view.terms.one)} valid"]
    trials += [f"{counts.invalid:,} INVALID"] if counts.invalid else []
    trials += [f"{counts.failed:,} failed"] if counts.failed else []
    return " ".join(filter(None, [view.method, ", ".join(trials) + "."]))


def _doubt(group: DoubtGroup, one: str) -> Iterator[RenderableType]:
    where = words.count(len(group.trials), one) if group.trials else "the whole study"
    mark = ", excluded" if group.invalid else ""
    head = Text("doubt ", style="yellow").append(group.check, style="bold")
    yield head.append(f" ({where}{mark}): " + "; ".join(group.what))
    yield TextLine(f"→ {group.advice}", 2)


# -- in brief -------------------------------------------------------------------------------------

_GROUPS: tuple[tuple[Verdict, str], ...] = (
    ("better", "green"),
    ("worse", "red"),
    ("same", ""),
    ("cannot-tell", "yellow"),
)


def brief(view: ReportView) -> RenderableType:
    """The findings of all workloads by their verdict, within 80 columns."""
    return Group(*paragraphs(_brief_lines(view)))


def _brief_lines(view: ReportView) -> Iterator[RenderableType]:
    rows = list(_rows(view))
    on = scale((row.finding for _, row in rows), view.margin, _STRIP)
    if view.pretended:
        yield Text(words.PRETENDED, style="bold yellow")
    yield Text(view.question, style="bold")
    same = f"Equivalence margin ±{words.share(view.margin)}."
    yield Text(f"{'; '.join(_measured(view))}. {same}", style="dim")
    yield Text()
    yield _brief_table(rows, on)
    yield Text()
    for workload, row in rows:
        if told := words.needs(row.finding):
            yield Text(f"{workload}, {row.finding.level}: {told}", style="yellow")
    doubts = words.count(len(view.doubt_groups), "doubt") if view.doubt_groups else "no doubts"
    yield Text(
        f"{words.done(view.counts, view.terms.one)} Simultaneous confidence"
        f" {words.share(view.confidence)}; {doubts}.",
        style="dim",
    )


def _rows(view: ReportView) -> Iterator[tuple[str, VerdictRow]]:
    """Each comparison once: of a race that its baseline does not lead, both ways are findings."""
    for part in view.parts:
        seen: set[frozenset[str]] = set()
        for row in part.findings:
            pair = frozenset((row.finding.level, row.finding.baseline))
            if pair not in seen:
                yield part.workload, row
            seen.add(pair)


def _brief_table(rows: Sequence[tuple[str, VerdictRow]], on: IntervalScale) -> Table:
    """One table for all, so that the columns of all groups are alike."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("load", "setting", "change in % (interval)"):
        table.add_column(title, no_wrap=title != "setting", overflow="fold")
    table.add_column(Text(ruler(on)), no_wrap=True, width=on.width)
    usual = rows[0][1].finding.baseline if rows else ""
    for verdict, style in _GROUPS:
        found = [(load, row.finding) for load, row in rows if row.finding.verdict == verdict]
        if found:
            table.add_row(Text(words.VERDICTS[verdict], style=f"bold {style}"))
        for load, finding in found:
            name = finding.level
            name += f" against {finding.baseline}" if finding.baseline != usual else ""
            drawn = Text(strip(finding, on), style=style)
            table.add_row(Text(f"  {load}"), Text(name), Text(words.numbers(finding)), drawn)
    return table


def _measured(view: ReportView) -> Iterator[str]:
    """``sequential: read bandwidth, more is better, against as found``."""
    for part in view.parts:
        if part.findings:
            baselines = words.baselines([row.finding for row in part.findings])
            said = (part.metric.title, words.direction(part.metric.higher), f"against {baselines}")
            yield f"{part.workload}: {', '.join(filter(None, said))}"


def changes(results: Results) -> str:
    """What the trials did to settings, in words: which, and how often; empty for nothing."""
    held = [record.before for record in results.records if record.before]
    seen: dict[tuple[str, str], set[str]] = {}
    for device, tunable, value in (each for settings in held for each in settings):
        seen.setdefault((device, tunable), set()).add(value)
    varied = [f"{name} of {device}" for (device, name), values in seen.items() if len(values) > 1]
    times = sum(len(set(after) - set(before)) for before, after in pairwise(held))
    if not varied:
        return ""
    often = words.count(times, "time")
    return f"changed {often}, read back before and after each load: {', '.join(varied)}"
