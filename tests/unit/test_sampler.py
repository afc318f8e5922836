"""Telemetry: kernel text in, counters by name out; what is absent is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotrial.execute.load.sampler import (
    Sampler,
    cores,
    cpu_times,
    disk,
    interfaces,
    interrupts,
    pressures,
    tasks,
)
from iotrial.execute.trial import changed_back
from iotrial.hosts.fake import FakeHost
from iotrial.model.step import Probe
from iotrial.model.tunable import Setting

INTERRUPTS = """\
           CPU0       CPU1
  0:         46          0   IO-APIC   2-edge      timer
  1:          0          0   IO-APIC   1-edge      i8042
 36:       1000       2345   PCI-MSIX-0000:00:02.0 1-edge      virtio1-req.0
LOC:    1234567    7654321   Local timer interrupts
ERR:          3
"""


def test_interrupts_are_summed_over_cpus_and_silent_lines_left_out() -> None:
    assert interrupts(INTERRUPTS) == {
        "0 IO-APIC 2-edge timer": 46,
        "36 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0": 3345,
        "LOC Local timer interrupts": 8888888,
        "ERR": 3,
    }


def test_a_disk_line_has_names_also_with_the_fields_of_newer_kernels() -> None:
    line = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"
    assert disk(line)["reads"] == 1
    assert disk(line)["sectors_written"] == 7
    assert disk(line)["weighted_ms"] == 11


def test_cpu_times_are_those_of_all_cpus_together() -> None:
    assert cpu_times("cpu  10 1 5 100 2 0 3 4 0 0\ncpu0 5 1 2 50 1 0 1 2 0 0\n")["steal"] == 4


def test_pressure_gives_stall_totals() -> None:
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0 avg60=0 avg300=0 total=7"
    assert pressures(text) == {"some": 12, "full": 7}
    assert pressures("") == {}


def test_every_sample_is_one_line_on_the_trials_clock(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    with Sampler(FakeHost(), "fake0", path) as sampler:
        sampler.sample(1.0)
        sampler.sample(2.004)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["t"] for row in rows] == [0.0, 1.0, 2.004]
    assert all("reads" in row["disk"] and "user" in row["cpu"] for row in rows)
    assert "network" not in rows[0]


def test_an_answer_that_comes_too_late_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    host = FakeHost(seed=1)
    with Sampler(host, "", path) as sampler:
        sampler.sample(0.0, by=host.clock() - 1.0)
        sampler.sample(1.0)
        sampler.sample(2.0, by=host.clock() + 1.0)
    assert [json.loads(line)["t"] for line in path.read_text().splitlines()] == [0.0, 1.0, 2.0]
    late = tmp_path / "late.jsonl"
    with Sampler(host, "", late) as sampler:
        before = sampler.first
        host.sleep(1.0)
        sampler.sample(0.0, by=host.clock() - 0.5)
        assert sampler.first is before


def test_a_remote_target_is_watched_by_its_network(tmp_path: Path) -> None:
    with Sampler(FakeHost(), "", tmp_path / "telemetry.jsonl") as sampler:
        pass
    assert "network" in sampler.last
    assert "disk" not in sampler.last


def test_each_cpu_says_how_long_it_was_busy_and_in_interrupts() -> None:
    text = "cpu  9 9 9 9 9 9 9 9\ncpu0 5 1 2 50 1 3 4 2 0 0\ncpu11 0 0 0 7\nintr 5\n"
    assert cores(text) == {"0": [15, 7, 68], "11": [0, 0, 7]}


def test_tasks_that_run_and_those_that_wait_for_io_are_counted() -> None:
    assert tasks("cpu 1\nprocs_running 3\nprocs_blocked 2\n") == [3, 2]
    assert tasks("") == [0, 0]


def test_an_interface_says_what_it_received_and_sent() -> None:
    text = "head\nhead\n  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n    lo:5 1\n"
    assert interfaces(text) == {"eth0": [100, 200]}


def test_what_a_device_is_built_on_is_sampled_and_its_limits_once(tmp_path: Path) -> None:
    """The first device alone has the host's CPUs and interfaces; a disk that counts nothing is
    left out."""
    host = FakeHost()
    (disk_of_host,) = [name for name in host.list("/sys/block") if name == "fake0"]
    below = {"fake0": (disk_of_host, "gone")}
    first, beside = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    sampler = Sampler(
        host, "fake0", first, beside=[("fake0", beside)], below=below, nics=("lo", "none")
    )
    with sampler:
        sampler.sample(1.0)
    rows = [json.loads(line) for line in first.read_text().splitlines()]
    assert rows[1]["paths"] == {"fake0": rows[1]["disk"]}
    assert rows[0]["limits"].keys() == {"fake0", "gone"}
    assert rows[0]["limits"]["fake0"][0] > 0
    assert rows[0]["limits"]["gone"] == [0, 0]
    assert "limits" not in rows[1]
    assert {"cores", "nics", "tasks"} <= rows[1].keys()
    other = [json.loads(line) for line in beside.read_text().splitlines()]
    assert not {"cores", "nics", "tasks"} & other[1].keys()


def test_values_of_settings_that_are_held_are_noted_in_turn(tmp_path: Path) -> None:
    host = FakeHost()
    place = "/sys/block/fake0/queue/read_ahead_kb"
    held = [("fake0", "queue.read_ahead_kb", Probe(place)), ("", "x", Probe("/not/here"))]
    with Sampler(host, "fake0", tmp_path / "telemetry.jsonl", held=held) as sampler:
        former = host.read(place).decode().strip()
        sampler.sample(1.0)
        host.write(place, b"4096")
        sampler.sample(2.0)
        sampler.sample(3.0)
        host.write(place, former.encode())
        sampler.sample(4.0)
    setting = ("fake0", "queue.read_ahead_kb")
    assert sampler.values == {setting: [(0.0, former), (2.0, "4096"), (4.0, former)]}
    before = (Setting("fake0", "queue.read_ahead_kb", former),)
    (doubt,) = changed_back(before, sampler.values, before)
    assert doubt.invalid
    assert (
        f"was {former}, then 4096 from about 2 s on, then {former} from about 4 s on" in doubt.what
    )
    after = (Setting("fake0", "queue.read_ahead_kb", "2"),)
    assert changed_back(before, {setting: [(0.0, former), (2.0, "2")]}, after) == [], "see drift"
    assert changed_back(before, {setting: [(0.0, former)]}, before) == []


@pytest.mark.parametrize(
    ("sampled", "told"),
    [
        ([(0.0, "256"), (7.0, "128")], "was 128, then 256 from about 0 s on, then 128 from about"),
        ([(0.0, "128"), (9.0, "256")], "was 128, then 256 from about 9 s on"),
        ([(0.0, "256")], "was 128, then 256 from about 0 s on"),
    ],
)
def test_a_setting_changed_before_the_first_sample_or_back_after_the_last_is_told(
    sampled: list[tuple[float, str]], told: str
) -> None:
    """The settings are verified some time before the first sample, and again after the last."""
    setting = Setting("sdb", "queue.read_ahead_kb", "128")
    other = Setting("sdb", "queue.nr_requests", "64")
    seen = {("sdb", "queue.read_ahead_kb"): sampled, ("sdb", "queue.nr_requests"): [(0.0, "64")]}
    (doubt,) = changed_back((setting, other), seen, (setting, other))
    assert doubt.invalid
    assert doubt.what.count("then") == told.count("then")
    assert told in doubt.what
