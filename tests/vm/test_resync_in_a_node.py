"""An array that checks itself under the load spoils the trial; one elsewhere is a doubt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

STUDY = """\
question = "How fast are reads while an array checks itself?"
[hosts.disks-1]
ssh = "{way}"
[targets.disk]
device = "{device}"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", direct = 1, size = "64m", runtime = "4s", time_based = 1 }}
[design]
kind = "full"
blocks = 2
settle = "0s"
"""
ARRAY = "/sys/block/md0/md"
FAR = b"20480"
"""The sector where the check waits: it goes on for as long as the test needs it."""


@pytest.fixture(scope="module")
def busy(node: Node) -> Iterator[str]:
    """The UUID of a RAID1 of the disks a and b that checks itself, and does not end."""
    members = [f"/dev/{node.disk(each)}" for each in ("a", "b")]
    options = ["--run", "--level=1", "--raid-devices=2", "--metadata=1.2", "--bitmap=none"]
    node.do("mdadm", "--create", "/dev/md0", "--assume-clean", *options, *members)
    node.host.write(f"{ARRAY}/sync_max", FAR)
    node.host.write(f"{ARRAY}/sync_action", b"check")
    yield node.do("cat", f"{ARRAY}/uuid").strip()
    node.host.write(f"{ARRAY}/sync_action", b"idle")
    node.do("mdadm", "--stop", "/dev/md0")
    node.do("mdadm", "--zero-superblock", *members)


def trials(node: Node, tmp_path: Path, device: str) -> list[dict[str, Any]]:
    """The stored records of a study that reads ``device``."""
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY.format(way=node.way, device=device), "utf-8")
    done = node.lab.said("run", str(study), "--out", str(out))
    assert "check" in node.do("cat", f"{ARRAY}/sync_action"), "it has ended, and says nothing"
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return [json.loads(each.read_text("utf-8")) for each in sorted(out.glob("trials/*/trial.json"))]


def of_resync(trial: dict[str, Any]) -> list[bool]:
    """For each doubt of the check ``resync``: whether it makes the trial INVALID."""
    return [invalid for check, _, _, invalid in trial["doubts"] if check == "resync"]


def test_the_trial_on_an_array_that_checks_itself_is_invalid(
    node: Node, busy: str, tmp_path: Path
) -> None:
    found = trials(node, tmp_path, busy)
    assert found
    assert all(of_resync(each) == [True] for each in found)


def test_the_trial_on_another_disk_meanwhile_is_in_doubt(
    node: Node, busy: str, tmp_path: Path
) -> None:
    rows = node.do("lsblk", "-dno", "SERIAL").split()
    found = trials(node, tmp_path, next(each for each in rows if each.startswith("NVME-")))
    assert found
    assert all(of_resync(each) == [False] for each in found)
