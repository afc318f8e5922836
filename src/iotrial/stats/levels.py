"""Levels of one factor: all pairs of them, the knee, and what a stage keeps.

*All pairs*: who is better than whom, and how surely.  A stage of a staged study asks for the best
level, and the best is not known beforehand.  So every level is compared with every other, by main
effects as in :mod:`iotrial.stats.judge`, and the intervals hold for all pairs at once: whichever
level comes out best, its comparisons are among them.  The critical values are those of all pairs
whichever level is noisier (:mod:`iotrial.stats.unequal`).

*The knee*: the smallest level of an ordered factor that is as good as the best.  Many settings help
up to a point and then no more: more asynchronous writes, deeper queues, longer read-ahead.  Beyond
the knee more costs (memory, latency) and gives nothing.  A level is *as good as the best* when no
level is better than it by more than the margin; whether the others above it are better, worse or
wavy does not matter.

Level k is shown to be as good when, against every other level j, the lower confidence bound of
its gain is above minus the margin.  "Some j is better by more" is a union of hypotheses, so each
comparison may be made at the full level α of the hypothesis, without a share for each j (the
intersection-union principle).  Over the levels, tests go from the top downwards.  A strict order
would stop at the first level that fails, which is the top itself where the curve falls again.  So
the fallback procedure is used: half of α belongs to the top level, the other half is spread
evenly over the rest, and a level that passes hands all it had on to the next one below.  On the
usual plateau hardly anything is lost to the strict order; elsewhere each level has its own share.
The probability that any level is wrongly called as good as the best is at most α, whatever the
shape of the curve, and so is that of a knee that is too small.

The knees of a study hold together apart from its other claims: each gets its share of the
confidence by its number of pairs, among all pairs of all factors, as in a stage.  Of a race the
knee is read from the race's own intervals.  They hold at all looks at once for all treatments
against any one, hence also against the one that is truly best: a level whose lower ends against
*all* others are above minus the margin is as good, with no more error than the race's.  An interval
against a level that was dropped stays as it was when both were measured last.  Where several
factors race together there are no main effects, and no knee.

*What a stage keeps*, by these intervals in every workload of the stage:

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

References:
    J. W. Tukey (1953), The problem of multiple comparisons (all pairs; unpublished memorandum, in
    *Collected Works* VIII).
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144.
    R. L. Berger (1982), Multiparameter hypothesis testing and acceptance sampling, Technometrics
    24, 295-300 (intersection-union).
    J. C. Hsu and R. L. Berger (1999), Stepwise confidence intervals without multiplicity
    adjustment for dose-response and toxicity studies, JASA 94, 468-482 (stepping down a dose).
    B. L. Wiens and A. Dmitrienko (2005), The fallback procedure for evaluating a single family of
    hypotheses, Journal of Biopharmaceutical Statistics 15, 929-942.
    D. J. Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680 (margins).
    W. Maurer and F. Bretz (2013), Multiple testing in group sequential trials using graphical
    approaches, Statistics in Biopharmaceutical Research 5, 311-320 (a share that is handed on is
    spent over the looks as if it had been there from the first).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iotrial.model.finding import Finding, Knee, KneeLevel, Verdict
from iotrial.model.results import Results
from iotrial.model.study import Factor, StageDecision, Then, ordered
from iotrial.stats import effects as compared
from iotrial.stats import unequal
from iotrial.stats.blocks import Floats, by_stratum, fit_in, whole_plots
from iotrial.stats.critical import ONCE, Look, tails_at
from iotrial.stats.effects import CellContrast, comparisons
from iotrial.stats.race import WorkloadRace
from iotrial.stats.responses import asked, look_of, responses_of
from iotrial.units import format_change


@dataclass(frozen=True, slots=True)
class PairwiseGains:
    """``gain`` (levels, levels) is how much better the row's level is than the column's, on the
    log scale: positive is better, whatever the metric; ``error`` its standard error, ``df`` the
    degrees of freedom of that.  nan, with 0 degrees of freedom, where two levels were never
    compared or nothing is known of their noise.  ``blocks`` is the number of blocks."""

    labels: tuple[str, ...]
    gain: Floats
    error: Floats
    df: Floats
    blocks: int = 0

    @property
    def known(self) -> bool:
        """Whether of any pair the noise is known."""
        return bool((self.df >= 1).any())

    @property
    def count(self) -> int:
        """How many comparisons there are."""
        return len(self.labels) * (len(self.labels) - 1) // 2

    def mean(self) -> dict[str, float]:
        """How much better each level is than the average of all (nan-free: levels that were
        compared with none are left out)."""
        usual = {
            label: float(np.nanmean(row))
            for label, row in zip(self.labels, self.gain, strict=True)
            if np.isfinite(np.delete(row, self.labels.index(label))).any()
        }
        return usual or dict.fromkeys(self.labels[:1], 0.0)


@dataclass(frozen=True, slots=True)
class PairwiseIntervals:
    """Pairs with their simultaneous intervals; ``margin`` on the log scale."""

    pairs: PairwiseGains
    half: Floats
    margin: float

    def beyond(self, level: str) -> bool:
        """Whether some other level was shown to be better by more than the margin."""
        at = self.pairs.labels.index(level)
        return bool((self.pairs.gain[at] + self.half[at] < -self.margin).any())

    def verdict(self, level: str, other: str) -> Verdict:
        """``level`` against ``other``; where one has no data nobody can tell."""
        if not {level, other} <= set(self.pairs.labels):
            return "cannot-tell"
        row, column = (self.pairs.labels.index(name) for name in (level, other))
        low = self.pairs.gain[row, column] - self.half[row, column]
        high = self.pairs.gain[row, column] + self.half[row, column]
        if low >= -self.margin and high <= self.margin:
            return "same"
        return "better" if low > 0 else "worse" if high < 0 else "cannot-tell"

    def words(self, level: str, other: str) -> tuple[float, float, float]:
        """The ratio of ``level`` to ``other`` in goodness, and the ends of its interval."""
        row, column = (self.pairs.labels.index(name) for name in (level, other))
        middle, half = self.pairs.gain[row, column], self.half[row, column]
        low, ratio, high = (float(np.exp(x)) for x in (middle - half, middle, middle + half))
        return ratio, low, high


def judged(
    pairs: PairwiseGains, margin: float, confidence: float, *, look: Look = ONCE
) -> PairwiseIntervals:
    """``margin`` is a fraction; ``confidence`` is that of all pairs together, at all looks where
    there is more than one."""
    half = np.full_like(pairs.error, np.nan)
    if pairs.known and pairs.count:
        size, error = len(pairs.labels), 1 - confidence
        critical = unequal.critical_at(look, "pairs", size, pairs.df, error)
        critical[pairs.df < 1] = np.nan
        half = critical * pairs.error
        np.fill_diagonal(half, 0.0)
    return PairwiseIntervals(pairs, half, math.log1p(margin))


def pairwise(results: Results, workload: str, metric: str, factor: str) -> PairwiseGains:
    """Of one workload and metric; the labels are those with data, in the study's order."""
    study, data = results.study, responses_of(results, workload, metric)
    measured = {label for cell in data.cells for name, label in cell if name == factor}
    labels = [level.label for level in study.factor(factor).levels if level.label in measured]
    gain, error = (np.full((len(labels), len(labels)), np.nan) for _ in range(2))
    df = np.zeros_like(gain)
    np.fill_diagonal(gain, 0.0)
    np.fill_diagonal(error, 0.0)
    found = [c for base in labels for c in _against(results, data.cells, (factor, base), labels)]
    found = list(compared.measured(found, data.layout))
    rows = compared.weights(found, len(data.cells))
    plots = whole_plots(study, data.cells)
    for where, group in by_stratum(rows, plots):
        fitted = fit_in(where, data.layout, data.logs, rows[group], plots)
        for contrast, estimate, spread, own in zip(
            [found[at] for at in group],
            fitted.estimate,
            fitted.standard_error,
            fitted.own_df,
            strict=True,
        ):
            at = labels.index(contrast.level), labels.index(contrast.baseline)
            way = -1.0 if study.metrics.higher(data.metric) is False else 1.0
            gain[at], gain[at[::-1]] = way * estimate, -way * estimate
            error[at] = error[at[::-1]] = spread
            df[at] = df[at[::-1]] = own
    blocks = int(data.layout.block.max(initial=-1)) + 1
    return PairwiseGains(tuple(labels), gain, error, df, blocks)


