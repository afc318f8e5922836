"""The noise floor in words and tables, within 80 columns.  Pure: the caller prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from iotrial.judgement.noise import RateTrace, WorkloadNoise, spread_words
from iotrial.report.layout import TextTable, paragraphs
from iotrial.report.words import count
from iotrial.stats.noise import CONFIDENCE, NoiseFloor
from iotrial.units import format_seconds, format_wait

UNLIKELY = 0.01
"""Of drift, likeness and first trial: p below which it is said to be there."""
_WHOLE = 10
"""Per cent from which nobody asks for tenths."""
_RIGHT = 0.9
"""Of today's hours: a length that saves less is not worth a change."""


def noise_text(found: Sequence[WorkloadNoise]) -> RenderableType:
    """Everything that :func:`iotrial.judgement.noise.noise` found."""
    return Group(*paragraphs(line for part in found for line in _lines(part)))


def _lines(part: WorkloadNoise) -> Iterator[RenderableType]:
    floor = part.floor
    yield Text(floor.workload, style="bold").append(
        f"  {floor.metric}, {floor.trials} trials in {floor.blocks} blocks", style="not bold"
    )
    table = TextTable()
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for name, words in _rows(floor):
        table.add_row(name, Text(words))
    if part.trace:
        table.add_row("within a trial", Text(" ".join(_course(part.trace))))
        table.add_row("trial length", Text(" ".join(_length(part.trace, options=part.options))))
    yield table
    if part.efforts:
        yield Text(
            f"to detect a difference with {part.treatments} treatments and"
            f" {count(part.comparisons, 'comparison')} in the study (a race needs fewer blocks):",
            style="dim",
        )
        yield _efforts(part)
    yield Text()


def _rows(floor: NoiseFloor) -> Iterator[tuple[str, str]]:
    yield "within a block", f"one trial varies by {spread_words(floor.within)}"
    if floor.between:
        yield "between blocks", f"{spread_words(floor.between)}; blocking removes it"
    if floor.drift:
        drift = floor.drift
        over = min(drift.hours, 1.0)  # nobody looked further
        at, low, high = (_change(each * over) for each in (drift.hourly, drift.low, drift.high))
        lasted = "an hour" if over == 1 else f"over its {format_wait(over * 3600)}"
        slope = f"{at} {lasted} ({low} to {high})"
        yield "drift", f"{_there(drift.p)}: {slope}; rank test p = {drift.p:.2g}"
    if floor.lag:
        lag, p = floor.lag
        yield "neighbours", f"{_there(p)}: autocorrelation {lag:+.2f}, p = {p:.2g}"
    if floor.first:
        odd = floor.first
        yield (
            "first trial",
            f"{_there(odd.p)}: {_change(math.log(odd.ratio))} against the others, p = {odd.p:.2g}",
        )


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %"


def _change(log: float) -> str:
    change = math.expm1(min(log, 10.0)) * 100
    return f"{change:+.0f} %" if abs(change) >= _WHOLE else f"{change:+.2g} %"


def _there(p: float) -> str:
    return "yes" if p < UNLIKELY else "not seen"


def _course(trace: RateTrace) -> Iterator[str]:
    yield (
        f"by {trace.what}: {trace.points} points of {format_seconds(trace.step)} equal"
        f" {trace.independent:.0f} independent ones."
    )
    if not trace.settled:
        yield "The rate is not steady at the end of the trial."
    elif trace.alone:
        yield (
            f"The first {format_seconds(trace.alone)} measured belong to the warm-up:"
            f" {(trace.ratio - 1) * 100:+.1f} % against what follows."
        )
    if trace.between is not None and trace.within is not None:
        about = "" if trace.told else ", not distinguishable from 0"
        yield (
            f"The noise is {_percent(trace.within)} within a trial (longer trials reduce it) and"
            f" {_percent(trace.between)} between trials{about}."
        )


def _length(trace: RateTrace, *, options: bool) -> Iterator[str]:
    if not trace.settled:
        yield "Measure longer, until the rate is steady; then repeat the A/A study."
    elif trace.length is None:
        yield f"At least {format_seconds(trace.warmup)} of warm-up."
    else:
        length = trace.length
        wanted = f"measure {format_seconds(length.seconds)}"
        if options:
            ramp = math.ceil(length.warmup * 10 - 1e-6) / 10
            wanted = f"ramp_time = {ramp:g}s, runtime = {length.seconds:g}s"
        same = f"the same resolution in {length.hours * 100:.0f} % of the time"
        if trace.alone or trace.warmup > trace.ramp:
            yield f"{wanted} is enough; the present setting measures warm-up ({same})."
        elif length.hours < _RIGHT:
            yield f"{wanted} is enough: {same}."
        else:
            yield "the present length is adequate."


def _efforts(part: WorkloadNoise) -> TextTable:
    table = TextTable(header_style="dim", show_header=True)
    for name in ("difference", "blocks", "wall time", f"upper bound ({CONFIDENCE * 100:.0f} %)"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in part.efforts:
        table.add_row(
            f"{each.difference * 100:.0f} %",
            str(each.blocks or "never"),
            format_wait(each.seconds) if math.isfinite(each.seconds) else "-",
            str(each.most or "never"),
        )
    return table
