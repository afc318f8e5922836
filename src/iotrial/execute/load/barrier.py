"""A common moment: how loads on several hosts begin at the same time, whatever their clocks say.

The controller asks each host for its time; the answer with the shortest round trip tells the
offset of its clock, within half that trip (D. L. Mills (1991), Internet time synchronization: the
Network Time Protocol, IEEE Trans. Communications 39, 1482-1493: the clock filter).  Every load is
started early, in a shell that waits until the common moment by its own host's clock, and notes when
it went on.  So the skew between hosts is that of the clocks, not that of the links.

A tool that can (:class:`iotrial.model.tool.SupportsBarrier`) makes ready first and waits inside, at
a *gate*, so that its own start is over by then.  The gate is a pipe (pipe(7)).  Whoever waits reads
from it; nobody ever writes to it; the shell that holds its other end closes that at the moment, and
leaves a file ``go`` before.  A pipe that ends without such a file says that the holder was killed:
then nothing begins.  So nobody who waits has to be found and ended, and who comes late does not
wait.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.model.host import Host
from iotrial.model.tool import LoadBarrier

ASKS = 4
"""Questions for the time before each trial."""
BEGAN, READY = "began", "ready"
"""Files in a load's folder: when it went on, and when it had made ready before, in nanoseconds
since the epoch; of several jobs the last."""
EXIT = "exitcode"
_NANO = 1_000_000_000

GATE = LoadBarrier('eval "$IOTRIAL_GATE"', '[ -e "$IOTRIAL_HERE/began" ] || eval "$IOTRIAL_GATE"')
"""What a tool has a shell do when it is ready.  In vain outside of :func:`together`, so that its
command can be tried by hand."""

WAITING = """\
go=$PWD/go
IOTRIAL_GATE='echo >>"$IOTRIAL_HERE/ready"; read -r _ <&9
[ -e "$IOTRIAL_GO" ] && [ ! -e "$IOTRIAL_HERE/exitcode" ] && echo >>"$IOTRIAL_HERE/began"'
export IOTRIAL_GATE
sleep_until() {
    left=$(($1 - $(date +%s%N)))
    [ "$left" -gt 0 ] || return 0
    rest=$((1000000000 + left % 1000000000))
    sleep "$((left / 1000000000)).${rest#1}" >/dev/null &
    wait "$!"
}
enter() {
    trap : TERM
    cd -- "$1" || exit
    export IOTRIAL_GO="$go" IOTRIAL_HERE="$PWD"
}
one() {
    enter "$1"
    shift
    read -r _ <&9
    status=143
    if [ -e "$go" ]; then
        echo >began
        status=0
        "$@" >stdout 2>stderr 9<&- || status=$?
    fi
    echo "$status" >exitcode
}
early() {
    enter "$1"
    shift
    status=0
    "$@" >stdout 2>stderr 9<&9 || status=$?
    [ -e "$go" ] || [ "$status" -gt 0 ] || status=143
    echo "$status" >exitcode
}
{
    trap 'kill "$!" 2>/dev/null; exit 143' TERM
    if [ "$1" -gt 0 ]; then
        sleep_until "$(($1 - 300000000 - $$ % 200 * 1000000))"
        sleep_until "$1"
    fi
    : >go
} | {
trap : TERM
exec 9<&0 </dev/null
all=
"""
"""Argument: the moment, in nanoseconds since the epoch.  SIGTERM reaches every process of the
group; the shells stay until their loads have ended, because they say how.  One that would begin
only then does not (143: the shell's own sum for SIGTERM).  The outermost traps the signal only when
the others have begun: a child that has not run yet takes it by its parent's trap, and forgets it
when it sets its own.  Nobody waits for a sleep(1) that was signalled too early in its life to
notice, and it does not hold the pipe.  How long to sleep is reckoned again shortly before the
moment, when nothing is being started any more, and not by all at once.

``began`` is the time of a file, since date(1) takes long when all begin; that of ``go`` tells a
file server's clock from ours: it is another one only where that time lies neither between two of
ours nor near, since a busy machine may let us wait between any two commands."""
ENDING = """\
worst=0
for each in $all; do
    while kill -0 "$each" 2>/dev/null; do wait "$each"; done
done
for each in */exitcode; do
    read -r status <"$each" && [ "$status" -le "$worst" ] || worst=${status:-1}
done
before=$(date +%s%N)
: >go
there=$(date -r go +%s%N)
after=$(date +%s%N)
ahead=0
[ "$there" -ge "$((before - 100000000))" ] || ahead=$((before - there))
[ "$there" -le "$((after + 100000000))" ] || ahead=$((after - there))
for each in */began */ready; do
    [ -e "$each" ] || continue
    then=$(date -r "$each" +%s%N)
    echo "$((then + ahead))" >"$each"
done
rm -f go
exit "$worst"
} &
trap : TERM
while :; do
    status=0
    wait "$!" || status=$?
    [ "$status" -gt 128 ] && kill -0 "$!" 2>/dev/null || exit "$status"
done
"""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """How far a host's clock is ahead of ours, in seconds, and how well that is known."""

    seconds: float
    within: float


def offset(host: Host, asks: int = ASKS) -> ClockOffset:
    """Ask a host for its time.  One that is this machine has our clock."""
    if not host.remote:
        return ClockOffset(0.0, 0.0)
    return min((_asked(host) for _ in range(asks)), key=lambda each: each.within)


def _asked(host: Host) -> ClockOffset:
    before, began = time.time(), time.monotonic()
    there = float(host.run(["date", "+%s.%N"]).text)
    took = time.monotonic() - began
    return ClockOffset(there - (before + took / 2), took / 2)


def together(
    loads: Mapping[str, Sequence[str]], moment: float, gated: Container[str] = ()
) -> tuple[str, ...]:
    """A command that executes each of ``loads`` (by folder, below the one it is started in) from
    ``moment`` on, in seconds since the epoch by its host's clock; 0: at once.  Those in ``gated``
    are started now, and wait by themselves at :data:`GATE`.

    Each folder gets ``stdout``, ``stderr``, ``began``, ``exitcode`` and, of one that is gated,
    ``ready``; its own exit status is the largest of theirs.
    """
    lines = "".join(
        f'{"early" if folder in gated else "one"} {shlex.join((folder, *argv))} & all="$all $!"\n'
        for folder, argv in loads.items()
    )
    script = f"{WAITING}{lines}{ENDING}"
    return ("sh", "-c", script, "iotrial-together", str(int(moment * _NANO)))


def noted(folder: Path, what: str = BEGAN) -> float | None:
    """When the load in ``folder`` went on, or was :data:`READY`, in seconds by its host's clock;
    None: it never was, or is not one that is gated."""
    try:
        return int((folder / what).read_text("ascii")) / _NANO
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
