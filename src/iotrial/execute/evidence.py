"""Evidence: what commands of the study print after each load, while its settings still hold.

Kept with the trial as ``evidence-1.txt``, ``evidence-2.txt`` …; what a command said on stderr
beside it.  A command that fails, takes longer than :data:`WITHIN` or prints more than
:data:`MOST` is a doubt: the measurement was over by then.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from iotrial.execute.chores import Deed, do, shorten
from iotrial.execute.interruption import Interruption
from iotrial.model.doubt import Doubt
from iotrial.model.host import Host
from iotrial.model.tool import Load
from iotrial.units import format_bytes

WITHIN = 60.0
"""Seconds."""
MOST = 4 * 2**20
"""Bytes."""

LIMITED = """\
most=$1
shift
exec 5>&1
status=$(
    {
        {
            { "$@" 3>&- 4>&- 5>&-; echo "$?" >&4; } 2>&3 | head -c "$most" >&5
        } 3>&1 >/dev/null | head -c "$most" >&2
    } 4>&1
)
exit "$status"
"""
"""Arguments: a number of bytes, a command.  What it prints beyond them is not taken, and the
command ends for it (SIGPIPE)."""


def gather_evidence(
    host: Host,
    commands: Sequence[tuple[str, ...]],
    folder: Path,
    *,
    token: str,
    interruption: Interruption,
) -> tuple[Doubt, ...]:
    """Run each command and keep what it prints.  Raises Interrupted, HostUnreachable."""
    doubts = []
    for number, argv in enumerate(commands, 1):
        there = folder / f"evidence-{number}"
        words = ("sh", "-c", LIMITED, "iotrial-limited", str(MOST + 1), *argv)
        deed = Deed(Load(words), WITHIN, most=MOST + 1)
        problem = do(host, deed, there, token=token, interruption=interruption)
        said = there / "stdout"
        if said.exists() and said.stat().st_size > MOST:
            shorten(said, MOST)
            problem = f"prints more than {format_bytes(MOST)}; the rest is not kept"
        _keep(there, folder / f"evidence-{number}.txt")
        if problem:
            what = f"evidence `{' '.join(argv)}`: {problem}"
            doubts.append(Doubt("evidence", what, "The measurement was over; mend the command."))
    return tuple(doubts)


def _keep(there: Path, path: Path) -> None:
    """What it printed, and what it complained of, beside each other; the rest goes."""
    if (there / "stdout").exists():
        (there / "stdout").rename(path)
    complaint = there / "stderr"
    if complaint.exists() and complaint.stat().st_size:
        complaint.rename(path.with_suffix(".stderr"))
    shutil.rmtree(there)
