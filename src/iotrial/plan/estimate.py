"""What a study will cost, what it can see, and what it executes, before it touches anything."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iotrial import plugins
from iotrial.model.hostlist import folded
from iotrial.model.study import Study
from iotrial.model.target import MOUNT_POINT, Target
from iotrial.model.tool import (
    LIKELY,
    SupportsKnownWrites,
    SupportsSizedLoads,
    SupportsWriteRate,
    ToolTarget,
)
from iotrial.model.trial import Trial
from iotrial.model.workload import Chore, Workload
from iotrial.plan import boots
from iotrial.plan.ahead import all_blocks, each_study
from iotrial.plan.design import abreast, cells, homes, workload_of
from iotrial.plan.parts import parts_of
from iotrial.plan.stages import varies
from iotrial.tools import tool
from iotrial.tunables.boot import takes_boot
from iotrial.units import format_bytes, format_seconds, parse_bytes

ASSUMED_FILL_RATE = 200e6
"""Bytes per second of random data, which /dev/urandom gives rather than the disk takes."""
_TRIM_SECONDS = 1.0
_DROP_SECONDS = 0.5
SECONDS_AROUND = 0.15
"""Wall time of a trial outside the tool's own process and the settling (0.05 to 0.15 seen)."""
ASSUMED_WRITE_RATE = 2 * 2**30
"""Bytes per second that a time-based write load is assumed to write at most."""
_KINDS = {
    "saturate": "A search: single trials, each chosen from those before it, then a race of the best"
    " in {blocks} blocks at most; all numbers are upper bounds.",
    "tune": "A search: combinations of all factors, each chosen from those before it, until more"
    " trials are not expected to pay. Nothing is claimed from it.",
    "race": "A race: {blocks} blocks at most. It looks after every block, drops treatments that"
    " are worse, and ends when no treatment is undecided; all numbers are upper bounds.",
}
"""Kind of design → what is said of it."""
_SEARCHES = ("saturate", "tune")
"""Kinds of design that choose each trial from those before it."""


@dataclass(frozen=True, slots=True)
class PlannedChore:
    """A chore as planned: ``times`` in all, each of ``written`` bytes (infinite: unknown) and
    ``seconds`` (of a command nobody knows)."""

    workload: str
    target: str
    when: Literal["prepare", "cleanup"]
    chore: Chore
    times: int
    written: float
    seconds: float


def doings(study: Study, aims: Mapping[str, ToolTarget]) -> tuple[PlannedChore, ...]:
    """Every chore of the study, with what it will cost.  ``aims`` maps a target's name to what is
    loaded, with its size in bytes.  Raises UsageError while levels are open."""
    trials = all_blocks(study)
    found: list[PlannedChore] = []
    shared: set[tuple[str, tuple[Chore, ...]]] = set()
    for workload in study.workloads:
        for name in dict.fromkeys(t.target for t in trials if t.workload == workload.name):
            mine = [t for t in trials if (t.workload, t.target) == (workload.name, name)]
            once = tuple(c for c in workload.prepare if c.each == "study")
            known = (name, once) in shared and _sharable(once)
            shared.add((name, once))
            prepare = [c for c in workload.prepare if not (known and c.each == "study")]
            size = aims[name].size or study.target(name).size
            found += _doings(workload, "prepare", prepare, mine, size)
            found += _doings(workload, "cleanup", workload.cleanup, mine, size)
    return tuple(found)


def _sharable(chores: Sequence[Chore]) -> bool:
    """Whether chores are the same for whatever workload they are done."""
    return not any(chore.kind in ("lay out", "command") for chore in chores)


def _doings(
    workload: Workload,
    when: Literal["prepare", "cleanup"],
    chores: Sequence[Chore],
    trials: Sequence[Trial],
    size: int,
) -> Iterator[PlannedChore]:
    hosts = len({t.host for t in trials})
    times = {"study": hosts, "block": len({t.block for t in trials}), "trial": len(trials)}
    for chore in chores:
        written = _written(chore, workload, size)
        seconds = written / ASSUMED_FILL_RATE if math.isfinite(written) else 0.0
        seconds += _TRIM_SECONDS if chore.kind == "trim" else 0.0
        name = trials[0].target
        yield PlannedChore(workload.name, name, when, chore, times[chore.each], written, seconds)


def _written(chore: Chore, workload: Workload, size: int) -> float:
    """Bytes at most; infinite where the size is not known before it is there."""
    known = float(size) or math.inf
    match chore.kind:
        case "fill":
            return chore.share * known
        case "precondition":
            return chore.times * known
        case "lay out":
            return known if size else _files(workload)
    return 0.0


