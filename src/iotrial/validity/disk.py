"""Of the device under test: what answered for it, who else used it, what it did beside the load.

Several checks compare the bytes that the device moved with those that the load says it moved.  The
load's own account leaves out what it did before it measured (fio's ``ramp_time``, laying out of
files), the device's counters do not.  Two ways around it: the load's rate over the whole time that
its process lived, which is too much by the time it took to start; and the telemetry of only those
seconds at the end that the load measured.

Source: the kernel's Documentation/block/stat.rst (sectors are of 512 bytes whatever the device).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from iotrial.model.step import Probe
from iotrial.model.trial import Doubt
from iotrial.model.validity import (
    BytesMoved,
    CheckContext,
    CheckReading,
    IOSample,
    LoadEvidence,
    Snapshot,
    check,
)
from iotrial.stats.scaling import UNEVEN, apart
from iotrial.units import format_bytes

SECTOR = 512
_READ, _WRITTEN = 2, 6
OPERATIONS = ("read", "write")
_FEWEST = 4
"""Samples in what was measured below which its ends weigh too much."""


def stat(scene: CheckContext) -> tuple[CheckReading, ...]:
    """The counters of the device under test."""
    return (CheckReading(Probe(_place(scene.device))),) if scene.device else ()


def _place(device: str) -> str:
    return f"/sys/block/{device}/stat"


def counters(text: str) -> BytesMoved | None:
    """``/sys/block/X/stat`` in bytes; None where it says nothing."""
    fields = text.split()
    if len(fields) <= _WRITTEN:
        return None
    return BytesMoved(int(fields[_READ]) * SECTOR, int(fields[_WRITTEN]) * SECTOR)


def by_device(case: LoadEvidence) -> BytesMoved | None:
    """What the device moved between the snapshots; None where nobody can tell (no device, one that
    does not count: ``queue.iostats`` 0, or one that another load of the study may use)."""
    if case.scene.shared:
        return None
    where = _place(case.scene.device)
    first, last = (counters(each.text(where)) for each in (case.before, case.after))
    if not case.scene.device or first is None or last is None:
        return None
    moved = last - first
    return moved if moved.read + moved.write > 0 else None


def by_load(case: LoadEvidence) -> BytesMoved | None:
    """What the load says that it moved while it measured; None where it does not say."""
    told = [case.own(f"{operation}.bytes") for operation in OPERATIONS]
    if not any(told) or case.own("mixed.bytes") is not None:
        return None
    return BytesMoved(*(value or 0.0 for value in told))


def measured(case: LoadEvidence) -> float:
    """Seconds that the load measured, as its own bytes and rate say; 0 unknown."""
    spans = [0.0]
    for operation in OPERATIONS:
        size, rate = (case.own(f"{operation}.{what}") for what in ("bytes", "bw"))
        if size and rate:
            spans.append(size / rate)
    return min(max(spans), case.seconds) if case.seconds else max(spans)


def at_the_end(case: LoadEvidence) -> tuple[IOSample, ...]:
    """The telemetry of those seconds at the end that the load measured; () where these are too
    few.  The last sample may be of a moment after the load's last I/O: it is left out."""
    span = measured(case)
    inside = [each for each in case.samples[:-1] if each.t >= case.seconds - span]
    return tuple(inside) if span and len(inside) >= _FEWEST else ()


CACHED = 0.10
"""Of what was read: below it, the cache makes less difference than most margins."""
_TIMES_MEMORY = 2


def _reads(scene: CheckContext) -> Iterator[CheckReading]:
    yield from stat(scene)
    if scene.device:
        yield CheckReading(Probe(_iostats(scene.device)), str.strip)


