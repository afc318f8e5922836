"""fio's normal output, the text, from 1.16 to today → recordings: one for each group of a run.

Jobs of one *run status group* ran together and are one recording; groups ran one after another
and are recordings of their own (``stonewall``, ``wait_for_previous``).  A file may hold many runs:
a shell's log, or the pieces of one.  What stands between is passed over.  Clients of one run are
put together by group.  Metrics are those of :mod:`iotrial.formats.fio.json_output`, with two
limits of the text: a reporting unit of several jobs has no ``cpu.per_io`` (the time they ran in
all is not printed), and several units have no percentiles together.  Beside them: ``sync.lat``,
the time of fsync and its like.

What a job was told is in its first line (``name: (g=0): rw=…``), where it was kept: rw is the
workload, the rest the treatment, with ``numjobs`` counted.  Without that line the workload is the
job's name.  The time at the end of a job's line is local, of a zone nobody knows: it is left.

The totals of a group say again what its jobs say: what contradicts them was changed or lost, and
is an error.  A run that was stopped, has fewer jobs than it started, or ends before its totals,
has a doubt.

Sources: HOWTO of fio ("Interpreting the output"), stat.c of 1.16 to 3.42; recordings of many
versions in ``tests/data/fio-text``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats.fio.doubts import doubts_about
from iotrial.formats.fio.measured import measurements, weights
from iotrial.formats.fio.report import Job
from iotrial.formats.fio.text_blocks import Block, Head, Pass, Run, runs
from iotrial.formats.fio.text_doubts import in_flight, overflows
from iotrial.formats.fio.text_jobs import common, job, kilo_of
from iotrial.formats.fio.text_lines import AGAIN, Place
from iotrial.formats.fio.text_totals import check
from iotrial.formats.fio.text_treatment import treatment, workload
from iotrial.formats.lines import text_of
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording

_SHAPE = re.compile(rb": ?\(groupid=\d+(?:, jobs=\d+)?\): err=\s*-?\d+[: ]")
_WORDS = re.compile(
    rb"Run status group \d+ \(all jobs\):|: \(g=\d+\): rw=[a-z]+, "
    rb"|\b(?:IOPS=[\d.]+[kM]?, BW=|io=\s*[\d.]+\s?[KMGTPE]?i?B?, bw=)"
)
_JSON = b'"fio version"'


class FioText:
    """The plugin.  Stateless."""

    name = "fio-text"
    title = "fio, normal output"

    def recognises(self, head: bytes, name: str) -> int:  # noqa: ARG002 (fio's files have any name)
        sure = 2 * bool(_WORDS.search(head)) + bool(_SHAPE.search(head))
        return min(sure, 1) if _JSON in head else sure

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """Raises FormatError, naming the line, also for a file in which no run has a result."""
        found = runs(text_of(data, raw), raw)
        recordings: list[Recording] = []
        empty = []
        for run in found:
            made = list(_recordings(run, raw))
            recordings += made
            if not made and (run.heads or run.started):
                empty.append(run.line)
        if not recordings:
            what = (
                f"line {empty[0]}: a run of fio without a result" if empty else "no result of fio"
            )
            raise FormatError(f"{raw}: {what}", advice=AGAIN)
        if empty:
            lines = ", ".join(str(line) for line in empty[:5])
            what = f"fio began on line {lines} and has no result"
            doubt = Doubt("no-report", what, "it failed or was stopped: leave it out, or repeat it")
            recordings[-1] = replace(recordings[-1], doubts=(*recordings[-1].doubts, doubt))
        return tuple(recordings)


FORMAT = FioText()


@dataclass(frozen=True, slots=True)
class _Report:
    """The passes of a run that count, and whether what it said it starts is all there."""

    run: Run
    passes: Sequence[Pass]

    @property
    def blocks(self) -> list[Block]:
        return [block for each in self.passes for block in each.blocks]


def _recordings(run: Run, raw: str) -> Iterator[Recording]:
    for report in _reports(run):
        for each in report.passes:
            for group, totals in each.totals.items():
                members = [block for block in each.blocks if block.group == group]
                kilos = [kilo_of(block, common(_heads(report.run, block))) for block in members]
                place = Place(raw, totals[0].line if totals else run.line)
                check(members, totals, place, min(kilos, default=1024))
            lost = {block.group for block in each.blocks} - set(each.totals)
            if each.totals and lost:
                where = next(block.place for block in each.blocks if block.group in lost)
                raise where.error(f"group {min(lost)} has no totals, and others have")
        beside = tuple(_beside(report))
        for group in dict.fromkeys(block.group for block in report.blocks):
            blocks = [block for block in report.blocks if block.group == group]
            yield _recording(report.run, blocks, beside, raw)


def _reports(run: Run) -> Iterator[_Report]:
    """Clients report each by itself.  Else a pass that has a job of the pass before repeats it
    (``--status-interval``), and one that has none is of another run, whose first lines are not
    there."""
    if run.clients:
        yield _Report(run, run.passes)
        return
    kept: list[Pass] = []
    for each in run.passes:
        if kept and {b.key for b in kept[-1].blocks} & {b.key for b in each.blocks}:
            kept.pop()
        kept.append(each)
    for index, each in enumerate(kept):
        yield _Report(replace(run, heads=[], started=0) if index else run, [each])


def _recording(run: Run, blocks: Sequence[Block], beside: tuple[Doubt, ...], raw: str) -> Recording:
    seen: Counter[str] = Counter()
    jobs: list[Job] = []
    doubts: list[Doubt] = []
    heads: list[Head] = []
    for block in blocks:
        name = _clean(block.name)
        seen[name] += 1
        mine = _heads(run, block)
        heads += [head for head in mine if head not in heads]
        one, doubt = job(block, f"{name}#{seen[name]}", run.spelling, common(mine))
        jobs.append(one)
        doubts += doubt
    if not all(block.cpu for block in blocks):  # else a share of CPU over everybody's I/Os
        jobs = [replace(one, seconds=0.0) for one in jobs]
    members = sum(block.members for block in blocks)
    said = tuple(_clean(line[:200]) for line in run.said)
    known = {head.name for head in heads}
    untold = [block.name for block in blocks if block.name not in known]
    if untold:
        what = f"the text does not say what {_clean(untold[0])} was told to do"
        doubts.append(Doubt("no-options", what, "keep all that fio writes: --output goes first"))
        heads = []
    elif len(heads) == len(known):
        depth = {head.name: int(head.setup["iodepth"]) for head in heads}
        allowed = sum(depth.get(block.name, 0) * block.members for block in blocks)
        doubts += in_flight(jobs, allowed)
    return Recording(
        tool="fio",
        workload=workload(heads) or "+".join(sorted(seen)),
        measurements=tuple(_measured(blocks, jobs, raw)),
        name=", ".join(seen),
        version=run.version,
        line=blocks[0].place.line,
        treatment=treatment(heads, members),
        doubts=(*doubts_about(jobs, said, frozenset()), *dict.fromkeys(doubts), *beside),
        seconds=max(one.measured for one in jobs),
        weights=weights(jobs),
    )


def _heads(run: Run, block: Block) -> list[Head]:
    """The first lines of the block's jobs, where they were kept."""
    return [head for head in run.heads if (head.name, head.group) == (block.name, block.group)]


