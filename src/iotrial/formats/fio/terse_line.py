"""One line of fio's terse output (``--minimal``, ``--output-format=terse``) → a job.

    version ; [fio version ;] job ; group ; error ; a block per direction ; CPU: 5 ; depths: 7 ;
    latencies: 22 ; 9 per disk and 9 for its slaves ; [errors: 2 ;] [description]

A block is KiB moved, KiB/s, IOPS, ms; min, max, mean, deviation of slat and of clat; twenty
percentiles; the same four of lat; five about bandwidth over intervals; in version 5 six more.
Without the fields in brackets and the disks that makes

======= ========================== ======== =====================================
version blocks                     fields   written by
======= ========================== ======== =====================================
2       read, write (of 20 fields)       78 fio 1.40 … 1.60: no IOPS, no percentiles
2       read, write                     120 fio 2.0 … 2.0.9
2       read, write, trim               161 fio 2.0.10 and later
3       read, write                     121 fio 2.0 and later
4       read, write, trim               162 fio 2.0.10 and later
5       read, write, trim               180 fio 2.99 and later
======= ========================== ======== =====================================

``unified_rw_reporting=mixed`` leaves one block (fio 3.26; before, the sum stands in the block of
the reads, and nothing tells), ``both`` adds one after the others.  Latencies are in µs, fractions
cut off; IOPS are cut to whole ones.  Bandwidth is KiB/s since 2.0.8 and 1000 bytes/s before:
it is computed here from KiB and ms, and what is printed must be the same.

Source: stat.c (show_thread_status_terse…) of fio 1.60.2, 2.0, 2.0.7, 2.0.8, 2.0.10, 2.1, 2.99,
3.16, 3.28 and 3.42; recordings in ``tests/data/fio-terse``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats.fio.report import Direction, Job, Latency
from iotrial.formats.histogram import PERCENTILES

HEAD = re.compile(
    r"(?:^\s*2|(?P<terse>[345]);(?P<fio>(?:fio[- ])?\d+\.\d+[^;]*));"
    r"(?P<name>[^;]*);(?P<group>\d{1,6});(?P<error>-?\d{1,6});(?=(?:\d+;){5,6}\d+\.\d+;)"
)
_BLOCKS = {
    2: {1: ("mixed",), 2: ("read", "write"), 3: ("read", "write", "trim"),
        4: ("read", "write", "trim", "mixed")},
    3: {1: ("mixed",), 2: ("read", "write"), 3: ("read", "write", "mixed")},
    4: {1: ("mixed",), 3: ("read", "write", "trim"), 4: ("read", "write", "trim", "mixed")},
}  # fmt: skip
_WHOLE = re.compile(r"\d{1,20}")
_REAL = re.compile(r"\d{1,20}\.\d{6}")
_MAYBE = re.compile(r"\d{1,20}\.\d{6}|-?(?:nan|inf)")  # a deviation of too few
_SHARE = re.compile(r"(?:\d{1,20}\.\d{1,6}|-?(?:nan|inf))%")
_DEPTH = re.compile(r"\d{1,5}\.\d%")
_TIME = re.compile(r"\d{1,5}\.\d\d%|-?nan%")  # nan where there was no I/O
_RANK = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%=(\d{1,20})")
_KIB = 1024
_AGAIN = "take the line as fio wrote it: something was cut off or edited"
_PERCENTILES, _DEPTHS, _LATENCIES, _DISK = 20, 7, 22, 9
_ABOVE = 1.01  # a percentile is the middle of its bin, at most 0.8 % above the largest latency


@dataclass(frozen=True, slots=True)
class Block:
    """One direction as printed: ``size`` in KiB, ``iops`` None where there are none, ``time`` in
    ms; ``share`` is the mean bandwidth over intervals in percent of the group's, ``mean`` it."""

    operation: str
    size: int
    iops: int | None
    time: int
    latencies: tuple[tuple[str, Latency], ...]
    share: float
    mean: float


