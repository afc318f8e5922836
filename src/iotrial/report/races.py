"""What a report says of a race, in words: who was dropped or called the same, when, and how much
could be seen in the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from iotrial.judgement.parts import Part
from iotrial.model.finding import Place, Racer, RaceStory
from iotrial.report import words
from iotrial.report.blocks import Block, Column, Heading, Row, Span, Table, Text
from iotrial.report.visible import visible
from iotrial.units import format_change

PLACES: dict[Place, str] = {
    "kept": "kept",
    "same": "same",
    "open": "cannot tell",
    "worse": "worse",
    "guardrail": "guardrail broken",
    "lost": "no number",
}
STYLES: dict[Place, str] = {
    "kept": "kept",
    "same": "same",
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
    "worse": "dropped after block {}",
    "guardrail": "guardrail broken after block {}",
}


def ordered(story: RaceStory) -> tuple[Racer, ...]:
    """As the race ended: the kept one, then who lasted longest."""
    order = list(PLACES)
    return tuple(sorted(story.racers, key=lambda racer: (order.index(racer.place), -racer.after)))


def rows(story: RaceStory, most: int = 0) -> tuple[tuple[str, ...], ...]:
    """The table under :data:`HEADS`, in the order of :func:`ordered`; none before a look.
    ``most`` of them (0: all), and how many more there are."""
    every = tuple(_row(racer, story.decided) for racer in ordered(story) if story.looks)
    if not most or len(every) <= most:
        return every
    return (*every[:most], (f"and {len(every) - most:,} more", "", "", "", ""))


def _row(racer: Racer, decided: bool) -> tuple[str, ...]:  # noqa: FBT001
    return (
        visible(racer.label),
        "leads" if racer.place == "kept" and not decided else PLACES[racer.place],
        f"{racer.after}" if racer.after else "–",
        f"{racer.trials:,}",
        difference(racer),
    )


def difference(racer: Racer) -> str:
    """``−18.0 % (−19.9 … −16.1)``; of the kept one, which all are told against, ``–``."""
    if racer.place == "kept" or racer.ratio is None:
        return "–"
    if racer.low is None or racer.high is None:
        return f"{format_change(racer.ratio)} (no interval)"
    ends = f"{words.bare(racer.low)} … {words.bare(racer.high)}"
    return f"{format_change(racer.ratio)} ({ends})"


def ending(racer: Racer, last: int) -> str:
    """``dropped after block 4``; ``open after block 60``."""
    if racer.after and racer.place in _ENDS:
        return _ENDS[racer.place].format(racer.after)
    return f"{PLACES[racer.place]} after block {last}"


def leading(story: RaceStory) -> str:
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
    return f"Led on the way: {words.some(told, 4)}, {visible(runs[-1][0])} since."


def could_tell(part: Part) -> str:
    """What the trials of a workload could have shown: ``could tell from 2.1 %``; of a race
    ``interval at the end ±0.8 %``; empty where nothing is known."""
    if part.race is not None:
        half = part.race.half
        return "" if half is None else f"widest interval at the end ±{words.share(half)}"
    return "" if part.resolvable is None else f"could tell from {words.share(part.resolvable)}"


def as_data(story: RaceStory) -> dict[str, Any]:
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


def _racer(racer: Racer) -> dict[str, Any]:
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


def blocks(part: Part) -> Iterator[Block]:
    """Who went when, and with how many trials."""
    story = part.race
    if story is None or not story.looks:
        return
    yield Heading("How the race went", 3)
    looks = ("", "", "n", "n", "k")
    head = tuple(Column(name, look) for name, look in zip(HEADS, looks, strict=True))
    told: tuple[Row, ...] = tuple(
        (cells[0], Span(cells[1], f"verdict {STYLES[racer.place]}"), *cells[2:])
        for racer, cells in zip(ordered(story), rows(story), strict=True)
    )
    yield Table(head, told, f"Race of {part.workload}")
    if changed := leading(story):
        yield Text(changed, "note")
