"""IOR's normal output: tests, their options, one row an iteration, and the summary.

Which columns a row has, its number of words tells: 2.999 to 3.2 print nine, 3.3 and later eleven,
with IOPS and latency; ``-`` is what was not measured.  A row prints what is 3600 or more without
decimals.  2.10 prints a summary only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iotrial.errors import FormatError

AGAIN = "repeat the run, or take IOR's output as it wrote it"
_BEGINS = re.compile(r"IOR-(\S+): MPI Coordinated Test of Parallel I/O")
_COMMAND = re.compile(r"Command line(?: used)? *: *(.*)")
_TEST = re.compile(r"Test (\d+) started:|TestID +: (\d+)$|Summary:$")
_OPTION = re.compile(r"\t?(\w[\w /()-]{0,40}?) *[:=] ?(.*)$")
_ROW = re.compile(r"(write|read|remove) +(?=[-\d])")
_TAGGED = re.compile(r"\[\d+,\d+\]<std(?:out|err)>: ?")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,10})?(?:[eE][-+]?\d{1,2})?")
_SHORT = ("bw", "block", "xfer", "open", "wrrd", "close", "total", "iter")
_LONG = ("bw", "iops", "latency", *_SHORT[1:])
_OLD_SUMMARY = ("max", "min", "mean", "sd", "maxops", "minops", "meanops", "sdops", "seconds")
_COLUMNS = {
    "Max(MiB)": "max", "Min(MiB)": "min", "Mean(MiB)": "mean", "Max(OPs)": "maxops",
    "Min(OPs)": "minops", "Mean(OPs)": "meanops", "Mean(s)": "seconds", "Test#": "test",
    "#Tasks": "tasks", "tPN": "tasks-per-node", "reps": "reps", "blksiz": "blocksize",
    "xsize": "xfersize", "aggs(MiB)": "mib", "aggsize": "bytes", "segcnt": "segments",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """One iteration of one operation: what each column says, None for ``-``."""

    line: int
    operation: str
    iteration: int
    values: Mapping[str, float | None]


@dataclass(slots=True)
class Summary:
    line: int
    operation: str
    values: Mapping[str, float]


@dataclass(slots=True)
class Test:
    """``number`` is IOR's own; ``options`` as it prints them; ``most`` what "Max Write" says,
    in MiB/s; ``command`` the command line, '' unknown."""

    line: int
    version: str
    number: int = 0
    options: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=dict)
    finished: bool = False
    command: str = ""


def tests_of(text: str, raw: str) -> list[Test]:
    """Every test of every run.  Raises FormatError for a row that is not whole."""
    found: list[Test] = []
    runs: list[Test] = []
    header: list[str] = []
    version = command = ""
    for at, whole in enumerate(text.split("\n"), 1):
        line = _TAGGED.sub("", whole).rstrip()
        if match := _BEGINS.search(line):
            version, command, runs, header = match[1], "", [], []
            continue
        if not runs and (match := _COMMAND.match(line)):
            command = match[1]
        if match := _TEST.match(line):
            # 3.0 says "Test 0 started" and then "Summary:", which is the same test.
            if not runs or runs[-1].rows or runs[-1].options:
                runs.append(Test(at, version, command=command))
                found.append(runs[-1])
            runs[-1].number = int(match[1] or match[2] or runs[-1].number)
            continue
        if not runs:
            if not _ROW.match(line) and not line.startswith("Operation "):
                continue
            runs.append(Test(at, version))  # a part of an output, without its beginning
            found.append(runs[-1])
        if line.startswith("Operation "):
            header = line.split()
        elif match := _ROW.match(line):
            _values(line, at, header, runs, raw)
        else:
            _said(line, runs)
    return found


def _values(line: str, at: int, header: list[str], runs: list[Test], raw: str) -> None:
    place = f"{raw}: line {at}"
    words = line.split()
    if header and header[0] == "Operation":
        summary = _summary(words, header, place, at)
        if summary is not None:
            _owner(summary, runs).summaries.append(summary)
            return
    runs[-1].rows.append(_row(words, place, at))


def _owner(summary: Summary, runs: list[Test]) -> Test:
    number = summary.values.get("test")
    return next((test for test in runs if test.number == number), runs[-1])


def _row(words: list[str], place: str, at: int) -> Row:
    columns = {len(_SHORT): _SHORT, len(_LONG): _LONG}.get(len(words) - 1)
    if columns is None:
        message = f"{place}: {len(words)} columns; a row of IOR has 9 or 11"
        raise FormatError(message, advice=AGAIN)
    values = {
        name: None if word == "-" else number(word, f"{place}: {name}")
        for name, word in zip(columns, words[1:], strict=True)
    }
    if not words[-1].isdecimal():
        raise FormatError(f"{place}: {words[-1][:20]!r} is no iteration", advice=AGAIN)
    return Row(at, words[0], int(words[-1]), values)


def _summary(words: list[str], header: list[str], place: str, at: int) -> Summary | None:
    if "Test#" not in header:  # 2.10: "Max (MiB)" is two words
        if len(words) < len(_OLD_SUMMARY) + 1:
            raise FormatError(f"{place}: {len(words)} columns in the summary", advice=AGAIN)
        names: list[str] = list(_OLD_SUMMARY)
    else:
        if len(words) != len(header):
            message = f"{place}: {len(words)} columns in the summary; {len(header)} are named"
            raise FormatError(message, advice=AGAIN)
        names = [_COLUMNS.get(name, "") for name in header[1:]]
    values = {
        name: number(word, f"{place}: {name}")
        for name, word in zip(names, words[1:], strict=False)
        if name and word not in ("NA", "-", "nan", "-nan", "inf")
    }
    if not {"max", "min", "mean"} <= values.keys():
        raise FormatError(f"{place}: the summary has no numbers", advice=AGAIN)
    return Summary(at, words[0], values)


def _said(line: str, runs: list[Test]) -> None:
    if match := re.match(r"Max (Write|Read): +(\S+) MiB/sec", line):
        if _NUMBER.fullmatch(match[2]):
            runs[-1].most[match[1].lower()] = float(match[2])
    elif re.match(r"(?:Run finished|Finished) *:", line):
        for test in runs:
            test.finished = True
    elif not runs[-1].rows and (match := _OPTION.match(line)):
        runs[-1].options.setdefault(match[1].strip(), match[2].strip())


def number(word: str, place: str) -> float:
    """Raises FormatError for what is no plain number."""
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:30]!r} is no number", advice=AGAIN)
    return float(word)


def plain(rows: list[Row]) -> Iterator[Row]:
    """Rows of reads and writes."""
    yield from (row for row in rows if row.operation != "remove")
