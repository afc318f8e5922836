"""A/A studies: made from a study, stored, read back, told."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.formats import telemetry
from iotrial.formats.fio.log import course
from iotrial.hosts.fake import FakeHost
from iotrial.model.study import Study
from iotrial.model.tool import Load, RateSeries, ToolTarget
from iotrial.model.workload import Workload
from iotrial.plan.aa import as_aa, at_baseline, detour, noted, restored, with_levels
from iotrial.plan.available import HostCapabilities
from iotrial.plan.design import cells
from iotrial.plan.load import parse_study
from iotrial.plan.stages import next_trials
from iotrial.store import open_results, studies_in
from iotrial.tools.fio import TOOL as FIO

STUDY = """
question = "Which scheduler and depth?"
[targets.disk]
loop = { size = "64MiB" }
[workloads.randread]
tool = "fio"
options = { rw = "randread", bs = "4k", ramp_time = "1s", runtime = "3s" }
[workloads.seqread]
tool = "fio"
options = { rw = "read", bs = "128k", ramp_time = "1s", runtime = "3s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "bfq"]
[factors.depth]
option = "iodepth"
workload = "randread"
levels = [1, 8]
baseline = 8
[design]
blocks = 4
[decide]
primary = { randread = "read.iops", seqread = "read.bw" }
"""


BASELINE = {"scheduler": "none", "depth": "8"}


def study(text: str = STUDY) -> Study:
    return parse_study(text, "s.toml", lambda _: "")


def ready(arms: int = 2, blocks: int = 0) -> Study:
    return at_baseline(as_aa(study(), arms, blocks), {"scheduler": "none", "depth": "8"})


def test_every_workload_has_the_baseline_once_for_each_arm_and_nothing_else() -> None:
    made = ready(arms=3)
    assert cells(made, "randread") == tuple(
        (("scheduler", "none"), ("depth", "8"), ("arm", arm)) for arm in ("A", "A2", "A3")
    )
    assert cells(made, "seqread")[0] == (("scheduler", "none"), ("arm", "A"))
    assert len(next_trials(made, (), ())) == 4 * 2 * 3
    assert len(next_trials(ready(blocks=7), (), ())) == 7 * 2 * 2


def test_arms_come_in_a_fresh_order_in_each_block() -> None:
    trials = [t for t in next_trials(ready(blocks=30), (), ()) if t.workload == "seqread"]
    first = [t.treatment[-1][1] for t in trials[::2]]
    assert 5 < first.count("A") < 25


def test_the_results_of_an_a_a_study_are_never_mixed_with_those_of_its_study() -> None:
    assert len({study().digest, as_aa(study()).digest, as_aa(study(), 3).digest}) == 3
    assert as_aa(study()).digest == as_aa(study(), 2, 4).digest  # 4 blocks are its own


def test_another_treatment_is_held_before_each_trial_so_that_settings_are_written() -> None:
    made = ready(blocks=30)
    before = {detour(made, t) for t in next_trials(made, (), ()) if t.workload == "seqread"}
    assert before == {(("scheduler", "mq-deadline"),), (("scheduler", "bfq"),)}
    randread = [t for t in next_trials(made, (), ()) if t.workload == "randread"]
    assert all(detour(made, t) != (("scheduler", "none"), ("depth", "8")) for t in randread)


def test_an_ordinary_study_takes_no_detour_and_notes_nothing() -> None:
    trial = next_trials(study(), (), ())[0]
    assert detour(study(), trial) == ()
    assert noted(study()) == {}
    assert at_baseline(study(), {}) == study()


def test_a_study_without_factors_has_nothing_to_write_and_two_arms_all_the_same() -> None:
    text = STUDY[: STUDY.index("[factors")] + STUDY[STUDY.index("[design]") :]
    made = at_baseline(as_aa(study(text)), {})
    assert cells(made, "seqread") == ((("arm", "A"),), (("arm", "A2"),))
    assert detour(made, next_trials(made, (), ())[0]) == ()


@pytest.mark.parametrize(("arms", "blocks"), [(1, 4), (21, 4), (2, 1)])
def test_what_is_no_a_a_study_is_refused(arms: int, blocks: int) -> None:
    with pytest.raises(UsageError):
        as_aa(study(), arms, blocks)


def test_a_baseline_that_the_study_excludes_is_refused() -> None:
    text = STUDY + '[[exclude]]\nscheduler = "none"\ndepth = 8\n'
    with pytest.raises(UsageError, match="randread"):
        at_baseline(as_aa(study(text)), {"scheduler": "none", "depth": "8"})


def test_a_factor_called_arm_keeps_its_name() -> None:
    made = at_baseline(
        as_aa(study(STUDY.replace("factors.depth", "factors.arm"))),
        {"scheduler": "none", "arm": "8"},
    )
    assert [factor.name for factor in made.factors] == ["scheduler", "arm", "arm2"]


def test_what_is_noted_gives_the_same_study_back() -> None:
    made = as_aa(study(), 3, 6)
    aa = json.loads(json.dumps(noted(with_levels(made, BASELINE))))["aa"]
    again = restored(study(), HostCapabilities(), aa)
    assert again == at_baseline(made, BASELINE)


def log(times: list[int], values: list[int], direction: int = 0) -> bytes:
    rows = zip(times, values, strict=True)
    return "".join(f"{t}, {v}, {direction}, 0, 0\n" for t, v in rows).encode()


def test_the_rates_of_all_jobs_are_added_up() -> None:
    times = list(range(100, 2100, 100))
    logs = {"rate_iops.1.log": log(times, [50] * 20), "rate_iops.2.log": log(times, [70] * 20)}
    found = course(logs, "iops", "read")
    assert found is not None
    assert found.step == 0.1
    assert found.values == pytest.approx([120.0] * 20)


def test_lines_that_come_late_move_no_amount() -> None:
    times = [98, 203, 300, 401, 499, 603, 700, 798, 900, 1001]
    found = course({"rate_bw.1.log": log(times, [10] * 10)}, "bw", "read")
    assert found is not None
    assert found.values == pytest.approx([10 * 1024.0] * len(found.values), rel=0.02)


def test_a_window_without_a_line_had_no_rate() -> None:
    times = [100, 200, 300, 400, 700, 800, 900, 1000]
    found = course({"rate_iops.1.log": log(times, [10] * 8)}, "iops", "read")
    assert found is not None
    assert np.round(found.values, 9).tolist() == [10, 10, 10, 10, 0, 0, 10, 10, 10, 10]


def test_directions_are_told_apart_or_added() -> None:
    times = list(range(100, 1100, 100))
    logs = {"rate_iops.1.log": log(times, [10] * 10) + log(times, [3] * 10, 1)}
    for operation, rate in (("read", 10), ("write", 3), ("", 13)):
        found = course(logs, "iops", operation)
        assert found is not None
        assert found.values == pytest.approx([rate] * 10)
    assert course(logs, "iops", "trim") is None


@pytest.mark.parametrize("data", [b"", b"no log\n", b"100, 5, 0\n"])
def test_what_is_no_log_of_averages_has_no_rates(data: bytes) -> None:
    assert course({"rate_iops.1.log": data}, "iops", "read") is None


def test_fio_is_asked_for_about_a_hundred_averages() -> None:
    load = FIO.command(
        Workload("w", "fio", (("rw", "read"), ("runtime", "12s"))),
        ToolTarget("/dev/loop0", "device", 2**20),
        {"io_uring": 1},
    )
    argv = FIO.traced(load, Workload("w", "fio", (("runtime", "12s"),))).argv
    assert argv[:4] == load.argv[:4]
    assert {"--write_iops_log=rate", "--write_bw_log=rate", "--log_avg_msec=120"} <= set(argv)
    assert set(load.argv) < set(argv)
    job = Workload("w", "fio", jobfile="[a]\nrw=read\nruntime=1\nfilename=/x\n")
    short = FIO.traced(Load((*load.argv[:4], "job.fio")), job).argv
    assert short[-1] == "job.fio"
    assert "--log_avg_msec=20" in short


def sample(time: float, sectors: int) -> str:
    return json.dumps({"t": time, "disk": {"sectors_read": sectors, "sectors_written": 0}})


def test_telemetry_gives_bytes_per_second_and_leaves_out_the_odd_last_sample() -> None:
    lines = [sample(0, 0), sample(1, 2000), sample(2, 4000), sample(3, 8000), sample(3.1, 9000)]
    assert telemetry.course("\n".join(lines).encode()) == RateSeries(
        1.0, (1024e3, 1024e3, 2048e3), "the device's bytes"
    )


@pytest.mark.parametrize("text", ["", '{"t": 0}', '{"t": 0, "disk": {}}', '{"t": 0, "di'])
def test_telemetry_without_a_device_says_nothing(text: str) -> None:
    assert telemetry.course(text.encode()) is None


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path) -> Path:
    """An A/A study that a made-up machine did."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(STUDY)
    code, _ = invoke("run", "s.toml", "--aa", "--pretend", "--json")
    assert code == 0
    return next((tmp_path / "results").iterdir())


def invoke(*words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = status([*words])
    return code, said.getvalue()


def test_run_aa_measures_the_noise_of_the_made_up_machine(done: Path) -> None:
    assert done.name.endswith("-s-aa")
    floors = json.loads((done / "noise.json").read_text())["noise"]
    assert [each["floor"]["workload"] for each in floors] == ["randread", "seqread"]
    for each in floors:
        inside = each["floor"]["within"]
        assert inside["low"] < 0.03 < inside["high"] * 1.5  # the fake fio's noise is 3 %
        assert len(each["efforts"]) == 4
    assert (floors[0]["treatments"], floors[0]["comparisons"]) == (6, 5)
    assert floors[1]["treatments"] == 3


def test_an_a_a_folder_is_an_ordinary_one(done: Path) -> None:
    results = open_results(done)
    assert results.study.aa is not None
    assert results.study.aa.of is not None
    assert results.facts["fake"]["aa"] == {
        "arms": 2, "levels": {"scheduler": "none", "depth": "8"}
    }  # fmt: skip
    assert studies_in(done.parent, as_aa(study()).digest, pretended=True) == [done]
    assert studies_in(done.parent, as_aa(study()).digest) == []
    code, said = invoke("compare", str(done), "--json")
    answer = json.loads(said)
    assert code == 0
    assert {f["factor"] for f in answer["findings"]} == {"arm"}
    assert "noise floor" in answer["recommendation"]
    assert answer["noise"] == json.loads((done / "noise.json").read_text())["noise"]
    assert invoke("report", str(done), "--as", "md", "--out", "-")[0] == 0
    assert "to detect a difference" in invoke("compare", str(done))[1]


def test_run_again_finds_nothing_left_to_do(done: Path) -> None:
    code, said = invoke("run", "s.toml", "--aa", "--pretend", "--json", "--out", str(done))
    assert code == 0
    assert json.loads(said)["trials"]["done"] == 16


def test_a_study_that_was_interrupted_is_resumed_with_the_same_arms(done: Path) -> None:
    last = max((done / "trials").iterdir())
    shutil.rmtree(last)
    lines = (done / "measurements.jsonl").read_text().splitlines(keepends=True)
    (done / "measurements.jsonl").write_text("".join(lines[:-1]))
    before = [trial.treatment for trial in open_results(done).planned]
    code, said = invoke("run", "s.toml", "--aa", "--pretend", "--json")
    answer = json.loads(said)
    assert code == 0
    assert Path(answer["results"]).resolve() == done.resolve()
    assert answer["trials"]["done"] == 16
    assert [trial.treatment for trial in open_results(done).planned] == before


def test_plan_takes_the_newest_noise_floor_of_the_same_study_and_says_so(done: Path) -> None:
    answer = json.loads(invoke("plan", "s.toml", "--pretend", "--json")[1])
    floors = json.loads((done / "noise.json").read_text())["noise"]
    measured = {each["floor"]["workload"]: each["floor"]["within"]["sd"] for each in floors}
    assert answer["noise_from"]["folder"] == str(done.relative_to(Path.cwd()))
    assert answer["noise_from"]["workloads"] == measured
    assert 0 <= answer["noise_from"]["age"] < 3600
    assert "noise: A/A study results/" in invoke("plan", "s.toml", "--pretend")[1]


def test_plan_does_not_take_that_of_another_workload_unless_told_to(done: Path) -> None:
    Path("other.toml").write_text(STUDY.replace('"4k"', '"8k"'))
    alone = json.loads(invoke("plan", "other.toml", "--pretend", "--json")[1])
    assert alone["noise_from"]["folder"] is None
    assert alone["noise"] == 0.05
    told = invoke("plan", "other.toml", "--pretend", "--json", "--noise", str(done))[1]
    assert json.loads(told)["noise_from"]["folder"] == str(done)


def test_a_noise_that_is_said_counts_before_any_that_was_measured(done: Path) -> None:
    answer = json.loads(invoke("plan", "s.toml", "--pretend", "--json", "--noise", "3%")[1])
    assert answer["noise_from"]["folder"] is None
    assert answer["noise"] == 0.03
    assert invoke("plan", "s.toml", "--pretend", "--noise", "nowhere")[0] == 2


def test_arms_and_blocks_need_aa(tmp_path: Path, state: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY)
    for words in (("--arms", "3"), ("--blocks", "3")):
        assert invoke("run", str(tmp_path / "s.toml"), "--pretend", *words)[0] == 2


def test_the_baseline_in_force_is_kept_though_other_levels_were_held_before(done: Path) -> None:
    for record in open_results(done).records:
        assert dict(record.trial.treatment)["scheduler"] == "none"
        scheduler = {value for _, name, value in record.before if name == "queue.scheduler"}
        assert scheduler == {"none"}


def test_an_a_a_study_is_frozen_data() -> None:
    assert dataclasses.is_dataclass(ready().aa)


def test_the_settings_of_another_treatment_are_really_written_before_each_trial(
    tmp_path: Path, state: Path
) -> None:
    host = FakeHost()
    text = STUDY[: STUDY.index("[factors.depth]")] + STUDY[STUDY.index("[design]") :]
    made = as_aa(study(text), blocks=2)
    execute_study(made, host, tmp_path / "r", interruption=Interruption())
    load = [at for at, what in enumerate(host.log) if what.startswith("fio ")]
    assert len(load) == 8
    for begin, end in itertools.pairwise(load):
        written = [what for what in host.log[begin:end] if what.endswith("/queue/scheduler")]
        assert len(written) == 2, written  # there and back
