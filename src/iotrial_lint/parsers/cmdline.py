"""The kernel's command line: ``/proc/cmdline``, ``/etc/kernel/cmdline``, ``/etc/default/grub``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.parsers.sysctl import setting
from iotrial_lint.sheet import Entry, Setting, Sheet, lines

KIND = "cmdline"
TITLE = "the kernel's command line (`/proc/cmdline`, `/etc/kernel/cmdline`, `/etc/default/grub`)"

_GRUB = re.compile(r"\s*(?:export\s+)?(?P<key>[A-Z_0-9]+)\+?=(?P<value>.*)")


def knows(path: PurePosixPath) -> bool:
    of_grub = path.name == "grub" and path.parent.name == "default"
    return path.name == "cmdline" or of_grub or path.parent.name == "grub.d"


def parse(text: str, file: str = "") -> Sheet:
    """An entry is a line of words.  A file of grub's is shell: only its assignments are read."""
    entries: list[Entry] = []
    grub = re.search(r"^\s*(?:export\s+)?GRUB_[A-Z_]+\+?=", text, re.MULTILINE)
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        found = _GRUB.fullmatch(plain) if grub else None
        if found and found["key"].startswith("GRUB_CMDLINE_LINUX"):
            entries.append(Entry(number, found["key"], found["value"].strip("\"'")))
        elif not grub:
            entries.append(Entry(number, "", plain))
    settings = tuple(each for entry in entries for each in words_of(entry, entry.value))
    return Sheet("cmdline", file, tuple(entries), settings)


def words_of(entry: Entry, text: str) -> Iterator[Setting]:
    """The settings in words of a command line: its own, of modules, of kernel parameters."""
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        words = text.split()
    for word in words:
        name, _, value = word.partition("=")
        yield Setting(entry, "cmdline", name, value)
        module, dot, parameter = name.partition(".")
        if module == "sysctl" and parameter:
            yield setting(entry, parameter, value)
        elif dot and parameter and "$" not in name:
            module = module.replace("-", "_")
            yield Setting(entry, "module", f"{module}.{parameter}", value)
