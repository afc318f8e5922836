"""How many trials a search for the best of many knobs takes, and what it claims, with known truth.

    ./dev bench tune [--quick] [--surfaces 8] [--seed 1] [--cores 2] [--only cap]
                     [--peers PYTHON] [--no-peers] [--json FILE] [--picture FILE.svg]
    ./dev bench tune --again FILE [--picture FILE.svg]
    ./dev bench tune --measure
    ./dev bench tune --real [--seed 1] [--peers PYTHON] [--no-peers]

Responses to 8 to 20 knobs are put together from what ten settings did to a loop device, with the
shape of its noise and its drift (_tune_measured.py, tune-loop.csv), and from what I/O schedulers
did in Redhawk's study (2007); noise of 2, 5, 10 %; seven kinds (_tune_surfaces.py): sums of
single effects, pairs, an interaction that cancels a gain, a plateau, a knob whose baseline
throttles all (two ways), and knobs that do nothing.  Each search gets the same responses, machines
of the same noise, and 120 trials at most (_tune_peers.py): iotrial's, random search, one knob at a
time, Optuna's TPE, SMAC.

*Share*: of the possible gain (on the log scale, the baseline 0, the best of all combinations 1)
the share that the combination recommended after so many trials truly has.  *Trials until* 90 % of
it, or until within 2 % of the best: the fewest after which that stays so to the end; more than 120
counts as 121.  The medians are compared, ours with the best peer's; so are the trials from which on
the mean share of all surfaces is 90 %.  The interval of a ratio is a percentile bootstrap over the
surfaces.

*Claims.*  A study's search ends when more trials are not expected to pay; the combination is then
measured against the baseline on fresh trials, in 24 blocks at most, until the interval that holds
at all looks decides.  It is false where it says "better" of what is not.  The others claim by the
numbers that chose; where no knob matters any gain is false.  *Inflated*: by how much the claimed
ratio is above the true one.

Prints each figure, the mean over the surfaces with its 95 % t interval, beside its limit, and exits
1 when a limit is missed.  The same seed gives the same figures, on any number of cores.
--again tells of the searches that --json wrote.  --measure, as root, measures the loop device of
this machine anew and writes the table.  --real, as root: the same searches with trials of fio on a
loop device, with a throttle behind one of twelve knobs (_tune_real.py).
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _limits import Found, Limits, machine, mean_of, median_of, note, run_main
from _tune_measured import WORKLOADS, measure, measured
from _tune_peers import (
    PACKAGES,
    ByHand,
    Claim,
    Environment,
    Iotrial,
    Random,
    Search,
    Spoke,
    Spoken,
)
from _tune_real import RealDevice, RealSurface, real_device
from _tune_surfaces import KINDS, SURE, Cell, Machine, Surface, drawn
from scipy.special import stdtrit

from iotrial.plan.tune import CONFIRM_BLOCKS
from iotrial.stats.critical import tails_at
from iotrial.stats.verdict import first_look, verdict

TRIALS, MARGIN = 120, 0.02
SHOWN = (10, 20, 30, 40, 60, 80, 120)
STEP = 4
LOOKS = tuple(sorted({*SHOWN, *range(STEP, TRIALS + 1, STEP)}))
"""After so many trials each search is asked what it recommends."""
MOST_OF, NEAR_BEST = 0.9, math.log(1.02)
OURS, SLOW = "iotrial", "SMAC"
AT_HAND = ("random", "by hand", "by hand, 3")
Asked = tuple[str, int, int, str, tuple[str, ...]]
"""Kind, number and seed of a surface; the Python of the peers, and which are asked."""
RATIO, FALSE = 0.5, 5.0
RESAMPLES, PROOFS = 2000, 1000


@dataclass(frozen=True, slots=True)
class Proof:
    """Fresh trials of what was recommended after ``searched`` trials: the verdict, the log of the
    gain that they show, and how many they were."""

    searched: int
    said: str
    gain: float
    true: float
    trials: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One search of one surface.  ``gains`` are the true logs of what it recommended at each of
    :data:`LOOKS`; ``claimed`` what it claims at the end; ``seconds`` what its thinking took."""

    kind: str
    number: int
    method: str
    possible: float
    gains: tuple[float, ...]
    claimed: float
    ended: int
    seconds: float
    proof: Proof | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(gain / self.possible for gain in self.gains)

    @property
    def until_most(self) -> int:
        return _until([share >= MOST_OF for share in self.shares])

    @property
    def until_best(self) -> int:
        return _until([gain >= self.possible - NEAR_BEST for gain in self.gains])


