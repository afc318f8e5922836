"""Preflight: refuse early, before anything is changed or hours are spent."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iotrial.errors import (
    LockedError,
    RefusedError,
    StudyError,
    ToolMissing,
    UsageError,
)
from iotrial.execute.load.served import check_served
from iotrial.execute.session import HostSession
from iotrial.execute.targets.making import MKFS, MKFS_PACKAGES
from iotrial.hosts.places import STATE
from iotrial.look.machine import runs
from iotrial.look.refusals import refusals, unread
from iotrial.model.host import Host
from iotrial.model.study import Study
from iotrial.model.tool import Tool
from iotrial.plan.ahead import each_study
from iotrial.tools import executed, tool


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
        what = "changes settings" if changes else "creates its target" if makes else "drops caches"
        raise RefusedError(
            f"{host.name}: this study {what}, which needs root: {host.unprivileged}",
            advice="Or use a file target and factors of options (iotrial init file).",
        )
    if (changes or makes) and host.unguarded:
        what = "changes settings" if changes else "creates its target"
        raise RefusedError(
            f"{host.name}: this study {what}, and nothing would restore the host if what reaches it"
            f" were killed: {host.unguarded}",
            advice="Or use a file target and factors of options (iotrial init file).",
        )


def check_alone(host: Host) -> None:
    """One trial at a time on a machine, also where users cannot see each other's locks.

    Raises LockedError.  Not asked where ``IOTRIAL_STATE`` keeps several hosts apart on one kernel.
    """
    others = () if not host.remote and os.environ.get(STATE) else runs(host)
    if others:
        raise LockedError(
            f"{host.name}: another iotrial run is active on this host: {', '.join(others)}",
            advice="Concurrent loads would disturb each other. Wait until it ends.",
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


def check_levels(session: HostSession) -> None:
    """Raise StudyError naming each level that this kernel is known, from reading, to refuse."""
    known = list(
        dict.fromkeys(
            (
                *refusals(session.host, session.study, session.topologies),
                *unread(session.host, session.study, session.topologies),
            )
        )
    )
    if known:
        raise refused_by(known)


def refused_by(problems: list[str]) -> StudyError:
    """What is raised for all that this kernel refuses."""
    return StudyError(
        "\n  ".join(["this kernel does not accept part of the study:", *problems]),
        advice="Correct or remove these levels, or name the cells under [[exclude]].",
    )


def check_options(study: Study, facts: Mapping[str, float]) -> None:
    """The workloads' options once more, now with this machine's own numbers."""
    for workload in (load for part in each_study(study) for load in part.workloads):
        for option, problem in tool(workload.tool).check(workload, facts):
            raise StudyError(problem, key=f"workloads.{workload.name}.options.{option}")


def check_resume(
    folder: Path, session: HostSession, facts: dict[str, Any], *, booted: bool = False
) -> None:
    """A resumed study goes on only on the machine, kernel and disks it began on, and with the
    plugins.  ``booted``: the host is in a boot of the study, whose kernel may be another."""
    path = folder / "hosts" / f"{session.host.name}.json"
    if not path.exists():
        return
    former = json.loads(path.read_text(encoding="utf-8"))
    differing = [
        f"{what} was {former.get(what)!r}, is {facts.get(what)!r}"
        for what in (("machine_id",) if booted else ("kernel", "machine_id"))
        if former.get(what) != facts.get(what)
    ]
    if differing:
        raise UsageError(
            f"{folder} was started on another host: {'; '.join(differing)}",
            advice="Blocks of two hosts cannot be mixed. Use a new folder with --out.",
        )
    then, now = former.get("plugins", {}), facts.get("plugins", {})
    if then != now:
        changed = (
            f"{name} was {then.get(name, 'not there')}, is {now.get(name, 'not there')}"
            for name in sorted(then | now)
            if then.get(name) != now.get(name)
        )
        raise UsageError(
            f"{folder} was started with other plugins: {'; '.join(changed)}",
            advice="Reinstall the former plugins, or use a new folder with --out.",
        )
