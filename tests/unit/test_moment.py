"""Loads that wait for a common moment: the real shell, and programs that take no time."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.execute.load import barrier
from iotrial.execute.load.start import LONGEST, SOON, StartBarrier, lead, skewed

READS_THE_TIME = ("date", "+%s%N")
FAR = 3600.0
COARSE = 0.05
"""Seconds: the time of a file is that of the kernel's last tick."""


class Loads:
    """Folders ``a`` and ``b``, and what was started in them; ended at the end of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"IOTRIAL_LOAD={folder}"
        self.started: list[subprocess.Popen[bytes]] = []
        for name in ("a", "b"):
            (folder / name).mkdir()

    def start(
        self, loads: dict[str, Sequence[str]], at: float, gated: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        name, _, value = self.mark.partition("=")
        process = subprocess.Popen(
            barrier.together(loads, at, gated),
            cwd=self.folder,
            env={**os.environ, name: value},
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def told(self, name: str, what: str) -> float:
        told = barrier.noted(self.folder / name, what)
        assert told is not None
        return told

    def said(self, name: str) -> float:
        """Seconds since the epoch, as the load printed them."""
        return int((self.folder / name / "stdout").read_text()) / 1e9

    def living(self) -> list[int]:
        """Every process of any of them."""
        found = []
        for each in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in each.read_bytes().split(b"\0"):
                    found.append(int(each.parent.name))
        return found

    def until(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def catches(pid: int, signum: int) -> bool:
    """Whether a process has set a trap for a signal."""
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> signum - 1 & 1)


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[Loads]:
    made = Loads(tmp_path)
    yield made
    for pid in made.living():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in made.started:
        process.wait()


def waits(then: str = "date +%s%N") -> tuple[str, ...]:
    """A program that makes ready, waits in a child's child of another session, and goes on."""
    inside = f"{barrier.GATE.every} # >whatever"
    return ("sh", "-c", f"setsid sh -c {shlex.quote(inside)} && {then}")


def test_loads_begin_at_the_moment_and_tell_when(loads: Loads) -> None:
    at = time.time() + 0.5
    process = loads.start({"a": READS_THE_TIME, "b": waits()}, at, ["b"])
    assert process.wait(200) == 0
    for name in "ab":
        assert loads.said(name) >= at
        assert at - COARSE <= loads.told(name, barrier.BEGAN) <= loads.said(name)
    assert loads.told("b", barrier.READY) <= loads.told("b", barrier.BEGAN)
    assert barrier.noted(loads.folder / "a", barrier.READY) is None


def test_one_that_waits_by_itself_is_started_before_the_moment_and_others_are_not(
    loads: Loads,
) -> None:
    loads.start({"a": READS_THE_TIME, "b": waits()}, time.time() + FAR, ["b"])
    loads.until((loads.folder / "b" / "ready").exists)
    assert not (loads.folder / "a" / "stdout").exists()
    assert not (loads.folder / "b" / "began").exists()


@pytest.mark.parametrize("at", [0.0, 1.0], ids=["at once", "a moment that has passed"])
def test_who_comes_late_does_not_wait(loads: Loads, at: float) -> None:
    before = time.time()
    late = ("sh", "-c", f"sleep 0.2\n{barrier.GATE.every}")
    process = loads.start({"a": READS_THE_TIME, "b": late}, at, ["b"])
    assert process.wait(200) == 0
    assert loads.told("b", barrier.BEGAN) >= before + 0.2 - COARSE


def test_of_several_jobs_the_last_to_begin_is_told_and_of_those_in_turn_the_first(
    loads: Loads,
) -> None:
    def twice(gate: str) -> tuple[str, ...]:
        return ("sh", "-c", f"({gate})\ndate +%s%N\nsleep 0.2\n({gate})\n:")

    argv = {"a": twice(barrier.GATE.every), "b": twice(barrier.GATE.first)}
    assert loads.start(argv, 0.0, "ab").wait(60) == 0
    assert loads.told("a", barrier.BEGAN) >= loads.said("a") + 0.2 - COARSE
    assert loads.told("b", barrier.BEGAN) <= loads.said("b")


