"""Several hosts in one study: network namespaces with a real sshd, and loop devices of their own.

They share one kernel and these few CPUs, so the loads are slow on purpose (``rate_iops``), and
nothing here depends on how fast anything is.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.store import open_results
from lab import Box, Lab, lab, why_not
from racks import Rack, ended, until

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

HOSTS, DISKS = 8, 4
RATE = 150
BIN = 1 / 64
"""A bin of fio's histograms is this share of a power of two wide."""


def reading(rack: Rack, text: str, *, hosts: int, disks: int, options: str) -> Path:
    """A study that reads so many loop devices on each of so many hosts at once."""
    targets = "".join(
        f'[targets.d{n}]\nloop = {{ size = "8MiB", directory = "{rack.folder}" }}\n'
        f'hosts = "box[1-{hosts}]"\n'
        for n in range(1, disks + 1)
    )
    names = json.dumps([f"d{n}" for n in range(1, disks + 1)])
    path = rack.folder / "study.toml"
    path.write_text(
        f"""{rack.hosts(hosts)}{targets}
[targets.all]
targets = {names}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", rate_iops = {RATE}, {options} }}
{text}"""
    )
    return path


@pytest.fixture(scope="module")
def boxes(lab: Lab) -> tuple[Box, ...]:
    return tuple(lab.box(f"box{n}") for n in range(1, HOSTS + 1))


@pytest.fixture
def rack(boxes: tuple[Box, ...], tmp_path: Path, own_swappiness: None) -> Iterator[Rack]:
    swap = Path("/proc/sys/vm/swappiness").read_text()
    with Rack.of(boxes, tmp_path) as made:
        yield made
    assert Path("/proc/sys/vm/swappiness").read_text() == swap


def logged(folder: Path) -> list[int]:
    """The latency of every I/O in nanoseconds, as fio noted it."""
    lines = [line for log in folder.glob("each_clat*.log") for line in log.read_text().splitlines()]
    return [int(line.split(",")[1]) for line in lines]


def device_reads(folder: Path) -> int:
    """Reads that the kernel counted on a part's device between the looks around its load."""
    lines = [json.loads(line) for line in (folder / "telemetry.jsonl").read_text().splitlines()]
    return int(lines[-1]["disk"]["reads"]) - int(lines[0]["disk"]["reads"])


def nearest_rank(values: Sequence[int], p: float) -> int:
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(p * 100) // 10_000) - 1)]


@pytest.mark.timeout(900)
def test_eight_hosts_with_four_targets_each_are_one_answer(rack: Rack) -> None:
    study = reading(
        rack,
        """
[factors.scale]
count = "hosts"
levels = [1, 8]
[factors.swap]
tunable = "sysctl.vm.swappiness"
levels = [41]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [96]
[design]
blocks = 1
settle = "0s"
""",
        hosts=HOSTS,
        disks=DISKS,
        options='runtime = "2s", write_lat_log = "each"',
    )
    done = rack.run(study)
    said, complaint = done.communicate(timeout=280)
    assert done.returncode == 0, f"{said}\n{complaint}"
    assert rack.owing() == {}
    assert rack.loops() == []
    results = open_results(rack.out)
    wide = next(r for r in results.records if dict(r.trial.treatment)["scale"] == str(HOSTS))
    folder = rack.out / "trials" / wide.trial.folder
    assert len(wide.parts) == HOSTS * DISKS
    # The whole is the sum of what hosts, kernel and logs say.
    own = [wide.of_part(part, "read.iops") for part in wide.parts]
    total = wide.value("read.iops")
    assert total is not None
    assert total == pytest.approx(sum(each or 0.0 for each in own), rel=0.01)
    assert total == pytest.approx(RATE * HOSTS * DISKS, rel=0.2)
    moved = wide.value("read.bytes")
    assert moved is not None
    reads = sum(device_reads(folder / part) for part in wide.parts)
    assert reads == pytest.approx(moved / 4096, rel=0.01)
    pooled = [value for part in wide.parts for value in logged(folder / part)]
    assert len(pooled) == moved / 4096
    for p in (50.0, 90.0, 99.0):
        value = wide.value(f"read.clat.p{p:g}")
        assert value is not None
        assert value * 1e9 == pytest.approx(nearest_rank(pooled, p), rel=BIN)
    # Settings: the kernel's own through one hand, each device's through its host.
    held = {(device, name): value for device, name, value in wide.before}
    assert held["box1:", "sysctl.vm.swappiness"] == "41"
    assert [d for d, name in held if name == "sysctl.vm.swappiness"] == ["box1:"]
    devices = {d for d, name in held if name == "queue.read_ahead_kb"}
    assert {d.partition(":")[0] for d in devices} == {f"box{n}" for n in range(1, HOSTS + 1)}
    assert len(devices) == HOSTS * DISKS
    # Starts and clocks are known of each; on one kernel the clocks are one.
    assert {name for name, _ in wide.starts} == set(wide.parts)
    assert all(abs(ahead) <= within + 0.001 for _, ahead, within in wide.clocks)
    assert {doubt.check for doubt in results.doubts} >= {"shared-kernel", "same-kernel"}


