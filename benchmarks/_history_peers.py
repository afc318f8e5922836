"""Who looks for changes in ``history.py``: iotrial, Apache Otava, and a plain threshold.

Each looks every night, and says what it tells as *alarms*: on which night, of which night, and by
what ratio the level is said to have changed.  Otava is in an environment of its own; it is asked on
all nights up to each, as one who runs it every night does, and an alarm is a change more than
:data:`SAME` nights from those told before.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _history_series import STEP_AT, Night

from iotrial.stats.changes import SeriesHistory

SAME = 5
PACKAGE = "apache-otava==0.8.0"
DEFAULT_P = 1e-3
P_VALUES = (DEFAULT_P, 1e-4, 1e-5, 1e-7, 1e-9, 1e-12, 1e-16, 1e-20, 1e-30, 1e-50)
WINDOW, LIMIT = 7, 0.05


@dataclass(frozen=True, slots=True)
class Alarm:
    """Told on the night ``told``; ``ratio`` is what is said at the end of the series."""

    told: int
    first: int
    ratio: float


def alarms_of(history: SeriesHistory) -> list[Alarm]:
    return [
        Alarm(int(change.told), int(change.first), change.ratio)
        for change in history.changes
        if change.told is not None
    ]


def plain(series: Night) -> list[Alarm]:
    """5 % against the mean of the last seven."""
    values = np.exp(np.array(series.logs))
    found: list[Alarm] = []
    for night in range(WINDOW, len(values)):
        ratio = float(values[night] / values[night - WINDOW : night].mean())
        if abs(ratio - 1) > LIMIT and (not found or night - found[-1].first > SAME):
            found.append(Alarm(night, night, ratio))
    return found


SPEAK = """
import json, sys, warnings
warnings.simplefilter("ignore")
from otava.analysis import compute_change_points

def alarms(values, p, least, begin, every, same):
    told, last = [], []
    for night in range(begin, len(values), every):
        last = compute_change_points(values[:night + 1], 50, p, least)[0]
        for change in last:
            if all(abs(change.index - other[1]) > same for other in told):
                told.append([night, int(change.index), 1.0])
    for each in told:
        near = [c for c in last if abs(c.index - each[1]) <= same]
        each[2] = float(1 + near[0].stats.forward_rel_change()) if near else 1.0
    return told

asked = json.load(sys.stdin)
answers = []
for values, begin in asked["series"]:
    own = []
    for p in asked["p"]:
        own.append(alarms(values, p, asked["least"], begin, asked["every"], asked["same"]))
        if not own[-1]:
            break  # a smaller p tells no more
    own += [[]] * (len(asked["p"]) - len(own))
    answers.append(own)
json.dump(answers, sys.stdout)
"""


def otava(
    python: str, many: Sequence[Night], least: float, every: int
) -> list[Mapping[float, list[Alarm]]]:
    """For each series the alarms at each of :data:`P_VALUES`, in looks of ``every`` night."""
    asked = {
        "series": [
            (np.exp(np.array(each.logs)).tolist(), STEP_AT if each.truths else 10) for each in many
        ],
        "p": P_VALUES, "least": least, "every": every, "same": SAME,
    }  # fmt: skip
    done = subprocess.run(
        (python, "-W", "ignore", "-c", SPEAK), input=json.dumps(asked), check=True,
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    return [
        {p: [Alarm(*alarm) for alarm in own] for p, own in zip(P_VALUES, each, strict=True)}
        for each in json.loads(done.stdout)
    ]


class Environment:
    """Otava in a folder of its own, where it can be installed; ``why`` not."""

    def __init__(self, given: str = "") -> None:
        self.version, self.why = "", ""
        self._folder: Path | None = None
        if not given:
            self._folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
        self.python = given or f"{self._folder}/bin/python"
        ask = "import importlib.metadata as m, otava.analysis; print(m.version('apache-otava'))"
        try:
            if self._folder:
                venv.create(self._folder, with_pip=True)
                self._run("-m", "pip", "install", "--quiet", PACKAGE, timeout=900)
            self.version = self._run("-c", ask, timeout=300).strip()
        except (subprocess.SubprocessError, OSError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            self.why = said[-1] if said else str(error)
        except BaseException:
            self.close()
            raise

    def _run(self, *words: str, timeout: int) -> str:
        done = subprocess.run(
            (self.python, *words), check=True, capture_output=True, text=True, timeout=timeout
        )
        return done.stdout

    def close(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
