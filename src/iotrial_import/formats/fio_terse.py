"""fio's terse output, versions 2 to 5 → runs.  :mod:`fio_terse_line` reads a line of it.

A line is one job (or one group, with ``group_reporting``).  Which lines belong together is not
written: a file of 4 lines with one job's name may be ``numjobs=4``, 4 runs appended to one file,
or 4 reports of one run (``--status-interval``).  What tells: lines of one run say the same of the
disks, their groups never go back, and each line gives its mean bandwidth in percent of its
group's, so that the group's can be computed and compared with the sum over lines.  Where nothing
tells, every line is a run of its own, with a doubt.

The file says neither block size nor whether I/O was random: the job's name is the workload.

One line of fio's terse output (``--minimal``, ``--output-format=terse``) → a job.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.formats.fio.bins import PERCENTILES
from iotrial.formats.fio.json_output import (
    INTERVAL,
    MARK,
    goes_on,
    messages,
    names,
    printable,
    relabelled,
    without_options,
)
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
from iotrial.model.trial import Doubt

_SEMICOLONS = 60  # in a line with as many, something of fio's is broken
_SHAPE = re.compile(
    rb"(?:^|\n)[ \t]*(?:2|[345];(?:fio[- ])?\d+\.\d+[^;\n]*);[^\n]*?;\d+;-?\d+;(?:\d+;){5}"
)
_WORDS = re.compile(rb";(?:fio[- ])\d+\.\d+[^;\n]*;|%=\d+;\d+(?:\.\d+)?%=")
_NORMAL = re.compile(rb": ?\(groupid=\d+(?:, jobs=\d+)?\): err=")
_BEGINNING = re.compile(r"\s*[345];(?:fio[- ])?\d+\.\d+[^;]*;")
_CLOSE = 0.03  # before 2.0.8 a group's bandwidth was in 1000 bytes/s: 2.4 % apart
_MOST = 4096  # fio's own limit of jobs
_PRECISE = 100  # IOPS; they are cut to whole ones, so a count of I/Os is 1 % off at most


class _Terse:
    """The plugin; see :class:`iotrial.model.recording.RecordingFormat`."""

    name = "fio-terse"
    title = "fio, terse output (--minimal), versions 2 to 5"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        if head.count(b";") < _SEMICOLONS or not _SHAPE.search(head):
            return 0
        if MARK.encode() in head or _NORMAL.search(head):
            return 1  # --output-format=terse,json or normal,terse: the other says more
        return 3 if _WORDS.search(head) else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """One recording for each group of jobs of each run."""
        lines, said = _lines(text_of(data, raw), raw)
        groups = _last_of_each(list(_groups(lines)))
        return tuple(
            _recording(group, _before(said, groups, index), raw, sure=sure)
            for index, (group, sure) in enumerate(groups)
        )


FORMAT = _Terse()


def _lines(text: str, raw: str) -> tuple[list[_TerseLine], list[tuple[int, str]]]:
    """The jobs, and fio's messages with their line numbers."""
    found: list[_TerseLine] = []
    said: list[tuple[int, str]] = []
    for number, each in enumerate(text.split("\n"), 1):
        head = HEAD.search(each)
        if head is not None:
            found.append(line(each, head, number, raw))
        elif each.count(";") >= _SEMICOLONS or _BEGINNING.match(each):
            message = (
                f"{raw}: line {number}: like fio's terse output, but it does not begin as that does"
            )
            advice = "a line begins with 3;fio-3.33;NAME;0;0; or, in version 2, with 2;NAME;0;0;"
            raise FormatError(message, advice=advice)
        else:
            said.extend((number, message) for message in messages(each))
    if not found:
        lines = text.count("\n") + 1
        raise FormatError(f"{raw}: no line of fio's terse output in {lines} lines")
    return found, said


def _before(
    said: Sequence[tuple[int, str]], groups: Sequence[Group], index: int
) -> tuple[str, ...]:
    """What fio said before this group and after the one before; at the end: the last one's."""
    low = groups[index - 1][0][-1].number if index else 0
    high = groups[index][0][-1].number if index < len(groups) - 1 else None
    return tuple(what for at, what in said if low < at and (high is None or at < high))


def _groups(lines: Sequence[_TerseLine]) -> Iterator[Group]:
    """The lines, cut where a group ends."""
    at = unsure = 0
    ends = _stretches(lines)
    while at < len(lines):
        stretch = lines[at : min(ends[at], at + _MOST)]
        size = _fitting(stretch)
        if not size and lines[at].disks and not any(map(_has_shares, stretch)):
            size = len(stretch)  # the same counters of the disks: printed at the same moment
        if not size and len(stretch) > 1:
            unsure = max(unsure, ends[at])
        yield list(stretch[: size or 1]), bool(size) or at >= unsure
        at += size or 1


def _has_shares(each: _TerseLine) -> bool:
    return any(block.mean > 0 for block in each.blocks)


def _stretches(lines: Sequence[_TerseLine]) -> list[int]:
    """For each line where the lines end that may be of its group."""
    keys = [(o.terse, o.version, o.job.group, o.disks, len(o.blocks)) for o in lines]
    ends = list(range(1, len(lines) + 1))
    for at in range(len(lines) - 2, -1, -1):
        if keys[at] == keys[at + 1]:
            ends[at] = ends[at + 1]
    return ends


