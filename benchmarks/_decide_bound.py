"""What ``decide.py`` measures a race by: a fixed grid, and the trials that theory asks for.

A treatment i is settled by telling the truth apart from every truth in which the claim made of it
would be wrong.  Where it is called *worse* that is one in which it is as good as the best; where
it is called *same*, one in which it is more than the margin from the kept one; where both would
be right, the farther of the two counts: the distance is max(gap, margin - gap).  Every wrong claim
counts, the dropping of an equal too: of two that are equal each may be dropped in half of the
studies that may err.  Any procedure that is wrong with probability δ at most spends at least
T*·kl(1 - δ, δ/2) trials on average, where
T* is the number of trials at which the best allocation sees the nearest of those truths with an
information of one nat.  Two such numbers, of normal noise of known size:

- :func:`free`: the levels of the blocks are known, trials may go to any treatment;
- :func:`blocked`: they are not, and a block holds each treatment once at most.  T* is then an
  optimal design over all subsets of the treatments; what is given back is certified from below.

Where a *clear* winner leaves one right answer (gap > margin), both are proven bounds.  Elsewhere
several answers are right, the bound holds in the limit of small δ and for rules that compare each
treatment with a kept one; of all treatments that may be kept the one with the smallest bound is
taken.

References:
    A. Garivier and E. Kaufmann (2016), Optimal best arm identification with fixed confidence,
    COLT, PMLR 49, 998-1027 (T*, kl).
    R. Degenne and W. M. Koolen (2019), Pure exploration with multiple correct answers, NeurIPS 32.
    M. Jourdan, R. Degenne and E. Kaufmann (2023), Dealing with unknown variances in best-arm
    identification, ALT, PMLR 201, 776-849 (log(1 + d²) in the place of d²).
    F. Pukelsheim (1993), *Optimal Design of Experiments*, chapters 2 and 7 (the certificate is its
    equivalence theorem for a mixture of criteria).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from _decide_truths import Case, Floats
from scipy.optimize import brentq, linprog, minimize
from scipy.special import ndtr

from iotrial.stats.critical import average_over_sd, root
from iotrial.stats.power import excludes, within

CONFIDENCE = 0.95
POWER = 0.95
ROUNDS, CUTS = 6, 16
CLOSE = 1.003
"""A certificate this near the best design that was found is good enough."""


@lru_cache
def fixed_blocks(size: int, noise: float, room: float) -> int:
    """The blocks of a fixed grid of ``size`` equally noisy treatments: two-sided Dunnett intervals
    with a family-wise error of 5 %, and a power of 95 % for *better* at a difference of ``room``
    and for *same* at none."""

    def enough(blocks: int) -> bool:
        df = (blocks - 1) * (size - 1)
        shift = room / (noise * math.sqrt(2 / blocks))
        critical = dunnett(size, df)
        return min(excludes(shift, critical, df, 0), within(shift, critical, df, 0)) >= POWER

    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache
def dunnett(size: int, df: int) -> float:
    """The critical value of ``size`` treatments against one of them, noise pooled (1955)."""
    s, weights = average_over_sd(df)
    u = np.linspace(-8.5, 8.5, 401)
    density = np.exp(-(u**2) / 2)
    density /= density.sum()

    def short(c: float) -> float:
        reach = c * math.sqrt(2) * s[:, None]
        inside = (ndtr(u + reach) - ndtr(u - reach)) ** (size - 1)
        return float(weights @ (inside @ density)) - CONFIDENCE

    return root(short, 1.0, 100.0, within=1e-7)


@lru_cache
def nats(confidence: float) -> float:
    """kl(1 - δ, δ/2): 3.31 at 95 %."""
    error = 1 - confidence
    wrong = error / 2
    return confidence * math.log(confidence / wrong) + error * math.log(error / (1 - wrong))


def least_trials(case: Case) -> tuple[float, float]:
    """The bound for a race of this case at 95 % confidence; and the same where, as everywhere in
    practice, the size of the noise is not known either.  At least one whole block.

    With unknown noise, N trials in which the nearest wrong truth shows d² / 2 nats in all with
    the noise known show N/2 log(1 + d²/N).
    """
    size, needed = len(case.truth), nats(CONFIDENCE)
    per_nat = _per_nat(case) * case.noise**2
    unknown = needed / (0.5 * math.log1p(2 / per_nat))
    return max(per_nat * needed, float(size)), max(unknown, float(size))


def _per_nat(case: Case) -> float:
    """T* at a noise of 1, of the treatment that may be kept with the smallest."""
    truth = np.array(case.truth)
    gaps = truth.max() - truth
    kept = np.flatnonzero(gaps <= case.room).tolist()
    found = [_distances(truth, each, case.room) for each in kept]
    small = len(truth) / (nats(CONFIDENCE) * case.noise**2)
    least = math.inf
    for distances in sorted(found, key=free):
        below = free(distances)
        if below >= least:
            break
        # Far below one block it does not matter (pairs alone would do with four times as many).
        if 4 * below > small:
            below = max(below, blocked(distances))
        least = min(least, below)
    return least


def _distances(truth: Floats, kept: int, room: float) -> tuple[float, ...]:
    """Of all but the kept one, rising.  Rounded, so that equal ones are found again."""
    to_worse = truth.max() - truth
    to_same = room - np.abs(truth - truth[kept])
    each = np.delete(np.maximum(to_worse, to_same), kept)
    return tuple(np.sort(np.round(each, 9)).tolist())


@lru_cache(maxsize=4096)
def free(distances: tuple[float, ...]) -> float:
    """T* of trials that share no unknown level, at a noise of 1.

    With x trials of the kept one and y of another, d²/2 / (1/x + 1/y) nats; 1 for each, and the
    smallest sum.
    """
    half_squares = np.array(distances) ** 2 / 2
    least = 1 / half_squares.min()

    def slope(x: float) -> float:
        return float((1 / (half_squares * x - 1) ** 2).sum()) - 1

    x = brentq(slope, least * (1 + 1e-9), least * (2 + math.sqrt(len(distances))))
    return float(x + (1 / (half_squares - 1 / x)).sum())


@lru_cache(maxsize=4096)
def blocked(distances: tuple[float, ...]) -> float:
    """T* of trials in blocks of unknown level, each treatment once a block at most, at a noise of
    1; never above the truth, and mostly within a few parts of a thousand of it.

    A design w says which share of the trials goes to blocks of each subset S.  Its information
    matrix is M(w) = Σ w_S M_S; v_i(w) = 2 c_i' M⁻ c_i / d_i² trials show comparison i with one
    nat; T* is the smallest max_i v_i.  For any weights λ of the comparisons φ = Σ λ_i v_i is
    convex in w and homogeneous of degree -1, so that no design is below φ(w)² / max_S -∂φ/∂w_S:
    the certificate.  Subsets that break it join the design.
    """
    size = len(distances) + 1
    d = np.array(distances) / distances[0]
    members, sizes = _subsets(size)
    chosen = np.array([np.arange(size) <= last for last in range(1, size)]).astype(float)
    certified = 0.0
    for _ in range(ROUNDS):
        matrices = _information(chosen)
        shares = _design(matrices, d)
        trials, parts = _comparisons(shares, matrices, d)
        best = float(trials.max())
        tight = np.flatnonzero(trials > best * (1 - 1e-3))
        parts, scale = parts[tight], 2 / d[tight] ** 2
        for _ in range(CUTS):
            weights = _weights(_gain(matrices, parts, scale))
            squared = members @ (parts**2 * (weights * scale)[:, None]).sum(axis=0)
            gain = (squared - (members @ parts.T) ** 2 @ (weights * scale) / sizes) / sizes
            top = int(gain.argmax())
            certified = max(certified, float(weights @ trials[tight]) ** 2 / float(gain[top]))
            if best <= certified * CLOSE or (chosen == members[top]).all(axis=1).any():
                break
            chosen = np.vstack((chosen, members[top]))
            matrices = _information(chosen)
        if best <= certified * CLOSE:
            break
    return certified / distances[0] ** 2


@lru_cache
def _subsets(size: int) -> tuple[Floats, Floats]:
    """Every subset of two treatments or more, as zeros and ones, and how many it holds."""
    bits = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1
    count = bits.sum(axis=1)
    return bits[count > 1].astype(float), count[count > 1].astype(float)


def _information(chosen: Floats) -> Floats:
    """M_S of each chosen subset: of one trial, with the block's level eliminated."""
    count = chosen.sum(axis=1)[:, None, None]
    each = chosen[:, :, None] * np.eye(chosen.shape[1])
    both = chosen[:, :, None] * chosen[:, None, :]
    return np.asarray((each - both / count) / count)


