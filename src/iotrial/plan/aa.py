"""From a study to its A/A study: the baseline treatment against itself, on everything else alike.

What differs between identical arms is noise, whatever it comes from.  Therefore the arms must be
measured as the study's treatments will be: the same blocks, the same order by chance, and settings
that are written before each trial.  Settings are only written where they differ, so that before
each trial those of another treatment of the study are held for a moment: what a change leaves
behind is in the noise then.

The baseline may be the level in force at the start, which only the host knows: hence two steps.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.study import AA, Factor, Level, Study, digest
from iotrial.model.trial import Treatment, Trial
from iotrial.plan.available import HostCapabilities, with_available
from iotrial.plan.convert import BLOCKS
from iotrial.plan.design import applied, cells

ARM = "arm"
MOST_ARMS = 20
_FEWEST = 2


def as_aa(study: Study, arms: int = _FEWEST, blocks: int = 0) -> Study:
    """The A/A study of ``study``, its baseline not yet known: see :func:`at_baseline`.

    ``blocks`` of 0 are the study's own, or five of a race, which says only how many at most.  Its
    digest is another one, so that the results of both are never mixed.
    Raises UsageError for too few or too many arms or blocks.
    """
    rounds = blocks or (BLOCKS if study.design.kind == "race" else study.design.blocks)
    if not _FEWEST <= arms <= MOST_ARMS:
        raise UsageError(
            f"an A/A study cannot have {arms} arms",
            advice=(f"Give {_FEWEST} to {MOST_ARMS}: --arms 2"),
        )
    if rounds < _FEWEST:
        raise UsageError(
            f"an A/A study of {rounds} block cannot measure drift or differences between blocks",
            advice="Give more: --blocks 10",
        )
    return replace(
        study,
        name=f"{study.name}-aa",
        question=f"How large is the noise? The baseline against itself, for: {study.question}",
        design=replace(study.design, kind="full", blocks=rounds),
        decide=replace(study.decide, test="intervals", guarantee="normal"),
        digest=digest(study.text or study.digest, "a/a", str(arms), str(rounds)),
        aa=AA(arms),
        stages=(),
    )


def with_levels(study: Study, baselines: Mapping[str, str]) -> Study:
    """An A/A study that knows which levels its baseline is; any other study as it is."""
    if study.aa is None:
        return study
    levels = tuple((factor.name, baselines[factor.name]) for factor in study.factors)
    return replace(study, aa=replace(study.aa, levels=levels))


def at_baseline(study: Study, baselines: Mapping[str, str]) -> Study:
    """An A/A study with every factor at its baseline, and the arms as the only thing that varies.

    ``study`` is what :func:`as_aa` gave back, its levels known.  Raises UsageError where the
    baseline treatment is excluded from it.
    """
    study = with_levels(study, baselines)
    if study.aa is None:
        return study
    levels = study.aa.levels
    for workload in study.judged:
        wanted = applied(study, levels, workload.name)
        if wanted not in cells(study, workload.name):
            raise UsageError(
                f"workload {workload.name}: the baseline treatment is excluded from the study",
                advice="Name another baseline of its factors, or remove the [[exclude]].",
            )
    fixed = tuple(
        replace(factor, levels=(factor.level(label),), baseline=label)
        for factor, (_, label) in zip(study.factors, levels, strict=True)
    )
    return replace(
        study,
        factors=(*fixed, _arms(study, study.aa.arms)),
        exclude=(),
        aa=replace(study.aa, of=study),
    )


def noted(study: Study) -> dict[str, Any]:
    """What of an A/A study is not in its file, for JSON, as ``aa``; empty for any other study."""
    if study.aa is None:
        return {}
    blocks, levels = study.design.blocks, dict(study.aa.levels)
    return {"aa": {"arms": study.aa.arms, "blocks": blocks, "levels": levels}}


def restored(study: Study, offer: HostCapabilities, aa: Mapping[str, Any] | None) -> Study:
    """The study with what the host offered and, where it is an A/A one, what :func:`noted` said."""
    if aa is not None and study.aa is None:
        study = as_aa(study, aa["arms"], aa["blocks"])
    filled = with_available(study, offer)
    return at_baseline(filled, aa["levels"]) if aa is not None else filled


def _arms(study: Study, count: int) -> Factor:
    labels = ("A", *(f"A{number}" for number in range(2, count + 1)))
    taken = {factor.name for factor in study.factors}
    name = next(n for n in (ARM, *(f"{ARM}{i}" for i in range(2, 99))) if n not in taken)
    return Factor(name, "group", tuple(map(Level, labels)), baseline=labels[0])


def detour(study: Study, trial: Trial) -> Treatment:
    """The treatment whose settings are held for a moment before a trial of an A/A study: one of
    the study it was made from, by chance; ``()`` where there is no other."""
    if study.aa is None or study.aa.of is None:
        return ()
    baseline = applied(study.aa.of, study.aa.levels, trial.workload)
    others = [cell for cell in cells(study.aa.of, trial.workload) if cell != baseline]
    # Seeded on purpose, as the order is.
    return random.Random(f"{study.digest}:{trial.id}").choice(others) if others else ()
