"""Laying out the file of a file target: random bytes, really written."""

from __future__ import annotations

from iotrial.errors import TrialError
from iotrial.look.inodes import need_same, settled
from iotrial.look.places import _SLOWEST_FILL, MIB, laid_size
from iotrial.model.host import Completed, Host
from iotrial.model.target import Aim


def fill(host: Host, path: str, size: int) -> None:
    """Write ``path`` once with random bytes, ``size`` rounded up to whole MiB, to the disk.

    Random because zeros are compressed or deduplicated by some storage, and written because
    reads of holes and unwritten extents are answered without the disk.  A file that is not there
    is made by us or not at all (O_EXCL), and a link is never followed.  Raises TrialError.
    """
    count = laid_size(size) // MIB
    copy = ["dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={count}"]
    how = ["oflag=nofollow", "conv=nocreat,fsync"]
    timeout = 60.0 + size / _SLOWEST_FILL
    done = _made(host, path)
    if done.exit == 0:
        done = host.run([*copy, "oflag=direct", *how], timeout=timeout)
    if done.exit != 0 and "Invalid argument" in done.stderr.decode("utf-8", "replace"):
        done = host.run([*copy, *how], timeout=timeout)  # a filesystem without O_DIRECT
    if done.exit != 0:
        raise TrialError(
            f"{path} could not be laid out: {done.complaint}",
            advice="Is there room, and may you write there?",
        )


def _made(host: Host, path: str) -> Completed:
    """The file is there: as it was, or new and empty."""
    there = ["stat", "-c", "%F", path]
    if (done := host.run(there)).exit == 0:
        return done
    return host.run(["dd", "if=/dev/null", f"of={path}", "count=0", "conv=excl", "oflag=nofollow"])


def lay_out(host: Host, aim: Aim) -> Aim:
    """Lay out the file of a file target: random bytes, really written, its size rounded up to
    whole MiB.  The file must be owed already, and what is there must be what was looked at.
    Gives back the aim at it.  Raises TrialError, TargetRefused."""
    need_same(host, aim)
    fill(host, aim.path, aim.target.size)
    return settled(host, aim)