def _gain(matrices: Floats, parts: Floats, scale: Floats) -> Floats:
    """-∂v_i/∂w_S: (subsets, comparisons)."""
    return np.asarray(np.einsum("ik,skl,il->si", parts, matrices, parts) * scale)


def _comparisons(shares: Floats, matrices: Floats, d: Floats) -> tuple[Floats, Floats]:
    """v_i, and the rows c_i' M⁻."""
    size = matrices.shape[1]
    contrasts = np.c_[np.ones(size - 1), -np.eye(size - 1)]
    parts = contrasts @ np.linalg.inv(np.tensordot(shares, matrices, 1) + 1 / size)
    return (parts * contrasts).sum(axis=1) * 2 / d**2, parts


def _design(matrices: Floats, d: Floats) -> Floats:
    """The shares with the smallest max_i v_i, nearly (the certificate tells how nearly)."""
    count = len(matrices)
    start = np.full(count, 1 / count)
    unit = _comparisons(start, matrices, d)[0].max()

    def room(z: Floats) -> Floats:
        return z[-1] - _comparisons(np.maximum(z[:-1], 1e-9), matrices, d)[0] / unit

    def room_slope(z: Floats) -> Floats:
        parts = _comparisons(np.maximum(z[:-1], 1e-9), matrices, d)[1]
        return np.c_[_gain(matrices, parts, 2 / d**2).T / unit, np.ones(len(d))]

    found = minimize(
        lambda z: z[-1],
        np.r_[start, 1.0],
        jac=lambda z: np.r_[np.zeros(len(z) - 1), 1.0],
        bounds=[(1e-7, 1)] * count + [(0, None)],
        constraints=[
            {"type": "ineq", "fun": room, "jac": room_slope},
            {
                "type": "eq",
                "fun": lambda z: z[:-1].sum() - 1,
                "jac": lambda z: np.r_[np.ones(len(z) - 1), 0.0],
            },
        ],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-9},
    )
    shares = np.maximum(found.x[:-1], 1e-9)
    return np.asarray(shares / shares.sum())


def _weights(gains: Floats) -> Floats:
    """λ with the smallest largest gain over the chosen subsets: a linear programme."""
    rows, count = gains.shape
    found = linprog(
        np.r_[np.zeros(count), 1],
        A_ub=np.c_[gains, -np.ones(rows)],
        b_ub=np.zeros(rows),
        A_eq=[np.r_[np.ones(count), 0]],
        b_eq=[1],
        bounds=[(0, None)] * count + [(None, None)],
    )
    return np.asarray(found.x[:-1])
