"""Blocks spread over hosts: the plan, who takes over, and what a study may not say."""

from __future__ import annotations

from collections import Counter

import pytest

from iotrial.errors import StudyError
from iotrial.model.hostlist import expanded, folded
from iotrial.model.study import Study
from iotrial.model.trial import HOST_LOST, Doubt, Trial, TrialRecord
from iotrial.plan.ahead import most_left
from iotrial.plan.design import taken_over, waiting
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.plan.parts import alone_on, parts_of
from iotrial.plan.stages import next_trials

HOSTS = "".join(f'[hosts.h{n}]\nssh = "root@h{n}"\n' for n in range(1, 4))
REST = """
[targets.disk]
loop = { size = "16MiB" }
hosts = "h[1-3]"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "10s" }
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 128]
"""
DESIGN = '[design]\nblocks = 7\nblocks_over = "hosts"\n'


def study(text: str = HOSTS + REST + DESIGN) -> Study:
    return parse_study(text, "spread.toml", lambda _: "")


def done(trial: Trial, state: str = "valid") -> TrialRecord:
    lost = (Doubt(HOST_LOST, "gone", ""),) if state == "failed" else ()
    return TrialRecord(trial, state, 0.0, 1.0, doubts=lost)  # type: ignore[arg-type]


def test_each_block_is_whole_on_one_host_and_hosts_take_turns() -> None:
    trials = next_trials(study(), (), ())
    assert {(t.block, t.host) for t in trials} == {
        (block, f"h{(block - 1) % 3 + 1}") for block in range(1, 8)
    }
    assert set(Counter((t.host, t.block) for t in trials).values()) == {2}
    assert {part.name for t in trials for part in parts_of(study(), t)} == {
        "h1/disk", "h2/disk", "h3/disk",
    }  # fmt: skip
    assert all(len(parts_of(study(), t)) == 1 for t in trials)


def test_a_study_whose_blocks_are_not_spread_has_the_trials_it_always_had() -> None:
    text = (HOSTS + REST + DESIGN).replace('blocks_over = "hosts"\n', "")
    assert {t.host for t in next_trials(study(text), (), ())} == {""}


def test_without_a_number_of_blocks_it_is_no_race() -> None:
    it = study(HOSTS + REST + '[design]\nblocks_over = "hosts"\n')
    assert (it.design.kind, it.design.blocks) == ("full", 5)


def test_it_takes_as_long_as_the_host_with_the_most_blocks() -> None:
    spread = estimate(study()).seconds
    one = estimate(study((HOSTS + REST + DESIGN).replace('blocks_over = "hosts"\n', ""))).seconds
    assert spread == pytest.approx(one * 3 / 7)
    notes = " ".join(estimate(study()).notes)
    assert "7 blocks over 3 hosts, each whole on one, 3 at a time" in notes


def test_a_lost_host_gives_its_blocks_whole_to_the_others_and_what_it_measured_stays() -> None:
    it = study()
    planned = next_trials(it, (), ())
    of_h2 = [t for t in planned if t.host == "h2"]
    assert [t.block for t in of_h2] == [2, 2, 5, 5]
    records = [done(t) for t in planned if t.host != "h2"]
    records += [done(of_h2[0]), done(of_h2[1], "failed")]
    given = taken_over(it, planned, records, ["h1", "h3"])
    assert [(t.host, t.block) for t in given] == [("h1", 5)] * 2
    planned += given
    assert {t.host for t in waiting(planned, records)} == {"h1"}
    records += [done(t) for t in given]
    again = next_trials(it, planned, records)
    assert [(t.host, t.block, t.attempt) for t in again] == [("h2", 2, 2)], "of the lost trial"
    planned += again
    given = taken_over(it, planned, records, ["h1", "h3"])
    assert [(t.host, t.block) for t in given] == [("h1", 2)] * 2, "a block is whole on its host"
    planned += given
    records += [done(t) for t in given]
    assert not waiting(planned, records)
    assert next_trials(it, planned, records) == ()
    assert most_left(it, planned, records, ()) == 0
    assert len({t.number for t in planned}) == len(planned)
    assert len({t.folder for t in planned}) == len(planned)


def test_a_host_that_gets_its_block_back_does_what_it_has_not_measured() -> None:
    it = study()
    planned = next_trials(it, (), ())
    records = [done(t) for t in planned if t.block != 2]
    records.append(done(next(t for t in planned if t.block == 2)))
    planned += taken_over(it, planned, records, ["h1"])
    back = taken_over(it, planned, records, ["h2"])
    assert [(t.host, t.block, t.attempt) for t in back] == [("h2", 2, 2)]
    assert taken_over(it, planned, records, []) == ()


def test_a_host_by_itself_sees_a_study_of_its_own() -> None:
    it = study()
    alone = alone_on(it, it.places[1])
    assert [place.name for place in alone.places] == ["h2"]
    assert {t.host for t in next_trials(alone, (), ())} == {"h2"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HOSTS + REST + DESIGN + 'kind = "race"\n', "a race decides after each block"),
        (HOSTS + REST + DESIGN + 'stop = "decided"\n', "looks after each block"),
        (HOSTS + REST.replace("h[1-3]", "h1") + DESIGN, "not on several hosts"),
        (
            HOSTS + REST + '[targets.nas]\ndirectory = "/mnt"\nhosts = "h[1-2]"\n'
            '[factors.where]\ntargets = ["disk", "nas"]\n' + DESIGN,
            "the target is not on h3",
        ),
        (
            HOSTS + REST + '[factors.scale]\ncount = "hosts"\nlevels = [1, 2]\n' + DESIGN,
            "each trial is on one host",
        ),
        (
            HOSTS + REST + '[factors.fw]\nmanual = "flash {level}"\nlevels = ["a", "b"]\n' + DESIGN,
            "manual levels cannot be set",
        ),
        (
            HOSTS + REST + '[factors.host]\noption = "iodepth"\nlevels = [1, 2]\n' + DESIGN,
            "results use this name for the host of a block",
        ),
        (
            HOSTS + REST + '[[stage]]\nvary = ["ahead"]\nthen = "best"\n' + DESIGN,
            "blocks_over cannot be combined with stages",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_with_blocks_over_hosts_is_refused(text: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        study(text)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["box1", "box2", "box3", "box7", "gate"], "box[1-3,7], gate"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["a"], "a"),
        (["b9", "b10", "b9"], "b[9-10]"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2], r2n1"),
        (["n1", "n01", "n02"], "n1, n[01-02]"),
    ],
)
def test_names_of_hosts_are_folded_and_unfold_to_the_same(names: list[str], said: str) -> None:
    assert folded(names) == said
    assert set(expanded(said)) == set(names)
