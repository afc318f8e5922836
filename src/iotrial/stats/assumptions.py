"""Is the noise what the model takes it to be: even, alike for all treatments, without outliers?

*Ranks*: do they say the same as the verdicts?  Verdicts rest on means of logarithms, which a few
trials far from the others can carry.  Beside each, the differences within blocks are judged by
their ranks, which heavy tails and single strange trials cannot move far:

- *better* or *worse*, and the middle of the differences is not even half as far from nothing, or
  on the other side: few trials make the difference;
- *same*, and the middle lies outside the margin: few trials hide a difference;
- *cannot tell*, and the signed ranks show more than the margin while the differences have heavy
  tails: few trials make the interval wide.

Half is far: for normal noise the middle differs from the mean by 0.22 standard errors (the ratio
of their variances is π/3; Hodges and Lehmann 1963), and a verdict needs two and more.

*Outliers*: does one trial lie apart from all others?  One trial that was hit by something (a pause
of the machine, a reset of the device) can be most of the noise of a study: every interval is wider
for it.  So each residual of log response = block + treatment is held against the spread of the
*others*: divided by its own standard error, with the standard deviation that is left when the trial
is left out (externally studentized).  Without outliers that is Student's t.  The largest of n is
judged at 1/n of the level (Bonferroni).  Two outliers hide each other; so the most extreme one is
left out and the next is looked for, up to a tenth of the trials, and all up to the last that stands
out are named (Rosner).  Nothing is left out of any verdict: a slow trial may be what the device
does now and then.

*Unequal noise*: is one treatment noisier than the others?  Intervals hold whichever is
(:mod:`iotrial.stats.unequal`), but a treatment that is less steady is worth knowing, and what is
said of the others is too timid for it.  Of each treatment the mean absolute deviation of its
residuals from their median is taken, as Brown and Forsythe do.  How large that becomes by chance is
seen by exchanging residuals within blocks: if all are equally noisy they are exchangeable there,
whatever their distribution, so that heavy tails alone raise no alarm.  Blocks of two are left out:
their residuals mirror each other, and do not show which of the two is noisier.

References:
    F. Wilcoxon (1945), Individual comparisons by ranking methods, Biometrics Bulletin 1, 80-83
    (the signed-rank test).
    J. L. Hodges and E. L. Lehmann (1963), Estimates of location based on rank tests, Annals of
    Mathematical Statistics 34, 598-611 (the median of the means of all pairs).
    J. W. Pratt (1959), Remarks on zeros and ties in the Wilcoxon signed rank procedures, JASA 54,
    655-667 (zeros are ranked, and left out then).
    F. R. Hampel (1974), The influence curve and its role in robust estimation, JASA 69, 383-393
    (the median absolute deviation).
    R. D. Cook and S. Weisberg (1982), *Residuals and Influence in Regression*, 2.2.2 (outliers,
    externally studentized residuals, Bonferroni).
    B. Rosner (1983), Percentage points for a generalized ESD many-outlier procedure,
    Technometrics 25, 165-172.
    M. B. Brown and A. B. Forsythe (1974), Robust tests for the equality of variances, JASA 69,
    364-367.
    G. K. Shukla (1972), An invariant test for the homogeneity of variances in a two-way
    classification, Biometrics 28, 1063-1072 (residuals of blocks).
    P. Good (2005), *Permutation, Parametric and Bootstrap Tests of Hypotheses*, 3rd ed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import Doubt, Treatment, treatment_text
from iotrial.stats import MAD_OF_NORMAL
from iotrial.stats.blocks import ARITHMETIC, BlockLayout, Floats, Indices
from iotrial.stats.critical import tails_at
from iotrial.stats.responses import Responses, mean_ranks, named_responses, responses_of
from iotrial.units import format_change, format_noise

LEVEL = 0.01
"""Of a study: doubts of nothing are rare, and so few that one is believed."""
EXACT = 60
"""Up to so many differences the distribution is counted out; beyond it is as good as normal."""
LISTED = 500
"""Of up to so many differences all pairs are made."""


def hodges_lehmann(differences: Floats) -> float:
    """The middle of ``differences`` (n,): the median of the means of all pairs, each with itself
    too.  Up to 29 % of them may be anything without carrying it away.

    Of many the pairs are not made: their median is where half of them lie at or below, and of
    sorted values these are counted by looking up the partner of each."""
    many = len(differences)
    if many <= LISTED:
        first, second = np.triu_indices(many)
        return float(np.median((differences[first] + differences[second]) / 2))
    ordered, pairs = np.sort(differences), many * (many + 1) // 2
    places, low, high = np.arange(many), float(ordered[0]), float(ordered[-1])
    while low < (middle := (low + high) / 2) < high:
        below = np.searchsorted(ordered, 2 * middle - ordered, side="right") - places
        if 2 * int(np.maximum(below, 0).sum()) >= pairs:
            high = middle
        else:
            low = middle
    return high


def signed_rank(differences: Floats) -> float:
    """The two-sided p-value of ``differences`` (n,) being symmetric around 0."""
    ranks = mean_ranks(np.abs(differences))
    kept = differences != 0
    ranks, positive = ranks[kept], (differences > 0)[kept]
    if not len(ranks):
        return 1.0
    total, whole = float(ranks[positive].sum()), float(ranks.sum())
    far = max(total, whole - total)
    if len(ranks) <= EXACT:
        # Ranks of ties are halves: twice a rank is whole.
        doubled = np.rint(2 * ranks).astype(int)
        chance = np.ones(1)
        for rank in doubled:
            longer = np.zeros(len(chance) + rank)
            longer[: len(chance)] += chance / 2
            longer[rank:] += chance / 2
            chance = longer
        tail = float(chance[round(2 * far) :].sum())
    else:
        spread = math.sqrt(float((ranks**2).sum()) / 4)
        tail = float(ndtr(-(far - whole / 2 - 0.5) / spread))
    return min(1.0, 2 * tail)


def robust_sd(differences: Floats) -> float:
    """A standard deviation that a quarter of strange values does not move: from the median
    absolute deviation."""
    away = np.abs(differences - np.median(differences))
    return float(np.median(away)) / MAD_OF_NORMAL


# -- do ranks say the same as the verdicts? -------------------------------------------------------

LEAST_DIFFERENCES = 5
"""With fewer differences their middle is hardly another number than their mean."""
HALF = 0.5
HEAVY = 1.5
"""Tails are heavy where the standard deviation is so many times the robust one."""
_ADVICE = (
    "check the outliers of each treatment: if a disturbance caused them, remove it and repeat"
    " the study; if the workload itself varies so, decide between mean and median"
)


def rank_doubts(results: Results, findings: Sequence[Finding]) -> Iterator[Doubt]:
    """One for each primary finding with which the ranks of its differences disagree."""
    primary = [finding for finding in findings if finding.primary and finding.low is not None]
    asked = dict.fromkeys((finding.workload, finding.metric) for finding in primary)
    blocks = {pair: _by_block(results, *pair) for pair in asked}
    told: set[tuple[str, frozenset[str]]] = set()
    for finding in primary:
        name = results.study.decide.named(finding.workload, finding.metric)
        pair = (name, frozenset((finding.level, finding.baseline)))
        differences = _differences(finding, blocks[finding.workload, finding.metric])
        if pair in told or len(differences) < LEAST_DIFFERENCES:
            continue
        told.add(pair)
        middle = hodges_lehmann(differences)
        if why := _disagrees(results, finding, differences, middle, len(primary)):
            yield Doubt(
                "ranks-differ",
                f"{name}: {finding.level} against {finding.baseline} is "
                f"{format_change(finding.ratio)} by mean and {format_change(math.exp(middle))} by "
                f"ranks (Hodges-Lehmann, n = {len(differences)}): {why}",
                _ADVICE,
            )


def _disagrees(
    results: Results, finding: Finding, differences: Floats, middle: float, family: int
) -> str:
    """In what way the ranks disagree; empty where they do not."""
    mean, margin = math.log(finding.ratio), math.log1p(results.study.decide.margin)
    match finding.verdict:
        case "better" | "worse":
            differs = middle * math.copysign(1.0, mean) < HALF * abs(mean)
            return f"the verdict {finding.verdict} depends on few trials" if differs else ""
        case "same":
            return "the verdict same depends on few trials" if abs(middle) > margin else ""
    heavy = float(differences.std(ddof=1)) > HEAVY * robust_sd(differences)
    level = (1 - results.study.decide.confidence) / family
    if results.study.design.kind == "race" or results.study.design.looked:
        level = 2 * float(tails_at(level / 2, np.array([len(differences)]))[0])
    clear = heavy and abs(middle) > margin and signed_rank(differences) <= level
    return "few trials mask a difference" if clear else ""


def _by_block(results: Results, workload: str, metric: str) -> list[dict[Treatment, float]]:
    """Log responses of the trials that count, by block."""
    data = responses_of(results, workload, metric)
    found: dict[int, dict[Treatment, float]] = defaultdict(dict)
    for block, cell, log in zip(data.layout.block, data.layout.cell, data.logs, strict=True):
        found[int(block)][data.cells[cell]] = float(log)
    return list(found.values())


def _differences(finding: Finding, blocks: Sequence[Mapping[Treatment, float]]) -> Floats:
    """Of each block the mean difference of the level from the baseline, all else alike."""
    found = []
    for block in blocks:
        own = [
            value - block[other]
            for treatment, value in block.items()
            for other in [_counterpart(finding, treatment, block)]
            if other is not None
        ]
        if own:
            found.append(math.fsum(own) / len(own))
    return np.array(found)


def _counterpart(
    finding: Finding, treatment: Treatment, block: Mapping[Treatment, float]
) -> Treatment | None:
    """The treatment of the block to compare with; None where there is none.  A race over several
    factors names whole treatments."""
    if treatment_text(treatment) == finding.level:
        return next((t for t in block if treatment_text(t) == finding.baseline), None)
    if (finding.factor, finding.level) not in treatment:
        return None
    other = tuple(
        (name, finding.baseline if name == finding.factor else label) for name, label in treatment
    )
    return other if other in block else None


# -- is one treatment noisier than the others? ----------------------------------------------------

LEAST_TRIALS = 6
"""Trials of a treatment, in blocks of three and more, before its noise is judged."""
TIMES = 1.5
"""So many times the others' noise matters."""
EXCHANGES = 1999
_AT_ONCE = 2_000_000
PAIR = 2


