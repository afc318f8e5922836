"""md: software RAID made, broken, mended and taken apart, on small devices."""

TITLE = "md: arrays are made, broken, mended and taken apart"
TOOLS = ("mdadm",)
