"""Sessions of recorded runs: which there are, and that nothing is claimed of one alone."""

from __future__ import annotations

import json
import math
import random
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from scipy.stats import t as student

from iotrial.cli.main import status
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.stats.paired import judge_recorded
from iotrial.stats.pairs import NIGHT, CellPair, RunCell, by_session, sessions

LEVELS = ("cfq", "deadline", "noop", "anticipatory")


def run(
    number: int,
    level: str,
    value: float,
    *,
    workload: str = "read",
    started: float = 0.0,
    source: str = "originals/t.csv:2",
    session: str = "",
    **more: str,
) -> TrialRecord:
    treatment = (("scheduler", level), *more.items())
    trial = Trial(number, f"{number:06d}", 1, workload, treatment, "")
    told = (Measurement(f"{workload}.bw", value, "bytes/s"),)
    return TrialRecord(
        trial, "valid", started, 60.0, measurements=told, source=source, session=session
    )  # fmt: skip


def recorded(runs: list[TrialRecord], workloads: tuple[str, ...] = ("read",)) -> Results:
    study = Study(
        question="Which?",
        name="old",
        targets=(),
        workloads=tuple(Workload(name, "table") for name in workloads),
        factors=(Factor("scheduler", "recorded", tuple(map(Level, LEVELS))),),
        design=Design("recorded", blocks=1),
        decide=DecisionRule((), 0.02, 0.95),
        text="",
        digest="",
    )
    return Results(Path("r"), study, tuple(each.trial for each in runs), tuple(runs))


def taken(*runs: TrialRecord) -> list[str]:
    found = sessions(runs)
    return [found[each.trial.folder] for each in runs]


# -- which there are ---------------------------------------------------------------------------


def test_a_night_without_runs_parts_sessions_and_a_run_over_midnight_does_not() -> None:
    one, two, three = taken(
        run(1, "cfq", 1, started=1000.0),
        run(2, "cfq", 1, started=1000.0 + NIGHT),
        run(3, "cfq", 1, started=1000.0 + 2 * NIGHT + 61),
    )
    assert one == two != three


def test_folders_that_repeat_a_cell_are_sessions_and_folders_of_unlike_cells_are_not() -> None:
    mon, tue, other, more = taken(
        run(1, "cfq", 1, source="originals/mon/a.json"),
        run(2, "cfq", 1, source="originals/tue/a.json"),
        run(3, "noop", 1, source="originals/wed/a.json"),
        run(4, "noop", 1, source="originals/wed/b.json"),
    )
    assert mon == other == more != tue


def test_a_lost_run_moves_no_other_run_into_another_session() -> None:
    every = [
        run(n, level, 1, source=f"originals/{source}/{level}.json")
        for n, (level, source) in enumerate(product(LEVELS[:2], ("a", "b", "c", "d")), 1)
    ]
    whole = dict(zip(every, taken(*every), strict=True))
    assert len(set(whole.values())) == 4
    for lost in (every[:1], every[-1:], [every[0], every[-1]]):
        left = [each for each in every if each not in lost]
        assert taken(*left) == [whole[each] for each in left]


def test_a_lost_run_moves_no_other_where_folders_of_levels_have_those_of_repeats() -> None:
    every = [
        run(n, level, 1, source=f"originals/{level}/run{source}/fio.json")
        for n, (level, source) in enumerate(product(LEVELS[:2], range(4)), 1)
    ]
    found = dict(zip(every, taken(*every), strict=True))
    assert [found[each] for each in every[:4]] == [found[each] for each in every[4:]]
    assert taken(*every[1:]) == [found[each] for each in every[1:]]


def test_runs_without_a_time_are_no_session_of_their_own() -> None:
    one, two, three = taken(run(1, "cfq", 1), run(2, "cfq", 1, started=5e5), run(3, "noop", 1))
    assert one == two == three
    assert len(set(taken(run(1, "cfq", 1, started=1.0), run(2, "cfq", 1, started=5e5)))) == 2


def test_a_run_without_a_time_is_of_the_session_of_its_folder() -> None:
    every = [
        run(n, "cfq", 1, started=1e6 + 60 * n, source=f"originals/run{n // 2}/{n}.json")
        for n in range(1, 7)
    ]
    every[2] = replace(every[2], started=0.0)
    assert len(set(taken(*every))) == 1


def test_hosts_have_sessions_of_their_own() -> None:
    one, two = taken(run(1, "cfq", 1, host="a"), run(2, "cfq", 1, host="b"))
    assert one != two


