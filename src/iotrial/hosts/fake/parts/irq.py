"""Interrupts of the fake machine: three that can be moved, and one that the kernel spreads itself.

As kernel/irq/proc.c of 6.18; ``tests/integration/test_irq_on_this_kernel.py`` compares the answers
with the running kernel's.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping

from iotrial.hosts.fake.machine import Control, Lasting, Program
from iotrial.hosts.fake.proc import CPUS
from iotrial.hosts.fake.queue import refuse

START = {"40": "0-3", "41": "0-3", "42": "1", "43": "2"}
MANAGED = "43"


def take_list(text: str, cpus: int = CPUS) -> str:
    """What the kernel makes of a list of CPUs.  Raises OSError."""
    found: set[int] = set()
    for word in text.strip().split(","):
        ends = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", word)
        if not ends:
            raise refuse(errno.EINVAL)
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise refuse(errno.EINVAL)
        if last >= cpus:
            raise refuse(errno.ERANGE)
        found.update(range(first, last + 1))
    return _spelt(found)


def _spelt(found: set[int]) -> str:
    starts = sorted(n for n in found if n - 1 not in found)
    ends = sorted(n for n in found if n + 1 not in found)
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)


def _mask(cpus: str) -> str:
    bits = 0
    for word in cpus.split(","):
        first, _, last = word.partition("-")
        bits |= sum(1 << n for n in range(int(first), int(last or first) + 1))
    return f"{bits:x}"


class Interrupts:
    """Their affinities, as after a boot."""

    below = ("/proc/irq",)

    def __init__(self) -> None:
        files = {
            f"/proc/irq/{number}/smp_affinity_list": Control(cpus, _taker(number))
            for number, cpus in START.items()
        }
        files["/proc/irq/default_smp_affinity"] = Control(_mask(f"0-{CPUS - 1}"))
        self._controls = Lasting(files)

    def controls(self) -> Mapping[str, Control]:
        return self._controls

    def programs(self) -> Mapping[str, Program]:
        return {}

    def links(self) -> Mapping[str, str]:
        return {}

    def settings(self) -> Mapping[str, str]:
        return {}


def _taker(number: str) -> Callable[[str], str]:
    def take(text: str) -> str:
        if number == MANAGED:
            raise refuse(errno.EPERM)
        return take_list(text)

    return take


PART = Interrupts
