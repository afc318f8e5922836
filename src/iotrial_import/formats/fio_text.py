"""fio's normal output, the text, from 1.16 to today → recordings: one for each group of a run.

Jobs of one *run status group* ran together and are one recording; groups ran one after another
and are recordings of their own (``stonewall``, ``wait_for_previous``).  A file may hold many runs:
a shell's log, or the pieces of one.  What stands between is passed over.  Clients of one run are
put together by group.  Metrics are those of :mod:`iotrial.formats.fio.json_output`, with two
limits of the text: a reporting unit of several jobs has no ``cpu.per_io`` (the time they ran in
all is not printed), and several units have no percentiles together.  Beside them: ``sync.lat``,
the time of fsync and its like.

What a job was told is in its first line (``name: (g=0): rw=…``), where it was kept: rw is the
workload, the rest the treatment, with ``numjobs`` counted.  Without that line the workload is the
job's name.  The time at the end of a job's line is local, of a zone nobody knows: it is left.

The totals of a group say again what its jobs say: what contradicts them was changed or lost, and
is an error.  A run that was stopped, has fewer jobs than it started, or ends before its totals,
has a doubt.

Sources: HOWTO of fio ("Interpreting the output"), stat.c of 1.16 to 3.42; recordings of many
versions in ``tests/data/fio-text``.

What fio's text output says that its jobs were told: workload and treatment.

The totals of a group against its jobs: they are the same numbers, added up by fio itself.

Blocks of fio's text output → jobs in base units, each number held against the others.

The text rounds, and says most things twice.  I/Os and milliseconds are whole numbers: IOPS come
from them, exactly as fio counts them for its JSON.  Bytes are printed short, as a size and once
or twice as a rate: what all of them allow is a narrow span, and where every I/O had one size
(``bs``), I/Os × bs is the exact number, if it lies in that span.  Where they contradict each
other, the text was changed: that is an error.

``kb_base=1000`` makes fio up to 2.16 print KB for 1000 bytes and say so nowhere: only I/Os × bs
can tell.

Source: show_ddir_status in stat.c of fio 1.16 to 3.42.

What makes a group of fio's text output less believable, beside what a single job shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.formats.fio.report import (
    FioDirection,
    FioJob,
    FioLatency,
    doubts_about,
    measurements,
    weights,
)
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt, Treatment
from iotrial_import.formats import fio_text_lines as lines
from iotrial_import.formats.fio_text_lines import (
    AGAIN,
    DIRECTIONS,
    SIZE,
    DirectionBlock,
    FioSpelling,
    FioTextRun,
    GroupBlock,
    GroupTotal,
    JobHead,
    LinePosition,
    OutputPass,
    RoundedValue,
    TransferLine,
    groups,
    respelled,
    respelled_total,
    runs,
)

_SHAPE = re.compile(rb": ?\(groupid=\d+(?:, jobs=\d+)?\): err=\s*-?\d+[: ]")
_WORDS = re.compile(
    rb"Run status group \d+ \(all jobs\):|: \(g=\d+\): rw=[a-z]+, "
    rb"|\b(?:IOPS=[\d.]+[kM]?, BW=|io=\s*[\d.]+\s?[KMGTPE]?i?B?, bw=)"
)
_JSON = b'"fio version"'


class FioText:
    """The plugin.  Stateless."""

    name = "fio-text"
    title = "fio, normal output"

    def recognises(self, head: bytes, name: str) -> int:  # noqa: ARG002 (fio's files have any name)
        sure = 2 * bool(_WORDS.search(head)) + bool(_SHAPE.search(head))
        return min(sure, 1) if _JSON in head else sure

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """Raises FormatError, naming the line, also for a file in which no run has a result."""
        found = runs(text_of(data, raw), raw)
        recordings: list[Recording] = []
        empty = []
        for run in found:
            made = list(_recordings(run, raw))
            recordings += made
            if not made and (run.heads or run.started):
                empty.append(run.line)
        if not recordings:
            what = (
                f"line {empty[0]}: a run of fio without a result" if empty else "no result of fio"
            )
            raise FormatError(f"{raw}: {what}", advice=AGAIN)
        if empty:
            lines = ", ".join(str(line) for line in empty[:5])
            what = f"fio began on line {lines} and has no result"
            doubt = Doubt("no-report", what, "it failed or was stopped: remove it, or repeat it")
            recordings[-1] = replace(recordings[-1], doubts=(*recordings[-1].doubts, doubt))
        return tuple(recordings)


FORMAT = FioText()


@dataclass(frozen=True, slots=True)
class _Report:
    """The passes of a run that count, and whether what it said it starts is all there."""

    run: FioTextRun
    passes: Sequence[OutputPass]

    @property
    def blocks(self) -> list[GroupBlock]:
        return [block for each in self.passes for block in each.blocks]


def _recordings(run: FioTextRun, raw: str) -> Iterator[Recording]:
    for report in _reports(run):
        for each in report.passes:
            for group, totals in each.totals.items():
                members = [block for block in each.blocks if block.group == group]
                kilos = [kilo_of(block, common(_heads(report.run, block))) for block in members]
                place = LinePosition(raw, totals[0].line if totals else run.line)
                check(members, totals, place, min(kilos, default=1024))
            lost = {block.group for block in each.blocks} - set(each.totals)
            if each.totals and lost:
                where = next(block.place for block in each.blocks if block.group in lost)
                raise where.error(f"group {min(lost)} has no totals, and others have")
        beside = tuple(_beside(report))
        for group in dict.fromkeys(block.group for block in report.blocks):
            blocks = [block for block in report.blocks if block.group == group]
            yield _recording(report.run, blocks, beside, raw)


def _reports(run: FioTextRun) -> Iterator[_Report]:
    """Clients report each by itself.  Else a pass that has a job of the pass before repeats it
    (``--status-interval``), and one that has none is of another run, whose first lines are not
    there."""
    if run.clients:
        yield _Report(run, run.passes)
        return
    kept: list[OutputPass] = []
    for each in run.passes:
        if kept and {b.key for b in kept[-1].blocks} & {b.key for b in each.blocks}:
            kept.pop()
        kept.append(each)
    for index, each in enumerate(kept):
        yield _Report(replace(run, heads=[], started=0) if index else run, [each])


def _recording(
    run: FioTextRun, blocks: Sequence[GroupBlock], beside: tuple[Doubt, ...], raw: str
) -> Recording:
    seen: Counter[str] = Counter()
    jobs: list[FioJob] = []
    doubts: list[Doubt] = []
    heads: list[JobHead] = []
    for block in blocks:
        name = _clean(block.name)
        seen[name] += 1
        mine = _heads(run, block)
        heads += [head for head in mine if head not in heads]
        one, doubt = job(block, f"{name}#{seen[name]}", run.spelling, common(mine))
        jobs.append(one)
        doubts += doubt
    if not all(block.cpu for block in blocks):  # else a share of CPU over everybody's I/Os
        jobs = [replace(one, seconds=0.0) for one in jobs]
    members = sum(block.members for block in blocks)
    said = tuple(_clean(line[:200]) for line in run.said)
    known = {head.name for head in heads}
    untold = [block.name for block in blocks if block.name not in known]
    if untold:
        what = f"the text does not contain the options of {_clean(untold[0])}"
        doubts.append(Doubt("no-options", what, "keep all that fio writes: --output goes first"))
        heads = []
    elif len(heads) == len(known):
        depth = {head.name: int(head.setup["iodepth"]) for head in heads}
        allowed = sum(depth.get(block.name, 0) * block.members for block in blocks)
        doubts += in_flight(jobs, allowed)
    return Recording(
        tool="fio",
        workload=workload(heads) or "+".join(sorted(seen)),
        measurements=tuple(_measured(blocks, jobs, raw)),
        name=", ".join(seen),
        version=run.version,
        line=blocks[0].place.line,
        treatment=treatment(heads, members),
        doubts=(*doubts_about(jobs, said, frozenset()), *dict.fromkeys(doubts), *beside),
        seconds=max(one.measured for one in jobs),
        weights=weights(jobs),
    )


def _heads(run: FioTextRun, block: GroupBlock) -> list[JobHead]:
    """The first lines of the block's jobs, where they were kept."""
    return [head for head in run.heads if (head.name, head.group) == (block.name, block.group)]


