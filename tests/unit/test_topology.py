"""Topology: what lies between a target and the metal, on storage that is written down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from iotrial.cli.main import status
from iotrial.look.topology import actions, devices_here, function_of, ranges, topologies
from iotrial.look.topology import topology as sight
from iotrial.look.topology_words import warnings, words
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import Probe, Step, StepResult
from iotrial.model.target import PreparedTarget, Topology, TopologyNode
from topologies import (
    HBA,
    VIRTUAL,
    Storage,
    aim,
    card,
    fibre_channel,
    iscsi,
    machine,
    mounted,
    nvme,
)

ALL_CPUS = ("cpu0", "cpu1", "cpu2", "cpu3")


@pytest.fixture
def host() -> Storage:
    return machine()


def topology(host: Storage, at: PreparedTarget) -> Topology:
    found = sight(cast("Host", host), at)
    named = {(node.scope, node.name) for node in found.nodes}
    assert len(named) == len(found.nodes), "each node once"
    assert {key for node in found.nodes for key in node.below} <= named, "what is below is there"
    return found


def node(found: Topology, name: str) -> TopologyNode:
    """The node of this name; of a device and a disk that share one, the disk."""
    return [each for each in found.nodes if each.name == name and each.scope != "bdi"][-1]


def about(found: Topology, name: str) -> dict[str, str]:
    return dict(node(found, name).about)


# Fibre Channel.


def test_a_map_leads_to_paths_ports_hosts_and_interrupts(host: Storage) -> None:
    found = topology(host, aim(fibre_channel(host)))
    assert found.names("host") == ("",)
    assert found.names("device") == ("dm-3",)
    assert found.names("map") == ("mpatha",)
    assert found.names("disk") == ("sdb", "sdc", "sdd", "sde")
    assert found.names("scsi-host") == ("host3", "host4")
    assert found.names("remote-port") == (
        "rport-3:0-0",
        "rport-3:0-1",
        "rport-4:0-0",
        "rport-4:0-1",
    )
    assert found.names("irq") == tuple(str(number) for number in range(45, 77))
    assert found.names("cpu") == ALL_CPUS
    assert found.names("cgroup") == found.names("bdi") == ("253:3",)
    for none in ("nvme", "iscsi-session", "array", "volume", "mount", "nic", "rx", "tx"):
        assert found.names(none) == ()


def test_a_host_adapter_says_where_it_is(host: Storage) -> None:
    found = topology(host, aim(fibre_channel(host)))
    assert about(found, "host3") == {
        "state": "Online",
        "transport": "fc",
        "speed": "16 Gbit",
        "driver": "qla2xxx",
        "pci": "0000:81:00.0",
        "port": "0000:80:02.0",
        "link": "8 GT/s x8",
        "numa": "1",
        "irqs": "45-60",
    }
    assert about(found, "46") == {"of": "qla2xxx-1"}
    assert about(found, "rport-3:0-1")["wwpn"] == "0x5001738001a231"
    assert about(found, "sdb")["transport"] == "fc"


def test_a_map_in_words(host: Storage) -> None:
    found = topology(host, aim(fibre_channel(host)))
    assert words(found) == (
        "multipath map mpatha = dm-3",
        "  paths sdb, sdc: SV1, host3, fc 16 Gbit, qla2xxx, 0000:81:00.0, NUMA 1, IRQs 45-60",
        "  paths sdd, sde: SV1, host4, fc 16 Gbit, qla2xxx, 0000:82:00.0, NUMA 1, IRQs 61-76",
        "CPUs 0-3",
    )
    assert warnings(found) == ()


def test_a_slot_has_its_number(host: Storage) -> None:
    host.add("/sys/bus/pci/slots/3/address", "0000:81:00")
    found = topology(host, aim(fibre_channel(host)))
    assert about(found, "host3")["slot"] == "3"
    assert "slot" not in about(found, "host4")
    assert "0000:81:00.0 in slot 3" in words(found)[1]


def test_a_path_that_is_not_running_is_named(host: Storage) -> None:
    device = fibre_channel(host)
    host.add(f"{host.links['/sys/class/block/sdc']}/device/state", "transport-offline")
    found = topology(host, aim(device))
    assert "path sdc (transport-offline): SV1, host3" in words(found)[2]
    assert warnings(found) == ("disk sdc is transport-offline",)


def test_a_remote_port_that_is_gone_is_named(host: Storage) -> None:
    device = fibre_channel(host)
    host.add("/sys/class/fc_remote_ports/rport-4:0-1/port_state", "Blocked")
    assert warnings(topology(host, aim(device))) == ("remote-port rport-4:0-1 is blocked",)


def test_paths_that_share_one_adapter_are_no_redundancy(host: Storage) -> None:
    fibre_channel(host)
    device = host.mapped(9, "mpathz", "mpath-36002", "sdb", "sdc")
    assert warnings(topology(host, aim(device))) == ("all 2 paths of mpathz go through host3 only",)


def test_two_ports_of_one_card_are_one_card(host: Storage) -> None:
    for number in (0, 1):
        place = host.function(f"{HBA}/0000:81:00.{number}", "lpfc", (50 + number,), numa_node="0")
        host.scsi(
            f"{place}/host{number}/rport-{number}:0-0", f"{number}:0:0:1", f"sd{number}", "8:9"
        )
    found = topology(host, aim(host.mapped(1, "m", "mpath-3", "sd0", "sd1")))
    assert warnings(found) == ("all 2 paths of m go through one card (host0, host1)",)


def test_a_map_with_one_path_is_said_to_have_one(host: Storage) -> None:
    fibre_channel(host)
    device = host.mapped(9, "mpathz", "mpath-36002", "sdb")
    assert warnings(topology(host, aim(device))) == ("mpathz has one path only: sdb",)


def test_adapters_far_from_each_other_are_named(host: Storage) -> None:
    device = fibre_channel(host)
    host.add(f"{HBA}/0000:82:00.0/numa_node", "0")
    (line,) = warnings(topology(host, aim(device)))
    assert line.endswith("different NUMA nodes: host3 on 1, host4 on 0")


def test_many_paths_that_are_alike_are_one_line(host: Storage) -> None:
    place = host.function(f"{HBA}/0000:81:00.0", "qla2xxx", (45,), numa_node="-1")
    legs = [host.scsi(f"{place}/host3", f"3:0:0:{n}", f"sda{n:02}", f"65:{n}") for n in range(32)]
    found = topology(host, aim(host.mapped(1, "m", "mpath-3", *legs)))
    assert words(found)[1].startswith("  32 paths sda00 … sda31: SV1, host3, ")
    assert "NUMA" not in words(found)[1]  # -1: the machine has no such nodes


def test_a_virtual_port_is_followed_to_the_host_of_its_own(host: Storage) -> None:
    place = host.function(f"{HBA}/0000:81:00.0", "lpfc", (45,))
    host.scsi(f"{place}/host3/vport-3:0-0/host7/rport-7:0-0", "7:0:0:1", "sdb", "8:16")
    assert topology(host, aim("sdb")).names("scsi-host") == ("host7",)


# iSCSI.


def test_sessions_lead_to_the_interfaces_of_their_portals(host: Storage) -> None:
    found = topology(host, aim(iscsi(host, shared=False)))
    assert found.names("disk") == ("sdf", "sdg")
    assert found.names("iscsi-session") == ("session1", "session2")
    assert found.names("scsi-host") == ("host5", "host6")
    assert found.names("nic") == ("eth0", "eth1")
    assert found.names("rx") == (
        "eth0/queues/rx-0",
        "eth0/queues/rx-1",
        "eth1/queues/rx-0",
        "eth1/queues/rx-1",
    )
    assert found.names("tx")[-1] == "eth1/queues/tx-1"
    assert found.names("irq") == ("70", "71", "72", "74", "75", "76")
    assert about(found, "session2") == {
        "state": "LOGGED_IN",
        "portal": "10.0.2.9",
        "target": "iqn.2026-11.example:a",
    }
    assert about(found, "host5")["driver"] == "iscsi_tcp"
    assert warnings(found) == ()
    assert words(found) == (
        "multipath map mpathb = dm-4",
        "  path sdf: SV1, session1, portal 10.0.1.9, host5, iscsi, iscsi_tcp",
        "  path sdg: SV1, session2, portal 10.0.2.9, host6, iscsi, iscsi_tcp",
        (
            "    interface eth0: 10 Gbit/s, ixgbe, 0000:01:00.0, NUMA 0, IRQs 70-72,"
            " 2 receive, 2 transmit queues"
        ),
        (
            "    interface eth1: 10 Gbit/s, ixgbe, 0000:02:00.0, NUMA 0, IRQs 74-76,"
            " 2 receive, 2 transmit queues"
        ),
        "CPUs 0-3",
    )


def test_sessions_through_one_interface_are_no_redundancy(host: Storage) -> None:
    found = topology(host, aim(iscsi(host, shared=True)))
    assert found.names("nic") == ("eth0",)
    assert warnings(found) == ("all 2 paths of mpathb go through eth0 only",)


def test_a_session_bound_to_an_interface_goes_through_that(host: Storage) -> None:
    device = iscsi(host, shared=True)
    host.add("/sys/class/iscsi_host/host6/netdev", "eth1")
    assert topology(host, aim(device)).names("nic") == ("eth0", "eth1")


# md, LVM, crypt.


def test_an_array_leads_to_its_members_and_their_controllers(host: Storage) -> None:
    nvme(host, 0)
    nvme(host, 1, width="2")
    host.stacked("md127", "9:127", "nvme0n1", "nvme1n1", md__level="raid1", md__degraded="0")
    found = topology(host, aim("md127"))
    assert found.names("array") == ("md127",)
    assert found.names("disk") == ("nvme0n1", "nvme1n1")
    assert found.names("nvme") == ("nvme0", "nvme1")
    assert found.names("scsi-host") == ()
    assert about(found, "nvme0")["transport"] == "nvme-pcie"
    assert about(found, "nvme0n1")["queues"] == "4"
    assert words(found) == (
        "raid1 md127",
        (
            "  member nvme0n1: nvme0, nvme-pcie, SSD X1, nvme, 0000:18:00.0, NUMA 0, IRQs 100-104,"
            " 4 queues"
        ),
        (
            "  member nvme1n1: nvme1, nvme-pcie, SSD X1, nvme, 0000:19:00.0,"
            " link 16 GT/s x2 of 16 GT/s x4, NUMA 0, IRQs 108-112, 4 queues"
        ),
        "CPUs 0-3",
    )
    assert warnings(found) == (
        "the PCI link of nvme1 (0000:19:00.0) runs at 16 GT/s x2, its maximum is 16 GT/s x4",
    )


def test_an_array_of_partitions_leads_to_the_disks(host: Storage) -> None:
    for number in (0, 1):
        name = nvme(host, number)
        host.block(f"{host.links[f'/sys/class/block/{name}']}/{name}p2", f"259:1{number}")
    host.stacked("md0", "9:0", "nvme0n1p2", "nvme1n1p2", md__level="raid1", md__degraded="1")
    found = topology(host, aim("md0"))
    assert found.names("disk") == ("nvme0n1", "nvme1n1")
    assert warnings(found) == ("array md0 is degraded by 1",)


def test_a_volume_on_a_map_has_all_layers(host: Storage) -> None:
    host.mapped(5, "vg--a-lv--b", "LVM-" + "a" * 64, fibre_channel(host))
    mounted(host, "30 22 253:5 / /data rw,relatime - xfs /dev/mapper/vg--a-lv--b rw")
    found = topology(host, aim("dm-5", "directory", "/data/bench"))
    assert found.names("mount") == ("/data",)
    assert found.names("volume") == ("vg-a/lv-b",)
    assert found.names("map") == ("mpatha",)
    assert found.names("device") == ("dm-5",)
    assert found.names("bdi") == ("253:5",)
    assert len(found.names("disk")) == 4
    assert [line.split(":")[0] for line in words(found)] == [
        "/data",
        "  logical volume vg-a/lv-b = dm-5",
        "    multipath map mpatha = dm-3",
        "      paths sdb, sdc",
        "      paths sdd, sde",
        "CPUs 0-3",
    ]


def test_parts_of_a_volume_are_not_volumes_of_their_own(host: Storage) -> None:
    for number in (0, 1):
        nvme(host, number)
        host.mapped(
            number, f"vg-lv_rimage_{number}", f"LVM-{'g' * 32}{'x' * 32}", f"nvme{number}n1"
        )
    found = topology(
        host, aim(host.mapped(7, "vg-lv", f"LVM-{'g' * 32}{'y' * 32}", "dm-0", "dm-1"))
    )
    assert found.names("volume") == ("vg/lv",)
    assert found.names("disk") == ("nvme0n1", "nvme1n1")


def test_a_layer_without_settings_is_seen_through_and_named(host: Storage) -> None:
    nvme(host, 0)
    found = topology(host, aim(host.mapped(0, "slow", "DELAY-77-slow", "nvme0n1")))
    assert found.names("disk") == ("nvme0n1",)
    assert about(found, "dm-0")["through"] == "delay slow = dm-0"
    assert words(found)[0] == "delay slow = dm-0"
    assert words(found)[1].startswith("  disk nvme0n1: nvme0, ")


def test_a_crypt_device_is_found_by_the_name_of_its_mapping(host: Storage) -> None:
    nvme(host, 0)
    secret = host.mapped(0, "secret", "CRYPT-LUKS2-77-secret", "nvme0n1")
    found = topology(host, aim(host.mapped(1, "vg-lv", f"LVM-{'g' * 32}{'x' * 32}", secret)))
    assert found.names("crypt") == ("secret",)
    assert found.names("volume") == ("vg/lv",)
    assert found.names("disk") == ("nvme0n1",)
    assert words(found)[1].strip() == "crypt device secret = dm-0"


def test_a_partition_of_a_map_is_seen_through_to_the_map(host: Storage) -> None:
    host.mapped(8, "mpatha1", "part1-mpath-3600173800a2", fibre_channel(host))
    found = topology(host, aim("dm-8"))
    assert found.names("map") == ("mpatha",)
    assert len(found.names("disk")) == 4


# NVMe's own multipathing.


def native(host: Storage) -> str:
    for number in (0, 1):
        place = host.function(f"{HBA}/0000:9{number}:00.0", "nvme", (200 + number,), numa_node="0")
        controller = f"{place}/nvme/nvme{number + 2}"
        host.add(f"{controller}/state", "live")
        host.add(f"{controller}/transport", "pcie")
        host.block(f"{controller}/nvme5c{number + 2}n1", "", ana_state="optimized")
        host.add(f"{controller}/nvme5c{number + 2}n1/hidden", "1")
    return host.block("/sys/devices/virtual/nvme-subsystem/nvme-subsys5/nvme5n1", "259:7")


def test_a_namespace_with_two_controllers_leads_to_both(host: Storage) -> None:
    nvme(host, 0)  # of another subsystem
    found = topology(host, aim(native(host)))
    assert found.names("device") == ("nvme5n1",)
    assert found.names("disk") == ("nvme5c2n1", "nvme5c3n1")
    assert found.names("nvme") == ("nvme2", "nvme3")
    assert found.names("cgroup") == ("259:7",)
    assert words(found)[:2] == (
        "disk nvme5n1",
        "  path nvme5c2n1: nvme2, nvme-pcie, nvme, 0000:90:00.0, NUMA 0, IRQ 200",
    )
    assert warnings(found) == ()


def test_a_local_disk_whose_second_port_is_not_wired_is_nothing_odd(host: Storage) -> None:
    # As a Dell server lists it: nvme10n1 with one hidden path nvme10c65n1 below nvme6.
    place = host.function(f"{HBA}/0000:b7:00.0", "nvme", (300,))
    host.block(f"{place}/nvme/nvme6/nvme10c65n1", "")
    host.block("/sys/devices/virtual/nvme-subsystem/nvme-subsys10/nvme10n1", "259:9")
    found = topology(host, aim("nvme10n1"))
    assert found.names("disk") == ("nvme10c65n1",)
    assert found.names("nvme") == ("nvme6",)
    assert warnings(found) == ()


def test_a_controller_over_tcp_leads_to_its_interface(host: Storage) -> None:
    controller = "/sys/devices/virtual/nvme-fabrics/ctl/nvme1"
    host.add(f"{controller}/transport", "tcp")
    host.add(f"{controller}/address", "traddr=10.0.1.9,trsvcid=4420,src_addr=10.0.1.2")
    host.block(f"{controller}/nvme1n1", "259:3")
    card(host, 1)
    host.route("10.0.1.9", "eth1")
    found = topology(host, aim("nvme1n1"))
    assert found.names("nic") == ("eth1",)
    assert found.names("nvme") == ("nvme1",)
    assert about(found, "nvme1")["transport"] == "nvme-tcp"


# virtio, loop.


def virtio(host: Storage) -> str:
    place = host.function("/sys/devices/pci0000:00/0000:00:02.0", "virtio-pci", (35, 36))
    host.block(f"{place}/virtio1/block/vda", "254:0")
    return host.block(f"{place}/virtio1/block/vda/vda1", "254:1")


def test_a_file_system_on_a_partition_leads_to_the_disk(host: Storage) -> None:
    virtio(host)
    mounted(host, "31 22 254:1 / /srv rw - ext4 /dev/vda1 rw")
    found = topology(host, aim("vda", "file", "/srv/bench.dat"))
    assert found.names("mount") == ("/srv",)
    assert found.names("device") == found.names("disk") == ("vda",)
    # The backing device is that of the whole disk: a partition has none.
    assert found.names("bdi") == found.names("cgroup") == ("254:0",)
    assert found.names("irq") == ("35", "36")
    assert words(found) == (
        "/srv: ext4 from /dev/vda1",
        "  disk vda: virtio-pci, 0000:00:02.0, IRQs 35-36",
        "CPUs 0-3",
    )


def test_a_plain_disk_needs_few_round_trips(host: Storage) -> None:
    virtio(host)
    topology(host, aim("vda"))
    assert host.rounds <= 3


def test_many_targets_need_no_more_round_trips_than_one(host: Storage) -> None:
    virtio(host)
    first, second = fibre_channel(host), iscsi(host, shared=False)
    found = topologies(cast("Host", host), [aim("vda"), aim(first), aim(second)])
    assert [each.names("device") for each in found] == [("vda",), ("dm-3",), ("dm-4",)]
    assert host.rounds <= 6


def test_virtio_without_pci_is_found_by_the_name_of_its_interrupt(host: Storage) -> None:
    host.block("/sys/devices/platform/a003e00.virtio_mmio/virtio0/block/vda", "254:0")
    host.interrupt(46, "virtio0", chip="GICv3  78 Edge")
    host.interrupt(47, "virtio01", chip="GICv3  79 Edge")
    found = topology(host, aim("vda"))
    assert found.names("irq") == ("46",)
    assert about(found, "46") == {"of": "virtio0"}


def test_a_loop_device_is_its_own_disk_and_its_file_is_only_named(host: Storage) -> None:
    host.block(f"{VIRTUAL}/loop3", "7:3", loop__backing_file="/srv/disk.img")
    found = topology(host, aim("loop3"))
    assert found.names("disk") == ("loop3",)
    assert found.names("irq") == ()
    assert words(found) == ("disk loop3", "  in the file /srv/disk.img", "CPUs 0-3")


def test_a_device_that_somebody_mounted_says_where(host: Storage) -> None:
    virtio(host)
    mounted(host, "31 22 254:1 / /srv rw - ext4 /dev/vda1 rw")
    mounted(host, "32 22 254:1 /a /also rw - ext4 /dev/vda1 rw")
    assert topology(host, aim("vda")).names("mount") == ("/", "/srv")


def test_usb_and_sas_and_sata_say_how_they_are_attached(host: Storage) -> None:
    places = {
        "ata": f"{HBA}/0000:81:00.0/ata1/host0",
        "sas": f"{HBA}/0000:82:00.0/host1/port-1:0/end_device-1:0",
        "usb": f"{HBA}/0000:83:00.0/usb1/1-2/1-2:1.0/host2",
    }
    for number, (how, place) in enumerate(places.items()):
        name = host.scsi(place, f"{number}:0:0:0", f"sd{number}", f"8:{number}")
        found = topology(host, aim(name))
        assert about(found, name)["transport"] == how
        assert found.names("scsi-host") == (f"host{number}",)


# Network file systems.


def bonded_nfs(host: Storage) -> PreparedTarget:
    for number in (0, 1):
        card(host, number)
    host.nic("bond0", "/sys/devices/virtual/net/bond0", 16, speed="20000")
    for number in (0, 1):
        host.links[f"/sys/devices/virtual/net/bond0/lower_eth{number}"] = "/sys/x"
    host.nic("bond0.7", "/sys/devices/virtual/net/bond0.7", 1, speed="20000")
    host.links["/sys/devices/virtual/net/bond0.7/lower_bond0"] = "/sys/x"
    host.route("10.0.7.9", "bond0.7")
    options = "rw,vers=4.2,proto=tcp,nconnect=4,clientaddr=10.0.7.2,addr=10.0.7.9"
    mounted(host, rf"40 22 0:52 / /mnt/my\040nfs rw,relatime - nfs4 filer:/vol {options}")
    host.add("/sys/class/bdi/0:52/read_ahead_kb", "128")
    return aim("", "directory", "/mnt/my nfs/bench")


def test_a_network_mount_leads_over_vlan_and_bond_to_the_cards(host: Storage) -> None:
    found = topology(host, bonded_nfs(host))
    assert found.names("mount") == ("/mnt/my nfs",)
    assert found.names("bdi") == ("0:52",)
    assert found.names("nic") == ("bond0.7", "bond0", "eth0", "eth1")
    # Queues of what really sends: a bond's are only a number.
    assert found.names("tx") == (
        "eth0/queues/tx-0",
        "eth0/queues/tx-1",
        "eth1/queues/tx-0",
        "eth1/queues/tx-1",
    )
    assert found.names("irq") == ("70", "71", "72", "74", "75", "76")
    for none in ("device", "disk", "cgroup", "scsi-host"):
        assert found.names(none) == ()
    assert words(found) == (
        "/mnt/my nfs: nfs4 from filer:/vol",
        "  interface bond0.7: 20 Gbit/s",
        "    interface bond0: 20 Gbit/s",
        (
            "      interface eth0: 10 Gbit/s, ixgbe, 0000:01:00.0, NUMA 0, IRQs 70-72,"
            " 2 receive, 2 transmit queues"
        ),
        (
            "      interface eth1: 10 Gbit/s, ixgbe, 0000:02:00.0, NUMA 0, IRQs 74-76,"
            " 2 receive, 2 transmit queues"
        ),
        "CPUs 0-3",
    )


def test_a_member_of_a_bond_without_link_is_named(host: Storage) -> None:
    at = bonded_nfs(host)
    host.add(f"{host.links['/sys/class/net/eth1']}/operstate", "down")
    assert warnings(topology(host, at)) == ("nic eth1 is down",)


def test_a_server_address_that_is_none_is_never_given_to_a_command(host: Storage) -> None:
    mounted(host, "40 22 0:52 / /mnt rw - nfs4 filer:/vol rw,addr=-batch")
    found = topology(host, aim("", "directory", "/mnt"))
    assert found.names("nic") == ()
    assert found.names("bdi") == ()  # not listed below /sys/class/bdi


def test_btrfs_has_a_backing_device_of_its_own(host: Storage) -> None:
    virtio(host)
    mounted(host, "41 22 0:44 /sub /b rw - btrfs /dev/vda1 rw,subvol=/sub")
    host.links["/sys/fs/btrfs/0a1b/devices/vda1"] = "/sys/devices/x/vda1"
    host.links["/sys/fs/btrfs/0a1b/bdi"] = "/sys/devices/virtual/bdi/btrfs-1"
    found = topology(host, aim("vda", "directory", "/b"))
    assert node(found, "/b").below[0] == ("bdi", "btrfs-1")


# What is missing.


def test_a_machine_that_shows_nothing_still_has_the_disk_that_was_named() -> None:
    found = topology(Storage(), aim("sdq"))
    assert found.nodes == Topology.of_disk("sdq").nodes
    assert words(found) == ("disk sdq",)
    assert topology(Storage(), aim("")).nodes == ()
    assert words(Topology()) == warnings(Topology()) == ()


@pytest.mark.parametrize("ending", ["uevent", "irq", "numa_node", "proc_name", "slaves/sdb", "dev"])
def test_whatever_is_missing_the_rest_is_told(host: Storage, ending: str) -> None:
    device = fibre_channel(host)
    host.files = {path: c for path, c in host.files.items() if not path.endswith(ending)}
    host.links = {path: c for path, c in host.links.items() if not path.endswith(ending)}
    found = topology(host, aim(device))
    assert {"sdc", "sdd", "sde"} <= set(found.names("disk"))
    assert words(found)[0] == "multipath map mpatha = dm-3"


def test_a_ring_of_devices_ends(host: Storage) -> None:
    host.mapped(0, "a", "")
    host.mapped(1, "b", "", "dm-0")
    host.links[f"{VIRTUAL}/dm-0/slaves/dm-1"] = f"{VIRTUAL}/dm-1"
    assert topology(host, aim("dm-0")).names("device") == ("dm-0",)


def test_the_devices_here_are_those_that_are_no_part_of_another(host: Storage) -> None:
    virtio(host)
    fibre_channel(host)
    native(host)
    host.block(f"{VIRTUAL}/loop0", "7:0")
    host.add(f"{VIRTUAL}/loop0/size", "0")
    found = devices_here(cast("Host", host))
    assert [each.names("device") for each in found] == [("vda",), ("dm-3",), ("nvme5n1",)]


def test_a_machine_with_thousands_of_paths_is_seen_in_few_rounds() -> None:
    host = Crowd(1000)
    found = topology(cast("Storage", host), aim("dm-7"))
    assert found.names("disk") == ("sd28", "sd29", "sd30", "sd31")
    assert host.rounds <= 4


class Crowd:
    """1000 maps of four paths on one adapter, answered from tables."""

    name = "crowd"

    def __init__(self, maps: int) -> None:
        place = "../../devices/pci0000:80/0000:80:02.0/host3/rport-3:0-0/target3:0:0"
        disks = [f"sd{n} -> {place}/3:0:0:{n}/block/sd{n}" for n in range(4 * maps)]
        upper = [f"dm-{n} -> ../../devices/virtual/block/dm-{n}" for n in range(maps)]
        legs = [f"{VIRTUAL}/dm-{n // 4}/slaves/sd{n}" for n in range(4 * maps)]
        self.said = {"ls -l /sys/class/block": disks + upper, "find": legs}
        self.rounds = 0

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        self.rounds += 1
        return tuple(StepResult(self._raw(step.probe)) for step in steps)

    def _raw(self, probe: Probe) -> bytes:
        lines = self.said.get(" ".join(probe.argv)) or []
        if probe.argv[:2] == ("find", VIRTUAL):
            lines = self.said["find"]
        if probe.path.endswith("/dm/uuid"):
            lines = [f"mpath-{probe.path}"]
        if probe.path.endswith("/dm/name"):
            lines = [probe.path]
        return "\n".join(lines).encode()


def test_a_device_that_goes_while_they_are_listed_hides_no_other(
    host: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = topology(host, aim(fibre_channel(host)))
    whole, once = host.run, ["not yet"]

    def run(argv: Sequence[str], **how: Any) -> CompletedCommand:  # noqa: ANN401 (as the host's)
        done = whole(argv, **how)
        if tuple(argv) != ("ls", "-l", "/sys/class/block") or not once:
            return done
        once.clear()
        gone = "ls: cannot access '/sys/class/block/loop9': No such file or directory"
        return replace(done, exit=1, stderr=gone.encode())

    monkeypatch.setattr(host, "run", run)
    assert topology(host, aim("dm-3")) == wanted
    assert not once


def test_a_topology_is_json(host: Storage) -> None:
    found = topology(host, aim(fibre_channel(host)))
    said = json.loads(json.dumps(found.as_dict()))
    first = said["nodes"][0]
    assert first == {"scope": "device", "name": "dm-3", "below": [["map", "mpatha"]], "about": {}}
    assert len(said["nodes"]) == len(found.nodes)


def test_a_mount_point_of_any_bytes_can_be_shown_and_is_kept_exactly(host: Storage) -> None:
    line = b"\n41 22 254:9 / /m\xff\\012n rw - xfs /dev/vdb rw"
    host.files["/proc/self/mountinfo"] += line
    host.block(f"{VIRTUAL}/vdb", "254:9")
    found = topology(host, aim("vdb"))
    assert found.names("mount") == ("/m\udcff\nn",)
    assert words(found)[0] == r"/m\udcff\nn: xfs from /dev/vdb"
    assert json.dumps(found.as_dict(), ensure_ascii=False).encode()


def test_a_plan_shows_what_lies_below_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(["init", "file", "study.toml"]) == 0
    assert status(["plan", "study.toml", "--pretend"]) == 0
    assert "\n    /" in capsys.readouterr().out.partition("target ")[2]
    assert status(["plan", "study.toml", "--pretend", "--json"]) == 0
    (below,) = json.loads(capsys.readouterr().out)["topology"].values()
    assert below["nodes"][0]["scope"] == "mount"


def test_cpus_tell_their_node_and_which_thread_of_a_core_they_are(host: Storage) -> None:
    host.block(f"{VIRTUAL}/vdb", "254:9")
    plain = {n.name: n.about for n in topology(host, aim("vdb")).nodes if n.scope == "cpu"}
    assert plain == dict.fromkeys(ALL_CPUS, ())
    host.add("/sys/devices/system/node/has_cpu", "0,2")
    host.add("/sys/devices/system/node/node0/cpulist", "0-1")
    host.add("/sys/devices/system/node/node2/cpulist", "2-3")
    host.add("/sys/devices/system/cpu/smt/active", "1")
    for cpu, core in enumerate(("0-1", "0-1", "2-3", "2-3")):
        host.add(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", core)
    host.rounds = 0
    found = topology(host, aim("vdb"))
    assert {n.name: dict(n.about) for n in found.nodes if n.scope == "cpu"} == {
        "cpu0": {"numa": "0"},
        "cpu1": {"numa": "0", "thread": "2"},
        "cpu2": {"numa": "2"},
        "cpu3": {"numa": "2", "thread": "2"},
    }
    assert host.rounds <= 4
    assert not any("NUMA" in line for line in warnings(found))


# Small things.


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("/sys/devices/pci0000:00/0000:00:02.0/virtio1", "/sys/devices/pci0000:00/0000:00:02.0"),
        (
            "/sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme",
            "/sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0",
        ),
        ("/sys/devices/platform/host5/session1/target5:0:0/5:0:0:1/block/sdc", ""),
        ("/sys/devices/virtual/block/loop0", ""),
    ],
)
def test_the_last_function_on_the_way_serves_the_device(folder: str, place: str) -> None:
    assert function_of(folder) == place


def test_interrupts_are_known_by_who_asked_for_them() -> None:
    table = (
        "           CPU0       CPU1\n"
        " 24:   1   0  IO-APIC   9-fasteoi   acpi, i801_smbus\n"
        " 36:   0   7  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n"
        " 11:   3   3  GICv3  27 Level     arch_timer\n"
        " 12:   0   0  dummy\n"
        "NMI:   0   0  Non-maskable interrupts\n"
    )
    assert actions(table) == {
        "24": "acpi, i801_smbus",
        "36": "virtio1-req.0",
        "11": "arch_timer",
        "12": "",
    }
    assert actions("") == {}


def test_numbers_in_a_row_are_a_range() -> None:
    assert ranges(("3", "1", "2", "9")) == "1-3,9"
    assert ranges(()) == ""
