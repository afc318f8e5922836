"""What is kept, read by the programs it is for, in force on a kernel that nothing else uses."""

from __future__ import annotations

import pytest

from iotrial.keep.native import export
from iotrial.keep.profile import Entry, Profile
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]


def profile(node: Node, name: str) -> Profile:
    disk = node.disk("a")
    ids = (("wwid", node.wwid(disk)),)
    return Profile(
        name,
        (
            Entry("queue.scheduler", "bfq", disk, ids, "mq-deadline"),
            Entry("queue.nr_requests", "64", disk, ids),
            Entry("scsi.queue_depth", "32", disk, ids),
            Entry("sysctl.vm.swappiness", "10"),
            Entry("sysctl.net.ipv4.tcp_rmem", "4096 87380 8388608"),
            Entry("mm.thp", "madvise"),
            Entry("multipath.path_selector", "round-robin 0"),
            Entry("multipath.no_path_retry", "12"),
        ),
        "Which is best?",
    )


def placed(node: Node, what: str) -> list[str]:
    """Put the files of one format on the node; their paths."""
    files = export(profile(node, "vm"), (what,)).files
    mine = [each for each in files if f"/{what}" in each.path]
    assert mine
    for each in mine:
        node.do("mkdir", "-p", each.path.rpartition("/")[0])
        node.host.save(each.path, each.text.encode(), private=False)
    return [each.path for each in mine]


def test_sysctl_system_takes_the_parameters_and_has_them_in_force(node: Node) -> None:
    paths = placed(node, "sysctl")
    try:
        assert "99-iotrial-vm.conf" in node.do("sysctl", "--system")
        said = node.do("sysctl", "-n", "vm.swappiness", "net.ipv4.tcp_rmem")
        assert said.split() == ["10", "4096", "87380", "8388608"]
    finally:
        node.do("rm", *paths)
        node.do("sysctl", "-w", "vm.swappiness=60")


def test_multipath_merges_the_file_without_a_complaint(node: Node) -> None:
    paths = placed(node, "multipath")
    try:
        done = node.host.run(["multipath", "-t"])
        assert done.exit == 0
        assert done.stderr == b""
        overrides = done.text.partition("\noverrides {")[2]
        assert 'path_selector "round-robin 0"' in overrides
        assert "no_path_retry 12" in overrides
        node.host.save(paths[0], b"overrides {\n\tpath_selektor 1\n}\n", private=False)
        wrong = node.host.run(["multipath", "-t"])
        assert b"path_selektor" in wrong.stdout + wrong.stderr
    finally:
        node.do("rm", *paths)
