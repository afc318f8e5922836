"""elbencho's phases: what one says of itself, what must agree in it, and which make up a run.

A phase is one operation (WRITE, READ, STAT …) over all threads.  Its own numbers are those of
*last done*, from the start to the end of the slowest thread; those of *first done* are not taken.
Rates are whole numbers with the rest cut off: one of 0, where work was done, is at least that.

What must agree in a phase: rate × time = total; no more done when the first thread ended than at
the end; minimum ≤ mean ≤ maximum of a latency; no I/O larger than a block.

In its CSV (``--csvfile``), of every version, rows are phases, and columns go by their names.  1.x
has no label, version and command, and has ``random amount``; 2.0 brought those and the reads of a
mix.  Runs are appended to a file, so that a second line of names may come, and other columns with
it.  Fields are never quoted: commas in a label and a command are spaces.

Sources: Statistics.cpp, ProgArgs.cpp, LatencyHistogram.h of elbencho 1.0 to 3.1;
docs/result-columns-explanation.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt, Treatment

AGAIN = "repeat the run, or take elbencho's file as it wrote it"
MIB = 2.0**20
MILLI, MICRO = 1e3, 1e6  # in a second
ENTRIES, IOS, BYTES = "entries", "ios", "bytes"
WRITTEN, MIXED_READ, BOTH = "", "read", "total"
"""The parts of a phase: all of it (of a mix its writes), a mix's reads, and both together, as 1.x
counts a mix."""

_NAMES = {
    "WRITE": ("create", "write"), "READ": ("read", "read"), "NET": ("", "write"),
    "MKDIRS": ("create.dir", ""), "RMDIRS": ("delete.dir", ""), "STATDIRS": ("stat.dir", ""),
    "STAT": ("stat", ""), "RMFILES": ("delete", ""),
    "MKBUCKETS": ("create.dir", ""), "RMBUCKETS": ("delete.dir", ""),
    "HEADOBJ": ("stat", ""), "RMOBJECTS": ("delete", ""), "MULTIDEL": ("delete", ""),
    "LISTOBJ": ("list", ""), "LISTOBJ_P": ("list", ""),
}  # fmt: skip
_IDLE = ("SYNC", "DROPCACHE", "IDLE", "QUIT")
"""Phases between others, in which nothing is counted."""
_MIX = re.compile(r"(RWMIX|MIX-T)(\d{0,4})")
_INLINE = re.compile(r"\+([sr])")
_NAME = re.compile(r"[A-Z][A-Z0-9_-]{1,19}(?:\+[sr])*")
_NUMBER = re.compile(r"\d{1,18}")
_FEW = 100
_BLOCKS = range(9, 35)  # 512 bytes to 16 GiB, as powers of two
_FILE_LATENCY = "read.file"
"""Of a file read whole, with its open and close; ``read.lat`` is of an I/O."""


@dataclass(slots=True)
class PhasePart:
    """``rates`` in 1/s (bytes/s), ``totals`` and ``before`` (when the first thread ended) by
    kind; ``step`` is how fine bytes are printed, in bytes.  ``latency`` is kind → quantity (mean,
    min, max, p99 …) → seconds."""

    rates: dict[str, float] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    latency: dict[str, dict[str, float]] = field(default_factory=dict)
    step: float = MIB


@dataclass(slots=True)
class Phase:
    """``run`` tells runs apart (the command line, the label, the table it stood in); ``seconds``
    is until the last thread ended, cut to ``fine`` seconds; ``cpu`` a fraction, None unknown."""

    line: int
    name: str
    run: tuple[str, ...]
    seconds: float
    first: float
    fine: float = 0.001
    version: str = ""
    started: float = 0.0
    cpu: float | None = None
    treatment: Treatment = ()
    parts: dict[str, PhasePart] = field(default_factory=dict)

    def part(self, name: str) -> PhasePart:
        return self.parts.setdefault(name, PhasePart())


def whole(word: str, place: str) -> float:
    """A whole number.  Raises FormatError for anything else."""
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:30]!r} is not a whole number", advice=AGAIN)
    return float(word)


def named(name: str, place: str) -> str:
    """A phase's name.  Raises FormatError for what elbencho cannot have called one."""
    if not _NAME.fullmatch(name):
        raise FormatError(f"{place}: {name[:30]!r} is not an operation of elbencho", advice=AGAIN)
    return name


