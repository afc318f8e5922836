"""Jobs whose time limit comes at whatever moment of a trial: the run is over before Slurm acts.

Slurm counts limits in minutes, so that it is the trials that differ.  Half of the runs hold their
job from outside, half are in it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_slurm import Site, cluster, lab

from cluster import Cluster
from lab import why_not

__all__ = ["cluster", "lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

LIMITS = 20
STOPPED = 130


class Limited(Site):
    """A run on one node for as long as its job may last."""

    def __init__(self, cluster: Cluster, folder: Path, node: str, runtime: float) -> None:
        super().__init__(cluster, folder)
        self.node, self.job = node, ""
        self.folder.mkdir()
        path = self.study(slurm=node, hosts=[node], runtime=f"{runtime:.1f}s")
        text = path.read_text().replace("blocks = 1", "blocks = 200")
        path.write_text(text.replace('bs = "4k"', 'bs = "4k", rate_iops = 100'))  # leaves CPU time
        self.command = ("run", path, "--out", self.folder / "out")

    def from_outside(self) -> None:
        self.iotrial(*self.command, "--slurm", f"--nodelist={self.node} --exclusive --time=2")
        self.until(lambda: "job " in self.said and "waiting" not in self.said)
        self.job = self.said.partition("job ")[2].partition(":")[0]

    def within(self) -> None:
        words = " ".join(map(str, self.command))
        self.job = self.cluster.do(
            "sbatch", "--parsable", "--output=/dev/null", "--exclusive", "--time=2",
            f"--nodelist={self.node}", "--wrap",
            f"exec {sys.executable} -m iotrial.cli.main {words} 2>{self.folder}/said",
        ).strip()  # fmt: skip

    @property
    def state(self) -> dict[str, str]:
        """What Slurm knows of the job, also when it has ended."""
        said = self.cluster.do("scontrol", "show", "job", "--oneliner", self.job)
        return dict(word.partition("=")[::2] for word in said.split())

    def wait(self) -> None:
        over = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")
        self.until(lambda: self.state["JobState"] in over, 200)


@pytest.fixture
def limited(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str, float], Limited]]:
    made: list[Limited] = []

    def make(node: str, runtime: float) -> Limited:
        made.append(Limited(cluster, tmp_path / str(len(made)), node, runtime))
        return made[-1]

    yield make
    cluster.do("scancel", "--user=root", check=False)
    for each in made:
        each.close()
    cluster.free()


def test_a_run_is_over_before_the_limit_whatever_it_is_at(
    limited: Callable[[str, float], Limited], cluster: Cluster
) -> None:
    moments = random.Random(7)
    for _ in range(LIMITS // len(cluster.boxes)):
        runs = [limited(node, moments.uniform(0.2, 30.0)) for node in cluster.boxes]
        before = runs[0].seen()
        for number, run in enumerate(runs):
            time.sleep(moments.uniform(0.0, 3.0))
            run.within() if number % 2 else run.from_outside()
        runs[0].until(lambda before=before, run=runs[0]: run.seen() != before)
        for run in runs:
            run.wait()
            assert run.state["JobState"] in ("COMPLETED", "FAILED"), run.state
            assert "ends in" in run.said, run.said
            ended = run.runs[0].wait(60) if run.runs else int(run.state["ExitCode"].split(":")[0])
            assert ended == STOPPED, (ended, run.said)
            run.until(lambda run=run: not run.loads() and not run.holders())
        assert not runs[0].owed()
        assert runs[0].seen() == before
