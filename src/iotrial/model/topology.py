"""Topology: what lies between a target and the metal, so that a setting reaches the right layer.

Pure data; ``iotrial.look.topology`` reads it from a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iotrial.model.tunable import Scope


@dataclass(frozen=True, slots=True)
class Node:
    """One thing on the way.  ``scope`` and ``name`` are what tunables belong to (``disk``,
    ``sda``); ``below`` are the nodes (scope, name) it is built on; ``about`` are facts for people
    in their order:

    ==========  ================================================================================
    device      kernel name of a map or volume (``dm-3``)
    through     layers below the device that no setting belongs to (a crypt device)
    state       of disk, port, session, controller, interface, array, as the kernel spells it
    transport   fc, sas, ata, iscsi, usb, virtio, nvme-pcie, nvme-tcp …; ``speed`` of port or link
    model       ``level`` of an array; ``type`` and ``from`` of a mount; ``backing`` file of a loop
    portal      address of a storage server; ``target`` its name; ``wwpn`` of a remote port
    driver      of the PCI function ``pci``, in ``slot``, behind the bridge ``port``
    link        how its PCI link runs; ``link_most``, where that is less, how it could
    numa        the node it is on (not there: the machine has none)
    irqs        its interrupts, as ranges; ``of`` of an interrupt: who asked for it
    queues      how many hardware queues
    ==========  ================================================================================
    """

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

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no bytes that are not UTF-8: they become ``\\udcXX``."""
        return {
            "nodes": [
                {
                    "scope": node.scope,
                    "name": _plain(node.name),
                    "below": [[scope, _plain(name)] for scope, name in node.below],
                    "about": {name: _plain(value) for name, value in node.about},
                }
                for node in self.nodes
            ]
        }


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
