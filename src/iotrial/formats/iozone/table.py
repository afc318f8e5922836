"""IOzone's table: a row per file and record size, a column per operation.

A test that was not selected leaves blanks, and not as many as its numbers would have taken: what
stands below which heading depends on what was run.  So a row is read by writing it again: the
numbers, at the widths of that version and with the blanks of the tests that were left out, must
give the row, character by character.  That also parts numbers that touch (eight digits wide from
10 GB/s on), and finds a digit that is missing.  Tests come from the command line in the head, or
are those of which only one selection gives the row.

Headings of another width (older versions, tables that were copied and lost their blanks) are read
by the order of their numbers, where there are as many as headings or as tests.

Sources: ``CONTROL_STRING1`` to ``4`` and ``test_output`` in iozone.c of 3.398 to 3.508; rows of
3.327, 3.414, 3.420, 3.434, 3.444, 3.465, 3.471, 3.489 and 3.508.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from iotrial.errors import FormatError

KB = 1024
"""IOzone's KB, kB, Kbytes and kBytes are all 1024 bytes (``reclen/1024`` in iozone.c)."""

GROUPS: tuple[tuple[str, ...], ...] = (
    ("write", "rewrite"), ("read", "reread"), ("random_read", "random_write"),
    ("backward_read",), ("record_rewrite",), ("stride_read",),
    ("fwrite", "refwrite"), ("fread", "refread"),
    ("pwrite", "repwrite"), ("pread", "repread"),
    ("pwritev", "repwritev"), ("preadv", "repreadv"),
)  # fmt: skip
"""Operations of each test, in the order of the columns."""
TESTS = (0, 1, 2, 3, 4, 5, 6, 7, None, 8, 9, 10, 11)
"""IOzone's -i → place in GROUPS; 8 is the mixed workload, which has no column."""
_HEADINGS = (
    "kb", "reclen", "write", "rewrite", "read", "reread", "read", "write", "read", "rewrite",
    "read", "fwrite", "frewrite", "fread", "freread", "pwrite", "repwrite", "pread", "repread",
    "pwritev", "repwritev", "preadv", "repreadv",
)  # fmt: skip
_HEADER = re.compile(r"\s*[kK]B\s+reclen\s+write\s+rewrite\b.*")
_ROW = re.compile(r"\s*(\d{1,18})((?:\s+\d+)+)\s*(\D.*)?")
_FEWEST = 4  # headings; -A had no more, and old excerpts have these
_LONGEST = 400  # characters of a row

Widths = tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the headings end, from the end of the first, and of each group the widths of its
    numbers and of the blanks in their place."""

    headings: tuple[int, ...]
    groups: Widths


_LAYOUTS = (
    _Layout(  # 3.2xx to 3.420
        (0, 8, 16, 24, 32, 42, 50, 58, 66, 75, 84, 93, 102, 110, 119,
         127, 136, 143, 153, 163, 173, 182, 191),
        (((8, 8), 16), ((9, 9), 18), ((8, 8), 16), ((8,), 8), ((9,), 8), ((9,), 8),
         ((9, 9), 18), ((8, 9), 16), ((8, 9), 18), ((8, 9), 18), ((9, 10), 18), ((10, 9), 17)),
    ),
    _Layout(  # 3.429 to 3.4xx
        (0, 8, 17, 26, 34, 44, 52, 62, 71, 81, 91, 100, 109, 118, 127,
         135, 144, 152, 162, 172, 182, 191, 200),
        (((9, 9), 18), ((9, 9), 18), ((9, 9), 18), ((9,), 9), ((10,), 10), ((10,), 10),
         ((9, 9), 18), ((9, 9), 17), ((9, 9), 18), ((8, 9), 18), ((9, 10), 18), ((10, 9), 17)),
    ),
    _Layout(  # 3.508
        (0, 8, 17, 28, 38, 48, 58, 68, 78, 89, 100, 110, 120, 130, 140,
         150, 160, 170, 180, 190, 200, 210, 220),
        (((10, 10), 18), ((10, 10), 18), ((10, 10), 18), ((10,), 9), ((11,), 10), ((11,), 10),
         ((10, 10), 18), ((10, 10), 17), *(((10, 10), 18),) * 4),
    ),
)  # fmt: skip
_RECORD_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One file and record size (bytes), and the printed numbers by operation."""

    line: int
    size: int
    record: int
    values: dict[str, float]


