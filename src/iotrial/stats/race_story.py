"""How a race went, told against the treatment that is kept in the end: for tables and charts.

While a race runs, the reference may change from look to look.  All differences are kept
(:class:`iotrial.stats.race.Look`), so that the whole story is told against one reference: what
every look saw of the difference from the final kept one is exact, whoever led at that moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iotrial.model.finding import Ahead, Finding, Needs, Place, Racer, RaceStory
from iotrial.model.results import Results
from iotrial.stats.boundary import LAST
from iotrial.stats.race_ahead import Terms, ahead
from iotrial.stats.raced import Raced
from iotrial.units import format_change, format_wait


@dataclass(frozen=True, slots=True)
class Took:
    """What the trials of one workload took: ``seconds`` of wall time, ``each`` per trial; and
    what the study has ``left`` of its budget (infinite: it has none)."""

    seconds: float
    each: float
    left: float


def took(results: Results, workload: str) -> Took:
    """Of all its trials, those that do not count too."""
    spent = [(r.trial.workload, r.seconds + r.prepared) for r in results.records]
    own = [seconds for name, seconds in spent if name == workload]
    budget = results.study.design.budget or math.inf
    left = budget - math.fsum(seconds for _, seconds in spent)
    return Took(math.fsum(own), math.fsum(own) / max(len(own), 1), left)


def story(each: Raced, findings: Sequence[Finding], cost: Took, most_blocks: int) -> RaceStory:
    """``findings`` are the race's, one for each treatment but the kept one, in their order;
    ``most_blocks`` is the study's."""
    race = each.race
    told = iter(findings)
    return RaceStory(
        each.workload,
        each.metric,
        each.label(race.kept),
        race.decided,
        race.blocks,
        race.trials,
        cost.seconds,
        tuple(
            _racer(each, number, None if number == race.kept or not race.looks else next(told))
            for number in range(len(each.cells))
        ),
        tuple(look.block for look in race.looks),
        tuple(each.label(look.kept) for look in race.looks),
        half(each),
        _ahead(each, cost, most_blocks),
    )


def half(each: Raced) -> float | None:
    """The widest half interval at the last look, as a relative difference."""
    if not each.race.looks:
        return None
    last = each.race.looks[-1]
    halves = [
        value
        for number, value in enumerate(last.half)
        if number != last.kept and math.isfinite(value)
    ]
    return _grown(max(halves)) if halves else None


def _grown(log: float) -> float:
    return math.expm1(min(log, 700.0))


def _racer(each: Raced, number: int, finding: Finding | None) -> Racer:
    race, standing = each.race, each.race.standing(number)
    place = _place(each, number)
    count = len(each.trials[number])
    after = standing.dropped or standing.settled
    if place == "kept":
        return Racer(each.label(number), place, 0, count, 1.0, 1.0, 1.0)
    if finding is None or not standing.blocks:
        return Racer(each.label(number), place, after, count, None, None, None)
    sign = 1 if each.higher else -1
    path = tuple(
        (look.block, sign * float(look.estimates[number, race.kept]), float(width))
        for look in race.looks
        if math.isfinite(width := look.halves[number, race.kept])
    )
    return Racer(
        finding.level, place, after, count, finding.ratio, finding.low, finding.high, path
    )  # fmt: skip


def _place(each: Raced, number: int) -> Place:
    race, standing = each.race, each.race.standing(number)
    if standing.lost:
        return "lost"
    if each.broken[number]:
        return "guardrail"
    if standing.dropped:
        return "worse"
    if race.looks and number == race.kept:
        return "kept"
    return "same" if standing.settled else "open"


def _ahead(each: Raced, cost: Took, most_blocks: int) -> Ahead | None:
    race = each.race
    need = ahead(race, Terms(race.size, race.margin, each.confidence))
    if not need:
        return None
    blocks = max(need.values())
    trials = sum(need.values()) + blocks
    allowed = most_blocks - race.blocks
    if math.isfinite(cost.left):
        a_block = max(cost.each * len(race.active), 1e-9)
        allowed = min(allowed, int(cost.left / a_block))
    return Ahead(blocks, trials, trials * cost.each, max(allowed, 0))


def needs(each: Raced, cost: Took) -> dict[int, Needs]:
    """Open treatment → what would tell it from the kept one: blocks until it is expected to be
    dropped or called the same, if difference and noise stay as they were seen
    (:mod:`iotrial.stats.race_ahead`); as long as the race would go on for it."""
    race, found = each.race, {}
    for number, more in ahead(race, Terms(race.size, race.margin, each.confidence)).items():
        away = race.standing(number).estimate * (1 if each.higher else -1)
        within = abs(away) <= race.margin
        seconds = more * len(race.active) * cost.each
        difference = abs(_grown(race.margin if within else away))
        far = race.blocks + more >= LAST
        found[number] = (
            Needs(difference, None, None, None, within)
            if far
            else Needs(difference, race.blocks + more, more, seconds, within)
        )
    return found


def price(told: RaceStory) -> str:
    """What could be seen in the end, and what going on would cost."""
    words = ""
    if told.half is not None:
        words = f"The widest interval at the end is ±{format_change(1 + told.half)[1:]}."
    if told.ahead is None:
        return words
    more = told.ahead
    words += (
        f" To decide what is open takes about {more.blocks} more blocks at the noise seen so far: "
        f"{more.trials} trials, {format_wait(more.seconds)}."
    )
    if more.allowed < more.blocks:
        left = f"only {more.allowed} more" if more.allowed else "no more"
        words += (
            f" The study allows {left}: extend it, or a new one needs more [design] blocks or "
            "budget."
        )
    return words.strip()
