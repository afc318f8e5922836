"""Inventory: the hosts that another file names, as if they stood in ``[hosts]``; and what a
configuration of ssh(1) may say that a study or an inventory names.

Files are read here; what they say is parsed by pure functions, of Ansible's by
:mod:`iotrial.plan.ansible`.  Of a configuration of ssh only names are read: user, port, jump hosts
and keys are ssh(1)'s business, which is told the name and the file.  ``Match`` blocks depend on
more than a name and name no host.

Such a file comes with the study, and may be a stranger's.  So it may hold only what says where a
machine is and who logs in how; what executes a program, loads a library or writes a file here is
for the user's own ~/.ssh/config to say.

Source: ssh_config(5) and readconf.c of OpenSSH 10.2 (patterns, negation, Include,
``Keyword=value``, quotes, comments).
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from iotrial.errors import StudyError
from iotrial.files import read_given
from iotrial.hosts.login import HARMLESS, is_known_hosts, is_loose, login, why_not_named
from iotrial.hosts.slurm import OWN_NODES, nodes, problem_of
from iotrial.hosts.via import is_via
from iotrial.plan import ansible
from iotrial.plan.host_entry import (
    MOST_BYTES,
    MOST_HOSTS,
    InventoryHost,
    check_name,
    chosen,
    ranged,
    refuse,
    text_of,
)
from iotrial.plan.problem import StudyProblem
from iotrial.plan.schema import HostTable, InventoryTable, StudyFile

DEEPEST = 16
"""Files that include files, as in readconf.c."""
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")
_WILD = re.compile(r"[*?!]")

Read = Callable[[str, str], list[tuple[str, bytes]]]
"""Include's words → (file, content) of each file they mean; the first argument is who includes."""
_PLAIN_LINE = re.compile(r"([A-Za-z0-9]+)(?:[ \t]*=[ \t]*|[ \t]+)([^\x00-\x08\x0a-\x1f\x7f-\x9f]+)")
"""Narrower than readconf.c, which takes a quoted keyword, or one behind a ``=``, as well."""
_AUTHENTICATION = frozenset(
    (
        "challengeresponseauthentication",
        "gssapiauthentication",
        "hostbasedauthentication",
        "kbdinteractiveauthentication",
        "passwordauthentication",
        "pubkeyauthentication",
    )
)
_ONLY = {
    "checkhostip": ("no",),  # yes: ssh adds addresses to a file of known hosts, also where strict
    "controlmaster": ("no",),
    "controlpath": ("none",),
    "controlpersist": ("no", "0"),
    "forwardagent": ("no",),
    "identityagent": ("none", "SSH_AUTH_SOCK"),
    "permitlocalcommand": ("no",),
    "updatehostkeys": ("no",),
    **dict.fromkeys(_AUTHENTICATION, ("yes", "no")),
}
"""Keywords of which these values alone are harmless."""
_ALL = 0
"""The part that is about every host: before any Host line, or below ``Host *``."""
_ADVICE = "Move it to ~/.ssh/config, which iotrial uses, and remove it here."
_STRICT = "Set StrictHostKeyChecking yes in the same section, or UserKnownHostsFile /dev/null."
Book = Callable[[InventoryTable], tuple[InventoryHost, ...]]
"""What an inventory comes to."""
_USERS = "~/.ssh/config"
_YAML = (".yml", ".yaml")


@dataclass(frozen=True, slots=True)
class _HostLine:
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


def ssh_hosts(raw: bytes, file: str, read: Read) -> tuple[_HostLine, ...]:
    """Every ``Host`` line, included files' in their place.  Raises StudyError."""
    found = []
    for each in _hosts(raw, file, read, ()):
        found.append(each)
        if len(found) > MOST_HOSTS:
            raise refuse(each.file, each.line, f"more than {MOST_HOSTS:,} Host lines")
    return tuple(found)


def ssh_entries(
    lines: Sequence[_HostLine], wanted: str | Sequence[str], file: str, options: Sequence[str]
) -> tuple[InventoryHost, ...]:
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
    return tuple(InventoryHost(name, shlex.join([*options, name])) for name in names)


