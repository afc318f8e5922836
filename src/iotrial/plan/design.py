"""From a study to its trials, and from a trial to what it needs.  Pure and seeded.

Randomised complete blocks: every (workload, treatment) once per block, in a fresh random order,
so that drift of the machine falls on all treatments alike (Box, Hunter and Hunter, *Statistics
for Experimenters*, 2nd ed., ch. 4).  Within a block the workloads come in random order and the
treatments of one workload follow one another, in random order too: what is compared is measured
close together in time, where the machine has drifted least.

A factor that is ``hard`` to change splits each block into whole plots: all trials at one of its
levels follow one another, the levels in random order, and only within them the order is as above
(B. Jones and C. J. Nachtsheim (2009), Split-plot designs: what, why, and how, Journal of Quality
Technology 41, 340-361).  Of several hard factors the first in the file changes least often; those
that take a boot come before the others, and each combination of their levels is one whole plot.

The order of block *b* comes from ``random.Random(f"{study.digest}:{study.design.seed}:{b}")``,
which shuffles the workloads, then each one's cells: the same study gives the same plan on every
machine.

``stop = "decided"``: after every block the study is judged as ``compare`` would judge it, by
intervals that hold at all looks together (:mod:`iotrial.stats.critical`).

``blocks_over = "hosts"``: the target's hosts are the blocks' and not loaded together.  Each block
runs wholly on one host, as many blocks at the same time as there are hosts; treatments are compared
within blocks alone, so that what differs between hosts cancels as what differs between hours does
(R. A. Fisher (1926), The arrangement of field experiments, Journal of the Ministry of Agriculture
33, 503-513: neighbouring plots as blocks).  Block *b* of *n* hosts is at home on host
((b - 1) mod n) + 1.  A host that is lost and does not come back gives the blocks that it has not
finished to the others: each is planned anew, whole, on another host, and what was measured of it
stays, as a block of its own that is not complete.  The host of a block is that of its last line in
the plan.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iotrial.errors import SettingRefused, UsageError
from iotrial.model.results import Results
from iotrial.model.study import Factor, Level, Study
from iotrial.model.target import Topology
from iotrial.model.trial import HOST_LOST, Treatment, Trial, TrialRecord, treatment_text
from iotrial.model.tunable import Setting, Tunable
from iotrial.model.workload import Workload
from iotrial.plan import tune
from iotrial.plan.race import wanted
from iotrial.plan.saturate import wanted as searched
from iotrial.plan.subset import fraction, one_at_a_time
from iotrial.tunables import catalogue_of
from iotrial.tunables.boot import takes_boot

BLOCKS_BEFORE_LOOKING = 2
"""Blocks before the first look."""
LEAST_OF_STAGE = 4
"""Blocks of a stage that may take a share of the budget, which two of them could not use."""
MOST_ATTEMPTS = 3
"""An INVALID trial is queued again until it was tried this often."""
Slot = tuple[str, int, str, Treatment]
"""Host ('' where blocks are not spread over hosts), block, workload, treatment."""
NAMED = 8
"""Interactions spelt out in one line; the JSON has all."""
Effect = tuple[str, ...]
"""The names of the factors of an effect: one for a main effect, two for an interaction."""


def blocks_now(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> int:
    """The number of blocks that the plan should hold by now."""
    most = study.design.blocks
    if study.design.stop == "blocks":
        return most
    reached = max((trial.block for trial in planned), default=0)
    if reached < BLOCKS_BEFORE_LOOKING:
        return min(BLOCKS_BEFORE_LOOKING, most)
    if waiting(planned, done) or reached >= most or _decided(study, planned, done):
        return reached
    spent = sum(record.seconds + record.prepared for record in done)
    if reached >= LEAST_OF_STAGE and 0 < study.design.share <= spent:
        return reached
    return reached + 1


def _decided(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> bool:
    """Whether every primary comparison has a verdict."""
    from iotrial.stats.judge import judge  # noqa: PLC0415  SciPy is slow to import

    found = judge(Results(Path(), study, tuple(planned), tuple(done))).findings
    primary = [finding for finding in found if finding.primary]
    return bool(primary) and all(finding.verdict != "cannot-tell" for finding in primary)


def abreast(study: Study) -> int:
    """How many blocks run at the same time."""
    return min(len(study.places), study.design.blocks) if study.spread else 1


def homes(study: Study) -> tuple[str, ...]:
    """The hosts on which blocks are planned first, in turn; one, '', where they are not spread."""
    return tuple(place.name for place in study.places) if study.spread else ("",)


def holders(planned: Iterable[Trial]) -> dict[int, str]:
    """Block -> the host that has it now."""
    return {trial.block: trial.host for trial in planned}


def waiting(planned: Sequence[Trial], done: Iterable[TrialRecord]) -> list[Trial]:
    """The trials that are planned and not done, but for those whose block another host has now."""
    finished, held = {record.trial.number for record in done}, holders(planned)
    return [
        trial
        for trial in planned
        if trial.number not in finished and held[trial.block] == trial.host
    ]


def open_factors(study: Study) -> tuple[Factor, ...]:
    """The factors whose levels are ``"available"`` and not yet asked for."""
    return tuple(factor for factor in study.factors if not factor.levels)


def applies(factor: Factor, workload: str) -> bool:
    """Whether a factor is varied under this workload (an option factor may be bound to one)."""
    return factor.workload in ("", workload)


def applied(study: Study, treatment: Treatment, workload: str) -> Treatment:
    """What of a treatment of all factors is varied under this workload."""
    return tuple(pair for pair in treatment if applies(study.factor(pair[0]), workload))


def cells(study: Study, workload: str) -> tuple[Treatment, ...]:
    """The treatments of one workload: of all combinations of the factors that apply to it, but
    for the excluded ones, those that the design tries (:mod:`iotrial.plan.subset`).  Of a search
    for the best levels (``tune``), which chooses as it goes, every level once.  A study without
    factors has the one treatment ``()``.

    Raises UsageError while a factor's levels are not known, and where the design asks for a
    subset that does not exist.
    """
    if unknown := open_factors(study):
        raise UsageError(
            f"factor {unknown[0].name}: its levels come from the kernel, which was not asked yet",
            advice="Ask the host first: iotrial.plan.available.with_available.",
        )
    factors = [factor for factor in study.factors if applies(factor, workload)]
    excluded = functools.partial(_excluded, study)
    if study.design.kind in ("one-at-a-time", "tune"):
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
    ends when all is decided (:mod:`iotrial.plan.design`).
    Of recorded results, which somebody else measured: nothing.
    """
    if study.design.kind == "recorded":
        return ()
    known = {slot_of(trial) for trial in planned}
    again = _again(planned, done)
    if study.design.kind == "tune":
        slots = _search_schedule(study, planned, () if again else done)
    elif study.design.kind in ("race", "saturate"):
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
    everything = [(workload.name, cells(study, workload.name)) for workload in study.judged]
    hosts = homes(study)
    for block in range(1, blocks + 1):
        for workload, cell in _in_order(study, block, everything):
            yield hosts[(block - 1) % len(hosts)], block, workload, cell


