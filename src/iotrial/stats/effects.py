"""Effects: of each level against its factor's baseline, of two factors together, and their shares.

*Main effects.*  The difference of the two levels averaged, with equal weights, over the cells of
the other factors; only pairs of cells that both exist count, since cells may be excluded or have
failed.  With one factor this is the plain difference treatment - baseline.  A fraction has no such
pairs.  There the effect is the least squares estimate in the model that the treatments can estimate
(:func:`iotrial.stats.designs.estimable`): a weighted sum of the cells, whose weights sum to 0.  It
is the effect averaged over the levels of the other factors, plus whatever it is mixed with.  The
error is still that between blocks within cells, and owes nothing to the model.

*Interactions*: is the effect of one factor the same at every level of another?  The contrast is a
ratio of ratios: how level a against its baseline changes the response at level b of the other
factor, divided by how it does at that factor's baseline.  On the log scale it is
(ab) - (a₀b) - (ab₀) + (a₀b₀), averaged over the cells of all other factors where all four exist;
in a fraction, the least squares estimate in the model of the treatments.  1 means that the two
factors act independently, as factors that multiply do.  All interaction contrasts of a study are
one family of their own, apart from that of the main effects.  ``same``: the interval lies inside
the margin, so the effect of a is alike at b and at b₀ as far as it matters; ``differs``: it
excludes 1.  Beside each contrast the two *simple effects* are given, a against a₀ at b and at b₀,
with intervals that hold together too.  Where a level helps at one level of another factor and harms
at the next, its main effect is an average that hides both: that is a doubt.

*Analysis of variance*: how much of the variation each factor and interaction explains.  On the log
scale, log response = block + main effects + interactions of two + what is left of the treatments
(``higher``) + residual.  Blocks come first: they are taken out of everything else.  Sums of squares
of type II: of each effect after all others that do not contain it; of type III: after all others,
with codes that sum to 0.  They agree where every treatment was measured equally often.  A share of
the total (eta²) grows with noise alone, so the share corrected for it is given beside:
omega² = (SS - df·MSE) / (SS_total + MSE), at least 0.  Its interval is Scheffé's for the length of
the effects, which holds with at least the confidence; the other sums of squares are taken as they
are.  MSE is the residual mean square; for effects of hard factors alone it is that between whole
plots (:mod:`iotrial.stats.blocks`).

References:
    G. E. P. Box, W. G. Hunter and J. S. Hunter (2005), *Statistics for Experimenters*, 2nd ed.,
    chapters 5 (main effects as averages of paired differences) and 6.
    R. G. Miller (1981), *Simultaneous Statistical Inference*, 2nd ed., chapter 2.
    J. C. Hsu (1996), *Multiple Comparisons*, chapter 7 (general linear models).
    J. A. Nelder (1977), A reformulation of linear models, JRSS A 140, 48-77 (marginality: a main
    effect means little where its interaction is large).
    F. Yates (1934), The analysis of multiple classifications with unequal numbers in the
    different classes, JASA 29, 51-66 (types II and III before they were called so).
    Ø. Langsrud (2003), ANOVA for unbalanced data: use Type II instead of Type III sums of squares,
    Statistics and Computing 13, 163-167.
    W. L. Hays (1963), *Statistics for Psychologists* (omega²); S. Olejnik and J. Algina (2003),
    Generalized eta and omega squared statistics, Psychological Methods 8, 434-447.
    H. Scheffé (1953), A method for judging all contrasts in the analysis of variance, Biometrika
    40, 87-104 (all contrasts of an effect lie within the noise's length of the estimates).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import fdtri

from iotrial.errors import FormatError
from iotrial.model.finding import Interaction, Likeness, SimpleEffect, VarianceShare
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Factor, Study
from iotrial.model.trial import Doubt, Treatment
from iotrial.stats import unequal
from iotrial.stats.blocks import (
    BlockLayout,
    ContrastFit,
    Floats,
    Indices,
    by_stratum,
    fit,
    fit_in,
    ratio,
    whole_plots,
)
from iotrial.stats.critical import Look, workload_confidence
from iotrial.stats.designs import DesignModel, Term, aliases, coded, estimable
from iotrial.stats.responses import (
    Responses,
    asked,
    look_of,
    planned_cells,
    primary_responses,
)
from iotrial.stats.verdict import verdict
from iotrial.units import format_change


@dataclass(frozen=True, slots=True)
class CellContrast:
    """``pairs`` are (cell at the level, cell at the baseline), alike in all other factors.  Where
    there are none, ``weighted`` are (cell, weight) whose sum is the effect."""

    factor: str
    level: str
    baseline: str
    pairs: tuple[tuple[int, int], ...]
    weighted: tuple[tuple[int, float], ...] = ()

    @property
    def cells(self) -> tuple[int, ...]:
        """All cells it rests on, in ascending order."""
        of_pairs = {cell for pair in self.pairs for cell in pair}
        return tuple(sorted(of_pairs | {cell for cell, _ in self.weighted}))


def baselines(results: Results) -> dict[str, str]:
    """Each factor's baseline level: as resolved at the start, else as declared, else the first."""
    return {factor.name: _baseline(factor, results.baselines) for factor in results.study.factors}


