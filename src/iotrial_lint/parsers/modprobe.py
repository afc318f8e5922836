"""``modprobe.d/*.conf``: options of modules, as modprobe.d(5) reads them.

One command a line, a backslash at its end joins it with the next; ``#`` begins a comment line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.sheet import Complaint, Entry, Setting, Sheet, lines

KIND = "modprobe"
TITLE = "module options (`modprobe.d/*.conf`)"

COMMANDS = ("alias", "blacklist", "config", "include", "install", "options", "remove", "softdep")
_NEWER = ("weakdep",)
_WORDS = {"alias": 3, "options": 3, "install": 3, "remove": 3, "softdep": 3, "blacklist": 2}


def knows(path: PurePosixPath) -> bool:
    in_folder = path.parent.name == "modprobe.d" and path.suffix == ".conf"
    return in_folder or path.name in ("modprobe.conf", "modprobe.conf.local")


def parse(text: str, file: str = "") -> Sheet:
    entries: list[Entry] = []
    complaints: list[Complaint] = []
    for number, line in _joined(text):
        words = line.split(None, 2)
        command = words[0]
        if command not in COMMANDS and command not in _NEWER:
            known = ", ".join(COMMANDS)
            complaints.append(Complaint(number, f"{command[:40]!r} is no command: {known}"))
        elif len(words) < _WORDS.get(command, 1):
            complaints.append(Complaint(number, f"{line[:60]!r}: something is missing behind it"))
        elif command == "options":
            section = (command, words[1].replace("-", "_"))
            for word in _split(words[2]):
                key, _, value = word.partition("=")
                entries.append(Entry(number, key, value, section, group=number))
        else:
            entries.append(Entry(number, command, " ".join(words[1:]), (command,), " "))
    settings = tuple(
        Setting(entry, "module", f"{entry.section[1]}.{entry.key}", entry.value)
        for entry in entries
        if entry.section[0] == "options"
    )
    return Sheet("modprobe", file, tuple(entries), settings, tuple(complaints))


def _joined(text: str) -> Iterator[tuple[int, str]]:
    whole, began = "", 0
    for number, line in lines(text):
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        command, whole = (whole + line).strip(), ""
        if command and not command.startswith("#"):
            yield began, command
    if whole.strip() and not whole.strip().startswith("#"):
        yield began, whole.strip()


def _split(text: str) -> list[str]:
    """Options; quotation marks keep blanks together."""
    try:
        return shlex.split(text, comments=False)
    except ValueError:  # a mark that is never closed
        return text.split()
