"""dd: one stream, one block after another, from or to the target.

What iotrial adds unless the study says otherwise: ``direct = true``, as for fio; ``fsync = true``
for writes, so that the time ends when the data is on the disk (GNU dd 9.1 syncs before it takes
the time).  ``conv=notrunc,nocreat`` always: a file keeps what lies beyond, and a device that is
gone is not replaced by a file in /dev, which would measure memory; in a directory the file is
made by the first trial, written again by the others, and removed at the end of the study, and one
that was there before is refused; one to read is there where the study says ``prepare =
["lay out"]``.  ``rw = "both"`` copies within the target: what lies at ``skip`` (its beginning) to
``seek`` (behind what is read), half of the target unless ``size`` says less.  dd writes
zeros: storage that
compresses or deduplicates answers faster than it is.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from iotrial.errors import FormatError, UsageError
from iotrial.formats import dd as report
from iotrial.formats.dd import asked
from iotrial.model.tool import (
    LIKELY,
    SLOW,
    AssumedSpeed,
    Leftover,
    Load,
    LoadAccess,
    ParsedOutput,
    ToolTarget,
)
from iotrial.model.workload import OptionValue, Workload
from iotrial.units import parse_bytes

_OPTIONS = ("rw", "bs", "size", "direct", "nonblock", "fsync", "skip", "seek")
_SWITCHES = frozenset({"direct", "nonblock", "fsync"})
_ONLY = {"fsync": ("write", "both"), "seek": ("write", "both"), "skip": ("read", "both")}
_OUTPUT = "stderr"
_NAME = "iotrial.dd"
_STARTUP = 0.05  # seconds
_UNKNOWN = 64 * 2**30  # bytes, where only the device knows its size
_LARGEST_BLOCK = 2**30  # dd holds a block in memory


class Dd:
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "dd"
    summary = "one sequential stream, block by block"
    program = "dd"
    package = "coreutils"
    usual = "iops"
    measures = re.compile(r"(read|write|total)\.(bw|bytes|iops|seconds)")

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (sizes of dd depend on nothing)
    ) -> list[tuple[str, str]]:
        return list(dict.fromkeys(_problems(workload)))

    def reach(self, workload: Workload) -> LoadAccess:
        rw = workload.option("rw", "read")
        return LoadAccess(reads=rw != "write", writes=rw != "read")

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem :meth:`check` finds, for reads in a directory,
        where nothing says how much to write, and where a copy does not fit."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        rw = workload.option("rw", "read")
        reads, writes = rw != "write", rw != "read"
        block, size = _size(workload, "bs", "1MiB"), _wanted(workload, aimed)
        flags = [name for name in ("direct", "nonblock") if _on(workload, name)]
        where = _path(workload, aimed)
        words = [f"if={where if reads else '/dev/zero'}", f"of={where if writes else '/dev/null'}"]
        words.append(f"bs={block}")
        if size:
            words.append(f"count={_blocks(size, block, aimed)}")
        elif writes:
            advice = 'set how much to write, for example size = "1GiB"'
            raise UsageError(f"dd needs a size to write to {aimed.path}", advice=advice)
        offsets = {"skip": _size(workload, "skip", "0"), "seek": _behind(workload, size, aimed)}
        words += [f"{name}={offset // block}" for name, offset in offsets.items() if offset]
        for does, flag in ((reads, "iflag"), (writes, "oflag")):
            words += [f"{flag}={','.join(flags)}"] * bool(does and flags)
        if writes:
            kept = ["notrunc"] if aimed.kind == "directory" else ["notrunc", "nocreat"]
            words.append(f"conv={','.join([*kept, *['fsync'] * _on(workload, 'fsync')])}")
        return Load(("dd", *words))

    def leaves(
        self,
        workload: Workload,
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002 (one file, whatever its size)
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`: the file in a directory."""
        made = self.reach(workload).writes or _laid(workload)
        if aimed.kind != "directory" or not made:
            return ()
        return (Leftover(_path(workload, aimed), "file", "study", ours=True),)

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """The time a slow disk needs."""
        return _lasting(workload, aimed, SLOW)

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """See :class:`iotrial.model.tool.SupportsSizedLoads`."""
        return _lasting(workload, aimed, LIKELY)

    def lay_out(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """The file that is read in a directory is written as this load would write it."""
        size = _size(workload, "size", "0") + _size(workload, "skip", "0")
        said = {k: v for k, v in workload.options if k not in _ONLY}
        options = tuple({**said, "rw": "write", "size": size}.items())
        return self.command(replace(workload, options=options), aimed, facts)

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        return "" if _on(workload, "direct") else "direct = false"

    def version_problem(self, version: str) -> str:
        if re.match(r"dd \((?:GNU )?(?:coreutils|uutils)", version):
            return ""
        first = version.strip()[:60]
        return (
            f"{first!r} is not the dd of coreutils, which alone knows direct and fsync: install it"
        )

    def parse(self, folder: Path) -> ParsedOutput:
        path = folder / _OUTPUT
        try:
            data, said = path.read_bytes(), (folder / "command").read_text("utf-8")
            words = shlex.split(said)
        except (FileNotFoundError, ValueError) as error:
            advice = "the folder of a trial holds both: is it whole?"
            what = f"{folder}: no whole stderr and command of dd: {error}"
            raise FormatError(what, advice=advice) from None
        return report.parse(data, _OUTPUT, asked(words))


TOOL = Dd()


def _problems(workload: Workload) -> Iterator[tuple[str, str]]:
    if workload.jobfile:
        yield "jobfile", "dd has no job files: write options"
    rw = workload.option("rw", "read")
    if rw not in ("read", "write", "both"):
        yield "rw", f"{rw!r} is not read, write or both"
    for name, value in workload.options:
        if name == "count":
            yield name, "say size, in bytes: the count follows from it and bs"
        elif name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_OPTIONS)}"
            yield name, f"not an option of dd in iotrial; {hint}"
        elif name in _ONLY and rw not in _ONLY[name] and value is not False:
            yield name, f"it is for rw = {' or '.join(_ONLY[name])}"
        elif name in _SWITCHES and value not in (True, False):
            yield name, f"{value!r} is not true or false"
        elif name not in _SWITCHES and name != "rw":
            yield from _bytes(name, value)
    if not any(name in ("bs", "size", "skip", "seek") for name, _ in _sizes(workload)):
        yield from _multiples(workload)