def _baseline(factor: Factor, resolved: Mapping[str, str]) -> str:
    labels = [level.label for level in factor.levels]
    wanted = (resolved.get(factor.name, ""), factor.baseline, *labels)
    return next(label for label in wanted if label in labels)


def main_effects(
    cells: Sequence[Treatment], factors: Sequence[Factor], baseline: Mapping[str, str]
) -> tuple[CellContrast, ...]:
    """Every comparison that ``cells`` allow, in the order of the factors and their levels."""
    found: list[CellContrast] = []
    for factor in factors:
        by_level = _by_level(cells, factor.name)
        base = baseline[factor.name]
        opposite = by_level.get(base, {})
        for level in factor.levels:
            own = by_level.get(level.label, {})
            pairs = tuple((cell, opposite[rest]) for rest, cell in own.items() if rest in opposite)
            if pairs and level.label != base:
                found.append(CellContrast(factor.name, level.label, base, pairs))
    return tuple(found)


def _by_level(cells: Sequence[Treatment], factor: str) -> dict[str, dict[Treatment, int]]:
    """level → (the treatment without this factor → its cell)."""
    found: dict[str, dict[Treatment, int]] = {}
    for number, treatment in enumerate(cells):
        rest = tuple(part for part in treatment if part[0] != factor)
        for _, label in (part for part in treatment if part[0] == factor):
            found.setdefault(label, {})[rest] = number
    return found


def measured(contrasts: Sequence[CellContrast], layout: BlockLayout) -> tuple[CellContrast, ...]:
    """The contrasts, less the pairs whose cells never met in one block.

    What remains is estimable, and rests on at least one block where both were measured.  A cell
    that was seen once shows nothing of its own noise: pairs with it stay only where there are no
    others.  A weighted sum stays whole where blocks connect all its cells, and is left out where
    not.
    """
    incidence = layout.incidence
    met, again = incidence.T @ incidence > 0, incidence.sum(axis=0) > 1
    _, part = connected_components(met)
    kept = (
        replace(
            contrast,
            pairs=tuple(pair for pair in contrast.pairs if met[pair] and again[list(pair)].all())
            or tuple(pair for pair in contrast.pairs if met[pair]),
            weighted=contrast.weighted if len(set(part[list(contrast.cells)])) == 1 else (),
        )
        for contrast in contrasts
    )
    return tuple(contrast for contrast in kept if contrast.pairs or contrast.weighted)


def weights(contrasts: Sequence[CellContrast], cells: int) -> Floats:
    """(contrasts, cells): each row the average of its pairs' differences, or the weighted sum."""
    rows = np.zeros((len(contrasts), cells))
    for row, contrast in zip(rows, contrasts, strict=True):
        for cell, weight in contrast.weighted:
            row[cell] += weight
        for level, base in contrast.pairs:
            row[level] += 1 / len(contrast.pairs)
            row[base] -= 1 / len(contrast.pairs)
    return rows


def blocks_behind(contrast: CellContrast, incidence: Floats) -> int:
    """In how many blocks at least one of the contrast's pairs was measured whole; of a weighted
    sum, something of both its sides."""
    if not contrast.pairs:
        sides = ([c for c, w in contrast.weighted if w * way > 0] for way in (1, -1))
        above, below = (incidence[:, side].any(axis=1) for side in sides)
        return int((above & below).sum())
    level, base = (np.array(side) for side in zip(*contrast.pairs, strict=True))
    return int((incidence[:, level] * incidence[:, base]).any(axis=1).sum())


