"""Limits: what a trial lives under."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.execute.interruption import Interruption
from iotrial.execute.manual import Hands
from iotrial.execute.watcher import Watcher


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial lives under: who watches, who may stop it, and the hands that set what only a
    person can."""

    watcher: Watcher
    interruption: Interruption
    hands: Hands
