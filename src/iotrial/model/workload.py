"""Workload: the load applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from iotrial.model.chore import Cache, Chore
from iotrial.model.measurement import Metric, Metrics, metric
from iotrial.units import parse_unit

OptionValue = str | int | float | bool
Start = Literal["plain", "server"]


@dataclass(frozen=True, slots=True)
class Wanted:
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
class Workload:
    """A tool with its options, as the study says them.  ``jobfile`` is the text of a job file
    (fio), already read; empty when there is none.  ``cache`` is how the page cache is met before
    each load; ``prepare`` and ``cleanup`` are the chores around its trials; ``evidence`` are
    commands whose output is kept after each load.  ``argv`` and ``metrics`` are a command's of
    the study's own: what is executed, and what is found in its output.  ``start`` "server": by the
    tool's own client here and a server of its on the host (:class:`iotrial.model.tool.Served`)."""

    name: str
    tool: str
    options: tuple[tuple[str, OptionValue], ...] = ()
    jobfile: str = ""
    cache: Cache = "keep"
    prepare: tuple[Chore, ...] = ()
    cleanup: tuple[Chore, ...] = ()
    evidence: tuple[tuple[str, ...], ...] = ()
    argv: tuple[str, ...] = ()
    metrics: tuple[Wanted, ...] = ()
    start: Start = "plain"

    def option(self, name: str, default: OptionValue = "") -> OptionValue:
        return dict(self.options).get(name, default)


def metrics_of(workloads: Iterable[Workload]) -> Metrics:
    """The metrics there are beside these workloads: also those that they define."""
    return Metrics(tuple(wanted.metric for each in workloads for wanted in each.metrics))
