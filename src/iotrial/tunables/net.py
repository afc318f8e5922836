"""Family ``net``: a network interface: flow control, rings, coalescing, offloads, MTU, queueing.

Read and changed with ethtool(8) and tc(8) where sysfs does not show them.  Sources: the manual
pages of ethtool 6.1 and iproute2 6.1, the kernel's Documentation/ABI/testing/sysfs-class-net,
Documentation/networking/{netdev-features,napi}.rst and net/core/dev.c netdev_fix_features().  What
offloads, MTU and the queueing discipline move was measured on a veth of a 6.18 kernel (November
2026); no adapter was at hand, so pause, rings, coalescing and channels follow the manual page and
are declared to move whatever a driver is known to move.

Ranks: 10 MTU; 15 rings, of which some drivers make the queues and their coalescing anew; 20 the
offloads that others need; 30 ``threaded``, which is refused once ``gro`` is off; 32 to 36 the
other offloads, a word that stands for several before its parts; 40 numbers before 42 the mode that
governs them: some drivers refuse the numbers while the mode is on, so that they go back first;
where the mode resets them, they are written once more.

Left out on purpose: adaptive TX (ethtool prints it in the line of adaptive RX, behind it, and
the guard cannot distinguish the two there; JSON came with later versions), link
speed and autonegotiation (the way to the machine may go), wake-on-LAN, private flags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "net"
TITLE = "network interface: flow control, rings, coalescing, offloads, MTU, queueing"

# Listings are those that ethtool 4 to 6 print for people (ethtool.c dump_*(), netlink/*.c); a field
# that a driver does not offer is n/a since 5.12 and 0 before.
MAN = "ethtool(8)"
UNMEASURED = "not measured"
VETH = "measured on a veth of 6.18"
LOCAL = "The storage is not reached over this interface."
LINK = "Many drivers take the link down for seconds: connections stall, and sessions may time out."

_LASTS = "until the interface goes, its driver is reloaded or the machine reboots"
_ON_OFF = ("on", "off")
_NOT_OFFERED = "n/a"

DomainOf = Callable[[bytes], Domain]


def _row(name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
    base = {
        "path": "",
        "scope": "nic",
        "layer": "network",
        "lasts": _LASTS,
        "moot": LOCAL,
        "source": f"{MAN}; {UNMEASURED}",
    }
    return Tunable(name=f"net.{name}", summary=summary, domain=domain, **{**base, **more})


def ethtool(get: str, put: str, label: str, word: str) -> dict[str, Any]:
    """How ethtool reads what it prints behind ``label``, and changes it by ``word``."""
    return {
        "read": ("ethtool", f"-{get}", "{device}"),
        "pick": "field",
        "key": f"{label}:",
        "change": (("ethtool", f"-{put}", "{device}", word, "{value}"),),
    }


def _refused(why: str) -> Domain:
    return Domain(rule=lambda _value: why)


def between(low: int | None, high: int | None) -> DomainOf:
    return lambda _raw: Domain(low=low, high=high)


def said(raw: bytes, label: str) -> list[str]:
    """What stands behind ``label:`` in each line that begins with it."""
    lines = (line.strip() for line in raw.decode("utf-8", "replace").splitlines())
    return [line[len(label) + 1 :].strip() for line in lines if line.startswith(f"{label}:")]


def offered(label: str, low: int, high: int | None = None) -> DomainOf:
    """Numbers of an ethtool listing; ``n/a`` is what the driver does not offer, and of two lines
    the first is the most it takes."""

    def domain(raw: bytes) -> Domain:
        found = said(raw, label)
        if _NOT_OFFERED in found[-1:]:
            return _refused(f"the driver of this interface does not offer {label}")
        most = found[0] if len(found) > 1 and found[0].isdigit() else ""
        return Domain(low=low, high=int(most) if most else high)

    return domain


def switch(label: str) -> DomainOf:
    """On or off of an ethtool listing."""

    def domain(raw: bytes) -> Domain:
        if [line.split()[:1] for line in said(raw, label)][-1:] == [[_NOT_OFFERED]]:
            return _refused(f"the driver of this interface does not offer {label}")
        return Domain(choices=_ON_OFF)

    return domain


def feature(label: str, *parts: str) -> DomainOf:
    """On or off of an offload.

    ``[fixed]``: this driver cannot change it.  ``[requested on]``: it is off only because another
    that it needs is off; setting it by hand would forget the request, which no file shows later.
    """

    def domain(raw: bytes) -> Domain:
        own = " ".join(said(raw, label))
        if "[fixed]" in own:
            now = own.split()[0]
            return Domain(
                rule=lambda value: (
                    ""
                    if value == now
                    else f"{label} is {now} [fixed]: the driver of this interface cannot change it"
                )
            )
        waiting = [n for n in (label, *parts) if "[requested" in " ".join(said(raw, n))]
        if waiting:
            return _refused(
                f"{waiting[0]} is off only because an offload that it needs is off; set manually"
                " it could not be restored: turn on what it needs first"
            )
        return Domain(choices=_ON_OFF)

    return domain


# --- what an adapter and its driver keep: flow control, rings, coalescing, channels


_UINT = 2**32 - 1

_COALESCING = (
    *("net.rx_usecs", "net.rx_frames", "net.tx_usecs", "net.tx_frames", "net.adaptive_rx"),
)


def _pause(name: str, label: str, word: str, summary: str, **more: Any) -> Tunable:  # noqa: ANN401
    return _row(
        f"pause_{name}",
        summary,
        switch(label),
        **ethtool("a", "A", label, word),
        **{
            "rank": 40,
            "risk": f"{LINK} With pause autonegotiation on, many drivers refuse it or show what"
            " was negotiated: set net.pause_autoneg off in the same level.",
            **more,
        },
    )


def _ring(name: str, label: str, summary: str) -> Tunable:
    return _row(
        f"ring_{name}",
        summary,
        offered(label, 1),
        **ethtool("g", "G", label, name),
        unit="descriptors",
        rank=15,
        moves=_COALESCING,
        risk=f"{LINK} Some drivers round it: then the value that is read must be the level. Some"
        " request their interrupts again, and affinities go back to the driver's hint.",
        moot=f"{LOCAL} Or no packet is dropped for want of descriptors (ethtool -S).",
    )


def _coalesce(name: str, unit: str, summary: str) -> Tunable:
    label = name.replace("_", "-")
    return _row(
        name,
        summary,
        offered(label, 0, _UINT),
        **ethtool("c", "C", label, label),
        unit=unit,
        rank=40,
        risk="Some drivers refuse it while net.adaptive_rx is on, or show what it has come to.",
        moot=f"{LOCAL} Or adaptive coalescing is on.",
    )


_HARDWARE: tuple[Tunable, ...] = (
    _pause("rx", "RX", "rx", "whether the adapter stops sending when it is asked to"),
    _pause("tx", "TX", "tx", "whether the adapter asks its peer to stop when it is full"),
    _pause(
        "autoneg",
        "Autonegotiate",
        "autoneg",
        "whether flow control is negotiated with the peer",
        rank=42,
        moves=("net.pause_rx", "net.pause_tx"),
        risk=f"{LINK} On, the peer decides what pause_rx and pause_tx come to.",
    ),
    _ring("rx", "RX", "how many received packets the adapter can hold"),
    _ring("tx", "TX", "how many packets may wait in the adapter to be sent"),
    _coalesce("rx_usecs", "µs", "how long an interrupt waits after a packet came"),
    _coalesce("rx_frames", "packets", "how many packets come before an interrupt"),
    _coalesce("tx_usecs", "µs", "how long an interrupt waits after a packet went"),
    _coalesce("tx_frames", "packets", "how many packets go before an interrupt"),
    _row(
        "adaptive_rx",
        "whether the driver itself fits receive coalescing to the load",
        switch("Adaptive RX"),
        **ethtool("c", "C", "Adaptive RX", "adaptive-rx"),
        rank=42,
        moves=_COALESCING[:-1],
        risk="On, the numbers may change by themselves, which is seen as drift. Turned off, some"
        " drivers set the numbers to their defaults.",
    ),
    _row(
        "channels_combined",
        "how many queues the adapter uses, each for receiving and sending",
        offered("Combined", 1),
        **ethtool("l", "L", "Combined", "combined"),
        rank=12,
        reload="queues and interrupts are recreated by it, and the masks, affinities and flow"
        " rules that go with the old ones could not be restored",
        risk=f"{LINK} RPS, XPS, the hash table of RSS and affinities may be reset.",
    ),
)


# --- offloads
#
# A word such as tso stands for several features: on turns on all of them.  The parts are rows of
# their own, so that those that were off go off again.  A part is not said to move its word: the
# word reads as it did once the parts do.

_FEATURES = "kernel Documentation/networking/netdev-features.rst"

_PARTS = {
    "tx_checksum": tuple(
        f"tx-checksum-{what}" for what in ("ipv4", "ip-generic", "ipv6", "fcoe-crc", "sctp")
    ),
    "sg": ("tx-scatter-gather", "tx-scatter-gather-fraglist"),
    "tso": tuple(
        f"tx-tcp{what}-segmentation" for what in ("", "-ecn", "-mangleid", "6", "-accecn")
    ),
}
"""Words of ethtool, and the features each stands for (those that a kernel has)."""


def _row_name(part: str) -> str:
    return part.replace("-", "_")


def _names(*parts: str) -> tuple[str, ...]:
    return tuple(f"net.{_row_name(part)}" for part in parts)


_SEGMENTING = ("net.tso", *_names(*_PARTS["tso"]), "net.tx_udp_segmentation")
OFFLOADS = (
    *("net.rx_checksum", "net.tx_checksum", "net.sg", "net.gso", "net.gro", "net.lro"),
    *("net.rx_gro_hw", *_names(*_PARTS["tx_checksum"], *_PARTS["sg"]), *_SEGMENTING),
)
_TSO_SOURCE = f"{MAN}; {_FEATURES}; net/core/dev.c netdev_fix_features(); {VETH}"


def _rules(raw: bytes) -> Domain:
    """Turning ntuple off deletes its rules, which no restore brings back."""
    plain = feature("ntuple-filters")(raw)
    if plain.rule is None and said(raw, "ntuple-filters") == ["on"]:
        return Domain(
            rule=lambda value: (
                ""
                if value == "on"
                else "turning ntuple off deletes the rules that are set, and they could not be"
                " restored"
            )
        )
    return plain


def _offload(name: str, label: str, word: str, summary: str, **more: Any) -> Tunable:  # noqa: ANN401
    parts = _PARTS.get(name, ())
    given = {"rank": 32, "source": f"{MAN}; {_FEATURES}; {VETH}", **more}
    return _row(name, summary, feature(label, *parts), **ethtool("k", "K", label, word), **given)


def _part(part: str, whole: str, **more: Any) -> Tunable:  # noqa: ANN401
    return _offload(
        _row_name(part),
        part,
        part,
        f"a part of net.{whole}, as the kernel names it",
        **{"rank": 22 if whole != "tso" else 33, "source": _TSO_SOURCE, **more},
    )


_OFFLOADS: tuple[Tunable, ...] = (
    _offload(
        "rx_checksum",
        "rx-checksumming",
        "rx",
        "whether the adapter checks what it receives",
        rank=20,
        moves=("net.lro", "net.rx_gro_hw"),
    ),
    _offload(
        "tx_checksum",
        "tx-checksumming",
        "tx",
        "whether the adapter computes checksums of what it sends",
        rank=20,
        moves=(*_names(*_PARTS["tx_checksum"]), *_SEGMENTING),
        risk="Segmentation needs it and goes off with it.",
        source=_TSO_SOURCE,
    ),
    _offload(
        "sg",
        "scatter-gather",
        "sg",
        "whether the adapter collects a packet from several pieces of memory",
        rank=20,
        moves=(*_names(*_PARTS["sg"]), *_SEGMENTING, "net.gso"),
        risk="Segmentation, also that of the kernel, needs it and goes off with it.",
        source=_TSO_SOURCE,
    ),
    *(_part(part, "tx_checksum", moves=_SEGMENTING) for part in _PARTS["tx_checksum"]),
    *(_part(part, "sg", moves=(*_SEGMENTING, "net.gso")) for part in _PARTS["sg"]),
    _offload(
        "tso",
        "tcp-segmentation-offload",
        "tso",
        "whether the adapter cuts long TCP segments into packets",
        rank=32,
        moves=_names(*_PARTS["tso"]),
        risk="On also turns on the parts that were off, such as mangling of IP identifiers.",
        moot=f"{LOCAL} Or it sends little.",
        source=_TSO_SOURCE,
    ),
    _part(
        "tx-tcp-segmentation",
        "tso",
        moves=_names("tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"),
    ),
    *(_part(part, "tso", rank=34) for part in _PARTS["tso"][1:]),
    _offload(
        "tx_udp_segmentation",
        "tx-udp-segmentation",
        "tx-udp-segmentation",
        "whether the adapter cuts long UDP datagrams into packets",
        moot=f"{LOCAL} Or it is TCP.",
    ),
    _offload(
        "gso",
        "generic-segmentation-offload",
        "gso",
        "whether the kernel cuts long segments as late as it can",
        moot=f"{LOCAL} Or tso does it.",
    ),
    _offload(
        "gro",
        "generic-receive-offload",
        "gro",
        "whether the kernel joins received packets before the protocols see them",
        moves=("net.rx_gro_hw", "net.rx_gro_list"),
        risk="A veth polls (NAPI) only while it is on.",
    ),
    _offload(
        "rx_gro_list",
        "rx-gro-list",
        "rx-gro-list",
        "whether joined packets are kept as a list, for forwarding",
        rank=34,
        moot="The machine forwards nothing.",
    ),
    _offload(
        "lro",
        "large-receive-offload",
        "lro",
        "whether the adapter joins received packets",
        rank=36,
        risk="What is forwarded or bridged is spoilt by it.",
        source=f"{MAN}; {_FEATURES}; {UNMEASURED}",
    ),
    _offload(
        "rx_gro_hw",
        "rx-gro-hw",
        "rx-gro-hw",
        "whether the adapter joins received packets as GRO would",
        rank=34,
        moves=("net.lro",),
        source=f"{MAN}; {_FEATURES}; {UNMEASURED}",
    ),
    _row(
        "ntuple",
        "whether the adapter sorts flows into queues by rules",
        _rules,
        **ethtool("k", "K", "ntuple-filters", "ntuple"),
        rank=32,
        risk="Off deletes the rules that are set: it is refused where it is on.",
        moot=f"{LOCAL} Or no rules are set and accelerated RFS is not used.",
        source=f"{MAN}; {UNMEASURED}",
    ),
    _offload(
        "rxhash",
        "receive-hashing",
        "rxhash",
        "whether the adapter hands over the hash of a flow, which RPS then need not compute",
        source=f"{MAN}; {UNMEASURED}",
    ),
)


# --- what the kernel itself keeps for each interface: MTU, queue length, discipline, polling

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


_KERNEL: tuple[Tunable, ...] = (
    _row(
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
    _row(
        "ipv6_mtu",
        "the largest IPv6 packet sent here; any change of the MTU sets it to the same",
        between(_IPV6_LEAST, None),
        path="/proc/sys/net/ipv6/conf/{device}/mtu",
        unit="bytes",
        rank=12,
        moot=f"{LOCAL} Or over IPv4.",
        source=f"kernel Documentation/networking/ip-sysctl.rst; {VETH}",
    ),
    _row(
        "txqueuelen",
        "how many packets may wait in a discipline that has no limit of its own",
        between(0, _INT),
        path=_sysfs("tx_queue_len"),
        unit="packets",
        rank=40,
        moot=f"{LOCAL} Or the discipline has a limit of its own (fq, fq_codel) or none (noqueue).",
        source=f"{_ABI}; {VETH}",
    ),
    _row(
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
    _row(
        "gro_flush_timeout",
        "how long GRO keeps packets while it waits for more",
        between(0, _INT),
        path=_sysfs("gro_flush_timeout"),
        unit="ns",
        risk="Sets the same for every NAPI instance of the interface, whatever each had before.",
        moot=f"{LOCAL} Or net.gro is off.",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
    _row(
        "napi_defer_hard_irqs",
        "number of consecutive polls without packets before interrupts are enabled again",
        between(0, _INT),
        path=_sysfs("napi_defer_hard_irqs"),
        unit="polls",
        risk="Without gro_flush_timeout it does nothing. Sets the same for every NAPI instance.",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
    _row(
        "threaded",
        "whether packets are polled by kernel threads instead of soft interrupts",
        lambda _raw: Domain(choices=("0", "1")),
        path=_sysfs("threaded"),
        rank=30,
        risk="Refused, either way, while the driver does not poll (a veth without GRO).",
        source=f"{_ABI}; kernel Documentation/networking/napi.rst; {VETH}",
    ),
)


TUNABLES: tuple[Tunable, ...] = _KERNEL + _HARDWARE + _OFFLOADS
