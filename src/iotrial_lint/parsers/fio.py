"""fio's job files, read by :mod:`iotrial.formats.fio.jobfile` as fio reads them, and their jobs as
rules ask about them: option → value, the last one counting.

An entry's section is its job's name, or ``global`` where the job has it from there; its group is
the job's number.  ``name`` is fio's own name of an option; ``key`` is what was written.

What a file includes is read in its place, where somebody can read it; its options stand at the line
that includes them.  It is looked for in the folder of the file that includes it, then where fio is
started, and may have no sections of its own (``__parse_jobs_ini`` in init.c of fio 3.33).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from iotrial.errors import FormatError, IotrialError
from iotrial.formats.fio.jobfile import filenames, included
from iotrial.formats.fio.jobfile import parse as parse_jobs
from iotrial.tools import fio_options
from iotrial.tools.fio_options import option_table
from iotrial.units import parse_bytes
from iotrial_lint.parsers import Parser, Read
from iotrial_lint.rule import ConfigFile, ConfigLine, SyntaxProblem


def _knows(path: PurePosixPath) -> bool:
    return path.suffix in (".fio", ".job") and path.parent.name != "doc-base"


def parse(text: str, file: str = "") -> ConfigFile:
    try:
        read = parse_jobs(text, "job file")
    except FormatError as error:
        found = re.match(r"job file(?::(\d+))?: (.*)", error.message, re.DOTALL)
        line, what = (int(found[1] or 0), found[2]) if found else (0, error.message)
        return ConfigFile("fio", file, complaints=(SyntaxProblem(line, what),))
    table = option_table()
    entries = tuple(
        ConfigLine(
            line,
            name,
            value,
            (job.name if line > job.line else "global",),
            name=table.canonical(name),
            group=number,
        )
        for number, job in enumerate(read.sections)
        for (name, value), line in zip(job.options, job.lines, strict=True)
    )
    return ConfigFile(
        "fio", file, entries, sections=tuple((job.line, job.name) for job in read.sections)
    )


_DEEP, _LONG = 16, 100_000
"""Files that include files; lines of all of them."""


def gathered(text: str, file: str, read: Read) -> ConfigFile:
    """As :func:`parse`, with what the file includes."""
    whole = _Whole(read)
    for number, line in enumerate(text.split("\n"), 1):
        whole.number = number
        for each in whole.taken(line, (posixpath.normpath(file),)):
            whole.lines.append(each)
            whole.places.append(number)
    sheet = parse("\n".join(whole.lines), file)
    at = [0, *whole.places]
    return replace(
        sheet,
        entries=tuple(replace(each, line=at[each.line]) for each in sheet.entries),
        sections=tuple((at[line], name) for line, name in sheet.sections),
        complaints=(
            *whole.complaints,
            *(replace(each, line=at[each.line]) for each in sheet.complaints),
        ),
    )


@dataclass
class _Whole:
    """A file with what it includes: its lines, and at which line of the file itself each stands."""

    read: Read
    lines: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    complaints: list[SyntaxProblem] = field(default_factory=list)
    number: int = 0

    def taken(self, line: str, chain: tuple[str, ...]) -> Iterator[str]:
        """What stands for the line; ``chain`` are the files that it is read in."""
        name = included(line)
        if name is None:
            yield line
            return
        yield ""
        path, text = self._found(name, chain[-1])
        if path in chain:
            self._say(f"include {name}: {' includes '.join((*chain, path))}")
        elif len(chain) > _DEEP or len(self.lines) > _LONG:
            self._say(f"include {name}: files include files without end")
        elif text is None:
            self._say(f"include {name}: it cannot be read: {path}")
        else:
            yield from self._inside(text, (*chain, path))

    def _inside(self, text: str, chain: tuple[str, ...]) -> Iterator[str]:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip().startswith("["):
                where = f"{chain[-1]}:{number}"
                self._say(f"{where}: {line.strip()}: an included file has no sections of its own")
                return
            yield from self.taken(line, chain)

    def _found(self, name: str, beside: str) -> tuple[str, str | None]:
        """Where the file is, and its text; None where it is not, and why."""
        why = ""
        there = posixpath.normpath(PurePosixPath(beside).parent / name)
        for path in dict.fromkeys((there, posixpath.normpath(name))):
            try:
                return path, self.read(path)
            except OSError as error:
                why = why or f"{path}: {error.strerror}"
        return why, None

    def _say(self, what: str) -> None:
        self.complaints.append(SyntaxProblem(self.number, what))


@dataclass(frozen=True, slots=True)
class FioSection:
    """One job.  ``line`` is where its section begins."""

    name: str
    line: int
    entries: tuple[ConfigLine, ...]

    def entry(self, option: str) -> ConfigLine | None:
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
        return self.rw not in fio_options.READS

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


def jobs(sheet: ConfigFile) -> tuple[FioSection, ...]:
    """The jobs of a job file."""
    entries: dict[int, list[ConfigLine]] = {}
    for entry in sheet.entries:
        entries.setdefault(entry.group, []).append(entry)
    return tuple(
        FioSection(name, line, tuple(entries.get(number, ())))
        for number, (line, name) in enumerate(sheet.sections)
    )


def alike(jobs: Sequence[FioSection]) -> str:
    """Jobs of which the same is said: ``[a]``, ``[a] and 3 more``."""
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"[{jobs[0].name}]{more}"


def by_entry(
    found: Iterable[tuple[ConfigLine | None, FioSection]],
) -> Iterator[tuple[int, tuple[FioSection, ...]]]:
    """(line, jobs): jobs that are what they are by the same line; without one, all of them at the
    first."""
    places: dict[int, list[FioSection]] = {}
    for entry, job in found:
        places.setdefault(entry.line if entry else 0, []).append(job)
    for line, group in places.items():
        yield line or group[0].line, tuple(group)


def seconds(value: str) -> float | None:
    """A duration as it is meant; None when it is none."""
    try:
        return fio_options.duration(value)
    except IotrialError:
        return None


def own(sheet: ConfigFile) -> Iterable[ConfigLine]:
    """Each line once, though every job has those of [global]."""
    return {entry.line: entry for entry in sheet.entries}.values()


PARSERS = (Parser("fio", "fio's job files (`*.fio`, `*.job`)", _knows, parse, gathered),)
