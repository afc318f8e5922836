"""What a design gives up for its few treatments, in words: which effects cannot be told apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iotrial.model.study import Factor, Study
from iotrial.plan.design import applies, cells

NAMED = 8
"""Interactions spelt out in one line; the JSON has all."""
Effect = tuple[str, ...]
"""The names of the factors of an effect: one for a main effect, two for an interaction."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """``effect`` cannot be told from ``wholly``, and is partly mixed with ``partly``."""

    effect: Effect
    wholly: tuple[Effect, ...] = ()
    partly: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Of one workload: ``tried`` of ``combinations`` treatments, what is ``mixed``, and which
    interactions cannot be seen at all (``unseen``).  ``words`` say it in sentences."""

    workload: str
    kind: str
    tried: int
    combinations: int
    mixed: tuple[Mixed, ...]
    unseen: tuple[Effect, ...]
    words: tuple[str, ...]


def given_up(study: Study) -> tuple[GivenUp, ...]:
    """What the design leaves out, for each workload; nothing for a full factorial.

    Needs all levels known; raises UsageError like :func:`iotrial.plan.design.cells`.
    """
    if study.design.kind not in {"fraction", "one-at-a-time"}:
        return ()
    return tuple(_of(study, workload.name) for workload in study.workloads)


def _of(study: Study, workload: str) -> GivenUp:
    factors = [f for f in study.factors if applies(f, workload) and len(f.levels) > 1]
    tried = cells(study, workload)
    combinations = 1
    for factor in factors:
        combinations *= len(factor.levels)
    if study.design.kind == "one-at-a-time":
        unseen = tuple(itertools.combinations([factor.name for factor in factors], 2))
        mixed: tuple[Mixed, ...] = ()
    else:
        mixed, unseen = _mixed(factors, tried), ()
    words = tuple(_words(study, (len(tried), combinations), mixed, unseen))
    return GivenUp(workload, study.design.kind, len(tried), combinations, mixed, unseen, words)


def _mixed(factors: Sequence[Factor], tried: Sequence[tuple[tuple[str, str], ...]]) -> tuple[
    Mixed, ...
]:  # fmt: skip
    from iotrial.stats.designs import aliases  # noqa: PLC0415  NumPy is slow to import
    from iotrial.stats.effects import coordinates, varied  # noqa: PLC0415  as above

    own = varied(tried, factors)
    names = [factor.name for factor, _ in own]
    found = aliases(coordinates(tried, own), [len(labels) for _, labels in own])

    def named(terms: Sequence[tuple[int, ...]]) -> tuple[Effect, ...]:
        return tuple(tuple(names[place] for place in term) for term in terms)

    return tuple(
        Mixed(named([each.term])[0], named(each.wholly), named(each.partly)) for each in found
    )


def _words(
    study: Study, sizes: tuple[int, int], mixed: Sequence[Mixed], unseen: Sequence[Effect]
) -> Iterator[str]:
    tried, combinations = sizes
    if study.design.kind == "one-at-a-time":
        yield f"{tried} of {combinations} combinations: the baseline, and each other level alone"
        yield "each effect is seen with the other factors at their baseline only"
        if unseen:
            yield f"no interaction can be seen: {_listed(unseen)}"
        return
    if tried == combinations:
        yield f"all {combinations} combinations: a fraction of this resolution leaves nothing out"
        return
    yield f"{tried} of {combinations} combinations"
    for each in mixed:
        if each.wholly:
            yield f"{effect_text(each.effect)} cannot be told from {_listed(each.wholly)}"
        if each.partly:
            yield f"{effect_text(each.effect)} is partly mixed with {_listed(each.partly)}"
    if not mixed:
        yield "main effects and interactions of two factors are all told apart"
    yield "interactions of three and more factors are taken to be nothing"


def effect_text(effect: Effect) -> str:
    """``scheduler×depth``."""
    return "×".join(effect)


def _listed(effects: Sequence[Effect]) -> str:
    shown = ", ".join(map(effect_text, effects[:NAMED]))
    return f"{shown} and {len(effects) - NAMED} more" if len(effects) > NAMED else shown
