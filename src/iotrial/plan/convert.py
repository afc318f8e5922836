"""From the tables of a study file to the nouns of the model.  Assumes that the file was checked.

A stage that asks for finer levels adds them to its factor, behind those that the study begins
with: so everything that is checked of levels (that the kernel takes them, that the tool takes
them) is checked of these too, before anything is measured.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iotrial.model.hostlist import expanded
from iotrial.model.listen import parse
from iotrial.model.measurement import Metrics, is_offered
from iotrial.model.study import (
    UNSET,
    DecisionRule,
    Design,
    Factor,
    FactorKind,
    Level,
    Options,
    Stage,
    StudyHost,
    Sweep,
)
from iotrial.model.target import MountSpec, Target, TargetKind
from iotrial.model.workload import CustomMetric, OfferedRates, OptionValue, Workload
from iotrial.plan import tune
from iotrial.plan.problem import KeyPath
from iotrial.plan.race import MOST_BLOCKS
from iotrial.plan.saturate import MOST_FINALS
from iotrial.plan.schema import (
    DesignTable,
    FactorTable,
    HostTable,
    MetricTable,
    OfferedTable,
    OneOf,
    RangeTable,
    StageTable,
    StudyFile,
    TargetTable,
    WorkloadTable,
)
from iotrial.tunables.boot import FAMILY, takes_boot

BLOCKS = 5
"""Of a design that does not say how many."""
MOST_LEVELS = 1000
"""Of a range."""


def label(value: OptionValue) -> str:
    """How a level is named, and what is written for it: ``8`` → ``"8"``, ``2.0`` → ``"2"``,
    ``true`` → ``"1"`` and ``false`` → ``"0"``, because that is what sysfs and fio take."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def tunable_of(table: FactorTable) -> str:
    """The name of the tunable that a factor varies, or ''."""
    return f"{FAMILY}.{table.boot}" if table.boot else table.tunable


def factor_kind(table: FactorTable) -> FactorKind | None:
    """What a factor varies; None for what this version does not execute."""
    if tunable_of(table):
        return "tunable"
    if table.option or table.options:
        return "option"
    if table.targets:
        return "target"
    if table.manual:
        return "manual"
    if table.count:
        return "count"
    return "group" if isinstance(table.levels, dict) else None


def values(table: FactorTable) -> tuple[OneOf, ...]:
    """The values of a factor whose levels are a list or a range."""
    if isinstance(table.levels, list):
        return tuple(table.levels)
    return tuple(steps(table.range)) if table.range else ()


def steps(spread: RangeTable) -> range:
    """The numbers of a range, its end included where a step falls on it; the first
    :data:`MOST_LEVELS` of them."""
    step = max(1, spread.step)
    end = min(spread.to, spread.start + step * (MOST_LEVELS - 1))
    return range(spread.start, end + 1, step)


def written_levels(table: FactorTable) -> tuple[Level, ...]:
    """The levels as they stand in the file; none where they are ``"available"``."""
    match factor_kind(table):
        case "tunable":
            return tuple(tunable_level(tunable_of(table), each) for each in values(table))
        case "option":
            single = (Level(label(first(each)), option=first(each)) for each in values(table))
            groups = (Level(n, options=tuple(o.items())) for n, o in table.options.items())
            return (*single, *groups)
        case "manual" | "count":
            return tuple(Level(label(first(each))) for each in values(table))
        case "target":
            return tuple(Level(name, target=name) for name in table.targets)
        case "group" if isinstance(table.levels, dict):
            return tuple(_group(name, group) for name, group in table.levels.items())
    return ()


def first(given: OneOf) -> OptionValue:
    """The value itself, or the first of several alternatives."""
    return given[0] if isinstance(given, list) else given


def tunable_level(tunable: str, given: OneOf) -> Level:
    """The level that sets one tunable.  Alternatives are named together: ``none/noop``."""
    if given == UNSET:
        return Level(UNSET)
    if not isinstance(given, list):
        return Level(label(given), settings=((tunable, label(given)),))
    return _group("/".join(map(label, given)), {tunable: given})


def _group(name: str, group: Mapping[str, OneOf]) -> Level:
    return Level(
        name,
        settings=tuple((knob, label(first(given))) for knob, given in group.items()),
        alternatives=tuple(
            (knob, tuple(map(label, given)))
            for knob, given in group.items()
            if isinstance(given, list) and len(given) > 1
        ),
    )


def levels(table: FactorTable) -> tuple[Level, ...]:
    """The written levels; before them ``unset``, where only the baseline speaks of it.

    Empty for ``levels = "available"``: see :mod:`iotrial.plan.available`.
    """
    written = written_levels(table)
    if written and needs_unset(table):
        return (Level(UNSET), *written)
    return written


