"""elbencho's CSV (``--csvfile``), every version: rows are phases, and columns go by their names.

1.x has no label, version and command, and has ``random amount``; 2.0 brought those and the reads
of a mix.  Runs are appended to a file, so that a second line of names may come, and other columns
with it.  Fields are never quoted: commas in a label and a command are spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from iotrial.errors import FormatError
from iotrial.formats.elbencho.phase import (
    AGAIN,
    BOTH,
    BYTES,
    ENTRIES,
    IOS,
    MIB,
    MIXED_READ,
    WRITTEN,
    Part,
    Phase,
    named,
    version_of,
    whole,
)  # fmt: skip

HEAD = re.compile(r"^[^\n]*\boperation,time ms \[first\],[^\n]*$", re.MULTILINE)
_LIVE = re.compile(r"ISO Date,Label,Phase,RuntimeMS,")
_KINDS = (("entries", ENTRIES, 1.0), ("IOPS", IOS, 1.0), ("IOs", IOS, 1.0), ("MiB", BYTES, MIB))
_MILLI, _MICRO = 1e3, 1e6  # in a second
OPTIONS = {
    "path type": "path type", "paths": "paths", "hosts": "hosts", "threads": "threads",
    "dirs": "dirs", "files": "files", "file size": "size", "block size": "block",
    "direct IO": "direct", "random": "rand", "random amount": "randamount",
    "IO depth": "iodepth", "truncate": "trunc",
}  # fmt: skip
"""Column → elbencho's own option."""
_ALL_CPU = 100.0


def phases_of(text: str, raw: str) -> Iterator[Phase]:
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
        seconds=_said(row, "time ms [last]", place) / _MILLI,
        first=_said(row, "time ms [first]", place) / _MILLI,
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


def _part(part: Part, row: Mapping[str, str], before: str, place: str) -> None:
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
                part.latency.setdefault(kind, {})[quantity] = micro / _MICRO


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
        message = f"{place}: {word[:30]!r} is no date such as 2025-01-31T10:00:00.123+0000"
        raise FormatError(message, advice=AGAIN) from None
    return date.timestamp() if "." in word and date.tzinfo else 0.0
