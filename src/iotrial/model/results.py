"""Results: what one execution of a study left on disk, as values; and what a host counted and
bore meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol

from iotrial.model.study import Study
from iotrial.model.tool import RateSeries
from iotrial.model.trial import Doubt, Treatment, Trial, TrialRecord

StrainKind = Literal["cpu", "core", "nic", "adapter", "device", "path"]
ORIGINALS = "originals"
"""The folder of the files that imported runs came from."""


@dataclass(frozen=True, slots=True)
class Percentile:
    """``value`` in seconds that the share ``p`` (in percent) of the I/Os did not exceed;
    ``beyond``: it lies in the last bin, and is a lower bound."""

    p: float
    value: float
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class LatencyDistribution:
    """``name`` is the latency's (``read.clat``); ``runs`` is how many were added up, bin by bin,
    and ``ios`` how many I/Os they had."""

    workload: str
    treatment: Treatment
    name: str
    runs: int
    ios: int
    percentiles: tuple[Percentile, ...]


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """One thing of one ``host``.  ``of`` is the part that it serves (``box1/disk``; '': several).

    ``busy`` is a share of the time: a CPU's that was not idle, a device's with I/O in flight; of a
    link, what it carried of its speed in the direction with more (None: not known).
    ``interrupts``, ``stolen`` and ``iowait`` are shares of a CPU's time, ``load`` is how many
    tasks ran or waited for I/O on average (None: not known).  ``ios`` are done a second, both ways
    together, ``came`` and ``went`` are bytes a second read or received, written or sent;
    ``latency`` is the mean of the I/Os in seconds, ``depth`` how many
    were in flight on average and ``limit`` how many could be (0: not known).
    """

    host: str
    kind: StrainKind
    name: str
    of: str = ""
    busy: float | None = None
    interrupts: float = 0.0
    stolen: float = 0.0
    ios: float = 0.0
    came: float = 0.0
    went: float = 0.0
    latency: float = 0.0
    depth: float = 0.0
    limit: int = 0
    iowait: float | None = None
    load: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without what says nothing."""
        zeros = (
            "iowait",
            "load",
        )  # which say something: of a machine that does not count them None
        return {
            name: value
            for name, value in asdict(self).items()
            if value not in ("", 0, None) or (name in zeros and value is not None)
        }


def strain_of(row: Mapping[str, Any]) -> ResourceUsage:
    """The opposite of :meth:`ResourceUsage.as_dict`.  Raises KeyError, TypeError for anything
    else."""
    known = {each.name for each in fields(ResourceUsage)}
    if not {"host", "kind", "name"} <= row.keys():
        raise KeyError("host, kind, name")
    return ResourceUsage(**{name: value for name, value in row.items() if name in known})


@dataclass(frozen=True, slots=True)
class DevicePoint:
    """What a device did between two samples: ``t`` is the middle, in seconds since the load began;
    ``ios`` done a second, their mean ``latency`` in seconds (None: there were none), how many
    were in flight on average (``depth``)."""

    t: float
    ios: float
    latency: float | None
    depth: float


class TrialTraces(Protocol):
    """What trials noted beside their numbers.  There is much of it, so that it is read from a
    results folder only when it is asked for.  Each raises FormatError for what is not whole."""

    def of_device(self, record: TrialRecord) -> RateSeries | None:
        """The rate of the device over time; None where it was not kept."""
        ...

    def samples(self, record: TrialRecord) -> tuple[DevicePoint, ...]:
        """What the device did over time; () where that was not kept."""
        ...

    def of_load(self, record: TrialRecord, metric: str) -> RateSeries | None:
        """The rate that a metric of the load is the mean of, as the tool noted it over time; None
        where it noted none."""
        ...

    def strains(self, record: TrialRecord) -> tuple[ResourceUsage, ...]:
        """What everything on the way bore; () where that was not kept."""
        ...


class NoTraces:
    """Those of results that are not in a folder."""

    def of_device(self, record: TrialRecord) -> RateSeries | None:  # noqa: ARG002
        return None

    def samples(self, record: TrialRecord) -> tuple[DevicePoint, ...]:  # noqa: ARG002
        return ()

    def of_load(self, record: TrialRecord, metric: str) -> RateSeries | None:  # noqa: ARG002
        return None

    def strains(self, record: TrialRecord) -> tuple[ResourceUsage, ...]:  # noqa: ARG002
        return ()


@dataclass(frozen=True, slots=True)
class Results:
    """``folder`` is the results folder; ``planned`` every line of plan.jsonl, ``records`` every
    committed trial, both by number.  ``facts`` is hosts/NAME.json of each host: what the machine
    was (kernel, CPU, memory, tool versions, device identity, settings in force at the start).
    ``baselines`` maps a factor to the label of its baseline level, as resolved at the start.
    ``doubts`` are about the whole study.  ``latencies`` are those of each treatment over all its
    runs, of imported runs that have histograms.  ``boots`` are those of hosts for the study, in
    their order.  ``traces`` is what trials noted beside their numbers.
    """

    folder: Path
    study: Study
    planned: tuple[Trial, ...]
    records: tuple[TrialRecord, ...]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    latencies: tuple[LatencyDistribution, ...] = ()
    boots: tuple[BootRecord, ...] = ()
    traces: TrialTraces = field(default=NoTraces(), compare=False, repr=False)
    known: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """What was reckoned from it and will be asked for again (:mod:`iotrial.stats.responses`)."""

    @property
    def pretended(self) -> bool:
        """Whether a made-up machine gave the numbers (``--pretend``)."""
        return self.study.pretended

    @property
    def valid(self) -> tuple[TrialRecord, ...]:
        return tuple(record for record in self.records if record.state == "valid")


@dataclass(frozen=True, slots=True)
class BootRecord:
    """A boot of ``host`` for a study, as it was: by ``method``, at ``started`` (seconds since the
    epoch) and for ``seconds``; ``changes`` (name, value) that were asked for, for this ``block``,
    and what came up.  ``problem`` ('': none)."""

    host: str
    method: str
    started: float
    seconds: float
    block: int
    changes: tuple[tuple[str, str], ...]
    kernel: str
    command_line: str
    boot_id: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TelemetrySample:
    """``values`` is one line of telemetry.jsonl: ``t`` in seconds since the load began, then
    counters as the kernel keeps them; only the difference of two says something.  ``device`` is
    the kernel name of the block device under the target ('': none, the target is remote)."""

    host: str
    target: str
    device: str
    values: Mapping[str, Any] = field(repr=False)
