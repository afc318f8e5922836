"""Diagnostics: what makes a study as a whole less believable.

Adding one is adding a row to :data:`DIAGNOSTICS`.  What a load can show by itself is a check of
:mod:`iotrial.validity`; those that need all trials of a study but no finding of it are there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from iotrial import validity
from iotrial.judgement.noise import warmup_doubts
from iotrial.model.finding import Comparison
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.stats.assumptions import noise_doubts, outlier_doubts, rank_doubts
from iotrial.stats.effects import interaction_doubts
from iotrial.stats.host_effects import host_doubts
from iotrial.stats.noise import arm_doubts
from iotrial.stats.paired import alone
from iotrial.stats.responses import drift_doubts

Doubts = Callable[[Results, Comparison], Iterable[Doubt]]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """``looks_at`` says what it decides from; ``recorded``: it is of runs that iotrial did not do,
    and the others are not."""

    name: str
    looks_at: str
    doubts: Doubts
    recorded: bool = False


def _of_results(doubts: Callable[[Results], Iterable[Doubt]]) -> Doubts:
    return lambda results, _comparison: doubts(results)


def _interactions(results: Results, comparison: Comparison) -> Iterable[Doubt]:
    return interaction_doubts(comparison.interactions, comparison.simple, results.study.decide)


def _arms(results: Results, comparison: Comparison) -> Iterable[Doubt]:
    if results.study.aa is None:
        return ()
    return arm_doubts(comparison.findings, results.study.decide.confidence)


DIAGNOSTICS: tuple[Diagnostic, ...] = (
    Diagnostic("hosts", "differences between blocks on several hosts", _of_results(host_doubts)),
    Diagnostic("drift", "drift of the response over time", _of_results(drift_doubts)),
    Diagnostic(
        "ranks",
        "agreement with a rank test",
        lambda results, comparison: rank_doubts(results, comparison.findings),
    ),
    Diagnostic(
        "unequal noise", "noise of each treatment against the others", _of_results(noise_doubts)
    ),
    Diagnostic("outliers", "outliers", _of_results(outlier_doubts)),
    Diagnostic("warm-up", "steady state of the measured rates", _of_results(warmup_doubts)),
    Diagnostic("validity", "validity checks", _of_results(validity.of_study)),
    Diagnostic("interactions", "averages that hide opposite effects", _interactions),
    Diagnostic("arms", "differences between identical arms (A/A)", _arms),
    Diagnostic(
        "alone",
        "results without a repeat or a counterpart",
        lambda results, comparison: alone(results, comparison.findings),
        recorded=True,
    ),
)


def diagnosed(results: Results, comparison: Comparison) -> Iterator[Doubt]:
    """The doubts of every diagnostic that looks at results of this kind."""
    recorded = results.study.design.kind == "recorded"
    for each in DIAGNOSTICS:
        if each.recorded is recorded:
            yield from each.doubts(results, comparison)
