"""The lines of fio's text output, one by one: which they are, and what stands in them.

A line that begins as one of fio's does and does not end as one is an error: it was cut or
changed.  Every other line is somebody else's and passed over.

Sources: the format strings in stat.c, init.c, backend.c, client.c and diskutil.c of fio 1.16 to
3.42.

Numbers as fio's text output prints them: shortened, and each with the span it may stand for.

fio shortens a count to six digits (four since 2.17, option ``significant_figures``) by its
``num2str``, and what that leaves differs between versions:

* without a prefix it is whole and cut off: 912 stands for 912 up to 913;
* with a prefix and no decimals it is rounded (cut off before 1.44);
* with decimals, up to 2.19, the digits after the point are no decimal fraction: they are the
  remainder of the last division, without its leading zeros.  ``1205.5KB`` may be 1205 KiB and 5
  bytes: only the digits before the point can be relied on;
* from 2.20 to 3.25 a fraction that rounds up to one is printed as zero: ``11.0G`` may be 11.99.

Up to 2.16 the prefixes are K, M, G, P, E (there is no T, and P is what others call T), each 1024
where kb_base is 1024, which is the default.  Since 2.17 KiB is 1024 and kB 1000.

Sources: lib/num2str.c and stat.c of fio 1.16 to 3.42, and its commits d694a6a7, 9e55f2c7 and
c736b361.

What fio's text output says, as it stands there: runs, their passes, and the blocks of jobs.

A *run* begins with the first lines of its jobs (``name: (g=0): rw=…``), fio's version and
"Starting N processes", each of which may be missing in what people kept.  A *block* is one
reporting unit: a job, or with ``group_reporting`` the jobs of a group.  A *pass* is one report of
all blocks with the totals of their groups after them; ``--status-interval`` makes several, each
with all that came before: the last one counts.  With ``--client`` there is one pass a host, and
a block "All clients" which repeats the others, in units of its own: it is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from iotrial.errors import FormatError

NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,9})?"
SIZE = rf"\s*({NUMBER})\s?([kKMGTPE]?)(i?)(B|bit|b)?"
"""Four groups: number, prefix, i, unit."""
_OLD, _NEW = "KMGPE", "KMGTPE"
_PROPER, _MENDED = (2, 20), (3, 26)


@dataclass(frozen=True, slots=True)
class RoundedValue:
    """The truth lies from ``low`` to ``high``; ``shown`` is what was printed."""

    low: float
    high: float
    shown: float

    def scaled(self, factor: float) -> RoundedValue:
        return RoundedValue(self.low * factor, self.high * factor, self.shown * factor)

    def wider(self, more: float) -> RoundedValue:
        return RoundedValue(self.low - more, self.high + more, self.shown)

    def meets(self, other: RoundedValue) -> bool:
        slack = 1e-9 * max(abs(self.high), abs(other.high), 1e-9)
        return self.low <= other.high + slack and other.low <= self.high + slack

    def has(self, value: float) -> bool:
        return self.meets(RoundedValue(value, value, value))

    def within(self, other: RoundedValue) -> RoundedValue:
        """What both allow; they must meet."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        high = max(low, high)
        return RoundedValue(low, high, min(max(self.shown, low), high))


@dataclass(frozen=True, slots=True)
class FioSpelling:
    """How one version of fio spells: ``old`` up to 2.16; ``kilo`` is what its K stands for there
    (1024 or 1000: the text does not say)."""

    old: bool
    version: tuple[int, int] = (0, 0)
    kilo: int = 1024

    def count(self, number: str, prefix: str) -> RoundedValue:
        """A count of I/Os, or a time: its prefixes are thousands in every version."""
        return self._span(number, 1000.0 ** self._power(prefix))

    def size(self, found: tuple[str, str, str, str]) -> RoundedValue:
        """Bytes, or bytes a second, from the groups of :data:`SIZE`."""
        number, prefix, binary, unit = found
        kilo = 1024 if binary else self.kilo if self.old else 1000
        bits = 8 if unit == "bit" else 1
        return self._span(number, float(kilo) ** self._power(prefix)).scaled(1 / bits)

    def _power(self, prefix: str) -> int:
        return (_OLD if self.old else _NEW).find(prefix.upper()) + 1 if prefix else 0

    def _span(self, number: str, factor: float) -> RoundedValue:
        value, digits = float(number), len(number.partition(".")[2])
        if factor <= 1:
            return RoundedValue(value, value + 1, value)
        whole = math.floor(value)
        if not digits:
            return RoundedValue(value - 0.5, value + (1 if self.old else 0.5), value).scaled(factor)
        if self.old or self.version < _PROPER:
            return RoundedValue(whole, whole + 1, value).scaled(factor)
        half = 0.5 * 10.0**-digits
        low, high = value - half, value + half
        if value == whole and self.version < _MENDED:
            high = whole + 1
        return RoundedValue(low, high, value).scaled(factor)


