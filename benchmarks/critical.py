"""What intervals win by the correlations of their contrasts, against Šidák's bound and scipy.

    ./dev bench critical [--confidence 0.95]

For designs whose contrasts have no structure that a quadrature knows: all pairs of levels,
interactions, a baseline with failed trials.  ``bound`` is the critical value of independent
contrasts, ``ours`` that of iotrial.stats.critical, ``scipy`` the one found by
scipy.stats.multivariate_t with its error on the same side, as eight seeds tell it; each with the
milliseconds of CPU that it takes.  Coverage is that of ours by multivariate_t over 200,000 points.
Exits 1 where ours covers less than it must, is not 1 % narrower, or takes more than 300 ms.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.stats import multivariate_t

from iotrial.stats.blocks import BlockLayout, Floats, fit
from iotrial.stats.critical import bound, critical_value, single

SEEDS, OFF = 8, 3.0
SLACK = 5e-5
"""What multivariate_t may be wrong by itself over so many points."""


def levels(count: int) -> Floats:
    return np.eye(count)[1:] - np.eye(count)[0]


def pairs(count: int) -> Floats:
    return np.array([np.eye(count)[a] - np.eye(count)[b] for a in range(count) for b in range(a)])


DESIGNS = {
    "all pairs of 3": (pairs(3), 0),
    "all pairs of 4": (pairs(4), 0),
    "all pairs of 6": (pairs(6), 0),
    "all pairs of 8": (pairs(8), 0),
    "interactions 3 x 3": (np.kron(levels(3), levels(3)), 0),
    "interactions 5 x 5": (np.kron(levels(5), levels(5)), 0),
    "6 levels, 4 trials failed": (levels(6), 4),
}


def inside(c: float, correlation: Floats, df: int, seed: int, points: int) -> float:
    """By multivariate_t.  All pairs of levels have a singular correlation, of which it makes 0.902
    where 0.950 is right (SciPy 1.17.1, pairs of 3, 6 df): it gets one that is just regular."""
    ends = np.full(len(correlation), c)
    t = multivariate_t(shape=correlation + 1e-8 * np.eye(len(correlation)), df=df)
    return float(t.cdf(ends, lower_limit=-ends, maxpts=points, random_state=seed))


def scipys(correlation: Floats, df: int, confidence: float) -> float:
    """By multivariate_t, of which several seeds tell the error."""

    def short(c: float) -> float:
        points = 1000 * len(correlation)
        found = [inside(c, correlation, df, seed, points) for seed in range(SEEDS)]
        error = np.std(found, ddof=1) / math.sqrt(SEEDS)
        return float(np.mean(found) - OFF * error - confidence)

    highest = bound(len(correlation), df, confidence) * 1.05
    return float(brentq(short, single(df, confidence), highest, xtol=1e-5))


def timed(found: Callable[[], float]) -> tuple[float, float]:
    began = time.process_time()
    return found(), 1000 * (time.process_time() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--confidence", type=float, default=0.95)
    sure, kept = parser.parse_args().confidence, True
    print(f"{'':28} {'df':>4} {'bound':>7} {'ours':>7}    narrower {'scipy':>16}    coverage")
    for name, (rows, failed) in DESIGNS.items():
        for blocks in (3, 6, 30):
            cells = rows.shape[1]
            place = np.random.default_rng(2).permutation(blocks * cells)[failed:]
            got = fit(BlockLayout(place // cells, place % cells), np.zeros(len(place)), rows)
            crossed, df = got.correlation, got.df
            most = bound(len(rows), df, sure)
            ours, took = timed(lambda: critical_value(crossed, df, sure).value)  # noqa: B023
            theirs, slow = timed(lambda: scipys(crossed, df, sure))  # noqa: B023
            covered = inside(ours, crossed, df, 99, 200_000)
            fine = covered >= sure - SLACK and ours <= 0.99 * most and took <= 300
            kept &= fine
            told = f"{name:28} {df:>4} {most:>7.4f} {ours:>7.4f} {took:>4.0f} ms"
            told += f" {1 - ours / most:>6.2%} {theirs:>8.4f} {slow:>5.0f} ms {covered:>10.5f}"
            print(told if fine else f"{told} NOT KEPT", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
