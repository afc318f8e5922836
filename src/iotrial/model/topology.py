"""Topology: what lies between a target and the metal, so that a setting reaches the right layer.

Pure data; ``iotrial.execute.topology`` reads it from a host.
"""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.tunable import Scope


@dataclass(frozen=True, slots=True)
class Node:
    """One thing on the way.  ``scope`` and ``name`` are what tunables belong to (``disk``,
    ``sda``); ``below`` are the nodes (scope, name) it is built on; ``about`` are facts for people
    in their order: ``numa``, ``pci``, ``irqs``, ``driver``, ``speed``, ``model``."""

    scope: Scope
    name: str
    below: tuple[tuple[Scope, str], ...] = ()
    about: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Every node of one target, the top first, each once."""

    nodes: tuple[Node, ...] = ()

    def names(self, scope: Scope) -> tuple[str, ...]:
        """What a tunable of this scope is set on; ``("",)`` for the host's own."""
        if scope == "host":
            return ("",)
        return tuple(node.name for node in self.nodes if node.scope == scope)

    @classmethod
    def of_disk(cls, name: str) -> Topology:
        """A plain disk that nothing more is known of ('': none at all)."""
        if not name:
            return cls()
        return cls((Node("device", name, (("disk", name),)), Node("disk", name)))
