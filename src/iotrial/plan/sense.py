"""Whether a study makes sense: its tools take their options, its metrics exist, and no two
factors pull at the same knob.

Runs on the nouns, with the tools' own knowledge; still without a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from iotrial.errors import IotrialError, UsageError
from iotrial.model.measurement import (
    METRICS,
    Metric,
    Metrics,
    is_offered,
    metric,
    of_section,
    sectioned,
    split,
)
from iotrial.model.study import DecisionRule, Factor, Study
from iotrial.model.target import Target
from iotrial.model.tool import (
    LoadAccess,
    LoadSection,
    SupportsCaching,
    SupportsFamily,
    SupportsLayout,
    SupportsMetricChoice,
    SupportsMetrics,
    SupportsPathCheck,
    SupportsSections,
    SupportsServer,
    Tool,
    ToolTarget,
)
from iotrial.model.workload import Chore, Workload, metrics_of
from iotrial.plan.ahead import each_study, loads_on
from iotrial.plan.beside import beside_of, beside_problems
from iotrial.plan.convert import unfit
from iotrial.plan.design import applies, cells, open_factors
from iotrial.plan.problem import KeyPath, StudyProblem, choices
from iotrial.plan.saturate import unsearchable
from iotrial.plan.schema import DecideTable
from iotrial.plan.subset import design_problems
from iotrial.plan.tune import problems as tune_problems
from iotrial.stats.verdict import rank_blocks
from iotrial.tools import tool
from iotrial.tunables import written

ASSUMED_FACTS = {"cpus": 4.0, "memory": 8.0 * 2**30}
"""A machine to check options against before the real one is known; checked again there."""

OPERATIONS = (
    "read", "write", "trim", "seek", "create", "stat", "delete", "list", "mixed", "total", "cpu",
    "putc", "getc", "rewrite", "rename", "sync", "transaction",
    "reread", "random_read", "random_write", "backward_read", "record_rewrite", "stride_read",
    "fwrite", "refwrite", "fread", "refread", "pwrite", "repwrite", "pread", "repread",
    "pwritev", "repwritev", "preadv", "repreadv",
)  # fmt: skip
"""What a study may name before the quantity of a metric."""
_QUANTITIES = ("iops", "bw", "clat.mean", "clat.p99")
_LATENCIES = ("clat.", "slat.", "lat.", "response.")
_LATENCY = re.compile(r"(clat|slat|lat|response)\.(mean|min|max|sd|p\d{1,2}(\.\d+)?|p100)")
_FORGETFUL = ("tmpfs", "ramfs")


def tool_problems(
    workloads: Sequence[Workload], factors: Sequence[Factor]
) -> Iterator[StudyProblem]:
    """What the tools say of the options, at every level of the factors that vary them."""
    for workload in workloads:
        path: KeyPath = ("workloads", workload.name)
        try:
            driver = tool(workload.tool)
            for key in ("argv", "metrics"):
                if getattr(workload, key) and driver.name != "command":
                    message = f"{driver.name} does not accept it; it is for tool = 'command'"
                    yield StudyProblem((*path, key), message, "Remove it, or change the tool.")
            wrong = list(_options(driver, workload, factors))
            yield from wrong or _served(driver, workload, factors)
        except UsageError as error:
            yield StudyProblem((*path, "tool"), error.message, error.advice)
        except IotrialError as error:
            yield StudyProblem((*path, "jobfile"), error.message, error.advice)


def _served(driver: Tool, workload: Workload, factors: Sequence[Factor]) -> Iterator[StudyProblem]:
    """What cannot be done by a client and a server of the tool's."""
    if workload.start != "server":
        return
    path: KeyPath = ("workloads", workload.name, "start")
    advice = "Remove it: the tool is then started on each host directly."
    if not isinstance(driver, SupportsServer):
        yield StudyProblem(path, f"{driver.name} has no server", advice)
        return
    found = [
        each for _, variant in variants(workload, factors) for each in driver.unserved(variant)
    ]
    for what in dict.fromkeys(what for _, what in found):
        yield StudyProblem(path, what, advice)


