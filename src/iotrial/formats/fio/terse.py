"""fio's terse output, versions 2 to 5 → runs.  :mod:`fio_terse_line` reads a line of it.

A line is one job (or one group, with ``group_reporting``).  Which lines belong together is not
written: a file of 4 lines with one job's name may be ``numjobs=4``, 4 runs appended to one file,
or 4 reports of one run (``--status-interval``).  What tells: lines of one run say the same of the
disks, their groups never go back, and each line gives its mean bandwidth in percent of its
group's, so that the group's can be computed and compared with the sum over lines.  Where nothing
tells, every line is a run of its own, with a doubt.

The file says neither block size nor whether I/O was random: the job's name is the workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from iotrial.errors import FormatError
from iotrial.formats.fio.documents import MARK, messages, printable
from iotrial.formats.fio.doubts import doubts_about
from iotrial.formats.fio.measured import measurements, weights
from iotrial.formats.fio.runs import INTERVAL, goes_on, names, relabelled, without_options
from iotrial.formats.fio.terse_line import HEAD, Line, line
from iotrial.formats.lines import text_of
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording

_SEMICOLONS = 60  # in a line with as many, something of fio's is broken
_SHAPE = re.compile(
    rb"(?:^|\n)[ \t]*(?:2|[345];(?:fio[- ])?\d+\.\d+[^;\n]*);[^\n]*?;\d+;-?\d+;(?:\d+;){5}"
)
_WORDS = re.compile(rb";(?:fio[- ])\d+\.\d+[^;\n]*;|%=\d+;\d+(?:\.\d+)?%=")
_NORMAL = re.compile(rb": ?\(groupid=\d+(?:, jobs=\d+)?\): err=")
_BEGINNING = re.compile(r"\s*[345];(?:fio[- ])?\d+\.\d+[^;]*;")
_CLOSE = 0.03  # before 2.0.8 a group's bandwidth was in 1000 bytes/s: 2.4 % apart
_MOST = 4096  # fio's own limit of jobs
_PRECISE = 100  # IOPS; they are cut to whole ones, so a count of I/Os is 1 % off at most


class _Terse:
    """The plugin; see :class:`iotrial.model.recording.Format`."""

    name = "fio-terse"
    title = "fio, terse output (--minimal), versions 2 to 5"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        if head.count(b";") < _SEMICOLONS or not _SHAPE.search(head):
            return 0
        if MARK.encode() in head or _NORMAL.search(head):
            return 1  # --output-format=terse,json or normal,terse: the other says more
        return 3 if _WORDS.search(head) else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """One recording for each group of jobs of each run."""
        lines, said = _lines(text_of(data, raw), raw)
        groups = _last_of_each(list(_groups(lines)))
        return tuple(
            _recording(group, _before(said, groups, index), raw, sure=sure)
            for index, (group, sure) in enumerate(groups)
        )


FORMAT = _Terse()
Group = tuple[list[Line], bool]
"""Lines of one group of jobs, and whether it is sure that they are all and no more."""


def _lines(text: str, raw: str) -> tuple[list[Line], list[tuple[int, str]]]:
    """The jobs, and fio's messages with their line numbers."""
    found: list[Line] = []
    said: list[tuple[int, str]] = []
    for number, each in enumerate(text.split("\n"), 1):
        head = HEAD.search(each)
        if head is not None:
            found.append(line(each, head, number, raw))
        elif each.count(";") >= _SEMICOLONS or _BEGINNING.match(each):
            message = (
                f"{raw}: line {number}: like fio's terse output, but it does not begin as that does"
            )
            advice = "a line begins with 3;fio-3.33;NAME;0;0; or, in version 2, with 2;NAME;0;0;"
            raise FormatError(message, advice=advice)
        else:
            said.extend((number, message) for message in messages(each))
    if not found:
        lines = text.count("\n") + 1
        raise FormatError(f"{raw}: no line of fio's terse output in {lines} lines")
    return found, said


def _before(
    said: Sequence[tuple[int, str]], groups: Sequence[Group], index: int
) -> tuple[str, ...]:
    """What fio said before this group and after the one before; at the end: the last one's."""
    low = groups[index - 1][0][-1].number if index else 0
    high = groups[index][0][-1].number if index < len(groups) - 1 else None
    return tuple(what for at, what in said if low < at and (high is None or at < high))


def _groups(lines: Sequence[Line]) -> Iterator[Group]:
    """The lines, cut where a group ends."""
    at = unsure = 0
    ends = _stretches(lines)
    while at < len(lines):
        stretch = lines[at : min(ends[at], at + _MOST)]
        size = _fitting(stretch)
        if not size and lines[at].disks and not any(map(_has_shares, stretch)):
            size = len(stretch)  # the same counters of the disks: printed at the same moment
        if not size and len(stretch) > 1:
            unsure = max(unsure, ends[at])
        yield list(stretch[: size or 1]), bool(size) or at >= unsure
        at += size or 1