def quick(rack: Rack, blocks: int, runtime: str) -> Path:
    return reading(
        rack,
        f"""
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [96]
[design]
blocks = {blocks}
settle = "0s"
""",
        hosts=3,
        disks=1,
        options=f'runtime = "{runtime}"',
    )


@pytest.mark.timeout(900)
def test_a_killed_load_and_a_paused_one_are_named_with_their_hosts_and_the_study_goes_on(
    rack: Rack,
) -> None:
    process = rack.run(quick(rack, 3, "2s"))
    for pid in until(lambda: rack.loads(rack.boxes[1]), process):
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(rack.trials()) == 1, process)
    for pid in until(lambda: rack.loads(rack.boxes[2]), process):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    status, said = ended(process)
    first, second, third = rack.trials()
    assert first["state"] == "failed", said
    assert first["error"].startswith("box2/d1: fio"), first["error"]
    assert second["state"] == "failed", said
    assert second["error"].startswith("box3/d1: fio did not end together with the other loads"), (
        second["error"]
    )
    assert third["state"] == "valid", third["error"]
    assert status == 5, said
    assert rack.owing() == {}
    assert rack.loops() == []


@pytest.mark.timeout(900)
def test_a_host_whose_link_is_cut_is_named_and_its_trial_done_again_when_it_is_back(
    rack: Rack,
) -> None:
    process = rack.run(quick(rack, 2, "2s"))
    box = rack.boxes[1]
    until(lambda: rack.loads(box), process)
    box.cut()
    until(lambda: not rack.loads(box))  # its own guard has ended the load
    until(lambda: box.name not in rack.owing())
    mending = threading.Timer(15.0, box.mend)
    mending.start()
    try:
        status, said = ended(process)
    finally:
        mending.join()
    trials = rack.trials()
    assert trials[0]["state"] == "failed", said
    assert trials[0]["error"].startswith("box2 became unreachable"), trials[0]["error"]
    again = [t for t in trials if t["trial"]["attempt"] > 1]
    assert again, said
    assert {t["trial"]["block"] for t in trials if t["state"] == "valid"} == {1, 2}, said
    assert "box2 is reachable again" in said
    assert status == 5, said
    assert rack.owing() == {}
    assert rack.loops() == []


@pytest.mark.timeout(900)
def test_a_host_whose_every_process_is_killed_is_named_restored_and_its_trial_done_again(
    rack: Rack,
) -> None:
    """As a host that lost its power and is up again, but for its kernel: no guard is left there to
    give anything back."""
    process = rack.run(quick(rack, 2, "2s"))
    box = rack.boxes[1]
    until(lambda: rack.loads(box), process)
    assert box.name in rack.owing()
    for pid in box.processes():
        if pid != box.pid:  # the one that listens: a service that is there again
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    status, said = ended(process)
    trials = rack.trials()
    assert trials[0]["state"] == "failed", said
    assert trials[0]["error"].startswith("box2 became unreachable"), trials[0]["error"]
    assert {t["trial"]["block"] for t in trials if t["state"] == "valid"} == {1, 2}, said
    assert "box2 is reachable again" in said
    assert status == 5, said
    assert rack.owing() == {}
    assert rack.loops() == []


