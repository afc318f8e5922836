"""How often a change is told that is none, and how soon one that is: change points of nightly runs.

    ./dev bench history [--quick] [--series 6] [--years 40] [--seed 1] [--cores 2]
                        [--peers PYTHON] [--no-peers]

Series of a point a night, with known truth (_history_series.py): noise from night to night of 2 %
that is normal, has heavy tails, wild nights, unequal numbers of trials, neighbours that are alike,
a slow wander, or is what was measured on a loop device; no change, a step of 2, 5, 10, 20 %, two
steps, one for ten nights, a gradual change.  Each method looks every night (_history_peers.py):
iotrial's (stats/changes.py, error 5 %), Apache Otava, and a threshold of 5 % against the mean of
the last seven nights.  The margin, which is Otava's least magnitude too, is 2 %.

*False alarms*: of the years without a change the share in which one was told, which must be at most
5 % in each kind of noise, and how many were told in a year.  Otava is asked about the first of
these years, every fifth night only, which can but lower its number.

*Equal rate*: Otava at the largest p of a list at which that share is no larger than 5 %, over all
kinds of noise together; beside it, where only normal noise is counted.

*Found*: a change told within 60 nights, at most five nights from its place.  *Delay*: nights from
the first changed one, which is 1, to the one on which it was told; 61 where it was not found.
*Error of size*: of the ratio said at the end, found changes only.  A step of 2 % is the margin:
what is told of it decides nothing.

*Intervals* of place and ratio must hold the true ones of 95 % of the steps of 10 % that were told
in series of their own, both when they were told first and at the end; of each kind of noise the
share is printed.

*Many series*: a store in which one of ten series has a step of 10 %; of the series of which a
change is told, the share that have none.

*Against*: runs compared with 4, 6 or 10 stored sessions, in as few blocks as iotrial chooses and in
all (_history_against.py): how often a treatment is called worse or better that is not, at most 5 %
in each kind of noise and what chance adds to so many runs (two standard errors); how often a
regression of 3 and 10 % is found, at least as often as in all blocks, less 5 % (and where they
decide anyway, in 85 % at least); how many trials are saved.

Prints each figure with its 95 % interval beside its limit, and exits 1 when a limit is missed.  The
same seed gives the same figures, on any number of cores.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import _history_against as against
from _history_peers import (
    DEFAULT_P,
    P_VALUES,
    SAME,
    Alarm,
    Environment,
    alarms_of,
    otava,
    plain,
)
from _history_series import AFTER, NOISES, RATIOS, Night, Truth, moved, still
from _limits import Found, Interval, Limits, machine, mean_of, median_of, note, run_main
from scipy.stats import beta

from iotrial.stats.changes import SeriesHistory, among, changes

MARGIN, ERROR, HOLD = 0.02, 0.05, 0.95
OURS, PLAIN, DEFAULT, EQUAL, LENIENT = (
    "iotrial", "5 % of last 7", "Otava p 0.001", "Otava, equal rate", "Otava, normal noise",
)  # fmt: skip
CHANGES: tuple[tuple[str, float], ...] = (
    *(("step", ratio) for ratio in RATIOS),
    ("two steps", 0.9), ("for ten nights", 0.9), ("gradual", 0.9),
)  # fmt: skip
EVERY, BATCH = 5, 8
FAR = 10_000
"""Numbers of series that no other question has."""


@dataclass(slots=True)
class Looked:
    """A series, and the alarms of each method; ``own`` is what iotrial says at the end."""

    series: Night
    name: str
    own: SeriesHistory
    alarms: dict[str, list[Alarm]]
    by_p: Mapping[float, list[Alarm]] = field(default_factory=dict)


def looked(asked: tuple[str, list[Night], str]) -> list[Looked]:
    name, many, python = asked
    theirs = otava(python, many, MARGIN, 1 if many[0].truths else EVERY) if python else []
    found = []
    for at, series in enumerate(many):
        own = changes(series.points(), margin=MARGIN, error=ERROR)
        alarms = {OURS: alarms_of(own), PLAIN: plain(series)}
        by_p = theirs[at] if theirs else {}
        found.append(Looked(series, name, own, alarms, by_p))
    return found


def share_of(kept: Sequence[bool]) -> Found:
    """With the interval of Clopper and Pearson."""
    n, k = len(kept), sum(kept)
    low = float(beta.ppf(0.025, k, n - k + 1)) if k else 0.0
    high = float(beta.ppf(0.975, k + 1, n - k)) if k < n else 1.0
    ends: Interval = low, high
    return k / n, ends


def truth_of(alarm: Alarm, series: Night) -> Truth | None:
    return next((t for t in series.truths if t.first - SAME <= alarm.first <= t.last + SAME), None)


def found_alarm(truth: Truth, alarms: Sequence[Alarm]) -> Alarm | None:
    """The first alarm that is of this change, and no later than it is asked for."""
    return next(
        (
            alarm
            for alarm in sorted(alarms, key=lambda each: each.told)
            if truth.first <= alarm.told < truth.first + AFTER
            and truth.first - SAME <= alarm.first <= truth.last + SAME
        ),
        None,
    )


# -- what is asked ---------------------------------------------------------------------------------


def batches(
    many: Sequence[Night], name: str, python: str
) -> Iterator[tuple[str, list[Night], str]]:
    for at in range(0, len(many), BATCH):
        yield name, list(many[at : at + BATCH]), python


def every_look(asked: argparse.Namespace, count: int, python: str) -> list[Looked]:
    waiting = []
    for noise in NOISES:
        years = [still(noise, at, asked.seed) for at in range(max(count, asked.years))]
        waiting += batches(years[:count], noise, python)
        waiting += batches(years[count:], noise, "")
    for shape, ratio in CHANGES:
        many = [
            moved(NOISES[at % len(NOISES)], shape, ratio, at, asked.seed) for at in range(2 * count)
        ]
        waiting += batches(many, called(shape, ratio), python)
    found: list[Looked] = []
    began = time.monotonic()
    with ProcessPoolExecutor(asked.cores, multiprocessing.get_context("spawn")) as pool:
        for done, each in enumerate(pool.map(looked, waiting), 1):
            found += each
            if done % 10 == 0:
                left = (time.monotonic() - began) / done * (len(waiting) - done)
                note(f"{done}/{len(waiting)} batches  ETA {left:.0f} s")
    return found


def called(shape: str, ratio: float) -> str:
    return f"{shape}, {ratio - 1:+.0%}"


# -- what is told ----------------------------------------------------------------------------------


def equal_rate(years: Sequence[Looked], kinds: Sequence[str]) -> tuple[float, float]:
    """Otava's largest p with no more false alarms than ours may have, and its share of years with
    one; the least p of the list where there is none."""
    own = [each for each in years if each.by_p and each.series.noise in kinds]
    share = 1.0
    for p in P_VALUES:
        share = sum(bool(each.by_p[p]) for each in own) / len(own)
        if share <= ERROR:
            return p, share
    return P_VALUES[-1], share


def tell_years(limits: Limits, years: Sequence[Looked], methods: Sequence[str]) -> None:
    print("\nyears without a change: share with a false alarm")
    for noise in (*NOISES, ""):
        kind = [each for each in years if noise in ("", each.series.noise)]
        for method in methods:
            own = [each for each in kind if method in each.alarms]
            share = share_of([bool(each.alarms[method]) for each in own])
            name = f"  {noise or 'all'}: {method}, of {len(own)}"
            if method == OURS:
                limits.at_most(name, share, ERROR)
            else:
                limits.tell(name, share)
    print("\nfalse alarms in a year")
    for method in methods:
        own = [each for each in years if method in each.alarms]
        many = mean_of([float(len(each.alarms[method])) for each in own])
        limits.tell(f"  {method}", many, form=".2f")


def tell_changes(limits: Limits, found: Sequence[Looked], methods: Sequence[str]) -> None:
    for shape, ratio in CHANGES:
        name = called(shape, ratio)
        own = [each for each in found if each.name == name]
        print(f"\n{name}: {len(own)} series")
        shares: dict[str, Found] = {}
        delays: dict[str, Found] = {}
        for method in methods:
            pairs = [
                (truth, found_alarm(truth, each.alarms[method]))
                for each in own
                for truth in each.series.truths
            ]
            shares[method] = share_of([alarm is not None for _, alarm in pairs])
            delays[method] = median_of(
                [float(a.told - t.first + 1 if a else AFTER + 1) for t, a in pairs]
            )
            sizes = [abs(math.log(a.ratio / t.ratio)) for t, a in pairs if a]
            if sizes:
                limits.tell(f"  error of size, %: {method}", mean_of([100 * e for e in sizes]),
                            form=".2f")  # fmt: skip
        for words, figures, form in (("found", shares, ".2f"), ("delay", delays, ".0f")):
            for method in methods:
                figure = figures[method]
                limited = method == OURS and EQUAL in methods and abs(math.log(ratio)) > 0.03
                if not limited:
                    limits.tell(f"  {words}: {method}", figure, form=form)
                elif words == "found":
                    limits.at_least(f"  {name}: {words}: {method}", figure, value(shares[EQUAL]),
                                    form=form)  # fmt: skip
                else:
                    limits.at_most(f"  {name}: {words}: {method}", figure, value(delays[EQUAL]),
                                   form=form)  # fmt: skip


def value(found: Found) -> float:
    return found[0] if isinstance(found, tuple) else found


def intervals(asked: tuple[str, int, int]) -> list[tuple[str, str, bool, bool]]:
    """Of a series with a step of 10 %: when it is looked at, the noise, and whether the intervals
    hold the place and the ratio."""
    noise, number, seed = asked
    series = moved(noise, "step", 0.9, FAR + number, seed)
    points = series.points()
    last = changes(points, margin=MARGIN, error=ERROR)
    told = [alarm.told for alarm in alarms_of(last) if truth_of(alarm, series)]
    looks = [("at the end", last)] if told else []
    if told:
        then = changes(points[: told[0] + 1], margin=MARGIN, error=ERROR)
        looks.append(("when told", then))
    (truth,) = series.truths
    return [
        (when, noise, c.earliest <= truth.first <= c.latest, c.low <= truth.ratio <= c.high)
        for when, own in looks
        for c in own.changes
        if c.state == "confirmed" and truth_of(Alarm(0, int(c.first), c.ratio), series)
    ]


def tell_intervals(limits: Limits, each: int, asked: argparse.Namespace) -> None:
    """What iotrial's intervals hold, of steps that it told, ``each`` of a kind of noise."""
    waiting = [(noise, number, asked.seed) for noise in NOISES for number in range(each)]
    with ProcessPoolExecutor(asked.cores, multiprocessing.get_context("spawn")) as pool:
        found = [row for rows in pool.map(intervals, waiting, chunksize=4) for row in rows]
    for when in ("at the end", "when told"):
        own = [row for row in found if row[0] == when]
        print(f"\nintervals of iotrial, of {len(own)} steps of 10 %, {when}")
        for what, at in (("place", 2), ("ratio", 3)):
            share = share_of([bool(row[at]) for row in own])
            limits.at_least(f"  {when}: hold the {what}", share, HOLD, form=".3f")
        for noise in NOISES:
            if kind := [row[3] for row in own if row[1] == noise]:
                limits.tell(f"    hold the ratio: {noise}", share_of(kind), form=".2f")


