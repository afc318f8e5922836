"""The rules of ``iotrial tune``: of each knob the levels worth trying beside the one in force, the
reason, and when a load cannot notice it; and why other knobs are never varied by themselves.

Levels are those that tuning guides change (the profiles of tuned, the kernel's
Documentation/admin-guide and Documentation/block) and their neighbours: about a factor of four to
each side of what is in force.  :mod:`iotrial.plan.candidates` applies the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.target import Topology
from iotrial.model.tool import WorkloadCharacter

SCHEDULER, REQUESTS = "queue.scheduler", "queue.nr_requests"


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
class CandidateCase:
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


_Others = Callable[["CandidateCase"], Sequence[str]]
"""The levels to try beside the one in force."""
_Moot = Callable[[CandidateCase], str]
"""Why a load cannot notice a knob, or ''."""


@dataclass(frozen=True, slots=True)
class CandidateRule:
    """``others``: the levels to try beside the one in force."""

    knob: str
    reason: str
    others: _Others
    moot: tuple[_Moot, ...] = ()


def _needs(condition: Callable[[CandidateCase], bool], why: str) -> _Moot:
    return lambda case: "" if condition(case) else why


def _fixed(*levels: str) -> _Others:
    return lambda _case: levels


def _times(*shares: float, usual: str = "", high: int = 2**31 - 1) -> _Others:
    """The value in force times each of these; and what the kernel begins with (``usual``), which
    is worth trying where another value is in force."""
    return lambda case: [*case.times(*shares, high=high), *filter(None, [usual])]


def _all(case: CandidateCase) -> Sequence[str]:
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


def _deeper(case: CandidateCase) -> str:
    """A queue that the load does not fill is as good as a longer one."""
    depth, least = case.load.depth, case.number // 4
    if case.load.buffered or not depth or depth > least:
        return ""
    return f"the load keeps at most {depth} I/Os in flight, fewer than any level would allow"


def _larger(case: CandidateCase) -> str:
    """A request is as large as an I/O of the load, unless several are merged."""
    load, least = case.load, case.number // 4 * 1024
    if load.buffered or load.sequential or not load.block or load.block > least:
        return ""
    return "the I/Os of the load are random and smaller than any level"


def _requests(case: CandidateCase) -> Sequence[str]:
    """Within the tags, beyond which the kernel refuses them without a scheduler."""
    most = case.facts.tags
    return [*case.times(1 / 4, 1 / 2, 2, low=4, high=most or 1024), *([str(most)] if most else ())]


def _sectors(case: CandidateCase) -> Sequence[str]:
    """Some disks claim to take any size."""
    most = min(case.facts.transfer or case.number, 16384)
    return [*case.times(1 / 4, 4, low=64, high=most), str(most)]


def _ahead(case: CandidateCase) -> Sequence[str]:
    if not case.load.sequential:
        return ["0", *case.times(1 / 4, low=16)]
    return [*case.times(1 / 4, 4, low=16, high=16384), "128"]


def _depths(case: CandidateCase) -> Sequence[str]:
    said = case.known.get("scsi.host.can_queue", "")
    most = int(said) if said.isdecimal() else case.number
    return [*case.times(1 / 4, 4, low=1, high=most), *(["32"] if most >= 32 else ())]  # noqa: PLR2004


def _threads(case: CandidateCase) -> Sequence[str]:
    return [str(count) for count in (0, 2, 4) if count <= case.facts.cpus]


def _free(case: CandidateCase) -> Sequence[str]:
    """Too much leaves no memory to use."""
    return case.times(2, 4, high=case.facts.memory // 1024 // 50 or 1)


def _if(value: str, *levels: str) -> _Others:
    """Only where this value is in force is there something to gain."""
    return lambda case: levels if case.value == value else ()


def _triple(*shares: float) -> _Others:
    """Of three numbers the last: the most that a socket may grow to."""

    def others(case: CandidateCase) -> Sequence[str]:
        *first, most = case.value.split() or [""]
        whole = most.isdecimal() and len(first) == 2  # noqa: PLR2004 (least, first, largest)
        return [" ".join([*first, str(round(int(most) * s))]) for s in shares if whole]

    return others


RULES = (
    CandidateRule(SCHEDULER, "schedulers differ in the order of requests and in CPU time", _all),
    CandidateRule(
        REQUESTS,
        "how many requests may wait decides how many can be ordered and merged, and for how long"
        " they wait",
        _requests,
        (_deeper,),
    ),
    CandidateRule(
        "queue.nomerges",
        "looking for requests to merge costs CPU time, and makes fewer and larger requests",
        _fixed("0", "1", "2"),
    ),
    CandidateRule(
        "queue.rq_affinity",
        "the CPU that completes a request may have its data in the cache, or be busy",
        _fixed("0", "1", "2"),
        (_CPUS,),
    ),
    CandidateRule(
        "queue.add_random",
        "each completion feeds the entropy pool, which costs CPU time",
        _if("1", "0"),
    ),
    CandidateRule(
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
    CandidateRule(
        "queue.max_sectors_kb",
        "smaller requests wait for each other less, larger ones cost less CPU time",
        _sectors,
        (_larger,),
    ),
    CandidateRule(
        "queue.read_ahead_kb",
        "how much is read ahead decides whether a reader waits, and how much is read in vain",
        _ahead,
        (_READS, _BUFFERED),
    ),
    CandidateRule(
        "queue.iosched.read_expire",
        "after this time a read goes before requests in better order",
        _times(1 / 5, 4, usual="500"),
        (_runs("mq-deadline"), _READS),
    ),
    CandidateRule(
        "queue.iosched.writes_starved",
        "how long reads go before writes",
        _times(1 / 2, 4, usual="2"),
        (_runs("mq-deadline"), _MIXED),
    ),
    CandidateRule(
        "queue.iosched.fifo_batch",
        "long batches are in better order, short ones are fairer",
        _times(1 / 16, 4, usual="16"),
        (_runs("mq-deadline"),),
    ),
    CandidateRule(
        "queue.iosched.front_merges",
        "looking for front merges costs CPU time, and they are rare",
        _if("1", "0"),
        (_runs("mq-deadline"),),
    ),
    CandidateRule(
        "queue.iosched.read_lat_nsec",
        "kyber keeps as many reads in flight as meet this latency",
        _times(1 / 4, 4),
        (_runs("kyber"), _READS),
    ),
    CandidateRule(
        "queue.iosched.write_lat_nsec",
        "kyber keeps as many writes in flight as meet this latency",
        _times(1 / 4, 4),
        (_runs("kyber"), _WRITES),
    ),
    CandidateRule(
        "queue.iosched.slice_idle",
        "bfq waits for the next request of a process, while the disk does nothing",
        _fixed("0"),
        (_runs("bfq"),),
    ),
    CandidateRule(
        "queue.iosched.low_latency",
        "bfq favours interactive processes over throughput",
        _if("1", "0"),
        (_runs("bfq"),),
    ),
    CandidateRule(
        "scsi.queue_depth",
        "how many commands the disk has at once decides what it can order, and how long they wait",
        _depths,
        (_deeper,),
    ),
    CandidateRule(
        "nvme.iopolicy",
        "policies spread I/Os over the paths differently",
        _all,
    ),
    CandidateRule(
        "nvme.pm_qos_latency_tolerance_us",
        "a drive that sleeps between I/Os wakes up late",
        _fixed("0"),
        (_WAITING,),
    ),
    CandidateRule(
        "multipath.path_selector",
        "selectors spread I/Os over the paths differently",
        _fixed("service-time 0", "queue-length 0", "round-robin 0"),
        (_MAP,),
    ),
    CandidateRule(
        "md.stripe_cache_size",
        "a larger stripe cache gathers more writes to whole stripes",
        _times(4, 16, high=32768),
        (_PARITY, _WRITES),
    ),
    CandidateRule(
        "md.group_thread_cnt",
        "more threads compute parity on more CPUs",
        _threads,
        (_PARITY, _WRITES, _CPUS),
    ),
    CandidateRule(
        "md.rmw_level",
        "parity is updated by reading either the old blocks or the rest of the stripe",
        _fixed("0", "1", "2"),
        (_PARITY, _WRITES),
    ),
    CandidateRule(
        "md.preread_bypass_threshold",
        "stripes that must be read first wait for whole ones",
        _fixed("0"),
        (_PARITY, _WRITES),
    ),
    CandidateRule(
        "md.skip_copy",
        "without a copy whole-stripe writes cost less memory bandwidth",
        _fixed("0", "1"),
        (_PARITY, _WRITES, _BUFFERED),
    ),
    *(
        CandidateRule(
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
    CandidateRule(
        "mount.atime",
        "a read of a file that was written is noted in its access time",
        _fixed("relatime", "noatime"),
        (_NOT_ROOT, _MIXED),
    ),
    CandidateRule(
        "mount.lazytime",
        "each write changes the time of its file, which the file system must write as well",
        _fixed("unset", "on"),
        (_NOT_ROOT, _WRITES),
    ),
    CandidateRule(
        "mount.discard",
        "the device is told of freed blocks while the load waits",
        _if("on", "unset"),
        (_NOT_ROOT, _WRITES),
    ),
    CandidateRule(
        "mount.dioread_nolock",
        "direct reads wait for writes to the same file",
        _fixed("dioread_nolock", "nodioread_nolock"),
        (_NOT_ROOT, _EXT4, _DIRECT, _MIXED),
    ),
    CandidateRule(
        "mount.rsize",
        "larger requests to the server cost less, smaller ones begin earlier",
        _times(1 / 4, 4, high=1048576),
        (_NFS, _READS),
    ),
    CandidateRule(
        "mount.wsize",
        "larger requests to the server cost less, smaller ones begin earlier",
        _times(1 / 4, 4, high=1048576),
        (_NFS, _WRITES),
    ),
    CandidateRule(
        "mount.nconnect",
        "one TCP connection may be bound by one CPU",
        _fixed("4", "8"),
        (_NFS,),
    ),
    CandidateRule(
        "nfs.read_ahead_kb",
        "how much is read ahead decides whether a reader waits, and how much is read in vain",
        _ahead,
        (_NFS, _READS, _BUFFERED),
    ),
    CandidateRule(
        "cpu.governor",
        "a CPU whose frequency rises slowly is slow for a load that waits",
        _fixed("performance"),
    ),
    CandidateRule(
        "cpu.energy_preference",
        "a CPU that saves energy raises its frequency late",
        _fixed("performance"),
    ),
    CandidateRule(
        "cpu.dma_latency",
        "a CPU that sleeps deeply wakes up late for a completion",
        _fixed("unset", "0"),
        (_SLEEPS, _WAITING),
    ),
    CandidateRule(
        "module.pcie_aspm.policy",
        "a PCIe link that sleeps wakes up late",
        _fixed("performance"),
        (_LINKED, _WAITING),
    ),
    CandidateRule(
        "mm.thp",
        "huge pages make large buffers cheaper to address, and dearer to get",
        _all,
        (_HUGE_BUFFERS,),
    ),
    CandidateRule("mm.ksm", "looking for equal pages costs CPU time", _if("1", "0")),
    CandidateRule(
        "sysctl.kernel.numa_balancing",
        "pages that are moved to another node interrupt the load",
        _fixed("0", "1"),
        (_NODES,),
    ),
    CandidateRule(
        "sysctl.kernel.sched_autogroup_enabled",
        "groups of processes share the CPUs with kernel threads that do the I/O",
        _fixed("0", "1"),
    ),
    CandidateRule(
        "sysctl.kernel.timer_migration",
        "timers that move to busy CPUs interrupt the load",
        _fixed("0", "1"),
        (_CPUS,),
    ),
    CandidateRule(
        "sysctl.vm.stat_interval",
        "updates of memory statistics interrupt every CPU",
        _fixed("1", "10"),
    ),
    CandidateRule(
        "sysctl.vm.zone_reclaim_mode",
        "reclaiming memory of a node drops cached pages while others have room",
        _fixed("0", "1"),
        (_NODES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_ratio",
        "above this share of memory a writer writes back itself",
        _times(1 / 2, 2, usual="20", high=60),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_bytes",
        "above this much a writer writes back itself",
        _times(1 / 4, 4),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_background_ratio",
        "from this share of memory on the kernel writes back while the load runs",
        _times(1 / 5, 1 / 2, usual="10"),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_background_bytes",
        "from this much on the kernel writes back while the load runs",
        _times(1 / 4, 4),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_expire_centisecs",
        "data that is written back earlier makes smaller bursts",
        _times(1 / 6),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.dirty_writeback_centisecs",
        "data that is written back more often makes smaller bursts",
        _times(1 / 5),
        (_WRITES, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.vfs_cache_pressure",
        "inodes and directory entries that stay in memory need not be read again",
        _fixed("50", "200"),
        (_METADATA,),
    ),
    CandidateRule(
        "sysctl.vm.swappiness",
        "swapping leaves more memory to the page cache",
        _fixed("10", "60", "100"),
        (_SWAPS, _BUFFERED),
    ),
    CandidateRule(
        "sysctl.vm.min_free_kbytes",
        "with more free memory a page for the cache is found without waiting",
        _free,
        (_BUFFERED,),
    ),
    CandidateRule(
        "sysctl.vm.watermark_scale_factor",
        "memory that is reclaimed earlier is free when the page cache needs it",
        _times(5, 20, usual="10", high=1000),
        (_BUFFERED,),
    ),
    *(
        CandidateRule(
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
        CandidateRule(
            f"net.{name}",
            "packets handled together cost less CPU time, and wait for each other",
            _fixed("off", "on"),
            (_NIC,),
        )
        for name in ("gro", "tso", "lro")
    ),
    *(
        CandidateRule(
            f"sysctl.net.ipv4.{name}",
            "a larger buffer of a connection fills a long link",
            _triple(4),
            (_NIC,),
        )
        for name in ("tcp_rmem", "tcp_wmem")
    ),
)
"""In the order in which a study has them."""

_LOSES = "a level of it may cost data when the power fails or a program crashes"
_FAILS = "it says what happens when something fails, and nothing fails in a trial"
_LINK = "drivers take the link down to change it"
EXCLUDED: tuple[tuple[str, str], ...] = (
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
"""Patterns of knobs without a rule, and why they have none; the first that fits counts."""
