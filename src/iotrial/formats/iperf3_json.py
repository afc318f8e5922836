"""iperf3's JSON: ``-J`` of every version, and the lines of ``--json-stream`` (3.17 and later).

The host that wrote the file is where iotrial stands: what it receives is read, what it sends is
written.  ``read.bw`` and ``write.bw`` are as this host counted them.  What the other end counted
is ``write.bw.received`` and ``read.bw.sent``: with TCP the sender's count has the last socket
buffers in it, which had not arrived; with UDP what was sent says nothing of what arrived.

``.retransmits`` are segments that the sender sent again; ``.jitter`` is in seconds, ``.loss`` is
the share of datagrams that were sent and did not arrive.  iperf3 counts a datagram that comes
late as lost and then as found, and may find more than it lost: such a loss is left out.

A server with ``-J`` writes one document after another, and so does a loop in a shell.  Before
3.2 the sum of UDP is one object, the sender's bytes with the receiver's losses.  3.0 does not
say who sends; its intervals do, since only a sender has retransmits, or packets without jitter.
A server knows nothing of what a client sent: it writes 0, which is left out.

What must agree is checked: bits per second are bytes over seconds, sums are sums of streams, a
loss is lost of packets, and the direction is the same wherever it is said.

Around documents there may be plain lines: messages of iperf3 or of the shell that started it.  The
events of ``--json-stream`` become a document like that of ``-J``.  What old versions print and
JSON has not, or has differently, is mended here: a bare ``nan``, and in 3.7 one name for both ways
of ``--bidir``.

Sources: iperf_api.c of 3.0.1 to 3.21 (iperf_print_results, JSONStream_Output); recordings in
``tests/data/iperf3``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt, Treatment

Record = Mapping[str, Any]
AGAIN = "repeat the test, or take the file as iperf3 wrote it"
_NAN = re.compile(r'(?<!\\)("\s*:\s*)-?(?:nan|inf)\b')
_SUMS = ("sum", "sum_sent", "sum_received")
_AFTER = re.compile(r"[ \t,]*\n?")
_OPENED = re.compile(r"[ \t]*[\[{]")
_AGREE = frozenset(
    {
        "bytes", "seconds", "start", "end", "bits_per_second", "retransmits", "jitter_ms",
        "lost_packets", "packets", "lost_percent", "host_total", "host_user", "host_system",
        "streams", "reverse", "bidir", "protocol", "cpu_utilization_percent", "test_start",
        "num_streams", "duration", "omit", "blksize", *_SUMS,
        *(f"{name}_bidir_reverse" for name in _SUMS),
    }
)  # fmt: skip
"""Keys that must not be there with two values."""


def decoded(text: str, raw: str) -> Iterator[tuple[int, Record]]:
    """Each JSON object and its line.  Plain lines between them are messages; a line that is the
    rest of a document is not."""
    healed = _NAN.sub(r"\1null", text)
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    at, line, counted = 0, 1, 0
    while at < len(healed):
        end = healed.find("\n", at)
        end = len(healed) if end < 0 else end
        line += healed.count("\n", counted, at)
        counted = at
        if match := _OPENED.match(healed, at):
            begin = match.end() - 1
            try:
                value, at = decoder.raw_decode(healed, begin)
            except (ValueError, RecursionError) as error:
                wrong = healed.count("\n", 0, getattr(error, "pos", begin)) + 1
                what = getattr(error, "msg", str(error)[:60] or "nested too deeply")
                message = f"{raw}: line {wrong}: no whole JSON from line {line} on: {what}"
                raise FormatError(message, advice=AGAIN) from None
            for each in value if isinstance(value, list) else [value]:
                yield line, mapping(each, f"{raw}: line {line}")
            if match := _AFTER.match(healed, at):
                at = match.end()
            continue
        rest = healed[at:end].strip()
        if rest.startswith(('"', "}", "]")):
            message = f"{raw}: line {line}: {rest[:40]!r} is a part of a document that is not there"
            raise FormatError(message, advice=AGAIN)
        at = end + 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a number that is there twice, and different."""
    record: dict[str, Any] = {}
    for name, value in pairs:
        # 3.7 gives both ways of --bidir one name; the way back is the second.
        again = name in _SUMS and isinstance(record.get(name), dict)
        key = f"{name}_bidir_reverse" if again else name
        if key in _AGREE and record.setdefault(key, value) != value:
            raise ValueError(f"{key} occurs twice")
        record[key] = value
    return record


