"""The full study of clustered arrays, made small for a lab of two nodes: checks, link, arrays, and
one report.

With IOTRIAL_LAB_BLOCKS=5 it has the study's own blocks, for half an hour.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrial.plan.template import beside, template
from nodes import VirtualLab, why_not

pytestmark = [pytest.mark.vm, pytest.mark.timeout(5400)]

BLOCKS = int(os.environ.get("IOTRIAL_LAB_BLOCKS", "2"))
LOADS = {
    "ddwrite": "write.bw",
    "write": "write.bw",
    "randread": "read.bw",
    "mix": "read.bw",
}
"""Of the study's nine, one of each kind, and what each is judged by."""
SLICE = "62MiB"
SIZES = {
    '"40GiB"': '"24MiB"',
    '"64GiB"': '"24MiB"',
    "numjobs = 24": "numjobs = 2",
    "iodepth = 64": "iodepth = 16",
    'ramp_time = "10s", runtime = "2m"': 'ramp_time = "1s", runtime = "4s"',
    'settle = "5s"': 'settle = "1s"',
    'margin = "2%"': 'margin = "10%"',
    "blocks = 5": f"blocks = {BLOCKS}",
}
NODES = ("cluster-1", "cluster-2")


def exchanged(text: str, words: dict[str, str]) -> str:
    """Each of these words that is there, by another."""
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def with_loads(text: str) -> str:
    """The study with these loads alone."""
    parts = re.split(r"(?m)^(?=\[)", text)
    kept = [
        part
        for part in parts
        if not (named := re.match(r"\[workloads\.(\w+)\]", part)) or named[1] in LOADS
    ]
    primary = ", ".join(f'{load} = "{metric}"' for load, metric in LOADS.items())
    return re.sub(r"primary = \{.*\}", f"primary = {{ {primary} }}", "".join(kept))


