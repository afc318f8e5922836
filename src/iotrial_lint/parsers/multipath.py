"""``multipath.conf`` and ``multipath/conf.d/*.conf``, as multipath.conf(5) and libmultipath's
parser read them: line by line; ``{`` ends the line that opens a section, ``}`` stands alone."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from iotrial_lint.sheet import Complaint, Entry, Sheet, lines

KIND = "multipath"
TITLE = "`multipath.conf` and `multipath/conf.d/*.conf`"

_WORD = re.compile(
    r'"(?P<quoted>[^"]*)"|(?P<brace>[{}])|(?P<open>"[^"]*$)|(?P<plain>[^\s{}"#!]+)|\S'
)
_DEEPEST = 8


def knows(path: PurePosixPath) -> bool:
    in_folder = path.suffix == ".conf" and path.parts[-3:-1] == ("multipath", "conf.d")
    alone = path.name == "multipath.conf" and path.parent.suffix != ".d"
    return alone or in_folder


def parse(text: str, file: str = "") -> Sheet:
    reading = _Reading()
    for number, line in lines(text):
        reading.line(number, line)
    for opened, name in reversed(reading.open):
        reading.complain(opened, f"{name!r} is never closed: a '}}' is missing")
    sections = tuple(reading.sections)
    return Sheet("multipath", file, tuple(reading.entries), (), tuple(reading.complaints), sections)


class _Reading:
    """Where the reading stands: sections that are open, and what was found."""

    def __init__(self) -> None:
        self.open: list[tuple[int, str]] = []
        self.entries: list[Entry] = []
        self.complaints: list[Complaint] = []
        self.sections: list[tuple[int, str]] = []

    def complain(self, number: int, what: str) -> None:
        self.complaints.append(Complaint(number, what))

    def line(self, number: int, line: str) -> None:
        words = _words(line)
        if not words:
            return
        texts = [text for text, _ in words]
        if texts[0] in "{}" and not words[0][1]:
            self._brace(number, texts)
        elif "{" in texts[1:]:
            self._opens(number, texts)
        else:
            self._entry(number, words)

    def _brace(self, number: int, texts: list[str]) -> None:
        if texts[0] == "{":
            self.complain(number, "'{' must stand at the end of the line that names the section")
            return
        if not self.open:
            self.complain(number, "'}' closes nothing")
        else:
            self.open.pop()
        if len(texts) > 1:
            self.complain(number, f"{texts[1][:40]!r} behind '}}' is ignored: put it on a new line")

    def _opens(self, number: int, texts: list[str]) -> None:
        if texts[1] != "{":
            self.complain(number, f"'{{' must follow {texts[0][:40]!r} at once")
        elif len(texts) > 2:  # noqa: PLR2004 (NAME {)
            self.complain(number, f"{texts[2][:40]!r} behind '{{' is ignored: put it on a new line")
        self.open.append((number, texts[0]))
        if len(self.open) <= _DEEPEST:
            self.sections.append((number, "/".join(name for _, name in self.open)))

    def _entry(self, number: int, words: list[tuple[str, bool]]) -> None:
        key, value = words[0][0], " ".join(text for text, _ in words[1:])
        if "}" in [text for text, quoted in words[1:] if not quoted]:
            self.complain(number, "'}' must stand on a line of its own")
            value = value.partition("}")[0].strip()
        if any(text.startswith('"') for text, _ in words):
            self.complain(number, "a quotation mark is never closed")
        section = tuple(name for _, name in self.open[:_DEEPEST])
        group = self.open[-1][0] if self.open else 0
        self.entries.append(Entry(number, key, value, section, " ", group=group))


def _words(line: str) -> list[tuple[str, bool]]:
    """(word, whether it stood in quotation marks) up to a comment."""
    found: list[tuple[str, bool]] = []
    for match in _WORD.finditer(line):
        if match["quoted"] is not None:
            found.append((match["quoted"], True))
        elif match[0] in "#!":
            break
        else:
            found.append((match[0], False))
    return found
