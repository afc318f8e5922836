"""The search for the highest value: it finds it with few trials, claims what it may, resumes."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from load_surfaces import ENGINES, Device, study

from iotrial.cli.main import status
from iotrial.cli.run import exit_code
from iotrial.errors import StudyError
from iotrial.model.finding import Comparison
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.plan.ahead import all_blocks, most_left, standing
from iotrial.plan.design import workload_of
from iotrial.plan.load import parse_study
from iotrial.plan.saturate import FINAL, MOST_SEARCHED, SEARCH, grid, job_counts
from iotrial.plan.stages import next_trials
from iotrial.report.ceiling import LOOKS, curve_figure, curve_spec
from iotrial.stats import ceiling
from iotrial.stats.ceiling import MeasuredCell
from iotrial.stats.judge import judge
from iotrial.stats.race import raced
from iotrial.tools.fio import job_of

OF = study()
CELLS = OF.treatments(SEARCH)
GRID = grid(OF, CELLS)
RUNS = 60


def load(cell: Treatment) -> tuple[int, int, int, int]:
    said = dict(cell)
    return ENGINES.index(said["engine"]), int(said["jobs"]), int(said["depth"]), int(said["batch"])


def measured(device: Device, trial: Trial, sd: float, seed: int) -> TrialRecord:
    chance = random.Random(f"{seed} {trial.id}")
    place = load(trial.treatment)
    values = {
        "read.iops": device.rate(*place) * math.exp(chance.gauss(0, sd)),
        "read.clat.p99": device.p99(*place) * math.exp(chance.gauss(0, sd)),
        "read.clat.mean": device.p99(*place) / 2,
    }
    units = {"read.iops": "1/s"}
    return TrialRecord(
        trial,
        "valid",
        0.0,
        1.0,
        measurements=tuple(Measurement(n, v, units.get(n, "s")) for n, v in values.items()),
    )


def executed(
    of: Study, device: Device, sd: float, seed: int = 1, most: int = 500
) -> tuple[list[Trial], list[TrialRecord]]:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while len(planned) < most and (more := next_trials(of, planned, done)):
        planned += more
        done += [measured(device, trial, sd, seed) for trial in more]
    return planned, done


def judged(of: Study, planned: list[Trial], done: list[TrialRecord]) -> Comparison:
    return judge(Results(Path("r"), of, tuple(planned), tuple(done)))


def searched(device: Device, sd: float, seed: int) -> tuple[float, int]:
    """The best finalist as a share of the best of the grid, and the trials of the search."""
    chance = random.Random(seed)
    truth = [device.rate(*load(cell)) for cell in CELLS]

    def seen(cell: int) -> MeasuredCell:
        return MeasuredCell(truth[cell] * math.exp(chance.gauss(0, sd)))

    known = {cell: seen(cell) for cell in ceiling.start(GRID)}
    while len(known) < MOST_SEARCHED and (cell := ceiling.next_cell(GRID, known)) is not None:
        known[cell] = seen(cell)
    found = ceiling.finalists(GRID, known)
    return max(truth[cell] for cell in found) / max(truth), len(known)


@pytest.mark.parametrize("sd", [0.01, 0.03])
def test_a_search_finds_what_is_within_2_percent_of_the_best_in_95_of_100(sd: float) -> None:
    found = [searched(Device.drawn(seed), sd, seed) for seed in range(RUNS)]
    good = sum(share >= 0.98 for share, _ in found)
    assert good >= 0.95 * RUNS, sorted(found)[:4]
    assert max(count for _, count in found) <= MOST_SEARCHED < 0.1 * len(CELLS)


def test_it_begins_in_the_middle_with_every_engine() -> None:
    first = next_trials(OF, (), ())
    assert {trial.workload for trial in first} == {SEARCH}
    assert {load(trial.treatment)[0] for trial in first} == set(range(len(ENGINES)))
    assert len({load(trial.treatment)[1] for trial in first}) > 2


def test_nothing_is_chosen_while_trials_wait() -> None:
    first = next_trials(OF, (), ())
    done = [measured(Device.drawn(1), trial, 0.01, 1) for trial in first[:-1]]
    assert next_trials(OF, first, done) == ()


def test_the_race_ends_when_no_finalist_can_be_better_by_more_than_the_margin() -> None:
    device = Device.drawn(3)
    planned, done = executed(OF, device, 0.005)
    found = judged(OF, planned, done).ceiling
    assert found is not None
    assert found.best is not None
    assert found.loss is not None
    assert found.loss <= 0.03
    truth = {cell: device.rate(*load(cell)) for cell in CELLS}
    racing = {trial.treatment for trial in planned if trial.workload == FINAL}
    assert max(truth[cell] for cell in racing) <= truth[found.best.treatment] * 1.031
    assert found.low is not None
    assert found.high is not None
    assert found.low <= truth[found.best.treatment] <= found.high


def test_a_finalist_that_is_the_same_may_be_better_by_up_to_the_margin() -> None:
    """60 races of four, one of them better by half a margin.  Where another is kept, "none is
    better by more than" is seldom less than that; it was 0 % once the race was over."""
    better, cells, wrong, others = math.log1p(0.015), OF.treatments(FINAL)[:4], 0, 0
    for seed in range(60):
        chance = random.Random(seed)
        done: list[TrialRecord] = []
        for block in range(1, 7):
            for at, cell in enumerate(cells):
                trial = Trial(len(done) + 1, f"{len(done):06x}", block, FINAL, cell, "target")
                rate = 1e5 * math.exp((at == 3) * better + chance.gauss(0, 0.01))
                told = (Measurement("read.iops", rate, "1/s"),)
                done.append(TrialRecord(trial, "valid", 0.0, 1.0, measurements=told))
            (each,) = raced(OF, {FINAL: cells}, done)
            if each.race.decided:
                break
        bound = ceiling.loss(each)
        others += each.race.decided and each.race.kept != 3
        wrong += bound is not None and each.race.kept != 3 and math.log1p(bound) < better
    assert others > 5, "the race may end with one of those that are the same"
    assert wrong <= 7, "5 % are 3; 8 come once in 60"