def _fitting(lines: Sequence[_TerseLine]) -> int:
    """How many of the first lines make a group whose bandwidth is the one their shares are of;
    0 where no number does, or no line has a share."""
    blocks = len(lines[0].blocks)
    sizes, times = [0] * blocks, [0] * blocks
    for count, each in enumerate(lines, 1):
        for index, block in enumerate(each.blocks):
            sizes[index] += block.size
            times[index] = max(times[index], block.time)
        if _agrees(lines[0], sizes, times) and all(_agrees(o, sizes, times) for o in lines[:count]):
            return count
        if _beyond(lines[0], sizes, times):
            break
    return 0


def _beyond(first: _TerseLine, sizes: Sequence[int], times: Sequence[int]) -> bool:
    """Whether there are far too many KiB for the first line's shares: no more can help."""
    return any(
        block.mean > 0 and size and block.mean * 100 * time / (size * 1000) < block.share / 4
        for block, size, time in zip(first.blocks, sizes, times, strict=True)
    )


def _agrees(each: _TerseLine, sizes: Sequence[int], times: Sequence[int]) -> bool:
    """Whether the line's shares are of the bandwidth that these KiB and ms make."""
    known = False
    for block, size, time in zip(each.blocks, sizes, times, strict=True):
        if not (block.mean > 0 and size and time) or block.operation == "mixed":
            continue
        share = min(100.0, block.mean * 100 * time / (size * 1000))
        known = True
        if abs(share - block.share) > max(_CLOSE * block.share, 1e-3):
            return False
    return known


def _last_of_each(groups: Sequence[Group]) -> list[Group]:
    """Without the groups that a later report of the same run repeats, with more."""
    found: list[Group] = []
    goes = False
    for lines, sure in groups:
        goes = bool(found) and sure and found[-1][1] and _same(found[-1][0], lines, goes=goes)
        if goes:
            found.pop()
        found.append((lines, sure))
    return found


def _same(before: Sequence[_TerseLine], after: Sequence[_TerseLine], *, goes: bool) -> bool:
    """Whether ``after`` is a later report of the jobs of ``before``.  The last report may follow
    at once, but only on others."""
    names_of = [[(one.job.label, one.version) for one in group] for group in (before, after)]
    if names_of[0] != names_of[1] or before[0].job.group != after[0].job.group:
        return False
    least = 0.0 if goes else INTERVAL
    return goes_on([_count(one) for one in before], [_count(one) for one in after], least)


def _count(one: _TerseLine) -> tuple[float, float]:
    """Bytes and seconds."""
    return sum(each.size for each in one.blocks) * 1024.0, one.job.measured


def _recording(
    lines: Sequence[_TerseLine], said: Sequence[str], raw: str, *, sure: bool
) -> Recording:
    jobs = relabelled([replace(o.job, label=f"{printable(o.job.label)}#1") for o in lines])
    doubts = [*doubts_about(jobs, said, frozenset()), without_options()]
    if not sure:
        what = "nothing tells whether this line is a run, or a job of one with the lines beside it"
        advice = "if they ran together, add up their IOPS and bandwidth"
        doubts.append(Doubt("job-or-run", what, advice))
    vague = {job.label for job in jobs if any(each.iops < _PRECISE for each in job.directions)}
    found = (each for each in measurements(jobs, raw) if _precise(each, vague, len(jobs)))
    return Recording(
        tool="fio",
        workload=names(jobs),
        measurements=tuple(found),
        name=names(jobs),
        version=lines[0].version,
        line=lines[0].number,
        doubts=tuple(doubts),
        seconds=max((job.measured for job in jobs), default=0.0),
        weights={} if vague else weights(jobs),
    )


def _precise(each: Measurement, vague: set[str], jobs: int) -> bool:
    """Not what needs a count of I/Os that whole IOPS do not give."""
    if each.metric == "cpu.per_io":
        return not (vague if each.job == "all" else each.job in vague)
    return not (each.job == "all" and jobs > 1 and vague and each.metric.endswith(".mean"))


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
class _TerseBlock:
    """One direction as printed: ``size`` in KiB, ``iops`` None where there are none, ``time`` in
    ms; ``share`` is the mean bandwidth over intervals in percent of the group's, ``mean`` it."""

    operation: str
    size: int
    iops: int | None
    time: int
    latencies: tuple[tuple[str, FioLatency], ...]
    share: float
    mean: float


@dataclass(frozen=True, slots=True)
class _TerseLine:
    """``number`` is where it stands; ``disks`` what it says of them, as it stands there."""

    number: int
    terse: int
    version: str
    job: FioJob
    blocks: tuple[_TerseBlock, ...]
    disks: tuple[str, ...]


Group = tuple[list[_TerseLine], bool]
"""Lines of one group of jobs, and whether it is sure that they are all and no more."""


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


def line(text: str, head: re.Match[str], number: int, raw: str) -> _TerseLine:
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
        _TerseBlock(name, *_checked(each, version, fields), *each[4:])
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
    job = FioJob(
        label=head["name"],
        group=int(head["group"]),
        error=abs(int(head["error"])),
        seconds=max((each.seconds for each in directions), default=0.0),
        usr=usr / 100 if usr == usr else 0.0,  # noqa: PLR0124 (not nan)
        sys=system / 100 if system == system else 0.0,  # noqa: PLR0124
        attained=None,
        directions=directions,
    )
    return _TerseLine(number, terse, version, job, blocks, _disks(fields.rest()))


_Raw = tuple[int, int, "int | None", int, tuple[tuple[str, FioLatency], ...], float, float]


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
        (stage, FioLatency(1, mean_of, 1e-6, {}, listed if own else {}, most * 1e-6, sd))
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


def _direction(block: _TerseBlock) -> FioDirection:
    seconds = block.time / 1000
    ios = max(1, round(((block.iops or 0) + 0.5) * seconds)) if block.iops is not None else 1
    return FioDirection(
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