@dataclass(frozen=True, slots=True)
class Line:
    """``number`` is where it stands; ``disks`` what it says of them, as it stands there."""

    number: int
    terse: int
    version: str
    job: Job
    blocks: tuple[Block, ...]
    disks: tuple[str, ...]


class _Fields:
    """The fields after the head, taken one after another."""

    def __init__(self, fields: Sequence[str], before: int, place: str) -> None:
        self._fields, self._before, self._place, self.at = fields, before, place, 0

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self._fields[at] if at < len(self._fields) else ""

    def rest(self) -> Sequence[str]:
        return self._fields[self.at :]

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        number = self._before + self.at + 1
        if self.at >= len(self._fields):
            message = f"{self._place}: the line ends at field {number}, where {what} should be"
            raise FormatError(message, advice=_AGAIN)
        text = self._fields[self.at]
        if not pattern.fullmatch(text):
            message = f"{self._place}: field {number} ({what}): {text[:40]!r} is none"
            raise FormatError(message, advice=_AGAIN)
        self.at += 1
        return text

    def whole(self, what: str) -> int:
        return int(self.take(_WHOLE, what))

    def fail(self, what: str) -> FormatError:
        return FormatError(f"{self._place}: {what}", advice=_AGAIN)


def line(text: str, head: re.Match[str], number: int, raw: str) -> Line:
    """The job in ``text``, in which :data:`HEAD` was found.

    Raises :class:`~iotrial.errors.FormatError` with line and field.
    """
    terse, version = int(head["terse"] or 2), head["fio"] or ""
    before = 5 if head["terse"] else 4
    fields = _Fields(text[head.end() :].split(";"), before, f"{raw}: line {number}")
    raws: list[_Raw] = []
    while not raws or (fields.peek().isdecimal() and len(raws) <= len(_BLOCKS[2])):
        raws.append(_block(fields, terse))
    names = _BLOCKS[min(terse, 4)].get(len(raws))
    if names is None:
        raise fields.fail(f"{len(raws)} blocks; terse version {terse} has no such line")
    blocks = tuple(
        Block(name, *_checked(each, version, fields), *each[4:])
        for name, each in zip(names, raws, strict=True)
    )
    usr, system = (float(fields.take(_SHARE, "CPU")[:-1]) for _ in range(2))
    for what in ("context switches", "major faults", "minor faults"):
        fields.whole(what)
    for _ in range(_DEPTHS):
        fields.take(_DEPTH, "share of a depth")
    for _ in range(_LATENCIES):
        fields.take(_TIME, "share of a latency")
    if _TIME.fullmatch(fields.peek()):
        raise fields.fail("there is a share of a latency too many")
    directions = tuple(_direction(each) for each in blocks if each.size or each.iops)
    job = Job(
        label=head["name"],
        group=int(head["group"]),
        error=abs(int(head["error"])),
        seconds=max((each.seconds for each in directions), default=0.0),
        usr=usr / 100 if usr == usr else 0.0,  # noqa: PLR0124 (not nan)
        sys=system / 100 if system == system else 0.0,  # noqa: PLR0124
        attained=None,
        directions=directions,
    )
    return Line(number, terse, version, job, blocks, _disks(fields.rest()))


_Raw = tuple[int, int, "int | None", int, tuple[tuple[str, Latency], ...], float, float]


