"""Ways to look for the best combination of many knobs, for ``tune.py``: iotrial's and others.

Each is asked for a combination and told what its trial said, the log of a response of which more
is better.  The baseline is among the first trials of each.  Each recommends one combination at any
time, and claims a gain over the baseline by its own numbers:

``random``      combinations at random; the best value seen is recommended and claimed.
``by hand``     each level once beside the baseline, the best of each knob is taken; then the
                combination once.  Its value against the baseline's is claimed.
``by hand, 3``  the same, everything three times, means.
``Optuna``      TPE with its defaults; the best value seen.
``SMAC``        its facade for hyperparameters (a random forest) with its defaults, for responses
                with noise: it repeats what is best; its incumbent.

Optuna and SMAC are installed into an environment of their own and are spoken to by lines of JSON.
They are told which knobs are in order.

References:
    J. Bergstra and Y. Bengio (2012), Random search for hyper-parameter optimization, JMLR 13,
    281-305.
    D. C. Montgomery (2017), *Design and Analysis of Experiments*, 1.2 (one factor at a time).
    T. Akiba et al. (2019), Optuna: a next-generation hyperparameter optimization framework, KDD,
    2623-2631; J. Bergstra et al. (2011), Algorithms for hyper-parameter optimization, NIPS 24
    (TPE).
    M. Lindauer et al. (2022), SMAC3: a versatile Bayesian optimization package for hyperparameter
    optimization, JMLR 23 (54).
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Protocol

import numpy as np
from _tune_surfaces import Cell, Surface

from iotrial.plan.tune import START, enough
from iotrial.stats import tune
from iotrial.stats.tune import KnobGrid, KnobTrial

Claim = tuple[Cell, float]
"""What is recommended, and the log of the gain over the baseline that is claimed."""


class Search(Protocol):
    """A way to look for the best combination."""

    def ask(self) -> Cell | None:
        """The next combination; None where it has come to its end."""

    def tell(self, cell: Cell, value: float) -> None: ...

    def claim(self) -> Claim: ...


class Seen:
    """What was seen of each combination."""

    def __init__(self, baseline: Cell) -> None:
        self.baseline = baseline
        self.values: dict[Cell, list[float]] = {}

    def add(self, cell: Cell, value: float) -> None:
        self.values.setdefault(cell, []).append(value)

    def mean(self, cell: Cell) -> float:
        return math.fsum(self.values[cell]) / len(self.values[cell])

    def gain(self, cell: Cell) -> float:
        return self.mean(cell) - self.mean(self.baseline)


class Random:
    def __init__(self, surface: Surface, seed: int) -> None:
        self._counts, self._rng = surface.counts, np.random.default_rng(seed)
        self._seen = Seen(surface.baseline)

    def ask(self) -> Cell:
        if not self._seen.values:
            return self._seen.baseline
        return tuple(int(self._rng.integers(count)) for count in self._counts)

    def tell(self, cell: Cell, value: float) -> None:
        self._seen.add(cell, value)

    def claim(self) -> Claim:
        best = max(self._seen.values, key=self._seen.mean)
        return best, self._seen.gain(best)


class ByHand:
    """One knob after the other, each of its levels ``times`` times; the knobs in a random order."""

    def __init__(self, surface: Surface, seed: int, times: int = 1) -> None:
        self._surface, self._seen, self._times = surface, Seen(surface.baseline), times
        self._left = [surface.baseline] * times
        for knob in np.random.default_rng(seed).permutation(len(surface.counts)).tolist():
            for cell in self._alternatives(knob):
                self._left += [cell] * times
        self._last: Cell | None = None

    def _alternatives(self, knob: int) -> list[Cell]:
        base = self._surface.baseline
        places = range(self._surface.counts[knob])
        return [(*base[:knob], at, *base[knob + 1 :]) for at in places if at != base[knob]]

    def ask(self) -> Cell | None:
        if not self._left and self._last is None:
            self._last = self._together()
            self._left = [self._last] * self._times
        return self._left.pop(0) if self._left else None

    def tell(self, cell: Cell, value: float) -> None:
        self._seen.add(cell, value)

    def claim(self) -> Claim:
        if self._last is not None and not self._left:
            return self._last, self._seen.gain(self._last)
        together = self._together()
        alone = [
            (*self._seen.baseline[:knob], at, *self._seen.baseline[knob + 1 :])
            for knob, at in enumerate(together)
            if at != self._seen.baseline[knob]
        ]
        return together, math.fsum(self._seen.gain(cell) for cell in alone)

    def _together(self) -> Cell:
        """The best level of each knob, of those that were tried."""
        found = []
        for knob, base in enumerate(self._seen.baseline):
            tried = [cell for cell in self._alternatives(knob) if cell in self._seen.values]
            best = max([self._seen.baseline, *tried], key=self._seen.mean)
            found.append(best[knob] if best != self._seen.baseline else base)
        return tuple(found)


class Iotrial:
    """The search of a study of the kind ``tune``; its claim is made on fresh trials, elsewhere."""

    def __init__(self, surface: Surface, seed: int, margin: float) -> None:
        counts = surface.counts
        self._grid = KnobGrid(counts, surface.ordered, surface.baseline)
        self._seed, self._margin = seed, margin
        self._trials: list[KnobTrial] = []
        self._left = list(tune.start(self._grid, START, seed))

    def ask(self) -> Cell:
        if self._left:
            return self._left.pop(0)
        return tune.next_cell(self._grid, self._trials, self._seed + len(self._trials))

    def tell(self, cell: Cell, value: float) -> None:
        self._trials.append(KnobTrial(cell, value))

    def claim(self) -> Claim:
        if len(self._trials) < 2:  # of one trial nothing follows
            return self._grid.baseline, 0.0
        found = self._summary()
        return found.best, math.log(found.gain)

    def enough(self) -> bool:
        """Whether a study would end here: when more is not expected to pay."""
        knobs = len(self._grid.counts)
        return not self._left and enough(self._summary(), len(self._trials), knobs, self._margin)

    def _summary(self) -> tune.TuneSummary:
        return tune.summary(self._grid, tuple(self._trials), self._margin, self._seed)


# -- those in an environment of their own ----------------------------------------------------------

PACKAGES = {"Optuna": "optuna", "SMAC": "smac>=2,<3"}
SPEAK = """
import json, logging, sys, tempfile, warnings
warnings.simplefilter("ignore")
said = sys.stdout
sys.stdout = sys.stderr

