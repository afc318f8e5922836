"""Family ``net``: a network interface: flow control, rings, coalescing, offloads, MTU, queueing.

Read and changed with ethtool(8) and tc(8) where sysfs does not show them.  Sources: the manual
pages of ethtool 6.1 and iproute2 6.1, the kernel's Documentation/ABI/testing/sysfs-class-net,
Documentation/networking/{netdev-features,napi}.rst and net/core/dev.c netdev_fix_features().  What
offloads, MTU and the queueing discipline move was measured on a veth of a 6.18 kernel (November
2026); no adapter was at hand, so pause, rings, coalescing and channels follow the manual page and
are declared to move whatever a driver is known to move.

Ranks: 10 MTU; 15 rings, of which some drivers make the queues and their coalescing anew; 20 the
offloads that others need; 30 ``threaded``, which is refused once ``gro`` is off; 32 to 36 the
other offloads, a word that stands for several before its parts; 40 numbers before 42 the mode that
governs them: some drivers refuse the numbers while the mode is on, so that they go back first;
where the mode resets them, they are written once more.

Left out on purpose: adaptive TX (ethtool prints it in the line of adaptive RX, behind it, and
the guard cannot distinguish the two there; JSON came with later versions), link
speed and autonegotiation (the way to the machine may go), wake-on-LAN, private flags.
"""

from __future__ import annotations

from iotrial.model.tunable import Tunable
from iotrial.tunables.net import hardware, kernel, offload

FAMILY = "net"
TITLE = "network interface: flow control, rings, coalescing, offloads, MTU, queueing"

TUNABLES: tuple[Tunable, ...] = kernel.ROWS + hardware.ROWS + offload.ROWS
