"""The document of now as OpenMetrics text, for Prometheus and what else reads it, and as the plain
text that came before, for whoever does not ask for OpenMetrics (``curl``, ``promtool``).  Pure.

What the kernel counts is given as counters, which a scraper that comes every 15 s can take the
difference of; what the page shows of this second is given as gauges beside them.

Source: OpenMetrics 1.0.0 (names end in their unit; counters' samples in ``_total``; a family's
samples stand together; the text ends with ``# EOF``); Prometheus' text format 0.0.4, which has no
infos, state sets and units, and where a family is called as its samples are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iotrial.live.picture import SECTOR

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""Suffix, labels, value."""

COUNTERS = (
    ("operations", "reads", "writes", 1.0, "I/O that the {} completed"),
    ("bytes", "sectors_read", "sectors_written", float(SECTOR), "bytes it moved"),
    ("seconds", "read_ms", "write_ms", 1e-3, "time that completed I/O took, added up"),
)
"""Unit, the kernel's counters of reads and writes, what one of them is, help."""
GAUGES = (
    ("{}.iops", "{}_operations_per_second", "operations_per_second", "I/O a second"),
    ("{}.bw", "{}_bytes_per_second", "bytes_per_second", "bytes a second"),
    ("{}.lat", "{}_latency_seconds", "seconds", "mean latency of this second"),
)
PLACE = ("host", "target", "device", "path")
_LABELS = {"device": 3, "path": 4}
_SUFFIXES = {"counter": "_total", "info": "_info"}
"""Type → what its samples are called behind the family's name."""
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
    families: tuple[_Family, ...] = (
        *_disks("device", document["rows"], counters),
        *_disks("path", document["paths"], counters),
        *_networks(document),
        *_hosts(document),
        *_run(document),
    )
    if plain:
        return "".join(part for each in families for part in each.plain())
    return "".join(part for each in families for part in each.lines()) + "# EOF\n"


def _disks(
    what_for: str, rows: Sequence[Mapping[str, Any]], counters: Mapping[Any, Mapping[str, int]]
) -> Iterator[_Family]:
    """Devices under test, or the paths that these are built on: families of their own, so that
    nobody adds up what is counted twice."""
    mine = {place: each for place, each in counters.items() if len(place) == _LABELS[what_for]}
    whose = "device" if what_for == "device" else "disk below the device"
    for way, index in (("read", 1), ("write", 2)):
        for row in COUNTERS:
            unit, key, one, what = row[0], str(row[index]), row[3], row[4]
            yield _Family(
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


def _networks(document: Mapping[str, Any]) -> Iterator[_Family]:
    for way in ("received", "sent"):
        name, what = f"iotrial_network_{way}_bytes_per_second", f"bytes a second, {way}"
        yield _gauges(name, "bytes_per_second", what, f"{way}.bw", document["rows"])


def _hosts(document: Mapping[str, Any]) -> Iterator[_Family]:
    for part in ("busy", "system", "iowait", "steal"):
        name, what = f"iotrial_host_cpu_{part}_ratio", f"share of all CPUs' time: {part}"
        yield _gauges(name, "ratio", what, f"cpu.{part}", document["hosts"])
    for part in ("io", "cpu", "memory"):
        name, what = f"iotrial_host_pressure_{part}_ratio", "share of the time some task waited"
        yield _gauges(name, "ratio", f"{what} for {part}", f"pressure.{part}", document["hosts"])


def _run(document: Mapping[str, Any]) -> Iterator[_Family]:
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
    yield _Family("iotrial_trial", ("info", "", "the trial at work"), [("_info", info, 1.0)])
    yield _Family(
        "iotrial_phase",
        ("stateset", "", "what the run does now"),
        [("", {"iotrial_phase": each}, float(each == document["phase"])) for each in PHASES],
    )
    states = [(state, progress[state]) for state in ("valid", "invalid", "failed")]
    yield _Family(
        "iotrial_trials",
        ("counter", "", "trials of the study that are done, by what they became"),
        [("_total", {"state": state}, count) for state, count in states],
    )
    left = progress["most"] - progress["done"]
    yield _Family(
        "iotrial_trials_left", ("gauge", "", "trials that are left, at most"), [("", {}, left)]
    )
    yield _Family(
        "iotrial_left_seconds",
        ("gauge", "seconds", "time until the end, at most; 0: not known"),
        [("", {}, progress["wait"])],
    )
    ends = (("low", "low"), ("ratio", "estimate"), ("high", "high"))
    yield _Family(
        "iotrial_finding_ratio",
        ("gauge", "ratio", "a level against its baseline, and the ends of its interval"),
        [
            ("", {**_comparison(each), "end": end}, each[key])
            for each in document["findings"]
            for key, end in ends
            if each[key] is not None
        ],
    )


def _gauges(
    name: str, unit: str, what: str, key: str, rows: Iterable[Mapping[str, Any]]
) -> _Family:
    samples: list[Sample] = [
        ("", {part: row[part] for part in PLACE if part in row}, value)
        for row in rows
        if (value := row["rates"].get(key)) is not None
    ]
    return _Family(name, ("gauge", unit, what), samples)


@dataclass(frozen=True, slots=True)
class _Family:
    """What has one name.  ``about`` is type, unit ('': none) and help."""

    name: str
    about: tuple[str, str, str]
    samples: Iterable[Sample]

    def lines(self) -> Iterator[str]:
        """As OpenMetrics."""
        kind, unit, what = self.about
        yield f"# TYPE {self.name} {kind}\n"
        if unit:
            yield f"# UNIT {self.name} {unit}\n"
        yield f"# HELP {self.name} {_escaped(what)}\n"
        yield from self._samples()

    def plain(self) -> Iterator[str]:
        """As the text format 0.0.4."""
        kind, _, what = self.about
        name = self.name + _SUFFIXES.get(kind, "")
        yield f"# HELP {name} {_escaped(what)}\n"
        yield f"# TYPE {name} {kind if kind == 'counter' else 'gauge'}\n"
        yield from self._samples()

    def _samples(self) -> Iterator[str]:
        for suffix, labels, value in self.samples:
            told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            name = self.name + suffix
            yield f"{name}{{{told}}} {value!r}\n" if told else f"{name} {value!r}\n"


def _place(place: tuple[str, ...]) -> Labels:
    return dict(zip(PLACE, place, strict=False))


def _comparison(each: Mapping[str, Any]) -> Labels:
    return {key: str(each[key]) for key in ("workload", "metric", "factor", "level", "baseline")}


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