def _against(
    results: Results,
    cells: Sequence[tuple[tuple[str, str], ...]],
    base: tuple[str, str],
    labels: Sequence[str],
) -> list[CellContrast]:
    """The comparisons of a factor's later levels with the level ``base``: (factor, label)."""
    factor, label = base
    baselines = compared.baselines(results) | {factor: label}
    later = labels[labels.index(label) + 1 :]
    every = comparisons(results.study, cells, baselines)
    return [each for each in every if each.factor == factor and each.level in later]


# -- the knee -------------------------------------------------------------------------------------

TOP = 0.5
"""The share of α that belongs to the largest level."""


@dataclass(frozen=True, slots=True)
class _LevelTest:
    """One level's test: ``low`` is the lower confidence bound of its ratio to whichever level is
    best (1: none is better; nan: unknown), at the share ``alpha`` that it was tested with."""

    level: str
    low: float
    alpha: float
    as_good: bool


def steps(
    pairs: PairwiseGains,
    order: Sequence[str],
    margin: float,
    confidence: float,
    *,
    look: Look = ONCE,
) -> tuple[_LevelTest, ...]:
    """The tests from the last of ``order`` (the largest level) to the first.

    ``margin`` is a fraction.  Every level with data counts as possibly the best, also one that is
    not in ``order``; levels of ``order`` without data are left out.  ``look`` is the
    one at which the study is judged.
    """
    tested = [label for label in reversed(order) if label in pairs.labels]
    alpha, handed = 1 - confidence, 0.0
    found: list[_LevelTest] = []
    for place, label in enumerate(tested):
        own = alpha * (TOP if place == 0 else (1 - TOP) / (len(tested) - 1))
        if len(tested) == 1:
            own = alpha
        share = own + handed
        low = _low(pairs, label, share, look)
        as_good = low >= -math.log1p(margin)
        handed = share if as_good else 0.0
        found.append(_LevelTest(label, math.exp(low), share, as_good))
    return tuple(found)


