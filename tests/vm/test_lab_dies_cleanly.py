"""A lab whose `up` is killed leaves what `down` finds; two labs do not know each other."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from iotrial_vmlab import qemu
from nodes import Node, VirtualLab

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]


def cache(lab: VirtualLab) -> Path:
    return Path(lab.environment["IOTRIAL_CACHE"])


def told(lab: VirtualLab) -> dict[str, Any]:
    """What ``list`` says of the node ``disks-1``: there may be other labs."""
    nodes = [node for each in lab.vmlab("list")["labs"] for node in each["nodes"]]
    (mine,) = (node for node in nodes if node["name"] == "disks-1")
    found: dict[str, Any] = mine
    return found


def test_a_killed_up_is_taken_down_and_the_other_lab_lives(node: Node) -> None:
    """It is killed as soon as its QEMU runs, long before it is ready."""
    lab, folder = node.lab, cache(node.lab) / "vmlab/labs/killed"
    with subprocess.Popen(
        lab.command("vmlab", "up", "disks", "--name", "killed"),
        env=lab.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as upping:
        until = time.monotonic() + 120
        while not qemu.processes(folder):
            assert upping.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        upping.kill()
    assert qemu.processes(folder)
    assert lab.vmlab("down", "killed") == {"format": 1, "down": ["killed"]}
    assert qemu.processes(folder) == {}
    assert not folder.exists()
    assert str(cache(lab)) not in Path("/proc/self/mountinfo").read_text()
    assert node.do("uname", "-n").strip() == "disks-1"


def test_a_lab_that_is_there_is_not_made_another(node: Node) -> None:
    said = node.lab.said("vmlab", "up", "disks", "--nodes", "2")
    assert said.returncode == 2
    assert "its number of nodes is 1, not 2" in said.stderr


def test_a_paused_node_hangs_and_goes_on(node: Node) -> None:
    node.lab.vmlab("pause", "disks-1")
    try:
        assert told(node.lab)["state"] == "paused"
    finally:
        node.lab.vmlab("resume", "disks-1")
    assert told(node.lab)["state"] == "running"
    assert node.do("uname", "-n").strip() == "disks-1"


def test_a_link_is_taken_down_and_comes_back(node: Node) -> None:
    carrier = ("cat", "/sys/class/net/eth1/carrier")
    assert node.do(*carrier).strip() == "1"
    node.lab.vmlab("link", "disks-1", "down")
    assert node.do(*carrier).strip() == "0"
    node.lab.vmlab("link", "disks-1", "up")
    assert node.do(*carrier).strip() == "1"


def test_a_node_takes_less_memory_than_600_mb(node: Node) -> None:
    assert 100e6 < told(node.lab)["memory"] < 600e6


def test_a_command_there_has_its_words_and_its_exit_code(node: Node) -> None:
    done = node.lab.said("vmlab", "exec", "disks-1", "sh", "-c", 'echo "a  b"; exit 7')
    assert (done.stdout, done.returncode) == ("a  b\n", 7)