def _options(driver: Tool, workload: Workload, factors: Sequence[Factor]) -> Iterator[StudyProblem]:
    seen: set[tuple[KeyPath, str]] = set()
    for place, variant in variants(workload, factors):
        for option, what in driver.check(variant, ASSUMED_FACTS):
            path: KeyPath = ("workloads", workload.name)
            varied = place and (option == place[0] or place[1][2] == "options")
            if place and varied and (option == place[0] or option not in dict(workload.options)):
                path = place[1]
            elif option in dict(workload.options):
                path = (*path, "options", option)
            if (path, what) not in seen:
                seen.add((path, what))
                yield StudyProblem(path, what if option in path else f"{option}: {what}")


def variants(
    workload: Workload, factors: Sequence[Factor]
) -> Iterator[tuple[tuple[str, KeyPath] | None, Workload]]:
    """The workload at each level of each option factor, the others at their first level, each
    with the option and the place it comes from."""
    mine = [f for f in factors if f.kind == "option" and applies(f, workload.name)]
    first = workload
    for factor in mine:
        first = first.with_options(factor.options(factor.levels[0]))
    if not mine:
        yield None, workload
    for factor in mine:
        for at, level in enumerate(factor.levels):
            path: KeyPath = ("factors", factor.name, "levels", at)
            if level.options:
                path = ("factors", factor.name, "options", level.label)
            # Of a group the place is the group: its options stand in it by name.
            yield (factor.subject, path), first.with_options(factor.options(level))


def reaches(workload: Workload, factors: Sequence[Factor]) -> list[LoadAccess]:
    """What the load touches at each level of its option factors."""
    return [tool(workload.tool).reach(variant) for _, variant in variants(workload, factors)]


def decide(
    table: DecideTable, workloads: Sequence[Workload], factors: Sequence[Factor]
) -> tuple[DecisionRule, list[StudyProblem]]:
    """The rule by which the study decides, and what is wrong with it.

    A workload without a declared metric is decided by the first of its own, else by ``read.iops``
    if it always reads, else by ``write.iops``; one with sections that follow each other by that of
    each section.  The second family is what the study says, else the sections of a load that has
    them side by side, and what the tool's results are usually read for.
    """
    known = metrics_of(workloads)
    primary: list[tuple[str, str]] = []
    secondary: list[tuple[str, str]] = []
    problems: list[StudyProblem] = []
    around = {each.name: each for each in workloads if each.neighbour}
    problems += _without_trials(table, around)
    for workload in (each for each in workloads if not each.neighbour):
        declared, path = _declared(("decide", "primary"), table.primary, workload.name)
        usual, others = _usual(workload, factors)
        others += _of_neighbours(workload, factors, around)
        names = declared or usual
        for name in names:
            problems += _metric(path, name, known, primary=True)
            problems += _made(path, name, (workload, around), factors)
        primary += [(workload.name, name) for name in names]
        more: Sequence[str] = others
        if table.secondary is not None:
            more, path = _declared(("decide", "secondary"), table.secondary, workload.name)
            for name in more:
                problems += _metric(path, name, known, primary=True)
                problems += _made(path, name, (workload, around), factors)
        apart = {*names, *table.guardrails}
        secondary += [(workload.name, name) for name in more if name not in apart]
    for name in table.guardrails:
        problems += _metric(("decide", "guardrails", name), name, known, primary=False)
    for name in table.limits:
        problems += _metric(("decide", "limits", name), name, known, primary=False)
        if (found := known_metric(name, known)) and found.unit != "s":
            what = f"{name} is not a latency"
            problems.append(
                StudyProblem(("decide", "limits", name), what, "For example read.clat.p99")
            )
    rule = DecisionRule(
        tuple(primary),
        table.margin,
        table.confidence,
        tuple(table.guardrails.items()),
        tuple(table.limits.items()),
        table.goal,
        tuple(secondary),
        table.test,
        table.guarantee,
    )
    return rule, list(dict.fromkeys(problems))