def _measured(
    blocks: Sequence[GroupBlock], jobs: Sequence[FioJob], raw: str
) -> Iterator[Measurement]:
    several = {one.label for one, block in zip(jobs, blocks, strict=True) if block.members > 1}
    if several:
        several.add("all")
    for each in measurements(jobs, raw):
        if each.metric != "cpu.per_io" or each.job not in several:
            yield each
    for one, block in zip(jobs, blocks, strict=True):
        for label in (one.label, *(["all"] if len(blocks) == 1 else [])):
            yield from _syncs(block, label, raw)


def _syncs(block: GroupBlock, label: str, raw: str) -> Iterator[Measurement]:
    if not block.sync:
        return
    took, table = block.sync.took["sync"], block.sync.tables.get("sync")
    yield Measurement("sync.lat.mean", took.mean, "s", label, raw)
    yield Measurement("sync.lat.max", took.most.shown, "s", label, raw)
    if took.sd is not None:
        yield Measurement("sync.lat.sd", took.sd, "s", label, raw)
    for p in (50.0, 90.0, 95.0, 99.0, 99.9, 99.99):
        if table and p in table.listed:
            yield Measurement(f"sync.lat.p{p:g}", table.listed[p] * table.tick, "s", label, raw)


def _beside(report: _Report) -> Iterator[Doubt]:
    """Doubts about a run as a whole."""
    run, blocks = report.run, report.blocks
    found = sum(block.members for block in blocks)
    if run.started and found != run.started:
        what = f"fio started {run.started} jobs, and {found} are reported"
        advice = "the others moved nothing, or their lines are missing: repeat the run"
        yield Doubt("not-whole", what, advice, invalid=True)
    elif not run.started and not all(each.totals for each in report.passes):
        what = "the text ends before the totals of its groups: jobs may be missing"
        yield Doubt("not-whole", what, AGAIN)
    for each in report.passes:
        yield from overflows(each.disks)


