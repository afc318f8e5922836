"""Character: what a load is, as numbers: which I/Os of which size, where, how fast one after
another, and how many at once.  Pure; the parts of a recording are looked at one after another.

- **Sequential** is an I/O that begins where one of the last :data:`STREAMS` of its kind ended.
- **Zones** are :data:`ZONES` equal parts of a device.  The hottest are those with most I/Os for
  their size; a curve says which share of the I/Os goes to which share of the device (Lorenz, 1905).
- **Re-use** is the share of I/Os to a block of :data:`BLOCK` bytes that was asked for before.
- **Burstiness** is the index of dispersion of counts: the variance of the number of I/Os in
  windows of a length, by their mean.  1 is a Poisson process; what grows with the length is bursty
  at that scale (R. Gusella (1991), Characterizing the variability of arrival processes with indexes
  of dispersion, IEEE JSAC 9, 203-211).
- **In flight** is how many requests the device had, by time.
- The **response time** of an I/O is from its queueing to the completion of its last sector, merged
  and split requests taken apart.  Of long recordings it is taken of parts, evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iotrial_record.phases import LoadPhase, phases
from iotrial_record.trace import (
    COMPLETED,
    FUA,
    ISSUED,
    OPERATIONS,
    QUEUED,
    SECTOR,
    SYNC,
    TraceEvents,
    TraceFacts,
)

STREAMS = 32
ZONES = 256
BLOCK = 65536
WINDOWS = (0.01, 0.1, 1.0, 10.0)
"""Seconds."""
_TICK = 0.01
_BLOCKS_MOST = 1 << 28
"""Bits of the map of blocks that were asked for; of larger devices blocks are larger."""
_SAMPLED = 12
"""Parts that response times are taken of."""
_RESPONSES = 1 << 20
_FEW = 30
_BEYOND = 10
"""I/Os beyond a quantile, without which it is none."""
GAPS = 8
"""Bins of a power of two of nanoseconds."""


@dataclass(frozen=True, slots=True)
class OperationCharacter:
    """Of one operation: how many I/Os and bytes, what fraction of them is synchronous (``sync``),
    forced to the medium (``fua``) and ``sequential``, ``sizes`` in bytes → I/Os."""

    ios: int
    bytes: int
    sync: float
    fua: float
    sequential: float
    sizes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LoadCharacter:
    """What a load is.  ``operations`` by name; ``aligned``: the largest power of two, in bytes,
    that divides both an I/O's place and its size → I/Os; ``zones`` I/Os of each zone, by operation
    (a row each of reads and writes); ``curve`` (share of the device, share of the I/Os), the
    hottest first; ``reuse`` a fraction; ``rates`` I/Os of each second, by operation; ``dispersion``
    by length of window in seconds; ``depth`` requests in flight → seconds; ``response`` quantiles
    in seconds, by operation (empty: none completed); ``gaps`` between an I/O and the one before
    (logarithms to the base of two of nanoseconds, times :data:`GAPS`) → how many; ``arrived`` I/Os
    in each window of 10 ms; ``counts`` of I/Os in such a window → how many windows;
    ``phases`` by the rates of a second (:mod:`iotrial_record.phases`)."""

    seconds: float
    operations: Mapping[str, OperationCharacter]
    aligned: Mapping[int, int]
    zones: npt.NDArray[np.int64]
    curve: tuple[tuple[float, float], ...]
    reuse: float
    rates: Mapping[str, npt.NDArray[np.int64]]
    dispersion: Mapping[float, float]
    depth: Mapping[int, float]
    response: Mapping[str, Mapping[float, float]]
    gaps: Mapping[int, int]
    counts: Mapping[int, int]
    arrived: npt.NDArray[np.int64]
    phases: tuple[LoadPhase, ...]

    @property
    def ios(self) -> int:
        return sum(each.ios for each in self.operations.values())


QUANTILES = (0.5, 0.9, 0.99, 0.999)


def character(index: TraceFacts, parts: Iterable[TraceEvents]) -> LoadCharacter:
    """What the recording shows.  ``parts`` are those of the index, in their order."""
    counting = _Counting(index)
    every = max(1, len(index.parts) // _SAMPLED)
    for number, part in enumerate(parts):
        counting.add(part, responses=number % every == 0)
    return counting.character()


@dataclass
class _Counting:
    index: TraceFacts
    ios: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    sync: Counter[str] = field(default_factory=Counter)
    fua: Counter[str] = field(default_factory=Counter)
    sequential: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)
    aligned: Counter[int] = field(default_factory=Counter)
    depth: Counter[int] = field(default_factory=Counter)
    response: dict[str, list[float]] = field(default_factory=dict)
    gaps: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        size = max(1, sum(each.size for each in self.index.devices))
        sizes = [each.size for each in self.index.devices]
        self._begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self._size = size
        self._zones = np.zeros((2, ZONES), np.int64)
        self._block = BLOCK
        while size // self._block >= _BLOCKS_MOST:
            self._block *= 2
        self._touched = np.zeros(size // self._block + 1, bool)
        self._again = self._placed = 0
        ticks = int(self.index.seconds / _TICK) + 2
        self._ticks = {name: np.zeros(ticks, np.int64) for name in OPERATIONS.values()}
        self._flying, self._last = 0, 0
        self._asked_last = -1
        self._ends: dict[str, npt.NDArray[np.int64]] = {}

    def add(self, events: TraceEvents, *, responses: bool) -> None:
        queued = events.only(events.kind == QUEUED)
        self._gaps(queued)
        for letter, name in OPERATIONS.items():
            mine = queued.only(queued.operation == ord(letter))
            if len(mine):
                self._asked(name, mine)
        self._in_flight(events)
        if responses:
            self._responses(events)

    def _asked(self, name: str, mine: TraceEvents) -> None:
        places = mine.sector.astype(np.int64) * SECTOR + self._begins[mine.device]
        sizes = mine.sectors.astype(np.int64) * SECTOR
        self.ios[name] += len(mine)
        self.bytes[name] += int(sizes.sum())
        self.sync[name] += int(np.count_nonzero(mine.flags & SYNC))
        self.fua[name] += int(np.count_nonzero(mine.flags & FUA))
        for value, count in zip(*np.unique(sizes, return_counts=True), strict=True):
            self.sizes.setdefault(name, Counter())[int(value)] += int(count)
        ticks = np.minimum(mine.at // int(_TICK * 1e9), len(self._ticks[name]) - 1)
        np.add.at(self._ticks[name], np.maximum(ticks, 0), 1)
        if not sizes.any():
            return  # a flush is nowhere
        both = places | sizes
        powers = np.minimum(both & -both, 1 << 20)
        for value, count in zip(*np.unique(powers, return_counts=True), strict=True):
            self.aligned[int(value)] += int(count)
        self._sequential(name, places, places + sizes)
        if name in ("read", "write"):
            zones = np.minimum(places * ZONES // self._size, ZONES - 1)
            row = self._zones[0 if name == "read" else 1]
            row += np.bincount(zones, minlength=ZONES)
        blocks = places // self._block
        first = np.unique(blocks, return_index=True)[1]
        fresh = np.count_nonzero(~self._touched[blocks[first]])
        self._again += len(blocks) - int(fresh)
        self._placed += len(blocks)
        self._touched[blocks] = True

    def _sequential(
        self, name: str, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> None:
        before = self._ends.get(name, np.full(STREAMS, -1, np.int64))
        known = np.concatenate([before, ends])
        follows = np.zeros(len(begins), bool)
        for back in range(1, STREAMS + 1):
            at = STREAMS - back
            follows |= known[at : at + len(begins)] == begins
        self.sequential[name] += int(np.count_nonzero(follows))
        self._ends[name] = known[-STREAMS:]

    def _gaps(self, queued: TraceEvents) -> None:
        if not len(queued):
            return
        before = [self._asked_last] if self._asked_last >= 0 else []
        between = np.diff(np.concatenate([before, queued.at]))
        self._asked_last = int(queued.at[-1])
        bins = np.floor(np.log2(np.maximum(between, 1)) * GAPS).astype(np.int64)
        for value, count in zip(*np.unique(bins, return_counts=True), strict=True):
            self.gaps[int(value)] += int(count)

    def _in_flight(self, events: TraceEvents) -> None:
        """A completion without a length ends a write that was flushed before, and was counted."""
        flush = events.operation == ord("F")
        step = np.where(events.kind == ISSUED, 1, 0)
        step -= np.where((events.kind == COMPLETED) & ((events.sectors > 0) | flush), 1, 0)
        which = step != 0
        at, step = events.at[which], step[which]
        if not at.size:
            return
        depths = np.maximum(self._flying + np.concatenate([[0], np.cumsum(step)]), 0)
        spans = np.diff(np.concatenate([[self._last], at]))
        for depth in np.unique(depths[:-1]):
            self.depth[int(depth)] += int(spans[depths[:-1] == depth].sum())
        self._flying, self._last = int(depths[-1]), int(at[-1])

    def _responses(self, events: TraceEvents) -> None:
        operations = events.operation
        for place, waited in responses(events):
            name = OPERATIONS[chr(int(operations[place]))]
            kept = self.response.setdefault(name, [])
            if len(kept) < _RESPONSES:
                kept.append(waited / 1e9)

    def character(self) -> LoadCharacter:
        every = sum(self._ticks.values(), np.zeros(1, np.int64))
        whole = int(self.index.seconds / _TICK)
        operations = {
            name: OperationCharacter(
                count,
                self.bytes[name],
                self.sync[name] / count,
                self.fua[name] / count,
                self.sequential[name] / count,
                dict(sorted(self.sizes[name].items())),
            )
            for name, count in self.ios.most_common()
        }
        rates = {name: _summed(self._ticks[name], int(1 / _TICK)) for name in operations}
        return LoadCharacter(
            self.index.seconds,
            operations,
            dict(sorted(self.aligned.items())),
            self._zones,
            _curve(self._zones.sum(axis=0)),
            self._again / self._placed if self._placed else 0.0,
            rates,
            _dispersion(every[:whole]),
            {depth: ns / 1e9 for depth, ns in sorted(self.depth.items())},
            {
                name: {
                    q: float(np.quantile(found, q))
                    for q in QUANTILES
                    if q <= 0.5 or len(found) * (1 - q) >= _BEYOND  # noqa: PLR2004
                }
                for name, found in self.response.items()
            },
            dict(sorted(self.gaps.items())),
            dict(sorted(Counter(every[:whole].tolist()).items())),
            every[:whole],
            phases(rates, 1.0),
        )


def responses(events: TraceEvents) -> Iterator[tuple[int, int]]:
    """Which event queued an I/O (its place), and how long until the completion of its last sector,
    ns.  Sector by sector, as requests may be merged and split."""
    waits: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    rows = zip(
        events.kind.tolist(), events.device.tolist(), events.sector.tolist(),
        events.sectors.tolist(), events.at.tolist(), strict=True,
    )  # fmt: skip
    for place, (kind, device, sector, sectors, at) in enumerate(rows):
        if not sectors or kind == ISSUED:
            continue
        if kind == QUEUED:
            waits.setdefault((device, sector), []).append((place, at, sectors))
            continue
        here, end = sector, sector + sectors
        while here < end and (queue := waits.get((device, here))):
            asked, began, length = queue.pop(0)
            if not queue:
                del waits[device, here]
            if here + length > end:  # the rest of it is another request
                waits.setdefault((device, end), []).append((asked, began, here + length - end))
                break
            yield asked, at - began
            here += length


def _summed(ticks: npt.NDArray[np.int64], each: int) -> npt.NDArray[np.int64]:
    count = len(ticks) // each
    return np.asarray(ticks[: count * each].reshape(count, each).sum(axis=1), np.int64)


def _dispersion(ticks: npt.NDArray[np.int64]) -> dict[float, float]:
    found = {}
    for window in WINDOWS:
        counts = _summed(ticks, round(window / _TICK))
        if len(counts) >= _FEW and counts.mean() > 0:
            found[window] = float(counts.var(ddof=1) / counts.mean())
    return found


def _curve(zones: npt.NDArray[np.int64]) -> tuple[tuple[float, float], ...]:
    total = int(zones.sum())
    if not total:
        return ()
    shares = np.cumsum(np.sort(zones)[::-1]) / total
    return tuple(((at + 1) / len(zones), float(share)) for at, share in enumerate(shares))
