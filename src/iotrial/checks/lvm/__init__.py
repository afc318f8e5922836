"""LVM: mirrors, RAID1 and snapshots, made, broken and mended."""

TITLE = "LVM: mirrors, RAID1 and snapshots are made, broken and mended"
TOOLS = ("lvm",)
