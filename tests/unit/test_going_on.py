"""What `status` and `plan` say of studies that go on: from their own folder, of somebody else's
results, of more treatments than one block holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status
from iotrial.cli.output import Output
from iotrial.cli.run import conclude
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import RunOutcome, execute_study
from iotrial.hosts.fake import FakeHost
from iotrial.plan.load import load_study
from iotrial.store import open_results
from losable import Failing

DATA = Path(__file__).parents[1] / "data"
STUDY = """
question = "Which depth?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
jobfile = "mine.fio"
[factors.depth]
option = "iodepth"
levels = [1, 32]
[design]
kind = "full"
blocks = 2
settle = "0s"
"""
JOBS = "[reads]\nrw=randread\nbs=4k\nruntime=1s\ntime_based\nioengine=libaio\n"

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = status([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_study_goes_on_from_the_folder_that_status_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there").mkdir()
    Path("there/study.toml").write_text(STUDY)
    Path("there/mine.fio").write_text(JOBS)
    run(capsys, "run", "there/study.toml", "--pretend", "--out", "r")
    shutil.rmtree(max(Path("r/trials").iterdir()))
    Path("r/measurements.jsonl").unlink()
    Path("there/mine.fio").unlink()
    code, then = run(capsys, "run", "r/study.toml", "--pretend", "--out", "r")
    assert code == 0
    assert then["trials"]["valid"] == 4
    assert run(capsys, "plan", "r/study.toml", "--pretend")[0] == 0


def test_of_imported_results_status_says_that_nothing_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for case in ("randread", "steady", "mix"):
        shutil.copy(DATA / "fio" / case / "fio.json", f"{case}.json")
    run(capsys, "import", "randread.json", "steady.json", "mix.json", "--out", "r")
    code, said = run(capsys, "status", "r")
    assert (code, said["valid"], said["missing"]) == (0, 3, 0)


def test_a_race_of_more_treatments_than_a_block_holds_is_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    race = STUDY.replace('kind = "full"', 'kind = "race"')
    Path("many.toml").write_text(race.replace("[1, 32]", str([*range(1, 19)])))
    Path("mine.fio").write_text(JOBS)
    code, said = run(capsys, "plan", "many.toml", "--pretend")
    assert code == 0
    assert len(said["treatments"]) == 16


# -- a study whose trials all fail ---------------------------------------------------------------


def executed(host: FakeHost, folder: Path) -> RunOutcome:
    Path("mine.fio").write_text(JOBS)
    Path("study.toml").write_text(STUDY.replace("blocks = 2", "blocks = 3"))
    with Interruption() as interruption:
        study = load_study(Path("study.toml"))
        return execute_study(study, host, folder, interruption=interruption)


def test_where_a_whole_block_failed_the_run_ends_and_says_why(tmp_path: Path) -> None:
    host = Failing()
    outcome = executed(host, tmp_path / "r")
    assert outcome.counts == {"valid": 0, "invalid": 0, "failed": 2}
    assert outcome.stopped.startswith(
        "all 2 trials so far failed, the last one: fio: exit status 1. "
    )
    assert "again goes on" in outcome.stopped
    assert outcome.payment.owed == []

    host.works_after = 1  # whatever it was is mended
    outcome = executed(host, tmp_path / "r")
    assert outcome.counts == {"valid": 4, "invalid": 0, "failed": 2}
    assert outcome.stopped == ""


def test_a_quiet_run_says_too_why_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = executed(Failing(), tmp_path / "r")
    code = conclude(Output(quiet=True), open_results(tmp_path / "r"), outcome)
    assert code == 5
    assert f"stopped: {outcome.stopped}" in " ".join(capsys.readouterr().err.split())


def test_where_one_trial_was_measured_the_others_may_fail(tmp_path: Path) -> None:
    host = Failing()
    host.works_after = 1
    outcome = executed(host, tmp_path / "r")
    assert outcome.counts == {"valid": 5, "invalid": 0, "failed": 1}
    assert outcome.stopped == ""
