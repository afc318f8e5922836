"""What IOzone prints: its command and head, its table, and the blocks of its throughput mode.

The table has a row per file and record size, a column per operation.  A test that was not selected
leaves blanks, and not as many as its numbers would have taken: what stands below which heading
depends on what was run.  So a row is read by writing it again: the numbers, at the widths of that
version and with the blanks of the tests that were left out, must give the row, character by
character.  That also parts numbers that touch (eight digits wide from 10 GB/s on), and finds a
digit that is missing.  Tests come from the command line in the head, or are those of which only one
selection gives the row.

Headings of another width (older versions, tables that were copied and lost their blanks) are read
by the order of their numbers, where there are as many as headings or as tests.

The throughput mode (``-t``, ``-l`` and ``-u``) has a block of lines for each operation::

    Children see throughput for  2 initial writers  = 4104375.00 kB/sec    sum over the processes
    Parent sees throughput for  2 initial writers   =  837110.44 kB/sec    from first to last
    Min throughput per process                      = 2011261.50 kB/sec
    Max throughput per process                      = 2093113.50 kB/sec
    Avg throughput per process                      = 2052187.50 kB/sec    from 3.2 on
    Min xfer                                        =    3920.00 kB
    CPU Utilization: Wall time    0.002    CPU time    0.004    CPU utilization 196.55 %   -+u
    Child[0] xfer count =    3920.00 kB, Throughput = 2011261.50 kB/sec                    -C

The unit is KB, kB or (-O) ops; -N is refused by IOzone here.  Several machines (-+m) have no line
of the parent.  A zero is left out of the minimum where a later process has more.  The lines repeat
each other: what does not add up is damaged.

Sources: iozone.c of 3.398 to 3.508 (``CONTROL_STRING1`` to ``4``, ``test_output``,
``throughput_test``, the ``getopt`` string and its cases, every ``splash`` line); rows of 3.327,
3.414, 3.420, 3.434, 3.444, 3.465, 3.471, 3.489 and 3.508; recordings in ``tests/data/iozone``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import combinations

from iotrial.errors import FormatError
from iotrial.model.trial import Doubt, Treatment

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
class IozoneRow:
    """One file and record size (bytes), and the printed numbers by operation."""

    line: int
    size: int
    record: int
    values: dict[str, float]


@dataclass(slots=True)
class _IozoneTable:
    """``said`` is what stands between and in the rows and is none: messages."""

    rows: list[IozoneRow] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def is_header(line: str) -> bool:
    return len(line) < _LONGEST and _HEADER.fullmatch(line) is not None


def table(
    lines: Sequence[str], span: range, raw: str, tests: frozenset[int] | None, *, whole: bool
) -> _IozoneTable:
    """The rows below the header, which is the first line of ``span`` (indices).

    ``tests`` are places in GROUPS, None where no command line says.  ``whole``: IOzone said that
    it was done; else the last row may end early, and a number that is cut is left out.
    Raises FormatError for rows that cannot be told apart, with the line.
    """
    reader = _reader(lines[span[0]], f"{raw}: line {span[0] + 1}", tests)
    found = _IozoneTable()
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

    def row(self, body: str, place: str, number: int, *, cut: bool) -> Iterator[IozoneRow]:
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
            yield IozoneRow(number, size, record, values)

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


_WITH_VALUE = frozenset("KJjkVrtsfFdluUSLHPibXYgnyq") - {"K"}
_MOST_WORDS = 4096  # words; -F names a file for each process
_SCALES = {"": KB, "k": KB, "m": KB**2, "g": KB**3}


@dataclass(frozen=True, slots=True)
class IozoneCommand:
    """``tests`` are places in GROUPS, None: none was selected, so all.  ``counts`` are the numbers
    of processes, in their order; ``sizes`` and ``records`` are bytes."""

    tests: frozenset[int] | None
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    records: tuple[int, ...]
    flags: frozenset[str]

    @property
    def unit(self) -> str:
        """Of single-stream results."""
        return "ops" if "O" in self.flags else "us" if "N" in self.flags else "kB"


def command(text: str) -> IozoneCommand | None:
    """The command, or None where it cannot be understood: a hand has been at it."""
    options = list(_options(text.split()[:_MOST_WORDS]))
    values: dict[str, list[str]] = {}
    for letter, value in options:
        values.setdefault(letter, []).append(value)
    numbers = {
        letter: [int(v) for v in values.get(letter, []) if v.isdecimal()] for letter in "itlu"
    }
    if any(len(numbers[letter]) != len(values.get(letter, [])) for letter in "itlu"):
        return None
    if any(test >= len(TESTS) for test in numbers["i"]):
        return None
    tests = frozenset(place for test in numbers["i"] if (place := TESTS[test]) is not None)
    counts = tuple(numbers["t"])
    if numbers["l"] or numbers["u"]:
        low, high = (numbers["l"] or [1])[-1], (numbers["u"] or [0])[-1]
        counts = tuple(range(low, min(max(low, high), low + 1000) + 1))
    return IozoneCommand(
        tests if numbers["i"] else None,
        counts,
        tuple(map(_bytes, values.get("s", []))),
        tuple(map(_bytes, values.get("r", []))),
        frozenset(letter for letter, _ in options),
    )


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """(letter, value): IOzone's letters may share a dash, a value may touch its letter."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word.startswith("-+"):
            continue  # -+u and its like; the names of -F
        for at, letter in enumerate(word[1:], 2):
            if letter in _WITH_VALUE:
                yield letter, word[at:] or next(rest, "")
                break
            yield letter, ""


