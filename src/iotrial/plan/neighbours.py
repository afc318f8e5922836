"""Races of many treatments: which of them come into the next block.

A block of hundreds of trials would be an afternoon, in which the machine drifts.  Where more
treatments are open than :data:`MOST`, a block takes the leader, some that are near it in what was
measured, and others that were not measured yet: first a coarse grid over the levels, then those
whose levels are next to the leader's.  Earlier results of the same target
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

from collections.abc import Sequence
from typing import TYPE_CHECKING

from iotrial.model.study import Study
from iotrial.model.trial import Treatment

if TYPE_CHECKING:
    from iotrial.stats.race import Raced

MOST = 16
"""Treatments in a block."""
RIVALS = 5
"""Of a block, those that were measured before; two of them would do to tell the noise."""


KNOWN = MOST // 2
"""Of the first blocks, those that did best before: a prior may be wrong."""


def beginning(
    study: Study, workload: str, treatments: Sequence[Treatment]
) -> tuple[Treatment, ...]:
    """What the first blocks hold: everything, or a coarse grid with the baseline in it, and what
    did best before."""
    if len(treatments) <= MOST:
        return tuple(treatments)
    wanted = {factor.name: factor.baseline for factor in study.factors}
    base = [c for c in treatments if all(wanted.get(f) == label for f, label in c)]
    ranks = _ranks(study, workload)
    known = sorted((c for c in treatments if c in ranks and c not in base), key=ranks.__getitem__)
    chosen = [*base[:1], *known[:KNOWN]]
    others = _coarse([cell for cell in treatments if cell not in chosen and cell not in base])
    chosen += others[: MOST - len(chosen)]
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


def in_next_block(study: Study, raced: Raced) -> tuple[Treatment, ...]:
    """The open treatments, or as many as a block takes: the leader, its nearest rivals, and what
    was not measured yet, neighbours of the leader first."""
    race = raced.race
    if len(race.active) <= MOST:
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
    rivals = measured[: max(RIVALS - 1, MOST - 1 - len(new))]
    chosen = sorted({leader, *rivals, *new[: MOST - 1 - len(rivals)]})
    return tuple(raced.cells[number] for number in chosen)


def _steps(one: Treatment, other: Treatment, places: dict[tuple[str, str], int]) -> int:
    """How many levels lie between two treatments, over all factors."""
    levels = dict(other)
    return sum(
        abs(places.get((factor, label), 0) - places.get((factor, levels.get(factor, label)), 0))
        for factor, label in one
    )