def _without_trials(table: DecideTable, around: Mapping[str, Workload]) -> Iterator[StudyProblem]:
    """Keys of workloads that only run beside others."""
    for key, given in (("primary", table.primary), ("secondary", table.secondary)):
        for name in given if isinstance(given, Mapping) else ():
            if name in around:
                what = f"{name} runs beside others, and has no trials"
                advice = f"Its numbers are METRIC[{name}] of the workload that it runs beside."
                yield StudyProblem(("decide", key, name), what, advice)


def _of_neighbours(
    workload: Workload, factors: Sequence[Factor], around: Mapping[str, Workload]
) -> tuple[str, ...]:
    """What decides each workload that may run beside this one."""
    names = [name for name in beside_of(workload, factors) if name in around]
    return tuple(of_section(_usual(around[name], ())[0][0], name) for name in names)


def _declared(
    path: KeyPath, given: str | list[str] | Mapping[str, str | list[str]], workload: str
) -> tuple[tuple[str, ...], KeyPath]:
    """The metrics that a key of [decide] names for a workload, each once, and where."""
    if isinstance(given, Mapping):
        path = (*path, workload) if workload in given else path
        given = given.get(workload, [])
    names = [given] if isinstance(given, str) else given
    return tuple(dict.fromkeys(names)), path


