"""``levels = "available"``: every choice the kernel offers now, filled in from what it says.

The choices become part of the study: they are written into its text in place of the word, so
that what is stored says what was run, loads anywhere, and has a digest of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace

from iotrial.model.study import Factor, Study
from iotrial.plan.convert import UNSET, tunable_level
from iotrial.plan.design import cells, open_factors
from iotrial.plan.load import digest
from iotrial.plan.locate import KeyPath, inline, locate
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
    text = study.text
    for factor in opened.values():
        _require(study, factor, offered.get(factor.subject, ()))
        text = _written(text, factor.name, offered[factor.subject])
    factors = tuple(
        _filled(factor, offered[factor.subject]) if factor.name in opened else factor
        for factor in study.factors
    )
    filled = replace(study, factors=factors, text=text, digest=digest(text))
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


def _written(text: str, factor: str, found: tuple[str, ...]) -> str:
    span = locate(text)["factors", factor, "levels"]
    return text[: span.start] + inline(found) + text[span.end :]


def _filled(factor: Factor, found: tuple[str, ...]) -> Factor:
    names = found if factor.baseline != UNSET or UNSET in found else (UNSET, *found)
    return replace(factor, levels=tuple(tunable_level(factor.subject, name) for name in names))


def _check(study: Study, opened: set[str]) -> None:
    """What :mod:`iotrial.plan.check` could not know before."""
    labels = {f.name: [level.label for level in f.levels] for f in study.factors}
    problems = [
        _missing(("factors", factor.name, "baseline"), factor.baseline, labels[factor.name])
        for factor in study.factors
        if factor.baseline and factor.baseline not in labels[factor.name]
    ]
    written = tomllib.loads(study.text).get("exclude", [])
    problems += [
        _missing(("exclude", at, name), str(label), labels[name])
        for at, entry in enumerate(written)
        for name, given in entry.items()
        if name in opened
        for label in (given if isinstance(given, list) else [given])
        if str(label) not in labels[name]
    ]
    for workload in study.workloads:
        if not problems and not cells(study, workload.name):
            what = f"every combination of workload {workload.name} is excluded"
            problems.append(Problem(("exclude", 0), what, "Leave at least one."))
    if problems:
        raise study_error(problems, _source(study))


def _missing(path: KeyPath, label: str, known: list[str]) -> Problem:
    what = f"{label!r} is not among the choices of this kernel"
    return Problem(path, what, choices(label, known, "it offers"))
