"""The noise floor: what differs between trials of one and the same treatment.

From an A/A study, whose arms are identical, so that block + error is the whole model of a log
response.  Per workload: the standard deviation of a trial within its block (what decides how many
blocks a comparison needs) and of blocks (which cancels), drift over time, likeness of neighbours,
and whether the first trial was an odd one.

The noise floor is for planning.  No verdict uses it: each study measures its own noise.

References:
    W. G. Cochran and G. M. Cox (1957), *Experimental Designs*, 2nd ed., 4.2 (blocks).
    J. S. Williams (1962), A confidence interval for variance components, Biometrika 49, 278-281
    (between blocks; n0 of unequal blocks as in S. R. Searle (1971), *Linear Models*, 10.3).
    N. R. Draper and H. Smith (1998), *Applied Regression Analysis*, 3rd ed., 1.4 (slope).
    The chi-square interval of a variance is in any textbook; it needs normal logarithms.
    Rank test and autocorrelation as in :mod:`iotrial.stats.summary`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, stdtr, stdtrit

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.stats.blocks import ARITHMETIC, Floats
from iotrial.stats.power import blocks_needed, resolvable
from iotrial.stats.responses import Responses, counted, responses
from iotrial.stats.summary import autocorrelation, spearman

CONFIDENCE = 0.95
DIFFERENCES = (0.01, 0.02, 0.05, 0.10)
"""What people ask about: 1, 2, 5 and 10 %."""
FEWEST_BLOCKS = 3
"""Of a study that anybody should believe."""
FEWEST = 4
"""Trials below which drift, neighbours and the first trial are not spoken of."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation on the log scale with its 95 % interval, and its degrees of freedom."""

    sd: float
    low: float
    high: float
    df: int


@dataclass(frozen=True, slots=True)
class Drift:
    """Change of the log response per hour with its 95 % interval, seen over ``hours``; Spearman's
    ``rho`` with the order of execution and its ``p``."""

    hourly: float
    low: float
    high: float
    hours: float
    rho: float
    p: float


