"""fio's job files, read by :mod:`iotrial.formats.fio.jobfile` as fio reads them.

An entry's section is its job's name, or ``global`` where the job has it from there; its group is
the job's number.  ``name`` is fio's own name of an option; ``key`` is what was written.

What a file includes is read in its place, where somebody can read it; its options stand at the line
that includes them.  It is looked for in the folder of the file that includes it, then where fio is
started, and may have no sections of its own (``__parse_jobs_ini`` in init.c of fio 3.33).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from iotrial.errors import FormatError
from iotrial.formats.fio.jobfile import included
from iotrial.formats.fio.jobfile import parse as parse_jobs
from iotrial.tools.fio_rules import option_table
from iotrial_lint.sheet import Complaint, Entry, Sheet

KIND = "fio"
TITLE = "fio's job files (`*.fio`, `*.job`)"


def knows(path: PurePosixPath) -> bool:
    return path.suffix in (".fio", ".job") and path.parent.name != "doc-base"


def parse(text: str, file: str = "") -> Sheet:
    try:
        jobs = parse_jobs(text, "job file")
    except FormatError as error:
        found = re.match(r"job file(?::(\d+))?: (.*)", error.message, re.DOTALL)
        line, what = (int(found[1] or 0), found[2]) if found else (0, error.message)
        return Sheet("fio", file, complaints=(Complaint(line, what),))
    table = option_table()
    entries = tuple(
        Entry(
            line,
            name,
            value,
            (job.name if line > job.line else "global",),
            name=table.canonical(name),
            group=number,
        )
        for number, job in enumerate(jobs.sections)
        for (name, value), line in zip(job.options, job.lines, strict=True)
    )
    return Sheet(
        "fio", file, entries, sections=tuple((job.line, job.name) for job in jobs.sections)
    )


Read = Callable[[str], str]
"""The text of a file; OSError where it cannot be read."""
_DEEP, _LONG = 16, 100_000
"""Files that include files; lines of all of them."""


def gathered(text: str, file: str, read: Read) -> Sheet:
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
    complaints: list[Complaint] = field(default_factory=list)
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
        self.complaints.append(Complaint(self.number, what))
