"""What stood at its limit, and what was uneven: decided from strains that are written down."""

from __future__ import annotations

import json

import pytest

from iotrial.formats.telemetry import (
    DiskAdapter,
    TelemetryRange,
    between,
    limits,
    samples,
    strains,
)
from iotrial.model.results import ResourceUsage, strain_of
from iotrial.stats.scaling import typical, uneven, why

DISK = {"reads": 0, "writes": 0, "sectors_read": 0, "sectors_written": 0, "read_ms": 0,
        "write_ms": 0, "io_ms": 0, "weighted_ms": 0, "in_flight": 0}  # fmt: skip


def disk(reads: int, ms: int = 0, depth_ms: int = 0) -> dict[str, int]:
    return {**DISK, "reads": reads, "sectors_read": 8 * reads, "read_ms": ms, "io_ms": 900,
            "weighted_ms": depth_ms}  # fmt: skip


def told(last: dict[str, object], **about: object) -> TelemetryRange:
    zero = {"disk": DISK, "cpu": {"user": 0, "softirq": 0, "idle": 0, "steal": 0},
            "cores": {"0": [0, 0, 0], "1": [0, 0, 0]}, "nics": {"eth0": [0, 0]},
            "paths": dict.fromkeys(("sdb", "sdc"), DISK)}  # fmt: skip
    first = {"t": 1.0, **{name: zero[name] for name in last}}
    return TelemetryRange("box1/disk", "dm-3", first, {"t": 3.0, **last}, **about)  # type: ignore[arg-type]


def line(t: float, **values: object) -> bytes:
    return json.dumps({"t": t, **values}, separators=(",", ":")).encode()


def test_only_the_time_measured_counts_and_not_the_last_look() -> None:
    data = b"\n".join(line(float(t)) for t in range(6)) + b"\n" + line(5.3)
    assert [row["t"] for row in between(data, 3.3, 5.3) or ()] == [2.0, 5.0]
    assert [row["t"] for row in between(data, 0.0, 5.3) or ()] == [0.0, 5.3]
    assert between(line(0.0), 1.0, 1.0) is None
    assert between(b'{"t":1.0,\n{"t":', 1.0, 2.0) is None


def test_the_load_is_the_mean_of_tasks_in_the_time_measured() -> None:
    rows = [line(float(t), cpu={}, tasks=[t, 1]) for t in range(5)]
    data = b"\n".join(rows) + b"\n"
    _, last = between(data, 2.5, 4.0) or ({}, {})
    assert last["load"] == pytest.approx((2 + 1 + 3 + 1) / 2), "the line at the end is not counted"
    assert "load" not in (between(b"\n".join(map(line, (0.0, 1.0))), 0.0, 1.0) or ({}, {}))[1]


def test_waiting_for_io_is_told_apart_from_being_idle() -> None:
    cpu = {"user": 50, "softirq": 0, "idle": 30, "iowait": 20, "steal": 0}
    (found,) = strains("box1", [told({"cpu": cpu})])
    assert (found.busy, found.iowait, found.load) == (0.5, 0.2, None)
    none = {**cpu, "idle": 50, "iowait": 0}
    (other,) = strains("box1", [told({"cpu": none})])
    assert strain_of(other.as_dict()).iowait == 0.0, "none is a number too"


def test_what_a_device_did_between_its_samples() -> None:
    rows = [
        line(0.0, disk=disk(0)),
        line(1.0, disk=disk(400, ms=800, depth_ms=900)),
        line(3.0, disk=disk(400, ms=800, depth_ms=900)),
    ]
    first, second = samples(b"\n".join(rows))
    assert (first.t, first.ios, first.latency, first.depth) == (0.5, 400.0, 0.002, 0.9)
    assert (second.t, second.ios, second.latency, second.depth) == (2.0, 0.0, None, 0.0)
    assert samples(b"\n".join([*rows, b'{"t":4.0,"dis'])) == ()
    assert samples(line(0.0, network={})) == ()


def test_a_disk_takes_what_its_queues_take_or_the_disk_itself() -> None:
    data = line(0.0, limits={"sda": [64, 32], "nvme0n1": [1023, 0], "x": [0, 0]})
    assert limits(data, {"nvme0n1": 4}) == {"sda": 32, "nvme0n1": 4092}
    assert limits(b"", {}) == {}


def test_paths_add_up_to_their_adapters_and_each_disk_counts_once() -> None:
    last = {"disk": disk(400), "paths": {"sdb": disk(300, 600), "sdc": disk(100, 50)}}
    hung = {"sdb": DiskAdapter("host3", 1e9), "sdc": DiskAdapter("host4")}
    found = {(each.kind, each.name): each for each in strains("box1", [told(last, ways=hung)] * 2)}
    assert found["path", "sdb"].ios == 150.0
    assert found["path", "sdb"].latency == pytest.approx(0.002)
    assert found["adapter", "host3"].ios == 150.0
    assert found["adapter", "host3"].busy == pytest.approx(150 * 4096 / 1e9, abs=1e-4)
    assert found["adapter", "host4"].busy is None
    assert found["device", "dm-3"].busy == 0.45


