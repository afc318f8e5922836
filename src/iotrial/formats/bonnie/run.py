"""One run of bonnie++ as its cells say it → measurements, censored ones too, and doubts.

``+++++`` means that a phase took less than half a second (a whole one in 1.00, whose sizes have
no unit): too fast to tell.  It is censored: where the amount is known, the measurement is the
least rate it can have been, amount over that time; else a doubt alone names it.  From 1.9x on
nobody knows how much the per-character tests moved (``-f`` sets it, and is not printed).

From 1.9x on, amounts in KiB and numbers of files are counted in 32 bits: of 2 TiB or 2 M files
and more, no rate is right, and it is left out.

Sources: ``bonnie.h`` (MinTime, Seeks, DirectoryUnit) and ``bon_time.cpp`` (``print_stat``) of
1.00 to 2.00.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement, metric
from iotrial.model.trial import Doubt, Treatment

IO = ("putc.bw", "write.bw", "rewrite.bw", "getc.bw", "read.bw", "seek.rate")
FILES = tuple(
    f"{what}.{order}.rate" for order in ("seq", "random") for what in ("create", "stat", "delete")
)
AGAIN = "repeat the run, or take bonnie++'s own output without what was edited"
_CHARACTERS = frozenset({"putc.bw", "getc.bw"})
_KIB, _MIB, _UNIT = 1024.0, 2.0**20, 1024
_MOST = 2**21  # MiB, or multiples of 1024 files, from where 32 bits overflow
_LEAST, _LEAST_OF_1_00 = 0.5, 1.0  # seconds
_SEEKS, _SEEKS_OF_1_00 = 8192, 8000
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_TIME = re.compile(r"(\d{1,12})(us|ms|s)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZE = re.compile(r"(\d{1,9})([MGT]?)")
_CHUNK = re.compile(r"\d{1,9}[km]?|")
_FILES = re.compile(r"(\d{1,9})(?::(?:-?\d{1,10}|link|symlink))?(?::\d{1,10})?(?:/\d{1,9})?")
_SCALE = {"": 1, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True, slots=True)
class Row:
    """What one line of CSV, or one table, says.  ``cells`` are 12 of (value, CPU), of IO and then
    of FILES; ``slowest`` 12 latencies, or none.  ``size`` (``1000M``), ``chunk`` and ``files``
    (``16:1024:512/10``) are as printed, '' where the test was left out.  ``known`` says which of
    the options of its own the version prints: ``concurrency``, ``seeks``, ``seekers``."""

    line: int
    name: str
    version: str
    cells: tuple[tuple[str, str], ...]
    slowest: tuple[str, ...] = ()
    size: str = ""
    chunk: str = ""
    files: str = ""
    known: Mapping[str, str] = field(default_factory=dict)
    rounded: bool = False

    @property
    def modern(self) -> bool:
        """1.9x or 2.x: amounts in 32 bits, latencies, and an unknown number of characters."""
        return self.version[:3] == "1.9" or self.version[:1] == "2"

    @property
    def ancient(self) -> bool:
        """1.00, or what may be it: its CSV has no version either, and a size without a unit."""
        return self.version[:4] == "1.00" or (not self.version and self.size.isdecimal())

    @property
    def least(self) -> float:
        """Seconds a phase must take to have a rate; the more of the two where the line may be of
        either version."""
        unknown = not self.version and not self.size
        return _LEAST_OF_1_00 if self.ancient or unknown else _LEAST


@dataclass(frozen=True, slots=True)
class Run:
    """One line of CSV, or one table: of which machine, by which version ('' where nothing says:
    1.04 or before), what it measured.  ``censored`` are the metrics that were too fast to tell,
    whether or not they have a bound."""

    name: str
    version: str
    line: int
    measurements: tuple[Measurement, ...]
    censored: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()
    treatment: Treatment = ()


def run_of(row: Row, raw: str, doubts: Sequence[Doubt] = ()) -> Run:
    """Raises :class:`~iotrial.errors.FormatError` with the line for what bonnie++ never prints."""
    place = f"{raw}: line {row.line}"
    amounts = _amounts(row, place)
    found: list[Measurement] = []
    censored: list[str] = []
    lost: list[str] = []
    slowest = row.slowest or ("",) * len(row.cells)
    doubtful: list[Doubt] = []
    for name, (value, cpu), longest in zip((*IO, *FILES), row.cells, slowest, strict=True):
        stem = name.rpartition(".")[0]
        lasted = 0.0
        if too_fast(value) and (too_fast(cpu) or not cpu or row.ancient):
            censored.append(name)
            if name in amounts:
                found.append(_of(name, amounts[name] / row.least, raw, "high"))
        elif name in amounts and amounts[name] < 0:
            lost.append(name)
        elif value or cpu:
            rate = _rate(name, value, place)
            found.append(_of(name, rate, raw))
            lasted = amounts.get(name, 0.0) / rate if rate else 0.0
        if (value or cpu) and not (too_fast(cpu) or (too_fast(value) and not cpu)):
            found.append(_of(f"{stem}.cpu", _number(cpu, f"{stem} CPU", place) / 100.0, raw))
        if longest:
            seconds = _latency(longest, name, place)
            found.append(_of(f"{stem}.lat.max", seconds, raw))
            if lasted and not row.rounded and seconds > 1.05 * lasted + 0.1:
                what = f"{stem}: one operation of {seconds:.3g} s in a test of {lasted:.3g} s"
                doubtful.append(Doubt("latency", what, "One of the two numbers is wrong."))
    return Run(
        row.name, row.version, row.line, tuple(found), tuple(censored),
        (*doubts, *_left_out(censored, lost), *doubtful), _treatment(row),
    )  # fmt: skip


def _left_out(censored: Sequence[str], lost: Sequence[str]) -> Iterator[Doubt]:
    if censored:
        what = f"too fast to tell (less than half a second): {', '.join(censored)}"
        advice = "Give bonnie++ more to do: a larger size, more files."
        yield Doubt("censored", what, advice)
    if lost:
        what = f"more than 32 bits can count, so these rates are left out: {', '.join(lost)}"
        yield Doubt("overflow", what, "Keep the size below 2 TiB, and the files below 2 million.")


def _amounts(row: Row, place: str) -> dict[str, float]:
    """What each phase did, as far as it is known: bytes, seeks, files; negative where bonnie++
    could not count so far."""
    found: dict[str, float] = {}
    if row.size:
        match = _SIZE.fullmatch(row.size)
        if not match or not _CHUNK.fullmatch(row.chunk):
            text = f"{row.size}:{row.chunk}".rstrip(":")[:40]
            raise FormatError(f"{place}: {text!r} is no size such as 1000M:16k", advice=AGAIN)
        size = int(match[1]) * _SCALE[match[2]]
        amount = size * _MIB if size < _MOST or not row.modern else -1.0
        found |= {name: amount for name in IO[:-1] if not (row.modern and name in _CHARACTERS)}
        seeks = _SEEKS_OF_1_00 if row.ancient else _SEEKS
        found["seek.rate"] = float(row.known.get("seeks") or seeks)
    if row.files:
        match = _FILES.fullmatch(row.files)
        if not match:
            message = f"{place}: {row.files[:40]!r} is no number of files such as 16:1024:512/10"
            raise FormatError(message, advice=AGAIN)
        files = int(match[1])
        found |= dict.fromkeys(
            FILES, float(files * _UNIT) if files < _MOST or not row.modern else -1.0
        )
    return found


def _treatment(row: Row) -> Treatment:
    size = f"{row.size}M" if row.size.isdecimal() else row.size
    said = {"size": size, "chunk": row.chunk, "files": row.files, **row.known}
    return tuple((name, value) for name, value in said.items() if value)


def _of(name: str, value: float, raw: str, censored: str = "") -> Measurement:
    return Measurement(
        name, value, metric(name).unit, "all", raw, "high" if censored == "high" else ""
    )


def too_fast(text: str) -> bool:
    return len(text) >= 3 and not text.strip("+")  # noqa: PLR2004 (+++ and +++++)


def _rate(name: str, text: str, place: str) -> float:
    if not name.endswith(".bw"):
        return _number(text, name, place)
    scale = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}.get(text[-1:])
    plain = text if scale is None else text[:-1]
    return _number(plain, name, place) * (scale or 1.0) * _KIB


def _number(text: str, what: str, place: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise FormatError(f"{place}: {what}: {text[:40]!r} is no number", advice=AGAIN)
    return float(text)


def _latency(text: str, what: str, place: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        message = f"{place}: latency of {what}: {text[:40]!r} is no time such as 81us"
        raise FormatError(message, advice=AGAIN)
    return float(match[1]) * _SECONDS[match[2]]