def whole(found: Iterator[tuple[int, Record]], raw: str) -> Iterator[tuple[int, Record]]:
    """Documents as ``-J`` has them; events of ``--json-stream`` are put together."""
    events: dict[str, Any] = {}
    began = 0
    for line, record in found:
        if "event" not in record:
            yield line, record
            continue
        began = began if events else line
        if _added(events, record, f"{raw}: line {line}"):
            yield began, events
            events = {}
    if "error" in events:
        yield began, events
    elif events:
        raise FormatError(f"{raw}: line {began}: this test has no end", advice=AGAIN)


def _added(events: dict[str, Any], record: Record, place: str) -> bool:
    """Adds one event to a test's; whether it was the last."""
    event, data = record["event"], record.get("data")
    if event in ("server_output_json", "server_output_text"):
        return False
    if event == "error" and isinstance(data, str):
        events["error"] = data
    elif event == "start" and not events:
        events.update(start=data, intervals=[], streamed=True)
    elif event == "interval" and "start" in events:
        events["intervals"].append(data)
    elif event == "end" and events:
        events["end"] = data
        return True
    else:
        message = f"{place}: event {shown(event)[:40]!r} has no place here"
        raise FormatError(message, advice=AGAIN)
    return False


def mapping(value: object, place: str) -> Record:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {shown(value)!r} is not an object", advice=AGAIN)
    return value


def shown(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return "".join(char if char.isprintable() else "?" for char in text[:80])


APART = 0.05
"""How far the two ends' counts of TCP may differ before it is said."""
LOST = 0.001
"""The share of datagrams lost from which it is said."""


@dataclass(frozen=True, slots=True)
class Iperf3Flow:
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
    flows: Sequence[Iperf3Flow], cpu: Sequence[tuple[str, float]], raw: str
) -> tuple[Measurement, ...]:
    """The trial's own numbers, then each stream's where there are several."""
    found = [each for flow in flows for each in _of(flow, raw)]
    found += [of_metric(name, value, raw) for name, value in cpu]
    ordinal = 0
    for flow in flows:
        for value in flow.streams if len(flow.streams) > 1 else ():
            ordinal += 1
            name = f"{flow.operation}.bw"
            job = f"stream#{ordinal}"
            found.append(of_metric(name, value, raw, job))
    return tuple(found)


def _of(flow: Iperf3Flow, raw: str) -> Iterator[Measurement]:
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
            yield of_metric(name, float(value), raw)


def doubts_of(flows: Sequence[Iperf3Flow], *, tcp: bool) -> Iterator[Doubt]:
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


_EXACT = 1e-5  # of a value: 3.0 prints large numbers with six digits
_SEVEN_DIGITS = 2.0**31  # cJSON of 3.0 and 3.1 prints larger whole numbers with %e
_OPTIONS = {
    "num_streams": "parallel", "blksize": "length", "omit": "omit", "duration": "time",
    "bytes": "bytes", "blocks": "blockcount", "tos": "tos", "target_bitrate": "bitrate",
    "fqrate": "fq-rate",
}  # fmt: skip
"""As ``test_start`` calls an option, and as the command line does."""


