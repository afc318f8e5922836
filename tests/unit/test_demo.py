"""``iotrial demo``: one command, one screen, and nothing staged."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from iotrial.cli import demo
from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.judgement import completed
from iotrial.model.finding import Comparison, Finding, RequiredBlocks, Verdict
from iotrial.model.results import Results
from iotrial.plan.load import parse_study
from iotrial.plan.template import beside, template
from iotrial.report.text import brief, changes
from iotrial.report.view import view
from iotrial.store import open_results

pytestmark = pytest.mark.usefixtures("state")


def pretended(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert status(["demo", "--pretend", "--out", str(folder)]) == 0
    said = capsys.readouterr()
    return said.out, said.err


def test_one_screen_says_the_answer_what_was_done_and_what_to_type_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    said, meanwhile = pretended(folder, capsys)
    assert "less than 3 minutes" in meanwhile
    assert said.lstrip().startswith("Pretended: ")
    assert "Do read-ahead and a short queue matter to scattered reads here?" in said
    assert "Equivalence margin ±10 %" in said
    assert "read back before and after each load: " in said
    assert "queue.read_ahead_kb of loop" in said
    assert "removed /dev/loop" in said
    assert "to restore:  nothing" in said
    assert re.search(
        r"below 10 % are undecided: detecting 2 % needs \d+ blocks, about .* more", said
    )
    for next_ in (f"compare {folder}", "init scheduler study.toml", str(folder / "report.html")):
        assert next_ in said.replace("\n", "")
    assert len(said.splitlines()) <= 32
    assert (folder / "report.html").exists()
    assert (folder / "findings.json").exists()


def test_it_ends_when_all_is_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the made-up machine no setting matters, and noise is small."""
    pretended(tmp_path / "demo", capsys)
    results = open_results(tmp_path / "demo")
    assert 0 < len(results.records) < 200
    assert {each["verdict"] for each in findings(tmp_path / "demo")} == {"same"}


def findings(folder: Path) -> list[dict[str, Any]]:
    document = json.loads((folder / "findings.json").read_text())
    return [each for each in document["findings"] if each["primary"]]


def test_json_is_that_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["demo", "--pretend", "--json", "--out", str(tmp_path / "demo")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pretended"] is True
    assert told["restored"]
    assert told["findings"]


def test_each_call_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(["demo", "--pretend"]) == status(["demo", "--pretend"]) == 0
    first, second = sorted((tmp_path / "results").iterdir())
    assert first.name.endswith("-demo")
    assert second.name == f"{first.name}-2"
    assert status(["demo", "--pretend", "--out", str(first)]) == 2


def test_a_demo_that_was_stopped_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(["demo", "--pretend"]) == 0
    (folder,) = (tmp_path / "results").iterdir()
    done = folder / "measurements.jsonl"
    lines = done.read_text().splitlines(keepends=True)
    done.write_text("".join(lines[:5]))
    for line in lines[5:]:
        shutil.rmtree(folder / "trials" / json.loads(line)["folder"])
    assert status(["demo", "--pretend"]) == 0
    assert [each.name for each in (tmp_path / "results").iterdir()] == [folder.name]
    assert len(done.read_text().splitlines()) >= len(lines)


@pytest.mark.parametrize("name", ["demo", "demo-file"])
def test_its_study_says_its_margin_and_ends_in_time(name: str) -> None:
    study = parse_study(template(name), f"{name}.toml", beside(name).__getitem__)
    assert study.design.kind == "race"
    assert 0 < study.decide.margin <= 0.10
    assert study.design.budget <= 150
    for workload in study.workloads:
        capped = {"rate", "rate_iops", "thinktime", "latency_target"} & set(dict(workload.options))
        assert not capped


def test_without_loop_devices_a_file_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_may_use_loops", lambda: False)
    odd = tmp_path / 'a "quoted" \\ name'
    monkeypatch.setattr(demo, "_folder", lambda: odd)
    study = demo._study(pretended=False)
    assert [target.path for target in study.targets] == [str(odd / "iotrial-demo.data")]
    assert not [each for factor in study.factors for each in factor.levels if each.settings]


def test_only_root_with_sysfs_may_use_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not demo._may_use_loops()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not demo._may_use_loops()


def test_a_folder_that_cannot_bear_the_file_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_PLACES", ("/proc", str(tmp_path / "missing")))
    with pytest.raises(UsageError, match="O_DIRECT") as told:
        demo._folder()
    assert "root" in told.value.advice
    monkeypatch.setattr(demo, "_PLACES", ("/proc", str(tmp_path)))
    monkeypatch.setattr(demo, "_ROOM", 1)
    try:
        os.close(os.open(tmp_path, os.O_RDWR | os.O_TMPFILE | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system of temporary files does not take O_DIRECT")
    assert demo._folder() == tmp_path


def rendered(shown: RenderableType) -> str:
    """What a terminal of 80 columns without colour is given."""
    stream = io.StringIO()
    Console(file=stream, width=80, no_color=True, color_system=None).print(shown)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def finding(
    level: str,
    verdict: Verdict,
    ratio: float,
    *,
    baseline: str = "as found",
    needs: RequiredBlocks | None = None,
) -> Finding:
    low, high = ratio * 0.9, ratio * 1.1
    return Finding(
        "random", "read.clat.p50", "setting", level, baseline,
        ratio, low, high, verdict, 9, needs=needs,
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Results:
    pretended(tmp_path / "demo", capsys)
    return open_results(tmp_path / "demo")


def test_findings_stand_under_their_verdicts_with_what_would_tell_them(results: Results) -> None:
    needs = RequiredBlocks(0.05, 40, 31, 725.0)
    found = (
        finding("open", "cannot-tell", 1.05, needs=needs),
        finding("slow", "worse", 2.0),
        finding("alike", "same", 1.01),
        finding("fast", "better", 0.5),
    )
    said = rendered(
        brief(view(completed(results, Comparison("Why?", found, "an answer", "a model"))))
    )
    order = [said.index(word) for word in ("better\n", "fast", "worse\n", "slow", "same\n")]
    assert order == sorted(order)
    assert said.index("alike") < said.index("cannot tell\n") < said.index("random, open: ")
    assert "detecting 5 % needs 40 blocks, about 12m05s more" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_pair_is_shown_once_whoever_leads(results: Results) -> None:
    found = (
        finding("new", "same", 1.01),
        finding("as found", "same", 0.99, baseline="new"),
        finding("other", "worse", 2.0, baseline="new"),
    )
    said = rendered(
        brief(view(completed(results, Comparison("Why?", found, "an answer", "a model"))))
    )
    assert said.count("  random ") == 2
    assert "other against new" in said
    assert "as found against" not in said


def test_what_was_changed_is_counted_from_what_was_read_back(results: Results) -> None:
    told = changes(results)
    assert "queue.nr_requests of loop" in told
    assert "queue.scheduler" not in told
    assert changes(replace(results, records=())) == ""
