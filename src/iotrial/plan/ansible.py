"""Hosts of an Ansible inventory: groups, what they pass on, and how ssh(1) reaches each host.

What a file says is read by :mod:`iotrial.plan.ansible_ini` and :mod:`iotrial.plan.ansible_yaml`
into the same groups.  No template is evaluated, and ``group_vars`` folders are not read.

Source: ansible-core 2.19, *How to build your inventory* (variables of hosts beat those of groups,
of children those of parents, of groups as deep the later by name), *Connection variables of ssh*.
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from iotrial.plan.host_entry import (
    MOST_HOSTS,
    Entry,
    check_name,
    check_value,
    check_word,
    chosen,
    join,
    refuse,
)
from iotrial.plan.problem import nearest

Said = Mapping[str, tuple[str, int]]
"""Variable → what it says, and on which line."""
ALL = "all"
MOST_PORT = 65535
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "openssh")
_NUMBERS = re.compile(r"([0-9]{0,9}):([0-9]{1,9})(?::([0-9]{1,6}))?")
_LETTERS = re.compile(r"([A-Za-z]):([A-Za-z])(?::([0-9]{1,6}))?")
_LOCAL = ("local", "ansible.builtin.local")


@dataclass
class Group:
    """``hosts`` with their own variables, ``children`` by name with the line that names each."""

    hosts: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    said: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass
class Inventory:
    """``groups`` by name; ``lines`` is where each host is first named."""

    file: str
    groups: dict[str, Group] = field(default_factory=lambda: {ALL: Group()})
    lines: dict[str, int] = field(default_factory=dict)

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def add(self, group: str, names: Sequence[str], said: Said, line: int) -> None:
        """Raises StudyError for a name that cannot be one, and for too many."""
        for name in names:
            check_name(name, self.file, line)
            self.group(group).hosts.setdefault(name, {}).update(said)
            self.lines.setdefault(name, line)
        if len(self.lines) > MOST_HOSTS:
            raise refuse(self.file, line, f"more than {MOST_HOSTS:,} hosts")


def entries(
    inventory: Inventory, groups: Sequence[str], wanted: str | Sequence[str]
) -> tuple[Entry, ...]:
    """The hosts of ``groups`` (none: all) that are ``wanted`` ('': all).  Raises StudyError."""
    depths = _depths(inventory)
    names: dict[str, None] = {}
    for group in groups or (ALL,):
        if group not in inventory.groups:
            known = [name for name in inventory.groups if name != ALL]
            advice = f"{nearest(group, known)}It has: {', '.join(known) or 'none'}"
            raise refuse(inventory.file, 0, f"has no group {group!r}", advice)
        for each in _below(inventory, group):
            names.update(dict.fromkeys(inventory.groups[each].hosts))
    if groups == () or ALL in groups:
        names.update(dict.fromkeys(inventory.lines))
    if not names:
        raise refuse(inventory.file, 0, f"no host is in {', '.join(groups) or 'it'}")
    found = chosen(list(names), wanted, inventory.file) if wanted else tuple(names)
    order = sorted(inventory.groups, key=lambda name: (depths.get(name, 0), name))
    within = {name: set(_below(inventory, name)) for name in order if inventory.groups[name].said}
    return tuple(_entry(inventory, name, _said(inventory, name, order, within)) for name in found)


def _below(inventory: Inventory, group: str) -> Iterator[str]:
    """The group and all below it, each once."""
    seen, waiting = {group}, [group]
    while waiting:
        each = waiting.pop(0)
        yield each
        new = [name for name in inventory.groups[each].children if name not in seen]
        seen.update(new)
        waiting += new


def _depths(inventory: Inventory) -> dict[str, int]:
    """How deep each group is below ``all``; the deeper one's variables count.

    Raises StudyError for a child that is no group, and for a group that is below itself.
    """
    depths = dict.fromkeys(inventory.groups, 1)
    depths[ALL] = 0
    for _ in range(len(depths) + 1):
        changed = False
        for name, group in inventory.groups.items():
            for child, line in group.children.items():
                if child not in depths:
                    raise refuse(inventory.file, line, f"there is no group {child!r}")
                if depths[child] <= depths[name]:
                    depths[child], changed = depths[name] + 1, True
                if depths[child] > len(depths):
                    raise refuse(inventory.file, line, f"group {child!r} is below itself")
        if not changed:
            break
    return depths


def _said(
    inventory: Inventory, host: str, order: Sequence[str], within: Mapping[str, set[str]]
) -> Said:
    """A host's variables: of its groups from above, then its own."""
    groups = inventory.groups
    holding = {name for name, group in groups.items() if host in group.hosts}
    found: dict[str, tuple[str, int]] = {}
    for name in order:
        if name in within and (name == ALL or within[name] & holding):
            found |= groups[name].said
    for name in order:
        found |= groups[name].hosts.get(host, {})
    return found


