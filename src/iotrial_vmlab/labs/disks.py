"""Disks of every bus on one node: schedulers, depths, arrays, and a disk with two paths.

The SCSI disks ``a`` and ``b`` are for arrays; ``two`` is one disk behind two adapters, for
dm-multipath; one of virtio-blk, one of NVMe; scsi_debug's and null_blk's are in the node's memory
and hold nothing (null_blk) or little (scsi_debug).
"""

from __future__ import annotations

from iotrial_vmlab.lab import LabDisk, LabKind

LAB = LabKind(
    name="disks",
    summary="virtio-scsi, virtio-blk, NVMe, scsi_debug, null_blk, and a disk with two paths",
    disks=(
        LabDisk("a", "scsi"),
        LabDisk("b", "scsi"),
        LabDisk("two", "scsi", paths=2),
        LabDisk("virtio", "virtio"),
        LabDisk("nvme", "nvme"),
    ),
    modules=(
        ("bfq", ""),
        ("kyber-iosched", ""),
        ("scsi_debug", "dev_size_mb=16 max_queue=64"),
        ("null_blk", "nr_devices=1 gb=1 hw_queue_depth=64"),
    ),
)
