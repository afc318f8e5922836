"""Family ``irq``: which CPUs an interrupt may go to, ``/proc/irq/N/``.

Sources: the kernel's Documentation/core-api/irq/irq-affinity.rst and kernel/irq/proc.c
write_irq_affinity(): an interrupt whose driver lets the kernel spread it (NVMe, most SCSI
adapters with several queues) answers EIO, since 6.12 EPERM.  Measured on a 6.18 kernel (November
2026) with an idle interrupt; no managed one was at hand.
"""

from __future__ import annotations

import errno
import re

from iotrial.model.tunable import Domain, Tunable

FAMILY = "irq"
TITLE = "interrupts: which CPUs they go to"

_MANAGED = "managed by the kernel (its driver spreads them itself), or of a kind that cannot move"


def listed(text: str) -> str:
    """A list of CPUs as the kernel prints it; '' for what is no such list.

    >>> listed("0,1,4")
    '0-1,4'
    """
    numbers: set[int] = set()
    for word in text.split(","):
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", word)
        if not found:
            return ""
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            return ""
        numbers.update(range(first, last + 1))
    return ",".join(_runs(sorted(numbers)))


def _runs(numbers: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"{first}-{last}" if last > first else f"{first}" for first, last in runs]


def cpus(_raw: bytes) -> Domain:
    """Lists of CPUs in the kernel's own spelling.  What was read says nothing of the CPUs that
    are there: the kernel does, with EINVAL or EOVERFLOW."""

    def rule(value: str) -> str:
        kept = listed(value)
        if not kept:
            return f"{value!r} is not a list of CPUs, such as 0-3,8"
        return "" if kept == value else f"{value!r} is read back as {kept!r}: write it so"

    return Domain(rule=rule)


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        name="irq.affinity",
        path="/proc/irq/{device}/smp_affinity_list",
        summary="which CPUs this interrupt may go to",
        unit="list of CPUs",
        layer="interrupts",
        lasts="until the driver requests it again, irqbalance moves it or the machine reboots",
        risk="irqbalance, where it runs, writes the same file and undoes it: stop it for the"
        " trial, or ban this interrupt from it. Of the CPUs allowed the kernel chooses, and"
        " after a restore may choose another of them than before.",
        moot="Few interrupts come, or the device is polled.",
        source="kernel Documentation/core-api/irq/irq-affinity.rst; kernel/irq/proc.c; measured on"
        " 6.18",
        scope="irq",
        domain=cpus,
        means=(
            (errno.EIO, _MANAGED),
            (errno.EPERM, _MANAGED),
            (errno.EINVAL, "none of these CPUs is online"),
            (errno.EOVERFLOW, "there are not so many CPUs"),
            (errno.ERANGE, "there are not so many CPUs"),
            (errno.ENOSPC, "these CPUs have no interrupt vector left"),
        ),
    ),
)
