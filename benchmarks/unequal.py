"""Critical values that hold whichever treatment is noisier, and by how much: makes their table.

    ./dev bench unequal [--write] [--draws 32768] [--only one-4]

A contrast is divided by the larger of two standard errors: that of its own differences within
blocks, and a share of that of the noise pooled over all treatments (iotrial.stats.unequal).  The
critical value is the least for which max |T| exceeds it with the probability asked for under the
worst of the ways in which treatments can differ in noise: one, two or half of them noisier by 1.5
to 20 times, one of them steadier.  Given the direction of the standardised means and the variances
seen, the length of the means is chi distributed, so only directions and variances are drawn.

Without --write the table in use is held against newly drawn values; exits 1 where one is too small
by more than 4 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from _limits import Limits, run_main
from scipy.special import chdtrc, stdtrit

from iotrial.stats import unequal
from iotrial.stats.blocks import SHARE, Floats

RATIOS = (1.5, 2.0, 3.0, 5.0, 20.0)
CHUNK = 2**22
"""Numbers in memory at once."""
POINTS = 40
SLACK = 1.04
FAR = 6.0
"""Beyond so many standard errors nothing is told, and draws are too few to tell."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draws", type=int, default=2**15, help="fewer where treatments are many")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    if asked.write and asked.only:
        parser.error("--write makes the whole table: leave out --only")
    limits = Limits()
    lines, worst = ["kind,treatments,blocks,level,critical"], 0.0
    for kind, treatments in ((kind, k) for kind in unequal.KINDS for k in unequal.TREATMENTS):
        if asked.only not in ("", f"{kind}-{treatments}"):
            continue
        for blocks in unequal.BLOCKS:
            # Seeded by the place; what the table is held against is drawn anew.
            seed = (unequal.KINDS.index(kind), treatments, blocks, *([] if asked.write else [1]))
            draws = max(asked.draws * 4 // max(4, treatments), 2**13)
            found = critical_values(kind, treatments, blocks, np.random.default_rng(seed), draws)
            for level, value in zip(unequal.LEVELS, found, strict=True):
                lines.append(f"{kind},{treatments},{blocks},{level:g},{value:.3f}")
                if not asked.write and value < FAR:
                    known = float(unequal.critical(kind, treatments, np.array(blocks - 1.0), level))
                    worst = max(worst, value / known)
            print(kind, treatments, blocks, " ".join(f"{v:.3f}" for v in found), flush=True)
    if asked.write:
        unequal.TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        limits.at_most("largest newly drawn value / value in use", worst, SLACK, form=".4f")
    return limits.status()


def critical_values(
    kind: str, treatments: int, blocks: int, rng: np.random.Generator, draws: int
) -> Floats:
    """(levels,), the worst over all patterns."""
    levels = np.array(unequal.LEVELS)
    widest = np.full(len(levels), 0.0)
    student = stdtrit(blocks - 1, 1 - levels / 2)
    grid = np.exp(np.linspace(np.log(student.min() * 0.4), np.log(student.max() * 40), POINTS))
    for sd in patterns(treatments):
        ratio = largest(kind, sd, blocks, rng, draws)
        exceeds = np.array([chdtrc(treatments, (each / ratio) ** 2).mean() for each in grid])
        found = np.interp(-np.log(levels), -np.log(np.maximum(exceeds, 1e-300)), np.log(grid))
        widest = np.maximum(widest, np.exp(found))
    return widest


def patterns(treatments: int) -> Iterator[Floats]:
    """The noise of each treatment; the first one is the baseline."""
    yield np.ones(treatments)
    some = [(0,), (1,), (0, 1), (1, 2), tuple(range(1, 1 + treatments // 2))]
    for ratio in RATIOS:
        for noisy in dict.fromkeys(each for each in some if len(each) < treatments > max(each)):
            sd = np.ones(treatments)
            sd[list(noisy)] = ratio
            yield sd
        yield np.array([1 / ratio, *np.ones(treatments - 1)])


def largest(kind: str, sd: Floats, blocks: int, rng: np.random.Generator, draws: int) -> Floats:
    """max |contrast| / standard error for means of length 1, (draws,)."""
    size = len(sd)
    first, second = np.triu_indices(size, 1)
    if kind == "one":
        first, second = first[: size - 1], second[: size - 1]
    rank, found = min(size, blocks - 1), []
    at_once = max(1, CHUNK // (size * rank * max(len(first) // 8, 1)))
    for begin in range(0, draws, at_once):
        count = min(at_once, draws - begin)
        factor = wishart(size, blocks - 1, count, rng) * sd[:, None] / np.sqrt(blocks - 1)
        whole = (factor**2).sum(axis=(1, 2)) - (factor.sum(axis=1) ** 2).sum(axis=1) / size
        least = SHARE**2 * 2 * whole / (size - 1)
        means = rng.standard_normal((count, size))
        means *= sd / np.sqrt((means**2).sum(axis=1))[:, None]
        most = np.zeros(count)
        for one in dict.fromkeys(first.tolist()):
            other = second[first == one]
            own = ((factor[:, other] - factor[:, [one]]) ** 2).sum(axis=2)
            error = np.sqrt(np.maximum(own, least[:, None]))
            most = np.maximum(most, (np.abs(means[:, other] - means[:, [one]]) / error).max(axis=1))
        found.append(most)
    return np.concatenate(found)


def wishart(size: int, df: int, count: int, rng: np.random.Generator) -> Floats:
    """Factors F of draws F F' of the Wishart distribution, (count, size, min(size, df))."""
    rank = min(size, df)
    factor = np.tril(rng.standard_normal((count, size, rank)), -1)
    for at in range(rank):
        factor[:, at, at] = np.sqrt(rng.chisquare(df - at, count))
    return factor


if __name__ == "__main__":
    run_main(main)