def version_of(text: str, place: str) -> str:
    """A version such as 3.0-27, or ''.  Raises FormatError."""
    if not re.fullmatch(r"(\d[\w.-]{0,30})?", text):
        raise FormatError(f"{place}: {text[:30]!r} is not a version", advice=AGAIN)
    return text


# What must agree.


def check(phase: Phase, raw: str) -> None:
    """Raises FormatError where numbers of a phase cannot all be right."""
    place = f"{raw}: line {phase.line}: {phase.name}"
    if phase.first > phase.seconds:
        message = f"{place}: the first thread ended after {phase.first:g} s, the last before"
        raise FormatError(message, advice=AGAIN)
    for part in phase.parts.values():
        for kind, total in part.totals.items():
            if part.before.get(kind, 0.0) > total:
                message = f"{place}: {part.before[kind]:.0f} {kind} were done of {total:.0f}"
                raise FormatError(message, advice=AGAIN)
        _rates(phase, part, place)
        for kind, quantities in part.latency.items():
            _latency(quantities, f"{place}: latency of {kind}")
        _blocks(phase, part, place)


def _rates(phase: Phase, part: PhasePart, place: str) -> None:
    """Each total and its rate say how long it took, and all must say the same: the time that is
    printed, to a millisecond, and the others', which is finer."""
    inexact = 1.0 + 1e-9
    low, high = phase.seconds / inexact, (phase.seconds + phase.fine) * inexact
    for kind in sorted(part.totals.keys() & part.rates.keys()):
        rate, total = part.rates[kind], part.totals[kind]
        step = part.step if kind == BYTES else 1.0
        if not rate and not phase.seconds:
            continue  # shorter than elbencho can tell
        low = max(low, total / (rate + step) / inexact)
        high = min(high, (total + step) / rate * inexact if rate else high)
        if low > high:
            message = f"{place}: {total:.0f} {kind} in {phase.seconds:g} s are not {rate:.0f}/s"
            raise FormatError(message, advice=AGAIN)


def _latency(quantities: Mapping[str, float], place: str) -> None:
    """Printed with three digits in the text, and cut to whole µs elsewhere."""
    least, mean, most = (quantities.get(name) for name in ("min", "mean", "max"))
    if least is None or mean is None or most is None:
        return
    if not least <= mean * 1.006 + 1e-6 or not mean <= most * 1.006 + 1e-6:
        message = f"{place}: a mean of {mean:g} s between {least:g} s and {most:g} s"
        raise FormatError(message, advice=AGAIN)


def _blocks(phase: Phase, part: PhasePart, place: str) -> None:
    block = dict(phase.treatment).get("block", "")
    if not block.isdecimal() or phase.name == "NET" or not int(block):
        return
    for amounts, step in ((part.rates, 1.0), (part.totals, 0.0)):
        if IOS not in amounts or BYTES not in amounts:
            continue
        most = (amounts[IOS] + step) * int(block)
        if amounts[BYTES] > most * (1 + 1e-9):
            message = f"{place}: {amounts[BYTES]:.0f} bytes in {amounts[IOS]:.0f} I/Os of {block}"
            raise FormatError(message, advice=AGAIN)


# From phases to recordings.


def recordings(phases: Iterable[Phase], raw: str) -> Iterator[Recording]:
    """One a run.  A run ends with its command, its table or its options, and where an operation
    comes a second time (iterations, runs appended to one file)."""
    run: list[Phase] = []
    found: list[Measurement] = []
    for phase in phases:
        check(phase, raw)
        if phase.name in _IDLE:
            continue
        ours = list(_measured(phase, raw))
        names = {each.metric for each in found}
        if run and (_key(phase) != _key(run[0]) or any(each.metric in names for each in ours)):
            yield from _recording(run, found)
            run, found = [], []
        run.append(phase)
        found += ours
    yield from _recording(run, found)


def _is_cut(bandwidth: float) -> bool:
    return bandwidth % MIB == 0 and bandwidth < _FEW * MIB


def _key(phase: Phase) -> tuple[object, ...]:
    return (phase.run, phase.version, phase.treatment)


