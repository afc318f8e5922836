"""Targets that iotrial makes, for real: file systems, mounts, commands; all gone after."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from iotrial.errors import TargetRefused
from iotrial.execute.settings.debris import unmake
from iotrial.execute.settings.journal import ResourceUndo
from iotrial.execute.targets.making import MKFS, TargetSite, make
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.model.target import FILESYSTEMS, MountSpec, Target
from iotrial.model.tool import LoadAccess
from stalls import stalled

pytestmark = pytest.mark.root

READS, WRITES = LoadAccess(reads=True, writes=False), LoadAccess(reads=True, writes=True)
STUDY = """
question = "Do mount options matter here?"
[targets.disk]
loop = {{ size = "{size}", directory = "{folder}" }}
filesystem = "{kind}"
[workloads.writes]
tool = "fio"
options = {{ rw = "randrw", bs = "4k", iodepth = 2, size = "8m", runtime = "{runtime}" }}
[factors.atime]
tunable = "mount.atime"
levels = ["relatime", "noatime"]
[factors.other]
tunable = "mount.{other}"
levels = [{levels}]
baseline = "unset"
[design]
blocks = 1
settle = "0s"
"""


def run(tmp_path: Path, *verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *verb],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip


def study(tmp_path: Path, **said: str) -> str:
    path = tmp_path / "study.toml"
    defaults = {"size": "64MiB", "kind": "ext4", "other": "commit", "levels": '7, "unset"'}
    path.write_text(STUDY.format(folder=tmp_path, **{"runtime": "1s", **defaults, **said}))
    return str(path)


def left(tmp_path: Path) -> list[str]:
    """Mounts, loop devices and files that lie in the test's folder."""
    told = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text()
    lines = [line for line in (told + mounts).splitlines() if str(tmp_path) in line]
    return lines + [str(path) for path in tmp_path.glob("iotrial-*")]


@pytest.mark.usefixtures("state")
@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize(
    "said",
    [
        {"kind": "ext4"},
        {"kind": "xfs", "size": "320MiB", "other": "logbufs", "levels": "4, 8"},
    ],
    ids=["ext4", "xfs"],
)
def test_a_study_on_a_file_system_of_its_own(tmp_path: Path, said: Mapping[str, str]) -> None:
    if not shutil.which(f"mkfs.{said['kind']}"):
        pytest.skip(f"mkfs.{said['kind']} is not installed")
    path = study(tmp_path, **{**said, "levels": said.get("levels", '7, "unset"')})
    done = run(tmp_path, "run", path, "--out", "results", "--json")
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []
    every = sorted((tmp_path / "results" / "trials").glob("*/trial.json"))
    folders = [each for each in every if not stalled(json.loads(each.read_text()))]
    assert len(folders) in (4, 6)
    for folder in folders:
        trial = json.loads(folder.read_text())
        assert trial["state"] == "valid"
        before = json.loads((folder.parent / "before.json").read_text())
        values = {name: value for _, name, value in before}
        treatment = dict(trial["trial"]["treatment"])
        assert values["mount.atime"] == treatment["atime"]
        assert said["kind"] in values["mount.mounted"]


@pytest.mark.usefixtures("state")
@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_file_systems_may_differ_in_how_they_are_made(tmp_path: Path) -> None:
    """One with a journal and one without, as levels of a factor: each load sees its own."""
    folder = f'loop = {{ size = "32MiB", directory = "{tmp_path}" }}'
    (tmp_path / "study.toml").write_text(f"""
question = "What does a journal cost?"
[targets.with]
{folder}
filesystem = "ext4"
[targets.without]
{folder}
filesystem = "ext4"
format = ["-O", "^has_journal", "-E", "stride=16"]
[workloads.write]
tool = "fio"
options = {{ rw = "write", bs = "64k", size = "4m", runtime = "1s" }}
evidence = [["sh", "-c", "dumpe2fs -h $(findmnt -n -o SOURCE --target '{{target}}')"]]
[factors.journal]
targets = ["with", "without"]
[design]
blocks = 1
settle = "0s"
""")
    done = run(tmp_path, "run", "study.toml", "--out", "results", "--json")
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []
    told = {}
    for folder_ in (tmp_path / "results" / "trials").glob("*/trial.json"):
        label = json.loads(folder_.read_text())["trial"]["treatment"]["journal"]
        said = "".join(p.read_text("utf-8", "replace") for p in folder_.parent.glob("evidence*"))
        told[label] = "has_journal" in said, "RAID stride:              16" in said
    assert told == {"with": (True, False), "without": (False, True)}


