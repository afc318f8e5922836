"""Which of all combinations of levels a design tries: all, a fraction, or one factor at a time.

``fraction``: where every factor has two levels and nothing is excluded, the regular fraction of
minimum aberration (:mod:`iotrial.stats.designs`); else a D-optimal subset
(:mod:`iotrial.stats.designs`) that tells apart all main effects (``resolution = 3``), and all
interactions of two factors as well (``resolution = 5``).  ``one-at-a-time``: the baseline of all
factors, and each other level of each factor alone.  The baseline of all factors is always among
the treatments, unless it is excluded.

Pure, and the same on every machine: what was chosen is asked for again when a study is resumed.

Screening finds out cheaply which of many factors matter, so that only those are tried in full: each
factor at two levels, its baseline and one other, in a fraction of resolution 3, hardly more
treatments than factors.  A factor is laid aside when the simultaneous interval of its effect lies
inside the margin in every workload; all others, those nobody can tell included, go on.  Two things
are not seen: a factor that matters only at a level that was not screened, and a main effect that an
interaction mixed with it cancels (:func:`iotrial.plan.design.given_up` says what is mixed).

References:
    R. L. Plackett and J. P. Burman (1946), The design of optimum multifactorial experiments,
    Biometrika 33, 305-325.
    G. E. P. Box and R. D. Meyer (1986), An analysis for unreplicated fractional factorials,
    Technometrics 28, 11-18 (few factors are active).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from iotrial.errors import UsageError
from iotrial.model.finding import Finding
from iotrial.model.study import Factor, Level, Study
from iotrial.model.trial import Treatment
from iotrial.plan.problem import StudyProblem

MOST_CANDIDATES = 2048
"""Combinations that a subset is chosen from; of more, so many drawn at random."""
ORDERS = {3: 1, 5: 2}
"""resolution → up to how many factors the effects have that are told apart."""

Places = tuple[int, ...]
"""Of the levels of a treatment: 0 is the factor's baseline."""


def baseline_first(factor: Factor) -> tuple[str, ...]:
    """The labels of a factor, the baseline (as declared, else the first) before the others."""
    labels = [level.label for level in factor.levels]
    base = factor.baseline if factor.baseline in labels else labels[0]
    return (base, *(label for label in labels if label != base))


def one_at_a_time(
    factors: Sequence[Factor], excluded: Callable[[Treatment], bool]
) -> tuple[Treatment, ...]:
    """The baseline, and each other level of each factor with the others at their baseline."""
    labels = [baseline_first(factor) for factor in factors]
    found = [(0,) * len(labels)]
    for at, known in enumerate(labels):
        found += [(*(0,) * at, place, *(0,) * (len(labels) - at - 1))
                  for place in range(1, len(known))]  # fmt: skip
    cells = [_treatment(factors, places) for places in found]
    if cells and excluded(cells[0]):
        raise UsageError(
            "the baseline of all factors is excluded, but one-at-a-time compares with it",
            advice='Name another `baseline`, or use kind = "full".',
        )
    return tuple(cell for cell in cells if not excluded(cell))


def fraction(
    study: Study, factors: Sequence[Factor], excluded: Callable[[Treatment], bool]
) -> tuple[Treatment, ...]:
    """The treatments of the study's fraction for these factors.

    Raises UsageError where there is none such.
    """
    varied = [factor for factor in factors if len(factor.levels) > 1]
    if len(varied) < 2:  # noqa: PLR2004  one factor has no combinations
        raise UsageError(
            "a fraction needs combinations, but there is one factor only",
            advice='Use kind = "full".',
        )
    counts = tuple(len(factor.levels) for factor in factors)
    places = _regular(study, counts) if not study.exclude else None
    if places is None:
        places = _optimal(study, factors, counts, excluded)
    return tuple(_treatment(factors, each) for each in places)


def _regular(study: Study, counts: Places) -> tuple[Places, ...] | None:
    """None where factors have more than two levels, or no regular fraction is of this size."""
    from iotrial.stats.designs import (  # noqa: PLC0415  the statistics are slow to import
        MOST_FACTORS,
        columns,
        rows,
        smallest,
    )

    varied = [at for at, count in enumerate(counts) if count > 1]
    runs = study.design.runs or smallest(len(varied), study.design.resolution)
    if {counts[at] for at in varied} != {2} or len(varied) > MOST_FACTORS:
        return None
    if runs is None:
        raise UsageError(
            f"no design known for {len(varied)} factors of two levels at resolution"
            f" {study.design.resolution}",
            advice="Lower the resolution, set `runs`, or vary fewer factors.",
        )
    try:
        design = columns(len(varied), runs)
    except UsageError:
        return None
    found = []
    for row in rows(design):
        levels = dict(zip(varied, row, strict=True))
        found.append(tuple(levels.get(at, 0) for at in range(len(counts))))
    return tuple(found)