@dataclass(frozen=True, slots=True)
class _UnequalVariance:
    """``cell`` varies ``times`` as much as the others, by its residuals; ``p`` by chance."""

    cell: int
    times: float
    p: float


def noise_doubts(results: Results) -> Iterator[Doubt]:
    """One for each workload of which one treatment is noisier than the others."""
    level = LEVEL / max(len(results.study.decide.primary), 1)
    for workload, data in named_responses(results):
        found = noisiest(data.layout, data.logs)
        if found is not None and found.p <= level and found.times >= TIMES:
            name = treatment_text(data.cells[found.cell])
            count = int((data.layout.cell == found.cell).sum())
            yield Doubt(
                "unequal-noise",
                f"{workload}: results of {name} vary about {found.times:.1f} times as much as "
                f"those of the others (p = {found.p:.1g}, n = {count})",
                "the intervals allow for it, and those of the others are wider because of it;"
                " verdicts by ranks hold for it only where its noise is symmetric: find the cause"
                " of its variation, or compare the others in a study of their own",
            )


def noisiest(layout: BlockLayout, logs: Floats, seed: int = 1) -> _UnequalVariance | None:
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
    judged = np.flatnonzero(counts >= LEAST_TRIALS)
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
    return _UnequalVariance(int(judged[most]), float(own[most]) / max(others, ARITHMETIC), p)


def _solved(block: Indices, cell: Indices) -> tuple[Floats, Floats, Floats]:
    """Where cells were seen, (blocks, cells), the sizes of blocks, and the generalised inverse of
    the information that they give, (cells, cells)."""
    seen = BlockLayout(block, cell).incidence
    sizes = seen.sum(axis=1)
    information = np.diag(seen.sum(axis=0)) - seen.T @ (seen / sizes[:, None])
    return seen, sizes, np.linalg.pinv(information, hermitian=True)


def residuals(block: Indices, cell: Indices, logs: Floats) -> Floats:
    """Of log response = block + cell, by least squares; (observations,)."""
    seen, sizes, inverse = _solved(block, cell)
    means = np.bincount(block, logs) / sizes
    adjusted = np.bincount(cell, logs - means[block], minlength=seen.shape[1])
    effects = inverse @ adjusted
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


# -- does one trial lie apart from all others? ----------------------------------------------------

LEAST_DF = 4
"""Residual degrees of freedom below which no trial could stand out."""
SHARE = 0.1
"""Of the trials, so many are looked for at most; and :data:`MOST`."""
MOST = 10
_NAMED = 3
_MIRROR = 1e-6
"""Two residuals of a block of two mirror each other up to rounding."""


@dataclass(frozen=True, slots=True)
class _Outlier:
    """``trial`` is an index into the observations.  ``away`` is the log response less what block
    and treatment of the others lead to expect; ``errors`` its externally studentized residual,
    ``p`` its two-sided chance among all.  ``mirror`` is the other trial of a block of two, of
    which nobody can tell which one lies apart."""

    trial: int
    away: float
    errors: float
    p: float
    mirror: int | None = None


