"""NVMe over TCP with two paths: knobs held on it, a path that is worse, a path that is lost.

And dm-multipath: a path lost during a load, in the lab ``san``.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotrial.hosts.ssh import SSHHost
from iotrial.judgement import judge
from iotrial.look.topology import topology
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results
from nodes import Several, VirtualLab, hold, up

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]

STUDY = """
question = "?"
[hosts]
node = {{ ssh = "{way}" }}
[targets.lun]
device = "{device}"
host = "node"
[workloads.read]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 8, runtime = "{runtime}" }}
{factors}
[design]
kind = "full"
blocks = {blocks}
settle = "0s"
[decide]
primary = "read.clat.mean"
margin = "5%"
"""


class Host:
    """Node 2 of a lab, and studies on the one disk that it has by two paths."""

    def __init__(self, lab: Several, way: str, device: str) -> None:
        self.lab = lab
        self.way = way
        self.device = device

    def study(self, folder: Path, factors: str, *, runtime: str = "6s", blocks: int = 3) -> None:
        text = STUDY.format(
            way=self.way, device=self.device, factors=factors, runtime=runtime, blocks=blocks
        )
        (folder / "study.toml").write_text(text)

    def run(self, folder: Path) -> subprocess.Popen[str]:
        words = self.lab.lab.command("run", "study.toml", "--out", "results", "--json")
        return subprocess.Popen(
            words,
            cwd=folder,
            env={**self.lab.lab.environment, "IOTRIAL_STATE": str(folder / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def way_of(lab: Several) -> str:
    folder = Path(lab.lab.environment["IOTRIAL_CACHE"]) / "vmlab/labs" / lab.name
    return f"-F {folder}/ssh_config {lab.name}-2"


@pytest.fixture(scope="module")
def fabrics(virtual_lab: VirtualLab) -> Iterator[Host]:
    with up(virtual_lab, "fabrics", 2, kernel="backports") as lab:  # numa: see nvme.iopolicy
        named = "readlink -e /dev/disk/by-id/nvme-uuid.* >/dev/null; ls /dev/disk/by-id/nvme-uuid.*"
        yield Host(lab, way_of(lab), lab.do(2, named).split()[0])


def moved(host: Host) -> dict[str, int]:
    """Path → reads that it has completed."""
    said = host.lab.do(
        2, "for each in /sys/block/nvme*c*n1; do echo ${each##*/} $(cat $each/stat); done"
    )
    return {line.split()[0]: int(line.split()[1]) for line in said.splitlines()}


def kernel_name(host: Host) -> str:
    return host.lab.do(2, f"basename $(readlink -e {host.device})").strip()


@pytest.fixture
def worse(fabrics: Host) -> Iterator[str]:
    """One of the paths answers 30 ms later: the one that the policy numa does not take."""
    disk, before = kernel_name(fabrics), moved(fabrics)
    fabrics.lab.do(2, f"dd if=/dev/{disk} of=/dev/null bs=4k count=64 iflag=direct status=none")
    idle = min(before, key=lambda path: moved(fabrics)[path] - before[path])
    said = fabrics.lab.do(2, f"cat /sys/block/{idle}/device/address")
    address = re.search(r"traddr=([0-9.]+)", said)
    assert address
    link = f"$(ip -o address show to {address[1]} | awk '{{print $2}}')"
    fabrics.lab.do(1, f"tc qdisc add dev {link} root netem delay 30ms")
    yield idle
    fabrics.lab.do(1, f"tc qdisc del dev {link} root")


def test_the_policy_of_paths_belongs_to_the_disk_that_joins_them(fabrics: Host) -> None:
    host, disk = SSHHost(fabrics.way, name="host", purpose="tests"), kernel_name(fabrics)
    try:
        seen = topology(
            host, PreparedTarget(Target("t", "device", fabrics.device), fabrics.device, disk, None)
        )
        assert seen.names("device") == (disk,)
        assert len(seen.names("disk")) == len(seen.names("nvme")) == 2
        assert len(seen.names("nic")) == 2
        assert len(seen.names("irq")) >= 2, "those of the interfaces"
        hold(host, "nvme.iopolicy", disk, "round-robin")
        for path in seen.names("nvme"):
            hold(host, "nvme.ctrl_loss_tmo", path, "60")
            hold(host, "nvme.reconnect_delay", path, "5")
            hold(host, "nvme.fast_io_fail_tmo", path, "20")
    finally:
        host.close()


def test_a_path_that_is_worse_spoils_round_robin_and_the_report_says_so(
    fabrics: Host, worse: str, tmp_path: Path
) -> None:
    levels = '[factors.policy]\ntunable = "nvme.iopolicy"\nlevels = ["numa", "round-robin"]\n'
    fabrics.study(tmp_path, levels)
    before = moved(fabrics)
    said, error = fabrics.run(tmp_path).communicate(timeout=1200)
    assert json.loads(said), error
    assert moved(fabrics)[worse] > before[worse], "round-robin took it"
    results = open_results(tmp_path / "results")
    found = [f for f in judge(results).comparison.findings if f.primary]
    assert [(f.level, f.verdict) for f in found] == [("round-robin", "worse")]
    assert found[0].ratio > 2
    done = fabrics.lab.lab.said("report", str(results.folder), "--out", str(tmp_path / "r.md"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.md").read_text()
    assert "round-robin" in page
    assert "worse" in page


def test_all_interrupts_of_the_paths_are_spread_by_one_level(fabrics: Host, tmp_path: Path) -> None:
    """virtio's network adapters let theirs be moved; a node of several has one CPU."""
    disk = kernel_name(fabrics)
    levels = '[factors.irqs]\ntunable = "irq.spread"\nlevels = ["unset", "all"]\n'
    fabrics.study(tmp_path, levels, runtime="2s", blocks=1)
    assert disk
    said, error = fabrics.run(tmp_path).communicate(timeout=1200)
    assert json.loads(said), error
    results = open_results(tmp_path / "results")
    held = {name for record in results.records for _, name, _ in record.before}
    assert held == {"irq.affinity"}


