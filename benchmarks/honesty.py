"""How often iotrial is wrong where nothing differs: every design, every noise.

    ./dev bench honesty [--all] [--only race] [--share 0.1] [--cores 2] [--store FILE]
                          [--picture FILE]

Studies are simulated and judged by iotrial's own functions, at a confidence of 95 %
(_honesty_designs.py): fixed designs, factorials, split-plots, several metrics, a second family,
knees, stages, races, searches, guardrails and limits.  Where nothing differs a study is wrong that
names a winner or a loser at any look; of a race also one of which an interval that was shown at
some look does not hold the truth.  A knee or a stage is wrong that calls a level as good which is
just not, or drops one that just is; a guardrail or a limit that is said to be kept or broken where
the truth is the limit itself.  The noise of a trial is normal, with the baseline or another
treatment 1.5, 2, 3 or 5 times as noisy (of knees and stages: the largest level or the next);
Student's t with 3 degrees of freedom; normal with 2 % of trials ten times as far off; or normal
with one trial in five slower by half.

Each share stands with its Clopper-Pearson interval.  Exits 1 where a cell's lower limit is above
5 % after adjusting for the number of cells (Bonferroni).  Cells that are done stay in the store: a
run that was cut off is resumed by the same command.  --all: four times the studies, and races of 3
and 8 treatments.  Then, for information: studies that are extended as long as a comparison is open
(margin 2 %, noise 5 %), by the first number of blocks and what is added.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from _honesty_designs import (
    ALLOWED,
    DESIGNS,
    MORE,
    NOISES,
    SD,
    STUDIES,
    Family,
    decided,
    one,
)
from _limits import Limits, run_main
from scipy.special import betaincinv

import iotrial.stats
from iotrial.plan import settle, stages
from iotrial.stats.critical import ONCE, Look

EXTENDED = ((2, 30, 1), (3, 20, 3), (5, 20, 1), (5, 9, 5), (10, 5, 20))


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


def jobs(*, more: bool, share: float = 1.0) -> Iterator[tuple[str, str, int]]:
    """(design, noise, studies)."""
    share *= 4 if more else 1
    for design in (DESIGNS | MORE) if more else DESIGNS:
        many = next(many for name, many in STUDIES.items() if design.startswith(name))
        for noise in NOISES:
            yield design, noise, max(1, round(many * share))


def done(job: tuple[str, str, int]) -> list[Cell]:
    design, noise, studies = job
    rng = np.random.default_rng(list(hashlib.sha256(f"{design} {noise}".encode()).digest()))
    found = (DESIGNS | MORE)[design](noise, studies, rng)
    return [Cell(design + name, noise, studies, wrong) for name, wrong in found.items()]


# -- the table, what is kept of it, and the picture -----------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="for hours")
    parser.add_argument("--only", default="", help="designs whose name begins so")
    parser.add_argument("--share", type=float, default=1.0, help="of the studies: 0.1 for a trial")
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
    limits = Limits()
    limits.at_most("cells that are above 5 %, all of them looked at", len(above), 0, form=".0f")
    return limits.status()


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
    wanted = [
        job for job in jobs(more=asked.all, share=asked.share) if job[0].startswith(asked.only)
    ]
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
    of_stats = sorted(Path(iotrial.stats.__file__).parent.glob("*.[pc][ys]*"))
    here = sorted(Path(__file__).parent.glob("*honesty*.py"))
    files = [*here, *of_stats, Path(stages.__file__), Path(settle.__file__)]
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
        .properties(title="Studies that claim what is not so; 5 % are allowed")
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
    run_main(main)