@check(
    "cached",
    "reads were served from memory, not from the device",
    looks_at=(
        "/sys/block/DEVICE/stat and queue/iostats; the bytes that the load reports as read;"
        " without device counters: whether reads are buffered, their size, and MemTotal"
    ),
    limit=(
        "more than 10 % of the bytes read did not come from the device; or, without device"
        " counters, buffered reads of less than twice the memory"
    ),
    remedy=(
        'Use direct I/O; or more than twice the memory; or cache = "drop" and read once;'
        " write every block before you read it."
    ),
    source="Documentation/block/stat.rst of the kernel",
    reads=_reads,
)
def cached(case: LoadEvidence) -> Iterator[Doubt]:
    """Reads were served from memory and not from the device.

    If the device has counters, its bytes are compared with those of the load: a load that read
    more than the device got the rest from the page cache (buffered), or from unwritten blocks
    (direct I/O on a sparse file reads nothing from the device).  Without counters (a network
    mount), the size of the data read is compared with the size of the memory.

    Sources: Documentation/block/stat.rst; Documentation/admin-guide/mm/concepts.rst (page cache);
    Phoronix Test Suite issue 417 (11.7 GB/s from four disks).
    """
    scene, device, own = case.scene, by_device(case), by_load(case)
    if not scene.reads or scene.shared:
        return
    if scene.device and own is not None and own.read and _counts(case, device):
        yield from _counted(case, device.read if device else 0.0, own.read)
    elif scene.buffered and not _first_time(case):
        yield from _presumed(case)


def _counts(case: LoadEvidence, device: BytesMoved | None) -> bool:
    """Whether the device keeps count: one that moved nothing may not (iostats 0), unless the
    settings say that it does."""
    if device is not None:
        return True
    return case.after.text(_iostats(case.scene.device)) == "1"


def _counted(case: LoadEvidence, delivered: float, read: float) -> Iterator[Doubt]:
    share = 1 - delivered / read
    if share < CACHED:
        return
    how = (
        f"were served from the page cache ({case.scene.buffered})"
        if case.scene.buffered
        else "were served from unwritten blocks or from a cache above the device"
    )
    yield cached.doubt(
        f"the load read {format_bytes(int(read))}, {case.scene.device} only"
        f" {format_bytes(int(delivered))}: {share:.0%} {how}"
    )


def _first_time(case: LoadEvidence) -> bool:
    """Whether all is read for the first time after the caches were dropped."""
    read = case.own("read.bytes") or (case.own("read.bw") or 0.0) * case.seconds
    return case.scene.cache in ("drop", "remount") and read <= case.scene.size


def _presumed(case: LoadEvidence) -> Iterator[Doubt]:
    scene = case.scene
    if not scene.size or scene.size >= _TIMES_MEMORY * scene.memory:
        return
    yield cached.doubt(
        f"reads go through the page cache ({scene.buffered}), and the data"
        f" ({format_bytes(scene.size)}) may fit in memory ({format_bytes(int(scene.memory))}):"
        " reads may be served from there"
    )


def _iostats(device: str) -> str:
    return f"/sys/block/{device}/queue/iostats"


DOUBTFUL = 0.05
INVALID = 0.15
"""Shares of what the load moved.  By the second account, undisturbed loads of ten seconds on loop
devices (ext4, xfs) showed -0.03 to 0.013 on a busy machine of two CPUs; by the first, of one
second, always less than 0."""
HASTE = 2.0
"""How much faster a short load may have been before it measured."""
LEAST = 8 * 2**20
"""Bytes below which nothing is said: a superblock, a partition table read by udev."""


