"""A topology in words: a tree, one line a thing, alike things in one line; and what is odd in it.

Nothing here looks at a host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iotrial.look.topology import Key, ranges
from iotrial.model.target import Topology, TopologyNode
from iotrial.plan import placement

_SHOWN = 6
"""Names in one line; of more only the first and the last are shown."""
_INDENT = "  "
_FINE = frozenset({"", "running", "live", "online", "logged_in", "up", "unknown"})
"""States (in small letters) that need no word: SCSI disk, NVMe controller, FC port, session,
interface (unknown is what virtual ones say)."""
_LAYER = {
    "map": "multipath map",
    "volume": "logical volume",
    "crypt": "crypt device",
    "array": "array",
}
_ADAPTERS = ("scsi-host", "nvme")


def words(topology: Topology) -> tuple[str, ...]:
    """The tree for people, top first, two blanks a level; a name, and behind a colon what of the
    metal serves it.  Empty where nothing is known."""
    lines = _Lines(topology)
    mounts = [node for node in topology.nodes if node.scope == "mount"]
    for mount in mounts:
        about = dict(mount.about)
        lines.say(0, f"{mount.name}: {about.get('type', '')} from {about.get('from', '')}")
    depth = 1 if mounts else 0
    for top in mounts or [node for node in topology.nodes if node.scope == "device"]:
        lines.below((top,) if top.scope == "device" else lines.nodes(top.below), depth, "disk")
    cpus = tuple(name.removeprefix("cpu") for name in topology.names("cpu"))
    if cpus:
        lines.say(0, f"CPU{'s' if len(cpus) > 1 else ''} {ranges(cpus)}")
    return tuple(lines.said)


@dataclass(slots=True)
class _Lines:
    """The lines so far, and what has been drawn."""

    topology: Topology
    said: list[str] = field(default_factory=list)
    drawn: set[Key] = field(default_factory=set)
    index: dict[Key, TopologyNode] = field(init=False)

    def __post_init__(self) -> None:
        self.index = {(node.scope, node.name): node for node in self.topology.nodes}

    def say(self, depth: int, line: str) -> None:
        self.said.append(_INDENT * depth + _plain(line))

    def nodes(self, keys: Sequence[Key]) -> list[TopologyNode]:
        return [self.index[key] for key in keys if key in self.index]

    def below(self, nodes: Sequence[TopologyNode], depth: int, role: str) -> None:
        """Draw these side by side: disks that say the same in one line, the rest one by one."""
        fresh = [n for n in nodes if (n.scope, n.name) not in self.drawn]
        self.drawn |= {(n.scope, n.name) for n in fresh}
        disks = [n for n in fresh if n.scope == "disk"]
        alike: dict[str, list[TopologyNode]] = {}
        for disk in disks:
            alike.setdefault(_state(disk) + self._metal(disk), []).append(disk)
        for group in alike.values():
            metal = self._metal(group[0])
            head = f"{_names(role, [n.name for n in group])}{_state(group[0])}"
            self.say(depth, f"{head}: {metal}" if metal else head)
        for node in fresh:
            if node.scope == "device":
                self._device(node, depth, role)
            elif node.scope in _LAYER:
                self._layer(node, depth)
            elif node.scope == "nic":
                self._nic(node, depth)
        nics = [each for disk in disks for each in _interfaces(self.index, disk)]
        if nics:
            self.below(list(dict.fromkeys(nics)), depth + 1, role)

    def _device(self, node: TopologyNode, depth: int, role: str) -> None:
        about = dict(node.about)
        below = self.nodes(node.below)
        if [n.name for n in below if n.scope == "disk"] == [node.name] or all(
            n.scope in _LAYER and dict(n.about).get("device", n.name) == node.name for n in below
        ):
            self.below(below, depth, role)
        else:
            self.say(depth, about.get("through") or f"disk {node.name}")
            native = all(n.name.startswith("nvme") for n in below)
            self.below(below, depth + 1, "path" if native and not about.get("through") else role)
        if about.get("backing"):
            self.say(depth + 1, f"in the file {about['backing']}")

    def _layer(self, node: TopologyNode, depth: int) -> None:
        about = dict(node.about)
        kind = about.get("level") or _LAYER[node.scope]
        device = f" = {about['device']}" if about.get("device") else ""
        self.say(depth, f"{kind} {node.name}{device}{_state(node)}")
        role = {"map": "path", "array": "member"}.get(node.scope, "disk")
        self.below(self.nodes(node.below), depth + 1, role)

    def _nic(self, node: TopologyNode, depth: int) -> None:
        about = dict(node.about)
        queues = f"{about['queues']} queues" if about.get("queues") else ""
        parts = [about.get("speed", ""), *_function(about), queues]
        metal = ", ".join(part for part in parts if part)
        head = f"interface {node.name}{_state(node)}"
        self.say(depth, f"{head}: {metal}" if metal else head)
        self.below([n for n in self.nodes(node.below) if n.scope == "nic"], depth + 1, "disk")

    def _metal(self, disk: TopologyNode) -> str:
        """What serves a disk: its adapter, how it is reached, the function, interrupts."""
        about = dict(disk.about)
        parts = [about.get("model", "")]
        for node in _served_by(self.index, disk):
            own = dict(node.about)
            if node.scope in _ADAPTERS:
                way = own.get("transport") or about.get("transport", "")
                parts += [node.name + _state(node), f"{way} {own.get('speed', '')}".strip()]
                parts += [own.get("model", ""), *_function(own)]
            elif node.scope == "iscsi-session":
                parts += [node.name + _state(node), f"portal {own['portal']}" * ("portal" in own)]
            elif _state(node):
                parts.append(node.name + _state(node))
        parts += _function(about)
        if about.get("queues"):
            parts.append(f"{about['queues']} queue{'s' if about['queues'] != '1' else ''}")
        return ", ".join(dict.fromkeys(part for part in parts if part))


def _plain(text: str) -> str:
    """What a terminal can show: a mount point may hold any byte but NUL."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _names(role: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{role} {names[0]}"
    if len(names) > _SHOWN:
        return f"{len(names)} {role}s {names[0]} … {names[-1]}"
    return f"{role}s {', '.join(names)}"


