"""A file under another name is no repeat and no level."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iotrial.cli.main import status
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt
from iotrial_import.cells import ImportCells, cells
from iotrial_import.copies import FileDigest, sole, words_of
from iotrial_import.legend import ImportMap, OriginalFile

RECORDED = Path(__file__).parent.parent / "data" / "fio"


def original(name: str, value: float, started: float = 0.0) -> OriginalFile:
    numbers = (Measurement("read.iops", value, "1/s"), Measurement("read.lat.mean", 1 / value, "s"))
    return OriginalFile(name, "f", (Recording("fio", "read", numbers, "job", started=started),))


def imported(
    files: Mapping[str, float], started: Mapping[str, float] | None = None
) -> tuple[ImportCells, tuple[Doubt, ...]]:
    """Name → number; files with one number have the same bytes, unless they are ``started``."""
    told = started or {}
    prints = {
        name: FileDigest("" if name in told else f"digest of {value}", 0.0)
        for name, value in files.items()
    }
    every = [original(name, value, told.get(name, 0.0)) for name, value in files.items()]
    left, doubts = sole(every, prints)
    return cells(left, ImportMap()), tuple(doubts)


def said(found: ImportCells) -> object:
    """What there is to compare: factors, and the numbers of each cell."""
    return found.factors, sorted((run.treatment, run.numbers) for run in found.runs)


WORDS = st.sampled_from(["cfq", "noop", "bfq", "xfs", "ext4", "qd8"])
NAMES = st.text("abcdefgxyz0123456789-_. ()/", min_size=1, max_size=20).filter(
    lambda name: not name.startswith("/") and "//" not in name and words_of(name) != ()
)


@settings(max_examples=300)
@given(
    levels=st.lists(WORDS, min_size=2, max_size=4, unique=True),
    repeats=st.integers(2, 3),
    which=st.integers(0, 11),
    shape=st.sampled_from(
        ["{}", "copy of {name}", "{name} (copy)", "{name}-copy", "backup/{name}", "{name}.bak",
         "old-{name}", "{level}-run9", "zzz-run1", "a", "{name}~"]
    ),
    own=NAMES,
)  # fmt: skip
def test_a_copy_under_any_name_changes_nothing_and_is_told(
    levels: list[str], repeats: int, which: int, shape: str, own: str
) -> None:
    files = {
        f"{level}-run{n}": 100.0 + 7 * at
        for at, (level, n) in enumerate(product(levels, range(1, repeats + 1)))
    }
    name = list(files)[which % len(files)]
    copy = shape.format(own, name=name, level=name.partition("-")[0])
    assume(copy not in files)
    assume(not set(words_of(copy)) <= {word for each in files for word in words_of(each)})
    before, none = imported(files)
    assert none == ()
    for order in (files | {copy: files[name]}, {copy: files[name]} | files):
        after, (doubt,) = imported(order)
        assert said(after) == said(before)
        assert doubt.check == "copies"
        assert doubt.what.endswith(f"{copy} is {name}")


def test_the_same_output_indented_otherwise_is_a_copy_and_the_same_numbers_later_are_none() -> None:
    files = {"cfq-1": 10.0, "noop-1": 11.0, "again": 10.0}
    at = {"cfq-1": 5e8, "noop-1": 6e8, "again": 5e8}
    found, (doubt,) = imported(files, at)
    assert doubt.what.endswith("again is cfq-1")
    assert dict(found.factors) == {"file": ("cfq", "noop")}
    found, doubts = imported(files, at | {"again": 7e8})
    assert doubts == ()
    assert len(found.runs) == 3


def test_of_names_that_fit_equally_well_the_older_file_is_kept() -> None:
    every = [original("aaa", 1.0), original("cfq", 1.0), original("noop", 2.0)]
    prints = {"aaa": FileDigest("x", 9.0), "cfq": FileDigest("x", 8.0), "noop": FileDigest("", 1.0)}
    left, (doubt,) = sole(every, prints)
    assert [each.file for each in left] == ["cfq", "noop"]
    assert doubt.what.endswith("aaa is cfq")


def test_logs_of_one_run_are_no_copies_of_each_other() -> None:
    """With blocks of 1 KiB that of bandwidth and that of IOPS have the same bytes."""
    names = ["a_bw.1.log", "a_iops.1.log", "b_bw.1.log"]
    left, doubts = sole(
        [original(name, 3.0) for name in names], dict.fromkeys(names, FileDigest("x", 0))
    )
    assert [each.file for each in left] == names[:2]
    assert [doubt.what.rpartition(": ")[2] for doubt in doubts] == ["b_bw.1.log is a_bw.1.log"]


def test_what_a_person_says_of_each_file_stands_and_is_doubted() -> None:
    every = [original("a", 1.0), original("b", 1.0)]
    left, (doubt,) = sole(every, dict.fromkeys("ab", FileDigest("x", 0.0)), leave=True)
    assert left == every
    assert doubt.check == "maybe-copies"


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs each of two schedulers, of real outputs of fio."""
    monkeypatch.chdir(tmp_path)
    text = (RECORDED / "steady" / "fio.json").read_text()
    for at, name in enumerate(("cfq-run1", "cfq-run2", "noop-run1", "noop-run2")):
        report = json.loads(text)
        report["timestamp"] += 100 * at
        report["timestamp_ms"] += 100_000 * at
        report["jobs"][0]["read"]["iops"] *= 1 + at / 50
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    return tmp_path


def findings(capsys: pytest.CaptureFixture[str], files: Sequence[str], out: str) -> tuple[str, str]:
    """What compare finds (without its doubts), and what import doubts."""
    assert status(["import", *files, "--out", out, "--json"]) == 0
    doubts = json.dumps(json.loads(capsys.readouterr().out)["doubts"])
    assert status(["compare", out, "--json"]) in (0, 1)
    return json.dumps(json.loads(capsys.readouterr().out)["findings"]), doubts


def test_real_outputs_and_a_copy_of_one_give_the_same_findings(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(path.name for path in outputs.glob("*.json"))
    without, doubts = findings(capsys, files, "r1")
    assert "copies" not in doubts
    assert without != "[]"
    shutil.copyfile("cfq-run1.json", "backup.json")
    report = json.loads(Path("noop-run2.json").read_text())
    Path("noop-run3.json").write_text(json.dumps(report, indent=3))
    with_copies, doubts = findings(capsys, ["backup.json", *files, "noop-run3.json"], "r2")
    assert with_copies == without
    assert "backup.json is cfq-run1.json; noop-run3.json is noop-run2.json" in doubts
