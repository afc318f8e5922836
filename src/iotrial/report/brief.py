"""The answer on one screen: what is told, what is the same, what nobody can tell yet.

Pure: the caller prints.  It is for who sees a report for the first time; all of it is in
:mod:`iotrial.report.text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import Verdict
from iotrial.model.results import Results
from iotrial.report import words
from iotrial.report.layout import paragraphs
from iotrial.report.strip import Scale, ruler, scale, strip
from iotrial.report.view import View

_STRIP = 20
_GROUPS: tuple[tuple[Verdict, str], ...] = (
    ("better", "green"),
    ("worse", "red"),
    ("same", ""),
    ("cannot-tell", "yellow"),
)


def brief(view: View) -> RenderableType:
    """The findings of all workloads by their verdict, within 80 columns."""
    return Group(*paragraphs(_lines(view)))


def _lines(view: View) -> Iterator[RenderableType]:
    rows = list(_rows(view))
    on = scale((row.finding for _, row in rows), view.margin, _STRIP)
    if view.pretended:
        yield Text(words.PRETENDED, style="bold yellow")
    yield Text(view.question, style="bold")
    same = f"Within {words.share(view.margin)} is the same."
    yield Text(f"{'; '.join(_measured(view))}. {same}", style="dim")
    yield Text()
    yield _table(rows, on)
    yield Text()
    for workload, row in rows:
        if told := words.needs(row.finding):
            yield Text(f"{workload}, {row.finding.level}: {told}", style="yellow")
    doubts = words.count(len(view.doubt_groups), "doubt") if view.doubt_groups else "no doubts"
    yield Text(
        f"{words.done(view.counts, view.terms.one)} The intervals are right all together in "
        f"{words.share(view.confidence)} of such studies; {doubts}.",
        style="dim",
    )


def _rows(view: View) -> Iterator[tuple[str, VerdictRow]]:
    """Each comparison once: of a race that its baseline does not lead, both ways are findings."""
    for part in view.parts:
        seen: set[frozenset[str]] = set()
        for row in part.findings:
            pair = frozenset((row.finding.level, row.finding.baseline))
            if pair not in seen:
                yield part.workload, row
            seen.add(pair)


def _table(rows: Sequence[tuple[str, VerdictRow]], on: Scale) -> Table:
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


def _measured(view: View) -> Iterator[str]:
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
