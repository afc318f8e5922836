"""Events: what a run tells while it goes on, as values.  Nothing here prints or waits.

A run is given a :data:`Tell` and calls it with one event after another, never with two at a time.
Who listens (the terminal, the live page, a test) decides what to do with each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.model.results import Results, TelemetrySample
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence for people."""

    text: str


@dataclass(frozen=True, slots=True)
class TrialsPlanned:
    """``pending`` trials are to be done, ``most`` until the study ends at the latest (more than
    ``pending`` where it ends as soon as it knows)."""

    pending: int
    most: int
    results: Path


@dataclass(frozen=True, slots=True)
class TrialBegan:
    """``expected`` is how long such a trial took before, in seconds (0: none yet)."""

    trial: Trial
    expected: float


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """The settings of one host, read back just before the load."""

    host: str
    settings: Sequence[Setting]


@dataclass(frozen=True, slots=True)
class CountersSampled:
    """What the kernel of one host counted, once a second while a load goes on."""

    sample: TelemetrySample


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The load goes on since ``elapsed`` seconds."""

    trial: Trial
    elapsed: float


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is committed."""

    record: TrialRecord


@dataclass(frozen=True, slots=True)
class ResultsUpdated:
    """Everything that was measured so far: told before the first trial, after each block and at the
    end, while no load goes on."""

    results: Results


@dataclass(frozen=True, slots=True)
class PersonAsked:
    """A person is asked to do ``what``, and is waited for."""

    what: str


Event = (
    Message
    | TrialsPlanned
    | TrialBegan
    | SettingsInForce
    | CountersSampled
    | LoadProgress
    | TrialEnded
    | ResultsUpdated
    | PersonAsked
)
Tell = Callable[[Event], None]

Ask = Callable[[str, Callable[[], bool]], None]
"""Asks a person to do what is said; returns when it is said to be done, or once the second argument
says that the run is to stop."""


def ignore(event: Event) -> None:
    """A listener that wants to know nothing."""
    del event
