"""Verdicts of real studies whose true effects are known: how many are wrong, what they took.

    ./dev bench truth [--studies 10] [--minutes 0] [--kind race] [--blocks 40] [--first 101]
                      [--runtime 1s]

Needs root, fio and the blkio controller of cgroup v1.  Each study is run by iotrial on a loop
device of its own, slowed by ``cgroup.v1.read_iops``: five arms of 0, 0 (an A/A pair), -2, -5 and
-20 %, each trial's limit drawn with a standard deviation of 3 % around its arm's
(``tests/throttled.py``).  The n-th study's noise has the seed ``first`` + n.  ``--minutes`` begins
no study after that time.

A study is wrong when any of its verdicts is: *better* or *worse* of a pair that is not, or *same*
beyond the margin of 1.5 %.  *cannot-tell* is never wrong, and printed.  Exits 1 when so many
studies are wrong that an error rate of 5 % would show them in one benchmark of 1,000 only, when a
trial of a -20 % arm was not seen to be worse, when a study failed, or left a control group behind,
and where nothing could be measured: nothing is skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _limits import CONFIDENCE, Limits, machine, mean_of, median_of, run_main
from scipy.stats import beta, binom

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import throttled

ERROR = 0.05
CHANCE = 0.001


@dataclass
class Counts:
    """Of all studies: arm → its verdicts; studies with a wrong one; trials and seconds of each;
    log of IOPS over the drawn limit, of each trial."""

    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: int = 0
    failed: int = 0
    trials: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    missed: list[float] = field(default_factory=list)


def one(text: str, folder: Path) -> dict[str, Any]:
    """What ``iotrial run --json`` says of a study; nothing where it fails."""
    folder.mkdir()
    study, out = folder / "study.toml", folder / "results"
    study.write_text(text)
    argv = [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(out)]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"FAILED, exit {done.returncode}: {done.stderr[-500:]}", flush=True)
        return {}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def missed(results: Path) -> list[float]:
    """How far each trial was from the limit that was drawn for it, as a log."""
    found = []
    for drawn in results.glob("trials/*/drawn"):
        said = json.loads((drawn.parent / "fio.json").read_text())
        found.append(math.log(said["jobs"][0]["read"]["iops"] / int(drawn.read_text())))
    return found


def add(counts: Counts, answer: dict[str, Any]) -> str:
    """Count one study; gives back its verdicts in words."""
    told, false = [], False
    for each in answer["findings"]:
        level, other, verdict = each["level"], each["baseline"], each["verdict"]
        no = throttled.wrong(level, other, verdict)
        false |= no
        arm = "copy" if {level, other} == {"truth", "copy"} else level
        counts.verdicts.setdefault(arm, Counter())[verdict] += 1
        told.append(f"{level}/{other} {verdict}{' (WRONG)' if no else ''}")
    counts.wrong += false
    counts.trials.append(answer["trials"]["valid"])
    return ", ".join(dict.fromkeys(told))


def measure(asked: argparse.Namespace, folder: Path) -> Counts:
    counts, began = Counts(), time.monotonic()
    design = f'kind = "{asked.kind}"\nblocks = {asked.blocks}'
    for noise in range(asked.first, asked.first + asked.studies):
        if asked.minutes and time.monotonic() - began > 60 * asked.minutes:
            break
        place, start = folder / str(noise), time.monotonic()
        text = throttled.study(place, noise=noise, design=design, runtime=asked.runtime)
        answer = one(text, place)
        if throttled.GROUP.exists():
            raise SystemExit(f"truth: {throttled.GROUP} was left behind, or is another process's")
        if not answer:
            counts.failed += 1
            continue
        words = add(counts, answer)
        counts.seconds.append(time.monotonic() - start)
        counts.missed += missed(place / "results")
        shutil.rmtree(place)
        print(f"noise {noise}: {counts.trials[-1]} trials, {words}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--kind", choices=("race", "full"), default="race")
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--first", type=int, default=101)
    parser.add_argument("--runtime", default="1s")
    asked = parser.parse_args()
    limits = Limits(34)
    if why := throttled.why_not():
        limits.unmeasured("truth", why)
        return limits.status()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-truth-", dir="/var/tmp"))
    os.environ["IOTRIAL_STATE"] = str(folder / "state")
    try:
        counts = measure(asked, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(machine())
    judged(limits, counts)
    return limits.status()


def judged(limits: Limits, counts: Counts) -> None:
    number = len(counts.trials)
    for arm, found in counts.verdicts.items():
        told = ", ".join(f"{verdict} {n}" for verdict, n in found.most_common())
        print(f"{arm:8} truly {throttled.ARMS[arm]:+4.0%}   {told}")
    limits.at_most("failed studies", counts.failed, 0, form=".0f")
    if not number:
        limits.unmeasured("wrong studies", "no study came to its end")
        return
    limits.tell("trials a study", median_of(counts.trials), form=".0f")
    limits.tell("seconds a study", median_of(counts.seconds), form=".0f")
    if len(counts.missed) > 1:
        of_limit = [100 * each for each in counts.missed]
        limits.tell("IOPS beside the limit drawn (%)", mean_of(of_limit), form=".2f")
        limits.tell("  standard deviation (%)", statistics.stdev(of_limit), form=".2f")
    share, ends = counts.wrong / number, clopper_pearson(counts.wrong, number)
    limits.tell("wrong studies (%)", (100 * share, (100 * ends[0], 100 * ends[1])), form=".1f")
    limit = int(binom.isf(CHANCE, number, ERROR))
    limits.at_most(f"wrong studies of {number}", counts.wrong, limit, form=".0f")
    seen = counts.verdicts.get("twenty", Counter())["worse"]
    limits.at_least(f"studies of {number} that saw -20 %", seen, number, form=".0f")


def clopper_pearson(wrong: int, number: int) -> tuple[float, float]:
    """The exact 95 % interval of a share (Clopper and Pearson 1934)."""
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, wrong, number - wrong + 1)) if wrong else 0.0
    high = float(beta.isf(tail, wrong + 1, number - wrong)) if wrong < number else 1.0
    return low, high


if __name__ == "__main__":
    run_main(main)
