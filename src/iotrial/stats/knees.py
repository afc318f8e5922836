"""The knees of a study: of every ordered factor, for every workload.

Of a design with fixed treatments the test is :mod:`iotrial.stats.knee`'s, on main effects of all
pairs of levels.  The knees of a study hold together apart from its other claims: each gets its
share of the confidence by its number of pairs, among all pairs of all factors, as in a stage.

Of a race the knee is read from the race's own intervals.  They hold at all looks at once for all
treatments against any one, hence also against the one that is truly best: a level whose lower
ends against *all* others are above minus the margin is as good, with no more error than the
race's.  An interval against a level that was dropped stays as it was when both were measured
last.  Where several factors race together there are no main effects, and no knee.

References: as in :mod:`iotrial.stats.knee` and :mod:`iotrial.stats.race`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from iotrial.model.finding import Finding, Knee, KneeLevel
from iotrial.model.order import ordered
from iotrial.model.results import Results
from iotrial.model.study import Factor
from iotrial.stats.blocks import Floats
from iotrial.stats.knee import steps
from iotrial.stats.pairwise import Judged, Pairs, judged, pairwise
from iotrial.stats.raced import Raced
from iotrial.stats.responses import counted, look_of, responses

FEWEST = 3
"""Numbers among the levels: with two there is no way to a knee."""
MOST = 64
"""Levels of a factor: of more, all pairs take longer to judge than people wait."""


def knees(results: Results, findings: Sequence[Finding]) -> tuple[Knee, ...]:
    """Of a study that is no race, in the order of its workloads and factors.  ``findings`` are its
    own: they say which levels broke a guardrail."""
    study = results.study
    loads = [w.name for w in study.workloads if w.name in dict(study.decide.primary)]
    factors = [f for f in study.factors if 1 < len(f.levels) <= MOST]
    if study.aa or study.design.kind == "recorded" or not any(map(_numeric, factors)):
        return ()
    pairs = {
        (load, factor.name): pairwise(results, load, factor.name)
        for load in loads
        for factor in factors
        if factor.workload in ("", load)
    }
    family = max(1, sum(each.count for each in pairs.values()))
    broken = {(f.factor, f.level) for f in findings if not f.primary and f.verdict == "worse"}
    found = []
    for (load, name), each in pairs.items():
        labels = _numeric(study.factor(name))
        if labels and len(set(labels) & set(each.labels)) >= FEWEST and each.df:
            share = study.decide.confidence ** (each.count / family)
            made = _knee(results, (load, study.factor(name)), each, share)
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
                f"{factor.name}: its {len(factor.levels)} levels are more than {MOST}: the knee is"
                " not looked for; narrow the range, or race."
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


def _knee(results: Results, of: tuple[str, Factor], pairs: Pairs, confidence: float) -> Knee:
    (load, factor), study = of, results.study
    metric = dict(study.decide.primary)[load]
    data = responses(counted(results).get(load, ()), metric, study)
    look = look_of(study, data)
    tests = steps(pairs, _in_order(factor), study.decide.margin, confidence, look=look)
    both = judged(pairs, study.decide.margin, confidence, look=look)
    means = pairs.mean()
    best = max(means, key=lambda label: means[label])
    own = [at for at, cell in enumerate(data.cells) if (factor.name, best) in cell]
    logs = data.logs[np.isin(data.layout.cell, own)]
    by_label = {step.level: step for step in tests}
    higher = study.metrics.higher(metric) is not False
    sign = 1.0 if higher else -1.0
    return Knee(
        load,
        metric,
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
    both: Judged, label: str, best: str, sign: float
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


def race_knees(results: Results, races: Sequence[Raced]) -> tuple[Knee, ...]:
    """Of the races in which one ordered factor is varied, after their first look."""
    found = []
    for each in races:
        if each.race.looks and len(each.cells[0]) == 1:
            factor = results.study.factor(each.factor)
            if _numeric(factor):
                found.append(_of_race(results, each, factor))
    return tuple(found)


def _of_race(results: Results, each: Raced, factor: Factor) -> Knee:
    race, place = each.race, {each.label(n): n for n in range(len(each.cells))}
    low = _latest_lows(each)
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


def _latest_lows(each: Raced) -> Floats:
    """The lower end of every treatment against every other, (treatments, treatments), from the
    last look at which both had just been measured; minus infinity where there was none."""
    low = np.full((len(each.cells), len(each.cells)), -np.inf)
    for look in each.race.looks:
        np.copyto(low, look.estimates - look.halves, where=np.isfinite(look.halves))
    return low


def _mean(results: Results, each: Raced) -> float:
    """The geometric mean of the kept treatment's trials, in the metric's unit."""
    kept = set(each.trials[each.race.kept])
    values = [r.value(each.metric) for r in results.records if r.trial.folder in kept]
    logs = [math.log(value) for value in values if value]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan
