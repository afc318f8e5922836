"""Load tools that the fake machine imitates besides fio: what they move, for how long, and what
they say, in the very format of the tool.

The rates are made up, and the same for the same seed and load: a scheduler's ``EFFECT``, the size
of a block, and noise.  One file a tool.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from iotrial.hosts.fake.loads import bonnie, dd, iozone, iperf3, listing
from iotrial.hosts.fake.loads.pace import Acted
from iotrial.hosts.fake.machine import Machine

_Imitation = Callable[[Machine, Sequence[str], random.Random], Acted]

IMITATED: Mapping[str, _Imitation] = {
    "bonnie++": bonnie.imitate,
    "dd": dd.imitate,
    "iozone": iozone.imitate,
    "iperf3": iperf3.imitate,
    "listing.sh": listing.imitate,
}


def imitate(machine: Machine, argv: Sequence[str], luck: random.Random) -> Acted | None:
    """What a load does; None for a program that is not imitated."""
    words = argv[1:] if argv[0] == "sh" and argv[1:2] == ("listing.sh",) else argv
    made = IMITATED.get(words[0].rpartition("/")[2])
    return made(machine, words[1:], luck) if made else None
