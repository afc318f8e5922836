"""What a race measures next: the first blocks, then, block by block, whatever is still open.

Pure, as all of the plan: the same records give the same answer, so that a race that was killed
goes on where it stood.  The statistics are :mod:`iotrial.stats.race`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iotrial.model.study import Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.plan.neighbours import MOST, beginning, in_next_block
from iotrial.stats.verdict import first_look

if TYPE_CHECKING:
    from iotrial.stats.race import Raced

MOST_BLOCKS = 100
"""Blocks of a race that does not say how many; a budget may end it sooner."""
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
        first = beginning(study, name, treatments)
        for block in range(1, min(first_look(len(first)), study.design.blocks) + 1):
            left = tuple(cell for cell in first if (block, name, cell) not in seen)
            if left:
                found.setdefault(block, []).append((name, left))
    if found or {trial.number for trial in planned} - {record.trial.number for record in done}:
        return found
    from iotrial.stats.race import raced  # noqa: PLC0415  SciPy is slow to import

    for each in raced(study, cells, done):
        block = 1 + max(trial.block for trial in planned if trial.workload == each.workload)
        if not each.race.decided and block <= study.design.blocks:
            found.setdefault(block, []).append((each.workload, in_next_block(study, each)))
    return found


@dataclass(frozen=True, slots=True)
class Stand:
    """How the race of one workload stands after its last complete block.

    ``leader`` is who is kept so far; ``dropped``, ``same`` and ``still`` (open) are the others by
    name; ``gone`` and ``settled`` those that went after this very block.  ``racing`` is how many
    are measured in the next block.
    """

    workload: str
    blocks: int
    trials: int
    leader: str
    decided: bool
    dropped: tuple[str, ...]
    same: tuple[str, ...]
    still: tuple[str, ...]
    gone: tuple[str, ...]
    settled: tuple[str, ...]
    racing: int

    @property
    def told(self) -> str:
        """``randread: after block 5 none leads; 2 dropped, 1 open (dropped now: bfq)``."""
        counts = [
            f"{len(names)} {word}"
            for names, word in (
                (self.dropped, "dropped"),
                (self.same, "same"),
                (self.still, "open"),
            )
            if names
        ]
        now = [
            f"{word} now: {', '.join(names)}"
            for names, word in ((self.gone, "dropped"), (self.settled, "same"))
            if names
        ]
        lead = f"decided, {self.leader} is kept" if self.decided else f"{self.leader} leads"
        said = f"{self.workload}: after block {self.blocks} {lead}; {', '.join(counts)}"
        return f"{said} ({'; '.join(now)})" if now else said


def standing(
    study: Study,
    cells: Mapping[str, Sequence[Treatment]],
    planned: Sequence[Trial],
    done: Sequence[TrialRecord],
) -> tuple[Stand, ...]:
    """How each race stands; none before its first look.  A block that is not complete yet is
    left out, for nothing is decided from it."""
    from iotrial.stats.race import raced  # noqa: PLC0415  SciPy is slow to import

    finished = {record.trial.number for record in done}
    waiting = {(t.workload, t.block) for t in planned if t.number not in finished}
    whole = [r for r in done if (r.trial.workload, r.trial.block) not in waiting]
    return tuple(_stand(each) for each in raced(study, cells, whole) if each.race.looks)


def _stand(each: Raced) -> Stand:
    race, names = each.race, [each.label(number) for number in range(len(each.cells))]
    seen = [(name, race.standing(number)) for number, name in enumerate(names)]
    return Stand(
        each.workload,
        race.blocks,
        race.trials,
        names[race.kept],
        race.decided,
        tuple(name for name, one in seen if one.dropped),
        tuple(name for name, one in seen if one.settled),
        tuple(names[number] for number in race.active if number != race.kept),
        tuple(name for name, one in seen if one.dropped == race.blocks),
        tuple(name for name, one in seen if one.settled == race.blocks),
        min(len(race.active), MOST),
    )
