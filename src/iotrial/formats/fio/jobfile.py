"""fio job files: text → sections with the options in force in each.

Read as fio 3.33 reads them (tried out, see ``tests/unit/test_fio_jobfile.py``):

* a line whose first character after blanks is ``;`` or ``#`` is a comment, and from any later
  ``;`` or ``#`` on the rest of a line is one too, even inside a value;
* ``[name]`` begins a job.  fio takes 255 bytes of what follows the ``[`` and drops the last of
  them, whatever it is: ``[job.`` is ``job``, ``[job]x`` is ``job]``.  Every section whose name
  *begins* with ``global`` (in lower case) sets options for the jobs that follow it, not for those
  before; two jobs may share a name;
* an option without a value is a switch that is on; the last one of a name wins, except
  ``filename``, where all of them (also those of ``[global]``) are used;
* ``include FILE`` reads another file in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from iotrial.errors import FormatError

Option = tuple[str, str]
_BLANKS = " \t\n\v\f\r"
_ENDING = "".join(map(chr, range(0x21))) + "\x7f"  # isspace or iscntrl: fio takes both off an end
_HEAD = 255  # bytes of a section's line that fio looks at (%255[^\n] in init.c)
_LONGEST = 4000
"""Bytes of a line: fio reads 4095 or 8191 (OPT_LEN_MAX), by its version, and the rest as a line of
its own."""
# Their blanks in front are part of the name: fio keeps them (3.33; those of filename it drops).
_VERBATIM = frozenset({"directory", "filename_format", "opendir"})
_CUT = re.compile(r"[;#]|^[ \t\n\v\f\r]|[\x00-\x20\x7f]\Z")
_SUBSTITUTED = re.compile(r"[\n$]")


@dataclass(frozen=True, slots=True)
class JobSection:
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

    sections: tuple[JobSection, ...]
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
            if content == "[":
                raise FormatError(f"{raw}:{number}: '[' is not the name of a section")
            name = _name(content)
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
            key = key.rstrip(_ENDING)
            value = value.rstrip(_ENDING)
            value = value if key in _VERBATIM else value.lstrip(_BLANKS)
            current.append((number, head, (key, value)))
    if not jobs and not includes:
        raise FormatError(f"{raw}: no job: a job file needs a [section] that is not [global]")
    sections = tuple(
        JobSection(
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
    return content.removeprefix("include").strip(_ENDING) if content.startswith("include") else None


def without(text: str, options: frozenset[str]) -> str:
    """The job file without these options, whatever their value; every other line as it was."""
    kept = [
        line
        for line in re.findall(r"[^\n]*\n|[^\n]+", text)  # fio knows no other end of a line
        if _without_comment(line).partition("=")[0].rstrip(_ENDING) not in options
    ]
    return "".join(kept)


def _without_comment(line: str) -> str:
    for mark in ";#":
        line = line.partition(mark)[0]
    return line.lstrip(_BLANKS).rstrip(_ENDING)


def _name(content: str) -> str:
    """A section's name as fio 3.33 has it: without the last byte, bracket or not."""
    return content[1:].encode("utf-8", "replace")[:_HEAD][:-1].decode("utf-8", "replace")


def misread(text: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong with it) where fio would read something else than stands there."""
    for number, line in enumerate(text.split("\n"), 1):
        content = _without_comment(line)
        if len(line.encode("utf-8", "replace")) > _LONGEST:
            yield number, f"fio reads a line behind byte {_LONGEST} as another: make it shorter"
        if content.startswith("[") and not _whole(content):
            what = f"{content[:60]!r} is not a section's name in brackets, such as [job]"
            yield number, f"{what}: fio would drop its last character, whatever that is"


def _whole(content: str) -> bool:
    """Whether a section's line is ``[name]`` and nothing else."""
    name = content[1:-1]
    return (
        content.endswith("]")
        and "]" not in name
        and 0 < len(name.encode("utf-8", "replace")) < _HEAD
    )


def cut(path: str) -> str:
    """What of ``path`` makes fio take another file for it; '' nothing.

    It cuts the value of ``filename`` on a command line, too, where a comment would begin in a job
    file, and takes off blanks and control characters (``strip_blank_end`` in parse.c).
    """
    found = _CUT.search(path)
    return found[0] if found else ""


def unwritable(path: str) -> str:
    """The same for a line of a job file, in which fio replaces ``$`` and what follows as well."""
    found = _SUBSTITUTED.search(path)
    return cut(path) or (found[0] if found else "")


def filenames(value: str) -> tuple[str, ...]:
    """The paths in a ``filename`` or ``directory`` value: separated by colons, ``\\:`` is one."""
    parts, current = [], ""
    *pieces, last = value.split(":")
    for piece in pieces:
        if piece.endswith("\\"):
            current += piece[:-1] + ":"
        else:
            parts.append(current + piece)
            current = ""
    parts.append(current + last)  # a \ at the very end is one
    return tuple(part for part in parts if part)


def escaped(path: str) -> str:
    """``path`` as the value of ``filename`` or ``directory``."""
    return path.replace(":", "\\:")
