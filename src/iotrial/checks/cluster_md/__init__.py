"""cluster-md: arrays that several hosts of a cluster have at the same time, on shared disks.

The cases are those of a published functional test of 2015 (SLES 12 SP1, three virtual machines),
with what it only asserted looked at.
"""

from iotrial.checks import suite_of

SUITE = suite_of(
    __name__,
    "cluster-md: arrays that several hosts have at once are made, broken and mended",
    ("mdadm",),
)