def store(asked: tuple[int, int, int]) -> tuple[float, list[bool]]:
    """Of the series of which a change is told, by the rule ``share``, the share without one; and
    of which of the others it is told."""
    number, series, seed = asked
    many = [
        moved("normal", "step", 0.9, 1000 * number + at, seed)
        if at % 10 == 0
        else still(NOISES[at % len(NOISES)], 1000 * (number + 1) + at, seed)
        for at in range(series)
    ]
    told = among([each.points() for each in many], margin=MARGIN, error=ERROR, rule="share")
    any_told = [any(c.state == "confirmed" for c in each.changes) for each in told]
    pairs = list(zip(any_told, many, strict=True))
    false = sum(is_told and not each.truths for is_told, each in pairs)
    return false / max(sum(any_told), 1), [is_told for is_told, each in pairs if each.truths]


def tell_stores(limits: Limits, stores: int, series: int, asked: argparse.Namespace) -> None:
    waiting = [(number, series, asked.seed) for number in range(stores)]
    with ProcessPoolExecutor(asked.cores, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(store, waiting))
    print(f"\n{stores} stores of {series} series, one of ten with a step of 10 %")
    wrong = mean_of([share for share, _ in found])
    name = "  share without a change among those told"
    if asked.quick:  # of two stores nothing follows: one false alarm is a third of what is told
        limits.tell(name, wrong)
    else:
        limits.at_most(name, wrong, ERROR)
    limits.tell("  found", share_of([hit for _, hits in found for hit in hits]), form=".2f")