def outlier_doubts(results: Results) -> Iterator[Doubt]:
    """One for each workload of which some trials lie apart from all others."""
    level = LEVEL / max(len(results.study.decide.primary), 1)
    for workload, data in named_responses(results):
        found, before, after = outliers(data.layout, data.logs, level)
        if found:
            told = "; ".join(_told(data, each) for each in found[:_NAMED])
            more = len(found) - _NAMED
            yield Doubt(
                "outlier",
                f"{workload}: {told}{f'; and {more} more' if more > 0 else ''}. The noise of one "
                f"trial is {format_noise(before)} with and {format_noise(after)} without "
                f"{'it' if len(found) == 1 else 'them'}",
                "check the telemetry and doubts of these trials for a disturbance. If it came"
                " from outside the device, remove it and repeat the study; if it came from the"
                " device, the noise is real. No verdict excludes these trials",
            )


def _told(data: Responses, found: _Outlier) -> str:
    name = f"trial {data.trials[found.trial].number}"
    if found.mirror is not None:
        name += f" or {data.trials[found.mirror].number}, the only other trial of the block,"
    else:
        treatment = data.cells[int(data.layout.cell[found.trial])]
        name += f" ({treatment_text(treatment)})" if treatment else ""
    change = format_change(math.exp(found.away))
    return f"{name} is {change} from its expected value, {found.errors:.0f} sd"


def outliers(
    layout: BlockLayout, logs: Floats, level: float
) -> tuple[list[_Outlier], float, float]:
    """The trials that lie apart, the most extreme first; the standard deviation of one trial with
    them and without.  No trial and nan where there are too few to tell."""
    left = np.arange(len(logs))
    found: list[_Outlier] = []
    spreads: list[float] = []
    last = 0
    for _ in range(min(MOST, max(1, int(SHARE * len(logs)))) + 1):
        most, spread = _most_extreme(layout.block[left], layout.cell[left], logs[left])
        if most is None:
            break
        spreads.append(spread)
        mirror = None if most.mirror is None else int(left[most.mirror])
        found.append(_Outlier(int(left[most.trial]), most.away, most.errors, most.p, mirror))
        left = np.delete(left, most.trial)
        last = len(found) if most.p <= level else last
    last = min(last, len(spreads) - 1)
    if last < 1:
        return [], math.nan, math.nan
    return found[:last], spreads[0], spreads[last]


def _most_extreme(block: Indices, cell: Indices, logs: Floats) -> tuple[_Outlier | None, float]:
    """The trial that lies furthest apart, by index, and the standard deviation with it."""
    block, cell = (np.unique(each, return_inverse=True)[1] for each in (block, cell))
    free = 1.0 - leverage(block, cell)
    df = round(float(free.sum()))
    if df < LEAST_DF:
        return None, math.nan
    rest = residuals(block, cell, logs)
    total = float((rest**2).sum())
    spread = math.sqrt(total / df)
    if spread <= ARITHMETIC:
        return None, math.nan
    known = free > _MIRROR  # a trial alone in its block or of its treatment fits whatever it is
    away = np.divide(rest, free, out=np.zeros_like(rest), where=known)
    others = np.maximum((total - rest * away) / (df - 1), ARITHMETIC**2)
    errors = np.abs(away) * np.sqrt(np.maximum(free, 0.0) / others)
    most = int(np.argmax(errors))
    # Student's t with df - 1, on both sides, of as many as could stand out.
    p = min(1.0, 2 * int(known.sum()) * float(stdtr(df - 1, -errors[most])))
    beside = np.flatnonzero(block == block[most])
    beside = beside[beside != most]
    mirrored = len(beside) == 1 and math.isclose(errors[beside[0]], errors[most], rel_tol=_MIRROR)
    mirror = int(beside[0]) if mirrored else None
    return _Outlier(most, float(away[most]), float(errors[most]), p, mirror), spread


def leverage(block: Indices, cell: Indices) -> Floats:
    """Of each observation in the model block + cell, (observations,): the diagonal of the hat
    matrix.  Indices count from 0 without gaps."""
    seen, sizes, inverse = _solved(block, cell)
    by_block = seen @ inverse / sizes[:, None]
    within = (by_block * seen).sum(axis=1) / sizes
    own = np.diag(inverse)[cell] - 2 * by_block[block, cell] + within[block]
    return np.asarray(1 / sizes[block] + own)
