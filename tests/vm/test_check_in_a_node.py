"""The suites md and lvm on a real kernel that has them; and systems that are broken on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iotrial.checks import suite
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(5400)]

IN_ITS_PLACE = "/usr/local/sbin/mdadm"
"""Comes first on PATH."""


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
    before = node.do("ls", "/sys/block").split()
    code, said = check(node, tmp_path / "out", name)
    states = [row["state"] for row in said["results"]]
    assert code == 0, told(said)
    assert len(states) == len(suite(name).cases)
    assert set(states) <= {"pass", "known failure"}, told(said)
    assert node.do("ls", "/sys/block").split() == before
    assert "md1" not in node.do("cat", "/proc/mdstat")


@contextmanager
def instead(node: Node, script: str) -> Iterator[None]:
    """Another mdadm in the place of the real one."""
    node.host.save(IN_ITS_PLACE, f"#!/bin/sh\n{script}\n".encode(), private=False)
    node.do("chmod", "755", IN_ITS_PLACE)
    try:
        yield
    finally:
        node.host.remove(IN_ITS_PLACE)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('/sbin/mdadm "$@" | sed s/raid1/raid0/', "mdadm says Raid Level raid0, the kernel raid1"),
        ('case $1 in --create) sleep 100000 ;; esac; exec /sbin/mdadm "$@"', "did not end within"),
        ('case $1 in --create) exit 0 ;; esac; exec /sbin/mdadm "$@"', "md/array_state"),
    ],
    ids=["lies about the level", "hangs", "only says that it made it"],
)
def test_an_mdadm_that_is_broken_is_a_failure_with_evidence(
    node: Node, tmp_path: Path, script: str, why: str
) -> None:
    with instead(node, script):
        code, said = check(node, tmp_path / "out", "md/create")
    assert code == 1
    (row,) = said["results"]
    assert row["state"] == "fail"
    assert why in "; ".join(row["reasons"])
    assert (tmp_path / "out" / row["evidence"] / "commands.jsonl").read_text()
    assert "md1" not in node.do("cat", "/proc/mdstat")
