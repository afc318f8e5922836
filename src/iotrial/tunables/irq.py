"""Family ``irq``: which CPUs an interrupt may go to, ``/proc/irq/N/``.

``irq.affinity`` is a list of CPUs for each interrupt alike.  ``irq.spread`` is a rule for all
interrupts of a device, one level of a factor: each interrupt gets one CPU, in the order of their
numbers, from the first CPU again where there are fewer CPUs than interrupts::

    [factors.interrupts]
    tunable = "irq.spread"
    levels = ["unset", "local", "numa", "one"]

    level    the CPUs that the interrupts of a device get in turn
    all      all of the machine, by number
    local    those of the NUMA node that the device is on (on none: all)
    remote   those of the other nodes
    numa     all, one of each node in turn
    one      the first of ``local``, for every interrupt

Second threads of a core come after the first threads of all cores.  A rule becomes settings of
``irq.affinity``, and is shown, recorded, restored and kept as those.  A rule is in force as a
whole: where the kernel refuses one interrupt (a managed one), it refuses the level, and the message
names all that it refuses.  ``on`` names an adapter, controller or interface on the way to the
target (``on = "nvme0"``); then the interrupts of that one alone are spread.

Sources: the kernel's Documentation/core-api/irq/irq-affinity.rst and kernel/irq/proc.c
write_irq_affinity(): an interrupt whose driver lets the kernel spread it (NVMe, most SCSI
adapters with several queues) answers EIO, since 6.12 EPERM, and its file has no permission to
write.  The names of the rules are those of Intel's set_irq_affinity (all, local, remote, one).
Measured on a 6.18 kernel (November 2026) with an idle interrupt; no managed one was at hand.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping, Sequence

from iotrial.errors import SettingRefused, UsageError
from iotrial.model.step import Change
from iotrial.model.target import Topology
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


_Cpus = Sequence[tuple[str, str]]
"""(CPU, its NUMA node) of every CPU, in the order in which they are given away."""


def _cpus(below: Topology) -> _Cpus:
    known = [(n.name.removeprefix("cpu"), dict(n.about)) for n in below.nodes if n.scope == "cpu"]
    known.sort(key=lambda each: (int(each[1].get("thread", "1")), int(each[0])))
    return [(cpu, about.get("numa", "")) for cpu, about in known]


def _all(cpus: _Cpus, _home: str) -> list[str]:
    return [cpu for cpu, _ in cpus]


def _local(cpus: _Cpus, home: str) -> list[str]:
    return [cpu for cpu, node in cpus if node == home] or _all(cpus, home)


def _remote(cpus: _Cpus, home: str) -> list[str]:
    return [cpu for cpu, node in cpus if home and node not in ("", home)]


def _numa(cpus: _Cpus, home: str) -> list[str]:
    """One CPU of each node, then another of each, and so on."""
    del home
    met: dict[str, int] = {}
    turns = []
    for cpu, node in cpus:
        turns.append((met.get(node, 0), node.zfill(8), cpu))
        met[node] = met.get(node, 0) + 1
    return [cpu for *_, cpu in sorted(turns)]


def _one(cpus: _Cpus, home: str) -> list[str]:
    return _local(cpus, home)[:1]


RULES: Mapping[str, Callable[[_Cpus, str], list[str]]] = {
    "all": _all,
    "local": _local,
    "remote": _remote,
    "numa": _numa,
    "one": _one,
}
"""Rule → the CPUs that the interrupts of a device on the NUMA node ``home`` ('': on none, or not
known) get in turn."""


def spread(rule: str, irqs: Sequence[str], below: Topology) -> dict[str, str]:
    """Interrupt → its CPU.  Each device is begun with the first CPU, so that what an interrupt gets
    does not depend on which other devices a target has.

    Raises SettingRefused where a device has no CPU to go by that rule.
    """
    cpus, wanted = _cpus(below), set(irqs)
    found: dict[str, str] = {}
    for node in below.nodes if rule in RULES else ():
        own = [n for scope, n in node.below if scope == "irq" and n in wanted and n not in found]
        if not own:
            continue
        turn = RULES[rule](cpus, dict(node.about).get("numa", ""))
        if not turn:
            raise SettingRefused(
                f"irq.spread={rule}: {node.name} has no CPU on another NUMA node",
                tunable="irq.spread",
                device=own[0],
                value=rule,
                advice="Remove the level: the machine has one NUMA node, or does not tell that of"
                f" {node.name}.",
            )
        found |= {irq: turn[at % len(turn)] for at, irq in enumerate(own)}
    return found


def _never(_device: str, rule: str) -> tuple[Change, ...]:
    raise UsageError(
        f"irq.spread={rule} is a rule, and no value of one interrupt",
        advice="Set irq.affinity of each interrupt.",
    )


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
    Tunable(
        name="irq.spread",
        path="/proc/irq/{device}/smp_affinity_list",
        summary="a rule that gives each interrupt of a device one CPU: all, local, remote, numa,"
        " one",
        layer="interrupts",
        lasts="as irq.affinity, which it sets",
        risk="As irq.affinity. Refused as a whole where one interrupt of the device is managed by"
        " the kernel: the message names them. Interrupts of a queue that gets little are spread"
        " like the others.",
        moot="Few interrupts come, or the device is polled.",
        source="kernel Documentation/core-api/irq/irq-affinity.rst; the rules are iotrial's own",
        scope="irq",
        domain=lambda _raw: Domain(choices=tuple(RULES)),
        how=_never,
        sets="irq.affinity",
        place=spread,
    ),
)