@pytest.mark.usefixtures("state")
@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_a_killed_run_is_unmounted_and_removed_by_restore(tmp_path: Path) -> None:
    path = study(tmp_path, runtime="600s")
    process = subprocess.Popen(
        [sys.executable, "-m", "iotrial.cli.main", "run", path, "--out", "results"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    until = time.monotonic() + 200
    while not list((tmp_path / "results").glob("trials/*.partial/command")):
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = run(tmp_path, "restore")
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []


def site(debts: list[ResourceUndo]) -> TargetSite:
    return TargetSite(LocalHost(), debts.append, "test")


def pay(debts: list[ResourceUndo]) -> None:
    for debt in [*reversed(debts), *reversed(debts)]:  # twice is once
        unmake(LocalHost(), debt)


def signature(node: str) -> str:
    done = subprocess.run(
        ["blkid", "-p", "-s", "TYPE", "-o", "value", node],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.usefixtures("state")
def test_an_armed_device_gets_a_file_system_and_is_bare_again(loop_device: str) -> None:
    node = f"/dev/{loop_device}"
    armed = dict(identify(LocalHost(), node).ids)["backing_file"]
    target = Target("disk", "device", node, destroy=armed, filesystem="ext4")
    debts: list[ResourceUndo] = []
    aim = make(site(debts), target, WRITES)
    assert (aim.target.kind, aim.device) == ("directory", loop_device)
    assert signature(node) == "ext4"
    assert os.path.ismount(aim.path)
    pay(debts)
    assert signature(node) == ""
    assert not Path(aim.path).exists()


@pytest.mark.usefixtures("state")
def test_a_device_that_is_not_armed_gets_none(loop_device: str) -> None:
    target = Target("disk", "device", f"/dev/{loop_device}", filesystem="ext4")
    debts: list[ResourceUndo] = []
    with pytest.raises(TargetRefused, match="does not permit it"):
        make(site(debts), target, READS)
    assert (debts, signature(f"/dev/{loop_device}")) == ([], "")


@pytest.mark.usefixtures("state")
def test_another_file_system_on_the_device_is_not_wiped(loop_device: str) -> None:
    """As when, after a crash, the name belongs to another disk."""
    node = f"/dev/{loop_device}"
    armed = dict(identify(LocalHost(), node).ids)["backing_file"]
    debts: list[ResourceUndo] = []
    make(site(debts), Target("disk", "device", node, destroy=armed, filesystem="ext4"), WRITES)
    for debt in reversed([debt for debt in debts if debt.what != "command"]):
        unmake(LocalHost(), debt)
    subprocess.run(["mkfs.ext4", "-q", "-F", node], check=True)
    pay([debt for debt in debts if debt.what == "command"])
    assert signature(node) == "ext4"


def test_what_is_mounted_at_a_directory_goes_with_its_folders(tmp_path: Path) -> None:
    point = tmp_path / "new" / "deep"
    mount = MountSpec("memory", "tmpfs", "size=70m,noatime,mode=755")
    debts: list[ResourceUndo] = []
    here = site(debts)
    aim = make(here, Target("m", "directory", str(point), mount=mount), READS)
    assert aim.path == str(point)
    assert str(point) in here.gone_with
    assert os.path.ismount(point)
    pay(debts)
    assert not (tmp_path / "new").exists()


def test_a_mount_that_hides_something_or_is_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("somebody's")
    debts: list[ResourceUndo] = []
    mount = MountSpec("memory", "tmpfs")
    with pytest.raises(TargetRefused, match="not empty"):
        make(site(debts), Target("m", "directory", str(tmp_path), mount=mount), READS)
    with pytest.raises(TargetRefused, match="/proc is already a mount point"):
        make(site(debts), Target("m", "directory", "/proc", mount=mount), READS)
    assert debts == []


def test_what_commands_create_their_counterparts_remove(tmp_path: Path) -> None:
    folder = str(tmp_path / "made")
    target = Target(
        "made", "directory", folder, create=(("mkdir", folder),), remove=(("rmdir", folder),)
    )
    debts: list[ResourceUndo] = []
    assert make(site(debts), target, READS).path == folder
    with pytest.raises(TargetRefused, match="exists, so this study"):
        make(site([]), target, READS)
    pay(debts)
    assert not Path(folder).exists()


def test_every_file_system_named_can_be_made() -> None:
    assert tuple(MKFS) == FILESYSTEMS
