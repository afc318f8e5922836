"""A real fio on a real block device says the same as the kernel, and the same twice."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from iotrial.formats.fio import json_output as fio_json
from iotrial.model.tool import Load, ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import tool

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
]

SIZE = 64 * 2**20
LOOP_CTL_REMOVE = 0x4C81
FIO = tool("fio")
ENGINES = ["io_uring", "libaio"]
LOADS = {
    "randread": (("read",), 4096),
    "randrw": (("read", "write"), 4096),
    "write": (("write",), 65536),
}


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    """A loop device of this test's own, removed again.  Its file is in memory: other work on a disk
    would leave too few I/Os to compare shares of them."""
    number = 100 + SystemRandom().randrange(100_000)
    name = f"/dev/loop{number}"
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(os.urandom(2**20) * (SIZE // 2**20))
        file.flush()
        subprocess.run(["losetup", name, file.name], check=True)
        try:
            yield name
        finally:
            subprocess.run(["losetup", "--detach", name], check=True)
            with Path("/dev/loop-control").open("rb") as control:
                fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


def sectors(device: str) -> tuple[int, int]:
    """Bytes read and written by a block device since it exists (sectors are of 512 bytes)."""
    for line in Path("/proc/diskstats").read_text("ascii").splitlines():
        fields = line.split()
        if f"/dev/{fields[2]}" == device:
            return int(fields[5]) * 512, int(fields[9]) * 512
    raise AssertionError(f"{device} is not in /proc/diskstats")


def load(device: str, **options: OptionValue) -> Load:
    facts = {"cpus": float(os.cpu_count() or 1), "io_uring": 1.0}
    workload = Workload("load", "fio", tuple(options.items()))
    assert FIO.check(workload, facts) == []
    return FIO.command(workload, ToolTarget(device, "device"), facts)


def execute(argv: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, cwd=folder, capture_output=True, timeout=200, check=False)


def values(parsed: ParsedOutput) -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if each.job == "all"}


@pytest.mark.parametrize("rw", LOADS)
@pytest.mark.parametrize("engine", ENGINES)
def test_fio_counts_what_the_kernel_counts(
    device: str, engine: str, rw: str, tmp_path: Path
) -> None:
    operations, block = LOADS[rw]
    asked = load(device, rw=rw, bs=block, iodepth=8, ioengine=engine, runtime="1s")
    before = sectors(device)
    done = execute(asked.argv, tmp_path)
    after = sectors(device)
    assert (done.returncode, done.stdout) == (0, b"")
    # fio looks through all of /sys/block, where a device of another test may go meanwhile.
    assert set(done.stderr.splitlines()) <= {b"stat: No such file or directory"}
    parsed = FIO.parse(tmp_path)
    assert not [doubt for doubt in parsed.doubts if doubt.invalid]
    found = values(parsed)
    for operation, moved in zip(("read", "write"), map(int.__sub__, after, before), strict=True):
        if operation not in operations:
            assert f"{operation}.iops" not in found
            continue
        assert found[f"{operation}.bytes"] == pytest.approx(moved, rel=0.02)
        assert found[f"{operation}.bw"] == pytest.approx(
            found[f"{operation}.iops"] * block, rel=1e-3
        )
        mean = found[f"{operation}.clat.mean"]
        assert 0 < mean <= found[f"{operation}.clat.p99.99"] * 1.01


def test_text_and_json_of_one_run_agree(device: str, tmp_path: Path) -> None:
    asked = load(device, rw="randread", bs="4k", iodepth=4, numjobs=2, runtime="1s")
    argv = tuple(each.replace("=json+", "=normal,json+") for each in asked.argv)
    assert execute(argv, tmp_path).returncode == 0
    data = (tmp_path / "fio.json").read_bytes()
    parsed = fio_json.parse(data, "fio.json")
    shown = re.findall(r"read: IOPS=([\d.]+)(k?), BW=([\d.]+)(K|M|G)iB/s", data.decode())
    scale = {"": 1, "k": 1e3, "K": 2**10, "M": 2**20, "G": 2**30}
    for ordinal, (iops, thousand, bw, unit) in enumerate(shown, 1):
        own = {m.metric: m.value for m in parsed.measurements if m.job == f"load#{ordinal}"}
        # The last digit shown is cut off, not rounded: of 80, more than a hundredth.
        last = 10.0 ** -len(iops.partition(".")[2]) * scale[thousand]
        assert own["read.iops"] == pytest.approx(float(iops) * scale[thousand], rel=0.01, abs=last)
        assert own["read.bw"] == pytest.approx(float(bw) * scale[unit], rel=0.01)
    assert len(shown) == 2
    total = re.search(r"READ: bw=([\d.]+)(K|M|G)iB/s", data.decode())
    assert total
    # fio divides by the longest job's time: the sum of both rates is above it by what they differ.
    jobs = [
        {m.metric: m.value for m in parsed.measurements if m.job == f"load#{n}"} for n in (1, 2)
    ]
    times = sorted(each["read.bytes"] / each["read.bw"] for each in jobs)
    off = 0.01 + times[1] / times[0] - 1
    assert values(parsed)["read.bw"] == pytest.approx(float(total[1]) * scale[total[2]], rel=off)


def test_a_trial_lasts_as_long_as_foretold(device: str, tmp_path: Path) -> None:
    workload = Workload("load", "fio", (("rw", "read"), ("ramp_time", 0.5), ("runtime", "500ms")))
    aimed = ToolTarget(device, "device")
    asked = FIO.command(workload, aimed, {})
    assert execute(asked.argv, tmp_path).returncode == 0
    parsed = FIO.parse(tmp_path)
    assert [doubt.check for doubt in parsed.doubts if doubt.check == "short"] == ["short"]
    measured = values(parsed)["read.bytes"] / values(parsed)["read.bw"]
    assert 0.45 < measured < 0.95, "without the ramp; fio ends late where the CPUs are busy"
    assert FIO.seconds(workload, aimed) == pytest.approx(1.35)


def test_a_job_file_loads_only_what_it_names(device: str, tmp_path: Path) -> None:
    text = f"[one]\nfilename={device}\nrw=randread\ndirect=1\nruntime=1\ntime_based\n"
    workload = Workload("mine", "fio", (), text)
    assert FIO.reach(workload).paths == (device,)
    asked = FIO.command(workload, ToolTarget("/dev/null", "device"), {})
    for name, content in asked.files:
        (tmp_path / name).write_bytes(content)
    before = sectors(device)[0]
    assert execute(asked.argv, tmp_path).returncode == 0
    moved = sectors(device)[0] - before
    assert values(FIO.parse(tmp_path))["read.bytes"] == pytest.approx(moved, rel=0.02)


def test_a_device_that_is_gone_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    gone = tmp_path / "loop-that-was"
    asked = load(str(gone), rw="write", size="1m")
    done = execute(asked.argv, tmp_path)
    assert done.returncode != 0
    assert not gone.exists()


STAGES = """\
[global]
ioengine=libaio
direct=1
iodepth=4
numjobs=2
filename=/dev/mapper/not-here
filename=/dev/mapper/nor-here
runtime=1
time_based
write_bw_log=stage
log_avg_msec=250
[in-order]
wait_for_previous
rw=read
bs=8K
[mixed]
wait_for_previous
rw=randrw
rwmixread=70
bs=8K
norandommap
[mixed]
wait_for_previous
rw=randrw
rwmixread=40
bs=8K
norandommap
"""


def test_a_job_file_of_stages_runs_on_the_target_with_its_logs_beside_it(
    device: str, tmp_path: Path
) -> None:
    workload = Workload("stages", "fio", (("filename", "target"),), STAGES)
    assert FIO.check(workload, {}) == []
    asked = FIO.command(workload, ToolTarget(device, "device"), {})
    for name, content in asked.files:
        (tmp_path / name).write_bytes(content)
    before = sectors(device)
    assert execute(asked.argv, tmp_path).returncode == 0
    after = sectors(device)
    parsed = FIO.parse(tmp_path)
    found = values(parsed)
    sections = [each.name for each in FIO.sectioned(workload)]
    assert len(sections) == 3
    assert all(f"read.iops[{name}]" in found for name in sections), "each by itself"
    for operation, at in (("read", 0), ("write", 1)):
        assert found[f"{operation}.bytes"] == pytest.approx(after[at] - before[at], rel=0.05)
    assert len(list(tmp_path.glob("stage_bw.*.log"))) == 6
    runs = fio_json.FORMAT.read((tmp_path / "fio.json").read_bytes(), "fio.json")
    assert [(r.workload, dict(r.treatment).get("rwmixread", "")) for r in runs] == [
        ("read", ""), ("randrw", "70"), ("randrw", "40"),
    ]  # fmt: skip
    shares = [
        m["read.bytes"] / (m["read.bytes"] + m.get("write.bytes", 0.0))
        for m in ({e.metric: e.value for e in r.measurements if e.job == "all"} for r in runs)
    ]
    assert shares == pytest.approx([1.0, 0.7, 0.4], abs=0.03)
