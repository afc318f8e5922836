"""Nodes that their own boot loader starts, with two kernels: GRUB from a BIOS, systemd-boot from
UEFI.  Their kernels may not be started by kexec, as where Secure Boot is on."""

from __future__ import annotations

from collections.abc import Mapping

from iotrial_vmlab.lab import Lab, LabDisk, LabKind, LabNode, identity, role
from iotrial_vmlab.qemu import kernel_words

_BOOT = LabDisk("boot", "virtio")


def _files(lab: Lab, node: LabNode) -> Mapping[str, str]:
    serial, _ = identity(lab, node, _BOOT)
    return {
        "etc/sysctl.d/iotrial-lab.conf": "kernel.kexec_load_disabled = 1\n",
        **role("loader", loader=LAB.loader_of(node) or "", serial=serial, words=kernel_words()),
    }


LAB = LabKind(
    name="loaders",
    summary="nodes that boot other kernels and command lines by GRUB and by systemd-boot",
    disks=(LabDisk("nvme", "nvme"), _BOOT),
    nodes=2,
    fewest=2,
    kernel="both",
    processors=2,
    loaders=("grub", "systemd-boot"),
    files=_files,
)
