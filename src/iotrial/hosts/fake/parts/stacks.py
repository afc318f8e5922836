"""What block devices are made of on the fake machine: arrays of md, volumes of LVM, and those that
a study makes itself.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence

from iotrial.hosts.fake.disk import GIB, FakeBlockDevice, FakeDisk, number, refuse, within
from iotrial.hosts.fake.loads import BONNIE_SAYS, IOZONE_SAYS, IPERF3_VERSION
from iotrial.hosts.fake.machine import (
    CommandOutput,
    ControlFile,
    FakeMachine,
    FakeProgram,
    MachinePart,
    StaticFiles,
)

ARRAY = "/sys/devices/virtual/block/md127/md"
_SECTORS = 1024  # of a chunk, 512 KiB
_SYSTEM = {"sync_speed_min": "1000", "sync_speed_max": "200000"}
_MDADM = {"chunksize": 67108864, "time_base": "5"}
"""What mdadm gives a bitmap unless it is told otherwise."""
_SUBSTITUTE = re.compile(r"s/(.*)/(.*)/")
_ADDRESS = re.compile(r"/(.*)/([qd])")


class Md(MachinePart):
    """The array md127, a RAID 5 with a bitmap; with the programs mdadm and sed.

    Its folder is that of a block device md127, which is there when somebody makes it.  As
    drivers/md/{md,md-bitmap,raid5}.c of 6.1 and mdadm 4.2 answer: the bitmap that mdadm makes has
    mdadm's values, none can be made while the array resyncs, and none clustered.

    ``resyncing`` refuses what a resync refuses; ``cluster`` makes the bitmap a clustered one.
    """

    name = "md"
    below = (ARRAY,)

    def __init__(self) -> None:
        self.resyncing = False
        self._files = StaticFiles(
            {
                f"{ARRAY}/uuid": ControlFile("0fa4e0d0-0000-4000-8000-000000000127"),
                f"{ARRAY}/sync_speed_min": self._speed("sync_speed_min"),
                f"{ARRAY}/sync_speed_max": self._speed("sync_speed_max"),
                f"{ARRAY}/sync_max": ControlFile("max", _until),
                f"{ARRAY}/safe_mode_delay": ControlFile("0.204", _delay),
                f"{ARRAY}/stripe_cache_size": ControlFile("256", within(17, 32768)),
                f"{ARRAY}/preread_bypass_threshold": ControlFile("1", self._preread),
                f"{ARRAY}/group_thread_cnt": ControlFile("0", within(0, 8192)),
                f"{ARRAY}/rmw_level": ControlFile("1", within(0, 2)),
                f"{ARRAY}/skip_copy": ControlFile("0", within(0, 1)),
                f"{ARRAY}/consistency_policy": ControlFile("bitmap"),
                f"{ARRAY}/bitmap/location": ControlFile("+8", self._location),
                f"{ARRAY}/bitmap/metadata": ControlFile("internal"),
                f"{ARRAY}/bitmap/chunksize": ControlFile("33554432"),
                f"{ARRAY}/bitmap/time_base": ControlFile("5", _base),
            }
        )

    def controls(self) -> Mapping[str, ControlFile]:
        return self._files

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "mdadm": FakeProgram(self._mdadm, changes=lambda words: "--grow" in words),
            "sed": FakeProgram(_sed, changes=False),
        }

    def cluster(self) -> None:
        self._files[f"{ARRAY}/bitmap/metadata"].value = "clustered"

    def _speed(self, name: str) -> ControlFile:
        def take(text: str) -> str:
            if text.startswith("system"):
                return f"{_SYSTEM[name]} (system)"
            return f"{number(text, 1)} (local)"

        return ControlFile(f"{_SYSTEM[name]} (system)", take)

    def _preread(self, text: str) -> str:
        return within(0, int(self._files[f"{ARRAY}/stripe_cache_size"].value))(text)

    def _location(self, text: str) -> str:
        now = self._files[f"{ARRAY}/bitmap/location"].value
        if self.resyncing:
            raise refuse(errno.EBUSY)
        if not text.startswith("none"):
            raise refuse(errno.EBUSY if now != "none" else errno.EINVAL)
        if now != "none":
            self._files[f"{ARRAY}/consistency_policy"].value = "resync"
        return "none"

    def _mdadm(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        given = dict(word.split("=", 1) for word in words if "=" in word)
        if list(words[:2]) != ["--grow", "/dev/md127"]:
            return CommandOutput(1, "", "mdadm: the fake host knows --grow /dev/md127\n")
        if "--consistency-policy" in given:
            return self._policy(given["--consistency-policy"])
        if given.get("--bitmap") != "internal" or self.resyncing:
            return CommandOutput(
                1, "", "mdadm: failed to set internal bitmap: Device or resource busy\n"
            )
        if self._files[f"{ARRAY}/bitmap/location"].value != "none":
            return CommandOutput(1, "", "mdadm: internal bitmap already present on /dev/md127\n")
        chunk = int(given["--bitmap-chunk"].removesuffix("K")) * 1024
        for name, value in {**_MDADM, "chunksize": chunk, "location": "+8"}.items():
            self._files[f"{ARRAY}/bitmap/{name}"].value = str(value)
        self._files[f"{ARRAY}/bitmap/metadata"].value = "internal"
        self._files[f"{ARRAY}/consistency_policy"].value = "bitmap"
        return CommandOutput()

    def _policy(self, wanted: str) -> CommandOutput:
        now = self._files[f"{ARRAY}/consistency_policy"]
        if now.value not in ("ppl", "resync"):
            return CommandOutput(
                1, "", f"mdadm: Current consistency policy is {now.value}, cannot change\n"
            )
        now.value = wanted
        return CommandOutput()


def _until(text: str) -> str:
    if text.startswith("max"):
        return "max"
    if number(text, 0, 2**63) % _SECTORS:
        raise refuse(errno.EINVAL)
    return text.strip()


def _ticks(text: str) -> int:
    """At 250 Hz.  Raises OSError."""
    try:
        return int(float(text) * 1000 + 0.5) // 4
    except ValueError:
        raise refuse(errno.EINVAL) from None


def _delay(text: str) -> str:
    return f"{_ticks(text) * 4 / 1000:.3f}"


def _base(text: str) -> str:
    ticks = max(1, _ticks(text))
    return f"{ticks // 250}" + (f".{ticks % 250 * 4:03d}" if ticks % 250 else "")


def _sed(machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
    """``sed -e COMMAND… FILE…``: s/a/b/, /a/d and /a/q are known."""
    commands = [after for word, after in itertools.pairwise(words) if word == "-e"]
    lines: list[str] = []
    missing = ""
    for path in words[2 * len(commands) :]:
        try:
            lines += machine.read(path).decode().splitlines()
        except OSError:
            missing += f"sed: can't read {path}: No such file or directory\n"
    out = _edited(lines, [_command(text) for text in commands])
    return CommandOutput(2 if missing else 0, "".join(f"{line}\n" for line in out), missing)


Edit = Callable[[str], tuple[str | None, bool]]
"""A line → the line (None: deleted), and whether it was the last."""


def _command(text: str) -> Edit:
    if substitute := _SUBSTITUTE.fullmatch(text):
        old, new = re.compile(substitute[1].translate(_BASIC)), substitute[2]
        return lambda line: (old.sub(lambda _m: new, line, count=1), False)
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise ValueError(text)
    there, letter = re.compile(address[1]), address[2]
    if letter == "d":
        return lambda line: (None if there.search(line) else line, False)
    return lambda line: (line, bool(there.search(line)))


_BASIC = str.maketrans({"(": r"\(", ")": r"\)"})
"""A bracket is itself in sed's basic expressions."""


