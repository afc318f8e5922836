"""Hosts that ssh's own configuration names.

Only names are read here: user, port, jump hosts and keys are ssh(1)'s business, which is told the
name and the file.  ``Match`` blocks depend on more than a name and name no host.

Source: ssh_config(5), OpenSSH 10.2 (patterns, negation, Include, ``Keyword=value``, quotes).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from iotrial.errors import StudyError
from iotrial.plan.host_entry import (
    MOST_HOSTS,
    Entry,
    check_name,
    chosen,
    join,
    ranged,
    refuse,
    text_of,
)

DEEPEST = 16
"""Files that include files, as in readconf.c."""
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_WILD = re.compile(r"[*?!]")

Read = Callable[[str, str], list[tuple[str, bytes]]]
"""Include's words → (file, content) of each file they mean; the first argument is who includes."""


@dataclass(frozen=True, slots=True)
class Host:
    """One ``Host`` line: its patterns, those without the ``!`` of negation apart."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]
    file: str
    line: int

    def fits(self, name: str) -> bool:
        """Whether it is about ``name``, and not about every host."""
        if any(fnmatchcase(name, each) for each in self.unwanted):
            return False
        return any(each != "*" and fnmatchcase(name, each) for each in self.wanted)


def hosts(raw: bytes, file: str, read: Read) -> tuple[Host, ...]:
    """Every ``Host`` line, included files' in their place.  Raises StudyError."""
    found = []
    for each in _hosts(raw, file, read, ()):
        found.append(each)
        if len(found) > MOST_HOSTS:
            raise refuse(each.file, each.line, f"more than {MOST_HOSTS:,} Host lines")
    return tuple(found)


def entries(
    lines: Sequence[Host], wanted: str | Sequence[str], file: str, options: Sequence[str]
) -> tuple[Entry, ...]:
    """The hosts that are ``wanted``.  A name is known where a ``Host`` line other than ``*`` is
    about it; one with ``*`` or ``?`` is looked for among the names that are written out.
    ``options`` are said to ssh(1) before each.  Raises StudyError.
    """
    written = list(
        dict.fromkeys(
            name for line in lines for name in line.wanted if not _WILD.search(name)
        )
    )  # fmt: skip
    asked = ranged(wanted, file)
    by_pattern = [
        name for name in asked if not _WILD.search(name) and any(line.fits(name) for line in lines)
    ]
    names = chosen([*written, *by_pattern], asked, file)
    for name in names:
        check_name(name, file, next((at.line for at in lines if name in at.wanted), 0))
    return tuple(Entry(name, join([*options, name])) for name in names)


def _hosts(raw: bytes, file: str, read: Read, above: tuple[str, ...]) -> Iterator[Host]:
    for number, text in enumerate(text_of(raw, file).split("\n"), start=1):
        line = text.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            advice = "A line is a keyword and its value, as in ssh_config(5)."
            raise refuse(file, number, f"not ssh_config: {line[:60]!r}", advice)
        keyword = match[1].lower()
        if keyword not in ("host", "include"):
            continue
        words = _words(match[2], file, number)
        if not words:
            raise refuse(file, number, f"{match[1]} without a value")
        if keyword == "host":
            yield Host(
                tuple(word for word in words if not word.startswith("!")),
                tuple(word[1:] for word in words if word.startswith("!")),
                file,
                number,
            )
            continue
        if len(above) >= DEEPEST:
            raise refuse(file, number, f"Include is more than {DEEPEST} files deep")
        try:
            parts = [part for word in words for part in read(file, word)]
        except OSError as error:
            raise refuse(file, number, f"Include: {error.strerror or error}") from None
        for name, content in parts:
            yield from _hosts(content, name, read, (*above, file))


def _words(text: str, file: str, line: int) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise _quotes(file, line, error) from None


def _quotes(file: str, line: int, error: ValueError) -> StudyError:
    return refuse(file, line, f"not ssh_config: {error}", "Close the quotation.")
