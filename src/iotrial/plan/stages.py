"""A study in stages: what each of them is, what came of it, and what is next.  Pure and seeded.

A stage is a study of its own (:func:`substudy`): its factors at the levels that earlier stages left
of them, every other factor at the one level where it stands, its workloads, target and blocks.  So
designs, orders, repeats of INVALID trials and intervals are those of any study.  Nothing about
stages is stored but the number in each planned trial: :func:`courses` goes through the stages from
the first one, decides each from its records, and stops at the first that is not done.  Resuming
after a kill is therefore nothing special.

The error of a study is shared: each stage has the confidence C^(1/stages), and since no trial
counts in two stages, all of them hold together with C.

Blocks are numbered on from stage to stage.  A stage that confirms has two treatments, all baselines
(``current``) and all that was chosen (``new``), compared as the two levels of one factor; one that
asks what each factor is worth (of a search for the best levels, :mod:`iotrial.plan.tune`) compares
``new`` with the same less one factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from iotrial.model.finding import CarriedLevels, StageProgress
from iotrial.model.results import Results
from iotrial.model.study import Design, Factor, Level, Stage, StageDecision, Study, Sweep
from iotrial.model.target import Target
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.plan import tune
from iotrial.plan.convert import BLOCKS
from iotrial.plan.design import applied, applies, next_of_design, target_of
from iotrial.plan.race import MOST_BLOCKS
from iotrial.plan.subset import baseline_first, screening
from iotrial.plan.tune import WITHOUT

SETTINGS, CURRENT, NEW = "settings", "current", "new"
"""The factor of a stage that confirms, and its levels."""


def baseline(factor: Factor) -> str:
    """The label of a factor's baseline, of a staged study: as declared, else the first."""
    return baseline_first(factor)[0]


def begin(study: Study) -> CarriedLevels:
    """Before the first stage: all levels it begins with, everything at its baseline."""
    left = {f.name: f.coarse or tuple(level.label for level in f.levels) for f in study.factors}
    return CarriedLevels(left, {factor.name: baseline(factor) for factor in study.factors})


def substudy(study: Study, stage: Stage, so_far: CarriedLevels) -> Study:
    """The stage as a study of its own, without stages."""
    names = stage.workloads or tuple(workload.name for workload in study.workloads)
    names = () if stage.here == () else names
    share = study.decide.confidence ** (1 / claiming(study))
    factors = tuple(_at(factor, stage, so_far) for factor in study.factors)
    part = replace(
        study,
        targets=targets_of(study, stage),
        workloads=tuple(
            study.workload(w.name, stage.number) for w in study.workloads if w.name in names
        ),
        factors=factors,
        design=_design(study, stage, factors),
        decide=replace(study.decide.of(names), confidence=share),
        digest=f"{study.digest}.{stage.number}",
        stages=(),
    )
    if stage.then in ("confirm", "worth"):
        return _confirming(study, stage, so_far, part)
    if stage.then == "screen" and sum(len(factor.levels) > 1 for factor in part.factors) > 1:
        return screening(part)
    return part


def claiming(study: Study) -> int:
    """How many stages share the error: all but a search, from which nothing is claimed."""
    return sum(stage.then != "tune" for stage in study.stages)


def _design(study: Study, stage: Stage, factors: Sequence[Factor]) -> Design:
    """The stage's design.  Where the study is a race, so are the stages that ask for the best and
    do not say how many blocks; the others need intervals for all their levels."""
    if study.design.kind == "tune":
        return tune.design_of(study, stage)
    # Pairs of levels have intervals for one look; only what `judge` decides may look more often.
    given = study.design if stage.then == "confirm" else replace(study.design, stop="blocks")
    unfit = any(factor.hard and len(factor.levels) > 1 for factor in factors)
    by_default = given.kind == "race" and stage.then == "best" and not stage.blocks
    racing = not unfit and (stage.kind == "race" or (not stage.kind and by_default))
    usual = MOST_BLOCKS if racing else BLOCKS
    if racing is (given.kind == "race"):
        usual = given.blocks
    blocks = stage.blocks or usual
    if racing:
        return replace(given, kind="race", blocks=blocks)
    if stage.kind and stage.kind != "race":
        return replace(given, kind=stage.kind, blocks=blocks)
    return replace(given, kind="full" if given.kind == "race" else given.kind, blocks=blocks)


def targets_of(study: Study, stage: Stage) -> tuple[Target, ...]:
    """The targets of a stage: the one under test, and those that it is made of; none where they
    are all on other machines."""
    if any(factor.kind == "target" for factor in study.factors):
        return study.targets
    if stage.here is not None:
        return tuple(map(study.target, stage.here))
    chosen = study.target(stage.target) if stage.target else study.targets[0]
    return (chosen, *map(study.target, chosen.of))


