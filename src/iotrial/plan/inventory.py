"""Inventory: the hosts that another file names, as if they stood in ``[hosts]``.

Files are read here and nowhere else of it; what they say is parsed by pure functions
(:mod:`iotrial.plan.ssh_config`, :mod:`iotrial.plan.ansible`).
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from iotrial.errors import StudyError
from iotrial.files import read_given
from iotrial.hosts.login import is_loose, login
from iotrial.plan import ansible, ansible_ini, ansible_yaml, ssh_config
from iotrial.plan.host_entry import MOST_BYTES, Entry, ranged, refuse
from iotrial.plan.inventory_table import InventoryTable
from iotrial.plan.problem import Problem
from iotrial.plan.schema import HostTable, StudyFile
from iotrial.plan.ssh_vetted import vetted

Book = Callable[[InventoryTable], tuple[Entry, ...]]
"""What an inventory comes to."""
_USERS = "~/.ssh/config"
_YAML = (".yml", ".yaml")


def looked_up(table: InventoryTable, folder: Path) -> tuple[Entry, ...]:
    """The hosts of an inventory whose file is named relative to ``folder``.

    Raises StudyError, naming file and line of what cannot be meant.
    """
    if table.ansible:
        path = _path(folder, table.ansible)
        return from_ansible(_read(path), str(path), table)
    path = _path(folder, table.ssh_config)
    return from_ssh_config(_read(path), str(path), table, _included)


def from_ansible(raw: bytes, file: str, table: InventoryTable) -> tuple[Entry, ...]:
    """Of an Ansible inventory; YAML where the file's name says so, or its text looks like it."""
    parse = ansible_yaml.parse if _is_yaml(raw, file) else ansible_ini.parse
    groups = (table.group,) if isinstance(table.group, str) and table.group else tuple(table.group)
    return ansible.entries(parse(raw, file), groups, table.hosts)


def from_ssh_config(
    raw: bytes, file: str, table: InventoryTable, read: ssh_config.Read
) -> tuple[Entry, ...]:
    """Of a configuration of ssh(1), which is told to read it where it would not by itself."""
    options = () if Path(file) == Path(_USERS).expanduser() else ("-F", file)
    return ssh_config.entries(ssh_config.hosts(raw, file, read), table.hosts, file, options)


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
                message = f"{name}: ssh would write to the file of known hosts that is named there"
                raise refuse(file, 0, message, "Leave StrictHostKeyChecking out of ssh = …")


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
    advice = "ssh = … names it by -F, relative to where iotrial is started."
    try:
        if not Path(file).is_file():
            raise refuse(file, 0, "is no file that can be read", advice)
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
        return f"belongs to user {found.st_uid}, who could have ssh reach another machine"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may write it (mode {mode:04o})" if mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def inventory_problems(spec: StudyFile) -> Iterator[Problem]:
    """What is wrong with the table itself."""
    table = spec.inventory
    if table is None:
        return
    if bool(table.ssh_config) == bool(table.ansible):
        what = "both ssh_config and ansible are said" if table.ansible else "it names no file"
        advice = 'Such as ssh_config = "~/.ssh/config", or ansible = "hosts.ini"'
        yield Problem(("inventory",), what, advice)
    elif table.ssh_config and not table.hosts:
        advice = 'Such as hosts = "box[1-4]"'
        yield Problem(("inventory",), "it does not say which hosts of the configuration", advice)
    if table.ssh_config and table.group:
        advice = "Groups are Ansible's: choose by hosts."
        yield Problem(("inventory", "group"), "a configuration of ssh has no groups", advice)


def with_inventory(spec: StudyFile, book: Book | None) -> tuple[StudyFile, tuple[Entry, ...]]:
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


def host_table(entry: Entry, lease: float) -> HostTable:
    reached = {"ssh": entry.ssh} if entry.ssh else {}
    return HostTable.model_validate({**reached, "lease": lease})


def _named(host: str, hosts: str | list[str]) -> tuple[str, ...]:
    """What a target names; what is no list of hosts is told when targets are checked."""
    try:
        return (host,) if host else ranged(hosts, "")
    except StudyError:
        return ()


def recorded(entries: Mapping[str, str]) -> Book:
    """What an inventory came to when a study was begun, however its file reads now."""
    return lambda _table: tuple(Entry(name, ssh) for name, ssh in entries.items())


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