def _clean(text: str) -> str:
    """Text that can be written anywhere."""
    return "".join(char if char.isprintable() else "?" for char in text)


_MOVES = {"read": ("read",), "write": ("write",), "trim": ("trim",)}
_BOTH = ("read", "write")


def workload(heads: Sequence[JobHead]) -> str:
    """rw of the jobs that ran together; of several: ``randread+write``."""
    return "+".join(sorted({head.setup["rw"] for head in heads}))


def treatment(heads: Sequence[JobHead], members: int) -> Treatment:
    """bs, ioengine, iodepth and numjobs by fio's names; several values are joined by ``+``."""
    said = {
        "bs": [_bs(head) for head in heads],
        "ioengine": [head.setup["ioengine"] for head in heads],
        "iodepth": [head.setup["iodepth"] for head in heads],
    }
    found = [(name, "+".join(dict.fromkeys(values))) for name, values in said.items() if values]
    return (*found, ("numjobs", str(members)))


def _bs(head: JobHead) -> str:
    """As fio reads it: ``4k``, ``4k-64k``, and where reads and writes differ ``4k,64k``."""
    rw, spans = head.setup["rw"], sizes_of(head.setup).spans
    if not spans:
        return head.setup["bs"].partition("=")[2]
    plain = rw.removeprefix("rand")
    moves = ("write", "trim") if plain == "trimwrite" else _MOVES.get(plain, _BOTH)
    texts = [_range(*spans[move]) for move in moves if move in spans]
    return ",".join(dict.fromkeys(texts))


def _range(low: float, high: float) -> str:
    return _short(low) if low == high else f"{_short(low)}-{_short(high)}"


def _short(size: float) -> str:
    for letter, factor in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor:.0f}{letter}"
    return f"{size:.0f}"


_KIB = 1024.0


def check(
    blocks: Sequence[GroupBlock], totals: Sequence[GroupTotal], place: LinePosition, kilo: int
) -> None:
    """Raises FormatError where they contradict each other; ``kilo`` is what K stands for."""
    if len({total.operation for total in totals}) != len(totals):
        raise place.error("two totals of one direction in a group")
    moved = {name for block in blocks for name in block.parts}
    for total in totals:
        parts = [block.parts[total.operation] for block in blocks if total.operation in block.parts]
        _one(parts, total, LinePosition(place.raw, total.line), kilo)
        moved.discard(total.operation)
    if moved - {"mixed"} or (moved and not totals):
        raise place.error(f"no total of {', '.join(sorted(moved))}, which jobs of the group did")


