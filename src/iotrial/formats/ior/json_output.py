"""IOR's JSON (``-O summaryFormat=JSON``, 3.2 and later), as tests with rows and summaries.

``Results`` is a list of rows, or (3.3 and before) of lists of them, one an iteration.  Numbers
have four decimals.  A run that was killed leaves no whole document.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.ior.lines import AGAIN, Row, Summary, Test

_START = re.compile(r"^\s*\{", re.MULTILINE)
_VERSION = re.compile(r"^IOR-(\S+): MPI", re.MULTILINE)
_LARGEST = 1e18
_FIELDS = {
    "bwMiB": "bw", "iops": "iops", "latency": "latency", "totalTime": "total", "xferKiB": "xfer",
    "blockKiB": "block", "openTime": "open", "wrRdTime": "wrrd", "closeTime": "close",
}  # fmt: skip
_SUMS = {
    "bwMaxMIB": "max", "bwMinMIB": "min", "bwMeanMIB": "mean", "OPsMax": "maxops",
    "OPsMin": "minops", "OPsMean": "meanops", "MeanTime": "seconds", "repetitions": "reps",
}  # fmt: skip


def tests_of(text: str, raw: str) -> list[Test]:
    """Every test of every document.  Raises FormatError with the line."""
    found: list[Test] = []
    at = 0
    while match := _START.search(text, at):
        begin = match.end() - 1
        line = text.count("\n", 0, begin) + 1
        try:
            document, at = json.JSONDecoder(object_pairs_hook=_unique).raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            wrong = text.count("\n", 0, getattr(error, "pos", begin)) + 1
            what = getattr(error, "msg", str(error)[:60] or "nested too deeply")
            message = f"{raw}: line {wrong}: no whole JSON from line {line} on: {what}"
            raise FormatError(message, advice=AGAIN) from None
        before = _VERSION.search(text)  # 3.2 says it before the document
        record = _mapping(document, f"{raw}: line {line}")
        found += _tests(record, before[1] if before else "", line, raw)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a number that is there twice, and different."""
    record: dict[str, Any] = {}
    for key, value in pairs:
        if key in record and record[key] != value:
            raise ValueError(f"{key} is there twice")
        record[key] = value
    return record


def _tests(document: dict[str, Any], version: str, line: int, raw: str) -> Iterator[Test]:
    place = f"{raw}: line {line}"
    tests = document.get("tests")
    if not isinstance(tests, list):
        raise FormatError(f"{place}: JSON, but no tests of IOR", advice=AGAIN)
    summaries = [
        _mapping(each, f"{place}: summary") for each in _list(document.get("summary", []), place)
    ]
    version = document.get("Version", version)
    for each in tests:
        record = _mapping(each, f"{place}: tests")
        options = _mapping(record.get("Options", {}), f"{place}: Options")
        test = Test(
            line,
            version if isinstance(version, str) else "",
            options={str(key): str(value) for key, value in options.items()},
            finished="Finished" in document,
        )
        identity = record.get("TestID", 0)
        test.rows.extend(_rows(record.get("Results", []), line, place))
        test.summaries.extend(
            _summary(found, line, place)
            for found in summaries
            if found.get("TestID", 0) == identity
        )
        most = _mapping(record.get("max", {}), f"{place}: max")
        for operation in ("write", "read"):
            if f"{operation}MiB" in most:
                test.most[operation] = _number(most, f"{operation}MiB", f"{place}: max")
        yield test


def _rows(results: object, line: int, place: str) -> Iterator[Row]:
    flat: list[object] = []
    for each in _list(results, f"{place}: Results"):
        flat += each if isinstance(each, list) else [each]
    seen: Counter[str] = Counter()
    for each in flat:
        record = _mapping(each, f"{place}: Results")
        operation = record.get("access")
        if operation not in ("write", "read", "remove"):
            raise FormatError(f"{place}: Results: access is {str(operation)[:30]!r}", advice=AGAIN)
        values = {
            name: _number(record, key, f"{place}: {operation}")
            for key, name in _FIELDS.items()
            if key in record
        }
        if "bw" not in values and operation != "remove":
            raise FormatError(f"{place}: {operation} without bwMiB", advice=AGAIN)
        yield Row(line, operation, seen[operation], values)
        seen[operation] += 1


def _summary(record: dict[str, Any], line: int, place: str) -> Summary:
    operation = record.get("operation")
    values = {
        name: _number(record, key, f"{place}: summary of {str(operation)[:10]}")
        for key, name in _SUMS.items()
        if key in record
    }
    if operation not in ("write", "read") or not {"max", "min", "mean"} <= values.keys():
        raise FormatError(f"{place}: a summary without its numbers", advice=AGAIN)
    return Summary(line, operation, values)


def _mapping(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {str(value)[:30]!r} is no object", advice=AGAIN)
    return value


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise FormatError(f"{place}: {str(value)[:30]!r} is no list", advice=AGAIN)
    return value


def _number(record: dict[str, Any], key: str, place: str) -> float:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        raise FormatError(f"{place}: {key} is {str(value)[:30]!r}: no number", advice=AGAIN)
    return float(value)
