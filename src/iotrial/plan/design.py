"""From a study to its trials, and from a trial to what it needs.  Pure and seeded.

Randomised complete blocks: every (workload, treatment) once per block, in a fresh random order,
so that drift of the machine falls on all treatments alike (Box, Hunter and Hunter, *Statistics
for Experimenters*, 2nd ed., ch. 4).  Within a block the workloads come in random order and the
treatments of one workload follow one another, in random order too: what is compared is measured
close together in time, where the machine has drifted least.

A factor that is ``hard`` to change splits each block into whole plots: all trials at one of its
levels follow one another, the levels in random order, and only within them the order is as above
(B. Jones and C. J. Nachtsheim (2009), Split-plot designs: what, why, and how, Journal of Quality
Technology 41, 340-361).  Of several hard factors the first in the file changes least often.

Blocks may be spread over hosts (:mod:`iotrial.plan.spread`): each is then as above, on one host.

The order of block *b* comes from ``random.Random(f"{study.digest}:{study.design.seed}:{b}")``,
which shuffles the workloads, then each one's cells: the same study gives the same plan on every
machine.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iotrial.errors import SettingRefused, UsageError
from iotrial.model.study import Factor, Level, Study
from iotrial.model.topology import Topology
from iotrial.model.trial import HOST_LOST, Treatment, Trial, TrialRecord, treatment_text
from iotrial.model.tunable import Setting, Tunable
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.looking import blocks_now
from iotrial.plan.race import wanted
from iotrial.plan.saturate import wanted as searched
from iotrial.plan.spread import holders, homes
from iotrial.plan.subset import fraction, one_at_a_time
from iotrial.tunables import catalogue_of

MOST_ATTEMPTS = 3
"""An INVALID trial is queued again until it was tried this often."""

Slot = tuple[str, int, str, Treatment]
"""Host ('' where blocks are not spread over hosts), block, workload, treatment."""


def open_factors(study: Study) -> tuple[Factor, ...]:
    """The factors whose levels are ``"available"`` and not yet asked for."""
    return tuple(factor for factor in study.factors if not factor.levels)


def applies(factor: Factor, workload: str) -> bool:
    """Whether a factor is varied under this workload (an option factor may be bound to one)."""
    return factor.workload in ("", workload)


def cells(study: Study, workload: str) -> tuple[Treatment, ...]:
    """The treatments of one workload: of all combinations of the factors that apply to it, but
    for the excluded ones, those that the design tries (:mod:`iotrial.plan.subset`).  A study
    without factors has the one treatment ``()``.

    Raises UsageError while a factor's levels are not known, and where the design asks for a
    subset that does not exist.
    """
    if unknown := open_factors(study):
        raise UsageError(
            f"factor {unknown[0].name}: its levels are what the kernel offers, not yet asked",
            advice="Ask the host first: iotrial.plan.available.with_available.",
        )
    factors = [factor for factor in study.factors if applies(factor, workload)]
    excluded = functools.partial(_excluded, study)
    if study.design.kind == "one-at-a-time":
        return one_at_a_time(factors, excluded)
    if study.design.kind == "fraction":
        return fraction(study, factors, excluded)
    return study.treatments(workload)


def _excluded(study: Study, treatment: Treatment) -> bool:
    return any(set(pairs) <= set(treatment) for pairs in study.exclude)


def next_of_design(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[Trial, ...]:
    """What to plan next of a study without stages, to be appended to the plan; ``()`` when there is
    nothing more to do.

    First all blocks (whatever of them is not yet planned: the end of a plan may be lost in a
    crash), then every trial whose latest attempt was INVALID, in the same block, until
    :data:`MOST_ATTEMPTS`.  A failed trial is not queued again, unless a host was lost in it.
    Numbers continue from ``planned``.
    A race is planned as far as the next look (:mod:`iotrial.plan.race`), and so is a design that
    ends when all is decided (:mod:`iotrial.plan.looking`).
    Of recorded results, which somebody else measured: nothing.
    """
    if study.design.kind == "recorded":
        return ()
    known = {slot_of(trial) for trial in planned}
    again = _again(planned, done)
    racing = study.design.kind in ("race", "saturate")
    if racing:
        slots = _race_schedule(study, planned, () if again else done)
    else:
        slots = _schedule(study, blocks_now(study, planned, () if again else done))
    queue = [*((slot, 1) for slot in slots if slot not in known), *again]
    first = max((trial.number for trial in planned), default=0) + 1
    return tuple(
        trial_at(study, number, slot, attempt)
        for number, (slot, attempt) in enumerate(queue, start=first)
    )


def slot_of(trial: Trial) -> Slot:
    """What a trial is an attempt at."""
    return trial.host, trial.block, trial.workload, trial.treatment


def _schedule(study: Study, blocks: int) -> Iterator[Slot]:
    everything = [(workload.name, cells(study, workload.name)) for workload in study.workloads]
    hosts = homes(study)
    for block in range(1, blocks + 1):
        for workload, cell in _in_order(study, block, everything):
            yield hosts[(block - 1) % len(hosts)], block, workload, cell


def block_of(study: Study, block: int, host: str) -> Iterator[Slot]:
    """One whole block on a host, in its order."""
    everything = [(workload.name, cells(study, workload.name)) for workload in study.workloads]
    for workload, cell in _in_order(study, block, everything):
        yield host, block, workload, cell


def _in_order(
    study: Study, block: int, everything: Sequence[tuple[str, tuple[Treatment, ...]]]
) -> Iterator[tuple[str, Treatment]]:
    # Seeded on purpose: an order that can be had again, not a secret.
    chance = random.Random(f"{study.digest}:{study.design.seed}:{block}")
    hard = [factor.name for factor in study.factors if factor.hard]
    yield from _shuffled(everything, hard, chance)


def _race_schedule(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> Iterator[Slot]:
    treatments = {workload.name: cells(study, workload.name) for workload in study.workloads}
    ask = searched if study.design.kind == "saturate" else wanted
    for block, everything in sorted(ask(study, treatments, planned, done).items()):
        for workload, cell in _in_order(study, block, everything):
            yield "", block, workload, cell


def _shuffled(
    everything: Sequence[tuple[str, tuple[Treatment, ...]]],
    hard: Sequence[str],
    chance: random.Random,
) -> Iterator[tuple[str, Treatment]]:
    """One block: by the levels of the hard factors, then by workload, each in random order."""
    if not hard:
        for workload, treatments in chance.sample(everything, k=len(everything)):
            for cell in chance.sample(treatments, k=len(treatments)):
                yield workload, cell
        return
    known = (dict(cell).get(hard[0], "") for _, treatments in everything for cell in treatments)
    labels = list(dict.fromkeys(known))
    for label in chance.sample(labels, k=len(labels)):
        own = [
            (workload, tuple(cell for cell in treatments if dict(cell).get(hard[0], "") == label))
            for workload, treatments in everything
        ]
        yield from _shuffled([each for each in own if each[1]], hard[1:], chance)


def _again(planned: Sequence[Trial], done: Sequence[TrialRecord]) -> list[tuple[Slot, int]]:
    latest: dict[Slot, Trial] = {}
    held = holders(planned)
    for trial in planned:
        slot = slot_of(trial)
        if held[trial.block] != trial.host:
            continue
        if slot not in latest or trial.attempt > latest[slot].attempt:
            latest[slot] = trial
    invalid = {
        record.trial.number
        for record in done
        if record.state == "invalid" or any(doubt.check == HOST_LOST for doubt in record.doubts)
    }
    return [
        (slot, trial.attempt + 1)
        for slot, trial in latest.items()
        if trial.number in invalid and trial.attempt < MOST_ATTEMPTS
    ]


def trial_at(study: Study, number: int, slot: Slot, attempt: int) -> Trial:
    """The trial that is this attempt at a slot."""
    host, block, workload, treatment = slot
    words = [study.digest, str(block), workload, treatment_text(treatment), str(attempt)]
    words += [host] if host else []
    return Trial(
        number=number,
        id=hashlib.sha256("\0".join(words).encode()).hexdigest()[:6],
        block=block,
        workload=workload,
        treatment=treatment,
        target=target_of(study, treatment),
        attempt=attempt,
        host=host,
    )


def levels_of(study: Study, treatment: Treatment) -> Iterator[tuple[Factor, Level]]:
    """Each factor of a treatment with its level."""
    for name, label in treatment:
        factor = study.factor(name)
        yield factor, factor.level(label)


def target_of(study: Study, treatment: Treatment) -> str:
    """The name of the target under test: the treatment's, or the study's only one."""
    for _, level in levels_of(study, treatment):
        if level.target:
            return level.target
    return study.targets[0].name


def workload_of(study: Study, trial: Trial) -> Workload:
    """The trial's workload, with its stage's options and the levels of the option factors."""
    workload = study.workload(trial.workload, trial.stage)
    for factor, level in levels_of(study, trial.treatment):
        for name, value in factor.options(level):
            workload = with_option(workload, name, value)
    return workload


def with_option(workload: Workload, name: str, value: OptionValue) -> Workload:
    """The workload with one option set, in its old place if it was there."""
    return replace(workload, options=tuple({**dict(workload.options), name: value}.items()))


def settings(study: Study, trial: Trial, topologies: Mapping[str, Topology]) -> tuple[Setting, ...]:
    """What to set for a trial, in the order to write it (the tunables' ``rank``).

    ``topologies`` maps a target's name to what lies below it: a setting fans out to everything
    there that its tunable belongs to.  A tunable that another treatment sets and this one does
    not (an empty group, ``unset``) is to stand as it stood at the start of the study.

    Raises SettingRefused for a tunable of which the target has nothing to set it on.
    """
    known = catalogue_of(study)
    found = [
        Setting(device, name, value)
        for factor, level in levels_of(study, trial.treatment)
        for name, value in level.settings
        for device in _devices(trial, factor, known.tunable(name), topologies)
    ]
    return tuple(sorted(found, key=lambda each: known.tunable(each.tunable).rank))


def nodes(factor: Factor, knob: Tunable, below: Topology) -> tuple[str, ...]:
    """What a tunable of a factor is set on: what the factor names, else what the target has of
    its scope."""
    return (factor.on,) if factor.on and knob.scope != "host" else below.names(knob.scope)


def _devices(
    trial: Trial, factor: Factor, knob: Tunable, topologies: Mapping[str, Topology]
) -> tuple[str, ...]:
    target = factor.target or trial.target
    found = nodes(factor, knob, topologies.get(target, Topology()))
    if not found:
        raise SettingRefused(
            f"factor {factor.name}: {knob.name} belongs to a {knob.scope}, and target {target} has"
            " none",
            tunable=knob.name,
            advice="Aim at something that has one, name it ([factors.…] on = …), or name another"
            " target ([factors.…] target = …).",
        )
    return found


def with_baselines(study: Study, known: Mapping[str, str]) -> Study:
    """The study with every factor's baseline as it was found at the start: what is planned and
    judged from then on means the same level."""
    return replace(
        study,
        factors=tuple(
            replace(factor, baseline=factor.baseline or known.get(factor.name, ""))
            for factor in study.factors
        ),
    )


def baselines(
    study: Study,
    in_force: Mapping[tuple[str, str], str],
    topologies: Mapping[str, Topology] | None = None,
) -> dict[str, str]:
    """The label of each factor's baseline level.

    The declared one; else the first level whose settings all equal what was in force at the
    start (``in_force``: (device, tunable) → value), on the device of the factor's own target
    where it names one, otherwise on every device; else the first level.
    """
    return {
        factor.name: factor.baseline or _standing(study, factor, in_force, topologies or {})
        for factor in study.factors
        if factor.levels
    }


def _standing(
    study: Study,
    factor: Factor,
    in_force: Mapping[tuple[str, str], str],
    topologies: Mapping[str, Topology],
) -> str:
    below, known = topologies.get(factor.target), catalogue_of(study)
    seen: dict[str, set[str]] = {}
    for (device, name), value in in_force.items():
        if below is None or device in nodes(factor, known.tunable(name), below):
            seen.setdefault(name, set()).add(value)
    for level in factor.levels:
        if all(seen.get(name) == {value} for name, value in level.settings):
            return level.label
    return factor.levels[0].label
