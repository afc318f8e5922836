"""Knobs of subsystems that few test machines have, held and given back on a real kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iotrial.execute.tuning import apply, observe, put_back, snapshot
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]

CONFIGURED = """\
defaults {
	user_friendly_names yes
	find_multipaths yes
	no_path_retry 3
}
blacklist {
	devnode "^(vd|nvme|nullb)"
}
"""


def hold(node: Node, name: str, device: str, value: str) -> None:
    """Set it, see it in force, give it back, and see that too."""
    knob = tunable(name)
    before = observe(node.host, knob, device)
    assert before not in (None, value)
    group = snapshot(node.host, [name], device)
    try:
        apply(node.host, [Setting(device, name, value)])
        assert observe(node.host, knob, device) == value
    finally:
        assert put_back(node.host, group.owed) == ()
    assert observe(node.host, knob, device) == before


@pytest.mark.parametrize(
    ("name", "disk", "value"),
    [
        ("scsi.queue_depth", "a", "16"),
        ("scsi.timeout", "a", "45"),
        ("nvme.io_timeout", "nvme", "20000"),
        ("queue.scheduler", "a", "bfq"),
        ("queue.scheduler", "virtio", "kyber"),
        ("queue.scheduler", "nvme", "bfq"),
    ],
)
def test_a_knob_of_a_disk_is_held_and_given_back(
    node: Node, name: str, disk: str, value: str
) -> None:
    hold(node, name, node.disk(disk), value)


@pytest.fixture(scope="module")
def mirror(node: Node) -> Iterator[str]:
    """A RAID1 of the disks a and b."""
    members = [f"/dev/{node.disk(each)}" for each in ("a", "b")]
    options = ["--run", "--level=1", "--raid-devices=2", "--metadata=1.2", "--bitmap=internal"]
    node.do("mdadm", "--create", "/dev/md0", *options, *members)
    yield "md0"
    node.do("mdadm", "--stop", "/dev/md0")
    node.do("mdadm", "--zero-superblock", *members)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("md.sync_speed_max", "5000"),
        ("md.safe_mode_delay", "0.500"),
        ("md.bitmap", "none"),
        ("queue.read_ahead_kb", "256"),
    ],
)
def test_a_knob_of_an_array_is_held_and_given_back(
    node: Node, mirror: str, name: str, value: str
) -> None:
    hold(node, name, mirror, value)


@pytest.fixture(scope="module")
def paths(node: Node) -> Iterator[str]:
    """The multipath map of the disk with two paths."""
    node.host.save("/etc/multipath.conf", CONFIGURED.encode(), private=False)
    node.do("systemctl", "start", "multipathd")
    node.do("sh", "-c", "until [ -e /dev/mapper/mpatha ]; do sleep 0.5; done", within=60)
    yield "mpatha"
    node.do("multipath", "-f", "mpatha")
    node.do("systemctl", "stop", "multipathd", "multipathd.socket")
    node.host.remove("/etc/multipath.conf")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("multipath.path_selector", "round-robin 0"),
        ("multipath.no_path_retry", "12"),
        ("multipath.queue_if_no_path", "0"),
    ],
)
def test_a_knob_of_multipath_is_held_and_given_back(
    node: Node, paths: str, name: str, value: str
) -> None:
    assert node.do("multipath", "-ll", paths).count("active ready running") == 2
    hold(node, name, paths, value)
