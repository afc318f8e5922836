"""Events: what a run says of itself, with the time it was said (seconds since the epoch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrial.model.sample import Sample
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting


@dataclass(frozen=True, slots=True)
class Said:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Planned:
    """``pending`` trials are to be done, ``most`` at most until the end."""

    at: float
    pending: int
    most: int
    results: Path


@dataclass(frozen=True, slots=True)
class Began:
    """``expected`` is how long such a trial took before, in seconds (0: none yet)."""

    at: float
    trial: Trial
    expected: float


@dataclass(frozen=True, slots=True)
class Held:
    at: float
    host: str
    settings: Sequence[Setting]


@dataclass(frozen=True, slots=True)
class Sampled:
    at: float
    sample: Sample


@dataclass(frozen=True, slots=True)
class Ended:
    at: float
    record: TrialRecord


@dataclass(frozen=True, slots=True)
class Asked:
    """A person was asked to do ``what``, and is waited for."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Known:
    """``findings`` so far (:mod:`iotrial.live.findings`; None: not reckoned anew); ``counts`` of
    all trials by state, those of earlier sessions too."""

    at: float
    findings: Sequence[Mapping[str, Any]] | None
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Over:
    """The run has ended, with this exit code; ``why`` is what went wrong, if anything did."""

    at: float
    exit: int
    why: str = ""


Event = Said | Planned | Began | Held | Sampled | Ended | Asked | Known | Over
