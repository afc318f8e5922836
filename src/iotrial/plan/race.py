"""What a race measures next: the first blocks, then, block by block, whatever is still open.

Pure, as all of the plan: the same records give the same answer, so that a race that was killed
goes on where it stood.  The statistics are :mod:`iotrial.stats.race`'s.

A block of hundreds of trials would be an afternoon, in which the machine drifts.  Where more
treatments are open than :data:`MOST_IN_BLOCK`, a block takes the leader, some that are near it in
what was measured, and others that were not measured yet: first a coarse grid over the levels, then
those whose levels are next to the leader's.  Earlier results of the same target
(:mod:`iotrial.plan.prior`) may say better what comes first: then half of the first blocks is what
did best there, the rest still the coarse grid, and what is new follows in their order.  All this
only says what comes first; every treatment is measured, and what is said of it rests on its own
trials.

References:
    J. A. John and E. R. Williams (1995), *Cyclic and Computer Generated Designs*, chapter 1
    (incomplete blocks).
    S. Kalyanakrishnan, A. Tewari, P. Auer and P. Stone (2012), PAC subset selection in stochastic
    multi-armed bandits, ICML (the leader and its most likely rivals are measured next).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iotrial.model.study import Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.stats.verdict import first_look

if TYPE_CHECKING:
    from iotrial.stats.race import WorkloadRace


MOST_IN_BLOCK = 16
"""Treatments in a block."""
RIVALS = 5
"""Of a block, those that were measured before; two of them would do to tell the noise."""


KNOWN = MOST_IN_BLOCK // 2
"""Of the first blocks, those that did best before: a prior may be wrong."""
MOST_BLOCKS = 100
"""Blocks of a race that does not say how many; a budget may end it sooner."""
Wanted = dict[int, list[tuple[str, tuple[Treatment, ...]]]]
"""Block → (workload, treatments to be measured in it)."""


def beginning(
    study: Study, workload: str, treatments: Sequence[Treatment]
) -> tuple[Treatment, ...]:
    """What the first blocks hold: everything, or a coarse grid with the baseline in it, and what
    did best before."""
    if len(treatments) <= MOST_IN_BLOCK:
        return tuple(treatments)
    wanted = {factor.name: factor.baseline for factor in study.factors}
    base = [c for c in treatments if all(wanted.get(f) == label for f, label in c)]
    ranks = _ranks(study, workload)
    known = sorted((c for c in treatments if c in ranks and c not in base), key=ranks.__getitem__)
    chosen = [*base[:1], *known[:KNOWN]]
    others = _coarse([cell for cell in treatments if cell not in chosen and cell not in base])
    chosen += others[: MOST_IN_BLOCK - len(chosen)]
    return tuple(cell for cell in treatments if cell in chosen)


def _ranks(study: Study, workload: str) -> dict[Treatment, int]:
    prior = study.design.prior
    return prior.ranks(workload) if prior else {}


def _coarse(treatments: Sequence[Treatment]) -> list[Treatment]:
    """The same in an order whose beginning is spread over all of them: by halves, quarters …
    (van der Corput's order)."""
    bits = max(1, (len(treatments) - 1).bit_length())

    def turned(place: int) -> int:
        return int(f"{place:0{bits}b}"[::-1], 2)

    return [treatments[place] for place in sorted(range(len(treatments)), key=turned)]


def in_next_block(study: Study, raced: WorkloadRace) -> tuple[Treatment, ...]:
    """The open treatments, or as many as a block takes: the leader, its nearest rivals, and what
    was not measured yet, neighbours of the leader first."""
    race = raced.race
    if len(race.active) <= MOST_IN_BLOCK:
        return tuple(raced.cells[number] for number in race.active)
    standing = {number: race.standing(number) for number in race.active}
    leader = race.kept
    measured = [n for n in race.active if standing[n].blocks and n != leader]
    new = [n for n in race.active if not standing[n].blocks]
    measured.sort(key=lambda n: (-standing[n].estimate, n))
    places = {
        (factor.name, level.label): place
        for factor in study.factors
        for place, level in enumerate(factor.levels)
    }
    ranks, last = _ranks(study, raced.workload), len(raced.cells)
    new.sort(
        key=lambda n: (
            ranks.get(raced.cells[n], last),
            _steps(raced.cells[n], raced.cells[leader], places),
            n,
        )
    )
    rivals = measured[: max(RIVALS - 1, MOST_IN_BLOCK - 1 - len(new))]
    chosen = sorted({leader, *rivals, *new[: MOST_IN_BLOCK - 1 - len(rivals)]})
    return tuple(raced.cells[number] for number in chosen)


def _steps(one: Treatment, other: Treatment, places: dict[tuple[str, str], int]) -> int:
    """How many levels lie between two treatments, over all factors."""
    levels = dict(other)
    return sum(
        abs(places.get((factor, label), 0) - places.get((factor, levels.get(factor, label)), 0))
        for factor, label in one
    )


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
class RaceStanding:
    """How the race of one workload stands after its last complete block.

    ``leader`` is who is kept so far; ``dropped``, ``same`` and ``still`` (open) are the others by
    name; ``gone`` and ``settled`` those that went after this very block.  ``racing`` is how many
    are measured in the next block; ``settled_as`` what those are that rest.
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
    settled_as: str = "same"

    @property
    def told(self) -> str:
        """``randread: after block 5 none leads; 2 dropped, 1 open (dropped now: bfq)``."""
        counts = [
            f"{len(names)} {word}"
            for names, word in (
                (self.dropped, "dropped"),
                (self.same, self.settled_as),
                (self.still, "open"),
            )
            if names
        ]
        now = [
            f"{word} now: {', '.join(names)}"
            for names, word in ((self.gone, "dropped"), (self.settled, self.settled_as))
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
) -> tuple[RaceStanding, ...]:
    """How each race stands; none before its first look.  A block that is not complete yet is
    left out, for nothing is decided from it."""
    from iotrial.stats.race import raced  # noqa: PLC0415  SciPy is slow to import

    finished = {record.trial.number for record in done}
    waiting = {(t.workload, t.block) for t in planned if t.number not in finished}
    whole = [r for r in done if (r.trial.workload, r.trial.block) not in waiting]
    return tuple(_stand(each) for each in raced(study, cells, whole) if each.race.looks)


def _stand(each: WorkloadRace) -> RaceStanding:
    race, names = each.race, [each.label(number) for number in range(len(each.cells))]
    seen = [(name, race.standing(number)) for number, name in enumerate(names)]
    return RaceStanding(
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
        min(len(race.active), MOST_IN_BLOCK),
        "same" if race.goal == "all" else "not better",
    )
