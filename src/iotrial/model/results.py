"""Results: what one execution of a study left on disk, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from iotrial.model.doubt import Doubt
from iotrial.model.latency import Latency
from iotrial.model.strain import Strain
from iotrial.model.study import Study
from iotrial.model.tool import Course
from iotrial.model.trial import Trial, TrialRecord

ORIGINALS = "originals"
"""The folder of the files that imported runs came from."""


class Traces(Protocol):
    """What trials noted beside their numbers.  There is much of it, so that it is read from a
    results folder only when it is asked for.  Each raises FormatError for what is not whole."""

    def of_device(self, record: TrialRecord) -> Course | None:
        """The rate of the device over time; None where it was not kept."""
        ...

    def of_load(self, record: TrialRecord, metric: str) -> Course | None:
        """The rate that a metric of the load is the mean of, as the tool noted it over time; None
        where it noted none."""
        ...

    def strains(self, record: TrialRecord) -> tuple[Strain, ...]:
        """What everything on the way bore; () where that was not kept."""
        ...


class NoTraces:
    """Those of results that are not in a folder."""

    def of_device(self, record: TrialRecord) -> Course | None:  # noqa: ARG002
        return None

    def of_load(self, record: TrialRecord, metric: str) -> Course | None:  # noqa: ARG002
        return None

    def strains(self, record: TrialRecord) -> tuple[Strain, ...]:  # noqa: ARG002
        return ()


@dataclass(frozen=True, slots=True)
class Results:
    """``folder`` is the results folder; ``planned`` every line of plan.jsonl, ``records`` every
    committed trial, both by number.  ``facts`` is hosts/NAME.json of each host: what the machine
    was (kernel, CPU, memory, tool versions, device identity, settings in force at the start).
    ``baselines`` maps a factor to the label of its baseline level, as resolved at the start.
    ``doubts`` are about the whole study.  ``latencies`` are those of each treatment over all its
    runs, of imported runs that have histograms.  ``traces`` is what trials noted beside their
    numbers.
    """

    folder: Path
    study: Study
    planned: tuple[Trial, ...]
    records: tuple[TrialRecord, ...]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    latencies: tuple[Latency, ...] = ()
    traces: Traces = field(default=NoTraces(), compare=False, repr=False)

    @property
    def pretended(self) -> bool:
        """Whether a made-up machine gave the numbers (``--pretend``)."""
        return self.study.pretended

    @property
    def valid(self) -> tuple[TrialRecord, ...]:
        return tuple(record for record in self.records if record.state == "valid")
