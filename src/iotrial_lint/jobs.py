"""A fio job file's jobs, as rules ask about them: option → value, the last one counting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iotrial.errors import IotrialError
from iotrial.formats.fio.jobfile import filenames
from iotrial.tools import fio_rules
from iotrial.units import parse_bytes
from iotrial_lint.sheet import Entry, Sheet


@dataclass(frozen=True, slots=True)
class Job:
    """One job.  ``line`` is where its section begins."""

    name: str
    line: int
    entries: tuple[Entry, ...]

    def entry(self, option: str) -> Entry | None:
        """The entry that counts for an option."""
        return next((each for each in reversed(self.entries) if each.name == option), None)

    def value(self, option: str, default: str = "") -> str:
        found = self.entry(option)
        return found.value if found else default

    def on(self, option: str) -> bool:
        """Whether a switch is on; one without a value is."""
        found = self.entry(option)
        return found is not None and found.value != "0"

    def number(self, option: str, default: int) -> int:
        """A whole number; the default where it is none that can be read."""
        value = self.value(option)
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else default  # noqa: PLR2004

    def size(self, option: str) -> int:
        """Bytes; 0 where nothing or a share is said."""
        try:
            return parse_bytes(self.value(option))
        except ValueError:
            return 0

    @property
    def rw(self) -> str:
        return self.value("rw", "read").partition(":")[0]

    @property
    def writes(self) -> bool:
        return self.rw not in fio_rules.READS

    @property
    def engine(self) -> str:
        return self.value("ioengine", "psync")

    @property
    def does_files(self) -> bool:
        """Whether its engine moves data between memory and files or devices."""
        return self.engine in _MOVES

    @property
    def direct(self) -> bool:
        said = self.entry("direct")
        buffered = self.entry("buffered")
        if buffered and (not said or buffered.line > said.line):
            return buffered.value == "0"
        return said is not None and said.value != "0"

    def paths(self) -> tuple[str, ...]:
        """Files and folders that it names."""
        return tuple(
            path
            for each in self.entries
            if each.name in ("filename", "directory")
            for path in filenames(each.value)
        )


_MOVES = frozenset({
    "sync", "psync", "vsync", "pvsync", "pvsync2", "io_uring", "libaio", "posixaio", "mmap",
})  # fmt: skip


def jobs(sheet: Sheet) -> tuple[Job, ...]:
    """The jobs of a job file."""
    entries: dict[int, list[Entry]] = {}
    for entry in sheet.entries:
        entries.setdefault(entry.group, []).append(entry)
    return tuple(
        Job(name, line, tuple(entries.get(number, ())))
        for number, (line, name) in enumerate(sheet.sections)
    )


def alike(jobs: Sequence[Job]) -> str:
    """Jobs of which the same is said: ``[a]``, ``[a] and 3 more``."""
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"[{jobs[0].name}]{more}"


def by_entry(found: Iterable[tuple[Entry | None, Job]]) -> Iterator[tuple[int, tuple[Job, ...]]]:
    """(line, jobs): jobs that are what they are by the same line; without one, all of them at the
    first."""
    places: dict[int, list[Job]] = {}
    for entry, job in found:
        places.setdefault(entry.line if entry else 0, []).append(job)
    for line, group in places.items():
        yield line or group[0].line, tuple(group)


def seconds(value: str) -> float | None:
    """A duration as it is meant; None when it is none."""
    try:
        return fio_rules.duration(value)
    except IotrialError:
        return None


def own(sheet: Sheet) -> Iterable[Entry]:
    """Each line once, though every job has those of [global]."""
    return {entry.line: entry for entry in sheet.entries}.values()
