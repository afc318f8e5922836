"""Family ``queue``: the block layer's settings, ``/sys/block/DEVICE/queue/``.

Sources: the kernel's Documentation/ABI/stable/sysfs-block and Documentation/block/
(deadline-iosched, kyber-iosched, bfq-iosched); what each row moves was measured on a 6.18 kernel
(November 2026) with ``iotrial.execute.settings.moves`` and is measured again by the integration
tests.

Ranks: 10 the scheduler, which resets or replaces much of the rest; 20 what commits new queue
limits, and so may raise ``read_ahead_kb``; 30 what moves nothing; 40 ``nr_requests``, which
resets mq-deadline's ``async_depth``; 50 what the above move; 60 to 80 the scheduler's own.

Left out on purpose: ``io_poll`` and ``io_poll_delay`` (writes are ignored or EINVAL since 5.19),
``discard_max_bytes`` (on a device whose limit is no multiple of its granularity the former value
cannot be written back, and 0 cannot be left again: seen on loop devices with 6.18) and
``write_cache`` (``write through`` on a disk with a volatile cache loses data with the power).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iotrial.model.tunable import Domain, Tunable

FAMILY = "queue"
TITLE = "block queue: scheduler, depths, sizes, merging"

_ABI = "kernel Documentation/ABI/stable/sysfs-block"
_BLOCK = "kernel Documentation/block"
_INT = 2**31 - 1
_UINT = 2**32 - 1

_ALIASES = (
    ("deadline", "mq-deadline"),
    ("noop", "none"),
    ("mq-deadline", "deadline"),
    ("none", "noop"),
)
"""The single-queue schedulers, which 5.0 removed, and what does the same with many queues; for
either kind of kernel the names of the other.  cfq has no successor that does the same."""

DomainOf = Callable[[bytes], Domain]

_READ_AHEAD = ("queue.read_ahead_kb",)
_LIMITS = "Committing queue limits raises read_ahead_kb to what the kernel finds right."


def schedulers(raw: bytes) -> Domain:
    """``none [mq-deadline] kyber`` → what this kernel offers for this device."""
    names = tuple(raw.decode("ascii", "replace").replace("[", "").replace("]", "").split())
    renamed = tuple(pair for pair in _ALIASES if pair[1] in names and pair[0] not in names)
    return Domain(choices=names, aliases=renamed)


def _between(low: int | None, high: int | None) -> DomainOf:
    return lambda _raw: Domain(low=low, high=high)


def _one_of(*choices: str) -> DomainOf:
    return lambda _raw: Domain(choices=choices)


_SWITCH = _one_of("0", "1")


def _path(name: str) -> str:
    return "/sys/block/{device}/queue/" + name


_OWN = (
    Tunable(
        name="queue.scheduler",
        path=_path("scheduler"),
        scope="disk",
        summary="which I/O scheduler orders the requests of this device",
        rank=10,
        moves=("queue.nr_requests", "queue.async_depth", "queue.iosched.*", "queue.wbt_lat_usec"),
        domain=schedulers,
        pick="chosen",
        risk=(
            "Even writing the scheduler in force resets nr_requests under `none`. bfq turns"
            " writeback throttling off, unless wbt_lat_usec was ever written manually."
        ),
        moot="A dm or bio-based md device has no queue of its own: the disks below it are set.",
        source=f"{_ABI}; {_BLOCK}/switching-sched.rst; measured on 6.18",
    ),
    Tunable(
        name="queue.max_sectors_kb",
        path=_path("max_sectors_kb"),
        scope="disk",
        summary="the largest request the block layer builds",
        unit="KiB",
        rank=20,
        moves=_READ_AHEAD,
        domain=_between(4, _UINT),
        risk=f"{_LIMITS} More than max_hw_sectors_kb is cut down to it; 0 means the default.",
        moot="The block size of the load stays below it.",
        source=f"{_ABI}; measured on 6.18",
    ),
    Tunable(
        name="queue.rotational",
        path=_path("rotational"),
        scope="disk",
        summary="whether the kernel takes the device for one with a seek time",
        rank=20,
        moves=_READ_AHEAD,
        domain=_SWITCH,
        risk=f"{_LIMITS} File systems read it at mount time only.",
        source=f"{_ABI}; measured on 6.18",
    ),
    Tunable(
        name="queue.add_random",
        path=_path("add_random"),
        scope="disk",
        summary="whether completions feed the kernel's entropy pool",
        rank=20,
        moves=_READ_AHEAD,
        domain=_SWITCH,
        risk=_LIMITS,
        moot="Below some 100,000 IOPS its cost is not measurable.",
        source=f"{_ABI}; measured on 6.18",
    ),
    Tunable(
        name="queue.iostats",
        path=_path("iostats"),
        scope="disk",
        summary="whether /proc/diskstats counts this device",
        rank=20,
        moves=_READ_AHEAD,
        domain=_SWITCH,
        risk=f"{_LIMITS} Off, a trial has no device telemetry and foreign I/O goes unseen.",
        moot="Below some 100,000 IOPS its cost is not measurable.",
        source=f"{_ABI}; measured on 6.18",
    ),
    Tunable(
        name="queue.nomerges",
        path=_path("nomerges"),
        scope="disk",
        summary="how hard to look for merges: 0 fully, 1 only the cheap way, 2 not at all",
        rank=30,
        domain=_one_of("0", "1", "2"),
        moot="Random I/O has nothing to merge: then only the cost of looking differs.",
        source=_ABI,
    ),
    Tunable(
        name="queue.rq_affinity",
        path=_path("rq_affinity"),
        scope="disk",
        summary="where a request completes: 0 anywhere, 1 CPU group that asked, 2 the very CPU",
        rank=30,
        domain=_one_of("0", "1", "2"),
        moot="One CPU, or one hardware queue per CPU.",
        source=_ABI,
    ),
    Tunable(
        name="queue.nr_requests",
        path=_path("nr_requests"),
        scope="disk",
        summary="how many requests may wait in the scheduler (or in the tag set, under none)",
        unit="requests",
        rank=40,
        moves=("queue.async_depth", "queue.iosched.async_depth"),
        domain=_between(4, 10240),
        risk=(
            "Under none more than the device's tags is EINVAL, under a scheduler more than 2048"
            " (6.18). It is not the number of requests in flight on the device."
        ),
        moot="The load's depth stays below it.",
        source=f"{_ABI}; include/linux/blk-mq.h BLK_MQ_MAX_DEPTH; measured on 6.18",
    ),
    Tunable(
        name="queue.async_depth",
        path=_path("async_depth"),
        scope="disk",
        summary="how many asynchronous requests may wait in the scheduler (kernels after 6.18)",
        unit="requests",
        rank=50,
        domain=_between(1, _UINT),
        moot="The load is synchronous, or the scheduler is none.",
        source=_ABI,
    ),
    Tunable(
        name="queue.read_ahead_kb",
        path=_path("read_ahead_kb"),
        summary="how far the page cache reads ahead of a sequential reader",
        unit="KiB",
        rank=50,
        domain=_between(0, _UINT),
        risk="Rounded down to whole pages. Raised again by whatever commits queue limits.",
        moot="Direct I/O does not go through the page cache.",
        source=f"{_ABI}; block/blk-settings.c blk_apply_bdi_limits(); measured on 6.18",
    ),
    Tunable(
        name="queue.wbt_lat_usec",
        path=_path("wbt_lat_usec"),
        scope="disk",
        summary="read latency above which background writeback is held back; 0 is off",
        unit="µs",
        rank=50,
        domain=_between(0, 2**53),
        risk=(
            "Once written manually it no longer follows the scheduler, until the device goes; no"
            " file shows that. Under bfq the hidden default is taken as no change and stays 0."
        ),
        moot="No buffered writes, or the root cgroup's writeback is all there is.",
        source=f"{_ABI}; block/blk-wbt.c; measured on 6.18",
    ),
)


@dataclass(frozen=True, slots=True)
class _Scheduler:
    """Whose rows these are, and where the kernel documents them."""

    name: str
    source: str

    def row(self, name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
        return Tunable(
            name=f"queue.iosched.{name}",
            path=_path(f"iosched/{name}"),
            scope="disk",
            summary=f"{self.name}: {summary}",
            domain=domain,
            lasts="until the scheduler of the device is changed",
            source=f"{_BLOCK}/{self.source}; measured on 6.18",
            **{"rank": 65, "moot": f"The scheduler is not {self.name}.", **more},
        )


_deadline = _Scheduler("mq-deadline", "deadline-iosched.rst")
_kyber = _Scheduler("kyber", "kyber-iosched.rst")
_bfq = _Scheduler("bfq", "bfq-iosched.rst")

_TICKS = "Rounded up to the kernel's tick (4 ms at 250 Hz): levels are best multiples of it."
_UNSIGNED_LONG_LONG = _between(0, 2**64 - 1)
_AT_LEAST_1 = _between(1, _INT)
_HERE = _between(0, _INT)
_MILLISECONDS = _between(0, _INT - 3)  # the last tick would be shown as a negative number

_SCHEDULERS = (
    _deadline.row("read_expire", "deadline of a read", _MILLISECONDS, unit="ms", risk=_TICKS),
    _deadline.row("write_expire", "deadline of a write", _MILLISECONDS, unit="ms", risk=_TICKS),
    _deadline.row(
        "prio_aging_expire",
        "after how long low priority is served despite higher",
        _MILLISECONDS,
        unit="ms",
        risk=_TICKS,
    ),
    _deadline.row("writes_starved", "batches of reads before one of writes", _HERE),
    _deadline.row("front_merges", "whether to look for front merges", _SWITCH),
    _deadline.row("fifo_batch", "requests in one batch", _HERE, unit="requests"),
    _deadline.row(
        "async_depth",
        "how many requests writes may hold at once",
        _between(1, _INT),
        unit="requests",
        risk="Reset to nr_requests whenever that is changed.",
    ),
    _kyber.row("read_lat_nsec", "latency aimed at for reads", _UNSIGNED_LONG_LONG, unit="ns"),
    _kyber.row("write_lat_nsec", "latency aimed at for writes", _UNSIGNED_LONG_LONG, unit="ns"),
    _bfq.row(
        "strict_guarantees",
        "serve one request at a time, always idle",
        _SWITCH,
        rank=60,
        moves=("queue.iosched.slice_idle", "queue.iosched.slice_idle_us"),
        risk="Turning it on raises a slice_idle below 8 ms to 8 ms.",
    ),
    _bfq.row(
        "slice_idle",
        "how long to wait for the next request of a queue",
        _between(0, 4294),
        unit="ms",
        rank=70,
        moves=("queue.iosched.slice_idle_us",),
        risk="The same value as slice_idle_us in other units; above 4294 it wraps round.",
    ),
    _bfq.row(
        "slice_idle_us",
        "how long to wait for the next request of a queue",
        _between(0, 4294967),
        unit="µs",
        rank=80,
        moves=("queue.iosched.slice_idle",),
        risk="The same value as slice_idle in other units; above 4294967 it wraps round.",
    ),
    _bfq.row("fifo_expire_sync", "deadline of a synchronous request", _AT_LEAST_1, unit="ms"),
    _bfq.row("fifo_expire_async", "deadline of an asynchronous request", _AT_LEAST_1, unit="ms"),
    _bfq.row("back_seek_max", "longest backward seek considered", _HERE, unit="KiB"),
    _bfq.row("back_seek_penalty", "cost of a backward seek against a forward", _AT_LEAST_1),
    _bfq.row(
        "max_budget",
        "sectors a queue may be served at a time; 0 is automatic",
        _HERE,
        unit="sectors",
    ),
    _bfq.row(
        "timeout_sync",
        "longest time a queue is served at a time",
        _AT_LEAST_1,
        unit="ms",
        risk=_TICKS,
    ),
    _bfq.row("low_latency", "favour interactive and soft real-time loads", _SWITCH),
)

TUNABLES: tuple[Tunable, ...] = _OWN + _SCHEDULERS
