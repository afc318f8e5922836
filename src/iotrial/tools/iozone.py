"""IOzone, the file system benchmark.  A load of many phases on files.

Options, beside them IOzone's own letters: ``threads`` (-t: throughput mode; without it one stream
of single-stream mode), ``size`` (-s, of each file), ``record`` (-r, 4 KiB), ``operations`` (-i:
``"write, read"`` or ``"0,1"``, see :data:`OPERATIONS`; write is always first, it makes the files),
``auto`` (-a: every record size of IOzone's at that file size, each a job of its own), ``direct``
(-I), ``include_close`` (-c), ``include_flush`` (-e), ``cpu`` (-+u), ``mix_read`` (-+p, percent),
``each`` (-C: each process too), ``excel`` (-b: a spreadsheet beside the output, and compared).

``stand_in = "fio"`` has fio run the same phases, where IOzone is not to be had: see
:mod:`iotrial.tools.iozone_by_fio`.

Every run has ``-R``: the report repeats each number, and the parser compares.  IOzone replaces
the file it is given (seen with -w too: the inode changes), so a file as the target is left alone,
and its files are made beside it, on the same file system.  Throughput mode waits for ever when a
child cannot open its file (seen with 3.489): the limit of the trial ends it.  It removes its files
when it ends by itself; those of one that is ended, iotrial removes.

IOzone has neither ``--version`` nor a package in Debian's main component.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.errors import FormatError, IotrialError, UsageError
from iotrial.formats.iozone import text as iozone
from iotrial.formats.iozone.xls import FORMAT as SHEET
from iotrial.model.recording import Recording
from iotrial.model.tool import LIKELY, SLOW, Aimed, Left, Load, Pace, Parsed, Reach
from iotrial.model.trial import Doubt
from iotrial.model.workload import Workload
from iotrial.tools import iozone_by_fio
from iotrial.tools.expression import evaluate
from iotrial.tools.result import result
from iotrial.units import format_bytes, parse_bytes

OPERATIONS = (
    "write", "read", "random", "backward", "record-rewrite", "stride", "fwrite", "fread",
    "mixed", "pwrite", "pread",
)  # fmt: skip
"""The place in this list is the number that IOzone's -i takes."""

_FLAGS = {
    "direct": "-I", "include_close": "-c", "include_flush": "-e", "cpu": "-+u", "each": "-C",
}  # fmt: skip
_OPTIONS = (
    "threads", "size", "record", "operations", "auto", "mix_read", "excel", "stand_in", *_FLAGS,
)  # fmt: skip
_SHEET = "iozone.xls"
_ONLY_THREADS = frozenset({"mixed", "pwrite", "pread"})
_MOST_THREADS = 256  # MAXSTREAMS of 3.489
_MEMORY = "memory"
_PASSES = 2
_RECORDS = 13  # sizes of -a: 4 KiB to 16 MiB
_PAUSE = 4.0  # seconds; throughput mode, per pass: 3.1 to 4 measured with 3.489, whatever the size
_STAGE = 0.5  # seconds; fio between two phases, 0.3 to 0.6 measured with 3.33


@dataclass(frozen=True, slots=True)
class _Said:
    """The options as numbers; ``size`` in bytes, 0: not said; ``threads`` 0: single stream."""

    threads: int
    size: int
    record: int
    operations: tuple[str, ...]
    flags: tuple[str, ...]
    auto: bool
    mix_read: int