def groups(found: re.Match[str], first: int) -> tuple[str, str, str, str]:
    """The four groups of the :data:`SIZE` that begins with group ``first``."""
    a, b, c, d = (found[first + i] or "" for i in range(4))
    return a, b, c, d


AGAIN = "take fio's output as it was written, or repeat the run"
DIRECTIONS = ("read", "write", "trim")
TICKS = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3}
_REAL = r"([0-9]{1,20}(?:\.[0-9]{1,9})?|-?nan)"
_COUNT = rf"\s*({NUMBER})([kKMGTPE]?)\s?"

# What surrounds fio's lines in logs: colours, time stamps, quoting, and, with --client, the host.
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_BEFORE = re.compile(
    r"(?:[#>\s]*)"
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?\s)?"
    r"(?:\d\d:\d\d:\d\d [A-Z]{4,8} *\| (?:\[std(?:out|err)\] )?)?(?:<[^<>\s]{1,255}> )?"
)
_ETA = re.compile(r"^(?:Jobs: \d+ .{0,400}\[eta [^\]]{0,40}\]\s*)+")

HEADER = re.compile(r"(?P<name>.{1,512}?): \(g=(?P<group>\d{1,9})\): rw=(?P<rest>.*)")
_SETUP = re.compile(
    r"(?P<rw>[a-z]{2,16}), (?:odir=\d+, )?(?P<bs>bs.{1,200}?)(?:, rate=\S+)?"
    r", ioengine=(?P<ioengine>[^\s,]{1,64}), iodepth=(?P<iodepth>\d{1,9})"
)
JOB = re.compile(
    r"(?P<name>.{0,512}?): ?\(groupid=(?P<group>\d{1,9})(?:, jobs=(?P<jobs>\d{1,9}))?\): "
    r"err=\s*(?P<error>-?\d{1,9})(?: \((?P<meaning>.*)\))?: ?pid=(?P<pid>-?\d{1,10})(?:: .*)?"
)
_VERSION = re.compile(r"fio[- ]v?(?P<major>\d{1,3})\.(?P<minor>\d{1,3})\S{0,40}")
_HOST = re.compile(r"hostname=.*, fio=(?P<version>fio-\S+), flags=\S+")
_STARTING = re.compile(
    r"Starting (\d{1,6}) (?:thread|process)(?:s|es)?"
    r"(?: and (\d{1,6}) (?:thread|process)(?:s|es)?)?"
)
_OLD_DIRECTION = re.compile(
    rf"(read|write|trim|mixed)\s*:\s*io={SIZE}, bw={SIZE}/s, iops={_COUNT}, "
    r"runt=\s*(\d{1,15})\s?msec"
)
_NEW_DIRECTION = re.compile(
    rf"(read|write|trim|mixed)\s*: IOPS={_COUNT}, BW={SIZE}(?:/s)? \({SIZE}(?:/s)?\)"
    rf"\({SIZE}/(\d{{1,15}})msec\)(?:; .*)?"
)
_DIRECTION = re.compile(r"(?:read|write|trim|mixed)\s*: ?(?:io=|IOPS=)")
_LATENCY = re.compile(
    rf"(slat|clat|lat|sync)\s*\((nsec|usec|msec)\)\s*:\s*min={_COUNT}, max={_COUNT}, "
    rf"avg=\s*{_REAL}, stdev=\s*{_REAL}"
)
_LATENCY_LIKE = re.compile(r"(?:slat|clat|lat|sync)\s*\((?:[a-z]*)\)?\s*:\s*min=")
_PERCENTILES = re.compile(r"(slat|clat|lat|sync) percentiles \((nsec|usec|msec)\)\s*:\s*(.*)")
_OTHER_PERCENTILES = re.compile(r".*(?:prio.*|block lifetime )percentiles.*:.*")
_PERCENTILE = r"\s*(\d{1,3}(?:\.\d{1,9})?)th=\[?\s*(>=?)?\s*(\d{1,20})\]?\s*"
_ROW = re.compile(rf"\|?(?:{_PERCENTILE},?)+")
_CELL = re.compile(_PERCENTILE)
_ISSUED = re.compile(
    r"issued\s*(?:r/w/d|r/w|rwts?)?\s*: total=(?P<total>[rwd=\d/,]+?),? "
    r"short=(?P<short>[rwd=\d/,]+?)(?:,? drop(?:ped)?=(?P<dropped>[rwd=\d/,]+))?"
)
_ISSUED_LIKE = re.compile(r"issued\s*(?:r/w/d|r/w|rwts?)?\s*: total=")
_TRIPLE = re.compile(
    r"(?:r=)?(\d{1,20})[/,](?:w=)?(\d{1,20})(?:[/,](?:d=)?(\d{1,20}))?(?:,(\d{1,20}))?"
)
_CPU = re.compile(rf"cpu\s*: usr=\s*{_REAL}%, sys=\s*{_REAL}%, ctx=\d+(?:, majf=\d+, minf=\d+)?")
_ERRORS = re.compile(r"errors\s*: total=(\d{1,20}), first_error=(-?\d{1,9})/<(.*)>")
_STEADY = re.compile(r"steadystate\s*: attained=(yes|no), .*")
GROUP = re.compile(r"Run status group (\d{1,9}) \(all jobs\):")
_OLD_TOTAL = re.compile(
    rf"(READ|WRITE|TRIM|MIXED): io={SIZE}, aggrb={SIZE}/s, minb={SIZE}/s, maxb={SIZE}/s, "
    r"mint=(\d{1,15})msec, maxt=(\d{1,15})msec"
)
_NEW_TOTAL = re.compile(
    rf"(READ|WRITE|TRIM|MIXED): bw={SIZE}/s \({SIZE}/s\), {SIZE}/s-{SIZE}/s \({SIZE}/s-{SIZE}/s\), "
    rf"io={SIZE} \({SIZE}\), run=(\d{{1,15}})-(\d{{1,15}})msec"
)
_TOTAL = re.compile(r"(?:READ|WRITE|TRIM|MIXED): (?:io|bw)=")


