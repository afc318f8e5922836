"""A host over SSH, and every way to lose it: the controller killed, the link cut, the load killed,
the disk full.  It is a network namespace with a real sshd and books of its own; what is changed
are settings of its own network, a loop device, a mounted file system and a configuration file.

Nobody calls ``restore`` here unless the test says so: the guard on the host pays.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import Box, Lab, lab, why_not

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

KILLS = 120
CUTS = 12
LEASE = 5
LATEST = 4.5
"""Seconds after the start; a run of the study below takes about as long."""
JOURNALS = "/var/lib/iotrial/journal.d"

STUDY = """
question = "Is everything given back?"
[hosts.box]
ssh = "{where}"
lease = "{lease}s"
[targets.disk]
device = "/dev/{device}"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "{runtime}" }}
[knobs.rsize]
file = "{folder}/client.conf"
content = "rsize {{value}}\\n"
read = ["cat", "{folder}/client.conf"]
field = "rsize"
[factors.all.levels.stock]
[factors.all.levels.one]
"queue.scheduler" = "none"
"sysctl.net.ipv4.tcp_rmem" = "4096 87380 16777216"
[factors.all.levels.two]
"queue.scheduler" = "bfq"
"queue.read_ahead_kb" = 64
"sysctl.net.ipv4.ipfrag_low_thresh" = 1000
"sysctl.net.ipv4.ipfrag_high_thresh" = 2000
[factors.queue]
tunable = "net.txqueuelen"
on = "lo"
levels = [77, 88]
[factors.client]
tunable = "file.rsize"
levels = [4096]
[design]
blocks = 1
settle = "0s"
"""

FORMER = {
    "scheduler": "kyber",
    "read_ahead_kb": "320",
    "nr_requests": "72",
    "wbt_lat_usec": "1500",
    "iosched/read_lat_nsec": "1234567",
}
KEYS = ("tcp_rmem", "ipfrag_low_thresh", "ipfrag_high_thresh")


@dataclass
class Bench:
    """A box, the device its study changes, and the controller's folder."""

    box: Box
    device: str
    folder: Path

    def seen(self) -> dict[str, str]:
        """Everything that a run changes, as it reads now."""
        found = _queue(Path("/sys/block", self.device, "queue"))
        said = self.box.run(
            "cat", *(f"/proc/sys/net/ipv4/{key}" for key in KEYS), "/sys/class/net/lo/tx_queue_len"
        )
        client = self.folder / "client.conf"
        return {**found, "net": said, "file": _content(client), "mode": oct(client.stat().st_mode)}

    def run(self, runtime: str = "0.2s", lease: int = LEASE) -> subprocess.Popen[str]:
        study = self.folder / "study.toml"
        study.write_text(
            STUDY.format(
                where=self.box.where,
                lease=lease,
                device=self.device,
                folder=self.folder,
                runtime=runtime,
            )
        )
        out = self.folder / f"results-{time.monotonic_ns()}"
        return subprocess.Popen(
            iotrial("run", str(study), "--out", str(out)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def owing(self) -> list[str]:
        """What the box's journals hold; none where it owes nothing."""
        return self.box.run("sh", "-c", f"cat {JOURNALS}/*.journal 2>/dev/null || :").splitlines()

    def loads(self) -> list[int]:
        """fio processes in the box that load it: no questions to fio of its version."""
        found = []
        for pid in self.box.processes():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"fio") and f"--filename=/dev/{self.device}".encode() in words:
                found.append(pid)
        return found

    def settled(self, within: float) -> None:
        """Wait until the box owes nothing and loads nothing."""
        deadline = time.monotonic() + within
        while self.owing() or self.loads():
            assert time.monotonic() < deadline, (self.owing(), self.loads())
            time.sleep(0.1)

    def swept(self, within: float) -> None:
        """Wait until nothing of a dead controller's shell is left there but the lock's file."""
        deadline = time.monotonic() + within
        while (left := self.box.run("ls", "-A", "/run/iotrial").split()) != ["lock"]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)

    def changed(self, before: dict[str, str], within: float = 200) -> None:
        """Wait until a run has changed something."""
        deadline = time.monotonic() + within
        while self.seen() == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def iotrial(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", *arguments]


def _queue(folder: Path) -> dict[str, str]:
    """All its files.  A scheduler that changes meanwhile takes a folder away: then once more."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            return {
                str(path): _content(path) for path in sorted(folder.rglob("*")) if path.is_file()
            }
        time.sleep(0.01)
    raise AssertionError(f"{folder} does not hold still")


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return f"errno {error.errno}"


@pytest.fixture(scope="module")
def box(lab: Lab) -> Box:
    return lab.box()


@pytest.fixture
def bench(box: Box, loop_device: str, tmp_path: Path) -> Iterator[Bench]:
    for name, value in FORMER.items():
        Path("/sys/block", loop_device, "queue", name).write_text(value)
    client = tmp_path / "client.conf"
    client.write_bytes(b"# by hand\n\nrsize 16384")
    client.chmod(0o640)
    yield Bench(box, loop_device, tmp_path)
    box.mend()


def killed(process: subprocess.Popen[str]) -> None:
    """SIGKILL for the controller alone: what it started must notice by itself."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=200)


@pytest.mark.timeout(1500)
def test_after_any_kill_of_the_controller_the_host_restores_itself(
    bench: Bench, times: Callable[[int], int], record_property: pytest.FixtureRequest
) -> None:
    kills = times(KILLS)
    before = bench.seen()
    moments = random.Random(30)
    struck = 0
    for kill in range(kills):
        process = bench.run()
        if kill % 2:  # at any moment; and, however slow the machine is, while something is held
            bench.changed(before)
        time.sleep(moments.uniform(0.0 if kill % 2 else 0.3, LATEST / 2 if kill % 2 else LATEST))
        struck += bench.seen() != before
        killed(process)
        bench.settled(200)
        assert bench.seen() == before, f"kill {kill}"
    # A shell that died before it had a guard leaves its scratch folder to the next connection.
    subprocess.run(
        iotrial("status", "--", bench.box.where), capture_output=True, timeout=200, check=True
    )
    bench.swept(200)
    record_property("kills that struck while something was changed", struck)  # type: ignore[operator]
    assert struck >= kills // 5, f"only {struck} of {kills} kills struck while anything was changed"


@pytest.mark.timeout(900)
def test_after_a_cut_of_the_link_at_any_moment_the_host_restores_itself(
    bench: Bench, times: Callable[[int], int]
) -> None:
    before = bench.seen()
    moments = random.Random(31)
    for cut in range(times(CUTS)):
        process = bench.run(runtime="1s")
        time.sleep(moments.uniform(0.3, LATEST))
        bench.box.cut()
        try:
            bench.settled(200)
            assert bench.seen() == before, f"cut {cut}"
        finally:
            bench.box.mend()
            killed(process)


def test_a_controller_that_loses_the_link_says_what_is_owed_and_who_pays(bench: Bench) -> None:
    before = bench.seen()
    process = bench.run(runtime="600s")
    bench.changed(before)
    bench.box.cut()
    _, said = process.communicate(timeout=200)
    words = " ".join(said.split())
    assert process.returncode == 4, said
    assert "iotrial cannot restore its settings now" in words
    assert "net.txqueuelen" in words
    assert "Its guard restores all settings" in words
    bench.settled(200)
    assert bench.seen() == before
    bench.box.mend()
    status = subprocess.run(
        iotrial("status", "--", bench.box.where), capture_output=True, text=True, check=False
    )
    assert status.returncode == 0, status.stderr
    assert "the guard" in f"{status.stdout}{status.stderr}"


def test_a_link_that_comes_back_too_late_changes_nothing_any_more(bench: Bench) -> None:
    """Fencing: after the guard has restored, no late command of the controller comes through."""
    before = bench.seen()
    process = bench.run(runtime="1s")
    bench.changed(before)
    bench.box.cut()
    bench.settled(200)
    bench.box.mend()
    for _ in range(40):
        assert bench.seen() == before
        time.sleep(0.1)
    process.communicate(timeout=200)
    assert process.returncode == 4
    assert bench.seen() == before


def test_a_killed_load_is_a_failed_trial_and_the_study_goes_on(bench: Bench) -> None:
    before = bench.seen()
    process = bench.run(runtime="2s")
    deadline = time.monotonic() + 200
    while not bench.loads() and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in bench.loads():
        os.kill(pid, signal.SIGKILL)
    said, complaint = process.communicate(timeout=200)
    assert process.returncode == 5, complaint
    assert "1 failed" in complaint
    assert bench.seen() == before
    assert bench.owing() == []
    del said


def test_a_disk_that_is_full_under_the_journal_is_told_before_anything_changes(
    bench: Bench,
) -> None:
    before = bench.seen()
    fill = f"mkdir -p -m 700 {JOURNALS} && mount -t tmpfs -o size=4k,mode=700 full {JOURNALS}"
    bench.box.run("sh", "-c", f"{fill} && head -c 4096 /dev/zero >{JOURNALS}/full")
    try:
        process = bench.run()
        _, said = process.communicate(timeout=200)
        assert process.returncode == 3, said
        assert "No space left on device" in said
        assert "Free space" in said
        assert bench.seen() == before
    finally:
        bench.box.run("umount", JOURNALS)


def test_restore_from_afar_pays_what_a_dead_guard_could_not(bench: Bench) -> None:
    before = bench.seen()
    process = bench.run(runtime="600s", lease=3600)
    bench.changed(before)
    guards = [p for p in bench.box.processes() if b"iotrial-guard" in _cmdline(p)]
    assert guards
    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    killed(process)
    assert bench.owing()
    status = subprocess.run(
        iotrial("status", "--", bench.box.where), capture_output=True, text=True, check=False
    )
    assert status.returncode == 4
    assert "net.txqueuelen" in status.stdout
    done = subprocess.run(
        iotrial("restore", "--", bench.box.where), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bench.owing() == []
    assert bench.loads() == []
    assert bench.seen() == before


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