def documents(text: str, raw: str) -> tuple[Recording, ...]:
    """Every test in ``text``, in order.  Raises :class:`~iotrial.errors.FormatError`."""
    found: list[Recording] = []
    seen: set[str] = set()
    for line, document in whole(decoded(text, raw), raw):
        place = f"{raw}: line {line}"
        start = mapping(document.get("start", {}), f"{place}: start")
        cookie = start.get("cookie")
        streamed = document.get("streamed") is True
        if isinstance(cookie, str) and cookie in seen and not streamed:
            continue  # --json-stream-full-output writes the same test again, as one document
        if isinstance(cookie, str) and streamed:
            seen.add(cookie)
        found.append(_test(document, start, line, raw))
    if len(found) == 1 and not found[0].measurements:
        raise FormatError(f"{raw}: line {found[0].line}: {found[0].doubts[0].what}", advice=AGAIN)
    if not found:
        raise FormatError(f"{raw}: JSON, but no test of iperf3: there is no start and no end")
    return tuple(found)


def _test(document: Record, start: Record, line: int, raw: str) -> Recording:
    place = f"{raw}: line {line}"
    error = document.get("error")
    end = _with_sums(mapping(document.get("end", {}), f"{place}: end"), place)
    settings = mapping(start.get("test_start", {}), f"{place}: test_start")
    if error is None and not (end and ("sum" in end or "sum_sent" in end or "streams" in end)):
        raise FormatError(f"{place}: no sums at the end: this test did not end", advice=AGAIN)
    doubts: list[Doubt] = []
    if error is not None:
        what = f"iperf3 says: {shown(error)}"
        doubts.append(Doubt("iperf3-error", what, "Repeat the test.", invalid=True))
    protocol = str(settings.get("protocol", "")).lower()
    flows = _flows(document, end, place, doubts)
    cpu = tuple(_cpu(end.get("cpu_utilization_percent"), place, doubts)) if flows else ()
    seconds = max((_number(flow, "seconds", place) for flow in _sums(end, place)), default=0.0)
    if not flows and error is None:
        raise FormatError(f"{place}: no second was measured", advice=AGAIN)
    version = re.search(r"\d\S*", str(start.get("version", "")))
    stamp = mapping(start.get("timestamp", {}), f"{place}: timestamp").get("timesecs", 0)
    return Recording(
        tool="iperf3",
        workload=_workload(protocol, settings, end),
        measurements=measured(flows, cpu, raw),
        name=shown(document["title"]) if "title" in document else "",
        version=shown(version[0]) if version else "",
        line=line,
        treatment=_treatment(settings, start, end),
        doubts=(*doubts, *doubts_of(flows, tcp=protocol != "udp")),
        started=float(stamp) if isinstance(stamp, int | float) and 0 < stamp < _FAR else 0.0,
        seconds=seconds,
    )


def _with_sums(end: Record, place: str) -> Record:
    """3.0 gives no sum of a single stream: it is the stream's."""
    streams = _streams(end, place)
    if len(streams) != 1 or any(key.startswith("sum") for key in end):
        return end
    names = {"sender": "sum_sent", "receiver": "sum_received", "udp": "sum"}
    return {**end, **{names[key]: record for key, record in streams[0].items()}}


def _interval(record: object) -> Record | None:
    """What an interval says of all streams; 3.0 gives no sum of a single one."""
    if not isinstance(record, dict):
        return None
    streams = record.get("streams")
    alone = streams[0] if isinstance(streams, list) and len(streams) == 1 else None
    found = record.get("sum", alone)
    return found if isinstance(found, dict) else None


def _workload(protocol: str, settings: Record, end: Record) -> str:
    name = protocol or ("udp" if "sum" in end else "tcp")
    if settings.get("bidir") or "sum_sent_bidir_reverse" in end:
        return f"{name}-bidir"
    return f"{name}-reverse" if settings.get("reverse") else name


def _treatment(settings: Record, start: Record, end: Record) -> Treatment:
    found = [(_OPTIONS[key], settings[key]) for key in _OPTIONS if settings.get(key)]
    found += [("window", start["sock_bufsize"])] if start.get("sock_bufsize") else []
    found += [("congestion", end[key]) for key in ("sender_tcp_congestion",) if end.get(key)]
    return tuple((name, shown(value)) for name, value in found)


