"""Does one trial lie apart from all others?  A doubt, ``outlier``, names it.

One trial that was hit by something (a pause of the machine, a reset of the device) can be most of
the noise of a study: every interval is wider for it.  So each residual of log response = block +
treatment is held against the spread of the *others*: divided by its own standard error, with the
standard deviation that is left when the trial is left out (externally studentized).  Without
outliers that is Student's t.  The largest of n is judged at 1/n of the level (Bonferroni).  Two
outliers hide each other; so the most extreme one is left out and the next is looked for, up to
a tenth of the trials, and all up to the last that stands out are named (Rosner).

Nothing is left out of any verdict: a slow trial may be what the device does now and then.

References:
    R. D. Cook and S. Weisberg (1982), *Residuals and Influence in Regression*, 2.2.2 (outliers,
    externally studentized residuals, Bonferroni).
    B. Rosner (1983), Percentage points for a generalized ESD many-outlier procedure,
    Technometrics 25, 165-172.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.stats.blocks import ARITHMETIC, Floats, Indices, Layout
from iotrial.stats.method import noise_text
from iotrial.stats.responses import Responses, counted, responses
from iotrial.stats.unequal_noise import residuals
from iotrial.units import format_change

LEVEL = 0.01
"""Of a study: one without outliers is doubted in about 1 % of cases."""
LEAST_DF = 4
"""Residual degrees of freedom below which no trial could stand out."""
SHARE = 0.1
"""Of the trials, so many are looked for at most; and :data:`MOST`."""
MOST = 10
_NAMED = 3
_MIRROR = 1e-6
"""Two residuals of a block of two mirror each other up to rounding."""


@dataclass(frozen=True, slots=True)
class Outlier:
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
    study, by_workload = results.study, counted(results)
    level = LEVEL / max(len(study.decide.primary), 1)
    for workload, metric in study.decide.primary:
        data = responses(by_workload.get(workload, ()), metric, study)
        if not data.trials:
            continue
        found, before, after = outliers(data.layout, data.logs, level)
        if found:
            told = "; ".join(_told(data, each) for each in found[:_NAMED])
            more = len(found) - _NAMED
            yield Doubt(
                "outlier",
                f"{workload}: {told}{f'; and {more} more' if more > 0 else ''}. The noise of one "
                f"trial is {noise_text(before)} with and {noise_text(after)} without "
                f"{'it' if len(found) == 1 else 'them'}",
                "look into the folders of these trials (their telemetry and doubts) for what hit "
                "them. If it was not the device, find it and repeat the study; if it was, the "
                "device does that, and the noise is real. No verdict leaves them out",
            )


def _told(data: Responses, found: Outlier) -> str:
    name = f"trial {data.trials[found.trial].number}"
    if found.mirror is not None:
        name += f" or {data.trials[found.mirror].number}, its only companion in the block,"
    else:
        treatment = data.cells[int(data.layout.cell[found.trial])]
        name += f" ({treatment_text(treatment)})" if treatment else ""
    change = format_change(math.exp(found.away))
    return f"{name} lies {change} from what the others lead to expect, {found.errors:.0f} sd"


def outliers(layout: Layout, logs: Floats, level: float) -> tuple[list[Outlier], float, float]:
    """The trials that lie apart, the most extreme first; the standard deviation of one trial with
    them and without.  No trial and nan where there are too few to tell."""
    left = np.arange(len(logs))
    found: list[Outlier] = []
    spreads: list[float] = []
    last = 0
    for _ in range(min(MOST, max(1, int(SHARE * len(logs)))) + 1):
        most, spread = _most_extreme(layout.block[left], layout.cell[left], logs[left])
        if most is None:
            break
        spreads.append(spread)
        mirror = None if most.mirror is None else int(left[most.mirror])
        found.append(Outlier(int(left[most.trial]), most.away, most.errors, most.p, mirror))
        left = np.delete(left, most.trial)
        last = len(found) if most.p <= level else last
    last = min(last, len(spreads) - 1)
    if last < 1:
        return [], math.nan, math.nan
    return found[:last], spreads[0], spreads[last]


def _most_extreme(block: Indices, cell: Indices, logs: Floats) -> tuple[Outlier | None, float]:
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
    return Outlier(most, float(away[most]), float(errors[most]), p, mirror), spread


def leverage(block: Indices, cell: Indices) -> Floats:
    """Of each observation in the model block + cell, (observations,): the diagonal of the hat
    matrix.  Indices count from 0 without gaps."""
    seen = Layout(block, cell).incidence
    sizes = seen.sum(axis=1)
    information = np.diag(seen.sum(axis=0)) - seen.T @ (seen / sizes[:, None])
    inverse = np.linalg.pinv(information, hermitian=True)
    by_block = seen @ inverse / sizes[:, None]
    within = (by_block * seen).sum(axis=1) / sizes
    own = np.diag(inverse)[cell] - 2 * by_block[block, cell] + within[block]
    return np.asarray(1 / sizes[block] + own)