@dataclass(frozen=True, slots=True)
class ContrastFamily:
    """Contrasts that share a baseline: their ``places``, and the ``error`` that all of them may
    make together."""

    places: tuple[int, ...]
    error: float


def families(contrasts: Sequence[CellContrast], confidence: float) -> list[ContrastFamily]:
    """Of each factor (or pair of factors) one; they share the confidence by their sizes."""
    by_factor: dict[str, list[int]] = defaultdict(list)
    for place, contrast in enumerate(contrasts):
        by_factor[contrast.factor].append(place)
    return [
        ContrastFamily(
            tuple(places), 1 - workload_confidence(confidence, len(places), len(contrasts))
        )
        for places in by_factor.values()
    ]


def critical_values(found: Sequence[ContrastFamily], df: Floats, look: Look) -> Floats:
    """(contrasts,): of |t| with ``df`` (contrasts,), so that each family makes its error at most;
    ``look`` is the one at which the study is judged."""
    values = np.full(len(df), np.inf)
    for each in found:
        own = list(each.places)
        values[own] = unequal.critical_at(look, "one", len(own) + 1, df[own], each.error)
    return values


ROUNDING = 1e-9


def comparisons(
    study: Study, cells: Sequence[Treatment], baseline: Mapping[str, str]
) -> tuple[CellContrast, ...]:
    """Each level of each factor against its baseline, as far as ``cells`` allow, in the order of
    the factors and their levels."""
    if study.design.kind == "fraction":
        return by_model(cells, study.factors, baseline)
    return main_effects(cells, study.factors, baseline)


def by_model(
    cells: Sequence[Treatment], factors: Sequence[Factor], baseline: Mapping[str, str]
) -> tuple[CellContrast, ...]:
    """Every main effect that the model of ``cells`` can tell from the other main effects."""
    own = varied(cells, factors)
    if not own:
        return ()
    found_model = estimable(coordinates(cells, own), [len(labels) for _, labels in own])
    found = []
    for place, (factor, labels) in enumerate(own):
        base = baseline[factor.name]
        for label in labels:
            if label == base or base not in labels:
                continue
            table = coded(len(labels))
            wanted = np.zeros(found_model.matrix.shape[1])
            difference = table[labels.index(label)] - table[labels.index(base)]
            wanted[found_model.columns((place,))] = difference
            weights = solved(found_model, wanted)
            if weights:
                found.append(CellContrast(factor.name, label, base, (), weights))
    return tuple(found)


def varied(
    cells: Sequence[Treatment], factors: Sequence[Factor]
) -> tuple[tuple[Factor, tuple[str, ...]], ...]:
    """The factors of which more than one level is among ``cells``, with those levels in order."""
    seen = {part for cell in cells for part in cell}
    told = (
        (factor, tuple(x.label for x in factor.levels if (factor.name, x.label) in seen))
        for factor in factors
    )
    return tuple((factor, labels) for factor, labels in told if len(labels) > 1)


def coordinates(
    cells: Sequence[Treatment], factors: Sequence[tuple[Factor, tuple[str, ...]]]
) -> tuple[tuple[int, ...], ...]:
    """The place of each cell's level in each of ``factors``, as :func:`varied` gives them.
    Raises FormatError for a level that the study lacks."""
    for cell, (factor, labels) in itertools.product(cells, factors):
        if (label := dict(cell).get(factor.name)) not in labels:
            what = f"a trial has level {label!r} of {factor.name}, which the study does not define"
            raise FormatError(what, advice="The folder mixes files of two studies.")
    return tuple(
        tuple(labels.index(dict(cell)[factor.name]) for factor, labels in factors) for cell in cells
    )


def solved(model: DesignModel, wanted: Floats) -> tuple[tuple[int, float], ...]:
    """The weights of the cells whose weighted sum estimates ``wanted`` (parameters,); empty where
    the cells cannot."""
    weights = np.linalg.pinv(model.matrix).T @ wanted
    if np.abs(model.matrix.T @ weights - wanted).max() > ROUNDING * len(wanted):
        return ()
    return tuple(
        (cell, float(weight)) for cell, weight in enumerate(weights) if abs(weight) > ROUNDING
    )