def test_what_somebody_said_counts() -> None:
    one, two, three = taken(
        run(1, "cfq", 1, session="mon", started=1.0),
        run(2, "cfq", 1, session="mon", started=9e6),
        run(3, "cfq", 1, session="tue", started=9e6),
    )
    assert one == two != three


def test_runs_that_say_when_they_were_are_parted_by_that_and_not_by_their_folders() -> None:
    every = [
        run(n, "cfq", 1, started=1e6 + 60 * n, source=f"originals/run{n}/fio.json")
        for n in range(1, 4)
    ]
    assert len(set(taken(*every))) == 1


# -- what is claimed ---------------------------------------------------------------------------


def test_one_session_is_described_however_many_cells_it_has() -> None:
    """On a storage where no scheduler is in the way, 30 cells that are all a little faster."""
    luck = random.Random(1)
    runs = [
        run(n, level, 100 * math.exp(0.03 * (level == "noop") + luck.gauss(0, 0.003)), size=size)
        for n, (level, size) in enumerate(product(LEVELS, map(str, range(30))), 1)
    ]
    comparison = judge_recorded(recorded(runs))
    assert {f.low for f in comparison.findings} == {None}
    assert {f.verdict for f in comparison.findings} == {"cannot-tell"}
    assert "noop +2.9 %" in comparison.recommendation
    assert "No claim" in comparison.recommendation
    assert "better" not in comparison.recommendation


def days(seed: int, *, count: int, sd: float, effect: float = 0.0) -> list[TrialRecord]:
    """Sessions in which each level is out by something of its own, all cells of it together."""
    luck = random.Random(seed)
    runs = []
    for day, level in product(range(count), LEVELS):
        shift = luck.gauss(0, sd) + effect * (level == "noop")
        for size in range(6):
            value = 100 * math.exp(shift + luck.gauss(0, 0.002))
            said = {"session": f"day {day}", "size": str(size)}
            runs.append(run(len(runs) + 1, level, value, **said))
    return runs


def test_several_sessions_are_the_unit_by_students_t_and_a_family() -> None:
    results = recorded(days(3, count=5, sd=0.01, effect=-0.2))
    found = {f.level: f for f in judge_recorded(results).findings}
    noop = found["noop"]
    ratios = [
        math.fsum(
            math.log(a.measurements[0].value / b.measurements[0].value)
            for a in results.records if a.session == f"day {day}"
            and a.trial.treatment[0] == ("scheduler", "noop")
            for b in results.records if b.session == a.session
            and b.trial.treatment == (("scheduler", "cfq"), a.trial.treatment[1])
        ) / 6
        for day in range(5)
    ]  # fmt: skip
    middle = math.fsum(ratios) / 5
    sd = math.sqrt(math.fsum((each - middle) ** 2 for each in ratios) / 4)
    half = float(student.ppf(1 - 0.05 / 3 / 2, 4)) * sd / math.sqrt(5)
    assert (noop.n, noop.verdict) == (5, "worse")
    assert noop.low == pytest.approx(math.exp(middle - half))
    assert noop.high == pytest.approx(math.exp(middle + half))


def test_a_level_that_is_equal_is_seldom_called_better_or_worse() -> None:
    """300 studies of four equal levels in five sessions: cells as units would claim in most."""
    wrong = sum(
        any(
            f.verdict in ("better", "worse")
            for f in judge_recorded(recorded(days(seed, count=5, sd=0.03))).findings
        )
        for seed in range(300)
    )
    assert wrong <= 300 * 0.05 + 2 * math.sqrt(300 * 0.05 * 0.95)


def test_a_workload_that_one_session_lacks_is_in_the_average_all_the_same() -> None:
    luck = random.Random(4)
    runs = []
    effects = {"xx": math.log(0.8), "rr": 0.0, "ss": 0.0}
    for day, level in product(("mon", "tue", "wed", "thu"), LEVELS[:2]):
        for workload, effect in effects.items():
            if (day, workload) != ("wed", "xx"):
                value = 100 * math.exp(effect * (level == "deadline") + luck.gauss(0, 0.001))
                runs.append(
                    run(len(runs) + 1, level, value, workload=workload, session=day)
                )  # fmt: skip
    found = judge_recorded(recorded(runs, ("xx", "rr", "ss"))).findings
    (together,) = (f for f in found if f.workload == "all")
    assert together.ratio == pytest.approx(math.exp(math.log(0.8) / 3), rel=2e-3)
    assert (together.n, together.verdict) == (4, "worse")


