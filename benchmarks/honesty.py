"""How often iotrial is wrong where nothing differs: every design, every noise.

    ./dev bench honesty [--all] [--only race] [--cores 2] [--store FILE] [--picture FILE]

Studies without any difference are simulated and judged by iotrial's own least squares, standard
errors, critical values and races, at a confidence of 95 %.  A study is wrong that names a winner or
a loser at any look; of a race also one of which an interval that was shown at some look does not
hold the truth.  The noise of a trial is normal, with the baseline or another treatment 1.5, 2, 3 or
5 times as noisy; Student's t with 3 degrees of freedom; normal with 2 % of trials ten times as far
off; or normal with one trial in five slower by half.

Each share stands with its Clopper-Pearson interval.  Exits 1 where a cell's lower limit is above
5 % after adjusting for the number of cells (Bonferroni).  Cells that are done stay in the store: a
run that was cut off is resumed by the same command.  --all: four times the studies, and races of 3
and 8 treatments.  Then, for information: studies that are extended as long as a comparison is open
(margin 2 %, noise 5 %), by the first number of blocks and what is added.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from scipy.special import betaincinv

from iotrial.stats import unequal
from iotrial.stats.blocks import BlockLayout, ContrastFit, Floats, fit
from iotrial.stats.critical import ONCE, Look
from iotrial.stats.race import Race

SD, MARGIN, ALLOWED = 0.05, math.log1p(0.02), 0.05
RATIOS = (1.5, 2.0, 3.0, 5.0)
NOISES = (
    "equal",
    *(f"{who} × {ratio:g}" for who in ("baseline", "other") for ratio in RATIOS),
    "Student's t (3 df)",
    "2 % of trials 10 × as far off",
    "1 trial in 5 slower by half",
)
EXTENDED = ((2, 30, 1), (3, 20, 3), (5, 20, 1), (5, 9, 5), (10, 5, 20))
MOST_BLOCKS = 40
"""A race that is open after so many blocks ends."""
RACE = "race"
Family: TypeAlias = tuple[unequal.Kind, int, Floats]
"""Kind, treatments, and contrasts of the treatments' means."""
Simulation: TypeAlias = Callable[[str, int, np.random.Generator], int]
"""How many of so many studies in this noise are wrong."""


@dataclass(frozen=True, slots=True)
class Cell:
    """So many ``studies`` of a design in this noise, of which so many were ``wrong``."""

    design: str
    noise: str
    studies: int
    wrong: int

    @property
    def share(self) -> float:
        return self.wrong / self.studies

    def limits(self, confidence: float) -> tuple[float, float]:
        """Clopper and Pearson (1934)."""
        tail, wrong, right = (1 - confidence) / 2, self.wrong, self.studies - self.wrong
        low = float(betaincinv(wrong, right + 1, tail)) if wrong else 0.0
        high = float(betaincinv(wrong + 1, right, 1 - tail)) if right else 1.0
        return low, high


def drawn(noise: str, blocks: int, size: int, studies: int, rng: np.random.Generator) -> Floats:
    """Logs of (blocks, treatments, studies) trials."""
    shape = (blocks, size, studies)
    if noise.startswith("Student"):
        return SD * rng.standard_t(3, shape)
    values = rng.standard_normal(shape) * SD
    if noise.startswith("2 %"):
        values *= np.where(rng.random(shape) < 0.02, 10.0, 1.0)
    elif noise.startswith("1 trial"):
        values = 0.2 * values - math.log(1.5) * (rng.random(shape) < 0.2)
    elif noise != "equal":
        who, _, ratio = noise.partition(" × ")
        values[:, 0 if who == "baseline" else 1] *= float(ratio)
    return values


# -- designs --------------------------------------------------------------------------------------


def against_one(size: int) -> Floats:
    return np.asarray(np.eye(size)[1:] - np.eye(size)[0])


def all_pairs(size: int) -> Floats:
    first, second = np.triu_indices(size, 1)
    return np.asarray(np.eye(size)[second] - np.eye(size)[first])


def decided(families: Sequence[Family], noise: Floats, look: Look) -> tuple[Floats, Floats]:
    """Of each study: whether all comparisons are decided, and whether one claims a difference.
    ``noise`` is (blocks, treatments, studies)."""
    blocks, size, studies = noise.shape
    layout = BlockLayout(np.repeat(np.arange(blocks), size), np.tile(np.arange(size), blocks))
    all_told, claims = np.ones(studies, bool), np.zeros(studies, bool)
    level = -math.expm1(math.log(1 - ALLOWED) / len(families))
    for kind, treatments, rows in families:
        got: ContrastFit = fit(layout, noise.reshape(blocks * size, -1), rows)
        value = unequal.critical_at(look, kind, treatments, got.own_df, level)
        half = value[:, None] * got.standard_error
        same = (np.abs(got.estimate) + half) <= MARGIN
        differs = (np.abs(got.estimate) > half) & ~same
        claims |= differs.any(axis=0)
        all_told &= (same | differs).all(axis=0)
    return all_told, claims


