"""A staged study that finds its settings on one host and confirms them on another: network
namespaces with an sshd, loop devices of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iotrial.store import open_results
from lab import Lab, lab, why_not

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

# What it reads depends on the setting alone, so that what is chosen is certain on a machine of any
# speed; that the setting is in force on the device it loads is real.
SCORE = """
ahead=$(cat /sys/block/$(basename $1)/queue/read_ahead_kb)
dd if=$1 of=/dev/null bs=4096 count=1 2>/dev/null
awk -v a=$ahead -v n=$RANDOM 'BEGIN { print "score:", a * (1 + n / 32768 / 500) }'
"""

STUDY = """
question = "Which read-ahead suits this, and does it hold where it counts?"
[hosts.lab]
ssh = "{lab}"
[hosts.production]
ssh = "{production}"
[targets.test]
loop = {{ size = "8MiB", directory = "{folder}" }}
host = "lab"
[targets.live]
loop = {{ size = "8MiB", directory = "{folder}" }}
host = "production"
[workloads.load]
tool = "command"
argv = ["bash", "{folder}/score.sh", "{{target}}"]
[workloads.load.metrics.score]
pattern = "score: ([0-9.]+)"
better = "higher"
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 512]
baseline = 64
[design]
blocks = 2
settle = "0s"
[[stage]]
vary = ["ahead"]
then = "best"
[[stage]]
target = "live"
then = "confirm"
[decide]
primary = {{ load = "score" }}
margin = "3%"
"""


def iotrial(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *words, "--json"],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, f"iotrial {' '.join(words)}\n{done.stdout[-800:]}{done.stderr}"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_what_was_chosen_on_one_host_is_held_against_what_is_in_use_on_another(
    tmp_path: Path, lab: Lab
) -> None:
    boxes = {name: lab.box(name) for name in ("lab", "production")}
    (tmp_path / "score.sh").write_text(SCORE)
    study, out = tmp_path / "study.toml", tmp_path / "results"
    where = {name: box.where for name, box in boxes.items()}
    study.write_text(STUDY.format(folder=tmp_path, **where))
    planned = iotrial("plan", str(study))
    assert [each["targets"] for each in planned["stages"]] == [["test"], ["live"]]
    ran = iotrial("run", str(study), "--out", str(out))
    assert [(each["factor"], each["new"]) for each in ran["choices"]] == [("ahead", "512")]
    (last,) = [each for each in ran["findings"] if each["stage"] == 2]
    assert (last["level"], last["baseline"], last["verdict"]) == ("new", "current", "better")
    assert "Confirmed on live" in ran["recommendation"]
    results = open_results(out)
    for record in results.records:
        stage = record.trial.stage
        mine, other = ("lab", "production") if stage == 1 else ("production", "lab")
        assert record.parts == (f"{mine}/{'test' if stage == 1 else 'live'}",)
        held = {device.partition(":")[0]: value for device, _, value in record.before}
        assert held[mine] == dict(record.trial.treatment)["ahead"]
        assert held[other] not in {"64", "512"}, "set where the stage loads nothing"
    for box in boxes.values():
        left = box.run("sh", "-c", "ls -A /var/lib/iotrial/journal.d 2>/dev/null || :")
        assert ".journal" not in left
