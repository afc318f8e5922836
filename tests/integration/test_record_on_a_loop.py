"""Recording on this kernel: what fio says that it asked for is what the recording has, whatever way
the recorder ends, and nothing is left in the kernel."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrial_record.fidelity import distances
from iotrial_record.recorder import LEASE
from iotrial_record.reports.load import read
from iotrial_record.trace import (
    COMPLETED,
    ISSUED,
    QUEUED,
    SECTOR,
    TraceEvents,
    TraceFacts,
    joined,
    load_index,
    load_parts,
)
from lab import Lab

pytestmark = [pytest.mark.root, pytest.mark.alone]

ENTRY = [sys.executable, "-m", "iotrial.cli.main", "record"]
IOLOG = re.compile(r"^\d+ \S+ (read|write) (\d+) (\d+)$", re.MULTILINE)
INSTANCES = (
    "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; ls /sys/kernel/tracing/instances"
)
LOAD = (
    "--rw=randrw", "--bsrange=4k-64k", "--direct=1", "--ioengine=libaio", "--iodepth=4",
    "--norandommap", "--size=32m", "--randseed=7", "--log_entries=100000",
)  # fmt: skip


def instances() -> list[str]:
    argv = ["unshare", "--mount", "sh", "-c", INSTANCES]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name.startswith("iotrial-")]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Nothing is left in the kernel, and no journal."""
    monkeypatch.setenv("IOTRIAL_STATE", str(tmp_path / "state"))
    assert instances() == []
    yield tmp_path / "state"
    assert instances() == []
    assert not list((tmp_path / "state").rglob("*.journal"))


@pytest.fixture
def recording(tmp_path: Path, loop_device: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin to record the loop device; what is begun is ended."""
    begun = []

    def begin(*words: str, target: str = f"/dev/{loop_device}") -> subprocess.Popen[str]:
        argv = [*ENTRY, "--out", str(tmp_path / "load"), *words, "--", target]
        before = len(instances())
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        begun.append(process)
        until = time.monotonic() + 60
        while len(instances()) == before:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.1)
        time.sleep(0.5)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def gone(within: float) -> None:
    """The guard has removed the instance."""
    until = time.monotonic() + within
    while instances() and time.monotonic() < until:
        time.sleep(0.2)
    assert instances() == []


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> str:
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 130), err
    return out + err


def fio(device: str, log: Path, *words: str) -> Counter[tuple[str, int, int]]:
    """What fio asked of the device: how often each (operation, offset, bytes)."""
    argv = ["fio", "--name=x", f"--filename={device}", f"--write_iolog={log}", *LOAD, *words]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    return Counter((op, int(at), int(size)) for op, at, size in IOLOG.findall(log.read_text()))


def events(folder: Path) -> tuple[TraceFacts, TraceEvents]:
    index = load_index(folder)
    return index, joined(load_parts(folder, index))


def of_kind(found: TraceEvents, kind: int) -> Counter[tuple[str, int, int]]:
    mine = found.only(found.kind == kind)
    names = {ord("R"): "read", ord("W"): "write"}
    rows = zip(mine.operation.tolist(), mine.sector.tolist(), mine.sectors.tolist(), strict=True)
    return Counter((names[op], at * SECTOR, count * SECTOR) for op, at, count in rows)


def test_the_recording_has_every_io_that_fio_asked_for(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path
) -> None:
    process = recording("--for", "60s", "--names")
    asked = fio(f"/dev/{loop_device}", tmp_path / "log")
    said = ended(process)
    index, found = events(tmp_path / "load")
    assert of_kind(found, QUEUED) == asked
    assert index.counts["block_bio_queue"] == asked.total()
    assert f"{asked.total()} I/Os" in said
    assert of_kind(found, ISSUED).total() == of_kind(found, COMPLETED).total()
    assert index.doubt == ""
    assert "fio" in index.names.values()
    assert all(found.at[:-1] <= found.at[1:])
    assert index.parts[-1].ends / 1e9 < index.seconds
    size = sum(each.stat().st_size for each in (tmp_path / "load").iterdir())
    assert size < 30 * asked.total()


def test_a_host_is_recorded_over_ssh_and_its_guard_removes_what_a_killed_recorder_made(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path, lab: Lab
) -> None:
    box = lab.box()
    target = f"{box.where}:/dev/{loop_device}"
    process = recording("--for", "60s", target=target)
    asked = fio(f"/dev/{loop_device}", tmp_path / "log")
    ended(process)
    _, found = events(tmp_path / "load")
    assert of_kind(found, QUEUED) == asked
    process = recording("--for", "60s", "--out", str(tmp_path / "other"), target=target)
    os.killpg(process.pid, signal.SIGKILL)
    gone(30 + 2 * LEASE)


def test_without_being_asked_no_name_is_recorded(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path
) -> None:
    process = recording("--for", "60s")
    fio(f"/dev/{loop_device}", tmp_path / "log", "--size=1m")
    ended(process)
    assert load_index(tmp_path / "load").names == {}
    assert not any(b"fio" in each.read_bytes() for each in (tmp_path / "load").iterdir())


def test_a_partition_is_recorded_by_its_own_offsets_and_alone(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path
) -> None:
    device = f"/dev/{loop_device}"
    for number in ("1", "2"):
        argv = ["addpart", device, number, str(40960 * int(number)), "40960"]
        subprocess.run(argv, check=True)
    process = recording("--for", "60s", target=f"{device}p2")
    fio(f"{device}p1", tmp_path / "other", "--size=1m")
    asked = fio(f"{device}p2", tmp_path / "log", "--size=8m")
    ended(process)
    index, found = events(tmp_path / "load")
    assert of_kind(found, QUEUED) == asked
    assert [each.name for each in index.devices] == [f"{loop_device}p2"]
    for number in ("1", "2"):
        subprocess.run(["delpart", device, number], check=True)


def test_what_was_lost_is_counted_and_doubted(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path
) -> None:
    """Nobody reads for a while, and the kernel overwrites."""
    process = recording("--for", "60s")
    (name,) = instances()
    small = f"{INSTANCES}; echo 64 >/sys/kernel/tracing/instances/{name}/buffer_size_kb"
    subprocess.run(["unshare", "--mount", "sh", "-c", small], check=True, capture_output=True)
    os.kill(process.pid, signal.SIGSTOP)
    asked = fio(f"/dev/{loop_device}", tmp_path / "log")
    os.kill(process.pid, signal.SIGCONT)
    said = ended(process)
    index, found = events(tmp_path / "load")
    assert index.lost > 0
    assert index.gaps > 0
    assert f"{index.lost} events were lost" in said
    assert len(found) + index.lost >= 3 * asked.total()
    assert of_kind(found, QUEUED).total() < asked.total()


def test_a_recorder_that_is_killed_leaves_whole_parts_and_nothing_in_the_kernel(
    recording: Callable[..., subprocess.Popen[str]],
    loop_device: str,
    tmp_path: Path,
    times: Callable[[int], int],
) -> None:
    moments = random.Random(5)
    for _ in range(times(10)):
        process = recording("--for", "60s")
        load = subprocess.Popen(
            ["fio", "--name=x", f"--filename=/dev/{loop_device}", *LOAD, "--time_based",
             "--runtime=3"], stdout=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(moments.uniform(0, 2.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        load.wait()
        gone(30)
        folder = tmp_path / "load"
        if (folder / "recording.json").exists():
            index, _ = events(folder)
            assert index.doubt == "the recorder did not come to its end"
        for each in folder.iterdir():
            each.unlink()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder whose disk has no room."""
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=True)
    try:
        (folder / "other").write_bytes(bytes(1 << 20))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("room", [0, 16384])