def _recording(run: list[Phase], found: list[Measurement]) -> Iterator[Recording]:
    if not found:
        return
    doubts = []
    if short := [phase.name for phase in run if not phase.seconds]:
        what = f"{', '.join(short)} took less than a millisecond"
        doubts.append(Doubt("elbencho-short", what, "Take more files, or larger ones."))
    cut = [each.metric for each in found if each.metric.endswith(".bw") and _is_cut(each.value)]
    if cut:
        what = f"{', '.join(cut)}: MiB/s without their decimals, more than 1 % of it"
        doubts.append(Doubt("elbencho-cut", what, "Its JSON (--jsonfile) has all digits."))
    yield Recording(
        tool="elbencho",
        workload="elbencho",
        measurements=tuple(found),
        version=run[0].version,
        line=run[0].line,
        treatment=(*run[0].treatment, *_block_of(run), *_done_inline(run)),
        doubts=tuple(doubts),
        started=run[0].started,
        seconds=sum(phase.seconds for phase in run),
    )


def _block_of(run: list[Phase]) -> Iterator[tuple[str, str]]:
    """The block size where nobody says it: the only power of two that rates, cut to whole I/Os and
    MiB, leave for every phase."""
    if "block" in dict(run[0].treatment):
        return
    found: list[set[int]] = []
    for part in (part for phase in run for part in phase.parts.values()):
        ios, moved = part.rates.get(IOS, 0.0), part.rates.get(BYTES, 0.0)
        if ios and moved:
            low, high = moved / (ios + 1.0), (moved + part.step) / ios
            found.append({1 << bits for bits in _BLOCKS if low <= 1 << bits <= high})
    if found and len(sizes := set.intersection(*found)) == 1:
        yield "block", str(sizes.pop())


def _done_inline(run: list[Phase]) -> Iterator[tuple[str, str]]:
    """Of a mix, its share of reads or its reading threads; what is done with each file."""
    for phase in run:
        if (match := _MIX.match(phase.name)) and match[2]:
            yield ("rwmixpct" if match[1] == "RWMIX" else "rwmixthr", match[2])
    letters = {letter for phase in run for letter in _INLINE.findall(phase.name)}
    yield from (
        (name, "1") for letter, name in (("s", "statinline"), ("r", "readinline"))
        if letter in letters
    )  # fmt: skip


def _operations(phase: Phase, part: str) -> tuple[str, str]:
    """The operations on entries and of I/O."""
    if part:
        return (part, part)
    name = _INLINE.sub("", phase.name)
    if _MIX.match(name):
        name = "WRITE"
    other = name.lower().replace("-", "_")
    return _NAMES.get(name, (other, other))


def _measured(phase: Phase, raw: str) -> Iterator[Measurement]:
    values: dict[str, float] = {}
    for name, part in phase.parts.items():
        values.update(_of_part(phase, name, part))
    if values:
        entries, ios = _operations(phase, WRITTEN)
        operation = ios if any(name.endswith(".bw") for name in values) else entries or ios
        values[f"{operation}.seconds"] = phase.seconds
        if phase.cpu is not None:
            values[f"{operation}.cpu"] = phase.cpu
    for name, value in values.items():
        side: Literal["", "high", "low"] = ""
        if ".lat.p" in name:
            side = "low"  # the upper end of a bin that is a fifth wide
        elif not value and not name.endswith(".cpu"):
            side = "high"  # less than one, cut
        yield of_metric(name, value, raw, censored=side)


def _of_part(phase: Phase, name: str, part: PhasePart) -> Iterator[tuple[str, float]]:
    entries, ios = _operations(phase, name)
    for kind, operation, quantity in (
        (ENTRIES, entries, "rate"), (IOS, ios, "iops"), (BYTES, ios, "bw"),
    ):  # fmt: skip
        if kind in part.rates and operation and (part.rates[kind] or phase.seconds):
            yield f"{operation}.{quantity}", part.rates[kind]
    files = _FILE_LATENCY if entries == "read" else entries
    for kind, operation in ((ENTRIES, files), (IOS, ios or entries)):
        for quantity, seconds in part.latency.get(kind, {}).items():
            yield f"{operation}.lat.{quantity}", seconds


# From CSV to phases.

HEAD = re.compile(r"^[^\n]*\boperation,time ms \[first\],[^\n]*$", re.MULTILINE)
_LIVE = re.compile(r"ISO Date,Label,Phase,RuntimeMS,")
_KINDS = (("entries", ENTRIES, 1.0), ("IOPS", IOS, 1.0), ("IOs", IOS, 1.0), ("MiB", BYTES, MIB))
OPTIONS = {
    "path type": "path type", "paths": "paths", "hosts": "hosts", "threads": "threads",
    "dirs": "dirs", "files": "files", "file size": "size", "block size": "block",
    "direct IO": "direct", "random": "rand", "random amount": "randamount",
    "IO depth": "iodepth", "truncate": "trunc",
}  # fmt: skip
"""Column → elbencho's own option."""
_ALL_CPU = 100.0