# -- interactions ---------------------------------------------------------------------------------

MOST = 400
"""Contrasts of a workload beyond which nobody reads them, and the family is hopeless."""
Weighted = tuple[tuple[int, float], ...]
Varied = Sequence[tuple[Factor, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class _CrossedContrast:
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
    """Every two-factor interaction of each workload's primary metrics that its trials can
    estimate, and the simple effects beside them; in the study's order."""
    study, base = results.study, baselines(results)
    plan = _planned(results, base)
    family = sum(len(plan[workload]) for workload, _ in asked(study))
    crossed: list[Interaction] = []
    simple: list[SimpleEffect] = []
    for workload, data in primary_responses(results):
        if plan.get(workload):
            share = workload_confidence(study.decide.confidence, len(plan[workload]), family)
            found = _measured(crossings(study, data.cells, base), data.layout)
            crossed += _judged(study, workload, data, found, share)
            simple += _simple(study, workload, data, found)
    return tuple(crossed), tuple(simple)


def crossings(
    study: Study, cells: Sequence[Treatment], base: Mapping[str, str]
) -> tuple[_CrossedContrast, ...]:
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
    crossed: Iterable[Interaction], simple: Sequence[SimpleEffect], decide: DecisionRule
) -> tuple[Doubt, ...]:
    """Main effects that are averages of opposite effects: one doubt for each such pair of factors
    and level."""
    effects: dict[tuple[str, tuple[str, str], str], list[SimpleEffect]] = defaultdict(list)
    for each in simple:
        name = decide.named(each.workload, each.metric)
        effects[name, (each.factor, each.other), each.level].append(each)
    told: dict[tuple[str, str, str, str], Doubt] = {}
    for found in crossed:
        (one, other), (level, _) = found.factors, found.levels
        name = decide.named(found.workload, found.metric)
        own = effects[name, (one, other), level]
        far = [each for each in own if abs(math.log(each.ratio)) > math.log1p(decide.margin)]
        ups, downs = [e for e in far if e.ratio > 1], [e for e in far if e.ratio < 1]
        if found.verdict == "differs" and ups and downs:
            cells = ", ".join(
                f"{format_change(each.ratio)} with {other}={each.at}" for each in (*ups, *downs)
            )
            told[name, one, other, level] = Doubt(
                "interaction",
                f"{name}: the average effect of {one}={level} hides opposite effects: {cells}",
                f"choose {one} for each level of {other}, from the interactions in the report",
            )
    return tuple(told.values())


def _planned(results: Results, base: Mapping[str, str]) -> dict[str, tuple[_CrossedContrast, ...]]:
    """The interactions of the plan, by workload: the family."""
    plan = planned_cells(results)
    return {load: crossings(results.study, cells, base) for load, cells in plan.items()}


def _by_cells(
    cells: Sequence[Treatment], own: Varied, base: Mapping[str, str]
) -> Iterator[_CrossedContrast]:
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
                yield _CrossedContrast(
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
) -> Iterator[_CrossedContrast]:
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
                yield _CrossedContrast(
                    (names[one], names[other]), levels, start, solutions[0], solutions[1],
                    solutions[2],
                    tuple((names[t[0]], names[t[1]]) for t in beside.get((one, other), ())),
                )  # fmt: skip


def _contrast(each: _CrossedContrast, weighted: Weighted) -> CellContrast:
    return CellContrast("×".join(each.factors), "×".join(each.levels), "", (), weighted)


def _measured(found: Sequence[_CrossedContrast], layout: BlockLayout) -> list[_CrossedContrast]:
    """Those whose cells blocks connect."""
    kept = measured([_contrast(each, each.weighted) for each in found], layout)
    named = {(contrast.factor, contrast.level) for contrast in kept}
    return [each for each in found if ("×".join(each.factors), "×".join(each.levels)) in named]


def _judged(
    study: Study, workload: str, data: Responses, found: Sequence[_CrossedContrast], share: float
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
    study: Study, workload: str, data: Responses, found: Sequence[_CrossedContrast]
) -> list[SimpleEffect]:
    """The first factor's effect at every level of the second, each once."""
    rows: dict[tuple[tuple[str, str], str, str, str], CellContrast] = {}
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
    study: Study, data: Responses, own: Sequence[CellContrast], confidence: float
) -> list[Ends]:
    """Ratio and simultaneous interval of each contrast, in its own stratum."""
    rows = weights(own, len(data.cells))
    plots = whole_plots(study, data.cells)
    found: dict[int, Ends] = {}
    for where, places in by_stratum(rows, plots):
        share = workload_confidence(confidence, len(places), len(own))
        got = fit_in(where, data.layout, data.logs, rows[places], plots)
        own_families = families([own[place] for place in places], share)
        ends = _ends(got, own_families, look_of(study, data))
        found |= dict(zip(places, ends, strict=True))
    return [found[place] for place in range(len(own))]


