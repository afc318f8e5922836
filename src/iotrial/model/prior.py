"""Prior: earlier results that say what is measured first, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.trial import Treatment


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was measured then, or is now: a target's ``kind``, ``path`` (of a file or directory),
    and the ``ids`` that a disk keeps, on the machine with the id ``machine``."""

    kind: str
    path: str
    machine: str
    ids: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Prior:
    """``folder`` names the earlier results; ``order`` has, for each workload, treatments from the
    one that did best there; ``targets`` are what they were measured on."""

    folder: str
    order: tuple[tuple[str, tuple[Treatment, ...]], ...]
    targets: tuple[Sighting, ...] = ()

    def ranks(self, workload: str) -> dict[Treatment, int]:
        """Treatment → its place in the order, from 0; what the prior does not know is not in it."""
        known = dict(self.order).get(workload, ())
        return {treatment: place for place, treatment in enumerate(known)}