@dataclass(slots=True)
class Table:
    """``said`` is what stands between and in the rows and is none: messages."""

    rows: list[Row] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def is_header(line: str) -> bool:
    return len(line) < _LONGEST and _HEADER.fullmatch(line) is not None


def table(
    lines: Sequence[str], span: range, raw: str, tests: frozenset[int] | None, *, whole: bool
) -> Table:
    """The rows below the header, which is the first line of ``span`` (indices).

    ``tests`` are places in GROUPS, None where no command line says.  ``whole``: IOzone said that
    it was done; else the last row may end early, and a number that is cut is left out.
    Raises FormatError for rows that cannot be told apart, with the line.
    """
    reader = _reader(lines[span[0]], f"{raw}: line {span[0] + 1}", tests)
    found = Table()
    rows: list[tuple[int, str]] = []
    for at in span[1:]:
        line = lines[at]
        match = _ROW.fullmatch(line) if len(line) < _LONGEST else None
        if match:
            rows.append((at, match[3] or ""))
        if not match or match[3]:
            found.said += [(match[3] if match else line).strip()[:200]]
        if not match and line.strip() and not whole:
            break
    found.said = [line for line in found.said if line]
    for at, text in rows:
        cut = bool(text) or (not whole and at == rows[-1][0])
        body = lines[at][: len(lines[at]) - len(text)].rstrip()
        found.rows.extend(reader.row(body, f"{raw}: line {at + 1}", at + 1, cut=cut))
    return found


def _reader(header: str, place: str, tests: frozenset[int] | None) -> _Reader:
    words = list(re.finditer(r"\S+", header))
    names = tuple(word[0].lower() for word in words)
    count = len(names)
    groups = _groups(count - 2)
    if names != _HEADINGS[:count] or count < _FEWEST or groups is None:
        raise FormatError(
            f"{place}: {header.strip()[:80]!r} are not the headings of IOzone in their order",
            advice="give IOzone's own output, its lines not broken",
        )
    ends = tuple(word.end() - words[0].end() for word in words)
    layout = next((each for each in _LAYOUTS if each.headings[:count] == ends), None)
    return _Reader(groups, layout, None if tests is None else frozenset(tests) & set(range(groups)))


def _groups(columns: int) -> int | None:
    """How many groups have together this many columns; None: it ends within one."""
    sums = [sum(map(len, GROUPS[: n + 1])) for n in range(len(GROUPS))]
    return sums.index(columns) + 1 if columns in sums else None