def optuna(counts, ordered, baseline, seed, trials):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial({str(at): place for at, place in enumerate(baseline)})
    for _ in range(trials):
        trial = study.ask()
        cell = [
            trial.suggest_int(str(at), 0, count - 1) if in_order
            else trial.suggest_categorical(str(at), list(range(count)))
            for at, (count, in_order) in enumerate(zip(counts, ordered))]
        study.tell(trial, (yield cell, None))
        best = [study.best_params[str(at)] for at in range(len(counts))]
        yield best, study.best_value

def smac(counts, ordered, baseline, seed, trials):
    from ConfigSpace import (
        CategoricalHyperparameter, Configuration, ConfigurationSpace, OrdinalHyperparameter)
    from smac import HyperparameterOptimizationFacade as Facade, Scenario
    from smac.runhistory.dataclasses import TrialValue
    names = ["k%02d" % at for at in range(len(counts))]
    space = ConfigurationSpace(seed=seed)
    for name, count, in_order, base in zip(names, counts, ordered, baseline):
        kind = OrdinalHyperparameter if in_order else CategoricalHyperparameter
        space.add(kind(name, list(range(count)), default_value=base))
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, n_trials=trials, seed=seed, output_directory=folder)
        first = [space.get_default_configuration()]
        facade = Facade(
            scenario, lambda config, seed: 0.0, logging_level=False, overwrite=True,
            initial_design=Facade.get_initial_design(scenario, additional_configs=first))
        got, waiting = {}, [space.get_default_configuration()]
        for _ in range(trials):
            info = facade.ask()
            value = yield [int(info.config[name]) for name in names], None
            facade.tell(info, TrialValue(cost=-value, time=0.0), save=False)
            best = facade.intensifier.get_incumbent()
            if best is None:
                best = info.config
            yield [int(best[name]) for name in names], -facade.runhistory.get_cost(best)

for line in sys.stdin:
    name, *asked = json.loads(line)
    steps = {"Optuna": optuna, "SMAC": smac}[name](*asked)
    answer = next(steps)
    while True:
        print(json.dumps(answer), file=said, flush=True)
        value = json.loads(sys.stdin.readline())
        if value is None:
            break
        best = steps.send(value)
        print(json.dumps(best), file=said, flush=True)
        answer = next(steps, None)
"""


class Environment:
    """Optuna and SMAC in a folder of their own, where they can be installed; ``versions`` by name,
    ``why`` not."""

    def __init__(self, given: str = "") -> None:
        self.versions: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self._folder: Path | None = None
        if not given:
            self._folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
        self.python = given or f"{self._folder}/bin/python"
        try:
            if self._folder:
                venv.create(self._folder, with_pip=True)
            for name, package in PACKAGES.items():
                self._add(name, package)
        except BaseException:
            self.close()
            raise

    def _add(self, name: str, package: str) -> None:
        bare = package.partition(">")[0]
        pip = (self.python, "-m", "pip", "install", "--quiet", package)
        ask = f"import importlib.metadata as m, {bare}; print(m.version({bare!r}))"
        try:
            if self._folder:
                subprocess.run(pip, check=True, capture_output=True, text=True, timeout=900)
            done = subprocess.run(
                (self.python, "-c", ask), check=True, capture_output=True, text=True, timeout=300
            )
            self.versions[name] = done.stdout.strip()
        except (subprocess.SubprocessError, OSError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            self.why[name] = said[-1] if said else str(error)

    def close(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class Spoken:
    """One of them, in a process of its own."""

    def __init__(self, process: Spoke, name: str, surface: Surface, seed: int, trials: int) -> None:
        self._process = process
        self._seen = Seen(surface.baseline)
        self._best: tuple[Cell, float] = surface.baseline, 0.0
        asked = (surface.counts, surface.ordered, surface.baseline, seed, trials)
        process.say([name, *asked])

    def ask(self) -> Cell:
        return self._process.hear()[0]

    def tell(self, cell: Cell, value: float) -> None:
        self._process.say(value)
        self._best = self._process.hear()
        self._seen.add(cell, value)

    def claim(self) -> Claim:
        best, seen = self._best
        known = self._seen.baseline in self._seen.values
        return best, seen - self._seen.mean(self._seen.baseline) if known else 0.0


class Spoke:
    """The process that is spoken to."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            (python, "-W", "ignore", "-c", SPEAK), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def say(self, words: object) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> tuple[Cell, float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise OSError("a peer ended by itself")
        cell, value = json.loads(line)
        return tuple(cell), value or 0.0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