def _one(parts: Sequence[DirectionBlock], said: GroupTotal, place: LinePosition, kilo: int) -> None:
    total = respelled_total(said, kilo)
    operation = total.operation
    if not parts:
        raise place.error(f"a total of {operation}, which no job of the group did")
    every = [respelled(part.moved, kilo) for part in parts]
    times = [moved.milliseconds for moved in every]
    if (min(times), max(times)) != (total.shortest, total.longest):
        raise place.error(
            f"{operation} took {total.shortest} to {total.longest} ms in all, by its jobs "
            f"{min(times)} to {max(times)} ms"
        )
    size = RoundedValue(
        sum(moved.size.low for moved in every),
        sum(moved.size.high for moved in every),
        sum(moved.size.shown for moved in every),
    )
    # Up to 2.16 fio adds up whole KiB, and cuts off the rest of each job's.
    more = _KIB * (len(parts) + 1) if every[0].text else 0.0
    if not size.meets(total.size.wider(more)):
        raise place.error(
            f"{operation}: {total.size.shown:.6g} bytes in all, by its jobs {size.shown:.6g}"
        )
    seconds = total.longest / 1000
    for rate in total.rates:
        if not rate.wider(more / seconds).scaled(seconds).meets(total.size.wider(more)):
            raise place.error(
                f"{operation}: {total.size.shown:.6g} bytes in {total.longest} ms are not "
                f"{rate.shown:.6g} bytes/s"
            )


_BS = re.compile(rf"(?:\(([RWT])\) )?{SIZE}(?:-{SIZE})?[/, ]*")
_32_BITS = 2**32
_ODD = "do not use these numbers before you know why"


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of one I/O that a job was told, in bytes, by direction: least and most."""

    spans: Mapping[str, tuple[float, float]]

    def one(self, operation: str) -> float:
        """The one size; 0 where there is none."""
        low, high = self.spans.get(operation, (0.0, 1.0))
        return low if low == high else 0.0


def sizes_of(setup: Mapping[str, str]) -> _Sizes:
    """From ``bs=64K-64K/4K-4K/4K-4K``, ``bs=(R) 4096B-4096B, (W) …`` and older forms.  With
    ``bs_is_seq_rand`` they are not by direction: none are given."""
    text = setup["bs"]
    if "seq" in text:
        return _Sizes({})
    spelling = FioSpelling(old="(R)" not in text)
    pairs = []
    for each in _BS.finditer(text.partition("=")[2]):
        low = spelling.size(groups(each, 2)).shown
        high = spelling.size(groups(each, 6)).shown if each[6] else low
        pairs.append((low, high))
    found = dict(zip(DIRECTIONS, pairs, strict=False))
    if len(set(pairs)) == 1:
        found = dict.fromkeys((*DIRECTIONS, "mixed"), pairs[0])
    return _Sizes(found)


def common(heads: Sequence[JobHead]) -> _Sizes:
    """What several jobs of one name were told: the least and the most of all."""
    every = [sizes_of(head.setup).spans for head in heads]
    if not every:
        return _Sizes({})
    shared = set.intersection(*(set(each) for each in every))
    return _Sizes(
        {
            each: (min(one[each][0] for one in every), max(one[each][1] for one in every))
            for each in shared
        }
    )


def job(
    block: GroupBlock, label: str, spelling: FioSpelling, sizes: _Sizes
) -> tuple[FioJob, list[Doubt]]:
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
    made = FioJob(
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


def _tick(block: GroupBlock, spelling: FioSpelling) -> float:
    """The unit fio counted latencies in: µs before 2.99, then ns."""
    if spelling.version == (0, 0):
        old = any(part.moved.text for part in block.parts.values())
        return 1e-6 if old else 1e-9
    return 1e-6 if spelling.version < (2, 99) else 1e-9


def ios_of(block: GroupBlock, operation: str) -> int | None:
    """How many I/Os were issued; None where the text does not say."""
    if block.issued is None:
        return None
    if operation == "mixed":
        return sum(block.issued.ios)
    return block.issued.ios[DIRECTIONS.index(operation)]


def _direction(
    block: GroupBlock, part: DirectionBlock, sizes: _Sizes, tick: float
) -> tuple[FioDirection | None, list[Doubt]]:
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
    direction = FioDirection(
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


def _lost(block: GroupBlock, operation: str) -> int:
    if block.issued is None:
        return 0
    lost = block.issued.incomplete
    return sum(lost) if operation == "mixed" else lost[DIRECTIONS.index(operation)]


def _counted(moved: TransferLine, ios: int, place: LinePosition) -> Iterator[Doubt]:
    """IOPS against I/Os and time.  fio cuts the quotient off to a whole number."""
    whole = ios * 1000 // moved.milliseconds
    if moved.iops.has(whole):
        return
    wrapped = ios * 1000 % _32_BITS // moved.milliseconds
    said = f"{moved.operation}: {ios} I/Os in {moved.milliseconds} ms are {whole} IOPS"
    if not moved.iops.has(wrapped):
        raise place.error(f"{said}, not {moved.iops.shown:g}: one of them was changed")
    what = f"{said}; fio says {moved.iops.shown:g}: its product overflowed 32 bits"
    yield Doubt("overflow", what, "the count of I/Os was used instead; check the other numbers")


def _bytes(part: DirectionBlock, ios: int, sizes: _Sizes) -> float:
    """The bytes that size, rates and I/Os × bs allow."""
    kilo = _kilo(part, ios, sizes)
    span, best = _allowed(lines.respelled(part.moved, kilo), part.place)
    exact = ios * sizes.one(part.moved.operation)
    return exact if exact and span.has(exact) else best


def _kilo(part: DirectionBlock, ios: int, sizes: _Sizes) -> int:
    """1000 where I/Os × bs fit only if that is what fio's K stands for."""
    exact = ios * sizes.one(part.moved.operation)
    if part.moved.text and exact:
        for kilo in (1024, 1000):
            spans = _spans(lines.respelled(part.moved, kilo))
            if all(span.has(exact) for span in spans):
                return kilo
    return 1024


