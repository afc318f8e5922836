"""Blocks of fio's text output → jobs in base units, each number held against the others.

The text rounds, and says most things twice.  I/Os and milliseconds are whole numbers: IOPS come
from them, exactly as fio counts them for its JSON.  Bytes are printed short, as a size and once
or twice as a rate: what all of them allow is a narrow span, and where every I/O had one size
(``bs``), I/Os × bs is the exact number, if it lies in that span.  Where they contradict each
other, the text was changed: that is an error.

``kb_base=1000`` makes fio up to 2.16 print KB for 1000 bytes and say so nowhere: only I/Os × bs
can tell.

Source: show_ddir_status in stat.c of fio 1.16 to 3.42.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iotrial.formats.fio import text_lines as lines
from iotrial.formats.fio.report import Direction, Job, Latency
from iotrial.formats.fio.text_blocks import Block, Head, Part
from iotrial.formats.fio.text_lines import DIRECTIONS, Moved, Place
from iotrial.formats.fio.text_numbers import SIZE, Span, Spelling, groups
from iotrial.model.doubt import Doubt

_BS = re.compile(rf"(?:\(([RWT])\) )?{SIZE}(?:-{SIZE})?[/, ]*")
_LETTERS = "RWT"
_32_BITS = 2**32
_ODD = "do not use these numbers before you know why"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one I/O that a job was told, in bytes, by direction: least and most."""

    spans: Mapping[str, tuple[float, float]]

    def one(self, operation: str) -> float:
        """The one size; 0 where there is none."""
        low, high = self.spans.get(operation, (0.0, 1.0))
        return low if low == high else 0.0


def sizes_of(setup: Mapping[str, str]) -> Sizes:
    """From ``bs=64K-64K/4K-4K/4K-4K``, ``bs=(R) 4096B-4096B, (W) …`` and older forms.  With
    ``bs_is_seq_rand`` they are not by direction: none are given."""
    text = setup["bs"]
    if "seq" in text:
        return Sizes({})
    spelling = Spelling(old="(R)" not in text)
    pairs = []
    for each in _BS.finditer(text.partition("=")[2]):
        low = spelling.size(groups(each, 2)).shown
        high = spelling.size(groups(each, 6)).shown if each[6] else low
        pairs.append((low, high))
    found = dict(zip(DIRECTIONS, pairs, strict=False))
    if len(set(pairs)) == 1:
        found = dict.fromkeys((*DIRECTIONS, "mixed"), pairs[0])
    return Sizes(found)


def common(heads: Sequence[Head]) -> Sizes:
    """What several jobs of one name were told: the least and the most of all."""
    every = [sizes_of(head.setup).spans for head in heads]
    if not every:
        return Sizes({})
    shared = set.intersection(*(set(each) for each in every))
    return Sizes(
        {
            each: (min(one[each][0] for one in every), max(one[each][1] for one in every))
            for each in shared
        }
    )


def job(block: Block, label: str, spelling: Spelling, sizes: Sizes) -> tuple[Job, list[Doubt]]:
    """The block as a job, and doubts about its numbers.  Raises FormatError with the line."""
    tick = _tick(block, spelling)
    found, doubts = [], []
    for part in block.parts.values():
        direction, doubt = _direction(block, part, sizes, tick)
        if direction:
            found.append(direction)
        doubts += [replace(each, what=f"job {label}: {each.what}") for each in doubt]
    doubts += list(_untold(block, label))
    longest = max((each.seconds for each in found), default=0.0)
    usr, system = block.cpu or (0.0, 0.0)
    made = Job(
        label=label,
        group=block.group,
        error=abs(block.error),
        seconds=longest if block.cpu else 0.0,
        usr=usr,
        sys=system,
        attained=block.attained,
        directions=tuple(found),
    )
    return made, doubts


def _tick(block: Block, spelling: Spelling) -> float:
    """The unit fio counted latencies in: µs before 2.99, then ns."""
    if spelling.version == (0, 0):
        old = any(part.moved.text for part in block.parts.values())
        return 1e-6 if old else 1e-9
    return 1e-6 if spelling.version < (2, 99) else 1e-9