def _block(fields: _Fields, terse: int) -> _Raw:
    size, bandwidth = fields.whole("KiB moved"), fields.whole("bandwidth")
    old = not fields.peek(3).isdecimal()  # no IOPS: a mean comes earlier
    iops = None if old else fields.whole("IOPS")
    time = fields.whole("runtime")
    slat, clat = _spread(fields, "slat"), _spread(fields, "clat")
    listed = {} if old else _listed(fields)
    lat = _spread(fields, "lat")
    for what in ("lowest bandwidth", "highest bandwidth"):
        fields.whole(what)
    share = float(fields.take(_SHARE, "share of the group's bandwidth")[:-1])
    mean = float(fields.take(_MAYBE, "mean bandwidth"))
    fields.take(_MAYBE, "deviation of bandwidth")
    if terse == 5:  # noqa: PLR2004
        for what in ("samples", "lowest IOPS", "highest IOPS"):
            fields.whole(what)
        for what in ("mean IOPS", "deviation of IOPS"):
            fields.take(_MAYBE, what)
        fields.whole("samples of IOPS")
    # lat_percentiles=1 puts those of lat there; only their height tells.
    top = max(listed.values(), default=0)
    of_lat = clat[0] * _ABOVE + 1 < top <= lat[0] * _ABOVE + 1
    latencies = tuple(
        (stage, Latency(1, mean_of, 1e-6, {}, listed if own else {}, most * 1e-6, sd))
        for stage, (most, mean_of, sd), own in (
            ("slat", slat, False), ("clat", clat, not of_lat), ("lat", lat, of_lat),
        )
        if mean_of
    )  # fmt: skip
    return size, bandwidth, iops, time, latencies, share, mean


def _spread(fields: _Fields, stage: str) -> tuple[int, float, float | None]:
    """Largest and mean, in µs, and the standard deviation in s (None where fio divided by 0)."""
    least, most = fields.whole(f"least {stage}"), fields.whole(f"largest {stage}")
    mean = float(fields.take(_REAL, f"mean {stage}"))
    deviation = fields.take(_MAYBE, f"deviation of {stage}")
    if not least - 1e-6 <= mean <= most + 1:
        raise fields.fail(f"mean {stage} {mean:g} µs does not lie between {least} and {most} µs")
    return most, mean, None if "n" in deviation else float(deviation) * 1e-6


def _listed(fields: _Fields) -> dict[float, int]:
    ranks: list[tuple[float, int]] = []
    for _ in range(_PERCENTILES):
        rank, _, value = fields.take(_RANK, "percentile").partition("%=")
        if float(rank):
            ranks.append((float(rank), int(value)))
        elif int(value):
            raise fields.fail(f"percentile 0 is {value}")
    if ranks != sorted(ranks) or [v for _, v in ranks] != sorted(v for _, v in ranks):
        raise fields.fail("the percentiles do not rise")
    return {p: v for rank, v in ranks for p in PERCENTILES if abs(rank - p) < 1e-6}  # noqa: PLR2004


def _checked(block: _Raw, version: str, fields: _Fields) -> tuple[int, int | None, int]:
    """KiB, IOPS and ms, where the bandwidth is what they make."""
    size, bandwidth, iops, time, *_ = block
    units = [1000, _KIB] if not _since_2_1(version) else [1000]
    # KiB are cut to whole ones, and so is the quotient.
    fits = [
        (u * size) // time <= bandwidth <= (u * (size + 1)) // time if time else not bandwidth
        for u in units
    ]
    if not any(fits):
        what = f"{bandwidth} KiB/s, but {size} KiB in {time} ms are {1000 * size // max(time, 1)}"
        raise fields.fail(what)
    if iops and not size and iops * time >= _KIB * 1000:
        raise fields.fail(f"{iops} IOPS, but nothing moved")
    return size, iops, time


def _since_2_1(version: str) -> bool:
    found = re.search(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= (2, 1)


def _direction(block: Block) -> Direction:
    seconds = block.time / 1000
    ios = max(1, round(((block.iops or 0) + 0.5) * seconds)) if block.iops is not None else 1
    return Direction(
        operation=block.operation,
        ios=ios,
        bytes=float(block.size * _KIB),
        seconds=seconds,
        iops=float(block.iops or 0),
        bw=block.size * _KIB / seconds if seconds else 0.0,
        incomplete=0,
        latencies={
            stage: replace(each, count=ios, mean=each.mean * each.tick)
            for stage, each in block.latencies
        },
    )


def _disks(rest: Sequence[str]) -> tuple[str, ...]:
    """The fields about disks, the description left out."""
    at = 0
    while len(rest) >= at + _DISK:
        name, *counts, used = rest[at : at + _DISK]
        if not (name and all(map(_WHOLE.fullmatch, counts)) and _SHARE.fullmatch(used)):
            break
        at += _DISK
    return tuple(rest[:at])
