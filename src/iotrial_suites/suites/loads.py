"""Words for a load that checks itself: writes whose bytes are read again and compared, until told
to end.

``verify_backlog`` is what makes it check: with ``time_based`` alone fio writes until its time is
over and then has none to read in (fio 3.33, ``do_verify`` ends where ``runtime_exceeded``).  So the
end looks at how much was read again: a load that compared nothing proves nothing.

Sources: fio(1); HOWTO of fio, "Verification".
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from iotrial_suites.case import Failed, Scene, Started
from iotrial_suites.suites.vocabulary import Doing, expect, join, note, run, start, undo

_UNTIL = """\
stop=$1
shift
nice -n 19 "$@" &
load=$!
while [ ! -e "$stop" ] && kill -0 "$load" 2>/dev/null; do sleep 1; done
kill "$load" 2>/dev/null
wait "$load"
"""
"""Arguments: a file, then a command, which is ended when there is such a file.  It is
nice, as where processors are emulated it would leave none to the commands of the case."""
_STOPPED = 128
"""The exit status of a fio that a signal ended in good order."""
_MOST = 900
"""Seconds: nobody waits so long."""
_NANO = 1e9


@dataclass(frozen=True, slots=True)
class Load:
    """A load under way on host ``on``, which ends when there is the file ``stop``."""

    started: Started
    stop: str
    on: int


def begin(
    scene: Scene, *where: str, on: int = 0, size: str = "32m", depth: int = 4, name: str = "load"
) -> Doing[Load]:
    """Write at random in ``where`` (``--filename=``, ``--directory=``), and read it again."""
    stop = f"/run/{scene.name(name)}-{on}"
    yield from undo("rm", "-f", stop, on=on)
    started = yield from start(
        "sh", "-c", _UNTIL, "iotrial-load", stop,
        "fio", f"--name={name}", *where, "--rw=randwrite", "--bs=16k", f"--size={size}",
        "--direct=1", "--ioengine=libaio", f"--iodepth={depth}", "--verify=crc32c",
        "--verify_fatal=1", "--verify_backlog=64", "--time_based", f"--runtime={_MOST}",
        "--output-format=json", on=on, within=_MOST + 300,
    )  # fmt: skip
    return Load(started, stop, on)


def end(load: Load, *, within: float = 120.0) -> Doing[None]:
    """Have it end; see that no I/O of it failed, and that it compared what it wrote."""
    yield from run("touch", load.stop, on=load.on)
    said = yield from join(load.started, within=within, exits=(0, _STOPPED))
    told = result(said.stdout)
    if told is None:
        raise Failed(f"fio says no result: {said.complaint}")
    expect(told.error == 0, f"the load failed (errno {told.error}): {said.complaint}")
    expect(told.compared, f"the load compared nothing of {told.written} writes")
    yield from note(
        f"the load: {told.written} writes, {told.compared} compared; the longest write took "
        f"{told.longest:.1f} s"
    )


def once(*where: str, on: int = 0, size: str = "8m", depth: int = 16) -> Doing[None]:
    """Write ``size`` once, asynchronously, past the cache, then read and compare all of it."""
    said = yield from run(
        "fio", "--name=once", *where, "--rw=randwrite", "--bs=16k", f"--size={size}",
        "--direct=1", "--ioengine=libaio", f"--iodepth={depth}", "--verify=crc32c",
        "--verify_fatal=1", "--output-format=json", on=on, within=300,
    )  # fmt: skip
    told = result(said.stdout)
    expect(told and told.error == 0, f"fio says no good result: {said.complaint}")
    expect(told and told.compared >= told.written > 0, f"not all that was written was read: {told}")


@dataclass(frozen=True, slots=True)
class Told:
    """What fio says of a load: errno, numbers of writes and of reads that were compared, seconds of
    the write that took longest."""

    error: int
    written: int
    compared: int
    longest: float


def result(text: str) -> Told | None:
    """Read from what fio printed, with other words before it; None: it printed no result.

    >>> result('fio: terminating on signal 15\\n{"jobs": [{"error": 0, "read": {"total_ios": 2}, '
    ...        '"write": {"total_ios": 3, "clat_ns": {"max": 5e8}}}]}')
    Told(error=0, written=3, compared=2, longest=0.5)
    """
    try:
        (job,) = json.loads(text[text.index("{") :])["jobs"]
        write = job["write"]
        longest = float(write["clat_ns"]["max"]) / _NANO
        return Told(
            int(job["error"]), int(write["total_ios"]), int(job["read"]["total_ios"]), longest
        )
    except (ValueError, KeyError):
        return None
