"""The whole tree of a target: mount, device, disks, adapters, interfaces, interrupts, CPUs.

Sources: proc_pid_mountinfo(5) for the mount; fs/nfs/super.c and block/genhd.c for the names of
backing devices (``0:NN`` of the super block, ``major:minor`` of the whole disk), fs/btrfs/sysfs.c
for the link to that of btrfs, which has a name of its own.

A topology while it is being put together: nodes in the order they are met, each once.

Seen: what was read of a host so far, and what somebody would still like to know.

Whoever builds a tree asks as if everything were known; what is not known yet answers with
nothing and is noted.  Then all that was noted is read in one round trip and the tree is built
again, until nobody asks for anything new.  So each level of the machine costs one round trip,
however wide it is, and the code that follows the levels reads like code that just reads.

Block devices: from the one under test down to the disks.

Device-mapper and md are virtual devices with ``slaves/``, so one search finds what every one of
them is built on.  A dm device says by its uuid what it is: ``mpath-`` a multipath map, ``LVM-``
a logical volume whose name holds group and volume, ``-`` doubled (lib/device_mapper's
dm_split_lvm_name()).  NVMe's own multipathing shows the paths as hidden disks, nvme0c1n1 being
one of nvme0n1.

What disks hang on: SCSI hosts and remote ports, iSCSI sessions, NVMe controllers.

The folder of a disk in /sys names all of them, so nothing has to be searched.  Sources: the
kernel's drivers/scsi (scsi_transport_fc.c, scsi_transport_iscsi.c, scsi_transport_sas.c for the
names), drivers/nvme/host (multipath.c nvme_mpath_set_disk_name(), sysfs.c), and
Documentation/ABI/testing/sysfs-class-iscsi*, sysfs-nvme.

PCI functions and interrupts: the metal at the bottom.

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci (msi_irqs, numa_node,
current_link_speed and its like, slots), proc_interrupts(5) and kernel/irq/proc.c
show_interrupts() for the columns of /proc/interrupts.

Network interfaces: the one towards a server, what it is built on, and its queues.

Sources: Documentation/ABI/testing/sysfs-class-net (``lower_*``, speed, operstate), and
sysfs-class-net-queues; ip-route(8) for which interface leads to an address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from posixpath import basename
from typing import TypeVar

from iotrial.look.mounts import MountEntry, mount_of, parse_mountinfo
from iotrial.model.host import Reader
from iotrial.model.step import Probe, Read, StepResult
from iotrial.model.target import PreparedTarget, Scope, Target, Topology, TopologyNode

_BTRFS = ("find", "/sys/fs/btrfs", "-mindepth", "3", "-maxdepth", "3", "-path", "*/devices/*")
_NEVER_SHOWN = ("ram", "zram", "fd", "sr")


def topology(host: Reader, aim: PreparedTarget) -> Topology:
    """What lies between this target and the metal.  Whatever cannot be read is left out."""
    return topologies(host, (aim,))[0]


def topologies(host: Reader, aims: Sequence[PreparedTarget]) -> tuple[Topology, ...]:
    """Those of several targets, in the same round trips."""
    return build(host, lambda seen: tuple(_of(seen, aim) for aim in aims))


def devices_here(host: Reader) -> tuple[Topology, ...]:
    """Those of all block devices that are not a part of another one; without the CPUs, which
    are the same for all."""
    return build(host, lambda seen: tuple(_done(_way(seen, aim)) for aim in _uppermost(seen)))


def _uppermost(seen: _TopologyFacts) -> list[PreparedTarget]:
    draft = _TopologyDraft(seen)
    known = devices(draft)
    within = {name: basename(folder.rpartition("/")[0]) for name, folder in known.items()}
    parts = {name for name, disk in within.items() if disk in known}
    built_on = {leg for legs in slaves(draft).values() for leg in legs}
    below = built_on | {within[leg] for leg in built_on & parts}
    names = [
        name
        for name in sorted(set(known) - parts - below, key=in_order)
        if not name.startswith(_NEVER_SHOWN)
        and seen.text(f"{known[name]}/hidden") != "1"
        and seen.text(f"{known[name]}/size") not in ("", "0")
    ]
    return [
        PreparedTarget(Target(name, "device", f"/dev/{name}"), f"/dev/{name}", name, None)
        for name in names
    ]


def _of(seen: _TopologyFacts, aim: PreparedTarget) -> Topology:
    draft = _way(seen, aim)
    cpus = members(seen.text("/sys/devices/system/cpu/online"))
    numa = _numa(seen)
    threads = _threads(seen, cpus)
    for cpu in cpus:
        about = (("numa", numa.get(cpu, "")), ("thread", threads.get(cpu, "")))
        draft.leaf("cpu", f"cpu{cpu}", *about)
    return _done(draft)


_NODES = "/sys/devices/system/node"
_CPUS = "/sys/devices/system/cpu"


def _numa(seen: _TopologyFacts) -> dict[str, str]:
    """CPU → its node; nothing where there is one node."""
    nodes = members(seen.text(f"{_NODES}/has_cpu"))
    if len(nodes) < 2:  # noqa: PLR2004 (one is no choice)
        return {}
    lists = {node: seen.text(f"{_NODES}/node{node}/cpulist") for node in nodes}
    return {cpu: node for node, text in lists.items() for cpu in members(text)}


def _threads(seen: _TopologyFacts, cpus: Sequence[str]) -> dict[str, str]:
    """CPU → which thread of its core it is, of all but the first ones."""
    if seen.text(f"{_CPUS}/smt/active") != "1":
        return {}
    found = {}
    for cpu in cpus:
        core = members(seen.text(f"{_CPUS}/cpu{cpu}/topology/thread_siblings_list"))
        if core.index(cpu) if cpu in core else 0:
            found[cpu] = str(core.index(cpu) + 1)
    return found


def _done(draft: _TopologyDraft) -> Topology:
    return Topology(tuple(draft.nodes.values()))


def _way(seen: _TopologyFacts, aim: PreparedTarget) -> _TopologyDraft:
    draft = _TopologyDraft(seen)
    mounts = parse_mountinfo(seen.text("/proc/self/mountinfo"))
    for mount in _mounts(draft, aim, mounts):
        draft.node("mount", mount.point, partial(_mount, draft, aim, mount))
    if aim.device:
        device(draft, aim.device)
        number = seen.text(f"{folder_of(draft, aim.device)}/dev")
        if number:
            draft.leaf("bdi", number)
            draft.leaf("cgroup", number)
    return draft


def _mounts(
    draft: _TopologyDraft, aim: PreparedTarget, mounts: Sequence[MountEntry]
) -> list[MountEntry]:
    """The mount that a file or directory lies on; of a device all that show it, each file system
    once."""
    if aim.target.kind in ("file", "directory"):
        found = mount_of(aim.path, mounts)
        return [found] if found else []
    if not aim.device:
        return []
    names = (aim.device, *partitions(draft, aim.device))
    numbers = {draft.seen.text(f"{folder_of(draft, name)}/dev") for name in names} - {""}
    once: dict[str, MountEntry] = {}
    for mount in mounts:
        if mount.devno in numbers:
            once.setdefault(mount.devno, mount)
    return list(once.values())


def _mount(draft: _TopologyDraft, aim: PreparedTarget, mount: MountEntry) -> Grown:
    below = [*_backing(draft, aim, mount)]
    if aim.device:
        below.append(device(draft, aim.device))
    else:
        below += towards(draft, _server(mount))
    return tuple(below), (("type", mount.fstype), ("from", mount.source))


def _server(mount: MountEntry) -> str:
    """The address that NFS and SMB show among their options."""
    options = (option.partition("=") for option in mount.options)
    return next((value for name, _, value in options if name == "addr"), "")


def _backing(draft: _TopologyDraft, aim: PreparedTarget, mount: MountEntry) -> tuple[Key, ...]:
    """The backing device of a file system: its own, or that of the disk."""
    own = mount.devno if mount.devno in draft.seen.names("/sys/class/bdi") else ""
    number = draft.seen.text(f"{folder_of(draft, aim.device)}/dev") if aim.device else ""
    name = own or (_btrfs(draft, aim) if mount.fstype == "btrfs" else "") or number
    return (draft.leaf("bdi", name),) if name else ()


def _btrfs(draft: _TopologyDraft, aim: PreparedTarget) -> str:
    """/sys/fs/btrfs/UUID/devices/vda2 says whose it is, UUID/bdi its backing device."""
    names = {aim.device, *partitions(draft, aim.device)}
    for line in draft.seen.said(*_BTRFS):
        if basename(line) in names:
            links = draft.seen.links(line.partition("/devices/")[0])
            return basename(links.get("bdi", ""))
    return ""


Key = tuple[Scope, str]
Facts = tuple[tuple[str, str], ...]
Grown = tuple[tuple[Key, ...], Facts]
"""What a node is built on, and facts about it."""


@dataclass(slots=True)
class _TopologyDraft:
    """What was seen, and the nodes so far."""

    seen: _TopologyFacts
    nodes: dict[Key, TopologyNode] = field(default_factory=dict)

    def node(self, scope: Scope, name: str, grow: Callable[[], Grown]) -> Key:
        """Have this node; ``grow`` is asked the first time only, and makes what is below."""
        key: Key = (scope, name)
        if key not in self.nodes:
            self.nodes[key] = TopologyNode(scope, name)  # its place is above what it is built on
            below, about = grow()
            self.nodes[key] = TopologyNode(scope, name, tuple(dict.fromkeys(below)), said(about))
        return key

    def leaf(self, scope: Scope, name: str, *about: tuple[str, str]) -> Key:
        """Have this node, which is built on nothing."""
        return self.node(scope, name, lambda: ((), about))


def said(about: Facts) -> Facts:
    """The facts that say something."""
    return tuple((name, value) for name, value in about if value)


_MOST = 12
"""Round trips after which the tree is taken as it is: a machine is not that deep."""

Built = TypeVar("Built")


class _TopologyFacts:
    """The answers so far.  Everything is text; '' is what is not there, is refused, or is not
    known yet."""

    def __init__(self) -> None:
        self._known: dict[Probe, str] = {}
        self._wanted: dict[Probe, None] = {}

    def text(self, path: str) -> str:
        """The content of a small file without its surrounding blanks."""
        return self._answer(Probe(path=path))

    def output(self, *argv: str) -> str:
        """What a command prints; nothing when it fails."""
        return self._answer(Probe(argv=argv))

    def said(self, *argv: str) -> tuple[str, ...]:
        """Its lines."""
        return tuple(self.output(*argv).splitlines())

    def names(self, folder: str) -> tuple[str, ...]:
        """Sorted names in a folder."""
        return self.said("ls", folder)

    def links(self, folder: str) -> dict[str, str]:
        """Where the links in a folder of /sys/class lead, as paths below /sys/devices.

        POSIX says how ls -l shows a link, so this also works where find has no -printf.
        """
        return _links(self.output("ls", "-l", folder))

    def _answer(self, probe: Probe) -> str:
        if probe not in self._known:
            self._wanted[probe] = None
        return self._known.get(probe, "")

    def learn(self, host: Reader) -> bool:
        """Read all that was asked for in vain; False when there was nothing."""
        wanted = list(self._wanted)
        self._wanted.clear()
        if not wanted:
            return False
        answers = host.batch([Read(probe) for probe in wanted])
        for probe, answer in zip(wanted, answers, strict=True):
            if _went_meanwhile(probe, answer):
                continue  # not known, so that it is asked for again
            text = answer.raw.decode("utf-8", "surrogateescape") if answer.errno == 0 else ""
            self._known[probe] = text.replace("\0", "").strip()
        return True


def _went_meanwhile(probe: Probe, answer: StepResult) -> bool:
    """Whether ls failed only because one of the links went while it looked at them."""
    listing = probe.argv[:2] == ("ls", "-l")
    return bool(listing and answer.errno and f"{probe.argv[2]}/" in answer.complaint)


@lru_cache(maxsize=16)
def _links(listed: str) -> dict[str, str]:
    """Asked again for every device, so parsed once: a machine may have thousands."""
    found = {}
    for line in listed.splitlines():
        head, arrow, goal = line.partition(" -> ")
        _, devices, below = goal.partition("/devices/")
        if arrow and devices:
            found[head.split()[-1]] = f"/sys/devices/{below}"
    return found


def build(host: Reader, how: Callable[[_TopologyFacts], Built]) -> Built:
    """What ``how`` builds once it has seen all it asks for."""
    seen = _TopologyFacts()
    built = how(seen)
    for _ in range(_MOST):
        if not seen.learn(host):
            break
        built = how(seen)
    return built


_VIRTUAL = "/sys/devices/virtual/block"
_SLAVES = ("find", _VIRTUAL, "-mindepth", "3", "-maxdepth", "3", "-path", "*/slaves/*")
_HEAD = re.compile(r"^nvme(\d+)n(\d+)$")
_UUID = 36  # the group's half of an LVM uuid: LVM- and 32 characters


def devices(draft: _TopologyDraft) -> dict[str, str]:
    """Every block device, partitions too: its name and its folder in /sys."""
    return draft.seen.links("/sys/class/block")


def folder_of(draft: _TopologyDraft, name: str) -> str:
    return devices(draft).get(name, f"/sys/class/block/{name}")


def slaves(draft: _TopologyDraft) -> dict[str, tuple[str, ...]]:
    """What each device-mapper and md device is built on."""
    return _legs(draft.seen.output(*_SLAVES))


@lru_cache(maxsize=16)
def _legs(listed: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        upper, _, lower = line.removeprefix(f"{_VIRTUAL}/").partition("/slaves/")
        found.setdefault(upper, []).append(lower)
    return {upper: tuple(sorted(lower, key=in_order)) for upper, lower in found.items()}


def in_order(name: str) -> tuple[int, str]:
    """sda before sdaa, dm-2 before dm-10."""
    return (len(name), name)


def partitions(draft: _TopologyDraft, disk: str) -> tuple[str, ...]:
    """Partitions of a disk, which are folders in its folder."""
    above = folder_of(draft, disk)
    found = (name for name, folder in devices(draft).items() if folder == f"{above}/{name}")
    return tuple(sorted(found, key=in_order))


def paths(draft: _TopologyDraft, name: str) -> tuple[str, ...]:
    """The hidden paths of an NVMe namespace that the kernel multipaths itself."""
    head = _HEAD.match(name)
    if not head:
        return ()
    pattern = re.compile(rf"nvme{head[1]}c\d+n{head[2]}")
    return tuple(sorted((n for n in devices(draft) if pattern.fullmatch(n)), key=in_order))


def device(draft: _TopologyDraft, name: str) -> Key:
    """The device under test and all below it."""
    return draft.node("device", name, lambda: _device(draft, name))


def _device(draft: _TopologyDraft, name: str) -> Grown:
    through: list[str] = []
    below = _layer(draft, name, through, ())
    folder = folder_of(draft, name)
    backing = draft.seen.text(f"{folder}/loop/backing_file")
    about = (("through", ", ".join(through)), ("backing", backing))
    return below, about


def _layer(
    draft: _TopologyDraft, name: str, through: list[str], above: tuple[str, ...]
) -> tuple[Key, ...]:
    """The nodes that ``name`` is or is built on.  ``through`` collects layers that no setting
    belongs to (a partition of a map); ``above`` are the devices on the way."""
    folder = folder_of(draft, name)
    parent = basename(folder.rpartition("/")[0])
    if parent in devices(draft):  # a partition: its disk has the queue
        return _layer(draft, parent, through, above)
    legs = () if name in above else slaves(draft).get(name, ())
    uuid, title = _mapped(draft, name)

    def grow(*about: tuple[str, str]) -> Grown:
        way = (*above, name)
        return tuple(key for leg in legs for key in _layer(draft, leg, through, way)), about

    own = _own_layer(draft, uuid, title, above)
    if own:
        return (draft.node(*own, lambda: grow(("device", name))),)
    if name.startswith("md") and legs:
        return (draft.node("array", name, lambda: grow(*_array(draft, folder))),)
    if legs:
        if not uuid.startswith("LVM-"):
            through.append(f"{_kind(uuid)} {title or name} = {name}".strip())
        return grow()[0]
    hidden = paths(draft, name)
    return tuple(disk(draft, each) for each in hidden or (name,))


def _own_layer(draft: _TopologyDraft, uuid: str, title: str, above: tuple[str, ...]) -> Key | None:
    """What a device-mapper device is called, where it has settings of its own."""
    if uuid.startswith("mpath-"):
        return ("map", title)
    if uuid.startswith("LVM-") and not _same_group(draft, uuid, above):
        return ("volume", volume(title))
    return ("crypt", title) if uuid.startswith("CRYPT-") else None


def _mapped(draft: _TopologyDraft, name: str) -> tuple[str, str]:
    """Uuid and name of a device-mapper device."""
    if not name.startswith("dm-"):
        return "", ""
    folder = folder_of(draft, name)
    return draft.seen.text(f"{folder}/dm/uuid"), draft.seen.text(f"{folder}/dm/name")


def _same_group(draft: _TopologyDraft, uuid: str, above: tuple[str, ...]) -> bool:
    """Is there a volume of the same group above: is this a part of it (``pool``, ``rimage``)?"""
    uppers = (draft.seen.text(f"{folder_of(draft, upper)}/dm/uuid") for upper in above)
    return any(upper[:_UUID] == uuid[:_UUID] for upper in uppers)


def volume(title: str) -> str:
    """Group and name of a logical volume.

    >>> volume("vg--a-lv--b")
    'vg-a/lv-b'
    """
    parts = re.split(r"(?<!-)-(?!-)", title, maxsplit=1)
    return "/".join(part.replace("--", "-") for part in parts)


def _kind(uuid: str) -> str:
    """part1-mpath-… → part1."""
    return uuid.partition("-")[0].lower() if "-" in uuid else ""


def _array(draft: _TopologyDraft, folder: str) -> Facts:
    read = draft.seen.text
    missing = read(f"{folder}/md/degraded")
    return (
        ("level", read(f"{folder}/md/level")),
        ("state", f"degraded by {missing}" if missing not in ("", "0") else ""),
    )


def disk(draft: _TopologyDraft, name: str) -> Key:
    """A disk at the bottom, and what it hangs on."""
    return draft.node("disk", name, lambda: _disk(draft, name))


def _disk(draft: _TopologyDraft, name: str) -> Grown:
    folder = folder_of(draft, name)
    below, facts = hung_on(draft, folder)
    read = draft.seen.text
    queues = draft.seen.names(f"{folder}/mq")
    about = (
        ("model", " ".join(read(f"{folder}/device/model").split())),
        ("state", read(f"{folder}/device/state")),
        ("ana", read(f"{folder}/ana_state")),
        *facts,
        ("queues", str(len(queues)) if queues else ""),
    )
    return below, about


_HOST = re.compile(r"/(host\d+)(?=/)")
_RPORT = re.compile(r"/(rport-[\d:-]+)/")
_SESSION = re.compile(r"/session(\d+)/")
_CONTROLLER = re.compile(r"^nvme\d+$")
_SIGNS = (("/ata", "ata"), ("/end_device-", "sas"), ("/usb", "usb"), ("/virtio", "virtio"))


def hung_on(draft: _TopologyDraft, folder: str) -> tuple[tuple[Key, ...], Facts]:
    """What the disk whose folder this is hangs on; where that is no adapter that has a name of
    its own (virtio), its interrupts and the facts of its PCI function."""
    controller = basename(folder.rpartition("/")[0])
    if _CONTROLLER.match(controller):
        key = draft.node("nvme", controller, lambda: _nvme(draft, folder.rpartition("/")[0]))
        return (key,), ()
    if _HOST.search(folder):
        return (_port(draft, folder),), (("transport", _transport(folder)),)
    return metal(draft, folder)


def _port(draft: _TopologyDraft, folder: str) -> Key:
    """What is between the SCSI disk and its host: a remote port, a session, or nothing."""
    rport, session = _RPORT.search(folder), _SESSION.search(folder)
    if rport:
        name = rport[1]
        place = folder[: folder.index(f"/{name}/")]
        return draft.node("remote-port", name, lambda: _remote_port(draft, name, place))
    if session:
        number = session[1]
        return draft.node(
            "iscsi-session", f"session{number}", lambda: _session(draft, number, folder)
        )
    return _host(draft, folder)


def _host(draft: _TopologyDraft, folder: str) -> Key:
    """The last host in the path: a virtual Fibre Channel port is a host below a host."""
    last = [*_HOST.finditer(f"{folder}/")][-1]
    place = folder[: last.end()]
    return draft.node("scsi-host", last[1], lambda: _scsi_host(draft, last[1], place))


def _scsi_host(draft: _TopologyDraft, name: str, place: str) -> Grown:
    read = draft.seen.text
    irqs, facts = metal(draft, place)
    own = read(f"/sys/class/scsi_host/{name}/proc_name")
    state, speed = (read(f"/sys/class/fc_host/{name}/{at}") for at in ("port_state", "speed"))
    return irqs, (
        ("state", state),
        ("transport", "fc" if state else ""),
        ("speed", speed if state and speed.lower() != "unknown" else ""),
        *(() if dict(facts).get("driver") else (("driver", own.replace("<NULL>", "")),)),
        *facts,
    )


def _remote_port(draft: _TopologyDraft, name: str, place: str) -> Grown:
    folder = f"/sys/class/fc_remote_ports/{name}"
    read = draft.seen.text
    about = (("state", read(f"{folder}/port_state")), ("wwpn", read(f"{folder}/port_name")))
    return (_host(draft, place),), about


def _session(draft: _TopologyDraft, number: str, folder: str) -> Grown:
    read = draft.seen.text
    session = f"/sys/class/iscsi_session/session{number}"
    connection = f"/sys/class/iscsi_connection/connection{number}:0"
    place = folder[: folder.index(f"/session{number}/")]
    host = _host(draft, place)
    # The interface that the session was bound to, else the one that the route takes.
    bound = read(f"/sys/class/iscsi_host/{host[1]}/netdev")
    address = read(f"{connection}/address") or read(f"{connection}/persistent_address")
    nics = (interface(draft, bound),) if known(draft, bound) else towards(draft, address)
    about = (
        ("state", read(f"{session}/state")),
        ("portal", address),
        ("target", read(f"{session}/targetname")),
    )
    return (host, *nics), about


def _nvme(draft: _TopologyDraft, place: str) -> Grown:
    read = draft.seen.text
    irqs, facts = metal(draft, place)
    address = dict(
        part.split("=", 1) for part in read(f"{place}/address").split(",") if "=" in part
    )
    transport = read(f"{place}/transport")
    through = address.get("host_iface", "")
    nics: tuple[Key, ...] = ()
    if transport in ("tcp", "rdma"):
        nics = (
            (interface(draft, through),)
            if known(draft, through)
            else towards(draft, address.get("traddr", ""))
        )
    about = (
        ("model", read(f"{place}/model")),
        ("state", read(f"{place}/state")),
        ("transport", f"nvme-{transport}" if transport else "nvme"),
        ("portal", address.get("traddr", "")),
        *facts,
    )
    return (*nics, *irqs), about


def _transport(folder: str) -> str:
    if _RPORT.search(folder):
        return "fc"
    if _SESSION.search(folder):
        return "iscsi"
    return next((name for sign, name in _SIGNS if sign in folder), "scsi")


_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_VIRTIO = re.compile(r"/(virtio\d+)(?:/|$)")
_TRIGGER = frozenset({"Edge", "Level", "None"})
_SLOTS = ("grep", "-rs", ".", "--include=address", "/sys/bus/pci/slots")


def function_of(folder: str) -> str:
    """The folder of the PCI function that a device's folder lies in; '' for none.

    >>> function_of("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda")
    '/sys/devices/pci0000:00/0000:00:02.0'
    """
    last = None
    for match in _FUNCTION.finditer(folder):
        last = match
    return folder[: last.end()] if last else ""


def metal(draft: _TopologyDraft, folder: str) -> tuple[tuple[Key, ...], Facts]:
    """Interrupts and facts of what serves the device whose folder in /sys this is."""
    place = function_of(folder)
    numbers = _of_function(draft, place) if place else ()
    numbers = numbers or _of_virtio(draft, folder)
    names = actions(draft.seen.text("/proc/interrupts"))
    irqs = tuple(draft.leaf("irq", number, ("of", names.get(number, ""))) for number in numbers)
    facts = _facts(draft, place) if place else ()
    return irqs, (*facts, ("irqs", ranges(numbers)))


def _of_function(draft: _TopologyDraft, place: str) -> tuple[str, ...]:
    vectors = draft.seen.names(f"{place}/msi_irqs")
    legacy = draft.seen.text(f"{place}/irq")
    if vectors:
        return tuple(sorted(vectors, key=int))
    return (legacy,) if legacy not in ("", "0") else ()


def _of_virtio(draft: _TopologyDraft, folder: str) -> tuple[str, ...]:
    """virtio without PCI has one interrupt, under the name of the device (virtio_mmio.c)."""
    found = _VIRTIO.search(folder)
    if not found:
        return ()
    names = actions(draft.seen.text("/proc/interrupts"))
    return tuple(number for number, name in names.items() if _serves(name, found[1]))


def _serves(name: str, device: str) -> bool:
    return any(one == device or one.startswith(f"{device}-") for one in name.split(", "))


@lru_cache(maxsize=16)
def actions(table: str) -> dict[str, str]:
    """Number → who asked for it, of every numbered line of /proc/interrupts."""
    lines = table.splitlines()
    cpus = len(lines[0].split()) if lines else 0
    found = {}
    for line in lines[1:]:
        words = line.split()
        if words and words[0].rstrip(":").isdigit():
            found[words[0].rstrip(":")] = _action(words[cpus + 1 :])
    return found


def _action(words: list[str]) -> str:
    """``PCI-MSI 524289-edge nvme0q1``, or on Arm ``GICv3 27 Level arch_timer``."""
    name = words[2:]
    return " ".join(name[1:] if name and name[0] in _TRIGGER else name)


def _facts(draft: _TopologyDraft, place: str) -> Facts:
    seen = draft.seen
    numa = seen.text(f"{place}/numa_node")
    upstream = function_of(place.rpartition("/")[0])
    link, most = _link(draft, place)
    return (
        ("driver", _driver(seen.text(f"{place}/uevent"))),
        ("pci", basename(place)),
        ("slot", _slots(seen.said(*_SLOTS)).get(basename(place).rpartition(".")[0], "")),
        ("port", basename(upstream)),
        ("link", link),
        ("link_most", most if most != link else ""),
        ("numa", "" if numa == "-1" else numa),
    )


def _driver(uevent: str) -> str:
    found = re.search(r"^DRIVER=(.*)$", uevent, re.MULTILINE)
    return found[1] if found else ""


def _slots(lines: tuple[str, ...]) -> dict[str, str]:
    """``/sys/bus/pci/slots/3/address:0000:81:00`` → the card's address and its slot."""
    found = {}
    for line in lines:
        path, _, address = line.partition(":")
        found[address] = basename(path.rpartition("/")[0])
    return found