def wounded(host: Host, folder: Path, network: str, path: str) -> TrialRecord:
    """The first trial of a study, during whose load one of two networks is cut."""
    levels = '[factors.depth]\noption = "iodepth"\nlevels = [4, 8]\n'
    host.study(folder, levels, runtime="30s", blocks=1)
    node, lab = f"{host.lab.name}-1", host.lab.lab
    with host.run(folder) as running:
        try:
            deadline = time.monotonic() + 600
            while not any(folder.glob("results/trials/*.partial/telemetry.jsonl")):
                assert time.monotonic() < deadline
                assert running.poll() is None, running.communicate()
                time.sleep(0.5)
            time.sleep(5)
            lab.vmlab("link", node, "down", "--of", network)
            while not any(folder.glob("results/trials/*/trial.json")):
                assert time.monotonic() < deadline + 600
                time.sleep(0.5)
        finally:
            lab.vmlab("link", node, "up", "--of", network)
            running.terminate()
            running.communicate(timeout=600)
    record = open_results(folder / "results").records[0]
    host.lab.do(
        2, f"tries=0; until {path}; do sleep 1; tries=$((tries+1)); [ $tries -lt 300 ]; done"
    )
    return record


def lost(record: TrialRecord) -> list[Any]:
    """What the checks say of the path; the kernel's log tells of it too."""
    assert "kernel-errors" in {doubt.check for doubt in record.doubts}
    return [doubt for doubt in record.doubts if doubt.check == "lost-path"]


def test_a_path_of_nvme_that_is_lost_during_a_load_makes_the_trial_invalid(
    fabrics: Host, tmp_path: Path
) -> None:
    live = "[ $(grep -lsx live /sys/class/nvme/nvme*/state | wc -l) -eq 2 ]"
    record = wounded(fabrics, tmp_path, "lab2", live)
    assert record.state == "invalid", record
    (doubt,) = lost(record)
    assert doubt.invalid
    assert re.fullmatch(
        r"path nvme\d+c\d+n1 of nvme\d+n1 went down during the load \(\w+\)", doubt.what
    )


def test_a_path_of_a_map_that_is_lost_during_a_load_makes_the_trial_invalid(
    virtual_lab: VirtualLab, tmp_path: Path
) -> None:
    with up(virtual_lab, "san", 2) as lab:
        device = lab.do(2, "ls /dev/disk/by-id/dm-uuid-mpath-*").split()[0]
        host = Host(lab, way_of(lab), device)
        ready = "[ $(multipath -ll mpatha | grep -c 'active ready running') -eq 2 ]"
        record = wounded(host, tmp_path, "lab2", ready)
        assert record.state == "invalid", record
        (doubt,) = lost(record)
        assert doubt.invalid
        assert "went down during the load" in doubt.what
