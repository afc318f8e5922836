"""Watcher: what a run tells while it goes on, and to whom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from iotrial.execute.interruption import Interruption
from iotrial.model.results import Results
from iotrial.model.sample import Sample
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting


class Watcher(Protocol):
    """Who is told how a run goes on.  Nothing here prints.

    ``planned`` is said whenever trials were planned: ``pending`` of them, and ``most`` until the
    study ends at the latest (more than ``pending`` where it ends as soon as it knows).  ``held``
    are the settings read back just before the load, ``sampled`` what the kernel of one host
    counted, once a second while a load goes on.  ``known`` is everything that was measured so
    far, said before the first trial, after each block and at the end, while no load goes on.
    """

    def said(self, text: str) -> None: ...
    def planned(self, pending: int, most: int, results: Path) -> None: ...
    def began(self, trial: Trial, seconds: float) -> None: ...
    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None: ...
    def sampled(self, trial: Trial, sample: Sample) -> None: ...
    def ticked(self, trial: Trial, elapsed: float) -> None: ...
    def ended(self, record: TrialRecord) -> None: ...
    def known(self, results: Results) -> None: ...

    def attended(self) -> bool:
        """Whether there is a person who can be asked to do something."""
        ...

    def asked(self, what: str, interruption: Interruption) -> None:
        """Ask a person to do ``what``; gives back when it is said to be done, or at a signal."""
        ...


class Unwatched:
    """A watcher that looks away."""

    def said(self, text: str) -> None: ...
    def planned(self, pending: int, most: int, results: Path) -> None: ...
    def began(self, trial: Trial, seconds: float) -> None: ...
    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None: ...
    def sampled(self, trial: Trial, sample: Sample) -> None: ...
    def ticked(self, trial: Trial, elapsed: float) -> None: ...
    def ended(self, record: TrialRecord) -> None: ...
    def known(self, results: Results) -> None: ...

    def attended(self) -> bool:
        return False

    def asked(self, what: str, interruption: Interruption) -> None:
        """Never: nobody is there."""
