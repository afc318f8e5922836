"""Jobs that Slurm takes the nodes from, for a job that is more urgent or since somebody requeues
them.  What they leave is seen by the next job on the same nodes, which Slurm starts at once.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_slurm import JOURNALS, Site, cluster, lab, site
from test_slurm_survives import LATEST, often

from lab import why_not
from moments import wait_until

__all__ = ["cluster", "lab", "site"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

LOOK = """
cat /proc/sys/net/ipv4/tcp_rmem /sys/class/net/lo/tx_queue_len
grep -la "filename[=]{folder}" /proc/[0-9]*/cmdline
{journals}
"""
"""What the next job sees of a node: what a run changes, its loads, what it still has to restore."""


FREE_WITHIN = 60
"""Seconds: KillWait is 20 here, and the machine may be busy."""
TRIALS = 4
"""Of the study: one block of four treatments."""


@contextmanager
def epilogs(site: Site, below: str = "") -> Iterator[Callable[[str], dict[str, str]]]:
    """At the end of each job each of its nodes looks, before any other job can start there; what
    it saw, of the nodes of a job.  ``below`` is where the targets of a node are."""
    look = LOOK.format(folder=f"{site.folder}{below}", journals=JOURNALS)
    seen = f"{site.folder}/ended-$SLURM_JOB_ID-$SLURMD_NODENAME"
    site.cluster.epilog.write_text(f"{{\n{look}\n}} >{seen}.new\nmv {seen}.new {seen}\n")
    try:
        yield lambda job: {
            path.name.rpartition("-")[2]: path.read_text()
            for path in site.folder.glob(f"ended-{job}-n?")
        }
    finally:
        site.cluster.epilog.unlink()


def take(site: Site, nodes: Sequence[str]) -> None:
    """Have an urgent job take these nodes from whoever has them, and wait for its end."""
    chosen = ("--partition=urgent", f"--nodelist={','.join(nodes)}", "--exclusive")
    site.cluster.do("srun", *chosen, "true")


def requeue(site: Site, job: str) -> None:
    """Unless it has just ended."""
    site.cluster.do("scontrol", "requeue", job, check=False)


def batch(site: Site, node: str) -> str:
    """The number of a job, which runs a study on its own node."""
    site.folder.mkdir(parents=True)
    study = site.study(slurm=node, hosts=[node], runtime="0.5s")
    run = f"exec {sys.executable} -m iotrial.cli.main run {study} --out {site.folder}/out"
    return site.cluster.do(
        "sbatch", "--parsable", "--output=/dev/null", "--requeue", "--exclusive",
        f"--nodelist={node}", f"--chdir={site.folder}", "--wrap", f"{run} 2>>{site.folder}/said",
    ).strip()  # fmt: skip


def state(site: Site, job: str) -> str:
    """What Slurm knows of a job, also of one that has ended."""
    return site.cluster.do("scontrol", "show", "job", "--oneliner", job)


def committed(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in folder.glob("**/trial.json")}


def test_a_job_that_is_preempted_ends_when_all_is_given_back(
    site: Site, times: Callable[[int], int]
) -> None:
    """iotrial holds the nodes from outside; Slurm cancels the job.  Its signal counts, and not that
    the guard hears nothing any more: that takes longer than a node may take to be free."""
    site.lease = 2 * FREE_WITHIN
    before, moments, struck, many = site.seen(), random.Random(5), 0, often(times)
    with epilogs(site) as ended:
        for number in range(many):
            process = site.run(
                nodes="--partition=spare --nodelist=n[1-2] --exclusive", runtime="0.5s"
            )
            site.until(lambda: any("RUNNING" in each for each in site.cluster.jobs))
            (job,) = (each.split()[0] for each in site.cluster.jobs)
            wait_until(number, many, moments.uniform(0.0, LATEST), site.owed)
            struck += bool(site.owed())
            began = time.monotonic()
            take(site, ["n1", "n2"])
            assert time.monotonic() - began < FREE_WITHIN
            assert ended(job) == {"n1": before[0], "n2": before[1]}, site.said
            assert process.wait(200) in (0, 4, 6), site.said
            site.clean(before)
    assert struck, "no job was preempted within a session"


def test_a_job_that_is_requeued_goes_on_where_it_was(
    site: Site, times: Callable[[int], int]
) -> None:
    """iotrial is in the job, which is preempted, or requeued by somebody.  A job on each node at
    the same time: they wait most of it."""
    before, moments, struck, cut, left = site.seen(), random.Random(6), 0, 0, often(times)
    names = list(site.cluster.boxes)
    while left > 0:
        own = {name: Site(site.cluster, site.folder / f"{left}" / name) for name in names[:left]}
        with epilogs(site, f"/{left}/$SLURMD_NODENAME") as ended:
            left -= len(own)
            jobs = {name: batch(each, name) for name, each in own.items()}
            kept = {}
            for number, (name, job) in enumerate(jobs.items()):
                out = own[name].folder / "out"
                site.until(lambda job=job: "JobState=RUNNING" in state(site, job))
                if number % 2:
                    own[name].until(lambda out=out: bool(committed(out)))
                time.sleep(moments.uniform(0.0, LATEST / (number + 1)))
                struck += bool(site.owed())
                if number % 2:
                    requeue(site, job)
                else:
                    take(site, [name])
                site.until(lambda job=job: bool(ended(job)))
                seen = before[names.index(name)]
                assert ended(job) == {name: seen}, own[name].said
                kept[name] = committed(out)
            for name, job in jobs.items():
                own[name].until(lambda job=job: "JobState=COMPLETED" in state(site, job))
                cut += "Restarts=1" in state(site, job) and 0 < len(kept[name]) < TRIALS
                done = committed(own[name].folder / "out")
                assert len(done) == TRIALS, own[name].said
                assert done.items() >= kept[name].items()
            site.clean(before)
    assert struck, "no job was requeued within a session"
    assert cut, "no job was requeued between two trials"


def test_a_job_that_is_suspended_gives_everything_back(site: Site) -> None:
    """Its nodes are another job's meanwhile; the guard hears nothing through a step that stands."""
    before = site.seen()
    process = site.run(runtime="60s")
    site.until(lambda: bool(site.loads()) and site.seen() != before)
    (job,) = (each.split()[0] for each in site.cluster.jobs)
    site.cluster.do("scontrol", "suspend", job)
    site.until(lambda: not site.loads() and not site.owed() and site.seen() == before)
    site.cluster.do("scontrol", "resume", job)
    assert process.wait(200) in (4, 6), site.said
    site.clean(before)
