"""IOzone's throughput mode (``-t``, ``-l`` and ``-u``): a block of lines for each operation.

::

    Children see throughput for  2 initial writers  = 4104375.00 kB/sec    sum over the processes
    Parent sees throughput for  2 initial writers   =  837110.44 kB/sec    from first to last
    Min throughput per process                      = 2011261.50 kB/sec
    Max throughput per process                      = 2093113.50 kB/sec
    Avg throughput per process                      = 2052187.50 kB/sec    from 3.2 on
    Min xfer                                        =    3920.00 kB
    CPU Utilization: Wall time    0.002    CPU time    0.004    CPU utilization 196.55 %   -+u
    Child[0] xfer count =    3920.00 kB, Throughput = 2011261.50 kB/sec                    -C

The unit is KB, kB or (-O) ops; -N is refused by IOzone here.  Several machines (-+m) have no line
of the parent.  A zero is left out of the minimum where a later process has
more.  The lines repeat each other: what does not add up is damaged.

Sources: ``throughput_test`` in iozone.c of 3.398 to 3.508; recordings in ``tests/data/iozone``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from iotrial.errors import FormatError

OPERATIONS = {
    "initial writers": "write", "rewriters": "rewrite", "readers": "read",
    "re-readers": "reread", "reverse readers": "backward_read", "stride readers": "stride_read",
    "random readers": "random_read", "mixed workload": "mixed", "random writers": "random_write",
    "pwrite writers": "pwrite", "re-pwrite writers": "repwrite", "pread readers": "pread",
    "re-pread readers": "repread", "fwriters": "fwrite", "re-fwriters": "refwrite",
    "freaders": "fread", "re-freaders": "refread", "fread readers": "fread",
    "pwritev writers": "pwritev", "preadv readers": "preadv",
}  # fmt: skip
KB = 1024
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
_LONGEST = 300
_AGAIN = "repeat it, or take IOzone's own output: a part of this one is missing or was changed"
_ROUNDED = 1e-10  # sums of doubles
_HUNDREDTH = 0.0101


@dataclass(slots=True)
class Block:
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
    return len(line) < _LONGEST and line.lstrip().startswith("Children see throughput for")


def blocks(
    lines: Iterable[tuple[int, str]], raw: str, sizes: tuple[int, int], *, whole: bool
) -> tuple[Block, ...]:
    """Every operation in the numbered lines.  ``sizes`` (file, record; bytes, 0 unknown) are the
    head's, where no line says what each process writes.

    A last block that ends early is left out unless ``whole``.  Where no block has more than what
    children and parent see (a log that was searched for these lines) that is enough.  Raises
    FormatError with the line for what does not add up.
    """
    found: list[Block] = []
    for number, line in lines:
        if not _MINE.match(line):
            continue
        place = f"{raw}: line {number}"
        short = line if len(line) < _LONGEST else ""
        if each := _EACH.fullmatch(short):
            sizes = int(each[1]) * KB, int(each[2]) * KB
            if not sizes[0] or not 0 < sizes[1] <= sizes[0]:
                raise FormatError(f"{place}: {short.strip()!r}: no such file and record")
        elif not _line(found, short, sizes, (number, place)):
            raise FormatError(f"{place}: {line.strip()[:80]!r} is not whole", advice=_AGAIN)
    _check(found, raw, whole=whole)
    return tuple(found)


def _check(found: list[Block], raw: str, *, whole: bool) -> None:
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


def _line(found: list[Block], line: str, sizes: tuple[int, int], at: tuple[int, str]) -> bool:
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
    found: list[Block], match: re.Match[str], sizes: tuple[int, int], number: int, place: str
) -> None:
    who, count, workers, value, unit = match.groups()
    operation = OPERATIONS.get(" ".join(workers.split()))
    if operation is None or not int(count):
        raise FormatError(f"{place}: {count} {workers!r}: no test of IOzone known here")
    if who == "Children":
        found.append(Block(operation, int(count), float(value), _unit(unit), *sizes, number))
        return
    block = _last(found, "Parent", unit, place)
    if (block.operation, block.workers) != (operation, int(count)):
        raise FormatError(f"{place}: children and parent are of two tests", advice=_AGAIN)
    _part(found, "Parent", float(value), unit, place)


def _part(found: list[Block], name: str, value: float, unit: str, place: str) -> None:
    block = _last(found, name, unit, place)
    if name in block.parts:
        raise FormatError(f"{place}: {name} of {block.operation} is there twice", advice=_AGAIN)
    block.parts[name] = value


def _last(found: list[Block], name: str, unit: str, place: str) -> Block:
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


def _contradictions(block: Block) -> Iterator[str]:
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


def _extremes(block: Block, least: float, most: float) -> Iterator[str]:
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
