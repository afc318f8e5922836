"""IOzone, the file system benchmark.  A load of many phases on files.

Options, beside them IOzone's own letters: ``threads`` (-t: throughput mode; without it one stream
of single-stream mode), ``size`` (-s, of each file), ``record`` (-r, 4 KiB), ``operations`` (-i:
``"write, read"`` or ``"0,1"``, see :data:`OPERATIONS`; write is always first, it makes the files),
``auto`` (-a: every record size of IOzone's at that file size, each a section of its own), with
``min_size`` and ``max_size`` (-n, -g: and every file size from one to the other), ``direct``
(-I), ``include_close`` (-c), ``include_flush`` (-e), ``cpu`` (-+u), ``mix_read`` (-+p, percent),
``each`` (-C: each process too), ``excel`` (-b: a spreadsheet beside the output, and compared).

``stand_in = "fio"`` has fio run the same phases, where IOzone is not to be had.

Every run has ``-R``: the report repeats each number, and the parser compares.  IOzone replaces
the file it is given (seen with -w too: the inode changes), so a file as the target is left alone,
and its files are made beside it, on the same file system.  Throughput mode waits for ever when a
child cannot open its file (seen with 3.489): the limit of the trial ends it.  It removes its files
when it ends by itself; those of one that is ended, iotrial removes.

IOzone has neither ``--version`` nor a package in Debian's main component.

Where fio stands in, its jobs do IOzone's phases one after another on the same files,
``ioengine=sync`` (read and write) or ``psync`` (pread and pwrite), each phase over the whole file
in whole records, one file for each process, removed by the last phase.  What is another thing in
fio: the phases of stdio (fwrite, fread) and rewriting one record do not exist; a stride passes the
file once; fio's processes do not stop when the first is done.  So a doubt labels every trial, and
such numbers are compared with each other only.  Metrics have IOzone's names
(``random_read.bw``), with fio's quantities.

Sources: fio(1) (``rw``, ``ddir_seq_add``: ``read:-8k`` reads backwards), iozone(1); seen with
fio 3.33.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from iotrial.errors import FormatError, IotrialError, UsageError
from iotrial.formats import iozone
from iotrial.formats.fio import json_output as fio_json
from iotrial.formats.fio.jobfile import escaped, unwritable
from iotrial.formats.iozone_xls import FORMAT as SHEET
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording
from iotrial.model.tool import (
    LIKELY,
    SLOW,
    AssumedSpeed,
    Leftover,
    Load,
    LoadAccess,
    LoadSection,
    ParsedOutput,
    ToolTarget,
)
from iotrial.model.trial import Doubt
from iotrial.model.workload import Workload
from iotrial.tools.expression import evaluate
from iotrial.tools.results import result
from iotrial.units import format_bytes, parse_bytes

OPERATIONS = (
    "write", "read", "random", "backward", "record-rewrite", "stride", "fwrite", "fread",
    "mixed", "pwrite", "pread",
)  # fmt: skip
"""The place in this list is the number that IOzone's -i takes."""
_GIVES = {
    "write": ("write", "rewrite"), "read": ("read", "reread"),
    "random": ("random_read", "random_write"), "backward": ("backward_read",),
    "record-rewrite": ("record_rewrite",), "stride": ("stride_read",),
    "fwrite": ("fwrite", "refwrite"), "fread": ("fread", "refread"), "mixed": ("mixed",),
    "pwrite": ("pwrite", "repwrite"), "pread": ("pread", "repread"),
}  # fmt: skip

