"""iperf3's JSON as text → one object a test.

Around documents there may be plain lines: messages of iperf3 or of the shell that started it.  The
events of ``--json-stream`` become a document like that of ``-J``.  What old versions print and
JSON has not, or has differently, is mended here: a bare ``nan``, and in 3.7 one name for both ways
of ``--bidir``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iotrial.errors import FormatError

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
            raise ValueError(f"{key} is there twice")
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
        raise FormatError(f"{place}: {shown(value)!r} is no object", advice=AGAIN)
    return value


def shown(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return "".join(char if char.isprintable() else "?" for char in text[:80])
