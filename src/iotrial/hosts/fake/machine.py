"""The machine behind the fake host: its tree of files, its disks, its processes, its clock, and its
parts: the state behind each family of settings.

PLUGINS: a part is one file in ``parts``, with a class ``PART``.  Its control files and programs
join those of the machine; a reboot makes it anew.
"""

from __future__ import annotations

import errno
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import NamedTuple, Protocol, runtime_checkable

from iotrial.hosts.fake import proc as fake_proc
from iotrial.hosts.fake.disk import BLOCKS, KNOBS, Disk, block, holder
from iotrial.hosts.fake.names import index
from iotrial.hosts.fake.queue import refuse
from iotrial.hosts.fake.queues import NEWEST
from iotrial.hosts.fake.sysctl import Sysctls
from iotrial.hosts.fake.tree import CHARACTERS, CONTROLLER, Spot, tree
from iotrial.plugins import modules

FOLDERS = (
    *("/", "/boot", "/dev", "/etc", "/home", "/mnt", "/proc", "/run", "/sys", "/tmp"),  # noqa: S108
    *("/mnt/fake-ext4", "/mnt/fake-nfs"),
    *("/sys/block", "/sys/dev/block", "/var/lib", "/var/tmp"),  # noqa: S108 (a pretended tree)
)
VOLATILE = "/run/"
ROOM = 0.6
"""Share of the system's filesystem that is free at the start."""


class Said(NamedTuple):
    """What a command says: exit status, stdout, stderr."""

    exit: int = 0
    stdout: str = ""
    stderr: str = ""


Command = Callable[["Machine", Sequence[str], bytes], Said]


class Program(NamedTuple):
    """``changes``: does it change the state of the machine?  (Or: do these arguments?)  ``torn``
    is what it does when it is killed in the middle (None: nothing)."""

    command: Command
    changes: bool | Callable[[Sequence[str]], bool]
    torn: Command | None = None


@dataclass
class Control:
    """A control file: what it reads (without the newline), and how it takes a write: the new
    text, or an OSError raised as the kernel answers (None: it cannot be written, EACCES)."""

    value: str
    take: Callable[[str], str | None] | None = None


class Lasting(dict[str, Control]):
    """Control files whose names never change while the machine runs (what they read may)."""

    @cached_property
    def folders(self) -> Mapping[str, frozenset[str]]:
        return index(tuple(self))


def folders(files: Mapping[str, Control]) -> Mapping[str, frozenset[str]]:
    """Folder → the names in it, of all that control files are in or below."""
    return files.folders if isinstance(files, Lasting) else index(tuple(files))


class Part(Protocol):
    """The state of one family, as after a boot."""

    def __init__(self) -> None: ...

    @property
    def below(self) -> tuple[str, ...]:
        """Folders that are always there, and that all its control files are in or below: elsewhere
        nobody asks for them."""
        ...

    def controls(self) -> Mapping[str, Control]:
        """Control files by absolute path.  ``take`` gives back the file's new text, or None where
        it has updated the part itself (then ``controls`` is asked again)."""
        ...

    def programs(self) -> Mapping[str, Program]:
        """Programs by name, in addition to those every fake machine has."""
        ...

    def links(self) -> Mapping[str, str]:
        """Symbolic links of /sys: path → absolute path."""
        ...

    def settings(self) -> Mapping[str, str]:
        """What no control file shows and must read the same after a restore (name → value)."""
        ...


@runtime_checkable
class Mounting(Protocol):
    """A part that has mounts."""

    def mounts(self, machine: Machine) -> list[tuple[str, str, str, str]]:
        """(device number, point, type, source)."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A part that a reboot does not make forget everything."""

    def remember(self, former: Part, machine: Machine) -> None:
        """Take over what lasts from the one that was there before the boot."""
        ...


def all_parts() -> dict[str, Part]:
    """A fresh one of each, by the name of its file."""
    return {name: made() for name, made in _kinds().items()}


def mounting(parts: Mapping[str, Part]) -> list[Mounting]:
    """Those of the parts that have mounts."""
    return [part for name in _mounting() if isinstance(part := parts[name], Mounting)]


@cache
def _mounting() -> tuple[str, ...]:
    # To ask a protocol is slow, and there may be a thousand machines.
    return tuple(name for name, kind in _kinds().items() if issubclass(kind, Mounting))


@cache
def _kinds() -> Mapping[str, type[Part]]:
    from iotrial.hosts.fake import parts  # noqa: PLC0415 (they import this module)

    found = modules(parts.__name__)
    return {each.__name__.rpartition(".")[2]: each.PART for each in found}