def kilo_of(block: GroupBlock, sizes: _Sizes) -> int:
    """What K stands for in this block, by its first direction that tells."""
    found = (
        _kilo(part, ios_of(block, part.moved.operation) or 0, sizes)
        for part in block.parts.values()
    )
    return min(found, default=1024)


def _spans(moved: TransferLine) -> list[RoundedValue]:
    """What size and rates each allow, in bytes."""
    return [moved.size, *(rate.scaled(moved.milliseconds / 1000) for rate in moved.rates)]


def _allowed(moved: TransferLine, place: LinePosition) -> tuple[RoundedValue, float]:
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


def _sized(size: float, ios: int, sizes: _Sizes, operation: str) -> Iterator[Doubt]:
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


def _latency(part: DirectionBlock, stage: str, ios: int, tick: float) -> FioLatency:
    took, table = part.took[stage], part.tables.get(stage)
    listed = {} if table is None else table.listed
    unit = 1.0 if table is None else table.tick
    values = {p: _bin(ticks, unit, tick) for p, ticks in listed.items() if p in _WANTED}
    return FioLatency(ios, took.mean, tick, {}, values, took.most.shown, took.sd)


def _bin(ticks: int, unit: float, tick: float) -> int:
    """The value of fio's histogram that was printed, rounded up to ``unit``.  The top one is known
    exactly: what lies beyond it is counted in it."""
    value = round(ticks * unit / tick)
    top = _TOPS[tick]
    return top if value - top in range(round(unit / tick)) else value


_TOPS = {1e-6: 16_711_680, 1e-9: 17_112_760_320}
_WANTED = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_BIN = 1 / 32  # a bin of fio's histogram is 1/64 wide, and its middle is printed


def _stages(part: DirectionBlock) -> Iterator[Doubt]:
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


