"""What fio's text output says, as it stands there: runs, their passes, and the blocks of jobs.

A *run* begins with the first lines of its jobs (``name: (g=0): rw=…``), fio's version and
"Starting N processes", each of which may be missing in what people kept.  A *block* is one
reporting unit: a job, or with ``group_reporting`` the jobs of a group.  A *pass* is one report of
all blocks with the totals of their groups after them; ``--status-interval`` makes several, each
with all that came before: the last one counts.  With ``--client`` there is one pass a host, and
a block "All clients" which repeats the others, in units of its own: it is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iotrial.formats.fio import text_lines as lines
from iotrial.formats.fio.text_lines import Issued, Moved, Place, Took, Total
from iotrial.formats.fio.text_numbers import Spelling

_MESSAGES = ("fio: ", "note: ")
_EVERYBODY = "All clients"


@dataclass(slots=True)
class Table:
    """Percentiles of one stage, in ``tick`` seconds: which percentile → ticks."""

    tick: float
    listed: dict[float, int] = field(default_factory=dict)
    last: tuple[float, int] = (0.0, 0)


@dataclass(slots=True)
class Part:
    """One direction of a block; ``place`` is its first line's."""

    moved: Moved
    place: Place
    took: dict[str, Took] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


@dataclass(slots=True)
class Block:
    """``group`` as fio numbers it; ``members`` how many jobs it reports on."""

    place: Place
    name: str
    group: int
    members: int
    error: int
    pid: str
    parts: dict[str, Part] = field(default_factory=dict)
    sync: Part | None = None
    issued: Issued | None = None
    cpu: tuple[float, float] | None = None
    attained: bool | None = None
    failed: tuple[int, str] | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.name, self.group, self.pid


@dataclass(slots=True)
class Head:
    """The first line of a job; ``many`` where others like it follow (``...``)."""

    name: str
    group: int
    setup: Mapping[str, str]
    many: bool = False


@dataclass(slots=True)
class Pass:
    """``totals`` by group, in order; ``disks`` the lines of its disk statistics."""

    blocks: list[Block] = field(default_factory=list)
    totals: dict[int, list[Total]] = field(default_factory=dict)
    disks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """``started`` is how many processes and threads it said it starts."""

    line: int
    version: str = ""
    spelling: Spelling = field(default_factory=lambda: Spelling(old=False))
    heads: list[Head] = field(default_factory=list)
    started: int = 0
    clients: bool = False
    said: list[str] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)


def runs(text: str, raw: str) -> list[Run]:
    """Every run in ``text``, those without a result too.  Raises FormatError with the line."""
    reader = _Reader(raw)
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(number, line)
    if reader.later:
        reader.begin(0).said.extend(reader.later)
    return reader.found


