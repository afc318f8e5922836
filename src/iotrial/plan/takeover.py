"""Takeover: the blocks of hosts that are lost, planned anew on those at hand.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.design import block_of, slot_of, trial_at
from iotrial.plan.spread import waiting


def taken_over(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord], at_hand: Sequence[str]
) -> tuple[Trial, ...]:
    """What to append to the plan, so that every block that still waits for a host that is not
    ``at_hand`` is done by one that is; each whole, as blocks are, but for what this host has
    measured of it already."""
    if not at_hand:
        return ()
    lost = {trial.block for trial in waiting(planned, done) if trial.host not in at_hand}
    tried = dict.fromkeys(map(slot_of, planned), 0)
    for trial in planned:
        tried[slot_of(trial)] = max(tried[slot_of(trial)], trial.attempt)
    measured = {slot_of(record.trial) for record in done if record.state == "valid"}
    wanted = [
        slot
        for turn, block in enumerate(sorted(lost))
        for slot in block_of(study, block, at_hand[turn % len(at_hand)])
        if slot not in measured
    ]
    first = max((trial.number for trial in planned), default=0) + 1
    return tuple(
        trial_at(study, number, slot, tried.get(slot, 0) + 1)
        for number, slot in enumerate(wanted, start=first)
    )
