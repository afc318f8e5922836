"""md: software RAID made and put together again, on small devices."""

TITLE = "md: arrays are made, and put together again"
TOOLS = ("mdadm",)