def knee(found: Sequence[_LevelTest]) -> str:
    """The smallest level that was shown to be as good as the best; '' where none was."""
    return next((step.level for step in reversed(found) if step.as_good), "")


def _low(pairs: PairwiseGains, label: str, alpha: float, look: Look) -> float:
    """The lower bound of the level's gain over whichever other level is best, on the log scale."""
    at = pairs.labels.index(label)
    others = np.delete(np.arange(len(pairs.labels)), at)
    if not others.size:
        return 0.0
    if not pairs.known:
        return math.nan
    tail = alpha
    if look.block:
        tail = float(tails_at(alpha, np.array([look.block]), look.planned)[0])
    critical = unequal.critical("one", 2, pairs.df[at, others], 2 * tail)
    return float(np.min(pairs.gain[at, others] - critical * pairs.error[at, others]))


# -- the knees of a study -------------------------------------------------------------------------

FEWEST = 3
"""Numbers among the levels: with two there is no way to a knee."""
MOST = 64
"""Levels of a factor: of more, all pairs take longer to judge than people wait."""


def knees(results: Results, findings: Sequence[Finding]) -> tuple[Knee, ...]:
    """Of a study that is no race, in the order of its workloads and factors.  ``findings`` are its
    own: they say which levels broke a guardrail."""
    study = results.study
    factors = [f for f in study.factors if 1 < len(f.levels) <= MOST]
    if study.aa or study.design.kind == "recorded" or not any(map(_numeric, factors)):
        return ()
    pairs = {
        (load, metric, factor.name): pairwise(results, load, metric, factor.name)
        for load, metric in asked(study)
        for factor in factors
        if factor.workload in ("", load)
    }
    family = max(1, sum(each.count for each in pairs.values()))
    broken = {(f.factor, f.level) for f in findings if not f.primary and f.verdict == "worse"}
    found = []
    for (load, metric, name), each in pairs.items():
        labels = _numeric(study.factor(name))
        if labels and len(set(labels) & set(each.labels)) >= FEWEST and each.known:
            share = study.decide.confidence ** (each.count / family)
            made = _knee_of(results, (load, metric, study.factor(name)), each, share)
            found.append(_smallest(made, {level for of, level in broken if of == name}))
    return tuple(found)


def _smallest(found: Knee, broken: Collection[str]) -> Knee:
    """With the smallest number that is as good as the best and breaks no guardrail."""
    levels = tuple(replace(each, broken=each.label in broken) for each in found.levels)
    numbers = ordered([each.label for each in levels])
    good = {each.label for each in levels if each.as_good and not each.broken}
    smallest = next((label for label in numbers if label in good), "")
    return replace(found, level=smallest, levels=levels)