def _hosts(raw: bytes, file: str, read: Read, above: tuple[str, ...]) -> Iterator[_HostLine]:
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
            yield _HostLine(
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
        what = f"not ssh_config: {error}"
        raise refuse(file, line, what, "Close the quotation.") from None


def vetted(raw: bytes, file: str) -> bool:
    """Whether the configuration names a file of known hosts.  Raises StudyError for what it may
    not say, with its line and keyword."""
    named: list[tuple[int, int]] = []
    strict: set[int] = set()
    loose, part = 0, 0
    for number, keyword, value in _lines(raw, file):
        if keyword == "host":
            part = _ALL if value == "*" else number
        elif is_known_hosts(keyword, value):
            named.append((part, number))
        elif keyword == "stricthostkeychecking":
            if value.strip('"').lower() == "yes":
                strict.add(part)
            else:
                loose = loose or number
    for part, number in named:
        # The first value that ssh finds counts: one looser line anywhere may be it.
        if loose or not strict & {part, _ALL}:
            what = "ssh could write to this known hosts file: StrictHostKeyChecking is not yes"
            raise refuse(file, number, f"{what} for it", _STRICT)
    return bool(named)


def _lines(raw: bytes, file: str) -> Iterator[tuple[int, str, str]]:
    """Number, keyword in small letters and value of each line.  Raises StudyError."""
    for number, text in enumerate(text_of(raw, file).split("\n"), start=1):
        line = text.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        match = _PLAIN_LINE.fullmatch(line)
        if not match:
            raise refuse(file, number, f"not plain ssh_config: {line[:60]!r}", _ADVICE)
        keyword, value = match[1].lower(), match[2].strip()
        if why := _acts(keyword, value):
            raise refuse(file, number, f"{match[1]} {why}", _ADVICE)
        yield number, keyword, value


def _acts(keyword: str, value: str) -> str:
    """Why a line may not stand there, or ''."""
    word = value.strip('"')
    if keyword == "host":
        return ""
    if keyword in _ONLY:
        allowed = _ONLY[keyword]
        return (
            "" if word in allowed else (f"must be {' or '.join(allowed)} here, not {word[:60]!r}")
        )
    if keyword not in HARMLESS:
        return "is not accepted in such a file: it can make ssh execute, load or write files"
    return why_not_named(keyword, word)


def looked_up(table: InventoryTable, folder: Path) -> tuple[InventoryHost, ...]:
    """The hosts of an inventory whose file is named relative to ``folder``.

    Raises StudyError, naming file and line of what cannot be meant.
    """
    if table.slurm:
        found = chosen(nodes(table.slurm), table.hosts or "*", "Slurm")
        return tuple(InventoryHost(name, f"slurm://{name}") for name in found)
    if table.ansible:
        path = _path(folder, table.ansible)
        return from_ansible(_read(path), str(path), table)
    path = _path(folder, table.ssh_config)
    return from_ssh_config(_read(path), str(path), table, _included)


def from_ansible(raw: bytes, file: str, table: InventoryTable) -> tuple[InventoryHost, ...]:
    """Of an Ansible inventory; YAML where the file's name says so, or its text looks like it."""
    parse = ansible.parse_yaml if _is_yaml(raw, file) else ansible.parse_ini
    groups = (table.group,) if isinstance(table.group, str) and table.group else tuple(table.group)
    return ansible.entries(parse(raw, file), groups, table.hosts)


def from_ssh_config(
    raw: bytes, file: str, table: InventoryTable, read: Read
) -> tuple[InventoryHost, ...]:
    """Of a configuration of ssh(1), which is told to read it where it would not by itself."""
    options = () if Path(file) == Path(_USERS).expanduser() else ("-F", file)
    return ssh_entries(ssh_hosts(raw, file, read), table.hosts, file, options)


def check_ways(ways: Iterable[tuple[str, str]]) -> None:
    """That the files which (host, ssh) name by ``-F`` have ssh(1) execute and write nothing here,
    before anything connects.  Raises StudyError."""
    seen: dict[str, bool] = {}
    for name, ssh in ways:
        options, _ = login(ssh) if ssh else ([], "")
        for file in (value for option, value in options if option == "-F"):
            if file not in seen:
                seen[file] = not _of_user(file) and vetted(_plain(file), file)
            if seen[file] and is_loose(options):
                message = f"{name}: ssh would write to the known hosts file named there"
                raise refuse(file, 0, message, "Remove StrictHostKeyChecking from ssh = …")


def _of_user(file: str) -> bool:
    """Whether ssh(1) reads it by itself, or nothing instead."""
    if file in ("none", "/dev/null"):
        return True
    own = (Path(_USERS).expanduser(), Path("/etc/ssh/ssh_config"))
    with suppress(OSError):
        return any(each.exists() and each.samefile(file) for each in own)
    return False


def _plain(file: str) -> bytes:
    """What ssh(1) would read: relative to where we are, ``~`` is no home."""
    advice = "ssh = … names it by -F, relative to the working folder of iotrial."
    try:
        if not Path(file).is_file():
            raise refuse(file, 0, "is not a readable file", advice)
        with Path(file).open("rb") as stream:
            if why := _not_yours(os.fstat(stream.fileno())):
                raise refuse(file, 0, why, "chown it to yourself, and `chmod go-w` it.")
            return stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise refuse(file, 0, f"cannot be read: {error.strerror}", advice) from None


def _not_yours(found: os.stat_result) -> str:
    """Why somebody else may have written a configuration, or may write it now; or ''."""
    own = {0, os.geteuid()}
    if not os.geteuid() and (caller := os.environ.get("SUDO_UID", "")).isdecimal():
        own.add(int(caller))
    if found.st_uid not in own:
        return f"belongs to user {found.st_uid}, who could redirect ssh to another host"
    mode = stat.S_IMODE(found.st_mode)
    return (
        f"is writable by other users (mode {mode:04o})"
        if mode & (stat.S_IWGRP | stat.S_IWOTH)
        else ""
    )


def inventory_problems(spec: StudyFile) -> Iterator[StudyProblem]:
    """What is wrong with the table itself."""
    table = spec.inventory
    if table is None:
        return
    given = [key for key in ("ssh_config", "ansible", "slurm") if getattr(table, key)]
    if len(given) != 1:
        what = f"both {given[0]} and {given[1]} are given" if given else "it does not name a file"
        advice = (
            'For example ssh_config = "~/.ssh/config", ansible = "hosts.ini",'
            ' or slurm = "$SLURM_JOB_NODELIST"'
        )
        yield StudyProblem(("inventory",), what, advice)
    elif table.slurm and (what := problem_of(table.slurm)):
        advice = f"For example slurm = '{OWN_NODES}', or slurm = 'partition=storage state=idle'"
        yield StudyProblem(("inventory", "slurm"), what, advice)
    elif table.ssh_config and not table.hosts:
        advice = 'For example hosts = "box[1-4]"'
        yield StudyProblem(("inventory",), "it does not name hosts of the configuration", advice)
    if table.group and not table.ansible:
        advice = "Groups are for Ansible: select with hosts."
        what = "Slurm" if table.slurm else "an ssh configuration"
        yield StudyProblem(("inventory", "group"), f"{what} has no groups", advice)


def with_inventory(
    spec: StudyFile, book: Book | None
) -> tuple[StudyFile, tuple[InventoryHost, ...]]:
    """The study with the inventory's hosts in ``[hosts]``, and which those are.

    Those that a target names; all of them where no target names any.  A host that ``[hosts]`` has
    too is left as it stands there.  Raises StudyError.
    """
    if spec.inventory is None or book is None:
        return spec, ()
    named = {name for target in spec.targets.values() for name in _named(target.host, target.hosts)}
    found = book(spec.inventory)
    chosen = tuple(entry for entry in found if entry.name in named or not named)
    tables = {entry.name: host_table(entry, spec.inventory.lease) for entry in chosen}
    return spec.model_copy(update={"hosts": {**tables, **spec.hosts}}), chosen


def host_table(entry: InventoryHost, lease: float) -> HostTable:
    reached = {"via" if is_via(entry.ssh) else "ssh": entry.ssh} if entry.ssh else {}
    return HostTable.model_validate({**reached, "lease": lease})


def _named(host: str, hosts: str | list[str]) -> tuple[str, ...]:
    """What a target names; what is no list of hosts is told when targets are checked."""
    try:
        return (host,) if host else ranged(hosts, "")
    except StudyError:
        return ()


def recorded(entries: Mapping[str, str]) -> Book:
    """What an inventory came to when a study was begun, however its file reads now."""
    return lambda _table: tuple(InventoryHost(name, ssh) for name, ssh in entries.items())


def _is_yaml(raw: bytes, file: str) -> bool:
    if file.endswith(_YAML):
        return True
    lines = (line for line in raw.splitlines() if line.strip() and line.strip()[:1] not in b"#;")
    first = next(lines, b"")
    return first.startswith(b"---") or (not first.startswith(b"[") and first.endswith(b":"))


def _path(folder: Path, name: str) -> Path:
    return (folder / Path(name).expanduser()).absolute()


def _read(path: Path) -> bytes:
    try:
        return read_given(path, MOST_BYTES)
    except OSError as error:
        advice = "[inventory] names it, relative to the study."
        raise refuse(str(path), 0, f"cannot be read: {error.strerror}", advice) from None


def _included(file: str, word: str) -> list[tuple[str, bytes]]:
    """What an ``Include`` means: relative to ~/.ssh, or to /etc/ssh for the system's own file."""
    home = Path("/etc/ssh") if file.startswith("/etc/ssh/") else Path("~/.ssh").expanduser()
    pattern = str(home / Path(word).expanduser())
    paths = [Path(each) for each in sorted(glob.glob(pattern))]  # noqa: PTH207 (an absolute one)
    return [(str(path), path.read_bytes()[: MOST_BYTES + 1]) for path in paths if path.is_file()]
