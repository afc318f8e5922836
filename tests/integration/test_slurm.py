"""A cluster of Slurm's: its nodes as hosts, an allocation that a run gets and releases, and every
way to lose it.  The nodes are namespaces of this machine with a real slurmd in each; what is
changed are settings of their own network, and nobody calls ``restore``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cluster import Cluster
from lab import Lab, lab, why_not

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "slurm.md"
LEASE = 5
STUDY = """
question = "Is everything given back?"
[inventory]
slurm = "{slurm}"
lease = "{lease}s"
[targets.file]
file = "{folder}/file"
size = "4MiB"
hosts = {hosts}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "{runtime}" }}
[factors.memory]
tunable = "sysctl.net.ipv4.tcp_rmem"
levels = ["4096 87380 16777216", "4096 87380 8388608"]
[factors.queue]
tunable = "net.txqueuelen"
on = "lo"
levels = [77, 88]
[design]
blocks = 1
settle = "0s"
"""
JOURNALS = "cat /var/lib/iotrial/journal.d/*.journal 2>/dev/null || :"


@dataclass
class Site:
    """The cluster, and the controller's folder."""

    cluster: Cluster
    folder: Path
    lease: int = LEASE
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def study(
        self,
        slurm: str = "$SLURM_JOB_NODELIST",
        runtime: str = "0.2s",
        hosts: Sequence[str] = ("n1", "n2"),
    ) -> Path:
        path = self.folder / "study.toml"
        text = STUDY.format(
            slurm=slurm,
            lease=self.lease,
            folder=self.folder,
            runtime=runtime,
            hosts=json.dumps(hosts),
        )
        path.write_text(text)
        return path

    def iotrial(self, *words: object, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        command = [*before, sys.executable, "-m", "iotrial.cli.main", *map(str, words)]
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                command,
                env=self.cluster.environment,
                cwd=self.folder,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.runs.append(process)
        return process

    def run(
        self, *more: str, nodes: str = "--nodes=2 --exclusive", runtime: str = "0.2s"
    ) -> subprocess.Popen[bytes]:
        out = self.folder / f"results-{time.monotonic_ns()}"
        words = ("run", self.study(runtime=runtime), "--out", out, "--slurm", nodes, *more)
        return self.iotrial(*words)

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text("utf-8", "replace")

    def seen(self) -> list[str]:
        """What a run changes, of every node."""
        files = ("/proc/sys/net/ipv4/tcp_rmem", "/sys/class/net/lo/tx_queue_len")
        return [box.run("cat", *files) for box in self.cluster.boxes.values()]

    def owed(self) -> str:
        return "".join(box.run("sh", "-c", JOURNALS) for box in self.cluster.boxes.values())

    def loads(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"fio") and f"--filename={self.folder}".encode() in b" ".join(
                    words
                ):
                    found.append(path.parent.name)
        return found

    def holders(self) -> list[str]:
        """What is left of programs that held an allocation."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                ours = f"{self.cluster.bin}/".encode() in (path.parent / "environ").read_bytes()
                if ours and b"salloc" in path.read_bytes():
                    found.append(path.parent.name)
        return found

    @property
    def reservations(self) -> str:
        return self.cluster.do("scontrol", "show", "reservation", "--oneliner", check=False)

    def kill_guards(self) -> None:
        killed = 0
        for box in self.cluster.boxes.values():
            for pid in box.processes():
                with suppress(OSError):
                    if b"iotrial-guard" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
        assert killed

    def until(self, true: Callable[[], bool], within: float = 240.0) -> None:
        deadline = time.monotonic() + within
        while not true():
            assert time.monotonic() < deadline, (self.said, self.cluster.jobs, self.cluster.logs)
            time.sleep(0.05)

    def clean(self, before: list[str]) -> None:
        """Wait until nothing is changed, owed, loaded or allocated any more."""
        self.until(lambda: not self.cluster.jobs)
        self.until(lambda: not self.loads() and not self.owed() and not self.holders())
        assert self.seen() == before

    def close(self) -> None:
        for process in self.runs:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("slurm"), lab)
    yield found
    found.close()


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    found = Site(cluster, tmp_path)
    yield found
    found.close()
    cluster.do("scancel", "--user=root", check=False)
    cluster.free()


def test_nodes_are_those_of_a_range_of_a_job_or_what_sinfo_selects(site: Site) -> None:
    for slurm, nodes in (
        ("n[2-3]", ["n2", "n3"]),
        ("partition=p state=idle", ["n1", "n2", "n3", "n4"]),
        ("nodes=n4", ["n4"]),
    ):
        assert site.iotrial("doctor", "--hosts", site.study(slurm)).wait(60) == 0, site.said
        for node in nodes:
            assert f"slurm://{node}" in site.said
        assert site.said.count("slurm://") == len(nodes)
    assert site.iotrial("doctor", "--hosts", site.study("partition=q")).wait(60) == 2, site.said
    assert site.iotrial("plan", site.study()).wait(60) == 2
    assert "this is no job of Slurm" in site.said


def test_a_run_gets_nodes_and_releases_them(site: Site) -> None:
    before = site.seen()
    assert site.run().wait(200) == 0, site.said
    assert "job " in site.said
    assert not site.cluster.jobs
    site.clean(before)


def test_in_an_allocation_a_run_uses_its_nodes(site: Site) -> None:
    before = site.seen()
    salloc = (str(site.cluster.bin / "salloc"), "--nodes=2", "--exclusive")
    out = site.folder / "out"
    assert site.iotrial("run", site.study(), "--out", out, before=salloc).wait(200) == 0, site.said
    assert {path.stem for path in (out / "hosts").glob("*.json")} == {"n1", "n2"}
    site.clean(before)


def test_a_command_reaches_a_node_of_a_job_by_its_number(site: Site) -> None:
    job = site.cluster.do(
        "sbatch", "--output=/dev/null", "--parsable", "-w", "n3", "--wrap", "sleep 100"
    ).strip()
    site.until(lambda: f"{job} RUNNING" in site.cluster.jobs)
    assert site.iotrial("status", f"slurm://{job}/n3").wait(60) == 0, site.said
    assert "No setting is left to restore" in site.said
    assert site.iotrial("status", "slurm://n3").wait(60) == 2, site.said


def test_what_salloc_refuses_is_said_once(site: Site) -> None:
    process = site.run(nodes="--partition=nowhere")
    assert process.wait(60) == 2
    assert "salloc: Job submit/allocate failed: Invalid partition name specified" in site.said


def test_it_says_what_it_waits_for_and_leaves_no_request_behind(site: Site) -> None:
    site.cluster.do(
        "sbatch",
        "--output=/dev/null",
        "--parsable",
        "--nodes=4",
        "--exclusive",
        "--wrap",
        "sleep 300",
    )
    for sign in (signal.SIGKILL, signal.SIGINT):
        process = site.run()
        site.until(lambda: "waiting for job" in site.said)
        assert "PENDING" in site.said
        process.send_signal(sign)
        process.wait(60)
        site.until(lambda: len(site.cluster.jobs) == 1)


def test_a_run_ends_before_its_job_does(site: Site) -> None:
    """The limit is two minutes; the last of them is kept for restoring."""
    before = site.seen()
    process = site.run(nodes="--nodes=2 --exclusive --time=2", runtime="40s")
    assert process.wait(150) == 130, site.said
    assert "ends in" in site.said
    site.clean(before)
    process = site.run(nodes="--nodes=2 --exclusive --time=1")
    assert process.wait(60) == 3, site.said
    assert "too soon to measure" in site.said
    site.clean(before)


def test_the_epilog_restores_what_nobody_else_would(site: Site) -> None:
    """The controller is killed, and the guards too."""
    before = site.seen()
    assert site.iotrial("restore", "--epilog").wait(60) == 0
    site.cluster.epilog.write_text(site.said)
    try:
        process = site.run(runtime="20s")
        site.until(lambda: bool(site.loads()) and site.seen() != before)
        process.send_signal(signal.SIGSTOP)
        site.kill_guards()
        process.kill()
        site.until(lambda: not site.cluster.jobs)
        site.until(lambda: site.seen() == before)
        site.clean(before)
        states = site.cluster.do("sinfo", "--noheader", "--Node", "--format=%T")
        assert "drain" not in states
    finally:
        site.cluster.epilog.unlink()


def test_the_commands_of_the_page_do_what_it_says(site: Site) -> None:
    """The study of docs/slurm.md in small, in each of the three ways that the page names."""
    page = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (study,) = (text for language, text in blocks if language == "toml")
    small = study.replace('"10s"', '"0.2s"').replace("/tmp/iotrial-test", f"{site.folder}/file")
    (site.folder / "study.toml").write_text(f'{small}[design]\nblocks = 1\nsettle = "0s"\n')
    (site.folder / "bin").mkdir()
    iotrial = site.folder / "bin" / "iotrial"
    iotrial.write_text(f'#!/bin/sh\nexec {sys.executable} -m iotrial.cli.main "$@"\n')
    iotrial.chmod(0o755)
    commands = [text for language, text in blocks if not language]
    shown = [c for c in commands if "run study.toml" in c and "--reserve" not in c]
    assert [c.split()[0] for c in shown] == ["iotrial", "salloc", "sbatch"]
    before = site.seen()
    path = f"{site.folder}/bin:{site.cluster.environment['PATH']}"
    for each in shown:
        command = each
        if command.startswith("sbatch"):  # iotrial is on a node then, and reaches no other box
            command = each.replace("n[1-2]", "n1")
            written = (site.folder / "study.toml").read_text()
            (site.folder / "study.toml").write_text(written.replace('"n[1-2]"', '"n1"'))
        done = subprocess.run(
            ["sh", "-c", command], cwd=site.folder, env={**site.cluster.environment, "PATH": path},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
        site.until(lambda: not site.cluster.jobs, 200)
        site.clean(before)
    found = [each.parent.name for each in site.folder.rglob("plan.jsonl")]
    said = [each.read_text("utf-8", "replace") for each in site.folder.glob("slurm-*.out")]
    assert len(found) == 3, (found, said)
    assert "buffer" in found
