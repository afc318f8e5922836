"""What a test of iperf3 measured, in either of its outputs → measurements and doubts.

The host that wrote the file is where iotrial stands: what it receives is read, what it sends is
written.  ``read.bw`` and ``write.bw`` are as this host counted them.  What the other end counted
is ``write.bw.received`` and ``read.bw.sent``: with TCP the sender's count has the last socket
buffers in it, which had not arrived; with UDP what was sent says nothing of what arrived.

``.retransmits`` are segments that the sender sent again; ``.jitter`` is in seconds, ``.loss`` is
the share of datagrams that were sent and did not arrive.  iperf3 counts a datagram that comes
late as lost and then as found, and may find more than it lost: such a loss is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iotrial.model.measurement import Measurement, metric
from iotrial.model.trial import Doubt

APART = 0.05
"""How far the two ends' counts of TCP may differ before it is said."""
LOST = 0.001
"""The share of datagrams lost from which it is said."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a test.  ``sends``: from this host.  ``sent`` and ``received`` in bytes/s
    as the two ends counted, ``moved`` in bytes as this host did; None is not known.  ``streams``
    are bytes/s of each stream as this host counted."""

    sends: bool
    sent: float | None = None
    received: float | None = None
    moved: float | None = None
    retransmits: int | None = None
    jitter: float | None = None
    lost: int | None = None
    packets: int | None = None
    streams: tuple[float, ...] = ()

    @property
    def operation(self) -> str:
        return "write" if self.sends else "read"

    @property
    def here(self) -> float | None:
        """bytes/s as this host counted them."""
        return self.sent if self.sends else self.received

    @property
    def there(self) -> float | None:
        return self.received if self.sends else self.sent

    @property
    def loss(self) -> float | None:
        """A fraction; None where it is not known, or more was found than lost."""
        if self.lost is None or not self.packets or not 0 <= self.lost <= self.packets:
            return None
        return self.lost / self.packets


def measured(
    flows: Sequence[Flow], cpu: Sequence[tuple[str, float]], raw: str
) -> tuple[Measurement, ...]:
    """The trial's own numbers, then each stream's where there are several."""
    found = [each for flow in flows for each in _of(flow, raw)]
    found += [Measurement(name, value, metric(name).unit, "all", raw) for name, value in cpu]
    ordinal = 0
    for flow in flows:
        for value in flow.streams if len(flow.streams) > 1 else ():
            ordinal += 1
            name = f"{flow.operation}.bw"
            job = f"stream#{ordinal}"
            found.append(Measurement(name, value, metric(name).unit, job, raw))
    return tuple(found)


def _of(flow: Flow, raw: str) -> Iterator[Measurement]:
    values = {
        "bw": flow.here,
        "bw.received" if flow.sends else "bw.sent": flow.there,
        "bytes": flow.moved,
        "retransmits": flow.retransmits,
        "jitter": flow.jitter,
        "loss": flow.loss,
    }
    for quantity, value in values.items():
        if value is not None:
            name = f"{flow.operation}.{quantity}"
            yield Measurement(name, float(value), metric(name).unit, "all", raw)


def doubts_of(flows: Sequence[Flow], *, tcp: bool) -> Iterator[Doubt]:
    """What to hold against a test, from its own numbers."""
    for flow in flows:
        if flow.here is not None and flow.here <= 0:
            what = f"no byte was counted for {flow.operation}.bw"
            yield Doubt("iperf3-nothing", what, "Is a firewall between the two hosts?")
        elif tcp and flow.sent and flow.received is not None:
            apart = abs(flow.sent - flow.received) / flow.sent
            if apart > APART:
                what = f"{apart:.0%} of what was sent is not in what was received"
                advice = "Test for longer: socket buffers weigh less then."
                yield Doubt("iperf3-ends", f"{flow.operation}: {what}", advice)
        if flow.loss is not None and flow.loss > LOST:
            what = f"{flow.operation}: {flow.loss:.1%} of the datagrams were lost"
            advice = "Lower the bitrate: the link, or a socket buffer, does not hold it."
            yield Doubt("iperf3-loss", what, advice)
        if flow.lost is not None and flow.packets is not None and flow.loss is None:
            what = f"{flow.operation}: {flow.lost} of {flow.packets} datagrams lost: left out"
            yield Doubt("iperf3-loss", what, "Datagrams were doubled or came late.")
