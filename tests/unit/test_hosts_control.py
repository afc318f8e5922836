"""Folders of connections: those of killed controllers go with the next one, nothing else does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iotrial.errors import RefusedError
from iotrial.hosts.connection import control_folder

KEEPER = """
import time
from iotrial.hosts.connection import control_folder
print(control_folder()[0], flush=True)
time.sleep(60)
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def names(base: Path) -> set[str]:
    return {path.name for path in base.iterdir()}


def test_the_folder_of_a_killed_controller_goes_and_that_of_a_living_one_stays(base: Path) -> None:
    keepers = [
        subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        folders = [Path(keeper.stdout.readline().strip()) for keeper in keepers if keeper.stdout]
        (folders[0] / "c").write_text("socket")
        keepers[0].send_signal(signal.SIGKILL)
        keepers[0].wait(10)
        assert folders[0].exists()
        mine, alive = control_folder()
        assert names(base) == {folders[1].name, mine.name}
        other, also = control_folder()
        assert names(base) == {folders[1].name, mine.name, other.name}, "nor do we sweep our own"
        os.close(alive)
        os.close(also)
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.wait(10)
            if keeper.stdout:
                keeper.stdout.close()


def test_what_only_looks_like_one_stays(base: Path) -> None:
    (base / "victim").mkdir()
    (base / "victim" / "alive").write_text("years of work")
    for name in ("iotrial-1000", "iotrial-mybackup1", "other-abcdefgh", "iotrial-unlocked"):
        (base / name).mkdir(mode=0o700)
        (base / name / "thesis").write_text("years of work")
    (base / "iotrial-opened__").mkdir(mode=0o700)
    (base / "iotrial-opened__" / "alive").touch()
    (base / "iotrial-opened__").chmod(0o755)
    (base / "iotrial-linked__").symlink_to(base / "victim")
    (base / "iotrial-hardlink").mkdir(mode=0o700)
    (base / "iotrial-hardlink" / "alive").symlink_to(base / "victim" / "alive")
    (base / "iotrial-file____").write_text("years of work")
    (base / "iotrial-young___").mkdir(mode=0o700)
    (base / "iotrial-aged____").mkdir(mode=0o700)
    os.utime(base / "iotrial-aged____", (0, 0))
    before = names(base)
    mine, alive = control_folder()
    os.close(alive)
    assert before - names(base) == {"iotrial-aged____"}
    assert (base / "victim" / "alive").read_text() == "years of work"
    assert mine.stat().st_mode & 0o777 == 0o700


def test_where_others_could_replace_it_none_is_made(base: Path) -> None:
    base.chmod(0o777)
    with pytest.raises(RefusedError, match="other users can replace its content"):
        control_folder()
    base.chmod(0o1777)
    os.close(control_folder()[1])


def test_a_folder_is_nobodys_to_sweep_at_any_moment_while_it_is_made(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another controller begins between any two steps of this one."""
    lock = fcntl.flock
    others = []

    def meanwhile(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        others.append(control_folder())
        monkeypatch.setattr(fcntl, "flock", meanwhile)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    mine, alive = control_folder()
    assert mine.is_dir()
    for folder, held in (*others, (mine, alive)):
        assert (folder / "alive").exists()
        os.close(held)
