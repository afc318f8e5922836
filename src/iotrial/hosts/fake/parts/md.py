"""md: the array md127, a RAID 5 with a bitmap; with the programs mdadm and sed.

Its folder is that of a block device md127, which a test puts beside the disks where it needs one
(``machine.blocks``).  As drivers/md/{md,md-bitmap,raid5}.c of 6.1 and mdadm 4.2 answer: the bitmap
that mdadm makes has mdadm's values, none can be made while the array resyncs, and none clustered.
"""

from __future__ import annotations

import errno
import itertools
import re
from collections.abc import Callable, Mapping, Sequence

from iotrial.hosts.fake.machine import Control, Lasting, Machine, Program, Said
from iotrial.hosts.fake.queue import refuse

ARRAY = "/sys/devices/virtual/block/md127/md"
_SECTORS = 1024  # of a chunk, 512 KiB
_SYSTEM = {"sync_speed_min": "1000", "sync_speed_max": "200000"}
_MDADM = {"chunksize": 67108864, "time_base": "5"}
"""What mdadm gives a bitmap unless it is told otherwise."""
_SUBSTITUTE = re.compile(r"s/(.*)/(.*)/")
_ADDRESS = re.compile(r"/(.*)/([qd])")


class Md:
    """``resyncing`` refuses what a resync refuses; ``cluster`` makes the bitmap a clustered one."""

    below = (ARRAY,)

    def __init__(self) -> None:
        self.resyncing = False
        self._files = Lasting(
            {
                f"{ARRAY}/uuid": Control("0fa4e0d0-0000-4000-8000-000000000127"),
                f"{ARRAY}/sync_speed_min": self._speed("sync_speed_min"),
                f"{ARRAY}/sync_speed_max": self._speed("sync_speed_max"),
                f"{ARRAY}/sync_max": Control("max", _until),
                f"{ARRAY}/safe_mode_delay": Control("0.204", _delay),
                f"{ARRAY}/stripe_cache_size": Control(
                    "256", lambda text: _between(text, 17, 32768)
                ),
                f"{ARRAY}/preread_bypass_threshold": Control("1", self._preread),
                f"{ARRAY}/group_thread_cnt": Control("0", lambda text: _between(text, 0, 8192)),
                f"{ARRAY}/rmw_level": Control("1", lambda text: _between(text, 0, 2)),
                f"{ARRAY}/skip_copy": Control("0", lambda text: _between(text, 0, 1)),
                f"{ARRAY}/consistency_policy": Control("bitmap"),
                f"{ARRAY}/bitmap/location": Control("+8", self._location),
                f"{ARRAY}/bitmap/metadata": Control("internal"),
                f"{ARRAY}/bitmap/chunksize": Control("33554432"),
                f"{ARRAY}/bitmap/time_base": Control("5", _base),
            }
        )

    def controls(self) -> Mapping[str, Control]:
        return self._files

    def programs(self) -> Mapping[str, Program]:
        return {
            "mdadm": Program(self._mdadm, changes=lambda words: "--grow" in words),
            "sed": Program(_sed, changes=False),
        }

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}

    def cluster(self) -> None:
        self._files[f"{ARRAY}/bitmap/metadata"].value = "clustered"

    def _speed(self, name: str) -> Control:
        def take(text: str) -> str:
            if text.startswith("system"):
                return f"{_SYSTEM[name]} (system)"
            return f"{_between(text, 1, 2**32 - 1)} (local)"

        return Control(f"{_SYSTEM[name]} (system)", take)

    def _preread(self, text: str) -> str:
        return _between(text, 0, int(self._files[f"{ARRAY}/stripe_cache_size"].value))

    def _location(self, text: str) -> str:
        now = self._files[f"{ARRAY}/bitmap/location"].value
        if self.resyncing:
            raise refuse(errno.EBUSY)
        if not text.startswith("none"):
            raise refuse(errno.EBUSY if now != "none" else errno.EINVAL)
        if now != "none":
            self._files[f"{ARRAY}/consistency_policy"].value = "resync"
        return "none"

    def _mdadm(self, _machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        given = dict(word.split("=", 1) for word in words if "=" in word)
        if list(words[:2]) != ["--grow", "/dev/md127"]:
            return Said(1, "", "mdadm: the fake host knows --grow /dev/md127\n")
        if "--consistency-policy" in given:
            return self._policy(given["--consistency-policy"])
        if given.get("--bitmap") != "internal" or self.resyncing:
            return Said(1, "", "mdadm: failed to set internal bitmap: Device or resource busy\n")
        if self._files[f"{ARRAY}/bitmap/location"].value != "none":
            return Said(1, "", "mdadm: internal bitmap already present on /dev/md127\n")
        chunk = int(given["--bitmap-chunk"].removesuffix("K")) * 1024
        for name, value in {**_MDADM, "chunksize": chunk, "location": "+8"}.items():
            self._files[f"{ARRAY}/bitmap/{name}"].value = str(value)
        self._files[f"{ARRAY}/bitmap/metadata"].value = "internal"
        self._files[f"{ARRAY}/consistency_policy"].value = "bitmap"
        return Said()

    def _policy(self, wanted: str) -> Said:
        now = self._files[f"{ARRAY}/consistency_policy"]
        if now.value not in ("ppl", "resync"):
            return Said(1, "", f"mdadm: Current consistency policy is {now.value}, cannot change\n")
        now.value = wanted
        return Said()


def _between(text: str, low: int, high: int) -> str:
    word = text.strip()
    if not word.isdigit() or not low <= int(word) <= high:
        raise refuse(errno.EINVAL)
    return str(int(word))


def _until(text: str) -> str:
    if text.startswith("max"):
        return "max"
    if int(_between(text, 0, 2**63)) % _SECTORS:
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


def _sed(machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
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
    return Said(2 if missing else 0, "".join(f"{line}\n" for line in out), missing)


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


PART = Md
