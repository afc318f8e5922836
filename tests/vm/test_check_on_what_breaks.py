"""Checks of what breaks: an mdadm that lies or hangs, a disk that cannot read, a node that hangs.
No pass, and no hang."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrial.hosts.ssh import SSHHost
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]

BAD_DISK = "dev_size_mb=72 max_queue=64"
_MEDIUM_ERRORS = "2"
"""scsi_debug's opts: what reads sectors 4660 to 4669 fails with a medium error."""


def loaded_anew(node: Node, *options: str) -> None:
    """scsi_debug, when nobody looks at its disks any more, and until nobody does."""
    node.do("udevadm", "settle")
    node.do("modprobe", "-r", "scsi_debug")
    node.do("modprobe", "scsi_debug", *options)
    node.do("udevadm", "settle")


@contextmanager
def with_medium_errors(node: Node) -> Iterator[str]:
    """A disk of scsi_debug that cannot read some of its sectors; how it is named, and armed."""
    loaded_anew(node, *BAD_DISK.split())
    disk = next(
        name
        for name in node.do("lsblk", "-dno", "NAME").split()
        if "scsi_debug" in node.do("sh", "-c", f"cat /sys/block/{name}/device/model 2>&1 || :")
    )
    wwid = node.wwid(disk)
    node.host.write("/sys/bus/pseudo/drivers/scsi_debug/opts", _MEDIUM_ERRORS.encode())
    try:
        yield wwid
    finally:
        loaded_anew(node)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("md/create", "kernel log"),
        ("scheduler/switch-under-load", "error reading"),
    ],
)
def test_a_disk_that_cannot_read_a_sector_is_a_failure_with_the_kernels_words(
    node: Node, tmp_path: Path, case: str, why: str
) -> None:
    """An array hides it from who reads: only the kernel's log tells.  Where nothing hides it, the
    command that could not read is named too."""
    sound = node.wwid(node.disk("a"))
    with with_medium_errors(node) as bad:
        words = [word for each in (bad, sound) for word in ("--devices", each, "--destroy", each)]
        out = tmp_path / "out"
        said = node.lab.said(
            *("check", case, "--on", node.way, "--out", str(out), "--json"), *words, within=3000.0
        )
    assert said.returncode == 1, said.stdout + said.stderr
    (row,) = json.loads(said.stdout)["results"]
    reasons = "; ".join(row["reasons"])
    assert row["state"] == "fail", row
    assert why in reasons
    assert re.search(r"kernel log: .*(Medium Error|critical medium error)", reasons)
    assert "Unrecovered read error" in (out / row["evidence"] / "kernel.log").read_text()
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
    out = tmp_path / "out"
    with node.instead("mdadm", script):
        said = node.lab.said(
            *("check", "md/create", "--on", node.way, "--out", str(out), "--json"), within=3000.0
        )
    assert said.returncode == 1, said.stdout + said.stderr
    (row,) = json.loads(said.stdout)["results"]
    assert row["state"] == "fail"
    assert why in "; ".join(row["reasons"])
    assert (out / row["evidence"] / "commands.jsonl").read_text()
    assert "md1" not in node.do("cat", "/proc/mdstat")


@contextmanager
def going(node: Node, out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A check under way."""
    argv = node.lab.command("check", *words, "--on", node.way, "--out", str(out), "--json")
    process = subprocess.Popen(
        argv, env=node.lab.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def begun(out: Path, command: str, *, within: float = 600.0) -> None:
    """Wait until a case has done a command with this word."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        if any(command in path.read_text() for path in out.glob("cases/*/commands.jsonl")):
            return
        time.sleep(0.2)
    raise AssertionError(f"no {command} within {within:g} s")


@pytest.mark.parametrize("stopped", [False, True], ids=["is waited for", "Ctrl-C"])
def test_a_node_that_hangs_is_a_failure_in_bounded_time(
    node: Node,
    tmp_path: Path,
    stopped: bool,  # noqa: FBT001 (a case of the test)
) -> None:
    out = tmp_path / "out"
    with going(node, out, "md/mdstat") as process:
        begun(out, "--create")
        node.lab.vmlab("pause", "disks-1")
        try:
            if stopped:
                process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=300.0)
        finally:
            node.lab.vmlab("resume", "disks-1")
    if stopped:
        assert process.returncode == 4, stdout + stderr
        assert re.search("could not all be undone|its guard undoes it", stdout + stderr)
    else:
        (row,) = json.loads(stdout)["results"]
        assert row["state"] == "fail", row
        assert "the connection is lost" in "; ".join(row["reasons"])
        assert process.returncode == 4
    node.host.close()
    node.host = SSHHost(node.way, name="disks-1", purpose="tests")
    node.do(
        "sh",
        "-c",
        "i=0; while grep -q ^md1 /proc/mdstat && [ $i -lt 120 ]; do sleep 1; i=$((i+1)); done",
    )
    assert "md1" not in node.do("cat", "/proc/mdstat")
