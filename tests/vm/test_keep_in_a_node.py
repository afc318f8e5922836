"""What is kept, before the real daemons, and through a power cut."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import export
from iotrial.keep.profile import Profile, to_toml
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]


def profile(node: Node, name: str) -> Profile:
    disk = node.disk("a")
    ids = (("wwid", node.wwid(disk)),)
    return Profile(
        name,
        (
            KeptSetting("queue.scheduler", "bfq", disk, ids, "mq-deadline"),
            KeptSetting("queue.nr_requests", "64", disk, ids),
            KeptSetting("scsi.queue_depth", "32", disk, ids),
            KeptSetting("sysctl.vm.swappiness", "10"),
            KeptSetting("sysctl.net.ipv4.tcp_rmem", "4096 87380 8388608"),
            KeptSetting("mm.thp", "madvise"),
            KeptSetting("multipath.path_selector", "round-robin 0"),
            KeptSetting("multipath.no_path_retry", "12"),
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


def test_tuned_applies_the_profile_and_its_verify_agrees(node: Node) -> None:
    paths = placed(node, "tuned")
    disk = node.disk("a")
    try:
        node.do("systemctl", "start", "tuned")
        node.do("tuned-adm", "profile", "iotrial-vm")
        node.do("tuned-adm", "verify")
        assert "[bfq]" in node.do("cat", f"/sys/block/{disk}/queue/scheduler")
        node.do("sysctl", "-w", "vm.swappiness=61")
        assert node.host.run(["tuned-adm", "verify"], timeout=120).exit != 0
    finally:
        node.do("tuned-adm", "off")
        node.do("systemctl", "stop", "tuned")
        node.do("rm", *paths)


def kept(node: Node, name: str, path: Path) -> tuple[Profile, list[str]]:
    """A profile without what needs a daemon, as a file here; and the files that it writes."""
    whole = profile(node, name)
    entries = tuple(each for each in whole.entries if not each.tunable.startswith("multipath"))
    less = Profile(name, entries, whole.question)
    path.write_text(to_toml(less), "utf-8")
    return less, [each.path for each in export(less).files]


def verify(node: Node, name: str) -> subprocess.CompletedProcess[str]:
    return node.lab.said("keep", name, "verify", "--on", node.way)


@pytest.mark.timeout(1800)
def test_a_power_cut_in_mid_keep_leaves_nothing_of_it(node: Node, tmp_path: Path) -> None:
    """Cut when its first file is there; after the boot none is, and `verify` says so."""
    _, paths = kept(node, "cut", tmp_path / "cut.toml")
    assert node.there(paths) == []
    argv = ["keep", str(tmp_path / "cut.toml"), "apply", "--on", node.way]
    with subprocess.Popen(
        node.lab.command(*argv),
        env=node.lab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as keeping:
        until = time.monotonic() + 120
        while not node.there(paths):
            assert keeping.poll() is None, "it ended before a file of it was seen"
            assert time.monotonic() < until
        node.lab.cut()
        keeping.communicate(timeout=120)
    assert keeping.returncode != 0
    node.again()
    assert node.there(paths) == []
    assert node.do("sysctl", "-n", "vm.swappiness").strip() == "60"
    said = verify(node, "cut")
    assert said.returncode != 0
    assert "cut" in said.stdout + said.stderr


@pytest.mark.timeout(1800)
def test_what_was_kept_is_in_force_after_a_power_cut(node: Node, tmp_path: Path) -> None:
    _, paths = kept(node, "stays", tmp_path / "stays.toml")
    done = node.lab.said("keep", str(tmp_path / "stays.toml"), "apply", "--on", node.way)
    assert done.returncode == 0, done.stderr
    node.lab.cut()
    node.again()
    assert sorted(node.there(paths)) == sorted(paths)
    said = verify(node, "stays")
    assert said.returncode == 0, said.stdout + said.stderr
    disk = node.disk("a")  # which may have had another name before the boot
    assert "[bfq]" in node.do("cat", f"/sys/block/{disk}/queue/scheduler")
    undone = node.lab.said("keep", "stays", "undo", "--on", node.way)
    assert undone.returncode == 0, undone.stderr
    assert node.there(paths) == []
    assert "[bfq]" not in node.do("cat", f"/sys/block/{disk}/queue/scheduler")
