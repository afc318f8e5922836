"""A recording as a load, on this kernel: what is done again is what was recorded, at its times, and
a target that does not keep up says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import throttled
from conftest import new_loop, remove_loop
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results
from iotrial_record.trace import QUEUED, SECTOR, TraceEvents, joined, load_index, load_parts
from lab import Lab

pytestmark = [pytest.mark.root, pytest.mark.alone]

IOTRIAL = [sys.executable, "-m", "iotrial.cli.main"]
SECONDS = 4
MIXED = (
    "--name=x", "--rw=randrw", "--rwmixread=70", "--bssplit=4k/60:16k/40", "--direct=1",
    "--ioengine=libaio", "--iodepth=4", "--norandommap", "--time_based", f"--runtime={SECONDS}",
    "--rate_iops=140,60", "--rate_process=poisson", "--fdatasync=200",
)  # fmt: skip
"""Slow enough for a busy machine."""
CHANCE = 1.63 * (2 / (60 * SECONDS)) ** 0.5
"""The distance that one of a hundred pairs of samples with so many writes each has (Smirnov)."""
STUDY = """\
[targets.disk]
device = "/dev/{device}"
destroy = "{backing}"
[workloads.mine]
tool = "{tool}"
recorded = {recorded}
{more}
[decide]
primary = "read.lat.mean"
[design]
kind = "full"
blocks = 1
settle = "0s"
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("IOTRIAL_STATE", str(tmp_path / "state"))
    yield tmp_path / "state"
    assert not list((tmp_path / "state").rglob("*.journal"))


