"""What a report says of a race: who was dropped or called the same, when, and how much could be
seen in the end.

A chart shows how that was decided: differences from the kept treatment, block by block.  It has a
panel for each other treatment, all on one scale: the estimate as a line, its interval as a band,
the margin behind both.  Where the band leaves the margin's side or fits into the margin,
the race decided, and the panel ends.  The scale is even near the margin and logarithmic beyond,
so that a loser by half and an equal within a tenth of a percent are read from one picture (a
symmetric log scale: J. B. W. Webber (2013), A bi-symmetric log transformation for wide-range
data, Measurement Science and Technology 24, 027001).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.parts import WorkloadFindings
from iotrial.model.finding import Place, RaceResult, RaceTreatment
from iotrial.report import drawing, words
from iotrial.report.blocks import Block, Column, Figure, Heading, Row, Table, Text, TextSpan
from iotrial.report.drawing import SIGNS, WIDE, Spec, channel, coloured, faceted, mark, svg
from iotrial.report.words import visible
from iotrial.units import format_change

PLACES: dict[Place, str] = {
    "kept": "kept",
    "same": "same",
    "not-better": "not better",
    "open": "cannot tell",
    "worse": "worse",
    "guardrail": "guardrail broken",
    "lost": "no valid trials",
}
STYLES: dict[Place, str] = {
    "kept": "kept",
    "same": "same",
    "not-better": "cannot-tell",
    "open": "cannot-tell",
    "worse": "worse",
    "guardrail": "worse",
    "lost": "cannot-tell",
}
"""Which verdict's colour and mark a place has; the page's template asks for it."""
MOST = 24
"""Lines of a short table."""
HEADS = ("treatment", "verdict", "after block", "trials", "difference (interval)")
_ENDS: dict[Place, str] = {
    "same": "the same after block {}",
    "not-better": "not better after block {}",
    "worse": "dropped after block {}",
    "guardrail": "guardrail broken after block {}",
}


def ordered(story: RaceResult) -> tuple[RaceTreatment, ...]:
    """As the race ended: the kept one, then who lasted longest."""
    order = list(PLACES)
    return tuple(sorted(story.racers, key=lambda racer: (order.index(racer.place), -racer.after)))


def rows(story: RaceResult, most: int = 0) -> tuple[tuple[str, ...], ...]:
    """The table under :data:`HEADS`, in the order of :func:`ordered`; none before a look.
    ``most`` of them (0: all), and how many more there are."""
    every = tuple(_row(racer, story.decided) for racer in ordered(story) if story.looks)
    if not most or len(every) <= most:
        return every
    return (*every[:most], (f"and {len(every) - most:,} more", "", "", "", ""))


def _row(racer: RaceTreatment, decided: bool) -> tuple[str, ...]:  # noqa: FBT001
    return (
        visible(racer.label),
        "leads" if racer.place == "kept" and not decided else PLACES[racer.place],
        f"{racer.after}" if racer.after else "–",
        f"{racer.trials:,}",
        difference(racer),
    )


def difference(racer: RaceTreatment) -> str:
    """``−18.0 % (−19.9 … −16.1)``; of the kept one, which all are told against, ``–``."""
    if racer.place == "kept" or racer.ratio is None:
        return "–"
    if racer.low is None or racer.high is None:
        return f"{format_change(racer.ratio)} (no interval)"
    ends = f"{words.bare(racer.low)} … {words.bare(racer.high)}"
    return f"{format_change(racer.ratio)} ({ends})"


def ending(racer: RaceTreatment, last: int) -> str:
    """``dropped after block 4``; ``open after block 60``."""
    if racer.after and racer.place in _ENDS:
        return _ENDS[racer.place].format(racer.after)
    return f"{PLACES[racer.place]} after block {last}"


def leading(story: RaceResult) -> str:
    """Who was kept so far, where that changed: ``bfq to block 4, none since``."""
    runs = [
        (name, [block for block, _ in own])
        for name, own in itertools.groupby(
            zip(story.looks, story.leaders, strict=True), key=lambda pair: pair[1]
        )
    ]
    if len(runs) < 2:  # noqa: PLR2004
        return ""
    told = [f"{visible(name)} to block {blocks[-1]}" for name, blocks in runs[:-1]]
    return f"Previous leaders: {words.some(told, 4)}, {visible(runs[-1][0])} since."


def could_tell(part: WorkloadFindings) -> str:
    """What the trials of a workload could have shown: ``smallest detectable difference 2.1 %``; of
    a race ``interval at the end ±0.8 %``; empty where nothing is known."""
    if part.race is not None:
        half = part.race.half
        return "" if half is None else f"widest interval at the end ±{words.share(half)}"
    if part.resolvable is None:
        return ""
    return f"smallest detectable difference {words.share(part.resolvable)}"


def as_data(story: RaceResult) -> dict[str, Any]:
    """For the JSON document: base units and ratios to the kept treatment."""
    more = story.ahead
    return {
        "workload": story.workload,
        "metric": story.metric,
        "kept": story.kept,
        "decided": story.decided,
        "blocks": story.blocks,
        "trials": story.trials,
        "seconds": story.seconds,
        "half": story.half,
        "ahead": None
        if more is None
        else {
            "blocks": more.blocks,
            "trials": more.trials,
            "seconds": more.seconds,
            "allowed_blocks": more.allowed,
        },
        "labels": [racer.label for racer in story.racers],
        "dropped": {r.label: r.after for r in story.racers if r.place in ("worse", "guardrail")},
        "settled": {r.label: r.after for r in story.racers if r.place == "same"},
        "treatments": [_racer(racer) for racer in story.racers],
        "looks": [
            {"block": block, "kept": kept}
            for block, kept in zip(story.looks, story.leaders, strict=True)
        ],
    }


def _racer(racer: RaceTreatment) -> dict[str, Any]:
    return {
        "treatment": racer.label,
        "verdict": racer.place,
        "after_block": racer.after or None,
        "trials": racer.trials,
        "ratio": racer.ratio,
        "low": racer.low,
        "high": racer.high,
        "path": [
            {"block": block, "log_ratio": middle, "half": half}
            for block, middle, half in racer.path
        ],
    }


def blocks(part: WorkloadFindings) -> Iterator[Block]:
    """Who went when, and with how many trials."""
    story = part.race
    if story is None or not story.looks:
        return
    yield Heading("Course of the race", 3)
    looks = ("", "", "n", "n", "k")
    head = tuple(Column(name, look) for name, look in zip(HEADS, looks, strict=True))
    told: tuple[Row, ...] = tuple(
        (cells[0], TextSpan(cells[1], f"verdict {STYLES[racer.place]}"), *cells[2:])
        for racer, cells in zip(ordered(story), rows(story), strict=True)
    )
    yield Table(head, told, f"Race of {part.workload}", look="stacked")
    if changed := leading(story):
        yield Text(changed, "note")


# -- the chart ------------------------------------------------------------------------------------

PANELS = 30
"""Panels: those that lasted longest; all are in the table."""
_COLUMNS = 4
_AXIS, _GAP = 46, 14
"""Pixels for the numbers on the left, and between two panels."""
_HEIGHT = 110
_ROOM = 3.0
"""Beyond so many times the largest estimate, or margin, intervals are cut."""
_STEPS = (1, 2, 5)
_LOOKS: dict[Place, tuple[drawing.Colour, str]] = {
    "same": (drawing.SAME, "square"),
    "not-better": (drawing.SAME, "diamond"),
    "open": (drawing.UNSURE, "circle"),
    "worse": (drawing.WORSE, "triangle-down"),
    "guardrail": (drawing.WORSE, "cross"),
}


def race_figures(part: WorkloadFindings, margin: float, ident: str) -> tuple[Figure, ...]:
    """The chart of a workload's race, where there was one and somebody to compare."""
    story = part.race
    if story is None or not (told := _drawn(story)):
        return ()
    title = f"Decisions: difference from {visible(story.kept)}, block by block"
    held = ", not better (◆)" if any(racer.place == "not-better" for racer in told) else ""
    caption = (
        "Line: estimate; shade: its interval after each block; grey: equivalence margin"
        f" ±{words.share(margin)}. A panel ends where its treatment was dropped (▼), found the"
        f" same (■){held}, or where the study ended (●). Gaps: treatment resting. The scale is"
        f" logarithmic beyond the margin{_CLOCK if _long(story) else ''}. {leading(story)}"
    ).strip()
    if len(told) < sum(bool(racer.path) for racer in story.racers):
        caption += f" Drawn: the {len(told)} treatments dropped last."
    said = " ".join(
        f"{visible(racer.label)}: {ending(racer, story.blocks)}, "
        f"{difference(racer)}, {words.count(racer.trials, 'trial')}."
        for racer in told
    )
    spec = race_spec(story, margin)
    return (Figure("trials", svg(spec, f"{part.workload}: {title}", said, ident), title, caption),)


