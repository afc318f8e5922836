"""Kernels: which hosts of a study are one, and whose hand changes what they share.

A host is its boot id with its mount and network namespaces.  Two names for one host would load it
twice and restore it twice: refused.  Namespaces of one kernel are hosts of their own for what
belongs to them (mounts, interfaces, network settings, files); whatever else one of them sets, the
others have too, so the first of them alone sets it and owes it.

Source: namespaces(7); /proc/sys/kernel/random/boot_id of proc_sys_kernel(5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iotrial.errors import RefusedError
from iotrial.execute import look
from iotrial.execute.machine import BOOT_ID
from iotrial.model.doubt import Doubt
from iotrial.model.host import Host
from iotrial.model.tunable import Tunable

_OWN_SCOPES = ("mount", "nic", "rx", "tx")
_OWN_NAMES = ("sysctl.net.", "file.")
_SPACES = ("/proc/self/ns/mnt", "/proc/self/ns/net")

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """``boot`` tells kernels apart, ``spaces`` the namespaces of one."""

    boot: str
    spaces: tuple[str, ...]

    def key(self, device: str, knob: Tunable) -> Key:
        """What two hosts have in common where their keys of a setting are equal."""
        own = knob.scope in _OWN_SCOPES or knob.name.startswith(_OWN_NAMES)
        return (self.boot, *(self.spaces if own else ()), device, knob.name)


def kernel_of(host: Host) -> Kernel:
    said = host.run(["readlink", *_SPACES]).text.split()
    return Kernel(look.text(host, BOOT_ID).strip(), tuple(said))


def refuse_twins(kernels: Mapping[str, Kernel]) -> None:
    """Raise RefusedError where two names are one host."""
    seen: dict[Kernel, str] = {}
    for name, kernel in kernels.items():
        if other := seen.get(kernel):
            raise RefusedError(
                f"{other} and {name} are one and the same machine (boot id {kernel.boot})",
                advice="Name it once in [hosts].",
            )
        seen[kernel] = name


def shared(kernels: Mapping[str, Kernel]) -> Iterator[Doubt]:
    """A doubt for each kernel that several hosts share."""
    for boot in dict.fromkeys(kernel.boot for kernel in kernels.values()):
        names = [name for name, kernel in kernels.items() if kernel.boot == boot]
        if len(names) > 1:
            what = f"{', '.join(names)} are namespaces of one kernel: one CPU, one memory"
            advice = f"They slow each other down. Its settings are changed by {names[0]} alone."
            yield Doubt("shared-kernel", what, advice)
