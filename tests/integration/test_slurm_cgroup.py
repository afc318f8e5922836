"""Slurm that knows the processes of a step by their control group (`proctrack/cgroup`): whatever is
in there is killed, and the guard is not.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from test_slurm import Site, site
from test_slurm_survives import LATEST, often

from cluster import Cluster
from lab import Lab, lab, why_not

__all__ = ["lab", "site"]

FREEZER = Path("/sys/fs/cgroup/freezer")


def lacking() -> str:
    if not (FREEZER / "cgroup.procs").exists():
        return f"needs {FREEZER}: Slurm 22.05 keeps steps in it"
    return why_not()


pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    former = set(FREEZER.iterdir())
    found = Cluster(tmp_path_factory.mktemp("slurm"), lab, 2, tracking="cgroup")
    yield found
    found.close()
    for top in set(FREEZER.iterdir()) - former:
        if top.name.removeprefix("slurm_") in found.boxes:
            for folder in sorted(top.glob("**/"), reverse=True):
                folder.rmdir()


def tracked(job: str) -> list[int]:
    """The processes of a job's steps, as Slurm knows them."""
    found: list[int] = []
    for path in FREEZER.glob(f"slurm*/uid_0/job_{job}/step_*/cgroup.procs"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def test_a_step_whose_control_group_is_killed_leaves_nothing_changed(
    site: Site, times: Callable[[int], int]
) -> None:
    """By whoever: all of them at once, without a signal before."""
    before, moments = site.seen(), random.Random(8)
    for _ in range(often(times)):
        process = site.run(runtime="0.5s")
        site.until(lambda: bool(site.owed()))
        (job,) = (each.split()[0] for each in site.cluster.jobs)
        time.sleep(moments.uniform(0.0, LATEST / 2))
        for pid in tracked(job):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert process.wait(200) in (0, 4, 6), site.said
        site.clean(before)


def test_a_job_that_is_cancelled_leaves_nothing_changed(site: Site) -> None:
    before = site.seen()
    process = site.run(runtime="20s")
    site.until(lambda: bool(site.loads()) and site.seen() != before)
    site.cluster.do("scancel", "--user=root")
    assert process.wait(200) in (4, 6), site.said
    site.clean(before)
