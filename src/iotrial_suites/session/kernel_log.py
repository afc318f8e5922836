"""The kernel's log around a case: what it said meanwhile, and what of it is trouble.

Records of ``/dev/kmsg`` have sequence numbers, so that what is new is known exactly, also where the
log has wrapped round.  Trouble is what the kernel itself marks as a defect, and I/O that failed.

Sources: Documentation/ABI/testing/dev-kmsg; the lists of the test suites of others (blktests
``_check_dmesg``, xfstests ``_check_dmesg``, Documentation/admin-guide/tainted-kernels.rst).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

READ = (
    "sh",
    "-c",
    'exec 2>/dev/null; dd if=/dev/kmsg iflag=nonblock bs=16k status=none | tail -c "$1"',
    "iotrial-kmsg",
    str(1 << 20),
)
"""Prints the records that the kernel still has, the newest MiB of them."""
READABLE = ("dd", "if=/dev/kmsg", "of=/dev/null", "iflag=nonblock", "bs=16k", "count=1")

_RECORD = re.compile(r"(\d+),(\d+),(\d+),[^;]*;(.*)")
_SIGNS = (
    r"\bkernel BUG at\b",
    r"\bBUG: ",
    r"^WARNING: ",
    r"\bOops\b",
    r"\bgeneral protection fault\b",
    r"\bunable to handle\b",
    r"\b[Kk]ernel panic\b",
    r"^INFO: task .* blocked for more than",
    r"^INFO: rcu_\w+ (self-)?detected stall",
    r"\bsoft lockup\b",
    r"\bhard LOCKUP\b",
    r"\bDEADLOCK\b",
    r"\bpossible (circular|recursive) locking\b",
    r"\bKASAN: ",
    r"\bUBSAN: ",
    r"\bkmemleak: \d+ new",
    r"\bslab .* corruption\b",
    r"\bOut of memory: ",
    r"\bI/O error\b",
    r"\bMedium [Ee]rror\b",
    r"\blost (async )?page write\b",
    r"\bEXT4-fs (error|.*: error)",
    r"\bXFS \(.*\): .*([Cc]orrupt|shutdown|Internal error)",
    r"\bBTRFS (error|critical)",
    r"\bDisk failure\b",
    r"\buncorrectable\b",
)
_TROUBLE = re.compile("|".join(_SIGNS))


@dataclass(frozen=True, slots=True)
class Record:
    """A line of the log: sequence number, seconds since the boot, text."""

    number: int
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"[{self.seconds:.6f}] {self.text}"


def records(text: str) -> tuple[Record, ...]:
    """What was read of /dev/kmsg; a record cut off at the front, and lines that continue one
    (they begin with a blank), are left out."""
    found = (_RECORD.fullmatch(line) for line in text.split("\n"))
    return tuple(
        Record(int(match[2]), int(match[3]) / 1e6, match[4]) for match in found if match is not None
    )


def newest(seen: Sequence[Record]) -> int:
    """The number of the last record, -1 without any."""
    return seen[-1].number if seen else -1


def since(seen: Iterable[Record], number: int) -> tuple[Record, ...]:
    """The records after this one.  A reboot counts anew."""
    found = tuple(seen)
    if found and found[-1].number < number:
        return found
    return tuple(each for each in found if each.number > number)


def trouble(new: Iterable[Record], announced: Sequence[str]) -> tuple[str, ...]:
    """The lines that are trouble, and that no expression of ``announced`` is found in."""
    known = [re.compile(each) for each in announced]
    return tuple(
        str(each)
        for each in new
        if _TROUBLE.search(each.text) and not any(one.search(each.text) for one in known)
    )
