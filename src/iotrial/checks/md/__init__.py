"""md: software RAID made, broken, mended and taken apart, on small devices."""

from iotrial.checks import suite_of

SUITE = suite_of(__name__, "md: arrays are made, broken, mended and taken apart", ("mdadm",))
