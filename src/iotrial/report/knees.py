"""What a report says of a knee, in words: where more of an ordered factor gives no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.judgement.parts import Part
from iotrial.model.finding import Knee, KneeLevel
from iotrial.report import words
from iotrial.report.visible import visible
from iotrial.units import format_change

MOST = 6
"""Levels named in a sentence."""


def lines(part: Part, margin: float) -> Iterator[str]:
    """One for each ordered factor of a workload."""
    for each in part.knees:
        yield said(each, margin)


def said(each: Knee, margin: float) -> str:
    """``knee of depth: 16, the smallest level shown to be as good as the best within 2 % …``."""
    name = f"knee of {visible(each.factor)}"
    within = f"within {words.share(margin)}"
    if not each.level:
        left = words.some(
            [visible(one.label) for one in each.levels if may_be(each, one, margin)], MOST
        )
        told = f"{name}: none was shown; no level is surely as good as the best {within}"
        told += f" (it may be {left}): more blocks would tell" if left else ""
        return told + _open(each)
    told = f"{name}: {visible(each.level)}, the smallest level shown to be as good as the best"
    told += f" {within}{_at_worst(each)}"
    smaller = [visible(one.label) for one in _below(each) if may_be(each, one, margin)]
    if smaller:
        told += f"; {words.some(smaller, MOST)} may be as good, which these trials cannot tell"
    # Any number among them would be the knee.
    unset = [visible(one.label) for one in _below(each) if one.as_good and not one.broken]
    if unset:
        told += f"; {words.some(unset, MOST)} is as good"
    broken = [visible(one.label) for one in _below(each) if one.as_good and one.broken]
    if broken:
        told += f"; {words.some(broken, MOST)} would be as good, but for a broken guardrail"
    numbers = [one.label for one in each.levels]
    if each.level == numbers[-1]:
        told += "; it is the largest that was tried: a larger one may be better still"
    return told + _open(each)


def _at_worst(each: Knee) -> str:
    """How far from whichever level is best it may be."""
    tested = next(one.tested for one in each.levels if one.label == each.level)
    return f" (at worst {format_change(tested)})" if tested is not None and tested < 1 else ""


def _below(each: Knee) -> tuple[KneeLevel, ...]:
    """The levels before the knee."""
    at = next(place for place, one in enumerate(each.levels) if one.label == each.level)
    return each.levels[:at]


def may_be(each: Knee, one: KneeLevel, margin: float) -> bool:
    """Whether a level that was not shown to be as good as the best was not shown to be worse by
    more than the margin either."""
    if one.as_good or one.broken:
        return False
    if one.low is None or one.high is None:
        return True
    # In goodness: the better end of its interval, against the level that was best on average.
    better = one.high if each.higher else 1 / one.low
    return better >= 1 / (1 + margin)


def _open(each: Knee) -> str:
    if not each.open:
        return ""
    return f"; without a number: {words.some([visible(label) for label in each.open], MOST)}"


def as_data(part: Part, margin: float) -> list[dict[str, Any]]:
    """For the JSON document: ratios to the level that was best on average."""
    return [
        {
            "workload": part.workload,
            "metric": each.metric,
            "factor": each.factor,
            "knee": each.level or None,
            "words": said(each, margin),
            "best": each.best,
            "best_value": each.value,
            "confidence": each.confidence,
            "levels": [
                {
                    "level": one.label,
                    "ratio": one.ratio,
                    "low": one.low,
                    "high": one.high,
                    "tested": one.tested,
                    "as_good": one.as_good,
                    "guardrail_broken": one.broken,
                }
                for one in each.levels
            ],
            "without_a_number": list(each.open),
        }
        for each in part.knees
    ]
