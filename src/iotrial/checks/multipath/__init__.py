"""multipath: paths of a disk are lost and come back, and what is written to it is not hurt.

The map is handed over, by the UUID that device-mapper has for it: ``--devices mpath-WWID``.
"""

TITLE = "multipath: paths are lost and come back under load"
TOOLS = ("multipath",)
