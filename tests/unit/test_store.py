"""The results folder: what lies on disk is the state."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import Measurement
from iotrial.model.study import Study
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.plan.available import HostCapabilities
from iotrial.plan.load import load_study
from iotrial.plan.stages import next_trials
from iotrial.store import check, create, is_finished, open_results, studies_in

STUDY = """
question = "Which depth?"
[targets.f]
file = "/var/tmp/f.dat"
size = "16MiB"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
[factors.depth]
option = "iodepth"
levels = [1, 8]
[design]
blocks = 2
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return load_study(path)


def record(trial: Trial, value: float = 100.0) -> TrialRecord:
    return TrialRecord(
        trial=trial,
        state="valid",
        started=1.7e9,
        seconds=1.5,
        load_seconds=1.25,
        tool="fio",
        command=("fio", "--name=x y"),
        before=(("sda", "queue.scheduler", "none"),),
        after=(("sda", "queue.scheduler", "none"),),
        doubts=(Doubt("short", "it was short", "make it longer", trial=trial.folder),),
        measurements=(Measurement("read.iops", value, "1/s", "all", "fio.json"),),
    )


def test_what_was_committed_is_read_back_equal(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    store = create(folder, study, HostCapabilities())
    trials = next_trials(study, (), ())
    store.append_plan(trials)
    records = [record(trial, 100.0 + trial.number) for trial in trials]
    for each in records:
        store.commit(store.begin(each.trial), each)
    seen = open_results(folder)
    assert seen.planned == trials
    assert seen.records == tuple(records)
    assert seen.study == study
    assert is_finished(folder)


def test_a_partial_folder_is_no_trial_and_is_begun_afresh(study: Study, tmp_path: Path) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    (trial, *_) = next_trials(study, (), ())
    store.append_plan([trial])
    (store.begin(trial) / "stdout").write_text("half")
    assert open_results(store.folder).records == ()
    assert not is_finished(store.folder)
    assert list(store.begin(trial).iterdir()) == []


def test_a_folder_for_which_there_was_no_room_is_begun_again(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.fdopen

    def full(handle: int, *words: Any, **more: Any) -> Any:  # noqa: ANN401 (as of os.fdopen)
        file = write(handle, *words, **more)
        if (tmp_path / "r/trials").exists() and (tmp_path / "r/study.toml").exists():
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        with pytest.raises(OSError, match="No space left"):
            create(tmp_path / "r", study, HostCapabilities())
    assert not list((tmp_path / "r").iterdir())
    create(tmp_path / "r", study, HostCapabilities())
    assert open_results(tmp_path / "r").study == study


def test_a_torn_last_line_of_the_plan_was_never_executed(study: Study, tmp_path: Path) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    trials = next_trials(study, (), ())
    store.append_plan(trials)
    text = store.plan_file.read_text()
    store.plan_file.write_text(text[:-7])
    seen = open_results(store.folder)
    assert seen.planned == trials[:-1]
    assert store.plan_file.read_text().endswith("\n"), "the torn end must not spoil the next line"


def test_an_unknown_format_is_named_with_its_file(study: Study, tmp_path: Path) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    head = json.loads(store.plan_file.read_text())
    store.plan_file.write_text(json.dumps({**head, "format": 99}) + "\n")
    with pytest.raises(FormatError, match=r"plan\.jsonl:1: results format 99"):
        open_results(store.folder)
    with pytest.raises(FormatError):
        check(store.folder, study)


def test_another_studys_folder_and_a_folder_with_other_things_are_refused(
    study: Study, tmp_path: Path
) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    with pytest.raises(UsageError, match="another study"):
        check(store.folder, replace(study, digest="000000000000"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="not a results folder"):
        check(tmp_path / "other", study)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]


def test_damaged_derived_lines_are_replaced_by_the_trial_itself(
    study: Study, tmp_path: Path
) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    (trial, *_) = next_trials(study, (), ())
    store.append_plan([trial])
    failed = replace(record(trial), state="failed", error="said no", measurements=())
    store.commit(store.begin(trial), failed)
    (store.folder / "measurements.jsonl").write_text("{broken\n")
    (again,) = open_results(store.folder).records
    assert again == failed


def test_the_same_study_is_found_again_to_be_resumed(study: Study, tmp_path: Path) -> None:
    create(tmp_path / "a", study, HostCapabilities())
    create(tmp_path / "b", replace(study, digest="111111111111"), HostCapabilities())
    assert studies_in(tmp_path, study.digest) == [tmp_path / "a"]


def test_a_study_with_a_job_file_is_read_back_without_the_original(tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text(
        "[job]\nrw=randread\nbs=4k\nruntime=1\ntime_based\nioengine=libaio\n"
    )
    path = tmp_path / "study.toml"
    path.write_text(
        STUDY.replace(
            'options = { rw = "randread", bs = "4k", runtime = "1s" }', 'jobfile = "a.fio"'
        )
    )
    study = load_study(path)
    create(tmp_path / "results", study, HostCapabilities())
    (tmp_path / "a.fio").write_text("[job]\nrw=randwrite\nioengine=libaio\n")
    assert open_results(tmp_path / "results").study == study
    with pytest.raises(UsageError, match="another study"):
        check(tmp_path / "results", load_study(path))


def test_trials_of_two_sessions_are_doubted_and_of_one_are_not(
    study: Study, tmp_path: Path
) -> None:
    store = create(tmp_path / "results", study, HostCapabilities())
    trials = next_trials(study, (), ())
    store.append_plan(trials)
    store.begin_session({"started": 100.0})
    store.begin_session({"started": 200.0})  # died before its first trial
    for trial in trials[:2]:
        store.commit(store.begin(trial), replace(record(trial), started=250.0 + trial.number))
    assert open_results(store.folder).doubts == ()
    store.begin_session({"started": 300.0})
    store.commit(store.begin(trials[2]), replace(record(trials[2]), started=310.0))
    (doubt,) = open_results(store.folder).doubts
    assert doubt.check == "resumed"
    assert "2 sessions" in doubt.what
