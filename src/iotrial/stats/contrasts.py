"""What is compared: each level of each factor with the factor's baseline level.

A main effect is the difference of the two levels averaged, with equal weights, over the cells of
the other factors; only pairs of cells that both exist count, since cells may be excluded or have
failed.  With one factor this is the plain difference treatment - baseline.

Reference:
    G. E. P. Box, J. S. Hunter and W. G. Hunter (2005), *Statistics for Experimenters*, 2nd ed.,
    chapter 5 (main effects as averages of paired differences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from iotrial.model.results import Results
from iotrial.model.study import Factor
from iotrial.model.trial import Treatment
from iotrial.stats.blocks import Floats, Layout


@dataclass(frozen=True, slots=True)
class Contrast:
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
) -> tuple[Contrast, ...]:
    """Every comparison that ``cells`` allow, in the order of the factors and their levels."""
    found: list[Contrast] = []
    for factor in factors:
        by_level = _by_level(cells, factor.name)
        base = baseline[factor.name]
        opposite = by_level.get(base, {})
        for level in factor.levels:
            own = by_level.get(level.label, {})
            pairs = tuple((cell, opposite[rest]) for rest, cell in own.items() if rest in opposite)
            if pairs and level.label != base:
                found.append(Contrast(factor.name, level.label, base, pairs))
    return tuple(found)


def _by_level(cells: Sequence[Treatment], factor: str) -> dict[str, dict[Treatment, int]]:
    """level → (the treatment without this factor → its cell)."""
    found: dict[str, dict[Treatment, int]] = {}
    for number, treatment in enumerate(cells):
        rest = tuple(part for part in treatment if part[0] != factor)
        for _, label in (part for part in treatment if part[0] == factor):
            found.setdefault(label, {})[rest] = number
    return found


def measured(contrasts: Sequence[Contrast], layout: Layout) -> tuple[Contrast, ...]:
    """The contrasts, less the pairs whose cells never met in one block.

    What remains is estimable, and rests on at least one block where both were measured.  A
    weighted sum stays whole where blocks connect all its cells, and is left out where not.
    """
    incidence = layout.incidence
    met = incidence.T @ incidence > 0
    _, part = connected_components(met)
    kept = (
        replace(
            contrast,
            pairs=tuple(pair for pair in contrast.pairs if met[pair]),
            weighted=contrast.weighted if len(set(part[list(contrast.cells)])) == 1 else (),
        )
        for contrast in contrasts
    )
    return tuple(contrast for contrast in kept if contrast.pairs or contrast.weighted)


def weights(contrasts: Sequence[Contrast], cells: int) -> Floats:
    """(contrasts, cells): each row the average of its pairs' differences, or the weighted sum."""
    rows = np.zeros((len(contrasts), cells))
    for row, contrast in zip(rows, contrasts, strict=True):
        for cell, weight in contrast.weighted:
            row[cell] += weight
        for level, base in contrast.pairs:
            row[level] += 1 / len(contrast.pairs)
            row[base] -= 1 / len(contrast.pairs)
    return rows


def blocks_behind(contrast: Contrast, incidence: Floats) -> int:
    """In how many blocks at least one of the contrast's pairs was measured whole; of a weighted
    sum, something of both its sides."""
    if not contrast.pairs:
        sides = ([c for c, w in contrast.weighted if w * way > 0] for way in (1, -1))
        above, below = (incidence[:, side].any(axis=1) for side in sides)
        return int((above & below).sum())
    level, base = (np.array(side) for side in zip(*contrast.pairs, strict=True))
    return int((incidence[:, level] * incidence[:, base]).any(axis=1).sum())
