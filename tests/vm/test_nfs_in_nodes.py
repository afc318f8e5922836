"""Knobs of NFS on a real server and a real client: held, seen in force, given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iotrial.hosts.ssh import SSHHost
from nodes import VirtualLab, hold

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

POINT = "/mnt/export"


@pytest.fixture(scope="module")
def nodes(virtual_lab: VirtualLab) -> Iterator[tuple[SSHHost, SSHHost]]:
    """A server, and a client that has its export mounted."""
    rows = virtual_lab.vmlab("up", "nas", "--name", "nas")["nodes"]
    server, client = (SSHHost(row["ssh"], name=row["name"], purpose="tests") for row in rows[:2])
    try:
        for argv in (["mkdir", "-p", POINT], ["mount", f"{server.name}:/srv/export", POINT]):
            done = client.run(argv, timeout=120.0)
            assert done.exit == 0, done.complaint
        yield server, client
    finally:
        client.close()
        server.close()
        virtual_lab.vmlab("down", "nas")


def test_threads_of_the_server_are_held_and_given_back(nodes: tuple[SSHHost, SSHHost]) -> None:
    hold(nodes[0], "nfs.nfsd_threads", "", "5")


@pytest.mark.parametrize(
    ("name", "device", "value"),
    [
        ("nfs.tcp_slot_table_entries", "", "16"),
        ("nfs.tcp_max_slot_table_entries", "", "128"),
        ("nfs.max_session_slots", "", "32"),
        ("nfs.read_ahead_kb", POINT, "512"),
        ("mount.rsize", POINT, "32768"),
        ("mount.nconnect", POINT, "2"),
        ("mount.actimeo", POINT, "1"),
    ],
)
def test_a_knob_of_a_client_is_held_and_given_back(
    nodes: tuple[SSHHost, SSHHost], name: str, device: str, value: str
) -> None:
    hold(nodes[1], name, device, value)