def tell_against(limits: Limits, runs: int, asked: argparse.Namespace) -> None:
    """Of each noise all numbers of stored sessions together."""
    saved: list[float] = []
    for apart in against.APART:
        name = f"sessions {apart[0]:.1%} apart, trials {apart[1]:.1%}"
        print(f"\nagainst stored sessions, {name}")
        for ratio in (1.0, 0.97, 0.9):
            waiting = [
                (many, apart, ratio, asked.seed + seed)
                for many in against.STORED
                for seed in range(runs)
            ]
            with ProcessPoolExecutor(asked.cores, multiprocessing.get_context("spawn")) as pool:
                found = list(pool.map(against.run, waiting, chunksize=20))
            saved += [1 - each.blocks / against.BLOCKS for each in found]
            if ratio == 1:
                wrong, full = (share_of([getattr(each, of) for each in found])
                               for of in ("wrong", "all_wrong"))  # fmt: skip
                most = ERROR + 2 * math.sqrt(ERROR * (1 - ERROR) / len(found))
                limits.at_most(f"  {name}: false alarms", wrong, most)
                limits.tell("  false alarms, all blocks", full)
                limits.tell("  blocks of 10", mean_of([float(e.blocks) for e in found]), form=".1f")
            else:
                few, full = (share_of([getattr(each, of) for each in found])
                             for of in ("found", "all_found"))  # fmt: skip
                least = min(value(full) - 0.05, 0.85)
                limits.at_least(f"  {name}: {ratio - 1:+.0%} found", few, least, form=".2f")
                limits.tell(f"  {ratio - 1:+.0%} found, all blocks", full, form=".2f")
    limits.at_least("against: share of trials saved", mean_of(saved), 0.3, form=".2f")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few series")
    parser.add_argument("--series", type=int, default=6, help="of each kind of noise")
    parser.add_argument("--years", type=int, default=40, help="of each, for iotrial's alarms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", default="", help="a Python that has Otava")
    parser.add_argument("--no-peers", action="store_true", help="leave Otava out")
    asked, limits = parser.parse_args(), Limits(width=62)
    began = time.monotonic()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    count = 4 if asked.quick else asked.series
    asked.years = 4 if asked.quick else asked.years
    environment = None if asked.no_peers else Environment(asked.peers)
    try:
        usable = environment is not None and not environment.why
        found = every_look(asked, count, environment.python if environment and usable else "")
    finally:
        if environment:
            environment.close()
    print(machine())
    years = [each for each in found if not each.series.truths]
    methods = [OURS, PLAIN]
    if environment and environment.why:
        limits.unmeasured("Otava", environment.why)
    elif environment:
        print(f"Otava {environment.version}")
        for method, kinds in ((EQUAL, NOISES), (LENIENT, ("normal",))):
            p, share = equal_rate(years, kinds)
            print(f"{method}: p {p:g}, with which {share:.0%} of those years have a false alarm")
            for each in found:
                if each.by_p:
                    each.alarms[method] = each.by_p[p]
        for each in found:
            if each.by_p:
                each.alarms[DEFAULT] = each.by_p[DEFAULT_P]
        methods += [DEFAULT, EQUAL, LENIENT]
    tell_years(limits, years, methods)
    tell_changes(limits, found, methods)
    tell_intervals(limits, 2 if asked.quick else 16, asked)
    tell_stores(limits, 2 if asked.quick else 10, 20 if asked.quick else 40, asked)
    tell_against(limits, 40 if asked.quick else 200, asked)
    print(f"\ntook {time.monotonic() - began:.0f} s")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