def _until(kept: Sequence[bool]) -> int:
    """The first look from which on it is so at all."""
    found = TRIALS + 1
    for look, good in zip(reversed(LOOKS), reversed(kept), strict=True):
        if not good:
            break
        found = look
    return found


# -- one search ------------------------------------------------------------------------------------


def searched(
    surface: Surface, number: int, method: str, search: Search, machine_seed: int
) -> Outcome:
    bench = Machine(surface, machine_seed)
    gains: list[float] = []
    claim: Claim = surface.baseline, 0.0
    proof, began, done = None, time.monotonic(), 0
    for look in LOOKS:
        while done < look and (cell := search.ask()) is not None:
            search.tell(cell, bench.trial(cell))
            done += 1
        claim = search.claim()
        gains.append(surface.value(claim[0]))
        if isinstance(search, Iotrial) and not proof and (search.enough() or done == TRIALS):
            proof = proved(surface, claim[0], done, Machine(surface, machine_seed + 1))
    seconds = time.monotonic() - began
    possible = surface.gain if surface.kind != "null" else math.nan
    return Outcome(
        surface.kind, number, method, possible, tuple(gains), claim[1], done, seconds, proof
    )


def proved(surface: Surface, cell: Cell, done: int, bench: Machine) -> Proof:
    """The combination against the baseline, pairs in random order, looked at after each."""
    true = surface.value(cell)
    if cell == surface.baseline:
        return Proof(done, "baseline", 0.0, true, 0)
    rng, differences = np.random.default_rng(done), []
    said, mean = "cannot-tell", 0.0
    for block in range(1, CONFIRM_BLOCKS + 1):
        pair = [cell, surface.baseline]
        values = {at: bench.trial(pair[at]) for at in rng.permutation(2).tolist()}
        differences.append(values[0] - values[1])
        if block < first_look(2):
            continue
        mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1))
        tail = float(tails_at(0.025, np.array([block]), CONFIRM_BLOCKS)[0])
        half = float(stdtrit(block - 1, 1 - tail)) * error / math.sqrt(block)
        said = verdict(math.exp(mean - half), math.exp(mean + half), MARGIN, higher_is_better=True)
        if said != "cannot-tell":
            break
    return Proof(done, said, mean, true, 2 * len(differences))


def every_search(
    asked: Asked,
) -> list[Outcome]:
    """All of them on the surface with this number of a kind."""
    kind, number, seed, python, spoken = asked
    surface = drawn(kind, number, seed)
    own = seed * 10_000 + number * 100 + KINDS.index(kind)
    found = [
        searched(surface, number, OURS, Iotrial(surface, own, MARGIN), own),
        searched(surface, number, "random", Random(surface, own), own),
        searched(surface, number, "by hand", ByHand(surface, own), own),
        searched(surface, number, "by hand, 3", ByHand(surface, own, times=3), own),
    ]
    for name in spoken:
        process = Spoke(python)
        try:
            peer = Spoken(process, name, surface, own, TRIALS)
            found.append(searched(surface, number, name, peer, own))
        finally:
            process.close()
    return found


def asked_of(
    kinds: Sequence[str], surfaces: int, slow: int, seed: int, peers: Environment | None
) -> list[Asked]:
    """Every surface, and who searches it: the slow one only the first ``slow`` of each kind."""
    python = peers.python if peers else ""
    spoken = tuple(peers.versions) if peers else ()
    quick = tuple(name for name in spoken if name != SLOW)
    return [
        (kind, number, seed, python, spoken if number < slow else quick)
        for number in range(surfaces)
        for kind in kinds
    ]


def search_all(asked: Sequence[Asked], cores: int) -> list[Outcome]:
    # Matrices of 120 trials are no work for threads: each core searches surfaces of its own.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    found: list[Outcome] = []
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        began = time.monotonic()
        waiting = [pool.submit(every_search, each) for each in asked]
        for done, each in enumerate(as_completed(waiting), 1):
            found += each.result()
            left = (time.monotonic() - began) / done * (len(asked) - done)
            note(f"{done}/{len(asked)} surfaces  ETA {left / 60:.0f} min")
    order = (OURS, *AT_HAND, *PACKAGES)
    return sorted(found, key=lambda e: (order.index(e.method), KINDS.index(e.kind), e.number))