def _flows(
    document: Record, end: Record, place: str, doubts: list[Doubt]
) -> tuple[Iperf3Flow, ...]:
    if not _sums(end, place):
        return ()
    sends = _sends(document, end, place, doubts)
    first = _flow(end, "", sends, place)
    second = _flow(end, "_bidir_reverse", not sends, place)
    found = [flow for flow in (first, second) if flow is not None]
    server = "accepted_connection" in mapping(document.get("start", {}), place)
    if server:  # what a client counted is not told to the server
        found = [_without_there(flow) for flow in found]
    streams = _streams(end, place)
    found = [_with_streams(flow, streams, end, place, alone=len(found) == 1) for flow in found]
    intervals = document.get("intervals")
    if isinstance(intervals, list) and len(found) == 1:
        found = [_with_intervals(found[0], intervals, place, doubts)]
    return tuple(found)


def _sends(document: Record, end: Record, place: str, doubts: list[Doubt]) -> bool:
    """Whether the flow without ``_bidir_reverse`` goes out from this host."""
    start = mapping(document.get("start", {}), place)
    settings = mapping(start.get("test_start", {}), place)
    client = "accepted_connection" not in start
    if "sum_sent_bidir_reverse" in end or "sum_bidir_reverse" in end or settings.get("bidir"):
        return client
    told = _told(document, end, settings, place)
    if "reverse" in settings and ("connecting_to" in start or not client):
        sends = client is not bool(settings["reverse"])
        if any(each is not sends for each in told):
            raise FormatError(f"{place}: it contradicts itself on who sent", advice=AGAIN)
        return sends
    if told:
        return told[0]
    what = f"the file does not say who sent: taken for the {'client' if client else 'server'}'s"
    advice = "Check the command line that was used."
    doubts.append(Doubt("iperf3-direction", f"{what} normal direction", advice))
    return client


def _told(document: Record, end: Record, settings: Record, place: str) -> list[bool]:
    """What sums and intervals say of who sends (a sum of UDP: whose count it is)."""
    found = []
    if str(settings.get("protocol", "")).upper() != "UDP" and "sum" not in end:
        sums = [mapping(end[key], place) for key in ("sum_sent", "sum_received") if key in end]
        found = [each["sender"] for each in sums if isinstance(each.get("sender"), bool)]
    intervals = document.get("intervals")
    for each in intervals if isinstance(intervals, list) else []:
        record = _interval(each)
        if record is not None and not {"retransmits", "packets"}.isdisjoint(record):
            found.append("jitter_ms" not in record)
    return found


def _flow(end: Record, suffix: str, sends: bool, place: str) -> Iperf3Flow | None:  # noqa: FBT001
    sent, received, both = (
        end.get(f"{name}{suffix}") for name in ("sum_sent", "sum_received", "sum")
    )
    if sent is None and received is None and both is None:
        return None
    records = {
        name: mapping(record, f"{place}: {name}{suffix}")
        for name, record in (("sum_sent", sent), ("sum_received", received), ("sum", both))
        if record is not None
    }
    if all(_number(each, "seconds", place) <= 0 for each in records.values()):
        return None
    others = _seconds(end, place)
    rates = {
        name: _rate(record, f"{place}: {name}{suffix}", others if name == "sum" else ())
        for name, record in records.items()
        if name != "sum" or len(records) == 1  # beside the others its two halves do not match
    }
    flow = Iperf3Flow(sends, rates.get("sum_sent", rates.get("sum")), rates.get("sum_received"))
    ours = records.get("sum_sent" if sends else "sum_received", records.get("sum", {}))
    flow = replace(flow, moved=_number(ours, "bytes", place) if ours else None)
    if "retransmits" in records.get("sum_sent", {}):
        again = int(_number(records["sum_sent"], "retransmits", place))
        flow = replace(flow, retransmits=again if again >= 0 else None)
    losses = records.get("sum") or records.get("sum_received", {})
    if "jitter_ms" in losses:
        flow = replace(flow, jitter=_number(losses, "jitter_ms", place) / 1000.0)
    if "lost_packets" in losses:
        lost, packets = (int(_number(losses, key, place)) for key in ("lost_packets", "packets"))
        _share(losses, [each.get("packets") for each in records.values()], place)
        flow = replace(flow, lost=lost, packets=packets)
    return flow


