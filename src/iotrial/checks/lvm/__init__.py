"""LVM: mirrors, RAID1 and snapshots, made, broken and mended."""

from iotrial.checks import suite_of

SUITE = suite_of(
    __name__, "LVM: mirrors, RAID1 and snapshots are made, broken and mended", ("lvm",)
)
