"""stress: data that is compared while what it lies on is broken and mended, and what file systems
promise, by one host and by several."""

from iotrial.checks import suite_of

SUITE = suite_of(
    __name__,
    "stress: data is compared while disks and paths fail, and file systems lose nothing",
    ("fio", "mdadm", "mkfs.ext4", "mkfs.xfs", "mkfs.ocfs2"),
)
