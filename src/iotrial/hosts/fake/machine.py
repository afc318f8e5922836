"""The machine behind the fake host: its tree of files, its disks, its processes, its clock, and its
parts: the state behind each family of settings.

PLUGINS: a part is a class in a module of ``parts``, a :class:`MachinePart` with a name.  Its
control files and programs join those of the machine; a reboot makes it anew.

Where things are in the tree follows from the block devices that are there, so that a thousand
machines that are alike share one, and what was found in it for one of them need not be looked for
again.
"""

from __future__ import annotations

import errno
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple, Self

from iotrial.hosts.fake import proc as fake_proc
from iotrial.hosts.fake.disk import (
    BLOCKS,
    KNOBS,
    NEWEST,
    FakeBlockDevice,
    FakeDisk,
    FakeKernel,
    block,
    holder,
    index,
    refuse,
)
from iotrial.hosts.fake.proc import Sysctls
from iotrial.plugins import modules

# -- where things are ------------------------------------------------------------------------------

CONTROLLER = 100
"""The process id that /proc/self stands for."""
CHARACTERS = {"/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/loop-control": (10, 237)}

_REMEMBERED = 20_000
"""Paths whose spots are known; those of journals are many, and never the same."""

Device = tuple[str, tuple[int, int], FakeDisk | None]
"""A block device: kernel name, number, and the disk that it is."""

Area = tuple[str, tuple[str, ...]]
"""A part of the machine, and the folders that its control files are below."""


class _ResolvedPath(NamedTuple):
    """Where a path is: ``real`` has every link followed; nothing need be there.  ``block`` is the
    block device whose folder it is in or below ('': none), ``rest`` its name there, ``near`` are
    the parts of the machine that may have a control file there or below."""

    real: str
    block: str
    rest: str
    near: tuple[str, ...]


