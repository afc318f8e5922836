"""Earlier results order the work of a race, and decide nothing."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from stats_studies import METRIC, record

from imitation import Client
from iotrial.errors import UsageError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.hosts.fake import FakeHost
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, PriorResults, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan import prior as priors
from iotrial.plan.load import parse_study
from iotrial.plan.prior import target_doubts, with_prior
from iotrial.plan.race import MOST_IN_BLOCK
from iotrial.plan.stages import next_trials
from iotrial.stats.judge import judge
from iotrial.store import open_results

SIZES = 60
TOP = 47
"""The best of the sizes; beside it each step costs 2 %, so that one alone is best."""


def study(kind: str = "race", sizes: int = SIZES) -> Study:
    levels = tuple(Level(f"s{number}") for number in range(sizes))
    return Study(
        "Which is best?", "race", (Target("disk", "loop"),), (Workload("w", "fio"),),
        (Factor("size", "option", levels, baseline="s0"),),
        Design(kind, blocks=60),  # type: ignore[arg-type]
        DecisionRule((("w", METRIC),), margin=0.01), digest="0123456789ab",
    )  # fmt: skip


def value(trial: Trial, seed: int = 0) -> float:
    number = int(trial.treatment[0][1].removeprefix("s"))
    chance = random.Random(f"{seed}{trial.block}{trial.treatment}")
    return 1000 * math.exp(-0.02 * abs(number - TOP) + chance.gauss(0, 0.004))


def executed(of: Study, seed: int = 0) -> Results:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        done += [record(trial, value(trial, seed)) for trial in more]
    return Results(Path("results/earlier"), of, tuple(planned), tuple(done))


@pytest.fixture(scope="module")
def earlier() -> Results:
    return executed(study(), seed=1)


def backwards(of: Study) -> Study:
    """The same with a prior that could not be more wrong."""
    assert of.design.prior is not None
    ((name, order),) = of.design.prior.order
    wrong = dataclasses.replace(of.design.prior, order=((name, order[::-1]),))
    return dataclasses.replace(of, design=dataclasses.replace(of.design, prior=wrong))


# -- the order --------------------------------------------------------------------------------


def test_what_did_best_before_is_measured_first(earlier: Results) -> None:
    of = with_prior(study(), earlier)
    first = {trial.treatment[0][1] for trial in next_trials(of, (), ()) if trial.block == 1}
    assert len(first) == MOST_IN_BLOCK
    assert {"s0", f"s{TOP}", f"s{TOP - 1}", f"s{TOP + 1}"} <= first
    plain = {trial.treatment[0][1] for trial in next_trials(study(), (), ()) if trial.block == 1}
    assert len(first & plain) >= MOST_IN_BLOCK // 4, "half of it is still spread over all"


def test_drift_and_blocks_that_held_only_good_ones_do_not_put_the_order_out(
    earlier: Results,
) -> None:
    """Each block half as fast as the one before it: the order of the raw means is another."""
    slower = tuple(
        record(each.trial, value(each.trial, 1) * 0.5**each.trial.block) for each in earlier.records
    )
    of = with_prior(study(), dataclasses.replace(earlier, records=slower))
    assert of.design.prior is not None
    ((_, order),) = of.design.prior.order
    assert [cell[0][1] for cell in order[:1]] == [f"s{TOP}"]
    assert len(order) == SIZES


def test_where_a_block_holds_everything_a_prior_changes_nothing() -> None:
    small = study(sizes=8)
    before = executed(small)
    assert next_trials(with_prior(small, before), (), ()) == next_trials(small, (), ())


# -- and no more than the order ---------------------------------------------------------------


def test_the_same_responses_have_the_same_findings_whatever_the_prior(earlier: Results) -> None:
    """No estimate, interval, verdict or spent error depends on it; the terms name it."""
    of = with_prior(study(), earlier)
    trials = executed(study(), seed=2)
    plain = judge(trials)
    for other in (of, backwards(of)):
        found = judge(dataclasses.replace(trials, study=other))
        assert found.findings == plain.findings
        assert found.races == plain.races
        assert found.recommendation == plain.recommendation
        assert "Earlier results (earlier) set the order of measurement" in found.method
    assert "Earlier results" not in plain.method


def test_a_wrong_prior_costs_trials_and_no_verdict(earlier: Results) -> None:
    right = with_prior(study(), earlier)
    for seed in range(2, 5):
        for of in (right, backwards(right)):
            went = executed(of, seed)
            (race,) = judge(went).races
            assert race.decided
            assert race.kept == f"s{TOP}"
            assert len({trial.treatment for trial in went.planned}) == SIZES, "each is measured"


# -- what is no prior -------------------------------------------------------------------------


def test_what_can_order_nothing_is_refused(earlier: Results) -> None:
    with pytest.raises(UsageError, match="this study is not a race"):
        with_prior(study("full"), earlier)
    other = dataclasses.replace(study(), workloads=(Workload("another", "fio"),))
    with pytest.raises(UsageError, match="shares no workload"):
        with_prior(other, earlier)


def facts(machine: str = "m1", path: str = "", **ids: str) -> dict[str, Any]:
    kind = "file" if path else "device" if ids else "loop"
    about = {"kind": kind, "path": path or "/dev/x", "identity": {"ids": ids} if ids else None}
    return {"machine_id": machine, "targets": {"disk": about}}


def doubts(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    known = tuple(priors.sightings(then).values())
    return [d.what for d in target_doubts(PriorResults("before", (), known), now)]


def test_a_prior_of_another_target_is_refused_and_one_that_may_be_is_doubted() -> None:
    assert doubts(facts(wwid="naa.1"), facts("m2", wwid="naa.1")) == [], "a disk can move"
    with pytest.raises(UsageError, match=r"another target than disk \(wwid naa.2\)"):
        doubts(facts(wwid="naa.1"), facts(wwid="naa.2"))
    with pytest.raises(UsageError, match="another target"):
        doubts(facts(), facts(wwid="naa.1"))
    with pytest.raises(UsageError, match="another target"):
        doubts(facts(path="/mnt/a"), facts(path="/mnt/b"))
    assert doubts(facts(path="/mnt/a"), facts(path="/mnt/a")) == []
    assert "no evidence" in doubts(facts(path="/mnt/a"), facts("m2", path="/mnt/a"))[0]
    loop = facts(backing_file="/var/tmp/x")
    assert "no evidence" in doubts(loop, loop)[0], "a loop device is made anew"


# -- on disk ----------------------------------------------------------------------------------


TEXT = """
question = "?"
[targets.data]
loop = { size = "16MiB" }
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }
[factors.depth]
option = "iodepth"
levels = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
[design]
kind = "race"
blocks = 2
"""


def test_a_run_keeps_the_order_it_began_with_and_says_what_is_not_sure(tmp_path: Path) -> None:
    of = parse_study(TEXT, "race.toml", str)

    def run(it: Study, name: str) -> Results:
        execute_study(it, FakeHost(), tmp_path / name, interruption=Interruption())
        return open_results(tmp_path / name)

    first = run(of, "first")
    ordered = with_prior(of, first)
    second = run(ordered, "second")
    assert second.study.design.prior is not None
    assert ordered.design.prior is not None
    assert second.study.design.prior.order == ordered.design.prior.order
    assert second.study.digest == of.digest
    assert "prior" in [doubt.check for doubt in second.doubts]
    head = json.loads((tmp_path / "second" / "plan.jsonl").read_text().splitlines()[0])
    assert head["prior"]["folder"] == "first"
    assert {t.treatment for t in second.planned if t.block == 1} == {
        t.treatment for t in next_trials(second.study, (), ()) if t.block == 1
    }


KNOB = """
[knobs.rsize]
file = "/etc/fakeclient.conf"
content = "rsize {value}\\n"
reload = ["fakeclient", "reload"]
read = ["fakeclient", "show"]
field = "rsize:"
[factors.rsize]
tunable = "file.rsize"
levels = ["4096", "65536"]
"""


def test_a_study_with_knobs_of_its_own_takes_a_prior_that_has_none(tmp_path: Path) -> None:
    """To read the earlier results is to read another study: it must not replace the knobs."""

    def run(it: Study, name: str) -> Results:
        host = FakeHost(parts=[Client])
        execute_study(it, host, tmp_path / name, interruption=Interruption())
        return open_results(tmp_path / name)

    run(parse_study(TEXT, "before.toml", str), "before")
    own = parse_study(TEXT + KNOB, "own.toml", str)
    with_prior(own, open_results(tmp_path / "before"))
    found = run(own, "own")
    assert {dict(record.trial.treatment)["rsize"] for record in found.valid} == {"4096", "65536"}
    assert {value for r in found.valid for _, name, value in r.before if name == "file.rsize"} == {
        "4096",
        "65536",
    }
