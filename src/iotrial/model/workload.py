"""Workload: the load applied.  Chore: something done to a target before or after its trials, as the
study declares it; and how the page cache is met.

What a trial starts from is part of what is measured: a fresh SSD is faster than a full one, and a
file that was just written is read from memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.model.measurement import Metric, Metrics, metric
from iotrial.model.target import Target
from iotrial.units import format_seconds, format_value, parse_unit

Cache = Literal["keep", "drop", "remount", "direct"]
"""Before each load: nothing is done; caches are dropped, and that is verified; the file system is
mounted anew; nothing, since the tool goes past the cache (which is checked)."""

ChoreKind = Literal["trim", "fill", "precondition", "lay out", "command"]
Each = Literal["study", "block", "trial"]
OptionValue = str | int | float | bool
Start = Literal["plain", "server"]
RESPONSE = "response time from the intended start of each I/O"
TRACED = "iotrial trace 1 "
"""How a trace begins; the seconds that it lasts follow."""
BESIDE, ALONE = "beside", "alone"
"""What a factor varies as if it were an option: the workload that runs meanwhile, or none."""


@dataclass(frozen=True, slots=True)
class Chore:
    """One declared chore, done once for ``each`` study (in every session anew), block or trial.

    ``trim``: tell the device that nothing on it is needed (of a file system: what is free).
    ``fill``: write until ``share`` (a fraction) of the capacity is used.  ``precondition``: write
    ``times`` the capacity, from the beginning to the end.  ``lay out``: write what a load will
    read.  ``command``: execute ``argv``.
    """

    kind: ChoreKind
    each: Each
    share: float = 0.0
    times: float = 0.0
    argv: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people: ``fill 80 %``."""
        match self.kind:
            case "fill":
                return f"fill to {self.share * 100:g} %"
            case "precondition":
                return f"precondition {self.times:g}x"
            case "command":
                return f"command `{' '.join(self.argv)}`"
        return self.kind

    def destroys(self, target: Target) -> bool:
        """Whether it changes what the target holds: then it must be armed as for a load that
        writes.  A file beside others, and trimming what is free, harm nothing."""
        if self.kind == "command":
            return False
        if target.under_load == "device":
            return True
        return self.kind in ("precondition", "lay out")


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric that the study finds itself in what a command leaves: ``pattern`` is a regular
    expression with one group, or ``json`` a path (``jobs[0].read.bw``); ``source`` is the file in
    the trial's folder; ``unit`` as the command writes it; ``take`` which of several matches;
    ``higher`` what is better, None for a metric that iotrial knows, or that has no direction."""

    name: str
    pattern: str = ""
    json: str = ""
    source: str = "stdout"
    unit: str = ""
    take: str = "only"
    higher: bool | None = None

    @property
    def metric(self) -> Metric:
        """``own.rate`` is a rate as iotrial knows them, of an operation that it does not know."""
        try:
            return metric(self.name)
        except KeyError:
            return Metric(self.name, _base(self.unit), self.higher, self.name)


def _base(unit: str) -> str:
    try:
        return parse_unit(unit)[1]
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class OfferedRates:
    """Rates that a load offers, one after another (1/s, ascending), and the bound that decides
    which of them are served: the ``percentile`` (99.0) of the response time from the intended
    start is ``bound`` seconds at most."""

    rates: tuple[int, ...]
    percentile: float
    bound: float

    @property
    def latency(self) -> str:
        """The quantity that is bounded: ``response.p99``."""
        return f"response.p{self.percentile:g}"

    @property
    def words(self) -> str:
        """For people: ``p99 ≤ 2.00 ms of the response time from the intended start of each I/O, at
        5 offered rates from 500 IOPS to 8.00 kIOPS``."""
        first, last = (format_value(rate, "IOPS") for rate in (self.rates[0], self.rates[-1]))
        bound = f"p{self.percentile:g} \u2264 {format_seconds(self.bound)}"
        return (
            f"{bound} of the {RESPONSE}, at {len(self.rates)} offered rates from {first} to {last}"
        )


@dataclass(frozen=True, slots=True)
class Workload:
    """A tool with its options, as the study says them.  ``jobfile`` is the text of a job file
    (fio), already read; empty when there is none.  ``cache`` is how the page cache is met before
    each load; ``prepare`` and ``cleanup`` are the chores around its trials; ``evidence`` are
    commands whose output is kept after each load.  ``argv`` and ``metrics`` are a command's of
    the study's own: what is executed, and what is found in its output.  ``start`` "server": by the
    tool's own client here and a server of its on the host
    (:class:`iotrial.model.tool.SupportsServer`).  ``beside`` names the workload that runs at the
    same time ('': none); a ``neighbour`` is one that is named so: it has no trials of its own, and
    its ``target`` is its own ('': that of the trial).  ``offered``: it is measured at each of these
    rates, in one trial.  ``trace`` is what a replay does: a first line with :data:`TRACED`, then a
    line for each I/O in the order of time: when it began (µs), the number of its thread, what it
    was (0 read, 1 write, 2 trim, 3 sync), offset and length in bytes, how long it took (µs)."""

    name: str
    tool: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    jobfile: str = ""
    cache: Cache = "keep"
    prepare: tuple[Chore, ...] = ()
    cleanup: tuple[Chore, ...] = ()
    evidence: tuple[tuple[str, ...], ...] = ()
    argv: tuple[str, ...] = ()
    metrics: tuple[CustomMetric, ...] = ()
    start: Start = "plain"
    beside: str = ""
    target: str = ""
    neighbour: bool = False
    offered: OfferedRates | None = None
    trace: str = ""

    def option(self, name: str, default: OptionValue = "") -> OptionValue:
        return dict(self.options).get(name, default)

    def doing(self, text: str) -> Workload:
        """With this text as its trace or, where it is none, its job file."""
        if text.startswith(TRACED):
            return replace(self, trace=text)
        return replace(self, jobfile=text)

    def with_options(self, more: Iterable[tuple[str, OptionValue]]) -> Workload:
        """With these options set, each in its old place if it was there.  :data:`BESIDE` is no
        option of the tool, but says what runs beside it."""
        found = {**dict(self.options), **dict(more)}
        named = str(found.pop(BESIDE, self.beside))
        beside = "" if named == ALONE else named
        return replace(self, options=tuple(found.items()), beside=beside)


def metrics_of(workloads: Iterable[Workload]) -> Metrics:
    """The metrics there are beside these workloads: also those that they define."""
    return Metrics(tuple(wanted.metric for each in workloads for wanted in each.metrics))
