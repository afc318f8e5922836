"""A sheet: one file of settings, parsed.  Its entries, its settings, and what cannot be parsed.

An *entry* is what a line says in the file's own words.  A *setting* is an entry in the words that
all files share, so that a rule about a kernel parameter need not know whether it stood in a sysctl
file, in a udev rule or in a tuned profile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["sysctl", "udev", "multipath", "modprobe", "fstab", "tuned", "fio", "cmdline"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Family = Literal["sysctl", "queue", "module", "cmdline"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a line says.  ``line`` counts from 1; ``section`` is where it stands, from the outside
    in (``devices``, ``device``); ``sign`` what stands between key and value; ``part`` what stands
    in braces behind a key of udev's; ``group`` tells entries that belong together (a udev rule, a
    block of braces, a line of fstab) from others.

    ``name`` is the key's proper name, where the file may write others for it; ``file`` the file it
    stands in, where a sheet is made of several.
    """

    line: int
    key: str
    value: str = ""
    section: tuple[str, ...] = ()
    sign: str = "="
    part: str = ""
    group: int = 0
    name: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a file gives to something.  ``name`` is a key of sysctl (with dots), a file
    below ``queue/``, ``MODULE.PARAMETER``, or a word of the kernel's command line; ``on`` is what
    is known of the device (``dm``: a device-mapper device); ``how`` how it is written (``echo``:
    by a shell that udev starts; ``bound``: only where what is there is less, or more)."""

    entry: Entry
    family: Family
    name: str
    value: str
    on: str = ""
    how: str = ""

    @property
    def line(self) -> int:
        return self.entry.line


@dataclass(frozen=True, slots=True)
class Complaint:
    """What cannot be parsed: the line, and what is wrong with it."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """One file, parsed.  ``sections`` are those that it opens, with their lines."""

    kind: Kind
    file: str = ""
    entries: tuple[Entry, ...] = ()
    settings: tuple[Setting, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    sections: tuple[tuple[int, str], ...] = ()

    def of(self, family: Family) -> tuple[Setting, ...]:
        """Its settings of a family, in the order they are written."""
        return tuple(each for each in self.settings if each.family == family)

    def last(self, family: Family) -> dict[str, Setting]:
        """By name, the setting that wins: the last one."""
        return {each.name: each for each in self.of(family)}

    def groups(self) -> tuple[tuple[Entry, ...], ...]:
        """Entries that belong together, in order."""
        found: dict[int, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.group, []).append(entry)
        return tuple(map(tuple, found.values()))


def lines(text: str) -> Iterable[tuple[int, str]]:
    """(number, line).  Only a newline ends a line, as the programs that read these files see it."""
    return enumerate((line.rstrip("\r") for line in text.split("\n")), start=1)