def _usual(
    workload: Workload, factors: Sequence[Factor]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The primary and the secondary metrics of a load for which the study names none."""
    driver, every = tool(workload.tool), [each for _, each in variants(workload, factors)]
    family: tuple[str, ...] = ()
    if isinstance(driver, SupportsFamily):
        family = _in_all([driver.family(each) for each in every])
    if workload.metrics:
        return (workload.metrics[0].name,), family
    whole = (_default_metric(reaches(workload, factors), driver),)
    if isinstance(driver, SupportsMetricChoice):
        named = {driver.primary(each) for each in every}
        whole = (named.pop(),) if len(named) == 1 else ("total.iops",)
    if workload.offered:
        return (f"{whole[0]}.within",), family
    if not isinstance(driver, SupportsSections):
        return whole, family
    apart = [
        [of_section(_default_metric([each], driver), each.name) for each in driver.sectioned(load)]
        for load in every
    ]
    own = _in_all(apart)
    if any(each.after for load in every for each in driver.sectioned(load)):
        return own or whole, family
    return whole, (*family, *own)


def _in_all(several: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The metrics that every variant of a load gives."""
    first, *others = several
    return tuple(name for name in first if all(name in each for each in others))


def _default_metric(touched: Sequence[LoadAccess | LoadSection], driver: Tool) -> str:
    """The rate of reads, of a load that always reads, else of writes, in what the tool gives."""
    operation = "read" if all(reach.reads for reach in touched) else "write"
    if not isinstance(driver, SupportsMetrics) or driver.usual == "iops":
        return f"{operation}.iops"
    whole = driver.usual.partition(".")[0] in OPERATIONS
    return driver.usual if whole else f"{operation}.{driver.usual}"


def known_metric(name: str, known: Metrics = METRICS) -> Metric | None:
    """The metric of this name, or None; unlike :func:`metric` it minds the operation too."""
    if known.defines(name):
        return known.metric(name)
    operation, quantity = split(name)
    if "[" in name and not sectioned(name)[1]:
        return None
    if operation.partition(".")[0] not in OPERATIONS:
        return None
    if quantity.startswith(_LATENCIES) and not _LATENCY.fullmatch(quantity):
        return None
    try:
        return metric(name)
    except KeyError:
        return None


def _metric(path: KeyPath, name: str, known: Metrics, *, primary: bool) -> Iterator[StudyProblem]:
    found = known_metric(name, known)
    if found is None:
        examples = [f"{op}.{what}" for op in ("read", "write") for what in _QUANTITIES]
        advice = choices(name, [*examples, "cpu.usr", "cpu.sys"], "for example")
        yield StudyProblem(path, f"unknown metric {name!r}", advice)
    elif primary and found.higher is None:
        yield StudyProblem(path, f"{name} has no direction of improvement", "Choose another.")


def _made(
    path: KeyPath,
    name: str,
    loads: tuple[Workload, Mapping[str, Workload]],
    factors: Sequence[Factor],
) -> Iterator[StudyProblem]:
    """A load that only writes has no ``read.iops``, nor has a section that there is not.  ``loads``
    are the one that is judged, and those that run beside others."""
    workload, around = loads
    whole, section = sectioned(name)
    if section in around and section in beside_of(workload, factors):
        yield from _made(path, whole, (around[section], {}), ())
        return
    if section:
        yield from _of_section(path, (name, section), workload, factors)
        return
    touched = reaches(workload, factors)
    operation = name.partition(".")[0]
    missing = {
        "read": not all(reach.reads for reach in touched),
        "write": not all(reach.writes for reach in touched),
    }
    if missing.get(operation):
        other = "write" if operation == "read" else "read"
        advice = f'For example primary = {{ {workload.name} = "{other}.iops" }}'
        if any(reach.reads for reach in touched) and any(reach.writes for reach in touched):
            advice = "Write a study for each direction."
        ever = any(getattr(reach, f"{operation}s") for reach in touched)
        what = f"does not always {operation}" if ever else f"never {operation}s"
        yield StudyProblem(path, f"workload {workload.name} {what}", advice)


def _of_section(
    path: KeyPath, asked: tuple[str, str], workload: Workload, factors: Sequence[Factor]
) -> Iterator[StudyProblem]:
    """``asked``: the metric and its section."""
    (name, section), driver = asked, tool(workload.tool)
    for _, load in variants(workload, factors):
        found = driver.sectioned(load) if isinstance(driver, SupportsSections) else ()
        own = next((each for each in found if each.name == section), None)
        if own is None:
            what = f"workload {workload.name} has no section {section!r}"
            names = [each.name for each in found]
            advice = choices(section, names, "sections") if names else "Name the metric alone."
            yield StudyProblem(path, what, advice)
            return
        operation = name.partition(".")[0]
        if operation in ("read", "write") and not getattr(own, f"{operation}s"):
            other = "write" if operation == "read" else "read"
            what = f"section {section} of workload {workload.name} never {operation}s"
            yield StudyProblem(path, what, f"For example {other}.iops[{section}]")
            return


def _mingled(study: Study) -> Iterator[StudyProblem]:
    """A rate of all sections, where several do the operation one after another, is none of
    anything."""
    for path, name, metric_name in _asked(study):
        workload = study.workload(name)
        driver = tool(workload.tool)
        operation = metric_name.partition(".")[0]
        if sectioned(metric_name)[1] or operation not in ("read", "write", "total"):
            continue
        if workload.offered and is_offered(metric_name):
            continue
        for _, load in variants(workload, study.factors):
            found = driver.sectioned(load) if isinstance(driver, SupportsSections) else ()
            doing = [s.name for s in found if getattr(s, f"{operation}s", True)]
            if len(doing) > 1 and any(each.after and each.pooled for each in found):
                what = f"{metric_name} of {name} pools sections that follow each other"
                advice = f'Name a section: "{of_section(metric_name, doing[0])}"'
                yield StudyProblem(path, what, advice)
                break


def _asked(study: Study) -> Iterator[tuple[KeyPath, str, str]]:
    """Key, workload and metric of all that a study decides by."""
    rule = study.decide
    for key, pairs in (("primary", rule.primary), ("secondary", rule.secondary)):
        yield from ((("decide", key), workload, name) for workload, name in pairs)
    for key, given in (("guardrails", rule.guardrails), ("limits", rule.limits)):
        for name, _ in given:
            yield from ((("decide", key, name), load.name, name) for load in study.judged)


def unmeasured(study: Study) -> Iterator[StudyProblem]:
    """Metrics that would have no value in any trial: no load does the operation, or its tool does
    not give it.  Only of a study that is yet to run: results are there whatever it asked for."""
    loads = {load.name: load for load in study.workloads}
    yield from _mingled(study)
    for key, pairs in (("primary", study.decide.primary), ("secondary", study.decide.secondary)):
        for name, metric_name in pairs:
            section = sectioned(metric_name)[1]
            yield from _given(("decide", key), metric_name, [loads.get(section, loads[name])])
    for key, given in (("guardrails", study.decide.guardrails), ("limits", study.decide.limits)):
        for metric_name, _ in given:
            path: KeyPath = ("decide", key, metric_name)
            yield from _given(path, metric_name, study.workloads)
            yield from _ever(path, metric_name, study.workloads, study.factors)


def _given(path: KeyPath, name: str, workloads: Sequence[Workload]) -> Iterator[StudyProblem]:
    """A metric that no tool of these loads can give would have no value in any trial."""
    metrics = metrics_of(workloads)
    if metrics.defines(name) or known_metric(name, metrics) is None:
        return
    drivers = [tool(each.tool) for each in workloads]
    lacks = [
        driver.lacking(each, name)
        for each, driver in zip(workloads, drivers, strict=True)
        if isinstance(driver, SupportsMetricChoice)
    ]
    if lacks and all(lacks) and len(lacks) == len(drivers):
        yield StudyProblem(path, lacks[0], "Name another metric, or take a longer recording.")
        return
    whole = sectioned(name)[0]
    if any(not isinstance(d, SupportsMetrics) or d.measures.fullmatch(whole) for d in drivers):
        return
    examples = [
        f"{operation}.{quantity}"
        for operation in ("read", "write", "total", "create")
        for quantity in (split(name)[1], *_QUANTITIES, "rate", "lat.max", "seconds")
    ]
    known = [
        each
        for each in dict.fromkeys(examples)
        if any(isinstance(d, SupportsMetrics) and d.measures.fullmatch(each) for d in drivers)
    ]
    whose = " and ".join(dict.fromkeys(driver.name for driver in drivers))
    verb = "measures" if " and " not in whose else "measure"
    yield StudyProblem(path, f"{whose} never {verb} {name}", choices(name, known, "for example"))


def _ever(
    path: KeyPath, name: str, workloads: Sequence[Workload], factors: Sequence[Factor]
) -> Iterator[StudyProblem]:
    """A guardrail of an operation that no load ever does could not break."""
    operation = name.partition(".")[0]
    if operation in ("read", "write") and not any(
        getattr(reach, f"{operation}s") for each in workloads for reach in reaches(each, factors)
    ):
        yield StudyProblem(path, f"no workload ever {operation}s", "Remove it, or choose another.")


def study_problems(study: Study) -> Iterator[StudyProblem]:
    """Factors that pull at the same knob, and workloads with nothing left to try."""
    yield from _of_kind(study)
    yield from _unranked(study)
    yield from _inexact(study)
    yield from dict.fromkeys(_unnameable(study))
    yield from beside_problems(study)
    yield from _ends_before(study)
    for one, other in combinations(study.factors, 2):
        yield from _clash(one, other)
    if open_factors(study):
        return
    for part in each_study(study):
        problems = list(design_problems(part, cells))
        yield from problems
        for workload in () if problems else part.judged:
            if not cells(part, workload.name):
                message = f"every combination of workload {workload.name} is excluded"
                yield StudyProblem(("exclude", 0), message, "Keep at least one.")


def _of_kind(study: Study) -> Iterator[StudyProblem]:
    """Why a study cannot be of its kind."""
    kind = study.design.kind
    if kind == "race" and (why := unfit(study.decide, study.factors, study.metrics)):
        yield StudyProblem(*why)
    if kind == "saturate":
        yield from unsearchable(study)
    elif kind == "tune":
        yield from tune_problems(study)
    elif study.decide.limits and kind != "race" and not study.stages:
        what = "limits are for a race or a search only"
        yield StudyProblem(("decide", "limits"), what, 'Use kind = "race", or guardrails.')
    if study.decide.goal == "winner" and kind != "race" and not study.stages:
        what = "a winner ends a race only"
        yield StudyProblem(("decide", "goal"), what, 'Use kind = "race", or leave goal out.')


_INSTEAD = "Leave test out: reports show the verdict by ranks wherever there is one."


def _unranked(study: Study) -> Iterator[StudyProblem]:
    """Why ranks cannot decide this study: its trials are not exchangeable, or are looked at more
    than once (:mod:`iotrial.stats.ranks`)."""
    if study.decide.test != "ranks":
        return
    design = study.design
    hard = next((factor.name for factor in study.factors if factor.hard), "")
    why = {
        "race": "a race looks at its results after each block; ranks decide at one look",
        "saturate": "a search looks at its results after each trial; ranks decide at one look",
        "fraction": "in a fraction, levels have no counterpart to be exchanged with",
    }.get(design.kind, "")
    if study.stages:
        why = "stages select levels from the intervals of all pairs of levels"
    elif not why and design.stop == "decided":
        why = "the study is looked at after each block; ranks decide at one look"
    elif not why and hard:
        why = f"{hard} is hard to change: its levels are not in random order within blocks"
    if why:
        yield StudyProblem(("decide", "test"), f"no verdict by ranks: {why}", _INSTEAD)
    elif not open_factors(study) and study.factors:
        from iotrial.plan.estimate import comparisons  # noqa: PLC0415  NumPy is slow to import

        family = comparisons(study)
        least = rank_blocks(family, 1 - study.decide.confidence)
        if design.blocks < least:
            what = (
                f"ranks decide {family} {'comparison' if family == 1 else 'comparisons'} from"
                f" {least} blocks on; [design] has {design.blocks}"
            )
            yield StudyProblem(("decide", "test"), what, f"Set blocks = {least} or more.")


def _inexact(study: Study) -> Iterator[StudyProblem]:
    """Why this study cannot have an exact guarantee."""
    if study.decide.guarantee != "exact":
        return
    if study.design.kind != "race" or study.stages:
        what = "only a race has an exact guarantee"
        advice = 'Use kind = "race"; a design with 8 blocks and more may have test = "ranks".'
        yield StudyProblem(("decide", "guarantee"), what, advice)
    elif study.decide.limits:
        what = "an exact guarantee is for differences, and a limit is on a mean"
        yield StudyProblem(("decide", "guarantee"), what, "Use guardrails instead of limits.")


_SOMEWHERE = ToolTarget("/iotrial", "directory")
_TOGETHER = 0.5  # seconds


def _ends_before(study: Study) -> Iterator[StudyProblem]:
    """A load beside another that would leave it alone for the rest of its time."""
    known = {load.name: load for load in study.workloads}
    for workload in study.judged:
        for name in beside_of(workload, study.factors):
            if name not in known or not (
                workload.option("runtime") and known[name].option("runtime")
            ):
                continue
            lasts = max(
                tool(load.tool).seconds(load, _SOMEWHERE)
                for _, load in variants(workload, study.factors)
            )
            other = tool(known[name].tool).seconds(known[name], _SOMEWHERE)
            if other < lasts - _TOGETHER:
                what = f"{name} ends after {other:g} s, before {workload.name} ({lasts:g} s)"
                advice = f"Let {name} run as long: its runtime, with ramp_time, is too short."
                yield StudyProblem(("workloads", name, "options", "runtime"), what, advice)


def _unnameable(study: Study) -> Iterator[StudyProblem]:
    """Files and directories that a tool would take for others.  What a device or a loop device is
    called is not known before there is a machine: commands are asked again there."""
    for target in study.targets:
        if target.kind not in ("file", "directory"):
            continue
        for load in loads_on(study, target.name):
            driver = tool(load.tool)
            if isinstance(driver, SupportsPathCheck):
                why = driver.unnameable(load, ToolTarget(target.path, target.kind, target.size))
                path: KeyPath = ("targets", target.name, target.kind)
                if why:
                    yield StudyProblem(path, f"workload {load.name}: {why}", "Rename it.")


def _clash(one: Factor, other: Factor) -> Iterator[StudyProblem]:
    path: KeyPath = ("factors", other.name)
    if one.kind == "option" and other.kind == "option":
        shared = _options_of(one) & _options_of(other)
        if shared and ("" in (one.workload, other.workload) or one.workload == other.workload):
            message = f"factor {one.name} already varies option {min(shared)}"
            key = "options" if other.levels and other.levels[0].options else "option"
            yield StudyProblem((*path, key), message, "Remove one.")
        return
    both = _knobs(one) & _knobs(other)
    if both and (one.target == other.target or not (one.target and other.target)):
        message = f"factor {one.name} already varies {min(both)}"
        yield StudyProblem(path, message, "Remove one, or name the `target` of each.")


def _options_of(factor: Factor) -> set[str]:
    return {name for level in factor.levels for name, _ in factor.options(level)}


def _knobs(factor: Factor) -> set[str]:
    named = {name for level in factor.levels for name, _ in level.settings}
    named |= {factor.subject} if factor.kind == "tunable" else set()
    return {written(name) for name in named}


def chore_problems(
    workloads: Sequence[Workload], factors: Sequence[Factor], targets: Sequence[Target]
) -> Iterator[StudyProblem]:
    """Every problem with cache, chores and evidence."""
    first: dict[str, str] = {}
    for workload in workloads:
        path: KeyPath = ("workloads", workload.name)
        if workload.cache == "direct":
            yield from _direct((*path, "cache"), workload, factors)
        if workload.cache == "remount":
            yield from _remount((*path, "cache"), targets)
        for key, chores in (("prepare", workload.prepare), ("cleanup", workload.cleanup)):
            for at, chore in enumerate(chores):
                for target in targets:
                    yield from _chore((*path, key, at), chore, workload, target)
        for at, argv in enumerate(workload.evidence):
            if not argv or not argv[0] or any("\0" in word for word in argv):
                yield StudyProblem((*path, "evidence", at), "the command is empty")
        yield from _undoing((*path, "prepare"), workload, targets, first)


def _direct(path: KeyPath, workload: Workload, factors: Sequence[Factor]) -> Iterator[StudyProblem]:
    driver = tool(workload.tool)
    if not isinstance(driver, SupportsCaching):
        message = f"it is unknown whether {driver.name} bypasses the page cache here"
        yield StudyProblem(path, message, 'Use cache = "drop", or "keep".')
        return
    try:
        why = [driver.buffered(variant) for _, variant in variants(workload, factors)]
    except IotrialError:
        return  # the tool says so at its own place
    if any(why):
        message = f"the I/O goes through the page cache: {next(filter(None, why))}"
        yield StudyProblem(path, message, 'Set O_DIRECT in the tool, or cache = "drop".')


def _remount(path: KeyPath, targets: Sequence[Target]) -> Iterator[StudyProblem]:
    for target in targets:
        if not (target.filesystem or target.mount):
            message = f"target {target.name} is not mounted by iotrial"
            advice = 'Add `filesystem` or `mount`, or set cache = "drop".'
            yield StudyProblem(path, message, advice)
        elif target.mount and target.mount.type in _FORGETFUL:
            message = f"{target.mount.type} loses its content when unmounted"
            yield StudyProblem(path, message, "Remove it: the file system is in memory.")


def _chore(
    path: KeyPath, chore: Chore, workload: Workload, target: Target
) -> Iterator[StudyProblem]:
    kind = target.under_load
    if kind != "directory":
        return
    if chore.kind == "precondition":
        message = f"target {target.name} is a directory: its file system is not overwritten"
        yield StudyProblem(path, message, 'Use { fill = "…" }, or precondition a device or file.')
    if chore.kind == "lay out" and not isinstance(tool(workload.tool), SupportsLayout):
        message = f"{workload.tool} cannot lay out files without a load"
        yield StudyProblem(path, message, "Use a file target, or a command of your own.")


def _undoing(
    path: KeyPath, workload: Workload, targets: Sequence[Target], first: dict[str, str]
) -> Iterator[StudyProblem]:
    """Two workloads that prepare one target differently, each once: the later undoes the
    earlier, whose trials go on among its own."""
    for target in targets:
        once = [c for c in workload.prepare if c.each != "trial" and c.destroys(target)]
        if not once:
            continue
        words = ", ".join(chore.words for chore in once)
        if first.setdefault(target.name, words) != words:
            message = f"another workload prepares {target.name} differently: {first[target.name]}"
            advice = (
                'Trials of both are interleaved. Set each = "trial", or write a study for each.'
            )
            yield StudyProblem(path, message, advice)
