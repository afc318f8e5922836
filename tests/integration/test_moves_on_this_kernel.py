"""What the running kernel moves is what the catalogue declares, and what the fake host does.

Every loop device is new: attaching, and writing wbt_lat_usec by hand, leave state behind that no
file shows.
"""

from __future__ import annotations

import os

import pytest

from imitation import KERNELS
from iotrial.errors import FileRefused
from iotrial.execute.settings.moves import measure_moves
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.local import LocalHost
from iotrial.model.host import Host
from iotrial.tunables import tunable
from writes import QUEUE, SCHEDULERS, any_writes

pytestmark = pytest.mark.root


def offered(device: str) -> list[str]:
    return list(tunable("queue.scheduler").domain(read(LocalHost(), device, "scheduler")).choices)


def read(host: Host, device: str, name: str) -> bytes:
    return host.read(f"/sys/block/{device}/queue/{name}")


def fake_with(device: str) -> FakeHost:
    """A fake host of this kernel, with a fresh loop device of this name."""
    kernel = ".".join(os.uname().release.split(".")[:2])
    if kernel not in KERNELS:
        pytest.skip(f"the fake imitates {', '.join(KERNELS)}; this kernel is {os.uname().release}")
    host = FakeHost(kernel=KERNELS[kernel])
    host.run(["truncate", "-s", "64M", "/var/tmp/backing"])
    assert host.run(["losetup", f"/dev/{device}", "/var/tmp/backing"]).exit == 0
    return host


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_a_write_moves_is_declared(loop_device: str, scheduler: str) -> None:
    if scheduler not in offered(loop_device):
        pytest.skip(f"this kernel does not offer {scheduler}")
    host = LocalHost()
    host.write(f"/sys/block/{loop_device}/queue/scheduler", scheduler.encode())
    measured = measure_moves(host, loop_device, [row.name for row in QUEUE])
    undeclared = [
        (mover, moved)
        for mover, found in measured.items()
        for moved in found
        if not tunable(moved).moved_by(tunable(mover))
    ]
    assert undeclared == []


def test_measuring_finds_the_couplings_that_are_known(loop_device: str) -> None:
    """Else the test above could pass by measuring nothing."""
    if "bfq" not in offered(loop_device):
        pytest.skip("this kernel does not offer bfq")
    measured = measure_moves(LocalHost(), loop_device, ["queue.scheduler", "queue.rotational"])
    assert "queue.nr_requests" in measured["queue.scheduler"]
    assert "queue.wbt_lat_usec" in measured["queue.scheduler"]
    assert "queue.iosched.slice_idle" in measured["queue.scheduler"]
    assert measured["queue.rotational"] == ("queue.read_ahead_kb",)


def test_measuring_puts_back_what_can_be_read(loop_device: str) -> None:
    host = LocalHost()
    before = snapshot(host, loop_device)
    measure_moves(host, loop_device, ["queue.scheduler", "queue.nr_requests"])
    assert snapshot(host, loop_device) == before


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_fake_moves_what_the_kernel_moves(loop_device: str, scheduler: str) -> None:
    names = [row.name for row in QUEUE]
    found = []
    for host in (LocalHost(), fake_with(loop_device)):
        host.write(f"/sys/block/{loop_device}/queue/scheduler", scheduler.encode())
        found.append(measure_moves(host, loop_device, names))
    assert found[0] == found[1]


def snapshot(host: Host, device: str) -> dict[str, bytes | int]:
    """Every file of our tunables: its bytes, or the errno of reading it."""
    seen: dict[str, bytes | int] = {}
    for row in QUEUE:
        try:
            seen[row.name] = host.read(row.file(device))
        except FileRefused as refused:
            seen[row.name] = refused.errno
    return seen


def written(host: Host, path: str, text: str) -> int:
    """The errno of a write, 0 for none."""
    try:
        host.write(path, text.encode())
    except FileRefused as refused:
        return refused.errno
    return 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_fake_answers_random_writes_as_the_kernel_does(loop_device: str, seed: int) -> None:
    real, fake = LocalHost(), fake_with(loop_device)
    assert snapshot(fake, loop_device) == snapshot(real, loop_device), "when new"
    history = []
    for name, text in any_writes(seed, 400):
        path = tunable(name).file(loop_device)
        said = written(real, path, text)
        history.append((name, text, said))
        assert written(fake, path, text) == said, history[-8:]
        assert snapshot(fake, loop_device) == snapshot(real, loop_device), history[-8:]
