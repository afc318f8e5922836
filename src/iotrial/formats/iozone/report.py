"""IOzone's ``-R`` report ("Excel output"): the results once more, in quoted tables.

Single stream: ``"Writer report"``, a line of record sizes, then a line for each file size, in kB.
A combination that was not run is 0, or is missing at the end of a line.  Throughput mode:
``"  Initial write "  713117.38``, a number for each count of processes.

Traps: the CPU table of the throughput mode has the wrong names when tests were left out (3.489:
random reads appear as "Reverse Read"), so it is not read; nothing says in which unit the
single-stream tables are.

Source: ``dump_excel`` and ``dump_throughput`` in iozone.c of 3.398 to 3.508.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from iotrial.errors import FormatError

REPORTS = {
    "writer": "write", "re-writer": "rewrite", "reader": "read", "re-reader": "reread",
    "random read": "random_read", "random write": "random_write",
    "backward read": "backward_read", "record rewrite": "record_rewrite",
    "stride read": "stride_read", "fwrite": "fwrite", "re-fwrite": "refwrite",
    "fread": "fread", "re-fread": "refread", "pwrite": "pwrite", "re-pwrite": "repwrite",
    "pread": "pread", "re-pread": "repread", "pwritev": "pwritev", "re-pwritev": "repwritev",
    "preadv": "preadv", "re-preadv": "repreadv",
}  # fmt: skip
"""Titles in lower case: text and spreadsheet differ in it."""
TESTS = {
    "Initial write": "write", "Rewrite": "rewrite", "Read": "read", "Re-read": "reread",
    "Reverse Read": "backward_read", "Stride read": "stride_read", "Random read": "random_read",
    "Mixed workload": "mixed", "Random write": "random_write", "Pwrite": "pwrite",
    "Re-Pwrite": "repwrite", "Pread": "pread", "Re-Pread": "repread", "Fwrite": "fwrite",
    "Re-Fwrite": "refwrite", "Fread": "fread", "Re-Fread": "refread",
}  # fmt: skip
_TITLE = re.compile(r'"([A-Za-z -]{4,20}?)( CPU utilization)? report( \([^()"]*\))?"\s*')
_RECORDS = re.compile(r'\s*("\d{1,12}"\s*){1,200}')
_LINE = re.compile(r'\s*"(\d{1,15})"((?:\s+\d{1,15}(?:\.\d{1,3})?)*)\s*')
_TEST = re.compile(r'\s*"\s*([A-Z][A-Za-z -]{2,20}?)\s*"((?:\s+\d{1,15}(?:\.\d{1,3})?)+)\s*')
_RECORD = re.compile(r'\s*"Record size = (\d{1,12}) \S{2,6} ?"\s*')
_LONGEST = 5000


@dataclass(slots=True)
class Report:
    """``rates`` and ``cpu`` (percent): (file kB, record kB, operation) → number; ``tests``: of
    the throughput mode, operation → a number for each count of processes."""

    rates: dict[tuple[int, int, str], float] = field(default_factory=dict)
    cpu: dict[tuple[int, int, str], float] = field(default_factory=dict)
    tests: dict[str, tuple[float, ...]] = field(default_factory=dict)
    record: int = 0
    ops: bool = False
    line: int = 0

    def check(self, raw: str) -> None:
        """Raises FormatError unless every table has the same file and record sizes, and every
        test as many numbers."""
        if len(set(map(len, self.tests.values()))) > 1:
            message = f"{raw}: line {self.line}: the report's tests have not as many numbers each"
            raise FormatError(message, advice="a part of it is missing, or was changed")
        for kind in (self.rates, self.cpu):
            sizes: dict[str, list[tuple[int, int]]] = {}
            for size, record, operation in kind:
                sizes.setdefault(operation, []).append((size, record))
            if len({tuple(each) for each in sizes.values()}) > 1:
                message = f"{raw}: line {self.line}: the report's tables are not of the same sizes"
                raise FormatError(message, advice="a part of it is missing, or was changed")


def is_title(line: str) -> bool:
    """Whether a report begins here, of either kind."""
    short = line[:120].strip()
    return _TITLE.fullmatch(short) is not None or "Throughput report Y-axis" in short


def report(lines: Iterable[tuple[int, str]], raw: str) -> Report:
    """All tables in the numbered lines.  Raises FormatError for a quoted line that fits none."""
    found = Report()
    into: dict[tuple[int, int, str], float] | None = None
    mode, operation, records = "", "", list[int]()
    for number, whole in lines:
        line = whole[:_LONGEST]
        place = f"{raw}: line {number}"
        if is_title(line):
            found.line = found.line or number
        if "Y-axis is type of test" in line:
            mode = "cpu" if "CPU utilization report" in line else "tests"
        elif title := _TITLE.fullmatch(line.strip()):
            mode, into = "single", found.cpu if title[2] else found.rates
            operation, records = REPORTS.get(title[1].lower(), ""), []
            if not operation:
                raise FormatError(f"{place}: no report called {title[1]!r} is known")
        elif not mode or not line.lstrip().startswith('"'):
            continue
        elif mode == "single" and into is not None:
            records = _single(into, (operation, records), line, place)
        elif mode == "tests":
            _throughput(found, line, place)
    found.check(raw)
    return found


def _throughput(found: Report, line: str, place: str) -> None:
    if match := _RECORD.fullmatch(line):
        found.record = int(match[1]) * 1024
    elif line.lstrip().startswith('"Output is in'):
        found.ops = "ops" in line
    elif (match := _TEST.fullmatch(line)) and match[1] in TESTS:
        if TESTS[match[1]] in found.tests:
            raise FormatError(f"{place}: {match[1]} is there twice")
        found.tests[TESTS[match[1]]] = tuple(map(float, match[2].split()))
    else:
        raise FormatError(f"{place}: {line.strip()[:60]!r} is no line of a throughput report")


def _single(
    into: dict[tuple[int, int, str], float],
    known: tuple[str, Sequence[int]],
    line: str,
    place: str,
) -> list[int]:
    """Reads one line; the record sizes that hold for the next."""
    operation, records = known
    if not records and _RECORDS.fullmatch(line):
        return [int(word) for word in re.findall(r"\d+", line)]
    match = _LINE.fullmatch(line)
    if not match or len(match[2].split()) > len(records):
        raise FormatError(f"{place}: {line.strip()[:60]!r} is no line of an Excel report")
    for record, number in zip(records, match[2].split(), strict=False):
        key = (int(match[1]), record, operation)
        if key in into:
            raise FormatError(f"{place}: {operation} of {key[0]} kB is there twice")
        into[key] = float(number)
    return list(records)
