"""How often studies without any difference claim one: fixed designs, and those that are extended.

    ./dev bench honesty [--studies 6000] [--extended 4000]

Each treatment against one baseline, by iotrial's own least squares, standard errors and critical
values; whole blocks; confidence 95 %.  The noise is normal, with the baseline or another treatment
1.5, 3 or 5 times as noisy, Student's t with 3 degrees of freedom, or normal with 2 % of trials ten
times as far off.  Then: studies extended as long as a comparison is open (margin 2 %, noise 5 %),
by the first number of blocks and what is added.  Exits 1 where a fixed cell is above 6 %.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import numpy as np

from iotrial.stats import unequal
from iotrial.stats.blocks import BlockLayout, ContrastFit, Floats, fit
from iotrial.stats.critical import Look

SD, MARGIN, LIMIT = 0.05, math.log1p(0.02), 6.0
NOISY = (("-", 1.0), *((who, times) for who in ("baseline", "other") for times in (1.5, 3.0, 5.0)))
EXTENDED = ((2, 30, 1), (3, 20, 3), (5, 20, 1), (5, 9, 5), (10, 5, 20))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=6000)
    parser.add_argument("--extended", type=int, default=4000)
    asked = parser.parse_args()
    worst = 0.0
    print("treatments blocks noise    noisier     claims (%)")
    for size in (3, 4, 8):
        for blocks in (3, 5, 8, 12):
            for kind in ("normal", "t3", "outlier"):
                for who, times in NOISY if kind == "normal" else (NOISY[0], *NOISY[3::3]):
                    sd = np.ones(size)
                    sd[1 if who == "other" else 0] = times
                    rng = np.random.default_rng((size, blocks, len(kind), int(10 * times)))
                    noise = drawn(kind, (blocks, size, asked.studies), rng) * sd[None, :, None]
                    share = 100 * float(decided([against_one(size)], noise, 0)[1].mean())
                    worst = max(worst, share)
                    print(f"{size:>10} {blocks:>6} {kind:8} {who:8} {times:<3g} {share:10.1f}")
    print("\nfirst + times x more: wrong in an extension's, the last, any report (%)")
    for first, times, more in EXTENDED:
        for name in ("2", "4", "8", "2x2"):
            told = extended(name, (first, times, more), asked.extended)
            print(f"{first} + {times} x {more}, {name:>3}: " + " ".join(f"{t:5.1f}" for t in told))
    print(f"\nmost claims of a fixed design: {worst:.1f} %, limit {LIMIT:g}")
    return int(worst > LIMIT)


def drawn(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    if kind == "t3":
        return rng.standard_t(3, shape)
    far = np.where(rng.random(shape) < 0.02, 10.0, 1.0) if kind == "outlier" else 1.0
    return rng.standard_normal(shape) * far


def against_one(size: int) -> Floats:
    return np.asarray(np.eye(size)[1:] - np.eye(size)[0])


def decided(families: Sequence[Floats], noise: Floats, look: int) -> tuple[Floats, Floats]:
    """Of each study: whether all comparisons are decided, and whether one claims a difference.
    ``noise`` is (blocks, treatments, studies), ``look`` 0 where it is judged once."""
    blocks, size, studies = noise.shape
    layout = BlockLayout(np.repeat(np.arange(blocks), size), np.tile(np.arange(size), blocks))
    all_told, claims = np.ones(studies, bool), np.zeros(studies, bool)
    for rows in families:
        got: ContrastFit = fit(layout, noise.reshape(blocks * size, -1), rows)
        level = -math.expm1(math.log(0.95) / len(families))
        critical = unequal.critical_at(Look(look), "one", len(rows) + 1, got.own_df, level)
        half = critical[:, None] * got.standard_error
        same = (np.abs(got.estimate) + half) <= MARGIN
        differs = (np.abs(got.estimate) > half) & ~same
        claims |= differs.any(axis=0)
        all_told &= (same | differs).all(axis=0)
    return all_told, claims


def extended(name: str, steps: tuple[int, int, int], studies: int) -> tuple[float, float, float]:
    first, times, more = steps
    size = 4 if name == "2x2" else int(name)
    signs = np.array([[-0.5, -0.5, 0.5, 0.5]]), np.array([[-0.5, 0.5, -0.5, 0.5]])
    families = list(signs) if name == "2x2" else [against_one(size)]
    rng = np.random.default_rng((first, times, more, size, len(families)))
    noise = rng.normal(0, SD, (first + times * more, size, studies))
    told, wrong = decided(families, noise[:first], 0)
    last, ever, later = wrong.copy(), wrong.copy(), np.zeros(studies, bool)
    open_ = ~told
    for blocks in range(first + more, first + times * more + 1, more):
        told, wrong = decided(families, noise[:blocks], blocks)
        later |= wrong & open_
        ever |= wrong & open_
        last = np.where(open_, wrong, last)
        open_ &= ~told
    return tuple(100 * float(each.mean()) for each in (later, last, ever))  # type: ignore[return-value]


if __name__ == "__main__":
    sys.exit(main())
