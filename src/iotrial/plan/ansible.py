"""Hosts of an Ansible inventory: groups, what they pass on, and how ssh(1) reaches each host.

Both forms of file, INI and YAML, are read into the same groups.  No template is evaluated, and
``group_vars`` folders are not read.  Of YAML nodes are read and not values: it would turn ``08``,
``no`` and ``1:30`` into something else, and a tag into an object; and a node knows its line.

Source: ansible-core 2.19, *How to build your inventory* (variables of hosts beat those of groups,
of children those of parents, of groups as deep the later by name), *Connection variables of ssh*;
the inventory plugins ``ini`` (sections, ``:children``, ``:vars``, words of a host's line as a
shell's, comments) and ``yaml`` (groups of ``hosts``, ``vars``, ``children``).
"""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from iotrial.errors import StudyError
from iotrial.plan.host_entry import (
    MOST_HOSTS,
    InventoryHost,
    check_name,
    check_value,
    check_word,
    chosen,
    refuse,
    text_of,
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
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_KINDS = ("", "children", "vars")
UNGROUPED = "ungrouped"
MOST_STEPS = 100_000
"""Entries that are looked at: aliases can make a small file a very large tree."""
_MERGE = "<<"


@dataclass
class _AnsibleGroup:
    """``hosts`` with their own variables, ``children`` by name with the line that names each."""

    hosts: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    said: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass
class AnsibleInventory:
    """``groups`` by name; ``lines`` is where each host is first named."""

    file: str
    groups: dict[str, _AnsibleGroup] = field(default_factory=lambda: {ALL: _AnsibleGroup()})
    lines: dict[str, int] = field(default_factory=dict)

    def group(self, name: str) -> _AnsibleGroup:
        return self.groups.setdefault(name, _AnsibleGroup())

    def add(self, group: str, names: Sequence[str], said: Said, line: int) -> None:
        """Raises StudyError for a name that cannot be one, and for too many."""
        for name in names:
            check_name(name, self.file, line)
            self.group(group).hosts.setdefault(name, {}).update(said)
            self.lines.setdefault(name, line)
        if len(self.lines) > MOST_HOSTS:
            raise refuse(self.file, line, f"more than {MOST_HOSTS:,} hosts")


def entries(
    inventory: AnsibleInventory, groups: Sequence[str], wanted: str | Sequence[str]
) -> tuple[InventoryHost, ...]:
    """The hosts of ``groups`` (none: all) that are ``wanted`` ('': all).  Raises StudyError."""
    depths = _depths(inventory)
    names: dict[str, None] = {}
    for group in groups or (ALL,):
        if group not in inventory.groups:
            known = [name for name in inventory.groups if name != ALL]
            advice = f"{nearest(group, known)}Known groups: {', '.join(known) or 'none'}"
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


def _below(inventory: AnsibleInventory, group: str) -> Iterator[str]:
    """The group and all below it, each once."""
    seen, waiting = {group}, [group]
    while waiting:
        each = waiting.pop(0)
        yield each
        new = [name for name in inventory.groups[each].children if name not in seen]
        seen.update(new)
        waiting += new


def _depths(inventory: AnsibleInventory) -> dict[str, int]:
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
                    raise refuse(inventory.file, line, f"group {child!r} does not exist")
                if depths[child] <= depths[name]:
                    depths[child], changed = depths[name] + 1, True
                if depths[child] > len(depths):
                    raise refuse(inventory.file, line, f"group {child!r} contains itself")
        if not changed:
            break
    return depths


def _said(
    inventory: AnsibleInventory, host: str, order: Sequence[str], within: Mapping[str, set[str]]
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


def _entry(inventory: AnsibleInventory, name: str, said: Said) -> InventoryHost:
    file, line = inventory.file, inventory.lines[name]
    way, at = said.get("ansible_connection", ("ssh", line))
    if way in _LOCAL:
        return InventoryHost(name, "")
    if way not in _BY_SSH:
        raise refuse(file, at, f"{name}: ansible_connection {way[:40]!r} is not ssh")
    words = []
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        text, at = said.get(key, ("", 0))
        words += _split(text, key, file, at)
    port, at = _first(said, "ansible_port", "ansible_ssh_port", ("", 0))
    if port:
        if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= MOST_PORT):
            raise refuse(file, at, f"{name}: {port[:40]!r} is not a port")
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
    return InventoryHost(name, shlex.join([*words, where]))


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
        advice = "Ranges are [01:16], [1:9:2] or [a:f], in ascending order."
        raise refuse(file, line, f"{pattern[:60]!r}: [{inside[:30]}] is not a range", advice)
    return found


def parse_ini(raw: bytes, file: str) -> AnsibleInventory:
    """Raises StudyError, naming the line."""
    found = AnsibleInventory(file)
    group, kind = UNGROUPED, ""
    for number, text in enumerate(text_of(raw, file).split("\n"), start=1):
        line = text.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and (match := _SECTION.fullmatch(line)):
            group, kind = match[1], match[2] or ""
            if kind not in _KINDS:
                advice = "Sections are [group], [group:children] and [group:vars]."
                raise refuse(file, number, f"a section of kind {kind!r}", advice)
            found.group(group)
        elif kind == "children":
            found.group(group).children[_words(line, file, number)[0]] = number
        elif kind == "vars":
            name, equals, value = line.partition("=")
            if not equals:
                raise refuse(file, number, f"not NAME=VALUE: {line[:60]!r}")
            found.group(group).said[name.strip()] = (_plain(value.strip()), number)
        elif line.startswith("[") and line.endswith("]") and ":" not in line:
            raise refuse(file, number, f"not a section: {line[:60]!r}")
        else:
            _host(found, group, line, number)
    return found


def _host(found: AnsibleInventory, group: str, line: str, number: int) -> None:
    first, *rest = _words(line, found.file, number)
    names, port = spread(first, found.file, number)
    said = {"ansible_port": (port, number)} if port else {}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals:
            advice = "Variables follow a host, for example ansible_host=10.0.0.7"
            raise refuse(found.file, number, f"not NAME=VALUE: {word[:60]!r}", advice)
        said[name] = (value, number)
    found.add(group if group != ALL else UNGROUPED, names, said, number)


def _words(line: str, file: str, number: int) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise refuse(file, number, f"{error}: {line[:60]!r}", "Close the quotation.") from None
    if not words or not words[0]:
        raise refuse(file, number, f"no name: {line[:60]!r}")
    return words


def _plain(value: str) -> str:
    """Without the quotes around it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def parse_yaml(raw: bytes, file: str) -> AnsibleInventory:
    """Raises StudyError, naming the line."""
    root = _composed(text_of(raw, file), file)
    found = AnsibleInventory(file)
    reading = _Reading(found)
    for name, line, node in reading.pairs(root, "an inventory"):
        reading.group(name, line, node, ())
    return found


def _composed(text: str, file: str) -> Node:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise refuse(file, line, f"not YAML: {error.reason}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        raise refuse(file, mark.line + 1 if mark else 0, f"not YAML: {what}") from None
    except (RecursionError, ValueError, yaml.YAMLError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise refuse(file, 0, f"not YAML: {what}") from None
    if root is None:
        raise refuse(file, 0, "is empty", "An inventory starts with a group, for example all:")
    return root


class _Reading:
    """One walk over the nodes of an inventory."""

    def __init__(self, found: AnsibleInventory) -> None:
        self._found = found
        self._steps = 0

    def group(self, name: str, line: int, node: Node, above: tuple[str, ...]) -> None:
        if name in above:
            raise self._refuse(line, f"group {name!r} contains itself")
        group = self._found.group(name)
        if self._empty(node):
            return
        for key, at, value in self.pairs(node, f"group {name!r}"):
            match key:
                case "hosts":
                    for host, where, said in self.pairs(value, "hosts", names_only=True):
                        self._host(name, host, where, said)
                case "vars":
                    group.said.update(self._said(value))
                case "children":
                    for child, where, below in self.pairs(value, "children", names_only=True):
                        group.children[child] = where
                        self.group(child, where, below, (*above, name))
                case _:
                    advice = "A group has hosts, vars and children."
                    raise self._refuse(at, f"group {name!r} has a key {key[:40]!r}", advice)

    def pairs(
        self, node: Node, what: str, *, names_only: bool = False
    ) -> Iterator[tuple[str, int, Node]]:
        """Key, line and value of a mapping; of a text or nothing, where names will do, that."""
        line = node.start_mark.line + 1
        if names_only and self._empty(node):
            return
        if names_only and isinstance(node, ScalarNode):
            yield node.value, line, ScalarNode("tag:yaml.org,2002:null", "")
            return
        if not isinstance(node, MappingNode):
            raise self._refuse(line, f"{what}: expected a mapping (NAME: …)")
        for key, value in node.value:
            self._steps += 1
            at = key.start_mark.line + 1
            if self._steps > MOST_STEPS:
                raise self._refuse(at, f"more than {MOST_STEPS:,} entries")
            if not isinstance(key, ScalarNode):
                raise self._refuse(at, f"{what}: expected a name")
            yield key.value, at, value

    def _host(self, group: str, pattern: str, line: int, node: Node) -> None:
        names, port = spread(pattern, self._found.file, line)
        said = {"ansible_port": (port, line)} if port else {}
        if not self._empty(node):
            said |= self._said(node)
        self._found.add(group, names, said, line)

    def _said(self, node: Node) -> dict[str, tuple[str, int]]:
        """Variables that are plain values; others have nothing to do with how to reach a host."""
        if self._empty(node):
            return {}
        found: dict[str, tuple[str, int]] = {}
        merged: dict[str, tuple[str, int]] = {}
        for key, line, value in self.pairs(node, "variables"):
            if key == _MERGE:
                parts = value.value if isinstance(value, SequenceNode) else [value]
                for part in parts:
                    merged = {**self._merged(part, line), **merged}
            elif isinstance(value, ScalarNode):
                found[key] = (value.value, line)
            else:
                found.pop(key, None)
        return {**merged, **found}

    def _merged(self, node: Node, line: int) -> dict[str, tuple[str, int]]:
        """What ``<<`` brings; not what is merged into that in turn, which may have no end."""
        if not isinstance(node, MappingNode):
            raise self._refuse(line, "<< is merged with a mapping")
        pairs = self.pairs(node, "variables")
        return {key: (value.value, at) for key, at, value in pairs if isinstance(value, ScalarNode)}

    def _empty(self, node: Node) -> bool:
        return isinstance(node, ScalarNode) and node.value in ("", "~", "null")

    def _refuse(self, line: int, message: str, advice: str = "") -> StudyError:
        return refuse(self._found.file, line, message, advice)
