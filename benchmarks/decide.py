"""How many trials a race takes to decide, and how often it is wrong, on replays with known truth.

    ./dev bench decide [--quick] [--studies 40] [--seeds 10] [--goal winner] [--only clear]

Replays races over the means of every group of four I/O schedulers of Redhawk's study (2007), and
over 8 and 16 treatments put together from two and four groups, each centred on its mean (60, 20,
20 %).  Noise of 0.5, 2 and 5 %; margins of 1, 2, 3 and 5 %; plain noise with levels of blocks,
drift between and within blocks, heavy tails.  A study is *clear* when the best is more than two
margins above the next, a *tie* when all lie within half a margin, else *near*.

Beside each class: a fixed grid with the same family-wise error and 95 % power, the bound of
theory (_decide_bound.py), and, for information, what other rules would have named
(_decide_peers.py).  Prints each figure, the mean over the seeds with its 95 % t interval, beside
its limit, and beside what was aimed at where that is less.  Exits 1 when a mean is above its
limit.  The same seeds give the same figures, on any number of cores.  --goal winner: races
that end when nothing is better by more than the margin.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from _decide_bound import CONFIDENCE, fixed_blocks, least_trials
from _decide_peers import Named, Optuna, halving, until_steady
from _decide_truths import CLASSES, Case, Floats, Machine, draw, groups
from _limits import Found, Limits, machine, mean_of, run_main

from iotrial.model.study import Goal
from iotrial.stats.race import Race
from iotrial.stats.verdict import LAST

CAP = 20
"""A race gives up after so many times the blocks of the grid, or the last look."""
CHUNK = 50
FOR_OPTUNA, MOST_TRIALS = 200, 200
"""Optuna is slow: it is asked for so many studies a class, those of few enough trials."""


@dataclass(frozen=True, slots=True)
class Replay:
    """One race: what it got wrong (empty: nothing), what it took, and the yardsticks, in trials."""

    case: Case
    wrong: str
    decided: bool
    trials: int
    grid: int
    bound: float
    unknown: float
    peers: dict[str, Named]
    seed: int


def replayed(name: str, number: int, seed: int, goal: Goal = "all") -> Replay:
    """The study with this number of a class: everything drawn comes from these three."""
    words = (seed, CLASSES.index(name), number)
    case = draw(name, number, _groups(), np.random.default_rng((*words, 0)))
    size = len(case.truth)
    grid = fixed_blocks(size, case.noise, case.room)
    race = raced(case, np.random.default_rng((*words, 1)), min(CAP * grid, LAST), goal)
    bound, unknown = least_trials(case)
    peers = {
        "successive halving": halving(case, race.trials, np.random.default_rng((*words, 2))),
        "until sd < 3.5 %": until_steady(case, np.random.default_rng((*words, 3))),
    }
    return Replay(
        case,
        mistake(race, case),
        race.decided,
        race.trials,
        grid * size,
        bound,
        unknown,
        peers,
        seed,
    )


def raced(case: Case, rng: np.random.Generator, most: int, goal: Goal = "all") -> Race:
    race, machine = Race(len(case.truth), case.margin, CONFIDENCE, goal=goal), Machine(case, rng)
    while race.active and race.blocks < most:
        treatments = race.active
        race.add(dict(zip(treatments, machine.block(treatments).tolist(), strict=True)))
    return race


def mistake(race: Race, case: Case) -> str:
    """``worse``: one was called so that is at least as good as the kept one; ``same``: one beyond
    the margin; ``kept``: one more than the margin below the best was kept for good."""
    truth, kept = case.truth, race.kept
    for each, value in enumerate(truth):
        standing = race.standing(each)
        if standing.dropped and value >= truth[kept]:
            return "worse"
        if standing.same and abs(value - truth[kept]) > case.room:
            return "same"
    return "kept" if race.decided and max(truth) - truth[kept] > case.room else ""


@lru_cache
def _groups() -> list[Floats]:
    return groups()


def chunk(asked: tuple[str, int, int, int, Goal]) -> list[Replay]:
    name, first, last, seed, goal = asked
    return [replayed(name, number, seed, goal) for number in range(first, last)]


LIMITS: dict[Goal, dict[str, tuple[float | None, float | None]]] = {
    "all": {"clear": (0.35, 2.25), "near": (1.0, None), "tie": (1.2, None)},
    "winner": {"clear": (0.35, None), "near": (0.7, None), "tie": (0.85, None)},
}
"""Trials against the grid and against bounds of more than two blocks, both ways of averaging."""
ALL_LIMITS: dict[Goal, float] = {"all": 0.85, "winner": 0.6}
AIMS: dict[Goal, dict[str, tuple[float | None, float | None]]] = {
    "all": {"clear": (None, 1.75), "near": (0.75, None), "tie": (1.1, None)},
    "winner": {},
}
"""What was wished for, of the same.  It is said beside each figure whether it is reached."""
ALL_AIMS: dict[Goal, float] = {"all": 0.6, "winner": 0.3}
WRONG_LIMIT = 6.0
MORE_THAN = 2


def report(limits: Limits, name: str, found: Sequence[Replay], goal: Goal) -> None:
    grid, bound = LIMITS[goal][name]
    grid_aim, bound_aim = AIMS[goal].get(name, (None, None))
    sizes = Counter(len(each.case.truth) for each in found)
    print(f"\n{name}: {len(found)} studies, of " + ", ".join(
        f"{count} with {size} treatments" for size, count in sorted(sizes.items())
    ))  # fmt: skip
    wrong = Counter(each.wrong for each in found if each.wrong)
    limits.at_most(
        "  studies with a wrong verdict (%)",
        by_seed(found, lambda own: share(sum(bool(each.wrong) for each in own), own)),
        WRONG_LIMIT,
    )
    for word in ("worse", "same", "kept"):
        limits.tell(f"    {WRONG[word]}", share(wrong[word], found))
    limits.tell("  undecided at the cap (%)", share(sum(not e.decided for e in found), found))
    against(limits, "the fixed grid", found, lambda each: each.grid, (grid, grid_aim))
    long = [each for each in found if each.bound > MORE_THAN * len(each.case.truth)]
    against(limits, "the bound", found, lambda each: each.bound)
    if long:
        against(
            limits, "the bound of > 2 blocks", long, lambda each: each.bound, (bound, bound_aim)
        )
    against(limits, "the bound of unknown noise", found, lambda each: each.unknown)
    for size in sorted(sizes):
        part = [each for each in found if len(each.case.truth) == size]
        ratio = float(np.mean([each.trials / each.bound for each in part]))
        limits.tell(f"    of {size} treatments: trials / the bound, mean of ratios", ratio)
    limits.tell("  trials, median", float(np.median([each.trials for each in found])), form=".0f")


WRONG = {
    "worse": "called worse, and at least as good as the kept one (%)",
    "same": "called the same, and beyond the margin (%)",
    "kept": "kept, and more than the margin below the best (%)",
}


def share(count: int, found: Sequence[Replay]) -> float:
    return 100 * count / len(found)


def by_seed(found: Sequence[Replay], figure: Callable[[Sequence[Replay]], float]) -> Found:
    """A figure's mean over the seeds, and its interval."""
    seeds: dict[int, list[Replay]] = {}
    for each in found:
        seeds.setdefault(each.seed, []).append(each)
    return mean_of([figure(own) for own in seeds.values()])