def _ends(got: ContrastFit, found: Sequence[ContrastFamily], look: Look) -> list[Ends]:
    middle = [float(each) for each in ratio(got.estimate)]
    if got.df == 0:
        return [(each, None, None) for each in middle]
    critical = critical_values(found, got.own_df, look)
    low, high = got.interval(critical)
    return [
        (at, float(one), float(other)) if math.isfinite(value) else (at, None, None)
        for at, one, other, value in zip(middle, low, high, critical, strict=True)
    ]


# -- analysis of variance -------------------------------------------------------------------------

Type = Literal["II", "III"]
MOST_PARAMETERS = 200
"""Beyond this the table is longer than anybody reads, and slow to make."""
MOST_CELLS = 2000
"""Treatments beyond which the model takes too long."""
_NOTHING = 1e-12
_RANK = 1e-9
"""Of the largest eigenvalue: below it a direction is rounding."""


@dataclass(frozen=True, slots=True)
class _Squares:
    """A sum of squares and its degrees of freedom."""

    value: float
    df: int

    @property
    def mean(self) -> float:
        return self.value / self.df if self.df else float("nan")


def shares(results: Results) -> tuple[VarianceShare, ...]:
    """What explains the variation of each workload's primary metrics; nothing for a study of one
    factor, or without residual degrees of freedom."""
    return tuple(
        share
        for workload, data in primary_responses(results)
        for share in anova(results.study, workload, data)
    )


def anova(
    study: Study, workload: str, data: Responses, kind: Type = "II"
) -> tuple[VarianceShare, ...]:
    """The table of one workload: blocks, effects, higher, whole plots, residual."""
    own = varied(data.cells, study.factors)
    if len(own) < 2 or len(data.cells) > MOST_CELLS:  # noqa: PLR2004  one factor explains all
        return ()
    places, counts = coordinates(data.cells, own), [len(labels) for _, labels in own]
    model = estimable(places, counts)
    if model.matrix.shape[1] > MOST_PARAMETERS:
        return ()
    columns = within(model.matrix[data.layout.cell], data.layout.block)
    logs = within(data.logs[:, None], data.layout.block)[:, 0]
    fitted = fit(data.layout, data.logs, np.zeros((0, len(data.cells))))
    if not fitted.df:
        return ()
    residual = _Squares(float(fitted.sd) ** 2 * fitted.df, fitted.df)
    total = float(((data.logs - data.logs.mean()) ** 2).sum())
    if total <= _NOTHING:
        return ()
    normal = _Normal(columns.T @ columns, columns.T @ logs, float(logs @ logs))
    effects = {term: squares_of(term, model, normal, kind) for term in model.terms}
    left, rank = normal.left(range(columns.shape[1]))
    treatments = _Squares(float((logs**2).sum()) - residual.value, _df_of_cells(data, residual))
    explained = normal.total - left
    higher = _Squares(max(treatments.value - explained, 0.0), max(treatments.df - rank, 0))
    whole = _between_plots(data, whole_plots(study, data.cells))
    if whole:
        residual = _Squares(residual.value - whole.value, residual.df - whole.df)
    hard = {place for place, (factor, _) in enumerate(own) if factor.hard}
    names = [factor.name for factor, _ in own]
    blocks = _Squares(total - float((logs**2).sum()), int(data.layout.block.max()))
    made = [_other(workload, "blocks", blocks, total)]
    for term, squares in effects.items():
        error = whole if whole and set(term) <= hard else residual
        if squares.df and error.df:
            source = tuple(names[place] for place in term)
            made.append(_share(workload, source, squares, error, (total, study.decide.confidence)))
    made += [_other(workload, "higher", higher, total)] if higher.df else []
    made += [_other(workload, "whole plots", whole, total)] if whole else []
    made.append(_other(workload, "residual", residual, total))
    return tuple(replace(share, metric=data.metric) for share in made)


