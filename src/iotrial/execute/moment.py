"""A common moment: how loads on several hosts begin at the same time, whatever their clocks say.

The controller asks each host for its time; the answer with the shortest round trip tells the
offset of its clock, within half that trip (D. L. Mills (1991), Internet time synchronization: the
Network Time Protocol, IEEE Trans. Communications 39, 1482-1493: the clock filter).  Every load is
started early, in a shell that waits until the common moment by its own host's clock, and notes when
it went on.  So the skew between hosts is that of the clocks, not that of the links.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.model.host import Host

ASKS = 4
"""Questions for the time before each trial."""
BEGAN = "began"
"""The file in which a load's shell notes when it went on, in nanoseconds since the epoch."""
EXIT = "exitcode"
_NANO = 1_000_000_000

WAITING = """\
trap : TERM
left=$(($1 - $(date +%s%N)))
[ "$left" -le 0 ] || sleep "$((left / 1000000000)).$(printf %09d "$((left % 1000000000))")"
one() {
    trap : TERM
    cd -- "$1" || exit
    shift
    date +%s%N >began
    "$@" >stdout 2>stderr
    echo "$?" >exitcode
}
all=
"""
"""Argument: the moment, in nanoseconds since the epoch.  SIGTERM reaches every process of the
group; the shells stay until their loads have ended, because they say how."""
ENDING = """\
worst=0
for each in $all; do
    while kill -0 "$each" 2>/dev/null; do wait "$each"; done
done
for each in */exitcode; do
    read -r status <"$each" && [ "$status" -le "$worst" ] || worst=${status:-1}
done
exit "$worst"
"""


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a host's clock is ahead of ours, in seconds, and how well that is known."""

    seconds: float
    within: float


def offset(host: Host, asks: int = ASKS) -> Offset:
    """Ask a host for its time.  One that is this machine has our clock."""
    if not host.remote:
        return Offset(0.0, 0.0)
    return min((_asked(host) for _ in range(asks)), key=lambda each: each.within)


def _asked(host: Host) -> Offset:
    before, began = time.time(), time.monotonic()
    there = float(host.run(["date", "+%s.%N"]).text)
    took = time.monotonic() - began
    return Offset(there - (before + took / 2), took / 2)


def together(loads: Mapping[str, Sequence[str]], moment: float) -> tuple[str, ...]:
    """A command that executes each of ``loads`` (by folder, below the one it is started in) from
    ``moment`` on, in seconds since the epoch by its host's clock; 0: at once.

    Each folder gets ``stdout``, ``stderr``, ``began`` and ``exitcode``; its own exit status is the
    largest of theirs.
    """
    lines = "".join(
        f'one {shlex.join((folder, *argv))} & all="$all $!"\n' for folder, argv in loads.items()
    )
    script = f"{WAITING}{lines}{ENDING}"
    return ("sh", "-c", script, "iotrial-together", str(int(moment * _NANO)))


def began(folder: Path) -> float | None:
    """When the load in ``folder`` went on, in seconds by its host's clock; None: it never did."""
    try:
        return int((folder / BEGAN).read_text("ascii")) / _NANO
    except (OSError, ValueError):
        return None


def ended(folder: Path, otherwise: int) -> int:
    """The exit status of the load in ``folder``, minus the signal that ended it; ``otherwise``
    where it was not noted."""
    try:
        status = int((folder / EXIT).read_text("ascii"))
    except (OSError, ValueError):
        return otherwise
    return 128 - status if status > 128 else status  # noqa: PLR2004 (the shell's own sum)
