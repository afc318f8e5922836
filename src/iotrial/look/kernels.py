"""Kernels: which hosts of a study are one, and whose hand changes what they share.

A host is its boot id with its mount and network namespaces.  Two names for one host would load it
twice and restore it twice: refused.  Namespaces of one kernel are hosts of their own for what
belongs to them (mounts, interfaces, network settings, files); whatever else one of them sets, the
others have too, so the first of them alone sets it and owes it.

Source: namespaces(7); /proc/sys/kernel/random/boot_id of proc_sys_kernel(5).

Likeness: whether hosts that share the blocks of one study are the same machine many times.

What differs between hosts cancels with the blocks, but only as far as treatments compare alike on
all of them, and a scheduler that suits one kernel, disk or number of CPUs may not suit another.  So
what decides how I/O behaves must be equal; what is likely to matter less is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iotrial.errors import RefusedError
from iotrial.look import reading
from iotrial.look.machine import BOOT_ID
from iotrial.model.host import Reader
from iotrial.model.hostlist import folded
from iotrial.model.trial import Doubt
from iotrial.model.tunable import Tunable

_OWN_SCOPES = ("mount", "nic", "rx", "tx")
_OWN_NAMES = ("sysctl.net.", "file.", "command.")
_SPACES = ("/proc/self/ns/mnt", "/proc/self/ns/net")

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelIdentity:
    """``boot`` tells kernels apart, ``spaces`` the namespaces of one."""

    boot: str
    spaces: tuple[str, ...]

    def key(self, device: str, knob: Tunable) -> Key:
        """What two hosts have in common where their keys of a setting are equal."""
        own = knob.scope in _OWN_SCOPES or knob.name.startswith(_OWN_NAMES)
        return (self.boot, *(self.spaces if own else ()), device, knob.name)


def kernel_of(host: Reader) -> KernelIdentity:
    said = host.run(["readlink", *_SPACES]).text.split()
    return KernelIdentity(reading.text(host, BOOT_ID).strip(), tuple(said))


def refuse_twins(kernels: Mapping[str, KernelIdentity]) -> None:
    """Raise RefusedError where two names are one host."""
    seen: dict[KernelIdentity, str] = {}
    for name, kernel in kernels.items():
        if other := seen.get(kernel):
            raise RefusedError(
                f"{other} and {name} are the same host (boot id {kernel.boot})",
                advice="Name it once in [hosts].",
            )
        seen[kernel] = name


def shared(kernels: Mapping[str, KernelIdentity]) -> Iterator[Doubt]:
    """A doubt for each kernel that several hosts share."""
    for boot in dict.fromkeys(kernel.boot for kernel in kernels.values()):
        names = [name for name, kernel in kernels.items() if kernel.boot == boot]
        if len(names) > 1:
            what = f"{', '.join(names)} are namespaces of one kernel: one CPU, one memory"
            advice = (
                f"They compete for resources. Only {names[0]} changes the settings of that kernel."
            )
            yield Doubt("shared-kernel", what, advice)


_MUST = {"kernel": "kernel", "cpus": "number of CPUs"}
_SHOULD = {
    "cpu_model": "CPU",
    "machine": "machine",
    "distribution": "distribution",
    "kernel_parameters": "boot parameters",
    "cpu_governor": "CPU governor",
    "clocksource": "clock source",
}
_DEVICE = {"size": "size", "vendor": "vendor", "model": "model"}
_MEMORY = 2**30
_SHOWN = 4


def likeness(facts: Mapping[str, Mapping[str, Any]]) -> tuple[Doubt, ...]:
    """A doubt for what differs between hosts, by name, and may matter.

    Raises RefusedError naming what differs and must not.
    """
    known = {host: (dict(_must(told)), dict(_should(told))) for host, told in facts.items()}
    if differing := list(_differing({host: must for host, (must, _) in known.items()})):
        raise RefusedError(
            "blocks are spread over different hosts: " + "; ".join(differing),
            advice="Make the hosts equal, remove some, or write a study for each kind.",
        )
    advice = "Make the hosts equal where it may matter; the report tests whether treatments compare"
    return tuple(
        Doubt("hosts-unlike", f"the hosts differ: {what}", f"{advice} equally on all.")
        for what in _differing({host: should for host, (_, should) in known.items()})
    )


def _must(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, words in _MUST.items():
        yield words, str(told.get(key, ""))
    for name, version in told.get("programs", {}).items():
        yield f"version of {name}", str(version)
    for name, target in told.get("targets", {}).items():
        device = told.get("devices", {}).get(target.get("device", ""), {})
        for key, words in _DEVICE.items():
            yield f"{words} of {name}", str(device.get(key, ""))


def _should(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, words in _SHOULD.items():
        yield words, str(told.get(key, ""))
    memory = int(told.get("memory", 0))
    yield "memory", f"{round(memory / _MEMORY)} GiB"  # firmware takes a little, not always as much
    for name, target in told.get("targets", {}).items():
        device = told.get("devices", {}).get(target.get("device", ""), {})
        yield f"firmware of {name}", str(device.get("rev", device.get("firmware_rev", "")))


def _differing(known: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """``kernel: 6.1 on box[1-3], 6.5 on box4``."""
    for what in dict.fromkeys(what for told in known.values() for what in told):
        values: dict[str, list[str]] = {}
        for host, told in known.items():
            values.setdefault(told.get(what, ""), []).append(host)
        if len(values) > 1:
            ranked = sorted(values.items(), key=lambda pair: -len(pair[1]))
            said = [f"{value or 'unknown'} on {folded(hosts)}" for value, hosts in ranked[:_SHOWN]]
            more = [f"{len(ranked) - _SHOWN} other values"] if len(ranked) > _SHOWN else []
            yield f"{what}: {', '.join([*said, *more])}"
