"""``iotrial keep`` when something comes in its way: somebody stops it, there is no room, nothing
may be written, the wrong user asks.  An exact error, and everything as it was."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_keep_here import SWAPPINESS, files, until
from test_killed_at_any_moment import guards_of

pytestmark = pytest.mark.root

SLOW = '#!/bin/sh\necho "$$" >>"{called}"\nsleep {seconds}\n'


@pytest.fixture
def name() -> str:
    return f"test-{random.SystemRandom().randrange(16**6):06x}"


@pytest.fixture
def swap(name: str, state: Path, tmp_path: Path, own_swappiness: None) -> Iterator[Path]:
    """A profile of a value that is not in force; afterwards nothing of it is anywhere."""
    former = SWAPPINESS.read_text()
    path = tmp_path / "profile.toml"
    path.write_text(
        f'format = 1\nname = "{name}"\n[[keep]]\ntunable = "sysctl.vm.swappiness"\n'
        f"value = {int(former) ^ 1}\n"
    )
    yield path
    assert until(lambda: not guards_of(state), 200)
    assert SWAPPINESS.read_text() == former
    assert files(name) == []
    assert not list(state.glob("kept.d/*.journal"))
    assert not list(state.glob("kept.d/*.kept"))


def argv(*words: object) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", "keep", *map(str, words)]


def iotrial(*words: object, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, *argv(*words)], capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize(("action", "number"), [("try", signal.SIGINT), ("apply", signal.SIGTERM)])
def test_whoever_stops_it_in_the_middle_gets_everything_back(
    name: str, state: Path, tmp_path: Path, action: str, number: signal.Signals
) -> None:
    """In the middle: the values are set, and udevadm is being told, which takes its time."""
    called = tmp_path / "called"
    slow = tmp_path / "bin" / "udevadm"
    slow.parent.mkdir()
    slow.write_text(SLOW.format(called=called, seconds=1))
    slow.chmod(0o755)
    link = f"it{name.removeprefix('test-')}"
    subprocess.run(["ip", "link", "add", link, "type", "veth"], check=True, timeout=200)
    try:
        length = Path("/sys/class/net", link, "tx_queue_len")
        former = length.read_text()
        profile = tmp_path / "profile.toml"
        profile.write_text(
            f'format = 1\nname = "{name}"\n[[keep]]\ntunable = "net.txqueuelen"\n'
            f'on = "{link}"\nvalue = 77\n'
        )
        process = subprocess.Popen(
            argv(profile, action, "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PATH": f"{slow.parent}:{os.environ['PATH']}"},
        )
        assert until(called.exists, 200)
        assert length.read_text() == "77\n", "it is the middle"
        process.send_signal(number)
        process.send_signal(number)  # impatient
        said, words = process.communicate(timeout=200)
        assert process.returncode == 130, words
        assert "Settings are restored" in words
        assert json.loads(said)["error"]["exit"] == 130
        assert length.read_text() == former
        assert not list(Path("/etc/systemd/network").glob(f"*{name}*"))
        assert not list(state.glob("kept.d/*.journal"))
        assert not list(state.glob("kept.d/*.kept"))
        assert until(lambda: not guards_of(state), 200)
    finally:
        subprocess.run(["ip", "link", "delete", link], check=True, timeout=200)


def full(folder: Path, *, leaves: int) -> tuple[str, ...]:
    """A prefix: in a mount namespace of its own the folder is a file system with so many bytes."""
    script = (
        'mount -t tmpfs -o size=64k,mode=700 tmpfs "$1" && dd if=/dev/zero of="$1/fill" bs=4k'
        f' count={(65536 - leaves) // 4096} status=none && shift && exec "$@"'
    )
    return ("unshare", "--mount", "sh", "-c", script, "sh", str(folder))


def test_no_room_for_a_file_is_said_and_nothing_is_changed(swap: Path, name: str) -> None:
    done = iotrial(swap, "apply", before=full(Path("/etc/sysctl.d"), leaves=0))
    assert done.returncode in (3, 6), (done.stdout, done.stderr)
    assert f"/etc/sysctl.d/99-iotrial-{name}.conf" in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("leaves", [0, 4096, 8192])
def test_no_room_for_what_was_there_before_changes_nothing(
    swap: Path, state: Path, leaves: int
) -> None:
    """The journal, or what lies beside it, does not go onto the disk."""
    place = state / "kept.d"
    place.mkdir(mode=0o700)
    done = iotrial(swap, "apply", before=full(place, leaves=leaves))
    assert done.returncode in (3, 6), (done.stdout, done.stderr)
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_may_not_be_written_is_said(swap: Path, name: str, state: Path) -> None:
    script = "mount --bind /etc/sysctl.d /etc/sysctl.d && mount -o remount,ro,bind /etc/sysctl.d"
    done = iotrial(
        swap, "try", before=("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")
    )
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert f"/etc/sysctl.d/99-iotrial-{name}.conf is not written" in done.stderr
    assert "Read-only file system" in done.stderr
    assert not list(state.glob(f"kept.d/{name}.*")), "nothing of what was refused stays"


def test_a_file_that_nobody_may_move_is_said_and_nothing_is_pending(
    swap: Path, name: str, state: Path
) -> None:
    path = Path(f"/etc/sysctl.d/99-iotrial-{name}.conf")
    path.write_text("# mine\n")
    try:
        done = subprocess.run(["chattr", "+i", path], capture_output=True, timeout=200, check=False)
        if done.returncode:
            pytest.skip(f"no file can be made immutable here: {done.stderr.decode().strip()}")
        done = iotrial(swap, "apply")
        assert done.returncode == 3, (done.stdout, done.stderr)
        assert f"{path} is not written" in done.stderr
        assert path.read_text() == "# mine\n"
        assert not list(state.glob(f"kept.d/{name}.*")), "nothing of what was refused stays"
    finally:
        subprocess.run(["chattr", "-i", path], capture_output=True, timeout=200, check=False)
        path.unlink()


def test_what_waits_for_the_end_of_a_trial_may_begin_late(
    swap: Path, name: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later than the trial was undone: there is nothing to wait for, and nothing waits."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    late = tmp_path / "bin" / "setsid"
    late.parent.mkdir()
    real = shutil.which("setsid")
    late.write_text(
        f'#!/bin/sh\necho $$ >"{begun}"\nwhile [ ! -e "{go}" ]; do sleep 0.1; done\n'
        f'exec "{real}" "$@"\n'
    )
    late.chmod(0o755)
    monkeypatch.setenv("PATH", f"{late.parent}:{os.environ['PATH']}")
    try:
        assert iotrial(swap, "try", "--for", "9m").returncode == 0
        assert iotrial(name, "undo").returncode == 0
        assert until(begun.exists, 200)
    finally:
        go.touch()
    who = Path("/proc", begun.read_text().strip())
    assert until(lambda: not who.exists(), 200), "what waits ends at once"
    assert until(lambda: not guards_of(state), 200)


@pytest.mark.parametrize("action", ["apply", "verify", "undo"])
def test_another_user_is_told_that_it_needs_root(swap: Path, action: str, name: str) -> None:
    code = (
        "import os, sys; from iotrial.cli import keep; from iotrial.cli.main import main;"
        " import iotrial.execute.keep.keeping, iotrial_lint.machine, iotrial.hosts.local;"
        " os.setgid(65534); os.setuid(65534); main()"
    )
    swap.parent.chmod(0o755)
    what = swap.name if action in ("try", "apply") else name
    done = subprocess.run(
        [sys.executable, "-c", code, "keep", what, action],
        cwd=swap.parent,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"IOTRIAL_STATE": ""},
    )
    assert done.returncode == 3, done.stderr
    assert "needs root" in done.stderr


def test_a_second_trial_of_a_name_is_not_ended_by_the_clock_of_the_first(
    swap: Path, name: str
) -> None:
    former = SWAPPINESS.read_text()
    assert iotrial(swap, "try", "--for", "20s").returncode == 0
    began = time.monotonic()
    assert iotrial(name, "undo").returncode == 0
    assert iotrial(swap, "try", "--for", "5m").returncode == 0
    time.sleep(max(0.0, 21.5 - (time.monotonic() - began)))
    assert SWAPPINESS.read_text() != former
    assert iotrial(name, "undo").returncode == 0
