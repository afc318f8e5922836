"""By ranks: a second verdict beside each interval, which holds whatever the noise is like.

Intervals rest on means and standard deviations of logarithms.  Heavy tails, two modes, a few wild
trials or noise that hangs together make them wide: a difference that anybody sees is *cannot tell*.
What iotrial does itself allows a test that asks nothing of the noise: it draws the order of the
treatments anew in each block.  Were a level and its baseline alike, their two responses of a block
could as well have been the other way round, in each block independently.

*The statistic.*  Log responses are aligned: freed of the medians of their blocks, and of those of
the combinations of the other factors (three times, in turn).  The median, because one wild trial
moves a mean, and with it all other trials of the block.  All aligned responses of a workload are
ranked together.  Of each block the difference is taken, level less baseline, summed over the pairs
of treatments that are alike in all other factors; the statistic is the sum over the blocks.  To
rank over all is what makes it strong: a wild trial counts no more than the last rank, while the
ranks of the differences within blocks (Wilcoxon's) give the largest weight to the blocks that have
one.

*Its distribution.*  Exchanging the level with its baseline within a block, in all pairs at once,
changes the sign of that block's difference and nothing else: medians and the set of ranks stay.
So all 2ⁿ ways to choose the signs of n blocks are equally probable, and p is the share of them
whose sum is as far from 0, on either side: all of them up to 16 blocks; else of 19,999 that are
drawn with a seed of the study, the one that was seen among them (+1/+1: exact too); beyond 200
blocks by the normal distribution, whose tails are heavier than those of such a sum.

*All comparisons together.*  Each comparison exchanges only its own level and the baseline, so its p
holds whatever the other treatments do, and Holm's procedure on these p is a closed test: it tests
every intersection of null hypotheses by its smallest p (Bonferroni), and keeps the error of the
family strongly.  Nothing is asked of how comparisons depend on each other; no subset pivotality is
needed.  The family is that of the plan, as for the intervals.  The price is that n blocks cannot
give a p below 2/2ⁿ (:func:`iotrial.stats.verdict.rank_blocks`).

*Unequal noise.*  Treatments of unequal noise are not exchangeable.  But the sign of a difference of
two symmetric noises is fair however much larger one of them is, and the ranks keep that sign.
Simulation (the tests of this module) shows what is left where noise is neither equal nor symmetric.

*Where it is not shown*: where iotrial did not draw the order freely within blocks (hard factors,
recorded runs), where the level has no counterpart that is alike in all else (fractions), where the
results are looked at more than once (races, ``stop = "decided"``, extended studies), and with too
few blocks.

References:
    J. L. Hodges and E. L. Lehmann (1962), Rank methods for combination of independent experiments
    in analysis of variance, Annals of Mathematical Statistics 33, 482-497 (aligned ranks).
    E. J. G. Pitman (1937), Significance tests which may be applied to samples from any populations,
    JRSS Suppl. 4, 119-130; E. S. Edgington and P. Onghena (2007), *Randomization Tests*, 4th ed.
    S. Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 65-70; R. Marcus, E. Peritz and K. R. Gabriel (1976), On closed testing
    procedures, Biometrika 63, 655-660.
    B. Phipson and G. K. Smyth (2010), Permutation p-values should never be zero, Statistical
    Applications in Genetics and Molecular Biology 9, 39 (+1/+1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from iotrial.model.finding import RankVerdict, Verdict
from iotrial.model.study import Study
from iotrial.model.trial import Treatment
from iotrial.stats.blocks import Floats
from iotrial.stats.effects import CellContrast
from iotrial.stats.responses import Responses, mean_ranks
from iotrial.stats.verdict import rank_blocks

Key = tuple[str, str, str, str]
"""Workload, metric, factor, level."""
_COUNTED, _DRAWN, _CHOICES = 16, 200, 19_999
"""Up to so many blocks every choice of signs is counted, and up to so many others this number is
drawn.  Beyond, the sum is as good as normal, whose tails are a little heavier."""
_SWEEPS = 3
_DIGITS = 12
"""Of aligned logarithms: responses that are alike stay alike, whatever alignment rounds."""


@dataclass(frozen=True, slots=True)
class _Tested:
    """One comparison: ``p`` by itself, and the ``sign`` of its statistic."""

    p: float
    sign: int


def shown(study: Study) -> bool:
    """Whether the trials of this study can be exchanged, and are looked at once."""
    design = study.design
    return (
        design.kind in {"full", "one-at-a-time"}
        and not design.looked
        and not any(factor.hard for factor in study.factors)
    )


def by_ranks(
    study: Study,
    asked: Iterable[tuple[str, Responses, Sequence[CellContrast]]],
    family: int,
) -> dict[Key, RankVerdict]:
    """The verdict by ranks of every comparison that has enough blocks.

    ``asked`` are workloads with responses and comparisons, of one family; ``family`` is how many
    comparisons the plan has of it.
    """
    if not shown(study) or not family:
        return {}
    least = rank_blocks(family, 1 - study.decide.confidence)
    seed = f"{study.digest}:{study.design.seed}"
    tested: dict[Key, _Tested] = {}
    for workload, data, contrasts in asked:
        for contrast, row in zip(contrasts, differences(data, contrasts), strict=True):
            own = row[~np.isnan(row)]
            if len(own) >= least:
                key = (workload, data.metric, contrast.factor, contrast.level)
                tested[key] = _Tested(sign_p(own, seed), int(np.sign(own.sum())))
    return _holm(study, tested, family)


def differences(data: Responses, contrasts: Sequence[CellContrast]) -> Floats:
    """(contrasts, blocks): of each block the ranks at the level less those at the baseline; nan
    where a trial of a pair is missing, or the contrast has no pairs."""
    found = np.full((len(contrasts), len(data.layout.incidence)), np.nan)
    by_factor: dict[str, Floats] = {}
    for row, contrast in zip(found, contrasts, strict=True):
        if not contrast.pairs:
            continue
        if contrast.factor not in by_factor:
            by_factor[contrast.factor] = _ranked(data, contrast.factor)
        ranks = by_factor[contrast.factor]
        level, base = (list(side) for side in zip(*contrast.pairs, strict=True))
        row[:] = (ranks[:, level] - ranks[:, base]).sum(axis=1)
    return found


def _ranked(data: Responses, factor: str) -> Floats:
    """(blocks, cells): aligned ranks; nan where there is no trial."""
    layout = data.layout
    aligned = np.full(layout.incidence.shape, np.nan)
    aligned[layout.block, layout.cell] = data.logs
    alike: dict[Treatment, list[int]] = defaultdict(list)
    for place, cell in enumerate(data.cells):
        alike[tuple(part for part in cell if part[0] != factor)].append(place)
    # Looking past what is missing takes ten times as long.
    median = np.nanmedian if np.isnan(aligned).any() else np.median
    for _ in range(_SWEEPS):
        aligned -= median(aligned, axis=1, keepdims=True)
        for places in alike.values():
            aligned[:, places] -= median(aligned[:, places])
    seen = ~np.isnan(aligned)
    aligned[seen] = mean_ranks(np.round(aligned[seen], _DIGITS))
    return aligned


def sign_p(values: Floats, seed: str) -> float:
    """The two-sided p-value of the sum of ``values`` (n,), each with either sign.  They are wholes
    or halves, so that no sum is rounded."""
    n, far = len(values), abs(float(values.sum()))
    if n <= _COUNTED:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= far).mean())
    if n > _DRAWN:
        return float(2 * ndtr(-far / math.sqrt(max(float((values**2).sum()), 1.0))))
    chance = np.random.default_rng(list(f"ranks:{seed}:{n}".encode()))
    signs = 2 * chance.integers(0, 2, (_CHOICES, n), dtype=np.int8) - 1
    return float((1 + (np.abs(signs @ values) >= far).sum()) / (1 + _CHOICES))


def _holm(study: Study, tested: Mapping[Key, _Tested], family: int) -> dict[Key, RankVerdict]:
    """Adjusted for all comparisons: what is missing counts as one that says nothing."""
    least, found = 0.0, {}
    ascending = sorted(tested, key=lambda key: tested[key].p)
    for place, key in enumerate(ascending):
        least = max(least, min(1.0, (family - place) * tested[key].p))
        higher = study.metrics.higher(key[1])
        claim: Verdict = "cannot-tell"
        if least <= 1 - study.decide.confidence and higher is not None:
            claim = "better" if (tested[key].sign > 0) is higher else "worse"
        found[key] = RankVerdict(claim, least)
    return found