def needs_unset(table: FactorTable) -> bool:
    return (
        factor_kind(table) == "tunable"
        and table.baseline == UNSET
        and UNSET not in [level.label for level in written_levels(table)]
    )


def factor(name: str, table: FactorTable) -> Factor:
    known = levels(table)
    return Factor(
        name=name,
        kind=factor_kind(table) or "group",
        levels=known,
        subject=tunable_of(table) or table.option or table.manual or table.count or "",
        workload=table.workload,
        target=table.target,
        baseline=label(table.baseline),
        on=table.on,
        verify=tuple(table.verify),
        hard=table.hard or takes_boot(known),
    )


def place(name: str, table: HostTable) -> StudyHost:
    listen = parse(table.listen) if table.listen else None
    via = f"shell://{shlex.join(table.shell)}" if table.shell else table.via
    return StudyHost(name, table.ssh, table.lease, listen, via, tuple(table.power))


def targets(tables: Mapping[str, TargetTable]) -> tuple[Target, ...]:
    """All targets; those that are only part of another come last, for the first is under test."""
    members = {name for table in tables.values() for name in table.targets}
    found = {name: target(name, table) for name, table in tables.items()}
    alike = {name: _like(each, found) for name, each in found.items()}
    return tuple(sorted(alike.values(), key=lambda each: each.name in members))


def _like(made_up: Target, found: Mapping[str, Target]) -> Target:
    """A target made of others is, as far as a plan goes, like the first of them, on all of their
    hosts."""
    if not made_up.of:
        return made_up
    members = [found[name] for name in made_up.of]
    hosts = dict.fromkeys(host for each in members for host in each.hosts)
    first = members[0]
    alike = replace(first, name=made_up.name, hosts=tuple(hosts), devices=(), armed=())
    return replace(alike, of=made_up.of)


def target(name: str, table: TargetTable) -> Target:
    kind, path = target_place(table)
    size = table.loop.size if table.loop else table.size or 0
    what = table.mount
    armed = [table.destroy] if isinstance(table.destroy, str) else table.destroy
    return Target(
        name,
        kind,
        path=path,
        size=size,
        destroy="".join(armed) if len(armed) == 1 else "",
        hosts=(table.host,) if table.host else expanded(table.hosts),
        create=tuple(map(tuple, table.create)),
        remove=commands(table.remove),
        filesystem=table.filesystem,
        mount=MountSpec(**dict(what)) if what else None,
        devices=tuple(table.devices),
        armed=tuple(armed) if table.devices and any(armed) else (),
        of=tuple(table.targets),
        format=tuple(table.format),
    )