def _drawn(story: RaceResult) -> tuple[RaceTreatment, ...]:
    return tuple(racer for racer in ordered(story) if racer.path)[:PANELS]


def race_spec(story: RaceResult, margin: float) -> Spec:
    """Small multiples: a panel a treatment, blocks to the right, change in % upwards."""
    told = _drawn(story)
    reach = _reach(told, margin)
    panels = [_panel(racer, story.blocks) for racer in told]
    first = min(racer.path[0][0] for racer in told)
    columns = math.ceil(len(told) / math.ceil(len(told) / _COLUMNS))
    width = (WIDE - _AXIS - _GAP * (columns - 1)) / columns
    ticks = _ticks(reach, margin)
    upwards: Spec = {
        "axis": {"title": None, "labelExpr": SIGNS, "values": ticks, "labelOverlap": False},
        "scale": {
            "type": "symlog", "constant": margin * 100, "domain": list(reach), "nice": False,
        },
    }  # fmt: skip
    y, ends = channel("v:Q", **upwards), {"y": channel("low:Q", **upwards), "y2": channel("high")}
    x = channel(
        "b:Q",
        axis={
            "title": None, "format": "d", "grid": False, "labelOverlap": False,
            "values": _blocks(first, story, width),
        },
        scale={
            "type": "log" if _long(story) else "linear",
            "domain": [first * 0.9, story.blocks * 1.1] if _long(story)
            else [first - 0.5, story.blocks + 0.5],
            "nice": False,
        },
    )  # fmt: skip
    color, shape = coloured("k", list(_LOOKS), list(_LOOKS.values()), None)
    band = {"color": drawing.BAND.light, "opacity": 1}
    dot = {"size": 80, "opacity": 1, "filled": True}
    look, end = "datum.what == 'look'", "datum.what == 'end'"
    by = {"x": x, "color": color}
    stretch = channel("s:N")
    layers = [
        mark("rect", "", band, "datum.what == 'margin'", **ends),
        mark("rule", "", {"color": drawing.MUTED.light}, y={"datum": 0, **upwards}),
        mark("area", "", {"opacity": 0.22}, look, **by, **ends, detail=stretch),
        mark("line", "", {"strokeWidth": 2}, look, **by, y=y, detail=stretch),
        mark("rule", "", {"strokeWidth": 2.5}, end, **by, **ends),
        mark("point", "", dot, end, **by, y=y, shape=shape),
    ]
    header = {
        "title": None, "labelColor": drawing.INK.light, "labelFontSize": 12,
        "labelAnchor": "start", "labelExpr": "slice(split(datum.value,'\\n'),1)",
        "labelLineHeight": 15, "labelPadding": 3,
    }  # fmt: skip
    names = [f"{place}\n{name}" for place, name in enumerate(panels)]
    table = list(
        itertools.chain.from_iterable(
            _rows(racer, name, reach, margin) for racer, name in zip(told, names, strict=True)
        )
    )
    return faceted(
        layers,
        width,
        _HEIGHT,
        table,
        facet=channel("p:N", sort=names, header=header),
        resolve={"axis": {"x": "independent"}},
        columns=columns,
        spacing=_GAP,
    )


