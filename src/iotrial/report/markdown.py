"""Markdown: the report for an issue, a merge request or a wiki.  Tables as GitHub reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iotrial.judgement.parts import VerdictRow
from iotrial.report import (
    block_hosts,
    ceiling,
    effects,
    hosts,
    knees,
    panels,
    races,
    scaling,
    staged,
    strains,
    words,
)
from iotrial.report.evidence import DoubtGroup
from iotrial.report.keepsake import Keepsake
from iotrial.report.render.markdown import code, escape
from iotrial.report.strip import Scale, scale, strip
from iotrial.report.view import Part, View
from iotrial.units import format_value

_STRIP = 23
_MOST = 100  # latencies


def markdown(view: View) -> str:
    """The whole report, without charts: answer, verdicts, doubts, settings, machine, commands."""
    return "\n".join(line for block in _blocks(view) for line in (*block, "")).rstrip() + "\n"


def _blocks(view: View) -> Iterator[list[str]]:
    head, others = words.headline(view.answer)
    if view.pretended:
        yield [f"> **{words.PRETENDED}**"]
    yield [f"# {escape(head)}"]
    for sentence in others:
        yield [escape(sentence)]
    if view.question:
        yield [f"Asked: {escape(view.question)}"]
    yield from _verdicts(view)
    yield from _stages(view)
    if view.ceiling and view.ceiling.points:
        yield ["## Latency against load"]
        yield _table(ceiling.HEAD, [tuple(map(escape, r)) for r in ceiling.rows(view.ceiling)])
    yield from _hosts(view)
    yield from _borne(view)
    yield from _latencies(view)
    yield [_method(view)]
    if view.doubt_groups:
        yield ["## Doubts"]
        yield [_doubt(group) for group in view.doubt_groups]
    yield from _evidence(view)
    if view.kept is not None:
        yield from _kept(view.kept)


def _verdicts(view: View) -> Iterator[list[str]]:
    first = panels.leads(view.panels, view.findings)
    if first:
        yield from _grids(view)
    on = scale(view.findings, view.margin, _STRIP)
    for part in view.parts:
        if part.findings:
            yield from _part(part, view, on)
    if not first:
        yield from _grids(view)


def _stages(view: View) -> Iterator[list[str]]:
    if not view.stages:
        return
    yield ["## Stages"]
    rows = [(str(r.number), escape(r.title), r.done, "<br>".join(map(escape, r.lines)) or "–")
            for r in view.stages]  # fmt: skip
    yield _table(("", "stage", "trials", "what came of it"), rows)
    yield ["## Current against new"]
    yield _table(staged.CHOICE, [tuple(map(escape, staged.cells(c))) for c in view.choices])


def _borne(view: View) -> Iterator[list[str]]:
    for borne in view.borne:
        yield [f"## Where the load went: {escape(borne.workload)}, {escape(borne.treatment)}"]
        yield _table(strains.HEAD, [tuple(map(escape, row)) for row in strains.rows(borne)])
        if more := strains.more(borne):
            yield [more]


def _grids(view: View) -> Iterator[list[str]]:
    those = panels.shown(view.panels)
    for panel in those:
        yield [f"## {escape(panel.title)}: the grid"]
        yield [f"{escape(panel.about)}."]
        rows = [
            (
                f"**{row}**",
                *(f"**{escape(text)}**" if best else escape(text) for text, best in cells),
            )
            for row, cells in panels.rows(panel)
        ]
        yield _table(tuple(map(escape, panels.heads(panel))), rows)
        for line in panels.lines(panel):
            yield [f"{escape(line[:1].upper() + line[1:])}."]
    if more := panels.left(view.panels, those):
        yield [f"{escape(more[:1].upper() + more[1:])}."]


def _part(part: Part, view: View, on: Scale) -> Iterator[list[str]]:
    said = [escape(part.metric.title), words.direction(part.metric.higher)]
    said.append(races.could_tell(part))
    yield [f"## {escape(part.workload)}"]
    yield [", ".join(filter(None, said)) + "."]
    factors = [row.finding.factor for row in part.findings]
    if averaged := panels.averaged(view.panels, part.workload, factors):
        yield [f"{escape(averaged)}."]
    counted = view.terms.counted
    head = ("level", "verdict", "change (interval)", "", "baseline", "this level", counted)
    yield _table(head, [_row(row, view, on) for row in part.findings])
    if part.scaling:
        yield ["How it scales:"]
        yield _table(scaling.HEAD, [tuple(map(escape, scaling.cells(s))) for s in part.scaling])
        yield [scaling.NOTE]
    if part.guardrails:
        guards = ("guardrail", "level", "tolerated", "change (interval)")
        yield _table(guards, [_guardrail(row) for row in part.guardrails])
    for line in knees.lines(part, view.margin):
        yield [f"{escape(line[:1].upper() + line[1:])}."]
    yield from _of_factors(part)
    if part.race is not None and part.race.looks:
        yield ["How the race went:"]
        rows = [tuple(map(escape, row)) for row in races.rows(part.race, races.MOST)]
        yield _table(races.HEADS, rows)
        if changed := races.leading(part.race):
            yield [escape(changed)]


def _of_factors(part: Part) -> Iterator[list[str]]:
    if part.interactions:
        yield [f"{escape(effects.counted(part))}."]
        rows = [
            (
                escape(effects.name(each)),
                effects.LIKENESS[each.verdict],
                effects.change(each),
                escape(effects.beside(each)) or "–",
            )
            for each in effects.listed(part)
        ]
        head = ("interaction", "verdict", "change of the effect (interval)", "cannot be told from")
        yield _table(head, rows)
    if part.shares:
        yield [f"Variation explained: {escape(effects.explained(part.shares))}."]
    for line in effects.fronts(part):
        yield [f"{escape(line[:1].upper() + line[1:])}."]


def _latencies(view: View) -> Iterator[list[str]]:
    if view.latencies:
        shown = view.latencies[:_MOST]
        yield ["## Latencies over all runs of a treatment"]
        yield [words.MERGED]
        rows = [tuple(map(escape, words.latency_row(each))) for each in shown]
        yield _table(words.latency_heads(view.latencies), rows)
        if len(shown) < len(view.latencies):
            yield [f"{len(view.latencies) - len(shown):,} more: `iotrial report --as json`."]


def _row(row: VerdictRow, view: View, on: Scale) -> Sequence[str]:
    finding = row.finding
    several = len({other.factor for other in view.findings}) > 1
    name = f"{finding.factor}={finding.level}" if several else finding.level
    verdict = words.verdict(finding)
    return (
        escape(name),
        verdict if finding.verdict in ("same", "cannot-tell") else f"**{verdict}**",
        words.change(finding),
        code(strip(finding, on).replace(" ", "·")),
        f"{_number(row.base, row.metric.unit)} ({escape(finding.baseline)})",
        _number(row.value, row.metric.unit),
        str(finding.n),
    )


def _guardrail(row: VerdictRow) -> Sequence[str]:
    finding = row.finding
    held = "; ".join(filter(None, (words.guard(finding, row.tolerated), words.needs(finding))))
    return escape(row.metric.title), escape(finding.level), held, words.change(finding)


def _number(value: float | None, unit: str) -> str:
    return "–" if value is None else escape(format_value(value, unit))


def _method(view: View) -> str:
    counts = view.counts
    done = (
        f"{counts.valid:,} valid, {counts.invalid:,} INVALID,"
        f" {counts.failed:,} failed {view.terms.one}s."
    )
    measured = f"Measured with {escape(', '.join(view.tools))}." if view.tools else ""
    return " ".join(filter(None, (escape(view.method), done, measured)))


def _hosts(view: View) -> Iterator[list[str]]:
    if view.hosts:
        yield ["## Hosts"]
        yield _table(hosts.HEAD, [tuple(map(escape, row)) for row in hosts.lines(view.hosts)])
    if view.block_hosts:
        yield [f"## {block_hosts.TITLE}"]
        told = block_hosts.cells(view.block_hosts)
        yield _table(block_hosts.HEAD, [tuple(map(escape, row)) for row in told])


def _doubt(group: DoubtGroup) -> str:
    where = words.some(group.trials, 5) if group.trials else "the whole study"
    more = group.said - len(group.what)
    what = "; ".join(map(escape, group.what)) + (f" and {more:,} more like these" if more else "")
    mark = " (does not count)" if group.invalid else ""
    said = f"{what}. What to do: {escape(group.advice)}. ({escape(where)})"
    return f"- **{escape(group.check)}**{mark}: {said}"


def _evidence(view: View) -> Iterator[list[str]]:
    varied = view.settings.varied
    if varied.columns:
        yield ["## Settings in force"]
        rows = [("before the study", varied.start), *varied.rows]
        yield _table(
            ("treatment", *map(escape, varied.columns)),
            [(escape(name), *(escape(v) or "–" for v in values)) for name, values in rows],
        )
    for machine in view.machines:
        yield [f"## Machine {escape(machine.host)}"]
        yield _table(("", ""), [(escape(name), escape(value)) for name, value in machine.facts])
    if view.commands:
        yield ["## Commands"]
        yield [
            f"- {code(command.line)} ({words.count(len(command.trials), 'trial')})"
            for command in view.commands
        ]


def _kept(kept: Keepsake) -> Iterator[list[str]]:
    yield ["## To keep it"]
    yield [f"{escape('; '.join(kept.settings))}. On probation first: {code(kept.command)}"]
    for each in kept.files:
        where = f"{escape(each.hosts)}: " if each.hosts else ""
        yield [f"{where}{code(each.path)}{''.join(f' – {escape(note)}' for note in each.notes)}"]
        yield [f"    {line}" for line in each.text.splitlines()]
    if kept.left:
        yield [f"No native file holds: {escape('; '.join(kept.left))}."]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
