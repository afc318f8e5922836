"""Interactions: is the effect of one factor the same at every level of another?

The contrast is a ratio of ratios: how level a against its baseline changes the response at level
b of the other factor, divided by how it does at that factor's baseline.  On the log scale it is
(ab) - (a₀b) - (ab₀) + (a₀b₀), averaged over the cells of all other factors where all four exist;
in a fraction, the least squares estimate in the model of the treatments.  1 means that the two
factors act independently, as factors that multiply do.

All interaction contrasts of a study are one family of their own, apart from that of the main
effects.  ``same``: the interval lies inside the margin, so the effect of a is alike at b and at
b₀ as far as it matters; ``differs``: it excludes 1.  Beside each contrast the two *simple
effects* are given, a against a₀ at b and at b₀, with intervals that hold together too.

Where a level helps at one level of another factor and harms at the next, its main effect is an
average that hides both: that is a doubt.

References:
    R. G. Miller (1981), *Simultaneous Statistical Inference*, 2nd ed., chapter 2.
    J. C. Hsu (1996), *Multiple Comparisons*, chapter 7 (general linear models).
    J. A. Nelder (1977), A reformulation of linear models, JRSS A 140, 48-77 (marginality: a main
    effect means little where its interaction is large).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Interaction, Likeness, SimpleEffect
from iotrial.model.results import Results
from iotrial.model.study import Factor, Study
from iotrial.model.trial import Treatment
from iotrial.stats.alias import aliases, estimable
from iotrial.stats.anytime import critical_at
from iotrial.stats.blocks import Fit, Layout, ratio
from iotrial.stats.contrasts import Contrast, baselines, blocks_behind, measured, weights
from iotrial.stats.effects import coordinates, solved, varied
from iotrial.stats.optimal import coded
from iotrial.stats.responses import Responses, counted, in_order, look_of, responses
from iotrial.stats.simultaneous import workload_confidence
from iotrial.stats.strata import Stratum, fit_in, stratum, whole_plots
from iotrial.stats.verdict import verdict
from iotrial.units import format_change

MOST = 400
"""Contrasts of a workload beyond which nobody reads them, and the family is hopeless."""
Weighted = tuple[tuple[int, float], ...]
Varied = Sequence[tuple[Factor, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Crossed:
    """``levels`` of two ``factors`` against their ``baselines``: the weights of the cells for the
    interaction, and for the simple effect of the first factor at the second's baseline (``base``)
    and at its level (``there``).  ``beside`` are the interactions it cannot be told from."""

    factors: tuple[str, str]
    levels: tuple[str, str]
    baselines: tuple[str, str]
    weighted: Weighted
    base: Weighted
    there: Weighted
    beside: tuple[tuple[str, str], ...] = ()


def interactions(results: Results) -> tuple[tuple[Interaction, ...], tuple[SimpleEffect, ...]]:
    """Every two-factor interaction of each workload's primary metric that its trials can
    estimate, and the simple effects beside them; in the study's order."""
    study, base = results.study, baselines(results)
    by_workload = counted(results)
    plan = _planned(results, base)
    family = sum(map(len, plan.values()))
    crossed: list[Interaction] = []
    simple: list[SimpleEffect] = []
    for workload, metric in study.decide.primary:
        if plan.get(workload):
            data = responses(by_workload.get(workload, ()), metric, study)
            share = workload_confidence(study.decide.confidence, len(plan[workload]), family)
            found = _measured(crossings(study, data.cells, base), data.layout)
            crossed += _judged(study, workload, data, found, share)
            simple += _simple(study, workload, data, found)
    return tuple(crossed), tuple(simple)


def crossings(
    study: Study, cells: Sequence[Treatment], base: Mapping[str, str]
) -> tuple[Crossed, ...]:
    """What ``cells`` can say of interactions; nothing where there would be more than
    :data:`MOST`."""
    own = varied(cells, study.factors)
    if possible(own) > MOST:
        return ()
    if study.design.kind == "fraction":
        return tuple(_by_model(cells, own, base))
    return tuple(_by_cells(cells, own, base))


def possible(own: Varied) -> int:
    """How many interactions of two levels against their baselines there could be."""
    pairs = itertools.combinations(own, 2)
    return sum((len(one) - 1) * (len(other) - 1) for (_, one), (_, other) in pairs)