_CLOCK = ", and so are the blocks"
_MANY = 24
"""Blocks from which they are drawn on a logarithmic scale, or the early ones lie on the edge."""


def _long(story: RaceResult) -> bool:
    return story.blocks > _MANY


def _blocks(first: int, story: RaceResult, width: float) -> list[int]:
    """The blocks that the axis names."""
    if _long(story):
        return [each for each in (2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
                if first <= each <= story.blocks]  # fmt: skip
    step = max(1, math.ceil((story.blocks - first + 1) / max(2, width // 30)))
    return list(range(first, story.blocks + 1, step))


def _panel(racer: RaceTreatment, last: int) -> str:
    return f"{visible(racer.label)}\n{ending(racer, last)}"


def _percent(log: float) -> float:
    return math.expm1(min(max(log, -700.0), 700.0)) * 100


def _reach(told: Sequence[RaceTreatment], margin: float) -> tuple[float, float]:
    """The scale's ends in %: all estimates, the last intervals, and room for earlier ones."""
    middles = [_percent(middle) for racer in told for _, middle, _ in racer.path]
    ends = [
        _percent(end)
        for racer in told
        for _, middle, half in racer.path[-1:]
        for end in (middle - half, middle + half)
    ]
    most = _ROOM * max(margin * 100, *map(abs, middles))
    low = max(min(*middles, *ends, -2 * margin * 100), -most, -100.0)
    high = min(max(*middles, *ends, 2 * margin * 100), most)
    return low * 1.05, high * 1.05


def _rows(
    racer: RaceTreatment, panel: str, reach: tuple[float, float], margin: float
) -> Iterator[drawing.Row]:
    own = {"p": panel, "k": racer.place}
    yield {**own, "what": "margin", "low": -margin * 100, "high": margin * 100}
    before, stretch = racer.path[0][0], 0
    for block, middle, half in racer.path:
        stretch += block > before + 1  # it rested in between
        before = block
        yield {
            **own, "what": "look", "s": stretch, "b": block, "v": _percent(middle),
            **_within(_percent(middle - half), _percent(middle + half), reach),
        }  # fmt: skip
    # The last interval as the table has it: a dropped one's ends at the kept one's level.
    low, high = (_percent(middle + side * half) for side in (-1, 1))
    if racer.low is not None and racer.high is not None:
        low, high = (racer.low - 1) * 100, (racer.high - 1) * 100
    yield {**own, "what": "end", "b": block, "v": _percent(middle), **_within(low, high, reach)}


def _within(low: float, high: float, reach: tuple[float, float]) -> dict[str, float]:
    return {"low": max(low, reach[0]), "high": min(high, reach[1])}


def _ticks(reach: tuple[float, float], margin: float) -> list[float]:
    """0, the margin, and 1, 2 or 5 of the decades beyond it, wide enough apart to be read."""

    def placed(value: float) -> float:
        return math.copysign(math.log1p(abs(value) / (margin * 100)), value)

    scaled = {tick: placed(tick) for tick in _candidates(reach, margin)}
    whole = placed(reach[1]) - placed(reach[0])
    kept: list[float] = []
    for tick in sorted(scaled, key=lambda each: (abs(each) != 0, abs(each) != margin * 100)):
        if all(abs(scaled[tick] - scaled[other]) > whole * 13 / _HEIGHT for other in kept):
            kept.append(tick)
    return sorted(kept)


def _candidates(reach: tuple[float, float], margin: float) -> Iterator[float]:
    most = max(map(abs, reach))
    sizes = [0.0, margin * 100]
    sizes += [
        float(f"{step}e{decade}")
        for decade in range(math.floor(math.log10(margin * 100)), math.ceil(math.log10(most)) + 1)
        for step in _STEPS
        if float(f"{step}e{decade}") > margin * 100
    ]
    for size in sizes:
        for signed in {size, -size}:
            if reach[0] <= signed <= reach[1]:
                yield signed
