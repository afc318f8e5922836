"""Placement: what each disk below a target hangs on, and whether the paths are spread.

A *way* is one disk at the bottom of a target and what serves it: adapter, port, PCI function, NUMA
node, interfaces.  Of a multipath map the disks are its paths, of an array its members.

Speeds are of payload, one direction: Fibre Channel carries 100 MB/s for each "Gbit" of its name
(FC-PI), PCI Express a lane's transfers by their line code (8b/10b below 8 GT/s, 128b/130b from
there on: PCI Express Base Specification), less a tenth for the headers of packets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.target import Scope, Topology, TopologyNode

Key = tuple[Scope, str]
_ADAPTERS = ("scsi-host", "nvme")
_PORTS = ("remote-port", "iscsi-session")
_FC_PER_GBIT = 100e6
_OLD_CODE, _NEW_CODE, _NEW_FROM = 0.8, 128 / 130, 8.0
_PACKETS = 0.9
_SPREAD = ("raid0", "raid10", "raid4", "raid5", "raid6")
"""Levels that lay what is written and read over their members evenly."""


@dataclass(frozen=True, slots=True)
class _DevicePath:
    """``adapter`` is the SCSI host or NVMe controller ('': none of its own), ``port`` what it
    reaches the storage by (a remote port's WWPN, a portal), ``function`` the address of its PCI
    function in ``slot``, ``numa`` the node of that ('': the machine has none), ``speed`` what port
    or link carry in bytes per second (0: not known), ``nics`` the interfaces at the bottom,
    ``queues`` how many hardware queues the disk has."""

    disk: str
    adapter: str = ""
    port: str = ""
    function: str = ""
    slot: str = ""
    numa: str = ""
    speed: float = 0.0
    nics: tuple[str, ...] = ()
    queues: int = 1

    @property
    def hub(self) -> str:
        """What to call the adapter, or the function where there is none."""
        return self.adapter or self.function

    def words(self) -> str:
        """``host3, port 0x5001…, PCI 0000:81:00.0 in slot 4, NUMA 1``; '' where nothing is known
        but the disk."""
        slot = f" in slot {self.slot}" if self.slot else ""
        said = (
            self.adapter,
            f"port {self.port}" if self.port else "",
            f"through {' and '.join(self.nics)}" if self.nics else "",
            f"PCI {self.function}{slot}" if self.function else "",
            f"NUMA {self.numa}" if self.numa else "",
        )
        return ", ".join(filter(None, said))


def ways(topology: Topology) -> tuple[_DevicePath, ...]:
    """One for each disk at the bottom of a target, in the topology's order."""
    index = {(node.scope, node.name): node for node in topology.nodes}
    return tuple(_way(index, node) for node in topology.nodes if node.scope == "disk")


def nics(topology: Topology) -> dict[str, float]:
    """The interfaces at the bottom of a target and what they carry one way, in bytes per second
    (0: not known)."""
    return {
        node.name: _ethernet(dict(node.about).get("speed", ""))
        for node in topology.nodes
        if node.scope == "nic" and not any(scope == "nic" for scope, _ in node.below)
    }


def spread(topology: Topology) -> bool:
    """Whether what lies below is meant to carry alike: paths of a map, or of an NVMe namespace,
    members of an array that stripes.  The other ones (linear, mirrors) need not."""
    disks = topology.names("disk")
    if len(disks) < 2:  # noqa: PLR2004 (one is even with itself)
        return False
    layers = [node for node in topology.nodes if node.scope in ("map", "array", "volume")]
    if not layers:
        return all(_is_path(disk) for disk in disks)
    top = [node for node in layers if node.scope != "volume"]
    fine = all(node.scope == "map" or dict(node.about).get("level") in _SPREAD for node in top)
    return fine and len(top) == 1 == len({node.name for node in layers})


def warnings(topology: Topology) -> tuple[str, ...]:
    """Where the paths of one map are not spread evenly over adapters or NUMA nodes, a sentence
    each.  (That all share one adapter is said elsewhere, of the same topology.)"""
    return tuple(_lopsided(topology))


def _lopsided(topology: Topology) -> Iterator[str]:
    known = {way.disk: way for way in ways(topology)}
    for node in topology.nodes:
        legs = [known[name] for scope, name in node.below if scope == "disk" and name in known]
        native = node.scope == "device" and all(_is_path(leg.disk) for leg in legs)
        if len(legs) < 2 or not (node.scope == "map" or native):  # noqa: PLR2004
            continue
        for what, of in (("adapter", [leg.hub for leg in legs]), ("NUMA node", _numa(legs))):
            counts = counted(of)
            if len(counts) > 1 and len(set(counts.values())) > 1:
                listed = ", ".join(f"{count} through {name}" for name, count in counts.items())
                yield f"the {len(legs)} paths of {node.name} are uneven by {what}: {listed}"


def _numa(legs: Sequence[_DevicePath]) -> list[str]:
    return [leg.numa and f"node {leg.numa}" for leg in legs]


def counted(names: Sequence[str]) -> dict[str, int]:
    """How often each name is there, in the order they came; the empty one is not counted."""
    found: dict[str, int] = {}
    for name in filter(None, names):
        found[name] = found.get(name, 0) + 1
    return found


def _is_path(disk: str) -> bool:
    return bool(re.fullmatch(r"nvme\d+c\d+n\d+", disk))


def _way(index: Mapping[Key, TopologyNode], disk: TopologyNode) -> _DevicePath:
    met = [disk, *_below(index, disk, {(disk.scope, disk.name)})]
    adapter = next((node for node in met if node.scope in _ADAPTERS), None)
    port = next((dict(node.about) for node in met if node.scope in _PORTS), {})
    own = dict((adapter or disk).about)
    bottom = [
        node
        for node in met
        if node.scope == "nic" and not any(scope == "nic" for scope, _ in node.below)
    ]
    # The card that does the work is the interface's where the adapter is one of software.
    place = own if "pci" in own or not bottom else dict(bottom[0].about)
    return _DevicePath(
        disk=disk.name,
        adapter=adapter.name if adapter else "",
        port=port.get("wwpn") or port.get("portal") or own.get("portal", ""),
        function=place.get("pci", ""),
        slot=place.get("slot", ""),
        numa=place.get("numa", ""),
        speed=_fc(own) or (0.0 if bottom else _pcie(own.get("link", ""))),
        nics=tuple(node.name for node in bottom),
        queues=int(dict(disk.about).get("queues") or 1),
    )


def _below(
    index: Mapping[Key, TopologyNode], node: TopologyNode, met: set[Key]
) -> Iterator[TopologyNode]:
    for key in node.below:
        lower = index.get(key)
        if lower is not None and key not in met:
            met.add(key)
            yield lower
            yield from _below(index, lower, met)


def _fc(about: Mapping[str, str]) -> float:
    found = re.match(r"(\d+(?:\.\d+)?) Gbit", about.get("speed", ""))
    return float(found[1]) * _FC_PER_GBIT if found and about.get("transport") == "fc" else 0.0


def _pcie(link: str) -> float:
    """``16 GT/s x4`` → bytes per second.

    >>> round(_pcie("8 GT/s x4") / 1e9, 2)
    3.54
    """
    found = re.match(r"([\d.]+) GT/s x(\d+)", link)
    if not found:
        return 0.0
    rate = float(found[1])
    code = _NEW_CODE if rate >= _NEW_FROM else _OLD_CODE
    return rate * 1e9 / 8 * int(found[2]) * code * _PACKETS


def _ethernet(speed: str) -> float:
    """``10 Gbit/s`` → bytes per second."""
    found = re.match(r"([\d.]+) ([GM])bit/s", speed)
    return float(found[1]) * (1e9 if found[2] == "G" else 1e6) / 8 if found else 0.0