def within(columns: Floats, block: Indices) -> Floats:
    """``columns`` (observations, k) less their means in each block."""
    counts = np.bincount(block)
    sums = np.zeros((len(counts), columns.shape[1]))
    np.add.at(sums, block, columns)
    return np.asarray(columns - (sums.T / counts).T[block])


@dataclass(frozen=True, slots=True)
class _Normal:
    """The normal equations of the whole model: far smaller than its columns."""

    products: Floats
    moments: Floats
    total: float

    def left(self, chosen: Sequence[int]) -> tuple[float, int]:
        """What the ``chosen`` columns leave unexplained, and their rank."""
        if not chosen:
            return self.total, 0
        values, vectors = np.linalg.eigh(self.products[np.ix_(chosen, chosen)])
        real = values > _RANK * values[-1]
        parts = vectors[:, real].T @ self.moments[list(chosen)]
        return self.total - float((parts**2 / values[real]).sum()), int(real.sum())


def squares_of(term: Term, model: DesignModel, normal: _Normal, kind: Type) -> _Squares:
    """What ``term`` explains after the other terms that count under ``kind``."""
    others = [
        other
        for other in model.terms
        if other != term and (kind == "III" or not set(term) < set(other))
    ]
    before = [at for other in others for at in _places(model, other)]
    less, rank = normal.left(before)
    more, whole = normal.left([*before, *_places(model, term)])
    return _Squares(max(less - more, 0.0), whole - rank)


def _places(model: DesignModel, term: Term) -> range:
    own = model.columns(term)
    return range(own.start, own.stop)


def _df_of_cells(data: Responses, residual: _Squares) -> int:
    return len(data.logs) - (int(data.layout.block.max()) + 1) - residual.df


def _between_plots(data: Responses, plots: Sequence[int]) -> _Squares | None:
    """Block × whole plot: the error between whole plots, as a part of the residual."""
    if not plots:
        return None
    nothing = np.zeros((0, len(data.cells)))
    inner = fit_in("within", data.layout, data.logs, nothing, plots)
    both = fit(data.layout, data.logs, nothing)
    if not inner.df or both.df <= inner.df:
        return None
    value = float(both.sd) ** 2 * both.df - float(inner.sd) ** 2 * inner.df
    return _Squares(max(value, 0.0), both.df - inner.df)


def _other(workload: str, name: str, squares: _Squares, total: float) -> VarianceShare:
    part = squares.value / total
    return VarianceShare(workload, (name,), squares.df, squares.value, part, part)


def _share(
    workload: str,
    source: tuple[str, ...],
    squares: _Squares,
    error: _Squares,
    terms: tuple[float, float],
) -> VarianceShare:
    total, confidence = terms
    corrected = max(squares.value - squares.df * error.mean, 0.0) / (total + error.mean)
    low, high = (
        _portion(end, total - squares.value)
        for end in reach(squares.value, squares.df, error.mean, error.df, confidence)
    )
    return VarianceShare(
        workload, source, squares.df, squares.value, squares.value / total, corrected,
        min(low, corrected), max(high, corrected),
    )  # fmt: skip


def _portion(own: float, others: float) -> float:
    return own / (own + others) if own else 0.0


def reach(squares: float, df: int, error: float, error_df: int, confidence: float) -> tuple[
    float, float
]:  # fmt: skip
    """The interval of the sum of squares that the effects themselves have, without noise.

    ``squares`` is the squared length of the true effects plus noise; the noise is no longer than
    s·sqrt(df·F) with the stated confidence, and a sum no longer or shorter than its parts allow.
    With one degree of freedom it is Student's interval of the effect's size.  It begins at 0 where
    the F test finds nothing.
    """
    noise = math.sqrt(df * error * float(fdtri(df, error_df, confidence)))
    length = math.sqrt(squares)
    return max(length - noise, 0.0) ** 2, (length + noise) ** 2
