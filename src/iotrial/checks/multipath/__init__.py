"""multipath: paths of a disk are lost and come back, and what is written to it is not hurt.

The map is handed over, by the UUID that device-mapper has for it: ``--devices mpath-WWID``.
"""

from iotrial.checks import suite_of

SUITE = suite_of(__name__, "multipath: paths are lost and come back under load", ("multipath",))
