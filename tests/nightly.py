"""Results of a study that is executed every night, as nobody measured them: what a pretended run
left, with other times, numbers, settings and kernels."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotrial.cli.main import status

DAY = 86_400.0
BEGAN = 1.79e9
STUDY = """question = "Is it as fast as it was?"
[targets.disk]
loop = { size = "64MiB" }
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "2s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = 4
settle = "0s"
[decide]
primary = "read.iops"
"""


@dataclass(frozen=True)
class PlantedChange:
    """From the ``night`` on (counted from 0): rates times ``ratio``, a ``kernel`` and a setting
    ('': as it was), of one level of the scheduler ('': of all)."""

    night: int
    ratio: float = 1.0
    kernel: str = ""
    setting: tuple[str, str] = ("", "")
    level: str = ""


def first(folder: Path, name: str, *more: str, text: str = STUDY) -> Path:
    """What a pretended run left, which the nights are made of."""
    study = folder / f"{name}.toml"
    study.write_text(text)
    out = folder / f"{name}-first"
    words = ["run", str(study), "--pretend", "--quiet", "--out", str(out), *more]
    assert status(words) in {0, 1}
    return out


def nights(
    base: Path, into: Path, count: int, planted: tuple[PlantedChange, ...] = (), *, seed: int = 1,
    between: float = 0.01, within: float = 0.01, since: int = 0,
    spoilt: Callable[[int], bool] = lambda _: False,
) -> Iterator[Path]:  # fmt: skip
    """A results folder a night, the first ``since`` nights after the beginning.  Nights differ by
    ``between``, trials by ``within`` (standard deviations of logs); those that are ``spoilt`` are a
    tenth as fast, and all of it is INVALID."""
    chance = random.Random(seed)
    for night in range(since, since + count):
        folder = into / f"{base.name}-{night:03d}"
        shutil.copytree(base, folder)
        there = [each for each in planted if night >= each.night]
        _dated(folder, night)
        for facts in (folder / "hosts").glob("*.json"):
            told = json.loads(facts.read_text())
            kernels = [each.kernel for each in there if each.kernel]
            told["kernel"] = kernels[-1] if kernels else told["kernel"]
            facts.write_text(json.dumps(told))
        shift = chance.gauss(0, between) + (math.log(0.1) if spoilt(night) else 0.0)
        lines = []
        for line in (folder / "measurements.jsonl").read_text().splitlines():
            row = json.loads(line)
            _changed(row, there, shift + chance.gauss(0, within))
            row["started"] = _at(night, row["trial"]["number"])
            if spoilt(night):
                row["state"] = "invalid"
                row["doubts"] = [["foreign-io", "others used the disk", "Run it again.", True]]
            lines.append(json.dumps(row))
        (folder / "measurements.jsonl").write_text("\n".join(lines) + "\n")
        yield folder


def _at(night: int, number: int = 0) -> float:
    return BEGAN + night * DAY + 10.0 * number


def _dated(folder: Path, night: int) -> None:
    sessions = folder / "sessions.jsonl"
    session = json.loads(sessions.read_text().splitlines()[0])
    session |= {"started": _at(night), "token": f"{session['token']}-{night}"}
    sessions.write_text(json.dumps(session) + "\n")


def _changed(row: dict[str, Any], there: list[PlantedChange], log: float) -> None:
    level = row["trial"]["treatment"].get("scheduler", "")
    for each in there:
        if each.level in {"", level}:
            log += math.log(each.ratio)
        name, value = each.setting
        if name:
            for when in ("before", "after"):
                settings = json.loads(row[when])
                row[when] = json.dumps([[d, t, value if t == name else v] for d, t, v in settings])
    for metric, told in row["values"].items():
        if metric.endswith((".iops", ".bw")):
            told[0] *= math.exp(log)
        elif "lat" in metric:
            told[0] /= math.exp(log)
