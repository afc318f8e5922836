"""Never the wrong disk: a thousand studies that may get at what nobody armed, and no write to it.

Each is executed for real, by the same functions that ``iotrial run`` calls: most are refused, some
measure.  What is not armed is compared by content after each.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from iotrial.errors import IotrialError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.hosts.local import LocalHost
from iotrial.model.event import Event, TrialBegan, TrialsPlanned
from iotrial.plan.load import load_study
from wrong_disk import Case, World, a_world, cases, changed

pytestmark = pytest.mark.root

NUMBER, PARTS = 1000, 8
REFUSED = ("StudyError", "TargetRefused", "failed")
LEAST = {
    "options": (10, 2),
    "job_files": (15, 2),
    "commands": (8, 0),
    "shells": (4, 1),
    "dd": (4, 1),
    "links": (1, 1),
}
"""Of each family in each part: how many are refused at least (or fail, as the kernel refuses what
they do), and how many measure."""


class Planter:
    """Puts something in the way at the first such moment."""

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.case = world, case
        self.done = False

    def _at(self, moment: str) -> None:
        if moment == self.case.moment and not self.done:
            self.done = True
            self.case.during(self.world)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialsPlanned):
            self._at("planned")
        elif isinstance(event, TrialBegan):
            self._at("began")


def outcome(world: World, case: Case, folder: Path) -> str:
    """Execute the study, and say what came of it: a class of error, or how many trials what."""
    folder.mkdir()
    (folder / "job.fio").write_text(world.fill(case.job))
    (folder / "study.toml").write_text(case.study(world))
    try:
        with Interruption() as interruption:
            done = execute_study(
                load_study(folder / "study.toml"),
                LocalHost(),
                folder / "results",
                tell=Planter(world, case),
                interruption=interruption,
            )
    except IotrialError as error:
        return type(error).__name__
    return "measured" if done.counts["valid"] else "failed"


def clear(world: World) -> None:
    """Take away what a case has put, or left, in the way."""
    for path in (
        world.root / "new.img", world.folder / "iotrial-fio", world.folder / "iotrial.dd",
    ):  # fmt: skip
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_that_is_not_armed_is_written_to(part: int, tmp_path: Path, state: Path) -> None:
    came: Counter[str] = Counter()
    of_family: Counter[tuple[str, str]] = Counter()
    wrong = []
    with a_world(tmp_path / "world") as world:
        for number, case in enumerate(cases(NUMBER)[part::PARTS]):
            case.before(world)
            before = world.seen()
            what = outcome(world, case, tmp_path / str(number))
            came[what] += 1
            of_family[case.family, what] += 1
            wrong += [f"{case}: {each}" for each in changed(world, before)]
            wrong += [f"{case}: {each} is incomplete" for each in state.glob("journal.d/*")]
            clear(world)
    assert not wrong, "\n".join(wrong)
    assert came["TargetRefused"] > 15, came
    assert came["measured"] > 2, came
    # A family of which nothing is refused, or nothing measured, tries nothing.
    for family, (refused, measured) in LEAST.items():
        some = {what: n for (of, what), n in of_family.items() if of == family}
        assert sum(some.get(each, 0) for each in REFUSED) >= refused, (family, of_family)
        assert some.get("measured", 0) >= measured, (family, of_family)