def _optimal(
    study: Study,
    factors: Sequence[Factor],
    counts: Places,
    excluded: Callable[[Treatment], bool],
) -> tuple[Places, ...]:
    candidates = _candidates(
        tuple(
            places
            for places in itertools.product(*map(range, counts))
            if not excluded(_treatment(factors, places))
        )
    )
    order, runs = _size(study, counts, len(candidates))
    if runs >= len(candidates):
        return candidates
    found = _chosen(candidates, counts, runs, order)
    if found is None:
        raise UsageError(
            f"no design of {runs} treatments estimates these effects: too many treatments are"
            " excluded",
            advice="Exclude fewer, or vary fewer factors.",
        )
    return found


def _size(study: Study, counts: Places, candidates: int) -> tuple[int, int]:
    """Up to how many factors the effects have that are told apart, and with how many treatments."""
    from iotrial.stats.designs import parameters  # noqa: PLC0415  NumPy is slow to import

    runs, resolution = study.design.runs, study.design.resolution
    if runs:
        fewest = parameters(counts, 1)
        if runs < fewest:
            raise UsageError(
                f"{runs} treatments cannot estimate the effects of these factors",
                advice=f"At least {fewest} are needed.",
            )
        if runs > candidates:
            raise UsageError(
                f"only {candidates} combinations exist",
                advice='Give fewer, or use kind = "full".',
            )
        return (2 if runs >= parameters(counts, 2) else 1), runs
    if resolution not in ORDERS:
        raise UsageError(
            "resolution 4 needs factors of two levels and no exclusions",
            advice="Use resolution 3 or 5, or set `runs`.",
        )
    order, most = ORDERS[resolution], max(counts)
    # A multiple of the longest factor's levels, so that each of them is tried equally often.
    return order, -(-parameters(counts, order) // most) * most


def _candidates(everything: tuple[Places, ...]) -> tuple[Places, ...]:
    if len(everything) <= MOST_CANDIDATES:
        return everything
    # Seeded on purpose: the same subset again, when the study is resumed.
    chance = random.Random(len(everything))
    drawn = sorted(chance.sample(range(1, len(everything)), MOST_CANDIDATES - 1))
    return (everything[0], *(everything[at] for at in drawn))


@lru_cache(maxsize=64)
def _chosen(
    candidates: tuple[Places, ...], counts: Places, runs: int, order: int
) -> tuple[Places, ...] | None:
    from iotrial.stats.designs import model, subset  # noqa: PLC0415  NumPy is slow to import

    found = subset(model(candidates, counts, order), runs)
    return None if found is None else tuple(candidates[at] for at in found)


def _treatment(factors: Sequence[Factor], places: Sequence[int]) -> Treatment:
    return tuple(
        (factor.name, baseline_first(factor)[place])
        for factor, place in zip(factors, places, strict=True)
    )


def design_problems(
    study: Study, cells: Callable[[Study, str], tuple[Treatment, ...]]
) -> Iterator[StudyProblem]:
    """What makes the study's design impossible, at the key that says so."""
    design = study.design
    key = "runs" if design.runs else "resolution" if "resolution" in study.text else "kind"
    for workload in study.judged:
        try:
            cells(study, workload.name)
        except UsageError as error:
            yield StudyProblem(("design", key), error.message, error.advice)
            return


def screening(study: Study, levels: Mapping[str, str] | None = None) -> Study:
    """The first study: of each factor the baseline and one level, in a fraction of resolution 3.

    ``levels`` chooses that level for a factor (left out: the last that is not the baseline, which
    in an ordered factor is the farthest).  Raises UsageError for a factor or level that is not
    the study's, and for the baseline itself.
    """
    chosen = dict(levels or {})
    for name, label in chosen.items():
        known = {factor.name: baseline_first(factor)[1:] for factor in study.factors}
        if label not in known.get(name, ()):
            raise UsageError(
                f"{name}={label} cannot be screened against its baseline",
                advice=f"Levels: {', '.join(known.get(name, ())) or 'none, it is not a factor'}",
            )
    factors = tuple(_two(factor, chosen.get(factor.name, "")) for factor in study.factors)
    design = replace(study.design, kind="fraction", resolution=3, runs=0)
    return replace(study, factors=factors, design=design)


def may_matter(study: Study, findings: Iterable[Finding]) -> tuple[str, ...]:
    """The factors that may matter: all but those whose primary findings are all ``same``.

    ``findings`` are the screening study's.  A factor without any is kept: nothing is known of it.
    """
    verdicts: dict[str, set[str]] = {}
    for finding in findings:
        if finding.primary:
            verdicts.setdefault(finding.factor, set()).add(finding.verdict)
    return tuple(
        factor.name
        for factor in study.factors
        if len(factor.levels) > 1 and verdicts.get(factor.name) != {"same"}
    )


def narrowed(study: Study, names: Iterable[str]) -> Study:
    """The study with all levels of the factors ``names``, every other at its baseline."""
    wanted = set(names)
    factors = tuple(
        factor if factor.name in wanted else replace(factor, levels=_at_baseline(factor))
        for factor in study.factors
    )
    return replace(study, factors=factors)


def _two(factor: Factor, label: str) -> Factor:
    base, *others = baseline_first(factor)
    labels = [base, *([label or others[-1]] if others else [])]
    return replace(factor, levels=tuple(factor.level(each) for each in labels))


def _at_baseline(factor: Factor) -> tuple[Level, ...]:
    return (factor.level(baseline_first(factor)[0]),)
