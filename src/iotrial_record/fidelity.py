"""Fidelity: how far apart two loads are, property by property.  Pure.

Of a distribution it is the distance of Kolmogorov and Smirnov, the largest difference of the two
cumulative shares; of a share the difference.  0 is the same, 1 nothing in common.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from iotrial_record.character import LoadCharacter


def distances(one: LoadCharacter, other: LoadCharacter) -> dict[str, float]:
    """By property: ``mix``, ``sizes``, ``zones``, ``sequential``, ``in flight``."""
    return {
        "mix": _mix(one, other),
        "sizes": max((_of_sizes(one, other, name) for name in _both(one, other)), default=0.0),
        "zones": max((_of_zones(one, other, row) for row in range(2)), default=0.0),
        "sequential": max(
            (
                abs(one.operations[name].sequential - other.operations[name].sequential)
                for name in _both(one, other)
            ),
            default=0.0,
        ),
        "in flight": smirnov(_busy(one.depth), _busy(other.depth)),
    }


def smirnov(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """The distance of two distributions, each value → weight.

    >>> smirnov({1: 1, 2: 1}, {1: 3, 2: 1})
    0.25
    """
    if not one or not other:
        return float(bool(one) != bool(other))
    places = sorted({*one, *other})
    shares = [np.cumsum([each.get(at, 0.0) for at in places]) for each in (one, other)]
    return float(np.max(np.abs(shares[0] / shares[0][-1] - shares[1] / shares[1][-1])))


def _both(one: LoadCharacter, other: LoadCharacter) -> list[str]:
    return [
        name for name in ("read", "write") if name in one.operations and name in other.operations
    ]


def _mix(one: LoadCharacter, other: LoadCharacter) -> float:
    names = {*one.operations, *other.operations}
    shares = [
        {name: each.operations[name].ios / each.ios for name in each.operations}
        for each in (one, other)
    ]
    return max((abs(shares[0].get(n, 0.0) - shares[1].get(n, 0.0)) for n in names), default=0.0)


def _of_sizes(one: LoadCharacter, other: LoadCharacter, name: str) -> float:
    return smirnov(one.operations[name].sizes, other.operations[name].sizes)


def _of_zones(one: LoadCharacter, other: LoadCharacter, row: int) -> float:
    return smirnov(*(
        {at: float(count) for at, count in enumerate(each.zones[row]) if count}
        for each in (one, other)
    ))  # fmt: skip


def _busy(depth: Mapping[int, float]) -> dict[int, float]:
    return {each: seconds for each, seconds in depth.items() if each}
