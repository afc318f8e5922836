"""Jobs that write to a device by name."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import Job, alike, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found: dict[str, list[Job]] = {}
    for job in jobs(sheet):
        if job.writes:
            for path in job.paths():
                if path.startswith("/dev/") and not _harmless(path):
                    found.setdefault(path, []).append(job)
    places: dict[tuple[Job, ...], list[str]] = {}
    for path, named in found.items():
        places.setdefault(tuple(named), []).append(path)
    for writers, paths in places.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        what = f"{writers[0].rw} destroys what is on {paths[0]}{more}"
        yield Said(writers[0].line, alike(writers), what)


def _harmless(path: str) -> bool:
    return path in ("/dev/null", "/dev/zero") or path.startswith(("/dev/shm/", "/dev/dax"))  # noqa: S108 (a name in a job file)


RULE = Rule(
    "fio-writes-device",
    "a job that writes to a device",
    "warning",
    ("fio",),
    "fio asks nobody: what is on the device is gone.  A mounted one it refuses, one that LVM, md or"
    " multipath hold it does not.",
    "fio(1): allow_mounted_write; fio filesetup.c",
    "Let a study name the target: iotrial looks who uses it before anything is written.",
    _judge,
)
