"""Stage: one part of a staged study, and what its factors came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iotrial.model.workload import OptionValue

Then = Literal["narrow", "knee", "best", "screen", "confirm"]
"""What is done with the levels once the stage is decided (:mod:`iotrial.plan.stages`)."""
Options = tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Whole numbers in steps of ``step`` from ``origin``, no less than ``start`` and no more than
    ``to``; None: as far as the levels reach that survived."""

    origin: int
    step: int
    start: int | None = None
    to: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.  ``number`` counts from 1; ``vary`` names factors, ``fixed`` holds (factor, label)
    pairs that are held still in it.  ``options`` are by workload, in place of the workload's own.
    ``sweeps`` are finer levels for a factor.  Empty ``workloads``: all; empty ``target``: the
    study's; 0 ``blocks`` and empty ``kind``: the design's.  ``here`` is for one machine's share of
    a study on several: the names of what the stage loads there, perhaps none."""

    number: int
    vary: tuple[str, ...]
    then: Then = "best"
    fixed: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Options], ...] = ()
    sweeps: tuple[tuple[str, Sweep], ...] = ()
    workloads: tuple[str, ...] = ()
    target: str = ""
    blocks: int = 0
    kind: Literal["", "full", "fraction", "one-at-a-time", "race"] = ""
    here: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """What a factor came to in a stage: ``levels`` tried, ``kept`` of them, the one at which it
    ``stands`` from then on where it is not varied, and ``why`` in words."""

    factor: str
    levels: tuple[str, ...]
    kept: tuple[str, ...]
    stands: str
    why: str
