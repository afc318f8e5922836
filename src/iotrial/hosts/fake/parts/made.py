"""What a study makes on the fake machine by its own commands: arrays of md, volumes of LVM.

The programs that the templates name for it: mdadm, LVM's, wipefs, udevadm; and scripts of theirs
for the shell, each known by a word in it.  The disks that something is made of are not looked at:
a study names disks that only its user has.  Halves of an array are disks of their own here, each
known by a serial.  A reboot forgets all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from iotrial.hosts.fake.disk import GIB, Block, Disk
from iotrial.hosts.fake.loads import bonnie, iozone, iperf3
from iotrial.hosts.fake.machine import Control, Machine, Part, Program, Said
from iotrial.hosts.fake.queues import QUEUES

_SIZE = 128 * GIB
_MAJORS = {"md": 9, "dm": 253}
_SCRIPTS = ("mdadm --wait", "until lvs")
"""They wait for what is done at once here."""


class Made:
    """``volumes`` maps VG/LV to the kernel name of its device."""

    below: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.volumes: dict[str, str] = {}

    def controls(self) -> Mapping[str, Control]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {f"/dev/{volume}": f"/dev/{name}" for volume, name in self.volumes.items()}

    def programs(self) -> Mapping[str, Program]:
        return {
            "bonnie++": _only_says(bonnie.SAYS),
            "iozone": _only_says(iozone.SAYS),
            "iperf3": _only_says(iperf3.VERSION),
            "mdadm": Program(self._mdadm, changes=_making),
            "sh": Program(self._shell, changes=_scripted),
            "udevadm": Program(
                lambda _m, _a, _s: Said(), changes=lambda words: "settle" not in words
            ),
            "vgcreate": Program(lambda _m, _a, _s: Said(), changes=True),
            "lvcreate": Program(self._lvcreate, changes=True),
            "lvremove": Program(self._lvremove, changes=True),
            "vgremove": Program(self._vgremove, changes=True),
            "wipefs": Program(lambda _m, _a, _s: Said(), changes=True),
        }

    # -- arrays -----------------------------------------------------------------------------

    def _mdadm(self, machine: Machine, words: Sequence[str], stdin: bytes) -> Said:
        if list(words[:1]) == ["--create"]:
            return _array(machine, words[1])
        if list(words[:1]) == ["--stop"]:
            return _gone(machine, words[1].rpartition("/")[2])
        return machine.parts["md"].programs()["mdadm"].command(machine, words, stdin)

    def _shell(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        """``-c SCRIPT $0 ARGUMENT…``."""
        script, *own = words[1:]
        if script.startswith(_SCRIPTS):
            return Said()
        if "sfdisk" in script and own:
            return _halves(machine, own[0])
        if "mdadm --assemble" in script and own:
            _array(machine, own[0])
            return _halves(machine, own[0])
        return Said(127, "", "sh: command not found\n")

    # -- volumes ----------------------------------------------------------------------------

    def _lvcreate(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        name = next(words[at + 1] for at, word in enumerate(words) if word in ("-n", "--name"))
        numbers = [int(each[3:]) for each in machine.blocks if each[3:].isdigit()]
        kernels = f"dm-{max(numbers, default=-1) + 1}"
        self.volumes[f"{words[-1]}/{name}"] = kernels
        _appear(machine, kernels, _SIZE)
        return Said(0, f'  Logical volume "{name}" created.\n')

    def _lvremove(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        kernels = self.volumes.pop(words[-1], "")
        return _gone(machine, kernels) if kernels else Said(5, "", "  Failed to find it.\n")

    def _vgremove(self, machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        for volume in [each for each in self.volumes if each.startswith(f"{words[-1]}/")]:
            _gone(machine, self.volumes.pop(volume))
        return Said()


def _only_says(version: str) -> Program:
    """A tool whose loads :mod:`iotrial.hosts.fake.loads` knows."""
    return Program(lambda _m, _a, _s: Said(0, version), changes=False)


def _making(words: Sequence[str]) -> bool:
    return words[0] in ("--create", "--stop", "--grow")


def _scripted(words: Sequence[str]) -> bool:
    script = words[1] if len(words) > 1 else ""
    return "sfdisk" in script or "mdadm --assemble" in script


def _array(machine: Machine, node: str) -> Said:
    name = node.rpartition("/")[2]
    if name in machine.blocks:
        return Said(1, "", f"mdadm: {node} is already in use.\n")
    _appear(machine, name, _SIZE)
    return Said()


def _halves(machine: Machine, node: str) -> Said:
    name = node.rpartition("/")[2]
    if name not in machine.blocks:
        return Said(1, "", f"sfdisk: cannot open {node}: No such file or directory\n")
    for half in ("p1", "p2"):
        _appear(machine, f"{name}{half}", _SIZE // 2)
    return Said()


def _appear(machine: Machine, name: str, size: int) -> None:
    """A block device that was not there; its minor number follows from its name."""
    major = _MAJORS.get(name[:2], 259)
    devno = (major, 1000 + zlib.crc32(name.encode()) % 100_000)
    disk = Disk(name, devno, size, serial=f"PRETENDED-{name.upper()}")
    machine.blocks[name] = Block(name, devno, size, QUEUES[machine.kernel](), disk)
    machine.relink()


def _gone(machine: Machine, name: str) -> Said:
    """It goes, and its halves."""
    found = [each for each in machine.blocks if each == name or each.startswith(f"{name}p")]
    for each in found:
        del machine.blocks[each]
    machine.relink()
    return Said() if found else Said(1, "", f"mdadm: error opening /dev/{name}: No such file\n")


PART: type[Part] = Made
