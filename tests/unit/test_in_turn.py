"""What is to be measured in turn, and in how many blocks: decided from results alone."""

from __future__ import annotations

import math
import random
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from factories import results
from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.in_blocks import in_blocks, noted, restored
from iotrial.plan.load import parse_study
from iotrial.stats.regress import blocks_needed, pairs_needed, regress
from iotrial_store.in_turn import reasons, settings_then, sides, with_settings_then

TEXT = """question = "Is it as fast as it was?"
[targets.disk]
device = "/dev/disk/by-id/nvme-A"
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "2s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "kyber"]
[design]
blocks = 3
[decide]
primary = "read.iops"
"""
DEPTHS = {"none": "128", "mq-deadline": "256", "kyber": "256"}


@cache
def parsed(text: str) -> Study:
    return parse_study(text, "nightly.toml", read)


def read(name: str) -> str:
    raise AssertionError(name)


def executed(text: str = TEXT, **depths: str) -> Results:
    """Results of the study in which ``queue.nr_requests`` was this of each scheduler."""
    study = parsed(text)
    base = results()
    record = next(each for each in base.valid if each.value("read.iops"))
    known = DEPTHS | depths
    records = []
    for block in range(1, study.design.blocks + 1):
        for level, depth in known.items():
            treatment = (("scheduler", level),)
            trial = replace(record.trial, workload="load", treatment=treatment, block=block,
                            target="disk", number=len(records) + 1)  # fmt: skip
            before = (("sda", "queue.scheduler", level), ("sda", "queue.nr_requests", depth))
            records.append(replace(record, trial=trial, before=before, after=before))
    facts: dict[str, Any] = {
        "machine_id": "m", "cpu_model": "c", "cpus": 2, "memory": 1, "kernel": "6.1",
        "programs": {"fio": "fio-3.33"}, "targets": {"disk": {"device": "sda"}},
        "devices": {"sda": {"rev": "1.0", "queue": {"read_ahead_kb": "128", "nr_requests": "128",
                                                    "scheduler": "[none] kyber"}}},
    }  # fmt: skip
    return replace(base, folder=Path("then"), study=study, records=tuple(records),
                   facts={"local": facts})  # fmt: skip


def noting(given: Results, **changed: object) -> Results:
    return replace(given, folder=Path("now"), facts={"local": given.facts["local"] | changed})


def test_results_of_the_same_have_no_reason_and_every_difference_is_one() -> None:
    then = executed()
    assert reasons(then, replace(then, folder=Path("now"))) == ()
    sda = then.facts["local"]["devices"]["sda"]
    for changed, kind, what, after in (
        ({"kernel": "6.12"}, "kernel", "kernel", "6.12"),
        ({"machine_id": "n"}, "machine", "machine", "n"),
        ({"programs": {"fio": "fio-3.36"}}, "tool", "fio", "fio-3.36"),
        ({"devices": {"sda": sda | {"rev": "1.1"}}}, "machine", "firmware of disk", "1.1"),
    ):
        (told,) = reasons(then, noting(then, **changed))
        assert (told.kind, told.what, told.after) == (kind, what, after)
        assert settings_then(then, noting(then, **changed)) == ({}, ())
    (told,) = reasons(then, executed(none="64"))
    assert (told.what, told.before, told.after) == ("queue.nr_requests on sda", "128", "64")
    assert told.where == ("scheduler=none",)


@pytest.mark.parametrize(
    ("old", "new", "matters"),
    [
        ("blocks = 3", "blocks = 2", False),
        ('"Is it as fast as it was?"', '"Is it?"', False),
        ('primary = "read.iops"', 'primary = "read.iops"\nmargin = "5%"', False),
        ('"mq-deadline", "kyber"]', '"mq-deadline", "kyber", "bfq"]', False),
        ("blocks = 3", 'blocks = 3\nsettle = "3s"', True),
        ('tool = "fio"', 'tool = "fio"\nprepare = ["trim"]', True),
        ('bs = "4k"', 'bs = "8k"', False),  # another load: compared in no way
    ],
)
def test_what_a_measurement_depends_on_is_a_reason_to_execute_the_former_study(
    old: str, new: str, *, matters: bool
) -> None:
    found = reasons(executed(), executed(TEXT.replace(old, new)))
    assert [each.kind for each in found] == (["study"] if matters else [])


def test_settings_are_measured_as_they_were_only_where_they_are_not_as_they_were() -> None:
    """The depth was another under two schedulers, and each gets its own."""
    then, now = executed(), executed(none="64", kyber="100")
    known, lost = settings_then(then, now)
    assert lost == ()
    assert known == {
        (("scheduler", "none"),): {"queue.nr_requests": "128"},
        (("scheduler", "kyber"),): {"queue.nr_requests": "256"},
    }
    added = with_settings_then(now.study, known)
    study = parse_study(TEXT + added, "nightly.toml", read)
    assert set(study.treatments("load")) == {
        (("scheduler", "none"), ("against", "stored")),
        (("scheduler", "none"), ("against", "now")),
        (("scheduler", "kyber"), ("against", "stored-2")),
        (("scheduler", "kyber"), ("against", "now")),
    }
    levels = {each.label: each.settings for each in study.factor("against").levels}
    assert levels == {
        "stored": (("queue.nr_requests", "128"),),
        "stored-2": (("queue.nr_requests", "256"),),
        "now": (),
    }
    assert tomllib.loads(TEXT + added)["factors"]["scheduler"]["tunable"] == "queue.scheduler"


