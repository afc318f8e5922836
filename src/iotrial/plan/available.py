"""What a study's levels come to on a host, filled in from what the host offers.

Three things cannot be known from the file: every choice the kernel has (``levels =
"available"``), which of several alternatives is the first that is taken, and how this kernel
calls a value (``deadline`` is ``mq-deadline`` since the block layer has many queues).  A tunable
of a group that does not exist here is left out of it and named.

The study's text and digest stay those of its file, so that a study can be found again and resumed;
whoever stores the study stores the offer beside it and fills it in again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from iotrial.model.study import UNSET, Factor, Level, Study
from iotrial.plan.ahead import each_study
from iotrial.plan.convert import label, one_or_more, tunable_level
from iotrial.plan.design import cells, open_factors
from iotrial.plan.problem import KeyPath, StudyProblem, StudySource, choices, locate, raise_all
from iotrial.plan.subset import design_problems


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """What a host says to a study.

    ``choices`` maps a tunable to the choices of its domain (where there are several devices: the
    choices that all of them have), in the kernel's order.  ``values`` maps (factor, level,
    tunable) to the value to set in place of the first one written.  ``missing`` maps (factor,
    level, tunable) to why there is no such tunable here; it is left out of the level.
    """

    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    missing: Mapping[tuple[str, str, str], str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "choices": {name: list(found) for name, found in self.choices.items()},
            "values": [[*where, value] for where, value in self.values.items()],
            "missing": [[*where, why] for where, why in self.missing.items()],
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Self:
        """What :meth:`as_dict` wrote; parts that an earlier version did not know may lack."""
        return cls(
            {name: tuple(found) for name, found in said.get("choices", {}).items()},
            {(f, at, name): value for f, at, name, value in said.get("values", ())},
            {(f, at, name): why for f, at, name, why in said.get("missing", ())},
        )

    def notes(self, study: Study) -> tuple[str, ...]:
        """What is not as the file says, in words."""
        return (*self.absent(), *self.renamed(study))

    def renamed(self, study: Study) -> tuple[str, ...]:
        """Values that are set by another name."""
        return tuple(
            f"factor {factor}, level {at}: {name} is set to {value} here"
            for (factor, at, name), value in self.values.items()
            if dict(study.factor(factor).level(at).settings).get(name) != value
        )

    def absent(self) -> tuple[str, ...]:
        """Tunables that a level is without."""
        return tuple(
            f"factor {factor}, level {at}: {name} is not applicable here and skipped: {why}"
            for (factor, at, name), why in self.missing.items()
        )


def combined(offers: Iterable[HostCapabilities]) -> HostCapabilities:
    """What several hosts offer together: choices that all have, in the first one's order; a value
    by the first one's name; missing what is missing anywhere.  A host that has nothing to say of
    a tunable does not count for it."""
    every = list(offers)
    names = dict.fromkeys(name for each in every for name in each.choices)
    choices = {
        name: [each.choices[name] for each in every if each.choices.get(name)] for name in names
    }
    values: dict[tuple[str, str, str], str] = {}
    missing: dict[tuple[str, str, str], str] = {}
    for each in reversed(every):
        values |= each.values
        missing |= each.missing
    return HostCapabilities(
        {
            name: tuple(c for c in (said or [()])[0] if all(c in o for o in said))
            for name, said in choices.items()
        },
        values,
        missing,
    )


def with_available(study: Study, offer: HostCapabilities) -> Study:
    """The study with its levels as they are on the host that made the offer.

    Raises StudyError where the kernel offers no choice for a tunable, or where a baseline or an
    excluded level is not among the choices.
    """
    opened = {factor.name: factor for factor in open_factors(study)}
    for factor in opened.values():
        _require(study, factor, offer.choices.get(factor.subject, ()))
    factors = tuple(
        _filled(factor, offer.choices[factor.subject])
        if factor.name in opened
        else _settled(factor, offer)
        for factor in study.factors
    )
    filled = replace(study, factors=factors)
    _distinct(filled)
    if opened:
        _check(filled, set(opened))
    return filled


def _distinct(study: Study) -> None:
    """Two levels that set the same would be compared with each other as if they differed."""
    problems = []
    for factor in study.factors:
        seen: dict[tuple[tuple[str, str], ...], str] = {}
        for level in factor.levels:
            other = seen.setdefault(level.settings, level.label) if level.settings else level.label
            if other != level.label:
                what = f"levels {other!r} and {level.label!r} are identical on this host"
                path: KeyPath = ("factors", factor.name, "levels")
                problems.append(StudyProblem(path, what, "Remove one of them."))
    raise_all(problems, _source(study))


def _settled(factor: Factor, offer: HostCapabilities) -> Factor:
    return replace(factor, levels=tuple(_level(factor, level, offer) for level in factor.levels))


def _level(factor: Factor, level: Level, offer: HostCapabilities) -> Level:
    settings = tuple(
        (name, offer.values.get((factor.name, level.label, name), value))
        for name, value in level.settings
        if (factor.name, level.label, name) not in offer.missing
    )
    return replace(level, settings=settings)


def _require(study: Study, factor: Factor, found: tuple[str, ...]) -> None:
    if not found:
        what = StudyProblem(
            ("factors", factor.name, "levels"),
            f"this kernel has no list of values for {factor.subject}",
            "List the levels, for example levels = [64, 256].",
        )
        raise_all([what], _source(study))


def _source(study: Study) -> StudySource:
    return StudySource(f"{study.name}.toml", study.text, locate(study.text))


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
        for value in one_or_more(given)
        if label(value) not in labels[name]
    ]
    parts = () if problems else each_study(study)
    for each in parts:
        problems += design_problems(each, cells)
    for of, workload in ((each, load) for each in parts for load in each.judged):
        if not problems and not cells(of, workload.name):
            what = f"every combination of workload {workload.name} is excluded"
            problems.append(StudyProblem(("exclude", 0), what, "Keep at least one."))
    raise_all(problems, _source(study))


def _missing(path: KeyPath, level: str, known: list[str]) -> StudyProblem:
    what = f"this kernel does not offer {level!r}"
    return StudyProblem(path, what, choices(level, known, "it offers"))
