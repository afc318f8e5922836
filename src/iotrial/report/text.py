"""Text: the verdicts on a terminal, within 80 columns, with or without colour.

Pure: the caller prints.  Names are put in as plain text, never as Rich markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iotrial.model.finding import Verdict
from iotrial.report import effects, words
from iotrial.report.evidence import DoubtGroup
from iotrial.report.strip import Scale, ruler, scale, strip
from iotrial.report.view import Part, VerdictRow, View
from iotrial.stats.scaling import scaling

_STRIP = 20
_LEVEL = 17
_CHANGE = 22
_VERDICT = 11
_NAMED = 6
_STYLES: dict[Verdict, str] = {
    "better": "bold green",
    "worse": "bold red",
    "same": "bold",
    "cannot-tell": "yellow",
}


def verdict_table(view: View) -> RenderableType:
    """The answer, a table of verdicts per workload, what they rest on, and the doubts."""
    on = scale((f for f in view.findings if f.primary), view.margin, _STRIP)
    return Group(*_lines(view, on))


def _lines(view: View, on: Scale) -> Iterator[RenderableType]:
    head, others = words.headline(view.answer)
    yield Text(head, style="bold")
    yield from map(Text, others)
    yield Text()
    for part in view.parts:
        if part.findings:
            yield _heading(part)
            yield _table(part, view, on)
            yield from _scaling(part)
            yield from _guardrails(part)
            yield from _of_factors(part)
            if part.others:
                names = dict.fromkeys(row.finding.metric for row in part.others)
                yield Text(f"beside it: {words.some(list(names), _NAMED)}", style="dim")
            yield Text()
    yield Text(_terms(view), style="dim")
    for group in view.doubt_groups:
        yield Text()
        yield from _doubt(group, view.terms.one)


def _heading(part: Part) -> Text:
    baselines = words.baselines([row.finding for row in part.findings])
    said = [part.metric.title, words.direction(part.metric.higher), f"against {baselines}"]
    if part.resolvable is not None:
        said.append(f"could tell from {words.share(part.resolvable)}")
    heading = Text(part.workload, style="bold")
    return heading.append("  " + ", ".join(filter(None, said)), style="not bold")


def _table(part: Part, view: View, on: Scale) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    longest = max(len(_name(row, view)) for every in view.parts for row in every.findings)
    table.add_column("level", width=min(_LEVEL, max(longest, len("level"))), overflow="fold")
    table.add_column("change in % (interval)", no_wrap=True, min_width=_CHANGE)
    table.add_column("verdict", no_wrap=True, width=_VERDICT)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column(Text(ruler(on)), no_wrap=True, width=on.width)
    for row in part.findings:
        finding = row.finding
        style = _STYLES[finding.verdict]
        table.add_row(
            Text(_name(row, view)),
            Text(f"{words.bare(finding.ratio)} ({words.interval(finding)})"),
            Text(words.VERDICTS[finding.verdict], style=style),
            str(finding.n),
            Text(strip(finding, on), style=style.removeprefix("bold ")),
        )
    return table


def _of_factors(part: Part) -> Iterator[RenderableType]:
    """Interactions, what explains the variation, and what is best in two things at once."""
    if part.interactions:
        yield Text(effects.counted(part))
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
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


def _name(row: VerdictRow, view: View) -> str:
    several = len({finding.factor for finding in view.findings}) > 1
    return f"{row.finding.factor}={row.finding.level}" if several else row.finding.level


def _scaling(part: Part) -> Iterator[Text]:
    told = [
        f"{row.finding.level}: {scale.efficiency:.3f}"
        for row in part.findings
        if (scale := scaling(row.finding))
    ]
    if told:
        yield Text(f"scaling efficiency {', '.join(told)}")


def _guardrails(part: Part) -> Iterator[RenderableType]:
    for row in part.guardrails:
        yield Text(_guardrail(row))


def _guardrail(row: VerdictRow) -> str:
    finding = row.finding
    held = words.guard(finding, row.tolerated)
    numbers = f"{words.bare(finding.ratio)} ({words.interval(finding)})"
    return f"guardrail {finding.metric} {finding.level}: {numbers}, {held}"


def _terms(view: View) -> str:
    counts = view.counts
    trials = [f"{words.count(counts.valid, view.terms.one)} count"]
    trials += [f"{counts.invalid:,} INVALID"] if counts.invalid else []
    trials += [f"{counts.failed:,} failed"] if counts.failed else []
    return " ".join(filter(None, [view.method, ", ".join(trials) + "."]))


def _doubt(group: DoubtGroup, one: str) -> Iterator[RenderableType]:
    where = words.count(len(group.trials), one) if group.trials else "the whole study"
    mark = " does not count" if group.invalid else ""
    head = Text("doubt ", style="yellow").append(group.check, style="bold")
    yield head.append(f" ({where}{mark and ', which' + mark}): " + "; ".join(group.what))
    yield Padding(Text(f"→ {group.advice}"), (0, 0, 0, 2))
