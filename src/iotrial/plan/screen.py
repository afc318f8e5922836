"""Screening: find out cheaply which of many factors matter, then try only those in full.

Most factors of a long list do nothing.  The first study tries each factor at two levels, its
baseline and one other, in a fraction of resolution 3: hardly more treatments than factors.  A
factor is laid aside when the simultaneous interval of its effect lies inside the margin in every
workload; all others, those nobody can tell included, go on to the full study.

Two things are not seen: a factor that matters only at a level that was not screened, and a main
effect that an interaction mixed with it cancels.  A level is chosen for a factor with care, and
:func:`iotrial.plan.given_up.given_up` of the screening study says what is mixed.

References:
    R. L. Plackett and J. P. Burman (1946), The design of optimum multifactorial experiments,
    Biometrika 33, 305-325.
    G. E. P. Box and R. D. Meyer (1986), An analysis for unreplicated fractional factorials,
    Technometrics 28, 11-18 (few factors are active).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from iotrial.errors import UsageError
from iotrial.model.finding import Finding
from iotrial.model.study import Factor, Level, Study
from iotrial.plan.subset import baseline_first


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
                advice=f"Levels: {', '.join(known.get(name, ())) or 'none, it is no factor'}",
            )
    factors = tuple(_two(factor, chosen.get(factor.name, "")) for factor in study.factors)
    design = replace(study.design, kind="fraction", resolution=3, runs=0)
    return replace(study, factors=factors, design=design)


def kept(study: Study, findings: Iterable[Finding]) -> tuple[str, ...]:
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