def _link(draft: _TopologyDraft, place: str) -> tuple[str, str]:
    """How the link runs and how it could; '' where the kernel does not know (``Unknown``, 0)."""
    read = draft.seen.text
    now = _lanes(read(f"{place}/current_link_speed"), read(f"{place}/current_link_width"))
    most = _lanes(read(f"{place}/max_link_speed"), read(f"{place}/max_link_width"))
    return now, most if now else ""


def _lanes(speed: str, width: str) -> str:
    """``8.0 GT/s PCIe`` and ``4`` → ``8 GT/s x4``; kernels differ in the first (8 GT/s)."""
    found = re.match(r"([0-9.]+) GT/s", speed)
    if not found or not width.isdigit() or width in ("0", "255"):
        return ""
    return f"{float(found[1]):g} GT/s x{width}"


def ranges(numbers: tuple[str, ...]) -> str:
    """Numbers as people write them.

    >>> ranges(("45", "46", "47", "60"))
    '45-47,60'
    """
    runs: list[list[int]] = []
    for number in sorted(int(each) for each in numbers if each.isdigit()):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else str(low) for low, high in runs)


def members(text: str) -> tuple[str, ...]:
    """What a list of the kernel's (cpulist) names.

    >>> members("0-2,8")
    ('0', '1', '2', '8')
    """
    found: list[str] = []
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        if low.isdigit() and (not high or high.isdigit()):
            found += [str(number) for number in range(int(low), int(high or low) + 1)]
    return tuple(found)


