"""Lab, node and disk: what there is to be, as frozen values and as a file of the lab's folder; what
a node is for, beside being a host; and where labs and images lie.

A role is a script, ``guest/roles/NAME.sh``, begun at each boot, with two functions: ``start``
begins it, ``lacks`` says what is lacking yet.  ``guest/roles/lab.sh`` runs them.

All lies in a cache folder, and nowhere else.  Source: XDG Base Directory Specification 0.8
(``XDG_CACHE_HOME``); FHS 3.0, 5.5 (/var/cache).
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from iotrial.errors import HostError, UsageError

Bus = Literal["scsi", "virtio", "nvme"]
Network = Literal["lab", "lab2"]
Loader = Literal["grub", "systemd-boot"]
Link = Literal["ssh", "lab", "lab2"]
"""An interface of a node's: the way to it from here, and the networks among nodes."""
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
MOST_NODES = 8
_HARDWARE: Mapping[Link, str] = {"ssh": "aa", "lab": "77", "lab2": "78"}
_SUBNETS: Mapping[Network, int] = {"lab": 0, "lab2": 1}
MEMORY = 400
"""MiB of a node.  With the translation cache and QEMU itself it stays below 600 MB."""


@dataclass(frozen=True, slots=True)
class LabDisk:
    """``size`` is in bytes; the file is sparse.  ``paths`` is how many adapters show it to a node
    (only ``scsi``), ``shared`` whether all nodes have the same one, ``only`` the number of the one
    node that has it (0: each)."""

    name: str
    bus: Bus
    size: int = 256 * 2**20
    paths: int = 1
    shared: bool = False
    only: int = 0


@dataclass(frozen=True, slots=True)
class LabKind:
    """A kind of lab: its ``disks``; the ``networks`` that its nodes have among themselves;
    ``modules`` that are loaded at boot, with their parameters; ``files`` that a node finds on its
    root, text by path, with its role if it has one (``roles``).  It has ``nodes`` of them where
    nobody says how many, and ``fewest`` at least; ``kernel`` names the image's where nobody does;
    ``processors`` of each node (0: two where it is alone, else one).  ``loaders`` are those of its
    nodes, in their order: such a node has a disk ``boot``, and after its first boot it is the
    firmware that starts it, from there (GRUB from a BIOS, systemd-boot from UEFI); any other node
    is given its kernel by QEMU."""

    name: str
    summary: str
    disks: tuple[LabDisk, ...]
    nodes: int = 1
    fewest: int = 1
    kernel: str = "stable"
    processors: int = 0
    networks: tuple[Network, ...] = ("lab",)
    modules: tuple[tuple[str, str], ...] = ()
    loaders: tuple[Loader, ...] = ()
    files: Callable[[Lab, LabNode], Mapping[str, str]] = lambda _lab, _node: {}

    def disks_of(self, node: LabNode) -> tuple[LabDisk, ...]:
        return tuple(disk for disk in self.disks if disk.only in (0, node.number))

    def loader_of(self, node: LabNode) -> Loader | None:
        return self.loaders[node.number - 1] if node.number <= len(self.loaders) else None


@dataclass(frozen=True, slots=True)
class LabNode:
    """``number`` counts from 1.  ``port`` of 127.0.0.1 leads to its sshd."""

    name: str
    number: int
    port: int = 0

    @property
    def address(self) -> str:
        """On the lab's first network."""
        return self.address_on("lab")

    def address_on(self, network: Network) -> str:
        return f"10.77.{_SUBNETS[network]}.{self.number}"

    def hardware(self, link: Link) -> str:
        """The hardware address of one of its interfaces."""
        return f"52:54:00:{_HARDWARE[link]}:00:{self.number:02x}"


@dataclass(frozen=True, slots=True)
class Lab:
    """``folder`` is its own, ``image`` that of its image; ``group`` is the multicast address and
    port by which its nodes hear each other; each further network has the next port."""

    name: str
    kind: str
    folder: Path
    image: Path
    group: str
    nodes: tuple[LabNode, ...]

    @property
    def kernel(self) -> str:
        """``stable`` or ``backports``: the second word of its image's name."""
        return [*self.image.name.split("-"), ""][1]

    def place(self, node: LabNode) -> Path:
        return self.folder / node.name

    def pid_file(self, node: LabNode) -> Path:
        """On the command line of the node's QEMU, and of no other process."""
        return self.place(node) / "pid"

    def serial(self, node: LabNode) -> Path:
        return self.place(node) / "serial.log"

    def firmware(self, node: LabNode) -> Path:
        """There once the node's loader is installed; of UEFI it holds the variables."""
        return self.place(node) / "firmware"

    def disk_file(self, node: LabNode, disk: LabDisk) -> Path:
        return (self.folder if disk.shared else self.place(node)) / f"{disk.name}.raw"

    def group_of(self, network: Network) -> str:
        address, _, port = self.group.partition(":")
        return f"{address}:{int(port) + _SUBNETS[network]}"

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    def way(self, node: LabNode) -> str:
        """How ssh(1) reaches a node: what stands in a study as ``ssh``."""
        return f"-F {self.ssh_config} {node.name}"


