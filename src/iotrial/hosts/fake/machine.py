"""The machine behind the fake host: its tree of files, its disks, its processes, its clock."""

from __future__ import annotations

import errno
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from iotrial.hosts.fake import proc as fake_proc
from iotrial.hosts.fake.disk import Disk, block, holder
from iotrial.hosts.fake.part import Control, Mounting, Part, all_parts
from iotrial.hosts.fake.queue import refuse
from iotrial.hosts.fake.sysctl import Sysctls

BLOCKS = "/sys/devices/virtual/block"
CONTROLLER = 100
"""The process id that /proc/self stands for."""

FOLDERS = (
    *("/", "/boot", "/dev", "/etc", "/home", "/mnt", "/proc", "/run", "/sys", "/tmp"),  # noqa: S108
    *("/mnt/fake-ext4", "/mnt/fake-nfs"),
    *("/sys/block", "/sys/dev/block", "/var/lib", "/var/tmp"),  # noqa: S108 (a pretended tree)
)
VOLATILE = "/run/"
CHARACTERS = {"/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/loop-control": (10, 237)}
ROOM = 0.6
"""Share of the system's filesystem that is free at the start."""


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
    a second; ``finish`` is called when it ends by itself."""

    pid: int
    group: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    started: float
    ends: float
    moves: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    finish: Callable[[], int] = lambda: 0


class Machine:
    """``disks`` are there from the start; ``seed`` makes boot ids repeatable."""

    def __init__(self, disks: tuple[Disk, ...], seed: int) -> None:
        self.disks = disks
        self.files: dict[str, File] = {}
        self.folders: dict[str, int] = dict.fromkeys(FOLDERS, 0o755)
        self.clock = 1000.0
        self._random = random.Random(seed)
        self._inodes = 1000
        self.boot()
        self.put("/etc/fstab", b"/dev/fakesys1 / ext4 defaults 0 1\n", mode=0o644)

    def boot(self) -> None:
        """What a reboot does: settings, processes, loop devices and memory filesystems go."""
        self.boot_id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.sysctls = Sysctls()
        self.parts: dict[str, Part] = all_parts()
        self.tasks: dict[int, Task] = {}
        self.ended: dict[int, int] = {}
        self.next_pid = 4000
        self.work = 0.0
        self.blocks = {disk.name: block(disk) for disk in self.disks}
        self.blocks |= {disk.holder: holder(disk) for disk in self.disks if disk.holder}
        for path in [path for path in self.files if path.startswith(VOLATILE)]:
            del self.files[path]
        for path in [path for path in self.folders if path.startswith(VOLATILE)]:
            del self.folders[path]
        self.relink()

    # -- the tree ---------------------------------------------------------------------------

    def relink(self) -> None:
        """To be called when block devices came or went."""
        self._links = {"/proc/self": f"/proc/{CONTROLLER}"}
        for part in self.parts.values():
            self._links |= part.links()
        self.nodes: dict[str, tuple[int, int]] = {}
        for each in self.blocks.values():
            self._add_links(each.name, each.devno, each.folder)
            self._links[f"/sys/block/{each.name}"] = each.folder
            disk = each.disk
            if disk and disk.partitioned:
                self._add_links(disk.content, disk.content_devno, f"{each.folder}/{disk.content}")
            if disk and disk.holder:
                above = self.blocks[disk.holder].folder
                self._links[f"{each.folder}/holders/{disk.holder}"] = above
                self._links[f"{above}/slaves/{disk.name}"] = each.folder

    def _add_links(self, name: str, devno: tuple[int, int], folder: str) -> None:
        self._links[f"/sys/class/block/{name}"] = folder
        self._links[f"/sys/dev/block/{devno[0]}:{devno[1]}"] = folder
        self.nodes[f"/dev/{name}"] = devno

    def real(self, path: str) -> str:
        """The path with every link followed; nothing need be there."""
        here = ""
        for part in path.split("/"):
            if part == "..":
                here = here.rpartition("/")[0]
            elif part not in ("", "."):
                here = f"{here}/{part}"
                here = self._links.get(here, here)
        return here or "/"

    def kind(self, path: str) -> str:
        """What stat(1) calls it, links followed; empty when there is nothing."""
        real = self.real(path)
        if real in self.files:
            return "regular file" if self.files[real].length else "regular empty file"
        if real in self.nodes:
            return "block special file"
        if real in CHARACTERS:
            return "character special file"
        if real in self.folders:
            return "directory"
        if real.startswith(("/sys/", "/proc/", "/dev")):
            return self._kind_of_kernel_file(real)
        below = f"{real}/"
        return "directory" if any(name.startswith(below) for name in self.folders) else ""

    def _kind_of_kernel_file(self, real: str) -> str:
        if self._control(real) is not None:
            return "regular file"
        if real.startswith(f"{BLOCKS}/"):
            return self._kind_of_block_file(real) or self._kind_above_controls(real)
        below = f"{real}/"
        for name in self._kernel_paths(below):
            if name.startswith(below):
                return "directory"
            if name == real:
                return "regular file"
        return ""

    def _kind_above_controls(self, real: str) -> str:
        paths = (path for part in self.parts.values() for path in part.controls())
        return "directory" if any(path.startswith(f"{real}/") for path in paths) else ""

    def _kind_of_block_file(self, real: str) -> str:
        try:
            self._read_block(*real.removeprefix(f"{BLOCKS}/").split("/", 1))
        except IsADirectoryError:
            return "directory"
        except FileNotFoundError:
            return ""
        return "regular file"

    def _kernel_paths(self, below: str) -> Iterator[str]:
        """What the kernel itself shows in or above a folder, itself ending with a slash, as do
        the folders given back; far branches of the tree are left out."""
        yield from self._links
        yield from self.nodes
        yield from CHARACTERS
        for each in self.blocks.values():
            if below.startswith(f"{each.folder}/"):
                yield from (f"{each.folder}/{name}" for name in each.files())
                yield from (f"{each.folder}/{name}/" for name in each.folders())
            else:
                yield f"{each.folder}/"
        for part in self.parts.values():
            yield from part.controls()
        if below.startswith("/proc/"):
            yield from (f"/proc/{name}" for name in self.proc())
            for pid in (CONTROLLER, *self.tasks):
                yield from (f"/proc/{pid}/{name}" for name in ("environ", "mountinfo", "stat"))

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder.  Raises OSError."""
        kind = self.kind(path)
        if kind != "directory":
            raise refuse(errno.ENOTDIR if kind else errno.ENOENT)
        below = self.real(path).rstrip("/") + "/"
        paths = (*self.files, *self.folders, *self._kernel_paths(below))
        inside = {p.removeprefix(below).split("/")[0] for p in paths if p.startswith(below)}
        return sorted(inside - {""})

    def read(self, path: str) -> bytes:
        """Raises OSError."""
        real = self.real(path)
        if real in self.files:
            return self.files[real].data
        if (quick := self._of_disk(real)) is not None:
            return quick
        if (control := self._control(real)) is not None:
            return f"{control.value}\n".encode()
        if real.startswith(f"{BLOCKS}/"):
            return self._read_block(*real.removeprefix(f"{BLOCKS}/").split("/", 1))
        text = self._read_proc(real.removeprefix("/proc/")) if real.startswith("/proc/") else None
        if text is None:
            raise refuse(errno.EISDIR if self.kind(real) == "directory" else errno.ENOENT)
        return text.encode()

    def mode(self, real: str) -> int:
        """The permissions of a part's control file; 0 where there is none."""
        control = self._control(real)
        return 0 if control is None else 0o644 if control.take else 0o444

    def _control(self, real: str) -> Control | None:
        found = (
            part.controls().get(real)
            for part in self.parts.values()
            if real.startswith(getattr(part, "below", "/"))
        )
        return next((control for control in found if control is not None), None)

    def _of_disk(self, real: str) -> bytes | None:
        """A file of a disk that every host is asked for again and again: no part has such."""
        name, _, rest = real.removeprefix(f"{BLOCKS}/").partition("/")
        device = self.blocks.get(name) if name != real else None
        value = device and device.own_files().get(rest)
        return None if value is None else f"{value}\n".encode()

    def _read_block(self, name: str, rest: str = "") -> bytes:
        if name not in self.blocks:
            raise refuse(errno.ENOENT)
        device = self.blocks[name]
        files = device.files() if rest.startswith("queue") or not rest else device.own_files()
        if rest in files:
            return f"{files[rest]}\n".encode()
        folder = not rest or rest in self.blocks[name].folders()
        folder = folder or any(other.startswith(f"{rest}/") for other in files)
        raise refuse(errno.EISDIR if folder else errno.ENOENT)

    def write(self, path: str, data: bytes) -> None:
        """One write(2) to a file that exists.  Raises OSError."""
        real = self.real(path)
        if real in self.files:
            old = self.files[real]
            old.data = data + old.data[len(data) :]
        elif (control := self._control(real)) is not None:
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

    def proc(self) -> dict[str, Callable[[], str]]:
        """What /proc says, by name."""
        said: dict[str, Callable[[], str]] = {
            name: (lambda text=text: text)  # type: ignore[misc]
            for name, text in fake_proc.FIXED.items()
        }
        said |= {
            f"sys/{path}": (lambda value=value: f"{value}\n")  # type: ignore[misc]
            for path, value in self.sysctls.values.items()
        }
        return said | {
            "sys/kernel/random/boot_id": lambda: f"{self.boot_id}\n",
            "uptime": lambda: f"{self.clock:.2f} {self.clock * fake_proc.CPUS:.2f}\n",
            "stat": lambda: fake_proc.cpu_stat(self.clock, self.work),
            "interrupts": lambda: fake_proc.interrupts(self._completions()),
            "pressure/io": lambda: fake_proc.pressure(int(self.work * 1e5)),
            "pressure/cpu": lambda: fake_proc.pressure(int(self.work * 1e4)),
            "pressure/memory": lambda: fake_proc.pressure(0),
            "swaps": lambda: fake_proc.swaps(
                {f"/dev/{disk.content}": disk.size for disk in self.disks if disk.swap}
            ),
            "mounts": lambda: "".join(f"{s} {p} {k} rw 0 0\n" for _, p, k, s in self.mounts()),
            "diskstats": lambda: "".join(
                f"{b.devno[0]:4d} {b.devno[1]:7d} {b.name} {b.stat()}\n"
                for b in self.blocks.values()
            ),
        }

    def _completions(self) -> int:
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
            *(
                row
                for part in self.parts.values()
                if isinstance(part, Mounting)
                for row in part.mounts(self)
            ),
        ]

    def _read_proc(self, name: str) -> str | None:
        first, _, rest = name.partition("/")
        if first.isdigit():
            return self._read_process(int(first), rest)
        said = self.proc().get(name)
        return said() if said else None

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
        for task in sorted(self.tasks.values(), key=lambda task: task.ends):
            self._do(task, min(until, task.ends) - self.clock)
        self.clock = until
        for task in [task for task in self.tasks.values() if task.ends <= until]:
            self.end(task.pid, task.finish())

    def _do(self, task: Task, seconds: float) -> None:
        for name, rates in task.moves.items():
            if name in self.blocks and self.blocks[name].queue.features["iostats"]:
                counters = self.blocks[name].moved
                counters[:] = [c + r * seconds for c, r in zip(counters, rates, strict=True)]
        self.work += seconds * 0.5
