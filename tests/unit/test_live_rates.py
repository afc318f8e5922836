"""Two samples in, what was done between them out."""

from __future__ import annotations

import pytest

from iotrial.live.picture import device_rates, host_rates, path_rates, total

BEFORE = {
    "t": 1.0,
    "disk": {"reads": 100, "sectors_read": 800, "read_ms": 50, "writes": 7, "sectors_written": 8,
             "write_ms": 3, "in_flight": 1, "io_ms": 500},
    "cpu": {"user": 100, "system": 50, "idle": 800, "iowait": 50, "steal": 0},
    "pressure": {"io": {"some": 1_000_000, "full": 0}},
}  # fmt: skip
AFTER = {
    "t": 3.0,
    "disk": {"reads": 2100, "sectors_read": 16_800, "read_ms": 1050, "writes": 7,
             "sectors_written": 8, "write_ms": 3, "in_flight": 16, "io_ms": 1500},
    "cpu": {"user": 180, "system": 70, "idle": 860, "iowait": 80, "steal": 10},
    "pressure": {"io": {"some": 1_500_000, "full": 0}},
}  # fmt: skip


def test_a_device_did_what_its_counters_grew_by() -> None:
    assert device_rates(BEFORE, AFTER) == {
        "read.iops": 1000.0,
        "read.bw": 4_096_000.0,
        "read.lat": 0.0005,
        "write.iops": 0.0,
        "write.bw": 0.0,
        "busy": 0.5,
        "in_flight": 16.0,
    }


def test_nothing_written_has_no_latency() -> None:
    assert "write.lat" not in device_rates(BEFORE, AFTER)


def test_a_host_has_shares_of_its_time() -> None:
    found = host_rates(BEFORE, AFTER)
    assert found["cpu.busy"] == pytest.approx(0.55)
    assert found["cpu.steal"] == pytest.approx(0.05)
    assert found["pressure.io"] == pytest.approx(0.25)
    assert "pressure.memory" not in found


def test_samples_that_are_too_near_or_of_two_loads_say_nothing() -> None:
    assert device_rates(BEFORE, {**AFTER, "t": 1.1}) == {}
    assert host_rates({**BEFORE, "t": 4.0}, AFTER) == {}


def test_a_counter_that_began_anew_is_not_known() -> None:
    fresh = {**AFTER, "disk": {**AFTER["disk"], "reads": 5}}  # type: ignore[dict-item]
    found = device_rates(BEFORE, fresh)
    assert "read.iops" not in found
    assert found["write.iops"] == 0.0


def test_totals_add_counts_and_weigh_latencies() -> None:
    found = total(
        [
            {"read.iops": 100.0, "read.bw": 10.0, "read.lat": 0.001, "busy": 1.0},
            {"read.iops": 300.0, "read.bw": 30.0, "read.lat": 0.005, "busy": 0.5},
            {},
        ]
    )
    assert found == {"read.iops": 400.0, "read.bw": 40.0, "read.lat": pytest.approx(0.004)}


def test_a_remote_target_has_what_its_interfaces_carried() -> None:
    head = "Inter-|   Receive |  Transmit\n face |bytes |bytes\n"
    line = "    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n  eth0: {} 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0\n"
    first, then = (
        {"t": t, "network": {"/proc/net/dev": head + line.format(received, sent)}}
        for t, received, sent in ((0.0, 1000, 500), (2.0, 5000, 700))
    )
    assert device_rates(first, then) == {"received.bw": 2000.0, "sent.bw": 100.0}


def test_paths_have_rates_of_their_own_and_a_share_of_their_device() -> None:
    sdb, sdc = ({"reads": n, "sectors_read": 8 * n, "read_ms": n} for n in (300, 100))
    none = {"reads": 0, "sectors_read": 0, "read_ms": 0}
    found = path_rates(
        {"t": 0.0, "paths": {"sdb": none, "sdc": none}},
        {"t": 2.0, "paths": {"sdb": sdb, "sdc": sdc}},
    )
    assert found["sdb"]["read.iops"] == 150.0
    assert [found[path]["share"] for path in ("sdb", "sdc")] == [0.75, 0.25]
    assert path_rates(BEFORE, AFTER) == {}
