"""Upkeep of the fake machine: its page cache and the programs that chores are done with.

``cached`` are the paths whose beginning is in memory; ``locked`` those that stay there whatever is
dropped (mlock(2), tmpfs).  ``done`` names what was trimmed and written, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from iotrial.hosts.fake.commands import COMMANDS, program_of
from iotrial.hosts.fake.machine import Control, Machine, Program, Said

_MIB = 2**20
_RATE = 500e6  # bytes per second, of dd
_OWN = 3
"""``-c SCRIPT NAME`` come before the arguments of a script."""


class Upkeep:
    below = ("/proc/sys/vm",)

    def __init__(self) -> None:
        self.cached: set[str] = set()
        self.locked: set[str] = set()
        self.done: list[str] = []

    def controls(self) -> Mapping[str, Control]:
        return {"/proc/sys/vm/drop_caches": Control("0", self._drop)}

    def _drop(self, _text: str) -> None:
        self.cached &= self.locked

    def programs(self) -> Mapping[str, Program]:
        return {
            "blkdiscard": Program(self._discard, changes=True),
            "dd": Program(self._dd, changes=COMMANDS["dd"].changes),
            "fincore": Program(self._fincore, changes=False),
            "find": Program(_find, changes=False),
            "fstrim": Program(self._discard, changes=True),
            "iotrial-cleanup": Program(_cleanup, changes=True),
            "iotrial-limited": Program(_limited, changes=False),
            "iotrial-write": Program(self._write, changes=True),
        }

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}

    def _discard(self, machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
        if not machine.kind(arguments[-1]):
            return Said(1, "", f"{arguments[-1]}: No such file or directory\n")
        self.done.append(f"trim {arguments[-1]}")
        return Said()

    def _write(self, machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
        path, _, left, *_ = arguments[_OWN:]
        size = int(left) * _MIB
        if not machine.real(path).startswith("/dev/"):
            machine.put(path, b"", mode=0o644, size=size).durable = True
        self.done.append(f"write {size} to {path}")
        machine.pass_time(size / _RATE)
        return Said()

    def _dd(self, machine: Machine, arguments: Sequence[str], stdin: bytes) -> Said:
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
        return Said(0, "", f"{size} bytes copied\n")

    def _fincore(self, machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
        if "--version" in arguments:
            return Said(0, "fincore from util-linux 2.38.1\n")
        rows = ""
        for path in map(machine.real, arguments[list(arguments).index("RES,SIZE") + 1 :]):
            size = machine.files[path].length
            rows += f"{min(size, _MIB) if path in self.cached else 0} {size}\n"
        return Said(0, rows)


def _find(machine: Machine, arguments: Sequence[str], _stdin: bytes) -> Said:
    if "--version" in arguments:
        return Said(0, "find (GNU findutils) 4.9.0\n")
    below = machine.real(arguments[0]).rstrip("/") + "/"
    but = arguments[arguments.index("!") + 2] if "!" in arguments else ""
    found = [
        name
        for name, file in machine.files.items()
        if name.startswith(below) and file.length and PurePosixPath(name).name != but
    ]
    return Said(0, "".join(f"{name}\0" for name in sorted(found)))


def _limited(machine: Machine, arguments: Sequence[str], stdin: bytes) -> Said:
    most, *argv = arguments[_OWN:]
    program = program_of(machine, argv)
    if program is None:
        return Said(127, "", f"sh: {argv[0]}: not found\n")
    said = program.command(machine, argv[1:], stdin)
    return said._replace(stdout=said.stdout[: int(most)])


def _cleanup(machine: Machine, arguments: Sequence[str], stdin: bytes) -> Said:
    due, *argv = arguments[_OWN:]
    if not machine.kind(due):
        return Said()
    program = program_of(machine, argv)
    if program is None:
        return Said(127, "", f"sh: {argv[0]}: not found\n")
    said = program.command(machine, argv[1:], stdin)
    if not said.exit:
        del machine.files[machine.real(due)]
    return said


PART = Upkeep
