"""``levels = "available"``: every choice the kernel offers now, filled in from what it says.

The study's text and digest stay those of its file, so that a study can be found again and resumed;
whoever stores the study stores the choices beside it and fills them in again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace

from iotrial.model.study import Factor, Study
from iotrial.plan.convert import UNSET, label, tunable_level
from iotrial.plan.design import cells, open_factors
from iotrial.plan.locate import KeyPath, locate
from iotrial.plan.problem import Problem, Source, choices, study_error


def with_available(study: Study, offered: Mapping[str, tuple[str, ...]]) -> Study:
    """The study with the levels of its open factors filled in.

    ``offered`` maps a tunable to the choices of its domain on the study's targets (where there
    are several targets: the choices that all of them have), in the kernel's order.  A study
    without open factors is given back as it is.

    Raises StudyError where the kernel offers no choice for a tunable, or where a baseline or an
    excluded level is not among the choices.
    """
    opened = {factor.name: factor for factor in open_factors(study)}
    if not opened:
        return study
    for factor in opened.values():
        _require(study, factor, offered.get(factor.subject, ()))
    factors = tuple(
        _filled(factor, offered[factor.subject]) if factor.name in opened else factor
        for factor in study.factors
    )
    filled = replace(study, factors=factors)
    _check(filled, set(opened))
    return filled


def _require(study: Study, factor: Factor, found: tuple[str, ...]) -> None:
    if not found:
        problem = Problem(
            ("factors", factor.name, "levels"),
            f"the kernel offers no list of choices for {factor.subject} here",
            "List the levels, such as levels = [64, 256].",
        )
        raise study_error([problem], _source(study))


def _source(study: Study) -> Source:
    return Source(f"{study.name}.toml", study.text, locate(study.text))


def _filled(factor: Factor, found: tuple[str, ...]) -> Factor:
    names = found if factor.baseline != UNSET or UNSET in found else (UNSET, *found)
    return replace(factor, levels=tuple(tunable_level(factor.subject, name) for name in names))


def _check(study: Study, opened: set[str]) -> None:
    """What :mod:`iotrial.plan.check` could not know before."""
    labels = {f.name: [each.label for each in f.levels] for f in study.factors}
    problems = [
        _missing(("factors", factor.name, "baseline"), factor.baseline, labels[factor.name])
        for factor in study.factors
        if factor.baseline and factor.baseline not in labels[factor.name]
    ]
    written = tomllib.loads(study.text).get("exclude", [])
    problems += [
        _missing(("exclude", at, name), label(value), labels[name])
        for at, entry in enumerate(written)
        for name, given in entry.items()
        if name in opened
        for value in (given if isinstance(given, list) else [given])
        if label(value) not in labels[name]
    ]
    for workload in study.workloads:
        if not problems and not cells(study, workload.name):
            what = f"every combination of workload {workload.name} is excluded"
            problems.append(Problem(("exclude", 0), what, "Leave at least one."))
    if problems:
        raise study_error(problems, _source(study))


def _missing(path: KeyPath, level: str, known: list[str]) -> Problem:
    what = f"{level!r} is not among the choices of this kernel"
    return Problem(path, what, choices(level, known, "it offers"))
