"""Preflight: refuse early, before anything is changed or hours are spent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from iotrial.errors import (
    LockedError,
    RefusedError,
    SettingRefused,
    StudyError,
    ToolMissing,
    UsageError,
)
from iotrial.execute import keepable
from iotrial.execute.bench import Bench
from iotrial.execute.depths import too_deep
from iotrial.execute.machine import runs
from iotrial.execute.making import MKFS, MKFS_PACKAGES
from iotrial.execute.offer import Domains, Wanted, wants
from iotrial.execute.served import check_served
from iotrial.execute.writable import control_file, modes, obstacle
from iotrial.hosts.places import STATE
from iotrial.hosts.steps import reads
from iotrial.model.host import Host
from iotrial.model.step import Look, spoken
from iotrial.model.study import Study
from iotrial.model.tool import Tool
from iotrial.model.topology import Topology
from iotrial.model.trial import Trial
from iotrial.model.tunable import Setting
from iotrial.plan.aa import detour
from iotrial.plan.design import settings as settings_of
from iotrial.plan.foreseen import each_study
from iotrial.tools import executed, tool
from iotrial.tunables import catalogue_of


def check_machine(host: Host, study: Study) -> None:
    """Nobody else at work; root where settings change or devices are made; the tools, in a
    version that will do."""
    check_alone(host)
    check_tools(host, study)
    check_served(host, study)
    changes = any(level.settings for factor in study.factors for level in factor.levels)
    makes = any(target.kind == "loop" or target.made for target in study.targets)
    drops = [w.name for w in study.workloads if w.cache in ("drop", "remount")]
    if (changes or makes or drops) and host.unprivileged:
        what = "changes settings" if changes else "makes its target" if makes else "drops caches"
        raise RefusedError(
            f"{host.name}: this study {what}, which needs root: {host.unprivileged}",
            advice="Or use a file target and option factors (iotrial init file).",
        )


def check_alone(host: Host) -> None:
    """One trial at a time on a machine, also where users cannot see each other's locks.

    Raises LockedError.  Not asked where ``IOTRIAL_STATE`` keeps several hosts apart on one kernel.
    """
    others = () if not host.remote and os.environ.get(STATE) else runs(host)
    if others:
        raise LockedError(
            f"{host.name}: another iotrial run is at work here: {', '.join(others)}",
            advice="Two loads would measure each other. Wait until it has ended.",
        )


def remedy(driver: Tool) -> str:
    """How to come by a tool; one that is not in every Debian says so itself."""
    return getattr(driver, "remedy", f"On Debian and Ubuntu: apt-get install {driver.package}")


def check_tools(host: Host, study: Study) -> None:
    for driver in {each.name: each for each in map(executed, study.workloads)}.values():
        answer = host.run([driver.program, "--version"])
        if answer.exit == 127:  # noqa: PLR2004 (the shell's own "not found")
            raise ToolMissing(
                f"{host.name}: {driver.program} is not installed",
                advice=remedy(driver),
            )
        problem = driver.version_problem(answer.text.strip())
        if problem:
            raise ToolMissing(f"{host.name}: {problem}")
    for kind in dict.fromkeys(filter(None, (target.filesystem for target in study.targets))):
        program = MKFS[kind][0]
        if host.run([program, "-V"]).exit == 127:  # noqa: PLR2004 (as above)
            package = MKFS_PACKAGES.get(kind, "e2fsprogs")
            raise ToolMissing(
                f"{host.name}: {program} is not installed",
                advice=f"On Debian and Ubuntu: apt-get install {package}",
            )


def refusals(host: Host, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every level, and every two together, that this kernel is known to refuse, in words.  Only
    reads."""
    catalogue = catalogue_of(study)
    domains = Domains(host, catalogue)
    wanted = list(wants(study, topologies))
    domains.ask([(each.name, device) for each in wanted for device in each.devices])
    files = [control_file(catalogue.tunable(each.name), d) for each in wanted for d in each.devices]
    known = modes(host, files)
    for name in dict.fromkeys(each.name for each in wanted if each.name.startswith("file.")):
        if why := keepable.obstacle(host, catalogue.tunable(f"{name}.content").path):
            yield f"{name}: {why}"
    for each in wanted:
        if not each.devices and not each.coming:
            scope = catalogue.tunable(each.name).scope
            yield f"{_level(each)}: {each.name} belongs to a {scope}, and the target has none"
        for device in each.devices:
            knob = catalogue.tunable(each.name)
            problem = obstacle(knob, device, known) or _refusal(domains, each, device)
            if problem:
                yield f"{_level(each)}: {each.name}: {problem}"
    yield from too_deep(host, study, topologies)