@dataclass(frozen=True, slots=True)
class LabRequest:
    """What `up` was asked for; None is whatever the kind, or the lab that is there, has."""

    kind: str
    name: str
    nodes: int | None = None
    kernel: str | None = None

    def problem(self, lab: Lab) -> str:
        """'' where ``lab`` is what is wished for, else in what it differs."""
        pairs = (
            ("its kind", lab.kind, self.kind),
            ("its kernel", lab.kernel, self.kernel),
            ("its number of nodes", len(lab.nodes), self.nodes),
        )
        wrong = [
            f"{what} is {has}, not {asked}"
            for what, has, asked in pairs
            if asked is not None and asked != has
        ]
        return "; ".join(wrong)


def checked_name(name: str) -> str:
    """Raises UsageError for what cannot be the name of a lab."""
    if not NAME.fullmatch(name) or name in ("all", "images"):
        raise UsageError(
            f"{name!r} cannot be the name of a lab",
            advice="A letter, then letters, digits and -, all small: --name disks-2",
        )
    return name


def planned(wish: LabRequest, kind: LabKind, *, folder: Path, image: Path) -> Lab:
    """The lab that is wished for, not yet made.  Raises UsageError for a number of nodes that
    cannot be."""
    count = kind.nodes if wish.nodes is None else wish.nodes
    if not kind.fewest <= count <= MOST_NODES:
        raise UsageError(
            f"--nodes {count}: a lab {kind.name} has from {kind.fewest} to {MOST_NODES}",
            advice="Each takes up to 600 MB of memory.",
        )
    nodes = tuple(LabNode(f"{wish.name}-{number}", number) for number in range(1, count + 1))
    return Lab(wish.name, kind.name, folder, image, _group(), nodes)


def _group() -> str:
    """A multicast address of those that are free within a site (RFC 2365), and a port: two labs
    have the same by chance in one of 10^10 cases."""
    first, second, third = (random.randrange(1, 255) for _ in range(3))
    return f"239.{192 + first % 4}.{second}.{third}:{random.randrange(20000, 60000)}"


def identity(lab: Lab, node: LabNode, disk: LabDisk) -> tuple[str, str]:
    """The serial number and the WWN of a disk: the same at every boot, other in every lab.
    At most 20 letters, which virtio-blk can hold."""
    owner = "" if disk.shared else node.name
    mark = hashlib.sha256(f"{lab.name}/{owner}/{disk.name}".encode()).hexdigest()[:8]
    return f"{disk.name.upper()[:11]}-{mark}", f"0x5000c500{mark}"


def save(lab: Lab) -> None:
    """Write it into its folder."""
    row = asdict(lab) | {"format": 1, "folder": str(lab.folder), "image": str(lab.image)}
    path = lab.folder / "lab.json"
    beside = path.with_name(".lab.json.new")
    beside.write_text(json.dumps(row, indent=1) + "\n", "utf-8")
    beside.replace(path)


def load(folder: Path) -> Lab:
    """The lab of a folder.  Raises HostError where what lies there is no lab."""
    try:
        row = json.loads((folder / "lab.json").read_bytes())
        nodes = tuple(LabNode(each["name"], each["number"], each["port"]) for each in row["nodes"])
        image = Path(row["image"])
        return Lab(row["name"], row["kind"], folder, image, row["group"], nodes)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(
            f"{folder} is not a whole lab: {error}",
            advice=f"Take it down, which removes it: iotrial vmlab down {folder.name}",
        ) from error


# -- roles -----------------------------------------------------------------------------------------

SCRIPT = "etc/iotrial-lab"
UNIT = "etc/systemd/system/iotrial-lab.service"
WANTED = "etc/systemd/system/multi-user.target.wants/iotrial-lab.service"
"""Where a link to the unit makes systemd start it."""
WHOLE = f"if [ -e /{SCRIPT} ]; then sh /{SCRIPT} whole; fi"
"""What a node is asked: exit 0 when its role is fulfilled, or it has none; else stderr says what
is lacking."""


def role(name: str, **values: str) -> dict[str, str]:
    """The files of this role, text by path; ``values`` are the script's variables."""
    folder = files("iotrial_vmlab") / "guest/roles"
    return {
        SCRIPT: (folder / "lab.sh").read_text("utf-8"),
        f"{SCRIPT}.role": (folder / f"{name}.sh").read_text("utf-8"),
        f"{SCRIPT}.conf": "".join(f"{key}={shlex.quote(text)}\n" for key, text in values.items()),
        UNIT: (folder / "iotrial-lab.service").read_text("utf-8"),
    }


# -- places ----------------------------------------------------------------------------------------

CACHE = "IOTRIAL_CACHE"
"""The environment variable that moves the cache (tests)."""
SYSTEM = Path("/var/cache/iotrial")


@dataclass(frozen=True, slots=True)
class LabFolders:
    """``images``: folders in which images are looked for; new ones are built in the first.
    ``labs`` holds a folder for each lab, ``locks`` a file for each."""

    images: tuple[Path, ...]
    labs: Path
    locks: Path


def places(uid: int, environment: Mapping[str, str]) -> LabFolders:
    """The places of a user with this numeric id and environment.  What root has built is there
    for everybody.

    >>> places(0, {}).labs
    PosixPath('/var/cache/iotrial/vmlab/labs')
    """
    root = _cache(uid, environment) / "vmlab"
    shared = SYSTEM / "vmlab/images"
    images = tuple(dict.fromkeys((root / "images", shared)))
    return LabFolders(images, root / "labs", root / "locks")


def _cache(uid: int, environment: Mapping[str, str]) -> Path:
    if given := environment.get(CACHE):
        return Path(given)
    if uid == 0:
        return SYSTEM
    base = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '/')}/.cache"
    return Path(base) / "iotrial"
