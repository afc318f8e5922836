"""The command line on the pretended machine: every verb, its JSON, its exit code."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from iotrial.cli.main import VERBS, status
from iotrial.execute.keep.keeping import apply
from iotrial.hosts.fake import FakeHost, fio
from iotrial.hosts.fake.machine import CommandOutput, FakeProgram
from iotrial.keep.native import export
from iotrial.keep.profile import parse

STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 32, ioengine = "libaio", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "bfq"]
[design]
blocks = 3
settle = "0s"
"""

pytestmark = pytest.mark.usefixtures("state")


THREADS = """
import os
from iotrial.cli import main as module
from iotrial.hosts.local import LocalHost

def status(_: object) -> int:
    import scipy.linalg
    print(len(os.listdir("/proc/self/task")))
    print(LocalHost().run(["sh", "-c", "echo $OPENBLAS_NUM_THREADS"]).text)
    return 0

module.status = status
module.main()
"""


@pytest.mark.parametrize("asked", ["", "2"])
def test_one_thread_calculates_unless_asked_and_loads_are_not_told(asked: str) -> None:
    others = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=others | ({"OPENBLAS_NUM_THREADS": asked} if asked else {}),
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    threads, told = done.stdout.split("\n")[:2]
    assert told == asked
    assert (threads == "1") is (not asked) or len(os.sched_getaffinity(0)) == 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the one JSON document."""
    code = status([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_study_is_run_compared_and_reported(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, ran = run(capsys, "run", "study.toml", "--pretend", "--out", "r")
    assert code == 0
    assert ran["format"] == 1
    assert ran["trials"] == {"done": 9, "valid": 9, "invalid": 0, "failed": 0}
    assert Path(ran["report"]).read_text().startswith("<!doctype html>")
    code, compared = run(capsys, "compare", "r")
    assert code == 0
    assert compared["findings"] == ran["findings"]
    finding = compared["findings"][0]
    assert {"workload", "metric", "factor", "level", "baseline", "ratio", "low", "high"} < set(
        finding
    )
    assert [f["level"] for f in compared["findings"]] == ["mq-deadline", "bfq"]
    assert {f["baseline"] for f in compared["findings"]} == {"none"}
    assert {f["level"]: f["verdict"] for f in compared["findings"]}["bfq"] == "worse"
    for kind in ("html", "md", "json"):
        code, written = run(capsys, "report", "r", "--as", kind)
        assert code == 0
        assert Path(written["report"]).stat().st_size > 500
        as_it_ends = Path(f"here.{kind}")
        assert run(capsys, "report", "r", "--out", str(as_it_ends))[0] == 0
        assert as_it_ends.read_bytes() == Path(written["report"]).read_bytes()
    code, written = run(capsys, "report", "r", "--as", "csv")
    assert (code, written["beside"]) == (0, ["r/findings.csv"])
    rows = list(csv.DictReader(Path("r/findings.csv").read_text().splitlines()))
    assert len(rows) == len(compared["findings"])
    for row, each in zip(rows, compared["findings"], strict=True):
        assert {row[key] for key in ("pretended", "primary")} == {"yes"}
        assert (row["level"], row["verdict"], row["unit"]) == (
            each["level"], each["verdict"], each["unit"],
        )  # fmt: skip
        for key in ("ratio", "low", "high", "value", "baseline_value"):
            assert float(row[key]) == each[key]
    code, written = run(capsys, "report", "r", "--as", "findings", "--out", "f.csv")
    assert Path("f.csv").read_bytes() == Path("r/findings.csv").read_bytes()
    assert status(["report", "r", "--as", "csv", "--out", "-", "--json"]) == 2
    assert "--json is one document" in json.loads(capsys.readouterr().out)["error"]["message"]
    run(capsys, "report", "r", "--out", "here.txt")
    assert Path("here.txt").read_text().startswith("<!doctype html>")
    run(capsys, "report", "r", "--out", "here.txt", "--as", "md")
    assert not Path("here.txt").read_text().startswith("<!doctype html>")
    code, seen = run(capsys, "status", "r")
    assert (code, seen["planned"], seen["valid"], seen["missing"]) == (0, 9, 9, 0)


@pytest.mark.charts
def test_every_figure_is_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "r")
    code, written = run(capsys, "report", "r", "--as", "svg")
    page = Path("r/report.html").read_text()
    drawn = [Path(each) for each in written["figures"]]
    assert code == 0
    assert (
        len(drawn) == len(set(drawn)) == page.count('<svg xmlns="http://www.w3.org/2000/svg"') > 2
    )
    for path in drawn:
        root = ET.fromstring(path.read_text())  # noqa: S314 (our own)
        texts = ["".join(each.itertext()) for each in root if each.tag.endswith("text")]
        assert texts[0].startswith("reads: ")
        assert any("simulated host" in text for text in texts), "it is seen without the page"
    code, written = run(capsys, "report", "r", "--as", "png", "--out", "slides")
    assert [Path(each).stem for each in written["figures"]] == [path.stem for path in drawn]
    for each in written["figures"]:
        assert Path(each).read_bytes().startswith(b"\x89PNG")
    for no_folder in ("-", "study.toml"):
        assert status(["report", "r", "--as", "png", "--out", no_folder]) == 2


def slower(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """The pretended machine does that share of what it did."""
    monkeypatch.setattr(fio, "EFFECT", {name: each * share for name, each in fio.EFFECT.items()})


def test_two_folders_are_compared_and_a_regression_is_exit_1(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    days = ("before", 1.0), ("before-2", 0.99), ("before-3", 1.01), ("after", 0.5), ("after-2", 1)
    for name, share in days:
        slower(monkeypatch, share)
        run(capsys, "run", "study.toml", "--pretend", "--out", name)
    former = "--before", "before-2", "--before", "before-3"
    code, answer = run(capsys, "compare", "before", "after", *former, "--after", "after-2")
    assert code == 1
    assert {f["verdict"] for f in answer["findings"]} == {"worse"}
    assert {f["n"] for f in answer["findings"]} == {2}
    assert run(capsys, "compare", "before", "before-2", "--before", "before-3")[0] == 0


def test_one_session_of_each_is_described_and_claimed_with_what_sessions_vary_by(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    slower(monkeypatch, 0.5)
    run(capsys, "run", "study.toml", "--pretend", "--out", "after")
    code, answer = run(capsys, "compare", "before", "after")
    assert code == 0
    assert {(f["verdict"], f["low"]) for f in answer["findings"]} == {("cannot-tell", None)}
    assert answer["recommendation"].startswith("No claim: one session of each")
    assert answer["differs"] == []
    assert run(capsys, "compare", "before", "after", "--between", "5%")[0] == 1
    (noted,) = Path("after/hosts").iterdir()
    noted.write_text(json.dumps({**json.loads(noted.read_text()), "kernel": "7.0.0-new"}))
    answer = run(capsys, "compare", "before", "after")[1]
    assert [(each["kind"], each["after"]) for each in answer["differs"]] == [
        ("kernel", "7.0.0-new")
    ]
    assert status(["compare", "before", "after"]) == 0
    said = capsys.readouterr().out
    assert said.index("before and after,") < said.index("What differs") < said.index("reads  read")
    assert re.search(r"kernel +kernel +6.18.0-fake and 7.0.0-new", said), said
    assert run(capsys, "compare", "before", "after", "--between", "40%")[0] == 0


def test_both_are_run_again_in_turn_and_go_on_where_they_stopped(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    shutil.copytree("before", "copy")
    paired = "compare", "before", "copy", "--paired", "3", "--out", "turns"
    code, answer = run(capsys, *paired)
    assert code == 0
    assert {f["n"] for f in answer["findings"]} == {3}
    assert not [f for f in answer["findings"] if f["verdict"] in ("better", "worse")]
    made = {path.name for path in Path("turns").iterdir()}
    assert made == {f"{side}-{n}" for side in ("before", "after") for n in (1, 2, 3)}
    plans = {path: path.read_bytes() for path in Path("turns").glob("*/plan.jsonl")}
    assert run(capsys, *paired) == (code, answer)
    assert plans == {path: path.read_bytes() for path in plans}, "nothing is measured twice"


def test_in_turn_nothing_runs_that_could_not_be_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    shutil.copytree("before", "copy")
    (here / "slow.toml").write_text(STUDY.replace("iodepth = 32", "iodepth = 1"))
    run(capsys, "run", "slow.toml", "--pretend", "--out", "slow")
    for name in ("noise", "more"):
        run(capsys, "run", "study.toml", "--pretend", "--aa", "--out", name)

    def refused(*words: str) -> str:
        code, answer = run(capsys, "compare", *words)
        assert code == 2
        return str(answer["error"]["message"])

    assert "different load" in refused("before", "slow", "--paired", "2", "--out", "turns")
    assert "A/A study" in refused("noise", "more", "--paired", "2", "--out", "turns")
    for more in (["--before", "slow"], ["--after", "slow"], ["--between", "2%"]):
        assert "do not apply" in refused("before", "copy", "--paired", "2", *more)
    shutil.copytree("slow", "turns/after-2")
    assert "after-2 holds another study" in refused(
        "before", "copy", "--paired", "2", "--out", "turns"
    )
    assert [path.name for path in Path("turns").iterdir()] == ["after-2"]


def test_in_turn_goes_on_where_it_stopped_also_on_the_next_day(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    shutil.copytree("before", "copy")
    paired = "compare", "before", "copy", "--paired", "2"
    monkeypatch.setattr(time, "strftime", lambda *_: "2026-11-20")
    assert run(capsys, *paired)[0] == 0
    shutil.rmtree("results/2026-11-20-paired/after-2")
    monkeypatch.setattr(time, "strftime", lambda *_: "2026-11-21")
    assert run(capsys, *paired)[0] == 0
    assert [path.name for path in Path("results").iterdir()] == ["2026-11-20-paired"]
    assert run(capsys, *paired)[0] == 0, "all of that is done"
    assert len(list(Path("results").iterdir())) == 2


def test_what_means_nothing_of_two_folders_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    shutil.copytree("before", "copy")
    slower(monkeypatch, 0.9)
    run(capsys, "run", "study.toml", "--pretend", "--out", "after")
    code, answer = run(capsys, "compare", "before", "copy")
    assert (code, answer["error"]["message"]) == (
        2,
        "copy holds only runs of before: a copy is not a separate session",
    )
    for words in (
        ["--between", "0%"],
        ["--between=-1%"],
        ["--between", "2"],
        ["--factor", "scheduler"],
    ):
        assert run(capsys, "compare", "before", "after", *words)[0] == 2
    shutil.copytree("after", "again")
    assert run(capsys, "compare", "before", "after", "--after", "again")[0] == 2


def test_few_equal_numbers_without_a_time_are_no_copy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (here / f"{name}.csv").write_text("scheduler,mb_s\nnone,120\nmq,131\n")
        assert run(capsys, "import", f"{name}.csv", "--out", name)[0] == 0
    assert run(capsys, "compare", "one", "two")[0] == 0


def test_another_load_by_the_same_name_is_not_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "before")
    (here / "slow.toml").write_text(STUDY.replace("iodepth = 32", "iodepth = 1"))
    run(capsys, "run", "slow.toml", "--pretend", "--out", "after")
    code, answer = run(capsys, "compare", "before", "after")
    assert code == 2
    assert "reads is excluded: different load (iodepth = 32 and 1)" in answer["error"]["message"]


def test_compare_can_be_narrowed_and_says_what_there_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "r")
    code, _ = run(capsys, "compare", "r", "--factor", "scheduler")
    assert code == 0
    code, answer = run(capsys, "compare", "r", "--where", "scheduler=noop")
    assert code == 2
    assert "none, mq-deadline, bfq" in answer["error"]["advice"]


def test_a_second_run_resumes_an_unfinished_folder_and_begins_anew_after_a_finished_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "short.toml").write_text(STUDY + 'budget = "3s"\n')
    _, first = run(capsys, "run", "short.toml", "--pretend")
    assert first["stopped"]
    assert 0 < first["trials"]["valid"] < 9
    _, again = run(capsys, "run", "short.toml", "--pretend")
    assert again["results"] == first["results"]
    _, whole = run(capsys, "run", "study.toml", "--pretend")
    _, anew = run(capsys, "run", "study.toml", "--pretend")
    assert anew["results"] != whole["results"]


def test_plan_says_trials_settings_commands_and_touches_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(here.rglob("*"))
    code, answer = run(capsys, "plan", "study.toml", "--pretend", "--noise", "5%")
    assert code == 0
    assert len(answer["trials"]) == 9
    assert answer["treatments"][0]["settings"]
    assert answer["commands"]["reads"][0] == "fio"
    assert 9 < answer["seconds"] < 30
    assert 0.01 < answer["resolvable"]["reads"] < 1
    assert sorted(here.rglob("*")) == before


def test_plan_takes_its_noise_from_a_pilot(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "pilot")
    _, answer = run(capsys, "plan", "study.toml", "--pretend", "--pilot", "pilot")
    assert 0.001 < answer["noise"] < 0.2


def test_init_writes_a_study_once_and_never_over_another(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "init", "scheduler", "new.toml")[0] == 0
    text = (here / "new.toml").read_text()
    code, answer = run(capsys, "init", "file", "new.toml")
    assert code == 2
    assert "exists" in answer["error"]["message"]
    assert (here / "new.toml").read_text() == text


def test_the_schema_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["init", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "targets" in schema["properties"]


def test_knobs_shows_one_or_all_with_values(capsys: pytest.CaptureFixture[str]) -> None:
    _, everything = run(capsys, "knobs")
    assert len(everything["tunables"]) > 20
    _, one = run(capsys, "knobs", "queue.scheduler", "--device", "fake0", "--pretend")
    assert one["tunables"][0]["value"] == "none"
    assert "queue.nr_requests" in one["tunables"][0]["moves"]
    code, answer = run(capsys, "knobs", "queue.sheduler")
    assert code == 2
    assert "queue.scheduler" in answer["error"]["advice"]


def test_nothing_is_owed_on_a_machine_that_was_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys, "restore", "--pretend") == (
        0,
        {"format": 1, "done": [], "notes": [], "owed": [], "guard": []},
    )
    assert run(capsys, "status", "--pretend")[0] == 0


def test_doctor_says_a_verdict_with_reasons_and_remedies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, answer = run(capsys, "doctor", "--pretend")
    assert code == (1 if answer["verdict"] == "bad" else 0)
    assert all(check["reason"] for check in answer["checks"])
    assert all(check["remedy"] for check in answer["checks"] if check["verdict"] != "ok")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_calls_iotrial(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["completion", shell]) == 0
    assert "_IOTRIAL_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_every_help_has_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status([verb, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["rnu", "study.toml"], 2, "Did you mean 'run'"),
        (["run", "gone.toml"], 2, "gone.toml"),
        (["run"], 2, "STUDY"),
        (["compare", "gone"], 2, "does not exist"),
        (["report", "."], 2, "not a results folder"),
        (["doctor", "iotrial.invalid"], 6, "iotrial.invalid"),
        (["plan", "study.toml", "--noise", "loud"], 2, "noise"),
    ],
)
def test_a_wrong_command_line_is_exit_2_with_a_sentence(
    here: Path, arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(arguments) == code
    assert said in capsys.readouterr().err


def test_folders_that_share_nothing_cannot_pass_a_gate(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "a")
    (here / "other.toml").write_text(STUDY.replace("workloads.reads", "workloads.others"))
    run(capsys, "run", "other.toml", "--pretend", "--out", "b")
    code, answer = run(capsys, "compare", "a", "b")
    assert code == 2
    assert "share no workload and treatment" in answer["error"]["message"]


def test_the_json_report_goes_to_a_pipe_with_every_number(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "run", "study.toml", "--pretend", "--out", "r")
    assert status(["report", "r", "--as", "json", "--out", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["measurements"]) == 9
    assert all(row["values"]["read.iops"]["value"] > 0 for row in answer["measurements"])
    finding = answer["findings"][0]
    assert finding["value"] / finding["baseline_value"] == pytest.approx(finding["ratio"])
    assert answer["hosts"]["fake"]["kernel"]
    assert not (here / "-").exists()


def test_a_finished_folder_is_answered_and_not_done_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first = run(capsys, "run", "study.toml", "--pretend", "--out", "r")
    trials = sorted((here / "r" / "trials").iterdir())
    code = status(["run", "study.toml", "--pretend", "--out", "r", "--json"])
    said = capsys.readouterr()
    assert code == 0
    assert "is complete" in said.err
    assert json.loads(said.out)["findings"] == first["findings"]
    assert sorted((here / "r" / "trials").iterdir()) == trials


def test_plan_says_what_options_a_treatment_has(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = '[factors.depth]\noption = "iodepth"\nlevels = [32, 1, 8]\n'
    (here / "depth.toml").write_text(STUDY + options)
    assert status(["plan", "depth.toml", "--pretend"]) == 0
    said = capsys.readouterr().out
    assert "treatment scheduler=none depth=32: queue.scheduler=none on loopN, --iodepth=32" in said
    assert said.index("depth=32:") < said.index("depth=1:") < said.index("depth=8:")


def test_a_kernel_parameter_that_is_not_here_is_said_to_be_none_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status(["knobs", "sysctl.vm.swapines", "--pretend"]) == 0
    said = capsys.readouterr().out
    assert "not here" in said
    assert "Did you mean swappiness" in said
    assert status(["knobs", "sysctl.vm.swappiness", "--pretend"]) == 0
    assert "not here" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"iotrial|2|"])
def test_a_journal_that_is_empty_or_cut_is_never_taken_for_no_debt(
    content: bytes, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTRIAL_STATE", str(here / "state"))
    folder = here / "state" / "journal.d"
    folder.mkdir(parents=True, mode=0o700)
    (here / "state").chmod(0o700)
    (folder / "0123456789abcdef.journal").write_bytes(content)
    for verb in ("status", "restore", "restore"):
        assert status([verb]) == 4, verb
        said = "".join(capsys.readouterr())
        assert "more settings may have to be restored" in " ".join(said.split())
        assert "No setting is left to restore." not in said
    assert status(["restore", "--forget"]) == 0
    assert "discarded: " in capsys.readouterr().out
    assert status(["status"]) == 0


def test_a_state_folder_that_others_may_write_is_refused_by_every_verb(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTRIAL_STATE", str(here / "state"))
    folder = here / "state" / "journal.d"
    folder.mkdir(parents=True, mode=0o700)
    (here / "state").chmod(0o700)
    (folder / "0123456789abcdef.journal").write_bytes(b"planted")
    folder.chmod(0o777)
    for words in (["status"], ["restore"], ["restore", "--forget"], ["doctor"]):
        assert status(words) == 3, words
        said = "".join(capsys.readouterr())
        assert f"{folder} cannot be trusted" in said.replace("\n", "")
        assert "planted" not in said
    assert (folder / "0123456789abcdef.journal").exists()


def test_a_plan_that_is_refused_is_one_document_with_its_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STUDY.replace("levels = [", 'levels = ["nosuch", ', 1)
    assert text != STUDY
    (here / "odd.toml").write_text(text)
    assert status(["plan", "odd.toml", "--pretend", "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"]["exit"] == 2


@pytest.mark.parametrize("arguments", [("knobs",), ("knobs", "--json"), ("init", "scheduler")])
def test_a_reader_that_goes_away_ends_a_verb_as_it_ends_other_tools(
    here: Path, arguments: tuple[str, ...]
) -> None:
    """By rich, as one document, and as plain text; nobody reads from the beginning."""
    readable, writable = os.pipe()
    os.close(readable)
    command = [sys.executable, "-c", "from iotrial.cli.main import main; main()", *arguments]
    done = subprocess.run(
        command, cwd=here, stdout=writable, stderr=subprocess.PIPE, check=False, timeout=120
    )
    os.close(writable)
    assert done.returncode == 141
    assert done.stderr == b""


INTERRUPTED = """
import sys
class Interruption:
    def find_spec(self, name, *_):
        if name == "iotrial.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interruption())