@dataclass(frozen=True, slots=True)
class LinePosition:
    """Where a line stands: the file and the line's number."""

    raw: str
    line: int

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self.raw}: line {self.line}: {what}", advice=AGAIN)

    def torn(self, text: str, kind: str) -> FormatError:
        return self.error(f"{text[:80]!r} begins as {kind} of fio does, and is none")


@dataclass(frozen=True, slots=True)
class TransferLine:
    """One direction's line: ``size`` in bytes, ``rates`` the bandwidths in bytes/s, ``iops``
    1/s, ``milliseconds`` how long.  ``text`` is the line up to 2.16, where K may be 1000; else
    empty."""

    operation: str
    size: RoundedValue
    rates: tuple[RoundedValue, ...]
    iops: RoundedValue
    milliseconds: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class LatencyLine:
    """One line of latencies, in seconds; ``sd`` None where fio divided by zero."""

    stage: str
    tick: float
    least: RoundedValue
    most: RoundedValue
    mean: float
    step: float
    sd: float | None = None


@dataclass(frozen=True, slots=True)
class _IssuedLine:
    """I/Os of each direction; ``syncs`` 0 where they are not counted; ``incomplete`` those that
    were short or dropped."""

    ios: tuple[int, int, int]
    syncs: int
    incomplete: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """A group's own line for one direction; ``shortest`` and ``longest`` in milliseconds."""

    operation: str
    size: RoundedValue
    rates: tuple[RoundedValue, ...]
    shortest: int
    longest: int
    line: int
    text: str = ""


def stripped(line: str) -> tuple[str, bool]:
    """The line without what logs put before it, and whether a client's host stood there."""
    text = _COLOUR.sub("", line).rstrip()
    before = _BEFORE.match(text)
    start = before.end() if before else 0
    return _ETA.sub("", text[start:].lstrip()), "<" in text[:start]