def crowded(results: Results) -> Iterator[str]:
    """A sentence for each factor whose knee is not looked for since it has too many levels."""
    for factor in results.study.factors:
        if len(factor.levels) > MOST and _numeric(factor):
            yield (
                f"{factor.name}: its {len(factor.levels)} levels are more than {MOST}: no knee"
                " search; narrow the range, or use a race."
            )


def _numeric(factor: Factor) -> tuple[str, ...]:
    """The labels that are numbers, ascending; none where they are too few."""
    found = ordered([level.label for level in factor.levels])
    return found if len(found) >= FEWEST else ()


def _in_order(factor: Factor) -> tuple[str, ...]:
    """With what is no number before all numbers, hence tested last."""
    numbers = _numeric(factor)
    every = (level.label for level in factor.levels)
    return (*(label for label in every if label not in numbers), *numbers)


def _knee_of(
    results: Results, of: tuple[str, str, Factor], pairs: PairwiseGains, confidence: float
) -> Knee:
    (load, metric, factor), study = of, results.study
    data = responses_of(results, load, metric)
    look = look_of(study, data)
    tests = steps(pairs, _in_order(factor), study.decide.margin, confidence, look=look)
    both = judged(pairs, study.decide.margin, confidence, look=look)
    means = pairs.mean()
    best = max(means, key=lambda label: means[label])
    own = [at for at, cell in enumerate(data.cells) if (factor.name, best) in cell]
    logs = data.logs[np.isin(data.layout.cell, own)]
    by_label = {step.level: step for step in tests}
    higher = study.metrics.higher(data.metric) is not False
    sign = 1.0 if higher else -1.0
    return Knee(
        load,
        data.metric,
        factor.name,
        "",
        best,
        math.exp(float(logs.mean())),
        tuple(
            KneeLevel(
                label,
                *_extent(both, label, best, sign),
                by_label[label].low,
                by_label[label].as_good,
            )
            for label in _in_order(factor)
            if label in by_label
        ),
        confidence,
        tuple(level.label for level in factor.levels if level.label not in pairs.labels),
        higher,
    )


def _extent(
    both: PairwiseIntervals, label: str, best: str, sign: float
) -> tuple[float, float | None, float | None]:
    """The ratio of the metric itself, and the ends of its interval."""
    if label == best:
        return 1.0, 1.0, 1.0
    row, column = (both.pairs.labels.index(name) for name in (label, best))
    return _ratios(sign * float(both.pairs.gain[row, column]), float(both.half[row, column]))


def _ratios(middle: float, half: float) -> tuple[float, float | None, float | None]:
    if not math.isfinite(half):
        return math.exp(middle), None, None
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


# Races.


def race_knees(results: Results, races: Sequence[WorkloadRace]) -> tuple[Knee, ...]:
    """Of the races in which one ordered factor is varied, after their first look."""
    found = []
    for each in races:
        if each.race.looks and len(each.cells[0]) == 1:
            factor = results.study.factor(each.factor)
            if _numeric(factor):
                found.append(_of_race(results, each, factor))
    return tuple(found)


def _of_race(results: Results, each: WorkloadRace, factor: Factor) -> Knee:
    race, place = each.race, {each.label(n): n for n in range(len(each.cells))}
    low = race.lows
    # What fell silent after it was measured may still be the best, but cannot be had.
    silent = {n for n in place.values() if race.standing(n).lost}
    unknown = {n for n in place.values() if not race.standing(n).blocks}
    sign = 1.0 if each.higher else -1.0
    levels = []
    for label in (name for name in _in_order(factor) if name in place):
        at = place[label]
        if at in unknown:
            continue
        others = [n for n in place.values() if n != at and n not in silent & unknown]
        worst = min((float(low[at, n]) for n in others), default=0.0)
        one = race.standing(at)
        ends = sorted((sign * one.low, sign * one.high))
        known = all(map(math.isfinite, ends))
        levels.append(
            KneeLevel(
                label,
                math.exp(sign * one.estimate),
                math.exp(ends[0]) if known else None,
                math.exp(ends[1]) if known else None,
                math.exp(worst) if math.isfinite(worst) else None,
                worst >= -race.margin and at not in silent,
            )
        )
    found = Knee(
        each.workload,
        each.metric,
        factor.name,
        "",
        each.label(race.kept),
        _mean(results, each),
        tuple(levels),
        each.confidence,
        tuple(each.label(n) for n in sorted(unknown)),
        each.higher,
    )
    return _smallest(found, {label for label, at in place.items() if each.broken[at]})