class _FileTree:
    """``links`` by path, ``nodes`` of /dev with their numbers; ``fixed`` is what files of the
    disks read, or the errno that they answer, as far as somebody asked and it never changes."""

    def __init__(
        self, devices: tuple[Device, ...], more: Mapping[str, str], areas: Sequence[Area]
    ) -> None:
        self.links = {"/proc/self": f"/proc/{CONTROLLER}", **more}
        self.nodes: dict[str, tuple[int, int]] = {}
        for name, devno, disk in devices:
            folder = f"{BLOCKS}/{name}"
            self._add(name, devno, folder)
            self.links[f"/sys/block/{name}"] = folder
            if disk and disk.partitioned:
                self._add(disk.content, disk.content_devno, f"{folder}/{disk.content}")
            if disk and disk.holder:
                above = f"{BLOCKS}/{disk.holder}"
                self.links[f"{folder}/holders/{disk.holder}"] = above
                self.links[f"{above}/slaves/{disk.name}"] = folder
        folders = [
            *(at for _, below in areas for at in below),
            *(f"{BLOCKS}/{n[0]}" for n in devices),
        ]
        others = (f"{folder}/" for folder in folders)
        self._index = index((*self.links, *self.nodes, *CHARACTERS, *others))
        self._areas = tuple(areas)
        self.fixed: dict[str, bytes | int] = {}
        self._spots: dict[str, _ResolvedPath] = {}

    def _add(self, name: str, devno: tuple[int, int], folder: str) -> None:
        self.links[f"/sys/class/block/{name}"] = folder
        self.links[f"/sys/dev/block/{devno[0]}:{devno[1]}"] = folder
        self.nodes[f"/dev/{name}"] = devno

    def inside(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, which has no slash at its end; None where it is none."""
        return self._index.get(folder)

    def spot(self, path: str) -> _ResolvedPath:
        """Where a path is.  That follows from the links and areas alone, which never change here:
        so it is remembered, for all machines that share the tree."""
        found = self._spots.get(path)
        if found is None:
            if len(self._spots) >= _REMEMBERED:
                self._spots.clear()
            found = self._spots[path] = self._spot(self._follow(path))
        return found

    def _spot(self, real: str) -> _ResolvedPath:
        above = f"{real}/"
        near = tuple(
            name
            for name, below in self._areas
            if real.startswith(below) or any(area.startswith(above) for area in below)
        )
        inside = real.removeprefix(f"{BLOCKS}/") if real.startswith(f"{BLOCKS}/") else ""
        block, _, rest = inside.partition("/")
        return _ResolvedPath(real, block, rest, near)

    def _follow(self, path: str) -> str:
        here = ""
        for part in path.split("/"):
            if part == "..":
                here = here.rpartition("/")[0]
            elif part not in ("", "."):
                here = f"{here}/{part}"
                here = self.links.get(here, here)
        return here or "/"


@lru_cache(maxsize=256)
def tree(
    devices: tuple[Device, ...], more: tuple[tuple[str, str], ...], areas: tuple[Area, ...]
) -> _FileTree:
    """The tree of these block devices, with ``more`` links and the ``areas`` of the parts."""
    return _FileTree(devices, dict(more), areas)


# -- parts -----------------------------------------------------------------------------------------

FOLDERS = (
    *("/", "/boot", "/dev", "/etc", "/home", "/mnt", "/proc", "/run", "/sys", "/tmp"),  # noqa: S108
    *("/mnt/fake-ext4", "/mnt/fake-nfs"),
    *("/sys/block", "/sys/dev/block", "/var/lib", "/var/tmp"),  # noqa: S108 (a pretended tree)
)
VOLATILE = "/run/"
ROOM = 0.6
"""Share of the system's filesystem that is free at the start."""


class CommandOutput(NamedTuple):
    """What a command says: exit status, stdout, stderr."""

    exit: int = 0
    stdout: str = ""
    stderr: str = ""


Mount = tuple[str, str, str, str]
"""Device number, point, type, source."""

Command = Callable[["FakeMachine", Sequence[str], bytes], CommandOutput]


class FakeProgram(NamedTuple):
    """``changes``: does it change the state of the machine?  (Or: do these arguments?)  ``torn``
    is what it does when it is killed in the middle (None: nothing)."""

    command: Command
    changes: bool | Callable[[Sequence[str]], bool]
    torn: Command | None = None


@dataclass
class ControlFile:
    """A control file: what it reads (without the newline), and how it takes a write: the new
    text, or an OSError raised as the kernel answers (None: it cannot be written, EACCES)."""

    value: str
    take: Callable[[str], str | None] | None = None


class StaticFiles(dict[str, ControlFile]):
    """Control files whose names never change while the machine runs (what they read may)."""

    @cached_property
    def folders(self) -> Mapping[str, frozenset[str]]:
        return index(tuple(self))


def folders(files: Mapping[str, ControlFile]) -> Mapping[str, frozenset[str]]:
    """Folder → the names in it, of all that control files are in or below."""
    return files.folders if isinstance(files, StaticFiles) else index(tuple(files))


class MachinePart:
    """The state of one family, as after a boot, and what of the machine follows from it."""

    name = ""
    below: tuple[str, ...] = ()
    """Folders that are always there, and that all its control files are in or below: elsewhere
    nobody asks for them."""

    def controls(self) -> Mapping[str, ControlFile]:
        """Control files by absolute path.  ``take`` gives back the file's new text, or None where
        it has updated the part itself (then ``controls`` is asked again)."""
        return {}

    def programs(self) -> Mapping[str, FakeProgram]:
        """Programs by name, in addition to those every fake machine has."""
        return {}

    def links(self) -> Mapping[str, str]:
        """Symbolic links of /sys: path → absolute path."""
        return {}

    def settings(self) -> Mapping[str, str]:
        """What no control file shows and must read the same after a restore (name → value)."""
        return {}

    def mounts(self, machine: FakeMachine) -> Sequence[Mount]:
        """As :meth:`FakeMachine.mounts`."""
        del machine
        return ()

    def remember(self, former: Self, machine: FakeMachine) -> None:
        """Take over what a reboot lets last of the one that was there before it."""


@cache
def kinds() -> Mapping[str, type[MachinePart]]:
    """Every part by its name, in alphabetical order."""
    every = (vars(module).values() for module in modules("iotrial.hosts.fake.parts"))
    found = (each for one in every for each in one if isinstance(each, type))
    made = {each.name: each for each in found if issubclass(each, MachinePart)}
    return {name: made[name] for name in sorted(made) if name}


# -- the machine -----------------------------------------------------------------------------------


@dataclass(slots=True)
class FakeFile:
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


Rates = tuple[float, float, float, float]
"""Reads, sectors read, writes and sectors written a second."""


@dataclass(slots=True)
class FakeTask:
    """A process.  ``moves`` are by block name, from ``begins`` on; ``finish`` is called when it
    ends by itself."""

    pid: int
    group: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    started: float
    ends: float
    moves: Mapping[str, Rates] = field(default_factory=dict)
    finish: Callable[[], int] = lambda: 0
    begins: float = 0.0


class FakeMachine:
    """``disks`` are there from the start; ``seed`` makes boot ids repeatable; ``more`` are parts
    besides those that every machine has.  ``booted`` are the release and the command line of a boot
    that is not the machine's own."""

    def __init__(
        self,
        disks: tuple[FakeDisk, ...],
        seed: int,
        kernel: FakeKernel = NEWEST,
        more: Iterable[type[MachinePart]] = (),
    ) -> None:
        self.disks = disks
        self.kernel = kernel
        self._kinds = {**kinds(), **{kind.name: kind for kind in more}}
        self._fixed = fake_proc.fixed(kernel.release)
        self.files: dict[str, FakeFile] = {}
        self.folders: dict[str, int] = dict.fromkeys(FOLDERS, 0o755)
        self.clock = 1000.0
        self._random = random.Random(seed)
        self._inodes = 1000
        self.parts: dict[str, MachinePart] = {}
        self.booted: tuple[str, str] | None = None
        self.boot()
        self.put("/etc/fstab", b"/dev/fakesys1 / ext4 defaults 0 1\n", mode=0o644)
        self.put("/boot/grub/grub.cfg", self._fixed["cmdline"].encode(), mode=0o600)

    def boot(self) -> None:
        """What a reboot does: settings, processes, loop devices and memory filesystems go."""
        self.boot_id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.sysctls = Sysctls()
        former = self.parts
        self.parts = {name: kind() for name, kind in self._kinds.items()}
        for name, part in former.items():
            self.parts[name].remember(part, self)
        self.programs: dict[str, FakeProgram] = {}
        for part in reversed(self.parts.values()):
            self.programs |= part.programs()
        self.tasks: dict[int, FakeTask] = {}
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

    def _is_folder(self, spot: _ResolvedPath) -> bool:
        if spot.real in self.folders:
            return True
        if spot.real.startswith(("/sys/", "/proc/", "/dev")):
            return next(self._shown(spot), None) is not None
        below = f"{spot.real}/"
        return any(name.startswith(below) for name in self.folders)

    def _shown(self, spot: _ResolvedPath) -> Iterator[frozenset[str]]:
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

    def _kernel_file(self, spot: _ResolvedPath) -> str | None:
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

    def _control(self, spot: _ResolvedPath) -> ControlFile | None:
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

    def put(self, path: str, data: bytes, *, mode: int = 0o600, size: int = 0) -> FakeFile:
        """Make or replace an ordinary file and its missing folders.  Raises OSError."""
        real = self.real(path)
        if self.kind(real) == "directory":
            raise refuse(errno.EISDIR)
        if real.startswith(f"{BLOCKS}/"):
            raise refuse(errno.EACCES)  # as sysfs says; and what is known of disks stays true
        self.make_folder(str(PurePosixPath(real).parent), 0o700)
        self._inodes += 1
        self.files[real] = FakeFile(self._inodes, data, size, mode)
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

    def mounts(self) -> list[Mount]:
        """The root first."""
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
            *(row for part in self.parts.values() for row in part.mounts(self)),
        ]

    def _read_proc(self, name: str) -> str | None:
        first, _, rest = name.partition("/")
        if first.isdigit():
            return self._read_process(int(first), rest)
        if self.booted and name in ("cmdline", "sys/kernel/osrelease"):
            return f"{self.booted[name == 'cmdline']}\n"
        if name in self._fixed:
            return self._fixed[name]
        if name in _COUNTED:
            return _COUNTED[name](self)
        value = self.sysctls.values.get(rest) if first == "sys" else None
        return None if value is None else f"{value}\n"

    def _read_process(self, pid: int, name: str) -> str | None:
        task = self.tasks.get(pid)
        if pid == CONTROLLER:
            task = FakeTask(pid, pid, ("iotrial",), {}, 0.0, 0.0)
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

    def spawn(self, task: FakeTask) -> None:
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

    def _do(self, task: FakeTask, seconds: float) -> None:
        for name, rates in task.moves.items():
            if name in self.blocks and self.blocks[name].queue.features["iostats"]:
                counters = self.blocks[name].moved
                counters[:] = [c + r * seconds for c, r in zip(counters, rates, strict=True)]
        self.work += seconds * 0.5