def version_in(text: str) -> tuple[str, tuple[int, int]] | None:
    host = _HOST.fullmatch(text)
    found = _VERSION.fullmatch(host["version"] if host else text)
    if not found:
        return None
    return found[0].replace(" ", "-"), (int(found["major"]), int(found["minor"]))


def starting(text: str) -> int:
    """How many processes and threads a run says it starts; 0 where the line is another."""
    found = _STARTING.fullmatch(text)
    return sum(int(each) for each in found.groups() if each) if found else 0


def setup(found: re.Match[str], place: LinePosition) -> Mapping[str, str]:
    """rw, bs, ioengine and iodepth of a job's first line."""
    rest = _SETUP.fullmatch(found["rest"])
    if not rest:
        raise place.torn(found[0], "the first line of a job")
    return rest.groupdict()


def moved_in(text: str, spelling: FioSpelling, place: LinePosition) -> TransferLine | None:
    """A direction's line.  Whether it is of the old kind, the line shows."""
    if not _DIRECTION.match(text):
        return None
    old, new = _OLD_DIRECTION.fullmatch(text), _NEW_DIRECTION.fullmatch(text)
    found = old or new
    if not found:
        raise place.torn(text, "the line of a direction")
    if not int(found[found.re.groups]):
        raise place.error("a time of 0 ms, for which fio prints no line")
    return _old_moved(found, text) if old else _new_moved(found, spelling)


def _old_moved(found: re.Match[str], text: str, kilo: int = 1024) -> TransferLine:
    how = FioSpelling(old=True, kilo=kilo)
    size, rate = how.size(groups(found, 2)), how.size(groups(found, 6))
    return TransferLine(
        found[1], size, (rate,), how.count(found[10], found[11]), int(found[12]), text
    )


def _new_moved(found: re.Match[str], spelling: FioSpelling) -> TransferLine:
    how = FioSpelling(old=False, version=spelling.version)
    size, iops = how.size(groups(found, 12)), how.count(found[2], found[3])
    rates = how.size(groups(found, 4)), how.size(groups(found, 8))
    return TransferLine(found[1], size, rates, iops, int(found[16]))


def respelled(moved: TransferLine, kilo: int) -> TransferLine:
    """The same line where K stands for ``kilo``; since 2.17 fio says it itself."""
    found = _OLD_DIRECTION.fullmatch(moved.text)
    return _old_moved(found, moved.text, kilo) if found else moved


def took_in(text: str, spelling: FioSpelling, place: LinePosition) -> LatencyLine | None:
    """A line of latencies; None for what is none.  min ≤ avg ≤ max, or it is an error."""
    found = _LATENCY.fullmatch(text)
    if not found:
        if _LATENCY_LIKE.match(text):
            raise place.torn(text, "a line of latencies")
        return None
    tick = TICKS[found[2]]
    least = spelling.count(found[3], found[4])
    most = spelling.count(found[5], found[6])
    if "nan" in found[7]:
        return None
    mean, step = float(found[7]), 0.5 * 10.0 ** -len(found[7].partition(".")[2])
    if mean < least.low - step or mean > most.high + step or least.low > most.high:
        raise place.error(f"{text[:80]!r}: the average is not between min and max")
    sd = None if "nan" in found[8] else float(found[8]) * tick
    return LatencyLine(
        found[1], tick, least.scaled(tick), most.scaled(tick), mean * tick, step * tick, sd
    )


def percentiles(text: str) -> tuple[str, float, str] | None:
    """Stage, tick in seconds and the rest of the line that begins a table of percentiles; the
    stage is empty for a table of something else (I/O priorities, blocks' lifetimes)."""
    found = _PERCENTILES.fullmatch(text)
    if found:
        return found[1], TICKS[found[2]], found[3]
    return ("", 1.0, "") if _OTHER_PERCENTILES.fullmatch(text) else None


def row(text: str, place: LinePosition) -> list[tuple[float, int, bool]] | None:
    """A row of percentiles: which, how many ticks, and whether it is at least that."""
    if not _ROW.fullmatch(text):
        if text.startswith("|") and "th=" in text:
            raise place.torn(text, "a row of percentiles")
        return None
    return [(float(a), int(c), bool(b)) for a, b, c in _CELL.findall(text)]