def _edited(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    out: list[str] = []
    for each in lines:
        line: str | None = each
        last = False
        for edit in edits:
            if line is not None and not last:
                line, last = edit(line)
        out += [] if line is None else [line]
        if last:
            break
    return out


_PAGE = 8  # sectors
_OPTIONS = {
    "--readahead": "lv_read_ahead",
    "--minrecoveryrate": "raid_min_recovery_rate",
    "--maxrecoveryrate": "raid_max_recovery_rate",
    "--cachemode": "cache_mode",
    "--cachepolicy": "cache_policy",
}


class Crypt(MachinePart):
    """The dm-crypt device fakecrypt, whose key the kernel has; and nokey, whose key it has lost
    and nobody can tell.  As our scripts answer with dmsetup and cryptsetup of Debian 12.

    ``flags`` are those of each that are set.
    """

    name = "crypt"

    def __init__(self) -> None:
        self.flags: dict[str, set[str]] = {"fakecrypt": {"same_cpu_crypt"}, "nokey": set()}

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "iotrial-crypt-seen": FakeProgram(self._seen, changes=False),
            "iotrial-crypt": FakeProgram(self._set, changes=True),
        }

    def settings(self) -> Mapping[str, str]:
        return {name: " ".join(sorted(flags)) for name, flags in self.flags.items()}

    def _seen(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        name, flag = words[3:5]
        if name not in self.flags:
            return CommandOutput(1, "", f"Device {name} not found\nCommand failed.\n")
        return CommandOutput(0, f"{int(flag in self.flags[name])}\n")

    def _set(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        name, flag, on = words[3:6]
        if name not in self.flags:
            return CommandOutput(1, "", f"Device {name} not found\nCommand failed.\n")
        if name == "nokey":
            return CommandOutput(1, "", f"{name}: Required key not available\n")
        (self.flags[name].add if on == "1" else self.flags[name].discard)(flag)
        return CommandOutput()


class Lvm(MachinePart):
    """The volumes vg/plain, vg/mirror (RAID 1) and vg/cached; with the programs lvs and lvchange.

    As lvs(8) and lvchange(8) of 2.03.16 answer: a volume without such a value shows a blank, what
    is in force already is refused, a read-ahead is rounded up to whole pages.  The metadata stays
    over a reboot; this machine forgets it.

    ``volumes``: column → value, by volume.
    """

    name = "lvm"

    def __init__(self) -> None:
        self.volumes = {
            "vg/plain": {"lv_read_ahead": "auto"},
            "vg/mirror": {
                "lv_read_ahead": "256",
                "raid_min_recovery_rate": "0",
                "raid_max_recovery_rate": "0",
            },
            "vg/cached": {
                "lv_read_ahead": "auto",
                "cache_mode": "writethrough",
                "cache_policy": "smq",
            },
        }

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "lvs": FakeProgram(self._lvs, changes=False),
            "iotrial-rate": FakeProgram(self._rate, changes=False),
            "lvchange": FakeProgram(self._lvchange, changes=True),
        }

    def settings(self) -> Mapping[str, str]:
        return {
            f"{volume} {column}": value
            for volume, columns in self.volumes.items()
            for column, value in columns.items()
        }

    def _lvs(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        column, volume = words[list(words).index("-o") + 1], words[-1]
        if volume not in self.volumes:
            return _missing(volume)
        return CommandOutput(0, f"  {self.volumes[volume].get(column, '')}\n")

    def _rate(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        volume, column = words[-2:]
        if volume not in self.volumes:
            return _missing(volume)
        value = self.volumes[volume].get(column)
        return CommandOutput(0, "" if value is None else f"{value}\n")

    def _lvchange(
        self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        volume = words[-1]
        if volume not in self.volumes:
            return _missing(volume)
        option, wanted = [word for word in words[:-1] if word != "--yes"]
        column, columns = _OPTIONS[option], self.volumes[volume]
        if column not in columns:
            return CommandOutput(5, "", f"  Command not permitted on LV {volume}.\n")
        value = _value(column, wanted)
        if value is None:
            return CommandOutput(3, "", f"  Invalid argument for {option}: {wanted}\n")
        if value == columns[column]:
            return CommandOutput(5, "", f"  {column} is already {value} for {volume}.\n")
        columns[column] = value
        return CommandOutput(0, f"  Logical volume {volume} changed.\n")


def _missing(volume: str) -> CommandOutput:
    return CommandOutput(
        5, "", f"  Failed to find logical volume {volume}: {os.strerror(errno.ENOENT)}\n"
    )


def _value(column: str, wanted: str) -> str | None:
    if column.startswith("cache_"):
        known = {"writethrough", "writeback", "passthrough", "smq", "mq", "cleaner"}
        return wanted if wanted in known else None
    if wanted == "auto" and column == "lv_read_ahead":
        return wanted
    number = wanted.removesuffix("k").replace("none", "0")
    if not number.isdigit():
        return None
    return str(-(-int(number) // _PAGE) * _PAGE) if column == "lv_read_ahead" else number


_SIZE = 128 * GIB
_MAJORS = {"md": 9, "dm": 253}
_SCRIPTS = ("mdadm --wait", "until lvs")
"""They wait for what is done at once here."""


class CreatedVolumes(MachinePart):
    """What a study makes by its own commands: arrays of md, volumes of LVM.

    The programs that the templates name for it: mdadm, LVM's, wipefs, udevadm; and scripts of
    theirs for the shell, each known by a word in it.  The disks that something is made of are not
    looked at: a study names disks that only its user has.  Halves of an array are disks of their
    own here, each known by a serial.  A reboot forgets all of it.

    ``volumes`` maps VG/LV to the kernel name of its device.
    """

    name = "made"

    def __init__(self) -> None:
        self.volumes: dict[str, str] = {}

    def links(self) -> Mapping[str, str]:
        return {f"/dev/{volume}": f"/dev/{name}" for volume, name in self.volumes.items()}

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "bonnie++": _only_says(BONNIE_SAYS),
            "iozone": _only_says(IOZONE_SAYS),
            "iperf3": _only_says(IPERF3_VERSION),
            "mdadm": FakeProgram(self._mdadm, changes=_making),
            "sh": FakeProgram(self._shell, changes=_scripted),
            "udevadm": FakeProgram(
                lambda _m, _a, _s: CommandOutput(), changes=lambda words: "settle" not in words
            ),
            "vgcreate": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True),
            "lvcreate": FakeProgram(self._lvcreate, changes=True),
            "lvremove": FakeProgram(self._lvremove, changes=True),
            "vgremove": FakeProgram(self._vgremove, changes=True),
            "wipefs": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True),
        }

    # -- arrays -----------------------------------------------------------------------------

    def _mdadm(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        if list(words[:1]) == ["--create"]:
            return _array(machine, words[1])
        if list(words[:1]) == ["--stop"]:
            return _gone(machine, words[1].rpartition("/")[2])
        return machine.parts["md"].programs()["mdadm"].command(machine, words, stdin)

    def _shell(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        """``-c SCRIPT $0 ARGUMENT…``."""
        script, *own = words[1:]
        if script.startswith(_SCRIPTS):
            return CommandOutput()
        if "sfdisk" in script and own:
            return _halves(machine, own[0])
        if "mdadm --assemble" in script and own:
            _array(machine, own[0])
            return _halves(machine, own[0])
        return CommandOutput(127, "", "sh: command not found\n")

    # -- volumes ----------------------------------------------------------------------------

    def _lvcreate(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        name = next(words[at + 1] for at, word in enumerate(words) if word in ("-n", "--name"))
        numbers = [int(each[3:]) for each in machine.blocks if each[3:].isdigit()]
        kernels = f"dm-{max(numbers, default=-1) + 1}"
        self.volumes[f"{words[-1]}/{name}"] = kernels
        _appear(machine, kernels, _SIZE)
        return CommandOutput(0, f'  Logical volume "{name}" created.\n')

    def _lvremove(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        kernels = self.volumes.pop(words[-1], "")
        return (
            _gone(machine, kernels) if kernels else CommandOutput(5, "", "  Failed to find it.\n")
        )

    def _vgremove(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        for volume in [each for each in self.volumes if each.startswith(f"{words[-1]}/")]:
            _gone(machine, self.volumes.pop(volume))
        return CommandOutput()


def _only_says(version: str) -> FakeProgram:
    """A tool whose loads :mod:`iotrial.hosts.fake.loads` knows."""
    return FakeProgram(lambda _m, _a, _s: CommandOutput(0, version), changes=False)


def _making(words: Sequence[str]) -> bool:
    return words[0] in ("--create", "--stop", "--grow")


def _scripted(words: Sequence[str]) -> bool:
    script = words[1] if len(words) > 1 else ""
    return "sfdisk" in script or "mdadm --assemble" in script


def _array(machine: FakeMachine, node: str) -> CommandOutput:
    name = node.rpartition("/")[2]
    if name in machine.blocks:
        return CommandOutput(1, "", f"mdadm: {node} is already in use.\n")
    _appear(machine, name, _SIZE)
    return CommandOutput()


def _halves(machine: FakeMachine, node: str) -> CommandOutput:
    name = node.rpartition("/")[2]
    if name not in machine.blocks:
        return CommandOutput(1, "", f"sfdisk: cannot open {node}: No such file or directory\n")
    for half in ("p1", "p2"):
        _appear(machine, f"{name}{half}", _SIZE // 2)
    return CommandOutput()


def _appear(machine: FakeMachine, name: str, size: int) -> None:
    """A block device that was not there; its minor number follows from its name."""
    major = _MAJORS.get(name[:2], 259)
    devno = (major, 1000 + zlib.crc32(name.encode()) % 100_000)
    disk = FakeDisk(name, devno, size, serial=f"PRETENDED-{name.upper()}")
    machine.blocks[name] = FakeBlockDevice(name, devno, size, machine.kernel.queue(), disk)
    machine.relink()


def _gone(machine: FakeMachine, name: str) -> CommandOutput:
    """It goes, and its halves."""
    found = [each for each in machine.blocks if each == name or each.startswith(f"{name}p")]
    for each in found:
        del machine.blocks[each]
    machine.relink()
    return (
        CommandOutput()
        if found
        else CommandOutput(1, "", f"mdadm: error opening /dev/{name}: No such file\n")
    )