@dataclass(slots=True)
class _Reader:
    """Where the reading stands: the block, direction, table and group that the next line belongs
    to."""

    raw: str
    found: list[Run] = field(default_factory=list)
    block: Block | None = None
    part: Part | None = None
    table: Table | None = None
    other: bool = False  # in a table that is none of ours
    skipping: bool = False  # in the block of "All clients"
    group: int | None = None
    disks: bool = False
    later: list[str] = field(default_factory=list)

    def begin(self, number: int) -> Run:
        """The run that is being read; the first one where there is none yet."""
        if not self.found:
            self.found.append(Run(number))
        return self.found[-1]

    def renew(self, number: int, *, again: bool) -> Run:
        """The run that a line at its beginning belongs to: a new one where the last one has
        results, or where ``again`` says that it had that line already."""
        run = self.begin(number)
        if run.passes or (again and not run.clients):
            run = Run(number, said=self.later)
            self.later = []
            self.found.append(run)
        self._leave()
        return run

    def _leave(self) -> None:
        self.block = self.part = self.table = self.group = None
        self.other = self.skipping = self.disks = False

    def read(self, number: int, line: str) -> None:
        text, host = lines.stripped(line)
        if not text:
            return
        place = Place(self.raw, number)
        if not (self._beginning(text, place, host=host) or self._middle(text, place)):
            self._end(text, place)

    def _beginning(self, text: str, place: Place, *, host: bool) -> bool:
        head, version = lines.HEADER.fullmatch(text), lines.version(text)
        started = lines.starting(text)
        last = self.found[-1] if self.found else None
        if head:
            run = self.renew(place.line, again=bool(last and (last.started or last.version)))
            run.heads.append(Head(head["name"], int(head["group"]), lines.setup(head, place)))
            run.clients = run.clients or host
        elif version:
            run = self.renew(place.line, again=bool(last and (last.started or last.version)))
            run.version, numbers = version
            run.spelling = Spelling(old=False, version=numbers)
            run.clients = run.clients or text.startswith("hostname=")
        elif started:
            run = self.renew(place.line, again=bool(last and last.started))
            run.started += started
        elif text == "...":
            if last and last.heads and not last.passes:
                last.heads[-1].many = True
        elif text.startswith(_MESSAGES):
            run = self.begin(place.line)
            (self.later if run.passes else run.said).append(text)
        else:
            return False
        return True

    def _middle(self, text: str, place: Place) -> bool:
        if "(groupid=" in text:
            self._job(text, place)
        elif "Run status group" in text:
            self._group(text, place)
        elif text.startswith("Disk stats"):
            self._leave()
            self.disks = bool(self.found and self.found[-1].passes)
        elif self.skipping:
            pass
        elif total := lines.total(text, self._spelling(), place):
            if self.group is None:
                raise place.error("totals of a group outside a group")
            self.found[-1].passes[-1].totals[self.group].append(total)
        else:
            return False
        return True

    def _spelling(self) -> Spelling:
        return self.found[-1].spelling if self.found else Spelling(old=False)

    def _job(self, text: str, place: Place) -> None:
        found = lines.JOB.fullmatch(text)
        if not found:
            raise place.torn(text, "the block of a job")
        run = self.begin(place.line)
        self._leave()
        if found["name"] == _EVERYBODY and found["pid"] == "0":
            self.skipping = True
            return
        if not run.passes or run.passes[-1].totals:
            run.passes.append(Pass())
        if not int(found["jobs"] or 1):
            raise place.error("a block of no job")
        self.block = Block(
            place,
            found["name"],
            int(found["group"]),
            int(found["jobs"] or 1),
            int(found["error"]),
            found["pid"],
        )
        run.passes[-1].blocks.append(self.block)

    def _group(self, text: str, place: Place) -> None:
        found = lines.GROUP.fullmatch(text)
        if not found:
            raise place.torn(text, "the totals")
        self._leave()
        if not self.found or not self.found[-1].passes:
            raise place.error("totals of a group without any job")
        self.group = int(found[1])
        if self.group in self.found[-1].passes[-1].totals:
            raise place.error(f"totals of group {self.group} a second time")
        self.found[-1].passes[-1].totals[self.group] = []

    def _end(self, text: str, place: Place) -> None:
        """The lines of a block, and those of disks."""
        if self.disks:
            self.found[-1].passes[-1].disks.append(text)
            return
        moved = lines.moved(text, self._spelling(), place)
        took = lines.took(text, self._spelling(), place)
        issued = lines.issued(text, place)
        cpu = lines.cpu(text, place)
        if not self.block:
            if moved or took or issued or cpu:
                raise place.error(f"{text[:60]!r} belongs to no job")
        elif moved:
            self._moved(self.block, moved, place)
        elif took:
            self._took(self.block, took, place)
        elif issued or cpu:
            self._counted(self.block, issued, cpu, place)
        elif not self._percentiles(text, place):
            self.block.failed = lines.errors(text) or self.block.failed
            reached = lines.attained(text)
            self.block.attained = self.block.attained if reached is None else reached

    def _moved(self, block: Block, moved: Moved, place: Place) -> None:
        if moved.operation in block.parts:
            raise place.error(f"{moved.operation} a second time in one job")
        self.part = block.parts[moved.operation] = Part(moved, place)
        self.table = None

    @staticmethod
    def _counted(
        block: Block, issued: Issued | None, cpu: tuple[float, float] | None, place: Place
    ) -> None:
        if (issued and block.issued) or (cpu and block.cpu):
            raise place.error("the count of I/Os or CPU time a second time in one job")
        block.issued = issued or block.issued
        block.cpu = cpu or block.cpu

    def _took(self, block: Block, took: Took, place: Place) -> None:
        if took.stage == "sync":
            self.part = block.sync = Part(Moved("sync", took.least, (), took.least, 1), place)
        if self.part is None:
            raise place.error("latencies before the line of their direction")
        if took.stage in self.part.took:
            raise place.error(f"{took.stage} a second time in one direction")
        self.part.took[took.stage] = took
        self.table = None

    def _percentiles(self, text: str, place: Place) -> bool:
        """The beginning of a table of percentiles, or a row of the last one."""
        begun = lines.percentiles(text)
        if begun:
            stage, tick, text = begun
            self._table(stage, tick, place)
            if not text:
                return True
        cells = lines.row(text, place)
        if cells is None or self.other:
            return bool(begun)
        if self.table is None:
            raise place.error("a row of percentiles without its first line")
        for p, ticks, beyond in cells:
            before = self.table.last
            if p < before[0] or ticks < before[1]:
                raise place.error(f"the percentile {p:g} is less than the one before it")
            self.table.last = p, ticks
            if not beyond:
                self.table.listed[p] = ticks
        return True

    def _table(self, stage: str, tick: float, place: Place) -> None:
        self.other, self.table = not stage, None
        if not stage:
            return
        if self.part is None:
            raise place.error("percentiles before the line of their direction")
        if stage in self.part.tables:
            raise place.error(f"percentiles of {stage} a second time in one direction")
        self.table = self.part.tables[stage] = Table(tick)