def _mean(results: Results, each: WorkloadRace) -> float:
    """The geometric mean of the kept treatment's trials, in the metric's unit."""
    kept = set(each.trials[each.race.kept])
    values = [r.value(each.metric) for r in results.records if r.trial.folder in kept]
    logs = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


# -- what a stage keeps ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageFactor:
    """What is known of a factor in a stage.  ``labels`` are the levels tried, in order; ``order``
    those that are numbers, ascending; ``baseline`` '' where it is not among them; ``broken`` the
    levels that broke a guardrail; ``workloads`` (name, pairs)."""

    factor: str
    labels: tuple[str, ...]
    order: tuple[str, ...]
    baseline: str
    broken: frozenset[str]
    workloads: tuple[tuple[str, PairwiseIntervals], ...]
    margin: float
    confidence: float


def decide(case: StageFactor, then: Then) -> StageDecision:
    """What is kept; for ``narrow``, ``best`` and ``knee``."""
    ways: dict[str, Callable[[StageFactor], StageDecision]] = {
        "narrow": _narrow,
        "best": _best,
        "knee": _smallest_as_good,
    }
    return ways[then](case)


def _narrow(case: StageFactor) -> StageDecision:
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
    return StageDecision(case.factor, case.labels, tuple(left), stands, why)


def _beyond(judged: PairwiseIntervals, label: str) -> bool:
    return label in judged.pairs.labels and judged.beyond(label)


def _between(case: StageFactor, left: Sequence[str]) -> list[str]:
    """With all numbers that lie between two that are left."""
    places = [at for at, label in enumerate(case.order) if label in left]
    inside = case.order[min(places) : max(places) + 1] if places else ()
    return [label for label in case.labels if label in left or label in inside]


def _best(case: StageFactor) -> StageDecision:
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


def _won(case: StageFactor, best: str, able: Sequence[str], why: str) -> StageDecision:
    """``best``, or the first of those that are the same in every workload."""
    first = _ties(case, best, [label for label in able if label != case.baseline])[0]
    if first != best:
        why = f"same as {best} within the margin, and first in order; {best}: {why}"
    return _kept(case, first, why)


def _ties(case: StageFactor, best: str, labels: Sequence[str]) -> list[str]:
    """``best`` and the ``labels`` that are the same as it in every workload, in order."""
    return [
        label
        for label in labels
        if label == best
        or all(judged.verdict(label, best) == "same" for _, judged in case.workloads)
    ] or [best]


def _gains(case: StageFactor, label: str) -> str:
    told = []
    for name, judged in case.workloads:
        if judged.verdict(label, case.baseline) == "better":
            ratio, low, high = judged.words(label, case.baseline)
            ends = f"{format_change(low)} … {format_change(high)}"
            told.append(f"{name} better by {format_change(ratio)} ({ends})")
    return f"{', '.join(told)} than {case.baseline}"


def _reason(case: StageFactor, ranked: Sequence[str]) -> str:
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
        return "no level is better in one workload without being worse in another or in a guardrail"
    if not verdicts:
        return "no comparison: no trial has the primary metric"
    if verdicts <= {"same"}:
        return "all are the same within the margin: no reason to change"
    if "cannot-tell" in verdicts:
        return "no level was shown to be better; some are undecided"
    return "no level was shown to be better"


def _smallest_as_good(case: StageFactor) -> StageDecision:
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
    return _kept(
        case, stands, "no level was shown to be as good as the best; more blocks are needed"
    )


def _order(case: StageFactor) -> tuple[str, ...]:
    """Ascending; what is no number comes before all numbers, hence is tested last."""
    return (*(label for label in case.labels if label not in case.order), *case.order)


def _as_good(found: Sequence[_LevelTest]) -> set[str]:
    return {step.level for step in found if step.as_good}


def _ranked(case: StageFactor, labels: Sequence[str]) -> list[str]:
    """The best on average over the workloads first; levels without data last."""
    means = [judged.pairs.mean() for _, judged in case.workloads]

    def total(label: str) -> float:
        return -sum(mean.get(label, -1e9) for mean in means)

    return sorted(labels, key=total)


def _kept(case: StageFactor, stands: str, why: str) -> StageDecision:
    return StageDecision(case.factor, case.labels, (stands,), stands, why)


def listed(labels: Sequence[str], most: int = 6) -> str:
    """``20480, 24576 and 8 more``."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more
