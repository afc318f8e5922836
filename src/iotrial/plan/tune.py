"""The best levels of many factors: the search, what each is worth, and the proof.

A study of the kind ``tune`` is one in stages (:mod:`iotrial.plan.stages`), which the file does not
spell out:

1. ``tune``: trials of combinations of all factors, one at a time, each chosen from those before it
   (:mod:`iotrial.stats.tune`).  It ends when more is not expected to pay, after
   :data:`MOST_SEARCHED` trials a factor, or when :data:`SHARE` of the budget is used up.  Each
   factor goes on with its level in the recommended combination.  Nothing is claimed.
2. ``worth``: that combination against the same with one factor back at its baseline, for each
   factor that it changes, in randomised blocks.  A factor that is not shown to be needed, and does
   not seem to be either, goes back to its baseline, unless that leaves nothing: of two that do the
   same, neither is needed.
3. ``confirm``: what is left against what was in force, on fresh trials, until that is decided.

The claim is the last one's interval; what each factor is worth are the intervals of the second.
They share the error; the search makes no claim and has no share.

Pure, as all of the plan: where a search stands follows from the trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from iotrial.model.finding import FactorWorth, LevelSearch
from iotrial.model.study import Design, Factor, Stage, StageDecision, Study, ordered
from iotrial.model.trial import Treatment, TrialRecord
from iotrial.plan.problem import StudyProblem
from iotrial.plan.subset import baseline_first
from iotrial.units import format_change

if TYPE_CHECKING:
    from iotrial.stats.additive import Cell
    from iotrial.stats.tune import KnobGrid, KnobTrial, KnobWorth, TuneSummary

MOST_SEARCHED, LEAST_SEARCHED = 8, 24
"""Trials of the search at most, for each factor, and whatever their number."""
START, FEWEST_SEARCHED = 5, 2
"""Trials before the first choice; and for each factor, before a search may end because more is not
expected to pay: of levels that were hardly tried little is expected."""
SHARE, WORTH_SHARE = 0.5, 0.2
"""Of the budget, what the search and the second stage may take; the rest is the proof's."""
PAYS = 2.0
"""Margins: a search ends when less than this is expected to be missing.  What is expected is the
best of all surfaces that are possible, more than what is missing in truth (what is reached where a
search ends: benchmarks/tune.py).  It ends as well when that is less than one standard error of the
proof, since it could not be shown."""
CONFIRM_BLOCKS, WORTH_BLOCKS = 24, 8
"""Blocks of the proof, and of what each factor is worth, at most."""
WITHOUT = "without "
"""Before a factor's name: the whole combination, with that factor at its baseline."""
_FEWEST = 2


def stages(factors: Sequence[str]) -> tuple[Stage, ...]:
    """The stages of a study of this kind."""
    return (Stage(1, tuple(factors), "tune"), Stage(2, (), "worth"), Stage(3, (), "confirm"))


def problems(study: Study) -> Iterator[StudyProblem]:
    """Why a study cannot be a search for the best levels."""
    if len(study.judged) != 1:
        message = f"a search for the best levels has one workload, not {len(study.judged)}"
        yield StudyProblem(("workloads",), message, "Keep one, or use [[stage]] tables.")
    if _varied(study.factors) < _FEWEST:
        message = "a search for the best levels needs two factors"
        yield StudyProblem(("factors",), message, 'Add factors, or use kind = "race".')
    base = {(factor.name, baseline_first(factor)[0]) for factor in study.factors if factor.levels}
    for at, pairs in enumerate(study.exclude):
        if set(pairs) <= base:
            message = "it excludes the baseline of all factors, which the search is compared with"
            yield StudyProblem(("exclude", at), message, "Remove it, or name another baseline.")
    for factor in study.factors:
        if factor.hard:
            message = "a search changes levels in every trial, but this factor is hard to change"
            yield StudyProblem(("factors", factor.name, "hard"), message, "Remove it.")
    metrics = [metric for _, metric in study.decide.primary]
    if len(metrics) != 1 or study.metrics.higher(metrics[0]) is None:
        message = "a search needs one primary metric, with a direction"
        yield StudyProblem(("decide", "primary"), message, 'For example primary = "read.iops"')
    if len(study.decide.limits) > 1:
        message = "a search has one limit at most"
        yield StudyProblem(("decide", "limits"), message, "Remove the others.")