def issued_in(text: str, place: LinePosition) -> _IssuedLine | None:
    if not _ISSUED_LIKE.match(text):
        return None
    found = _ISSUED.fullmatch(text)
    if not found:
        raise place.torn(text, "the count of I/Os")
    total, short, dropped = (
        _four(found[name] or "0,0,0", text, place) for name in ("total", "short", "dropped")
    )
    lost = (short[0] + dropped[0], short[1] + dropped[1], short[2] + dropped[2])
    return _IssuedLine(total[:3], total[3], lost)


def _four(counts: str, text: str, place: LinePosition) -> tuple[int, int, int, int]:
    found = _TRIPLE.fullmatch(counts)
    if not found:
        raise place.torn(text, "the count of I/Os")
    return int(found[1]), int(found[2]), int(found[3] or 0), int(found[4] or 0)


def cpu_in(text: str, place: LinePosition) -> tuple[float, float] | None:
    """Shares of one core in user mode and in the kernel."""
    found = _CPU.fullmatch(text)
    if not found:
        if re.match(r"cpu\s*: usr=", text):
            raise place.torn(text, "the line of CPU time")
        return None
    usr, system = (0.0 if "nan" in each else float(each) / 100 for each in found.groups())
    return usr, system


def errors(text: str) -> tuple[int, str] | None:
    """How many I/Os failed in a job that went on, and how the first did."""
    found = _ERRORS.fullmatch(text)
    return (int(found[1]), found[3]) if found else None


def attained(text: str) -> bool | None:
    found = _STEADY.fullmatch(text)
    return found[1] == "yes" if found else None


def total_in(text: str, spelling: FioSpelling, place: LinePosition) -> GroupTotal | None:
    """A group's own line; its bandwidth is all bytes over the longest time."""
    if not _TOTAL.match(text):
        return None
    if old := _OLD_TOTAL.fullmatch(text):
        return _old_total(old, text, place.line)
    found = _NEW_TOTAL.fullmatch(text)
    if not found:
        raise place.torn(text, "the totals of a group")
    how = FioSpelling(old=False, version=spelling.version)
    rates = how.size(groups(found, 2)), how.size(groups(found, 6))
    size, again = how.size(groups(found, 26)), how.size(groups(found, 30))
    if not size.meets(again):
        raise place.error(f"{size.shown:.6g} bytes are not {again.shown:.6g} bytes")
    times = int(found[34]), int(found[35])
    return GroupTotal(found[1].lower(), size.within(again), rates, *times, place.line)


def _old_total(found: re.Match[str], text: str, line: int, kilo: int = 1024) -> GroupTotal:
    how = FioSpelling(old=True, kilo=kilo)
    size, rate = how.size(groups(found, 2)), how.size(groups(found, 6))
    return GroupTotal(found[1].lower(), size, (rate,), int(found[18]), int(found[19]), line, text)


def respelled_total(total: GroupTotal, kilo: int) -> GroupTotal:
    """The same line where K stands for ``kilo``."""
    found = _OLD_TOTAL.fullmatch(total.text)
    return _old_total(found, total.text, total.line, kilo) if found else total


_MESSAGES = ("fio: ", "note: ")
_EVERYBODY = "All clients"


@dataclass(slots=True)
class _PercentileTable:
    """Percentiles of one stage, in ``tick`` seconds: which percentile → ticks."""

    tick: float
    listed: dict[float, int] = field(default_factory=dict)
    last: tuple[float, int] = (0.0, 0)


@dataclass(slots=True)
class DirectionBlock:
    """One direction of a block; ``place`` is its first line's."""

    moved: TransferLine
    place: LinePosition
    took: dict[str, LatencyLine] = field(default_factory=dict)
    tables: dict[str, _PercentileTable] = field(default_factory=dict)


@dataclass(slots=True)
class GroupBlock:
    """``group`` as fio numbers it; ``members`` how many jobs it reports on."""

    place: LinePosition
    name: str
    group: int
    members: int
    error: int
    pid: str
    parts: dict[str, DirectionBlock] = field(default_factory=dict)
    sync: DirectionBlock | None = None
    issued: _IssuedLine | None = None
    cpu: tuple[float, float] | None = None
    attained: bool | None = None
    failed: tuple[int, str] | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.name, self.group, self.pid


