"""The lines of fio's text output, one by one: which they are, and what stands in them.

A line that begins as one of fio's does and does not end as one is an error: it was cut or
changed.  Every other line is somebody else's and passed over.

Sources: the format strings in stat.c, init.c, backend.c, client.c and diskutil.c of fio 1.16 to
3.42.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iotrial.errors import FormatError
from iotrial.formats.fio.text_numbers import NUMBER, SIZE, Span, Spelling, groups

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
class Place:
    """Where a line stands: the file and the line's number."""

    raw: str
    line: int

    def error(self, what: str) -> FormatError:
        return FormatError(f"{self.raw}: line {self.line}: {what}", advice=AGAIN)

    def torn(self, text: str, kind: str) -> FormatError:
        return self.error(f"{text[:80]!r} begins as {kind} of fio does, and is none")


@dataclass(frozen=True, slots=True)
class Moved:
    """One direction's line: ``size`` in bytes, ``rates`` the bandwidths in bytes/s, ``iops``
    1/s, ``milliseconds`` how long.  ``text`` is the line up to 2.16, where K may be 1000; else
    empty."""

    operation: str
    size: Span
    rates: tuple[Span, ...]
    iops: Span
    milliseconds: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Took:
    """One line of latencies, in seconds; ``sd`` None where fio divided by zero."""

    stage: str
    tick: float
    least: Span
    most: Span
    mean: float
    step: float
    sd: float | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """I/Os of each direction; ``syncs`` 0 where they are not counted; ``incomplete`` those that
    were short or dropped."""

    ios: tuple[int, int, int]
    syncs: int
    incomplete: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Total:
    """A group's own line for one direction; ``shortest`` and ``longest`` in milliseconds."""

    operation: str
    size: Span
    rates: tuple[Span, ...]
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


def version(text: str) -> tuple[str, tuple[int, int]] | None:
    host = _HOST.fullmatch(text)
    found = _VERSION.fullmatch(host["version"] if host else text)
    if not found:
        return None
    return found[0].replace(" ", "-"), (int(found["major"]), int(found["minor"]))


def starting(text: str) -> int:
    """How many processes and threads a run says it starts; 0 where the line is another."""
    found = _STARTING.fullmatch(text)
    return sum(int(each) for each in found.groups() if each) if found else 0


def setup(found: re.Match[str], place: Place) -> Mapping[str, str]:
    """rw, bs, ioengine and iodepth of a job's first line."""
    rest = _SETUP.fullmatch(found["rest"])
    if not rest:
        raise place.torn(found[0], "the first line of a job")
    return rest.groupdict()


def moved(text: str, spelling: Spelling, place: Place) -> Moved | None:
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


def _old_moved(found: re.Match[str], text: str, kilo: int = 1024) -> Moved:
    how = Spelling(old=True, kilo=kilo)
    size, rate = how.size(groups(found, 2)), how.size(groups(found, 6))
    return Moved(found[1], size, (rate,), how.count(found[10], found[11]), int(found[12]), text)


def _new_moved(found: re.Match[str], spelling: Spelling) -> Moved:
    how = Spelling(old=False, version=spelling.version)
    size, iops = how.size(groups(found, 12)), how.count(found[2], found[3])
    rates = how.size(groups(found, 4)), how.size(groups(found, 8))
    return Moved(found[1], size, rates, iops, int(found[16]))


def respelled(moved: Moved, kilo: int) -> Moved:
    """The same line where K stands for ``kilo``; since 2.17 fio says it itself."""
    found = _OLD_DIRECTION.fullmatch(moved.text)
    return _old_moved(found, moved.text, kilo) if found else moved


def took(text: str, spelling: Spelling, place: Place) -> Took | None:
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
    return Took(found[1], tick, least.scaled(tick), most.scaled(tick), mean * tick, step * tick, sd)


def percentiles(text: str) -> tuple[str, float, str] | None:
    """Stage, tick in seconds and the rest of the line that begins a table of percentiles; the
    stage is empty for a table of something else (I/O priorities, blocks' lifetimes)."""
    found = _PERCENTILES.fullmatch(text)
    if found:
        return found[1], TICKS[found[2]], found[3]
    return ("", 1.0, "") if _OTHER_PERCENTILES.fullmatch(text) else None


def row(text: str, place: Place) -> list[tuple[float, int, bool]] | None:
    """A row of percentiles: which, how many ticks, and whether it is at least that."""
    if not _ROW.fullmatch(text):
        if text.startswith("|") and "th=" in text:
            raise place.torn(text, "a row of percentiles")
        return None
    return [(float(a), int(c), bool(b)) for a, b, c in _CELL.findall(text)]


def issued(text: str, place: Place) -> Issued | None:
    if not _ISSUED_LIKE.match(text):
        return None
    found = _ISSUED.fullmatch(text)
    if not found:
        raise place.torn(text, "the count of I/Os")
    total, short, dropped = (
        _four(found[name] or "0,0,0", text, place) for name in ("total", "short", "dropped")
    )
    lost = (short[0] + dropped[0], short[1] + dropped[1], short[2] + dropped[2])
    return Issued(total[:3], total[3], lost)


def _four(counts: str, text: str, place: Place) -> tuple[int, int, int, int]:
    found = _TRIPLE.fullmatch(counts)
    if not found:
        raise place.torn(text, "the count of I/Os")
    return int(found[1]), int(found[2]), int(found[3] or 0), int(found[4] or 0)


def cpu(text: str, place: Place) -> tuple[float, float] | None:
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


def total(text: str, spelling: Spelling, place: Place) -> Total | None:
    """A group's own line; its bandwidth is all bytes over the longest time."""
    if not _TOTAL.match(text):
        return None
    if old := _OLD_TOTAL.fullmatch(text):
        return _old_total(old, text, place.line)
    found = _NEW_TOTAL.fullmatch(text)
    if not found:
        raise place.torn(text, "the totals of a group")
    how = Spelling(old=False, version=spelling.version)
    rates = how.size(groups(found, 2)), how.size(groups(found, 6))
    size, again = how.size(groups(found, 26)), how.size(groups(found, 30))
    if not size.meets(again):
        raise place.error(f"{size.shown:.6g} bytes are not {again.shown:.6g} bytes")
    times = int(found[34]), int(found[35])
    return Total(found[1].lower(), size.within(again), rates, *times, place.line)


def _old_total(found: re.Match[str], text: str, line: int, kilo: int = 1024) -> Total:
    how = Spelling(old=True, kilo=kilo)
    size, rate = how.size(groups(found, 2)), how.size(groups(found, 6))
    return Total(found[1].lower(), size, (rate,), int(found[18]), int(found[19]), line, text)


def respelled_total(total: Total, kilo: int) -> Total:
    """The same line where K stands for ``kilo``."""
    found = _OLD_TOTAL.fullmatch(total.text)
    return _old_total(found, total.text, total.line, kilo) if found else total