@dataclass(slots=True)
class File:
    """An ordinary file.  ``size`` counts where nobody needs the content (``data`` is empty).
    ``durable``: would it survive the power failing now?"""

    inode: int
    data: bytes = b""
    size: int = 0
    mode: int = 0o600
    durable: bool = True

    @property
    def length(self) -> int:
        return len(self.data) or self.size


@dataclass(slots=True)
class Task:
    """A process.  ``moves`` are block name → reads, sectors read, writes, sectors written, each
    a second, from ``begins`` on; ``finish`` is called when it ends by itself."""

    pid: int
    group: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    started: float
    ends: float
    moves: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    finish: Callable[[], int] = lambda: 0
    begins: float = 0.0


class Machine:
    """``disks`` are there from the start; ``seed`` makes boot ids repeatable; ``kernel`` is one
    whose queues are known (:data:`~iotrial.hosts.fake.queues.QUEUES`)."""

    def __init__(self, disks: tuple[Disk, ...], seed: int, kernel: str = NEWEST) -> None:
        self.disks = disks
        self.kernel = kernel
        self._fixed = fake_proc.fixed(kernel)
        self.files: dict[str, File] = {}
        self.folders: dict[str, int] = dict.fromkeys(FOLDERS, 0o755)
        self.clock = 1000.0
        self._random = random.Random(seed)
        self._inodes = 1000
        self.parts: dict[str, Part] = {}
        self.boot()
        self.put("/etc/fstab", b"/dev/fakesys1 / ext4 defaults 0 1\n", mode=0o644)

    def boot(self) -> None:
        """What a reboot does: settings, processes, loop devices and memory filesystems go."""
        self.boot_id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.sysctls = Sysctls()
        former = self.parts
        self.parts = all_parts()
        for name in former:
            if isinstance(part := self.parts[name], Remembering):
                part.remember(former[name], self)
        self._mounting = mounting(self.parts)
        self.programs: dict[str, Program] = {}
        for part in reversed(self.parts.values()):
            self.programs |= part.programs()
        self.tasks: dict[int, Task] = {}
        self.ended: dict[int, int] = {}
        self.next_pid = 4000
        self.work = 0.0
        self.blocks = {disk.name: block(disk, self.kernel) for disk in self.disks}
        held = (disk for disk in self.disks if disk.holder)
        self.blocks |= {disk.holder: holder(disk, self.kernel) for disk in held}
        for path in [path for path in self.files if path.startswith(VOLATILE)]:
            del self.files[path]
        for path in [path for path in self.folders if path.startswith(VOLATILE)]:
            del self.folders[path]
        self.relink()

    # -- the tree ---------------------------------------------------------------------------

    def relink(self) -> None:
        """To be called when block devices came or went."""
        more = tuple(pair for part in self.parts.values() for pair in part.links().items())
        devices = ((each.name, each.devno, each.disk) for each in self.blocks.values())
        areas = tuple((name, part.below) for name, part in self.parts.items() if part.below)
        self.tree = tree(tuple(devices), more, areas)

    @property
    def nodes(self) -> Mapping[str, tuple[int, int]]:
        """The block devices of /dev, with their numbers."""
        return self.tree.nodes

    def real(self, path: str) -> str:
        """The path with every link followed; nothing need be there."""
        return self.tree.spot(path).real

    def kind(self, path: str) -> str:
        """What stat(1) calls it, links followed; empty when there is nothing."""
        spot = self.tree.spot(path)
        real = spot.real
        if real in self.files:
            return "regular file" if self.files[real].length else "regular empty file"
        if real in self.nodes:
            return "block special file"
        if real in CHARACTERS:
            return "character special file"
        if real not in self.folders and self._kernel_file(spot) is not None:
            return "regular file"
        return "directory" if self._is_folder(spot) else ""

    def _is_folder(self, spot: Spot) -> bool:
        if spot.real in self.folders:
            return True
        if spot.real.startswith(("/sys/", "/proc/", "/dev")):
            return next(self._shown(spot), None) is not None
        below = f"{spot.real}/"
        return any(name.startswith(below) for name in self.folders)

    def _shown(self, spot: Spot) -> Iterator[frozenset[str]]:
        """The names in a folder of the kernel's, from everybody who has some there; nobody has
        where it is no such folder."""
        real = spot.real
        found = self.tree.inside(real)
        if found is not None:
            yield found
        if spot.block in self.blocks:
            found = self.blocks[spot.block].inside(spot.rest)
        elif real == "/proc" or real.startswith("/proc/"):
            found = self._shown_in_proc(real.removeprefix("/proc").removeprefix("/"))
        else:
            found = None
        if found is not None:
            yield found
        for name in spot.near:
            found = folders(self.parts[name].controls()).get(real)
            if found is not None:
                yield found

    def _shown_in_proc(self, name: str) -> frozenset[str] | None:
        pids = frozenset(map(str, (CONTROLLER, *self.tasks)))
        if name in pids:
            return frozenset(_OF_PROCESS)
        settings = (f"sys/{setting}" for setting in self.sysctls.values)
        found = index((*self._fixed, *_COUNTED, *settings)).get(name)
        return found if found is None or name else found | pids

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder.  Raises OSError."""
        spot = self.tree.spot(path)
        inside = set[str]().union(*self._shown(spot))
        if not inside and (kind := self.kind(path)) != "directory":
            raise refuse(errno.ENOTDIR if kind else errno.ENOENT)
        below = f"{spot.real.rstrip('/')}/"
        paths = (*self.files, *self.folders)
        inside |= {p.removeprefix(below).split("/")[0] for p in paths if p.startswith(below)}
        return sorted(inside - {""})

    def read(self, path: str) -> bytes:
        """Raises OSError."""
        found = self.found(path)
        if isinstance(found, int):
            raise refuse(found)
        return found

    def found(self, path: str) -> bytes | int:
        """What a file reads, or the errno that reading it answers: most of what a study asks for
        is not there."""
        known = self.tree.fixed.get(path)
        if known is not None:
            return known
        spot = self.tree.spot(path)
        file = self.files.get(spot.real)
        if file is not None:
            return file.data
        if spot.block in self.blocks and spot.rest.startswith(KNOBS):
            value = self.blocks[spot.block].read(spot.rest)
            return errno.ENOENT if value is None else f"{value}\n".encode()
        text = self._kernel_file(spot)
        found: bytes | int
        if text is None:
            found = errno.EISDIR if self._is_folder(spot) else errno.ENOENT
        else:
            found = text.encode()
        if not spot.near and spot.block in self.blocks and self.blocks[spot.block].fixed(spot.rest):
            self.tree.fixed[path] = found
        return found

    def _kernel_file(self, spot: Spot) -> str | None:
        """What a file of the kernel's reads; None where it has none of that name."""
        if spot.block in self.blocks:
            value = self.blocks[spot.block].read(spot.rest)
            if value is not None:
                return f"{value}\n"
        if spot.near and (control := self._control(spot)) is not None:
            return f"{control.value}\n"
        real = spot.real
        return self._read_proc(real.removeprefix("/proc/")) if real.startswith("/proc/") else None

    def mode(self, path: str) -> int:
        """The permissions of a part's control file; 0 where there is none."""
        control = self._control(self.tree.spot(path))
        return 0 if control is None else 0o644 if control.take else 0o444

    def _control(self, spot: Spot) -> Control | None:
        for name in spot.near:
            if (control := self.parts[name].controls().get(spot.real)) is not None:
                return control
        return None

    def write(self, path: str, data: bytes) -> None:
        """One write(2) to a file that exists.  Raises OSError."""
        spot = self.tree.spot(path)
        real = spot.real
        if real in self.files:
            old = self.files[real]
            old.data = data + old.data[len(data) :]
        elif (control := self._control(spot)) is not None:
            if control.take is None:
                raise refuse(errno.EACCES)
            text = control.take(data.decode("utf-8", "replace"))
            control.value = control.value if text is None else text
        elif self.kind(real) == "directory":
            raise refuse(errno.EISDIR)
        elif not self.kind(real):
            raise refuse(errno.ENOENT)
        elif real.startswith(f"{BLOCKS}/") and "/queue/" in real:
            name, _, rest = real.removeprefix(f"{BLOCKS}/").partition("/queue/")
            if data:  # sysfs never calls the kernel for nothing
                self.blocks[name].queue.write(rest, data.decode("utf-8", "replace"))
        elif real.startswith("/proc/sys/"):
            self.sysctls.write(real.removeprefix("/proc/sys/"), data.decode("utf-8", "replace"))
        else:
            raise refuse(errno.EACCES)

    def put(self, path: str, data: bytes, *, mode: int = 0o600, size: int = 0) -> File:
        """Make or replace an ordinary file and its missing folders.  Raises OSError."""
        real = self.real(path)
        if self.kind(real) == "directory":
            raise refuse(errno.EISDIR)
        if real.startswith(f"{BLOCKS}/"):
            raise refuse(errno.EACCES)  # as sysfs says; and what is known of disks stays true
        self.make_folder(str(PurePosixPath(real).parent), 0o700)
        self._inodes += 1
        self.files[real] = File(self._inodes, data, size, mode)
        return self.files[real]

    def make_folder(self, path: str, mode: int) -> None:
        """mkdir -p.  Raises OSError."""
        for folder in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)):
            kind = self.kind(str(folder))
            if kind and kind != "directory":
                raise refuse(errno.ENOTDIR)
            if not kind:
                self.folders[str(folder)] = mode

    def room(self) -> int:
        """Bytes left on the system's filesystem."""
        size = next((disk.size for disk in self.disks if disk.mount == "/"), 0)
        return max(0, int(size * ROOM) - sum(file.length for file in self.files.values()))

    # -- /proc ------------------------------------------------------------------------------

    def completions(self) -> int:
        return int(sum(each.moved[0] + each.moved[2] for each in self.blocks.values()))

    def mounts(self) -> list[tuple[str, str, str, str]]:
        """(device number, point, type, source), the root first."""
        on_disks = [
            (
                f"{d.content_devno[0]}:{d.content_devno[1]}",
                d.mount,
                d.signature,
                f"/dev/{d.content}",
            )
            for d in self.disks
            if d.mount
        ]
        return [
            *sorted(on_disks, key=lambda row: len(row[1])),
            ("0:21", "/proc", "proc", "proc"),
            ("0:22", "/sys", "sysfs", "sysfs"),
            ("0:6", "/dev", "devtmpfs", "devtmpfs"),
            ("0:23", "/run", "tmpfs", "tmpfs"),
            *(row for part in self._mounting for row in part.mounts(self)),
        ]

    def _read_proc(self, name: str) -> str | None:
        first, _, rest = name.partition("/")
        if first.isdigit():
            return self._read_process(int(first), rest)
        if name in self._fixed:
            return self._fixed[name]
        if name in _COUNTED:
            return _COUNTED[name](self)
        value = self.sysctls.values.get(rest) if first == "sys" else None
        return None if value is None else f"{value}\n"

    def _read_process(self, pid: int, name: str) -> str | None:
        task = self.tasks.get(pid)
        if pid == CONTROLLER:
            task = Task(pid, pid, ("iotrial",), {}, 0.0, 0.0)
        if task is None:
            return None
        if name == "environ":
            return "".join(f"{key}={value}\0" for key, value in task.environment.items())
        if name == "mountinfo":
            return fake_proc.mountinfo(self.mounts())
        if name == "stat":
            return fake_proc.process_stat(pid, task.argv[0], task.group, task.started)
        return None

    # -- time and processes -----------------------------------------------------------------

    def spawn(self, task: Task) -> None:
        self.tasks[task.pid] = task

    def end(self, pid: int, status: int) -> None:
        if self.tasks.pop(pid, None):
            self.ended[pid] = status

    def pass_time(self, seconds: float) -> None:
        """Let the clock go on; loads do their I/O, and end when their time has come."""
        until = self.clock + max(0.0, seconds)
        if all(task.begins > until for task in self.tasks.values()):  # all wait for their moment
            self.clock = until
            return
        for task in sorted(self.tasks.values(), key=lambda task: task.ends):
            self._do(task, max(0.0, min(until, task.ends) - max(self.clock, task.begins)))
        self.clock = until
        for task in [task for task in self.tasks.values() if task.ends <= until]:
            self.end(task.pid, task.finish())

    def _do(self, task: Task, seconds: float) -> None:
        for name, rates in task.moves.items():
            if name in self.blocks and self.blocks[name].queue.features["iostats"]:
                counters = self.blocks[name].moved
                counters[:] = [c + r * seconds for c, r in zip(counters, rates, strict=True)]
        self.work += seconds * 0.5