def phases_of_csv(text: str, raw: str) -> Iterator[Phase]:
    """Every row.  Raises FormatError for one that is not whole."""
    if _LIVE.match(text):
        message = f"{raw}: line 1: this is elbencho's live log (--livecsv)"
        raise FormatError(message, advice="give the result, which --csvfile writes")
    columns: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"{raw}: line {at}"
        if HEAD.match(line):
            columns = line.split(",")
            if len(set(columns)) != len(columns):
                raise FormatError(f"{place}: a column is named twice", advice=AGAIN)
            continue
        if not columns:
            continue  # what others said before
        fields = line.split(",")
        if len(fields) != len(columns):
            message = f"{place}: {len(fields)} fields; {len(columns)} are named"
            raise FormatError(message, advice=AGAIN)
        yield _phase(dict(zip(columns, fields, strict=True)), at, place)


def _phase(row: Mapping[str, str], at: int, place: str) -> Phase:

    name = named(row["operation"], f"{place}: operation")
    phase = Phase(
        line=at,
        name=name,
        run=(row.get("label", ""), row.get("command", "")),
        seconds=_said(row, "time ms [last]", place) / MILLI,
        first=_said(row, "time ms [first]", place) / MILLI,
        version=version_of(row.get("version", ""), place),
        started=started(row.get("ISO date", ""), place),
        cpu=share(row.get("CPU% [last]", ""), place),
        treatment=tuple(
            (option, f"{_said(row, column, place):.0f}" if column != "path type" else row[column])
            for column, option in OPTIONS.items()
            if row.get(column)
        ),
    )
    mixed = name.startswith(("RWMIX", "MIX-T")) and "rwmix read IOPS [last]" not in row
    _part(phase.part(BOTH if mixed else WRITTEN), row, "", place)
    if any(value and column.startswith("rwmix read ") for column, value in row.items()):
        _part(phase.part(MIXED_READ), row, "rwmix read ", place)
    return phase


def _part(part: PhasePart, row: Mapping[str, str], before: str, place: str) -> None:
    for column, kind, unit in _KINDS:
        per_second = column if column == "IOPS" else f"{column}/s"
        if row.get(f"{before}{per_second} [last]"):
            part.rates[kind] = _said(row, f"{before}{per_second} [last]", place) * unit
        if column == "IOPS":
            continue
        if row.get(f"{before}{column} [last]"):
            part.totals[kind] = _said(row, f"{before}{column} [last]", place) * unit
        if row.get(f"{before}{column} [first]"):
            part.before[kind] = _said(row, f"{before}{column} [first]", place) * unit
    if row.get("I/Os [last]"):  # 1.0 to 1.2
        part.totals[IOS] = _said(row, "I/Os [last]", place)
    for column, kind in (("Ent", ENTRIES), ("IO", IOS)):
        for said, quantity in (("min", "min"), ("avg", "mean"), ("max", "max")):
            if row.get(f"{before}{column} lat us [{said}]"):
                micro = _said(row, f"{before}{column} lat us [{said}]", place)
                part.latency.setdefault(kind, {})[quantity] = micro / MICRO


def _said(row: Mapping[str, str], column: str, place: str) -> float:
    return whole(row.get(column, ""), f"{place}: {column}")


def share(word: str, place: str) -> float | None:
    """A fraction of the CPUs; None where it is not said, or was not to be had (a counter that ran
    backwards).  Raises FormatError."""
    if not word:
        return None
    percent = whole(word, f"{place}: CPU%")
    return percent / _ALL_CPU if percent <= _ALL_CPU else None


def started(word: str, place: str) -> float:
    """When the phase began: with milliseconds, as since 3.0-27; before, the date is that of the
    row.  0 where it is not said, or without its zone.  Raises FormatError."""
    if not word:
        return 0.0
    try:
        date = datetime.fromisoformat(word)
    except ValueError:
        message = f"{place}: {word[:30]!r} is not a date such as 2025-01-31T10:00:00.123+0000"
        raise FormatError(message, advice=AGAIN) from None
    return date.timestamp() if "." in word and date.tzinfo else 0.0
