"""The suites md and lvm on a real kernel that has them; and systems that are broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotrial.checks import suite
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(5400)]


def check(node: Node, out: Path, *words: str) -> tuple[int, dict[str, Any]]:
    command = ("check", *words, "--on", node.way, "--out", str(out), "--json")
    done = node.lab.said(*command, within=5000.0)
    return done.returncode, json.loads(done.stdout)


def told(said: dict[str, Any]) -> dict[str, str]:
    return {row["case"]: "; ".join([row["state"], *row["reasons"]]) for row in said["results"]}


@pytest.mark.parametrize("name", ["md", "lvm"])
def test_a_suite_passes_on_a_sound_system_and_leaves_nothing(
    node: Node, tmp_path: Path, name: str
) -> None:
    before = node.block_devices()
    code, said = check(node, tmp_path / "out", name)
    states = [row["state"] for row in said["results"]]
    assert code == 0, told(said)
    assert len(states) == len(suite(name).cases)
    assert set(states) <= {"pass", "known failure"}, told(said)
    assert node.block_devices() == before
    assert "md1" not in node.do("cat", "/proc/mdstat")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('/sbin/mdadm "$@" | sed s/raid1/raid0/', "mdadm says Raid Level raid0, the kernel raid1"),
        ('case $1 in --create) sleep 100000 ;; esac; exec /sbin/mdadm "$@"', "did not end within"),
    ],
    ids=["lies about the level", "hangs"],
)
def test_an_mdadm_that_is_broken_is_a_failure_with_evidence(
    node: Node, tmp_path: Path, script: str, why: str
) -> None:
    with node.instead("mdadm", script):
        code, said = check(node, tmp_path / "out", "md/create")
    assert code == 1
    (row,) = said["results"]
    assert row["state"] == "fail"
    assert why in "; ".join(row["reasons"])
    assert (tmp_path / "out" / row["evidence"] / "commands.jsonl").read_text()
    assert "md1" not in node.do("cat", "/proc/mdstat")
