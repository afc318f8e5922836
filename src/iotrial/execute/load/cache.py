"""The page cache before a load: dropped or unmounted away, and looked for afterwards.

A write to ``/proc/sys/vm/drop_caches`` is believed by nobody here.  Dirty pages, pages that are
locked and all of tmpfs stay; in a container the write may do nothing; and a whole generation of
scripts ran ``echo 3 > /proc/sys/vm/drop_caches`` without a shell.  So part of the target is read
into the cache, the caches are dropped, and then it is looked whether anything is still there:

- of files, by mincore(2) over all that lie in the target (fincore(1), util-linux 2.30);
- of a device, and of files without fincore, by reading again: what the disk does not have to read
  came from memory.  (fincore 2.38 says of every block device that nothing of it is cached.)

Dropping is an act and no setting: nothing can be put back.  The caches of a server, of an array
and of a loop device's backing file are not this kernel's to drop.

Sources: Documentation/admin-guide/sysctl/vm.rst (drop_caches), fincore(1), mincore(2),
Documentation/block/stat.rst.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iotrial.errors import FileRefused, TrialError
from iotrial.execute.load.sampler import disk
from iotrial.execute.session import HostSession
from iotrial.execute.targets.making import mount_again
from iotrial.execute.targets.trees import MARK
from iotrial.look import reading as look
from iotrial.model.host import Host
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.trial import Doubt, Trial
from iotrial.units import format_bytes

DROP = "/proc/sys/vm/drop_caches"
_SECTOR = 512
_SYNC_WITHIN = 900.0
_TRIES = 3
"""Pages under writeback, or in the per-CPU lists of the moment, are not dropped at once."""
_PAUSE = 0.2
_MOST_FILES = 1000
_MISSING = 127
_COPIED = re.compile(r"^(\d+) bytes", re.MULTILINE)
_NEGLIGIBLE = 0.01
"""Share of the target's bytes that may stay without making the trial INVALID."""


@dataclass(frozen=True, slots=True)
class CacheResidency:
    """How much of what was looked at is in the page cache, in bytes; ``why`` it cannot be said,
    or ''."""

    resident: int = 0
    of: int = 0
    why: str = ""


def meet_cache(session: HostSession, trial: Trial) -> tuple[Doubt, ...]:
    """What the workload says of the cache, done and verified; the trial's settings hold after it.

    Raises TrialError.
    """
    aim, target = session.aims[trial.target], session.study.target(trial.target)
    match session.study.workload(trial.workload).cache:
        case "drop":
            return drop(session.host, aim)
        case "remount":
            doubts = remount(session.host, aim, target)
            session.hold(session.held)
            return doubts
    return ()


def drop(host: Host, aim: PreparedTarget) -> tuple[Doubt, ...]:
    """Write dirty pages, drop all clean ones, and verify it on the target.

    Raises TrialError where it is not allowed.  Doubts where something stays; INVALID where that
    is more than a hundredth of what was looked at.
    """
    probe = _CacheProbe(host, aim)
    probe.warm()
    for attempt in range(_TRIES):
        if attempt:
            host.sleep(_PAUSE)
        _drop(host)
        seen = probe.look()
        if not seen.resident:
            break
    if probe.reads:
        _drop(host)  # what the probe has just read itself
    return _doubts(seen, aim, "after dropping the caches")


def remount(host: Host, aim: PreparedTarget, target: Target) -> tuple[Doubt, ...]:
    """Unmount the file system that iotrial mounted for ``target`` and mount it again, and verify
    that nothing stayed in memory.  Mount options that a treatment had set are gone then.

    Raises TrialError when it is in use.
    """
    probe = _CacheProbe(host, aim)
    probe.warm()
    mount_again(host, target, aim.path)
    seen = probe.look()
    if probe.reads:
        _drop(host)  # what the probe has just read itself
    return _doubts(seen, aim, "after remounting")


def _drop(host: Host) -> None:
    host.run(["sync"], timeout=_SYNC_WITHIN)
    try:
        host.write(DROP, b"3\n")
    except FileRefused as refused:
        raise TrialError(
            f"caches cannot be dropped: {refused.message}",
            advice='It needs root outside of a container; otherwise remove `cache = "drop"`.',
        ) from refused


