"""elbencho's JSON (``--jsonfile``, 3.0-27 and later): a document a phase, one after the other.

elbencho writes every number as text ("threads":"4"); plain numbers are read as well, and so are
documents on several lines or in a list, as other programs pass them on.  Bytes are exact here.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.elbencho.csv_result import share, started
from iotrial.formats.elbencho.phase import (
    AGAIN,
    BYTES,
    ENTRIES,
    IOS,
    MIXED_READ,
    WRITTEN,
    Part,
    Phase,
    named,
    version_of,
    whole,
)  # fmt: skip

BEGINS = re.compile(r"^\s*(?:\[\s*)?\{", re.MULTILINE)
"""The first document; what others said may stand before it."""
_BETWEEN = re.compile(r"[\s,\[\]]*")
_OPTIONS = {
    "path_type": "path type", "paths": "paths", "hosts": "hosts", "threads": "threads",
    "dirs": "dirs", "files": "files", "file_size": "size", "block_size": "block",
    "direct_io": "direct", "random_offsets": "rand", "io_depth": "iodepth",
    "truncate_files": "trunc",
}  # fmt: skip
_TRUTH = {"true": "1", "false": "0"}
_RATES = {"entries/s": ENTRIES, "iops": IOS, "bytes/s": BYTES}
_TOTALS = {"entries": ENTRIES, "bytes": BYTES, "ios": IOS}
_BUCKET = re.compile(r"(\d{1,12}(?:\.\d)?)-(\d{1,12}(?:\.\d)?)us")
_PERCENTILES = (50, 75, 90, 99, 99.9, 99.99)
_MILLI, _MICRO = 1e3, 1e6  # in a second


def phases_of(text: str, raw: str) -> Iterator[Phase]:
    """Every document.  Raises FormatError with the line."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=str, parse_float=str)
    begins = BEGINS.search(text)
    at = _skip(text, begins.start() if begins else 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            what = getattr(error, "msg", str(error)[:60] or "nested too deeply")
            message = f"{raw}: line {line}: no whole document of elbencho: {what}"
            raise FormatError(message, advice=AGAIN) from None
        place = f"{raw}: line {line}"
        yield _phase(_mapping(document, place), line, place)
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a key that is there twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key is there twice")
    return record


def _phase(document: dict[str, Any], line: int, place: str) -> Phase:
    config = _under(document, "config", place)
    last = _under(document, "last_done", place)
    first = _under(document, "first_done", place)

    phase = Phase(
        line=line,
        name=named(_text(document, "phase_type", place), f"{place}: phase_type"),
        run=(_text(document, "label", place), _text(config, "command", place)),
        seconds=whole(_text(last, "elapsed_time_ms", place), f"{place}: elapsed_time_ms") / _MILLI,
        first=whole(_text(first, "elapsed_time_ms", place), f"{place}: elapsed_time_ms") / _MILLI,
        version=version_of(_text(config, "version", place), place),
        started=started(_text(document, "iso_start_date", place), place),
        cpu=share(_text(last, "cpu%", place), place),
        treatment=tuple(
            (option, _option(config, key, place))
            for key, option in _OPTIONS.items()
            if key in config
        ),
    )
    latency = _under(last, "latency", place)
    _part(phase.part(WRITTEN), last, first, place)
    _latencies(phase.part(WRITTEN), latency, "", place)
    if "rwmix_read" in last:
        mixed = _under(last, "rwmix_read", place)
        _part(phase.part(MIXED_READ), mixed, _under(first, "rwmix_read", place), place)
        _latencies(phase.part(MIXED_READ), latency, "rwmix_read", place)
    return phase


def _part(part: Part, last: dict[str, Any], first: dict[str, Any], place: str) -> None:
    part.step = 1.0
    for key, kind in _RATES.items():
        if key in last:
            part.rates[kind] = whole(_text(last, key, place), f"{place}: {key}")
    for key, kind in _TOTALS.items():
        if key in last:
            part.totals[kind] = whole(_text(last, key, place), f"{place}: {key}")
        if key in first:
            part.before[kind] = whole(_text(first, key, place), f"{place}: {key}")


def _latencies(part: Part, latency: dict[str, Any], which: str, place: str) -> None:
    for key, kind in (("entries", ENTRIES), ("IO", IOS)):
        found = _under(latency, key, place)
        histogram = _under(found, "histogram", place)
        found = _under(found, which, place) if which else found
        histogram = _under(histogram, which, place) if which else histogram
        quantities = {
            name: whole(_text(found, said, place), f"{place}: {said}") / _MICRO
            for said, name in (("min_us", "min"), ("avg_us", "mean"), ("max_us", "max"))
            if said in found
        }
        if "buckets" in histogram:
            quantities |= _percentiles(histogram["buckets"], f"{place}: histogram")
        if quantities:
            part.latency[kind] = quantities


def _percentiles(buckets: object, place: str) -> dict[str, float]:
    """The upper ends of the buckets that hold them, as elbencho prints them in its text."""
    ends: list[float] = []
    counts: list[int] = []
    for each in buckets if isinstance(buckets, list) else []:
        record = _mapping(each, place)
        match = _BUCKET.fullmatch(_text(record, "range", place))
        if not match or (ends and float(match[2]) <= ends[-1]):
            raise FormatError(f"{place}: no range of latencies, or out of order", advice=AGAIN)
        ends.append(float(match[2]))
        counts.append(int(whole(_text(record, "count", place), f"{place}: count")))
    if not ends or not sum(counts):
        return {}
    below = list(accumulate(counts))
    return {
        f"p{percent:g}": ends[bisect_left(below, below[-1] * percent / 100)] / _MICRO
        for percent in _PERCENTILES
    }


def _option(config: dict[str, Any], key: str, place: str) -> str:
    value = _text(config, key, place)
    value = _TRUTH.get(value, value)
    if key != "path_type":
        whole(value, f"{place}: {key}")
    return value


def _mapping(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {str(value)[:30]!r} is no object", advice=AGAIN)
    return value


def _under(record: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    """What stands under a key; nothing where it is not there, or is the text that an empty one
    is written as."""
    value = record.get(key, "")
    return {} if value == "" else _mapping(value, f"{place}: {key}")


def _text(record: dict[str, Any], key: str, place: str) -> str:
    value = record.get(key, "")
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, str):
        raise FormatError(f"{place}: {key} is {str(value)[:30]!r}", advice=AGAIN)
    return value
