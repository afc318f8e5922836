"""The report on a study, as a document: the order of its sections.

Each section is in the file of what it is about; :mod:`iotrial.report.render` gives all of them a
shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from iotrial.report import (
    boots,
    ceiling,
    effects,
    evidence,
    hosts,
    offered,
    panels,
    races,
    render,
    scaling,
    search,
    staged,
    trials,
    verdicts,
    words,
)
from iotrial.report.blocks import (
    Block,
    Collapsible,
    Column,
    Contents,
    Document,
    Figure,
    Figures,
    Heading,
    Preformatted,
    Row,
    Section,
    ShapeOnly,
    Table,
    Text,
    TextSpan,
)
from iotrial.report.charts import ReportCharts, pictures
from iotrial.report.keepsake import section as keepsake
from iotrial.report.view import ReportView, WorkloadView
from iotrial.units import format_seconds

_LATENCIES = 100


def html(view: ReportView, *, folder: str = "") -> str:
    """The page.  ``folder`` is the way from where it will lie to the results folder, as a relative
    path; empty when it lies in it."""
    return render.html(document(view, pictures(view), folder))


def markdown(view: ReportView) -> str:
    """The report without its charts and without the table of all trials."""
    return render.markdown(document(view, ReportCharts(tuple(() for _ in view.parts))))


def document(view: ReportView, drawn: ReportCharts, folder: str | None = "") -> Document:
    """All of it.  ``drawn`` are its charts; without a ``folder`` (None) nothing links to raw
    files."""
    head, others = words.headline(view.answer)
    asked = view.question or view.study
    first = [Text(line, "lead") for line in others]
    if view.question:
        first.append(Text(f"Question: {view.question}", "question"))
    sections = tuple(_sections(view, drawn, folder))
    return Document(
        title=head,
        head=tuple(first),
        sections=sections,
        foot=_foot(view),
        alert=words.PRETENDED if view.pretended else "",
        name=f"Pretended: {asked}" if view.pretended else asked,
        sortable=True,
    )


def _sections(view: ReportView, drawn: ReportCharts, folder: str | None) -> Iterator[Block]:
    recorded = view.terms is words.RUNS
    grids = panels.section(view.panels, drawn.curves)
    leads = panels.leads(view.panels, view.findings)
    if grids and leads:
        yield grids
    yield Section("", tuple(_first(view, drawn)), "verdicts", "Verdicts")
    if grids and not leads:
        yield grids
    titles = _titles(view)
    yield _contents(view, titles, recorded=recorded)
    for at, part in enumerate(view.parts):
        forest = drawn.forests[at] if drawn.forests else ()
        blocks = tuple(_part(part, view, drawn.parts[at], forest))
        yield Section(titles[at], blocks, f"w{at + 1}")
    yield from _hosts(view)
    yield from boots.section(view.boots)
    if view.latencies:
        yield _latencies(view)
    if doubts := evidence.doubts_section(
        view.doubt_groups, view.terms.one, trials.anchors(view.trials)
    ):
        yield doubts
    yield trials.section(view.trials, view.terms, folder)
    if not recorded:
        yield evidence.settings_section(view.settings)
        yield evidence.machines_section(view.machines)
    yield from view.added
    if kept := keepsake(view.kept):
        yield kept
    yield Section("", tuple(_commands(view, recorded=recorded)), "commands", "Commands")


def _first(view: ReportView, drawn: ReportCharts) -> Iterator[Block]:
    """The answer in numbers, and what it rests on."""
    yield from verdicts.table(view)
    yield from staged.blocks(view.stages, view.choices)
    yield from ceiling.blocks(view.ceiling, drawn.curve)
    yield from search.blocks(view.search, drawn.search)
    yield from verdicts.terms(view, drawn.note)


def _hosts(view: ReportView) -> Iterator[Section]:
    """What each host did and bore: after the charts, which are of all of them."""
    blocks = (
        *hosts.blocks(view.hosts),
        *hosts.of_blocks(view.block_hosts),
        *scaling.borne_tables(view.borne),
    )
    if blocks:
        yield Section("", blocks, "hosts", "Hosts")


def _contents(view: ReportView, titles: Sequence[str], *, recorded: bool) -> Contents:
    places = [("grids", "grids")] if view.panels else []
    places += [(f"w{at}", title) for at, title in enumerate(titles, 1)]
    places += [("hosts", "hosts")] if view.hosts or view.block_hosts or view.borne else []
    places += [("boots", "boots")] if view.boots else []
    places += [("latencies", "latencies")] if view.latencies else []
    places += [("doubts", "doubts")] if view.doubt_groups else []
    places.append(("trials", f"every {view.terms.one}"))
    if recorded:
        return Contents((*places, ("commands", "study file")))
    places += [("settings", "settings"), ("machine", "machine")]
    places += [("keep", "to keep the settings")] if view.kept else []
    return Contents((*places, ("commands", "commands")))


def _titles(view: ReportView) -> list[str]:
    """What each part is called: its workload, with the metric where others of it have parts too."""
    often = Counter(part.workload for part in view.parts)
    return [
        part.workload if often[part.workload] == 1 else f"{part.workload}: {part.metric.title}"
        for part in view.parts
    ]


def _part(
    part: WorkloadView, view: ReportView, figures: tuple[Figure, ...], forest: tuple[str, ...]
) -> Iterator[Block]:
    """One workload: what it was, its charts, and all that was found beside the verdicts."""
    load: list[str | TextSpan] = [part.tool]
    load += [": ", TextSpan(part.options, "code")] if part.options else []
    yield Text(tuple(load), "note")
    for block in verdicts.of_part(part, view):
        yield ShapeOnly("markdown", block)
    if figures:
        yield Figures(figures)
    elif forest:
        yield ShapeOnly("html", Preformatted("\n".join(forest), "forest"))
    else:
        yield ShapeOnly("html", Text("No trial of this workload gave a number to plot."))
    yield from offered.blocks(part)
    yield from scaling.usage_blocks(view.usages_of(part))
    yield from scaling.blocks(part)
    yield from races.blocks(part)
    yield from effects.blocks(part)
    yield from verdicts.guardrails(part, view)
    yield from verdicts.second_family(part, view)
    yield from verdicts.knees_of(part, view)


def _latencies(view: ReportView) -> Section:
    shown = view.latencies[:_LATENCIES]
    more = (
        f" {_LATENCIES} of {len(view.latencies):,} shown; the JSON report has all."
        if len(shown) < len(view.latencies)
        else ""
    )
    head = tuple(
        Column(name, "n" if at > 2 else "")  # noqa: PLR2004 (three texts, then numbers)
        for at, name in enumerate(words.latency_heads(view.latencies))
    )
    rows: tuple[Row, ...] = tuple(words.latency_row(each) for each in shown)
    table = Table(head, rows, "Latencies over all runs")
    title = "Latencies over all runs of a treatment"
    return Section(title, (Text(words.MERGED + more, "note"), table), "latencies")


def _commands(view: ReportView, *, recorded: bool) -> Iterator[Block]:
    if not recorded:
        yield from evidence.commands_blocks(view.commands, view.more_commands)
    if view.study_text:
        yield ShapeOnly("html", Heading("The study file", 2 if recorded else 3))
        digest = f", SHA-256 {view.digest}…" if view.digest else ""
        yield Collapsible(f"{view.study}{digest}", (Preformatted(view.study_text),))


def _foot(view: ReportView) -> str:
    """What was measured, when, and how long it took."""
    said = view.study
    if view.started is not None:
        said += f", measured {datetime.fromtimestamp(view.started, UTC):%Y-%m-%d %H:%M} UTC"
        if view.terms is not words.RUNS:
            said += f", {view.blocks} blocks"
        said += f", {format_seconds(view.seconds)}"
    return f"{said}; load generated by {', '.join(view.tools)}." if view.tools else f"{said}."
