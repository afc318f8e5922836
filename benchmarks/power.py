"""What ranks tell beside intervals, and what an exact race takes beside the usual one.

    ./dev bench power [--studies 1000] [--races 60] [--seed 1]

Ranks: studies of 12 blocks of four treatments of which one is 12 % slower, in noises that make
intervals wide or do not; the share in which each names the difference.  Races: four treatments,
noise of 2 %, a margin of 2 %, 200 blocks at most; the median of the trials that the usual race and
the one with ``guarantee = "exact"`` take until nothing is open.  Exits 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np
from _honesty_designs import LOAD, RATE, layout, one
from _limits import Limits, machine, run_main

from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.stats import unequal
from iotrial.stats.blocks import Floats, fit
from iotrial.stats.critical import ONCE
from iotrial.stats.effects import main_effects
from iotrial.stats.race import ExactRace, Race
from iotrial.stats.ranks import by_ranks
from iotrial.stats.responses import Responses

BLOCKS, SIZE, SLOWER = 12, 4, math.log(0.88)
SD = 0.08
MARGIN, QUIET, MOST = 0.02, 0.02, 200
GAIN, COST, DEARER = 0.1, 0.15, 2.6
"""In noise that hangs together ranks tell more by so much, and in normal noise less by no more than
that; an exact race takes so many times the trials in normal noise."""


def _normal(rng: np.random.Generator, blocks: int, sd: float) -> Floats:
    return rng.normal(0, sd, (blocks, SIZE))


def _student(rng: np.random.Generator, blocks: int, sd: float) -> Floats:
    return np.asarray(sd * rng.standard_t(3, (blocks, SIZE)))


def _wild(rng: np.random.Generator, blocks: int, sd: float) -> Floats:
    far = rng.random((blocks, SIZE)) < 0.02
    return _normal(rng, blocks, sd) * np.where(far, 10.0, 1.0)


def _correlated(rng: np.random.Generator, blocks: int, sd: float) -> Floats:
    """From trial to trial in the order of execution, which is random in each block."""
    steps, noise = rng.normal(0, sd * 0.6, blocks * SIZE), np.zeros(blocks * SIZE)
    noise[0] = steps[0] / 0.6
    for at in range(1, len(noise)):
        noise[at] = 0.8 * noise[at - 1] + steps[at]
    noise *= np.where(rng.random(len(noise)) < 0.02, 10.0, 1.0)
    return rng.permuted(noise.reshape(blocks, SIZE), axis=1)


def _stalls(rng: np.random.Generator, blocks: int, sd: float) -> Floats:
    return _normal(rng, blocks, sd / 5) - math.log(1.5) * (rng.random((blocks, SIZE)) < 0.2)


RANKED = {
    "normal, 8 %": (_normal, SD),
    "Student's t (3 df), 6 %": (_student, 0.06),
    "2 % of trials 10 x as far off": (_wild, SD),
    "correlated, and 2 % far off": (_correlated, SD),
}
RACED = {
    "normal": _normal,
    "Student's t (3 df)": _student,
    "2 % of trials 10 x as far off": _wild,
    "1 trial in 5 slower by half": _stalls,
}
TRUTHS = {
    "clear": (0.0, 0.05, 0.1, 0.2),
    "near": (0.0, 0.01, 0.05, 0.05),
    "tie": (0.0, 0.0, 0.0, 0.0),
}
"""By how much each is slower than the best."""


def ranks(limits: Limits, studies: int, rng: np.random.Generator) -> None:
    factor = Factor("level", "option", tuple(Level(str(each)) for each in range(SIZE)))
    cells = tuple(((factor.name, level.label),) for level in factor.levels)
    study = Study("", "", (), (), (factor,), Design(blocks=BLOCKS), DecisionRule(((LOAD, RATE),)))
    effects = main_effects(cells, (factor,), {factor.name: "0"})
    ((kind, treatments, rows),) = one(SIZE)
    print("a difference of 12 % is told, share of studies: by intervals, by ranks")
    for name, (draw, sd) in RANKED.items():
        told = [0, 0]
        for _ in range(studies):
            values = draw(rng, BLOCKS, sd)
            values[:, 1] += SLOWER
            logs = values.reshape(-1)
            got = fit(layout(BLOCKS, SIZE), logs[:, None], rows)
            value = unequal.critical_at(ONCE, kind, treatments, got.own_df, 0.05)
            half = value[:, None] * got.standard_error
            told[0] += bool((np.abs(got.estimate) > half)[0, 0])
            data = Responses(RATE, (), cells, layout(BLOCKS, SIZE), logs)
            found = by_ranks(study, [(LOAD, data, effects)], len(effects))
            told[1] += found[LOAD, RATE, "level", "1"].verdict != "cannot-tell"
        shares = [each / studies for each in told]
        beside = f"by intervals {shares[0]:.3f}"
        if draw is _correlated:
            limits.at_least(f"  {name}", shares[1], shares[0] + GAIN, beside=beside)
        elif draw is _normal:
            limits.at_least(f"  {name}", shares[1], shares[0] - COST, beside=beside)
        else:
            limits.tell(f"  {name}", shares[1], beside=beside)


def races(limits: Limits, many: int, rng: np.random.Generator) -> None:
    print("trials until nothing is open, median: exact races, usual ones")
    for what, draw in RACED.items():
        for name, slower in TRUTHS.items():
            truth = -np.log1p(np.array(slower))
            usual, exact, open_ = [], [], 0
            for _ in range(many):
                noise = draw(rng, MOST, QUIET) + truth
                plain = _run(Race(SIZE, MARGIN, 0.95, favourite=0), noise)
                usual.append(plain.trials)
                open_ += not plain.decided
                exact.append(_run(ExactRace(SIZE, MARGIN, 0.95, favourite=0), noise).trials)
            took, beside = statistics.median(exact), statistics.median(usual)
            said = f"usual {beside:g}" + f", {open_ / many:.0%} open at the end" * (open_ > 0)
            if draw is _normal:
                limits.at_most(f"  {what}, {name}", took, DEARER * beside, form=".0f", beside=said)
            else:
                limits.tell(f"  {what}, {name}", took, form=".0f", beside=said)


def _run(race: Race, noise: Floats) -> Race:
    for block in noise:
        race.add({each: float(block[each]) for each in race.active})
        if race.decided:
            break
    return race


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--races", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    limits, rng = Limits(44), np.random.default_rng(asked.seed)
    print(machine())
    ranks(limits, asked.studies, rng)
    races(limits, asked.races, rng)
    return limits.status()


if __name__ == "__main__":
    run_main(main)
