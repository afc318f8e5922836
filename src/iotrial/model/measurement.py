"""Measurement: one number in base units, with the raw file that gave it.  Metric: its kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal


@dataclass(frozen=True, slots=True)
class Measurement:
    """``job`` is ``all`` for the trial's own number (summed or merged over its jobs), else the
    job's name and ordinal (``randread#1``), or the part of several that measured it
    (``box1/disk``).  ``raw`` is the file in the trial's folder.
    ``censored`` says on which side the truth lies beyond the value."""

    metric: str
    value: float
    unit: str
    job: str = "all"
    raw: str = ""
    censored: Literal["", "high", "low"] = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """``higher`` is what is better: True, False, or None for a metric with no direction."""

    name: str
    unit: str
    higher: bool | None
    title: str

    @property
    def display_unit(self) -> str:
        """The unit for people: ``IOPS`` for ``1/s`` where I/Os are counted."""
        return display_unit(self.name, self.unit)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Every metric that a name may mean: those that iotrial knows, and those that a study defines
    itself (``own``), which win."""

    own: tuple[Metric, ...] = ()

    def metric(self, name: str) -> Metric:
        """The metric with this dotted name.  Raises KeyError as :func:`metric`."""
        own = next((each for each in self.own if each.name == name), None)
        return own or metric(name)

    def higher(self, name: str) -> bool | None:
        """Whether more of the metric is better; None for one without direction, or unknown."""
        try:
            return self.metric(name).higher
        except KeyError:
            return None

    def unit(self, name: str) -> str:
        """Its base unit; '' for one that has none, or is unknown."""
        try:
            return self.metric(name).unit
        except KeyError:
            return ""

    def display_unit(self, name: str) -> str:
        """The same for people (:attr:`Metric.display_unit`)."""
        return display_unit(name, self.unit(name))

    def defines(self, name: str) -> bool:
        """Whether the study defines it."""
        return any(each.name == name for each in self.own)


METRICS = Metrics()
"""Without those of a study."""


@cache
def metric(name: str) -> Metric:
    """The metric that iotrial knows by this dotted name, ``<operation>.<quantity>``; an operation
    on files may say in which order: ``create.seq.rate``.  A quantity alone is that of several
    operations.  What is in brackets at the end is a section of the load (:func:`sectioned`).

    Raises KeyError for a quantity that it does not know.
    """
    name_of_all, section = sectioned(name)
    found = _metric(name_of_all)
    return replace(found, name=name, title=f"{found.title} of {section}") if section else found


def _metric(name: str) -> Metric:
    operation, quantity = split(name) if "." in name else ("", name)
    if quantity.startswith(("clat.", "slat.", "lat.")):
        return Metric(name, "s", higher=False, title=f"{operation} latency {quantity}")
    if quantity.startswith("response."):
        end = quantity.removeprefix("response.")
        return Metric(name, "s", higher=False, title=f"{operation} response time {end}")
    if quantity.startswith("late."):
        end = quantity.removeprefix("late.")
        return Metric(name, "s", higher=False, title=f"{operation} lateness {end}")
    unit, higher, title = QUANTITIES[quantity]
    said = "" if operation == "cpu" else operation
    return Metric(name, unit, higher, f"{said} {title}".strip())


def display_unit(name: str, unit: str) -> str:
    """The unit of a metric as people write it: a rate of I/Os is in IOPS, one of files is not."""
    return "IOPS" if unit == "1/s" and "iops" in sectioned(name)[0].split(".") else unit


@lru_cache(maxsize=4096)
def sectioned(name: str) -> tuple[str, str]:
    """The metric, and the section of the load that it is of ('': of all of it).

    >>> sectioned("read.iops[4k-read]")
    ('read.iops', '4k-read')
    """
    base, bracket, rest = name.partition("[")
    return (base, rest[:-1]) if bracket and rest.endswith("]") else (name, "")


def of_section(name: str, section: str) -> str:
    """A metric's name for one section of the load ('': for all of it)."""
    return f"{name}[{section}]" if section else name


def beside(name: str, quantity: str) -> str:
    """Another quantity of the same operation and section: ``clat.p99`` beside ``read.iops[a]`` is
    ``read.clat.p99[a]``."""
    base, section = sectioned(name)
    return of_section(f"{base.partition('.')[0]}.{quantity}", section)


def split(name: str) -> tuple[str, str]:
    """Operation and quantity of a dotted name, whichever section it is of: ``create.seq.lat.max``
    → ``create.seq`` and ``lat.max``; ``create.dir.rate`` → ``create.dir`` and ``rate``."""
    operation, _, quantity = sectioned(name)[0].partition(".")
    order, dot, rest = quantity.partition(".")
    if dot and order in _ORDERS and operation in _ORDERED:
        return f"{operation}.{order}", rest
    return operation, quantity


def is_offered(name: str) -> bool:
    """Whether a metric is the highest offered rate within a latency bound.  Beyond the offered
    rates its value is a bound, not a number."""
    return split(name)[1] == "iops.within"


_ORDERED = ("create", "stat", "delete", "read", "rename")
_ORDERS = ("seq", "random", "dir", "tree", "file")
QUANTITIES: dict[str, tuple[str, bool | None, str]] = {
    "iops": ("1/s", True, "IOPS"),
    "iops.within": ("1/s", True, "offered IOPS within the latency bound"),
    "bw": ("bytes/s", True, "bandwidth"),
    "rate": ("1/s", True, "rate"),
    "rate.sd": ("1/s", None, "spread of the rate over iterations"),
    "bytes": ("bytes", None, "bytes moved"),
    "seconds": ("s", False, "time"),
    "bw.parent": ("bytes/s", True, "bandwidth from the first start to the last end"),
    "bw.min": ("bytes/s", True, "bandwidth of the slowest process"),
    "bw.max": ("bytes/s", None, "bandwidth of the fastest process"),
    "bw.avg": ("bytes/s", True, "bandwidth of a process"),
    "bw.sent": ("bytes/s", None, "bandwidth sent by the other end"),
    "bw.received": ("bytes/s", True, "bandwidth received by the other end"),
    "bytes.min": ("bytes", None, "bytes of the slowest process"),
    "iops.min": ("1/s", True, "IOPS of the worst interval"),
    "iops.max": ("1/s", None, "IOPS of the best interval"),
    "iops.sd": ("1/s", None, "spread of IOPS over intervals"),
    "bw.sd": ("bytes/s", None, "spread of bandwidth over intervals"),
    "ios": ("", None, "number of I/Os"),
    "retransmits": ("", False, "retransmitted segments"),
    "loss": ("fraction", False, "packet loss"),
    "jitter": ("s", False, "jitter"),
    "util": ("fraction", None, "share of the time in use"),
    "depth": ("", None, "I/Os in flight"),
    "cpu": ("fraction", None, "CPU"),
    "usr": ("fraction", None, "CPU in user mode"),
    "sys": ("fraction", None, "CPU in the kernel"),
    "per_io": ("s", False, "CPU per I/O"),
    "value": ("", None, "value"),
}
"""Unit, whether more is better, and title of each, but for latencies."""


def of_metric(
    name: str, value: float, raw: str, job: str = "all", censored: Literal["", "high", "low"] = ""
) -> Measurement:
    """A number of a metric, in its base unit.  Raises KeyError as :func:`metric`."""
    return Measurement(name, value, metric(name).unit, job, raw, censored)
