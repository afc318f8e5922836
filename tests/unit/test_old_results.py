"""Results of earlier versions, recorded when these were current, stay readable: they are opened,
judged, reported, resumed and paid by this one (tests/data/results-*/RECORD.md); those of checks by
the wing iotrial_suites."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli.main import status
from iotrial.errors import LockedError
from iotrial.execute.keep.keeping import confirm, undo
from iotrial.execute.keep.kept import find, kept, refuse_pending, verify
from iotrial.execute.settings.journal import sessions
from iotrial.execute.settings.restore import restore
from iotrial.hosts.places import journal_folder
from iotrial.live.file import read
from iotrial.plan.aa import as_aa
from iotrial.plan.load import load_study
from iotrial.store import is_finished, open_results, study_at
from old_results import (
    DATA,
    SHAPES,
    Verb,
    differing,
    essence,
    expected_of,
    pretended,
    recordings,
    seen_in,
    unpacked,
)
from replayed import Life, before, behind, owed_on, replayed

FOLDERS = dict(recordings(".tar.xz"))
KINDS = {name: json.loads(path.with_name(f"{name.partition('/')[2]}.json").read_text())
         for name, path in FOLDERS.items()}  # fmt: skip
STUDIES = [name for name, expected in KINDS.items() if expected["kind"] == "study"]
CHECKS = [name for name, expected in KINDS.items() if expected["kind"] == "checks"]
HALF_DONE = [name for name in STUDIES if name.endswith("-half-done")]
OWING = dict(recordings(".owes.jsonl"))
KEPT = dict(recordings(".kept.jsonl"))
DRAWN = ("hosts", "imported-table", "staged")
WATCHED = ("/full", "/hosts", "/real-loop", "/staged")
SLOW = ("html", "xlsx")
"""Pages and workbooks take most of the time: these are made of the studies named in any case, of
all with ``./dev test --all``."""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Books where 0.1.0 had them on a pretended machine; nothing of ours is durable."""
    monkeypatch.delenv("IOTRIAL_STATE", raising=False)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def do(capsys: pytest.CaptureFixture[str]) -> Verb:
    def verb(*words: str) -> dict[str, Any]:
        code = status([*words, "--json"])
        said = capsys.readouterr()
        assert code in (0, 1), said.err
        document: dict[str, Any] = json.loads(said.out)
        return document

    return verb


Opened = Callable[[str], Path]


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """The results folder of a recording, for those who leave it as it is: unpacked once."""

    @cache
    def folder(name: str) -> Path:
        return unpacked(FOLDERS[name], tmp_path_factory.mktemp("old"))

    return folder


def test_there_is_a_recording_of_every_kind_of_results() -> None:
    """Else all that follows would hold for nothing."""
    assert len(STUDIES) > 30
    assert len(HALF_DONE) > 10
    assert CHECKS
    assert len(OWING) > 14
    assert len(KEPT) > 2
    assert sum(path.stat().st_size for path in DATA.glob("results-0.1.0/*")) < 3 * 2**20


@pytest.mark.parametrize("name", FOLDERS)
def test_what_was_found_then_is_found_now(name: str, opened: Opened, do: Verb) -> None:
    assert list(differing(essence(KINDS[name]), expected_of(opened(name), do))) == []


@pytest.mark.charts
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_reported_in_every_shape(
    name: str, opened: Opened, request: pytest.FixtureRequest
) -> None:
    drawn = name.partition("/")[2] in DRAWN or request.config.getoption("--all")
    seen, judged = seen_in(opened(name))
    kinds = [kind for kind in SHAPES if drawn or kind not in SLOW]
    pages = {kind: SHAPES[kind](seen, judged) for kind in kinds}
    assert min(map(len, pages.values())) > 300
    for record in judged.results.records:
        assert record.trial.folder in str(pages["csv"])


@pytest.mark.parametrize("name", STUDIES)
def test_every_trial_is_read_from_its_own_folder_too(name: str, tmp_path: Path) -> None:
    """measurements.jsonl is derived: without it the same is made of the trials' folders, and what
    has been read of fio's output since."""
    folder = unpacked(FOLDERS[name], tmp_path)
    then = open_results(folder)
    if then.study.design.kind == "recorded":  # has no others
        return
    (folder / "measurements.jsonl").unlink()
    now = open_results(folder)
    assert now.records
    assert [_told(each) for each in now.records] == [_told(each) for each in then.records]
    for new, old in zip(now.records, then.records, strict=True):
        assert _numbers(old).items() <= _numbers(new).items()
        since = {metric for metric, _ in _numbers(new).keys() - _numbers(old).keys()}
        assert all(re.search(r"^total\.|lat\.(max|sd)$|\[", metric) for metric in since)


