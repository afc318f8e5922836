"""Rule: one thing that lint knows; and sheet: what it judges.

A *sheet* is one file of settings, parsed.  An *entry* is what a line says in the file's own words.
A *setting* is an entry in the words that all files share, so that a rule about a kernel parameter
need not know whether it stood in a sysctl file, in a udev rule or in a tuned profile.

A function with :func:`rule` or :func:`host_rule` is a rule.  It never calls a host.  It judges a
sheet (or all that a host has in force) in the light of a :class:`LintContext`: what is known of the
kernel and the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Literal, get_args

Kind = Literal["sysctl", "udev", "multipath", "modprobe", "fstab", "tuned", "fio", "cmdline"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Family = Literal["sysctl", "queue", "module", "cmdline"]


@dataclass(frozen=True, slots=True)
class ConfigLine:
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
class ConfigSetting:
    """A value that a file gives to something.  ``name`` is a key of sysctl (with dots), a file
    below ``queue/``, ``MODULE.PARAMETER``, or a word of the kernel's command line; ``on`` is what
    is known of the device (``dm``: a device-mapper device); ``how`` how it is written (``echo``:
    by a shell that udev starts; ``bound``: only where what is there is less, or more)."""

    entry: ConfigLine
    family: Family
    name: str
    value: str
    on: str = ""
    how: str = ""

    @property
    def line(self) -> int:
        return self.entry.line


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """What cannot be parsed: the line, and what is wrong with it."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One file, parsed.  ``sections`` are those that it opens, with their lines."""

    kind: Kind
    file: str = ""
    entries: tuple[ConfigLine, ...] = ()
    settings: tuple[ConfigSetting, ...] = ()
    complaints: tuple[SyntaxProblem, ...] = ()
    sections: tuple[tuple[int, str], ...] = ()

    def of(self, family: Family) -> tuple[ConfigSetting, ...]:
        """Its settings of a family, in the order they are written."""
        return tuple(each for each in self.settings if each.family == family)

    def last(self, family: Family) -> dict[str, ConfigSetting]:
        """By name, the setting that wins: the last one."""
        return {each.name: each for each in self.of(family)}

    def groups(self) -> tuple[tuple[ConfigLine, ...], ...]:
        """Entries that belong together, in order."""
        found: dict[int, list[ConfigLine]] = {}
        for entry in self.entries:
            found.setdefault(entry.group, []).append(entry)
        return tuple(map(tuple, found.values()))


def lines(text: str) -> Iterable[tuple[int, str]]:
    """(number, line).  Only a newline ends a line, as the programs that read these files see it."""
    return enumerate((line.rstrip("\r") for line in text.split("\n")), start=1)


