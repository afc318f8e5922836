"""Where things are in the tree of a pretended kernel: links, device nodes, names in folders.

All of it follows from the block devices that are there, so that a thousand machines that are alike
share one tree, and what was found in it for one of them need not be looked for again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from iotrial.hosts.fake.disk import BLOCKS, Disk
from iotrial.hosts.fake.names import index

CONTROLLER = 100
"""The process id that /proc/self stands for."""
CHARACTERS = {"/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/loop-control": (10, 237)}

_REMEMBERED = 20_000
"""Paths whose spots are known; those of journals are many, and never the same."""

Device = tuple[str, tuple[int, int], Disk | None]
"""A block device: kernel name, number, and the disk that it is."""

Area = tuple[str, tuple[str, ...]]
"""A part of the machine, and the folders that its control files are below."""


class Spot(NamedTuple):
    """Where a path is: ``real`` has every link followed; nothing need be there.  ``block`` is the
    block device whose folder it is in or below ('': none), ``rest`` its name there, ``near`` are
    the parts of the machine that may have a control file there or below."""

    real: str
    block: str
    rest: str
    near: tuple[str, ...]


class Tree:
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
        self._spots: dict[str, Spot] = {}

    def _add(self, name: str, devno: tuple[int, int], folder: str) -> None:
        self.links[f"/sys/class/block/{name}"] = folder
        self.links[f"/sys/dev/block/{devno[0]}:{devno[1]}"] = folder
        self.nodes[f"/dev/{name}"] = devno

    def inside(self, folder: str) -> frozenset[str] | None:
        """The names in a folder, which has no slash at its end; None where it is none."""
        return self._index.get(folder)

    def spot(self, path: str) -> Spot:
        """Where a path is.  That follows from the links and areas alone, which never change here:
        so it is remembered, for all machines that share the tree."""
        found = self._spots.get(path)
        if found is None:
            if len(self._spots) >= _REMEMBERED:
                self._spots.clear()
            found = self._spots[path] = self._spot(self._follow(path))
        return found

    def _spot(self, real: str) -> Spot:
        above = f"{real}/"
        near = tuple(
            name
            for name, below in self._areas
            if real.startswith(below) or any(area.startswith(above) for area in below)
        )
        inside = real.removeprefix(f"{BLOCKS}/") if real.startswith(f"{BLOCKS}/") else ""
        block, _, rest = inside.partition("/")
        return Spot(real, block, rest, near)

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
) -> Tree:
    """The tree of these block devices, with ``more`` links and the ``areas`` of the parts."""
    return Tree(devices, dict(more), areas)