def _seconds(end: Record, place: str) -> list[float]:
    """How long streams took: 3.2 divides the sum's bytes by them, and prints another time."""
    found = [each.get("udp") for each in _streams(end, place)]
    return [_number(record, "seconds", place) for record in found if record is not None]


def _rate(record: Record, place: str, others: Sequence[float] = ()) -> float:
    """bytes/s, checked against bytes and seconds."""
    moved, rate = _number(record, "bytes", place), _number(record, "bits_per_second", place) / 8.0
    if moved < 0 or rate < 0:
        raise FormatError(f"{place}: {moved:.0f} bytes, {rate * 8:g} bits/s: less than nothing")
    spans = [_number(record, "seconds", place), *others]
    if "end" in record and "start" in record:
        spans.append(_number(record, "end", place) - _number(record, "start", place))
    exact = [span for span in spans if abs(moved - rate * span) <= _EXACT * moved + 1e-6 * rate]
    if not exact and any(span > 0 for span in spans):
        message = f"{place}: {moved:.0f} bytes in {spans[0]:g} s are not {rate * 8:.0f} bits/s"
        raise FormatError(message, advice=AGAIN)
    return rate


def _share(record: Record, packets: Sequence[object], place: str) -> None:
    """Raises FormatError where the percentage is that of no count of packets."""
    lost, percent = _number(record, "lost_packets", place), record.get("lost_percent")
    counts = [float(each) for each in packets if isinstance(each, int | float) and each]
    if percent is None or not counts:
        return
    said = _number(record, "lost_percent", place)
    if not any(abs(100.0 * lost / each - said) <= 1e-5 * abs(said) + 1e-5 for each in counts):
        message = f"{place}: {lost:.0f} of {counts[0]:.0f} packets are not {said:g} %"
        raise FormatError(message, advice=AGAIN)


# What streams, intervals and processors say.


def _streams(end: Record, place: str) -> list[dict[str, Record]]:
    found = end.get("streams", [])
    if not isinstance(found, list):
        raise FormatError(f"{place}: streams is not a list")
    return [
        {
            key: mapping(value, f"{place}: streams[{at}].{key}")
            for key, value in mapping(each, f"{place}: streams[{at}]").items()
            if key in ("sender", "receiver", "udp")
        }
        for at, each in enumerate(found)
    ]


def _with_streams(
    flow: Iperf3Flow, streams: list[dict[str, Record]], end: Record, place: str, *, alone: bool
) -> Iperf3Flow:
    """The flow with its streams; sums must be their sums."""
    mine = [each for each in streams if alone or _goes_out(each) is flow.sends]
    suffix = "_bidir_reverse" if not alone and _is_reverse(end, flow, place) else ""
    for sum_name, key in (("sum_sent", "sender"), ("sum_received", "receiver"), ("sum", "udp")):
        total = end.get(f"{sum_name}{suffix}")
        parts = [each[key] for each in mine if key in each]
        if isinstance(total, dict) and parts and len(parts) == len(mine):
            # The sum of the way back has a jitter of its own making, up to 3.21 at least.
            jitter = () if suffix else ("jitter_ms",)
            for quantity in ("bytes", "retransmits", "lost_packets", *jitter):
                _same_sum(total, parts, quantity, f"{place}: {sum_name}{suffix}")
    ours = "sender" if flow.sends else "receiver"
    rates = [
        _rate(each[ours if ours in each else "udp"], f"{place}: streams[{at}]")
        for at, each in enumerate(mine)
        if (ours in each or ("udp" in each and flow.sends))
    ]
    return replace(flow, streams=tuple(rates))


def _goes_out(stream: Mapping[str, Record]) -> bool | None:
    told = [record["sender"] for record in stream.values() if "sender" in record]
    return told[0] if told and isinstance(told[0], bool) else None


