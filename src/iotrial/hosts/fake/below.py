"""What is below a path of the fake machine: a mount, and the disk that holds it."""

from __future__ import annotations

from iotrial.hosts.fake.disk import Block
from iotrial.hosts.fake.machine import Machine


def mount_below(machine: Machine, path: str) -> tuple[str, str, str, str]:
    """The mount that a path is on: (device number, point, type, source)."""
    real = machine.real(path)
    rows = [r for r in machine.mounts() if r[1] == "/" or f"{real}/".startswith(f"{r[1]}/")]
    return max(rows, key=lambda row: len(row[1]))


def block_below(machine: Machine, path: str) -> Block | None:
    """The disk that a device, or what is in a file system, lies on; the system's own where its
    mount is on none that this machine has."""
    devno = machine.nodes.get(machine.real(path))
    if devno is not None:
        return block_of(machine, devno)
    major, minor = map(int, mount_below(machine, path)[0].split(":"))
    return block_of(machine, (major, minor)) or block_of(machine, root(machine))


def root(machine: Machine) -> tuple[int, int] | None:
    return next((disk.content_devno for disk in machine.disks if disk.mount == "/"), None)


def block_of(machine: Machine, devno: tuple[int, int] | None) -> Block | None:
    for block in machine.blocks.values():
        if devno == block.devno or (block.disk and devno == block.disk.content_devno):
            return block
    return None
