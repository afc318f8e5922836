"""What each run of all tests asks of a kernel that has what this one may lack: md, LVM, disks of
every bus.  One node boots; each case is a test, so that its time is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

CASES = (
    *("scheduler/mq-deadline", "scheduler/bfq", "scheduler/switch-under-load"),
    *("md/create", "md/fail-and-re-add", "md/mismatch"),
    *("lvm/raid1", "lvm/snapshot"),
)


@pytest.mark.parametrize("case", CASES)
def test_a_case_passes_in_a_node(node: Node, tmp_path: Path, case: str) -> None:
    before = node.block_devices()
    said = node.lab.said("check", case, "--on", node.way, "--out", str(tmp_path / "out"), "--json")
    (row,) = json.loads(said.stdout)["results"]
    assert row["state"] == "pass", row
    assert said.returncode == 0
    assert node.block_devices() == before


def test_an_mdadm_that_only_says_that_it_made_an_array_does_not_pass(
    node: Node, tmp_path: Path
) -> None:
    with node.instead("mdadm", 'case $1 in --create) exit 0 ;; esac; exec /sbin/mdadm "$@"'):
        said = node.lab.said(
            *("check", "md/create", "--on", node.way, "--out", str(tmp_path / "out"), "--json")
        )
    (row,) = json.loads(said.stdout)["results"]
    assert (said.returncode, row["state"]) == (1, "fail")
    assert "md/array_state" in "; ".join(row["reasons"])
    assert "--create" in (tmp_path / "out" / row["evidence"] / "commands.jsonl").read_text()
