"""The document of now as OpenMetrics text, for Prometheus and what else reads it, and as the plain
text that came before, for whoever does not ask for OpenMetrics (``curl``, ``promtool``).  Pure.

What the kernel counts is given as counters, which a scraper that comes every 15 s can take the
difference of; what the page shows of this second is given as gauges beside them.

Names end in their unit, as OpenMetrics 1.0.0 asks.  How both are written is prometheus-client's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector

from iotrial.live.picture import SECTOR

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""Suffix, labels, value."""

COUNTERS = (
    ("operations", "reads", "writes", 1.0, "I/O that the {} completed"),
    ("bytes", "sectors_read", "sectors_written", float(SECTOR), "bytes transferred"),
    ("seconds", "read_ms", "write_ms", 1e-3, "total time of completed I/O"),
)
"""Unit, the kernel's counters of reads and writes, what one of them is, help."""
GAUGES = (
    ("{}.iops", "{}_operations_per_second", "operations_per_second", "I/O per second"),
    ("{}.bw", "{}_bytes_per_second", "bytes_per_second", "bytes per second"),
    ("{}.lat", "{}_latency_seconds", "seconds", "mean latency of the last second"),
)
PLACE = ("host", "target", "device", "path")
_LABELS = {"device": 3, "path": 4}
PHASES = ("preparing", "applying", "settling", "load", "between", "waiting", "over")


def content_type(accept: str) -> str:
    """The type of the answer to a reader that takes ``accept``: OpenMetrics if it says so."""
    return CONTENT_TYPE if "application/openmetrics-text" in accept.lower() else PLAIN


def openmetrics(
    document: Mapping[str, Any],
    counters: Mapping[Any, Mapping[str, int]],
    *,
    plain: bool = False,
) -> str:
    """``document`` is :meth:`iotrial.live.picture.LiveDocument.document`, ``counters`` the kernel's
    of each (host, target, device), and of each (host, target, device, path).  ``plain``: in the
    text format 0.0.4."""
    families = (
        *_disks("device", document["rows"], counters),
        *_disks("path", document["paths"], counters),
        *_networks(document),
        *_hosts(document),
        *_run(document),
    )
    write = exposition.generate_latest if plain else openmetrics_exposition.generate_latest
    return write(_Families(families)).decode()


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(name: str, about: tuple[str, str, str], samples: Iterable[Sample]) -> Metric:
    """What has one name.  ``about`` is type, unit ('': none) and help."""
    kind, unit, what = about
    found = Metric(name, what, kind, unit)
    for suffix, labels, value in samples:
        found.add_sample(name + suffix, dict(labels), value)
    return found


def _disks(
    what_for: str, rows: Sequence[Mapping[str, Any]], counters: Mapping[Any, Mapping[str, int]]
) -> Iterator[Metric]:
    """Devices under test, or the paths that these are built on: families of their own, so that
    nobody adds up what is counted twice."""
    mine = {place: each for place, each in counters.items() if len(place) == _LABELS[what_for]}
    whose = "device" if what_for == "device" else "disk below the device"
    for way, index in (("read", 1), ("write", 2)):
        for row in COUNTERS:
            unit, key, one, what = row[0], str(row[index]), row[3], row[4]
            yield _family(
                f"iotrial_{what_for}_{way}_{unit}",
                ("counter", unit, f"{what.format(whose)}, {way}s, since the machine started"),
                [
                    ("_total", _place(place), values[key] * one)
                    for place, values in mine.items()
                    if key in values
                ],
            )
        for name, text, unit, what in GAUGES:
            yield _gauges(
                f"iotrial_{what_for}_{text.format(way)}", unit, f"{what}, {way}s",
                name.format(way), rows,
            )  # fmt: skip
    yield _gauges(
        f"iotrial_{what_for}_busy_ratio", "ratio", "share of the time with I/O in flight", "busy",
        rows,
    )  # fmt: skip
    yield _gauges(
        f"iotrial_{what_for}_in_flight_operations", "operations", "I/O in flight", "in_flight", rows
    )
    if what_for == "path":
        yield _gauges("iotrial_path_share_ratio", "ratio", "of the device's I/O", "share", rows)


def _networks(document: Mapping[str, Any]) -> Iterator[Metric]:
    for way in ("received", "sent"):
        name, what = f"iotrial_network_{way}_bytes_per_second", f"bytes a second, {way}"
        yield _gauges(name, "bytes_per_second", what, f"{way}.bw", document["rows"])


def _hosts(document: Mapping[str, Any]) -> Iterator[Metric]:
    for part in ("busy", "system", "iowait", "steal"):
        name, what = f"iotrial_host_cpu_{part}_ratio", f"share of all CPUs' time: {part}"
        yield _gauges(name, "ratio", what, f"cpu.{part}", document["hosts"])
    for part in ("io", "cpu", "memory"):
        name, what = f"iotrial_host_pressure_{part}_ratio", "share of the time some task waited"
        yield _gauges(name, "ratio", f"{what} for {part}", f"pressure.{part}", document["hosts"])


def _run(document: Mapping[str, Any]) -> Iterator[Metric]:
    now, progress = document["trial"], document["progress"]
    info = {"study": document["study"]}
    if document.get("pretended"):
        info["pretended"] = "yes"
    if now:
        treatment = " ".join(f"{name}={level}" for name, level in now["treatment"].items())
        info |= {
            "trial": now["folder"], "workload": now["workload"], "target": now["target"],
            "treatment": treatment, "block": str(now["block"]), "attempt": str(now["attempt"]),
        }  # fmt: skip
    yield _family("iotrial_trial", ("info", "", "current trial"), [("_info", info, 1.0)])
    yield _family(
        "iotrial_phase",
        ("stateset", "", "current state of the run"),
        [("", {"iotrial_phase": each}, float(each == document["phase"])) for each in PHASES],
    )
    states = [(state, progress[state]) for state in ("valid", "invalid", "failed")]
    yield _family(
        "iotrial_trials",
        ("counter", "", "executed trials of the study, by state"),
        [("_total", {"state": state}, count) for state, count in states],
    )
    left = progress["most"] - progress["done"]
    yield _family(
        "iotrial_trials_left",
        ("gauge", "", "upper bound of the remaining trials"),
        [("", {}, left)],
    )
    yield _family(
        "iotrial_left_seconds",
        ("gauge", "seconds", "upper bound of the remaining time; 0: unknown"),
        [("", {}, progress["wait"])],
    )
    ends = (("low", "low"), ("ratio", "estimate"), ("high", "high"))
    yield _family(
        "iotrial_finding_ratio",
        ("gauge", "ratio", "a level against its baseline, and the ends of its interval"),
        [
            ("", {**_comparison(each), "end": end}, each[key])
            for each in document["findings"]
            for key, end in ends
            if each[key] is not None
        ],
    )


def _gauges(name: str, unit: str, what: str, key: str, rows: Iterable[Mapping[str, Any]]) -> Metric:
    samples: list[Sample] = [
        ("", {part: row[part] for part in PLACE if part in row}, value)
        for row in rows
        if (value := row["rates"].get(key)) is not None
    ]
    return _family(name, ("gauge", unit, what), samples)


def _place(place: tuple[str, ...]) -> Labels:
    return dict(zip(PLACE, place, strict=False))


def _comparison(each: Mapping[str, Any]) -> Labels:
    return {key: str(each[key]) for key in ("workload", "metric", "factor", "level", "baseline")}