def against(
    limits: Limits,
    name: str,
    found: Sequence[Replay],
    yardstick: Callable[[Replay], float],
    asked: tuple[float | None, float | None] = (None, None),
) -> None:
    """The ratio of the sums, which the long studies decide, and the mean of the ratios; ``asked``
    are the limit and the aim of both."""
    limit, aim = asked
    ways: dict[str, Callable[[Sequence[Replay]], float]] = {
        "of the sums": lambda own: sum(e.trials for e in own) / sum(yardstick(e) for e in own),
        "mean of ratios": lambda own: float(np.mean([e.trials / yardstick(e) for e in own])),
    }
    for way, ratio in ways.items():
        reached = by_seed(found, ratio)
        said = aim_of(reached, aim)
        if limit is None:
            limits.tell(f"  trials / {name}, {way}", reached, beside=said)
        else:
            limits.at_most(f"  trials / {name}, {way}", reached, limit, beside=said)


def aim_of(found: Found, aim: float | None) -> str:
    """Whether an aim is reached, in words."""
    if aim is None:
        return ""
    value = found[0] if isinstance(found, tuple) else found
    return f"aim <= {aim:g}: {'reached' if value <= aim else 'NOT REACHED'}"


def beside(name: str, found: Sequence[tuple[Replay, Named]]) -> None:
    """How often another rule names one that is more than the margin below the best, or not the
    best; and its trials against the race's of the same studies."""
    below, other, trials, ours = 0, 0, 0, 0
    for each, (winner, took) in found:
        away = max(each.case.truth) - each.case.truth[winner]
        below += away > each.case.room
        other += away > 0
        trials, ours = trials + took, ours + each.trials
    count = len(found)
    print(
        f"  {name:24} more than the margin below the best {100 * below / count:5.1f} %, "
        f"not the best {100 * other / count:5.1f} %, "
        f"{trials / count:6.1f} trials a study (the race: {ours / count:.1f})",
        flush=True,
    )


