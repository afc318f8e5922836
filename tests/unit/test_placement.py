"""What each path hangs on, read from trees of /sys; and whether the paths are spread."""

from __future__ import annotations

import pytest

from iotrial.look.topology import topology
from iotrial.look.topology_words import warnings
from iotrial.plan.placement import nics, spread, ways
from topologies import Storage, aim, fibre_channel, iscsi, machine, nvme


@pytest.fixture
def host() -> Storage:
    return machine()


def test_every_path_of_a_map_says_adapter_port_function_and_node(host: Storage) -> None:
    found = topology(host, aim(fibre_channel(host)))
    by_disk = {way.disk: way for way in ways(found)}
    assert list(by_disk) == ["sdb", "sdc", "sdd", "sde"]
    first = by_disk["sdb"]
    assert (first.adapter, first.port, first.numa) == ("host3", "0x5001738001a230", "1")
    assert first.function == "0000:81:00.0"
    assert first.speed == 1.6e9  # 16 Gbit of Fibre Channel
    assert first.words() == "host3, port 0x5001738001a230, PCI 0000:81:00.0, NUMA 1"
    assert spread(found)
    assert warnings(found) == ()


def test_an_iscsi_path_is_placed_by_its_interface(host: Storage) -> None:
    found = topology(host, aim(iscsi(host, shared=False)))
    assert [way.nics for way in ways(found)] == [("eth0",), ("eth1",)]
    assert {way.numa for way in ways(found)} == {"0"}
    assert nics(found) == {"eth0": 1.25e9, "eth1": 1.25e9}


def test_the_link_of_a_local_disk_says_what_it_carries(host: Storage) -> None:
    (way,) = ways(topology(host, aim(nvme(host, 0))))
    assert (way.hub, way.queues) == ("nvme0", 4)
    assert way.speed == pytest.approx(16e9 / 8 * 4 * 128 / 130 * 0.9)
    assert not spread(topology(host, aim("nvme0n1")))


def test_paths_that_are_uneven_over_adapters_are_named(host: Storage) -> None:
    fibre_channel(host)
    host.mapped(9, "mpatha", "mpath-3600173800a3", "sdb", "sdc", "sdd")
    said = warnings(topology(host, aim("dm-9")))
    assert said == (
        "the 3 paths of mpatha are uneven by adapter: 2 through host3, 1 through host4",
    )


def test_only_what_is_meant_to_carry_alike_is_held_against_each_other(host: Storage) -> None:
    disks = [nvme(host, number) for number in (0, 1)]
    for level, even in (("raid0", True), ("raid1", False), ("linear", False)):
        host.stacked(f"md{len(level)}", f"9:{len(level)}", *disks, md__level=level)
        assert spread(topology(host, aim(f"md{len(level)}"))) is even
