"""Block devices of the fake host, as ``/sys/block`` shows them, and the ``queue/`` folder of each,
as a 6.18 kernel keeps it.

What each file of a queue takes, what it answers and what it moves was measured on loop devices of a
6.18 kernel at 250 Hz (November 2026); ``tests/integration/test_moves_on_this_kernel.py`` writes the
same random sequence to a real device and to this one and compares every file after each step.
What other kernels do otherwise is in ``tests/imitation.py``.  Not imitated: time, I/O, and limits
that no file shows.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Self


@lru_cache(maxsize=256)
def index(paths: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    """Folder → the names in it, of these files (folders end with a slash) and all that is above
    them; '' is what is above all.

    >>> sorted(index(("/sys/block/", "/sys/kernel/mm"))["/sys"])
    ['block', 'kernel']
    """
    found: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        found.setdefault(folder, set()).update([name] if name else [])
        while folder:
            folder, _, name = folder.rpartition("/")
            found.setdefault(folder, set()).add(name)
    return MappingProxyType({folder: frozenset(names) for folder, names in found.items()})


SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
TICK = 4
"""Milliseconds in a jiffy at 250 Hz."""

_INT = 2**31 - 1
_UINT = 2**32 - 1
PAGE_KB = 4
DEFAULT_READ_AHEAD = 128  # KiB, VM_READAHEAD_PAGES
_LEAST_REQUESTS = 4  # BLKDEV_MIN_RQ
_MOST_REQUESTS = 2048  # MAX_SCHED_RQ
_THREE = (0, 1, 2)

READ_ONLY = {
    "chunk_sectors": "0",
    "dax": "0",
    "dma_alignment": "511",
    "fua": "0",
    "hw_sector_size": "512",
    "io_poll": "0",
    "logical_block_size": "512",
    "max_segment_size": "65536",
    "max_segments": "128",
    "minimum_io_size": "512",
    "nr_zones": "0",
    "optimal_io_size": "0",
    "physical_block_size": "512",
    "zoned": "none",
}


def refuse(code: int) -> OSError:
    return OSError(code, "refused by the fake kernel")


def unsigned(text: str) -> int:
    """kstrtoul(text, 10): digits, a leading ``+``, one trailing newline; nothing else."""
    if not re.fullmatch(r"\+?[0-9]+\n?", text):
        raise refuse(errno.EINVAL)
    number = int(text)
    if number >= 2**64:
        raise refuse(errno.ERANGE)
    return number


def whole(text: str) -> int:
    """kstrtoint(text, 0): a sign, 0x for hexadecimal, a leading 0 for octal."""
    match = re.fullmatch(r"([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\n?", text)
    if not match:
        raise refuse(errno.EINVAL)
    digits = match[2].lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    number = int(match[1] + digits, base)
    if not -_INT - 1 <= number <= _INT:
        raise refuse(errno.ERANGE)
    return number


def variable(text: str) -> int:
    """queue_var_store(): an unsigned int, and EINVAL for everything else."""
    try:
        number = unsigned(text)
    except OSError:
        raise refuse(errno.EINVAL) from None
    if number > _UINT:
        raise refuse(errno.EINVAL)
    return number


Take = Callable[[str], str]
"""What a control file makes of a text."""


def number(text: str, low: int = 0, high: int = _UINT) -> int:
    """What kstrtouint() and a check of the range make of it.  Raises OSError."""
    word = text.strip()
    if not word.isascii() or not word.isdigit() or not low <= int(word) <= high:
        raise refuse(errno.EINVAL)
    return int(word)


def within(low: int, high: int) -> Take:
    return lambda text: str(number(text, low, high))


def _clamped(low: int, high: int = _INT) -> Callable[[str], int]:
    return lambda text: min(max(unsigned(text), low), high)


def _clamped_whole(low: int, high: int = _INT) -> Callable[[str], int]:
    return lambda text: min(max(whole(text), low), high)


def _ticks(milliseconds: int) -> int:
    """msecs_to_jiffies() and back: rounded up to the tick."""
    return -(-milliseconds // TICK) * TICK


def _deadline_ms(text: str) -> int:
    """mq-deadline prints it as an int: rounding the largest up wraps round."""
    shown = _ticks(_clamped_whole(0)(text))
    return shown if shown <= _INT else shown - 2**32


def _slice_us(milliseconds_or_us: int, nanoseconds: int) -> int:
    """bfq keeps slice_idle in 32 bits of nanoseconds: large values wrap round."""
    return milliseconds_or_us * nanoseconds % 2**32 // 1000


IOSCHED: dict[str, dict[str, tuple[int, Callable[[str], int]]]] = {
    "none": {},
    "mq-deadline": {
        "async_depth": (0, _clamped_whole(1)),
        "fifo_batch": (16, _clamped_whole(0)),
        "front_merges": (1, _clamped_whole(0, 1)),
        "prio_aging_expire": (10000, _deadline_ms),
        "read_expire": (500, _deadline_ms),
        "write_expire": (5000, _deadline_ms),
        "writes_starved": (2, whole),
    },
    "kyber": {
        "read_lat_nsec": (2_000_000, unsigned),
        "write_lat_nsec": (10_000_000, unsigned),
    },
    "bfq": {
        "back_seek_max": (16384, _clamped(0)),
        "back_seek_penalty": (2, _clamped(1)),
        "fifo_expire_async": (250, _clamped(1)),
        "fifo_expire_sync": (125, _clamped(1)),
        "low_latency": (1, _clamped(0, 1)),
        "max_budget": (0, _clamped(0)),
        "slice_idle": (8, _clamped(0)),
        "slice_idle_us": (8000, _clamped(0)),
        "strict_guarantees": (0, _clamped(0, 1)),
        "timeout_sync": (124, lambda text: _ticks(_clamped(1)(text))),
    },
}
"""Scheduler → file → (default, how a text becomes the value kept)."""


@dataclass
class FakeQueue:
    """``tags`` is the depth of the device's tag set, ``largest`` its max_hw_sectors_kb,
    ``fallback`` the max_sectors_kb in force when nobody asked for another."""

    schedulers: tuple[str, ...] = SCHEDULERS
    scheduler: str = "none"
    tags: int = 128
    largest: int = 1280
    rotational: int = 0
    read_ahead: int = DEFAULT_READ_AHEAD
    sectors: int = field(init=False)
    requests: int = field(init=False)
    nomerges: int = 0
    affinity: int = 1
    latency: int = 2000
    throttling: str = "on by default"
    cache: str = "write back"
    features: dict[str, int] = field(init=False)
    iosched: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.sectors = self.largest * 2
        self.features = {
            "add_random": 0,
            "iostats": 1,
            "iostats_passthrough": 0,
            "rotational": self.rotational,
            "stable_writes": 0,
        }
        self._use(self.scheduler)

    @classmethod
    def of_loop(cls) -> Self:
        """That of a fresh loop device over a file, direct I/O."""
        return cls(rotational=1, read_ahead=2560)

    def files(self) -> dict[str, str]:
        """Every file by its name below ``queue/``, and what it reads (without the newline)."""
        return {name: self.read(name) or "" for name in self.names()}

    def names(self) -> tuple[str, ...]:
        """Every file by its name below ``queue/``."""
        own = (f"iosched/{name}" for name in self.iosched)
        return (*READ_ONLY, *_READERS, *self.features, *own)

    def read(self, name: str) -> str | None:
        """What one file reads; None where there is none."""
        if name in READ_ONLY:
            return READ_ONLY[name]
        if name in _READERS:
            return _READERS[name](self)
        numbers = self.iosched if name.startswith("iosched/") else self.features
        value = numbers.get(name.removeprefix("iosched/"))
        return None if value is None else str(value)

    def read_scheduler(self) -> str:
        """Blank after each name, even the last; a device without a choice says just none."""
        if self.schedulers == ("none",):
            return "none"
        return "".join(f"[{s}] " if s == self.scheduler else f"{s} " for s in self.schedulers)

    def write(self, name: str, text: str) -> None:
        """Raises OSError as write(2) would."""
        if name in READ_ONLY or name == "max_hw_sectors_kb":
            raise refuse(errno.EINVAL if name == "io_poll" else errno.EACCES)
        if name.startswith("iosched/"):
            self._write_iosched(name.removeprefix("iosched/"), text)
        elif name in self.features:
            self.features[name] = int(variable(text) != 0)
            self._commit()
        else:
            getattr(self, _WRITERS[name])(text)

    def write_scheduler(self, text: str) -> None:
        asked = {"deadline": "mq-deadline"}.get(text.strip(), text.strip())
        if asked not in self.schedulers:
            raise refuse(errno.EINVAL)
        if asked != self.scheduler or asked == "none":
            self._use(asked)

    def _use(self, scheduler: str) -> None:
        """Switching gives fresh iosched files and nr_requests; bfq takes over from wbt unless a
        person set it (wbt_disable_default, wbt_enable_default)."""
        self.scheduler = scheduler
        self.requests = self.tags if scheduler == "none" else 2 * min(self.tags, 128)
        self.iosched = {name: default for name, (default, _) in IOSCHED[scheduler].items()}
        self._depth_updated()
        if self.throttling.endswith("by default"):
            self.throttling = "off by default" if self._throttles(scheduler) else "on by default"

    def _throttles(self, scheduler: str) -> bool:
        """Whether the scheduler does what wbt would."""
        return scheduler == "bfq"

    def _depth_updated(self) -> None:
        if "async_depth" in self.iosched:
            self.iosched["async_depth"] = self.requests

    def write_requests(self, text: str) -> None:
        number = max(variable(text), _LEAST_REQUESTS)
        if number == self.requests:
            return
        if number > (self.tags if self.scheduler == "none" else _MOST_REQUESTS):
            raise refuse(errno.EINVAL)
        self.requests = number
        self._depth_updated()

    def write_read_ahead(self, text: str) -> None:
        self.read_ahead = variable(text) // PAGE_KB * PAGE_KB

    def write_sectors(self, text: str) -> None:
        asked = variable(text) * 2 & _UINT
        if 0 < asked < PAGE_KB * 2:
            raise refuse(errno.EINVAL)
        self.sectors = min(asked, self.largest * 2) if asked else self.largest * 2
        self._commit()

    def write_nomerges(self, text: str) -> None:
        number = variable(text)
        self.nomerges = number if number in _THREE else 1

    def write_affinity(self, text: str) -> None:
        number = variable(text)
        self.affinity = number if number in _THREE else self.affinity

    def write_latency(self, text: str) -> None:
        if not re.fullmatch(r"[-+]?[0-9]+\n?", text):
            raise refuse(errno.EINVAL)
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise refuse(errno.ERANGE)
        if number < -1:
            raise refuse(errno.EINVAL)
        if number == -1:
            number = 75000 if self.features["rotational"] else 2000
        if number != self.latency:  # else not even the hidden state changes
            self.latency = number
            self.throttling = "on by hand" if number else "off by hand"

    def write_cache(self, text: str) -> None:
        modes = {"write back": "write back", "write through": "write through"}
        modes["none"] = "write through"
        if text.strip() not in modes:
            raise refuse(errno.EINVAL)
        self.cache = modes[text.strip()]
        self._commit()

    def _commit(self) -> None:
        """queue_limits_commit_update(): read-ahead is raised to twice the largest request of a
        rotational device, or the default, and never lowered (blk_apply_bdi_limits)."""
        wanted = self.sectors // 4 * PAGE_KB if self.features["rotational"] else 0
        self.read_ahead = max(self.read_ahead, wanted, DEFAULT_READ_AHEAD)

    def _write_iosched(self, name: str, text: str) -> None:
        own = IOSCHED[self.scheduler]
        if name not in own:
            raise refuse(errno.ENOENT)
        value = own[name][1](text)
        if name in ("slice_idle", "slice_idle_us"):
            self._idle(_slice_us(value, 1_000_000 if name == "slice_idle" else 1000))
            return
        if name == "strict_guarantees" and value > self.iosched[name]:
            self._idle(max(self.iosched["slice_idle_us"], 8000))
        self.iosched[name] = value

    def _idle(self, microseconds: int) -> None:
        self.iosched["slice_idle_us"] = microseconds
        self.iosched["slice_idle"] = microseconds // 1000


_READERS: dict[str, Callable[[FakeQueue], str]] = {
    "max_hw_sectors_kb": lambda queue: str(queue.largest),
    "scheduler": lambda queue: queue.read_scheduler(),
    "nr_requests": lambda queue: str(queue.requests),
    "read_ahead_kb": lambda queue: str(queue.read_ahead),
    "max_sectors_kb": lambda queue: str(queue.sectors // 2),
    "nomerges": lambda queue: str(queue.nomerges),
    "rq_affinity": lambda queue: str(queue.affinity),
    "wbt_lat_usec": lambda queue: str(queue.latency) if queue.throttling.startswith("on") else "0",
    "write_cache": lambda queue: queue.cache,
}

_WRITERS = {
    "scheduler": "write_scheduler",
    "nr_requests": "write_requests",
    "read_ahead_kb": "write_read_ahead",
    "max_sectors_kb": "write_sectors",
    "nomerges": "write_nomerges",
    "rq_affinity": "write_affinity",
    "wbt_lat_usec": "write_latency",
    "write_cache": "write_cache",
}
"""File → the method that takes what is written to it."""


class FakeKernel(NamedTuple):
    """A kernel, by its release, and its block queues."""

    release: str
    queue: type[FakeQueue] = FakeQueue


NEWEST = FakeKernel("6.18")

SECTOR = 512
KNOBS = "queue/iosched/"
"""Below it only files are, and only those of the scheduler in use: most that are asked for are not
there."""
GIB = 2**30
LOOP_MAJOR = 7
BLOCKS = "/sys/devices/virtual/block"


@dataclass(frozen=True, slots=True)
class FakeDisk:
    """A disk to be pretended.  ``size`` in bytes.  ``signature`` is the filesystem (or ``swap``)
    that blkid finds on it, on its partition 1 where ``partitioned``; ``mount`` the folder it is
    mounted on; ``swap`` whether the kernel swaps to it; ``holder`` the dm device built on it.
    ``burst``: after so many bytes it has a fifth of its rate (0: never), as a cloud volume whose
    credits are used up."""

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
    burst: float = 0.0

    @property
    def content(self) -> str:
        """The kernel name of what carries the signature."""
        return f"{self.name}1" if self.partitioned else self.name

    @property
    def content_devno(self) -> tuple[int, int]:
        return (self.devno[0], self.devno[1] + 1) if self.partitioned else self.devno


DISKS = (
    FakeDisk("fake0", (240, 0), serial="FAKE0000", wwid="naa.600fa4e000000000"),
    FakeDisk("fake1", (240, 16), serial="FAKE0001", wwid="naa.600fa4e000000001"),
    FakeDisk(
        "fakesys",
        (240, 32),
        size=64 * GIB,
        serial="FAKESYS",
        partitioned=True,
        signature="ext4",
        mount="/",
    ),
    FakeDisk("fakeswap", (240, 48), serial="FAKESWAP", signature="swap", swap=True),
    FakeDisk("fakefs", (240, 64), serial="FAKEFS", signature="xfs"),
    FakeDisk("fakeleg", (240, 80), serial="FAKELEG", holder="dm-0"),
)
"""Two free disks, the system's own, one to swap to, one with an unmounted filesystem, one that a
device-mapper device is built on: each refusal can be shown."""


SLOW = 0.2


@dataclass
class FakeBlockDevice:
    """A block device that exists now.  ``backing`` is what a loop device is attached to: path and
    inode.  ``moved`` counts reads, sectors read, writes, sectors written."""

    name: str
    devno: tuple[int, int]
    size: int
    queue: FakeQueue
    disk: FakeDisk | None = None
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

    @property
    def pace(self) -> float:
        """The share of its full rate that it has now."""
        moved = (self.moved[1] + self.moved[3]) * SECTOR
        return SLOW if self.disk and 0 < self.disk.burst <= moved else 1.0

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
    devno: tuple[int, int], size: int, backing: str | None, tags: int, disk: FakeDisk | None
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


def block(disk: FakeDisk, kernel: FakeKernel) -> FakeBlockDevice:
    queue = kernel.queue(rotational=int(disk.name == "fakeswap"))
    return FakeBlockDevice(disk.name, disk.devno, disk.size, queue, disk)


def holder(disk: FakeDisk, kernel: FakeKernel) -> FakeBlockDevice:
    """The dm device that ``disk.holder`` names."""
    number = int(disk.holder.removeprefix("dm-"))
    return FakeBlockDevice(
        disk.holder, (253, number), disk.size, kernel.queue(schedulers=("none",))
    )


def loop(number: int, kernel: FakeKernel) -> FakeBlockDevice:
    """A loop device that nothing is attached to."""
    return FakeBlockDevice(f"loop{number}", (LOOP_MAJOR, number), 0, kernel.queue.of_loop())
