"""tuned profiles: ``tuned.conf``, sections of ``OPTION=VALUE`` (tuned.conf(5)).

A section is an instance of the plugin it is called after, or of the one in its ``type``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.parsers.cmdline import words_of
from iotrial_lint.parsers.sysctl import setting
from iotrial_lint.sheet import Complaint, Entry, Setting, Sheet, lines

KIND = "tuned"
TITLE = "tuned profiles (`tuned.conf`)"

_OF_QUEUE = re.compile(r"/sys/block/[^/]+/queue/(?P<file>[\w/]+)")


def knows(path: PurePosixPath) -> bool:
    return path.name == "tuned.conf" and path.parent.suffix != ".d"


def parse(text: str, file: str = "") -> Sheet:
    entries: list[Entry] = []
    complaints: list[Complaint] = []
    sections: list[tuple[int, str]] = []
    section = ""
    for number, line in lines(text):
        plain = line.partition(" #")[0].strip()
        if not plain or plain[0] in "#;":
            continue
        if plain.startswith("["):
            section = plain[1:].partition("]")[0].strip()
            sections.append((number, section))
            if "]" not in plain:
                complaints.append(Complaint(number, "a section's name ends with ']'"))
            continue
        key, equals, value = plain.partition("=")
        if line[:1] in " \t" and entries and not equals:
            continue  # a value goes on
        if not section:
            complaints.append(
                Complaint(number, f"{plain[:60]!r} stands before the first [section]")
            )
        elif not equals:
            complaints.append(Complaint(number, f"{plain[:60]!r} is no OPTION=VALUE"))
        else:
            entries.append(Entry(number, key.strip(), value.strip(), (section,)))
    types = {entry.section[0]: entry.value for entry in entries if entry.key == "type"}
    placed = tuple(_typed(entry, types) for entry in entries)
    settings = tuple(each for entry in placed for each in _settings(entry))
    return Sheet("tuned", file, placed, settings, tuple(complaints), tuple(sections))


def _typed(entry: Entry, types: dict[str, str]) -> Entry:
    """The entry with the plugin of its section beside the section's name."""
    name = entry.section[0]
    section = (name, types.get(name, name))
    return Entry(entry.line, entry.key, entry.value, section, entry.sign)


def _settings(entry: Entry) -> Iterator[Setting]:
    value = entry.value.strip("\"'").lstrip("<>").strip()
    plugin = entry.section[1]
    if "$" in value or entry.key in ("type", "devices", "replace", "priority"):
        return
    if plugin == "sysctl" and entry.key not in ("uname_regex", "cpuinfo_regex", "enabled"):
        bound = "bound" if entry.value.strip("\"'")[:1] in ("<", ">") else ""
        yield setting(entry, entry.key, value, bound)
    elif plugin == "disk" and entry.key == "elevator":
        yield Setting(entry, "queue", "scheduler", value)
    elif plugin == "disk" and entry.key == "readahead" and value.isdigit():
        yield Setting(entry, "queue", "read_ahead_kb", value)
    elif plugin == "sysfs" and (found := _OF_QUEUE.fullmatch(entry.key)):
        yield Setting(entry, "queue", found["file"], value)
    elif plugin == "bootloader" and entry.key.startswith("cmdline"):
        yield from words_of(entry, value.lstrip("+"))
    elif plugin == "modules":
        for word in value.lstrip("+r").strip(",").split():
            name, equals, given = word.partition("=")
            if equals:
                yield Setting(entry, "module", f"{entry.key.replace('-', '_')}.{name}", given)


def included(sheet: Sheet) -> tuple[str, ...]:
    """Profiles that a profile includes."""
    return tuple(
        name
        for entry in sheet.entries
        if entry.section[0] == "main" and entry.key == "include"
        for name in re.split(r"[,\s]+", entry.value)
        if name
    )