def test_how_each_ended_is_told_and_the_worst_of_them(loads: Loads) -> None:
    process = loads.start({"a": waits("exit 3"), "b": ("sh", "-c", "exit 7")}, 0.0, ["a"])
    assert process.wait(200) == 7
    assert barrier.ended(loads.folder / "a", -1) == 3
    assert barrier.ended(loads.folder / "b", -1) == 7


def test_a_shell_that_has_to_wait_for_its_turn_is_no_clock_of_another_machine(
    loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told is when loads began, however late the shell is that asks for the time."""
    slow = tmp_path / "bin" / "date"
    slow.parent.mkdir()
    real = shutil.which("date")
    slow.write_text(f'#!/bin/sh\n[ "${{PWD##*/}}" = a ] || sleep 0.3\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    assert loads.start({"a": READS_THE_TIME}, 0).wait(200) == 0
    assert loads.told("a", barrier.BEGAN) <= loads.said("a")


def test_a_load_that_is_ended_before_its_moment_never_begins(loads: Loads) -> None:
    # fio catches the signal, and is content without any I/O.
    calm = ("sh", "-c", f"trap : TERM\n{barrier.GATE.every}\nexit 0")
    process = loads.start({"a": READS_THE_TIME, "b": calm}, time.time() + FAR, ["b"])
    loads.until((loads.folder / "b" / "ready").exists)
    # Before that it is ended by the signal, and nothing begins either; but nobody tells how.
    loads.until(lambda: catches(process.pid, signal.SIGTERM))
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(200) == 143
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # as a host does when the leader has ended
    loads.until(lambda: not loads.living())
    assert barrier.ended(loads.folder / "a", 0) == -signal.SIGTERM
    assert barrier.ended(loads.folder / "b", 0) == -signal.SIGTERM
    for name in "ab":
        assert barrier.noted(loads.folder / name) is None


def test_when_the_shell_is_killed_nobody_begins_and_nobody_goes_on_waiting(loads: Loads) -> None:
    process = loads.start({"b": waits("date >went-on")}, time.time() + FAR, ["b"])
    loads.until((loads.folder / "b" / "ready").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    loads.until(lambda: not loads.living())  # the one that waits is in a session of its own
    assert not (loads.folder / "b" / "began").exists()
    assert not (loads.folder / "b" / "went-on").exists()


def test_the_jobs_of_a_tool_that_is_killed_before_the_moment_do_not_begin(loads: Loads) -> None:
    at = time.time() + 2.0
    process = loads.start({"b": waits(), "a": READS_THE_TIME}, at, ["b"])
    loads.until((loads.folder / "b" / "ready").exists)
    for pid in loads.living():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[2:3] and words[2].startswith(b"setsid"):
                os.kill(pid, signal.SIGKILL)
    assert process.wait(200) == 137
    loads.until(lambda: not loads.living())
    assert barrier.ended(loads.folder / "b", 0) == -signal.SIGKILL
    assert barrier.noted(loads.folder / "b") is None
    assert loads.said("a") >= at


def test_outside_of_a_trial_nobody_waits() -> None:
    for words in (barrier.GATE.every, barrier.GATE.first):
        done = subprocess.run(["sh", "-c", words], timeout=60, check=False)
        assert done.returncode == 0


def test_the_next_moment_is_as_far_as_making_ready_asks_for() -> None:
    assert lead(started=0.1, ready=-1.0) == SOON
    assert lead(started=2.0, ready=2.5) == 4.0
    assert lead(started=2.0, ready=4.0) == 6.0
    assert lead(started=0.2, ready=3600.0) == LONGEST
    assert lead(started=20.0, ready=3600.0) == 40.0


@pytest.mark.parametrize(
    ("within", "doubted"), [({"a": 0.2, "b": 0.2}, 0), ({"a": 0.2, "b": 0.0, "c": 9.0}, 1)], ids=str
)
def test_what_two_clocks_leave_open_is_no_late_start(
    within: dict[str, float], doubted: int
) -> None:
    """Those of the first host and of the last one; another's says nothing of them."""
    shared = StartBarrier(3, 60.0, "a")
    shared.offsets = {name: barrier.ClockOffset(0.0, each) for name, each in within.items()}
    began = {"a/disk": 0.0, "b/disk": 0.4, "c/disk": 0.1}
    doubts = skewed(began, shared, 4.0)
    assert len(doubts) == doubted
    assert not doubted or "differ by 0.400 s, b/disk last" in doubts[0].what