def test_a_setting_that_no_load_reads_is_seen_in_the_queue_of_the_target() -> None:
    then = executed()
    sda = then.facts["local"]["devices"]["sda"]
    queue = sda["queue"] | {"read_ahead_kb": "4096", "scheduler": "none [kyber]"}
    now = noting(then, devices={"sda": sda | {"queue": queue}})
    known, _ = settings_then(then, now)
    assert set(map(str, known.values())) == {"{'queue.read_ahead_kb': '128'}"}, "the varied is not"
    assert len(known) == len(DEPTHS)
    renamed = replace(
        then,
        records=tuple(
            replace(each, before=(("sda", "queue.scheduler", "noop"), *each.before[1:]))
            for each in then.records
        ),
    )
    assert [each.what for each in reasons(renamed, then)] == ["queue.scheduler on sda"] * 3
    assert settings_then(renamed, then) == ({}, ()), "the study sets it itself"
    odd = noting(then, devices={"sda": sda | {"queue": sda["queue"] | {"no such": "1"}}})
    assert reasons(then, odd) == (), "what only one of them noted is not told"


def test_what_iotrial_cannot_write_as_a_factor_is_refused() -> None:
    now = executed(none="64")
    known, _ = settings_then(executed(), now)
    part = replace(now.study, design=replace(now.study.design, kind="one-at-a-time"))
    with pytest.raises(UsageError, match="one-at-a-time"):
        with_settings_then(part, known)
    many = {(("scheduler", f"s{n}"),): {"queue.nr_requests": str(n)} for n in range(30)}
    levels = tuple(replace(now.study.factors[0].levels[0], label=f"s{n}") for n in range(30))
    wide = replace(now.study, factors=(replace(now.study.factors[0], levels=levels),))
    with pytest.raises(UsageError, match="too many"):
        with_settings_then(wide, many)


def test_a_block_is_a_pair() -> None:
    plain = executed().study
    now = executed()
    records = tuple(
        replace(
            record,
            trial=replace(record.trial, treatment=(*record.trial.treatment, ("against", level))),
            measurements=tuple(
                replace(each, value=each.value * ratio * 2**record.trial.block)
                for each in record.measurements
            ),
        )
        for record in now.records
        for level, ratio in (("stored", 1.0), ("now", 0.9 + record.trial.block / 1000))
    )
    former, latter = sides(replace(now, records=records), plain)
    found = regress(former, latter, paired=True).findings
    assert [each.level for each in found] == [f"scheduler={level}" for level in DEPTHS]
    for each in found:
        assert each.n == plain.design.blocks
        assert each.verdict == "worse"
        assert each.ratio == pytest.approx(0.902, rel=1e-4)
        assert each.baseline == "settings as stored"


def session(chance: random.Random, blocks: int, between: float, within: float) -> Results:
    """One of which sessions and trials are this far apart."""
    given = executed(TEXT.replace("blocks = 3", f"blocks = {blocks}"))
    shift = chance.gauss(0, between)
    records = tuple(
        replace(
            record,
            measurements=tuple(
                replace(each, value=1000 * math.exp(shift + chance.gauss(0, within)))
                if each.metric == "read.iops" else each for each in record.measurements
            ),
        )
        for record in given.records
    )  # fmt: skip
    return replace(given, records=records)


def test_blocks_are_as_few_as_the_noise_between_sessions_leaves_use_for() -> None:
    chance = random.Random(1)
    apart = [session(chance, 10, 0.05, 0.01) for _ in range(8)]
    few, why = blocks_needed(apart, most=10)
    assert few == 2
    assert why.startswith("2 of 10 blocks give an interval that all would make less than 5 %")
    alike = [session(chance, 10, 0.0005, 0.03) for _ in range(8)]
    many, _ = blocks_needed(alike, most=10)
    assert many >= 8, "of sessions that are alike the trials are all there is"
    sure = [session(chance, 10, 0.001, 0.004) for _ in range(8)]
    enough, why = blocks_needed(sure, most=10)
    assert 2 <= enough < 10
    assert "decide a change of 0.02 with a power of 90%" in why
    assert blocks_needed(apart[:2], most=10) == (10, ""), "of two sessions little is known"
    assert blocks_needed(apart[:1], most=10, between=0.05)[0] == 2, "of A/A nights it is"
    assert blocks_needed(apart, most=2) == (2, "")


def test_a_session_of_fewer_blocks_is_not_called_worse_for_its_own_noise() -> None:
    """Sessions are alike, so that the mean of two trials is out by more than that of ten."""
    chance = random.Random(3)
    wrong = 0
    for _ in range(100):
        stored = [session(chance, 10, 0.0, 0.05) for _ in range(6)]
        found = regress(stored, [session(chance, 2, 0.0, 0.05)]).findings
        wrong += any(each.verdict in {"worse", "better"} for each in found)
    assert wrong <= 100 * 0.05 + 2 * math.sqrt(100 * 0.05 * 0.95)


def test_pairs_are_as_few_as_decide_the_margin() -> None:
    chance = random.Random(2)
    assert pairs_needed(session(chance, 10, 0.0, 0.001), 4, 10) == 4
    assert pairs_needed(session(chance, 10, 0.0, 0.1), 4, 10) == 10


def test_the_chosen_number_of_blocks_is_noted_and_read_back() -> None:
    study = executed().study
    fewer = in_blocks(study, 2)
    assert (fewer.design.blocks, fewer.digest) == (2, study.digest)
    assert restored(study, noted(fewer)) == fewer
    assert restored(study, noted(study)) is study
    race = replace(study, design=replace(study.design, kind="race", stop="decided"))
    assert in_blocks(race, 4).design.kind == "full"
    assert not in_blocks(race, 4).design.looked
