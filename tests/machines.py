"""A machine written down: files of /sys and /proc, links, device nodes, and answers to commands.

For tests of what the kernel shows on hardware that a test machine does not have: multipath, NVMe
with several namespaces, md, LVM.  A folder of sysfs is spelt as its files.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import cast

from iotrial.errors import FileRefused
from iotrial.hosts.steps import perform
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import Step, StepResult

DEVICES = "/sys/devices/virtual/block"


@dataclass
class Written:
    """Only the looking part of a Host: run (a few commands), read and list."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    answers: dict[tuple[str, ...], CompletedCommand] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
    name: str = "written"
    remote: bool = False
    unguarded: str = ""

    def add(self, path: str, text: str | bytes) -> None:
        self.files[path] = text if isinstance(text, bytes) else f"{text}\n".encode()

    def real(self, path: str) -> str:
        here = ""
        for part in PurePosixPath(path).parts[1:]:
            here = f"{here}/{part}"
            here = self.real(self.links[here]) if here in self.links else here
        return here or "/"

    def read(self, path: str) -> bytes:
        real = self.real(path)
        if real not in self.files:
            raise FileRefused(self.name, "read", path, errno.ENOENT)
        return self.files[real]

    def list(self, path: str) -> list[str]:
        below = self.real(path).rstrip("/") + "/"
        known = [*self.files, *self.links, *self.nodes]
        found = {name[len(below) :].split("/")[0] for name in known if name.startswith(below)}
        if not found:
            raise FileRefused(self.name, "list", path, errno.ENOENT)
        return sorted(found)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return perform(cast("Host", self), steps)

    def exists(self, path: str) -> bool:
        below = path.rstrip("/") + "/"
        return any(p == path or p.startswith(below) for p in (*self.files, *self.nodes))

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        del stdin, timeout
        command = tuple(argv)
        if command in self.answers:
            return self.answers[command]
        match command:
            case ("readlink", "-e", path):
                real = self.real(path)
                return (
                    answer(command, f"{real}\n") if self.exists(real) else answer(command, exit_=1)
                )
            case ("stat", "-L", "-c", _, path):
                return self._stat(command, self.real(path))
            case ("sh", "-c", _, name, *_) if name in self.scripts:
                return answer(command, self.scripts[name])
            case ("blkid", *_):
                return answer(command, exit_=2)
        return answer(command, exit_=127)

    def _stat(self, command: tuple[str, ...], real: str) -> CompletedCommand:
        if real in self.nodes:
            major, minor = (int(part) for part in self.nodes[real].split(":"))
            return answer(command, f"block special file|{major:x}|{minor:x}|5|77|0|660|0\n")
        if real in self.files:
            size = len(self.files[real])
            return answer(command, f"regular file|0|0|64769|4242|{size}|644|0\n")
        kind = "directory|0|0|64769|2|4096|755|0\n"
        return answer(command, kind) if self.exists(real) else answer(command, exit_=1)


def answer(command: Sequence[str], text: str = "", *, exit_: int = 0) -> CompletedCommand:
    return CompletedCommand(tuple(command), exit_, text.encode(), b"")


def machine() -> Written:
    """One with a root filesystem on nvme0n1p2 and no swap, to which disks are added."""
    host = Written()
    host.add("/proc/self/mountinfo", "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw")
    host.add("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority")
    disk(host, "nvme0n1", "259:0", {"wwid": "eui.0025388b71b2d3f1", "device/serial": "S4X1N0"})
    partition(host, "nvme0n1", 2, "259:2")
    return host


def disk(
    host: Written,
    name: str,
    devno: str,
    attributes: Mapping[str, str | bytes],
    *,
    sectors: int = 2**21,
) -> None:
    """Add a whole disk as the kernel shows it."""
    folder = f"{DEVICES}/{name}"
    said = {"dev": devno, "size": str(sectors), "ro": "0", "hidden": "0", **attributes}
    for attribute, value in said.items():
        host.add(f"{folder}/{attribute}", value)
    host.links[f"/sys/block/{name}"] = folder
    _known(host, name, devno, folder)


def partition(host: Written, parent: str, number: int, devno: str) -> str:
    """Add a partition; gives back its name."""
    name = f"{parent}p{number}" if parent[-1].isdigit() else f"{parent}{number}"
    folder = f"{DEVICES}/{parent}/{name}"
    said = {"dev": devno, "size": "2048", "ro": "0", "partition": str(number), "start": "2048"}
    for attribute, value in said.items():
        host.add(f"{folder}/{attribute}", value)
    _known(host, name, devno, folder)
    return name


def hold(host: Written, lower: str, upper: str) -> None:
    """The device ``upper`` is built on ``lower``: holders/ and slaves/ in /sys."""
    below, above = (host.real(f"/sys/class/block/{name}") for name in (lower, upper))
    host.links[f"{below}/holders/{upper}"] = above
    host.links[f"{above}/slaves/{lower}"] = below


def _known(host: Written, name: str, devno: str, folder: str) -> None:
    host.links[f"/sys/class/block/{name}"] = folder
    host.links[f"/sys/dev/block/{devno}"] = folder
    host.nodes[f"/dev/{name}"] = devno
