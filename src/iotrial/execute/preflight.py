"""Preflight: refuse early, before anything is changed or hours are spent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from iotrial.errors import (
    FileRefused,
    LockedError,
    RefusedError,
    SettingLost,
    SettingRefused,
    StudyError,
    ToolMissing,
    UsageError,
)
from iotrial.execute.bench import Bench
from iotrial.execute.machine import runs
from iotrial.hosts.places import STATE
from iotrial.model.host import Host
from iotrial.model.study import Study
from iotrial.model.trial import treatment_text
from iotrial.model.tunable import Domain
from iotrial.plan.design import next_trials, open_factors
from iotrial.plan.design import settings as settings_of
from iotrial.tools import tool
from iotrial.tunables import tunable as find


def check_machine(host: Host, study: Study) -> None:
    """Nobody else at work; root where settings change or devices are made; the tools, in a
    version that will do."""
    check_alone(host)
    check_tools(host, study)
    changes = any(level.settings for factor in study.factors for level in factor.levels)
    makes = any(target.kind == "loop" for target in study.targets)
    if (changes or makes) and host.run(["id", "-u"]).text.strip() != "0":
        what = "changes settings" if changes else "makes a loop device"
        raise RefusedError(
            f"{host.name}: this study {what}, which needs root",
            advice="Run it with sudo, or use a file target and option factors (iotrial init file).",
        )


def check_alone(host: Host) -> None:
    """One trial at a time on a machine, also where users cannot see each other's locks.

    Raises LockedError.  Not asked where ``IOTRIAL_STATE`` keeps several hosts apart on one kernel.
    """
    others = () if os.environ.get(STATE) else runs(host)
    if others:
        raise LockedError(
            f"{host.name}: another iotrial run is at work here: {', '.join(others)}",
            advice="Two loads would measure each other. Wait until it has ended.",
        )


def check_tools(host: Host, study: Study) -> None:
    for name in dict.fromkeys(workload.tool for workload in study.workloads):
        driver = tool(name)
        answer = host.run([driver.program, "--version"])
        if answer.exit == 127:  # noqa: PLR2004 (the shell's own "not found")
            raise ToolMissing(
                f"{host.name}: {driver.program} is not installed",
                advice=f"On Debian and Ubuntu: apt-get install {driver.package}",
            )
        problem = driver.version_problem(answer.text.strip())
        if problem:
            raise ToolMissing(f"{host.name}: {problem}")


def shared_choices(
    host: Host, study: Study, device_of: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """What ``levels = "available"`` means here: tunable → the choices that the kernel offers on
    every device the factor is varied on, in the kernel's order."""
    found: dict[str, tuple[str, ...]] = {}
    for factor in open_factors(study):
        targets = [factor.target] if factor.target else list(device_of)
        offered = [domain_on(host, factor.subject, device_of[name]).choices for name in targets]
        found[factor.subject] = tuple(
            choice for choice in offered[0] if all(choice in each for each in offered)
        )
    return found


def domain_on(host: Host, name: str, device: str) -> Domain:
    """What a tunable takes on a device, as the kernel says now.

    Raises SettingRefused where it does not exist or cannot be read.
    """
    knob = find(name)
    try:
        return knob.domain(host.read(knob.file(device)))
    except FileRefused as refused:
        raise SettingRefused(
            f"{name} cannot be read on {device or host.name}: {refused}",
            tunable=name,
            device=device,
            advice=_instead(host, knob.file(device))
            or "Leave the factor out, or take a target that has this setting.",
        ) from refused


def _instead(host: Host, path: str) -> str:
    """The nearest names in the folder of a control file that is not there, if any are near."""
    folder, _, name = path.rpartition("/")
    try:
        near = get_close_matches(name, host.list(folder), n=3)
    except FileRefused:
        return ""
    return f"Did you mean {' or '.join(near)}?" if near and name not in near else ""


def refusals(host: Host, study: Study, device_of: dict[str, str]) -> Iterator[str]:
    """Every level that this kernel is known to refuse, in words.  Only reads."""
    for factor in study.factors:
        targets = [factor.target] if factor.target else list(device_of)
        for level in factor.levels:
            for name, value in level.settings:
                for device in devices_of(name, [device_of[target] for target in targets]):
                    problem = _refusal(host, name, value, device)
                    if problem:
                        yield f"factor {factor.name}, level {level.label}: {name}: {problem}"


def devices_of(name: str, devices: Iterable[str]) -> tuple[str, ...]:
    """Where a tunable is set: on each of the devices, or once on the host ('')."""
    return ("",) if find(name).scope == "host" else tuple(dict.fromkeys(devices))


def _refusal(host: Host, name: str, value: str, device: str) -> str:
    if name.startswith("queue.iosched."):
        return ""  # exists only under its own scheduler: the rehearsal tells
    try:
        return domain_on(host, name, device).refusal(value)
    except SettingRefused as refused:
        return f"{refused.message}. {refused.advice}"


def check_levels(bench: Bench) -> None:
    """Raise StudyError naming each level that this kernel is known, from reading, to refuse."""
    known = list(dict.fromkeys(refusals(bench.host, bench.study, bench.device_of)))
    if known:
        raise _refused(known)


def rehearse(bench: Bench) -> None:
    """Hold every distinct treatment once, before the first trial, then release.

    Raises StudyError naming each cell that the kernel refuses.
    """
    study = bench.study
    problems = []
    tried = set()
    for trial in next_trials(study, (), ()):
        settings = settings_of(study, trial, bench.device_of)
        if settings in tried:
            continue
        tried.add(settings)
        try:
            bench.hold(settings)
        except (SettingRefused, SettingLost) as error:
            if "read-only" in error.advice or "root" in error.advice:
                raise
            problems.append(f"cell {treatment_text(trial.treatment)}: {error.message}")
    bench.release()
    if problems:
        raise _refused(problems)


def _refused(problems: list[str]) -> StudyError:
    return StudyError(
        "\n  ".join(["this kernel refuses part of the study:", *problems]),
        advice="Leave these levels out, or name the cells under [[exclude]].",
    )


def check_options(study: Study, facts: Mapping[str, float]) -> None:
    """The workloads' options once more, now with this machine's own numbers."""
    for workload in study.workloads:
        for option, problem in tool(workload.tool).check(workload, facts):
            raise StudyError(problem, key=f"workloads.{workload.name}.options.{option}")


def check_resume(folder: Path, bench: Bench, facts: dict[str, Any]) -> None:
    """A resumed study goes on only on the machine, kernel and disks it began on."""
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
