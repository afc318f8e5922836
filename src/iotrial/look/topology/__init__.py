"""What lies between a target and the metal.  Only reads, a few round trips for everything.

``blocks`` follows a block device down to its disks, ``adapters`` what these hang on, ``network``
the interfaces towards a server, ``functions`` PCI and interrupts; all of them decide purely over
``seen``, which reads what they asked for, a level at a time.  ``drawing`` says it in words.
"""

from __future__ import annotations

from iotrial.look.topology.drawing import warnings, words
from iotrial.look.topology.tree import devices_here, topologies, topology

__all__ = ["devices_here", "topologies", "topology", "warnings", "words"]