def _doubts(seen: CacheResidency, aim: PreparedTarget, when: str) -> tuple[Doubt, ...]:
    if seen.why:
        what = f"{when} the cache state of {aim.path} is unknown: {seen.why}"
        return (Doubt("cache-unverified", what, "Bypass the cache instead (direct I/O)."),)
    if not seen.resident:
        return ()
    what = (
        f"{when} {format_bytes(seen.resident)} of the {format_bytes(seen.of)} checked in"
        f" {aim.path} are still in memory"
    )
    advice = (
        "Memory file systems and locked pages cannot be dropped, and a process that keeps"
        " reading fills the cache again (fuser -v). Stop it, use another target, or bypass the"
        " cache."
    )
    return (Doubt("cache-kept", what, advice, invalid=seen.resident > _NEGLIGIBLE * seen.of),)


class _CacheProbe:
    """What is looked at.  ``reads`` says that looking is reading, so that it leaves pages."""

    def __init__(self, host: Host, aim: PreparedTarget) -> None:
        self.host = host
        self.aim = aim
        self.files = _files(host, aim)
        self.backing = dict(aim.identity.ids).get("backing_file", "") if aim.identity else ""
        self.fincore = host.run(["fincore", "--version"]).exit != _MISSING
        self.reads = aim.target.under_load == "device" or bool(self.files and not self.fincore)

    def warm(self) -> None:
        """Bring some of it into the cache, so that finding nothing afterwards means something."""
        if self.reads or self.files:
            self._read()

    def look(self) -> CacheResidency:
        """As far as there is something to look at: a folder may be empty as yet."""
        seen = self._by_reading() if self.reads else CacheResidency()
        files = [*([] if self.reads else self.files), *filter(None, [self.backing])]
        if seen.why or not files or not self.fincore:
            return seen
        more = resident(self.host, files)
        return CacheResidency(seen.resident + more.resident, seen.of + more.of, more.why)

    def _by_reading(self) -> CacheResidency:
        """Bytes that were read and that the disk did not have to deliver."""
        device = self.aim.device
        if not device:
            return CacheResidency(
                why="fincore (util-linux) is not installed there, and the target has no disk"
            )
        before = _delivered(self.host, device)
        size = self._read()
        between = _delivered(self.host, device)
        if between - before >= size:
            return CacheResidency(0, size)
        self._read("iflag=direct")
        if _delivered(self.host, device) - between < size:
            return CacheResidency(why=f"{device} has no I/O counters (check queue.iostats)")
        return CacheResidency(size - (between - before), size)

    def _read(self, *flags: str) -> int:
        """Read the first MiB; gives back how many bytes that were."""
        path = (self.files or [self.aim.path])[0]
        done = self.host.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "count=1", *flags])
        told = _COPIED.search(done.stderr.decode("utf-8", "replace"))
        if done.exit != 0 or not told:
            raise TrialError(f"{path} cannot be read to check its cache state: {done.complaint}")
        return int(told[1])


def resident(host: Host, files: Sequence[str]) -> CacheResidency:
    """Bytes of these files that are in the page cache."""
    argv = ["fincore", "--bytes", "--noheadings", "--raw", "--output", "RES,SIZE"]
    done = host.run([*argv, *files], timeout=_SYNC_WITHIN)
    rows = [line.split() for line in done.text.splitlines()]
    if done.exit != 0 and not rows:
        return CacheResidency(why=f"fincore: {done.complaint}")
    try:
        return CacheResidency(sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))
    except (ValueError, IndexError):
        return CacheResidency(why=f"fincore says {done.text.strip()[:60]!r}")


def _files(host: Host, aim: PreparedTarget) -> list[str]:
    """The files that a load in the target may read, :data:`_MOST_FILES` at most."""
    kind = aim.target.under_load
    if kind == "device":
        return []
    if kind == "file":
        return [aim.path]
    ours = ("!", "-name", MARK)  # no load reads it
    argv = ["find", aim.path, "-xdev", "-type", "f", "-size", "+0", *ours, "-print0"]
    names = host.run(argv, timeout=_SYNC_WITHIN).stdout.decode("utf-8", "surrogateescape")
    return [name for name in names.split("\0") if name][:_MOST_FILES]


def _delivered(host: Host, device: str) -> int:
    """Bytes that a disk has read since it is there."""
    return disk(look.text(host, f"/sys/block/{device}/stat")).get("sectors_read", 0) * _SECTOR
