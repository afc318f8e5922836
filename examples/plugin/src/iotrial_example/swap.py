"""Family ``swap``: how pages are read back from swap.

Source: the kernel's Documentation/ABI/testing/sysfs-kernel-mm-swap.
"""

from __future__ import annotations

from iotrial.model.tunable import Domain, Tunable

FAMILY = "swap"
TITLE = "swap: how pages are read back"


def _switch(_raw: bytes) -> Domain:
    return Domain(choices=("true", "false"))


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        name="swap.vma_ra_enabled",
        path="/sys/kernel/mm/swap/vma_ra_enabled",
        scope="host",
        summary="whether swap is read ahead by address (true) or by place on the disk (false)",
        layer="memory",
        lasts="until the machine reboots",
        domain=_switch,
        moot="Nothing is swapped, or the swap is on a rotating disk.",
        source="kernel Documentation/ABI/testing/sysfs-kernel-mm-swap",
    ),
)