_FLAGS = {
    "direct": "-I", "include_close": "-c", "include_flush": "-e", "cpu": "-+u", "each": "-C",
}  # fmt: skip
_OPTIONS = (
    "threads", "size", "record", "operations", "auto", "min_size", "max_size", "mix_read", "excel",
    "stand_in", *_FLAGS,
)  # fmt: skip
_SHEET = "iozone.xls"
_ONLY_THREADS = frozenset({"mixed", "pwrite", "pread"})
_MOST_THREADS = 256  # MAXSTREAMS of 3.489
_MEMORY = "memory"
_PASSES = 2
# Of -a, each twice the one before.  Files larger than the second begin with the third, where -n and
# -g choose their sizes (seen with 3.489).
_LEAST_RECORD, _MOST_RECORD, _LEAST_OF_LARGE = 4096, 16 * 2**20, 65536
_SMALLEST, _LARGEST = 64 * 1024, 512 * 2**20  # files, where only one of -n and -g is given
_PAUSE = 4.0  # seconds; throughput mode, per pass: 3.1 to 4 measured with 3.489, whatever the size
_STAGE = 0.5  # seconds; fio between two phases, 0.3 to 0.6 measured with 3.33


@dataclass(frozen=True, slots=True)
class _Said:
    """The options as numbers; ``size`` in bytes, 0: not said; ``threads`` 0: single stream.
    ``sizes`` of files that auto mode goes through, by -n and -g; then ``size`` is the largest."""

    threads: int
    size: int
    record: int
    operations: tuple[str, ...]
    flags: tuple[str, ...]
    auto: bool
    mix_read: int
    sizes: tuple[int, ...] = ()


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
            found.append(("jobfile", "IOzone has no job files: set its options"))
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
            ("max_size", _sizes), ("mix_read", _mix_read),
        ):  # fmt: skip
            try:
                reads(workload, facts)
            except IotrialError as error:
                found.append((name, error.message))
        return found or list(_together(_said(workload, facts), workload))

    def reach(self, workload: Workload) -> LoadAccess:
        """It always writes: the first test makes the files.  ``reads`` says whether it gives
        ``read.iops``."""
        try:
            reads = "read" in _tests(workload, {})
        except UsageError:
            reads = False
        return LoadAccess(reads=reads, writes=True)

    def family(self, workload: Workload) -> list[str]:
        """See :class:`iotrial.model.tool.SupportsFamily`: the bandwidth of every operation."""
        try:
            tests = _tests(workload, {})
        except UsageError:
            return []
        return [f"{operation}.bw" for test in tests for operation in _GIVES[test]]

    def sectioned(self, workload: Workload) -> tuple[LoadSection, ...]:
        """See :class:`iotrial.model.tool.SupportsSections`: file and record sizes of auto mode."""
        try:
            said = _said(workload, {})
        except UsageError:  # a size that depends on the machine
            return ()
        if not said.auto:
            return ()
        reads = "read" in said.operations
        found = tuple(
            LoadSection(f"{size // 1024}k/{record // 1024}k", reads, writes=True, after=True)
            for size in said.sizes or (said.size,)
            for record in _records(size, chosen=bool(said.sizes))
        )
        return found if len(found) > 1 else ()

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
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
            advice = 'set how large each file is, for example size = "1g"'
            raise UsageError(f"IOzone needs a size of its files in {aimed.path}", advice=advice)
        folder, name = _place(aimed)
        count = max(1, said.threads)
        note = (_MEMORY, f"{facts.get('memory', 0):.0f} {size * count}\n".encode())
        if workload.option("stand_in"):
            if why := self.unnameable(workload, aimed):
                raise UsageError(f"workload {workload.name}: {why}", advice="Rename it.")
            made = _load_of_fio(_phases(said, size), folder or "/", name)
            return Load(made.argv, (*made.files, note))
        words = ["iozone", "-R"]
        if said.sizes:
            words += ["-n", f"{said.sizes[0] // 1024}k", "-g", f"{said.sizes[-1] // 1024}k"]
        else:
            words += ["-s", f"{size // 1024}k"]
        words += ["-a"] if said.auto else ["-r", f"{said.record // 1024}k"]
        words += [word for each in said.operations for word in ("-i", _number(each))]
        words += ["-+p", str(said.mix_read)] if "mixed" in said.operations else []
        words += [*said.flags, *(["-b", _SHEET] if workload.option("excel", default=False) else [])]
        mode = ["-t", str(count), "-F"] if said.threads else ["-f"]
        return Load((*words, *mode, *_files(aimed, said)), (note,))

    def unnameable(self, workload: Workload, aimed: ToolTarget) -> str:
        """See :class:`iotrial.model.tool.SupportsPathCheck`: IOzone takes any path, fio's job files
        do not."""
        return _unfit_for_fio(*_place(aimed)) if workload.option("stand_in") else ""

    def leaves(
        self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`: the files of an IOzone that is
        killed."""
        files = _files(aimed, _said(workload, facts))
        return tuple(Leftover(file, "file", "trial") for file in files)

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """The time a slow disk needs for all passes, and the pauses of throughput mode."""
        return _lasting(workload, aimed, SLOW)

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """See :class:`iotrial.model.tool.SupportsSizedLoads`."""
        return _lasting(workload, aimed, LIKELY)

    def version_problem(self, version: str) -> str:
        """IOzone answers ``--version`` with a complaint; the real one is in every report."""
        if re.search(r"iozone|Unsupported option|Revision", version, re.IGNORECASE):
            return ""
        return f"{version.strip()[:60]!r}: is another program named iozone?"

    def parse(self, folder: Path) -> ParsedOutput:
        if (folder / _JOBS).exists():
            parsed = _parsed_of_fio(folder)
            data = (folder / _JOBS).read_bytes()
            direct, flushed = b"direct=1" in data, b"end_fsync=1" in data
        else:
            parsed, data = _own(folder)
            direct = b"O_DIRECT feature enabled" in data
            flushed = b"Include fsync in write timing" in data
        reads = any("read." in each.metric for each in parsed.measurements)
        more = [] if direct or not reads else _cached(folder)
        more += [] if direct or flushed else [_UNFLUSHED]
        return ParsedOutput(parsed.measurements, (*parsed.doubts, *more))


TOOL = Iozone()


def _lasting(workload: Workload, aimed: ToolTarget, pace: AssumedSpeed) -> float:
    said = _said(workload, {"cpus": 4.0, "memory": 2.0**33})
    size = (said.size or _share(aimed, said)) * max(1, said.threads)
    streams = sum(each not in {"random", "mixed"} for each in said.operations)
    jumps = len(said.operations) - streams
    pause = _STAGE if workload.option("stand_in") else _PAUSE if said.threads else 0.0
    every = [(size, said.record)]
    if said.auto:
        chosen = bool(said.sizes)
        every = [(s, r) for s in said.sizes or (size,) for r in _records(s, chosen=chosen)]
    moved = sum(s * (streams / pace.stream + jumps / r / pace.rate) for s, r in every)
    return _PASSES * (len(every) * pause * len(said.operations) + moved)


def _records(size: int, *, chosen: bool) -> list[int]:
    """The record sizes of auto mode for a file; ``chosen``: its size is by -n and -g."""
    least = _LEAST_OF_LARGE if chosen and size > _MOST_RECORD else _LEAST_RECORD
    sizes = (least * 2**power for power in range(_MOST_RECORD // least))
    return list(takewhile(lambda record: record <= min(size, _MOST_RECORD), sizes))


def _place(aimed: ToolTarget) -> tuple[str, str]:
    """The folder of the files, and what their names begin with."""
    if aimed.kind == "directory":
        folder, _, name = aimed.own("iozone").rpartition("/")
        return folder, name
    folder, _, beside = aimed.path.rstrip("/").rpartition("/")
    return folder, f"{beside}.iozone"


def _files(aimed: ToolTarget, said: _Said) -> list[str]:
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


def _sizes(workload: Workload, facts: Mapping[str, float]) -> tuple[int, ...]:
    """The file sizes from -n to -g, each twice the one before; none where neither is given."""
    if not any(str(workload.option(name, "")) for name in ("min_size", "max_size")):
        return ()
    least = _kib(_whole(workload, "min_size", str(_SMALLEST), facts))
    most = _kib(_whole(workload, "max_size", str(_LARGEST), facts))
    if least > most:
        raise UsageError(f"{format_bytes(most)} is less than min_size, {format_bytes(least)}")
    doubled = (least * 2**power for power in range(most.bit_length()))
    return tuple(takewhile(lambda size: size <= most, doubled))


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
            raise UsageError(f"{word!r} is not an operation; there are: {listed}")
    return tuple(sorted(found, key=OPERATIONS.index))


def _said(workload: Workload, facts: Mapping[str, float]) -> _Said:
    sizes = _sizes(workload, facts)
    return _Said(
        _threads(workload, facts),
        sizes[-1] if sizes else _size(workload, facts),
        _record(workload, facts),
        _tests(workload, facts),
        tuple(word for name, word in _FLAGS.items() if workload.option(name, default=False)),
        workload.option("auto", default=False) is True,
        _mix_read(workload, facts),
        sizes,
    )


def _mix_read(workload: Workload, facts: Mapping[str, float]) -> int:
    share = evaluate(str(workload.option("mix_read", 50)), facts)
    if share != int(share) or not 1 <= share <= 99:  # noqa: PLR2004
        raise UsageError(f"{share:g} percent: the mixed workload reads 1 to 99")
    return int(share)


def _phases(said: _Said, size: int) -> _Phases:
    return _Phases(
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
        yield "size", f"it is not a multiple of the record of {format_bytes(said.record)}"
    if workload.option("stand_in"):
        lacking = _missing_in_fio(said.operations)
        if lacking:
            yield "operations", f"fio, which is to stand in, has nothing like {', '.join(lacking)}"
        for name in ("auto", "min_size", "max_size", "excel", "each", "cpu", "include_close"):
            if workload.option(name, default=False):
                yield name, "fio, which is to stand in, has no such thing"
        return
    alone = _ONLY_THREADS.intersection(said.operations)
    if alone and not said.threads:
        what = f"{min(alone)} is of the throughput mode only: set threads = 1 or more"
        yield "operations", what
    yield from _of_auto(said, workload)
    if workload.option("each", default=False) and not said.threads:
        yield "each", "one stream has one process: set threads, or remove it"


def _of_auto(said: _Said, workload: Workload) -> Iterator[tuple[str, str]]:
    if said.auto and said.threads:
        yield "auto", "auto mode is one stream: remove threads"
    if said.sizes and not said.auto:
        yield "max_size", "file sizes are gone through in auto mode only: add auto = true"
    if said.sizes and workload.option("size"):
        yield "size", "min_size and max_size say how large the files are: remove it"
    if said.auto and workload.option("record"):
        yield "auto", "auto mode takes every record size: remove record"


def _share(aimed: ToolTarget, said: _Said) -> int:
    """What each file gets of the target's size, in whole records."""
    return aimed.size // max(1, said.threads) // said.record * said.record


def _own(folder: Path) -> tuple[ParsedOutput, bytes]:
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


# -- by fio ---------------------------------------------------------------------------------------

_JOBS = "iozone.fio"
_OUTPUT = "fio.json"
_STRIDE = 17  # records from one to the next; IOzone's default
_PHASES = {
    "write": ("write", "rewrite"),
    "read": ("read", "reread"),
    "random": ("random_read", "random_write"),
    "backward": ("backward_read",),
    "stride": ("stride_read",),
    "mixed": ("mixed",),
    "pwrite": ("pwrite",),
    "pread": ("pread",),
}
_AGAIN = "repeat the trial: fio did not terminate normally"


@dataclass(frozen=True, slots=True)
class _Phases:
    """What IOzone would have been told.  Sizes in bytes; ``mix_read`` in percent."""

    operations: tuple[str, ...]
    threads: int
    size: int
    record: int
    direct: bool
    flush: bool
    mix_read: int


def _missing_in_fio(operations: Sequence[str]) -> list[str]:
    """The operations that fio has no counterpart of."""
    return [each for each in operations if each not in _PHASES]


def _unfit_for_fio(directory: str, name: str) -> str:
    """Why a job file cannot name such files in ``directory``, or would name others; '' it can."""
    found = unwritable(directory) or unwritable(f"{name}.0")
    if not found:
        return ""
    return f"fio would load other files than {directory}/{name}.0: {found!r} is in their path"


def _load_of_fio(phases: _Phases, directory: str, name: str) -> Load:
    """The files are ``name.0`` and so on in ``directory``."""
    lines = [
        "[global]",
        f"directory={escaped(directory)}",
        f"filename_format={name}.$jobnum",
        f"size={phases.size}",
        f"bs={phases.record}",
        f"numjobs={max(1, phases.threads)}",
        f"direct={int(phases.direct)}",
        f"end_fsync={int(phases.flush)}",
        "group_reporting=1",
        "randrepeat=0",
        "fallocate=none",
        "ioengine=sync",
    ]
    steps = [step for each in phases.operations for step in _PHASES[each]]
    for at, step in enumerate(steps, 1):
        lines += [f"[{step}]", "stonewall", *_job(step, phases)]
        lines += ["unlink=1"] if at == len(steps) else []
    argv = ("fio", "--output-format=json+", f"--output={_OUTPUT}", "--eta=never", _JOBS)
    return Load(argv, ((_JOBS, ("\n".join(lines) + "\n").encode()),))


def _job(step: str, phases: _Phases) -> list[str]:
    if step == "backward_read":
        return [f"rw=read:-{2 * phases.record}"]
    if step == "stride_read":
        records = phases.size // phases.record
        stops = -(-records // _STRIDE)
        return [f"rw=read:{(_STRIDE - 1) * phases.record}", f"io_size={stops * phases.record}"]
    if step == "mixed":
        return ["rw=randrw", f"rwmixread={phases.mix_read}", "unified_rw_reporting=1"]
    engine = ["ioengine=psync"] if step in ("pwrite", "pread") else []
    kinds = {"random_read": "randread", "random_write": "randwrite"}
    kind = kinds.get(step, "read" if step in ("read", "reread", "pread") else "write")
    return [f"rw={kind}", *engine]


def _parsed_of_fio(folder: Path) -> ParsedOutput:
    """IOzone's names for fio's numbers, and the doubt that says whose they are."""
    data = result(folder, _OUTPUT, "fio, which stands in for IOzone,", what="report")
    parsed = fio_json.parse(data, _OUTPUT)
    found = [renamed for each in parsed.measurements for renamed in _renamed(each)]
    if not found:
        raise FormatError(f"{folder / _OUTPUT}: no phase of IOzone in fio's report", advice=_AGAIN)
    what = "fio ran these phases in IOzone's place (stand_in): these are not IOzone's numbers"
    doubt = Doubt("stand-in", what, "Compare them only with others that fio ran.")
    return ParsedOutput(tuple(found), (*_others(parsed.doubts), doubt))


def _renamed(each: Measurement) -> list[Measurement]:
    """A phase's own numbers; ``all`` would put phases together that ran one after another."""
    phase, _, ordinal = each.job.rpartition("#")
    operation, _, quantity = each.metric.partition(".")
    if ordinal != "1" or not any(phase in steps for steps in _PHASES.values()):
        return []
    if operation == "cpu":
        return []
    return [Measurement(f"{phase}.{quantity}", each.value, each.unit, "all", each.raw)]


def _others(doubts: Sequence[Doubt]) -> list[Doubt]:
    """Without fio's doubt that its jobs ran one after another: that is how it was meant."""
    return [doubt for doubt in doubts if doubt.check != "one-after-another"]
