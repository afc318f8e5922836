"""What is set of the kernel: its parameters, its command line, modules, profiles of tuned."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from iotrial_lint.parsers import Parser
from iotrial_lint.rule import ConfigFile, ConfigLine, ConfigSetting, SyntaxProblem, joined, lines

# -- sysctl ----------------------------------------------------------------------------------------


def _knows_sysctl(path: PurePosixPath) -> bool:
    in_folder = path.parent.name == "sysctl.d" and path.suffix == ".conf"
    return in_folder or path.name == "sysctl.conf" or path.name.endswith(".sysctl.conf")


def parse_sysctl(text: str, file: str = "") -> ConfigFile:
    """``KEY = VALUE``, one a line; a line that begins with ``#`` or ``;`` is a comment, and nothing
    else is; ``-`` before a key says that its failure does not matter (sysctl.d(5),
    sysctl.conf(5))."""
    entries: list[ConfigLine] = []
    complaints: list[SyntaxProblem] = []
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain[0] in "#;":
            continue
        key, equals, value = plain.partition("=")
        key = key.strip()
        sign = "-=" if key.startswith("-") else "="
        key = key.removeprefix("-").strip()
        if not equals:
            if sign == "=":  # "-KEY" alone takes a key out of the patterns before it
                complaints.append(SyntaxProblem(number, f"{plain[:60]!r} is not a KEY = VALUE"))
        elif not key or any(blank in key for blank in " \t\0"):
            complaints.append(
                SyntaxProblem(number, f"{key[:60]!r} is not a name of a kernel parameter")
            )
        else:
            entries.append(ConfigLine(number, key, value.strip(), sign=sign))
    settings = tuple(setting(entry, entry.key, entry.value) for entry in entries)
    return ConfigFile("sysctl", file, tuple(entries), settings, tuple(complaints))


def setting(entry: ConfigLine, key: str, value: str, how: str = "") -> ConfigSetting:
    """A kernel parameter, its name with dots."""
    return ConfigSetting(entry, "sysctl", dotted(key), " ".join(value.split()), how=how)


def dotted(key: str) -> str:
    """A key as dots separate it; a dot within a name is a slash then, as in sysctl(8).

    >>> dotted("net/ipv4/conf/eth0.100/rp_filter")
    'net.ipv4.conf.eth0/100.rp_filter'
    """
    slash, dot = key.find("/"), key.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return key.translate(str.maketrans("./", "/."))
    return key


# -- cmdline ---------------------------------------------------------------------------------------

_GRUB = re.compile(r"\s*(?:export\s+)?(?P<key>[A-Z_0-9]+)\+?=(?P<value>.*)")


def _knows_cmdline(path: PurePosixPath) -> bool:
    of_grub = path.name == "grub" and path.parent.name == "default"
    return path.name == "cmdline" or of_grub or path.parent.name == "grub.d"


def parse_cmdline(text: str, file: str = "") -> ConfigFile:
    """An entry is a line of words.  A file of grub's is shell: only its assignments are read."""
    entries: list[ConfigLine] = []
    grub = re.search(r"^\s*(?:export\s+)?GRUB_[A-Z_]+\+?=", text, re.MULTILINE)
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        found = _GRUB.fullmatch(plain) if grub else None
        if found and found["key"].startswith("GRUB_CMDLINE_LINUX"):
            entries.append(ConfigLine(number, found["key"], found["value"].strip("\"'")))
        elif not grub:
            entries.append(ConfigLine(number, "", plain))
    settings = tuple(each for entry in entries for each in words_of(entry, entry.value))
    return ConfigFile("cmdline", file, tuple(entries), settings)


def words_of(entry: ConfigLine, text: str) -> Iterator[ConfigSetting]:
    """The settings in words of a command line: its own, of modules, of kernel parameters."""
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        words = text.split()
    for word in words:
        name, _, value = word.partition("=")
        yield ConfigSetting(entry, "cmdline", name, value)
        module, dot, parameter = name.partition(".")
        if module == "sysctl" and parameter:
            yield setting(entry, parameter, value)
        elif dot and parameter and "$" not in name:
            module = module.replace("-", "_")
            yield ConfigSetting(entry, "module", f"{module}.{parameter}", value)


# -- modprobe --------------------------------------------------------------------------------------

COMMANDS = ("alias", "blacklist", "config", "include", "install", "options", "remove", "softdep")
_NEWER = ("weakdep",)
_WORDS = {"alias": 3, "options": 3, "install": 3, "remove": 3, "softdep": 3, "blacklist": 2}


def _knows_modprobe(path: PurePosixPath) -> bool:
    in_folder = path.parent.name == "modprobe.d" and path.suffix == ".conf"
    return in_folder or path.name in ("modprobe.conf", "modprobe.conf.local")


