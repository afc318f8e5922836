"""File systems of the fake machine: what is mounted, and the upkeep of what lies there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Self

from iotrial.hosts.fake.commands import COMMANDS, of_script, ran
from iotrial.hosts.fake.machine import (
    CommandOutput,
    ControlFile,
    FakeFile,
    FakeMachine,
    FakeProgram,
    MachinePart,
)

_MIB = 2**20
_RATE = 500e6  # bytes per second, of dd


class CachePrograms(MachinePart):
    """The page cache, and the programs that chores are done with.

    ``cached`` are the paths whose beginning is in memory; ``locked`` those that stay there whatever
    is dropped (mlock(2), tmpfs).  ``done`` names what was trimmed and written, in order.
    """

    name = "upkeep"
    below = ("/proc/sys/vm",)

    def __init__(self) -> None:
        self.cached: set[str] = set()
        self.locked: set[str] = set()
        self.done: list[str] = []

    def controls(self) -> Mapping[str, ControlFile]:
        return {"/proc/sys/vm/drop_caches": ControlFile("0", self._drop)}

    def _drop(self, _text: str) -> None:
        self.cached &= self.locked

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "blkdiscard": FakeProgram(self._discard, changes=True),
            "dd": FakeProgram(self._dd, changes=COMMANDS["dd"].changes),
            "fincore": FakeProgram(self._fincore, changes=False),
            "find": FakeProgram(_find, changes=False),
            "fstrim": FakeProgram(self._discard, changes=True),
            "iotrial-cleanup": FakeProgram(_cleanup, changes=True),
            "iotrial-limited": FakeProgram(_limited, changes=False),
            "iotrial-write": FakeProgram(self._write, changes=True),
        }

    def _discard(
        self, machine: FakeMachine, arguments: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        if not machine.kind(arguments[-1]):
            return CommandOutput(1, "", f"{arguments[-1]}: No such file or directory\n")
        self.done.append(f"trim {arguments[-1]}")
        return CommandOutput()

    def _write(
        self, machine: FakeMachine, arguments: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        path, _, left, *_ = of_script(arguments)
        size = int(left) * _MIB
        if not machine.real(path).startswith("/dev/"):
            machine.put(path, b"", mode=0o644, size=size).durable = True
        self.done.append(f"write {size} to {path}")
        machine.pass_time(size / _RATE)
        return CommandOutput()

    def _dd(self, machine: FakeMachine, arguments: Sequence[str], stdin: bytes) -> CommandOutput:
        """Reading the first MiB of something; all else as always."""
        given = dict(word.split("=", 1) for word in arguments if "=" in word)
        if given.get("of") != "/dev/null" or given.get("count") != "1":
            return COMMANDS["dd"].command(machine, arguments, stdin)
        path = machine.real(given["if"])
        block = machine.blocks.get(PurePosixPath(path).name)
        size = min(_MIB, block.size if block else machine.files[path].length)
        fresh = path not in self.cached or given.get("iflag") == "direct"
        if block and fresh and block.queue.features["iostats"]:
            block.moved[1] += size // 512
        if given.get("iflag") != "direct":
            self.cached.add(path)
        return CommandOutput(0, "", f"{size} bytes copied\n")

    def _fincore(
        self, machine: FakeMachine, arguments: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        if "--version" in arguments:
            return CommandOutput(0, "fincore from util-linux 2.38.1\n")
        rows = ""
        for path in map(machine.real, arguments[list(arguments).index("RES,SIZE") + 1 :]):
            size = machine.files[path].length
            rows += f"{min(size, _MIB) if path in self.cached else 0} {size}\n"
        return CommandOutput(0, rows)


def _find(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    if "--version" in arguments:
        return CommandOutput(0, "find (GNU findutils) 4.9.0\n")
    below = machine.real(arguments[0]).rstrip("/") + "/"
    but = arguments[arguments.index("!") + 2] if "!" in arguments else ""
    found = [
        name
        for name, file in machine.files.items()
        if name.startswith(below) and file.length and PurePosixPath(name).name != but
    ]
    return CommandOutput(0, "".join(f"{name}\0" for name in sorted(found)))


def _limited(machine: FakeMachine, arguments: Sequence[str], stdin: bytes) -> CommandOutput:
    most, *argv = of_script(arguments)
    said = ran(machine, argv, stdin)
    return said._replace(stdout=said.stdout[: int(most)])


def _cleanup(machine: FakeMachine, arguments: Sequence[str], stdin: bytes) -> CommandOutput:
    due, *argv = of_script(arguments)
    if not machine.kind(due):
        return CommandOutput()
    said = ran(machine, argv, stdin)
    if not said.exit:
        del machine.files[machine.real(due)]
    return said


Hidden = tuple[dict[str, FakeFile], dict[str, int]]

EXT4, NFS = "/mnt/fake-ext4", "/mnt/fake-nfs"
_NEGOTIATED = ("addr", "clientaddr", "mountaddr", "namlen", "seclabel")
_BUSY = "target is busy."
_REFUSED = CommandOutput(32, "", "mount: wrong fs type, bad option, bad superblock\n")

_FLAGS = {
    **dict.fromkeys(("relatime", "noatime", "strictatime"), "atime"),
    **dict.fromkeys(("diratime", "nodiratime"), "diratime"),
    **dict.fromkeys(("async", "sync"), "sync"),
    **dict.fromkeys(("nolazytime", "lazytime"), "lazytime"),
    **dict.fromkeys(("nodiscard", "discard"), "discard"),
    **dict.fromkeys(("barrier", "nobarrier"), "barrier"),
    **dict.fromkeys(("delalloc", "nodelalloc"), "delalloc"),
    **dict.fromkeys(("dioread_nolock", "nodioread_nolock"), "dioread"),
    **dict.fromkeys(("hard", "soft", "softerr"), "hard"),
    **dict.fromkeys(("ac", "noac"), "ac"),
    **dict.fromkeys(("cto", "nocto"), "cto"),
    **dict.fromkeys(("rw", "ro"), "rw"),
    **dict.fromkeys(("suid", "nosuid"), "suid"),
}
"""Bare options, and the setting that each belongs to."""
_HIDDEN = {
    *("strictatime", "diratime", "async", "nolazytime", "nodiscard", "barrier", "delalloc"),
    *("dioread_nolock", "ac", "cto", "suid", "commit=5", "stripe=0", "max_batch_time=15000"),
    *("min_batch_time=0", "data=ordered", "acregmin=3", "acregmax=60", "acdirmin=30"),
    *("acdirmax=60", "lookupcache=all", "inode_readahead_blks=32"),
}
"""Defaults, which are not shown."""
_ALWAYS = ("rw", "atime", "diratime", "suid", "sync", "lazytime")
_KNOWN = {
    "ext4": (
        *(*_ALWAYS, "discard", "barrier", "dioread", "delalloc", "commit", "stripe", "data"),
        *("max_batch_time", "min_batch_time", "inode_readahead_blks"),
    ),
    "ext2": (*_ALWAYS, "stripe"),
    "nfs4": (
        *(*_ALWAYS, "vers", "rsize", "wsize", "namlen", "acregmin", "acregmax", "acdirmin"),
        *("acdirmax", "hard", "cto", "ac", "proto", "nconnect", "timeo", "retrans", "sec"),
        *("clientaddr", "local_lock", "lookupcache", "addr"),
    ),
}
"""Settings by file system, in the order they are shown."""
_TIMES = ("acregmin", "acregmax", "acdirmin", "acdirmax")
"""What actimeo of NFS sets at once."""
_START = {"rw": "rw", "atime": "relatime"}
_SERVED = {
    word.partition("=")[0]: word
    for word in (
        *("vers=4.2", "rsize=1048576", "wsize=1048576", "namlen=255", "hard", "proto=tcp"),
        *("timeo=600", "retrans=2", "sec=sys", "local_lock=none", "addr=10.0.0.1"),
    )
}
_REMOUNTED = {
    "nfs4": _ALWAYS,
    "ext2": _ALWAYS,
    "ext4": tuple(set(_KNOWN["ext4"]) - {"data", "delalloc"}),
}


@dataclass
class MountPoint:
    """What is mounted at one point; ``options`` maps a setting to its word."""

    source: str
    kind: str
    options: dict[str, str]
    number: int
    ahead: int = 128
    propagation: str = "private"

    def shown(self) -> str:
        words = (self.options.get(key, "") for key in _KNOWN[self.kind])
        return ",".join(word for word in words if word and word not in _HIDDEN)

    def lasting(self) -> str:
        """What is shown, but for what was negotiated."""
        words = self.shown().split(",")
        return ",".join(word for word in words if word.partition("=")[0] not in _NEGOTIATED)


@dataclass
class FileSystem:
    """What mkfs made: on which file, where it is on a loop device."""

    kind: str
    uuid: str
    backing: str


@dataclass
class Mounts(MachinePart):
    """An ext4 and an NFS file system, and what a study mounts itself.

    ext4 takes, shows and hides options as 6.18 does
    (``tests/integration/test_mount_on_this_kernel.py`` holds the rows against the real one); NFS as
    fs/nfs/super.c says, with an address of its own at every mount.  Unmounted, a file system
    forgets its options.

    ``mounted`` is by mount point, ``made`` by device node, ``hidden`` what lies on a file system
    that is not mounted, by its source: files and folders by their paths below the mount point.
    ``busy`` are the mount points where somebody has a file open.
    """

    name = "mount"

    mounted: dict[str, MountPoint] = field(default_factory=dict)
    made: dict[str, FileSystem] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    hidden: dict[str, Hidden] = field(default_factory=dict)
    _numbers: int = 50

    def __post_init__(self) -> None:
        self.mount(EXT4, "/dev/fakedata", "ext4", "rw,relatime,stripe=8")
        self.mount(NFS, "srv:/export", "nfs4", "rw,noatime,rsize=65536,wsize=65536")

    # -- as a part --------------------------------------------------------------------------

    def settings(self) -> Mapping[str, str]:
        return {
            point: f"{each.source} {each.kind} {each.lasting()} {each.ahead}"
            for point, each in self.mounted.items()
        }

    def mounts(self, machine: FakeMachine) -> list[tuple[str, str, str, str]]:
        """As :meth:`FakeMachine.mounts`."""
        return [
            (_devno(machine, each), point, each.kind, each.source)
            for point, each in self.mounted.items()
        ]

    def programs(self) -> Mapping[str, FakeProgram]:
        return {
            "blkid": FakeProgram(self._blkid, changes=False),
            "findmnt": FakeProgram(self._findmnt, changes=False),
            "mount": FakeProgram(self._mount, changes=True),
            "umount": FakeProgram(self._umount, changes=True),
            "mkfs.ext2": FakeProgram(partial(self._mkfs, "ext2"), changes=True),
            "mkfs.ext4": FakeProgram(partial(self._mkfs, "ext4"), changes=True),
            "iotrial-remove": FakeProgram(self._remove, changes=True),
            "iotrial-wipe": FakeProgram(self._wipe, changes=True),
            "iotrial-mounted": FakeProgram(self._look, changes=False),
            "iotrial-mount": FakeProgram(self._set, changes=True, torn=self._unmounted),
            "iotrial-mount-back": FakeProgram(self._back, changes=True, torn=self._unmounted),
            "iotrial-bdi": FakeProgram(self._bdi, changes=lambda words: len(of_script(words)) > 1),
        }

    def remember(self, former: Self, machine: FakeMachine) -> None:
        """File systems on disks, and what is on them."""
        self.made = {node: made for node, made in former.made.items() if not made.backing}
        self.hidden = former.hidden
        for point in former.mounted.keys() - self.mounted.keys():
            former.hide(machine, point)

    def hide(self, machine: FakeMachine, point: str) -> None:
        """Whatever is below a mount point that goes is not there any more."""
        here, below = self.mounted[point], f"{point}/"
        files = {path: machine.files.pop(path) for path in _below(machine.files, below)}
        folders = {path: machine.folders.pop(path) for path in _below(machine.folders, below)}
        if isinstance(
            memory := machine.parts["upkeep"], CachePrograms
        ):  # what it held goes with it
            memory.cached -= set(_below(memory.cached, below)) - memory.locked
        self.hidden[here.source] = (
            {path.removeprefix(below): file for path, file in files.items()},
            {path.removeprefix(below): mode for path, mode in folders.items()},
        )

    def show(self, machine: FakeMachine, point: str) -> None:
        files, folders = self.hidden.pop(self.mounted[point].source, ({}, {}))
        machine.files |= {f"{point}/{name}": file for name, file in files.items()}
        machine.folders |= {f"{point}/{name}": mode for name, mode in folders.items()}

    # -- the kernel -------------------------------------------------------------------------

    def mount(self, point: str, source: str, kind: str, options: str) -> bool:
        """mount(2): whether it was taken."""
        start = dict(_START)
        if kind == "nfs4":
            start |= _SERVED | {"clientaddr": f"clientaddr=10.0.0.{self._numbers}"}
        given = {key: word for key, word in _taken(kind, options).items() if key != "clientaddr"}
        if None in given.values() or point in self.mounted:
            return False
        found = {key: word for key, word in given.items() if word is not None}
        if found.get("data") == "data=journal":
            if "delalloc" in found and found["delalloc"] == "delalloc":
                return False
            found |= {"delalloc": "nodelalloc", "dioread": "nodioread_nolock"}
        if found.get("ac") == "noac":
            found["sync"] = "sync"
        self._numbers += 1
        self.mounted[point] = MountPoint(source, kind, start | found, self._numbers)
        return True

    def remount(self, point: str, options: str) -> bool:
        here = self.mounted[point]
        given = _taken(here.kind, options)
        for key, word in given.items():
            same = here.options.get(key, word if word in _HIDDEN else None) == word
            if word is None or (key not in _REMOUNTED[here.kind] and not same):
                return False
        here.options |= {key: word for key, word in given.items() if word is not None}
        if "sync" not in given:  # flags that are not given are cleared
            here.options.pop("sync", None)
        if "lazytime" not in given:
            here.options.pop("lazytime", None)
        return True

    # -- commands ---------------------------------------------------------------------------

    def _findmnt(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        here = self.mounted.get(words[-1])
        if here is None:
            return CommandOutput(1)
        columns = words[list(words).index("-o") + 1].split(",")
        told = {
            "SOURCE": here.source,
            "FSTYPE": here.kind,
            "OPTIONS": here.shown(),
            "FS-OPTIONS": here.shown(),
            "PROPAGATION": here.propagation,
        }
        return CommandOutput(0, " ".join(told[column] for column in columns) + "\n")

    def _mount(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        said = {flag: words[list(words).index(flag) + 1] for flag in ("-t", "-o") if flag in words}
        *_, source, point = words
        if machine.kind(point) != "directory":
            return CommandOutput(32, "", f"mount: {point}: mount point does not exist.\n")
        made = self._made(machine, source)
        kind = {"nfs": "nfs4"}.get(said.get("-t", ""), said.get("-t", ""))
        if kind not in _KNOWN or (source.startswith("/dev/loop") and made is None):
            return _REFUSED
        if not self.mount(point, source, kind, said.get("-o", "")):
            return _REFUSED
        self.show(machine, point)
        return CommandOutput()

    def _umount(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        point = words[-1]
        if point not in self.mounted:
            return CommandOutput(32, "", f"umount: {point}: not mounted.\n")
        if point in self.busy:
            return CommandOutput(32, "", f"umount: {point}: {_BUSY}\n")
        self.hide(machine, point)
        del self.mounted[point]
        return CommandOutput()

    def _mkfs(
        self, kind: str, machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        node = words[-1]
        if machine.kind(node) != "block special file":
            return CommandOutput(1, "", f"mkfs.{kind}: {node}: No such file or directory\n")
        uuid = words[list(words).index("-U") + 1] if "-U" in words else ""
        self.hidden.pop(node, None)
        self.made[node] = FileSystem(kind, uuid, _backing(machine, node))
        return CommandOutput()

    def _made(self, machine: FakeMachine, node: str) -> FileSystem | None:
        found = self.made.get(node)
        return found if found and found.backing == _backing(machine, node) else None

    def _blkid(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        found = self._made(machine, words[-1])
        if found is None:
            return COMMANDS["blkid"].command(machine, words, stdin)
        told = f"DEVNAME={words[-1]}\nUUID={found.uuid}\nTYPE={found.kind}\nUSAGE=filesystem\n"
        return CommandOutput(0, told)

    def _remove(self, machine: FakeMachine, words: Sequence[str], stdin: bytes) -> CommandOutput:
        at, *argv = of_script(words)
        said = ran(machine, argv, stdin)
        return said if said.exit and machine.kind(at) else CommandOutput()

    def _wipe(self, machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        node, uuid = of_script(words)
        found = self._made(machine, node)
        if found and found.uuid == uuid:
            del self.made[node]
        return CommandOutput()

    # -- scripts of ours, as iotrial.tunables.mount has them -------------------------

    def _look(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        here = self.mounted.get(of_script(words)[0])
        if here is None:
            return CommandOutput(1)
        return CommandOutput(0, f"{here.source} {here.kind} {here.propagation} {here.lasting()}\n")

    def _set(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        point, names, new, live, shown = of_script(words)
        here = self.mounted.get(point)
        if here is None:
            return CommandOutput(1, "", f"nothing is mounted on {point}: No such device\n")
        family = names.split(",")
        former = here.lasting()
        others = [word for word in former.split(",") if word.partition("=")[0] not in family]
        if live:
            self.remount(point, _full(",".join([*others, live])))
            now = [word for word in here.shown().split(",") if word.partition("=")[0] in family]
            if ",".join(now) in (shown, new):
                return CommandOutput()
        if point in self.busy:
            return CommandOutput(1, "", f"{point} is in use: Device or resource busy\n")
        del self.mounted[point]
        wanted = _full(",".join([*others, new] if new else others))
        if self.mount(point, here.source, here.kind, wanted):
            return CommandOutput()
        self.mount(point, here.source, here.kind, _full(former))
        return CommandOutput(1, "", "it is mounted as before: Invalid argument\n")

    def _back(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        point, source, kind, _, options = of_script(words)
        here = self.mounted.get(point)
        if here is not None:
            if (here.source, here.kind) != (source, kind):
                return CommandOutput(
                    1, "", f"{here.source} is mounted on {point}: Device or resource busy\n"
                )
            if here.lasting() == options:
                return CommandOutput()
            self.remount(point, _full(options))
            if here.lasting() == options:
                return CommandOutput()
            if point in self.busy:
                return CommandOutput(1, "", f"{point} is in use: Device or resource busy\n")
            del self.mounted[point]
        return CommandOutput() if self.mount(point, source, kind, _full(options)) else _REFUSED

    def _unmounted(
        self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes
    ) -> CommandOutput:
        """What a script leaves that is killed after it has unmounted."""
        point = of_script(words)[0]
        if point not in self.busy:
            self.mounted.pop(point, None)
        return CommandOutput()

    def _bdi(self, _machine: FakeMachine, words: Sequence[str], _stdin: bytes) -> CommandOutput:
        point, *value = of_script(words)
        here = self.mounted.get(point)
        if here is None or here.kind != "nfs4":
            return CommandOutput(1)
        if value:
            here.ahead = int(value[0])
            return CommandOutput()
        return CommandOutput(0, f"{here.ahead}\n")


def _full(options: str) -> str:
    """As the scripts give it to mount: strictatime is not shown, and not the default."""
    named = {"relatime", "noatime", "strictatime"} & set(options.split(","))
    return options if named else f"{options},strictatime"


def _taken(kind: str, options: str) -> dict[str, str | None]:
    """Setting → word; None for one that the file system does not know."""
    found: dict[str, str | None] = {}
    words = [each for word in filter(None, options.split(",")) for each in _spelt_out(word)]
    for word in words:
        name, _, value = word.partition("=")
        key = _FLAGS.get(name, name)
        known = key in _KNOWN[kind] and bool(value) == (name not in _FLAGS)
        found[key] = word if known else None
    return found


def _spelt_out(word: str) -> tuple[str, ...]:
    """The words that one stands for.

    >>> _spelt_out("actimeo=30")
    ('acregmin=30', 'acregmax=30', 'acdirmin=30', 'acdirmax=30')
    """
    name, _, value = word.partition("=")
    return tuple(f"{each}={value}" for each in _TIMES) if name == "actimeo" else (word,)


def _below(paths: Iterable[str], folder: str) -> list[str]:
    return [path for path in paths if path.startswith(folder)]


def _devno(machine: FakeMachine, each: MountPoint) -> str:
    if each.kind == "nfs4":
        return f"0:{each.number}"
    major, minor = machine.nodes.get(each.source, (240, 96))
    return f"{major}:{minor}"


def _backing(machine: FakeMachine, node: str) -> str:
    block = machine.blocks.get(node.removeprefix("/dev/"))
    return block.backing[0] if block and block.backing else ""
