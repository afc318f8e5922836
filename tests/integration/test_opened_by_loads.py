"""A load that opens for writing what is not its target is ended, and the run refused: exit 3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import Lab
from stalls import stalled

pytestmark = pytest.mark.root

STUDY = """
question = "q"
[targets.data]
directory = "{folder}"
[workloads.load]
tool = "command"
argv = ["sh", "{script}", "{{target}}", "{{x}}"]
options = {{ seconds = "20s" }}
metrics = {{ score = {{ pattern = "score (.)", better = "higher" }} }}
[factors.x]
option = "x"
workload = "load"
levels = [1, 2]
[design]
blocks = 1
settle = "0s"
[decide]
primary = "score"
"""
FINE = """\
exec 3>own.log 4>"$1/in-the-target" 5>/dev/null 6>"$PWD/../../../../outside.log" 7<>/dev/shm/x-$$
rm /dev/shm/x-$$
sleep 1.5
echo score "$2"
"""
WAYS = {
    "a file": "exec 3>>{file}; sleep 600",
    "a file, by a child": "sh -c 'exec 3<>{file}; exec sleep 600' & wait",
    "a file, by a daemon": "setsid sh -c 'exec 3<>{file}; exec sleep 600' & sleep 600",
    "a device": "exec 3<>{device}; sleep 600",
    "a device, by another node": "mknod node b {major} {minor}; exec 3<>node; sleep 600",
}


def run(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "target").mkdir(exist_ok=True)
    (tmp_path / "load.sh").write_text(script)
    study = tmp_path / "own.toml"
    study.write_text(STUDY.format(folder=tmp_path / "target", script=tmp_path / "load.sh"))
    argv = [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", "results"]
    return subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.usefixtures("state")
def test_what_a_load_makes_itself_is_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, FINE)
    assert done.returncode == 0, done.stderr
    records = (tmp_path / "results/trials").glob("*/trial.json")
    trials = [json.loads(path.read_text()) for path in records]
    assert len([trial for trial in trials if not stalled(trial)]) == 2


@pytest.fixture
def unsealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without perl, where Landlock cannot be asked to close the disks."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "perl").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "bin" / "perl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


@pytest.mark.usefixtures("unsealed")
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_its_own_ends_it(
    tmp_path: Path, state: Path, loop_device: str, way: str
) -> None:
    file = tmp_path / "theirs"
    file.write_bytes(b"theirs\n")
    numbers = Path(f"/sys/block/{loop_device}/dev").read_text().strip()
    major, _, minor = numbers.partition(":")
    device = f"/dev/{loop_device}"
    time.sleep(1.1)  # births are told in seconds
    began = time.monotonic()
    done = run(tmp_path, WAYS[way].format(file=file, device=device, major=major, minor=minor))
    assert done.returncode == 3, done.stdout + done.stderr
    assert time.monotonic() - began < 300
    named = f"block device {numbers}" if "device" in way else str(file)
    assert "open for writing" in " ".join(done.stderr.split())
    assert named in done.stderr
    assert not list(state.glob("journal.d/*"))
    left = subprocess.run(["pgrep", "-f", "sleep 600$"], capture_output=True, check=False).stdout
    environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in left.decode().split()]
    assert not any(b"IOTRIAL_LOAD=" in each for each in environs)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("way", [way for way in WAYS if "device" in way])
def test_another_disk_is_closed_to_it_by_the_kernel(
    tmp_path: Path, loop_device: str, way: str
) -> None:
    major, _, minor = Path(f"/sys/block/{loop_device}/dev").read_text().strip().partition(":")
    script = "set -e; " + WAYS[way].replace("sleep 600", 'echo score "$2"')
    done = run(tmp_path, script.format(device=f"/dev/{loop_device}", major=major, minor=minor))
    assert done.returncode == 5, done.stdout + done.stderr
    said = [each.read_text() for each in tmp_path.glob("results/trials/*/stderr")]
    assert len(said) == 2
    assert all("ermission denied" in text or "not permitted" in text for text in said), said


@pytest.mark.usefixtures("state")
def test_all_of_it_over_ssh(lab: Lab, tmp_path: Path) -> None:
    """A host far away holds a load to reading only, and says what one has open."""
    box = lab.box(into=((tmp_path, "/var/tmp"),))
    (tmp_path / "precious").write_bytes(b"precious\n")
    (tmp_path / "theirs").write_bytes(b"theirs\n")
    (tmp_path / "load.sh").write_text("echo x >$1; rm -f $1; echo score $2\n")
    text = STUDY.format(folder="", script="/var/tmp/load.sh")
    text = text.replace('directory = ""', 'file = "/var/tmp/precious"\nsize = "4B"\nhost = "box"')
    text = text.replace("{ seconds", "{ reads_only = true, seconds")
    text = f'{text}\n[hosts.box]\nssh = "{box.where}"\n'
    study = tmp_path / "own.toml"
    study.write_text(text)
    argv = [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out"]
    tmp_path.chmod(0o700)

    def go(out: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, out], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
        )

    done = go("first")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "precious").read_bytes() == b"precious\n"
    said = [each.read_text() for each in tmp_path.glob("first/trials/*/stderr")]
    assert len(said) == 2
    assert all("Read-only file system" in each for each in said)
    time.sleep(1.1)
    (tmp_path / "load.sh").write_text("exec 3<>/var/tmp/theirs; sleep 600\n")
    done = go("second")
    assert done.returncode == 3, done.stdout + done.stderr
    # How long the number of the process is says where a line is broken.
    assert "/var/tmp/theirs open for writing" in " ".join(done.stderr.split()), done.stderr
