"""A watcher that is told one thing at a time, whichever thread it is from."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iotrial.execute.interruption import Interruption
from iotrial.model.results import Results
from iotrial.model.sample import Sample
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.tunable import Setting

if TYPE_CHECKING:
    from iotrial.execute.watcher import Watcher


class InTurn:
    """``watcher``, for a run whose hosts are at work at the same time."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._lock = threading.RLock()

    def said(self, text: str) -> None:
        with self._lock:
            self._watcher.said(text)

    def planned(self, pending: int, most: int, results: Path) -> None:
        with self._lock:
            self._watcher.planned(pending, most, results)

    def began(self, trial: Trial, seconds: float) -> None:
        with self._lock:
            self._watcher.began(trial, seconds)

    def held(self, trial: Trial, host: str, settings: Sequence[Setting]) -> None:
        with self._lock:
            self._watcher.held(trial, host, settings)

    def sampled(self, trial: Trial, sample: Sample) -> None:
        with self._lock:
            self._watcher.sampled(trial, sample)

    def ticked(self, trial: Trial, elapsed: float) -> None:
        with self._lock:
            self._watcher.ticked(trial, elapsed)

    def ended(self, record: TrialRecord) -> None:
        with self._lock:
            self._watcher.ended(record)

    def known(self, results: Results) -> None:
        with self._lock:
            self._watcher.known(results)

    def attended(self) -> bool:
        return self._watcher.attended()

    def asked(self, what: str, interruption: Interruption) -> None:
        with self._lock:
            self._watcher.asked(what, interruption)