def _measured(blocks: Sequence[Block], jobs: Sequence[Job], raw: str) -> Iterator[Measurement]:
    several = {one.label for one, block in zip(jobs, blocks, strict=True) if block.members > 1}
    if several:
        several.add("all")
    for each in measurements(jobs, raw):
        if each.metric != "cpu.per_io" or each.job not in several:
            yield each
    for one, block in zip(jobs, blocks, strict=True):
        for label in (one.label, *(["all"] if len(blocks) == 1 else [])):
            yield from _syncs(block, label, raw)


def _syncs(block: Block, label: str, raw: str) -> Iterator[Measurement]:
    if not block.sync:
        return
    took, table = block.sync.took["sync"], block.sync.tables.get("sync")
    yield Measurement("sync.lat.mean", took.mean, "s", label, raw)
    yield Measurement("sync.lat.max", took.most.shown, "s", label, raw)
    if took.sd is not None:
        yield Measurement("sync.lat.sd", took.sd, "s", label, raw)
    for p in (50.0, 90.0, 95.0, 99.0, 99.9, 99.99):
        if table and p in table.listed:
            yield Measurement(f"sync.lat.p{p:g}", table.listed[p] * table.tick, "s", label, raw)


def _beside(report: _Report) -> Iterator[Doubt]:
    """Doubts about a run as a whole."""
    run, blocks = report.run, report.blocks
    found = sum(block.members for block in blocks)
    if run.started and found != run.started:
        what = f"fio started {run.started} jobs, and {found} are reported"
        advice = "the others moved nothing, or their lines are missing: repeat the run"
        yield Doubt("not-whole", what, advice, invalid=True)
    elif not run.started and not all(each.totals for each in report.passes):
        what = "the text ends before the totals of its groups: jobs may be missing"
        yield Doubt("not-whole", what, AGAIN)
    for each in report.passes:
        yield from overflows(each.disks)


def _clean(text: str) -> str:
    """Text that can be written anywhere."""
    return "".join(char if char.isprintable() else "?" for char in text)
