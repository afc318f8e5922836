"""What an adapter and its driver keep: flow control, rings, coalescing, channels."""

from __future__ import annotations

from typing import Any

from iotrial.model.tunable import Tunable
from iotrial.tunables.net.listing import LINK, LOCAL, ethtool, offered, row, switch

_UINT = 2**32 - 1

_COALESCING = (
    *("net.rx_usecs", "net.rx_frames", "net.tx_usecs", "net.tx_frames", "net.adaptive_rx"),
)


def _pause(name: str, label: str, word: str, summary: str, **more: Any) -> Tunable:  # noqa: ANN401
    return row(
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
    return row(
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
    return row(
        name,
        summary,
        offered(label, 0, _UINT),
        **ethtool("c", "C", label, label),
        unit=unit,
        rank=40,
        risk="Some drivers refuse it while net.adaptive_rx is on, or show what it has come to.",
        moot=f"{LOCAL} Or adaptive coalescing is on.",
    )


ROWS: tuple[Tunable, ...] = (
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
    row(
        "adaptive_rx",
        "whether the driver itself fits receive coalescing to the load",
        switch("Adaptive RX"),
        **ethtool("c", "C", "Adaptive RX", "adaptive-rx"),
        rank=42,
        moves=_COALESCING[:-1],
        risk="On, the numbers may change by themselves, which is seen as drift. Turned off, some"
        " drivers set the numbers to their defaults.",
    ),
    row(
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
