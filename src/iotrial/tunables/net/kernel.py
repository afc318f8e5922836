"""What the kernel itself keeps for each interface: MTU, queue length, discipline, polling."""

from __future__ import annotations

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable
from iotrial.tunables.net.listing import LINK, LOCAL, VETH, between, row
from iotrial.tunables.net.offload import OFFLOADS

_ABI = "kernel Documentation/ABI/testing/sysfs-class-net"
_INT = 2**31 - 1
_IPV6_LEAST = 1280

KINDS = ("noqueue", "mq", "pfifo_fast", "pfifo", "fq_codel", "fq", "codel", "sfq", "cake")
"""Queueing disciplines that need no parameters.  noqueue and mq are what the kernel attaches by
itself: they are reached by taking away what is there."""


def disciplines(raw: bytes) -> Domain:
    """``qdisc mq 0: root`` → the kinds that may be tried.

    Handle 0 is what the kernel attached by itself.  It is taken back by deleting what was put in
    its place; it cannot have been given parameters, classes or filters, since none of these can
    be done to a handle of 0 (net/sched/sch_api.c).  What somebody attached could have any.
    """
    words = raw.decode("utf-8", "replace").split()[1:3]
    if len(words) == len(("kind", "handle")) and words[1] != "0:":
        return Domain(
            rule=lambda value: (
                ""
                if value == words[0]
                else f"the discipline in force ({words[0]}, handle {words[1]}) was attached by"
                " another process: its parameters, classes and filters could not be"
                " restored"
            )
        )
    return Domain(choices=KINDS)


def _discipline(device: str, kind: str) -> tuple[Change, ...]:
    if kind in ("noqueue", "mq"):
        return _undisciplined(device, kind)
    return (Change("run", argv=("tc", "qdisc", "replace", "dev", device, "root", kind)),)


def _undisciplined(device: str, _former: str) -> tuple[Change, ...]:
    """What was there before is what the kernel attaches by itself."""
    return (Change("run", argv=("tc", "qdisc", "del", "dev", device, "root")),)


def _sysfs(name: str) -> str:
    return "/sys/class/net/{device}/" + name


ROWS: tuple[Tunable, ...] = (
    row(
        "mtu",
        "the largest packet, without its link header",
        between(_IPV6_LEAST, None),
        path=_sysfs("mtu"),
        unit="bytes",
        rank=10,
        moves=("net.ipv6_mtu", *OFFLOADS),
        risk=f"{LINK} Every machine and switch on the way must take it, or packets vanish."
        " Interfaces built on this one (VLANs) are lowered with it and stay low. Below 1280 the"
        " kernel takes the IPv6 addresses away for good: refused.",
        source=f"{_ABI}; net/ipv6/addrconf.c NETDEV_CHANGEMTU, net/8021q/vlan.c; {VETH}",
    ),
    row(
        "ipv6_mtu",
        "the largest IPv6 packet sent here; any change of the MTU sets it to the same",
        between(_IPV6_LEAST, None),
        path="/proc/sys/net/ipv6/conf/{device}/mtu",
        unit="bytes",
        rank=12,
        moot=f"{LOCAL} Or over IPv4.",
        source=f"kernel Documentation/networking/ip-sysctl.rst; {VETH}",
    ),
    row(
        "txqueuelen",
        "how many packets may wait in a discipline that has no limit of its own",
        between(0, _INT),
        path=_sysfs("tx_queue_len"),
        unit="packets",
        rank=40,
        moot=f"{LOCAL} Or the discipline has a limit of its own (fq, fq_codel) or none (noqueue).",
        source=f"{_ABI}; {VETH}",
    ),
    row(
        "qdisc",
        "the queueing discipline at the root of the interface, with its default parameters",
        disciplines,
        read=("tc", "qdisc", "show", "dev", "{device}", "root"),
        pick="field",
        key="qdisc",
        how=_discipline,
        back=_undisciplined,
        rank=45,
        risk="Only where the kernel's own is in force: one that another process attached is not"
        " replaced. The former is restored by letting the kernel attach it; has"
        " net.core.default_qdisc changed meanwhile, another is attached, and the former"
        " one stays to be restored.",
        moot=f"{LOCAL} Or the link is never full.",
        source=f"tc(8); net/sched/sch_api.c tc_modify_qdisc(); {VETH}",
    ),
    row(
        "gro_flush_timeout",
        "how long GRO keeps packets while it waits for more",
        between(0, _INT),
        path=_sysfs("gro_flush_timeout"),
        unit="ns",
        risk="Sets the same for every NAPI instance of the interface, whatever each had before.",
        moot=f"{LOCAL} Or net.gro is off.",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
    row(
        "napi_defer_hard_irqs",
        "number of consecutive polls without packets before interrupts are enabled again",
        between(0, _INT),
        path=_sysfs("napi_defer_hard_irqs"),
        unit="polls",
        risk="Without gro_flush_timeout it does nothing. Sets the same for every NAPI instance.",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
    row(
        "threaded",
        "whether packets are polled by kernel threads instead of soft interrupts",
        lambda _raw: Domain(choices=("0", "1")),
        path=_sysfs("threaded"),
        rank=30,
        risk="Refused, either way, while the driver does not poll (a veth without GRO).",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
)