def proofs_of_nothing(limits: Limits) -> None:
    """The proof by itself, of combinations that are as good as the baseline: of searches alone
    there are too few."""
    verdicts = []
    for number in range(PROOFS):
        surface = drawn("null", number, 1)
        cell = tuple(
            count - 1 - at for at, count in zip(surface.baseline, surface.counts, strict=True)
        )
        bench = Machine(surface, number)
        verdicts.append(proved(surface, cell, number, bench).said)
    wrong = [100.0 * (said == "better") for said in verdicts]
    limits.at_most(f"  the proof alone, of {PROOFS} (%)", mean_of(wrong), FALSE, form=".1f")
    worse = [100.0 * (said == "worse") for said in verdicts]
    limits.tell('  the same, told "worse" (%)', mean_of(worse), form=".1f")


# -- figures ---------------------------------------------------------------------------------------


def by_method(found: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    parts: dict[str, list[Outcome]] = {}
    for each in found:
        parts.setdefault(each.method, []).append(each)
    return parts


def tell_shares(found: Mapping[str, Sequence[Outcome]]) -> None:
    print(
        "\nshare of the possible gain (%), mean and its interval, after so many trials\n"
        f"{'':12}" + "".join(f"{look:>18}" for look in SHOWN)
    )
    for method, own in found.items():
        row = ""
        for look in SHOWN:
            mean, (low, high) = mean_of([100 * e.shares[LOOKS.index(look)] for e in own])
            ends = f" ({low:.0f} … {high:.0f})" if high < math.inf else ""
            row += f"{f'{mean:.0f}{ends}':>18}"
        print(f"{method:12}{row}", flush=True)


def tell_kinds(found: Mapping[str, Sequence[Outcome]], kinds: Sequence[str]) -> None:
    print("\nthe same after 40 trials, and the median of the trials until 90 %, by kind")
    print(f"{'':12}" + "".join(f"{kind:>14}" for kind in kinds))
    for method, own in found.items():
        row = ""
        for kind in kinds:
            part = [each for each in own if each.kind == kind]
            if not part:
                row += f"{'-':>14}"
                continue
            share = np.mean([100 * each.shares[LOOKS.index(40)] for each in part])
            until = float(np.median([each.until_most for each in part]))
            row += f"{f'{share:.0f} %, {_trials(until)}':>14}"
        print(f"{method:12}{row}", flush=True)


def _trials(median: float) -> str:
    return f"> {TRIALS}" if median > TRIALS else f"{median:.0f}"


def ratio_to_best(
    found: Mapping[str, Sequence[Outcome]], until: Callable[[Outcome], int]
) -> tuple[str, Found]:
    """Our median against the best peer's, and its bootstrap interval; all on the same surfaces."""
    table = {method: np.array([until(each) for each in own]) for method, own in found.items()}
    peers = [method for method in found if method != OURS]
    best = min(peers, key=lambda method: float(np.median(table[method])))
    count, rng = len(table[OURS]), np.random.default_rng(1)
    ratios = []
    for _ in range(RESAMPLES):
        rows = rng.integers(count, size=count)
        theirs = min(float(np.median(table[method][rows])) for method in peers)
        ratios.append(float(np.median(table[OURS][rows])) / theirs)
    ratio = float(np.median(table[OURS]) / np.median(table[best]))
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return best, (ratio, (low, high))


def until_mean(own: Sequence[Outcome], rows: Iterable[int]) -> int:
    """The first look from which on the mean share is :data:`MOST_OF` at least."""
    mean = np.mean([own[row].shares for row in rows], axis=0)
    return _until([bool(share >= MOST_OF) for share in mean])


def ratio_of_means(found: Mapping[str, Sequence[Outcome]]) -> tuple[str, Found]:
    """As :func:`ratio_to_best`, of the looks from which on the mean share is so large."""
    count, rng = len(found[OURS]), np.random.default_rng(1)
    peers = [method for method in found if method != OURS]
    best = min(peers, key=lambda method: until_mean(found[method], range(count)))
    ratios = []
    for _ in range(RESAMPLES):
        rows = rng.integers(count, size=count).tolist()
        theirs = min(until_mean(found[method], rows) for method in peers)
        ratios.append(until_mean(found[OURS], rows) / theirs)
    ratio = until_mean(found[OURS], range(count)) / until_mean(found[best], range(count))
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return best, (ratio, (low, high))


def same_surfaces(
    found: Mapping[str, Sequence[Outcome]],
) -> list[dict[str, list[Outcome]]]:
    """All methods but the slow one on all surfaces; and ours beside the slow one on its own."""
    sets = [{method: list(own) for method, own in found.items() if method != SLOW}]
    if SLOW in found:
        known = {(each.kind, each.number) for each in found[SLOW]}
        ours = [each for each in found[OURS] if (each.kind, each.number) in known]
        sets.append({OURS: ours, SLOW: list(found[SLOW])})
    return sets


def tell_trials(limits: Limits, found: Mapping[str, Sequence[Outcome]]) -> None:
    ways: tuple[tuple[str, Callable[[Outcome], int], bool], ...] = (
        ("until 90 % of the possible gain", lambda each: each.until_most, True),
        ("until within 2 % of the best", lambda each: each.until_best, False),
    )
    print(f"\ntrials until the mean share is {MOST_OF:.0%}, for good")
    for part in same_surfaces(found):
        for method, own in part.items():
            trials = until_mean(own, range(len(own)))
            print(f"  {method}, of {len(own)} surfaces: {_trials(trials)}", flush=True)
        best, ratio = ratio_of_means(part)
        limits.at_most(f"  iotrial / {best}, of {len(part[OURS])} surfaces", ratio, RATIO)
    for words, until, limited in ways:
        print(f"\ntrials {words}")
        for method, own in found.items():
            values = [float(until(each)) for each in own]
            never = 100 * sum(value > TRIALS for value in values) / len(values)
            beside = f"not after {TRIALS}: {never:.0f} %"
            limits.tell(f"  {method}, median", median_of(values), form=".0f", beside=beside)
        for part in same_surfaces(found):
            best, ratio = ratio_to_best(part, until)
            name = f"  iotrial / {best}, of {len(part[OURS])} surfaces"
            if limited:
                limits.at_most(name, ratio, RATIO)
            else:
                limits.tell(name, ratio)
        for method in found:
            values = [float(until(each)) for each in found[method]]
            limits.tell(
                f"  {method}, mean, where more is {TRIALS + 1}", mean_of(values), form=".0f"
            )


def tell_ends(limits: Limits, own: Sequence[Outcome]) -> None:
    """Where a study ends by itself, and what its proof takes."""
    proofs = [each.proof for each in own if each.proof]
    print("\na study of iotrial's, which ends by itself")
    limits.tell(
        "  trials of the search, median", median_of([float(p.searched) for p in proofs]), form=".0f"
    )
    limits.tell(
        "  trials of the proof, median", median_of([float(p.trials) for p in proofs]), form=".0f"
    )
    real = [each for each in own if each.kind != "null" and each.proof]
    if real:
        shares = [100 * e.proof.true / e.possible for e in real if e.proof]
        limits.tell("  share of the possible gain where it ends (%)", mean_of(shares), form=".1f")
        better = [100.0 * (e.proof.said == "better") for e in real if e.proof]
        limits.tell('  proved "better" (%)', mean_of(better), form=".1f")
        limits.tell(
            "  claimed / true gain - 1, of those (%)",
            mean_of([
                100 * math.expm1(e.proof.gain - e.proof.true)
                for e in real
                if e.proof and e.proof.said == "better"
            ] or [math.nan]),
            form=".1f",
        )  # fmt: skip


def tell_claims(limits: Limits, found: Mapping[str, Sequence[Outcome]]) -> None:
    """False claims: where what is recommended is not better than the baseline."""
    proofs = [each.proof for each in found[OURS] if each.proof]
    of_none = [proof for proof in proofs if proof.true <= 0]
    print('\nclaims "this is faster" of what is not')
    if of_none:
        wrong = [100.0 * (proof.said == "better") for proof in of_none]
        name = f"  iotrial, on fresh trials, of {len(of_none)} (%)"
        limits.at_most(name, mean_of(wrong), FALSE, form=".1f")
    else:
        print("  iotrial, on fresh trials: all that was recommended was better")
    proofs_of_nothing(limits)
    for method, own in found.items():
        if method == OURS:
            continue
        none = [each for each in own if each.gains[-1] <= 0]
        if none:
            wrong = [100.0 * (each.claimed > 0) for each in none]
            limits.tell(
                f"  {method}, by its own numbers, of {len(none)} (%)", mean_of(wrong), form=".1f"
            )
    print("\nby how much the claimed ratio is above the true one (%)")
    for method, own in found.items():
        for words, part in (
            ("where no knob matters", [each for each in own if each.kind == "null"]),
            ("elsewhere", [each for each in own if each.kind != "null"]),
        ):
            if not part:
                continue
            if method == OURS:
                shown = [each.proof for each in part if each.proof]
                above = [p.gain - p.true for p in shown if p.said == "better"]
                beside = f"claimed in {len(above)} of {len(shown)}"
            else:
                above = [each.claimed - each.gains[-1] for each in part if each.claimed > 0]
                beside = f"claimed in {len(above)} of {len(part)}"
            if above:
                inflated = mean_of([100 * math.expm1(each) for each in above])
                limits.tell(f"  {method}, {words}", inflated, form=".1f", beside=beside)
            else:
                print(f"  {method}, {words}: nothing claimed", flush=True)


def tell_table() -> None:
    table = measured()
    print("what was measured, and is drawn from")
    for name, sd, noise, drift in zip(WORKLOADS, table.sd, table.noise, table.drift, strict=True):
        print(
            f"  {name}: noise of a trial {sd:.1%} by its quartiles; in units of that"
            f" {np.std(noise):.1f}, drift {np.std(drift):.1f}"
        )
    for each in table.effects:
        if each.sure >= SURE:
            levels = ", ".join(f"{math.expm1(log):+.0%}" for log in each.logs)
            print(f"  {each.workload} {each.setting}: {levels}")


# -- a picture -------------------------------------------------------------------------------------

COLOURS = ("#0072b2", "#999999", "#e69f00", "#d55e00", "#009e73", "#cc79a7")
WIDE, HIGH, EDGE = 760, 420, 50


def picture(found: Mapping[str, Sequence[Outcome]]) -> str:
    """The mean share over the trials, with bands of its 95 % interval."""

    def across(trials: float) -> float:
        return EDGE + (WIDE - 170 - EDGE) * trials / TRIALS

    def up(share: float) -> float:
        return HIGH - EDGE - (HIGH - 2 * EDGE) * min(max(share, 0.0), 1.0)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}">',
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        at = up(tenth / 10)
        parts.append(
            f'<path d="M{EDGE} {at:.1f}H{across(TRIALS):.1f}" stroke="#ddd"/>'
            f'<text x="{EDGE - 6}" y="{at + 4:.1f}" text-anchor="end">{10 * tenth}</text>'
        )
    parts += [
        f'<text x="{across(look):.1f}" y="{HIGH - 32}" text-anchor="middle">{look}</text>'
        for look in SHOWN
    ]
    parts.append(f'<text x="{EDGE}" y="24">share of the possible gain (%), by trials</text>')
    for number, (method, own) in enumerate(found.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [mean_of([e.shares[at] for e in own]) for at in range(len(LOOKS))]
        line = " ".join(
            f"{across(look):.1f},{up(mean):.1f}"
            for look, (mean, _) in zip(LOOKS, points, strict=True)
        )
        ends = [(look, low) for look, (_, (low, _)) in zip(LOOKS, points, strict=True)]
        ends += [(look, high) for look, (_, (_, high)) in zip(LOOKS, points, strict=True)][::-1]
        band = " ".join(f"{across(look):.1f},{up(end):.1f}" for look, end in ends)
        below = 60 + 20 * number
        parts.append(
            f'<polygon points="{band}" fill="{colour}" opacity="0.12"/>'
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<path d="M{WIDE - 155} {below}h20" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{WIDE - 130}" y="{below + 4}">{method}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one surface of each kind, no SMAC")
    parser.add_argument("--surfaces", type=int, default=8, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=KINDS, help="one kind")
    parser.add_argument("--peers", default="", help="a Python that has Optuna and SMAC")
    parser.add_argument("--no-peers", action="store_true", help="leave Optuna and SMAC out")
    parser.add_argument("--smac", type=int, default=2, help="surfaces of each kind for SMAC: slow")
    parser.add_argument("--json", type=Path, help="every search, into this file")
    parser.add_argument("--again", type=Path, metavar="FILE", help="of searches written by --json")
    parser.add_argument("--picture", type=Path, help="the shares over the trials, as SVG")
    parser.add_argument("--real", action="store_true", help="trials of fio on a loop device")
    parser.add_argument("--measure", action="store_true", help="measure the loop device anew")
    asked, limits = parser.parse_args(), Limits()
    if asked.measure:
        measure()
        tell_table()
    elif asked.real:
        search_really(asked, limits)
    else:
        compare(asked, limits)
    return limits.status()


REAL_TRIALS, REAL_ROUNDS = 40, 3


def search_really(asked: argparse.Namespace, limits: Limits) -> None:
    """Each search on the same real device: until when it had not found what throttles it, how many
    other knobs it would change, and what two fresh trials say of what it names."""
    surface = RealSurface()
    environment = None if asked.no_peers else Environment(asked.peers)
    found: dict[str, list[RealOutcome]] = {}
    try:
        for round_ in range(REAL_ROUNDS):
            seed = asked.seed * 100 + round_
            with real_device(seed) as device:
                searches: dict[str, Search] = {
                    OURS: Iotrial(surface, seed, MARGIN),
                    "random": Random(surface, seed),
                    "by hand": ByHand(surface, seed),
                }
                names = environment.versions if environment else ()
                spokes = {name: Spoke(environment.python) for name in names} if environment else {}
                for name, spoke in spokes.items():
                    searches[name] = Spoken(spoke, name, surface, seed, REAL_TRIALS)
                for name, search in searches.items():
                    found.setdefault(name, []).append(really(device, search))
                for spoke in spokes.values():
                    spoke.close()
    finally:
        if environment:
            environment.close()
    print(machine())
    print(f"{REAL_ROUNDS} rounds of {REAL_TRIALS} trials; a throttle behind one of twelve knobs")
    for name, each in found.items():
        until = [one.until for one in each]
        print(f"  {name:10} lifted for good after {until} trials ({REAL_TRIALS + 1}: never);"
              f" other knobs changed {[one.others for one in each]}")  # fmt: skip
    ours = [one.until for one in found[OURS]]
    limits.at_least("the throttle is found by iotrial (share of rounds)",
                 sum(each <= REAL_TRIALS for each in ours) / len(ours), 1.0)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RealOutcome:
    until: int
    others: int


def really(device: RealDevice, search: Search) -> RealOutcome:
    kept = []
    claim: Claim = RealSurface().baseline, 0.0
    for _ in range(REAL_TRIALS):
        cell = search.ask()
        if cell is not None:
            search.tell(cell, device.trial(cell))
            claim = search.claim()
        kept.append(device.found(claim[0]))
    lost = max((at for at, good in enumerate(kept, 1) if not good), default=0)
    changed = sum(place != 0 for place in claim[0])
    return RealOutcome(lost + 1, changed - device.found(claim[0]))


def compare(asked: argparse.Namespace, limits: Limits) -> None:
    if asked.again:
        found = [_outcome(row) for row in json.loads(asked.again.read_text(encoding="utf-8"))]
        tell(limits, found, tuple(dict.fromkeys(each.kind for each in found)))
        draw(asked, found)
        return
    began = time.monotonic()
    kinds = (asked.only,) if asked.only else KINDS
    surfaces = 1 if asked.quick else asked.surfaces
    slow = 0 if asked.quick else asked.smac
    environment = None if asked.no_peers else Environment(asked.peers)
    try:
        searches = asked_of(kinds, surfaces, slow, asked.seed, environment)
        found = search_all(searches, asked.cores)
    finally:
        if environment:
            environment.close()
    print(machine())
    tell_table()
    if environment:
        for name, version in environment.versions.items():
            print(f"{name} {version}")
        for name, why in environment.why.items():
            limits.unmeasured(name, why)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(each) for each in found]), encoding="utf-8")
    tell(limits, found, kinds)
    draw(asked, found)
    print(f"\ntook {time.monotonic() - began:.0f} s")


def draw(asked: argparse.Namespace, found: Sequence[Outcome]) -> None:
    if asked.picture:
        real = by_method(each for each in found if each.kind != "null")
        asked.picture.write_text(picture(real), encoding="utf-8")


def _outcome(row: dict[str, Any]) -> Outcome:
    proof = Proof(**row["proof"]) if row["proof"] else None
    return Outcome(**{**row, "gains": tuple(row["gains"]), "proof": proof})


def tell(limits: Limits, found: Sequence[Outcome], kinds: Sequence[str]) -> None:
    surfaces = len({each.number for each in found})
    methods = by_method(found)
    real = by_method(each for each in found if each.kind != "null")
    print(f"{surfaces} surfaces of each kind: {', '.join(kinds)}")
    if real:
        tell_shares(real)
        tell_kinds(real, [kind for kind in kinds if kind != "null"])
        tell_trials(limits, real)
    tell_ends(limits, methods[OURS])
    tell_claims(limits, methods)
    print("\nseconds of thinking for 120 trials, mean")
    for method, own in methods.items():
        limits.tell(f"  {method}", mean_of([each.seconds for each in own]), form=".1f")


if __name__ == "__main__":
    run_main(main)