def interaction_doubts(
    crossed: Iterable[Interaction], simple: Sequence[SimpleEffect], margin: float
) -> tuple[Doubt, ...]:
    """Main effects that are averages of opposite effects: one doubt for each such pair of factors
    and level."""
    effects: dict[tuple[str, tuple[str, str], str], list[SimpleEffect]] = defaultdict(list)
    for each in simple:
        effects[each.workload, (each.factor, each.other), each.level].append(each)
    told: dict[tuple[str, str, str, str], Doubt] = {}
    for found in crossed:
        (one, other), (level, _) = found.factors, found.levels
        own = effects[found.workload, (one, other), level]
        far = [each for each in own if abs(math.log(each.ratio)) > math.log1p(margin)]
        ups, downs = [e for e in far if e.ratio > 1], [e for e in far if e.ratio < 1]
        if found.verdict == "differs" and ups and downs:
            cells = ", ".join(
                f"{format_change(each.ratio)} with {other}={each.at}" for each in (*ups, *downs)
            )
            told[found.workload, one, other, level] = Doubt(
                "interaction",
                f"{found.workload}: the average effect of {one}={level} hides opposite effects: "
                f"{cells}",
                f"choose {one} for each {other} by itself, as the interactions in the report say",
            )
    return tuple(told.values())


def _planned(results: Results, base: Mapping[str, str]) -> dict[str, tuple[Crossed, ...]]:
    """The interactions of the plan, by workload: the family."""
    trials = results.planned or tuple(record.trial for record in results.records)
    cells: dict[str, set[Treatment]] = defaultdict(set)
    for trial in trials:
        cells[trial.workload].add(trial.treatment)
    return {
        workload: crossings(results.study, in_order(results.study, cells[workload]), base)
        for workload, _ in results.study.decide.primary
    }


def _by_cells(
    cells: Sequence[Treatment], own: Varied, base: Mapping[str, str]
) -> Iterator[Crossed]:
    """Every four cells that differ in two factors only."""
    place = {frozenset(cell): number for number, cell in enumerate(cells)}
    for (one, ones), (other, others) in itertools.combinations(own, 2):
        start = base[one.name], base[other.name]
        for levels in itertools.product(ones, others):
            if levels[0] == start[0] or levels[1] == start[1]:
                continue
            fours = []
            for cell in cells:
                rest = [part for part in cell if part[0] not in {one.name, other.name}]
                if len(cell) - len(rest) == 2 and (one.name, levels[0]) in cell and (  # noqa: PLR2004
                    other.name, levels[1]
                ) in cell:  # fmt: skip
                    four = [
                        place.get(frozenset([*rest, (one.name, a), (other.name, b)]))
                        for a, b in itertools.product((levels[0], start[0]), (levels[1], start[1]))
                    ]
                    fours += [[at for at in four if at is not None]] if None not in four else []
            if fours:
                share = 1 / len(fours)
                yield Crossed(
                    (one.name, other.name), levels, start,
                    _sum((four, (share, -share, -share, share)) for four in fours),
                    _sum((four, (0.0, share, 0.0, -share)) for four in fours),
                    _sum((four, (share, 0.0, -share, 0.0)) for four in fours),
                )  # fmt: skip


def _sum(parts: Iterable[tuple[Sequence[int], Sequence[float]]]) -> Weighted:
    total: dict[int, float] = defaultdict(float)
    for places, shares in parts:
        for at, share in zip(places, shares, strict=True):
            total[at] += share
    return tuple((at, share) for at, share in sorted(total.items()) if share)