@pytest.mark.timeout(900)
def test_what_an_unreachable_host_is_owed_is_named_and_its_guard_pays(rack: Rack) -> None:
    process = rack.run(quick(rack, 1, "2s"))
    box = rack.boxes[2]
    until(lambda: rack.loads(box), process)
    box.cut()
    status, said = ended(process)
    assert status == 4, said
    words = " ".join(said.split())
    assert "box3" in words
    assert "queue.read_ahead_kb" in words or "loop" in words
    assert "Its guard restores all settings" in words
    until(lambda: rack.owing() == {})
    box.mend()


@pytest.mark.timeout(900)
def test_a_controller_that_dies_before_the_moment_leaves_no_load_and_no_debt(rack: Rack) -> None:
    process = rack.run(quick(rack, 1, "600s"))
    boxes = rack.boxes[:3]
    until(lambda: all(map(rack.loads, boxes)), process)
    os.killpg(process.pid, signal.SIGKILL)
    until(lambda: not any(map(rack.loads, boxes)))
    until(lambda: rack.owing() == {})
    until(lambda: not any(map(waiting, boxes)))
    assert rack.loops() == []


def waiting(box: Box) -> list[int]:
    """Processes in a box whose load is not to begin before others are ready."""
    found = []
    for pid in box.processes():
        with suppress(OSError):
            if b"\0IOTRIAL_GATE=" in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def test_one_machine_by_two_names_is_refused(rack: Rack) -> None:
    text = quick(rack, 1, "1s").read_text()
    first, second = rack.boxes[:2]
    (rack.folder / "study.toml").write_text(text.replace(f"{second.where}", f"{first.where}"))
    status, said = ended(rack.run(rack.folder / "study.toml"))
    assert status in (3, 75), said
    assert rack.owing() == {}


@pytest.mark.timeout(600)
def test_hosts_that_share_a_directory_have_names_of_their_own_in_it(rack: Rack) -> None:
    """As with an export of a server: what one makes there is seen, and refused, by the other."""
    shared = rack.folder / "export"
    shared.mkdir()
    study = rack.folder / "study.toml"
    loads = {
        "fio": '{ rw = "write", size = "1MiB", bs = "64k" }',
        "dd": '{ rw = "write", size = "1MiB", bs = "64KiB", direct = false }',
        "listing": '{ entries = 200, passes = 1, cache = "warm" }',
        "bonnie++": '{ size = "2MiB", ram = 1, files = 0 }',
        "iozone": '{ size = "1MiB", record = "64KiB" }',
    }
    study.write_text(
        f'{rack.hosts(2)}[targets.export]\ndirectory = "{shared}"\nhosts = "box[1-2]"\n'
        + "".join(
            f'[workloads.{each.strip("+")}]\ntool = "{each}"\noptions = {options}\n'
            for each, options in loads.items()
        )
        + '[design]\nblocks = 2\nsettle = "0s"\n[factors.swap]\n'
        'tunable = "sysctl.vm.swappiness"\nlevels = [41]\n'
    )
    done = rack.run(study)
    seen = set[str]()
    while done.poll() is None:
        seen.update(each.name for each in shared.iterdir())
    said, complaint = done.communicate()
    assert done.returncode == 0, said + complaint
    assert not list(shared.iterdir())
    states = [each["state"] for each in rack.trials()]
    assert set(states) <= {"valid", "invalid"}  # what a busy machine spoils is done again
    assert states.count("valid") == 2 * len(loads)
    names = ("iotrial-fio", "iotrial.dd", "iotrial-bonnie", "iotrial-listing")
    assert {f"{name}-{host}" for name in names for host in ("box1", "box2")} <= seen
