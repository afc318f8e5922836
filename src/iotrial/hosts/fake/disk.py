"""Block devices of the fake host, as ``/sys/block`` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from iotrial.hosts.fake.names import index
from iotrial.hosts.fake.queue import FakeQueue
from iotrial.hosts.fake.queues import QUEUES

SECTOR = 512
KNOBS = "queue/iosched/"
"""Below it only files are, and only those of the scheduler in use: most that are asked for are not
there."""
GIB = 2**30
LOOP_MAJOR = 7
BLOCKS = "/sys/devices/virtual/block"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk to be pretended.  ``size`` in bytes.  ``signature`` is the filesystem (or ``swap``)
    that blkid finds on it, on its partition 1 where ``partitioned``; ``mount`` the folder it is
    mounted on; ``swap`` whether the kernel swaps to it; ``holder`` the dm device built on it."""

    name: str
    devno: tuple[int, int]
    size: int = GIB
    serial: str = ""
    wwid: str = ""
    partitioned: bool = False
    signature: str = ""
    mount: str = ""
    swap: bool = False
    holder: str = ""

    @property
    def content(self) -> str:
        """The kernel name of what carries the signature."""
        return f"{self.name}1" if self.partitioned else self.name

    @property
    def content_devno(self) -> tuple[int, int]:
        return (self.devno[0], self.devno[1] + 1) if self.partitioned else self.devno


DISKS = (
    Disk("fake0", (240, 0), serial="FAKE0000", wwid="naa.600fa4e000000000"),
    Disk("fake1", (240, 16), serial="FAKE0001", wwid="naa.600fa4e000000001"),
    Disk(
        "fakesys",
        (240, 32),
        size=64 * GIB,
        serial="FAKESYS",
        partitioned=True,
        signature="ext4",
        mount="/",
    ),
    Disk("fakeswap", (240, 48), serial="FAKESWAP", signature="swap", swap=True),
    Disk("fakefs", (240, 64), serial="FAKEFS", signature="xfs"),
    Disk("fakeleg", (240, 80), serial="FAKELEG", holder="dm-0"),
)
"""Two free disks, the system's own, one to swap to, one with an unmounted filesystem, one that a
device-mapper device is built on: each refusal can be shown."""


@dataclass
class Block:
    """A block device that exists now.  ``backing`` is what a loop device is attached to: path and
    inode.  ``moved`` counts reads, sectors read, writes, sectors written."""

    name: str
    devno: tuple[int, int]
    size: int
    queue: FakeQueue
    disk: Disk | None = None
    backing: tuple[str, int] | None = None
    moved: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    _known: tuple[tuple[int, str | None, int], Own] | None = field(default=None, compare=False)

    @property
    def folder(self) -> str:
        return f"{BLOCKS}/{self.name}"

    @property
    def busy(self) -> bool:
        """Would open(2) with O_EXCL say EBUSY?"""
        return self.disk is not None and bool(self.disk.mount or self.disk.swap or self.disk.holder)

    def stat(self) -> str:
        reads, read, writes, written = (int(value) for value in self.moved)
        busy = (reads + writes) // 20
        return f"{reads} 0 {read} {reads // 10} {writes} 0 {written} {writes // 10} 0 {busy} {busy}"

    def files(self) -> dict[str, str]:
        """Every file of the device by its name below its folder, without the final newline."""
        return self.own_files() | {f"queue/{name}": v for name, v in self.queue.files().items()}

    def own_files(self) -> dict[str, str]:
        """The same but for those of its queue."""
        return {name: self.read(name) or "" for name in self._own[0]}

    def read(self, name: str) -> str | None:
        """What one file reads; None where there is none.  The host is asked for this again and
        again."""
        if name.startswith("queue/"):
            return self.queue.read(name.removeprefix("queue/"))
        value = self._own[0].get(name)
        return self.stat() if value == COUNTED else value

    def fixed(self, name: str) -> bool:
        """Whether this reads alike, be it there or not, for as long as the disk is the same."""
        return (
            self.disk is not None
            and not name.startswith("queue")
            and self._own[0].get(name) != COUNTED
        )

    def inside(self, folder: str) -> frozenset[str] | None:
        """The names in a folder of the device ('': its own); None where it is none."""
        if folder == "queue":
            return frozenset(name.partition("/")[0] for name in self.queue.names())
        if folder == "queue/iosched":
            return frozenset(self.queue.iosched) if self.queue.iosched else None
        return self._own[1].get(folder)

    @property
    def _own(self) -> Own:
        # The key is all that may change of a block; what is known is right as long as it is equal.
        tags = 0 if self.queue.schedulers == ("none",) else self.queue.tags
        key = (self.size, self.backing and self.backing[0], tags)
        if self._known is None or self._known[0] != key:
            self._known = (key, _own(self.devno, *key, self.disk))
        return self._known[1]


Own = tuple[Mapping[str, str], Mapping[str, frozenset[str]]]
"""The files of a device but for those of its queue; and which folder has which names."""

COUNTED = ""
"""Stands for the counters, which go on."""


@lru_cache(maxsize=256)
def _own(
    devno: tuple[int, int], size: int, backing: str | None, tags: int, disk: Disk | None
) -> Own:
    folders = ["holders/", "slaves/", "queue/"]  # which may be empty
    found = {
        "dev": f"{devno[0]}:{devno[1]}",
        "size": str(size // SECTOR),
        "ro": "0",
        "removable": "0",
        "hidden": "0",
        "stat": COUNTED,
        "inflight": "0 0",
    }
    if tags:  # else it has no hardware queue of its own
        found |= {"mq/0/nr_tags": str(tags), "mq/0/nr_reserved_tags": "0"}
    if backing:
        found |= {
            "loop/backing_file": backing,
            "loop/offset": "0",
            "loop/sizelimit": "0",
            "loop/autoclear": "0",
            "loop/partscan": "0",
            "loop/dio": "1",
        }
    if disk:
        found |= {name: value for name in ("serial", "wwid") if (value := getattr(disk, name))}
    if disk and disk.partitioned:
        below = f"{disk.content}/"
        found |= {
            f"{below}partition": "1",
            f"{below}dev": f"{disk.content_devno[0]}:{disk.content_devno[1]}",
            f"{below}start": "2048",
            f"{below}size": str(size // SECTOR - 2048),
            f"{below}ro": "0",
            f"{below}stat": COUNTED,
        }
        folders.append(f"{below}holders/")
    return MappingProxyType(found), index((*found, *folders))


def block(disk: Disk, kernel: str) -> Block:
    queue = QUEUES[kernel](rotational=int(disk.name == "fakeswap"))
    return Block(disk.name, disk.devno, disk.size, queue, disk)


def holder(disk: Disk, kernel: str) -> Block:
    """The dm device that ``disk.holder`` names."""
    number = int(disk.holder.removeprefix("dm-"))
    return Block(disk.holder, (253, number), disk.size, QUEUES[kernel](schedulers=("none",)))


def loop(number: int, kernel: str) -> Block:
    """A loop device that nothing is attached to."""
    return Block(f"loop{number}", (LOOP_MAJOR, number), 0, QUEUES[kernel].of_loop())