def test_what_is_claimed_rests_on_trials_of_the_race_alone() -> None:
    planned, done = executed(OF, Device.drawn(3), 0.005)
    comparison = judged(OF, planned, done)
    finals = {trial.folder for trial in planned if trial.workload == FINAL}
    assert comparison.findings
    for finding in comparison.findings:
        assert set(finding.trials) <= finals
    assert "no claim about the others" in comparison.recommendation


def test_a_search_that_was_killed_goes_on_as_if_nothing_had_happened() -> None:
    device = Device.drawn(5)
    planned, done = executed(OF, device, 0.01)
    for cut in (4, len(planned) // 2, len(planned) - 1):
        head = planned[:cut]
        whole = {trial.number for trial in head}
        again, known = list(head), [r for r in done if r.trial.number in whole]
        while more := next_trials(OF, again, known):
            again += more
            known += [measured(device, trial, 0.01, 1) for trial in more]
        assert {t.treatment for t in again if t.workload == FINAL} == {
            t.treatment for t in planned if t.workload == FINAL
        }


def test_it_never_takes_more_than_it_says() -> None:
    most = len(all_blocks(OF))
    first = next_trials(OF, (), ())
    assert most_left(OF, first, (), ()) <= most
    planned, done = executed(OF, Device.drawn(7), 0.05)
    assert len(planned) <= most
    assert most_left(OF, planned, done, ()) == 0
    assert standing(OF, planned, done)


def test_a_bound_on_latency_is_kept_and_said_with_its_interval() -> None:
    device = Device.drawn(2)
    bound = 4 * min(device.p99(*load(cell)) for cell in CELLS)
    of = study(p99=bound)
    planned, done = executed(of, device, 0.01)
    found = judged(of, planned, done).ceiling
    assert found is not None
    assert found.best is not None
    assert found.kept
    assert found.late is not None
    assert found.late[1] <= bound * 1.001
    allowed = [device.rate(*load(c)) for c in CELLS if device.p99(*load(c)) <= bound]
    assert device.rate(*load(found.best.treatment)) >= 0.9 * max(allowed)
    assert device.p99(*load(found.best.treatment)) <= bound


def test_a_bound_that_nothing_keeps_ends_without_a_race_and_says_so() -> None:
    of = study(p99=1e-7)
    planned, done = executed(of, Device.drawn(2), 0.01)
    assert {trial.workload for trial in planned} == {SEARCH}
    assert any(load(trial.treatment)[1:] == (1, 1, 1) for trial in planned)
    comparison = judged(of, planned, done)
    assert comparison.ceiling is not None
    assert comparison.ceiling.best is None
    assert "No load keeps read.clat.p99" in comparison.recommendation


def test_an_engine_that_fails_is_searched_round() -> None:
    device = Device.drawn(4)
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(OF, planned, done):
        planned += more
        for trial in more:
            record = measured(device, trial, 0.01, 1)
            broken = load(trial.treatment)[0] == 2
            done.append(replace(record, state="failed", measurements=()) if broken else record)
    found = judged(OF, planned, done).ceiling
    assert found is not None
    assert found.best is not None
    assert load(found.best.treatment)[0] != 2


def test_the_curve_has_a_front_and_a_knee_on_it() -> None:
    planned, done = executed(OF, Device.drawn(3), 0.01)
    found = judged(OF, planned, done).ceiling
    assert found is not None
    front = [point for point in found.points if point.front]
    assert [point.rate for point in front] == sorted(point.rate for point in front)
    assert found.knee in front


def test_a_load_that_raced_is_drawn_by_its_deciding_trials_alone() -> None:
    planned, done = executed(OF, Device.drawn(3), 0.05)
    found = judged(OF, planned, done).ceiling
    assert found is not None
    raced = {trial.treatment for trial in planned if trial.workload == FINAL}
    for point in found.points:
        own = [
            value
            for record in done
            if record.trial.treatment == point.treatment
            and (record.trial.workload == FINAL) == (point.treatment in raced)
            and (value := record.value("read.iops"))
        ]
        assert point.trials == len(own)
        assert point.rate == pytest.approx(math.exp(sum(map(math.log, own)) / len(own)))
        assert (point.rates is not None) == (len(own) > 1)
        if point.rates and point.means and point.mean:
            assert point.rates[0] < point.rate < point.rates[1]
            assert point.means[0] < point.mean < point.means[1]


def test_the_curve_is_drawn_with_its_knee_its_bound_and_intervals() -> None:
    device = Device.drawn(2)
    bound = 4 * min(device.p99(*load(cell)) for cell in CELLS)
    of = study(p99=bound)
    planned, done = executed(of, device, 0.01)
    found = judged(of, planned, done).ceiling
    assert found is not None
    assert found.knee is not None
    assert found.best is not None
    spec = curve_spec(found)
    rows = spec["datasets"]["rows"]
    kinds = {row["k"] for row in rows}
    assert {"best", "p99"} <= kinds <= set(LOOKS)
    assert ("knee" in kinds) == (found.knee.treatment != found.best.treatment)
    assert spec["datasets"]["bound"] == [{"v": pytest.approx(bound, rel=1e-3)}]
    wide = [row for row in rows if row["left"] < row["r"] < row["right"]]
    assert len(wide) >= 2
    assert sum(row["k"] != "p99" for row in rows) == len(found.points)
    drawn = curve_figure(found, "curve")
    assert drawn is not None
    assert drawn.svg.startswith("<svg")
    assert "Knee: engine=" in drawn.caption
    assert "Bars: intervals" in drawn.caption
    bare = replace(found, points=tuple(replace(each, mean=None) for each in found.points))
    assert curve_figure(bare, "curve") is None


def test_a_search_that_its_budget_ended_says_so_and_not_that_no_load_gave_a_number() -> None:
    first = next_trials(OF, (), ())
    done = [measured(Device.drawn(3), trial, 0.01, 1) for trial in first]
    said = judged(OF, list(first), done).recommendation
    assert "No decision yet: 12 of 504 loads tested" in said
    assert "No load has a result yet" in judged(OF, list(first), []).recommendation


def test_a_ceiling_that_was_found_is_exit_0_whatever_failed_on_the_way(tmp_path: Path) -> None:
    planned, done = executed(OF, Device.drawn(3), 0.01)
    lost = [replace(r, state="failed", measurements=()) if r.trial.number == 1 else r for r in done]
    searching = [r for r in lost if r.trial.workload == SEARCH]
    for records, code in ((done, 0), (lost, 0), (searching, 5), (searching[1:], 1), ([], 5)):
        results = Results(tmp_path, OF, tuple(planned), tuple(records))
        assert exit_code(results) == code
    plain = replace(OF, design=replace(OF.design, kind="full"))
    assert exit_code(Results(tmp_path, plain, tuple(planned), tuple(lost))) == 5


def test_levels_that_are_groups_of_options_reach_the_load() -> None:
    trial = next(
        trial for trial in next_trials(OF, (), ()) if dict(trial.treatment)["batch"] == "4"
    )
    said = dict(workload_of(OF, trial).options)
    assert said["iodepth_batch_submit"] == said["iodepth_batch_complete_max"] == 4
    assert said["numjobs"] == int(dict(trial.treatment)["jobs"])


def test_more_cpus_are_offered_more_jobs() -> None:
    assert job_counts(2) == (1, 2, 4, 8, 16, 32)
    assert max(job_counts(64)) == 256


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("[workloads.final]", "[workloads.extra]\ntool = 'fio'\n[workloads.final]"),
         "a search needs two workloads"),
        (('primary = "read.iops"', 'primary = "read.clat.mean"'), "one primary metric"),
        (('option = "numjobs"', 'option = "numjobs"\nworkload = "final"'), "have the same factors"),
        (('option = "numjobs"', 'option = "thinktime"'), "already varies"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused(change: tuple[str, str], told: str) -> None:
    assert change[0] in OF.text
    with pytest.raises(StudyError, match=told):
        parse_study(OF.text.replace(*change), "x.toml", lambda name: name)


def test_a_limit_goes_with_a_race_or_a_search_only() -> None:
    text = study(p99=0.002).text.replace('kind = "saturate"', 'kind = "full"')
    with pytest.raises(StudyError, match="limits are for a race or a search"):
        parse_study(text, "x.toml", lambda name: name)


def test_an_engine_that_cannot_be_used_is_said_and_none_at_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["saturate", "loop", "--size", "64MiB", "--pretend"]
    assert status([*asked, "--engine", "io_uring-polled"]) == 3
    said = capsys.readouterr().err
    assert "without io_uring-polled: the device has no poll queues" in said
    assert "no usable engine on this host" in said
    assert status([*asked, "--rw", "randwrite"]) == 3
    assert "Add --write" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_job_file_says_what_the_command_said_without_what_is_ours() -> None:
    argv = ["fio", "--output-format=json+", "--output=fio.json", "--name=final",
            "--filename=/dev/sdb", "--iodepth=8", "--runtime=1s"]  # fmt: skip
    assert job_of({"final": argv}, ["one", "two"], {"runtime": "60s"}).splitlines() == [
        "# one",
        "# two",
        "[final]",
        "filename=/dev/sdb",
        "iodepth=8",
        "runtime=60s",
    ]


@pytest.mark.parametrize("bound", ["2", " .5", "1e-3"])
def test_a_bound_without_a_unit_is_refused(bound: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be seconds, and so no bound."""
    assert status(["saturate", "loop", "--p99", bound, "--pretend"]) == 2
    assert f"has no unit; for example {bound.strip()}ms" in capsys.readouterr().err


def test_a_disk_that_is_not_there_is_told_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["saturate", "/dev/nope", "--pretend"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("iotrial: /dev/nope does not exist\n"), said
    assert "Check the cabling and the name" in said
