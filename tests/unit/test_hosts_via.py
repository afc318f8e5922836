"""What the connectors execute, and what they take for the name of a host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotrial.errors import RefusedError
from iotrial.hosts.container import INITIAL, ShellNamespaces, outside
from iotrial.hosts.via import connector, need_chosen
from iotrial.hosts.via import docker as docker_via
from iotrial.hosts.via import kubectl as kubectl_via
from iotrial.hosts.via import nsenter as nsenter_via
from iotrial.hosts.via import podman as podman_via
from iotrial.hosts.via import sudo as sudo_via


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("box", ["podman", "exec", "-i", "box"]),
        ("root@box", ["podman", "exec", "-i", "--user", "root", "box"]),
        ("1000:1000@box-1.a", ["podman", "exec", "-i", "--user", "1000:1000", "box-1.a"]),
    ],
)
def test_a_container_is_named_with_or_without_a_user(to: str, words: list[str]) -> None:
    assert podman_via.words("podman", to) == words
    assert podman_via.check(to) == docker_via.check(to) == ""


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("db-0", ["kubectl", "exec", "--stdin", "--quiet", "db-0", "--"]),
        ("prod/db-0", ["kubectl", "exec", "--stdin", "--quiet", "--namespace", "prod", "db-0",
                       "--"]),
        ("prod/db-0/disk", ["kubectl", "exec", "--stdin", "--quiet", "--namespace", "prod", "db-0",
                            "--container", "disk", "--"]),
    ],
)  # fmt: skip
def test_a_pod_is_named_with_its_namespace_and_container(to: str, words: list[str]) -> None:
    assert kubectl_via.words(to) == words
    assert kubectl_via.check(to) == ""


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("podman", ""),
        ("podman", "--privileged"),
        ("podman", "box; reboot"),
        ("podman", "-u@box"),
        ("docker", "box box"),
        ("kubectl", "-n"),
        ("kubectl", "a/b/c/d"),
        ("kubectl", "Db"),
        ("nsenter", "0x1"),
        ("nsenter", "--all"),
        ("nsenter", "²"),
        ("sudo", "-s"),
        ("sudo", "root;id"),
        ("shell", ""),
        ("shell", "podman 'exec"),
    ],
)
def test_what_is_no_name_of_a_host_is_said(name: str, to: str) -> None:
    assert connector(name).check(to)


def test_a_process_that_is_gone_is_entered_by_name_and_nsenter_says_so() -> None:
    assert nsenter_via.words("999999999")[:3] == ["nsenter", "--target", "999999999"]
    assert "--pid" not in nsenter_via.words("self")


def test_sudo_never_asks_for_a_password() -> None:
    assert sudo_via.words("") == ["sudo", "-n", "--"]
    assert sudo_via.words("db") == ["sudo", "-n", "-u", "db", "--"]


def test_a_command_that_another_person_wrote_is_not_executed() -> None:
    need_chosen(["", "podman://box", "sudo://"], "the profile p", "")
    message = "the profile p would execute a command on this host: rm -rf /"
    with pytest.raises(RefusedError, match=re.escape(message)):
        need_chosen(["podman://box", "shell://rm -rf /"], "the profile p", "--on HOST")


def test_a_container_of_another_kernel_is_not_looked_for_here() -> None:
    """Its namespaces may have the numbers of some that are here."""
    here = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "mnt")}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert not ShellNamespaces(**here, boot=boot).apart
    assert outside(ShellNamespaces(**here, boot=boot)).why == ""
    if here["pid"] != INITIAL:
        assert ShellNamespaces(**here, boot="another").apart
    apart = ShellNamespaces("pid:[1]", here["mnt"], "another")
    assert "run iotrial" in outside(apart).why
    assert not outside(apart).descriptors
    assert not ShellNamespaces(INITIAL, here["mnt"], "another").apart
    assert not ShellNamespaces().apart
