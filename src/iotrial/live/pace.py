"""Pace: how many trials are done and may come, and when it will be over.  Pure.

Read by the line on the terminal and by the page alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from iotrial.model.trial import TrialRecord


@dataclass(frozen=True, slots=True)
class RunProgress:
    """``left`` trials are planned and not done, ``more`` may still be planned.  ``mean`` is what
    one of the ``done`` took, ``spent`` what all took, in seconds; ``budget`` 0: none.  All are of
    this session.  ``boots``: the mean is with what came before a trial, its boot.
    ``abreast`` trials go on at the same time; the budget is of each of them."""

    abreast: int = 1
    budget: float = 0.0
    left: int = 0
    more: int = 0
    done: int = 0
    mean: float = 0.0
    boots: bool = False
    spent: float = 0.0

    @property
    def most(self) -> int:
        """Trials of this session, at most."""
        return self.done + self.left + self.more

    def planned(self, pending: int, most: int) -> RunProgress:
        return replace(self, left=pending, more=most - pending)

    def ended(self, record: TrialRecord) -> RunProgress:
        done = self.done + 1
        took = record.seconds + (record.prepared if self.boots else 0.0)
        return replace(
            self,
            done=done,
            left=self.left - 1,
            mean=self.mean + (took - self.mean) / done,
            spent=self.spent + record.seconds + record.prepared,
        )

    def wait(self, expected: float = 0.0) -> float:
        """Seconds until the end, at most; ``expected`` is what a trial takes where none is done
        yet.  0: not known, or nothing is left."""
        wait = (self.mean or expected) * math.ceil((self.left + self.more) / self.abreast)
        if self.budget:
            wait = min(wait, max(self.budget - self.spent / self.abreast, 0.0))
        return wait
