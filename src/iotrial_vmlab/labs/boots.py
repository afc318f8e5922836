"""Nodes with two kernels, for what only a boot changes: an NVMe disk, whose driver has parameters,
and a SCSI disk.  Two processors each: with one a driver takes no queue that is polled."""

from __future__ import annotations

from iotrial_vmlab.lab import LabDisk, LabKind

LAB = LabKind(
    name="boots",
    summary="an NVMe and a SCSI disk on nodes that boot another kernel or command line by kexec",
    disks=(LabDisk("nvme", "nvme"), LabDisk("a", "scsi")),
    nodes=2,
    kernel="both",
    processors=2,
)
