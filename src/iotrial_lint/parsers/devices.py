"""What is set of devices and file systems: udev rules, ``multipath.conf``, ``fstab``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.parsers import Parser
from iotrial_lint.parsers.kernel import setting
from iotrial_lint.rule import ConfigFile, ConfigLine, ConfigSetting, SyntaxProblem, joined, lines

# -- udev ------------------------------------------------------------------------------------------

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


def _knows_udev(path: PurePosixPath) -> bool:
    elsewhere = path.parent.name == "rules.d" and path.parent.parent.name != "udev"
    return path.suffix == ".rules" and not elsewhere  # polkit and audit have theirs too


def parse_udev(text: str, file: str = "") -> ConfigFile:
    """As udev(7) reads it: a rule is a line of ``KEY{part}OPERATOR"value"``, separated by commas or
    blanks; a backslash at its end joins it with the next; ``#`` at the beginning of a line makes it
    a comment."""
    entries: list[ConfigLine] = []
    complaints: list[SyntaxProblem] = []
    # A comment may also stand between lines that a backslash joins.
    said = (each for each in lines(text) if not each[1].lstrip().startswith("#"))
    for began, rule in joined(said):
        position = 0
        while position < len(rule) and rule[position:].strip(" \t,"):
            found = _TOKEN.match(rule, position)
            if not found:
                rest = rule[position:].strip(" \t,")
                complaints.append(SyntaxProblem(began, f'{rest[:60]!r} is not a KEY=="value"'))
                break
            key, part, value = found["key"], found["part"] or "", found["value"]
            entries.append(ConfigLine(began, key, value, (), found["sign"], part, began))
            position = found.end()
    sheet = ConfigFile("udev", file, tuple(entries), (), tuple(complaints))
    settings = tuple(each for group in sheet.groups() for each in _udev_settings(group))
    return ConfigFile("udev", file, sheet.entries, settings, sheet.complaints)


def _udev_settings(group: tuple[ConfigLine, ...]) -> Iterator[ConfigSetting]:
    on = "dm" if any(map(_of_mapper, group)) else ""
    for entry in group:
        if entry.sign not in ASSIGNS:
            continue
        if entry.key == "ATTR" and entry.part.startswith("queue/"):
            yield ConfigSetting(entry, "queue", entry.part[6:], entry.value, on)
        elif entry.key == "ATTR" and entry.part == "device/queue_depth":
            yield ConfigSetting(entry, "queue", "device/queue_depth", entry.value, on)
        elif entry.key == "SYSCTL":
            yield setting(entry, entry.part, entry.value)
        elif entry.key in ("RUN", "PROGRAM"):
            for found in _ECHO.finditer(entry.value):
                yield ConfigSetting(entry, "queue", found["file"], found["value"], on, "echo")
            for found in _SYSCTL.finditer(entry.value):
                yield setting(entry, found["key"], found["value"], "echo")


def _of_mapper(entry: ConfigLine) -> bool:
    if entry.sign != "==":
        return False
    named = entry.key in ("KERNEL", "DEVPATH") and "dm-" in entry.value
    return named or (entry.key == "ENV" and entry.part.startswith("DM_"))


# -- multipath -------------------------------------------------------------------------------------

_WORD = re.compile(
    r'"(?P<quoted>[^"]*)"|(?P<brace>[{}])|(?P<open>"[^"]*$)|(?P<plain>[^\s{}"#!]+)|\S'
)
_DEEPEST = 8


def _knows_multipath(path: PurePosixPath) -> bool:
    in_folder = path.suffix == ".conf" and path.parts[-3:-1] == ("multipath", "conf.d")
    alone = path.name == "multipath.conf" and path.parent.suffix != ".d"
    return alone or in_folder


def parse_multipath(text: str, file: str = "") -> ConfigFile:
    """As multipath.conf(5) and libmultipath's parser read it, line by line: ``{`` ends the line
    that opens a section, ``}`` stands alone."""
    reading = _Reading()
    for number, line in lines(text):
        reading.line(number, line)
    for opened, name in reversed(reading.open):
        reading.complain(opened, f"{name!r} is never closed: a '}}' is missing")
    sections = tuple(reading.sections)
    return ConfigFile(
        "multipath", file, tuple(reading.entries), (), tuple(reading.complaints), sections
    )


class _Reading:
    """Where the reading stands: sections that are open, and what was found."""

    def __init__(self) -> None:
        self.open: list[tuple[int, str]] = []
        self.entries: list[ConfigLine] = []
        self.complaints: list[SyntaxProblem] = []
        self.sections: list[tuple[int, str]] = []

    def complain(self, number: int, what: str) -> None:
        self.complaints.append(SyntaxProblem(number, what))

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
        self.entries.append(ConfigLine(number, key, value, section, " ", group=group))


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


# -- fstab -----------------------------------------------------------------------------------------

_LEAST, _MOST = 3, 6


def _knows_fstab(path: PurePosixPath) -> bool:
    return path.name == "fstab" or path.suffix == ".fstab" or path.parent.name == "fstab.d"


def parse_fstab(text: str, file: str = "") -> ConfigFile:
    """Each option is an entry; its section is (source, mount point, type)."""
    entries: list[ConfigLine] = []
    complaints: list[SyntaxProblem] = []
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        fields = re.split(r"[ \t]+", plain)
        if len(fields) < _LEAST:
            complaints.append(SyntaxProblem(number, "a line needs source, mount point and type"))
            continue
        behind = fields[4:_MOST]
        wrong = [word for word in behind if not word.isdigit() and not word.startswith("#")]
        if wrong and not any(word.startswith("#") for word in behind):
            what = f"{wrong[0][:40]!r} is not a number; the last two fields are (dump, fsck)"
            complaints.append(SyntaxProblem(number, what))
        section = (fields[0], fields[1], fields[2])
        options = fields[3] if len(fields) > _LEAST else "defaults"
        for option in options.split(","):
            key, _, value = option.partition("=")
            entries.append(ConfigLine(number, key, value, section, group=number))
    return ConfigFile("fstab", file, tuple(entries), (), tuple(complaints))


PARSERS = (
    Parser("udev", "udev rules (`*.rules`)", _knows_udev, parse_udev),
    Parser(
        "multipath",
        "`multipath.conf` and `multipath/conf.d/*.conf`",
        _knows_multipath,
        parse_multipath,
    ),
    Parser("fstab", "`fstab`", _knows_fstab, parse_fstab),
)
