"""fio job files: text → sections with the options in force in each.

Read as fio 3.33 reads them (tried out, see ``tests/unit/test_fio_jobfile.py``):

* a line whose first character after blanks is ``;`` or ``#`` is a comment, and from any later
  ``;`` or ``#`` on the rest of a line is one too, even inside a value;
* ``[name]`` begins a job; every section whose name *begins* with ``global`` (in lower case) sets
  options for the jobs that follow it, not for those before; two jobs may share a name;
* an option without a value is a switch that is on; the last one of a name wins, except
  ``filename``, where all of them (also those of ``[global]``) are used;
* ``include FILE`` reads another file in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iotrial.errors import FormatError

Option = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Section:
    """One job: its ``options`` in the order fio sees them, those of ``[global]`` first.  A switch
    without a value has the value ``""``.  ``line`` is where it begins, ``lines`` where each option
    stands, for those who want to say so, ``heads`` where the section that it stands in begins (0:
    the command line); two jobs are alike wherever they stand."""

    name: str
    options: tuple[Option, ...]
    line: int = field(default=0, compare=False)
    lines: tuple[int, ...] = field(default=(), compare=False)
    heads: tuple[int, ...] = field(default=(), compare=False)

    def values(self, option: str) -> tuple[str, ...]:
        """Every value given to ``option``, in order."""
        return tuple(value for name, value in self.options if name == option)


@dataclass(frozen=True, slots=True)
class JobFile:
    """``includes`` are the files it would have fio read; their content is not known here."""

    sections: tuple[Section, ...]
    includes: tuple[str, ...] = ()


def parse(text: str, raw: str = "job file") -> JobFile:
    """The jobs of a job file.

    Raises :class:`~iotrial.errors.FormatError` with the line for an option before the first
    section, and for a file without a job.
    """
    shared: list[tuple[int, int, Option]] = []
    jobs: list[tuple[str, int, list[tuple[int, int, Option]]]] = []
    includes: list[str] = []
    current: list[tuple[int, int, Option]] | None = None
    head = 0
    for number, line in enumerate(text.split("\n"), 1):
        content = _without_comment(line)
        if not content:
            continue
        if content.startswith("["):
            name = content[1:].rstrip("]")
            current, head = shared, number
            if not name.startswith("global"):
                current = [*shared]
                jobs.append((name, number, current))
        elif (other := included(line)) is not None:
            includes.append(other)
        elif current is None:
            raise FormatError(f"{raw}:{number}: {content[:60]!r} stands before the first [section]")
        else:
            key, _, value = content.partition("=")
            current.append((number, head, (key.strip(), value.strip())))
    if not jobs and not includes:
        raise FormatError(f"{raw}: no job: a job file needs a [section] that is not [global]")
    sections = tuple(
        Section(
            name,
            tuple(option for _, _, option in given),
            line,
            tuple(number for number, _, _ in given),
            tuple(began for _, began, _ in given),
        )
        for name, line, given in jobs
    )
    return JobFile(sections, tuple(includes))


def included(line: str) -> str | None:
    """The file that this line has fio read; None of any other line."""
    content = _without_comment(line)
    return content.removeprefix("include").strip() if content.startswith("include") else None


def without(text: str, options: frozenset[str]) -> str:
    """The job file without these options, whatever their value; every other line as it was."""
    kept = [
        line
        for line in text.splitlines(keepends=True)
        if _without_comment(line).partition("=")[0].strip() not in options
    ]
    return "".join(kept)


def _without_comment(line: str) -> str:
    for mark in ";#":
        line = line.partition(mark)[0]
    return line.strip()


def filenames(value: str) -> tuple[str, ...]:
    """The paths in a ``filename`` or ``directory`` value: separated by colons, ``\\:`` is one."""
    parts, current = [], ""
    for piece in value.split(":"):
        if piece.endswith("\\"):
            current += piece[:-1] + ":"
        else:
            parts.append(current + piece)
            current = ""
    if current:
        parts.append(current)
    return tuple(part for part in parts if part)


def escaped(path: str) -> str:
    """``path`` as the value of ``filename`` or ``directory``."""
    return path.replace(":", "\\:")
