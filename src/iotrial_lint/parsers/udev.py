"""udev rules: ``rules.d/*.rules``, as udev(7) reads them.

A rule is a line of ``KEY{part}OPERATOR"value"``, separated by commas or blanks; a backslash at its
end joins it with the next; ``#`` at the beginning of a line makes it a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.parsers.sysctl import setting
from iotrial_lint.sheet import Complaint, Entry, Setting, Sheet, lines

KIND = "udev"
TITLE = "udev rules (`*.rules`)"

ASSIGNS = ("=", "+=", "-=", ":=")
_TOKEN = re.compile(
    r"""\s*,?\s*(?P<key>[A-Za-z_]+)(?:\{(?P<part>[^}"]*)\})?\s*
    (?P<sign>==|!=|\+=|-=|:=|=)\s*(?:[ei]{0,2}"(?P<value>(?:[^"\\]|\\.)*)")""",
    re.VERBOSE,
)
_ECHO = re.compile(
    r"""echo\s+(?:-n\s+)?["']?(?P<value>[\w.-]+)["']?\s*>\s*["']?
    (?P<path>[^\s;&|"']*?/queue/(?P<file>[\w/]+))""",
    re.VERBOSE,
)
_SYSCTL = re.compile(r"\bsysctl\s+(?:-[a-z]+\s+)*(?P<key>[\w./-]+)=(?P<value>[\w.,-]+)")


def knows(path: PurePosixPath) -> bool:
    elsewhere = path.parent.name == "rules.d" and path.parent.parent.name != "udev"
    return path.suffix == ".rules" and not elsewhere  # polkit and audit have theirs too


def parse(text: str, file: str = "") -> Sheet:
    entries: list[Entry] = []
    complaints: list[Complaint] = []
    for began, rule in _rules(text):
        position = 0
        while position < len(rule) and rule[position:].strip(" \t,"):
            found = _TOKEN.match(rule, position)
            if not found:
                rest = rule[position:].strip(" \t,")
                complaints.append(Complaint(began, f'{rest[:60]!r} is no KEY=="value"'))
                break
            key, part, value = found["key"], found["part"] or "", found["value"]
            entries.append(Entry(began, key, value, (), found["sign"], part, began))
            position = found.end()
    sheet = Sheet("udev", file, tuple(entries), (), tuple(complaints))
    settings = tuple(each for group in sheet.groups() for each in _settings(group))
    return Sheet("udev", file, sheet.entries, settings, sheet.complaints)


def _rules(text: str) -> Iterator[tuple[int, str]]:
    """(line on which it begins, the whole rule)."""
    whole, began = "", 0
    for number, line in lines(text):
        if line.lstrip().startswith("#"):
            continue  # also between lines that a backslash joins
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        rule, whole = (whole + line).strip(), ""
        if rule:
            yield began, rule
    if whole.strip():
        yield began, whole.strip()


def _settings(group: tuple[Entry, ...]) -> Iterator[Setting]:
    on = "dm" if any(map(_of_mapper, group)) else ""
    for entry in group:
        if entry.sign not in ASSIGNS:
            continue
        if entry.key == "ATTR" and entry.part.startswith("queue/"):
            yield Setting(entry, "queue", entry.part[6:], entry.value, on)
        elif entry.key == "ATTR" and entry.part == "device/queue_depth":
            yield Setting(entry, "queue", "device/queue_depth", entry.value, on)
        elif entry.key == "SYSCTL":
            yield setting(entry, entry.part, entry.value)
        elif entry.key in ("RUN", "PROGRAM"):
            for found in _ECHO.finditer(entry.value):
                yield Setting(entry, "queue", found["file"], found["value"], on, "echo")
            for found in _SYSCTL.finditer(entry.value):
                yield setting(entry, found["key"], found["value"], "echo")


def _of_mapper(entry: Entry) -> bool:
    if entry.sign != "==":
        return False
    named = entry.key in ("KERNEL", "DEVPATH") and "dm-" in entry.value
    return named or (entry.key == "ENV" and entry.part.startswith("DM_"))
