"""A staged study for real: swept, narrowed, finer, the winner carried on, current against new on
another target; and killed in the middle of a stage it ends the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed (apt install fio)"),
    pytest.mark.skipif(
        not shutil.which("mkfs.ext4"), reason="mkfs.ext4 is not installed (apt install e2fsprogs)"
    ),
]

IOTRIAL = [sys.executable, "-m", "iotrial.cli.main"]

# The tool reads a number that depends on the settings alone, so that what a stage keeps is certain
# on a machine of any speed: what it is told to do is real, what it prints is made up.
SCORE = """
ahead=$(cat /sys/block/$(basename $1)/queue/read_ahead_kb)
sectors=$(cat /sys/block/$(basename $1)/queue/max_sectors_kb)
dd if=$1 of=/dev/null bs=4096 count=1 2>/dev/null
awk -v a=$ahead -v s=$sectors -v q=$2 -v n=$RANDOM 'BEGIN {
  x = a < 576 ? a : 576
  print "score:", (200 + x) * (s < 128 ? 0.5 : 1) * (q == 8 ? 1.3 : 1) * (1 + n / 32768 / 500)
}'
"""

STUDY = """
question = "Which settings suit this?"
[targets.test]
loop = {{ size = "16MiB" }}
[targets.production]
loop = {{ size = "16MiB" }}
[workloads.load]
tool = "command"
argv = ["bash", "{script}", "{{target}}", "{{depth}}"]
options = {{ depth = 1 }}
[workloads.load.metrics.score]
pattern = "score: ([0-9.]+)"
better = "higher"
[factors.ahead]
tunable = "queue.read_ahead_kb"
range = {{ from = 64, to = 1088, step = 256 }}
baseline = 64
[factors.size]
tunable = "queue.max_sectors_kb"
levels = [64, 128, 256]
baseline = 64
[factors.depth]
option = "depth"
levels = [1, 8]
baseline = 1
[design]
blocks = 3
settle = "0s"
[[stage]]
vary = ["ahead", "size"]
then = "narrow"
[[stage]]
vary = ["ahead"]
range = {{ step = 64 }}
then = "knee"
[[stage]]
vary = ["size", "depth"]
then = "best"
[[stage]]
target = "production"
then = "confirm"
[decide]
primary = {{ load = "score" }}
margin = "3%"
"""


def iotrial(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [*IOTRIAL, *words, "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"iotrial {' '.join(words)}\n{done.stdout[-800:]}{done.stderr}"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def study(folder: Path) -> Path:
    script = folder / "score.sh"
    script.write_text(SCORE)
    path = folder / "study.toml"
    path.write_text(STUDY.format(script=script))
    return path


def planned_in(results: Path) -> list[dict[str, Any]]:
    lines = (results / "plan.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def chosen(answer: dict[str, Any]) -> dict[str, str]:
    return {each["factor"]: each["new"] for each in answer["choices"]}


def test_stages_come_to_their_end_and_killed_in_the_middle_of_one_to_the_same(
    tmp_path: Path,
) -> None:
    study(tmp_path)
    whole = iotrial(tmp_path, "run", "study.toml", "--out", "whole")
    assert [each["decided"] for each in whole["stages"]] == [True] * 4
    assert chosen(whole) == {"ahead": "576", "size": "128", "depth": "8"}
    first = {each["factor"]: each["kept"] for each in whole["stages"][0]["kept"]}
    assert first["size"] == ["128", "256"]
    assert "64" not in first["ahead"]
    last = [each for each in whole["findings"] if each["stage"] == 4]
    assert [(each["level"], each["baseline"], each["verdict"]) for each in last] == [
        ("new", "current", "better")
    ]
    assert "Confirmed on production" in whole["recommendation"]
    plan = planned_in(tmp_path / "whole")
    assert {each["target"] for each in plan if each["stage"] == 4} == {"production"}
    assert {each["target"] for each in plan if each["stage"] < 4} == {"test"}
    iotrial(tmp_path, "report", "whole")
    assert "Current against new" in (tmp_path / "whole" / "report.html").read_text()

    enough = sum(each["stage"] == 1 for each in plan) + 5
    kill_after(tmp_path, enough)
    assert (tmp_path / "cut" / "plan.jsonl").read_text().count("\n") < len(plan)
    again = iotrial(tmp_path, "run", "study.toml", "--out", "cut")
    assert chosen(again) == chosen(whole)
    planned = planned_in(tmp_path / "cut")
    assert [(e["stage"], e["id"]) for e in planned if e["stage"] < 3] == [
        (e["stage"], e["id"]) for e in plan if e["stage"] < 3
    ]
    assert again["trials"]["valid"] + again["trials"]["invalid"] == len(planned)


def kill_after(folder: Path, trials: int) -> None:
    """A run that dies by SIGKILL in its second stage; what it owed is paid."""
    run = subprocess.Popen(
        [*IOTRIAL, "run", "study.toml", "--out", "cut"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    done = folder / "cut" / "measurements.jsonl"
    while run.poll() is None and not (
        done.exists() and len(done.read_bytes().splitlines()) >= trials
    ):
        time.sleep(0.02)
    assert run.poll() is None, "it ended before it could be killed"
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    iotrial(folder, "restore")


def test_the_published_study_runs_in_small_from_its_sweep_to_current_against_new(
    tmp_path: Path,
) -> None:
    """Cut to two blocks and the shortest loads; the sizes of direct reads differ by ten times."""
    iotrial(tmp_path, "init", "panasas", "study.toml")
    path = tmp_path / "study.toml"
    text = path.read_text()
    for old, new in (
        ("blocks = 8", "blocks = 2"), ("blocks = 6", "blocks = 3"), ('"0.4s"', '"0.2s"'),
        ("step = 65536", "step = 131072"), ("step = 32768", "step = 65536"),
        ("entries = 10000", "entries = 500"), ('size = "64MiB"', 'size = "8MiB"'),
        ('size = "96MiB"', 'size = "48MiB"'), ('vary = ["request", "maker", "fastnet"]',
        'vary = ["request", "maker"]'), ('vary = ["commit"]', 'vary = ["commit", "fastnet"]'),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    ran = iotrial(tmp_path, "run", "study.toml", "--out", "results")
    assert len(ran["stages"]) == 6
    assert all(each["decided"] for each in ran["stages"])
    assert {each["factor"] for each in ran["choices"]} == {
        "request", "readahead", "maker", "fastnet", "commit", "inodes"
    }  # fmt: skip
    changed = [each for each in ran["choices"] if each["current"] != each["new"]]
    last = [each for each in ran["findings"] if each["stage"] == 6]
    assert bool(last) == bool(changed)
