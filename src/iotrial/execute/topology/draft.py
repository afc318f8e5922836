"""A topology while it is being put together: nodes in the order they are met, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from iotrial.execute.topology.seen import Seen
from iotrial.model.topology import Node
from iotrial.model.tunable import Scope

Key = tuple[Scope, str]
Facts = tuple[tuple[str, str], ...]
Grown = tuple[tuple[Key, ...], Facts]
"""What a node is built on, and facts about it."""


@dataclass(slots=True)
class Draft:
    """What was seen, and the nodes so far."""

    seen: Seen
    nodes: dict[Key, Node] = field(default_factory=dict)

    def node(self, scope: Scope, name: str, grow: Callable[[], Grown]) -> Key:
        """Have this node; ``grow`` is asked the first time only, and makes what is below."""
        key: Key = (scope, name)
        if key not in self.nodes:
            self.nodes[key] = Node(scope, name)  # its place is above what it is built on
            below, about = grow()
            self.nodes[key] = Node(scope, name, tuple(dict.fromkeys(below)), said(about))
        return key

    def leaf(self, scope: Scope, name: str, *about: tuple[str, str]) -> Key:
        """Have this node, which is built on nothing."""
        return self.node(scope, name, lambda: ((), about))


def said(about: Facts) -> Facts:
    """The facts that say something."""
    return tuple((name, value) for name, value in about if value)