def ios_of(block: Block, operation: str) -> int | None:
    """How many I/Os were issued; None where the text does not say."""
    if block.issued is None:
        return None
    if operation == "mixed":
        return sum(block.issued.ios)
    return block.issued.ios[DIRECTIONS.index(operation)]


def _direction(
    block: Block, part: Part, sizes: Sizes, tick: float
) -> tuple[Direction | None, list[Doubt]]:
    moved = part.moved
    doubts: list[Doubt] = []
    seconds = moved.milliseconds / 1000
    ios = ios_of(block, moved.operation)
    if ios is None:
        ios, iops = round(moved.iops.shown * seconds), moved.iops.shown
    else:
        iops = ios / seconds
        doubts += _counted(moved, ios, part.place)
    if not ios:
        return None, doubts
    lost = _lost(block, moved.operation)
    size = _bytes(part, ios if block.issued and not lost else 0, sizes)
    doubts += _stages(part)
    if block.issued is not None:  # else their number is that of IOPS, which leave out the rest
        doubts += _sized(size, ios, sizes, moved.operation)
    direction = Direction(
        operation=moved.operation,
        ios=ios,
        bytes=size,
        seconds=seconds,
        iops=iops,
        bw=size / seconds,
        incomplete=lost,
        latencies={
            stage: _latency(part, stage, ios, tick)
            for stage in ("slat", "clat", "lat")
            if stage in part.took
        },
    )
    return direction, doubts


def _lost(block: Block, operation: str) -> int:
    if block.issued is None:
        return 0
    lost = block.issued.incomplete
    return sum(lost) if operation == "mixed" else lost[DIRECTIONS.index(operation)]


def _counted(moved: Moved, ios: int, place: Place) -> Iterator[Doubt]:
    """IOPS against I/Os and time.  fio cuts the quotient off to a whole number."""
    whole = ios * 1000 // moved.milliseconds
    if moved.iops.has(whole):
        return
    wrapped = ios * 1000 % _32_BITS // moved.milliseconds
    said = f"{moved.operation}: {ios} I/Os in {moved.milliseconds} ms are {whole} IOPS"
    if not moved.iops.has(wrapped):
        raise place.error(f"{said}, not {moved.iops.shown:g}: one of them was changed")
    what = f"{said}; fio says {moved.iops.shown:g}: its product overflowed 32 bits"
    yield Doubt("overflow", what, "the count of I/Os was used instead; look at the other numbers")


def _bytes(part: Part, ios: int, sizes: Sizes) -> float:
    """The bytes that size, rates and I/Os × bs allow."""
    kilo = _kilo(part, ios, sizes)
    span, best = _allowed(lines.respelled(part.moved, kilo), part.place)
    exact = ios * sizes.one(part.moved.operation)
    return exact if exact and span.has(exact) else best


def _kilo(part: Part, ios: int, sizes: Sizes) -> int:
    """1000 where I/Os × bs fit only if that is what fio's K stands for."""
    exact = ios * sizes.one(part.moved.operation)
    if part.moved.text and exact:
        for kilo in (1024, 1000):
            spans = _spans(lines.respelled(part.moved, kilo))
            if all(span.has(exact) for span in spans):
                return kilo
    return 1024


def kilo_of(block: Block, sizes: Sizes) -> int:
    """What K stands for in this block, by its first direction that tells."""
    found = (
        _kilo(part, ios_of(block, part.moved.operation) or 0, sizes)
        for part in block.parts.values()
    )
    return min(found, default=1024)


def _spans(moved: Moved) -> list[Span]:
    """What size and rates each allow, in bytes."""
    return [moved.size, *(rate.scaled(moved.milliseconds / 1000) for rate in moved.rates)]


