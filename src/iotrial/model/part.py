"""Part: one of the (host, target) pairs that a trial loads at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.target import Target


@dataclass(frozen=True, slots=True)
class Part:
    """``host`` is a name of the study's; ``target`` is one thing on it that a load is aimed at."""

    host: str
    target: Target

    @property
    def name(self) -> str:
        """Names it in results, and its folder in the trial's: ``box1/disk``."""
        return f"{self.host}/{self.target.name}"
