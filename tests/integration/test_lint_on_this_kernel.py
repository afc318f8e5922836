"""What the rules of lint claim of a kernel, tried on a loop device of this one, and over SSH."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.hosts.local import LocalHost
from iotrial.hosts.ssh import SSHHost
from iotrial_lint.judge import judged_host
from iotrial_lint.known import REMOVED, version
from iotrial_lint.machine import host_scene
from lab import Lab

pytestmark = pytest.mark.root

KERNEL = version(Path("/proc/sys/kernel/osrelease").read_text("utf-8"))


@pytest.fixture
def queue(loop_device: str) -> Path:
    if KERNEL < (5, 0):
        pytest.skip("what is tried holds from 5.0 on")
    return Path("/sys/block") / Path(loop_device).name / "queue"


def refusal(file: Path, value: str) -> int:
    """The errno that the kernel refuses a value with; 0 when it is taken."""
    try:
        file.write_text(value, "ascii")
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize("name", [*REMOVED, "mq_deadline"])
def test_schedulers_that_are_gone_or_never_were_are_refused(queue: Path, name: str) -> None:
    assert refusal(queue / "scheduler", name) == errno.EINVAL


def test_deadline_becomes_mq_deadline(queue: Path) -> None:
    if "mq-deadline" not in (queue / "scheduler").read_text("ascii"):
        pytest.skip("this kernel has no mq-deadline")
    assert refusal(queue / "scheduler", "deadline") == 0
    assert "[mq-deadline]" in (queue / "scheduler").read_text("ascii")


def test_the_scheduler_resets_nr_requests_that_was_written_before_it(queue: Path) -> None:
    if "mq-deadline" not in (queue / "scheduler").read_text("ascii"):
        pytest.skip("this kernel has no mq-deadline")
    assert refusal(queue / "scheduler", "mq-deadline") == 0
    assert refusal(queue / "nr_requests", "77") == 0
    assert refusal(queue / "scheduler", "none") == 0
    assert (queue / "nr_requests").read_text("ascii").strip() != "77"


def test_without_a_scheduler_nr_requests_above_the_tags_is_refused(queue: Path) -> None:
    assert refusal(queue / "scheduler", "none") == 0
    assert refusal(queue / "nr_requests", "4096") == errno.EINVAL


@pytest.mark.parametrize(("name", "value"), [("rq_affinity", "3"), ("read_ahead_kb", "-1")])
def test_values_out_of_range_are_refused_or_ignored(queue: Path, name: str, value: str) -> None:
    before = (queue / name).read_text("ascii")
    refusal(queue / name, value)  # or it is taken, and nothing happens
    assert (queue / name).read_text("ascii") == before


@pytest.mark.parametrize(("mode", "taken"), [("ordered", 1), ("writeback", 0), ("journal", 0)])
def test_ext4_changes_its_data_mode_on_no_remount(
    loop_device: str, tmp_path: Path, mode: str, taken: int
) -> None:
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed")
    node, point = f"/dev/{loop_device}", tmp_path / "root"
    point.mkdir()
    subprocess.run(["mkfs.ext4", "-q", node], check=True, timeout=200)
    subprocess.run(["mount", "-o", "ro", node, str(point)], check=True, timeout=200)
    try:
        remount = ["mount", "-o", f"remount,rw,data={mode}", str(point)]
        done = subprocess.run(remount, check=False, timeout=200, capture_output=True)
    finally:
        subprocess.run(["umount", str(point)], check=True, timeout=200)
    assert (done.returncode == 0) == bool(taken)


@pytest.fixture(scope="module")
def far(lab: Lab) -> Iterator[SSHHost]:
    with SSHHost(lab.box().where, name="box") as made:
        yield made


_TESTED = "iotrial"  # is in the name of what a test beside this one may put there, and remove


def test_a_host_over_ssh_is_read_as_this_one(far: SSHHost) -> None:
    """The box is this machine in a network namespace: it has the same files."""
    here, there = host_scene(LocalHost()), host_scene(far)
    assert there.kernel == here.kernel == KERNEL
    files, far_files = (
        [sheet.file for sheet in scene.sheets if _TESTED not in sheet.file]
        for scene in (here, there)
    )
    assert files == far_files
    assert there.disks
    of_files, of_far = (
        {
            (each.file, each.line, each.rule.name)
            for each in judged_host(scene)
            if each.line and _TESTED not in each.file
        }
        for scene in (here, there)
    )
    in_force = {each for each in of_files | of_far if each[2] == "sysctl-not-in-force"}
    assert of_files - in_force == of_far - in_force
