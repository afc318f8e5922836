"""Judged: one value, made from results alone; what says anything of results says it of this."""

from __future__ import annotations

import builtins
import dataclasses
import io
import os
from pathlib import Path

import pytest
from stats_studies import noisy, results

from iotrial.judgement import judge
from iotrial.judgement.diagnostics import DIAGNOSTICS, diagnosed
from iotrial.live.live import findings
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.report.document import document
from iotrial.report.view import view

LEVELS = {"scheduler": ("none", "bfq")}


def study(seed: int = 1) -> Results:
    return results(LEVELS, ["reads"], 6, noisy(0.01, seed, {("reads", "bfq"): 0.9}))


def test_judging_reads_no_file_and_leaves_the_results_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge(study())  # what is imported only now may be read
    given = study()
    before = dataclasses.astuple(dataclasses.replace(given, traces=None))  # type: ignore[arg-type]

    def refuse(*_words: object, **_more: object) -> None:
        raise AssertionError("a file is opened")

    for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "listdir")):
        monkeypatch.setattr(module, name, refuse)
    first, again = judge(given), judge(given)
    assert first == again
    assert dataclasses.astuple(dataclasses.replace(given, traces=None)) == before  # type: ignore[arg-type]


def test_the_document_and_the_view_say_what_was_judged() -> None:
    judged = judge(study())
    (finding,) = [each for each in judged.comparison.findings if each.primary]
    (row,) = [each for each in document(judged)["findings"] if each["primary"]]
    (shown,) = [each for each in view(judged).findings if each.primary]
    assert row["ratio"] == finding.ratio == shown.ratio
    assert (row["low"], row["high"], row["verdict"]) == (finding.low, finding.high, "worse")
    assert view(judged).doubts == judged.doubts


def test_the_live_page_has_the_intervals_that_compare_has() -> None:
    of = study()
    (live,) = findings(of, judge)
    (finding,) = [each for each in judge(of).comparison.findings if each.primary]
    assert (live["low"], live["high"]) == (finding.low, finding.high)


def test_a_diagnostic_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    of = study()
    comparison = judge(of).comparison
    assert len({each.name for each in DIAGNOSTICS}) == len(DIAGNOSTICS)
    assert all(each.looks_at for each in DIAGNOSTICS)
    new = dataclasses.replace(
        DIAGNOSTICS[0], name="new", doubts=lambda *_: [Doubt("new", "what", "advice")]
    )
    monkeypatch.setattr("iotrial.judgement.diagnostics.DIAGNOSTICS", (*DIAGNOSTICS, new))
    assert [each.check for each in diagnosed(of, comparison)] == ["new"]
    assert "new" in {each.check for each in judge(of).doubts}


def test_results_that_nobody_randomised_have_other_diagnostics() -> None:
    assert {each.name for each in DIAGNOSTICS if each.recorded} == {"alone"}


def test_a_folder_is_judged_as_its_findings_say(tmp_path: Path) -> None:
    from iotrial.cli.main import status  # noqa: PLC0415 (slow)
    from iotrial.files import read_object  # noqa: PLC0415
    from iotrial.store import open_results  # noqa: PLC0415

    assert status(["init", "scheduler", str(tmp_path / "study.toml")]) == 0
    out = tmp_path / "out"
    told = ["run", "--pretend", str(tmp_path / "study.toml"), "--out", str(out), "--quiet"]
    assert status(told) == 0
    filed = read_object(out / "findings.json", out)
    assert filed["findings"] == document(judge(open_results(out)))["findings"]
