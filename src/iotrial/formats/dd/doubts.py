"""One run of dd, and what makes it less believable.  dd exits 0 in all of these cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from iotrial.formats.dd.operands import Asked
from iotrial.model.trial import Doubt

_SHORT = 0.99  # seconds; as for fio
_LONGER = "give it more to copy: a larger size"


@dataclass(frozen=True, slots=True)
class Run:
    """``line`` is that of its last report.  ``bytes`` and ``seconds`` are what dd counted (0 s:
    no time).  ``read`` and ``written`` are full and partial records.  ``progress``: it may be no
    result but the progress of one; ``alone``: it has no records; ``begins``: there was another
    line before it.  ``earlier``: reports before the last."""

    line: int
    bytes: int
    seconds: float
    read: tuple[int, int]
    written: tuple[int, int]
    asked: Asked
    progress: bool = False
    alone: bool = False
    begins: bool = False
    earlier: int = 0

    def after(self, last: Run) -> Run:
        """The same run as ``last``, further on."""
        return replace(self, earlier=self.earlier + last.earlier + 1, asked=last.asked)


def doubts_about(run: Run, label: str) -> Iterator[Doubt]:
    """Every doubt about one run; ``label`` is its job."""
    yield from _time(run, label)
    yield from _numbers(run, label)
    size = run.asked.size
    if run.bytes < size:
        what = f"{label} copied {run.bytes} of {size} bytes"
        yield Doubt("fewer", what, "the source ended, or the target was full: check their sizes")
    if run.read[1] > 1:
        what = f"{label}: {run.read[1]} of its records were read in part"
        yield Doubt("partial", what, "a smaller bs, or iflag=fullblock where it reads a pipe")
    for operation in run.asked.cached:
        yield _memory(operation, label)
    if run.earlier:
        what = f"{label}: {run.earlier} reports before line {run.line} are taken as its progress"
        yield Doubt("progress", what, "put an empty line between them, if they were runs of dd")


def _time(run: Run, label: str) -> Iterator[Doubt]:
    if not run.bytes:
        yield Doubt("no-io", f"{label} copied nothing", "look at dd's messages", invalid=True)
    elif not run.seconds:
        yield Doubt("no-time", f"{label} took no time that dd could see", _LONGER, invalid=True)
    elif run.seconds < _SHORT:
        yield Doubt("short", f"{label} took only {run.seconds:.3g} s", _LONGER)


def _numbers(run: Run, label: str) -> Iterator[Doubt]:
    """dd's numbers against what it was asked."""
    block, (full, partial) = run.asked.block, run.written
    # From bytes alone, or with records of another size, nothing follows.
    if block and full + partial and not full * block <= run.bytes <= (full + partial) * block:
        what = f"{label}: {full}+{partial} records of {block} bytes are not {run.bytes} bytes"
        yield Doubt("records", what, "is it the command of this run?", invalid=True)


def _memory(operation: str, label: str) -> Doubt:
    if operation == "read":
        what = f"{label} read through the page cache: memory may have answered"
        return Doubt("cache", what, "read with direct = true (iflag=direct)")
    what = f"{label} ended when the page cache had the data, not the disk"
    return Doubt("cache", what, "write with fsync = true (conv=fsync) or direct = true")