def parse_modprobe(text: str, file: str = "") -> ConfigFile:
    """As modprobe.d(5) reads it: one command a line, a backslash at its end joins it with the next;
    ``#`` begins a comment line."""
    entries: list[ConfigLine] = []
    complaints: list[SyntaxProblem] = []
    for number, line in joined(lines(text)):
        if line.startswith("#"):
            continue
        words = line.split(None, 2)
        command = words[0]
        if command not in COMMANDS and command not in _NEWER:
            known = ", ".join(COMMANDS)
            complaints.append(SyntaxProblem(number, f"{command[:40]!r} is not a command: {known}"))
        elif len(words) < _WORDS.get(command, 1):
            complaints.append(
                SyntaxProblem(number, f"{line[:60]!r}: something is missing behind it")
            )
        elif command == "options":
            section = (command, words[1].replace("-", "_"))
            for word in _split(words[2]):
                key, _, value = word.partition("=")
                entries.append(ConfigLine(number, key, value, section, group=number))
        else:
            entries.append(ConfigLine(number, command, " ".join(words[1:]), (command,), " "))
    settings = tuple(
        ConfigSetting(entry, "module", f"{entry.section[1]}.{entry.key}", entry.value)
        for entry in entries
        if entry.section[0] == "options"
    )
    return ConfigFile("modprobe", file, tuple(entries), settings, tuple(complaints))


def _split(text: str) -> list[str]:
    """Options; quotation marks keep blanks together."""
    try:
        return shlex.split(text, comments=False)
    except ValueError:  # a mark that is never closed
        return text.split()


# -- tuned -----------------------------------------------------------------------------------------

_OF_QUEUE = re.compile(r"/sys/block/[^/]+/queue/(?P<file>[\w/]+)")


def _knows_tuned(path: PurePosixPath) -> bool:
    return path.name == "tuned.conf" and path.parent.suffix != ".d"


def parse_tuned(text: str, file: str = "") -> ConfigFile:
    """Sections of ``OPTION=VALUE`` (tuned.conf(5)).  A section is an instance of the plugin it is
    called after, or of the one in its ``type``."""
    entries: list[ConfigLine] = []
    complaints: list[SyntaxProblem] = []
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
                complaints.append(SyntaxProblem(number, "a section's name ends with ']'"))
            continue
        key, equals, value = plain.partition("=")
        if line[:1] in " \t" and entries and not equals:
            continue  # a value goes on
        if not section:
            complaints.append(
                SyntaxProblem(number, f"{plain[:60]!r} stands before the first [section]")
            )
        elif not equals:
            complaints.append(SyntaxProblem(number, f"{plain[:60]!r} is not an OPTION=VALUE"))
        else:
            entries.append(ConfigLine(number, key.strip(), value.strip(), (section,)))
    types = {entry.section[0]: entry.value for entry in entries if entry.key == "type"}
    placed = tuple(_typed(entry, types) for entry in entries)
    settings = tuple(each for entry in placed for each in _settings(entry))
    return ConfigFile("tuned", file, placed, settings, tuple(complaints), tuple(sections))


def _typed(entry: ConfigLine, types: dict[str, str]) -> ConfigLine:
    """The entry with the plugin of its section beside the section's name."""
    name = entry.section[0]
    section = (name, types.get(name, name))
    return ConfigLine(entry.line, entry.key, entry.value, section, entry.sign)


def _settings(entry: ConfigLine) -> Iterator[ConfigSetting]:
    value = entry.value.strip("\"'").lstrip("<>").strip()
    plugin = entry.section[1]
    if "$" in value or entry.key in ("type", "devices", "replace", "priority"):
        return
    if plugin == "sysctl" and entry.key not in ("uname_regex", "cpuinfo_regex", "enabled"):
        bound = "bound" if entry.value.strip("\"'")[:1] in ("<", ">") else ""
        yield setting(entry, entry.key, value, bound)
    elif plugin == "disk" and entry.key == "elevator":
        yield ConfigSetting(entry, "queue", "scheduler", value)
    elif plugin == "disk" and entry.key == "readahead" and value.isdigit():
        yield ConfigSetting(entry, "queue", "read_ahead_kb", value)
    elif plugin == "sysfs" and (found := _OF_QUEUE.fullmatch(entry.key)):
        yield ConfigSetting(entry, "queue", found["file"], value)
    elif plugin == "bootloader" and entry.key.startswith("cmdline"):
        yield from words_of(entry, value.lstrip("+"))
    elif plugin == "modules":
        for word in value.lstrip("+r").strip(",").split():
            name, equals, given = word.partition("=")
            if equals:
                yield ConfigSetting(entry, "module", f"{entry.key.replace('-', '_')}.{name}", given)


def included_profiles(sheet: ConfigFile) -> tuple[str, ...]:
    """Profiles that a profile includes."""
    return tuple(
        name
        for entry in sheet.entries
        if entry.section[0] == "main" and entry.key == "include"
        for name in re.split(r"[,\s]+", entry.value)
        if name
    )


PARSERS = (
    Parser(
        "sysctl",
        "kernel parameters (`sysctl.conf`, `sysctl.d/*.conf`)",
        _knows_sysctl,
        parse_sysctl,
    ),
    Parser(
        "cmdline",
        "the kernel's command line (`/proc/cmdline`, `/etc/kernel/cmdline`, `/etc/default/grub`)",
        _knows_cmdline,
        parse_cmdline,
    ),
    Parser("modprobe", "module options (`modprobe.d/*.conf`)", _knows_modprobe, parse_modprobe),
    Parser("tuned", "tuned profiles (`tuned.conf`)", _knows_tuned, parse_tuned),
)
