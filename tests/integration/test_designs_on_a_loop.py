"""A fraction with whole plots, executed for real: half of sixteen combinations, twice."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root

STUDY = """
question = "Which of four settings matter?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 1, ioengine = "libaio", runtime = "300ms" }}
[factors.merges]
tunable = "queue.nomerges"
levels = [0, 2]
hard = true
[factors.depth]
option = "iodepth"
levels = [1, 16]
[factors.size]
option = "bs"
levels = ["4k", "64k"]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [0, 128]
[design]
kind = "{kind}"
{more}
blocks = 2
settle = "0s"
"""


def iotrial(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def trials(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "plan.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if "treatment" in row]


def test_half_of_sixteen_combinations_is_run_and_judged(tmp_path: Path, state: Path) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(STUDY.format(folder=tmp_path, kind="fraction", more="resolution = 4"))
    planned = iotrial("plan", str(study))
    assert planned["given_up"][0]["words"][:2] == [
        "8 of 16 combinations",
        "merges×depth is aliased with size×ahead",
    ]
    answer = iotrial("run", str(study), "--out", str(out))
    assert answer["trials"]["valid"] == 16
    assert [f["factor"] for f in answer["findings"]] == ["merges", "depth", "size", "ahead"]
    assert all(f["low"] < f["ratio"] < f["high"] and f["n"] == 2 for f in answer["findings"])
    assert len(answer["interactions"]) == 3
    assert answer["interactions"][0]["cannot_be_told_from"] == [["size", "ahead"]]
    assert {tuple(each["source"]) for each in answer["shares"]} >= {("size",), ("whole plots",)}
    assert {each["cost"] for each in answer["tradeoffs"]} == {"read.clat.p99", "cpu.per_io"}
    levels = [dict(trial["treatment"])["merges"] for trial in trials(out)]
    for block in (levels[:8], levels[8:]):
        assert sum(one != other for one, other in itertools.pairwise(block)) == 1
    page = (out / "report.html").read_text("utf-8")
    assert "Shares of the variation of read IOPS" in page


def test_one_at_a_time_is_run_and_judged(tmp_path: Path, state: Path) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "results"
    text = STUDY.format(folder=tmp_path, kind="one-at-a-time", more="")
    study.write_text(text.replace("hard = true\n", ""))
    answer = iotrial("run", str(study), "--out", str(out))
    assert answer["trials"]["valid"] == 10
    assert len(answer["findings"]) == 4
    assert answer["interactions"] == []
