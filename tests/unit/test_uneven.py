"""Loads that are not spread: over paths, adapters, nodes and hosts; and Little's law."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stats_studies import results

from iotrial.formats.fio import json_output as fio_json
from iotrial.hosts.fake.fio import JobResult, parse, result
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.model.validity import CheckContext, LoadEvidence, Snapshot
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.fio import TOOL
from iotrial.validity import judged, of_study, readings, written
from iotrial.validity.course import in_flight

WAYS = (
    ("sdb", "host3", "0"),
    ("sdc", "host3", "0"),
    ("sdd", "host4", "1"),
    ("sde", "host4", "1"),
)
MAP = CheckContext("dm-3", ("sdb", "sdc", "sdd", "sde"), ways=WAYS)


def stats(*reads: int) -> dict[str, str]:
    return {
        f"/sys/block/{way[0]}/stat": f"{count} 0 0 0 0 0 0 0 0 0 0"
        for way, count in zip(WAYS, reads, strict=False)
    }


def said(*reads: int, scene: CheckContext = MAP) -> list[str]:
    case = LoadEvidence(
        scene,
        Snapshot(0.0, stats(*[5] * len(reads))),
        Snapshot(9.0, stats(*[n + 5 for n in reads])),
        9.0,
    )
    return [doubt.what for doubt in judged(case) if doubt.check == "uneven-paths"]


OF = "the 4 paths and members of dm-3"


def test_paths_that_carry_alike_are_nothing() -> None:
    assert said(1000, 1010, 980, 1020) == []


def test_a_path_that_carried_most_is_named_and_so_are_adapter_and_node() -> None:
    assert said(7100, 1000, 1000, 900) == [
        f"sdb carried 71% of the I/O of {OF} (even: 25%)",
        f"host3 carried 81% of the I/O of {OF}, by adapter (even: 50%)",
        f"node 0 carried 81% of the I/O of {OF}, by NUMA node (even: 50%)",
    ]


def test_paths_that_stand_by_are_nothing_where_others_share_but_one_adapter_alone_is_said() -> None:
    assert said(2000, 0, 2000, 0) == []
    assert said(2000, 2000, 0, 0) == [
        f"all I/O of {OF} went through adapter host3, and nothing through host4",
        f"all I/O of {OF} went through NUMA node node 0, and nothing through node 1",
    ]
    assert said(4000, 0, 0, 0) == [f"all I/O of {OF} went through sdb"]


def test_what_chance_does_is_nothing_and_so_is_what_nobody_counts() -> None:
    assert said(60, 140, 100, 99) == []
    assert said(130, 80, 100, 100) == []
    assert said(7100, 1000, 1000, 900, scene=replace(MAP, ways=())) == []
    assert {r.probe.path for r in readings(MAP)} >= set(stats(0, 0, 0, 0))


def test_the_ways_of_a_scene_are_read_as_they_were_written(tmp_path: Path) -> None:
    case = LoadEvidence(replace(MAP, depth=64), Snapshot(), Snapshot(), 1.0)
    written.save(tmp_path, case)
    assert written.case(tmp_path, ()).scene == case.scene


def flight(iops: float, latency: float, scene: CheckContext) -> list[str]:
    told = (
        Measurement("read.iops", iops, "1/s"),
        Measurement("read.lat.mean", latency, "s"),
        Measurement("read.ios", iops * 10, ""),
    )
    case = LoadEvidence(scene, Snapshot(0.0), Snapshot(10.0), 10.0, told)
    return [doubt.what for doubt in judged(case) if doubt.check == "littles-law"]


FULL = CheckContext("sda", ("sda",), direct=True, depth=64)


@pytest.mark.parametrize(
    ("iops", "doubted"), [(64_000.0, False), (52_000.0, False), (45_000.0, True), (75_000.0, True)]
)
def test_rate_times_latency_must_be_what_is_in_flight(iops: float, *, doubted: bool) -> None:
    assert bool(flight(iops, 1e-3, FULL)) is doubted


def test_the_law_says_how_many_and_is_not_asked_where_nobody_keeps_a_queue() -> None:
    (what,) = flight(32_000.0, 1e-3, FULL)
    assert "gives 32.0 I/Os in flight, but the configured depth is 64: 50%" in what
    assert flight(32_000.0, 1e-3, replace(FULL, depth=0)) == []
    assert flight(32_000.0, 1e-3, replace(FULL, direct=False, buffered="direct=0")) == []
    assert flight(50.0, 1e-3, FULL) == []  # 500 I/Os


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({"iodepth": 32, "numjobs": 4}, 128),
        ({"iodepth": 32, "numjobs": "2*cpus"}, 256),
        ({"iodepth": 32, "ioengine": "psync", "numjobs": 4}, 4),
        ({"iodepth": 32, "rate_iops": 100}, 0),
        ({"iodepth": 32, "thinktime": "1ms"}, 0),
        ({"iodepth": 32, "fsync": 1}, 0),
        ({"iodepth": 32, "iodepth_batch_complete_min": 8}, 0),
        ({"iodepth": 32, "time_based": False}, 0),
    ],
)
def test_what_fio_keeps_in_flight_is_jobs_times_depth(
    options: dict[str, OptionValue], depth: int
) -> None:
    words = {"rw": "randread", "runtime": "5s", **options}
    assert TOOL.depth(Workload("r", "fio", tuple(words.items())), {"cpus": 4.0}) == depth


@pytest.mark.parametrize("grouped", ["", "--group_reporting"])
def test_a_pretended_fio_obeys_the_law(grouped: str, tmp_path: Path) -> None:
    words = ["fio", "--name=r", "--rw=randrw", "--runtime=4s", "--ioengine=libaio", "--iodepth=32"]
    words += [
        "--filename=/dev/fake0",
        "--numjobs=4",
        "--output-format=json+",
        *filter(None, [grouped]),
    ]
    command = parse(words, tmp_path)
    works = [JobResult(job, 40_000.0, 4.0) for job in command.jobs]
    parsed = fio_json.parse(result(command, works, "", 0.0), "fio.json")
    case = LoadEvidence(FULL, Snapshot(0.0), Snapshot(4.0), 4.0, parsed.measurements)
    assert in_flight(case) == pytest.approx(4 * 32, rel=0.02)


def test_a_load_without_a_runtime_ends_when_it_ends() -> None:
    assert TOOL.depth(Workload("r", "fio", (("iodepth", 32),)), {}) == 0


def of_hosts(**did: float) -> Results:
    """Trials in which each host's one target did so much."""
    plain = results({"hosts": ("1", "2")}, ["reads"], 2, lambda _: 1.0)
    study = replace(
        plain.study, decide=replace(plain.study.decide, primary=(("reads", "read.iops"),))
    )
    records = tuple(
        replace(
            record,
            parts=tuple(f"{host}/disk" for host in did),
            measurements=tuple(
                Measurement("read.iops", value, "1/s", f"{host}/disk")
                for host, value in did.items()
            ),
        )
        for record in plain.records
    )
    return replace(plain, study=study, records=records)


def uneven_hosts(of: Results) -> list[Doubt]:
    return [doubt for doubt in of_study(of) if doubt.check == "uneven-hosts"]


def test_a_host_that_did_less_than_the_others_is_named() -> None:
    (doubt,) = uneven_hosts(of_hosts(box1=1000.0, box2=310.0, box3=1000.0))
    assert doubt.what == (
        "reads at hosts=1: box2 reached 40% of the mean of the 3 hosts; 1 more like it"
    )
    assert not doubt.invalid


def test_hosts_that_did_alike_are_nothing() -> None:
    assert uneven_hosts(of_hosts(box1=1000.0, box2=900.0)) == []