def one(size: int) -> list[Family]:
    return [("one", size, against_one(size))]


def factorial() -> list[Family]:
    """3 × 2: the main effects; treatment 0 holds both baselines."""
    first = np.kron(against_one(3), np.full((1, 2), 0.5))
    second = np.kron(np.full((1, 3), 1 / 3), against_one(2))
    return [("one", 3, first), ("one", 2, second)]


def fixed(blocks: int, families: list[Family]) -> Simulation:
    size = families[0][2].shape[1]

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> int:
        return int(decided(families, drawn(noise, blocks, size, studies, rng), ONCE)[1].sum())

    return wrong


def until_decided(blocks: int, size: int) -> Simulation:
    """``stop = "decided"``: looked at after every block from the third, until nothing is open."""

    def wrong(noise: str, studies: int, rng: np.random.Generator) -> int:
        values, claims = drawn(noise, blocks, size, studies, rng), np.zeros(studies, bool)
        open_ = np.ones(studies, bool)
        for block in range(3, blocks + 1):
            told, differs = decided(one(size), values[:block], Look(block, blocks))
            claims |= differs & open_
            open_ &= ~told
        return int(claims.sum())

    return wrong


def races(noise: str, size: int, studies: int, rng: np.random.Generator) -> tuple[int, int]:
    """Studies that drop one that is as good as the best, and those that ever show an interval that
    does not hold the truth."""
    dropped = missed = 0
    for _ in range(studies):
        own = Race(size, 0.02, 0.95, favourite=0)
        for block in drawn(noise, MOST_BLOCKS, size, 1, rng)[:, :, 0]:
            own.add({each: float(block[each]) for each in own.active})
            if own.decided:
                break
        dropped += any(own.standing(each).dropped for each in range(size))
        missed += any(
            math.isfinite(half) and abs(seen) > half
            for look in own.looks
            for seen, half in zip(look.estimate, look.half, strict=True)
        )
    return dropped, missed


DESIGNS: dict[str, Simulation] = {
    **{
        f"{size} treatments, {blocks} blocks": fixed(blocks, one(size))
        for size in (3, 4, 8)
        for blocks in (3, 5, 8, 12)
    },
    "3 × 2 factorial, 5 blocks": fixed(5, factorial()),
    "all pairs of 4 (knee), 8 blocks": fixed(8, [("pairs", 4, all_pairs(4))]),
    **{f'4, stop = "decided", {blocks} blocks': until_decided(blocks, 4) for blocks in (5, 12, 30)},
}


def jobs(*, more: bool) -> Iterator[tuple[str, str, int]]:
    """(design, noise, studies)."""
    times = 4 if more else 1
    for size in (4, 3, 8) if more else (4,):
        for noise in NOISES:
            yield f"{RACE} of {size}", noise, 1000 * times
    for design in DESIGNS:
        for noise in NOISES:
            yield design, noise, 5000 * times


def done(job: tuple[str, str, int]) -> list[Cell]:
    design, noise, studies = job
    rng = np.random.default_rng(list(hashlib.sha256(f"{design} {noise}".encode()).digest()))
    if design.startswith(RACE):
        dropped, missed = races(noise, int(design.rpartition(" ")[2]), studies, rng)
        return [
            Cell(design, noise, studies, dropped),
            Cell(f"{design}, any interval shown", noise, studies, missed),
        ]
    return [Cell(design, noise, studies, DESIGNS[design](noise, studies, rng))]


# -- the table, what is kept of it, and the picture -----------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="for hours")
    parser.add_argument("--only", default="", help="designs whose name begins so")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--store", type=Path, default=Path(".pytest_cache/honesty.jsonl"))
    parser.add_argument("--picture", type=Path, help="an SVG or PNG of the table")
    parser.add_argument("--extended", type=int, default=4000, help="0: leave them out")
    asked = parser.parse_args()
    cells = simulated(asked)
    confidence = 1 - ALLOWED / max(len(cells), 1)
    above = []
    print(f"{'design':40} {'noise':32} wrong (%), 95 % interval, studies")
    for cell in cells:
        low, high = cell.limits(0.95)
        sure = cell.limits(confidence)[0] > ALLOWED
        above += [cell] if sure else []
        print(
            f"{cell.design:40} {cell.noise:32} {100 * cell.share:5.1f}  {100 * low:4.1f} to"
            f" {100 * high:4.1f}  {cell.studies}{'  ABOVE 5 %' if sure else ''}"
        )
    if asked.picture:
        drawn_table(cells, asked.picture)
    if asked.extended and not asked.only:
        print("\nfirst + times x more: wrong in an extension's, the last, any report (%)")
        for first, times, more in EXTENDED:
            for name in ("2", "4", "8", "2x2"):
                told = extended(name, (first, times, more), asked.extended)
                print(
                    f"{first} + {times} x {more}, {name:>3}: " + " ".join(f"{t:5.1f}" for t in told)
                )
    worst = max((cell.share for cell in cells), default=0.0)
    print(f"\n{len(cells)} cells, the largest {100 * worst:.1f} %, {len(above)} above 5 %")
    return int(bool(above))


