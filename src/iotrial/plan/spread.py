"""Blocks spread over hosts: which host a block is on, and what is left where a host was lost.

``[design] blocks_over = "hosts"``: the target's hosts are the blocks' and not loaded together.
Each block runs wholly on one host, as many blocks at the same time as there are hosts; treatments
are compared within blocks alone, so that what differs between hosts cancels as what differs
between hours does (R. A. Fisher (1926), The arrangement of field experiments, Journal of the
Ministry of Agriculture 33, 503-513: neighbouring plots as blocks).

Block *b* of *n* hosts is at home on host ((b - 1) mod n) + 1.  A host that is lost and does not
come back gives the blocks that it has not finished to the others: each is planned anew, whole, on
another host, and what was measured of it stays, as a block of its own that is not complete.  The
host of a block is that of its last line in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord


def abreast(study: Study) -> int:
    """How many blocks run at the same time."""
    return min(len(study.places), study.design.blocks) if study.spread else 1


def homes(study: Study) -> tuple[str, ...]:
    """The hosts on which blocks are planned first, in turn; one, '', where they are not spread."""
    return tuple(place.name for place in study.places) if study.spread else ("",)


def holders(planned: Iterable[Trial]) -> dict[int, str]:
    """Block -> the host that has it now."""
    return {trial.block: trial.host for trial in planned}


def waiting(planned: Sequence[Trial], done: Iterable[TrialRecord]) -> list[Trial]:
    """The trials that are planned and not done, but for those whose block another host has now."""
    finished, held = {record.trial.number for record in done}, holders(planned)
    return [
        trial
        for trial in planned
        if trial.number not in finished and held[trial.block] == trial.host
    ]