def _is_reverse(end: Record, flow: Iperf3Flow, place: str) -> bool:
    """Whether this flow's sums are the ones called reverse."""
    record = end.get("sum_sent_bidir_reverse", end.get("sum_bidir_reverse", {}))
    ours = mapping(record, place)
    other = _flow(end, "_bidir_reverse", flow.sends, place) if ours else None
    return other is not None and (other.sent, other.received) == (flow.sent, flow.received)


def _same_sum(total: Record, parts: Sequence[Record], quantity: str, place: str) -> None:
    if quantity not in total or any(quantity not in each for each in parts):
        return
    whole = _number(total, quantity, place)
    added = sum(_number(each, quantity, place) for each in parts)
    if quantity == "jitter_ms":
        added /= len(parts)  # their mean
        slack = 2e-6 + 1e-5 * abs(added)
    else:
        slack = 1e-6 * abs(whole) if whole >= _SEVEN_DIGITS else 0.0
    if abs(whole - added) > slack:
        message = f"{place}: {quantity} is {whole:g}, its streams have {added:g}"
        raise FormatError(message, advice=AGAIN)


def _with_intervals(
    flow: Iperf3Flow, intervals: Sequence[object], place: str, doubts: list[Doubt]
) -> Iperf3Flow:
    """Intervals are what this host counted: before 3.2 the only count of received datagrams."""
    sums = [_interval(each) for each in intervals]
    if any(sums) and None in sums:
        at = sums.index(None)
        raise FormatError(f"{place}: intervals[{at}] has no sum, others have one", advice=AGAIN)
    kept = [each for each in sums if each is not None and not each.get("omitted")]
    if not kept:
        return flow
    moved = sum(_number(each, "bytes", f"{place}: intervals") for each in kept)
    seconds = sum(_number(each, "seconds", f"{place}: intervals") for each in kept)
    if flow.here is None and not flow.sends and seconds > 0:
        return replace(flow, received=moved / seconds, moved=moved)
    if flow.moved is not None and abs(moved - flow.moved) > _SLACK * max(moved, flow.moved):
        what = f"the intervals have {moved:.0f} bytes, the end has {flow.moved:.0f}"
        doubts.append(Doubt("iperf3-intervals", what, "Take a newer iperf3, or no --omit."))
    return flow


_FAR, _LARGEST = 1e11, 1e30  # seconds since the epoch; any number
_SLACK = 0.03  # what the last moments between a report and the end may hold


def _without_there(flow: Iperf3Flow) -> Iperf3Flow:
    if flow.sends:
        return replace(flow, received=None)
    return replace(flow, sent=None, retransmits=None)


def _cpu(record: object, place: str, doubts: list[Doubt]) -> Iterator[tuple[str, float]]:
    if record is None:
        return
    found = mapping(record, f"{place}: cpu_utilization_percent")
    kinds = {"total.cpu": "host_total", "cpu.usr": "host_user", "cpu.sys": "host_system"}
    values = {name: _number(found, key, place) / 100.0 for name, key in kinds.items()}
    total, apart = (
        values["total.cpu"],
        abs(values["total.cpu"] - values["cpu.usr"] - values["cpu.sys"]),
    )
    if min(values.values()) < 0 or total > 1e6:  # noqa: PLR2004 (no host has a million cores)
        what = f"CPU of {total:.0%} cannot be: left out"
        doubts.append(Doubt("iperf3-cpu", what, "Take the test's other numbers."))
        return
    if apart > 0.01 + 0.02 * total:
        what = f"CPU {total:.1%} is not user and system, {apart:.1%} apart"
        doubts.append(Doubt("iperf3-cpu", what, "Take cpu.usr and cpu.sys."))
    yield from values.items()


# Values.


def _number(record: Record, key: str, place: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise FormatError(f"{place}: {key} is {shown(value)!r}: no number", advice=AGAIN)
    if not math.isfinite(value):
        raise FormatError(f"{place}: {key} is {value}: no number", advice=AGAIN)
    return float(value)


def _sums(end: Record, place: str) -> list[Record]:
    return [
        mapping(value, f"{place}: {key}") for key, value in end.items() if key.startswith("sum")
    ]