def test_sessions_with_holes_cover_the_truth_as_often_as_they_say() -> None:
    """A fifth of the runs is lost: 1000 studies of five sessions and six pairs, no effect."""
    luck = random.Random(7)
    wrong = 0
    for _ in range(1000):
        days = [luck.gauss(0, 0.02) for _ in range(5)]
        pairs = []
        for size in range(6):
            kept = [day for day in range(5) if luck.random() > 0.2]
            logs = [days[day] + luck.gauss(0, 0.02) for day in kept]
            names = [str(day) for day in kept]
            sides = (RunCell(logs, names), RunCell([0.0] * len(names), names))
            pairs += [
                CellPair(("read", (("size", str(size)),)), *((side,) for side in sides))
            ] * bool(kept)
        units = by_session(pairs)
        half = float(student.ppf(0.975, len(units) - 1) * units.std(ddof=1)) / math.sqrt(len(units))
        wrong += abs(float(units.mean())) > half
    assert wrong <= 1000 * 0.05 + 2 * math.sqrt(1000 * 0.05 * 0.95)


@pytest.mark.parametrize("count", [5, 10])
def test_a_workload_of_one_session_is_no_part_of_an_interval_over_many(count: int) -> None:
    """Its one value would be in all sessions, and its error in none."""
    luck = random.Random(count)
    runs = []
    for day, level in product(range(count), LEVELS[:2]):
        for workload in ("rr", "rw"):
            if workload == "rr" or day == 0:
                value = 100 * math.exp(luck.gauss(0, 0.03))
                runs.append(run(len(runs) + 1, level, value, workload=workload, session=str(day)))
    found = judge_recorded(recorded(runs, ("rr", "rw"))).findings
    assert {(f.workload, f.low is None) for f in found} == {
        ("all", True), ("rr", False), ("rw", True),
    }  # fmt: skip


def test_levels_that_never_met_in_a_session_are_held_against_each_other_by_rank() -> None:
    """Each level on days of its own: the first against the first, and so on."""
    runs = [
        run(n, level, value, session=f"{level} {n}")
        for n, (level, value) in enumerate(
            [("cfq", 100), ("cfq", 102), ("cfq", 101), ("noop", 50), ("noop", 51)], 1
        )
    ]
    (found,) = judge_recorded(recorded(runs)).findings
    assert found.n == 2
    assert found.ratio == pytest.approx(0.5, rel=0.01)