def _function(about: dict[str, str]) -> list[str]:
    irqs = about.get("irqs", "")
    many = "s" if "-" in irqs or "," in irqs else ""
    return [
        about.get("driver", ""),
        about.get("pci", "") + (f" in slot {about['slot']}" if about.get("slot") else ""),
        f"link {about['link']} of {about['link_most']}" if about.get("link_most") else "",
        f"NUMA {about['numa']}" if about.get("numa") else "",
        f"IRQ{many} {irqs}" if irqs else "",
    ]


def _state(node: TopologyNode) -> str:
    state = dict(node.about).get("state", "")
    return "" if state.lower() in _FINE else f" ({state.lower()})"


def _served_by(index: dict[Key, TopologyNode], disk: TopologyNode) -> Iterator[TopologyNode]:
    """Ports, sessions and adapters below a disk."""
    for key in disk.below:
        node = index.get(key)
        if node and node.scope in ("remote-port", "iscsi-session", *_ADAPTERS):
            yield node
            yield from _served_by(index, node)


def _interfaces(index: dict[Key, TopologyNode], disk: TopologyNode) -> list[TopologyNode]:
    """The interfaces that the adapters of a disk go through."""
    keys = (key for node in _served_by(index, disk) for key in node.below)
    return [index[key] for key in keys if key[0] == "nic" and key in index]


# What is odd.


def warnings(topology: Topology) -> tuple[str, ...]:
    """What a person may not know and would want to, one sentence each: paths that share one
    card, adapters far from each other, a slow slot, what is not running."""
    index: dict[Key, TopologyNode] = {(node.scope, node.name): node for node in topology.nodes}
    return (
        *_shared(topology, index),
        *placement.warnings(topology),
        *_apart(topology),
        *_slow(topology),
        *_ailing(topology),
    )


def _shared(topology: Topology, index: dict[Key, TopologyNode]) -> Iterator[str]:
    for node in topology.nodes:
        disks = [index[key] for key in node.below if key[0] == "disk" and key in index]
        native = node.scope == "device" and any(disk.name != node.name for disk in disks)
        native = native and all(disk.name.startswith("nvme") for disk in disks)
        if node.scope != "map" and not native:
            continue
        # A local NVMe disk with two ports has one path where only one of them is wired.
        if len(disks) == 1 and not native:
            yield f"{node.name} has one path only: {disks[0].name}"
        ways = {_card(way): way for disk in disks for way in _ways(index, disk)}
        names = dict.fromkeys(way.name for disk in disks for way in _ways(index, disk))
        if len(disks) > 1 and len(ways) == 1:
            one = (
                f"one card ({', '.join(names)})" if len(names) > 1 else f"{next(iter(names))} only"
            )
            yield f"all {len(disks)} paths of {node.name} go through {one}"


def _ways(index: dict[Key, TopologyNode], disk: TopologyNode) -> list[TopologyNode]:
    """What a path goes through in the end: interfaces at the bottom, else its adapter."""
    nics = _interfaces(index, disk)
    if nics:
        return [bottom for nic in nics for bottom in _bottom(index, nic)]
    return [node for node in _served_by(index, disk) if node.scope in _ADAPTERS]


def _bottom(index: dict[Key, TopologyNode], nic: TopologyNode) -> list[TopologyNode]:
    lower = [index[key] for key in nic.below if key[0] == "nic" and key in index]
    return [bottom for each in lower for bottom in _bottom(index, each)] or [nic]


def _card(node: TopologyNode) -> str:
    """The functions of one PCI device are one card: 0000:81:00.0 and .1."""
    return dict(node.about).get("pci", "").rpartition(".")[0] or node.name


def _apart(topology: Topology) -> Iterator[str]:
    places = [
        (node.name, dict(node.about)["numa"])
        for node in topology.nodes
        if "numa" in dict(node.about) and node.scope != "cpu"
    ]
    if len({numa for _, numa in places}) > 1:
        listed = ", ".join(f"{name} on {numa}" for name, numa in places)
        yield f"devices of this target are on different NUMA nodes: {listed}"


def _slow(topology: Topology) -> Iterator[str]:
    for node in topology.nodes:
        about = dict(node.about)
        if about.get("link_most"):
            runs = f"runs at {about['link']}, its maximum is {about['link_most']}"
            yield f"the PCI link of {node.name} ({about.get('pci', '')}) {runs}"


def _ailing(topology: Topology) -> Iterator[str]:
    for node in topology.nodes:
        if _state(node):
            yield f"{node.scope} {node.name} is{_state(node).replace('(', '').replace(')', '')}"