def _swaps(machine: Machine) -> str:
    return fake_proc.swaps({f"/dev/{d.content}": d.size for d in machine.disks if d.swap})


def _diskstats(machine: Machine) -> str:
    return "".join(
        f"{b.devno[0]:4d} {b.devno[1]:7d} {b.name} {b.stat()}\n" for b in machine.blocks.values()
    )


_COUNTED: dict[str, Callable[[Machine], str]] = {
    "sys/kernel/random/boot_id": lambda machine: f"{machine.boot_id}\n",
    "uptime": lambda m: f"{m.clock:.2f} {m.clock * fake_proc.CPUS:.2f}\n",
    "stat": lambda machine: fake_proc.cpu_stat(machine.clock, machine.work),
    "interrupts": lambda machine: fake_proc.interrupts(machine.completions()),
    "pressure/io": lambda machine: fake_proc.pressure(int(machine.work * 1e5)),
    "pressure/cpu": lambda machine: fake_proc.pressure(int(machine.work * 1e4)),
    "pressure/memory": lambda _machine: fake_proc.pressure(0),
    "swaps": _swaps,
    "mounts": lambda m: "".join(f"{s} {p} {k} rw 0 0\n" for _, p, k, s in m.mounts()),
    "diskstats": _diskstats,
}
"""Files of /proc that change, by name."""
_OF_PROCESS = ("environ", "mountinfo", "stat")
