"""Model: fio's job file that has the character of a recorded load: its mix, sizes, places,
sequential runs, rate and depth.  It runs for any length and can be read and edited.

What it has not: the order of single I/Os, and how the rate changes over time; for these a recording
is replayed.  Zones of equal heat are joined until fio takes them (:data:`_ZONES`), by the smallest
loss of share first (J. H. Ward (1963), Hierarchical grouping to optimize an objective function,
JASA 58, 236-244: neighbours are merged where the sum of squares grows least).

Sources: fio(1): ``bssplit``, ``rwmixread``, ``percentage_random``, ``random_distribution=zoned``,
``rate_iops``, ``rate_process=poisson``, ``fsync``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from iotrial.units import format_value
from iotrial_record.character import LoadCharacter, OperationCharacter
from iotrial_record.trace import TraceFacts

_ZONES = 32
"""Of the 64 that fio takes; each is a whole per cent of the I/Os and of the device at least."""
_SPLITS = 32
_SECTOR = 512
_BUSY = 0.99
"""The depth is at least that many are in flight for this share of the busy time."""
_WHOLE = 100
_LONGEST = 60
"""Seconds of a job file; those of a shorter recording are its own."""


def job_file(index: TraceFacts, load: LoadCharacter, *, target: bool = True) -> str:
    """The job file.  Its ``target`` is ``$TARGET``, which fio takes from the environment; without
    it none is named.

    Raises ValueError for a recording without a read or write."""
    reads, writes = (load.operations.get(name) for name in ("read", "write"))
    asked = [each for each in (reads, writes) if each is not None]
    if not asked:
        raise ValueError("nothing was read or written in this recording")
    lines = [
        f"; The load of {', '.join(each.name for each in index.devices)} of {index.host}:",
        f"; {load.ios} I/Os in {load.seconds:.0f} s. Made by iotrial from a recording.",
    ]
    if writes is not None:
        lines.append("; IT WRITES: existing data is lost.")
    lines += ["[recorded]", *(["filename=${TARGET}"] if target else [])]
    lasts = min(_LONGEST, max(1, round(load.seconds)))
    lines += ["direct=1", "time_based=1", f"runtime={lasts}s"]
    lines += _engine(load)
    lines += _kinds(reads, writes)
    lines += _sizes(reads, writes)
    if zones := zoned(load.zones.sum(axis=0)):
        lines.append(f"random_distribution=zoned:{zones}")
    lines += _rates(reads, writes, load)
    if writes is not None and (flushes := load.operations.get("flush")):
        # Of a mixed load fio syncs again after each read until the next write: on average, as often
        # as there are reads and writes for a write (get_rw_ddir in io_u.c, 3.33).
        both = writes.ios + (reads.ios if reads is not None else 0)
        lines.append(f"fsync={max(1, round(both / flushes.ios))}")
    return "\n".join(lines) + "\n"


def _engine(load: LoadCharacter) -> list[str]:
    busy = {depth: seconds for depth, seconds in load.depth.items() if depth}
    total, so_far, deep = sum(busy.values()), 0.0, 1
    for depth, seconds in sorted(busy.items()):
        so_far += seconds
        deep = depth
        if so_far >= _BUSY * total:
            break
    if deep == 1:
        return ["ioengine=psync"]
    return ["ioengine=libaio", f"iodepth={deep}"]


def _kinds(reads: OperationCharacter | None, writes: OperationCharacter | None) -> list[str]:
    if reads is None or writes is None:
        only = reads or writes
        assert only is not None  # noqa: S101 (one of them is there)
        random = round(_WHOLE * (1 - only.sequential))
        word = "read" if reads is not None else "write"
        return [f"rw=rand{word}" if random else f"rw={word}", *_random(random)]
    mixed = round(_WHOLE * reads.ios / (reads.ios + writes.ios))
    parts = [round(_WHOLE * (1 - each.sequential)) for each in (reads, writes)]
    return ["rw=randrw", f"rwmixread={mixed}", *_random(*parts)]


def _random(*parts: int) -> list[str]:
    if all(part in (0, _WHOLE) for part in parts) and len(set(parts)) == 1:
        return []
    return [f"percentage_random={','.join(map(str, parts))}"]


def _sizes(reads: OperationCharacter | None, writes: OperationCharacter | None) -> list[str]:
    one, other = (_split(each.sizes) if each is not None else "" for each in (reads, writes))
    if not one or not other or one == other:
        return [f"bssplit={one or other}"]
    return [f"bssplit={one},{other}"]


def _split(sizes: Mapping[int, int]) -> str:
    """fio's ``bssplit``: sizes, each with a whole per cent; the rarest go to their neighbours."""
    known = {size: count for size, count in sizes.items() if size >= _SECTOR}
    most = sorted(known, key=lambda size: -known[size])[:_SPLITS]
    places = np.array(sorted(most))
    shares = np.zeros(len(places))
    for size, count in known.items():
        shares[int(np.argmin(np.abs(np.log(places / size))))] += count
    whole = percents(shares)
    return ":".join(f"{size}/{part}" for size, part in zip(places, whole, strict=True) if part)