def _by_model(
    cells: Sequence[Treatment], own: Varied, base: Mapping[str, str]
) -> Iterator[Crossed]:
    """The interactions that the model of a fraction has; what it gives up is named beside."""
    places, counts = coordinates(cells, own), [len(labels) for _, labels in own]
    model = estimable(places, counts)
    beside = {each.term: (*each.wholly, *each.partly) for each in aliases(places, counts)}
    names = [factor.name for factor, _ in own]
    for one, other in (term for term in model.terms if len(term) == 2):  # noqa: PLR2004
        start = base[names[one]], base[names[other]]
        tables = coded(counts[one]), coded(counts[other])
        for levels in itertools.product(own[one][1], own[other][1]):
            if levels[0] == start[0] or levels[1] == start[1]:
                continue
            a, a0 = (tables[0][own[one][1].index(each)] for each in (levels[0], start[0]))
            b, b0 = (tables[1][own[other][1].index(each)] for each in (levels[1], start[1]))
            wanted = np.zeros((3, model.matrix.shape[1]))
            wanted[1:, model.columns((one,))] = a - a0
            crossed = model.columns((one, other))
            for row, difference in enumerate((b - b0, b0, b)):
                wanted[row, crossed] = np.outer(a - a0, difference).ravel()
            solutions = [solved(model, row) for row in wanted]
            if all(solutions):
                yield Crossed(
                    (names[one], names[other]), levels, start, solutions[0], solutions[1],
                    solutions[2],
                    tuple((names[t[0]], names[t[1]]) for t in beside.get((one, other), ())),
                )  # fmt: skip


def _contrast(each: Crossed, weighted: Weighted) -> Contrast:
    return Contrast("×".join(each.factors), "×".join(each.levels), "", (), weighted)


def _measured(found: Sequence[Crossed], layout: Layout) -> list[Crossed]:
    """Those whose cells blocks connect."""
    kept = measured([_contrast(each, each.weighted) for each in found], layout)
    named = {(contrast.factor, contrast.level) for contrast in kept}
    return [each for each in found if ("×".join(each.factors), "×".join(each.levels)) in named]


def _judged(
    study: Study, workload: str, data: Responses, found: Sequence[Crossed], share: float
) -> list[Interaction]:
    own = [_contrast(each, each.weighted) for each in found]
    made: list[Interaction] = []
    ends = _intervals(study, data, own, share)
    for each, contrast, (middle, low, high) in zip(found, own, ends, strict=True):
        claim: Likeness = "cannot-tell"
        if low is not None and high is not None:
            said = verdict(low, high, study.decide.margin, higher_is_better=True)
            claim = (
                "differs" if said in ("better", "worse") else "same" if said == "same" else claim
            )
        made.append(
            Interaction(
                workload, data.metric, each.factors, each.levels, each.baselines, middle, low,
                high, claim, blocks_behind(contrast, data.layout.incidence), each.beside,
            )
        )  # fmt: skip
    return made


def _simple(
    study: Study, workload: str, data: Responses, found: Sequence[Crossed]
) -> list[SimpleEffect]:
    """The first factor's effect at every level of the second, each once."""
    rows: dict[tuple[tuple[str, str], str, str, str], Contrast] = {}
    for each in found:
        for at, weighted in ((each.baselines[1], each.base), (each.levels[1], each.there)):
            key = (each.factors, each.levels[0], each.baselines[0], at)
            rows.setdefault(key, _contrast(each, weighted))
    ends = _intervals(study, data, list(rows.values()), study.decide.confidence)
    return [
        SimpleEffect(
            workload, data.metric, factors[0], level, base, factors[1], at, middle, low, high
        )
        for (factors, level, base, at), (middle, low, high) in zip(rows, ends, strict=True)
    ]


Ends = tuple[float, float | None, float | None]


def _intervals(
    study: Study, data: Responses, own: Sequence[Contrast], confidence: float
) -> list[Ends]:
    """Ratio and simultaneous interval of each contrast, in its own stratum."""
    rows = weights(own, len(data.cells))
    plots = whole_plots(study, data.cells)
    groups: dict[tuple[Stratum, int], list[int]] = {}
    for place, row in enumerate(rows):
        where = stratum(row, plots)
        groups.setdefault((where, place if where == "blocks" else 0), []).append(place)
    found: dict[int, Ends] = {}
    for (where, _), places in groups.items():
        share = workload_confidence(confidence, len(places), len(own))
        got = fit_in(where, data.layout, data.logs, rows[places], plots)
        ends = _ends(got, share, look_of(study, data))
        found |= dict(zip(places, ends, strict=True))
    return [found[place] for place in range(len(own))]


def _ends(got: Fit, confidence: float, look: int) -> list[Ends]:
    middle = [float(each) for each in ratio(got.estimate)]
    if got.df == 0:
        return [(each, None, None) for each in middle]
    low, high = got.interval(critical_at(look, got.correlation, got.df, confidence).value)
    return [
        (at, float(one), float(other)) for at, one, other in zip(middle, low, high, strict=True)
    ]