def _entry(inventory: Inventory, name: str, said: Said) -> Entry:
    file, line = inventory.file, inventory.lines[name]
    way, at = said.get("ansible_connection", ("ssh", line))
    if way in _LOCAL:
        return Entry(name, "")
    if way not in _BY_SSH:
        raise refuse(file, at, f"{name}: ansible_connection {way[:40]!r} is not ssh")
    words = []
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        text, at = said.get(key, ("", 0))
        words += _split(text, key, file, at)
    port, at = _first(said, "ansible_port", "ansible_ssh_port", ("", 0))
    if port:
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= MOST_PORT):
            raise refuse(file, at, f"{name}: {port[:40]!r} is no port")
        words += ["-p", port]
    for key in ("ansible_ssh_private_key_file", "ansible_private_key_file"):
        if key in said:
            words += ["-i", check_value(said[key][0], key, file, said[key][1])]
            break
    host, at = _first(said, "ansible_host", "ansible_ssh_host", (name, line))
    where = check_word(host, "ansible_host", file, at)
    user, at = _first(said, "ansible_user", "ansible_ssh_user", ("", 0))
    if user:
        where = f"{check_word(user, 'ansible_user', file, at)}@{where}"
    return Entry(name, join([*words, where]))


def _split(text: str, key: str, file: str, line: int) -> list[str]:
    if "{{" in text:
        check_value(text, key, file, line)
    try:
        return shlex.split(text)
    except ValueError as error:
        raise refuse(file, line, f"{key}: {error}") from None


def _first(said: Said, name: str, older: str, default: tuple[str, int]) -> tuple[str, int]:
    return said.get(name) or said.get(older) or default


def spread(pattern: str, file: str, line: int) -> tuple[tuple[str, ...], str]:
    """``box[01:16].lan:2222`` → its names, and the port ('': none).  Raises StudyError."""
    text, port = _apart(pattern)
    parts: list[Sequence[str]] = []
    while "[" in text:
        before, _, rest = text.partition("[")
        inside, closed, text = rest.partition("]")
        if not closed:
            raise refuse(file, line, f"{pattern[:60]!r}: a bracket is not closed")
        parts += [(before,), _range(inside, pattern, file, line)]
    if "]" in text:
        raise refuse(file, line, f"{pattern[:60]!r}: a bracket was not opened")
    parts.append((text,))
    size = 1
    for part in parts:
        size *= len(part)
    if size > MOST_HOSTS:
        raise refuse(file, line, f"{pattern[:60]!r} is more than {MOST_HOSTS:,} hosts")
    return tuple("".join(words) for words in product(*parts)), port


def _apart(pattern: str) -> tuple[str, str]:
    """Without the port behind the last colon that is in no bracket."""
    head, colon, port = pattern.rpartition(":")
    if colon and port.isdigit() and head.count("[") == head.count("]"):
        return head, port
    return pattern, ""


def _range(inside: str, pattern: str, file: str, line: int) -> Sequence[str]:
    found: Sequence[str] = ()
    if match := _NUMBERS.fullmatch(inside):
        begin, end, by = match[1] or "0", match[2], int(match[3] or 1)
        width = len(begin) if begin.startswith("0") and len(begin) > 1 else 0
        if by and (not width or len(end) == width):
            most = min(int(end), int(begin) + by * MOST_HOSTS)
            found = [str(number).zfill(width) for number in range(int(begin), most + 1, by)]
    elif (match := _LETTERS.fullmatch(inside)) and (by := int(match[3] or 1)):
        letters = string.ascii_letters
        found = letters[letters.index(match[1]) : letters.index(match[2]) + 1 : by]
    if not found:
        advice = "A range is [01:16], [1:9:2] or [a:f], from the lower to the higher."
        raise refuse(file, line, f"{pattern[:60]!r}: [{inside[:30]}] is no range", advice)
    return found