@check(
    "foreign-io",
    "another process uses the device",
    looks_at=(
        "/sys/block/DEVICE/stat before and after the load, and once a second in between; the"
        " bytes that the load reports"
    ),
    limit=(
        "more than 5 % (doubt) or 15 % (INVALID) beyond the load's own bytes, and at least 8"
        " MiB; reads and writes separately. For loads of one or two seconds, only bytes beyond"
        " twice their rate before the measured time. Loads that may be buffered are judged only"
        " in the direction that they do not use; on file systems writes are a doubt at most,"
        " and not judged under a load that writes"
    ),
    remedy=(
        "Find the process (iotop, fatrace, lsof on the device, other partitions of it, a"
        " backup) and stop it; for writes right after a chore, raise `settle`."
    ),
    source="Documentation/block/stat.rst of the kernel; limits measured on loop devices",
    invalid=True,
    reads=stat,
)
def foreign_io(case: LoadEvidence) -> Iterator[Doubt]:
    """The device transferred more bytes than the load.

    The load's own bytes are compared with the sectors counted by the device.  Only loads with
    direct I/O are judged in the direction that they use: read-ahead and writeback transfer more,
    and at other times, than the load requested.  In a direction that the load does not use (writes
    under a load that only reads) all I/O is foreign, with or without the page cache.

    I/O of the load before its measured time looks like foreign I/O in the totals, so the smaller of
    two estimates is used: one from the load's rate over its whole run time, one from the telemetry
    of the measured seconds only.  A load of one or two seconds has no such telemetry: it may have
    been faster before the measured time (a 1 s load whose first 0.6 s were 1.9 times as fast was
    taken for foreign I/O), so twice its rate is assumed for that time.  Such a load hides foreign
    I/O up to the share of its start-up; a load of ten seconds hides almost none.

    On a file system the load lays out files, and its writes cause journal and metadata writes
    (measured on ext4 and xfs: 0.4 to 3.5 times the data if each write is followed by fsync).
    There only the second estimate is used, writes of a load that writes are not judged, and other
    writes are a doubt at most: they may be the writeback of laid-out files.
    """
    device, own = by_device(case), by_load(case)
    span = measured(case)
    if device is None or own is None or not span or not case.seconds:
        return  # of 0 s: it was over before the moment that it was to begin at
    for operation in OPERATIONS:
        excess = _excess(case, operation, device.of(operation), own.of(operation))
        share = excess / (own.total * case.seconds / span)
        if excess < LEAST or share < DOUBTFUL:
            continue
        verb = {"read": "read", "write": "wrote"}[operation]
        what = (
            f"{case.scene.device} {verb} about {format_bytes(int(excess))} beyond the I/O of the"
            f" load, {share:.0%} of its bytes"
        )
        perhaps_own = operation == "write" and case.scene.kind != "device"
        yield foreign_io.doubt(what, invalid=share >= INVALID and not perhaps_own)


def _excess(case: LoadEvidence, operation: str, counted: float, asked: float) -> float:
    """Bytes of one direction that are not the load's; 0 where nobody can tell."""
    scene = case.scene
    used = bool({"read": scene.reads, "write": scene.writes}[operation] or asked)
    on_files = scene.kind != "device"
    if used and (not scene.direct or not asked or (operation == "write" and on_files)):
        return 0.0
    span = measured(case)
    rate = asked / span
    window = at_the_end(case)
    accounts = []
    if not on_files:
        before = (case.seconds - span) * (1.0 if window else HASTE)
        accounts.append(counted - rate * (span + before))
    if window:
        grown = window[-1].moved.of(operation) - window[0].moved.of(operation)
        accounts.append((grown / (window[-1].t - window[0].t) - rate) * case.seconds)
    return max(0.0, min(accounts, default=0.0))


_LAYER = re.compile(r"(dm-|md)\d")