def percents(shares: Sequence[float] | npt.NDArray[np.float64]) -> list[int]:
    """Whole per cents that sum up to 100, each as near as that allows (largest remainders).

    >>> percents([1.0, 1.0, 1.0])
    [34, 33, 33]
    """
    exact = np.asarray(shares, float) / np.sum(shares) * _WHOLE
    whole = np.floor(exact).astype(int)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: _WHOLE - int(whole.sum())]] += 1
    return [int(each) for each in whole]


def zoned(zones: npt.NDArray[np.int64]) -> str:
    """fio's zones: of the I/Os and of the device, per cents; '' where all are as hot."""
    if not zones.sum():
        return ""
    groups = [[float(count)] for count in zones]
    while len(groups) > _ZONES:
        costs = [_loss(one, other) for one, other in pairwise(groups)]
        at = int(np.argmin(costs))
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    # What differs by less than chance is one zone.
    at = 0
    while at + 1 < len(groups):
        one, other = groups[at], groups[at + 1]
        if _alike(one, other):
            groups[at : at + 2] = [one + other]
            at = max(0, at - 1)
        else:
            at += 1
    while len(groups) > 1 and 0 in (sizes := percents([len(group) for group in groups])):
        at = max(1, sizes.index(0))  # less than a per cent of the device: to its neighbour
        groups[at - 1 : at + 1] = [groups[at - 1] + groups[at]]
    if len(groups) == 1:
        return ""
    sizes = percents([len(group) for group in groups])
    hits = percents([sum(group) for group in groups])
    return ":".join(f"{hit}/{size}" for hit, size in zip(hits, sizes, strict=True))


def _loss(one: Sequence[float], other: Sequence[float]) -> float:
    means = np.mean(one), np.mean(other)
    return float((means[0] - means[1]) ** 2 * len(one) * len(other) / (len(one) + len(other)))


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two Poisson rates differ by less than four standard errors."""
    error = np.sqrt(sum(one) / len(one) ** 2 + sum(other) / len(other) ** 2)
    return bool(abs(np.mean(one) - np.mean(other)) <= 4 * error)


def _rates(
    reads: OperationCharacter | None, writes: OperationCharacter | None, load: LoadCharacter
) -> list[str]:
    parts = [
        str(max(1, round(each.ios / load.seconds))) if each is not None else ""
        for each in (reads, writes)
    ]
    rate = ",".join(parts).rstrip(",")
    told = format_value(load.ios / load.seconds, "IOPS")
    return [f"; without these two lines as fast as it goes; recorded: {told}",
            f"rate_iops={rate}", "rate_process=poisson"]  # fmt: skip