def _untold(block: GroupBlock, label: str) -> Iterator[Doubt]:
    """What the block does not say, or says of I/Os that failed."""
    if block.failed and block.failed[0]:
        what = f"job {label} went on after {block.failed[0]} errors: {block.failed[1][:80]}"
        yield Doubt("io-errors", what, "check what failed: I/Os that fail are fast")
    if block.issued is None:
        what = f"job {label}: its block ends before the count of I/Os"
        yield Doubt("not-whole", what, lines.AGAIN)
        return
    if "mixed" in block.parts:
        return
    for operation, ios in zip(DIRECTIONS, block.issued.ios, strict=True):
        if ios and operation not in block.parts:
            what = f"job {label}: {ios} {operation}s were issued, and no line says how fast"
            yield Doubt("not-whole", what, "they failed, or their lines are missing: check them")


_DISK = re.compile(
    r"(?P<name>\S{1,255}): ios=\d+/\d+,(?: sectors=\d+/\d+,)? merge=\d+/\d+, "
    r"ticks=(?P<read>\d{1,20})/(?P<write>\d{1,20}), in_queue=(?P<queue>\d{1,20}), util=[\d.na-]+%"
    r"(?P<aggregate>, aggrios=\d+/\d+,(?: aggsectors=\d+/\d+,)? aggrmerge=\d+/\d+, "
    r"aggrticks=(?P<aread>\d{1,20})/(?P<awrite>\d{1,20}), aggrin_queue=(?P<aqueue>\d{1,20}), "
    r"aggrutil=[\d.na-]+%)?"
)
_WRAPS_AT = 2**32
_IN_FLIGHT = 1.2  # tolerated share above what the job asked to have in flight
_LONG_ENOUGH = 1.0


def overflows(disks: Sequence[str]) -> Iterator[Doubt]:
    """Disks whose ticks (ms) no longer fit 32 bits: fio up to 2.1 adds those of an array's members
    up in 32 bits, and before 5.0 the kernel itself counts in 32.

    Source: ``struct disk_util_agg`` in diskutil.h of fio 2.1.10; Documentation/iostats of Linux.
    """
    found = [match for line in disks if (match := _DISK.fullmatch(line))]
    for index, disk in enumerate(found):
        ticks = int(disk["read"]) + int(disk["write"])
        missing = round((int(disk["queue"]) - ticks) / _WRAPS_AT)
        if missing and abs(int(disk["queue"]) - ticks - missing * _WRAPS_AT) < _WRAPS_AT // 20:
            yield _overflow(disk["name"], "the time in its queue and the time of its I/Os")
        if disk["aggregate"]:
            members = found[index + 1 :]
            ends = [at for at, each in enumerate(members) if each["aggregate"]]
            yield from _aggregate(disk, members[: ends[0]] if ends else members)


def _aggregate(disk: re.Match[str], members: Sequence[re.Match[str]]) -> Iterator[Doubt]:
    for said, each in (("aread", "read"), ("awrite", "write"), ("aqueue", "queue")):
        total = sum(int(member[each]) for member in members)
        if not members or total < _WRAPS_AT or total // len(members) == int(disk[said]):
            continue
        if total % _WRAPS_AT // len(members) == int(disk[said]):
            yield _overflow(disk["name"], f"the {each} ticks of its {len(members)} members")
            return


def _overflow(name: str, what: str) -> Doubt:
    return Doubt(
        "overflow",
        f"disk {name}: {what} overflowed 32 bits",
        "do not use fio's disk statistics of this run; its other numbers are not touched",
    )


def in_flight(jobs: Sequence[FioJob], allowed: int) -> Iterator[Doubt]:
    """Little's law: I/Os a second × their time is how many are in flight, and no more than
    ``allowed`` can be."""
    if not allowed:
        return
    flying, seconds = 0.0, 0.0
    for one in jobs:
        for each in one.directions:
            stage = each.latencies.get("lat") or each.latencies.get("clat")
            if stage and not (each.operation == "mixed" and len(one.directions) > 1):
                flying += each.ios * stage.mean
                seconds = max(seconds, each.seconds)
    if seconds >= _LONG_ENOUGH and flying / seconds > allowed * _IN_FLIGHT:
        what = f"{flying / seconds:.0f} I/Os in flight by rate and latency, at most {allowed} asked"
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")