def _swaps(machine: FakeMachine) -> str:
    return fake_proc.swaps({f"/dev/{d.content}": d.size for d in machine.disks if d.swap})


def _diskstats(machine: FakeMachine) -> str:
    return "".join(
        f"{b.devno[0]:4d} {b.devno[1]:7d} {b.name} {b.stat()}\n" for b in machine.blocks.values()
    )


_COUNTED: dict[str, Callable[[FakeMachine], str]] = {
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


def mount_below(machine: FakeMachine, path: str) -> Mount:
    """The mount that a path is on."""
    real = machine.real(path)
    rows = [r for r in machine.mounts() if r[1] == "/" or f"{real}/".startswith(f"{r[1]}/")]
    return max(rows, key=lambda row: len(row[1]))


def block_below(machine: FakeMachine, path: str) -> FakeBlockDevice | None:
    """The disk that a device, or what is in a file system, lies on; the system's own where its
    mount is on none that this machine has."""
    devno = machine.nodes.get(machine.real(path))
    if devno is not None:
        return _block_of(machine, devno)
    major, minor = map(int, mount_below(machine, path)[0].split(":"))
    root = next((disk.content_devno for disk in machine.disks if disk.mount == "/"), None)
    return _block_of(machine, (major, minor)) or _block_of(machine, root)


def _block_of(machine: FakeMachine, devno: tuple[int, int] | None) -> FakeBlockDevice | None:
    for each in machine.blocks.values():
        if devno == each.devno or (each.disk and devno == each.disk.content_devno):
            return each
    return None
