"""Jobs on a filesystem in memory."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene, since
from iotrial.lint.sheet import Sheet

_ALWAYS = ("/dev/shm", "/run/shm")  # noqa: S108 (names in job files)


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    places = (*_ALWAYS, *scene.memory_mounts)
    for job in jobs(sheet):
        for path in job.paths():
            if job.does_files and any(path == at or path.startswith(f"{at}/") for at in places):
                what = "from 6.6 on direct I/O means nothing there"
                if not since(scene, 6, 6):
                    what = "the kernel refuses direct I/O there"
                word = what if job.direct else "it is memory"
                yield Said(job.line, f"[{job.name}]", f"{path} lies in memory: {word}")


RULE = Rule(
    "fio-in-memory",
    "direct I/O on a filesystem in memory",
    "warning",
    ("fio",),
    "tmpfs refuses O_DIRECT before 6.6 (Invalid argument) and ignores it from then on: there is no"
    " disk below it.",
    "mm/shmem.c, commit e88e0d366f9c (6.6); open(2): O_DIRECT",
    "Name a folder on the filesystem that is to be measured.",
    _judge,
)