def simulated(asked: argparse.Namespace) -> list[Cell]:
    """Every cell, from the store where it was done before with the same code."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    asked.store.parent.mkdir(parents=True, exist_ok=True)
    code = digest()
    known: dict[tuple[str, str, int], list[Cell]] = {}
    if asked.store.exists():
        for line in asked.store.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["code"] == code:
                known[tuple(row["job"])] = [Cell(**each) for each in row["cells"]]  # type: ignore[index]
    wanted = [job for job in jobs(more=asked.all) if job[0].startswith(asked.only)]
    left, began = [job for job in wanted if job not in known], time.monotonic()
    with ProcessPoolExecutor(asked.cores, multiprocessing.get_context("spawn")) as pool:
        for number, (job, cells) in enumerate(zip(left, pool.map(done, left), strict=True), 1):
            known[job] = cells
            row = {"code": code, "job": job, "cells": [asdict(each) for each in cells]}
            with asked.store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            eta = (time.monotonic() - began) / number * (len(left) - number)
            print(
                f"{number}/{len(left)}  {job[0]}, {job[1]}: last {100 * cells[0].share:.1f} %"
                f"  ETA {eta / 60:.0f} min",
                file=sys.stderr,
                flush=True,
            )
    return [cell for job in wanted for cell in known[job]]


def digest() -> str:
    """What the numbers depend on: a store of other code is not taken."""
    sources = (main, Look, Race, unequal, BlockLayout)
    files = [unequal.TABLE, *(Path(inspect.getfile(each)) for each in sources)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def drawn_table(cells: Sequence[Cell], path: Path) -> None:
    """A row a design, a column a noise: the share with its interval, and the 5 % line."""
    import altair as alt  # noqa: PLC0415  only for a picture

    rows = [
        {
            "design": cell.design,
            "noise": cell.noise,
            "wrong": 100 * cell.share,
            "low": 100 * cell.limits(0.95)[0],
            "high": 100 * cell.limits(0.95)[1],
        }
        for cell in cells
    ]
    base = alt.Chart(alt.Data(values=rows))
    y = alt.Y("noise:N", sort=list(NOISES), title=None)
    scale = alt.Scale(domain=[0, 8], clamp=True)
    bars = base.mark_rule(strokeWidth=2, color="#4c78a8").encode(
        x=alt.X("low:Q", scale=scale, title="wrong studies (%)"), x2="high:Q", y=y
    )
    points = base.mark_point(filled=True, size=30, color="#1f4e79").encode(
        x=alt.X("wrong:Q", scale=scale), y=y
    )
    line = base.mark_rule(color="#c0392b", strokeDash=[4, 3]).encode(x=alt.datum(5.0))
    chart = (
        alt.layer(line, bars, points)
        .properties(width=180, height=150)
        .facet(
            alt.Facet("design:N", sort=list(dict.fromkeys(c.design for c in cells)), title=None),
            columns=4,
        )
        .properties(title="Studies without any difference that name one; 5 % are allowed")
    )
    chart.save(str(path))


def extended(name: str, steps: tuple[int, int, int], studies: int) -> tuple[float, float, float]:
    first, times, more = steps
    size = 4 if name == "2x2" else int(name)
    signs = np.array([[-0.5, -0.5, 0.5, 0.5]]), np.array([[-0.5, 0.5, -0.5, 0.5]])
    families: list[Family] = [("one", 2, each) for each in signs] if name == "2x2" else one(size)
    rng = np.random.default_rng((first, times, more, size, len(families)))
    noise = rng.normal(0, SD, (first + times * more, size, studies))
    told, wrong = decided(families, noise[:first], ONCE)
    last, ever, later = wrong.copy(), wrong.copy(), np.zeros(studies, bool)
    open_ = ~told
    for blocks in range(first + more, first + times * more + 1, more):
        told, wrong = decided(families, noise[:blocks], Look(blocks))
        later |= wrong & open_
        ever |= wrong & open_
        last = np.where(open_, wrong, last)
        open_ &= ~told
    return tuple(100 * float(each.mean()) for each in (later, last, ever))  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