from iotrial.cli import entry
entry()
"""


def test_an_interruption_while_modules_are_loaded_ends_in_words() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "\niotrial: interrupted\n")
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "scripts"
    ]
    assert scripts == {"iotrial": "iotrial.cli:entry"}


def test_options_of_a_comparison_without_one_are_told_with_what_to_add(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, named in (
        (("--junit", "x.xml"), "--junit needs"),
        (("--junit", "x.xml", "--store", "s"), "--store, --junit need"),
    ):
        assert status(["run", "study.toml", "--pretend", *more]) == 2
        said = capsys.readouterr().err
        assert f"{named} --against" in said
        assert "Add --against last, best or a tag" in said


def test_a_trial_of_what_is_kept_is_refused_on_a_machine_that_ends_with_the_command(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'format = 1\nname = "p"\n[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = 10\n'
    (here / "p.toml").write_text(text)
    code, tried = run(capsys, "keep", "p.toml", "try", "--pretend")
    assert code == 2
    assert "apply --pretend" in json.dumps(tried)
    code, applied = run(capsys, "keep", "p.toml", "apply", "--pretend")
    assert code == 0
    assert "/etc/sysctl.d/99-iotrial-p.conf" in json.dumps(applied)


WHOLE = """format = 1
name = "p"
[[keep]]
tunable = "queue.scheduler"
value = "bfq"
on = "fake0"
[[keep]]
tunable = "sysctl.vm.swappiness"
value = 10
[[keep]]
tunable = "mm.thp"
value = "never"
[[keep]]
tunable = "module.loop.max_loop"
value = 16
"""


def test_what_keep_does_is_what_show_tells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that changes the machine, and every control file that is written."""
    (here / "p.toml").write_text(WHOLE)
    code, told = run(capsys, "keep", "p.toml")
    assert code == 0
    shown = {
        f"{kind} {what[0]}" if kind != "run" else " ".join(what) for kind, *what in told["does"]
    }
    shown |= {f"save {each['path']}" for each in told["files"]}
    host = FakeHost()
    host.machine.programs["udevadm"] = host.machine.programs.get(
        "udevadm", FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True)
    )
    profile = parse(WHOLE, "p.toml")
    apply(host, profile, export(profile).files)
    assert {each for each in host.log if "/kept.d" not in each} == shown


@pytest.mark.parametrize("on", [(), ("--on", "root@box7")])
def test_show_ends_with_the_command_that_tries_it(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    on: tuple[str, ...],
) -> None:
    (here / "a p.toml").write_text(WHOLE)
    monkeypatch.setenv("IOTRIAL_CALLED", "./dev iotrial")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert status(["keep", "a p.toml", "--name", "mine", *on]) == 0
    said = " ".join(capsys.readouterr().err.split())
    words = " ".join(("keep 'a p.toml'", *on, "--name mine try --for 5m"))
    assert said.endswith(("" if on else "sudo ") + f"./dev iotrial {words}")