@dataclass(slots=True)
class _Reader:
    """How the rows of one table are read: ``groups`` have headings."""

    groups: int
    layout: _Layout | None
    tests: frozenset[int] | None

    def row(self, body: str, place: str, number: int, *, cut: bool) -> Iterator[Row]:
        first = re.match(r"\s*\d+", body)
        words = body.split()
        found = self._values(body[first.end() :], words[1:], cut=cut) if first else None
        if found is None:
            raise FormatError(
                f"{place}: {body.strip()[:80]!r}: its numbers do not stand where IOzone prints"
                " those of its headings and tests",
                advice="give IOzone's own output; with -R its report is beside the table",
            )
        record, values = found
        size = int(words[0]) * KB
        if not size or not record or (record > size and any(values.values())):
            raise FormatError(f"{place}: no file of {words[0]} kB has records of {record} bytes")
        if values:
            yield Row(number, size, record, values)

    def _values(
        self, body: str, words: Sequence[str], *, cut: bool
    ) -> tuple[int, dict[str, float]] | None:
        """Record size (bytes) and number by operation; None where that cannot be told."""
        if self.layout is None:
            return self._in_order(words)
        widths = self.layout.groups[: self.groups]
        found: dict[tuple[str, ...], list[str]] = {}
        for chosen in self._choices():
            names = tuple(name for group in chosen for name in GROUPS[group])
            fields = _fields(widths, chosen, body, words)
            if fields is None and cut:
                fields = _begun(widths, chosen, body, words)
            if fields:
                found[names[: len(fields) - 1]] = fields
            if len(chosen) == self.groups and fields:
                break
        if len(found) != 1:
            return None
        (names, fields), *_ = found.items()
        return int(fields[0]) * KB, dict(zip(names, map(float, fields[1:]), strict=True))

    def _choices(self) -> Sequence[tuple[int, ...]]:
        if self.tests is not None:
            return (tuple(sorted(self.tests)),)
        return _subsets(self.groups)

    def _in_order(self, words: Sequence[str]) -> tuple[int, dict[str, float]] | None:
        every = [name for group in GROUPS[: self.groups] for name in group]
        chosen = sorted(self.tests) if self.tests is not None else range(self.groups)
        names = [name for group in chosen for name in GROUPS[group]]
        if len(words) - 1 == len(every):
            names = every
        if len(words) - 1 != len(names) or any(len(word) > 15 for word in words):  # noqa: PLR2004
            return None
        return int(words[0]) * KB, dict(zip(names, map(float, words[1:]), strict=True))


@cache
def _subsets(groups: int) -> tuple[tuple[int, ...], ...]:
    """Selections of tests, the likely ones first: all, then the first so many, then any."""
    every = tuple(range(min(groups, 8)))
    firsts = [every[:n] for n in range(len(every), 0, -1)]
    rest = [c for n in range(len(every), 0, -1) for c in combinations(every, n)]
    return tuple(dict.fromkeys([tuple(range(groups)), *firsts, *rest]))


def _plan(groups: Widths, chosen: Sequence[int]) -> list[tuple[int, bool]]:
    """Width of each field, and whether it holds a number."""
    plan: list[tuple[int, bool]] = [(_RECORD_WIDTH, True)]
    for at, (numbers, blank) in enumerate(groups):
        plan += [(width, True) for width in numbers] if at in chosen else [(blank, False)]
    return plan


def _fields(
    groups: Widths, chosen: Sequence[int], body: str, words: Sequence[str]
) -> list[str] | None:
    """The record and the numbers, if this selection gives this row; None if it does not."""
    plan = _plan(groups, chosen)
    if len(words) == sum(is_number for _, is_number in plan):
        return list(words) if _again(plan, words).rstrip() == body else None
    return _apart(plan, body)


def _begun(
    groups: Widths, chosen: Sequence[int], body: str, words: Sequence[str]
) -> list[str] | None:
    """The same of a row that ends early: a number that ends before its field does is cut."""
    plan = _plan(groups, chosen)
    if not words or len(words) > sum(is_number for _, is_number in plan):
        return None
    if _again(plan, words).rstrip() == body:
        return list(words)
    before = _again(plan, words[:-1]).rstrip()
    if len(words) > 1 and body.startswith(before) and body[len(before) :].strip() == words[-1]:
        return list(words[:-1])
    return None


def _again(plan: Sequence[tuple[int, bool]], words: Sequence[str]) -> str:
    given = iter(words)
    parts = []
    for width, is_number in plan:
        if is_number and (word := next(given, "")):
            parts.append(word.rjust(width))
        elif is_number:
            break
        else:
            parts.append(" " * width)
    return "".join(parts)


def _apart(widths: Sequence[tuple[int, bool]], body: str) -> list[str] | None:
    """Numbers that fill their fields and touch; every field must hold just one."""
    found, at = [], 0
    for width, is_number in widths:
        part = body[at : at + width]
        at += width
        if is_number:
            if len(part) != width or not re.fullmatch(r" *\d+", part):
                return None
            found.append(part.strip())
        elif part.strip():
            return None
    return None if body[at:].strip() else found