class Iozone:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "iozone"
    summary = "file system benchmark: write, rewrite, read, random, stride and more, on files"
    program = "iozone"
    package = "iozone3"
    usual = "bw"
    measures = re.compile(
        r"[a-z_]+\.(bw(\.(avg|max|min|parent))?|bytes(\.min)?|cpu|iops|lat\.mean)"
    )
    remedy = (
        "iozone3 is in Debian's component non-free (Ubuntu: multiverse): add that to apt's "
        "sources, then apt-get install iozone3; or build it from the source on iozone.org; or let "
        'fio run the same phases, and be labelled so: options = { …, stand_in = "fio" }'
    )

    def check(self, workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
        found = []
        if workload.jobfile:
            found.append(("jobfile", "IOzone has no job files: say its options"))
        for name, value in workload.options:
            if name not in _OPTIONS:
                near = difflib.get_close_matches(name, _OPTIONS, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?  " if near else ""
                found.append((name, f"no option here; {hint}there are: {', '.join(_OPTIONS)}"))
            elif name in (*_FLAGS, "auto", "excel") and not isinstance(value, bool):
                found.append((name, "it is true or false"))
            elif name == "stand_in" and value != "fio":
                found.append((name, f"{value!r} cannot stand in for IOzone; fio can"))
        for name, reads in (
            ("threads", _threads), ("size", _size), ("record", _record), ("operations", _tests),
            ("mix_read", _mix_read),
        ):  # fmt: skip
            try:
                reads(workload, facts)
            except IotrialError as error:
                found.append((name, error.message))
        return found or list(_together(_said(workload, facts), workload))

    def reach(self, workload: Workload) -> Reach:
        """It always writes: the first test makes the files.  ``reads`` says whether it gives
        ``read.iops``."""
        try:
            reads = "read" in _tests(workload, {})
        except UsageError:
            reads = False
        return Reach(reads=reads, writes=True)

    def command(self, workload: Workload, aimed: Aimed, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem :meth:`check` finds, for a device as the
        target, and where nothing says how large the files are."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        said = _said(workload, facts)
        if aimed.kind == "device":
            raise UsageError(
                f"IOzone loads files, and {aimed.path} is a device",
                advice='give the target filesystem = "ext4" or another, or take fio',
            )
        size = said.size or _share(aimed, said)
        if size < said.record:
            advice = 'say how large each file is, such as size = "1g"'
            raise UsageError(f"IOzone needs a size of its files in {aimed.path}", advice=advice)
        folder, name = _place(aimed)
        count = max(1, said.threads)
        note = (_MEMORY, f"{facts.get('memory', 0):.0f} {size * count}\n".encode())
        if workload.option("stand_in"):
            if why := self.unnameable(workload, aimed):
                raise UsageError(f"workload {workload.name}: {why}", advice="Rename it.")
            made = iozone_by_fio.load(_phases(said, size), folder or "/", name)
            return Load(made.argv, (*made.files, note))
        words = ["iozone", "-R", "-s", f"{size // 1024}k"]
        words += ["-a"] if said.auto else ["-r", f"{said.record // 1024}k"]
        words += [word for each in said.operations for word in ("-i", _number(each))]
        words += ["-+p", str(said.mix_read)] if "mixed" in said.operations else []
        words += [*said.flags, *(["-b", _SHEET] if workload.option("excel", default=False) else [])]
        mode = ["-t", str(count), "-F"] if said.threads else ["-f"]
        return Load((*words, *mode, *_files(aimed, said)), (note,))

    def unnameable(self, workload: Workload, aimed: Aimed) -> str:
        """See :class:`iotrial.model.tool.Naming`: IOzone takes any path, fio's job files do not."""
        return iozone_by_fio.unfit(*_place(aimed)) if workload.option("stand_in") else ""

    def leaves(
        self, workload: Workload, aimed: Aimed, facts: Mapping[str, float]
    ) -> tuple[Left, ...]:
        """See :class:`iotrial.model.tool.Leaves`: the files of an IOzone that is killed."""
        files = _files(aimed, _said(workload, facts))
        return tuple(Left(file, "file", "trial") for file in files)

    def seconds(self, workload: Workload, aimed: Aimed) -> float:
        """The time a slow disk needs for all passes, and the pauses of throughput mode."""
        return _lasting(workload, aimed, SLOW)

    def likely(self, workload: Workload, aimed: Aimed) -> float:
        """See :class:`iotrial.model.tool.Ends`."""
        return _lasting(workload, aimed, LIKELY)

    def version_problem(self, version: str) -> str:
        """IOzone answers ``--version`` with a complaint; the real one is in every report."""
        if re.search(r"iozone|Unsupported option|Revision", version, re.IGNORECASE):
            return ""
        return f"{version.strip()[:60]!r}: is another program named iozone?"

    def parse(self, folder: Path) -> Parsed:
        if (folder / iozone_by_fio.JOBS).exists():
            parsed = iozone_by_fio.parse(folder)
            data = (folder / iozone_by_fio.JOBS).read_bytes()
            direct, flushed = b"direct=1" in data, b"end_fsync=1" in data
        else:
            parsed, data = _own(folder)
            direct = b"O_DIRECT feature enabled" in data
            flushed = b"Include fsync in write timing" in data
        reads = any("read." in each.metric for each in parsed.measurements)
        more = [] if direct or not reads else _cached(folder)
        more += [] if direct or flushed else [_UNFLUSHED]
        return Parsed(parsed.measurements, (*parsed.doubts, *more))


TOOL = Iozone()


def _lasting(workload: Workload, aimed: Aimed, pace: Pace) -> float:
    said = _said(workload, {"cpus": 4.0, "memory": 2.0**33})
    size = (said.size or _share(aimed, said)) * max(1, said.threads)
    streams = sum(each not in {"random", "mixed"} for each in said.operations)
    jumps = len(said.operations) - streams
    pause = _STAGE if workload.option("stand_in") else _PAUSE if said.threads else 0.0
    passes = _PASSES * (_RECORDS if said.auto else 1)
    moved = size * (streams / pace.stream + jumps / said.record / pace.rate)
    return passes * (pause * len(said.operations) + moved)


def _place(aimed: Aimed) -> tuple[str, str]:
    """The folder of the files, and what their names begin with."""
    folder, _, beside = aimed.path.rstrip("/").rpartition("/")
    if aimed.kind == "directory":
        return aimed.path.rstrip("/"), "iozone"
    return folder, f"{beside}.iozone"


def _files(aimed: Aimed, said: _Said) -> list[str]:
    folder, name = _place(aimed)
    return [f"{folder}/{name}.{at}" for at in range(max(1, said.threads))]


def _number(operation: str) -> str:
    return str(OPERATIONS.index(operation))


def _whole(workload: Workload, name: str, default: str, facts: Mapping[str, float]) -> int:
    """A number of bytes: a size (``64k``, ``1GiB``) or an expression."""
    text = str(workload.option(name, default))
    try:
        return parse_bytes(text)
    except ValueError:
        value = evaluate(text, facts)
    return int(value) if name == "threads" else int(value) // 1024 * 1024


def _threads(workload: Workload, facts: Mapping[str, float]) -> int:
    if workload.option("threads", "") == "":
        return 0
    count = _whole(workload, "threads", "", facts)
    if not 1 <= count <= _MOST_THREADS:
        raise UsageError(f"{count} threads: IOzone takes 1 to {_MOST_THREADS}")
    return count


def _size(workload: Workload, facts: Mapping[str, float]) -> int:
    if workload.option("size", "") == "":
        return 0
    return _kib(_whole(workload, "size", "", facts))


def _record(workload: Workload, facts: Mapping[str, float]) -> int:
    return _kib(_whole(workload, "record", "4k", facts))


def _kib(size: int) -> int:
    if size < 1024 or size % 1024:  # noqa: PLR2004 (IOzone counts in KiB)
        raise UsageError(f"{size} bytes: IOzone takes multiples of 1 KiB")
    return size


def _tests(workload: Workload, facts: Mapping[str, float]) -> tuple[str, ...]:  # noqa: ARG001
    """The operations in IOzone's order, write among them."""
    text = str(workload.option("operations", "write,read,random"))
    found = {"write"}
    for word in re.split(r"[,\s]+", text.strip(", ")):
        if word.isdecimal() and int(word) < len(OPERATIONS):
            found.add(OPERATIONS[int(word)])
        elif word in OPERATIONS:
            found.add(word)
        else:
            listed = ", ".join(f"{at} {name}" for at, name in enumerate(OPERATIONS))
            raise UsageError(f"{word!r} is no operation; there are: {listed}")
    return tuple(sorted(found, key=OPERATIONS.index))


def _said(workload: Workload, facts: Mapping[str, float]) -> _Said:
    return _Said(
        _threads(workload, facts),
        _size(workload, facts),
        _record(workload, facts),
        _tests(workload, facts),
        tuple(word for name, word in _FLAGS.items() if workload.option(name, default=False)),
        workload.option("auto", default=False) is True,
        _mix_read(workload, facts),
    )


def _mix_read(workload: Workload, facts: Mapping[str, float]) -> int:
    share = evaluate(str(workload.option("mix_read", 50)), facts)
    if share != int(share) or not 1 <= share <= 99:  # noqa: PLR2004
        raise UsageError(f"{share:g} percent: the mixed workload reads 1 to 99")
    return int(share)


def _phases(said: _Said, size: int) -> iozone_by_fio.Phases:
    return iozone_by_fio.Phases(
        operations=said.operations,
        threads=said.threads,
        size=size,
        record=said.record,
        direct="-I" in said.flags,
        flush="-e" in said.flags,
        mix_read=said.mix_read,
    )


def _together(said: _Said, workload: Workload) -> Iterator[tuple[str, str]]:
    if said.size and (said.size < said.record or said.size % said.record):
        yield "size", f"it is no multiple of the record of {format_bytes(said.record)}"
    if workload.option("stand_in"):
        lacking = iozone_by_fio.missing(said.operations)
        if lacking:
            yield "operations", f"fio, which is to stand in, has nothing like {', '.join(lacking)}"
        for name in ("auto", "excel", "each", "cpu", "include_close"):
            if workload.option(name, default=False):
                yield name, "fio, which is to stand in, has no such thing"
        return
    alone = _ONLY_THREADS.intersection(said.operations)
    if alone and not said.threads:
        what = f"{min(alone)} is of the throughput mode only: say threads = 1 or more"
        yield "operations", what
    if said.auto and said.threads:
        yield "auto", "auto mode is one stream: leave out threads"
    if said.auto and workload.option("record"):
        yield "auto", "auto mode takes every record size: leave out record"
    if workload.option("each", default=False) and not said.threads:
        yield "each", "one stream has one process: say threads, or leave it out"


def _share(aimed: Aimed, said: _Said) -> int:
    """What each file gets of the target's size, in whole records."""
    return aimed.size // max(1, said.threads) // said.record * said.record


def _own(folder: Path) -> tuple[Parsed, bytes]:
    """What IOzone printed, held against its spreadsheet where there is one."""
    data = result(folder, "stdout", "IOzone")
    if b"-b " + _SHEET.encode() in data:
        sheet = result(folder, _SHEET, "IOzone", what="spreadsheet")
        _compare(iozone.FORMAT.read(data, "stdout"), SHEET.read(sheet, _SHEET))
    return iozone.parse(data, "stdout"), data


def _compare(text: Sequence[Recording], sheet: Sequence[Recording]) -> None:
    """The spreadsheet holds the same rates.  Raises FormatError where it does not."""
    told = {(each.treatment[:2], m.metric): m.value for each in sheet for m in each.measurements}
    for each in text:
        for measured in each.measurements:
            key = (each.treatment[:2], measured.metric)
            if measured.job != "all" or not measured.metric.endswith((".bw", ".iops")):
                continue
            if not math.isclose(told.get(key, -1.0), measured.value, rel_tol=1e-5):
                message = f"{_SHEET}: {measured.metric} is {told.get(key)}, and {measured.value}"
                raise FormatError(f"{message} in stdout", advice="repeat the trial")


def _cached(folder: Path) -> list[Doubt]:
    """Files smaller than memory, read without -I: the reads never saw the disk."""
    path = folder / _MEMORY
    words = path.read_text("utf-8").split() if path.exists() else []
    if len(words) != 2 or int(words[1]) >= int(words[0]):  # noqa: PLR2004
        return []
    memory, files = map(int, words)
    what = f"{format_bytes(files)} of files in {format_bytes(memory)} of memory, without direct"
    advice = "reads came from the page cache: take direct = true, or larger files"
    return [Doubt("cached", what, advice)]


_UNFLUSHED = Doubt(
    "unflushed",
    "writes were timed without their flush: part of them was still in memory",
    "take include_flush = true (on NFS include_close too), or direct = true",
)
