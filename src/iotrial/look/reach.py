"""Reach: what a load names itself, in a job file, beside what iotrial aims it at.

Job files are read for what they write to before anything is armed: a ``filename=/dev/sda`` in one
would otherwise pass every check made of the target.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import normpath

from iotrial.errors import TargetRefused
from iotrial.look import reading
from iotrial.look.mounts import under
from iotrial.model.host import Reader
from iotrial.model.study import Study
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import LoadAccess
from iotrial.plan.ahead import loads_on
from iotrial.tools import tool
from iotrial.units import format_bytes


def within(host: Reader, aim: PreparedTarget, reach: LoadAccess) -> None:
    """Refuse a load that touches anything beside its target, or has a shell run commands."""
    if reach.runs:
        raise TargetRefused(
            "the workload runs shell commands that iotrial cannot check",
            target=aim.target.name,
            evidence=tuple(f"would run: {command}" for command in reach.runs),
            advice="Remove them from the job file; preparations belong in the study.",
        )
    outside = [path for path in reach.paths if not _inside(host, aim, path)]
    mentions = [normpath(path.replace("{target}", aim.path)) for path in reach.mentions]
    outside += [path for path in mentions if _other_device(host, aim, path)]
    if outside:
        raise TargetRefused(
            "the workload names files or devices outside its target",
            target=aim.target.name,
            evidence=tuple(f"names {path}" for path in outside),
            advice=f"Remove the names from the workload: iotrial sets {aim.path} as its target.",
        )
    if aim.target.kind == "directory":
        _spare(host, aim, reach)


def changes(reach: LoadAccess, size: int) -> bool:
    """Whether a file of this size would not stay as it is."""
    return reach.writes or bool(reach.alters) or size < reach.extent


def why_changed(reach: LoadAccess, size: int) -> tuple[str, ...]:
    """Why a file of this size would not stay as it is under a load that only reads."""
    found = [f"{option} may change a file" for option in reach.alters]
    if size < reach.extent:
        asked = f" ({reach.sized})" if reach.sized else ""
        what = f"the file has {format_bytes(size)}, and the load reads {format_bytes(reach.extent)}"
        found.append(f"{what}{asked}: fio would write the missing part first")
    return tuple(found)


def _spare(host: Reader, aim: PreparedTarget, reach: LoadAccess) -> None:
    """A file that lies in a directory target already, and that the load names, is somebody's; a
    device node leads out of the directory, wherever it lies."""
    for path in reach.paths:
        there = reading.status(host, path)
        if there and not there.is_file and not there.is_folder:
            raise TargetRefused(
                f"{path} is a {there.kind}, neither a file nor a folder",
                target=aim.target.name,
                advice="Name another file; a device has to be a target itself.",
            )
        if there and there.is_file and changes(reach, there.size):
            raise TargetRefused(
                f"{path} exists, and the load would write to it",
                target=aim.target.name,
                evidence=why_changed(reach, there.size),
                advice="Name a file that does not exist, or move this one away. A directory cannot "
                "be armed: if the content is worthless, make the file a target with destroy.",
            )


def _other_device(host: Reader, aim: PreparedTarget, path: str) -> bool:
    """Does it lead to a block device that is not the target, by its number?"""
    there = reading.status(host, path)
    if there is None or not there.is_block_device:
        return False
    target = reading.status(host, aim.path)
    return target is None or there.devno != target.devno


def _inside(host: Reader, aim: PreparedTarget, path: str) -> bool:
    """Is ``path`` the target, or in it when that is a directory?  A relative name is one in the
    folder that the tool works in, which is the results folder, and never the target."""
    if not path.startswith("/"):
        return False
    folder = aim.path if aim.target.kind == "directory" else ""
    real = reading.resolve(host, path)
    if not real:
        parent = reading.resolve(host, str(PurePosixPath(path).parent))
        name = PurePosixPath(path).name
        dangling = bool(parent) and name in reading.names(host, parent)  # a load would follow it
        real = f"{parent}/{name}" if parent and not dangling else ""
    return bool(real) and (under(real, folder) if folder else real == aim.path)


def reach_of(study: Study, target: Target) -> LoadAccess:
    """What all workloads that are aimed at it, with their chores, may do to a target."""
    loads = loads_on(study, target.name)
    reaches = [tool(each.tool).reach(each) for each in loads]
    chores = [chore for each in loads for chore in (*each.prepare, *each.cleanup)]
    return LoadAccess(
        reads=any(reach.reads for reach in reaches),
        writes=any(reach.writes for reach in reaches)
        or any(chore.destroys(target) for chore in chores),
        paths=tuple(dict.fromkeys(path for reach in reaches for path in reach.paths)),
        runs=tuple(run for reach in reaches for run in reach.runs),
        storage=not reaches or any(reach.storage for reach in reaches),
        extent=max((reach.extent for reach in reaches), default=0),
        sized=max(reaches, key=lambda reach: reach.extent).sized if reaches else "",
        alters=tuple(dict.fromkeys(what for reach in reaches for what in reach.alters)),
        mentions=tuple(dict.fromkeys(path for reach in reaches for path in reach.mentions)),
    )
