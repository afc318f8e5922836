"""`iotrial tune`: the study that it makes, the loads that it takes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from iotrial.cli import run, tune
from iotrial.cli.main import status
from iotrial.errors import SettingLost, SettingRefused, StudyError, UsageError
from iotrial.hosts.fake import FakeHost
from iotrial.model.study import Study
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import Workload
from iotrial.plan.candidates import Candidate
from iotrial.plan.load import parse_study
from iotrial.plan.template import templates
from iotrial.plan.tune_request import (
    LONGEST,
    PATTERNS,
    GivenLoad,
    TuneRequest,
    heading,
    length_of,
    load_named,
    load_seconds,
    names,
    study_text,
    with_length,
)

GOLDEN = """\
# iotrial tune /dev/sdb --load=randread (load d13f9534)
question = "Which levels of 2 knobs are best for read.iops?"
[hosts.there]
ssh = "root@box7"
[targets.target]
device = "/dev/sdb"
host = "there"
[workloads.load]
tool = "fio"
options = { rw = "randread", iodepth = 32, bs = "4k" }
# the order of requests
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
baseline = "none"
# what is read in vain
[factors.read_ahead_kb]
tunable = "queue.read_ahead_kb"
levels = ["unset", "512"]
baseline = "unset"
[design]
kind = "tune"
budget = "7200s"
[decide]
primary = "read.iops"
margin = 0.03
limits = { "read.clat.p99" = "2000us" }
"""
KNOBS = (
    Candidate("queue.scheduler", ("none", "bfq"), "the order of requests", "none"),
    Candidate("queue.read_ahead_kb", ("unset", "512"), "what is read in vain", "128"),
)
LOOP = ("tune", "loop", "--size", "64MiB", "--pretend")


def request(**more: Any) -> TuneRequest:  # noqa: ANN401 (fields of the request)
    load = load_named("randread", 10.0)
    words = ["/dev/sdb", "--load=randread"]
    return TuneRequest(
        heading(words, load),
        {"device": "/dev/sdb"},
        load,
        7200.0,
        **{"metric": "read.iops", **more},
    )


def parsed(text: str, files: Callable[[str], str] = lambda name: name) -> Study:
    return parse_study(text, "tune-x.toml", files)


def workload_of(load: GivenLoad) -> Workload:
    asked = TuneRequest("# x", {"loop": {"size": 1 << 26}}, load, 3600.0)
    return parsed(study_text(asked), load.files.__getitem__).workloads[0]


# -- the study ------------------------------------------------------------------------------------


def test_the_text_of_the_study_is_as_it_was() -> None:
    text = study_text(request(ssh="root@box7", limit=("read.clat.p99", 0.002)), KNOBS)
    assert text == GOLDEN


def test_the_study_is_one() -> None:
    study = parsed(study_text(request(), KNOBS))
    assert study.design.kind == "tune"
    assert study.design.budget == 7200
    assert [factor.baseline for factor in study.factors] == ["none", "unset"]
    assert study.decide.leading == {"load": "read.iops"}
    assert parsed(study_text(request())).factors == ()


def test_factors_have_short_names_where_these_differ() -> None:
    known = ["sysctl.vm.dirty_ratio", "queue.read_ahead_kb", "nfs.read_ahead_kb"]
    assert names(known) == ["dirty_ratio", "queue.read_ahead_kb", "nfs.read_ahead_kb"]
    both = [Candidate(name, ("64", "128"), "why", "64") for name in known[1:]]
    study = parsed(study_text(request(), both))
    assert [factor.name for factor in study.factors] == known[1:]


# -- the load -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_a_load(pattern: str) -> None:
    load = workload_of(load_named(pattern, 10.0))
    assert load.option("rw") == pattern
    assert load.option("bs") == ("4k" if pattern.startswith("rand") else "1m")


def test_a_job_file_is_a_load_that_is_aimed_at_the_target(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[a]\nfilename=/dev/sdz\nrw=read\n[b]\nrw=randread\n")
    load = load_named(str(tmp_path / "job.fio"), 10.0)
    text = (tmp_path / "job.fio").read_text().replace("[b]\n", "[b]\nfilename=/dev/sdy\n")
    load = GivenLoad(load.table, dict.fromkeys(load.files, text))
    options = with_length(load, workload_of(load), 18.5).table["options"]
    assert options["filename"] == "target"
    assert options["time_based"] == 1
    assert options["runtime"] == "15417ms"


def test_a_job_file_that_says_how_long_it_runs_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[a]\nrw=read\nruntime=7s\n")
    load = load_named(str(tmp_path / "job.fio"), 10.0)
    assert with_length(load, workload_of(load), 18.5).table == load.table


def test_a_workload_of_a_study_is_a_load(tmp_path: Path) -> None:
    study = tmp_path / "own.toml"
    study.write_text(
        "[targets.disk]\nloop.size = '64MiB'\n"
        "[workloads.one]\ntool = 'fio'\noptions = { rw = 'read' }\n"
        "[workloads.two]\ntool = 'fio'\njobfile = 'own.fio'\n"
    )
    (tmp_path / "own.fio").write_text("[a]\nrw=randread\n")
    assert load_named(f"{study}:one", 10.0).table == {"tool": "fio", "options": {"rw": "read"}}
    job = load_named(f"{study}:two", 10.0)
    assert job.table["jobfile"] == str(tmp_path / "own.fio")
    assert workload_of(job).jobfile == "[a]\nrw=randread\n"
    with pytest.raises(UsageError, match="has 2 workloads"):
        load_named(str(study), 10.0)
    with pytest.raises(UsageError, match="no workload 'tow'"):
        load_named(f"{study}:tow", 10.0)


def test_what_decides_in_the_study_of_a_load_decides_here() -> None:
    assert load_named("etcd", 10.0).metric == "write.iops"
    assert load_named("randread", 10.0).metric == ""


SEVERAL = (
    "bonnie", "clustermd", "database", "file", "mount", "nvme", "panasas", "scheduler", "violin",
    "writeback",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _ in templates() if name not in SEVERAL])
def test_a_template_is_a_load(name: str) -> None:
    assert load_named(name, 10.0).table["tool"]


@pytest.mark.parametrize("name", SEVERAL)
def test_of_a_template_with_several_loads_one_is_named(name: str) -> None:
    with pytest.raises(UsageError, match="workloads") as refused:
        load_named(name, 10.0)
    first = refused.value.advice.removeprefix("Add one: ").split(" or ")[0]
    assert load_named(first, 10.0).table["tool"]


# -- how long -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "seconds"), [(7200.0, LONGEST - 1.5), (800.0, 8.5), (60.0, 2.4)]
)
def test_a_trial_is_short_enough_for_a_search(budget: float, seconds: float) -> None:
    assert load_seconds(budget) == pytest.approx(seconds)


def test_more_knobs_have_more_and_shorter_trials() -> None:
    assert load_seconds(1800.0, 18) == pytest.approx(8.5)
    assert load_seconds(1800.0, 3) == load_seconds(1800.0)


def test_stages_of_a_job_file_share_the_time() -> None:
    text = "[a]\nrw=read\n[b]\nstonewall\nrw=randread\n"
    load = GivenLoad({"tool": "fio", "jobfile": "x.fio"}, {"x.fio": text})
    long = with_length(load, workload_of(load), 18.5)
    assert long.table["options"]["runtime"] == "7708ms"
    seconds, count = length_of(workload_of(long), ToolTarget("/dev/x", "device"), 7200.0)
    assert seconds == pytest.approx(18.85, abs=0.1)
    assert count == 353


def test_too_little_time_is_refused() -> None:
    load = load_named("randread", 2.0)
    load = with_length(load, workload_of(load), 2.4)
    with pytest.raises(UsageError, match="room for 14 trials"):
        length_of(workload_of(load), ToolTarget("/dev/x", "device"), 60.0)


# -- the command ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IOTRIAL_STATE", str(tmp_path / "state"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert status([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_plan_is_written_and_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *LOOP, "--load", "randread", "--plan", "study.toml")
    assert Path("study.toml").read_text() == found["study"]
    assert not Path("results").exists()
    assert found["knobs"][0]["knob"] == "queue.scheduler"
    assert found["knobs"][0]["levels"][0] == "unset"
    assert "direct" in found["not_varied"]["queue.read_ahead_kb"]
    assert status(["plan", "study.toml", "--pretend"]) == 0


def test_a_buffered_load_has_more_than_twelve_knobs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.fio").write_text("[a]\nrw=rw\nbs=64k\nnumjobs=2\n")
    words = (*LOOP, "--load", "job.fio", "--write", "--plan", "study.toml")
    assert len(told(capsys, *words)["knobs"]) >= 12


def test_a_run_ends_with_a_proof_and_the_same_command_does_not_run_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (*LOOP, "--load", "randread", "--only", "--knobs", "queue.scheduler=bfq",
             "--knobs", "queue.nomerges=2", "--out", "r")  # fmt: skip
    found = told(capsys, *words)
    assert found["trials"]["done"]
    assert {each["knob"] for each in found["knobs"]} == {"queue.scheduler", "queue.nomerges"}
    before = Path("r/plan.jsonl").read_bytes()
    assert told(capsys, *words)["trials"] == found["trials"]
    assert Path("r/plan.jsonl").read_bytes() == before


def test_an_unfinished_run_is_resumed_by_its_first_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (*LOOP, "--load", "randread", "--only", "--knobs", "queue.scheduler=bfq",
             "--knobs", "queue.nomerges=2")  # fmt: skip
    told(capsys, *words)
    (folder,) = Path("results").iterdir()
    lines = (folder / "plan.jsonl").read_text().splitlines(keepends=True)
    (folder / "plan.jsonl").write_text("".join(lines[:3]))
    for trial in sorted((folder / "trials").iterdir())[2:]:
        for each in sorted(trial.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() else each.unlink()
        trial.rmdir()
    for name in ("measurements.jsonl", "findings.json"):
        (folder / name).unlink(missing_ok=True)
    told(capsys, *words[:-2], *words[-2:])
    assert [each.name for each in Path("results").iterdir()] == [folder.name]


def rejecting(monkeypatch: pytest.MonkeyPatch, **refused: Any) -> None:  # noqa: ANN401 (its parts)
    """The kernel rejects a value when it is set for the first time."""

    def execute(output: Any, study: Study, folder: Path, *, pretend: bool) -> Any:  # noqa: ANN401
        asked = {pair for f in study.factors for level in f.levels for pair in level.settings}
        if (refused["tunable"], refused["value"]) in asked:
            if refused["everywhere"]:
                raise SettingRefused("the kernel rejects it", **refused)
            whole = StudyError("this kernel does not accept part of the study")
            lost = SettingLost("the kernel rejects it", tunable="queue.nomerges", value="2")
            whole.refused = (lost, lost)
            raise whole
        return run.execute(output, study, folder, pretend=pretend)

    monkeypatch.setattr(tune, "execute", execute)


THREE = (*LOOP, "--load", "randread", "--for", "5m", "--not", "cpu.*", "--not", "queue.r*")


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_level_that_the_kernel_rejects_is_left_out_before_the_first_trial(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, everywhere: bool
) -> None:
    rejecting(monkeypatch, tunable="queue.nomerges", value="2", everywhere=everywhere)
    words = (*THREE, "--knobs", "queue.rotational=1")
    found = told(capsys, *words)
    levels = {each["knob"]: each["levels"] for each in found["knobs"]}
    assert levels.get("queue.nomerges") == (None if everywhere else ["unset", "1"])
    assert ("queue.nomerges" in found["not_varied"]) is everywhere


def test_a_named_knob_that_the_kernel_rejects_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rejecting(monkeypatch, tunable="queue.nomerges", value="2", everywhere=True)
    assert status([*THREE, "--knobs", "queue.nomerges=2"]) == 3
    assert "the kernel rejects it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--load", "none.fio"), 2, "--load none.fio does not exist"),
        (("--load", "randred"), 2, "Did you mean 'randread'?"),
        (("--load", "randwrite"), 3, "Add --write"),
        (("--load", "randread", "--knobs", "queue.schedulr"), 2, "Did you mean queue.scheduler?"),
        (("--load", "randread", "--not", "queue.schedulr"), 2, "Did you mean queue.scheduler?"),
        (("--load", "randread", "--knobs", "queue.nr_requests=1"), 2, "1 is below 4"),
        (("--load", "randread", "--only", "--knobs", "queue.nomerges"), 2, "needs two knobs"),
        (("--load", "randread", "--not", "*"), 2, "a search needs two knobs, and 0"),
        (("--load", "randread", "--for", "30s"), 2, "a search needs 20 at least"),
        (("--load", "randread", "--p99", "2"), 2, "has no unit"),
        (("--load", "randread", "--metric", "read.iopps"), 2, "read.iopps"),
        (("--load", "randread", "--knobs", "scsi.queue_depth=4"), 3, "a loop device does not"),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([*LOOP, *words]) == code
    assert said in capsys.readouterr().err
    assert not Path("results").exists()


def test_without_root_a_study_is_written_and_nothing_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = FakeHost()
    host.unprivileged = "this is user 1000"
    monkeypatch.setattr(tune, "machine", lambda **_: nullcontext(host))
    monkeypatch.setattr(run, "machines", lambda **_: pytest.fail("it is run"))
    words = ("tune", "loop", "--size", "64MiB", "--load", "randread")
    assert status([*words]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "a search changes settings, which needs root: this is user 1000" in said
    assert "--plan FILE writes the study without root" in said
    assert not Path("results").exists()
    assert status([*words, "--plan", "study.toml"]) == 0
    assert Path("study.toml").exists()


def test_a_target_that_is_not_there_or_several_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert status(["tune", "/dev/none", "--load", "randread", "--pretend"]) == 3
    assert status(["tune", "box[1-2]:/dev/sdb", "--load", "randread", "--pretend"]) == 2
    assert "is several targets" in capsys.readouterr().err
    assert status(["tune", "/tmp", "--load", "randread", "--pretend"]) == 2
    assert "--size" in capsys.readouterr().err