@dataclass(slots=True)
class JobHead:
    """The first line of a job; ``many`` where others like it follow (``...``)."""

    name: str
    group: int
    setup: Mapping[str, str]
    many: bool = False


@dataclass(slots=True)
class OutputPass:
    """``totals`` by group, in order; ``disks`` the lines of its disk statistics."""

    blocks: list[GroupBlock] = field(default_factory=list)
    totals: dict[int, list[GroupTotal]] = field(default_factory=dict)
    disks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FioTextRun:
    """``started`` is how many processes and threads it said it starts."""

    line: int
    version: str = ""
    spelling: FioSpelling = field(default_factory=lambda: FioSpelling(old=False))
    heads: list[JobHead] = field(default_factory=list)
    started: int = 0
    clients: bool = False
    said: list[str] = field(default_factory=list)
    passes: list[OutputPass] = field(default_factory=list)


def runs(text: str, raw: str) -> list[FioTextRun]:
    """Every run in ``text``, those without a result too.  Raises FormatError with the line."""
    reader = _Reader(raw)
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(number, line)
    if reader.later:
        reader.begin(0).said.extend(reader.later)
    return reader.found


@dataclass(slots=True)
class _Reader:
    """Where the reading stands: the block, direction, table and group that the next line belongs
    to."""

    raw: str
    found: list[FioTextRun] = field(default_factory=list)
    block: GroupBlock | None = None
    part: DirectionBlock | None = None
    table: _PercentileTable | None = None
    other: bool = False  # in a table that is none of ours
    skipping: bool = False  # in the block of "All clients"
    group: int | None = None
    disks: bool = False
    later: list[str] = field(default_factory=list)

    def begin(self, number: int) -> FioTextRun:
        """The run that is being read; the first one where there is none yet."""
        if not self.found:
            self.found.append(FioTextRun(number))
        return self.found[-1]

    def renew(self, number: int, *, again: bool) -> FioTextRun:
        """The run that a line at its beginning belongs to: a new one where the last one has
        results, or where ``again`` says that it had that line already."""
        run = self.begin(number)
        if run.passes or (again and not run.clients):
            run = FioTextRun(number, said=self.later)
            self.later = []
            self.found.append(run)
        self._leave()
        return run

    def _leave(self) -> None:
        self.block = self.part = self.table = self.group = None
        self.other = self.skipping = self.disks = False

    def read(self, number: int, line: str) -> None:
        text, host = stripped(line)
        if not text:
            return
        place = LinePosition(self.raw, number)
        if not (self._beginning(text, place, host=host) or self._middle(text, place)):
            self._end(text, place)

    def _beginning(self, text: str, place: LinePosition, *, host: bool) -> bool:
        head, version = HEADER.fullmatch(text), version_in(text)
        started = starting(text)
        last = self.found[-1] if self.found else None
        if head:
            run = self.renew(place.line, again=bool(last and (last.started or last.version)))
            run.heads.append(JobHead(head["name"], int(head["group"]), setup(head, place)))
            run.clients = run.clients or host
        elif version:
            run = self.renew(place.line, again=bool(last and (last.started or last.version)))
            run.version, numbers = version
            run.spelling = FioSpelling(old=False, version=numbers)
            run.clients = run.clients or text.startswith("hostname=")
        elif started:
            run = self.renew(place.line, again=bool(last and last.started))
            run.started += started
        elif text == "...":
            if last and last.heads and not last.passes:
                last.heads[-1].many = True
        elif text.startswith(_MESSAGES):
            run = self.begin(place.line)
            (self.later if run.passes else run.said).append(text)
        else:
            return False
        return True

    def _middle(self, text: str, place: LinePosition) -> bool:
        if "(groupid=" in text:
            self._job(text, place)
        elif "Run status group" in text:
            self._group(text, place)
        elif text.startswith("Disk stats"):
            self._leave()
            self.disks = bool(self.found and self.found[-1].passes)
        elif self.skipping:
            pass
        elif total := total_in(text, self._spelling(), place):
            if self.group is None:
                raise place.error("totals of a group outside a group")
            self.found[-1].passes[-1].totals[self.group].append(total)
        else:
            return False
        return True

    def _spelling(self) -> FioSpelling:
        return self.found[-1].spelling if self.found else FioSpelling(old=False)

    def _job(self, text: str, place: LinePosition) -> None:
        found = JOB.fullmatch(text)
        if not found:
            raise place.torn(text, "the block of a job")
        run = self.begin(place.line)
        self._leave()
        if found["name"] == _EVERYBODY and found["pid"] == "0":
            self.skipping = True
            return
        if not run.passes or run.passes[-1].totals:
            run.passes.append(OutputPass())
        if not int(found["jobs"] or 1):
            raise place.error("a block of no job")
        self.block = GroupBlock(
            place,
            found["name"],
            int(found["group"]),
            int(found["jobs"] or 1),
            int(found["error"]),
            found["pid"],
        )
        run.passes[-1].blocks.append(self.block)

    def _group(self, text: str, place: LinePosition) -> None:
        found = GROUP.fullmatch(text)
        if not found:
            raise place.torn(text, "the totals")
        self._leave()
        if not self.found or not self.found[-1].passes:
            raise place.error("totals of a group without any job")
        self.group = int(found[1])
        if self.group in self.found[-1].passes[-1].totals:
            raise place.error(f"totals of group {self.group} a second time")
        self.found[-1].passes[-1].totals[self.group] = []

    def _end(self, text: str, place: LinePosition) -> None:
        """The lines of a block, and those of disks."""
        if self.disks:
            self.found[-1].passes[-1].disks.append(text)
            return
        moved = moved_in(text, self._spelling(), place)
        took = took_in(text, self._spelling(), place)
        issued = issued_in(text, place)
        cpu = cpu_in(text, place)
        if not self.block:
            if moved or took or issued or cpu:
                raise place.error(f"{text[:60]!r} belongs to no job")
        elif moved:
            self._moved(self.block, moved, place)
        elif took:
            self._took(self.block, took, place)
        elif issued or cpu:
            self._counted(self.block, issued, cpu, place)
        elif not self._percentiles(text, place):
            self.block.failed = errors(text) or self.block.failed
            reached = attained(text)
            self.block.attained = self.block.attained if reached is None else reached

    def _moved(self, block: GroupBlock, moved: TransferLine, place: LinePosition) -> None:
        if moved.operation in block.parts:
            raise place.error(f"{moved.operation} a second time in one job")
        self.part = block.parts[moved.operation] = DirectionBlock(moved, place)
        self.table = None

    @staticmethod
    def _counted(
        block: GroupBlock,
        issued: _IssuedLine | None,
        cpu: tuple[float, float] | None,
        place: LinePosition,
    ) -> None:
        if (issued and block.issued) or (cpu and block.cpu):
            raise place.error("the count of I/Os or CPU time a second time in one job")
        block.issued = issued or block.issued
        block.cpu = cpu or block.cpu

    def _took(self, block: GroupBlock, took: LatencyLine, place: LinePosition) -> None:
        if took.stage == "sync":
            self.part = block.sync = DirectionBlock(
                TransferLine("sync", took.least, (), took.least, 1), place
            )
        if self.part is None:
            raise place.error("latencies before the line of their direction")
        if took.stage in self.part.took:
            raise place.error(f"{took.stage} a second time in one direction")
        self.part.took[took.stage] = took
        self.table = None

    def _percentiles(self, text: str, place: LinePosition) -> bool:
        """The beginning of a table of percentiles, or a row of the last one."""
        begun = percentiles(text)
        if begun:
            stage, tick, text = begun
            self._table(stage, tick, place)
            if not text:
                return True
        cells = row(text, place)
        if cells is None or self.other:
            return bool(begun)
        if self.table is None:
            raise place.error("a row of percentiles without its first line")
        for p, ticks, beyond in cells:
            before = self.table.last
            if p < before[0] or ticks < before[1]:
                raise place.error(f"the percentile {p:g} is less than the one before it")
            self.table.last = p, ticks
            if not beyond:
                self.table.listed[p] = ticks
        return True

    def _table(self, stage: str, tick: float, place: LinePosition) -> None:
        self.other, self.table = not stage, None
        if not stage:
            return
        if self.part is None:
            raise place.error("percentiles before the line of their direction")
        if stage in self.part.tables:
            raise place.error(f"percentiles of {stage} a second time in one direction")
        self.table = self.part.tables[stage] = _PercentileTable(tick)
