"""Candidates: which knobs ``iotrial tune`` varies, at which levels and why; and why not others.

Pure: from what lies below the target, what the load is to storage, and what is in force.  A knob is
a candidate where this page has levels worth trying for it, the target has what it belongs to, this
host can set them, and the load can notice it.  It is none where a level may cost data when the
power fails, where it says what happens when something fails, where it is there to hold a load back,
or where it cannot be changed while the machine runs; a person may still name it.

Levels are those that tuning guides change (the profiles of tuned, the kernel's
Documentation/admin-guide and Documentation/block) and their neighbours: about a factor of four to
each side of what is in force.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from iotrial.errors import SettingRefused, UsageError
from iotrial.model.study import UNSET
from iotrial.model.target import Topology
from iotrial.model.tool import (
    SupportsCaching,
    SupportsCharacter,
    SupportsQueueing,
    WorkloadCharacter,
)
from iotrial.model.tunable import Domain, Tunable
from iotrial.model.workload import Workload
from iotrial.plan.problem import choices
from iotrial.tools import tool
from iotrial.tunables import CATALOGUE, all_tunables

SCHEDULER, REQUESTS = "queue.scheduler", "queue.nr_requests"
_NONE = ("none", "noop")
_COMING = ("cgroup.", "mount.")
"""Families that are there only once the run has made what they belong to."""


@dataclass(frozen=True, slots=True)
class KnobReading:
    """What a device says of a knob: the ``value`` in force, its ``domain``, and ``why`` it cannot
    be read or set here ('': it can).  ``likely``: the value is that of a device which stands in for
    one that is not made yet."""

    device: str
    value: str
    domain: Domain = field(default_factory=Domain)
    why: str = ""
    likely: bool = False


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """What else decides about levels: ``tags`` are the requests that the disk with the fewest takes
    (0: not known), ``transfer`` the largest request that it takes, in KiB (0: not known)."""

    cpus: int = 1
    numa: int = 1
    memory: int = 0
    swap: bool = False
    tags: int = 0
    transfer: int = 0


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """What a person wants of the choice: knobs ``named`` with their levels ((): those of this
    page), ``only`` these; patterns of knobs ``removed``."""

    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A knob to vary.  ``levels``: the baseline first, which is the value ``in_force`` or, where
    devices differ or are not made yet, :data:`iotrial.model.study.UNSET`."""

    knob: str
    levels: tuple[str, ...]
    reason: str
    in_force: str


@dataclass(frozen=True, slots=True)
class CandidateChoice:
    """The knobs ``taken``, and why each of the others that the target has was not: knob →
    reason."""

    taken: tuple[Candidate, ...]
    missing: Mapping[str, str]


def character_of(workload: Workload, facts: Mapping[str, float]) -> WorkloadCharacter:
    """What a load is to storage, as far as its tool knows.  Raises as the tool."""
    driver = tool(workload.tool)
    if isinstance(driver, SupportsCharacter):
        return driver.character(workload, facts)
    reach = driver.reach(workload)
    return WorkloadCharacter(
        reach.reads,
        reach.writes,
        buffered=not isinstance(driver, SupportsCaching) or bool(driver.buffered(workload)),
        depth=driver.depth(workload, facts) if isinstance(driver, SupportsQueueing) else 0,
    )


# -- the rules ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Case:
    """What a rule is asked about: a knob whose ``value`` is in force, for a load."""

    value: str
    choices: tuple[str, ...]
    load: WorkloadCharacter
    facts: CandidateFacts
    below: Topology
    known: Mapping[str, str]
    """Knob → the value in force, of those that were read."""
    schedulers: tuple[str, ...] = ()
    """Those that the disk may have: what is offered, or the one in force."""

    @property
    def number(self) -> int:
        """0 for what is none."""
        return int(self.value) if self.value.isdecimal() else 0

    def times(self, *shares: float, low: int = 1, high: int = 2**31 - 1) -> list[str]:
        """The value in force times each of these, within bounds; none of a 0."""
        found = (round(self.number * share) for share in shares)
        return [str(each) for each in found if self.number and low <= each <= high]

    def has(self, kind: str) -> bool:
        return any(node.scope == kind for node in self.below.nodes)

    def about(self, kind: str, name: str) -> set[str]:
        return {dict(node.about).get(name, "") for node in self.below.nodes if node.scope == kind}