@dataclass(frozen=True, slots=True)
class Odd:
    """The first trial: how many times the others' mean it is, and ``p`` that one of them is so
    far off."""

    ratio: float
    p: float


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise of one workload's primary metric.  ``between`` is None for one block, ``drift``,
    ``lag`` (autocorrelation of what the drift leaves, and its p) and ``first`` where there are
    too few trials.  ``seconds`` is the usual wall time of one trial."""

    workload: str
    metric: str
    trials: int
    blocks: int
    seconds: float
    within: Spread
    between: Spread | None = None
    drift: Drift | None = None
    lag: tuple[float, float] | None = None
    first: Odd | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """What it takes to tell ``difference``: ``blocks`` and ``seconds`` in all, with the noise as
    estimated; ``most`` blocks, with it as large as its interval allows (None: never)."""

    difference: float
    blocks: int | None
    most: int | None
    seconds: float


def floors(results: Results) -> tuple[Floor, ...]:
    """The noise floor of every workload whose blocks hold more than one trial of it."""
    by_workload, metrics = counted(results), dict(results.study.decide.primary)
    times = {record.trial.number: record for record in results.records}
    found = []
    for workload in (each.name for each in results.study.workloads if each.name in metrics):
        data = responses(by_workload[workload], metrics[workload], results.study)
        spread = within(data)
        if spread is None:
            continue
        order = np.argsort([trial.number for trial in data.trials])
        records = [times[data.trials[at].number] for at in order]
        started = np.array([record.started for record in records])
        logs = data.logs[order]
        enough = len(logs) >= FEWEST and float(np.ptp(logs)) > ARITHMETIC
        found.append(
            Floor(
                workload=workload,
                metric=data.metric,
                trials=len(logs),
                blocks=int(data.layout.block.max()) + 1,
                seconds=float(np.median([record.seconds for record in records])),
                within=spread,
                between=between(data, spread),
                drift=drift(started, logs) if enough else None,
                lag=autocorrelation(_level(started, logs)) if enough else None,
                first=first(logs) if enough else None,
            )
        )
    return tuple(found)


def within(data: Responses) -> Spread | None:
    """Of trials within blocks; None where no block has two."""
    if not len(data.logs):
        return None
    counts = np.bincount(data.layout.block)
    means = np.bincount(data.layout.block, data.logs) / counts
    df = len(data.logs) - len(counts)
    if not df:
        return None
    squares = float(((data.logs - means[data.layout.block]) ** 2).sum())
    return spread(squares, df)


def spread(squares: float, df: int, confidence: float = CONFIDENCE) -> Spread:
    """From a sum of squares with ``df`` > 0 degrees of freedom, by chi-square."""
    tail = (1 - confidence) / 2
    low, high = (math.sqrt(squares / float(chdtri(df, at))) for at in (tail, 1 - tail))
    return Spread(math.sqrt(squares / df), low, high, df)


def between(data: Responses, inside: Spread) -> Spread | None:
    """Of blocks, what the trials within them explain taken off; None for one block."""
    counts = np.bincount(data.layout.block)
    df = len(counts) - 1
    if not df:
        return None
    means = np.bincount(data.layout.block, data.logs) / counts
    squares = float((counts * (means - data.logs.mean()) ** 2).sum())
    size = (len(data.logs) - float((counts**2).sum()) / len(data.logs)) / df
    error = inside.sd**2
    if error <= ARITHMETIC**2:
        plain = spread(squares / size, df)
        return Spread(plain.sd, plain.low, plain.high, df)
    ratio = squares / df / error
    tail = (1 - CONFIDENCE) / 2
    ends = []
    for at in (1 - tail, tail):
        explained = float(fdtri(df, inside.df, at)) / max(ratio, ARITHMETIC)
        scale = size * float(chdtri(df, 1 - at))
        ends.append(math.sqrt(max(0.0, squares * (1 - explained)) / scale))
    estimate = math.sqrt(max(0.0, squares / df - error) / size)
    return Spread(estimate, ends[0], ends[1], df)


def drift(started: Floats, logs: Floats) -> Drift:
    """Of ``logs`` in the order of execution, begun at ``started`` (seconds)."""
    n = len(logs)
    hours = (started - started.mean()) / _HOUR
    total = float(hours @ hours)
    rho, p = spearman(logs)
    lasted = float(np.ptp(hours))
    if not total:
        return Drift(0.0, -math.inf, math.inf, lasted, rho, p)
    slope = float(hours @ logs) / total
    rest = _level(started, logs)
    error = math.sqrt(float(rest @ rest) / (n - 2) / total)
    half = float(stdtrit(n - 2, (1 + CONFIDENCE) / 2)) * error
    return Drift(slope, slope - half, slope + half, lasted, rho, p)


def _level(started: Floats, logs: Floats) -> Floats:
    """What a straight line over time leaves."""
    hours = started - started.mean()
    centred = logs - logs.mean()
    total = float(hours @ hours)
    return np.asarray(centred - hours * (float(hours @ centred) / total) if total else centred)


def first(logs: Floats) -> Odd:
    """The first of them against the others: a prediction interval turned round."""
    rest = logs[1:]
    away = float(logs[0] - rest.mean())
    error = float(rest.std(ddof=1)) * math.sqrt(1 + 1 / len(rest))
    if error <= ARITHMETIC:
        return Odd(math.exp(away), 0.0 if abs(away) > ARITHMETIC else 1.0)
    return Odd(math.exp(away), float(2 * stdtr(len(rest) - 1, -abs(away) / error)))


def efforts(floor: Floor, *, cells: int, comparisons: int, confidence: float) -> tuple[Effort, ...]:
    """What each of :data:`DIFFERENCES` takes in a study of ``cells`` treatments of this workload
    and ``comparisons`` in all; empty where nothing is compared."""
    if cells < 2 or not comparisons:  # noqa: PLR2004 (nothing to compare)
        return ()

    def blocks(difference: float, sd: float) -> int | None:
        return blocks_needed(difference, sd, cells, comparisons, confidence)

    found = []
    for each in DIFFERENCES:
        usual, most = blocks(each, floor.within.sd), blocks(each, floor.within.high)
        seconds = usual * cells * floor.seconds if usual else math.inf
        found.append(Effort(each, usual, most, seconds))
    return tuple(found)


def enough(margin: float, *, cells: int, comparisons: int, confidence: float) -> float:
    """The standard deviation of a trial with which :data:`FEWEST_BLOCKS` tell ``margin``; 0 where
    nothing is compared."""
    least = resolvable(margin, FEWEST_BLOCKS, cells, comparisons, confidence) if margin else 0.0
    # The difference is exp(sd times a factor) - 1.
    return margin * math.log1p(margin) / math.log1p(least) if least else 0.0


def arm_doubts(findings: tuple[Finding, ...], confidence: float) -> Iterator[Doubt]:
    """Arms of an A/A study that came out different: identical things cannot be."""
    for finding in findings:
        if finding.verdict in ("better", "worse"):
            change = f"{finding.ratio - 1:+.2%}"
            yield Doubt(
                "a-a-differs",
                f"{finding.workload}: {finding.level} and {finding.baseline} are the same, and "
                f"{finding.metric} comes out {finding.verdict} by {change}",
                f"chance does so in {1 - confidence:.0%} of A/A studies: run it again; if it stays,"
                " trials within a block are not alike (order, carry-over, a device that changes),"
                " and no verdict on this machine is safe",
            )