def design_of(study: Study, stage: Stage) -> Design:
    """The design of one of the stages."""
    given = replace(study.design, stop="blocks")
    if stage.then == "tune":
        return replace(given, kind="tune", blocks=1 + most(study.factors) - START)
    if stage.then == "confirm" and study.decide.limits:
        return replace(given, kind="race", blocks=CONFIRM_BLOCKS)
    given = replace(given, kind="full", stop="decided")
    if stage.then == "confirm":
        return replace(given, blocks=CONFIRM_BLOCKS)
    return replace(given, blocks=WORTH_BLOCKS, share=given.budget * WORTH_SHARE)


def most(factors: Sequence[Factor]) -> int:
    """Trials of a search at most."""
    return max(LEAST_SEARCHED, MOST_SEARCHED * _varied(factors))


def next_batch(study: Study, tried: int, done: Sequence[TrialRecord]) -> tuple[Treatment, ...]:
    """The combinations to try next, none where the search is over.

    ``tried`` is how many trials were planned so far, all of them done.
    """
    from iotrial.stats import tune  # noqa: PLC0415  SciPy is slow to import

    grid = grid_of(study)
    if not tried:
        first = tune.start(grid, START, study.design.seed)
        return tuple(_treatment(study, cell) for cell in first)
    seen = trials_of(study, done)
    if tried >= most(study.factors) or len(seen) < _FEWEST or _used_up(study, done):
        return ()
    if enough(summary(study, done), len(seen), _varied(study.factors), study.decide.margin):
        return ()
    return (_treatment(study, tune.next_cell(grid, seen, study.design.seed + tried)),)


def enough(found: TuneSummary, trials: int, factors: int, margin: float) -> bool:
    """Whether more trials than so many, of so many factors that vary, are not expected to pay."""
    least = max(PAYS * margin, found.noise * math.sqrt(2 / CONFIRM_BLOCKS))
    return trials >= FEWEST_SEARCHED * factors and found.promise < least


def _varied(factors: Sequence[Factor]) -> int:
    return sum(len(factor.levels) != 1 for factor in factors)


def _used_up(study: Study, done: Sequence[TrialRecord]) -> bool:
    """Whether the search has had its share of the budget."""
    return 0 < study.design.budget * SHARE <= _spent(study, done)


def _spent(study: Study, done: Sequence[TrialRecord]) -> float:
    return sum(record.seconds + record.prepared + study.design.settle for record in done)


def grid_of(study: Study) -> KnobGrid:
    """The factors as the statistics see them."""
    from iotrial.stats.tune import KnobGrid  # noqa: PLC0415  SciPy, as above

    places = {
        (factor.name, label): place
        for factor in study.factors
        for place, label in enumerate(_labels(factor))
    }
    at = {factor.name: number for number, factor in enumerate(study.factors)}
    return KnobGrid(
        tuple(len(factor.levels) for factor in study.factors),
        tuple(ordered(_labels(factor)) == _labels(factor) for factor in study.factors),
        tuple(places[factor.name, baseline_first(factor)[0]] for factor in study.factors),
        tuple(
            tuple((at[name], places[name, label]) for name, label in pairs)
            for pairs in study.exclude
            if all(pair in places for pair in pairs)
        ),
    )


def _labels(factor: Factor) -> tuple[str, ...]:
    """The levels, by their size where all are numbers."""
    labels = tuple(level.label for level in factor.levels)
    by_size = ordered(labels)
    return by_size if len(by_size) == len(labels) else labels


def trials_of(study: Study, done: Sequence[TrialRecord]) -> tuple[KnobTrial, ...]:
    """The valid trials in the order in which they ran."""
    from iotrial.stats.tune import KnobTrial  # noqa: PLC0415  SciPy, as above

    ((_, metric), *_) = study.decide.primary
    sign = _sign(study)
    name, bound = next(iter(study.decide.limits), ("", 1.0))
    found = []
    for record in sorted(done, key=lambda each: (each.started, each.trial.number)):
        value = record.value(metric)
        late = (record.value(name) if name else bound) or 0.0
        if record.state == "valid" and value and value > 0 and late > 0:
            cell = _cell(study, record.trial.treatment)
            found.append(KnobTrial(cell, sign * math.log(value), math.log(late / bound)))
    return tuple(found)