def compare(found: dict[str, list[Replay]], seed: int) -> None:
    """The peers.  Optuna gets as many trials as the race took."""
    print("\nFor information: rules that name a winner, even of a tie, and no uncertainty.")
    version, named = "", {}
    few = {
        name: [each for each in replays if each.trials <= MOST_TRIALS][:FOR_OPTUNA]
        for name, replays in found.items()
    }
    try:
        optuna = Optuna()
        try:
            for name, replays in few.items():
                asked = [(e.case, e.trials, seed + n) for n, e in enumerate(replays)]
                version, named[name] = optuna.named(asked)
        finally:
            optuna.close()
    except (subprocess.SubprocessError, OSError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        print(f"Optuna cannot be installed or run here: {why}")
    for name, replays in found.items():
        print(f"{name}:")
        for peer in replays[0].peers:
            beside(peer, [(each, each.peers[peer]) for each in replays])
        if name in named:
            pairs = list(zip(few[name], named[name], strict=True))
            beside(f"Optuna {version} ({len(pairs)} of them)", pairs)


def replay_all(
    names: Sequence[str], studies: int, seeds: Sequence[int], cores: int, goal: Goal
) -> dict[str, list[Replay]]:
    # A matrix of 16 treatments is no work for threads: each core replays studies of its own.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    asked = [
        (name, first, min(first + CHUNK, studies), seed, goal)
        for name in names
        for seed in seeds
        for first in range(0, studies, CHUNK)
    ]
    found: dict[str, list[Replay]] = {name: [] for name in names}
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        began = time.monotonic()
        for done, ((name, *_), replays) in enumerate(
            zip(asked, pool.map(chunk, asked), strict=True), 1
        ):
            found[name] += replays
            left = (time.monotonic() - began) / done * (len(asked) - done)
            trials = sum(each.trials for each in replays) / len(replays)
            print(
                f"{name} {len(found[name])}/{studies * len(seeds)}  last {len(replays)}:"
                f" {trials:.0f} trials a study  ETA {left / 60:.0f} min (at the speed so far;"
                " ties take longest)",
                file=sys.stderr,
                flush=True,
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--studies", type=int, default=40, help="of each class and seed")
    parser.add_argument("--seeds", type=int, default=10, help="so many, from 1 on")
    parser.add_argument("--goal", choices=("all", "winner"), default="all")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=CLASSES, help="one class")
    parser.add_argument("--no-peers", action="store_true", help="leave the other rules out")
    asked = parser.parse_args()
    began, limits = time.monotonic(), Limits()
    names = [asked.only] if asked.only else CLASSES
    seeds, goal = range(1, (2 if asked.quick else asked.seeds) + 1), asked.goal
    found = replay_all(names, asked.studies, seeds, asked.cores, goal)
    print(machine())
    print(
        f"{len(_groups())} groups of four schedulers; {len(seeds)} seeds; a race ends undecided "
        f"after {LAST} blocks or {CAP} times those of the grid; {asked.cores} cores"
    )
    for name in names:
        report(limits, name, found[name], goal)
    if not asked.only:
        everything = [each for replays in found.values() for each in replays]
        print(f"\nall together: {len(everything)} studies")
        both = ALL_LIMITS[goal], ALL_AIMS[goal]
        against(limits, "the fixed grid", everything, lambda each: each.grid, both)
    if not asked.no_peers:
        compare(found, 1)
    print(f"\ntook {time.monotonic() - began:.0f} s")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