def _files(workload: Workload) -> float:
    try:
        size = parse_bytes(str(workload.option("size", "0")))
        return float(size * int(str(workload.option("numjobs", 1)))) or math.inf
    except ValueError:
        return math.inf


def around(workload: Workload) -> float:
    """Seconds that the cache takes before each load."""
    return _DROP_SECONDS if workload.cache in ("drop", "remount") else 0.0


@dataclass(frozen=True, slots=True)
class RaceExpectation:
    """After how many blocks a race is likely to drop what is two margins ``worse`` than the best,
    and to call equals the ``same``."""

    workload: str
    worse: int
    same: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """``trials`` and ``seconds`` are the whole study's, at most; ``bytes_written`` an upper bound,
    files laid out included.  ``resolvable`` maps a workload to the smallest relative difference
    its trials can tell with a power of 0.8 (infinite: none), empty where the noise is unknown.
    ``notes`` say in sentences what the numbers rest on; ``chores`` are in them already; ``races``
    what each race is likely to take."""

    trials: int
    seconds: float
    bytes_written: float
    resolvable: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    chores: tuple[PlannedChore, ...] = ()
    races: tuple[RaceExpectation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cost:
    """One trial: ``seconds`` on likely storage and ``longest`` on slow; ``written`` bytes at most,
    infinite where unknown; ``timed`` where they are assumed from its duration."""

    seconds: float
    longest: float
    written: float
    timed: bool


def estimate(
    study: Study,
    *,
    aims: Mapping[str, ToolTarget] | None = None,
    noise: float | Mapping[str, float] | None = None,
) -> Estimate:
    """Estimate a study whose levels are known.

    ``aims`` maps a target's name to what the load is aimed at, with its size (left out: as the
    study says).  ``noise`` is the standard deviation of one trial on the log scale (0.05: about
    5 %), assumed or piloted, or that of each workload; None: unknown.  Raises UsageError while
    levels are open.
    """
    places = {target.name: assumed_aim(target) for target in study.targets} | dict(aims or {})
    if study.stages:
        return _in_stages(study, places, noise)
    trials = all_blocks(study)
    block = [trial for trial in trials if trial.block == 1]
    costs = [_trial_cost(study, trial, places) for trial in block]
    settle = study.design.settle + SECONDS_AROUND
    settled = sum(settle + around(study.workload(trial.workload)) for trial in block)
    rounds = study.design.blocks
    if study.design.kind in _SEARCHES:  # its trials are not of one block, or of two lengths
        block, rounds = list(trials), 1
        costs = [_cost(workload_of(study, trial), places[trial.target]) for trial in block]
        settled = sum(settle + around(study.workload(trial.workload)) for trial in block)
    turns = math.ceil(rounds / abreast(study))
    seconds = turns * (sum(cost.seconds for cost in costs) + settled)
    written = rounds * sum(cost.written for cost in costs) + _laid_out(study)
    chores = doings(study, places)
    seconds += sum(each.times * each.seconds for each in chores) / abreast(study)
    written += sum(each.times * each.written for each in chores)
    booted = boots.plots(study, trials)
    seconds += boots.seconds(booted)
    drains = _drains(study, trials)
    seconds += study.design.drain * len(drains)
    written += _drained(study, drains)
    told = _resolvable(study, noise)
    notes = (
        *_design_notes(study, seconds),
        *_pace_notes(turns * sum(each.longest - each.seconds for each in costs)),
        *_noise_notes(study, told),
        *_write_notes(written, timed=any(cost.timed for cost in costs) or any(drains.values())),
        *_chore_notes(chores),
        *_drain_notes(study, len(drains)),
        *_boot_notes(booted),
    )
    return Estimate(len(trials), seconds, written, told, notes, chores, _races(study, noise))


def _drains(study: Study, trials: Sequence[Trial]) -> dict[tuple[str, str], bool]:
    """Each workload and target where burst credits are to be used up: whether the load writes."""
    pairs = {(trial.workload, trial.target) for trial in trials} if study.design.drain else ()
    return {
        (name, target): tool((own := study.workload(name)).tool).reach(own).writes
        for name, target in pairs
    }


def _drained(study: Study, drains: Mapping[tuple[str, str], bool]) -> float:
    """Bytes that drains write at most."""
    return sum(drains.values()) * study.design.drain * ASSUMED_WRITE_RATE


def _boot_notes(booted: Mapping[str, int]) -> Iterator[str]:
    for count in sorted(set(booted.values())):
        hosts = [name for name, times in booted.items() if times == count]
        verb = "is" if len(hosts) == 1 else "are each"
        yield (
            f"Boots: {folded(hosts)} {verb} booted {count} times,"
            f" the last one into its own; about {format_seconds(boots.seconds({'': count}))} of the"
            f" time above, at {boots.ASSUMED:.0f} s a boot."
        )


def _drain_notes(study: Study, drains: int) -> Iterator[str]:
    if drains:
        many = (
            "its only workload" if drains == 1 else f"each of {drains} pairs of workload and target"
        )
        yield (
            f"Drain: before the first trial of {many} the load runs unmeasured until its rate has"
            f" fallen by 20 % or more and is level, for {format_seconds(study.design.drain)} at"
            " most, which is in the time above; again after a pause."
        )


def _in_stages(
    study: Study, places: Mapping[str, ToolTarget], noise: float | Mapping[str, float] | None
) -> Estimate:
    """All stages, each with as many levels as can be left for it."""
    parts = [part for part in each_study(study) if varies(part)]
    drains: dict[tuple[str, str], bool] = {}
    for part in parts if study.design.drain else ():
        drains |= _drains(part, all_blocks(part))
    # A workload is drained once, in whichever stage it comes first.
    plain = [replace(part, design=replace(part.design, drain=0.0)) for part in parts]
    costs = [estimate(part, aims=places, noise=noise) for part in plain]
    laid_out = sum(map(_laid_out, parts)) - _laid_out(study)
    told: dict[str, float] = {}
    for cost in costs:
        for workload, least in cost.resolvable:
            told[workload] = max(least, told.get(workload, 0.0))
    notes = "Trials, time and bytes are upper bounds: stages exclude levels."
    return Estimate(
        sum(cost.trials for cost in costs),
        sum(cost.seconds for cost in costs) + study.design.drain * len(drains),
        sum(cost.bytes_written for cost in costs) - laid_out + _drained(study, drains),
        tuple(told.items()),
        (
            notes,
            *dict.fromkeys(note for cost in costs for note in cost.notes),
            *_drain_notes(study, len(drains)),
        ),
        tuple(each for cost in costs for each in cost.chores),
    )


def assumed_aim(target: Target) -> ToolTarget:
    """What a load will be aimed at as far as the study alone says: a loop device has no number
    yet, so ``/dev/loopN`` stands for it, and a file system no mount point."""
    if target.filesystem:
        return ToolTarget(MOUNT_POINT, "directory")
    match target.kind:
        case "loop":
            return ToolTarget("/dev/loopN", "device", target.size)
        case "device" | "file" | "directory" as kind:
            return ToolTarget(target.path, kind, target.size)


def comparisons(study: Study) -> int:
    """How many primary comparisons the study makes: for each primary metric of each workload,
    every level of every factor that its cells let be compared with the baseline.  The intervals
    are made for all of them at once."""
    from iotrial.stats.effects import comparisons as compared  # noqa: PLC0415  NumPy is slow

    base = {f.name: f.baseline or f.levels[0].label for f in study.factors}
    times = Counter(workload for workload, _ in study.decide.primary)
    return sum(
        len(compared(study, cells(study, workload.name), base)) * times[workload.name]
        for workload in study.judged
    )


def _trial_cost(study: Study, trial: Trial, places: Mapping[str, ToolTarget]) -> _Cost:
    """Of a trial on several parts: as long as on one, and as many bytes on each."""
    one = _cost(workload_of(study, trial), places[trial.target])
    return replace(one, written=one.written * max(1, len(parts_of(study, trial))))


def _cost(workload: Workload, aimed: ToolTarget) -> _Cost:
    driver = tool(workload.tool)
    longest = driver.seconds(workload, aimed)
    seconds = driver.likely(workload, aimed) if isinstance(driver, SupportsSizedLoads) else longest
    if not driver.reach(workload).writes:
        return _Cost(seconds, longest, 0.0, timed=False)
    if isinstance(driver, SupportsKnownWrites):
        return _Cost(seconds, longest, driver.written(workload), timed=False)
    if workload.option("runtime") == "" and not workload.jobfile:
        return _Cost(seconds, longest, _sized(workload, aimed), timed=False)
    rate = math.inf
    # In a directory it first makes files, as fast as it goes.
    if isinstance(driver, SupportsWriteRate) and aimed.kind != "directory":
        rate = driver.write_rate(workload)
    written = seconds * min(rate, ASSUMED_WRITE_RATE)
    return _Cost(seconds, longest, written, timed=rate > ASSUMED_WRITE_RATE)


def _sized(workload: Workload, aimed: ToolTarget) -> float:
    """Bytes of a load that ends with its size: the option's or the target's, for every job and
    loop; infinite where one of these is not a plain number."""
    try:
        size = parse_bytes(str(workload.option("io_size") or workload.option("size") or aimed.size))
        times = int(str(workload.option("numjobs", 1))) * int(str(workload.option("loops", 1)))
    except ValueError:
        return math.inf
    return float(size * times) or math.inf


def _laid_out(study: Study) -> int:
    """Bytes of the files that are made before the first trial."""
    made = [each for each in study.targets if each.kind in {"file", "loop"} and not each.of]
    return sum(each.size * max(1, len(each.hosts)) for each in made)


def _resolvable(
    study: Study, noise: float | Mapping[str, float] | None
) -> tuple[tuple[str, float], ...]:
    if noise is None or study.design.kind in _SEARCHES:
        return ()
    from iotrial.stats.power import resolvable  # noqa: PLC0415  SciPy is slow to import

    family, blocks = comparisons(study), study.design.blocks
    return tuple(
        (
            workload.name,
            resolvable(
                _of(noise, workload.name),
                blocks,
                len(cells(study, workload.name)),
                family,
                study.decide.confidence,
            ),
        )
        for workload in study.judged
    )


def _races(study: Study, noise: float | Mapping[str, float] | None) -> tuple[RaceExpectation, ...]:
    if noise is None or study.design.kind != "race":
        return ()
    from iotrial.stats.critical import workload_confidence  # noqa: PLC0415
    from iotrial.stats.race import RaceDesign, blocks_to_decide  # noqa: PLC0415  slow, as above

    sizes = {workload.name: len(cells(study, workload.name)) for workload in study.judged}
    family = sum(size - 1 for size in sizes.values() if size > 1)
    margin = math.log1p(study.decide.margin)
    found = []
    for name, size in sizes.items():
        if size > 1:
            share = workload_confidence(study.decide.confidence, size - 1, family)
            decide = study.decide
            terms = RaceDesign(size, margin, share, decide.goal, decide.guarantee)
            sd = _of(noise, name)
            worse, same = (blocks_to_decide(terms, gap, sd) for gap in (2 * margin, 0.0))
            found.append(RaceExpectation(name, worse, same))
    return tuple(found)


def _of(noise: float | Mapping[str, float], workload: str) -> float:
    return noise if isinstance(noise, float | int) else noise[workload]


def _design_notes(study: Study, seconds: float) -> Iterator[str]:
    blocks, budget = study.design.blocks, study.design.budget
    if study.design.kind in _KINDS:
        yield _KINDS[study.design.kind].format(blocks=blocks)
    elif blocks == 1:
        yield "1 block: no verdict is possible, the noise cannot be estimated; use 2 or more."
    if study.spread:
        yield _spread_note(blocks, len(homes(study)))
    if not comparisons(study):
        yield "No comparison: the study measures the noise."
    for factor in study.factors:
        if takes_boot(factor.levels) and len(factor.levels) > 1:
            yield (
                f"{factor.name} takes boots: each combination of what only a boot changes is booted"
                " once a block. Its effect is judged against the variation between boots (whole"
                " plots): its detectable difference is larger than stated."
            )
        elif factor.hard and len(factor.levels) > 1:
            yield (
                f"{factor.name} is hard to change: each of its {len(factor.levels)} levels is"
                f" set up once a block, or {blocks} times. Its effect is judged against the"
                " variation between set-ups (whole plots): its detectable difference is larger"
                " than stated."
            )
    if budget and seconds > budget:
        whole = int(budget / seconds * blocks)
        yield (
            f"The budget of {format_seconds(budget)} ends the study after about {whole} of"
            f" {blocks} blocks; all blocks take about {format_seconds(seconds)}."
        )


def _spread_note(blocks: int, hosts: int) -> str:
    said = f"{blocks} blocks over {hosts} hosts, each whole on one, {min(blocks, hosts)} at a time."
    if blocks < hosts:
        return f"{said} {hosts - blocks} hosts are spare."
    if blocks < 2 * hosts:
        return (
            f"{said} A host-by-treatment interaction is testable only with two blocks per host:"
            f" {2 * hosts} or more."
        )
    uneven = f" {blocks % hosts} hosts have one block more than the others." * bool(blocks % hosts)
    return said + uneven


def _pace_notes(longer: float) -> Iterator[str]:
    if longer > 1:
        yield (
            f"Loads that end by size are estimated at {format_bytes(LIKELY.stream)}/s and "
            f"{LIKELY.rate:,.0f} small I/Os a second; slow disks may need up to "
            f"{format_seconds(longer)} more."
        )


def _noise_notes(study: Study, told: tuple[tuple[str, float], ...]) -> Iterator[str]:
    single = study.design.blocks == 1 or study.design.kind in _SEARCHES
    if not told and not single and comparisons(study):
        yield "The noise is unknown, and therefore the smallest detectable difference."
    for least in dict.fromkeys(each for _, each in told):
        if math.isfinite(least) and least > study.decide.margin:
            names = ", ".join(workload for workload, each in told if each == least)
            yield (
                f"{names}: a difference below {least:.1%} probably ends in cannot-tell, above"
                f" the margin of {study.decide.margin:.1%}; use more blocks or longer trials."
            )


def _write_notes(written: float, *, timed: bool) -> Iterator[str]:
    if math.isinf(written):
        yield "Bytes written are unknown: a load that writes has neither runtime nor size."
    elif timed:
        rate = format_bytes(ASSUMED_WRITE_RATE)
        yield f"Bytes written are an upper bound: loads that end by time at {rate}/s at most."


def _chore_notes(chores: Sequence[PlannedChore]) -> Iterator[str]:
    if any(each.written for each in chores):
        rate = format_bytes(ASSUMED_FILL_RATE)
        yield f"Chores write at most {rate}/s, the rate of the random data source."
    if any(math.isinf(each.written) for each in chores):
        yield "Bytes written by chores are unknown: the used space of the file system is unknown."
    if any(each.chore.kind == "command" for each in chores):
        yield "The duration of the study's commands is unknown and not included."


@dataclass(frozen=True, slots=True)
class _PlannedCommand:
    """``where`` in the study, and ``when`` it is executed."""

    where: str
    when: str
    argv: tuple[str, ...]


def own_commands(study: Study) -> tuple[_PlannedCommand, ...]:
    """In the order of the study's tables, each once."""
    found = (*_knobs(study), *_targets(study), *_chores(study), *_manual(study))
    return tuple(dict.fromkeys(found))


def used_plugins(study: Study) -> dict[str, str]:
    """The plugins that a run of it uses, where each comes from and which version: ``tools pread`` →
    ``…/pread.py sha256:0123456789ab``.  A check of validity looks at every load."""
    loads = {workload.tool for workload in study.workloads}
    knobs = {name for f in study.factors for level in f.levels for name, _ in level.settings}
    used = {
        "tools": loads,
        "tunables": {name.partition(".")[0] for name in knobs},
        "hosts": {p.via.partition("://")[0] for p in study.places if not study.pretended},
    }
    return {
        f"{kind} {plugin.name}": str(plugin.origin)
        for kind in ("tools", "tunables", "validity", "hosts")
        for plugin in plugins.added(kind)
        if plugin.name in used.get(kind, (plugin.name,))
    }


def _knobs(study: Study) -> Iterator[_PlannedCommand]:
    for knob in study.knobs:
        if knob.read:
            read = tuple(word.format(device="") for word in knob.read)
            yield _PlannedCommand(knob.name, "will be read by", read)
        for act in knob.how("", "{value}") if knob.how and knob.read else ():
            if act.kind == "run":
                when = "after its file is written or restored" if knob.moves else "will be set by"
                yield _PlannedCommand(knob.name, when, act.argv)


def _targets(study: Study) -> Iterator[_PlannedCommand]:
    for target in study.targets:
        for argv in target.create:
            yield _PlannedCommand(f"targets.{target.name}", "makes it", argv)
        for argv in target.remove:
            yield _PlannedCommand(f"targets.{target.name}", "removes it", argv)
        if what := target.mount:
            options = ("-o", what.options) if what.options else ()
            argv = ("mount", "-t", what.type, *options, what.source, target.path)
            yield _PlannedCommand(f"targets.{target.name}", "mounts it", argv)


def _chores(study: Study) -> Iterator[_PlannedCommand]:
    for load in study.workloads:
        for when, chores in (("before", load.prepare), ("after", load.cleanup)):
            for chore in chores:
                if chore.argv:
                    yield _PlannedCommand(
                        f"workloads.{load.name}", f"{when} each {chore.each}", chore.argv
                    )
        for argv in load.evidence:
            yield _PlannedCommand(
                f"workloads.{load.name}", "after each load, its output kept", argv
            )


def _manual(study: Study) -> Iterator[_PlannedCommand]:
    for factor in study.factors:
        if factor.verify:
            yield _PlannedCommand(
                f"factors.{factor.name}", "says which level is there", factor.verify
            )
