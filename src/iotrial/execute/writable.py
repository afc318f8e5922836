"""Which control files can be written at all: asked of a host in one round trip.

A parameter that a driver reads only when it is loaded has a file without permission to write
(mode 0444), for root too: kernfs looks at the mode itself (fs/kernfs/file.c).  So a look at the
mode tells, before anything is changed, that a level can never be in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotrial.model.host import Host
from iotrial.model.tunable import Tunable

_WRITE = 0o222
_AT_ONCE = 500
"""Paths in one command: far below what a command line holds."""


def control_file(knob: Tunable, device: str) -> str:
    """The file that setting the knob writes into, or '' where it is set in another way."""
    special = knob.how is not None or knob.change or knob.read
    return "" if special else knob.probe(device).path


def modes(host: Host, paths: Iterable[str]) -> dict[str, int]:
    """The permissions of those of the files that are there."""
    asked = list(dict.fromkeys(filter(None, paths)))
    found: dict[str, int] = {}
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        found |= understood(host.run(["stat", "-L", "-c", "%a %n", *some]).text)
    return found


def understood(said: str) -> dict[str, int]:
    """What ``stat -c '%a %n'`` said.  Lines that are no such pair are left out.

    >>> understood("644 /sys/block/sda/queue/scheduler\\n")
    {'/sys/block/sda/queue/scheduler': 420}
    """
    pairs = (line.partition(" ") for line in said.splitlines())
    return {path: int(mode, 8) for mode, _, path in pairs if path and mode.isdigit()}


def obstacle(knob: Tunable, device: str, known: Mapping[str, int]) -> str:
    """Why the knob can be no factor of a trial, or ''.  A file of unknown mode is no obstacle:
    it may come with another setting."""
    path = control_file(knob, device)
    mode = known.get(path, _WRITE)
    if mode & _WRITE:
        return ""
    return (
        f"{path} is read-only (mode {mode:04o}): it is set when the driver is loaded or the machine"
        " boots, not between trials. As a durable setting it belongs into /etc/modprobe.d or the"
        " kernel's command line"
    )