def _at(factor: Factor, stage: Stage, so_far: CarriedLevels) -> Factor:
    """A factor at the levels that the stage varies it at, or at the one where it stands."""
    stands = so_far.stands[factor.name]
    labels: tuple[str, ...] = (dict(stage.fixed).get(factor.name, stands),)
    if factor.name in stage.vary:
        sweep = dict(stage.sweeps).get(factor.name)
        labels = _swept(factor, so_far.left[factor.name], sweep)
    base = next((x for x in (baseline(factor), stands) if x in labels), labels[0])
    kept = tuple(level for level in factor.levels if level.label in labels)
    return replace(factor, levels=kept, baseline=base, coarse=())


def _swept(factor: Factor, left: tuple[str, ...], sweep: Sweep | None) -> tuple[str, ...]:
    """What is left of a factor, in the steps that the stage asks for; what is no number stays."""
    numbers = [int(label) for label in left if label.isdecimal()]
    if sweep is None or not numbers:
        return left
    low, high = min(numbers), max(numbers)
    low = low if sweep.start is None else max(low, sweep.start)
    high = high if sweep.to is None else min(high, sweep.to)
    known = {level.label for level in factor.levels}
    first = sweep.origin + -(-max(0, low - sweep.origin) // sweep.step) * sweep.step
    wanted = [str(number) for number in range(first, high + 1, sweep.step)]
    others = [label for label in left if not label.isdecimal()]
    found = tuple(label for label in (*others, *wanted) if label in known)
    return found or left


def _confirming(study: Study, stage: Stage, so_far: CarriedLevels, part: Study) -> Study:
    """The comparison of whole treatments, as of the levels of one factor."""
    versions = treatments(study, stage, so_far)
    (base, first), *others = versions.items()
    differing = [
        workload
        for workload in part.workloads
        if any(
            dict(first)[factor.name] != dict(other)[factor.name] and applies(factor, workload.name)
            for factor in study.factors
            for _, other in others
        )
    ]
    moved = any(
        factor.kind == "target" and dict(first)[factor.name] != dict(other)[factor.name]
        for factor in study.factors
        for _, other in others
    )
    labels = tuple(versions) if differing else (base,)
    factor = Factor(
        SETTINGS, "target" if moved else "group", tuple(map(Level, labels)), baseline=base
    )
    return replace(
        part,
        workloads=tuple(differing),
        factors=(factor,),
        exclude=(),
        design=replace(part.design, kind="race" if part.design.kind == "race" else "full"),
        decide=part.decide.of({workload.name for workload in differing}),
    )


def treatments(study: Study, stage: Stage, so_far: CarriedLevels) -> dict[str, Treatment]:
    """What a stage that varies no factor compares, by name, the first with all others: all
    baselines with all that was chosen (``confirm``), or all that was chosen with the same less one
    factor (``worth``).  What the stage fixes is the same in all."""
    fixed = dict(stage.fixed)
    current = {f.name: fixed.get(f.name, baseline(f)) for f in study.factors}
    new = {f.name: fixed.get(f.name, so_far.stands[f.name]) for f in study.factors}
    if stage.then == "confirm":
        return {CURRENT: tuple(current.items()), NEW: tuple(new.items())}
    changed = [name for name in new if new[name] != current[name]]
    less = {f"{WITHOUT}{name}": {**new, name: current[name]} for name in changed}
    found = {NEW: new, **(less if len(changed) > 1 else {})}
    return {label: tuple(levels.items()) for label, levels in found.items()}


def courses(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[StageProgress, ...]:
    """Every stage that has begun or may begin now; the last one is the one to go on with, where
    it is not decided."""
    found: list[StageProgress] = []
    so_far, before = begin(study), 0
    for stage in study.stages:
        own = [trial for trial in planned if trial.stage == stage.number]
        course = course_of(study, stage, so_far, (own, done, before))
        if later := [trial for trial in planned if trial.stage > stage.number]:
            course = _followed(study, course, later)
        found.append(course)
        if not course.decided:
            break
        so_far = so_far.after(course.kept)
        before = max((trial.block for trial in own), default=before)
    return tuple(found)


def course_of(
    study: Study,
    stage: Stage,
    so_far: CarriedLevels,
    trials: tuple[Sequence[Trial], Sequence[TrialRecord], int],
) -> StageProgress:
    planned, done, before = trials
    part = substudy(study, stage, so_far)
    words = _words(study, stage, so_far)
    inside = tuple(_inside(trial, before, words) for trial in planned)
    numbers = {trial.number: trial for trial in inside}
    records = tuple(
        replace(record, trial=numbers[record.trial.number])
        for record in done
        if record.trial.number in numbers
    )
    results = Results(Path(), part, inside, records)
    over = len({record.trial.number for record in records}) == len(inside)
    over = over and (not varies(part) or not next_of_design(part, inside, records))
    course = StageProgress(stage, part, results, before, so_far, begin(study).stands, over)
    if not over:
        return course
    from iotrial.plan.settle import settle  # noqa: PLC0415  NumPy is slow to import

    return replace(course, kept=settle(course))


def _followed(study: Study, course: StageProgress, later: Sequence[Trial]) -> StageProgress:
    """A stage after which others were planned: it is over, and came to what these went on with.
    Another version may judge its trials in another way; that changes nothing of what was done."""
    from iotrial.plan.settle import settle  # noqa: PLC0415  NumPy is slow to import

    kept = course.kept if course.decided else settle(replace(course, decided=True))
    return replace(course, decided=True, kept=tuple(_carried(study, each, later) for each in kept))


def _carried(study: Study, kept: StageDecision, later: Sequence[Trial]) -> StageDecision:
    """The decision on a factor that the trials of later stages show; the same where they agree."""
    name = kept.factor
    seen: dict[int, set[str]] = {}
    for trial in later:
        stage = study.stages[trial.stage - 1]
        if name not in dict(stage.fixed) and (label := dict(trial.treatment).get(name)):
            seen.setdefault(trial.stage, set()).add(label)
    varied = next((n for n in sorted(seen) if name in study.stages[n - 1].vary), None)
    still = {x for n, of in seen.items() if varied is None or n < varied for x in of}
    base = baseline(study.factor(name))
    stands = next(iter(still - {base}), base if base in still else kept.stands)
    left = kept.kept
    if varied is not None:
        numbers = [int(label) for label in seen[varied] if label.isdecimal()]
        left = tuple(
            label
            for label in kept.levels
            if label in seen[varied]
            or (label.isdecimal() and numbers and min(numbers) <= int(label) <= max(numbers))
        )
    elif kept.stands != stands:
        left = (stands,)
    if (left, stands) == (kept.kept, kept.stands) or set(left) == set(kept.kept) == seen.get(
        varied or 0
    ):
        return replace(kept, stands=stands)
    why = f"as the later stages were planned; judged now: {kept.why}"
    return replace(kept, kept=left or (stands,), stands=stands, why=why)


def varies(part: Study) -> bool:
    """Whether there is anything to compare; a stage without is over before it begins."""
    return bool(part.workloads) and any(len(factor.levels) > 1 for factor in part.factors)


def _words(study: Study, stage: Stage, so_far: CarriedLevels) -> dict[Treatment, str]:
    """Of a stage that confirms: each full treatment → the level it is in the stage's study."""
    if stage.then not in ("confirm", "worth"):
        return {}
    versions = treatments(study, stage, so_far)
    return {
        applied(study, whole, workload.name): label
        for workload in study.workloads
        for label, whole in reversed(versions.items())
    }


def _inside(trial: Trial, before: int, words: Mapping[Treatment, str]) -> Trial:
    """A trial as the study of its stage sees it."""
    label = words.get(trial.treatment)
    treatment = trial.treatment if label is None else ((SETTINGS, label),)
    return replace(trial, block=trial.block - before, treatment=treatment)


def _outside(study: Study, course: StageProgress, trial: Trial) -> Trial:
    """A trial of a stage's study as one of the whole study."""
    stage, treatment, target = course.stage, trial.treatment, trial.target
    if stage.then in ("confirm", "worth"):
        whole = treatments(study, stage, course.so_far)[dict(treatment)[SETTINGS]]
        treatment = applied(study, whole, trial.workload)
        target = target_of(replace(study, targets=course.study.targets), treatment)
    return replace(
        trial,
        block=trial.block + course.before,
        treatment=treatment,
        target=target,
        stage=stage.number,
    )


def trials_of(study: Study, course: StageProgress, last: int) -> tuple[Trial, ...]:
    """What is to be done in a stage; numbers follow ``last``."""
    own = course.results
    added = next_of_design(course.study, own.planned, own.records)
    return tuple(
        replace(_outside(study, course, trial), number=number)
        for number, trial in enumerate(added, last + 1)
    )


def next_trials(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[Trial, ...]:
    """What to plan next, to be appended to the plan; ``()`` when there is nothing more to do.  Of a
    study in stages that of its latest stage, then of the next one; of any other see
    :func:`~iotrial.plan.design.next_of_design`."""
    if not study.stages:
        return next_of_design(study, planned, done)
    course = courses(study, planned, done)[-1]
    if course.decided:
        return ()
    return trials_of(study, course, max((trial.number for trial in planned), default=0))


def stage_words(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> Iterator[str]:
    """What the stage before came to, where another begins now, and which that is."""
    now = courses(study, planned, done)
    if not now or any(record.trial.stage == now[-1].stage.number for record in done):
        return
    for course in now[-2:-1]:
        for kept in course.kept:
            left = ", ".join(kept.kept)
            yield f"stage {course.stage.number}: {kept.factor} {left}: {kept.why}"
    yield f"stage {now[-1].stage.number} of {len(study.stages)}: {now[-1].words}"