def _allowed(moved: Moved, place: Place) -> tuple[Span, float]:
    """What size and rates all allow, in bytes, and the best guess in it."""
    seconds, spans = moved.milliseconds / 1000, _spans(moved)
    span = spans[0]
    for each in spans[1:]:
        if not span.meets(each):
            raise place.error(
                f"{moved.operation}: {moved.size.shown:.6g} bytes in {moved.milliseconds} ms are "
                f"not {each.shown / seconds:.6g} bytes/s: one of them was changed"
            )
        span = span.within(each)
    closest = min(spans, key=lambda each: each.high - each.low)
    return span, min(max(closest.shown, span.low), span.high)


def _sized(size: float, ios: int, sizes: Sizes, operation: str) -> Iterator[Doubt]:
    """Bytes against I/Os and the sizes the job was told."""
    if operation not in sizes.spans:
        return
    low, high = sizes.spans[operation]
    # A last I/O at the end of a file may be shorter, and fio counts those it issued: some of them
    # may never have come back (1.3 % too few bytes were seen in runs of seconds at depth 64).
    if low * (ios - 1) * 0.95 <= size <= high * ios * 1.01:
        return
    what = f"{size:.6g} bytes in {ios} {operation}s are {size / ios:.6g} each, not {low:g}"
    what += "" if low == high else f" to {high:g}"
    yield Doubt("inconsistent", what, _ODD)


def _latency(part: Part, stage: str, ios: int, tick: float) -> Latency:
    took, table = part.took[stage], part.tables.get(stage)
    listed = {} if table is None else table.listed
    unit = 1.0 if table is None else table.tick
    values = {p: _bin(ticks, unit, tick) for p, ticks in listed.items() if p in _WANTED}
    return Latency(ios, took.mean, tick, {}, values, took.most.shown, took.sd)


def _bin(ticks: int, unit: float, tick: float) -> int:
    """The value of fio's histogram that was printed, rounded up to ``unit``.  The top one is known
    exactly: what lies beyond it is counted in it."""
    value = round(ticks * unit / tick)
    top = _TOPS[tick]
    return top if value - top in range(round(unit / tick)) else value


_TOPS = {1e-6: 16_711_680, 1e-9: 17_112_760_320}
_WANTED = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_BIN = 1 / 32  # a bin of fio's histogram is 1/64 wide, and its middle is printed


def _stages(part: Part) -> Iterator[Doubt]:
    """Stages against each other: slat + clat = lat, and percentiles between min and max."""
    took = part.took
    if {"slat", "clat", "lat"} <= set(took):
        both, whole = took["slat"].mean + took["clat"].mean, took["lat"].mean
        if abs(both - whole) > 0.05 * whole + 3e-6:
            what = f"{part.moved.operation}: slat + clat = {both:.4g} s, but lat = {whole:.4g} s"
            yield Doubt("inconsistent", what, _ODD)
    for stage, table in part.tables.items():
        if stage not in took or not table.listed:
            continue
        low, high = took[stage].least.low * (1 - _BIN), took[stage].most.high * (1 + _BIN)
        values = [ticks * table.tick for ticks in table.listed.values()]
        if min(values) + table.tick < low or max(values) - table.tick > high:
            what = f"{part.moved.operation}: percentiles of {stage} outside of its min and max"
            yield Doubt("inconsistent", what, _ODD)


def _untold(block: Block, label: str) -> Iterator[Doubt]:
    """What the block does not say, or says of I/Os that failed."""
    if block.failed and block.failed[0]:
        what = f"job {label} went on after {block.failed[0]} errors: {block.failed[1][:80]}"
        yield Doubt("io-errors", what, "look at what failed: I/Os that fail are fast")
    if block.issued is None:
        what = f"job {label}: its block ends before the count of I/Os"
        yield Doubt("not-whole", what, lines.AGAIN)
        return
    if "mixed" in block.parts:
        return
    for operation, ios in zip(DIRECTIONS, block.issued.ios, strict=True):
        if ios and operation not in block.parts:
            what = f"job {label}: {ios} {operation}s were issued, and no line says how fast"
            yield Doubt("not-whole", what, "they failed, or their lines are missing: look at them")
