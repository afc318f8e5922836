"""What reports say of a study in stages: each stage, what it kept, and current against new."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from staged_studies import executed, parsed

from iotrial.cli.main import status
from iotrial.judgement import judge
from iotrial.model.results import Results
from iotrial.report.document import document
from iotrial.report.junit import junit
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view
from iotrial.stats.regress import regress


def results(most: int = 10_000) -> Results:
    study = parsed()
    planned, done = executed(study, most=most)
    return Results(Path("results/staged"), study, tuple(planned), tuple(done))


def seen(most: int = 10_000) -> ReportView:
    return view(judge(results(most)))


def on_terminal(of: ReportView) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(verdict_table(of))
    return console.export_text()


def test_the_answer_names_what_to_change_and_that_it_was_confirmed() -> None:
    answer = seen().answer
    assert answer.startswith("Change rsize from unset to ")
    assert "pages from unset to 8, and keep maker=off." in answer
    assert "Confirmed on production: new against current is read better" in answer


def test_every_shape_shows_each_stage_and_ends_in_current_against_new() -> None:
    of = seen()
    for text in (on_terminal(of), markdown(of), html(of)):
        assert "urrent against new" in text
        assert "narrowed" in text
        assert "to the knee" in text
        assert "the smallest as good as the best" in " ".join(text.split())
        assert "stage 4: read" in text
    assert [row.number for row in of.stages] == [1, 2, 3, 4]
    assert [part.workload for part in of.parts] == [
        "stage 1: read", "stage 2: read", "stage 3: write", "stage 4: read", "stage 4: write"
    ]  # fmt: skip
    assert "stage 2: read" in junit(of)


def test_the_document_has_stages_choices_and_the_stage_of_each_finding() -> None:
    told = json.loads(json.dumps(document(judge(results()))))
    assert {each["stage"] for each in told["findings"]} == {1, 2, 3, 4}
    assert {each["workload"] for each in told["findings"]} == {"read", "write"}
    assert [each["then"] for each in told["stages"]] == ["narrow", "best", "knee", "confirm"]
    by_factor = {each["factor"]: each for each in told["choices"]}
    assert (by_factor["pages"]["current"], by_factor["pages"]["new"]) == ("unset", "8")
    assert by_factor["pages"]["stage"] == 3
    assert by_factor["rsize"]["stage"] == 2


def test_the_knee_that_is_drawn_is_the_one_that_the_stage_kept() -> None:
    knees = document(judge(results()))["knees"]
    told = {(row["workload"], row["factor"]): row["knee"] for row in knees}
    assert told["stage 3: write", "pages"] == "8"


def test_where_intervals_are_for_one_look_it_is_said_beside_them() -> None:
    whole, half = seen(), seen(most=70)
    assert "Intervals of stages 1, 2, 3, 4 are valid for one look" in whole.method
    assert "too narrow" not in " ".join(row.done for row in whole.stages)
    assert "intervals before its end are too narrow" in half.stages[-1].done
    for text in (on_terminal(half), markdown(half), html(half)):
        assert "intervals before its end are too narrow" in " ".join(text.split())


def test_what_is_not_finished_says_so_and_changes_nothing_yet() -> None:
    first = seen(most=50)
    assert first.answer.startswith("Not finished: stage 1 of 4 is next.")
    assert {choice.why for choice in first.choices} == {"not decided"}
    nothing = results()
    empty = view(judge(replace(nothing, planned=(), records=())))
    assert "Not finished" in empty.answer
    assert empty.stages[0].done == "not started"


def test_the_stages_share_the_confidence_and_the_method_says_so() -> None:
    method = seen().method
    assert "The 4 stages share the error rate: each has a confidence of 98.73%" in method
    assert "98.7" in method.split("Stage 1")[1]


def test_two_executions_are_compared_stage_by_stage() -> None:
    told = regress([results()], [replace(results(), folder=Path("results/other"))], between=0.02)
    assert len({finding.level.split()[0] for finding in told.findings}) == 4
    assert {finding.ratio for finding in told.findings} == {1.0}
    assert not {finding.verdict for finding in told.findings} & {"better", "worse"}


@pytest.mark.usefixtures("state")
def test_a_study_in_stages_runs_from_plan_to_report_on_a_pretended_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        """
question = "Which?"
[targets.test]
loop = { size = "64MiB" }
[targets.spare]
loop = { size = "64MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 1, runtime = "1s" }
[factors.depth]
option = "iodepth"
levels = [1, 8, 32]
[factors.scheduler]
tunable = "queue.scheduler"
levels = "available"
baseline = "none"
[[stage]]
vary = ["depth"]
then = "knee"
[[stage]]
vary = ["scheduler"]
[[stage]]
target = "spare"
then = "confirm"
[design]
blocks = 3
"""
    )
    assert status(["plan", str(path), "--pretend", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["stages"][0]["trials"] == 9
    out = tmp_path / "out"
    assert status(["run", str(path), "--pretend", "--out", str(out), "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert ran["choices"][0]["new"] in {"8", "32"}
    assert ran["stages"][-1]["trials"] == 6
    assert status(["run", str(path), "--pretend", "--out", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["choices"] == ran["choices"]
    for kind in ("html", "md", "xlsx", "csv", "junit", "json"):
        assert status(["report", str(out), "--as", kind, "--out", str(tmp_path / kind)]) == 0
    assert status(["status", str(out)]) == 0


@pytest.mark.usefixtures("state")
def test_a_stage_that_would_write_on_a_device_that_is_not_armed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both stages read; then the one on the other device writes."""
    text = """
question = "Which?"
[targets.test]
loop = { size = "64MiB" }
[targets.production]
device = "/dev/fake0"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
[workloads.writes]
tool = "fio"
options = { rw = "randwrite", bs = "4k", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
baseline = "none"
[design]
blocks = 2
[[stage]]
vary = ["scheduler"]
[[stage]]
then = "confirm"
target = "production"
workloads = ["reads"]
"""
    path = tmp_path / "study.toml"
    path.write_text(text)
    code = status(["plan", str(path), "--pretend"])
    told = capsys.readouterr()
    assert "destroy" not in told.out + told.err
    path.write_text(text.replace('workloads = ["reads"]', ""))
    code = status(["plan", str(path), "--pretend"])
    told = capsys.readouterr()
    assert code == 3
    assert "destroy" in told.out + told.err