def block_of(study: Study, block: int, host: str) -> Iterator[Slot]:
    """One whole block on a host, in its order."""
    everything = [(workload.name, cells(study, workload.name)) for workload in study.judged]
    for workload, cell in _in_order(study, block, everything):
        yield host, block, workload, cell


def _in_order(
    study: Study, block: int, everything: Sequence[tuple[str, tuple[Treatment, ...]]]
) -> Iterator[tuple[str, Treatment]]:
    # Seeded on purpose: an order that can be had again, not a secret.
    chance = random.Random(f"{study.digest}:{study.design.seed}:{block}")
    booted = tuple(factor.name for factor in study.factors if takes_boot(factor.levels))
    others = [(f.name,) for f in study.factors if f.hard and f.name not in booted]
    hard = [booted, *others] if booted else others
    yield from _shuffled(everything, hard, chance)


def _race_schedule(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> Iterator[Slot]:
    treatments = {workload.name: cells(study, workload.name) for workload in study.judged}
    ask = searched if study.design.kind == "saturate" else wanted
    for block, everything in sorted(ask(study, treatments, planned, done).items()):
        for workload, cell in _in_order(study, block, everything):
            yield "", block, workload, cell


def _search_schedule(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> Iterator[Slot]:
    """The next block of a search for the best levels; nothing while planned trials wait."""
    workload = study.judged[0]
    slots = {slot_of(trial) for trial in planned}
    first = [("", 1, workload.name, cell) for cell in tune.next_batch(study, 0, ())]
    if not slots >= set(first):  # the end of a plan may be lost in a crash
        block, batch = 1, tuple(cell for _, _, _, cell in first)
    elif {trial.number for trial in planned} - {record.trial.number for record in done}:
        return
    else:
        block, batch = _next_batch(study, planned, done)
    for name, cell in _in_order(study, block, [(workload.name, batch)] if batch else []):
        yield "", block, name, cell


def _next_batch(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[int, tuple[Treatment, ...]]:
    """The last batch of a search where a part of it is not planned, else the next one."""
    last = max(trial.block for trial in planned)
    earlier = [record for record in done if record.trial.block < last]
    before = {slot_of(trial) for trial in planned if trial.block < last}
    whole = tune.next_batch(study, len(before), earlier) if before else ()
    if {trial.treatment for trial in planned if trial.block == last} < set(whole):
        return last, whole
    return last + 1, tune.next_batch(study, len({slot_of(trial) for trial in planned}), done)


def _shuffled(
    everything: Sequence[tuple[str, tuple[Treatment, ...]]],
    hard: Sequence[tuple[str, ...]],
    chance: random.Random,
) -> Iterator[tuple[str, Treatment]]:
    """One block: by the levels of the hard factors (each entry: factors whose levels change
    together), then by workload, each in random order."""
    if not hard:
        for workload, treatments in chance.sample(everything, k=len(everything)):
            for cell in chance.sample(treatments, k=len(treatments)):
                yield workload, cell
        return
    known = (_labels(cell, hard[0]) for _, treatments in everything for cell in treatments)
    labels = list(dict.fromkeys(known))
    for label in chance.sample(labels, k=len(labels)):
        own = [
            (workload, tuple(cell for cell in treatments if _labels(cell, hard[0]) == label))
            for workload, treatments in everything
        ]
        yield from _shuffled([each for each in own if each[1]], hard[1:], chance)


def _labels(cell: Treatment, names: tuple[str, ...]) -> tuple[str, ...]:
    """The levels of these factors in a treatment ('': it has none of that factor's)."""
    known = dict(cell)
    return tuple(known.get(name, "") for name in names)


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
        workload = workload.with_options(factor.options(level))
    return workload


def settings(study: Study, trial: Trial, topologies: Mapping[str, Topology]) -> tuple[Setting, ...]:
    """What to set for a trial, in the order to write it (the tunables' ``rank``).

    ``topologies`` maps a target's name to what lies below it: a setting fans out to everything
    there that its tunable belongs to.  A tunable that another treatment sets and this one does
    not (an empty group, ``unset``) is to stand as it stood at the start of the study.

    Raises SettingRefused for a tunable of which the target has nothing to set it on.
    """
    known = catalogue_of(study)
    found = [
        each
        for factor, level in levels_of(study, trial.treatment)
        for name, value in level.settings
        for each in _placed(trial, factor, known.tunable(name), value, topologies)
    ]
    return tuple(sorted(found, key=lambda each: known.tunable(each.tunable).rank))


def nodes(factor: Factor, knob: Tunable, below: Topology) -> tuple[str, ...]:
    """What a tunable of a factor is set on: what the factor names, else what the target has of
    its scope."""
    if not factor.on or knob.scope == "host":
        return below.names(knob.scope)
    if knob.place is None:
        return (factor.on,)
    # A rule is about all that a thing has, such as the interrupts of an interface.
    keys = (key for node in below.nodes if node.name == factor.on for key in node.below)
    return tuple(dict.fromkeys(name for scope, name in keys if scope == knob.scope))


def _placed(
    trial: Trial, factor: Factor, knob: Tunable, value: str, topologies: Mapping[str, Topology]
) -> tuple[Setting, ...]:
    target = factor.target or trial.target
    below = topologies.get(target, Topology())
    found = nodes(factor, knob, below)
    if not found:
        raise SettingRefused(
            f"factor {factor.name}: {knob.name} belongs to a {knob.scope}, which target {target}"
            " does not have",
            tunable=knob.name,
            advice="Use a target that has one, name it ([factors.…] on = …), or name another"
            " target ([factors.…] target = …).",
        )
    return knob.placed(value, found, below)


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
    there = topologies.values() if below is None else (below,)
    seen: dict[str, set[str]] = {}
    for (device, name), value in in_force.items():
        if below is None or device in nodes(factor, known.tunable(name), below):
            seen.setdefault(name, set()).add(value)
    for level in factor.levels:
        knobs = [(known.tunable(name), value) for name, value in level.settings]
        if all(
            _follows(factor, knob, value, in_force, there)
            if knob.place
            else seen.get(knob.name) == {value}
            for knob, value in knobs
        ):
            return level.label
    return factor.levels[0].label


def _follows(
    factor: Factor,
    knob: Tunable,
    rule: str,
    in_force: Mapping[tuple[str, str], str],
    topologies: Iterable[Topology],
) -> bool:
    """Whether everything was where a rule puts it."""
    wanted = [s for t in topologies for s in knob.placed(rule, nodes(factor, knob, t), t)]
    return bool(wanted) and all(in_force.get((s.device, s.tunable)) == s.value for s in wanted)


def taken_over(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord], at_hand: Sequence[str]
) -> tuple[Trial, ...]:
    """What to append to the plan, so that every block that still waits for a host that is not
    ``at_hand`` is done by one that is; each whole, as blocks are, but for what this host has
    measured of it already."""
    if not at_hand:
        return ()
    lost = {trial.block for trial in waiting(planned, done) if trial.host not in at_hand}
    tried = dict.fromkeys(map(slot_of, planned), 0)
    for trial in planned:
        tried[slot_of(trial)] = max(tried[slot_of(trial)], trial.attempt)
    measured = {slot_of(record.trial) for record in done if record.state == "valid"}
    wanted = [
        slot
        for turn, block in enumerate(sorted(lost))
        for slot in block_of(study, block, at_hand[turn % len(at_hand)])
        if slot not in measured
    ]
    first = max((trial.number for trial in planned), default=0) + 1
    return tuple(
        trial_at(study, number, slot, tried.get(slot, 0) + 1)
        for number, slot in enumerate(wanted, start=first)
    )


@dataclass(frozen=True, slots=True)
class _MixedEffect:
    """``effect`` cannot be told from ``wholly``, and is partly mixed with ``partly``."""

    effect: Effect
    wholly: tuple[Effect, ...] = ()
    partly: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class FractionSummary:
    """Of one workload: ``tried`` of ``combinations`` treatments, what is ``mixed``, and which
    interactions cannot be seen at all (``unseen``).  ``words`` say it in sentences."""

    workload: str
    kind: str
    tried: int
    combinations: int
    mixed: tuple[_MixedEffect, ...]
    unseen: tuple[Effect, ...]
    words: tuple[str, ...]


def given_up(study: Study) -> tuple[FractionSummary, ...]:
    """What the design leaves out, for each workload; nothing for a full factorial.

    Needs all levels known; raises UsageError like :func:`iotrial.plan.design.cells`.
    """
    if study.design.kind not in {"fraction", "one-at-a-time"}:
        return ()
    return tuple(_of(study, workload.name) for workload in study.judged)


def _of(study: Study, workload: str) -> FractionSummary:
    factors = [f for f in study.factors if applies(f, workload) and len(f.levels) > 1]
    tried = cells(study, workload)
    combinations = math.prod(len(factor.levels) for factor in factors)
    if study.design.kind == "one-at-a-time":
        unseen = tuple(itertools.combinations([factor.name for factor in factors], 2))
        mixed: tuple[_MixedEffect, ...] = ()
    else:
        mixed, unseen = _mixed(factors, tried), ()
    words = tuple(_words(study, (len(tried), combinations), mixed, unseen))
    return FractionSummary(
        workload, study.design.kind, len(tried), combinations, mixed, unseen, words
    )


def _mixed(factors: Sequence[Factor], tried: Sequence[tuple[tuple[str, str], ...]]) -> tuple[
    _MixedEffect, ...
]:  # fmt: skip
    from iotrial.stats.designs import aliases  # noqa: PLC0415  NumPy is slow to import
    from iotrial.stats.effects import coordinates, varied  # noqa: PLC0415  as above

    own = varied(tried, factors)
    names = [factor.name for factor, _ in own]
    found = aliases(coordinates(tried, own), [len(labels) for _, labels in own])

    def named(terms: Sequence[tuple[int, ...]]) -> tuple[Effect, ...]:
        return tuple(tuple(names[place] for place in term) for term in terms)

    return tuple(
        _MixedEffect(named([each.term])[0], named(each.wholly), named(each.partly))
        for each in found
    )


def _words(
    study: Study, sizes: tuple[int, int], mixed: Sequence[_MixedEffect], unseen: Sequence[Effect]
) -> Iterator[str]:
    tried, combinations = sizes
    if study.design.kind == "one-at-a-time":
        yield f"{tried} of {combinations} combinations: the baseline, and each other level alone"
        yield "each effect is estimated with the other factors at their baseline only"
        if unseen:
            yield f"interactions not estimable: {_listed(unseen)}"
        return
    if tried == combinations:
        yield (f"all {combinations} combinations: a fraction of this resolution is the full design")
        return
    yield f"{tried} of {combinations} combinations"
    for each in mixed:
        if each.wholly:
            yield f"{effect_text(each.effect)} is aliased with {_listed(each.wholly)}"
        if each.partly:
            yield f"{effect_text(each.effect)} is partially aliased with {_listed(each.partly)}"
    if not mixed:
        yield "no main effect or two-factor interaction is aliased with another"
    yield "three-factor and higher interactions are assumed negligible"


def effect_text(effect: Effect) -> str:
    """``scheduler×depth``."""
    return "×".join(effect)


def _listed(effects: Sequence[Effect]) -> str:
    shown = ", ".join(map(effect_text, effects[:NAMED]))
    return f"{shown} and {len(effects) - NAMED} more" if len(effects) > NAMED else shown