def _sizes(workload: Workload) -> Iterator[tuple[str, str]]:
    """What is wrong with each size by itself."""
    for name in ("bs", "size", "skip", "seek"):
        if name in dict(workload.options):
            yield from _bytes(name, workload.option(name))


def _bytes(name: str, value: OptionValue) -> Iterator[tuple[str, str]]:
    try:
        number = parse_bytes(str(value))
    except ValueError as error:
        yield name, str(error)
        return
    if name in ("bs", "size") and not number:
        yield name, "zero bytes"
    elif name == "bs" and number > _LARGEST_BLOCK:
        yield name, "dd holds one block in memory: 1GiB at most"


def _multiples(workload: Workload) -> Iterator[tuple[str, str]]:
    block = _size(workload, "bs", "1MiB")
    for name in ("size", "skip", "seek"):
        if _size(workload, name, "0") % block:
            yield name, f"not a whole number of blocks of {block} bytes"
    if _on(workload, "direct") and block % 512:
        yield "bs", "direct I/O goes by sectors: take a multiple of 512, or direct = false"


def _size(workload: Workload, name: str, default: str) -> int:
    return parse_bytes(str(workload.option(name, default)))


def _wanted(workload: Workload, aimed: ToolTarget) -> int:
    """Bytes to copy; 0: to the end.  What is skipped is not there to be copied."""
    if workload.option("size"):
        return _size(workload, "size", "0")
    away = _size(workload, "skip", "0") + _size(workload, "seek", "0")
    left = max(0, aimed.size - away)
    block = _size(workload, "bs", "1MiB")
    return left // 2 // block * block if workload.option("rw", "read") == "both" else left


def _behind(workload: Workload, size: int, aimed: ToolTarget) -> int:
    """Where to write.  A copy is written behind what it is of, and must fit there.

    Raises UsageError where it does not, or would be written over what is read."""
    if workload.option("rw", "read") != "both":
        return _size(workload, "seek", "0")
    begin = _size(workload, "skip", "0")
    at = _size(workload, "seek", str(begin + size))
    if aimed.size and max(begin, at) + size > aimed.size:
        advice = "take a smaller size: a copy needs room for what it reads and what it writes"
        raise UsageError(f"{aimed.path} has no {max(begin, at) + size} bytes", advice=advice)
    if abs(at - begin) < size:
        raise UsageError(f"seek = {at}: the copy would be written over what is read")
    return at


def _blocks(size: int, block: int, aimed: ToolTarget) -> int:
    if size < block:
        raise UsageError(f"a block of {block} bytes is more than the {size} of {aimed.path}")
    return size // block


def _on(workload: Workload, name: str) -> bool:
    return bool(workload.option(name, name != "nonblock"))


def _laid(workload: Workload) -> bool:
    return any(chore.kind == "lay out" for chore in workload.prepare)


def _path(workload: Workload, aimed: ToolTarget) -> str:
    """In a directory, a file of dd's own: made by writing, or laid out before it is read."""
    if aimed.kind != "directory":
        return aimed.path
    rw = workload.option("rw", "read")
    if rw == "write" or (rw == "read" and _laid(workload)):
        return aimed.own(_NAME)
    advice = "make a file the target: iotrial lays it out before the first trial"
    if rw == "read":
        advice = 'say size = "1GiB" and prepare = ["lay out"], and dd reads a file of its own'
    raise UsageError(f"dd reads one file, and {aimed.path} is a directory", advice=advice)


def _lasting(workload: Workload, aimed: ToolTarget, pace: AssumedSpeed) -> float:
    try:
        size = _wanted(workload, aimed)
    except ValueError:
        size = 0
    return _STARTUP + (size or _UNKNOWN) / pace.stream
