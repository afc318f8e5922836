"""What a study costs and can see, told before it touches anything."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import UsageError
from iotrial.model.study import Design, Study
from iotrial.model.tool import LIKELY, SupportsSizedLoads, ToolTarget
from iotrial.model.workload import Workload
from iotrial.plan.available import HostCapabilities, with_available
from iotrial.plan.estimate import (
    ASSUMED_WRITE_RATE,
    SECONDS_AROUND,
    assumed_aim,
    comparisons,
    estimate,
)
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.template import template
from iotrial.stats.power import resolvable
from iotrial.tools import tool

GOOD = Path(__file__).parents[1] / "data" / "studies" / "good"
METRIC = {
    "dd": "write.bw", "bonnie++": "create.seq.rate", "listing": "list.rate", "iozone": "write.bw"
}  # fmt: skip
SCHEDULERS = {"queue.scheduler": ("none", "mq-deadline", "kyber", "bfq")}


def good(name: str) -> Study:
    return load_study(GOOD / f"{name}.toml")


def schedulers() -> Study:
    study = parse_study(template("scheduler"), "scheduler.toml", lambda _name: "")
    return with_available(study, HostCapabilities(SCHEDULERS))


def load(options: str) -> Study:
    """One workload on a 1 GiB loop device, one block, no factor."""
    return parse_study(
        f'targets = {{ disk = {{ loop = {{ size = "1GiB" }} }} }}\ndesign.blocks = 1\n'
        f'workloads = {{ w = {{ tool = "fio", options = {{ bs = "64k", {options} }} }} }}\n',
        "study.toml",
        lambda _name: "",
    )


def test_the_template_of_schedulers_takes_about_three_minutes() -> None:
    found = estimate(schedulers())
    assert found.trials == 4 * 3 * 8
    assert 150 <= found.seconds <= 210


def test_seconds_are_those_of_the_tool_the_settling_and_the_rest_of_a_trial() -> None:
    study = replace(good("no-factor"), design=Design(blocks=7, settle=2.0))
    each = tool("fio").seconds(study.workloads[0], assumed_aim(study.targets[0]))
    assert estimate(study).seconds == pytest.approx(7 * (each + 2.0 + SECONDS_AROUND))


def test_a_load_that_only_reads_writes_no_more_than_the_file_it_reads() -> None:
    assert estimate(good("no-factor")).bytes_written == 64 * 2**20


def test_a_load_that_ends_by_time_is_assumed_to_write_at_a_rate_that_is_told() -> None:
    study = load('rw = "write", runtime = "4s"')
    found = estimate(study)
    each = tool("fio").seconds(study.workloads[0], assumed_aim(study.targets[0]))
    assert found.bytes_written == pytest.approx(each * ASSUMED_WRITE_RATE + 2**30)
    assert any("upper bound" in note for note in found.notes)


@pytest.mark.parametrize(("options", "rate"), [
    ('rw = "write", rate = "1m"', 2**20),
    ('rw = "randrw", rate = "9m,1m"', 2**20),
    ('rw = "write", rate = "1m", numjobs = 3', 3 * 2**20),
    ('rw = "write", rate_iops = 100', 100 * 65536),
    ('rw = "write", rate_iops = 100, rate = "1m"', 2**20),
    ('rw = "randwrite", rate_iops = 100, bssplit = "4k/90:128k/10"', 100 * 2**17),
    ('rw = "write", rate = "9m,"', ASSUMED_WRITE_RATE),
    ('rw = "write", rate = "9t"', ASSUMED_WRITE_RATE),
])  # fmt: skip
def test_a_load_that_is_limited_in_rate_writes_no_faster(options: str, rate: int) -> None:
    study = load(f'runtime = "4s", {options}')
    found = estimate(study)
    each = tool("fio").seconds(study.workloads[0], assumed_aim(study.targets[0]))
    assert found.bytes_written == pytest.approx(each * rate + 2**30)
    told = any("Bytes written are an upper bound" in note for note in found.notes)
    assert told is (rate == ASSUMED_WRITE_RATE)


def test_jobs_of_a_job_file_are_limited_each_and_together() -> None:
    job = "[a]\nrw=write\nrate=1m\n[b]\nrw=randwrite\nbs=4k\nrate_iops=256\n[c]\nrw=read\n"
    study = parse_study(
        'targets = { disk = { loop = { size = "1GiB" } } }\ndesign.blocks = 1\n'
        'workloads = { w = { tool = "fio", jobfile = "a", options = { runtime = "4s" } } }\n',
        "study.toml",
        lambda _name: job,
    )
    each = tool("fio").seconds(study.workloads[0], assumed_aim(study.targets[0]))
    assert estimate(study).bytes_written == pytest.approx(each * 2 * 2**20 + 2**30)


@pytest.mark.parametrize(("options", "written"), [
    ('rw = "write", size = "256MiB"', 2**28),
    ('rw = "write", size = "256MiB", numjobs = 2, loops = 3', 6 * 2**28),
    ('rw = "write"', 2**30),
    ('rw = "write", size = "256MiB", io_size = "64MiB"', 2**26),
])  # fmt: skip
def test_a_load_that_ends_by_size_writes_that_size(options: str, written: int) -> None:
    found = estimate(load(options))
    assert found.bytes_written == written + 2**30
    assert not any("Bytes written" in note for note in found.notes)


def test_what_is_written_is_unknown_where_nothing_bounds_it() -> None:
    found = estimate(load('rw = "write", size = "50%", numjobs = "2*cpus"'))
    assert math.isinf(found.bytes_written)
    assert any("unknown" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "options", "seconds"),
    [
        ("dd", 'rw = "write", size = "800MB", bs = "1MB", direct = false', 1.0),
        ("bonnie++", "size = 0, files = 10, fast = true", 1.0),
        ("listing", "entries = 100000, passes = 1", 9.0),
        ("iozone", 'size = "1g", operations = "write", stand_in = "fio"', 3.7),
    ],
)
def test_a_load_that_ends_by_size_is_reckoned_for_storage_of_today(
    name: str, options: str, seconds: float
) -> None:
    told = estimate(
        parse_study(
            'targets = { disk = { loop = { size = "2GiB" }, filesystem = "ext4" } }\n'
            "design = { blocks = 1, settle = 0 }\n"
            f'workloads = {{ w = {{ tool = "{name}", options = {{ {options} }} }} }}\n'
            f'decide.primary = "{METRIC[name]}"\n',
            "study.toml",
            lambda _name: "",
        )
    )
    assert seconds / 1.5 < told.seconds - SECONDS_AROUND < seconds * 1.5
    assert any("slow disks may need up to" in note for note in told.notes)


def test_a_job_file_is_bounded_by_its_time() -> None:
    study = replace(good("jobfile"), design=Design(blocks=1))
    assert estimate(study).bytes_written >= 2 * ASSUMED_WRITE_RATE


def test_what_a_target_turned_out_to_be_counts_for_more_than_what_was_assumed() -> None:
    study = load('rw = "write"')
    larger = {"disk": ToolTarget("/dev/loop7", "device", 4 * 2**30)}
    assert estimate(study, aims=larger).bytes_written == 5 * 2**30


def test_the_family_is_every_level_against_its_baseline_in_every_workload() -> None:
    assert comparisons(schedulers()) == 3 * 3
    assert comparisons(good("option-of-one-workload")) == (1 + 1) + 1
    assert comparisons(good("no-factor")) == 0
    assert comparisons(good("excluded-lists")) == 1 + 2  # kyber is excluded altogether


def test_the_smallest_difference_is_that_of_the_statistics_for_each_workload() -> None:
    study = schedulers()
    found = estimate(study, noise=0.05)
    least = resolvable(0.05, 8, 4, 9, 0.95)
    assert found.resolvable == tuple((w.name, least) for w in study.workloads)
    assert 0.05 < least < 0.25
    assert sum("cannot-tell" in note for note in found.notes) == 1


def test_without_noise_the_smallest_difference_is_unknown_and_said_to_be() -> None:
    found = estimate(schedulers())
    assert found.resolvable == ()
    assert any("noise is unknown" in note for note in found.notes)


def test_one_block_gives_no_verdict() -> None:
    study = replace(schedulers(), design=Design(blocks=1))
    found = estimate(study, noise=0.05)
    assert any(note.startswith("1 block: no verdict is possible") for note in found.notes)
    assert all(math.isinf(least) for _, least in found.resolvable)


def test_a_study_without_factors_says_that_it_measures_the_noise() -> None:
    notes = estimate(good("no-factor"), noise=0.05).notes
    assert any("measures the noise" in note for note in notes)


def test_a_budget_that_will_not_do_is_told_with_what_it_will_reach() -> None:
    study = replace(schedulers(), design=Design(blocks=5, settle=0.2, budget=60.0))
    assert any("about 2 of 5 blocks" in note for note in estimate(study).notes)
    enough = replace(study, design=Design(blocks=5, settle=0.2, budget=1000.0))
    assert not any("budget" in note for note in estimate(enough).notes)


def test_a_study_whose_levels_are_open_cannot_be_estimated() -> None:
    with pytest.raises(UsageError, match="not asked yet"):
        estimate(parse_study(template("scheduler"), "scheduler.toml", lambda _name: ""))


@pytest.mark.parametrize("size", ["256M", "256M:8k", "256M:8192", "256M:0"])
def test_a_large_file_past_the_cache_takes_its_chunks_one_by_one(size: str) -> None:
    options = (("size", size), ("files", 0), ("fast", True))
    buffered = Workload("w", "bonnie++", options)
    direct = Workload("w", "bonnie++", (*options, ("direct", True)))
    driver, place = tool("bonnie++"), ToolTarget("/data", "directory")
    assert isinstance(driver, SupportsSizedLoads)
    longer = driver.likely(direct, place) - driver.likely(buffered, place)
    assert longer == pytest.approx(4 * 32768 / LIKELY.rate)
    assert driver.likely(direct, place) < driver.seconds(direct, place)