@check(
    "other-disk",
    "the load used another disk",
    looks_at="the disks that fio's report names (`disk_util`); the target and what it is built on",
    limit="another disk in addition to the target (doubt) or in its place (INVALID)",
    remedy="Check the file names in the job file, and the device behind the target's path.",
    source="fio(1), JSON output; diskutil.c of fio 3.33",
    invalid=True,
)
def other_disk(case: LoadEvidence) -> Iterator[Doubt]:
    """The report of the load names another disk than the target.

    The files of a load are computed before it starts, and the files that it holds open for writing
    are checked while it runs; this check uses the report of the load itself, and so includes files
    that it only read.  fio names the disk of every file that it opened, with the underlying disks
    (init_disk_util in diskutil.c, 3.33).  A layer in between (dm, md) that is missing from the
    topology is not another disk.
    """
    known = {case.scene.device, *case.scene.disks, *case.scene.below}
    others = [name for name in case.named if name not in known and not _LAYER.match(name)]
    if not case.scene.device or not others:
        return
    alone = not known.intersection(case.named)
    yield other_disk.doubt(
        f"the load reports I/O on {', '.join(others)}, but the target is {case.scene.device}",
        invalid=alone,
    )


PLACE = "/proc/mdstat"
_ARRAY = re.compile(r"^(md\S*) : (.*)$")
_WORK = re.compile(r"\b(resync|recovery|reshape|check|repair)\s*=\s*([0-9.]+%)")
_MEMBER = re.compile(r"\b([\w/!-]+)\[\d+\]")
_PARTITION = re.compile(r"((?:s|h|v|xv)d[a-z]+)\d+|((?:nvme\d+n|mmcblk|md|loop)\d+)p\d+")


@check(
    "resync",
    "an array ran a resync, rebuild or check",
    looks_at="/proc/mdstat before and after the load",
    limit=(
        "any resync, recovery, reshape, check or repair in progress: INVALID if the target is"
        " on the array or shares a disk with it, else a doubt"
    ),
    remedy="Wait until it ends, or: echo idle > /sys/block/mdN/md/sync_action",
    source="Documentation/admin-guide/md.rst of the kernel",
    invalid=True,
    reads=lambda _scene: (CheckReading(Probe(PLACE), str.strip),),
)
def resync(case: LoadEvidence) -> Iterator[Doubt]:
    """An md array rebuilt, reshaped or checked itself while the load ran.

    Of an array that the target is, or whose members lie on the target's disks, it makes the trial
    INVALID; elsewhere on the machine it is a doubt (shared adapters, shared CPU).  A scrub of
    btrfs, ZFS or LVM's raid is not in /proc: the device's own counters show it (``foreign-io``).

    Source: Documentation/admin-guide/md.rst (sync_action); drivers/md/md.c, status_resync().
    """
    at_work = {**_at_work(case.before.text(PLACE)), **_at_work(case.after.text(PLACE))}
    for array, (what, members) in at_work.items():
        ours = array == case.scene.device or bool({array, *members} & _disks(case.scene))
        where = "used by the target" if ours else "not used by the target"
        yield resync.doubt(f"array {array} ({where}) is in maintenance: {what}", invalid=ours)


def _disks(scene: CheckContext) -> set[str]:
    return {_whole(name) for name in (*scene.disks, scene.device) if name}


def _whole(name: str) -> str:
    """The disk of a partition.

    >>> [_whole(name) for name in ("nvme0n1p2", "sda3", "md0", "nvme0n1", "loop5")]
    ['nvme0n1', 'sda', 'md0', 'nvme0n1', 'loop5']
    """
    found = _PARTITION.fullmatch(name)
    return next(filter(None, found.groups())) if found else name


