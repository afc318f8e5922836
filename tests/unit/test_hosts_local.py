"""What only the machine we are on can show: real processes, real signals, a real lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrial.errors import HostError, LockedError, RefusedError
from iotrial.hosts.local import LocalHost, wakeup_pipe

HOLDER = """
import sys, time
from iotrial.hosts.local import LocalHost
with LocalHost(purpose="study night").lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    """Not gone, and no zombie that waits for init."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone_soon(pid: int) -> bool:
    for _ in range(100):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def parent_of_a_sleeper(note: Path) -> list[str]:
    """A command whose child sleeps and ignores SIGTERM; the child's number is written down."""
    script = f"trap '' TERM; sleep 60 & echo $! > {note}; trap - TERM; wait"
    return ["sh", "-c", script]


def noted(note: Path) -> int:
    for _ in range(200):
        if note.exists() and note.read_text().strip():
            return int(note.read_text())
        time.sleep(0.02)
    raise AssertionError(note)


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="still running after"):
        LocalHost().run(parent_of_a_sleeper(tmp_path / "note"), timeout=0.5)
    assert gone_soon(noted(tmp_path / "note"))


def test_a_killed_load_takes_its_children_with_it(tmp_path: Path) -> None:
    process = LocalHost().start(
        parent_of_a_sleeper(tmp_path / "note"), folder=tmp_path, environment={}
    )
    child = noted(tmp_path / "note")
    process.kill(gently=False)
    assert process.wait(10) == -signal.SIGKILL
    assert gone_soon(child)


def test_what_a_load_leaves_running_ends_with_it(tmp_path: Path) -> None:
    process = LocalHost().start(
        parent_of_a_sleeper(tmp_path / "note"), folder=tmp_path, environment={}
    )
    child = noted(tmp_path / "note")
    process.kill(gently=True)
    assert process.wait(10) == -signal.SIGTERM
    assert gone_soon(child), "it ignores SIGTERM"


def test_the_english_locale_and_sbin_reach_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    words = LocalHost().run(["sh", "-c", "echo $LC_ALL $PATH"]).text.split()
    assert words[0] == "C"
    assert words[1].split(":")[-1] == "/sbin"


def test_a_signal_ends_a_wait_and_a_sleep_early(tmp_path: Path) -> None:
    heard: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda number, _frame: heard.append(number))
    try:
        with wakeup_pipe() as wakeup:
            host = LocalHost(wakeup=wakeup)
            process = host.start(["sleep", "60"], folder=tmp_path, environment={})
            for wait in (process.wait, host.sleep):
                with poke_soon():
                    began = host.clock()
                    assert wait(30) is None
                    assert host.clock() - began < 20
            assert heard == [signal.SIGUSR1] * 2
            began = host.clock()
            assert process.wait(0.1) is None
            assert host.clock() - began >= 0.1, "one signal ends one wait"
            process.kill(gently=False)
            assert process.wait(10) == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGUSR1, former)


def poke_soon() -> subprocess.Popen[bytes]:
    """Sends us SIGUSR1 after a moment."""
    return subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -USR1 {os.getpid()}"])


def test_the_lock_names_its_holder_and_is_freed_by_its_death(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError) as caught, LocalHost().lock(str(path)):
            pass
        holder.kill()
    assert f"pid {holder.pid} (study night)" in str(caught.value)
    assert f"kill {holder.pid}" in caught.value.advice
    with LocalHost().lock(str(path)):
        assert path.read_text().split()[0] == str(os.getpid())
    assert path.read_text() == ""


def test_a_folder_open_to_others_holds_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    folder.chmod(0o770)
    with (
        pytest.raises(RefusedError, match="not private to this user"),
        LocalHost().lock(str(folder / "lock")),
    ):
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "lock").symlink_to(victim)
    with pytest.raises(HostError), LocalHost().lock(str(folder / "lock")):
        pass
    assert victim.read_text() == "precious"


def test_what_is_run_or_started_carries_the_mark(tmp_path: Path) -> None:
    host = LocalHost()
    host.mark({"IOTRIAL_LOAD": "t1"})
    assert "IOTRIAL_LOAD=t1" in host.run(["env"]).text.splitlines()
    process = host.start(["env"], folder=tmp_path, environment={"OTHER": "x"})
    assert process.wait(10) == 0
    said = (tmp_path / "stdout").read_text().splitlines()
    assert {"IOTRIAL_LOAD=t1", "OTHER=x"} <= set(said)
    host.mark({})
    assert "IOTRIAL_LOAD=t1" not in host.run(["env"]).text.splitlines()
