"""LVM: the volumes vg/plain, vg/mirror (RAID 1) and vg/cached; with the programs lvs and lvchange.

As lvs(8) and lvchange(8) of 2.03.16 answer: a volume without such a value shows a blank, what is in
force already is refused, a read-ahead is rounded up to whole pages.  The metadata stays over a
reboot; this machine forgets it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from iotrial.hosts.fake.machine import Control, Machine, Program, Said

_PAGE = 8  # sectors
_OPTIONS = {
    "--readahead": "lv_read_ahead",
    "--minrecoveryrate": "raid_min_recovery_rate",
    "--maxrecoveryrate": "raid_max_recovery_rate",
    "--cachemode": "cache_mode",
    "--cachepolicy": "cache_policy",
}


class Lvm:
    """``volumes``: column → value, by volume."""

    below: tuple[str, ...] = ()

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

    def controls(self) -> Mapping[str, Control]:
        return {}

    def programs(self) -> Mapping[str, Program]:
        return {
            "lvs": Program(self._lvs, changes=False),
            "iotrial-rate": Program(self._rate, changes=False),
            "lvchange": Program(self._lvchange, changes=True),
        }

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {
            f"{volume} {column}": value
            for volume, columns in self.volumes.items()
            for column, value in columns.items()
        }

    def _lvs(self, _machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        column, volume = words[list(words).index("-o") + 1], words[-1]
        if volume not in self.volumes:
            return _missing(volume)
        return Said(0, f"  {self.volumes[volume].get(column, '')}\n")

    def _rate(self, _machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        volume, column = words[-2:]
        if volume not in self.volumes:
            return _missing(volume)
        value = self.volumes[volume].get(column)
        return Said(0, "" if value is None else f"{value}\n")

    def _lvchange(self, _machine: Machine, words: Sequence[str], _stdin: bytes) -> Said:
        volume = words[-1]
        if volume not in self.volumes:
            return _missing(volume)
        option, wanted = [word for word in words[:-1] if word != "--yes"]
        column, columns = _OPTIONS[option], self.volumes[volume]
        if column not in columns:
            return Said(5, "", f"  Command not permitted on LV {volume}.\n")
        value = _value(column, wanted)
        if value is None:
            return Said(3, "", f"  Invalid argument for {option}: {wanted}\n")
        if value == columns[column]:
            return Said(5, "", f"  {column} is already {value} for {volume}.\n")
        columns[column] = value
        return Said(0, f"  Logical volume {volume} changed.\n")


def _missing(volume: str) -> Said:
    return Said(5, "", f"  Failed to find logical volume {volume}: {os.strerror(errno.ENOENT)}\n")


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


PART = Lvm