def _at_work(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Array → what it does, and the disks that its members lie on."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    array, members = "", frozenset[str]()
    for line in text.splitlines():
        if head := _ARRAY.match(line):
            array, members = head[1], frozenset(map(_whole, _MEMBER.findall(head[2])))
        elif array and (work := _WORK.search(line)):
            found[array] = (f"{work[1]} at {work[2]}", members)
    return found


ENOUGH = 100
"""I/Os of each path on average, below which shares are chance."""
IDLE = 0.01
"""Of an even share: a path with less stands by."""
SIGMAS = 4.0
_FINISHED = (0, 4)
_PAIR = 2


@check(
    "uneven-paths",
    "the load was not spread evenly over paths, adapters or NUMA nodes",
    looks_at=(
        "`/sys/block/PATH/stat` of each path of a multipath map or NVMe namespace, and of each"
        " member of a striped array; their place in the topology"
    ),
    limit=(
        f"{UNEVEN:.0%} above or below an even share, beyond chance; or all I/O through one of"
        " several. Paths without I/O count as standby"
    ),
    remedy=(
        "Paths: check the path selector and the priorities (`multipath -ll`, `nvme"
        " list-subsys`), and spread ports over adapters. Members: check the chunk size against"
        " the block size, the alignment and the address range of the load."
    ),
    source="Documentation/block/stat.rst; multipath.conf(5)",
    reads=lambda scene: [CheckReading(Probe(_place(disk))) for disk, _, _ in scene.ways],
)
def uneven_paths(case: LoadEvidence) -> Iterator[Doubt]:
    """One path of several carried more than its share, or one adapter, or one NUMA node.

    Paths of a multipath map or an NVMe namespace, and members of an array that stripes, are meant
    to carry alike.  The kernel's counters of each are read before and after the load.  Paths that
    carry nothing are not counted among the others: with asymmetric access (ALUA, ANA) some only
    stand by; but where all goes through one, or through one adapter of two, it is said.

    Sources: Documentation/block/stat.rst; multipath.conf(5) (path_selector, path_grouping_policy,
    prio); counts of independent I/Os vary by their square root.
    """
    done = dict(_done(case))
    if len(done) < _PAIR or sum(done.values()) < ENOUGH * len(done):
        return
    of = f"the {len(done)} paths and members of {case.scene.device}"
    used = _used(done)
    if len(used) == 1:
        yield uneven_paths.doubt(f"all I/O of {of} went through {next(iter(used))}")
        return
    if said := _beyond_chance(used, f"of the I/O of {of}"):
        yield uneven_paths.doubt(said)
    for what, column in (("adapter", 1), ("NUMA node", 2)):
        sums: dict[str, int] = {}
        for way in case.scene.ways:
            if way[column] and way[0] in done:
                name = f"node {way[column]}" if column > 1 else way[column]
                sums[name] = sums.get(name, 0) + done[way[0]]
        carrying = _used(sums)
        if len(sums) > 1 and len(carrying) == 1:
            idle = ", ".join(name for name in sums if name not in carrying)
            went = f"went through {what} {next(iter(carrying))}, and nothing through {idle}"
            yield uneven_paths.doubt(f"all I/O of {of} {went}")
        elif said := _beyond_chance(carrying, f"of the I/O of {of}, by {what}"):
            yield uneven_paths.doubt(said)


def _done(case: LoadEvidence) -> Iterator[tuple[str, int]]:
    """Each path and how many I/Os it finished between the snapshots."""
    for disk, _, _ in case.scene.ways:
        first, last = (_finished(s.text(_place(disk))) for s in (case.before, case.after))
        if first is not None and last is not None and last >= first:
            yield disk, last - first


def _finished(text: str) -> int | None:
    fields = text.split()
    if len(fields) <= _FINISHED[1]:
        return None
    return sum(int(fields[place]) for place in _FINISHED)


def _used(done: Mapping[str, int]) -> dict[str, int]:
    mean = sum(done.values()) / len(done) if done else 0.0
    return {name: count for name, count in done.items() if count > IDLE * mean}


def _beyond_chance(done: Mapping[str, int], words: str) -> str:
    """Who carried how much, where that is far from even; else ''."""
    found = apart(done)
    mean = sum(done.values()) / len(done) if done else 0.0
    if not found or abs(found[1] - 1) * mean < SIGMAS * sqrt(mean):
        return ""
    most = max(done, key=lambda name: done[name])
    return (
        f"{most} carried {done[most] / sum(done.values()):.0%} {words} (even: {1 / len(done):.0%})"
    )


# -- what the kernel said of it -------------------------------------------------------------------

_KERNEL = """
said=$(dmesg 2>/dev/null) && [ -n "$said" ] || exit 1
printf '%s\\n' "$said" | grep -iE "$1" | tail -n 200
"""
_COARSE = (
    "error|tim(ed|ing) ?out|timeout|reset|fail|offline|down|lost|read-only|corrupt|respond|emask"
    "|reconnect"
)
"""What is sent at all: a busy kernel's log may be a megabyte, twice a trial and host."""
_LOG = Probe(argv=("sh", "-c", _KERNEL, "iotrial-kernel-log", _COARSE))
_MOST_LINES = 60
_FAILURE = re.compile(
    r"I/O error"
    r"|critical \w+( \w+)? error"
    r"|(Medium|Hardware) Error"
    r"|tim(ed|ing) ?out|\btimeout\b"
    r"|reset(ting)? (controller|adapter|device|host|link)|hard resetting"
    r"|(controller|device|host) reset"
    r"|Failing path|rejecting I/O|[Oo]fflined|Disk failure|link is down|Emask"
    r"|[Ll]ost (async )?page write|Remounting filesystem read-only"
    r"|(EXT\d-fs|BTRFS|XFS|F2FS-fs|JBD2)\b.*\b([Ee]rror|[Cc]orruption|[Ss]hut(ting)? ?[Dd]own)"
    r"|keep_alive_end_io error|starting error recovery|Reconnecting in|Failed reconnect"
    r"|server .* not responding"
)
_WORD = re.compile(r"[\w!:.-]+")
_CONTROLLER = re.compile(r"nvme(?:\d+c)?(\d+)n\d+")
"""Its number: of a path, nvme0c1n1, it is the second (nvme_mpath_set_disk_name())."""


def _failures(text: str) -> str:
    """The last lines of the kernel's log that tell of a failure."""
    return "\n".join([x for x in text.splitlines() if _FAILURE.search(x)][-_MOST_LINES:])


def _names(scene: CheckContext) -> list[str]:
    """The device under test, and all that it is built on."""
    ways = (disk for disk, _, _ in scene.ways)
    every = (scene.device, *scene.disks, *ways, *scene.below)
    return list(dict.fromkeys(name for name in every if name))


def _number(device: str) -> str:
    return f"/sys/block/{device}/dev"


@check(
    "kernel-errors",
    "the kernel reported errors of the device",
    looks_at="new lines of the kernel's log (`dmesg`) after the load",
    limit=(
        "any error, timeout, reset or failed path that names the device, its file system or"
        " what it is built on: INVALID; a server that does not answer: a doubt, or INVALID where"
        " the load has no device of its own"
    ),
    remedy="Read `dmesg`; check cables, paths, the drive (smartctl, nvme) and the backing storage.",
    source="the kernel's messages: block, drivers/scsi, drivers/nvme, drivers/md, fs",
    invalid=True,
    reads=lambda scene: [
        CheckReading(_LOG, _failures),
        *(CheckReading(Probe(_number(name)), str.strip) for name in _names(scene)),
    ],
)
def kernel_errors(case: LoadEvidence) -> Iterator[Doubt]:
    """The kernel's log tells of errors of the device while the load ran.

    A device that errs is retried, reset or failed over, and the load sees only that some I/Os took
    seconds: the trial measures the fault.  New lines of the log are those that were not in it
    before the load; they count where they name the device, a disk, path or layer below it (by name,
    by major:minor, or by its NVMe controller).  Where the log cannot be read (dmesg_restrict in a
    container), nothing is said.
    """
    before = Counter(case.before.text(_LOG.place).splitlines())
    new = Counter(case.after.text(_LOG.place).splitlines()) - before
    if not new or _LOG.place not in case.before.said:
        return
    names = _names(case.scene)
    numbers = {text for name in names if (text := case.after.text(_number(name)))}
    known = {*names, *numbers, *(f"nvme{m[1]}" for n in names if (m := _CONTROLLER.match(n)))}
    ours, servers = [], []
    for line in new:
        words = {word.strip(".:-") for word in _WORD.findall(line)}
        if known & (words | {_whole(word) for word in words}):
            ours.append(line)
        elif "not responding" in line:
            servers.append(line)
    if ours:
        yield kernel_errors.doubt(_quoted(ours), invalid=True)
    if servers:
        yield kernel_errors.doubt(_quoted(servers), invalid=not case.scene.device)


def _quoted(lines: Sequence[str]) -> str:
    first = re.sub(r"^(<\d+>)?\[ *[\d.]+\] *", "", lines[0])
    more = f" (and {len(lines) - 1} more lines)" if len(lines) > 1 else ""
    return f"the kernel said: {first[:200]}{more}"


_STATES = ("running", "live")
_MULTIPATH = Probe(argv=("dmsetup", "status", "--target", "multipath"), pick="whole")
_PATH_STATE = re.compile(r"\b(\d+:\d+) ([AF])\b")


def _state(path: str) -> str:
    return f"/sys/block/{path}/device/state"


def _of_paths(scene: CheckContext) -> Iterator[CheckReading]:
    for path, _, _ in scene.ways:
        yield CheckReading(Probe(_state(path)), str.strip)
        yield CheckReading(Probe(_number(path)), str.strip)
    if scene.ways and scene.device.startswith("dm-"):
        yield CheckReading(_MULTIPATH, str.strip)


@check(
    "lost-path",
    "a path to the device is down",
    looks_at=(
        "`/sys/block/PATH/device/state` of each path of a multipath map or NVMe namespace;"
        " `dmsetup status` of the map"
    ),
    limit="down before and after the load: a doubt; before or after: INVALID",
    remedy="Repair the path (`multipath -ll`, `nvme list-subsys`, the switch), or take it out.",
    source="multipath(8); dm-mpath.c, multipath_status(); enum scsi_device_state of the kernel",
    invalid=True,
    reads=_of_paths,
)
def lost_path(case: LoadEvidence) -> Iterator[Doubt]:
    """A path of several is down: offline, transport-offline, not live, or failed by multipath.

    A path that stands by (ALUA, ANA) is up, and takes over when it is needed; one that is down does
    not, and the others carry its load.  A path that was lost, came back, or was removed during the
    load makes the trial INVALID: two different machines were measured.
    """
    before, after = (_down(case.scene, each) for each in (case.before, case.after))
    for path, _, _ in case.scene.ways:
        there = [_known(path, each) for each in (case.before, case.after)]
        if there == [True, False]:
            after[path] = "it is not there any more"
        elif there == [False, True]:
            before[path] = "it was not there"
    for path in dict.fromkeys((*before, *after)):
        of = f"path {path} of {case.scene.device}"
        if path in before and path in after:
            yield lost_path.doubt(f"{of} is down ({after[path]}): it does not stand by")
        elif path in after:
            yield lost_path.doubt(f"{of} went down during the load ({after[path]})", invalid=True)
        else:
            yield lost_path.doubt(f"{of} came back during the load", invalid=True)


def _known(path: str, seen: Snapshot) -> bool:
    """Whether there was such a path: one that is given up for good (ctrl_loss_tmo, dev_loss_tmo
    of a port) leaves /sys.  A hidden path of NVMe has no number, a virtio disk no state."""
    return bool(seen.text(_state(path)) or seen.text(_number(path)))


def _down(scene: CheckContext, seen: Snapshot) -> dict[str, str]:
    """Paths that are down, each with its state."""
    failed = {
        number for number, state in _PATH_STATE.findall(seen.text(_MULTIPATH.place)) if state == "F"
    }
    found = {}
    for path, _, _ in scene.ways:
        state = seen.text(_state(path))
        if state and state not in _STATES:
            found[path] = state
        elif seen.text(_number(path)) in failed:
            found[path] = "failed in the multipath map"
    return found