_Others = Callable[["_Case"], Sequence[str]]
"""The levels to try beside the one in force."""
_Moot = Callable[[_Case], str]
"""Why a load cannot notice a knob, or ''."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """``others``: the levels to try beside the one in force."""

    knob: str
    reason: str
    others: _Others
    moot: tuple[_Moot, ...] = ()


def _needs(condition: Callable[[_Case], bool], why: str) -> _Moot:
    return lambda case: "" if condition(case) else why


def _fixed(*levels: str) -> _Others:
    return lambda _case: levels


def _times(*shares: float, usual: str = "", high: int = 2**31 - 1) -> _Others:
    """The value in force times each of these; and what the kernel begins with (``usual``), which
    is worth trying where another value is in force."""
    return lambda case: [*case.times(*shares, high=high), *filter(None, [usual])]


def _all(case: _Case) -> Sequence[str]:
    return case.choices


_SHALLOW, _DEEP = 8, 64
_HUGE = 2 << 20
_READS = _needs(lambda case: case.load.reads, "the load does not read")
_WRITES = _needs(lambda case: case.load.writes, "the load does not write")
_MIXED = _needs(
    lambda case: case.load.reads and case.load.writes, "the load does not both read and write"
)
_BUFFERED = _needs(lambda case: case.load.buffered, "all I/O of the load is direct")
_DIRECT = _needs(lambda case: not case.load.buffered, "the I/O of the load is buffered")
_SEQUENTIAL = _needs(lambda case: case.load.sequential, "the load is random")
_METADATA = _needs(lambda case: case.load.metadata, "the load opens few files")
_CPUS = _needs(lambda case: case.facts.cpus > 1, "the host has one CPU")
_NODES = _needs(lambda case: case.facts.numa > 1, "the host has one NUMA node")
_SWAPS = _needs(lambda case: case.facts.swap, "the host has no swap")
_WAITING = _needs(
    lambda case: 0 < case.load.depth <= _SHALLOW or not case.load.depth,
    f"the load keeps more than {_SHALLOW} I/Os in flight, so that CPUs seldom sleep",
)
_SLEEPS = _needs(
    lambda case: case.known.get("cpu.idle.state1.disable", "") != "",
    "the CPUs have no idle states to choose from",
)
_PARITY = _needs(
    lambda case: bool(case.about("array", "level") & {"raid4", "raid5", "raid6"}),
    "the array has no parity",
)
_MAP = _needs(lambda case: case.has("map"), "the target is not a multipath map")
_NIC = _needs(lambda case: case.has("nic"), "the storage is not reached over a network")
_EXT4 = _needs(lambda case: "ext4" in case.about("mount", "type"), "the file system is not ext4")
_NFS = _needs(
    lambda case: bool(case.about("mount", "type") & {"nfs", "nfs4"}), "the file system is not NFS"
)
_LINKED = _needs(
    lambda case: any("link" in dict(node.about) for node in case.below.nodes),
    "no PCIe link is on the way to the storage",
)
_NOT_ROOT = _needs(
    lambda case: "/" not in {node.name for node in case.below.nodes if node.scope == "mount"},
    "the root file system is not remounted for a trial",
)
_HUGE_BUFFERS = _needs(
    lambda case: not case.load.block or case.load.block >= _HUGE,
    "the buffers of the load are smaller than a huge page",
)


def _runs(scheduler: str) -> _Moot:
    return _needs(
        lambda case: case.known.get(SCHEDULER, "") == scheduler,
        f"the scheduler in force is not {scheduler}",
    )


def _deeper(case: _Case) -> str:
    """A queue that the load does not fill is as good as a longer one."""
    depth, least = case.load.depth, case.number // 4
    if case.load.buffered or not depth or depth > least:
        return ""
    return f"the load keeps at most {depth} I/Os in flight, fewer than any level would allow"


def _larger(case: _Case) -> str:
    """A request is as large as an I/O of the load, unless several are merged."""
    load, least = case.load, case.number // 4 * 1024
    if load.buffered or load.sequential or not load.block or load.block > least:
        return ""
    return "the I/Os of the load are random and smaller than any level"


def _requests(case: _Case) -> Sequence[str]:
    """Within the tags, beyond which the kernel refuses them without a scheduler."""
    most = case.facts.tags
    return [*case.times(1 / 4, 1 / 2, 2, low=4, high=most or 1024), *([str(most)] if most else ())]


def _sectors(case: _Case) -> Sequence[str]:
    """Some disks claim to take any size."""
    most = min(case.facts.transfer or case.number, 16384)
    return [*case.times(1 / 4, 4, low=64, high=most), str(most)]


def _ahead(case: _Case) -> Sequence[str]:
    if not case.load.sequential:
        return ["0", *case.times(1 / 4, low=16)]
    return [*case.times(1 / 4, 4, low=16, high=16384), "128"]


def _depths(case: _Case) -> Sequence[str]:
    said = case.known.get("scsi.host.can_queue", "")
    most = int(said) if said.isdecimal() else case.number
    return [*case.times(1 / 4, 4, low=1, high=most), *(["32"] if most >= 32 else ())]  # noqa: PLR2004


def _threads(case: _Case) -> Sequence[str]:
    return [str(count) for count in (0, 2, 4) if count <= case.facts.cpus]


def _free(case: _Case) -> Sequence[str]:
    """Too much leaves no memory to use."""
    return case.times(2, 4, high=case.facts.memory // 1024 // 50 or 1)


def _if(value: str, *levels: str) -> _Others:
    """Only where this value is in force is there something to gain."""
    return lambda case: levels if case.value == value else ()


def _triple(*shares: float) -> _Others:
    """Of three numbers the last: the most that a socket may grow to."""

    def others(case: _Case) -> Sequence[str]:
        *first, most = case.value.split() or [""]
        whole = most.isdecimal() and len(first) == 2  # noqa: PLR2004 (least, first, largest)
        return [" ".join([*first, str(round(int(most) * s))]) for s in shares if whole]

    return others


_PRECEDES = "queue.iosched."
_RULES = (
    _Rule(SCHEDULER, "schedulers differ in the order of requests and in CPU time", _all),
    _Rule(
        REQUESTS,
        "how many requests may wait decides how many can be ordered and merged, and for how long"
        " they wait",
        _requests,
        (_deeper,),
    ),
    _Rule(
        "queue.nomerges",
        "looking for requests to merge costs CPU time, and makes fewer and larger requests",
        _fixed("0", "1", "2"),
    ),
    _Rule(
        "queue.rq_affinity",
        "the CPU that completes a request may have its data in the cache, or be busy",
        _fixed("0", "1", "2"),
        (_CPUS,),
    ),
    _Rule(
        "queue.add_random",
        "each completion feeds the entropy pool, which costs CPU time",
        _if("1", "0"),
    ),
    _Rule(
        "queue.rotational",
        "bfq waits for the next request of a process on a disk with a seek time",
        _fixed("0", "1"),
        (
            _needs(
                lambda case: "bfq" in case.schedulers,
                "only bfq asks for it while a file system is mounted",
            ),
        ),
    ),
    _Rule(
        "queue.max_sectors_kb",
        "smaller requests wait for each other less, larger ones cost less CPU time",
        _sectors,
        (_larger,),
    ),
    _Rule(
        "queue.read_ahead_kb",
        "how much is read ahead decides whether a reader waits, and how much is read in vain",
        _ahead,
        (_READS, _BUFFERED),
    ),
    _Rule(
        "queue.iosched.read_expire",
        "after this time a read goes before requests in better order",
        _times(1 / 5, 4, usual="500"),
        (_runs("mq-deadline"), _READS),
    ),
    _Rule(
        "queue.iosched.writes_starved",
        "how long reads go before writes",
        _times(1 / 2, 4, usual="2"),
        (_runs("mq-deadline"), _MIXED),
    ),
    _Rule(
        "queue.iosched.fifo_batch",
        "long batches are in better order, short ones are fairer",
        _times(1 / 16, 4, usual="16"),
        (_runs("mq-deadline"),),
    ),
    _Rule(
        "queue.iosched.front_merges",
        "looking for front merges costs CPU time, and they are rare",
        _if("1", "0"),
        (_runs("mq-deadline"),),
    ),
    _Rule(
        "queue.iosched.read_lat_nsec",
        "kyber keeps as many reads in flight as meet this latency",
        _times(1 / 4, 4),
        (_runs("kyber"), _READS),
    ),
    _Rule(
        "queue.iosched.write_lat_nsec",
        "kyber keeps as many writes in flight as meet this latency",
        _times(1 / 4, 4),
        (_runs("kyber"), _WRITES),
    ),
    _Rule(
        "queue.iosched.slice_idle",
        "bfq waits for the next request of a process, while the disk does nothing",
        _fixed("0"),
        (_runs("bfq"),),
    ),
    _Rule(
        "queue.iosched.low_latency",
        "bfq favours interactive processes over throughput",
        _if("1", "0"),
        (_runs("bfq"),),
    ),
    _Rule(
        "scsi.queue_depth",
        "how many commands the disk has at once decides what it can order, and how long they wait",
        _depths,
        (_deeper,),
    ),
    _Rule(
        "nvme.iopolicy",
        "policies spread I/Os over the paths differently",
        _all,
    ),
    _Rule(
        "nvme.pm_qos_latency_tolerance_us",
        "a drive that sleeps between I/Os wakes up late",
        _fixed("0"),
        (_WAITING,),
    ),
    _Rule(
        "multipath.path_selector",
        "selectors spread I/Os over the paths differently",
        _fixed("service-time 0", "queue-length 0", "round-robin 0"),
        (_MAP,),
    ),
    _Rule(
        "md.stripe_cache_size",
        "a larger stripe cache gathers more writes to whole stripes",
        _times(4, 16, high=32768),
        (_PARITY, _WRITES),
    ),
    _Rule(
        "md.group_thread_cnt",
        "more threads compute parity on more CPUs",
        _threads,
        (_PARITY, _WRITES, _CPUS),
    ),
    _Rule(
        "md.rmw_level",
        "parity is updated by reading either the old blocks or the rest of the stripe",
        _fixed("0", "1", "2"),
        (_PARITY, _WRITES),
    ),
    _Rule(
        "md.preread_bypass_threshold",
        "stripes that must be read first wait for whole ones",
        _fixed("0"),
        (_PARITY, _WRITES),
    ),
    _Rule(
        "md.skip_copy",
        "without a copy whole-stripe writes cost less memory bandwidth",
        _fixed("0", "1"),
        (_PARITY, _WRITES, _BUFFERED),
    ),
    *(
        _Rule(
            f"crypt.{name}",
            "a work queue costs a switch of process, and brings other CPUs",
            _fixed("0", "1"),
            (moot,),
        )
        for name, moot in (
            ("no_read_workqueue", _READS),
            ("no_write_workqueue", _WRITES),
            ("same_cpu_crypt", _CPUS),
            ("submit_from_crypt_cpus", _WRITES),
        )
    ),
    _Rule(
        "mount.atime",
        "a read of a file that was written is noted in its access time",
        _fixed("relatime", "noatime"),
        (_NOT_ROOT, _MIXED),
    ),
    _Rule(
        "mount.lazytime",
        "each write changes the time of its file, which the file system must write as well",
        _fixed("unset", "on"),
        (_NOT_ROOT, _WRITES),
    ),
    _Rule(
        "mount.discard",
        "the device is told of freed blocks while the load waits",
        _if("on", "unset"),
        (_NOT_ROOT, _WRITES),
    ),
    _Rule(
        "mount.dioread_nolock",
        "direct reads wait for writes to the same file",
        _fixed("dioread_nolock", "nodioread_nolock"),
        (_NOT_ROOT, _EXT4, _DIRECT, _MIXED),
    ),
    _Rule(
        "mount.rsize",
        "larger requests to the server cost less, smaller ones begin earlier",
        _times(1 / 4, 4, high=1048576),
        (_NFS, _READS),
    ),
    _Rule(
        "mount.wsize",
        "larger requests to the server cost less, smaller ones begin earlier",
        _times(1 / 4, 4, high=1048576),
        (_NFS, _WRITES),
    ),
    _Rule(
        "mount.nconnect",
        "one TCP connection may be bound by one CPU",
        _fixed("4", "8"),
        (_NFS,),
    ),
    _Rule(
        "nfs.read_ahead_kb",
        "how much is read ahead decides whether a reader waits, and how much is read in vain",
        _ahead,
        (_NFS, _READS, _BUFFERED),
    ),
    _Rule(
        "cpu.governor",
        "a CPU whose frequency rises slowly is slow for a load that waits",
        _fixed("performance"),
    ),
    _Rule(
        "cpu.energy_preference",
        "a CPU that saves energy raises its frequency late",
        _fixed("performance"),
    ),
    _Rule(
        "cpu.dma_latency",
        "a CPU that sleeps deeply wakes up late for a completion",
        _fixed("unset", "0"),
        (_SLEEPS, _WAITING),
    ),
    _Rule(
        "module.pcie_aspm.policy",
        "a PCIe link that sleeps wakes up late",
        _fixed("performance"),
        (_LINKED, _WAITING),
    ),
    _Rule(
        "mm.thp",
        "huge pages make large buffers cheaper to address, and dearer to get",
        _all,
        (_HUGE_BUFFERS,),
    ),
    _Rule("mm.ksm", "looking for equal pages costs CPU time", _if("1", "0")),
    _Rule(
        "sysctl.kernel.numa_balancing",
        "pages that are moved to another node interrupt the load",
        _fixed("0", "1"),
        (_NODES,),
    ),
    _Rule(
        "sysctl.kernel.sched_autogroup_enabled",
        "groups of processes share the CPUs with kernel threads that do the I/O",
        _fixed("0", "1"),
    ),
    _Rule(
        "sysctl.kernel.timer_migration",
        "timers that move to busy CPUs interrupt the load",
        _fixed("0", "1"),
        (_CPUS,),
    ),
    _Rule(
        "sysctl.vm.stat_interval",
        "updates of memory statistics interrupt every CPU",
        _fixed("1", "10"),
    ),
    _Rule(
        "sysctl.vm.zone_reclaim_mode",
        "reclaiming memory of a node drops cached pages while others have room",
        _fixed("0", "1"),
        (_NODES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_ratio",
        "above this share of memory a writer writes back itself",
        _times(1 / 2, 2, usual="20", high=60),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_bytes",
        "above this much a writer writes back itself",
        _times(1 / 4, 4),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_background_ratio",
        "from this share of memory on the kernel writes back while the load runs",
        _times(1 / 5, 1 / 2, usual="10"),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_background_bytes",
        "from this much on the kernel writes back while the load runs",
        _times(1 / 4, 4),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_expire_centisecs",
        "data that is written back earlier makes smaller bursts",
        _times(1 / 6),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.dirty_writeback_centisecs",
        "data that is written back more often makes smaller bursts",
        _times(1 / 5),
        (_WRITES, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.vfs_cache_pressure",
        "inodes and directory entries that stay in memory need not be read again",
        _fixed("50", "200"),
        (_METADATA,),
    ),
    _Rule(
        "sysctl.vm.swappiness",
        "swapping leaves more memory to the page cache",
        _fixed("10", "60", "100"),
        (_SWAPS, _BUFFERED),
    ),
    _Rule(
        "sysctl.vm.min_free_kbytes",
        "with more free memory a page for the cache is found without waiting",
        _free,
        (_BUFFERED,),
    ),
    _Rule(
        "sysctl.vm.watermark_scale_factor",
        "memory that is reclaimed earlier is free when the page cache needs it",
        _times(5, 20, usual="10", high=1000),
        (_BUFFERED,),
    ),
    *(
        _Rule(
            f"net.{name}",
            "interrupts that wait for more packets cost less CPU time, and more latency",
            others,
            (_NIC,),
        )
        for name, others in (
            ("rx_usecs", lambda case: ["0", *case.times(4, high=250)]),
            ("tx_usecs", lambda case: ["0", *case.times(4, high=250)]),
            ("adaptive_rx", _fixed("off", "on")),
        )
    ),
    *(
        _Rule(
            f"net.{name}",
            "packets handled together cost less CPU time, and wait for each other",
            _fixed("off", "on"),
            (_NIC,),
        )
        for name in ("gro", "tso", "lro")
    ),
    *(
        _Rule(
            f"sysctl.net.ipv4.{name}",
            "a larger buffer of a connection fills a long link",
            _triple(4),
            (_NIC,),
        )
        for name in ("tcp_rmem", "tcp_wmem")
    ),
)
_BY_KNOB = {rule.knob: rule for rule in _RULES}

_LOSES = "a level of it may cost data when the power fails or a program crashes"
_FAILS = "it says what happens when something fails, and nothing fails in a trial"
_LINK = "drivers take the link down to change it"
_NOT: tuple[tuple[str, str], ...] = (
    ("cgroup.*", "it is there to hold a load back, or to share a disk with others"),
    ("boot.mitigations", "without it a process can read the data of others"),
    ("mount.barrier", _LOSES),
    ("mount.commit", _LOSES),
    ("mount.data", _LOSES),
    ("mount.journal_async_commit", _LOSES),
    ("mount.sync", "a load that wants its writes on storage asks for that itself"),
    ("mount.hard", _LOSES),
    ("mount.nocto", "changes by other clients would be seen late"),
    ("lvm.cache_mode", _LOSES),
    ("md.bitmap", "without a bitmap a crash means a whole resync"),
    ("md.consistency_policy", _LOSES),
    ("md.sync_*", "it bounds a resync, and trials during one are invalid"),
    ("lvm.*_recovery_rate", "it bounds a resync, and trials during one are invalid"),
    ("*tmo", _FAILS),
    ("*timeout", _FAILS),
    ("*eh_deadline", _FAILS),
    ("*retry", _FAILS),
    ("mount.timeo", _FAILS),
    ("mount.retrans", _FAILS),
    ("multipath.queue_if_no_path", _FAILS),
    ("multipath.failback", _FAILS),
    ("queue.iostats", "without it a trial has no telemetry of the disk"),
    ("queue.wbt_lat_usec", "once written it no longer follows the scheduler, until the disk goes"),
    ("irq.*", "irqbalance, or the kernel, may own the interrupts"),
    ("cpu.smt", "interrupts and processes that are moved away do not come back by themselves"),
    ("cpu.idle.*", "cpu.dma_latency does the same for all CPUs"),
    ("cpu.resume_latency", "cpu.dma_latency does the same for all CPUs"),
    ("cpu.boost", "without it a CPU is slower"),
    ("cpu.no_turbo", "with it a CPU is slower"),
    ("module.*", "a driver reads it when it is loaded, or for devices that are made later"),
    ("sysctl.fs.*", "it is a limit, and a load that meets it fails"),
    ("net.mtu", _LINK),
    ("net.ring_*", _LINK),
)

_BOOTS = "each level takes a boot, and a search changes levels in every trial"
_UNKNOWN = "which levels would be worth trying is not known"


def looked_at(below: Topology, wish: CandidateRequest) -> tuple[str, ...]:
    """The knobs that must be read for :func:`choose`: those with a rule or a name that the target
    has, and those that rules ask for."""
    asked = ("cpu.idle.state1.disable", "scsi.host.can_queue", SCHEDULER)
    names = dict.fromkeys([*_BY_KNOB, *asked, *wish.named])
    return tuple(n for n in names if below.names(CATALOGUE.tunable(n).scope))


def without(found: Candidate, level: str) -> Candidate | None:
    """The candidate without a level that the kernel rejected; None where the baseline is rejected,
    or no other level is left."""
    levels = tuple(each for each in found.levels if each != level)
    if level == found.levels[0] or levels == found.levels or len(levels) < 2:  # noqa: PLR2004
        return None
    return replace(found, levels=levels)


def check_names(wish: CandidateRequest) -> None:
    """Raises UsageError for a name or pattern of no knob, with the nearest ones."""
    known = [knob.name for knob in all_tunables()]
    for name in wish.named:
        knob = CATALOGUE.tunable(name)
        if name in wish.removed:
            raise UsageError(f"{name} is in --knobs and in --not", advice="Remove one of them.")
        if knob.reload:
            raise UsageError(f"{name} cannot be varied: {knob.reload}", advice="Remove it.")
        if knob.boot:
            advice = "Remove it, and compare boots in a study: iotrial knobs boot"
            raise UsageError(f"{name} cannot be varied: {_BOOTS}", advice=advice)
    for pattern in wish.removed:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in (*known, *wish.named)):
            CATALOGUE.tunable(pattern)
            if not pattern.startswith("sysctl."):
                advice = choices(pattern, known, "knobs")
                raise UsageError(f"--not {pattern} is the name of no knob", advice=advice)


def choose(
    load: WorkloadCharacter,
    below: Topology,
    seen: Mapping[str, Sequence[KnobReading]],
    facts: CandidateFacts,
    wish: CandidateRequest,
) -> CandidateChoice:
    """What is varied.  ``seen``: what each device says of the knobs of :func:`looked_at`.

    Raises UsageError for a named level outside the domain, and for a named knob without levels;
    SettingRefused for a named knob that the target does not have, or that cannot be set here.
    """
    known = {name: each[0].value for name, each in seen.items() if each and not each[0].why}
    ask = _asker(load, below, facts, known, _schedulers(seen.get(SCHEDULER, ()), wish))
    taken: list[Candidate] = []
    missing: dict[str, str] = {}
    for name in dict.fromkeys([*wish.named, *_BY_KNOB]):
        knob = CATALOGUE.tunable(name)
        if _removed(name, wish):
            missing[name] = "removed by --not"
        elif name in wish.named:
            taken.append(_named(knob, seen.get(name, ()), ask, wish))
        elif wish.only:
            missing[name] = "not named, and --only takes named knobs only"
        elif seen.get(name):
            found = _own(knob, seen[name], ask)
            if isinstance(found, Candidate):
                taken.append(found)
            else:
                missing[name] = found
    left, clashes = _compatible(taken, wish.named, facts)
    missing |= clashes
    missing |= {
        knob.name: _reason(knob, below, wish)
        for knob in all_tunables()
        if knob.name not in _BY_KNOB and knob.name not in wish.named and below.names(knob.scope)
    }
    return CandidateChoice(_in_order(left), missing)


_Asker = Callable[[str, tuple[str, ...]], _Case]


def _asker(
    load: WorkloadCharacter,
    below: Topology,
    facts: CandidateFacts,
    known: Mapping[str, str],
    schedulers: tuple[str, ...],
) -> _Asker:
    return lambda value, offered: _Case(value, offered, load, facts, below, known, schedulers)


def _schedulers(said: Sequence[KnobReading], wish: CandidateRequest) -> tuple[str, ...]:
    """The schedulers that the disk will have in some trial."""
    if not said or said[0].why:
        return ()
    varied = SCHEDULER in wish.named or not (wish.only or _removed(SCHEDULER, wish))
    return wish.named.get(SCHEDULER) or said[0].domain.choices if varied else (said[0].value,)


def _removed(name: str, wish: CandidateRequest) -> bool:
    """A name goes before a pattern."""
    return name not in wish.named and any(
        fnmatch.fnmatchcase(name, pattern) for pattern in wish.removed
    )


def _in_order(taken: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """As the rules are, so that the same answers make the same study; named ones at the end."""
    place = {name: at for at, name in enumerate(_BY_KNOB)}
    return tuple(sorted(taken, key=lambda each: place.get(each.knob, len(place))))


def _own(knob: Tunable, said: Sequence[KnobReading], ask: _Asker) -> Candidate | str:
    """A candidate by its rule, or why it is none."""
    rule = _BY_KNOB[knob.name]
    in_force = _value(knob, said[0])
    case = ask(in_force, said[0].domain.choices)
    if why := next(filter(None, (moot(case) for moot in rule.moot)), "") or _unsettable(knob, said):
        return why
    others = [level for level in rule.others(case) if not _outside(level, said)]
    levels = _levels(knob, said, others)
    if len(levels) < 2:  # noqa: PLR2004 (one is no choice)
        return f"no other value than {in_force} is worth trying, or accepted, here"
    return Candidate(knob.name, levels, rule.reason, in_force)


def _named(
    knob: Tunable, said: Sequence[KnobReading], ask: _Asker, wish: CandidateRequest
) -> Candidate:
    name, wanted = knob.name, wish.named[knob.name]
    if not said:
        raise SettingRefused(
            f"{name} belongs to a {knob.scope}, and the target has none",
            tunable=name,
            advice="Remove it from --knobs.",
        )
    if why := _unsettable(knob, said):
        raise SettingRefused(
            f"{name} cannot be varied here: {why}",
            tunable=name,
            device=said[0].device,
            advice="Remove it from --knobs.",
        )
    for level in wanted:
        if why := _outside(level, said):
            raise UsageError(f"--knobs {name}: {why}", advice=f"`iotrial knobs {name}` says more.")
    rule, in_force = _BY_KNOB.get(name), _value(knob, said[0])
    others: Sequence[str] = [_spelled(level, said) for level in wanted]
    if not wanted and rule:
        others = rule.others(ask(in_force, said[0].domain.choices))
    elif not wanted:
        others = said[0].domain.choices
    levels = _levels(knob, said, [each for each in others if not _outside(each, said)])
    if name.startswith("cgroup.") and in_force == knob.absent and in_force in wanted:
        # A group is there in a run only: nothing is in force, and the level named first counts.
        levels = tuple(dict.fromkeys(wanted))
        in_force = levels[0]
    if len(levels) < 2:  # noqa: PLR2004 (one is no choice)
        message = f"{name} has no other level than {in_force} here"
        raise UsageError(message, advice=f"Name its levels: --knobs {name}=LEVEL,LEVEL")
    return Candidate(name, levels, "named by --knobs", in_force)


def _unsettable(knob: Tunable, said: Sequence[KnobReading]) -> str:
    """Why it cannot be set on some device of the target, or ''."""
    if knob.name.startswith(_COMING) and knob.absent:
        return ""
    return next((each.why for each in said if each.why), "")


def _value(knob: Tunable, said: KnobReading) -> str:
    return said.value or knob.absent or UNSET


def _outside(level: str, said: Sequence[KnobReading]) -> str:
    """Why some device does not accept a level, or ''.  Another spelling of one is accepted."""
    return (
        next(filter(None, (each.domain.refusal(_spelled(level, [each])) for each in said)), "")
        if level != UNSET
        else ""
    )


def _spelled(level: str, said: Sequence[KnobReading]) -> str:
    domain = said[0].domain
    return level if level in domain.choices else dict(domain.aliases).get(level, level)


def _levels(knob: Tunable, said: Sequence[KnobReading], others: Iterable[str]) -> tuple[str, ...]:
    """The baseline, then the others without it."""
    values = {_value(knob, each) for each in said}
    known = len(values) == 1 and not said[0].likely
    baseline = values.copy().pop() if known else UNSET
    left = (each for each in others if len(values) > 1 or each not in values)
    return tuple(dict.fromkeys([baseline, *left]))


def _compatible(
    taken: Sequence[Candidate], named: Mapping[str, tuple[str, ...]], facts: CandidateFacts
) -> tuple[list[Candidate], dict[str, str]]:
    """Those that do not change each other, and why the rest is left: a named one stays before
    another, else the one that comes first."""
    missing: dict[str, str] = {}
    order = sorted(taken, key=lambda each: each.knob not in named)
    for one, other in combinations(order, 2):
        if one.knob in missing or other.knob in missing:
            continue
        if why := _conflict(one, other, facts):
            if other.knob in named:
                message = f"--knobs {one.knob} and {other.knob}: {why}"
                raise UsageError(message, advice="Name one of them.")
            missing[other.knob] = why
    return [each for each in taken if each.knob not in missing], missing


def _conflict(one: Candidate, other: Candidate, facts: CandidateFacts) -> str:
    first, second = CATALOGUE.tunable(one.knob), CATALOGUE.tunable(other.knob)
    if first.written == second.written:
        return f"{one.knob} sets the same"
    for mover, moved in ((first, second), (second, first)):
        if moved.moved_by(mover) and (mover.moved_by(moved) or moved.rank <= mover.rank):
            return f"a change of {mover.name} changes {moved.name}"
    both = {one.knob: one, other.knob: other}
    if SCHEDULER in both and any(name.startswith(_PRECEDES) for name in both):
        return f"{SCHEDULER} is varied, and each scheduler has settings of its own"
    if both.keys() == {SCHEDULER, REQUESTS}:
        return _too_deep(both[SCHEDULER], both[REQUESTS], facts)
    return ""


def _too_deep(scheduler: Candidate, requests: Candidate, facts: CandidateFacts) -> str:
    """Without a scheduler the kernel refuses more requests than the disk has tags."""
    none = [level for level in scheduler.levels if level in _NONE]
    deep = [each for each in requests.levels if each.isdecimal() and int(each) > facts.tags]
    if not (none and deep and facts.tags):
        return ""
    return (
        f"the disk has {facts.tags} tags, so that the kernel refuses {deep[0]} requests with the"
        f" level {none[0]} of {SCHEDULER}"
    )


_ABSENT = (
    ("multipath.", "map", "the target is not a multipath map"),
    ("net.", "nic", "the storage is not reached over a network"),
    ("sysctl.net.", "nic", "the storage is not reached over a network"),
    ("nfs.", "nic", "the storage is not reached over a network"),
)
"""Families of the whole host that are about something which a target need not have."""


def _reason(knob: Tunable, below: Topology, wish: CandidateRequest) -> str:
    """Why a knob without a rule is not varied."""
    if _removed(knob.name, wish):
        return "removed by --not"
    if knob.reload:
        return f"it cannot be changed in a trial: {knob.reload}"
    for family, scope, why in _ABSENT:
        if knob.name.startswith(family) and not any(n.scope == scope for n in below.nodes):
            return why
    for pattern, why in _NOT:
        if fnmatch.fnmatchcase(knob.name, pattern):
            return why
    return _BOOTS if knob.boot else _UNKNOWN


def reasons(left: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Reasons, each with its knobs, in their order."""
    for why in dict.fromkeys(left.values()):
        yield why, tuple(name for name, each in left.items() if each == why)
