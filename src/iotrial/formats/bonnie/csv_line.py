"""bonnie++'s lines of CSV, of every version → their fields by name.

1.04 and before have 27 fields and no version.  From 1.91 on a line begins with the version of its
format and of bonnie++: 1.91a has 46 fields (one less without files; its format is 2 without a
large file); 1.92a to 1.97 have 48 (one less without a large file, up to 1.96); 1.98 and 2.00 have
50, two more (seeks and seekers) before the first number.  bonnie++ 2.00a says it writes format
1.98, and prints no chunk size.  The chunk size of small files is printed nowhere.

A line may stand in a text: behind ``>``, a ``#`` or blanks, or as the words of an ``echo``.
Names are not quoted by bonnie++: a comma in one makes more fields.

Source: ``bon_time.cpp`` (``DoReport``, ``DoReportIO``, ``DoReportFile``) of 1.00 to 2.00.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from iotrial.errors import FormatError
from iotrial.formats.bonnie.run import AGAIN, FILES, IO, Row

_OLD, _FILE_FIELDS = 27, 5
_RESULTS = 3 * len(IO) + _FILE_FIELDS + 3 * len(FILES)  # value, CPU, latency
_BEFORE = {
    "1.91": ("name", "size", "chunk"),
    "1.92": ("name", "concurrency", "seed", "size", "chunk"),
    "1.98": ("name", "concurrency", "seed", "size", "chunk", "seeks", "seekers"),
}
"""First version with these fields → those between the two versions and the first number."""
_VERSION = re.compile(r"(\d\.\d\d)[a-z]?")
_LAST = "2.00"
_NO_LARGE_FILE_OF_1_91 = "2"
_FEWEST = 8  # commas; prose and bonnie++'s own messages have fewer
_CELL = re.compile(r"\++|[0-9.]+(?:us|ms|s|[kKmMgGtT])?(?:[:/][0-9a-z:/-]*)?|")
_SIZE = re.compile(r"[0-9]+[MGT](?::[0-9]+k?)?")
_QUOTING = re.compile(r"^[\s>|#]*(?:[$#%] )?")
_ECHO = re.compile(r"""echo\s+(?:-\w+\s+)?["']?([^"'|]*)""")


def rows(lines: Sequence[str], raw: str) -> Iterator[tuple[Row, str]]:
    """Every line of CSV, and its text.  Raises :class:`~iotrial.errors.FormatError` with the line
    for one that is not whole."""
    for at, line in enumerate(lines, 1):
        if line.count(",") < _FEWEST:
            continue
        text = _QUOTING.sub("", line).rstrip(" \t\\`")
        if echoed := _ECHO.match(text):
            text = echoed[1].rstrip()
        if likely(text):
            yield _row(text, at, f"{raw}: line {at}"), text


def likely(text: str) -> bool:
    """Whether this is a line of bonnie++'s, whole or not: mostly numbers, with a version or a
    size where bonnie++ has one, or as many fields."""
    fields = [field.strip() for field in text.split(",")]
    if len(fields) <= _FEWEST:
        return False
    cells = fields[2:]
    alike = sum(1 for field in cells if _CELL.fullmatch(field))
    if not any(char.isdecimal() for char in text) or 3 * alike < 2 * len(cells):
        return False
    if len(fields) == _OLD or _VERSION.fullmatch(fields[0]) or _VERSION.fullmatch(fields[1]):
        return True
    sized = not fields[1] or any(_SIZE.fullmatch(field) for field in fields[1:4])
    return sized and len(fields) > 2 * _FEWEST


def _row(text: str, at: int, place: str) -> Row:
    try:
        fields = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise FormatError(f"{place}: no CSV: {error}", advice=AGAIN) from None
    fields = [field.strip() for field in fields]
    before = _before(fields, place)
    if len(fields) == _OLD or not before:
        return _old(_joined(fields, 0, 1, _OLD), at, place)
    wanted, at_size = 2 + len(before) + _RESULTS, 2 + before.index("size")
    blank = fields[at_size : at_size + 1 + 2 * len(IO)]
    if len(fields) == wanted - 1 and before != _BEFORE["1.98"] and not any(blank):
        fields = [*fields[:at_size], "", *fields[at_size:]]
    elif len(fields) == wanted - 1 and before == _BEFORE["1.91"]:  # without files
        first = 2 + len(before) + 2 * len(IO)
        if not any(fields[first : first + _FILE_FIELDS - 1 + 2 * len(FILES)]):
            fields = [*fields[:first], "", *fields[first:]]
    fields = _joined(fields, 2, at_size, wanted)
    if len(fields) != wanted:
        message = f"{place}: {len(fields)} fields; format {fields[0]} has {wanted}"
        raise FormatError(message, advice=AGAIN)
    return _new(dict(zip(before, fields[2:], strict=False)), fields, at, place)


def _before(fields: Sequence[str], place: str) -> tuple[str, ...]:
    """The fields before the first number; none for a line without a version."""
    found = _VERSION.fullmatch(fields[0])
    if fields[0] == _NO_LARGE_FILE_OF_1_91 and fields[1:2] and _VERSION.fullmatch(fields[1]):
        return _BEFORE["1.91"]
    if not found or len(fields) == _OLD:
        return ()
    first = next((each for each in reversed(_BEFORE) if each <= found[1] <= _LAST), "")
    if not first:
        known = f"{next(iter(_BEFORE))} to {_LAST}"
        message = f"{place}: CSV format {fields[0]} of bonnie++; known are {known}"
        raise FormatError(message, advice="give its text table, or a version iotrial knows")
    return _BEFORE[first]


def _joined(fields: list[str], name: int, size: int, wanted: int) -> list[str]:
    """The fields, with what is too many as parts of the name, if a size follows there."""
    more = len(fields) - wanted
    if 0 < more < len(fields) - size and re.fullmatch(r"\d+[MGT].*", fields[size + more]):
        whole = ",".join(fields[name : name + more + 1])
        return [*fields[:name], whole, *fields[name + more + 1 :]]
    return fields


def _old(fields: list[str], at: int, place: str) -> Row:
    if len(fields) != _OLD:
        message = f"{place}: {len(fields)} fields; a line of bonnie++ 1.03 has {_OLD}"
        raise FormatError(message, advice=AGAIN)
    size, _, chunk = fields[1].partition(":")
    if not size and any(fields[2:14]):
        raise FormatError(f"{place}: numbers of a large file without its size", advice=AGAIN)
    return Row(
        at, fields[0], "", _pairs(fields[2:14], fields[15:]),
        size=size, chunk=chunk, files=_counted(fields[14], fields[15:], place),
    )  # fmt: skip


def _new(said: dict[str, str], fields: list[str], at: int, place: str) -> Row:
    io = 2 + len(said)
    files = io + 2 * len(IO)
    rates = files + _FILE_FIELDS
    latencies = rates + 2 * len(FILES)
    if not said["size"] and any(fields[io:files]):
        raise FormatError(f"{place}: numbers of a large file without its size", advice=AGAIN)
    number, largest, smallest, *rest = fields[files:rates]
    shape = ":".join(each for each in (number, largest, smallest) if each)
    directories = [each for each in rest if each]
    if len(directories) == 1:
        shape += f"/{directories[0]}"
    known = {key: said[key] for key in ("concurrency", "seeks", "seekers") if said.get(key)}
    if (wrong := [v for v in (*known.values(), *directories) if not v.isdecimal()]) or (
        len(directories) > 1
    ):
        raise FormatError(f"{place}: {(wrong or directories)[0][:40]!r} is no count", advice=AGAIN)
    return Row(
        at, said["name"], fields[1], _pairs(fields[io:files], fields[rates:latencies]),
        slowest=tuple(fields[latencies:]), size=said["size"], chunk=said["chunk"],
        files=_counted(shape, fields[rates:latencies], place), known=known,
    )  # fmt: skip


def _counted(shape: str, rates: Sequence[str], place: str) -> str:
    if not shape and any(rates):
        raise FormatError(f"{place}: rates of files without their number", advice=AGAIN)
    return shape


def _pairs(io: Sequence[str], files: Sequence[str]) -> tuple[tuple[str, str], ...]:
    both = [*io, *files]
    return tuple(zip(both[::2], both[1::2], strict=True))
