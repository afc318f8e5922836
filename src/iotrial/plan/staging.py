"""``[[stage]]`` of a study file: what is wrong with it, and what it becomes.

A stage that asks for finer levels adds them to its factor, behind those that the study begins
with: so everything that is checked of levels (that the kernel takes them, that the tool takes
them) is checked of these too, before anything is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from iotrial.model.order import UNSET, ordered
from iotrial.model.stage import Options, Stage, Sweep
from iotrial.model.study import Factor, Level
from iotrial.model.workload import Workload
from iotrial.plan import convert
from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem, choices
from iotrial.plan.schema import FactorTable, RangeTable, StudyFile
from iotrial.plan.stage_table import StageTable

_FEWEST = 2


def stages(spec: StudyFile) -> tuple[Stage, ...]:
    """The stages of a file that was checked."""
    return tuple(_stage(spec, number, table) for number, table in enumerate(spec.stage, 1))


def _stage(spec: StudyFile, number: int, table: StageTable) -> Stage:
    swept = _swept(spec, table)
    sweeps = ((name, _sweep(table, spread)) for name, spread in swept if table.range)
    fixed = ((n, convert.label(v)) for n, v in table.fix.items() if n in spec.factors)
    return Stage(
        number,
        tuple(table.vary),
        table.then,
        tuple(fixed),
        _options(spec, table),
        tuple(sweeps),
        tuple(table.workloads),
        table.target,
        table.blocks,
        table.kind or "",
    )


def _options(spec: StudyFile, table: StageTable) -> tuple[tuple[str, Options], ...]:
    """By workload: what ``fix`` says for those that have the option, then their own."""
    found = []
    for name in table.workloads or spec.workloads:
        given = {key: value for key, value in table.fix.items() if key in _has(spec, name)}
        given |= table.options.get(name, {})
        if given:
            found.append((name, tuple(given.items())))
    return tuple(found)


def _has(spec: StudyFile, workload: str) -> list[str]:
    """The options that a workload says, less the names of factors."""
    own = spec.workloads[workload].options if workload in spec.workloads else {}
    return [key for key in own if key not in spec.factors]


def _swept(spec: StudyFile, table: StageTable) -> list[tuple[str, RangeTable]]:
    """The varied factors that have a range."""
    known = ((name, spec.factors[name].range) for name in table.vary if name in spec.factors)
    return [(name, spread) for name, spread in known if spread is not None]


def _sweep(table: StageTable, spread: RangeTable) -> Sweep:
    own = table.range
    start, to, step = (own.start, own.to, own.step) if own else (None, None, None)
    return Sweep(spread.start if start is None else start, step or spread.step, start, to)


def staged_loads(workloads: Sequence[Workload], parts: Sequence[Stage]) -> Iterator[Workload]:
    """The workloads with the options that stages give them."""
    known = {workload.name: workload for workload in workloads}
    for stage in parts:
        for name, own in stage.options:
            options = {**dict(known[name].options), **dict(own)}
            yield replace(known[name], options=tuple(options.items()))


def with_finer(spec: StudyFile, factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """The factors with the levels that any stage may ask for."""
    return tuple(_finer(spec, each) for each in factors)


def _finer(spec: StudyFile, factor: Factor) -> Factor:
    table = spec.factors[factor.name]
    known = {level.label for level in factor.levels}
    finer = sorted({number for each in spec.stage for number in _numbers(table, each, factor.name)})
    more = [number for number in finer if str(number) not in known]
    if not more:
        return factor
    levels = sorted(
        [*factor.levels, *(_level(table, number) for number in more)],
        key=lambda level: int(level.label) if level.label != UNSET else -1,
    )
    coarse = tuple(level.label for level in factor.levels)
    return replace(factor, levels=tuple(levels), coarse=coarse)


def _numbers(table: FactorTable, stage: StageTable, name: str) -> range:
    if table.range is None or stage.range is None or name not in stage.vary:
        return range(0)
    sweep = _sweep(stage, table.range)
    end = table.range.to if sweep.to is None else sweep.to
    return range(sweep.origin, end + 1, max(1, sweep.step))


def _level(table: FactorTable, number: int) -> Level:
    if table.tunable:
        return convert.tunable_level(table.tunable, number)
    return Level(convert.label(number), option=number)


# What cannot be meant.


def stage_problems(spec: StudyFile) -> Iterator[Problem]:
    """Every problem of a stage with the rest of the file."""
    for at, table in enumerate(spec.stage):
        path: KeyPath = ("stage", at)
        yield from _varied(path, table, spec)
        yield from _fixed(path, table, spec)
        yield from _loaded(path, table, spec)
        yield from _ranged(path, table, spec)
        yield from _then(path, table, spec)
    if spec.stage:
        yield from _factors(spec)


def _varied(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[Problem]:
    for at, name in enumerate(table.vary):
        if name not in spec.factors:
            advice = choices(name, list(spec.factors), "[factors]")
            yield Problem((*path, "vary", at), f"there is no {name!r} in [factors]", advice)
        elif name in table.vary[:at]:
            yield Problem((*path, "vary", at), f"{name} is there twice", "Leave one out.")
        elif name in table.fix:
            message = f"{name} is varied and held still"
            yield Problem((*path, "fix", name), message, "Leave one out.")
        elif _idle(table, spec.factors[name], spec):
            message = f"{name} is an option of none of the workloads of this stage"
            yield Problem((*path, "vary", at), message, "Add its workload, or leave it out.")
    if not table.vary and table.then != "confirm":
        yield Problem((*path, "vary"), "nothing is varied", 'Such as vary = ["rsize"]')
    if table.vary and table.then == "confirm":
        message = "a stage that confirms varies nothing: it compares all baselines with all choices"
        yield Problem((*path, "vary"), message, "Leave it out.")


def _idle(table: StageTable, factor: FactorTable, spec: StudyFile) -> bool:
    return bool(factor.workload) and factor.workload not in (table.workloads or spec.workloads)


def _fixed(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[Problem]:
    loads = [name for name in table.workloads or spec.workloads if name in spec.workloads]
    options = list(dict.fromkeys(key for name in loads for key in _has(spec, name)))
    for name, value in table.fix.items():
        if name in spec.factors:
            labels = [level.label for level in convert.levels(spec.factors[name])]
            if labels and convert.label(value) not in labels:
                message = f"{convert.label(value)!r} is not one of the levels of {name}"
                advice = choices(convert.label(value), labels, "levels")
                yield Problem((*path, "fix", name), message, advice)
        elif name not in options:
            message = f"{name!r} is no factor, and no option of the workloads of this stage"
            advice = choices(name, [*spec.factors, *options], "there are")
            yield Problem((*path, "fix", name), message, advice)


def _loaded(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[Problem]:
    for at, name in enumerate(table.workloads):
        if name not in spec.workloads:
            advice = choices(name, list(spec.workloads), "[workloads]")
            yield Problem((*path, "workloads", at), f"there is no {name!r} in [workloads]", advice)
    for name in table.options:
        if name not in spec.workloads or name not in (table.workloads or spec.workloads):
            message = f"{name!r} is no workload of this stage"
            advice = choices(name, table.workloads or list(spec.workloads), "workloads")
            yield Problem((*path, "options", name), message, advice)
    if table.target and table.target not in spec.targets:
        advice = choices(table.target, list(spec.targets), "[targets]")
        yield Problem((*path, "target"), f"there is no {table.target!r} in [targets]", advice)
    if table.target and (several := [n for n, each in spec.factors.items() if each.targets]):
        message = f"the targets are those of factor {several[0]}"
        yield Problem((*path, "target"), message, "Leave it out.")


def _ranged(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[Problem]:
    if table.range is None:
        return
    swept = _swept(spec, table)
    if len(swept) != 1:
        found = " and ".join(name for name, _ in swept) or "none"
        message = f"it is for one varied factor with a range; here is {found}"
        yield Problem((*path, "range"), message, "Give the factor `range` in place of `levels`.")
        return
    name, spread = swept[0]
    sweep = _sweep(table, spread)
    end = spread.to if sweep.to is None else sweep.to
    if table.range.step == 0:
        yield Problem((*path, "range", "step"), "0 leads nowhere", "Use a step of 1 or more.")
    elif not spread.start <= sweep.origin <= end <= spread.to:
        message = f"it does not lie within that of {name}: {spread.start} to {spread.to}"
        yield Problem((*path, "range"), message, f"Widen the range of {name}, or narrow this one.")
    elif (end - sweep.origin) // sweep.step >= convert.MOST_LEVELS:
        message = f"these are more than {convert.MOST_LEVELS} levels"
        yield Problem((*path, "range", "step"), message, "Use a longer step.")


def _then(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[Problem]:
    if table.then == "confirm" and path[-1] == 0:
        message = "nothing is chosen yet that could be confirmed"
        yield Problem((*path, "then"), message, "Put a stage before it.")
    if table.then == "screen" and len(table.vary) < _FEWEST:
        message = "there is nothing to screen among fewer than two factors"
        yield Problem((*path, "then"), message, 'Use then = "best".')
    if table.then == "screen" and table.kind:
        message = "a screening has a design of its own, a fraction of resolution 3"
        yield Problem((*path, "kind"), message, "Leave it out.")
    if table.kind == "race" and table.then not in ("best", "confirm"):
        message = "a race finds the best, and says too little of the others for this"
        yield Problem((*path, "kind"), message, 'Leave it out, or use then = "best".')
    numeric = [name for name in table.vary if name in spec.factors and _ordered(spec.factors[name])]
    if table.then == "knee" and table.vary and not numeric:
        message = "a knee is one of numbers, and no varied factor has numbers for levels"
        yield Problem((*path, "then"), message, 'Use then = "best".')


def _ordered(table: FactorTable) -> bool:
    return bool(ordered([level.label for level in convert.levels(table)]))


def _factors(spec: StudyFile) -> Iterator[Problem]:
    """What stages need of the factors: that they are varied, and a baseline that the file says,
    for what is chosen in one stage must be known before the next."""
    varied = {name for table in spec.stage for name in table.vary}
    fixed = {name for table in spec.stage for name in table.fix}
    for name, table in spec.factors.items():
        if name not in varied | fixed:
            advice = "Add it to the `vary` of a stage, or leave it out."
            yield Problem(("factors", name), "no stage varies it", advice)
        kind = convert.factor_kind(table)
        if kind in ("tunable", "group") and convert.label(table.baseline) == "":
            advice = 'For what is in force at the start: baseline = "unset"'
            if kind == "group":
                advice = 'Such as an empty group: levels = { off = {}, … } and baseline = "off"'
            message = "a study in stages must say its baseline"
            yield Problem(("factors", name), message, advice)
