"""An Ansible inventory in YAML form.

Nodes are read and not values: YAML would turn ``08``, ``no`` and ``1:30`` into something else, and
a tag into an object; and a node knows its line.

Source: ansible-core 2.19, the inventory plugin ``yaml`` (groups of ``hosts``, ``vars``,
``children``).
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from iotrial.errors import StudyError
from iotrial.plan.ansible import Inventory, spread
from iotrial.plan.host_entry import refuse, text_of

MOST_STEPS = 100_000
"""Entries that are looked at: aliases can make a small file a very large tree."""
_MERGE = "<<"


def parse(raw: bytes, file: str) -> Inventory:
    """Raises StudyError, naming the line."""
    root = _composed(text_of(raw, file), file)
    found = Inventory(file)
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
        raise refuse(file, 0, "is empty", "An inventory begins with a group, such as all:")
    return root


class _Reading:
    """One walk over the nodes of an inventory."""

    def __init__(self, found: Inventory) -> None:
        self._found = found
        self._steps = 0

    def group(self, name: str, line: int, node: Node, above: tuple[str, ...]) -> None:
        if name in above:
            raise self._refuse(line, f"group {name!r} is below itself")
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
            raise self._refuse(line, f"{what}: a mapping (NAME: …) is meant here")
        for key, value in node.value:
            self._steps += 1
            at = key.start_mark.line + 1
            if self._steps > MOST_STEPS:
                raise self._refuse(at, f"more than {MOST_STEPS:,} entries")
            if not isinstance(key, ScalarNode):
                raise self._refuse(at, f"{what}: a name is meant here")
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
