"""Which combinations a design tries, and what is said of those it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotrial.cli.main import status
from iotrial.errors import StudyError
from iotrial.model.study import Study
from iotrial.plan.design import cells, given_up
from iotrial.plan.estimate import comparisons
from iotrial.plan.load import parse_study
from iotrial.plan.stages import next_trials

HEAD = """
[targets.disk]
loop = { size = "64MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "1s" }
"""
TWO = """
[factors.depth]
option = "iodepth"
levels = [1, 32]
[factors.size]
option = "bs"
levels = ["4k", "64k"]
[factors.jobs]
option = "numjobs"
levels = [1, 2]
[factors.merges]
tunable = "queue.nomerges"
levels = [0, 2]
"""
MORE = """
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [0, 64, 128]
baseline = 64
"""
HALF = "[design]\nkind = 'fraction'\nresolution = 4\nblocks = 3\n"


def study(*parts: str) -> Study:
    return parse_study("".join([HEAD, *parts]), "s.toml", lambda name: name)


def refused(*parts: str) -> StudyError:
    with pytest.raises(StudyError) as caught:
        study(*parts)
    return caught.value


def test_half_a_factorial_is_planned_in_every_block() -> None:
    of = study(TWO, HALF)
    assert len(cells(of, "reads")) == 8
    trials = next_trials(of, (), ())
    assert len(trials) == 24
    for block in (1, 2, 3):
        own = [trial.treatment for trial in trials if trial.block == block]
        assert set(own) == set(cells(of, "reads"))
    orders = {tuple(t.treatment for t in trials if t.block == block) for block in (1, 2, 3)}
    assert len(orders) == 3, "each block has an order of its own"
    assert comparisons(of) == 4


def test_what_cannot_be_told_apart_is_said() -> None:
    [told] = given_up(study(TWO, HALF))
    assert told.words == (
        "8 of 16 combinations",
        "depth×size is aliased with jobs×merges",
        "depth×jobs is aliased with size×merges",
        "depth×merges is aliased with size×jobs",
        "three-factor and higher interactions are assumed negligible",
    )
    assert (told.mixed[0].effect, told.mixed[0].wholly) == (
        ("depth", "size"),
        (("jobs", "merges"),),
    )


def test_a_fraction_that_needs_all_says_so() -> None:
    [told] = given_up(study(TWO, "[design]\nkind = 'fraction'\n"))
    assert (told.tried, told.combinations) == (16, 16)
    assert "is the full design" in told.words[0]


def test_a_full_factorial_gives_nothing_up() -> None:
    assert given_up(study(TWO)) == ()


@pytest.mark.parametrize(("design", "count"), [("resolution = 3", 9), ("resolution = 5", 21),
                                               ("runs = 13", 13)])  # fmt: skip
def test_more_levels_take_a_subset_that_holds_the_baseline(design: str, count: int) -> None:
    of = study(TWO, MORE, f"[design]\nkind = 'fraction'\n{design}\n")
    tried = cells(of, "reads")
    assert len(tried) == len(set(tried)) == count
    baseline = {"depth": "1", "size": "4k", "jobs": "1", "merges": "0", "ahead": "64"}
    assert baseline in [dict(cell) for cell in tried]
    for factor in of.factors:
        assert {dict(cell)[factor.name] for cell in tried} == {x.label for x in factor.levels}
    assert comparisons(of) == 6


def test_what_is_excluded_is_in_no_fraction() -> None:
    excluded = "[[exclude]]\ndepth = 32\njobs = 2\n"
    tried = cells(study(TWO, excluded, "[design]\nkind = 'fraction'\nresolution = 3\n"), "reads")
    assert len(tried) == 6
    assert not [cell for cell in tried if {("depth", "32"), ("jobs", "2")} <= set(cell)]


def test_one_at_a_time_is_the_baseline_and_each_level_alone() -> None:
    of = study(TWO, MORE, "[design]\nkind = 'one-at-a-time'\n")
    baseline = (
        ("depth", "1"), ("size", "4k"), ("jobs", "1"), ("merges", "0"), ("ahead", "64"),
    )  # fmt: skip
    tried = cells(of, "reads")
    assert tried[0] == baseline
    assert len(tried) == 7
    changed = [set(cell) - set(baseline) for cell in tried[1:]]
    assert [len(change) for change in changed] == [1] * 6
    assert comparisons(of) == 6
    [told] = given_up(of)
    assert "interactions not estimable: depth×size" in told.words[2]
    assert len(told.unseen) == 10


@pytest.mark.parametrize(
    ("design", "key", "message", "advice"),
    [
        ("kind = 'full'\nruns = 8", "design.runs", 'it is for kind = "fraction"', "Remove it"),
        ("resolution = 3", "design.resolution", 'not "full"', "Remove it"),
        (
            "kind = 'fraction'\nresolution = 3\nruns = 8",
            "design.runs",
            "both resolution",
            "Remove one",
        ),
        ("kind = 'fraction'\nresolution = 2", "design.resolution", "at least 3", "For example"),
        ("kind = 'fraction'\nruns = 3", "design.runs", "3 treatments cannot", "At least 7"),
        ("kind = 'fraction'\nruns = 99", "design.runs", "only 48 combinations", "fewer"),
        ("kind = 'fraction'\nresolution = 4", "design.resolution", "two levels", "3 or 5"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(
    design: str, key: str, message: str, advice: str
) -> None:
    error = refused(TWO, MORE, f"[design]\n{design}\n")
    assert error.key == key
    assert error.line
    assert message in error.message
    assert advice in error.advice


def test_a_fraction_of_one_factor_is_refused() -> None:
    error = refused("[factors.depth]\noption = 'iodepth'\nlevels = [1, 2, 3]\n",
                    "[design]\nkind = 'fraction'\n")  # fmt: skip
    assert error.key == "design.kind"
    assert "one factor only" in error.message


def test_one_at_a_time_needs_its_baseline() -> None:
    error = refused(TWO, "[[exclude]]\ndepth = 1\n", "[design]\nkind = 'one-at-a-time'\n")
    assert "baseline of all factors is excluded" in error.message


def test_plan_prints_it_for_people_and_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(HEAD + TWO + HALF)
    assert status(["plan", str(file), "--pretend"]) == 0
    assert "depth×size is aliased with jobs×merges" in capsys.readouterr().out
    assert status(["plan", str(file), "--pretend", "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)["given_up"]
    assert (told["treatments"], told["combinations"]) == (8, 16)
    assert told["mixed"][0] == {
        "effect": ["depth", "size"],
        "cannot_be_told_from": [["jobs", "merges"]],
        "partly_mixed_with": [],
    }