def test_a_folder_whose_disk_is_full_is_named_and_nothing_is_left_in_the_kernel(
    loop_device: str, tmp_path: Path, full: Path, *, room: int
) -> None:
    os.truncate(full / "other", (1 << 20) - room)
    out = full / "load"
    with subprocess.Popen(
        ["fio", "--name=x", f"--filename=/dev/{loop_device}", *LOAD, "--time_based",
         "--runtime=4"], stdout=subprocess.DEVNULL,
    ):  # fmt: skip
        done = subprocess.run(
            [*ENTRY, f"/dev/{loop_device}", "--for", "2s", "--out", str(out)],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    said = " ".join(done.stderr.split())
    assert done.returncode == 5, said
    assert re.search(rf"No space left on device: '{out}/(recording.json|part-.*npz)'", said)
    assert "name a folder elsewhere with --out" in said
    assert [each.name for each in out.iterdir()] == ["recording.json"] * bool(room)


def test_what_cannot_be_recorded_is_refused_with_words(loop_device: str, tmp_path: Path) -> None:
    device, out = f"/dev/{loop_device}", tmp_path / "load"
    out.mkdir()
    (out / "there").touch()
    for words, code, said in (
        (["/dev/nowhere"], 3, "/dev/nowhere does not exist"),
        (["/proc/self"], 3, "on no one block device"),
        ([device, "--for", "2d"], 2, "from one second to one day"),
        ([device, "box:/dev/sda"], 2, "targets of 2 hosts"),
        ([device, "--out", str(out)], 2, "is not empty"),
    ):
        argv = [*ENTRY, *words, "--json"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        assert done.returncode == code, (words, done.stderr)
        assert said in " ".join(json.loads(done.stdout)["error"]["message"].split()), words


MIXED = (
    "--rw=randrw", "--rwmixread=70", "--bssplit=4k/60:8k/20:64k/20,4k/90:128k/10", "--direct=1",
    "--ioengine=libaio", "--iodepth=4", "--norandommap", "--time_based", "--runtime=8",
    "--random_distribution=zoned:60/10:30/20:10/70", "--rate_iops=700,300",
    "--rate_process=poisson",
)  # fmt: skip


def test_the_model_s_job_file_has_the_character_of_the_load(
    recording: Callable[..., subprocess.Popen[str]], loop_device: str, tmp_path: Path
) -> None:
    """A target that keeps up, slow enough for a busy machine."""
    device, loads = f"/dev/{loop_device}", []
    job = tmp_path / "model.fio"
    for name, argv in (
        ("first", ["fio", "--name=x", f"--filename={device}", *MIXED]),
        ("again", ["fio", str(job)]),
    ):
        process = recording("--for", "60s", "--out", str(tmp_path / name))
        environment = {**os.environ, "TARGET": device}
        subprocess.run(argv, check=True, capture_output=True, timeout=120, env=environment)
        ended(process)
        loads.append(read([tmp_path / name])[0].load)
        if name == "first":
            report = [*ENTRY[:-1], "report", str(tmp_path / name), "--out", str(job)]
            subprocess.run(report, check=True, capture_output=True)
            text, lasting = re.subn(r"runtime=(8|9|1\d)s", "runtime=8s", job.read_text())
            assert lasting == 1, "as long as it was recorded, not as it was meant to be"
            job.write_text(text)
    found = distances(*loads)
    for name in ("mix", "sizes", "zones", "sequential"):
        assert found[name].value <= 0.05, found
