"""Labs of several nodes are up when a first command can be given, and leave nothing.

Each is brought up once, looked at, one thing is done on it that is what it is for, and taken down.
"""

from __future__ import annotations

import pytest

from nodes import VirtualLab, up

pytestmark = [pytest.mark.vm, pytest.mark.timeout(2400)]


@pytest.mark.parametrize("nodes", [2, 3])
def test_nodes_of_a_cluster_have_met_and_share_an_array(
    virtual_lab: VirtualLab, nodes: int
) -> None:
    with up(virtual_lab, "cluster", nodes) as lab:
        members = "$(ls /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_[AB]-*)"
        assert lab.do(1, "dlm_tool status").count(" M ") == nodes
        lab.do(1, f"mdadm -C /dev/md0 -R -l1 -n2 -e1.2 -b clustered --nodes={nodes} {members}")
        lab.do(1, "echo one | dd of=/dev/md0 bs=512 count=1 conv=sync oflag=direct status=none")
        for number in range(2, nodes + 1):
            lab.do(number, f"mdadm -A /dev/md0 {members}")
            seen = lab.do(number, "dd if=/dev/md0 bs=512 count=1 iflag=direct status=none")
            assert seen.startswith("one\n")
        for number in range(nodes, 0, -1):
            lab.do(number, "mdadm --stop /dev/md0")
        lab.do(1, "vgcreate -q --shared lab $(ls /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_C-*)")
        lab.do(2, "vgchange -q --lockstart lab && lvcreate -q -an -L 16M -n shared lab")
        assert "shared" in lab.do(1, "lvs --noheadings -o lv_name lab")


def test_an_initiator_has_two_paths_and_loses_one_with_its_link(virtual_lab: VirtualLab) -> None:
    with up(virtual_lab, "san", 2) as lab:
        assert lab.do(2, "multipath -ll mpatha").count("active ready running") == 2
        read = "dd if=/dev/mapper/mpatha of=/dev/null bs=64k count=16 iflag=direct status=none"
        lab.do(2, read)
        virtual_lab.vmlab("link", f"{lab.name}-1", "down", "--of", "lab2")
        lost = "until multipath -ll mpatha | grep -q 'failed faulty'; do sleep 1; done"
        lab.do(2, f"{read}; {lost}; {read}")
        virtual_lab.vmlab("link", f"{lab.name}-1", "up", "--of", "lab2")
        lab.do(
            2, f"until ! multipath -ll mpatha | grep -q 'failed faulty'; do sleep 1; done; {read}"
        )


def test_a_client_mounts_what_the_server_exports(virtual_lab: VirtualLab) -> None:
    with up(virtual_lab, "nas", 2) as lab:
        for version in ("3", "4.2"):
            mount = f"mount -t nfs -o vers={version} {lab.name}-1:/srv/export /mnt"
            lab.do(2, f"{mount}; echo by {version} >/mnt/file; umount /mnt")
            assert lab.do(1, "cat /srv/export/file") == f"by {version}\n"
        virtual_lab.vmlab("cut", f"{lab.name}-1")
        virtual_lab.vmlab("up", "nas", "--name", lab.name)
        assert lab.do(2, f"{mount}; cat /mnt/file; umount /mnt") == "by 4.2\n"


def test_a_host_has_two_paths_to_one_namespace_and_loses_one_with_its_link(
    virtual_lab: VirtualLab,
) -> None:
    with up(virtual_lab, "fabrics", 2) as lab:
        assert lab.do(2, "ls -d /sys/block/nvme*c*n1").count("\n") == 2
        disk = "$(ls -d /dev/nvme*n1)"
        read = f"dd if={disk} of=/dev/null bs=64k count=16 iflag=direct status=none"
        lab.do(2, read)
        virtual_lab.vmlab("link", f"{lab.name}-1", "down", "--of", "lab2")
        lab.do(2, "until grep -qsx connecting /sys/class/nvme/nvme*/state; do sleep 1; done")
        lab.do(2, read)
        virtual_lab.vmlab("link", f"{lab.name}-1", "up", "--of", "lab2")
        both = "[ $(grep -lsx live /sys/class/nvme/nvme*/state | wc -l) -eq 2 ]"
        lab.do(2, f"until {both}; do sleep 1; done; {read}")
