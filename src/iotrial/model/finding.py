"""Finding: effect, interval, verdict, the trials behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["better", "worse", "same", "cannot-tell"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` of ``factor`` against ``baseline``, for one workload and metric.

    ``ratio`` is the geometric-mean ratio level / baseline, ``low`` and ``high`` the ends of its
    simultaneous interval at the study's confidence (None where no interval exists: one block).
    ``n`` is the number of blocks behind it; ``trials`` the folders.  ``primary`` is False for a
    guardrail, whose interval is one comparison's own.  ``noise`` is the standard deviation of one
    trial on the log scale (None where unknown).  ``bound`` says on which side of the ratio the
    truth lies, where one of the two values is censored; where both are, the ratio is nan.
    """

    workload: str
    metric: str
    factor: str
    level: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verdict: Verdict
    n: int
    trials: tuple[str, ...] = ()
    primary: bool = True
    noise: float | None = None
    bound: Literal["", "high", "low"] = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All findings of a study, and what they amount to.

    ``recommendation`` answers the question in words.  ``method`` says how the intervals were
    made (design, n, confidence, family), so that no number stands without its terms.
    ``resolvable`` maps a workload to the smallest relative difference the data could have told.
    """

    question: str
    findings: tuple[Finding, ...]
    recommendation: str
    method: str
    resolvable: tuple[tuple[str, float], ...] = ()
