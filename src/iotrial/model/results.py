"""Results: what one execution of a study left on disk, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.latency import Latency
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord

ORIGINALS = "originals"
"""The folder of the files that imported runs came from."""


@dataclass(frozen=True, slots=True)
class Results:
    """``folder`` is the results folder; ``planned`` every line of plan.jsonl, ``records`` every
    committed trial, both by number.  ``facts`` is hosts/NAME.json of each host: what the machine
    was (kernel, CPU, memory, tool versions, device identity, settings in force at the start).
    ``baselines`` maps a factor to the label of its baseline level, as resolved at the start.
    ``doubts`` are about the whole study.  ``latencies`` are those of each treatment over all its
    runs, of imported runs that have histograms.
    """

    folder: Path
    study: Study
    planned: tuple[Trial, ...]
    records: tuple[TrialRecord, ...]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    baselines: dict[str, str] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    latencies: tuple[Latency, ...] = ()

    @property
    def pretended(self) -> bool:
        """Whether a made-up machine gave the numbers (``--pretend``)."""
        return self.study.pretended

    @property
    def valid(self) -> tuple[TrialRecord, ...]:
        return tuple(record for record in self.records if record.state == "valid")