def _has_shares(each: Line) -> bool:
    return any(block.mean > 0 for block in each.blocks)


def _stretches(lines: Sequence[Line]) -> list[int]:
    """For each line where the lines end that may be of its group."""
    keys = [(o.terse, o.version, o.job.group, o.disks, len(o.blocks)) for o in lines]
    ends = list(range(1, len(lines) + 1))
    for at in range(len(lines) - 2, -1, -1):
        if keys[at] == keys[at + 1]:
            ends[at] = ends[at + 1]
    return ends


def _fitting(lines: Sequence[Line]) -> int:
    """How many of the first lines make a group whose bandwidth is the one their shares are of;
    0 where no number does, or no line has a share."""
    blocks = len(lines[0].blocks)
    sizes, times = [0] * blocks, [0] * blocks
    for count, each in enumerate(lines, 1):
        for index, block in enumerate(each.blocks):
            sizes[index] += block.size
            times[index] = max(times[index], block.time)
        if _agrees(lines[0], sizes, times) and all(_agrees(o, sizes, times) for o in lines[:count]):
            return count
        if _beyond(lines[0], sizes, times):
            break
    return 0


def _beyond(first: Line, sizes: Sequence[int], times: Sequence[int]) -> bool:
    """Whether there are far too many KiB for the first line's shares: no more can help."""
    return any(
        block.mean > 0 and size and block.mean * 100 * time / (size * 1000) < block.share / 4
        for block, size, time in zip(first.blocks, sizes, times, strict=True)
    )


def _agrees(each: Line, sizes: Sequence[int], times: Sequence[int]) -> bool:
    """Whether the line's shares are of the bandwidth that these KiB and ms make."""
    known = False
    for block, size, time in zip(each.blocks, sizes, times, strict=True):
        if not (block.mean > 0 and size and time) or block.operation == "mixed":
            continue
        share = min(100.0, block.mean * 100 * time / (size * 1000))
        known = True
        if abs(share - block.share) > max(_CLOSE * block.share, 1e-3):
            return False
    return known


def _last_of_each(groups: Sequence[Group]) -> list[Group]:
    """Without the groups that a later report of the same run repeats, with more."""
    found: list[Group] = []
    goes = False
    for lines, sure in groups:
        goes = bool(found) and sure and found[-1][1] and _same(found[-1][0], lines, goes=goes)
        if goes:
            found.pop()
        found.append((lines, sure))
    return found


def _same(before: Sequence[Line], after: Sequence[Line], *, goes: bool) -> bool:
    """Whether ``after`` is a later report of the jobs of ``before``.  The last report may follow
    at once, but only on others."""
    names_of = [[(one.job.label, one.version) for one in group] for group in (before, after)]
    if names_of[0] != names_of[1] or before[0].job.group != after[0].job.group:
        return False
    least = 0.0 if goes else INTERVAL
    return goes_on([_count(one) for one in before], [_count(one) for one in after], least)


def _count(one: Line) -> tuple[float, float]:
    """Bytes and seconds."""
    return sum(each.size for each in one.blocks) * 1024.0, one.job.measured


def _recording(lines: Sequence[Line], said: Sequence[str], raw: str, *, sure: bool) -> Recording:
    jobs = relabelled([replace(o.job, label=f"{printable(o.job.label)}#1") for o in lines])
    doubts = [*doubts_about(jobs, said, frozenset()), without_options()]
    if not sure:
        what = "nothing tells whether this line is a run, or a job of one with the lines beside it"
        advice = "if they ran together, add up their IOPS and bandwidth"
        doubts.append(Doubt("job-or-run", what, advice))
    vague = {job.label for job in jobs if any(each.iops < _PRECISE for each in job.directions)}
    found = (each for each in measurements(jobs, raw) if _precise(each, vague, len(jobs)))
    return Recording(
        tool="fio",
        workload=names(jobs),
        measurements=tuple(found),
        name=names(jobs),
        version=lines[0].version,
        line=lines[0].number,
        doubts=tuple(doubts),
        seconds=max((job.measured for job in jobs), default=0.0),
        weights={} if vague else weights(jobs),
    )


def _precise(each: Measurement, vague: set[str], jobs: int) -> bool:
    """Not what needs a count of I/Os that whole IOPS do not give."""
    if each.metric == "cpu.per_io":
        return not (vague if each.job == "all" else each.job in vague)
    return not (each.job == "all" and jobs > 1 and vague and each.metric.endswith(".mean"))