def commands(given: Sequence[str] | Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """One command or several."""
    several = [each for each in given if not isinstance(each, str)]
    one = tuple(each for each in given if isinstance(each, str))
    return (one,) if one else tuple(map(tuple, several))


def target_place(table: TargetTable) -> tuple[TargetKind, str]:
    if table.device or table.devices:
        return "device", table.device or table.devices[0]
    if table.file:
        return "file", table.file
    if table.directory:
        return "directory", table.directory
    return "loop", table.loop.directory if table.loop else ""


def workload(name: str, table: WorkloadTable, text: str) -> Workload:
    """``text`` is that of the job file, or of the trace, empty where there is none."""
    return Workload(
        name,
        table.tool,
        options=tuple(table.options.items()),
        cache=table.cache,
        prepare=tuple(table.prepare),
        cleanup=tuple(table.cleanup),
        evidence=tuple(map(tuple, table.evidence)),
        argv=tuple(table.argv),
        metrics=tuple(wanted(each, found) for each, found in table.metrics.items()),
        start=table.start,
        beside=table.beside,
        target=table.target,
        offered=offered(table.offered) if table.offered else None,
    ).doing(text)


def offered(table: OfferedTable) -> OfferedRates:
    ((name, bound),) = table.within.items()
    return OfferedRates(offered_rates(table), float(name.removeprefix("p")), bound)


def offered_rates(table: OfferedTable) -> tuple[int, ...]:
    """Those between two in equal ratios have three digits, so that people can say them."""
    if not (table.start and table.to and table.steps):
        return tuple(table.rates)
    ratio = (table.to / table.start) ** (1 / (table.steps - 1))
    between = (table.start * ratio**at for at in range(1, table.steps - 1))
    return (table.start, *(int(float(f"{each:.3g}")) for each in between), table.to)


def wanted(name: str, table: MetricTable) -> CustomMetric:
    return CustomMetric(
        name,
        pattern=table.pattern,
        json=table.json_path,
        source=table.file,
        unit=table.unit,
        take=table.take,
        higher=None if table.better is None else table.better == "higher",
    )


def design(
    table: DesignTable, rule: DecisionRule, factors: Sequence[Factor], metrics: Metrics
) -> Design:
    """The design; where its kind is not said, a race, unless the number of blocks is said, or a
    race makes no sense."""
    races = not table.blocks and table.blocks_over == "time" and not unfit(rule, factors, metrics)
    chosen = table.kind or ("race" if races else "full")
    usual = {"race": MOST_BLOCKS, "saturate": MOST_FINALS}.get(chosen, BLOCKS)
    return Design(**dict(table) | {"kind": chosen, "blocks": table.blocks or usual})


def unfit(
    rule: DecisionRule, factors: Sequence[Factor], metrics: Metrics
) -> tuple[KeyPath, str, str] | None:
    """Why a study cannot be a race: the key, the reason, the remedy; None where it can."""
    if all(len(factor.levels) == 1 for factor in factors):
        return ("design", "kind"), "a race needs two treatments", "Add a factor with two levels."
    if several := next((w for w, m in rule.primary if rule.named(w, m) != w), ""):
        what = f"a race drops treatments by one primary metric; {several} has several"
        how = 'Keep one as primary and name the others as secondary, or use kind = "full".'
        return ("decide", "primary"), what, how
    for factor in factors:
        if factor.hard:
            what = "a race changes settings in every block, but this factor is hard to change"
            return ("factors", factor.name, "hard"), what, 'Use kind = "full", or remove it.'
    for workload, name in rule.primary:
        if metrics.higher(name) is None:
            what = f"a race needs a metric with a direction; {name} ({workload}) has none"
            return ("decide", "primary"), what, 'Decide by another metric, or use kind = "full".'
        if is_offered(name):
            what = f"{name} beyond the offered rates is a bound, which a race takes for a number"
            return ("decide", "primary"), what, 'Use kind = "full", and give blocks.'
    return None


def one_or_more(given: OneOf) -> list[OptionValue]:
    return given if isinstance(given, list) else [given]


def exclusions(spec: StudyFile) -> tuple[tuple[tuple[str, str], ...], ...]:
    """One tuple of (factor, label) pairs for each excluded combination; lists multiply out."""
    cells: list[tuple[tuple[str, str], ...]] = []
    for entry in spec.exclude:
        pairs = [
            dict.fromkeys((name, label(value)) for value in one_or_more(given))
            for name, given in entry.items()
        ]
        cells.extend(itertools.product(*pairs))
    return tuple(cells)


def stages(spec: StudyFile) -> tuple[Stage, ...]:
    """The stages of a file that was checked."""
    if spec.design.kind == "tune":
        return tune.stages(tuple(spec.factors))
    return tuple(_stage(spec, number, table) for number, table in enumerate(spec.stage, 1))


def _stage(spec: StudyFile, number: int, table: StageTable) -> Stage:
    swept = swept_by(spec, table)
    sweeps = ((name, sweep_of(table, spread)) for name, spread in swept if table.range)
    fixed = ((n, label(v)) for n, v in table.fix.items() if n in spec.factors)
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
        given = {key: value for key, value in table.fix.items() if key in own_options(spec, name)}
        given |= table.options.get(name, {})
        if given:
            found.append((name, tuple(given.items())))
    return tuple(found)


def own_options(spec: StudyFile, workload: str) -> list[str]:
    """The options that a workload says, less the names of factors."""
    own = spec.workloads[workload].options if workload in spec.workloads else {}
    return [key for key in own if key not in spec.factors]


def swept_by(spec: StudyFile, table: StageTable) -> list[tuple[str, RangeTable]]:
    """The varied factors that have a range."""
    known = ((name, spec.factors[name].range) for name in table.vary if name in spec.factors)
    return [(name, spread) for name, spread in known if spread is not None]


def sweep_of(table: StageTable, spread: RangeTable) -> Sweep:
    own = table.range
    start, to, step = (own.start, own.to, own.step) if own else (None, None, None)
    return Sweep(spread.start if start is None else start, step or spread.step, start, to)


def staged_loads(workloads: Sequence[Workload], parts: Sequence[Stage]) -> Iterator[Workload]:
    """The workloads with the options that stages give them."""
    known = {workload.name: workload for workload in workloads}
    for stage in parts:
        for name, own in stage.options:
            yield known[name].with_options(own)


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
    sweep = sweep_of(stage, table.range)
    end = table.range.to if sweep.to is None else sweep.to
    return range(sweep.origin, end + 1, max(1, sweep.step))


def _level(table: FactorTable, number: int) -> Level:
    if tunable := tunable_of(table):
        return tunable_level(tunable, number)
    return Level(label(number), option=number)
