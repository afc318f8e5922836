"""``iotrial keep`` on several hosts over SSH: network namespaces with a real sshd in each, and a
folder of their own for the files of links."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Box, Lab, lab, why_not

__all__ = ["lab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.timeout(900),
]

NAMES = ("box1", "box2")
LONG, FORMER = "77\n", "1000\n"


@dataclass
class Fleet:
    """The boxes, their folders of links, and a profile of them that nobody else has."""

    boxes: tuple[Box, ...]
    folders: dict[str, Path]
    name: str
    place: Path

    def profile(self, *names: str, more: str = "") -> str:
        """The file of a profile that sets the length of a queue on each of these boxes."""
        hosts = "".join(
            f'[hosts.{box.name}]\nssh = "{box.where}"\n'
            for box in self.boxes
            if box.name in (names or NAMES)
        )
        path = self.place / "profile.toml"
        path.write_text(
            f'format = 1\nname = "{self.name}"\n{hosts}[[keep]]\ntunable = "net.txqueuelen"\n'
            f'on = "eth0"\nvalue = 77\n{more}'
        )
        return str(path)

    def lengths(self) -> list[str]:
        return [box.run("cat", "/sys/class/net/eth0/tx_queue_len") for box in self.boxes]

    def files(self) -> list[int]:
        return [len(list(self.folders[box.name].iterdir())) for box in self.boxes]

    def untouched(self) -> bool:
        return self.lengths() == [FORMER] * 2 and self.files() == [0, 0]


def argv(*words: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", "keep", *words]


def iotrial(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv(*words), capture_output=True, text=True, timeout=200, check=False)


def by_host(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {each["host"]: each for each in json.loads(done.stdout)["hosts"]}


def states(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [each["state"] for each in by_host(done).values()]


def until(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def boxes(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[Box, ...], dict[str, Path]]:
    folders = {name: tmp_path_factory.mktemp(f"network-{name}") for name in NAMES}
    made = (lab.box(name, into=[(folders[name], "/etc/systemd/network")]) for name in NAMES)
    return tuple(made), folders


@pytest.fixture
def fleet(boxes: tuple[tuple[Box, ...], dict[str, Path]], tmp_path: Path) -> Iterator[Fleet]:
    name = f"test-{random.SystemRandom().randrange(16**6):06x}"
    made = Fleet(*boxes, name, tmp_path)
    assert made.untouched()
    yield made
    for box in made.boxes:
        box.mend()
    iotrial(name, "undo", *(word for box in made.boxes for word in ("--on", box.where)))
    assert until(made.untouched, 200)


def test_it_is_applied_verified_and_undone_on_every_host(fleet: Fleet) -> None:
    profile = fleet.profile()
    done = iotrial(profile, "try", "--for", "5m", "--json")
    assert done.returncode == 0, done.stderr
    assert states(done) == ["trying"] * 2
    assert iotrial(profile, "confirm").returncode == 0
    assert fleet.lengths() == [LONG] * 2
    assert fleet.files() == [1, 1]
    fleet.boxes[1].run("ip", "link", "set", "eth0", "txqueuelen", "55")
    next(fleet.folders["box2"].iterdir()).unlink()
    said = iotrial(profile, "verify", "--json")
    assert said.returncode == 1
    found = by_host(said)
    assert [each["state"] for each in found.values()] == ["in-force", "differs"]
    file, value = found["box2"]["differences"]
    assert (value["what"], value["found"]) == ("net.txqueuelen on eth0", "55")
    assert file["found"] == "does not exist"
    words = iotrial(profile, "verify").stdout
    assert "box1: " + fleet.name + ": in force" in words
    assert "box2: net.txqueuelen on eth0: wanted 77, found 55, since some time after" in words
    done = iotrial(profile, "undo", "--json")
    assert (done.returncode, states(done)) == (0, ["undone"] * 2)
    assert fleet.untouched()
    assert iotrial(profile, "undo").returncode == 3


def test_where_one_host_cannot_take_it_the_others_give_it_back(fleet: Fleet) -> None:
    more = '[[keep]]\ntunable = "net.txqueuelen"\non = "eth7"\nvalue = 77\nhost = "box2"\n'
    done = iotrial(fleet.profile(more=more), "apply", "--json")
    assert done.returncode == 3, done.stderr
    assert states(done) == ["as-before"] * 2
    assert "eth7" in by_host(done)["box2"]["why"]
    assert "box2" in done.stderr
    assert fleet.untouched()


def test_what_is_tried_is_confirmed_on_all_or_undone_by_each(fleet: Fleet) -> None:
    profile = fleet.profile()
    assert iotrial(profile, "try", "--for", "3s").returncode == 0
    assert until(fleet.untouched, 200), "each by its own clock"

    assert iotrial(profile, "try", "--for", "5m").returncode == 0
    assert fleet.lengths() == [LONG] * 2
    assert iotrial(profile, "undo", "--on", "box2").returncode == 0
    done = iotrial(profile, "confirm", "--json")
    assert done.returncode == 3
    assert states(done) == ["trying", "as-before"]
    assert "box2: " in done.stderr
    assert fleet.lengths() == [LONG, FORMER]
    assert iotrial(profile, "undo").returncode == 0
    assert fleet.untouched()


def test_a_host_whose_link_is_cut_undoes_it_by_itself_and_is_named(fleet: Fleet) -> None:
    """With an MTU of 68 nothing that we send to box2 arrives any more."""
    more = '[[keep]]\ntunable = "net.mtu"\non = "eth0"\nvalue = 68\nhost = "box2"\n'
    done = iotrial(fleet.profile(more=more), "try", "--for", "3s", "--json")
    assert done.returncode == 6, (done.stdout, done.stderr)
    assert states(done) == ["as-before", "lost"]
    assert "box2 restores its former settings within about 30 s" in by_host(done)["box2"]["why"]
    assert "box2" in done.stderr
    assert (fleet.lengths()[0], fleet.files()[0]) == (FORMER, 0)
    assert until(fleet.untouched, 200)
    assert fleet.boxes[1].run("cat", "/sys/class/net/eth0/mtu") == "1500\n"


def test_a_host_that_cannot_be_reached_keeps_the_others_as_they_are(fleet: Fleet) -> None:
    nobody = f'[hosts.gone]\nssh = "-p 9 {fleet.boxes[0].where}"\n'
    done = iotrial(fleet.profile(more=nobody), "apply")
    assert done.returncode == 6
    assert "gone" in done.stderr
    assert fleet.untouched()


def test_whoever_stops_it_gets_everything_back_on_every_host(fleet: Fleet) -> None:
    profile, stopped = fleet.profile(), 0
    idle = [len(box.processes()) for box in fleet.boxes]

    def reached() -> bool:
        return [len(box.processes()) for box in fleet.boxes] != idle

    def changed() -> bool:
        return not fleet.untouched()

    for moment in (reached, changed):
        assert until(lambda: not reached(), 200)
        process = subprocess.Popen(
            argv(profile, "apply"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert until(lambda: moment() or process.poll() is not None, 200)  # noqa: B023
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=200)
        if process.returncode == 0:
            assert fleet.lengths() == [LONG] * 2
            assert iotrial(profile, "undo").returncode == 0
        else:
            # `python -m` ends by the signal itself where it came while a class was being made (exec
            # of a text notes it as unhandled, caught or not): to a shell that is 130 too.
            assert process.returncode in {130, -signal.SIGINT}, words
            stopped += 1
        assert fleet.untouched()
    assert stopped
