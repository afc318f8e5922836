"""What a stage keeps of a factor: the range that may hold the best, the best, or the knee.

All three read the intervals of :mod:`iotrial.stats.pairwise` (the knee those of
:mod:`iotrial.stats.knee`), in every workload of the stage.

``narrow``
    A level goes when another was shown to be better by more than the margin, in any workload.
    Whatever may be within the margin of the best stays, and so does what lies between two
    numbers that stay.  Where workloads rule out everything, each keeps its own.
``best``
    The baseline is left only for a level that was shown to be better in some workload and worse
    in none, and that breaks no guardrail.  Of the levels that are the same as that one, the first
    is taken.  Without the baseline among the levels the best on average is taken.
``knee``
    The smallest number that is as good as the best in every workload; a baseline that is no
    number (``unset``) stays where it is as good itself.

A tie is no reason to change: it keeps the baseline, else takes the smallest or first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iotrial.model.stage import Kept, Then
from iotrial.stats.knee import Step, knee, steps
from iotrial.stats.pairwise import Judged
from iotrial.units import format_change


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a factor in a stage.  ``labels`` are the levels tried, in order; ``order``
    those that are numbers, ascending; ``baseline`` '' where it is not among them; ``broken`` the
    levels that broke a guardrail; ``workloads`` (name, pairs)."""

    factor: str
    labels: tuple[str, ...]
    order: tuple[str, ...]
    baseline: str
    broken: frozenset[str]
    workloads: tuple[tuple[str, Judged], ...]
    margin: float
    confidence: float


def decide(case: Case, then: Then) -> Kept:
    """What is kept; for ``narrow``, ``best`` and ``knee``."""
    ways: dict[str, Callable[[Case], Kept]] = {"narrow": _narrow, "best": _best, "knee": _knee}
    return ways[then](case)


def _narrow(case: Case) -> Kept:
    own = {
        name: {label for label in case.labels if not _beyond(judged, label)}
        for name, judged in case.workloads
    }
    left = [label for label in case.labels if all(label in kept for kept in own.values())]
    disagree = not left
    if disagree:
        left = [label for label in case.labels if any(label in kept for kept in own.values())]
    left = _between(case, left)
    gone = [label for label in case.labels if label not in left]
    why = "no level was shown to be worse than the best by more than the margin"
    if gone:
        why = f"{listed(gone)} shown to be worse than the best by more than the margin"
    if disagree:
        why = f"the workloads disagree, and each keeps its own: {why}"
    stands = (
        case.baseline if case.baseline in left else _ties(case, _ranked(case, left)[0], left)[0]
    )
    return Kept(case.factor, case.labels, tuple(left), stands, why)


def _beyond(judged: Judged, label: str) -> bool:
    return label in judged.pairs.labels and judged.beyond(label)


def _between(case: Case, left: Sequence[str]) -> list[str]:
    """With all numbers that lie between two that are left."""
    places = [at for at, label in enumerate(case.order) if label in left]
    inside = case.order[min(places) : max(places) + 1] if places else ()
    return [label for label in case.labels if label in left or label in inside]


def _best(case: Case) -> Kept:
    able = [label for label in case.labels if label not in case.broken]
    ranked = _ranked(case, able)
    if not case.baseline:
        if not ranked:
            ranked = _ranked(case, case.labels)
        return _won(case, ranked[0], able, "best on average")
    for label in ranked:
        verdicts = {judged.verdict(label, case.baseline) for _, judged in case.workloads}
        if "better" in verdicts and "worse" not in verdicts:
            return _won(case, label, able, _gains(case, label))
    return _kept(case, case.baseline, _reason(case, ranked))


def _won(case: Case, best: str, able: Sequence[str], why: str) -> Kept:
    """``best``, or the first of those that are the same in every workload."""
    first = _ties(case, best, [label for label in able if label != case.baseline])[0]
    if first != best:
        why = f"same as {best} within the margin, and the first of these; {best}: {why}"
    return _kept(case, first, why)


def _ties(case: Case, best: str, labels: Sequence[str]) -> list[str]:
    """``best`` and the ``labels`` that are the same as it in every workload, in order."""
    return [
        label
        for label in labels
        if label == best
        or all(judged.verdict(label, best) == "same" for _, judged in case.workloads)
    ] or [best]


def _gains(case: Case, label: str) -> str:
    told = []
    for name, judged in case.workloads:
        if judged.verdict(label, case.baseline) == "better":
            ratio, low, high = judged.words(label, case.baseline)
            ends = f"{format_change(low)} … {format_change(high)}"
            told.append(f"{name} better by {format_change(ratio)} ({ends})")
    return f"{', '.join(told)} than {case.baseline}"


def _reason(case: Case, ranked: Sequence[str]) -> str:
    """Why the baseline stays."""
    others = [label for label in ranked if label != case.baseline]
    verdicts = {
        judged.verdict(label, case.baseline) for label in others for _, judged in case.workloads
    }
    if any(
        judged.verdict(label, case.baseline) == "better"
        for label in case.labels
        for _, judged in case.workloads
    ):
        return "nothing is better in one workload without being worse in another, or in a guardrail"
    if not verdicts:
        return "nothing could be compared: no trials gave the number that decides"
    if verdicts <= {"same"}:
        return "all are the same within the margin: no reason to change"
    if "cannot-tell" in verdicts:
        return "nothing was shown to be better; some levels cannot be told"
    return "nothing was shown to be better"


def _knee(case: Case) -> Kept:
    share = case.confidence ** (1 / max(1, len(case.workloads)))
    found = {
        name: steps(judged.pairs, _order(case), case.margin, share)
        for name, judged in case.workloads
    }
    good = {
        label
        for label in case.labels
        if found and all(label in _as_good(each) for each in found.values())
    } - case.broken
    if case.baseline in good and case.baseline not in case.order:
        return _kept(case, case.baseline, "as good as the best: no reason to change")
    smallest = next((label for label in case.order if label in good), "")
    if smallest:
        lows = [step.low for each in found.values() for step in each if step.level == smallest]
        why = f"the smallest as good as the best: at most {format_change(min(*lows, 1.0))} from it"
        if len(lows) == 1 and knee(next(iter(found.values()))) != smallest:
            why += "; a smaller one breaks a guardrail"
        return _kept(case, smallest, why)
    left = [label for label in case.labels if label not in case.broken]
    fine = [n for n in left if not any(_beyond(judged, n) for _, judged in case.workloads)]
    stands = case.baseline if case.baseline in fine else (_ranked(case, fine or left) or left)[0]
    return _kept(case, stands, "no level was shown to be as good as the best: more blocks would")


def _order(case: Case) -> tuple[str, ...]:
    """Ascending; what is no number comes before all numbers, hence is tested last."""
    return (*(label for label in case.labels if label not in case.order), *case.order)


def _as_good(found: Sequence[Step]) -> set[str]:
    return {step.level for step in found if step.as_good}


def _ranked(case: Case, labels: Sequence[str]) -> list[str]:
    """The best on average over the workloads first; levels without data last."""
    means = [judged.pairs.mean() for _, judged in case.workloads]

    def total(label: str) -> float:
        return -sum(mean.get(label, -1e9) for mean in means)

    return sorted(labels, key=total)


def _kept(case: Case, stands: str, why: str) -> Kept:
    return Kept(case.factor, case.labels, (stands,), stands, why)


def listed(labels: Sequence[str], most: int = 6) -> str:
    """``20480, 24576 and 8 more``."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more