def _sign(study: Study) -> float:
    ((_, metric), *_) = study.decide.primary
    return 1.0 if study.metrics.higher(metric) else -1.0


def summary(study: Study, done: Sequence[TrialRecord]) -> TuneSummary:
    """Where the search stands; of two valid trials at least."""
    from iotrial.stats import tune  # noqa: PLC0415  SciPy, as above

    seen = trials_of(study, done)
    return tune.summary(grid_of(study), seen, study.decide.margin, study.design.seed)


def _treatment(study: Study, cell: Cell) -> Treatment:
    return tuple(
        (factor.name, _labels(factor)[place])
        for factor, place in zip(study.factors, cell, strict=True)
    )


def _cell(study: Study, treatment: Treatment) -> Cell:
    known = dict(treatment)
    return tuple(_labels(factor).index(known[factor.name]) for factor in study.factors)


def found(study: Study, done: Sequence[TrialRecord]) -> LevelSearch | None:
    """What the search came to so far, in the study's words; None before two valid trials."""
    seen = trials_of(study, done)
    if len(seen) < _FEWEST:
        return None
    now = summary(study, done)
    worths = [
        _expected(study, now, each)
        for each in now.worths
        if len(study.factors[each.knob].levels) > 1
    ]
    why = "all its trials are done"
    if enough(now, len(seen), _varied(study.factors), study.decide.margin):
        why = "more trials are not expected to pay"
    elif _used_up(study, done):
        why = "its share of the budget is used"
    worths.sort(key=lambda each: (not each.recommended, -abs(math.log(each.ratio))))
    ((_, metric), *_) = study.decide.primary
    return LevelSearch(metric, len(seen), now.noise, now.promise, why, tuple(worths))


def _expected(study: Study, now: TuneSummary, worth: KnobWorth) -> FactorWorth:
    factor = study.factors[worth.knob]
    labels, base = _labels(factor), baseline_first(factor)[0]
    # The search sees what is better as larger; people read the metric.
    ends = worth.ratio, worth.low, worth.high
    ratio, low, high = ends if _sign(study) > 0 else (1 / ends[0], 1 / ends[2], 1 / ends[1])
    changed = labels[now.best[worth.knob]] != base
    return FactorWorth(factor.name, labels[worth.place], base, ratio, low, high, changed)


def recommended(
    study: Study, several: Sequence[Factor], done: Sequence[TrialRecord]
) -> list[StageDecision]:
    """What the search came to, for each varied factor."""
    search = found(study, done)
    known = {each.factor: each for each in search.worths} if search else {}
    changed = [each.factor for each in search.worths if each.recommended] if search else []
    tested = changed[: _testable(study, done)]  # the largest are first
    decisions = []
    for factor in several:
        label, why = factor.baseline, "no valid trials"
        if each := known.get(factor.name):
            change = format_change(each.ratio)
            label, why = each.level, f"{change} expected"
            if factor.name not in tested:
                label = each.baseline
                why = f"no level is expected to be worth a change ({each.level}: {change})"
            if each.recommended and factor.name not in tested:
                why = f"{each.level}: {change} expected, but no time to test so many changes"
        labels = tuple(level.label for level in factor.levels)
        decisions.append(StageDecision(factor.name, labels, (label,), label, why))
    return decisions


def _testable(study: Study, done: Sequence[TrialRecord]) -> int:
    """How many changes the second stage can test in its share of the budget, one at least: more
    would leave no time for the proof."""
    from iotrial.stats.verdict import first_look  # noqa: PLC0415  SciPy, as above

    if not study.design.budget or not done:
        return len(study.factors)
    trial = _spent(study, done) / len(done)
    blocks = first_look(len(study.factors))
    return max(1, int(study.design.budget * WORTH_SHARE / (trial * blocks)) - 1)
