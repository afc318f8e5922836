"""Main effects where treatments have no partner: contrasts of a model in place of pairs.

In a full factorial a level is compared with its baseline by pairs of cells that are alike in all
else (:mod:`iotrial.stats.contrasts`).  A fraction has no such pairs.  There the effect is the
least squares estimate in the model that the treatments can estimate
(:func:`iotrial.stats.alias.estimable`): a weighted sum of the cells, whose weights sum to 0.  It
is the effect averaged over the levels of the other factors, plus whatever it is mixed with.  The
error is still that between blocks within cells, and owes nothing to the model.

Reference:
    G. E. P. Box, W. G. Hunter and J. S. Hunter (2005), *Statistics for Experimenters*, 2nd ed.,
    chapter 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from iotrial.errors import FormatError
from iotrial.model.study import Factor, Study
from iotrial.model.trial import Treatment
from iotrial.stats.alias import Model, estimable
from iotrial.stats.blocks import Floats
from iotrial.stats.contrasts import Contrast, main_effects
from iotrial.stats.optimal import coded

ROUNDING = 1e-9


def comparisons(
    study: Study, cells: Sequence[Treatment], baseline: Mapping[str, str]
) -> tuple[Contrast, ...]:
    """Each level of each factor against its baseline, as far as ``cells`` allow, in the order of
    the factors and their levels."""
    if study.design.kind == "fraction":
        return by_model(cells, study.factors, baseline)
    return main_effects(cells, study.factors, baseline)


def by_model(
    cells: Sequence[Treatment], factors: Sequence[Factor], baseline: Mapping[str, str]
) -> tuple[Contrast, ...]:
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
                found.append(Contrast(factor.name, label, base, (), weights))
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
            what = f"a trial has a level {label!r} of {factor.name} that the study lacks"
            raise FormatError(what, advice="Files of one study were mixed with those of another.")
    return tuple(
        tuple(labels.index(dict(cell)[factor.name]) for factor, labels in factors) for cell in cells
    )


def solved(model: Model, wanted: Floats) -> tuple[tuple[int, float], ...]:
    """The weights of the cells whose weighted sum estimates ``wanted`` (parameters,); empty where
    the cells cannot."""
    weights = np.linalg.pinv(model.matrix).T @ wanted
    if np.abs(model.matrix.T @ weights - wanted).max() > ROUNDING * len(wanted):
        return ()
    return tuple(
        (cell, float(weight)) for cell, weight in enumerate(weights) if abs(weight) > ROUNDING
    )
