"""What else people let decide, for ``decide.py``: successive halving, Optuna, and repeating
until the standard deviation is small.

None of them says how sure it is, and none can say that two are the same: each names a winner.

References:
    Z. Karnin, T. Koren and O. Somekh (2013), Almost optimal exploration in multi-armed bandits,
    ICML, PMLR 28, 1238-1246 (successive halving).
    T. Akiba et al. (2019), Optuna: a next-generation hyperparameter optimization framework, KDD,
    2623-2631.
    Phoronix Test Suite, documentation (DynamicRunCount, StandardDeviationThreshold): at least
    three runs, then more while their standard deviation is above 3.5 % of their mean.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from _decide_truths import Case, Machine

Named = tuple[int, int]
"""The winner that is named, and the trials that it took."""
FEWEST, MOST, STEADY = 3, 15, 0.035
OPTUNA = """
import json, sys
import numpy as np
import optuna
sys.path.insert(0, sys.argv[1])
from _decide_truths import Case, Machine
optuna.logging.set_verbosity(optuna.logging.ERROR)
print(optuna.__version__, flush=True)
for line in sys.stdin:
    case, trials, seed = json.loads(line)
    case["truth"] = tuple(case["truth"])
    machine = Machine(Case(**case), np.random.default_rng(seed))
    names = list(range(len(case["truth"])))
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(
        lambda trial: machine.trial(trial.suggest_categorical("treatment", names)), n_trials=trials
    )
    print(study.best_params["treatment"], flush=True)
"""


def halving(case: Case, budget: int, rng: np.random.Generator) -> Named:
    """Successive halving with a number of trials that is given: in each of log2 K rounds those
    that are left are measured equally often, in blocks, and the better half goes on."""
    machine, left, trials = Machine(case, rng), list(range(len(case.truth))), 0
    rounds = math.ceil(math.log2(len(left)))
    while len(left) > 1:
        blocks = max(1, budget // (len(left) * rounds))
        means = np.mean([machine.block(left) for _ in range(blocks)], axis=0)
        trials += blocks * len(left)
        best = np.argsort(-means, kind="stable")[: math.ceil(len(left) / 2)]
        left = [left[each] for each in sorted(best.tolist())]
    return left[0], trials


def until_steady(case: Case, rng: np.random.Generator) -> Named:
    """Each treatment's runs one after the other, three at least and 15 at most, until their
    standard deviation is below 3.5 % of their mean; the highest mean wins."""
    machine, means, trials = Machine(case, rng), [], 0
    for treatment in range(len(case.truth)):
        runs = [math.exp(machine.trial(treatment)) for _ in range(FEWEST)]
        while len(runs) < MOST and np.std(runs, ddof=1) >= STEADY * np.mean(runs):
            runs.append(math.exp(machine.trial(treatment)))
        trials += len(runs)
        means.append(float(np.mean(runs)))
    return int(np.argmax(means)), trials


class Optuna:
    """Optuna with its defaults (TPE, ``study.optimize``), in an environment of its own.

    The treatments are one categorical parameter; the best trial wins.  Its default pruner, the
    median one, has nothing to do: a trial here gives one number.  Raises
    subprocess.SubprocessError and OSError where it cannot be installed.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
        try:
            venv.create(self._folder, with_pip=True)
            self._python = self._folder / "bin/python"
            subprocess.run(
                (self._python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:",
                 "optuna"),
                check=True, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def named(self, asked: Sequence[tuple[Case, int, int]]) -> tuple[str, list[Named]]:
        """Its version, and the winners; asked are the cases, numbers of trials and seeds."""
        lines = [json.dumps((asdict(case), trials, seed)) for case, trials, seed in asked]
        done = subprocess.run(
            (self._python, "-W", "ignore", "-c", OPTUNA, Path(__file__).parent),
            input="\n".join(lines), capture_output=True, text=True, check=True,
        )  # fmt: skip
        version, *winners = done.stdout.split()
        return version, [
            (int(winner), trials) for winner, (_, trials, _) in zip(winners, asked, strict=True)
        ]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
