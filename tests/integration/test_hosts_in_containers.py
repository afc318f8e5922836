"""Hosts that a shell in a container is: what is changed there are settings of the container's own
network and of a disk, which is the kernel's.  The controller is killed, or the container is, as a
whole and at once: nobody calls ``restore``, the guard outside pays.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from containers import Podman, path_with, plain_debian
from iotrial.errors import RefusedError
from iotrial.execute.preflight import check_machine
from iotrial.hosts import container as container_of
from iotrial.hosts.places import STATE
from iotrial.hosts.via.podman import HOST
from iotrial.look.doctor import examine
from iotrial.model.host import Access
from iotrial.plan.load import load_study
from moments import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        "overlay" not in Path("/proc/filesystems").read_text("ascii"), reason="needs overlayfs"
    ),
]

KILLS, SOME = 20, 4
LATEST = 5.0
"""Seconds after the start; a run of the study below takes about as long."""
STUDY = """
question = "Is everything given back?"
[hosts.box]
{way}
lease = "5s"
[targets.disk]
device = "/dev/{device}"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "{runtime}" }}
[factors.all.levels.stock]
[factors.all.levels.one]
"queue.scheduler" = "none"
"sysctl.net.ipv4.tcp_rmem" = "4096 87380 16777216"
[factors.all.levels.two]
"queue.scheduler" = "bfq"
"queue.read_ahead_kb" = 64
[factors.queue]
tunable = "net.txqueuelen"
on = "lo"
levels = [77, 88]
[design]
blocks = 1
settle = "0s"
"""
FORMER = {"scheduler": "kyber", "read_ahead_kb": "320", "nr_requests": "72", "wbt_lat_usec": "1500"}
WAYS = {
    "podman": 'via = "podman://{name}"',
    "shell": 'shell = ["podman", "exec", "-i", "{name}", "sh"]',
    "nsenter": 'via = "nsenter://{pid}"',
}


@dataclass
class Container:
    """A container that a study reaches by ``way``, the disk it changes, the controller's folder."""

    podman: Podman
    way: str
    device: str
    folder: Path
    name: str = "box"
    pid: int = 0
    base: Path = Path("/")
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self.name = f"{self.way}-{time.monotonic_ns()}"
        self.pid = self.podman.run(self.name, "--network", "none", "--privileged", base=self.base)

    def seen(self) -> str:
        """What a run changes, of the kernel's.  A scheduler that changes meanwhile takes a folder
        away: then once more."""
        queue = Path("/sys/block", self.device, "queue")
        for _ in range(100):
            with suppress(FileNotFoundError):
                return "\n".join(
                    f"{path.relative_to(queue)} {path.read_text().strip()}"
                    for path in sorted(queue.rglob("*"))
                    if path.is_file() and os.access(path, os.R_OK)
                )
            time.sleep(0.01)
        raise AssertionError(f"{queue} does not hold still")

    def inside(self, *argv: str) -> str:
        entered = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--", *argv]
        return subprocess.run(entered, capture_output=True, text=True, check=False).stdout

    def network(self) -> str:
        return self.inside("cat", "/proc/sys/net/ipv4/tcp_rmem", "/sys/class/net/lo/tx_queue_len")

    def owed(self) -> list[str]:
        return self.inside("find", "/run/iotrial", "-name", "*.journal").split()

    def run(self, runtime: str = "0.2s") -> subprocess.Popen[bytes]:
        way = WAYS[self.way].format(name=self.name, pid=self.pid)
        study = self.folder / "study.toml"
        study.write_text(STUDY.format(way=way, device=self.device, runtime=runtime))
        out = self.folder / f"results-{time.monotonic_ns()}"
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(out)],
                env={k: v for k, v in path_with(self.podman).items() if k != STATE},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.runs.append(process)
        return process

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text("utf-8", "replace")

    def changed(self, before: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 100
        while self.seen() == before:
            assert time.monotonic() < deadline, self.said
            assert process.poll() is None, self.said
            time.sleep(0.02)

    def back(self, before: str, within: float = 60.0) -> None:
        deadline = time.monotonic() + within
        while self.seen() != before or self.loads():
            assert time.monotonic() < deadline, (self.seen(), before, self.loads())
            time.sleep(0.1)

    def loads(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"fio") and f"--filename=/dev/{self.device}".encode() in words:
                    found.append(path.parent.name)
        return found

    def close(self) -> None:
        for process in self.runs:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    found = Podman(tmp_path_factory.mktemp("podman"))
    yield found
    found.close()


@pytest.fixture(params=list(WAYS))
def container(
    request: pytest.FixtureRequest, podman: Podman, loop_device: str, tmp_path: Path
) -> Iterator[Container]:
    for name, value in FORMER.items():
        Path("/sys/block", loop_device, "queue", name).write_text(value)
    found = Container(podman, request.param, loop_device, tmp_path)
    found.start()
    yield found
    found.close()
    podman.close()


def often(times: Callable[[int], int]) -> int:
    """With ``--all`` all of them; a run and its end take some five seconds."""
    return KILLS if times(KILLS) == KILLS else SOME


def test_a_study_runs_in_it_and_everything_reads_as_before(container: Container) -> None:
    before, network = container.seen(), container.network()
    assert container.run().wait(300) == 0, container.said
    assert (container.seen(), container.network()) == (before, network)
    assert container.owed() == []


def test_a_controller_that_is_killed_leaves_nothing_changed(
    container: Container, times: Callable[[int], int]
) -> None:
    before, network, struck = container.seen(), container.network(), 0
    moments, many = random.Random(25), often(times)
    for number in range(many):
        process = container.run()
        wait_until(number, many, moments.uniform(0.3, LATEST), container.owed)
        process.kill()
        process.wait()
        struck += bool(container.owed())
        container.back(before)
        deadline = time.monotonic() + 60
        while container.owed() or container.network() != network:
            assert time.monotonic() < deadline, (container.owed(), container.network())
            time.sleep(0.1)
    assert struck, "no kill fell into a session"


def test_a_container_that_is_killed_and_removed_leaves_no_disk_changed(
    container: Container, times: Callable[[int], int]
) -> None:
    """With everything that runs in it and every file of it."""
    before = container.seen()
    moments = random.Random(26)
    for number in range(often(times)):
        process = container.run("0.5s")
        container.changed(before, process)
        time.sleep(moments.uniform(0.0, 1.0))
        if number % 2:  # nobody else is left who knows what is owed
            process.kill()
        container.podman.do("rm", "-f", "-t", "0", container.name)
        container.back(before)
        if not number % 2:
            assert process.wait(200) in (4, 6), container.said
        process.wait()
        container.start()


def test_a_container_that_cannot_be_entered_from_outside_is_refused(
    podman: Podman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one on another machine: its namespaces are nobody's here."""
    monkeypatch.setattr(container_of, "_process_in", lambda _: None)
    monkeypatch.setenv("PATH", f"{podman.bin}:{os.environ['PATH']}")
    podman.run("alone", "--network", "none", "--privileged")
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(way='via = "podman://alone"', device="loop0", runtime="1s"))
    with HOST.connect(Access("alone", "box")) as host:
        assert "a container that is killed ends its guard" in host.unguarded
        with pytest.raises(RefusedError, match="nothing would restore the host") as refused:
            check_machine(host, load_study(study))
        assert "run iotrial on that machine" in refused.value.message
        (row,) = (each for each in examine(host, tools=()) if each.name == "guard")
        assert (row.verdict, "settings are refused" in row.remedy) == ("warn", True)
    podman.close()


def test_a_user_who_is_not_root_measures_in_it_and_changes_nothing(
    podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that user keeps is in a folder of the user's own, as elsewhere."""
    monkeypatch.setenv("PATH", f"{podman.bin}:{os.environ['PATH']}")
    own = ("--env", "HOME=/dev/shm/home", "--env", "XDG_RUNTIME_DIR=/dev/shm")
    podman.run("plain", "--network", "none", "--privileged", *own)
    with HOST.connect(Access("65534@plain", "box")) as host:
        assert host.run(["id", "-u"]).text == "65534\n"
        assert "user 65534" in host.unprivileged
        assert host.run(["printenv", "IOTRIAL_STATE"]).exit
    podman.close()


@pytest.mark.timeout(1500)
def test_a_study_runs_in_a_plain_debian_and_a_killed_one_leaves_nothing_changed(
    podman: Podman, loop_device: str, tmp_path: Path
) -> None:
    """A root file system with no more than a Debian must have, and fio."""
    for name, value in FORMER.items():
        Path("/sys/block", loop_device, "queue", name).write_text(value)
    found = Container(podman, "podman", loop_device, tmp_path, base=plain_debian())
    found.start()
    before, network = found.seen(), found.network()
    lacking = "for each in ip ethtool ps lspci udevadm; do command -v $each; done"
    assert found.inside("sh", "-c", lacking) == ""
    try:
        assert found.run().wait(300) == 0, found.said
        assert (found.seen(), found.network(), found.owed()) == (before, network, [])
        process = found.run("0.5s")
        found.changed(before, process)
        process.kill()
        process.wait()
        found.back(before)
    finally:
        found.close()
        podman.close()