def joined(numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """(number, line) where a backslash at its end joins a line with the next; without blanks around
    it, and without lines of nothing else."""
    whole, began = "", 0
    for number, line in numbered:
        began = began if whole else number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        found, whole = (whole + line).strip(), ""
        if found:
            yield began, found
    if whole.strip():
        yield began, whole.strip()


Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

Version = tuple[int, ...]
NEWEST: Version = (9999,)
"""The kernel where nothing says which: judged as of today."""


@dataclass(frozen=True, slots=True)
class HostDisk:
    """A block device of a running host: its queue's files by name, ``device/queue_depth`` (0:
    none), what it is made of, and its device-mapper UUID."""

    name: str
    queue: Mapping[str, str] = field(default_factory=dict)
    depth: int = 0
    slaves: tuple[str, ...] = ()
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class LintContext:
    """What is known beside the file.

    ``kernel`` the version it is judged for; ``there`` sysctls that were looked for and are on this
    host, with their values, ``absent`` those that are not; ``modules`` the parameters of modules
    that were asked; ``memory`` in bytes (0: unknown); ``memory_mounts`` where filesystems in
    memory are mounted; ``multipath`` the version of multipath-tools (empty: unknown); ``sheets``
    all that is judged at once, of a running host in the order in which it reads them; ``disks`` its
    block devices; ``unread`` files of it that we may not read.
    """

    kernel: Version = NEWEST
    there: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    modules: Mapping[str, frozenset[str]] = field(default_factory=dict)
    memory: int = 0
    memory_mounts: tuple[str, ...] = ()
    multipath: Version = ()
    disks: tuple[HostDisk, ...] = ()
    sheets: tuple[ConfigFile, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleMessage:
    """What a rule says of one place: the ``line``, the ``key`` it is about, ``what`` is wrong with
    it, and what to write instead where there is such a thing (``fix``)."""

    line: int
    key: str
    what: str
    fix: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class LintMessage:
    """What lint says: a rule's words, with the file and the rule."""

    file: str
    line: int
    key: str
    what: str
    fix: str
    rule: Rule

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


Judge = Callable[[ConfigFile, LintContext], Iterable[RuleMessage]]
HostJudge = Callable[[LintContext], Iterable[RuleMessage]]


def _nothing(_sheet: ConfigFile, _scene: LintContext) -> Iterable[RuleMessage]:
    return ()


def _nothing_of_host(_scene: LintContext) -> Iterable[RuleMessage]:
    return ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.  ``reason``, ``source`` and ``fix`` are for people; ``fix`` in general, where what
    is said of a place has none of its own.

    ``judge`` decides on a sheet of one of ``kinds``; ``host`` on a running host as a whole.
    ``together``: it compares settings with each other; of a host it is given those that win, of
    all files of a kind as one sheet.  ``about`` says in words what it finds.
    """

    name: str
    title: str
    severity: Severity
    kinds: tuple[Kind, ...]
    reason: str
    source: str
    fix: str = ""
    judge: Judge = _nothing
    host: HostJudge = _nothing_of_host
    together: bool = False
    about: str = ""

    @property
    def of_host(self) -> bool:
        """Whether it looks at a running host."""
        return self.host is not _nothing_of_host


def rule(  # noqa: PLR0913 (a rule's words, all by name)
    name: str,
    title: str,
    severity: Severity,
    kinds: tuple[Kind, ...],
    *,
    reason: str,
    source: str,
    fix: str = "",
    together: bool = False,
    host: HostJudge | None = None,
) -> Callable[[Judge], Rule]:
    """The function judges a sheet of one of these kinds; its docstring is what the rule is about.
    All else is as in :class:`Rule`."""

    def made(judge: Judge) -> Rule:
        about, whole = getdoc(judge) or "", host or _nothing_of_host
        return Rule(
            name, title, severity, kinds, reason, source, fix, judge, whole, together, about
        )

    return made


def host_rule(  # noqa: PLR0913 (a rule's words)
    name: str, title: str, severity: Severity, *, reason: str, source: str, fix: str = ""
) -> Callable[[HostJudge], Rule]:
    """The function judges a running host as a whole; else as :func:`rule`."""

    def made(judge: HostJudge) -> Rule:
        about = getdoc(judge) or ""
        return Rule(name, title, severity, (), reason, source, fix, host=judge, about=about)

    return made


def at(where: ConfigLine | ConfigSetting, what: str, fix: str = "") -> RuleMessage:
    """Say something of an entry or a setting."""
    entry = where.entry if isinstance(where, ConfigSetting) else where
    key = shown(where) if isinstance(where, ConfigSetting) else named(entry)
    return RuleMessage(entry.line, key, what, fix, entry.file)


def named(entry: ConfigLine) -> str:
    """An entry's key as it is written."""
    return f"{entry.key}{{{entry.part}}}" if entry.part else entry.key


def shown(setting: ConfigSetting) -> str:
    """A setting's name as people write it."""
    return f"queue/{setting.name}" if setting.family == "queue" else setting.name


_DIGITS = 20
"""Of the largest number of 64 bits: a longer text is no value, and costs time."""


def whole(text: str) -> int | None:
    """A whole number as a control file has it; None for anything else."""
    plain = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    return int(text) if plain else None


def since(scene: LintContext, *version: int) -> bool:
    """Whether the kernel is of this version or a newer one."""
    return scene.kernel >= version


def spelled(version: Version) -> str:
    """``(6, 1)`` → ``"6.1"``; the newest is ``"today's kernels"``."""
    return "today's kernels" if version == NEWEST else ".".join(map(str, version))
