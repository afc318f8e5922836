"""Is one treatment noisier than the others?  A doubt, ``unequal-noise``, names it.

Intervals pool the noise over treatments.  Where one is less steady, what is said of it is too
sure, and what is said of the others too timid.  Of each treatment the mean absolute deviation of
its residuals (of log response = block + treatment) from their median is taken, as Brown and
Forsythe do.  How large that becomes by chance is seen by exchanging residuals within blocks: if
all are equally noisy they are exchangeable there, whatever their distribution, so that heavy tails
alone raise no alarm.  Blocks of two are left out: their residuals mirror each other, and do not
show which of the two is noisier.

References:
    M. B. Brown and A. B. Forsythe (1974), Robust tests for the equality of variances, JASA 69,
    364-367.
    G. K. Shukla (1972), An invariant test for the homogeneity of variances in a two-way
    classification, Biometrics 28, 1063-1072 (residuals of blocks).
    P. Good (2005), *Permutation, Parametric and Bootstrap Tests of Hypotheses*, 3rd ed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.stats.blocks import ARITHMETIC, Floats, Indices, Layout
from iotrial.stats.responses import counted, responses

LEVEL = 0.01
"""Of a study: doubts of nothing are rare, and so few that one is believed."""
LEAST = 6
"""Trials of a treatment, in blocks of three and more, before its noise is judged."""
TIMES = 1.5
"""So many times the others' noise matters."""
EXCHANGES = 1999
_AT_ONCE = 2_000_000
PAIR = 2


@dataclass(frozen=True, slots=True)
class Noisy:
    """``cell`` varies ``times`` as much as the others, by its residuals; ``p`` by chance."""

    cell: int
    times: float
    p: float


def noise_doubts(results: Results) -> Iterator[Doubt]:
    """One for each workload of which one treatment is noisier than the others."""
    study, by_workload = results.study, counted(results)
    level = LEVEL / max(len(study.decide.primary), 1)
    for workload, metric in study.decide.primary:
        data = responses(by_workload.get(workload, ()), metric, study)
        if not data.trials:
            continue
        found = noisiest(data.layout, data.logs)
        if found is not None and found.p <= level and found.times >= TIMES:
            name = treatment_text(data.cells[found.cell])
            count = int((data.layout.cell == found.cell).sum())
            yield Doubt(
                "unequal-noise",
                f"{workload}: results of {name} vary about {found.times:.1f} times as much as "
                f"those of the others (p = {found.p:.1g}, n = {count})",
                "the noise is pooled: what is said of this treatment is too sure, and of the others"
                " too timid. Find what makes it unsteady; compare it with the others in a study "
                "of the two, whose noise is theirs alone",
            )


def noisiest(layout: Layout, logs: Floats, seed: int = 1) -> Noisy | None:
    """The treatment that stands out most, and how likely that is by chance; None where there are
    too few trials to tell, or no noise at all."""
    sizes = np.bincount(layout.block)
    # Seeded: the same results give the same doubts.
    chance = np.random.default_rng(seed)
    wide = sizes[layout.block] > PAIR
    if not wide.any():
        return None
    order = np.argsort(layout.block[wide], kind="stable")
    block, cell = layout.block[wide][order], layout.cell[wide][order]
    block = np.unique(block, return_inverse=True)[1]
    rest = residuals(block, cell, logs[wide][order])
    counts = np.bincount(cell)
    judged = np.flatnonzero(counts >= LEAST)
    if len(judged) <= PAIR or np.abs(rest).max() <= ARITHMETIC:
        return None
    own = _spreads(rest[None, :], cell, judged)[0]
    by_chance = _exchanged(rest, block, cell, judged, chance)
    middle, scale = by_chance.mean(axis=0), by_chance.std(axis=0)
    scale = np.maximum(scale, ARITHMETIC)
    away = (own - middle) / scale
    most = int(np.argmax(away))
    largest = ((by_chance - middle) / scale).max(axis=1)
    p = (1 + int((largest >= away[most]).sum())) / (EXCHANGES + 1)
    others = float(np.median(np.delete(own, most)))
    return Noisy(int(judged[most]), float(own[most]) / max(others, ARITHMETIC), p)


def residuals(block: Indices, cell: Indices, logs: Floats) -> Floats:
    """Of log response = block + cell, by least squares; (observations,)."""
    seen = np.zeros((block.max() + 1, cell.max() + 1))
    seen[block, cell] = 1.0
    sizes = seen.sum(axis=1)
    means = np.bincount(block, logs) / sizes
    information = np.diag(seen.sum(axis=0)) - seen.T @ (seen / sizes[:, None])
    adjusted = np.bincount(cell, logs - means[block], minlength=seen.shape[1])
    effects = np.linalg.pinv(information, hermitian=True) @ adjusted
    rest = logs - effects[cell]
    return np.asarray(rest - (np.bincount(block, rest) / sizes)[block])


def _exchanged(
    rest: Floats, block: Indices, cell: Indices, judged: Indices, chance: np.random.Generator
) -> Floats:
    """The spreads after exchanging residuals within blocks: (:data:`EXCHANGES`, judged)."""
    found = []
    step = max(1, _AT_ONCE // len(rest))
    for start in range(0, EXCHANGES, step):
        rows = min(step, EXCHANGES - start)
        keys = block + chance.random((rows, len(rest)))
        found.append(_spreads(rest[np.argsort(keys, axis=1)], cell, judged))
    return np.concatenate(found)


def _spreads(rest: Floats, cell: Indices, judged: Indices) -> Floats:
    """Mean absolute deviations from the median, as shares of their sum: rows of residuals →
    (rows, judged).  Shares, because exchanged residuals are a little smaller: their treatments'
    means are taken off once more."""
    columns = []
    for number in judged:
        own = rest[:, cell == number]
        columns.append(np.abs(own - np.median(own, axis=1, keepdims=True)).mean(axis=1))
    found = np.stack(columns, axis=1)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), ARITHMETIC))