def _told(record: Any) -> object:  # noqa: ANN401
    return record.trial, record.state, record.before, record.after, record.doubts


def _numbers(record: Any) -> dict[tuple[str, str], float]:  # noqa: ANN401
    whole = {(m.metric, m.job): m.value for m in record.measurements}
    return {key: value for key, value in whole.items() if key[1] in ("all", *record.parts)}


@pytest.mark.parametrize("name", [name for name in STUDIES if name.endswith(WATCHED)])
def test_what_a_run_said_while_it_went_on_is_shown_to_its_end(
    name: str, opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = opened(name)
    assert status(["status", str(folder), "--follow"]) == read(folder)["exit"]  # type: ignore[index]
    assert "over" in capsys.readouterr().out


KEEPS = {
    "staged": ([], [["queue.scheduler", "none", "loop0"], ["queue.scheduler", "none", "loop1"]]),
    "troubled": (["--finding", "scheduler=bfq"], [["queue.scheduler", "bfq", "fake0"]]),
}
"""What is asked for, and the settings that are to be kept, with their devices."""


@pytest.mark.parametrize("name", [name for name in STUDIES if name.partition("/")[2] in KEEPS])
def test_what_won_can_still_be_kept(name: str, opened: Opened, do: Verb) -> None:
    asked, wanted = KEEPS[name.partition("/")[2]]
    said = do("keep", str(opened(name)), "show", *asked)
    rows = [[each["tunable"], each["value"], each["on"]] for each in said["settings"]]
    assert rows == wanted


@pytest.mark.parametrize("name", CHECKS)
def test_checks_are_reported(name: str, opened: Opened, do: Verb) -> None:
    folder = opened(name)
    for shape in ("html", "md", "json"):
        do("report", str(folder), "--as", shape, "--out", f"out.{shape}")
        for case, *_ in KINDS[name]["checks"]:
            assert case in Path(f"out.{shape}").read_text()


@pytest.mark.parametrize("name", HALF_DONE)
def test_a_half_done_study_is_taken_up_and_finished(name: str, tmp_path: Path) -> None:
    folder = unpacked(FOLDERS[name], tmp_path)
    then = open_results(folder)
    assert list(folder.glob("trials/*.partial"))
    assert not is_finished(folder)
    study = study_at(folder / "study.toml")  # as `status` says how to go on
    if then.study.aa:
        study = as_aa(study, then.study.aa.arms, then.study.design.blocks)
    pretended(study, folder)
    assert study_at(folder / "study.toml").digest == load_study(Path("study.toml")).digest
    now = open_results(folder)
    assert is_finished(folder)
    assert not list(folder.glob("trials/*.partial"))
    assert now.planned[: len(then.planned)] == then.planned
    assert {each.trial for each in now.records} == set(now.planned)
    done = {each.trial: each for each in now.records}
    assert [done[each.trial] for each in then.records] == list(then.records)


@pytest.mark.parametrize("name", OWING)
def test_what_is_owed_is_paid(name: str, tmp_path: Path) -> None:
    life = Life.read(OWING[name])
    host = replayed(life, tmp_path)
    assert owed_on(host) == life.owed != []
    assert behind(host) != behind(before(life, tmp_path))
    payment = restore(host, journal_folder(host))
    assert (payment.owed, sessions(host, journal_folder(host))) == ([], ())
    assert behind(host) == behind(before(life, tmp_path))


@pytest.mark.parametrize("name", OWING)
def test_without_the_restore_it_would_stay(name: str, tmp_path: Path) -> None:
    life = Life.read(OWING[name])
    host = replayed(life, tmp_path)
    for path in [path for path in host.machine.files if path.endswith(".journal")]:
        host.remove(path)
    restore(host, journal_folder(host))
    assert behind(host) != behind(before(life, tmp_path))


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_or_tried_is_shown_and_undone(name: str, tmp_path: Path) -> None:
    life = Life.read(KEPT[name])
    host = replayed(life, tmp_path)
    (there,) = kept(host)
    pending = not name.endswith("kept")
    assert (there.profile.name, there.pending) == ("winner", pending)
    assert owed_on(host) == life.owed != []
    assert there.files
    if pending:
        with pytest.raises(LockedError, match="is in a trial period"):
            refuse_pending(host)
    if not name.endswith("begun"):
        assert verify(host, "winner")[1] == ()
    assert undo(host, "winner").owed == []
    assert find(host, "winner") is None
    assert behind(host) == behind(before(life, tmp_path))


def test_what_was_being_tried_is_confirmed(tmp_path: Path) -> None:
    for name in (name for name in KEPT if name.endswith("tried")):
        host = replayed(Life.read(KEPT[name]), tmp_path)
        confirm(host, "winner")
        refuse_pending(host)
        assert verify(host, "winner")[1] == ()