class Cluster:
    """The lab, as the study is told of it."""

    def __init__(self, lab: VirtualLab) -> None:
        self.lab = lab
        ways = [each["ssh"] for each in lab.vmlab("up", "cluster")["nodes"]]
        self.hosts = {f"root@NODE{number}": way for number, way in enumerate(ways, start=1)}
        self.disks = {f"DISK{place}": self._disk(name) for place, name in enumerate("AB", start=1)}
        for disk in self.disks.values():
            table = "label: gpt\\n" + f"size={SLICE}\\n" * 4
            self.do(NODES[0], "sh", "-c", f"printf '{table}' | sfdisk -q /dev/disk/by-id/{disk}")
            self.do(NODES[1], "blockdev", "--rereadpt", f"/dev/disk/by-id/{disk}")

    def do(self, node: str, *words: str) -> str:
        done = self.lab.said("vmlab", "exec", node, *words)
        assert done.returncode == 0, f"{node}: {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _disk(self, name: str) -> str:
        words = ("find", "/dev/disk/by-id", "-name", f"scsi-0QEMU*_{name}-*")
        (link,) = self.do(NODES[0], *words).split()
        return Path(link).name

    def left(self) -> dict[str, list[str]]:
        """Each node's block devices, partitions and what is mapped among them."""
        return {node: sorted(self.do(node, "lsblk", "-nlo", "NAME").split()) for node in NODES}

    def ran(self, study: Path, *, trials: int) -> Path:
        """The results of a study that ran to its end."""
        out = study.with_suffix("")
        done = self.lab.said("run", str(study), "--out", str(out), within=4800.0)
        assert done.returncode == 0, done.stdout + done.stderr
        counts = self.told(out)["trials"]
        assert counts["planned"] == trials
        assert counts["missing"] == counts["failed"] == 0
        # A guest stands still now and then, on a busy machine: such a trial is told and left out.
        assert counts["valid"] >= 0.7 * trials
        return out

    def told(self, results: Path) -> dict[str, Any]:
        """What is said of them."""
        done = self.lab.said("compare", str(results), "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def judged(self, results: Path) -> set[tuple[str, str]]:
        """Load and level of each primary comparison."""
        findings = self.told(results)["findings"]
        return {(each["workload"], each["level"]) for each in findings if each["primary"]}

    def checked(self, out: Path, *cases: str) -> list[dict[str, Any]]:
        """What these checks said, on the two disks that the study leaves alone."""
        words = [word for way in self.hosts.values() for word in ("--on", way)]
        for name in "CD":
            serial = self._disk(name).rpartition("_")[2]
            words += ["--devices", serial, "--destroy", serial]
        words += ["--out", str(out), "--json"]
        done = self.lab.said("check", *cases, *words, within=1800.0)
        assert done.returncode == 0, done.stdout + done.stderr
        results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
        return results


@pytest.fixture(scope="module")
def cluster(virtual_lab: VirtualLab) -> Iterator[Cluster]:
    if lacking := why_not():
        pytest.skip(lacking)
    try:
        yield Cluster(virtual_lab)
    finally:
        virtual_lab.said("vmlab", "down", "cluster")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clustermd")


@pytest.fixture(scope="module")
def link(cluster: Cluster, folder: Path) -> Path:
    """Measured from each node to the other, for which its server is started there."""
    for node, other in (NODES, NODES[::-1]):
        cluster.do(node, "iperf3", "--server", "--daemon")
        script = 'set -- $(getent hosts "$0"); echo "$1 peer" >>/etc/hosts'
        cluster.do(node, "sh", "-c", script, other)
    study = folder / "link.toml"
    words = {**cluster.hosts, '"SERVER"': '"peer"', "time = 30": "time = 4", **SIZES}
    text = exchanged(beside("clustermd", "full")["clustermd-link.toml"], words)
    study.write_text(text, "utf-8")
    return cluster.ran(study, trials=4 * BLOCKS)


@pytest.fixture(scope="module")
def arrays(cluster: Cluster, folder: Path) -> Path:
    """Local, clustered (by one node, by both), LVM's, and local again."""
    study, before = folder / "arrays.toml", cluster.left()
    text = with_loads(template("clustermd", "full"))
    study.write_text(exchanged(text, {**cluster.hosts, **cluster.disks, **SIZES}), "utf-8")
    out = cluster.ran(study, trials=len(LOADS) * 5 * BLOCKS)
    assert cluster.left() == before
    return out


def test_the_link_is_judged_both_ways(cluster: Cluster, link: Path) -> None:
    assert cluster.judged(link) == {("down", "second"), ("up", "second")}


def test_every_array_is_measured_by_one_node_and_clustered_by_both(
    cluster: Cluster, arrays: Path
) -> None:
    levels = ("clusteredmd", "lvm", "again", "2")
    assert cluster.judged(arrays) == {(load, level) for load in LOADS for level in levels}
    assert cluster.told(arrays)["recommendation"]


def test_nothing_is_owed_to_a_node_afterwards(cluster: Cluster, arrays: Path) -> None:
    assert arrays.is_dir()
    for way in cluster.hosts.values():
        owed = cluster.lab.said("status", "--", way)
        assert owed.returncode == 0, owed.stdout


def test_checks_link_and_arrays_are_one_report(
    cluster: Cluster, link: Path, arrays: Path, folder: Path
) -> None:
    cases, checks = ("cluster-md/create", "stress/together-on-ocfs2"), folder / "checks"
    assert [each["state"] for each in cluster.checked(checks, *cases)] == ["pass", "pass"]
    page = folder / "one.html"
    done = cluster.lab.said("report", *map(str, (checks, link, arrays)), "--out", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    questions = ("What does a clustered array cost", "What does the link to the disks carry")
    for word in (*questions, *cases, "mdadm"):
        assert word in text
    for each in (page, *(out / "report.html" for out in (checks, link, arrays))):
        leads = re.findall(r'href="([^"#]+)', each.read_text("utf-8"))
        assert leads
        assert [lead for lead in leads if not (each.parent / lead).exists()] == []
    told = (arrays / "report.html").read_text("utf-8")
    assert [
        each.name for each in arrays.glob("trials/*") if f'"trials/{each.name}/' not in told
    ] == []