def _bytes(text: str) -> int:
    """``64``, ``64k``, ``1g`` → bytes; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,12})([kmgKMG]?)", text)
    return int(match[1]) * _SCALES[match[2].lower()] if match else 0


_MOST = 400  # lines; a head has some forty
_LONGEST_OF_HEAD = 400
_UNITS = (
    (re.compile(r"Output is in [kK][bB](ytes)?/sec"), "kB"),
    (re.compile(r"OPS Mode\. Output is in operations per second\."), "ops"),
    (re.compile(r"Microseconds/op Mode\. Output is in microseconds per operation\."), "us"),
)
_SETTINGS = (
    (r"(O_DIRECT|O_DIRECTIO|VxFS advanced|F_NOCACHE=1).*(enabled|caching off)", "direct"),
    (r"Include fsync in write timing", "include_flush"),
    (r"Include close in write timing", "include_close"),
    (r"SYNC Mode\.", "sync"),
    (r">>> O_DSYNC mode enabled\. <<<", "dsync"),
    (r"Read & Write sync mode active\.", "rsync"),
    (r"Using mmap files", "mmap"),
    (r"Using msync\(MS_A?SYNC\) on mmap files", "msync"),
    (r"Purge Mode On", "purge"),
    (r"Stonewall disabled", "no_stonewall"),
    (r"Disrupted read patterns selected\.", "disrupt"),
    (r"Lock file when reading/writing\.", "lock"),
    (r">>> Shared file mode enabled\. <<<", "shared"),
    (r">>> Sequential Mixed workload\. <<<", "sequential_mix"),
    (r">>> I/O Sparse mode enabled\. <<<", "sparse"),
    (r"Multi_buffer\. Work area \d+ bytes", "multi_buffer"),
)
_NUMBERS = (
    (r"POSIX [Aa]sync I/O \((?:no bcopy|with bcopy)\)\. Depth (\d{1,6})", "async_depth"),
    (r"Percent read in mix test is (\d{1,3})", "mix_read"),
    (r"Dedup activated (\d{1,3}) percent\.", "dedup"),
    (r"Rate control active (\d{1,9}) Ops/sec \.", "rate"),
)
_INVALID = (
    (r"Verify Mode\. Pattern", "IOzone verified its data, and says that its rates do not count"),
    (r">>> I/O Diagnostic mode enabled", "IOzone ran in its diagnostic mode: no rates count"),
    (r"Using old data sets\.", "IOzone used old data, and says that its rates may not count"),
)


def head_of(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[:_LONGEST_OF_HEAD].strip() for line in lines[-_MOST:] if line.strip())


def unit_of(head: Sequence[str], told: IozoneCommand | None) -> tuple[str, tuple[Doubt, ...]]:
    """``kB``, ``ops`` or ``us`` of the single-stream table; kB with a doubt where nothing says."""
    found = {unit for line in head for pattern, unit in _UNITS if pattern.fullmatch(line)}
    if len(found) == 1:
        return found.pop(), ()
    if found == {"ops", "us"}:  # both asked for: IOzone gives microseconds
        return "us", ()
    if told is not None and not found:
        return told.unit, ()
    what = "nothing says in which unit IOzone's numbers are; they are taken as kB/s, its default"
    return "kB", (Doubt("unit", what, "Give the whole output, with its head."),)


def treatment_of(sizes: tuple[int, int, int], head: tuple[str, ...]) -> Treatment:
    """``sizes``: file, record (bytes), processes; 0 is unknown, or single stream."""
    size, record, threads = sizes
    found = [("record", f"{record // KB}k"), ("size", f"{size // KB}k"), ("threads", str(threads))]
    return (*(pair for pair in found if pair[1] not in ("0", "0k")), *_settings(head))


@lru_cache(maxsize=8)
def _settings(head: tuple[str, ...]) -> Treatment:
    found = []
    for pattern, name in _SETTINGS:
        if any(re.match(pattern, line) for line in head):
            found.append((name, "1"))
    for pattern, name in _NUMBERS:
        values = [match[1] for line in head if (match := re.match(pattern, line))]
        found += [(name, value) for value in values[-1:]]
    if any(re.match(r"Each thread writes", line) for line in head):
        found.append(("posix_threads", "1"))
    return tuple(found)


def doubts_of(head: Sequence[str], said: Sequence[str]) -> Iterator[Doubt]:
    """``said``: lines among the results that are none."""
    for pattern, what in _INVALID:
        if any(re.match(pattern, line) for line in head):
            yield Doubt("no-rates", what, "Run it again without that option.", invalid=True)
    if any(line.startswith("Selected test not available") for line in head):
        what = "IOzone left out a test that its build does not have"
        yield Doubt("left-out", what, "Take it out of the operations.")
    if any(line.startswith("Timer resolution is poor") for line in (*head, *said)):
        what = "IOzone says that its timer is too coarse for transfers this small"
        yield Doubt("timer", what, "Take larger files.")
    for line in dict.fromkeys(said):
        readable = "".join(c if c.isprintable() else "?" for c in line[:200])
        what = f"IOzone said among its results: {readable}"
        yield Doubt("iozone-said", what, "Read it: not all tests may have run.")


OPERATIONS = {
    "initial writers": "write", "rewriters": "rewrite", "readers": "read",
    "re-readers": "reread", "reverse readers": "backward_read", "stride readers": "stride_read",
    "random readers": "random_read", "mixed workload": "mixed", "random writers": "random_write",
    "pwrite writers": "pwrite", "re-pwrite writers": "repwrite", "pread readers": "pread",
    "re-pread readers": "repread", "fwriters": "fwrite", "re-fwriters": "refwrite",
    "freaders": "fread", "re-freaders": "refread", "fread readers": "fread",
    "pwritev writers": "pwritev", "preadv readers": "preadv",
}  # fmt: skip
_NUMBER = r"(\d{1,15}(?:\.\d{1,3})?)"
_UNIT = r"(kB|KB|kBytes|Kbytes|KBytes|ops)"
_SEES = re.compile(
    rf"\s*(Children|Parent) sees? throughput for\s+(\d{{1,6}})\s+([a-z -]{{1,30}}?)\s*=\s*{_NUMBER}"
    rf"\s*{_UNIT}/sec\s*"
)
_PART = re.compile(
    rf"\s*(Min|Max|Avg) throughput per (?:process|thread)\s*=\s*{_NUMBER}\s*{_UNIT}/sec\s*"
)
_XFER = re.compile(rf"\s*Min xfer\s*=\s*{_NUMBER}\s*{_UNIT}\s*")
_CPU = re.compile(
    rf"\s*CPU [uU]tilization: Wall time\s+{_NUMBER}\s+CPU time\s+{_NUMBER}"
    rf"\s+CPU utilization\s+{_NUMBER} ?%\s*"
)
_CHILD = re.compile(
    rf"\s*Child\[(\d{{1,6}})\] xfer count\s*=\s*{_NUMBER}\s*{_UNIT},"
    rf"\s*Throughput\s*=\s*{_NUMBER}\s*{_UNIT}/sec(?:,.{{0,80}})?\s*"
)
_EACH = re.compile(
    r"\s*Each (?:process|thread) writes an? (\d{1,15}) [kK][bB](?:yte)?s? file in"
    r" (\d{1,12}) [kK][bB](?:yte)?s? records\s*"
)
_MINE = re.compile(
    r"\s*((Children|Parent) sees? throughput for|(Min|Max|Avg) throughput per|Min xfer\s*=|"
    r"CPU [uU]tilization: Wall|Child\[\d+\] xfer|Each (process|thread) writes)"
)
_LONGEST_OF_BLOCK = 300
_AGAIN = "repeat it, or take IOzone's own output: a part of this one is missing or was changed"
_ROUNDED = 1e-10  # sums of doubles
_HUNDREDTH = 0.0101


@dataclass(slots=True)
class IozoneBlock:
    """One operation, in the printed ``unit`` (``kB`` or ``ops``); ``size`` and ``record`` in
    bytes.  ``parts`` are Parent, Min, Max, Avg, xfer, cpu (percent); ``processes`` are (xfer,
    throughput) of each."""

    operation: str
    workers: int
    children: float
    unit: str
    size: int
    record: int
    line: int
    parts: dict[str, float] = field(default_factory=dict)
    processes: list[tuple[float, float]] = field(default_factory=list)

    @property
    def slack(self) -> float:
        return _HUNDREDTH / 2 * (self.workers + 1) + _ROUNDED * self.children

    @property
    def starved(self) -> bool:
        """A process had moved nothing when the first was done: then Min is 0, or, where a later
        process has more, above the mean, the zero having been left out."""
        least = self.parts.get("Min", 1.0)
        return not least or least * self.workers > self.children + self.slack

    @property
    def whole(self) -> bool:
        return {"Min", "Max", "xfer"} <= self.parts.keys()


def sees(line: str) -> bool:
    """Whether a result begins here."""
    return len(line) < _LONGEST_OF_BLOCK and line.lstrip().startswith("Children see throughput for")


def blocks(
    lines: Iterable[tuple[int, str]], raw: str, sizes: tuple[int, int], *, whole: bool
) -> tuple[IozoneBlock, ...]:
    """Every operation in the numbered lines.  ``sizes`` (file, record; bytes, 0 unknown) are the
    head's, where no line says what each process writes.

    A last block that ends early is left out unless ``whole``.  Where no block has more than what
    children and parent see (a log that was searched for these lines) that is enough.  Raises
    FormatError with the line for what does not add up.
    """
    found: list[IozoneBlock] = []
    for number, line in lines:
        if not _MINE.match(line):
            continue
        place = f"{raw}: line {number}"
        short = line if len(line) < _LONGEST_OF_BLOCK else ""
        if each := _EACH.fullmatch(short):
            sizes = int(each[1]) * KB, int(each[2]) * KB
            if not sizes[0] or not 0 < sizes[1] <= sizes[0]:
                raise FormatError(f"{place}: {short.strip()!r}: no such file and record")
        elif not _line(found, short, sizes, (number, place)):
            raise FormatError(f"{place}: {line.strip()[:80]!r} is not whole", advice=_AGAIN)
    _check(found, raw, whole=whole)
    return tuple(found)


def _check(found: list[IozoneBlock], raw: str, *, whole: bool) -> None:
    excerpt = not any(each.parts.keys() - {"Parent"} for each in found)
    if found and not found[-1].whole and not whole and not excerpt:
        found.pop()
    for block in found:
        if not block.whole and not excerpt:
            message = f"{raw}: line {block.line}: not all lines of {block.operation} are there"
            raise FormatError(message, advice=_AGAIN)
        for problem in _contradictions(block):
            message = f"{raw}: line {block.line}: {block.operation}: {problem}"
            raise FormatError(message, advice=_AGAIN)
    keys = [(each.operation, each.workers, each.size, each.record) for each in found]
    if len(set(keys)) != len(keys):
        raise FormatError(f"{raw}: line {found[-1].line}: one run has a test twice", advice=_AGAIN)


def _line(found: list[IozoneBlock], line: str, sizes: tuple[int, int], at: tuple[int, str]) -> bool:
    """Adds what the line says; whether it is a line of a block at all."""
    number, place = at
    if match := _SEES.fullmatch(line):
        _seen(found, match, sizes, number, place)
    elif match := _PART.fullmatch(line):
        _part(found, match[1], float(match[2]), match[3], place)
    elif match := _XFER.fullmatch(line):
        _part(found, "xfer", float(match[1]), match[2], place)
    elif match := _CPU.fullmatch(line):
        wall, used, share = map(float, match.groups())
        _part(found, "cpu", share, "", place)
        if not _share_is(wall, used, share):
            raise FormatError(f"{place}: {used} s in {wall} s are not {share} %", advice=_AGAIN)
    elif match := _CHILD.fullmatch(line):
        block = _last(found, f"process {match[1]}", match[3], place)
        if int(match[1]) != len(block.processes) or match[5] != match[3]:
            raise FormatError(f"{place}: process {match[1]} out of turn", advice=_AGAIN)
        block.processes.append((float(match[2]), float(match[4])))
    else:
        return False
    return True


def _unit(text: str) -> str:
    return "ops" if text == "ops" else "kB"


def _seen(
    found: list[IozoneBlock], match: re.Match[str], sizes: tuple[int, int], number: int, place: str
) -> None:
    who, count, workers, value, unit = match.groups()
    operation = OPERATIONS.get(" ".join(workers.split()))
    if operation is None or not int(count):
        raise FormatError(f"{place}: {count} {workers!r}: no test of IOzone known here")
    if who == "Children":
        found.append(IozoneBlock(operation, int(count), float(value), _unit(unit), *sizes, number))
        return
    block = _last(found, "Parent", unit, place)
    if (block.operation, block.workers) != (operation, int(count)):
        raise FormatError(f"{place}: children and parent are of two tests", advice=_AGAIN)
    _part(found, "Parent", float(value), unit, place)


def _part(found: list[IozoneBlock], name: str, value: float, unit: str, place: str) -> None:
    block = _last(found, name, unit, place)
    if name in block.parts:
        raise FormatError(f"{place}: {name} of {block.operation} occurs twice", advice=_AGAIN)
    block.parts[name] = value


def _last(found: list[IozoneBlock], name: str, unit: str, place: str) -> IozoneBlock:
    if not found:
        raise FormatError(f"{place}: {name} without what the children see", advice=_AGAIN)
    if unit and _unit(unit) != found[-1].unit:
        raise FormatError(f"{place}: two units in one test", advice=_AGAIN)
    return found[-1]


def _share_is(wall: float, used: float, share: float) -> bool:
    """Whether the percentage is CPU time over wall time, all three as rounded."""
    step = 0.00051
    high = 100 * (used + step) / max(wall - step, 1e-9)
    low = 100 * max(used - step, 0.0) / (wall + step)
    return low - _HUNDREDTH <= share <= high + _HUNDREDTH


def _contradictions(block: IozoneBlock) -> Iterator[str]:
    parts, total, count = block.parts, block.children, block.workers
    if "Avg" in parts and abs(parts["Avg"] * count - total) > block.slack:
        yield f"{count} times the mean of {parts['Avg']} is not {total}"
    if "Max" in parts:
        yield from _extremes(block, parts.get("Min", 0.0), parts["Max"])
    whole = block.size / (block.record or 1) if block.unit == "ops" else block.size / KB
    if whole and parts.get("xfer", 0.0) > whole + 1:
        yield f"a process moved {parts['xfer']} of a file of {whole:.0f}"
    if block.processes:
        rates = [rate for _, rate in block.processes]
        if len(rates) != count or abs(sum(rates) - total) > block.slack:
            yield f"its {len(rates)} processes do not add up to {total}"
        if "Max" in parts and abs(max(rates) - parts["Max"]) > block.slack:
            yield f"the fastest of its processes is not at {parts['Max']}"


def _extremes(block: IozoneBlock, least: float, most: float) -> Iterator[str]:
    """What the slowest and the fastest leave for the others must be theirs."""
    total, others, slack = block.children, block.workers - 1, block.slack
    if block.starved:
        least = 0.0
    if not least <= most <= total + slack:
        yield f"a minimum of {least} and a maximum of {most} of {total}"
    if not least * others - slack <= total - most <= most * others + slack:
        yield f"{others} with at least {least} beside one with {most} are not {total}"
    if others and total - least > most * others + slack:
        yield f"{others} with at most {most} beside one with {least} are not {total}"