_NO_METAL = "/sys/devices/virtual/net"
_LOWER = ("find", _NO_METAL, "-mindepth", "2", "-maxdepth", "2", "-name", "lower_*")


def towards(draft: _TopologyDraft, address: str) -> tuple[Key, ...]:
    """The interface of the route to an address; none where there is no route, or no address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return ()
    said = " ".join(draft.seen.said("ip", "-o", "route", "get", address))
    found = re.search(r"(?:^|\s)dev (\S+)", said)
    return (interface(draft, found[1]),) if found else ()


def known(draft: _TopologyDraft, name: str) -> bool:
    """Is there an interface of this name?"""
    return name in draft.seen.links("/sys/class/net")


def interface(draft: _TopologyDraft, name: str) -> Key:
    """An interface and all that it is built on: members of a bond, the parent of a VLAN."""
    return draft.node("nic", name, lambda: _grow(draft, name))


def _grow(draft: _TopologyDraft, name: str) -> Grown:
    folder = draft.seen.links("/sys/class/net").get(name, f"/sys/class/net/{name}")
    lower = tuple(interface(draft, each) for each in _below(draft, name))
    queues = () if lower else _queues(draft, name, folder)
    irqs, facts = metal(draft, folder)
    read = draft.seen.text
    about = (
        ("state", read(f"{folder}/operstate")),
        ("speed", _speed(read(f"{folder}/speed"))),
        *facts,
        ("queues", _count(queues)),
    )
    return (*lower, *queues, *irqs), about


def _below(draft: _TopologyDraft, name: str) -> list[str]:
    """Bonds, VLANs and bridges are virtual, so one search finds what all of them lie on."""
    beginning = f"{_NO_METAL}/{name}/lower_"
    found = [line for line in draft.seen.said(*_LOWER) if line.startswith(beginning)]
    return sorted(basename(line).removeprefix("lower_") for line in found)


def _queues(draft: _TopologyDraft, name: str, folder: str) -> tuple[Key, ...]:
    found = draft.seen.names(f"{folder}/queues")
    ordered = sorted(found, key=lambda each: (each[:2], int(each.rpartition("-")[2])))
    return tuple(
        draft.leaf("rx" if each.startswith("rx-") else "tx", f"{name}/queues/{each}")
        for each in ordered
    )


def _count(queues: tuple[Key, ...]) -> str:
    scopes = [scope for scope, _ in queues]
    return f"{scopes.count('rx')} receive, {scopes.count('tx')} transmit" if scopes else ""


def _speed(text: str) -> str:
    """Mb/s; -1 or refused when it is down or virtual."""
    if not text.isdigit() or text == "0":
        return ""
    return f"{int(text) / 1000:g} Gbit/s" if int(text) >= 1000 else f"{text} Mbit/s"  # noqa: PLR2004
