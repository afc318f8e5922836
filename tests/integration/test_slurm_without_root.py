"""A job of an ordinary user's, who is root on no node and has one home on all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from lab import Lab, lab, why_not

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

SCRATCH = "/var/tmp/iotrial-scratch"
"""A folder of the user's on the disk of each node."""
USER = 65534  # nobody: there on every machine
NODES = "--nodelist=n[1-2] --exclusive"
STUDY = """
question = "How deep a queue?"
[inventory]
slurm = "$SLURM_JOB_NODELIST"
[targets.{kind}]
{kind} = "{scratch}/{kind}"
{size}
hosts = "n[1-2]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", size = "4MiB", runtime = "0.2s" }}
[design]
blocks = 2
settle = "0s"
"""
DEPTH = """
[factors.depth]
option = "iodepth"
levels = [1, 8]
"""
KNOB = """
[factors.buffer]
tunable = "sysctl.net.ipv4.tcp_rmem"
levels = ["4096 87380 16777216", "4096 87380 8388608"]
"""
MOUNT = """
[factors.atime]
tunable = "mount.atime"
levels = ["noatime", "relatime"]
"""
AS_USER = f"""
number=0
while [ "$1" != -- ]; do
    top=/${{1#/}}
    top=/$(printf %s "${{top#/}}" | cut -d/ -f1)
    number=$((number + 1))
    mkdir "$DOORS/$number"
    mount --rbind "$top" "$DOORS/$number"
    mount -t tmpfs -o mode=755 door "$top"
    mkdir -p "$1"
    mount --rbind "$DOORS/$number${{1#"$top"}}" "$1"
    shift
done
shift
exec setpriv --reuid={USER} --regid={USER} --clear-groups "$@"
"""
"""Folders that lie in a closed one, such as /root, are opened to the user by mounts of its own."""


def closed(path: Path) -> bool:
    return any(not each.stat().st_mode & 0o001 for each in path.resolve().parents)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One that every user reaches: those of pytest are root's."""
    made = Path(tempfile.mkdtemp(prefix="iotrial-slurm-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def cluster(lab: Lab, folder: Path) -> Iterator[Cluster]:
    (folder / "cluster").mkdir()
    found = Cluster(folder / "cluster", lab)
    yield found
    found.close()


class User:
    """An ordinary user, whose home and files are on all nodes."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self.home = folder
        (self.home / "doors").mkdir()
        os.chown(self.home, USER, USER)
        for box in cluster.boxes.values():
            box.run("install", "-d", f"--owner={USER}", SCRATCH, f"{SCRATCH}/directory")

    def left(self) -> set[str]:
        """What lies there on the nodes."""
        boxes = self._cluster.boxes.values()
        return {name for box in boxes for name in box.run("find", SCRATCH).split()}

    def run(self, study: str) -> subprocess.CompletedProcess[str]:
        (self.home / "study.toml").write_text(study)
        needed = {Path(sys.base_prefix), Path(sys.prefix), Path(__file__).resolve().parents[2]}
        doors = [str(each) for each in needed if closed(each)]
        own = ("unshare", "--mount", "--propagation", "private")
        command = (sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "out")
        environment = {
            **self._cluster.environment,
            "HOME": str(self.home),
            "DOORS": str(self.home / "doors"),
            "XDG_RUNTIME_DIR": str(self.home),  # of a session on this machine, on no node
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(
            [*own, "sh", "-ec", AS_USER, "sh", *doors, "--", *command, "--slurm", NODES],
            env=environment, cwd=self.home, capture_output=True, text=True, timeout=160,
            check=False,
        )  # fmt: skip


@pytest.fixture
def user(cluster: Cluster, folder: Path) -> Iterator[User]:
    home = Path(tempfile.mkdtemp(dir=folder))
    home.chmod(0o755)
    yield User(cluster, home)
    cluster.do("scancel", f"--user={USER}", check=False)
    cluster.free()


def study(kind: str, factor: str) -> str:
    size = 'size = "4MiB"' if kind == "file" else ""
    return STUDY.format(scratch=SCRATCH, kind=kind, size=size) + factor


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_needs_no_root_is_measured_on_every_node(user: User, kind: str) -> None:
    done = user.run(study(kind, DEPTH))
    assert done.returncode == 0, done.stderr
    trials = [json.loads(p.read_text()) for p in user.home.glob("out/**/trial.json")]
    assert trials
    assert "not root on n1, n2: no setting is changed there" in done.stderr
    assert {p.stem for p in (user.home / "out" / "hosts").glob("*.json")} == {"n1", "n2"}
    assert (user.home / "out" / "report.html").exists()
    assert user.left() == {SCRATCH, f"{SCRATCH}/directory"}


@pytest.mark.parametrize("factor", [KNOB, MOUNT], ids=["sysctl", "mount"])
def test_a_setting_is_refused_before_anything_is_done(
    user: User, cluster: Cluster, factor: str
) -> None:
    done = user.run(study("directory", factor))
    assert done.returncode == 3, done.stderr
    assert "n1: this study changes settings, which needs root" in done.stderr
    assert user.left() == {SCRATCH, f"{SCRATCH}/directory"}
    assert "sudo -n does not help" in done.stderr
    assert "Or use a file target and factors of options" in done.stderr
    assert not list(user.home.glob("out/**/trial.json"))
    assert not cluster.jobs
