"""Family ``xps``: which CPUs send by which transmit queue of an interface,
``/sys/class/net/NIC/queues/tx-N/``.

Sources: the kernel's Documentation/networking/scaling.rst and
Documentation/ABI/testing/sysfs-class-net-queues; measured on a veth with two queues of a 6.18
kernel (November 2026).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotrial.model.step import Change
from iotrial.model.tunable import Tunable
from iotrial.tunables.rps import masks, written

FAMILY = "xps"
TITLE = "transmit packet steering: which CPUs send by which queue"

_SOURCE = (
    "kernel Documentation/networking/scaling.rst, Documentation/ABI/testing/sysfs-class-net-queues;"
    " measured on a veth of 6.18"
)


def _writing(name: str) -> Callable[[str, str], tuple[Change, ...]]:
    return lambda device, value: (
        Change("write", path=f"/sys/class/net/{device}/{name}", data=written(value)),
    )


def _xps(name: str, summary: str, **more: Any) -> Tunable:  # noqa: ANN401
    return Tunable(
        name=f"xps.{name.removeprefix('xps_')}",
        path="/sys/class/net/{device}/" + name,
        summary=summary,
        layer="network",
        lasts="until the number of queues changes, the driver is reloaded or the machine reboots",
        source=_SOURCE,
        scope="tx",
        pick="mask",
        domain=masks,
        how=_writing(name),
        **more,
    )


TUNABLES: tuple[Tunable, ...] = (
    _xps(
        "xps_cpus",
        "which CPUs may send by this queue; 0 in all of them: the hash of the flow decides",
        unit="hexadecimal mask of CPUs",
        risk="Many drivers set it when they come up. An interface with one queue has it not.",
        moot="One queue, or xps.rxqs decides.",
    ),
    _xps(
        "xps_rxqs",
        "which receive queues' flows may be answered by this queue; goes before xps.cpus",
        unit="hexadecimal mask of receive queues",
        risk="A flow is sent by it only where the receive queue of its socket is known.",
        moot="One queue, or 0 in all of them.",
    ),
)
