"""Family ``md``: software RAID arrays, ``/sys/block/mdN/md/``.

Sources: Documentation/admin-guide/md.rst, md(4), mdadm(8) of 4.2, drivers/md/{md,md-bitmap,raid5}.c
as of Linux 6.1.  In a virtual machine (6.1, RAID1) ``mdadm --grow --bitmap`` to none and back to
internal was seen; the rest was not measured.

The read-ahead of an array is ``queue.read_ahead_kb`` on it.  The machine's own limits of
resynchronisation are ``sysctl.dev.raid.speed_limit_min`` and ``_max``, there once a RAID module is
loaded.

A bitmap is ``none`` or ``internal BYTES``: the size of its chunks belongs to the value, because
mdadm would choose another when it is made again.  Its place in the metadata is mdadm's choice.  A
*clustered* bitmap (and one in a file) is no factor: mdadm 4.2 cannot make it again on a running
array ("disks marked write-mostly are not supported with clustered bitmap", although none are: seen
on 6.1), so nothing else is taken there.

Left out on purpose: ``array_state``, ``sync_action``, ``resync_start``, ``reshape_*``, ``level``,
``layout``, ``raid_disks``, ``chunk_size`` (acts, or they reshape the data), ``suspend_*`` (blocks
writers), ``stripe_size`` (fixed where pages are 4 KiB), ``bitmap/backlog`` (only with write-mostly
members, and it is part of the bitmap that mdadm makes).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "md"
TITLE = "software RAID arrays: resync speed, stripe cache, bitmap, consistency policy"

_FOLDER = "/sys/block/{device}/md/"
_RST = "kernel Documentation/admin-guide/md.rst"
_RAID5 = f"{_RST}; drivers/md/raid5.c"
_UNMEASURED = "not measured"
_PARITY = "RAID levels other than 4, 5 and 6: the file is not there."
_QUIET = "No resync, recovery or check runs during the trial, as it should be."
_METADATA = "for good: it stands in the metadata of the array"
_KIB = 1024
_INTERNAL = re.compile(r"internal ([0-9]+)")

DomainOf = Callable[[bytes], Domain]


def _between(low: int, high: int) -> DomainOf:
    return lambda _raw: Domain(low=low, high=high)


def bitmaps(raw: bytes) -> Domain:
    """What can be asked for where ``raw`` was read: nothing else where it cannot be made again."""
    now = " ".join(raw.decode("ascii", "replace").split())
    again = now == "none" or _INTERNAL.fullmatch(now)
    return Domain(rule=_bitmap_problem) if again else Domain(choices=(now,))


def _bitmap_problem(value: str) -> str:
    size = _INTERNAL.fullmatch(value)
    if value == "none" or (size and int(size[1]) and int(size[1]) % _KIB == 0):
        return ""
    return f"{value!r} is not none, nor `internal BYTES` with whole KiB, as: internal 67108864"


def policies(raw: bytes) -> Domain:
    """``ppl`` and ``resync`` can be exchanged while the array runs, nothing else."""
    now = raw.decode("ascii", "replace").strip()
    return Domain(choices=("resync", "ppl") if now in ("resync", "ppl") else (now,))


def _row(name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
    return Tunable(
        f"md.{name.rpartition('/')[2]}",
        _FOLDER + name,
        summary,
        scope="array",
        domain=domain,
        **{
            "layer": "md",
            "lasts": "until the array is stopped or the machine reboots",
            "source": f"{_RST}; {_UNMEASURED}",
            **more,
        },
    )


def _speed(name: str, summary: str, moot: str) -> Tunable:
    """``1000 (system)`` or ``5000 (local)``: a number that is the machine's is ``system``, so
    that it follows the machine again when it is given back."""
    return _row(
        name,
        f"{summary}; system: the machine's own limit",
        lambda _raw: Domain(low=1, high=2**32 - 1, words=("system",)),
        unit="KiB/s for each member",
        read=("sed", "-e", "s/.*(system).*/system/", "-e", "s/ .*//", _FOLDER + name),
        how=lambda device, value: (
            Change("write", path=_FOLDER.format(device=device) + name, data=value),
        ),
        risk="Resync takes the members from the load, or takes for ever.",
        moot=moot,
        source=f"{_RST}; drivers/md/md.c sync_min_show(); {_UNMEASURED}",
    )


def _bitmap(device: str, value: str) -> tuple[Change, ...]:
    if value.startswith(("clustered", "file")):
        return ()  # never changed, see bitmaps()
    without = Change("write", path=_FOLDER.format(device=device) + "bitmap/location", data="none")
    if value == "none":
        return (without,)
    if problem := _bitmap_problem(value):
        raise UsageError(f"md.bitmap: {problem}", advice="Say the size of a chunk too.")
    size = int(value.split()[1]) // _KIB
    grow = ("mdadm", "--grow", f"/dev/{device}", "--bitmap=internal")
    return (without, Change("run", argv=(*grow, f"--bitmap-chunk={size}K")))


def _policy(device: str, value: str) -> tuple[Change, ...]:
    if value not in ("resync", "ppl"):
        return ()  # it follows from something else (the bitmap, a journal)
    argv = ("mdadm", "--grow", f"/dev/{device}", f"--consistency-policy={value}")
    return (Change("run", argv=argv),)


TUNABLES: tuple[Tunable, ...] = (
    _speed(
        "sync_speed_min",
        "speed that resync and checks may have even while there is other I/O",
        _QUIET,
    ),
    _speed("sync_speed_max", "speed that resync and checks never exceed", _QUIET),
    _row(
        "sync_max",
        "sector up to which resync and checks go; max: to the end",
        lambda _raw: Domain(low=0, words=("max",)),
        unit="sectors",
        risk="Must be whole chunks. An array that stops there stays unprotected behind it.",
        moot=_QUIET,
        source=f"{_RST}; drivers/md/md.c max_sync_store(); {_UNMEASURED}",
    ),
    _row(
        "safe_mode_delay",
        "after how long without a write the array is marked clean",
        lambda _raw: Domain(),
        unit="s",
        risk=(
            "Written as it reads (0.201); rounded to the kernel's tick: at 300 Hz the former"
            " value may come back as one tick less. EINVAL on clustered arrays."
        ),
        moot="Writes never pause that long, or the array has a bitmap and few do.",
        source=f"{_RST}; drivers/md/md.c safe_delay_store(); {_UNMEASURED}",
    ),
    _row(
        "stripe_cache_size",
        "how many stripes the cache of a RAID 4, 5 or 6 holds",
        _between(17, 32768),
        unit="pages for each member",
        rank=40,
        risk="Memory: size × 4 KiB × members, at once; ENOMEM where there is none.",
        moot=f"{_PARITY} Or whole stripes are written.",
        source=f"{_RAID5} raid5_set_cache_size(); {_UNMEASURED}",
    ),
    _row(
        "preread_bypass_threshold",
        "how often full stripes may go before one that must be read first",
        _between(0, 32768),
        rank=50,
        risk="More than stripe_cache_size is EINVAL: which goes first depends on their values.",
        moot=f"{_PARITY} Or whole stripes are written.",
        source=f"{_RAID5} raid5_store_preread_threshold(); {_UNMEASURED}",
    ),
    _row(
        "group_thread_cnt",
        "how many threads compute parity on each NUMA node; 0: one for the array",
        _between(0, 8192),
        unit="threads",
        risk="The array is suspended for the moment of the change.",
        moot=f"{_PARITY} Or one CPU, or the members are slower than one thread.",
        source=f"{_RAID5} raid5_store_group_thread_cnt(); {_UNMEASURED}",
    ),
    _row(
        "rmw_level",
        "how parity is updated: 0 rebuild, 1 the cheaper way, 2 rather read-modify-write",
        lambda _raw: Domain(choices=("0", "1", "2")),
        risk="1 and 2 are EINVAL on RAID 6 where the CPU has no fast syndrome for it.",
        moot=f"{_PARITY} Or whole stripes are written.",
        source=f"drivers/md/raid5.c raid5_store_rmw_level(); {_UNMEASURED}",
    ),
    _row(
        "skip_copy",
        "whether whole-stripe writes go out of the page cache without a copy",
        lambda _raw: Domain(choices=("0", "1")),
        risk="The array is suspended for the moment of the change.",
        moot=f"{_PARITY} Or direct I/O.",
        source=f"{_RAID5}; {_UNMEASURED}",
    ),
    Tunable(
        "md.bitmap",
        _FOLDER + "bitmap/location",
        "the write-intent bitmap: none, or `internal BYTES` with the bytes one bit stands for",
        unit="bytes for each bit",
        layer="md",
        scope="array",
        rank=20,
        moves=("md.time_base", "md.consistency_policy"),
        lasts=_METADATA,
        durable=True,
        domain=bitmaps,
        read=(
            "sed",
            *("-e", "/^none/q", "-e", "/^[+-]/d"),
            _FOLDER + "bitmap/location",
            _FOLDER + "bitmap/metadata",
            _FOLDER + "bitmap/chunksize",
        ),
        how=_bitmap,
        risk=(
            "Without one, a crash or a lost member means a whole resync. EBUSY while the array"
            " resyncs. A clustered bitmap, or one in a file, cannot be made again: refused."
        ),
        moot="RAID 0 and linear have none; reads do not care.",
        source=(
            f"{_RST}; mdadm(8); drivers/md/md-bitmap.c location_store(); seen on 6.1 with RAID1"
            " and mdadm 4.2 in both directions, the chunk size not measured"
        ),
    ),
    _row(
        "bitmap/time_base",
        "after how long bits of the bitmap that are no longer needed are cleared",
        lambda _raw: Domain(),
        unit="s",
        rank=40,
        lasts=_METADATA,
        durable=True,
        risk="Recreated with the bitmap. Rounded to the kernel's tick.",
        moot="No bitmap, or few writes.",
        source=f"{_RST}; drivers/md/md-bitmap.c timeout_store(); {_UNMEASURED}",
    ),
    _row(
        "consistency_policy",
        "how the array is made consistent after a crash: resync, ppl; bitmap, journal, none",
        policies,
        rank=40,
        lasts=_METADATA,
        durable=True,
        how=_policy,
        risk=(
            "ppl costs writes and needs room in the metadata of every member; only RAID 5, and"
            " never with a bitmap: take that away in a study of its own."
        ),
        moot="Levels other than 5.",
        source=f"{_RST}; mdadm(8) --consistency-policy; {_UNMEASURED}",
    ),
)