def test_an_average_never_stands_where_a_workload_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    luck = random.Random(2)
    effect = {("noop", "read"): -0.3, ("noop", "write"): 0.1}
    rows = ["scheduler,op,session,iops"] + [
        f"{level},{op},d{day},"
        f"{1000 * math.exp(effect.get((level, op), 0.0) + luck.gauss(0, 0.004)):.2f}"
        for level, op, day in product(("cfq", "noop"), ("read", "write", "reread"), range(6))
    ]
    Path("t.csv").write_text("\n".join(rows))
    assert status(["import", "t.csv", "--out", "r", "-q"]) == 0
    capsys.readouterr()
    assert status(["compare", "r", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    first = answer["recommendation"].partition(".")[0]
    assert first.startswith("scheduler against cfq: noop by workload (write better")
    assert "read worse" in answer["recommendation"]
    assert answer["doubts"][0]["check"] == "opposites", "beside it, not last"


def test_the_same_rounded_numbers_on_other_days_are_no_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in ("2026-11-20", "2026-11-21", "2026-11-22"):
        Path(day).mkdir()
        for level, value in (("cfq", 100), ("noop", 110)):
            Path(day, f"{level}.csv").write_text(f"scheduler,mb_s\n{level},{value}\n")
    days = [f"{day},{level},{value}" for day in "abc" for level, value in (("x", 1), ("y", 2))]
    Path("t.csv").write_text("\n".join(["session,scheduler,mb_s", *days]))
    for day in ("mon", "tue", "wed"):
        shutil.copytree("2026-11-20", day)
    dated = ["2026-11-20", "2026-11-21", "2026-11-22"]
    for given in (dated, ["t.csv"], ["mon", "tue", "wed"]):
        assert status(["import", *given, "--out", "r", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert len(answer["measurements"]) == 6
        status(["compare", "r"])
        assert "in 3 sessions" in capsys.readouterr().out.replace("\n", " ")
        shutil.rmtree("r")


def test_a_column_of_days_says_which_runs_were_taken_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    luck = random.Random(1)
    rows = [
        f"{day},{level},{100 + 10 * (level == 'noop') + luck.random():.3f}"
        for day, level in product(("2026-11-20", "2026-11-21", "2026-11-24"), ("cfq", "noop"))
    ]
    Path("t.csv").write_text("\n".join(["Date,scheduler,mb_s", *rows]))
    assert status(["import", "t.csv", "--out", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["columns"]["Date"] == "session"
    assert status(["compare", "r"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "noop better" in told
    assert "in 3 sessions" in told


def test_where_the_sizes_of_ios_differ_bandwidth_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("bs,iops,mb_s\n4k,1000,4\n64k,250,16\n")
    assert status(["import", "t.csv", "--out", "r", "-q"]) == 0
    capsys.readouterr()
    assert status(["compare", "r", "--json"]) == 0
    asked = [f for f in json.loads(capsys.readouterr().out)["findings"] if f["primary"]]
    assert [(f["metric"].rpartition(".")[2], round(f["ratio"])) for f in asked] == [("bw", 4)]


def test_what_intervals_leave_open_is_not_told_workload_by_workload() -> None:
    luck = random.Random(3)
    runs = []
    effects = ("read", 0.3), ("write", -0.3)
    for day, level, (workload, effect) in product("ab", LEVELS[:2], effects):
        value = 100 * math.exp(effect * (level == "deadline") + luck.gauss(0, 0.1))
        runs.append(run(len(runs) + 1, level, value, workload=workload, session=day))
    told = judge_recorded(recorded(runs, ("read", "write"))).recommendation
    assert told.startswith("No comparison is possible with these runs.")
    assert "cannot tell" not in told


def test_a_session_column_is_no_factor_and_a_map_names_what_parts_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    luck = random.Random(5)
    rows = [
        f"{level},{disk},{100 * (1.5 if level == 'noop' else 1) + luck.random()}"
        for level, disk in product(("cfq", "noop"), "abcd")
    ]
    Path("t.csv").write_text("\n".join(["scheduler,disk,iops", *rows]))

    def found(*options: str) -> dict[str, object]:
        assert status(["import", "t.csv", *options, "--out", "r", "-q"]) == 0
        capsys.readouterr()
        assert status(["compare", "r", "--factor", "scheduler", "--json"]) == 0
        (finding,) = json.loads(capsys.readouterr().out)["findings"]
        shutil.rmtree("r")
        return finding

    assert found()["low"] is None
    Path("m.toml").write_text('session = "disk"\n')
    finding = found("--map", "m.toml")
    assert (finding["n"], finding["verdict"]) == (4, "better")
    Path("m.toml").write_text('session = "disc"\n')
    assert status(["import", "t.csv", "--map", "m.toml", "--out", "r"]) == 2
    told = capsys.readouterr().err
    assert "m.toml: session: no run says 'disc'" in told
    assert "disk" in told.partition("'disc'")[2]


@pytest.mark.parametrize(
    "name",
    ["{day}/{level}.csv", "{level}-{day}.csv", "{day}/x/{level}.csv", "out_{day}_{level}.csv"],
)
@pytest.mark.parametrize(
    "days", [("2026-11-20", "2026-11-21", "2026-12-01"), ("Mon", "tue", "Wed")]
)
def test_dates_in_names_are_sessions_and_no_levels(
    name: str, days: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    luck = random.Random(3)
    for day, level in product(days, ("cfq", "noop")):
        path = Path("in", name.format(day=day, level=level))
        path.parent.mkdir(parents=True, exist_ok=True)
        rate = (100 if level == "cfq" else 150) + luck.random()
        path.write_text(f"workload,iops\nread,{rate}\n")
    assert status(["import", "in", "--out", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["factors"] == {"file": ["cfq", "noop"]}
    assert status(["compare", "r", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    in_sessions = days[0] != "Mon" or "/" in name  # days of the week in file names are repeats
    assert (found["n"], found["low"] is not None) == (3, in_sessions)


def test_files_of_which_only_the_dates_differ_are_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for day, rate in (("2026-11-20", 100), ("2026-11-21", 90)):
        Path("in").mkdir(exist_ok=True)
        Path(f"in/results-{day}.csv").write_text(f"workload,iops\nread,{rate}\n")
    assert status(["import", "in", "--out", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["factors"] == {"file": ["20261120", "20261121"]}