def iotrial(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [*IOTRIAL, *words], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def recorded(loop_device: str, tmp_path: Path) -> Path:
    """A recording of a mixed load."""
    return recording(tmp_path / "load", {loop_device: MIXED})


def recording(folder: Path, loads: Mapping[str, Sequence[str]]) -> Path:
    """A recording of these devices, while fio does the load of each."""
    recorder = subprocess.Popen(
        [*IOTRIAL, "record", *(f"/dev/{each}" for each in loads), "--for", f"{SECONDS + 3}s",
         "--out", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (folder / "recording.json").exists():
        assert recorder.poll() is None
    running = [
        subprocess.Popen(["fio", f"--filename=/dev/{each}", *words], stdout=subprocess.DEVNULL)
        for each, words in loads.items()
    ]
    assert [each.wait(60) for each in running] == [0] * len(running)
    assert recorder.wait(60) == 0
    return folder


@pytest.fixture
def smaller(tmp_path: Path) -> Iterator[str]:
    """Another loop device, of 32 MiB."""
    number = new_loop()
    backing = tmp_path / "smaller.img"
    backing.touch()
    os.truncate(backing, 32 << 20)
    try:
        attach = ["losetup", "--direct-io=on", f"/dev/loop{number}", str(backing)]
        subprocess.run(attach, check=True, timeout=30, capture_output=True)
        yield f"loop{number}"
    finally:
        remove_loop(number)


@pytest.fixture
def ran(loop_device: str, tmp_path: Path, recorded: Path) -> Callable[..., tuple[TrialRecord, ...]]:
    """Run a study with the recording; its valid trials."""

    def run(tool: str = "replay", *, more: str = "", given: str = "") -> tuple[TrialRecord, ...]:
        text = STUDY.format(
            device=loop_device, backing=tmp_path / "loop.img", tool=tool, more=more,
            recorded=given or json.dumps(str(recorded)),
        )  # fmt: skip
        study = tmp_path / "study.toml"
        study.write_text(text)
        iotrial("run", str(study), "--out", str(tmp_path / "results"))
        return tuple(open_results(tmp_path / "results").valid)

    return run


def asked(events: TraceEvents) -> Counter[tuple[str, int, int]]:
    mine = events.only((events.kind == QUEUED) & (events.sectors > 0))
    rows = zip(mine.operation.tolist(), mine.sector.tolist(), mine.sectors.tolist(), strict=True)
    return Counter((chr(op), at * SECTOR, count * SECTOR) for op, at, count in rows)


def of(folder: Path) -> TraceEvents:
    return joined(load_parts(folder, load_index(folder)))


def value(trial: TrialRecord, metric: str) -> float:
    return next(e.value for e in trial.measurements if e.metric == metric and e.job == "all")


def test_the_same_ios_are_done_again_at_their_times(recorded: Path, loop_device: str) -> None:
    """Each I/O once, by what the block layer is asked meanwhile; and how far it is from it."""
    out, device = recorded.parent / "check", f"/dev/{loop_device}"
    armed = str(recorded.parent / "loop.img")
    said = iotrial("record", "--check", str(recorded), device, "--destroy", armed,
                   "--out", str(out), "--json")  # fmt: skip
    for way in ("replay", "fios-replay"):
        assert asked(of(out / way)) == asked(of(recorded))
    replay = json.loads(said)["replay"]
    for name in ("mix", "sizes", "zones", "sequential"):
        assert replay[name]["value"] < 0.01, (name, replay)
    for name in ("arrivals", "bursts"):
        assert replay[name]["value"] <= 0.05, (name, replay)
    model = json.loads(said)["job file"]
    for name in ("mix", "sizes", "zones"):
        assert model[name]["value"] <= CHANCE, (name, model)


def test_a_check_on_a_device_that_is_not_armed_is_refused(recorded: Path, loop_device: str) -> None:
    before = (recorded.parent / "loop.img").read_bytes()
    iotrial("record", "--check", str(recorded), f"/dev/{loop_device}", "--out",
            str(recorded.parent / "check"), code=3)  # fmt: skip
    assert (recorded.parent / "loop.img").read_bytes() == before


def test_a_recording_is_a_load_of_a_study(
    ran: Callable[..., tuple[TrialRecord, ...]], recorded: Path
) -> None:
    more = '[factors.pace]\noption = "speed"\nlevels = [1, 3, "max"]'
    trials = {dict(each.trial.treatment)["pace"]: each for each in ran(more=more)}
    assert set(trials) == {"1", "3", "max"}
    ios = asked(of(recorded))
    for each in trials.values():
        for name, letter in (("read", "R"), ("write", "W")):
            mine = sum(count for (op, _, _), count in ios.items() if op == letter)
            assert value(each, f"{name}.ios") == mine
        moved = sum(size * count for (_, _, size), count in ios.items())
        assert value(each, "total.bw") / value(each, "total.iops") == pytest.approx(
            moved / ios.total()
        )
    rates = {name: value(each, "total.iops") for name, each in trials.items()}
    assert rates["3"] == pytest.approx(3 * rates["1"], rel=0.1)
    assert rates["max"] > rates["3"]
    assert value(trials["1"], "read.response.p90") >= value(trials["1"], "read.lat.p50")


@pytest.mark.skipif(bool(throttled.why_not()), reason=throttled.why_not())
def test_a_target_that_does_not_keep_up_is_late_and_says_so(
    ran: Callable[..., tuple[TrialRecord, ...]],
) -> None:
    """Half as many reads as are asked for.  The latencies alone say little of it: each client waits
    for its own."""
    more = '[factors.limit]\ntunable = "cgroup.v1.read_iops"\nlevels = [70, 5000]'
    trials = {dict(each.trial.treatment)["limit"]: each for each in ran(more=more)}
    slow, quick = trials["70"], trials["5000"]
    assert any(doubt.check == "replay-late" for doubt in slow.doubts)
    assert not any(doubt.check == "replay-late" for doubt in quick.doubts)
    assert value(slow, "read.response.p90") > SECONDS / 4
    assert value(quick, "read.response.p90") < 0.1
    assert value(slow, "read.ios") == value(quick, "read.ios")


def test_a_part_of_it_and_a_job_file_with_its_character(
    ran: Callable[..., tuple[TrialRecord, ...]], recorded: Path
) -> None:
    part = f'{{ folder = "{recorded}", begin = "1s", time = "2s" }}'
    (trial,) = ran("fio", given=part)
    assert 100 < value(trial, "read.iops") + value(trial, "write.iops") < 300


def test_a_smaller_target_has_all_of_it_in_its_order(recorded: Path, tmp_path: Path) -> None:
    """A file of a quarter of the device."""
    small = tmp_path / "small"
    text = f"""\
[targets.small]
file = "{small}"
size = "16MiB"
[workloads.mine]
tool = "replay"
recorded = "{recorded}"
options = {{ speed = "max" }}
[decide]
primary = "total.iops"
[design]
kind = "full"
blocks = 1
settle = "0s"
"""
    (tmp_path / "small.toml").write_text(text)
    iotrial("run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "small-results"))
    (trial,) = open_results(tmp_path / "small-results").valid
    assert value(trial, "total.ios") == asked(of(recorded)).total()
    assert not small.exists()


def test_of_two_recorded_devices_the_one_that_is_named_is_done_again(
    loop_device: str, smaller: str, tmp_path: Path
) -> None:
    """Both were under a load at the same time; that of the smaller one is done on the other."""
    both = recording(tmp_path / "both", {loop_device: MIXED, smaller: (*MIXED, "--randseed=5")})
    events = of(both)
    mine = asked(events.only(events.device == 1))
    assert 0 < mine.total() < asked(events).total()
    check = ("record", "--check", str(both), f"/dev/{loop_device}", "--destroy",
             str(tmp_path / "loop.img"), "--out", str(tmp_path / "check"), "--json")  # fmt: skip
    assert "several devices" in iotrial(*check, code=2)
    replay = json.loads(iotrial(*check, "--device", smaller))["replay"]
    assert asked(of(tmp_path / "check/replay")) == mine
    assert replay["arrivals"]["value"] <= 0.05, replay
    text = STUDY.format(
        device=loop_device, backing=tmp_path / "loop.img", tool="replay", more="",
        recorded=f'{{ folder = "{both}", device = "{smaller}" }}',
    )  # fmt: skip
    (tmp_path / "study.toml").write_text(text)
    iotrial("run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "results"))
    (trial,) = open_results(tmp_path / "results").valid
    assert value(trial, "total.ios") == mine.total()


def test_over_ssh_the_logs_of_the_clients_come_back(
    lab: Lab, loop_device: str, recorded: Path, tmp_path: Path
) -> None:
    box = lab.box()
    text = STUDY.format(
        device=loop_device, backing=tmp_path / "loop.img", tool="replay", more="",
        recorded=json.dumps(str(recorded)),
    )  # fmt: skip
    there = f'hosts = "n1"\n[hosts.n1]\nssh = "{box.where}"\n[workloads'
    text = text.replace("[workloads", there, 1)
    (tmp_path / "far.toml").write_text(text)
    iotrial("run", str(tmp_path / "far.toml"), "--out", str(tmp_path / "far"))
    (trial,) = open_results(tmp_path / "far").valid
    assert value(trial, "total.ios") == asked(of(recorded)).total()
    assert value(trial, "read.response.p90") > 0
