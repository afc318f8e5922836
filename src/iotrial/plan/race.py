"""What a race measures next: the first blocks, then, block by block, whatever is still open.

Pure, as all of the plan: the same records give the same answer, so that a race that was killed
goes on where it stood.  The statistics are :mod:`iotrial.stats.race`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotrial.model.study import Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.plan.neighbours import beginning, in_next_block
from iotrial.stats.looks import first_look

MOST_BLOCKS = 100
"""Blocks of a race that names neither ``blocks`` nor a budget."""
Wanted = dict[int, list[tuple[str, tuple[Treatment, ...]]]]
"""Block → (workload, treatments to be measured in it)."""


def wanted(
    study: Study,
    cells: Mapping[str, Sequence[Treatment]],
    planned: Sequence[Trial],
    done: Sequence[TrialRecord],
) -> Wanted:
    """The next blocks of every workload that is not decided; nothing while planned trials wait."""
    seen = {(trial.block, trial.workload, trial.treatment) for trial in planned}
    found: Wanted = {}
    for name, treatments in cells.items():
        if len(treatments) < 2:  # noqa: PLR2004
            continue
        first = beginning(study, treatments)
        for block in range(1, min(first_look(len(first)), study.design.blocks) + 1):
            left = tuple(cell for cell in first if (block, name, cell) not in seen)
            if left:
                found.setdefault(block, []).append((name, left))
    if found or {trial.number for trial in planned} - {record.trial.number for record in done}:
        return found
    from iotrial.stats.raced import raced  # noqa: PLC0415  SciPy is slow to import

    for each in raced(study, cells, done):
        block = 1 + max(trial.block for trial in planned if trial.workload == each.workload)
        if not each.race.decided and block <= study.design.blocks:
            found.setdefault(block, []).append((each.workload, in_next_block(study, each)))
    return found


def told(
    study: Study, cells: Mapping[str, Sequence[Treatment]], done: Sequence[TrialRecord]
) -> tuple[str, ...]:
    """How each race stands, a line a workload: for whoever watches."""
    from iotrial.stats.raced import raced  # noqa: PLC0415  SciPy is slow to import

    lines = []
    for each in raced(study, cells, done):
        race = each.race
        if not race.looks:
            continue
        standing = [race.standing(number) for number in range(len(each.cells))]
        dropped = [each.label(n) for n, s in enumerate(standing) if s.dropped == race.blocks]
        counts = [
            f"{sum(bool(s.dropped) for s in standing)} dropped",
            f"{sum(bool(s.settled) for s in standing)} same",
            f"{max(len(race.active) - 1, 0)} open",
        ]
        now = f" (dropped now: {', '.join(dropped)})" if dropped else ""
        lines.append(
            f"{each.workload}: after block {race.blocks} {each.label(race.kept)} leads; "
            f"{', '.join(counts)}{now}"
        )
    return tuple(lines)