def test_the_cpu_its_interrupts_and_the_busiest_core_are_shares_of_their_time() -> None:
    cpu = {"user": 50, "softirq": 40, "idle": 100, "steal": 10}
    last = {"cpu": cpu, "cores": {"0": [10, 0, 100], "1": [97, 60, 100]}, "nics": {"eth0": [50, 2]}}
    found = {each.kind: each for each in strains("box1", [told(last, nics={"eth0": 50.0})])}
    assert (found["cpu"].busy, found["cpu"].interrupts, found["cpu"].stolen) == (0.45, 0.2, 0.05)
    assert (found["core"].name, found["core"].busy) == ("1", 0.97)
    assert (found["nic"].came, found["nic"].busy) == (25.0, 0.5)
    assert [strain_of(each.as_dict()) for each in found.values()] == list(found.values())


def device(host: str, ios: float = 1000.0, latency: float = 1e-3) -> ResourceUsage:
    return ResourceUsage(host, "device", "sda", f"{host}/disk", busy=1.0, ios=ios, latency=latency)


def said(*now: ResourceUsage, before: tuple[ResourceUsage, ...] = ()) -> list[str]:
    return [each.said for each in why(now, before)]


def test_the_host_whose_cpu_was_busy_is_named_and_how_many_are_like_it() -> None:
    cpus = [ResourceUsage(f"box{n}", "cpu", "all", busy=busy) for n, busy in ((1, 0.97), (2, 0.92))]
    assert said(*cpus, ResourceUsage("box3", "cpu", "all", busy=0.3)) == [
        "the CPU of box1 was 97% busy (2 of 3 at their limit)"
    ]


@pytest.mark.parametrize(
    ("strain", "words"),
    [
        (ResourceUsage("b", "core", "3", busy=0.99, interrupts=0.7),
         "CPU 3 of b was 99% busy, 70% in interrupts"),
        (ResourceUsage("b", "cpu", "all", busy=0.5, stolen=0.12),
         "the hypervisor withheld 12% of the CPU time of b (steal)"),
        (ResourceUsage("b", "nic", "eth0", busy=0.95), "eth0 of b used 95% of its link bandwidth"),
        (
            ResourceUsage("b", "adapter", "host3", busy=0.91),
            "host3 of b used 91% of its link bandwidth",
        ),
        (ResourceUsage("b", "device", "sda", depth=30.5, limit=32),
         "the queue of sda on b was full: 30.5 of at most 32 I/Os in flight on average"),
    ],
)  # fmt: skip
def test_what_stands_at_its_limit_is_named(strain: ResourceUsage, words: str) -> None:
    assert said(strain) == [words]


def test_a_busy_device_alone_is_no_limit_and_waiting_longer_is_said() -> None:
    nothing = "no sampled resource was at its limit"
    assert said(device("a"), before=(device("a"),)) == [nothing]
    first, second = said(device("a", latency=2e-3), before=(device("a"),))
    assert first == nothing
    assert second.startswith("I/O latency of sda on a was 2.00 ms, at the baseline 1.00 ms")
    assert why(()) == ()


def test_an_uneven_path_adapter_and_host_are_named_with_their_share() -> None:
    paths = [
        ResourceUsage("a", "path", name, "a/disk", ios=ios)
        for name, ios in (("sdb", 710.0), ("sdc", 100.0), ("sdd", 100.0), ("sde", 90.0))
    ]
    hbas = [
        ResourceUsage("a", "adapter", f"host{n}", ios=ios) for n, ios in ((3, 810.0), (4, 190.0))
    ]
    found = uneven([*paths, *hbas, device("a"), device("b", 200.0)])
    assert [each.said for each in found] == [
        "b reached 33% of the mean of the 2 hosts",
        "sdb carried 71% of the I/O of the 4 paths of a/disk (even: 25%)",
        "host3 carried 81% of the I/O through the 2 adapters of a (even: 50%)",
    ]
    assert [(each.host, each.name) for each in found] == [("b", "b"), ("a", "sdb"), ("a", "host3")]


def test_too_few_and_nearly_even_ones_say_nothing() -> None:
    assert uneven([device("a", 30.0), device("b", 3.0)]) == ()
    assert uneven([device("a", 1000.0), device("b", 800.0)]) == ()


def test_of_several_trials_the_middle_one_speaks_whatever_number_a_loop_has() -> None:
    trials = [
        [
            ResourceUsage("a", "device", f"loop{n}", "a/d", ios=ios),
            ResourceUsage("a", "core", str(n), busy=0.5),
        ]
        for n, ios in enumerate((100.0, 900.0, 300.0))
    ]
    found = typical(trials)
    assert [(each.kind, each.ios) for each in found] == [("device", 300.0), ("core", 0.0)]
