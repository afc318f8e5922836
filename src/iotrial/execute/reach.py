"""Reach: what a load names itself, in a job file, beside what iotrial aims it at.

Job files are read for what they write to before anything is armed: a ``filename=/dev/sda`` in one
would otherwise pass every check made of the target.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from iotrial.errors import TargetRefused
from iotrial.execute import look
from iotrial.execute.mounts import under
from iotrial.model.host import Host
from iotrial.model.target import Aim
from iotrial.model.tool import Reach


def within(host: Host, aim: Aim, reach: Reach) -> None:
    """Refuse a load that touches anything beside its target, or has a shell run commands."""
    if reach.runs:
        raise TargetRefused(
            "the workload has a shell run commands that iotrial cannot judge",
            target=aim.target.name,
            evidence=tuple(f"would run: {command}" for command in reach.runs),
            advice="Take them out of the job file; what they prepare belongs in the study.",
        )
    outside = [path for path in reach.paths if not _inside(host, aim, path)]
    if outside:
        raise TargetRefused(
            "the workload names files or devices outside its target",
            target=aim.target.name,
            evidence=tuple(f"names {path}" for path in outside),
            advice=f"Take the names out of the job file: iotrial aims it at {aim.path}.",
        )


def _inside(host: Host, aim: Aim, path: str) -> bool:
    """Is ``path`` the target, or in it when that is a directory?  Relative names are files in a
    directory target, and anywhere else a file in the results folder, which is not the target."""
    folder = aim.path if aim.target.kind == "directory" else ""
    if not path.startswith("/"):
        if not folder:
            return False
        path = f"{folder}/{path}"
    real = look.resolve(host, path)
    if not real:
        parent = look.resolve(host, str(PurePosixPath(path).parent))
        real = f"{parent}/{PurePosixPath(path).name}" if parent else ""
    return bool(real) and (under(real, folder) if folder else real == aim.path)
