"""Offloads: what the adapter does in the place of the kernel, ``ethtool -k``.

A word such as ``tso`` stands for several features: on turns on all of them.  The parts are rows
of their own, so that those that were off go off again.  A part is not said to move its word: the
word reads as it did once the parts do.
"""

from __future__ import annotations

from typing import Any

from iotrial.model.tunable import Domain, Tunable
from iotrial.tunables.net.listing import LOCAL, MAN, UNMEASURED, VETH, ethtool, feature, row, said

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
    return row(name, summary, feature(label, *parts), **ethtool("k", "K", label, word), **given)


def _part(part: str, whole: str, **more: Any) -> Tunable:  # noqa: ANN401
    return _offload(
        _row_name(part),
        part,
        part,
        f"a part of net.{whole}, as the kernel names it",
        **{"rank": 22 if whole != "tso" else 33, "source": _TSO_SOURCE, **more},
    )


ROWS: tuple[Tunable, ...] = (
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
    row(
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
