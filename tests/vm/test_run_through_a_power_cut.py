"""A study on a node whose power is cut in the middle of it: told, not written, and finished."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

STUDY = """\
question = "Does the depth of the disk matter?"
[hosts.disks-1]
ssh = "{way}"
[targets.disk]
device = "{serial}"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", direct = 1, runtime = "8s", time_based = 1 }}
[factors.depth]
tunable = "scsi.queue_depth"
levels = [16, 64]
baseline = 16
[design]
kind = "full"
blocks = 1
settle = "0s"
"""


def depth(node: Node) -> str:
    return node.do("cat", f"/sys/block/{node.disk('a')}/device/queue_depth").strip()


def test_a_power_cut_in_mid_run_is_told_and_the_study_is_finished(
    node: Node, tmp_path: Path
) -> None:
    rows = node.do("lsblk", "-dno", "SERIAL").split()
    serial = next(each for each in rows if each.startswith("A-"))
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY.format(way=node.way, serial=serial), "utf-8")
    before = depth(node)
    assert before not in ("16", "64")
    run = ["run", str(study), "--out", str(out)]
    with subprocess.Popen(
        node.lab.command(*run),
        env=node.lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        until = time.monotonic() + 300
        while depth(node) == before:
            assert running.poll() is None, running.communicate()[0]
            assert time.monotonic() < until
        node.lab.cut()
        words = running.communicate(timeout=300)[0]
    assert running.returncode != 0, words
    node.again()
    study.write_text(STUDY.format(way=node.way, serial=serial), "utf-8")
    restored = node.lab.said("restore", "--", node.way)
    assert restored.returncode == 0, restored.stderr
    assert "reboot" in restored.stdout + restored.stderr
    assert depth(node) == before
    done = node.lab.said(*run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert depth(node) == before
