"""How fast the pretended disk below a path is, and what a load on it comes to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from iotrial.hosts.fake.below import block_below
from iotrial.hosts.fake.disk import SECTOR, Block
from iotrial.hosts.fake.fio import EFFECT, NOISE
from iotrial.hosts.fake.machine import Machine

STREAM = 600e6
"""Bytes per second of large blocks."""
_EACH = 25e-6
"""Seconds that a block takes besides its bytes."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that a load reads and writes in all, in blocks of ``block`` bytes."""

    read: float = 0.0
    written: float = 0.0
    block: int = 65536


@dataclass(frozen=True, slots=True)
class Acted:
    """A load: its seconds, what it moves, the files that it leaves beside its output (``stdout``
    and ``stderr`` among them), its exit status; ``done`` is called when it ends by itself."""

    seconds: float
    said: Mapping[str, str] = field(default_factory=dict)
    exit: int = 0
    disk: Block | None = None
    moved: Moved = field(default_factory=Moved)
    done: Callable[[], object] = lambda: None

    @property
    def moves(self) -> dict[str, tuple[float, float, float, float]]:
        """As a :class:`~iotrial.hosts.fake.machine.Task` has them."""
        if self.disk is None or self.seconds <= 0:
            return {}
        each = [amount / self.seconds for amount in (self.moved.read, self.moved.written)]
        read, written = each
        of = self.moved.block
        return {self.disk.name: (read / of, read / SECTOR, written / of, written / SECTOR)}


@dataclass(frozen=True, slots=True)
class Pace:
    """``factor`` is of this load alone: the scheduler's effect, and noise."""

    factor: float
    disk: Block | None

    def stream(self, block: int) -> float:
        """Bytes per second, one block after another."""
        return self.factor * block / (_EACH + block / STREAM)

    def rate(self, ideal: float) -> float:
        return self.factor * ideal


def pace(machine: Machine, path: str, luck: random.Random) -> Pace:
    """How fast a load on ``path`` is."""
    disk = block_below(machine, path)
    scheduler = disk.queue.scheduler if disk else "none"
    return Pace(EFFECT.get(scheduler, 1.0) * noise(luck), disk)


def noise(luck: random.Random) -> float:
    return math.exp(luck.gauss(0.0, NOISE))


def failed(words: str, status: int = 1) -> Acted:
    """A load that ends at once, complaining."""
    return Acted(0.0, {"stderr": f"{words}\n"}, status)
