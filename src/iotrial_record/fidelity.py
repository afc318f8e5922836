"""Fidelity: how far apart two loads are, property by property.  Pure.

Of a distribution it is the distance of Kolmogorov and Smirnov, the largest difference of the two
cumulative shares, and where that is; of a share the difference.  0 is the same, 1 nothing in
common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from iotrial.units import format_bytes, format_seconds
from iotrial_record.character import GAPS, LoadCharacter

_WINDOW = 0.01


@dataclass(frozen=True, slots=True)
class FidelityDistance:
    """``value`` from 0 to 1; ``worst`` says where the two differ most, with the share of each up to
    there ('': they do not differ)."""

    value: float
    worst: str = ""


def distances(one: LoadCharacter, other: LoadCharacter) -> dict[str, FidelityDistance]:
    """By property: ``mix``, ``sizes``, ``zones``, ``sequential``, ``arrivals`` (over the time),
    ``bursts`` (I/Os in windows of 10 ms), ``gaps`` (from one I/O to the next), ``in flight``."""
    both = [n for n in ("read", "write") if n in one.operations and n in other.operations]
    sizes = {n: (one.operations[n].sizes, other.operations[n].sizes) for n in both}
    zones = {
        n: tuple({at: float(c) for at, c in enumerate(e.zones[row]) if c} for e in (one, other))
        for row, n in enumerate(("read", "write"))
    }
    return {
        "mix": _mix(one, other),
        "sizes": _worst({n: _smirnov(*s, format_bytes) for n, s in sizes.items()}),
        "zones": _worst({n: _smirnov(a, b, _zone) for n, (a, b) in zones.items() if a or b}),
        "sequential": _worst({
            n: _shares(one.operations[n].sequential, other.operations[n].sequential) for n in both
        }),
        "arrivals": _smirnov(_over_time(one), _over_time(other), _second),
        "bursts": _smirnov(one.counts, other.counts, "{} I/Os in 10 ms".format),
        "gaps": _smirnov(one.gaps, other.gaps, _gap),
        "in flight": _smirnov(_busy(one.depth), _busy(other.depth), "{} in flight".format),
    }  # fmt: skip


def _smirnov(
    one: Mapping[int, float], other: Mapping[int, float], words: Callable[[int], str]
) -> FidelityDistance:
    """The distance of two distributions, each value → weight.

    >>> _smirnov({1: 1, 2: 1}, {1: 3, 2: 1}, "up to {}".format)
    FidelityDistance(value=0.25, worst='up to 1: 50 % and 75 %')
    """
    if not one or not other:
        return FidelityDistance(float(bool(one) != bool(other)), "nothing in one of them")
    places = sorted({*one, *other})
    shares = [np.cumsum([each.get(at, 0.0) for at in places]) for each in (one, other)]
    shares = [each / each[-1] for each in shares]
    apart = np.abs(shares[0] - shares[1])
    at = int(np.argmax(apart))
    if not apart[at]:
        return FidelityDistance(0.0)
    said = " and ".join(f"{each[at] * 100:.0f} %" for each in shares)
    return FidelityDistance(float(apart[at]), f"{words(places[at])}: {said}")


def _worst(found: Mapping[str, FidelityDistance]) -> FidelityDistance:
    if not found:
        return FidelityDistance(0.0)
    name, most = max(found.items(), key=lambda each: each[1].value)
    return FidelityDistance(most.value, f"{name}, {most.worst}" if most.worst else "")


def _shares(one: float, other: float) -> FidelityDistance:
    apart = abs(one - other)
    return FidelityDistance(apart, f"{one * 100:.0f} % and {other * 100:.0f} %" if apart else "")


def _mix(one: LoadCharacter, other: LoadCharacter) -> FidelityDistance:
    names = {*one.operations, *other.operations}
    shares = [
        {name: each.operations[name].ios / each.ios for name in each.operations}
        for each in (one, other)
    ]
    return _worst({n: _shares(shares[0].get(n, 0.0), shares[1].get(n, 0.0)) for n in names})


def _over_time(load: LoadCharacter) -> dict[int, float]:
    return {at: float(count) for at, count in enumerate(load.arrived) if count}


def _busy(depth: Mapping[int, float]) -> dict[int, float]:
    return {each: seconds for each, seconds in depth.items() if each}


def _zone(at: int) -> str:
    return f"zone {at + 1} of 256"


def _second(at: int) -> str:
    return f"after {format_seconds((at + 1) * _WINDOW)}"


def _gap(at: int) -> str:
    return f"gaps up to {format_seconds(2 ** ((at + 1) / GAPS) / 1e9)}"