def _level(each: Wanted) -> str:
    return f"factor {each.factor.name}, level {each.level.label}"


def _refusal(domains: Domains, each: Wanted, device: str) -> str:
    knob = domains.catalogue.tunable(each.name)
    if knob.reload:
        return f"it cannot be a factor of a trial: {knob.reload}"
    if each.coming and not domains.here(each.name, device):
        return ""  # exists only under another setting: the rehearsal tells
    try:
        return domains.domain(each.name, device).refusal(each.value)
    except SettingRefused as refused:
        return f"{refused.message}. {refused.advice}"


def unread(host: Host, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every level whose value only a command of the study's own says, which it does not say now:
    it is not written then.  Executes these commands, which a plan does not."""
    known = catalogue_of(study)
    for each in wants(study, topologies):
        for device in each.devices if known.said_by_command(each.name) else ():
            probe = known.tunable(each.name).probe(device)
            (answer,) = host.batch([Look(probe)])
            if reads(probe, answer) is None:
                why = answer.complaint or f"`{spoken(probe.argv)}` does not say it"
                yield f"{_level(each)}: {each.name} cannot be read: {why}"


def check_levels(bench: Bench) -> None:
    """Raise StudyError naming each level that this kernel is known, from reading, to refuse."""
    known = list(
        dict.fromkeys(
            (
                *refusals(bench.host, bench.study, bench.topologies),
                *unread(bench.host, bench.study, bench.topologies),
            )
        )
    )
    if known:
        raise refused_by(known)


def aside(bench: Bench, trial: Trial) -> tuple[Setting, ...]:
    """The settings that are held for a moment before a trial of an A/A study (:mod:`plan.aa`)."""
    other, aa = detour(bench.study, trial), bench.study.aa
    if not other or aa is None or aa.of is None:
        return ()
    return settings_of(aa.of, replace(trial, treatment=other), bench.topologies)


def refused_by(problems: list[str]) -> StudyError:
    """What is raised for all that this kernel refuses."""
    return StudyError(
        "\n  ".join(["this kernel refuses part of the study:", *problems]),
        advice="Leave these levels out, or name the cells under [[exclude]].",
    )


def check_options(study: Study, facts: Mapping[str, float]) -> None:
    """The workloads' options once more, now with this machine's own numbers."""
    for workload in (load for part in each_study(study) for load in part.workloads):
        for option, problem in tool(workload.tool).check(workload, facts):
            raise StudyError(problem, key=f"workloads.{workload.name}.options.{option}")


def check_resume(folder: Path, bench: Bench, facts: dict[str, Any]) -> None:
    """A resumed study goes on only on the machine, kernel and disks it began on, and with the
    plugins."""
    path = folder / "hosts" / f"{bench.host.name}.json"
    if not path.exists():
        return
    former = json.loads(path.read_text(encoding="utf-8"))
    differing = [
        f"{what} was {former.get(what)!r}, is {facts.get(what)!r}"
        for what in ("kernel", "machine_id")
        if former.get(what) != facts.get(what)
    ]
    if differing:
        raise UsageError(
            f"{folder} was begun on another machine: {'; '.join(differing)}",
            advice="Blocks from two machines do not mix. Begin a new folder with --out.",
        )
    then, now = former.get("plugins", {}), facts.get("plugins", {})
    if then != now:
        changed = (
            f"{name} was {then.get(name, 'not there')}, is {now.get(name, 'not there')}"
            for name in sorted(then | now)
            if then.get(name) != now.get(name)
        )
        raise UsageError(
            f"{folder} was begun with other plugins: {'; '.join(changed)}",
            advice="Bring the former plugins back, or begin a new folder with --out.",
        )
