"""What a report says of several factors at once, in words: interactions, shares, trade-offs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.parts import Part
from iotrial.model.finding import Interaction, Likeness, Share
from iotrial.model.trial import treatment_text
from iotrial.report import words
from iotrial.report.blocks import Block, Column, Heading, Only, Row, Table, Text, sentence
from iotrial.report.visible import visible
from iotrial.stats.tradeoffs import Extent, Tradeoff
from iotrial.units import format_change, format_value

LIKENESS: dict[Likeness, str] = {
    "same": "alike",
    "differs": "differs",
    "cannot-tell": "cannot tell",
}
MOST = 8
"""Interactions listed in a short table, the firmest first."""


def listed(part: Part) -> tuple[Interaction, ...]:
    """The interactions worth a line: those that differ, then those that may, the largest first."""
    order = {"differs": 0, "cannot-tell": 1, "same": 2}
    return tuple(sorted(part.interactions, key=lambda each: (order[each.verdict], -_size(each))))[
        :MOST
    ]


def _size(each: Interaction) -> float:
    return max(each.ratio, 1 / each.ratio) if each.ratio > 0 else 0.0


def counted(part: Part) -> str:
    """``9 interactions: 2 differ, 5 are alike, 2 cannot be told``."""
    count = {
        verdict: sum(each.verdict == verdict for each in part.interactions) for verdict in LIKENESS
    }
    said = [
        f"{count['differs']} {'differs' if count['differs'] == 1 else 'differ'}",
        f"{count['same']} {'is' if count['same'] == 1 else 'are'} alike",
        f"{count['cannot-tell']} cannot be told",
    ]
    return f"{words.count(len(part.interactions), 'interaction')}: {', '.join(said)}"


def name(each: Interaction) -> str:
    """``scheduler=bfq × depth=32``."""
    pairs = zip(each.factors, each.levels, strict=True)
    return " × ".join(visible(f"{factor}={level}") for factor, level in pairs)


def interval(each: Interaction) -> str:
    """``−19.9 … −16.1``."""
    if each.low is None or each.high is None:
        return "no interval"
    return f"{words.bare(each.low)} … {words.bare(each.high)}"


def change(each: Interaction) -> str:
    return f"{format_change(each.ratio)} ({interval(each)})"


def beside(each: Interaction) -> str:
    """The interactions it may just as well be."""
    return words.some(["×".join(map(visible, pair)) for pair in each.beside], 3)


def source(share: Share) -> str:
    """``scheduler×depth``; what is no effect by its own word."""
    own = {"higher": "three and more factors", "whole plots": "between whole plots"}
    text = "×".join(map(visible, share.source))
    return text if share.effect else own.get(text, text)


def share_text(share: Share) -> str:
    """``61 % (55 … 67)``."""
    own = words.share(share.share)
    if share.low is None or share.high is None:
        return own
    low, high = (words.share(end).removesuffix(" %") for end in (share.low, share.high))
    return f"{own} ({low} … {high})"


def explained(shares: Sequence[Share], most: int = 6) -> str:
    """The largest shares of the variation, as one line."""
    effects = sorted((each for each in shares if each.effect), key=lambda each: -each.share)
    told = [f"{source(each)} {share_text(each)}" for each in effects[:most]]
    others = [f"{source(s)} {words.share(s.share)}" for s in shares if s.source == ("residual",)]
    return ", ".join([*told, *others])


def fronts(part: Part) -> Iterator[str]:
    """What no other treatment beats, for each trade-off in which any is beaten."""
    for each in part.tradeoffs:
        left = [visible(treatment_text(point.treatment)) for point in each.points if point.front]
        if len(left) < len(each.points):
            yield f"not beaten in {title(each)}: {words.some(left, MOST)}"


def title(each: Tradeoff) -> str:
    return f"{each.gain} and {each.cost} together"


def extent(value: Extent, unit: str) -> str:
    if value.low is None or value.high is None:
        return format_value(value.middle, unit)
    low, high = format_value(value.low, unit), format_value(value.high, unit)
    return f"{format_value(value.middle, unit)} ({low} … {high})"


def as_data(part: Part) -> dict[str, Any]:
    """For the JSON document: all of it, base units, ratios and fractions."""
    return {
        "interactions": [
            {
                "workload": part.workload,
                "metric": each.metric,
                "factors": list(each.factors),
                "levels": list(each.levels),
                "baselines": list(each.baselines),
                "ratio": each.ratio,
                "low": each.low,
                "high": each.high,
                "verdict": each.verdict,
                "n": each.n,
                "cannot_be_told_from": [list(pair) for pair in each.beside],
            }
            for each in part.interactions
        ],
        "shares": [
            {
                "workload": part.workload,
                "source": list(each.source),
                "df": each.df,
                "squares": each.squares,
                "eta2": each.plain,
                "omega2": each.share,
                "low": each.low,
                "high": each.high,
            }
            for each in part.shares
        ],
        "tradeoffs": [
            {
                "workload": part.workload,
                "gain": each.gain,
                "cost": each.cost,
                "treatments": [
                    {
                        "treatment": dict(point.treatment),
                        "gain": _extent(point.gain),
                        "cost": _extent(point.cost),
                        "not_beaten": point.front,
                    }
                    for point in each.points
                ],
            }
            for each in part.tradeoffs
        ],
    }


def _extent(value: Extent) -> dict[str, float | None]:
    return {"value": value.middle, "low": value.low, "high": value.high}


_READ = (
    "Each number: how many times the effect of the first level changes when the second factor"
    " leaves its baseline."
)


def blocks(part: Part) -> Iterator[Block]:
    """Interactions.  What explains the variation, and what is best in two things at once, is drawn
    on a page and written elsewhere."""
    if part.interactions:
        yield Heading("Interactions: does one factor's effect depend on another?", 3)
        yield Text(f"{sentence(counted(part))} {_READ}", "note")
        head = (
            *(Column("interaction"), Column("verdict")),
            Column("change of the effect (interval)", "k"),
            *(Column("cannot be told from"), Column("blocks", "n")),
        )
        told: tuple[Row, ...] = tuple(
            (name(each), LIKENESS[each.verdict], change(each), beside(each) or "–", str(each.n))
            for each in listed(part)
        )
        yield Table(head, told, f"Interactions of {part.workload}")
    if part.shares:
        yield Only("markdown", Text(f"Variation explained: {explained(part.shares)}."))
    for line in fronts(part):
        yield Only("markdown", Text(sentence(line)))
