"""Of the processors: who used them, who was kept from them, and what slowed them down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iotrial.model.step import Probe
from iotrial.model.trial import Doubt
from iotrial.model.validity import CheckContext, CheckReading, LoadEvidence, Snapshot, check

PLACE = "/proc/stat"
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
TICKS = 100.0
"""USER_HZ: what /proc counts CPU time in, a second.  100 on every architecture that Debian has."""


def _kept(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line for line in lines if line.startswith(("cpu ", "btime ")))


STAT = CheckReading(Probe(PLACE), _kept)


def cpu_shares(case: LoadEvidence) -> Mapping[str, float]:
    """The share of all CPU time between the snapshots by what it went to; {} unknown."""
    first, last = (_times(each.text(PLACE)) for each in (case.before, case.after))
    spent = {name: last[name] - first[name] for name in first if name in last}
    total = sum(spent.values())
    return {name: value / total for name, value in spent.items()} if total > 0 else {}


def _times(text: str) -> dict[str, int]:
    for line in text.splitlines():
        if line.startswith("cpu "):
            return dict(zip(FIELDS, map(int, line.split()[1:]), strict=False))
    return {}


STOLEN = 0.05


@check(
    "steal",
    "CPU time was stolen by the hypervisor",
    looks_at="/proc/stat, `steal`",
    limit="5 % of all CPU time between the snapshots",
    remedy=(
        "Run more blocks, so that all treatments are affected equally; or use a host with"
        " dedicated CPUs."
    ),
    source="proc_stat(5)",
    reads=lambda _scene: (STAT,),
)
def steal(case: LoadEvidence) -> Iterator[Doubt]:
    """The hypervisor withheld CPU time from this host (steal).

    Source: proc_stat(5), ``steal``: time that a virtual CPU was ready and the host ran others.
    """
    share = cpu_shares(case).get("steal", 0.0)
    if share >= STOLEN:
        yield steal.doubt(f"the hypervisor took {share:.0%} of the CPU time of this host (steal)")


OTHERS = 0.10
"""Of all CPUs: what a load of one or two jobs begins to feel."""
_SCRIPT = "cat /proc/[0-9]*/stat 2>/dev/null\n:"
_KERNEL = 0x00200000
_NAMED = 3
_PPID, _FLAGS, _TIMES = 1, 6, slice(11, 15)
"""Places behind the name, which may hold blanks and brackets."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A process: its parent, CPU time in ticks with that of children it waited for, its name."""

    parent: int
    ticks: int
    name: str


def kept(text: str) -> str:
    """``pid parent ticks name`` of each process that is no kernel thread."""
    return "\n".join(line for line in map(_line, text.splitlines()) if line)


def _line(text: str) -> str:
    head, _, tail = text.rpartition(") ")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    if not pid.isdigit() or len(fields) < _TIMES.stop or int(fields[_FLAGS]) & _KERNEL:
        return ""
    return f"{pid} {fields[_PPID]} {sum(map(int, fields[_TIMES]))} {name}"


PROCESSES = CheckReading(Probe(argv=("sh", "-c", _SCRIPT, "iotrial-processes")), kept)
LOOKER = CheckReading(Probe("/proc/self/stat"), kept)


def used(case: LoadEvidence) -> Mapping[str, float]:
    """Process → seconds of CPU that it used beside the load, the most first."""
    before, after = _tasks(case.before), _tasks(case.after)
    ours = _ours(case.before, before) | _ours(case.after, after)
    known = _inherited(before, after)
    spent = {
        f"{task.name} (pid {pid})": task.ticks - known.get(pid, 0)
        for pid, task in after.items()
        if pid not in ours
    }
    order = sorted(spent, key=lambda name: -spent[name])
    return {name: spent[name] / TICKS for name in order if spent[name] > 0}


def share_of_others(case: LoadEvidence) -> float:
    """Of all CPU time between the snapshots, what others used."""
    whole = case.elapsed * case.scene.cpus
    return min(1.0, sum(used(case).values()) / whole) if whole > 0 else 0.0


def _inherited(before: Mapping[int, _Task], after: Mapping[int, _Task]) -> dict[int, int]:
    """Ticks that were in the accounts before: a process' own, and those of its descendants that
    have ended since, whose whole life is in its account now."""
    known: dict[int, int] = {}
    for pid, task in before.items():
        heir, seen = pid, set[int]()
        while heir not in after and heir in before and heir not in seen:
            seen.add(heir)
            heir = before[heir].parent
        known[heir] = known.get(heir, 0) + task.ticks
    return known


def _tasks(snapshot: Snapshot) -> dict[int, _Task]:
    found = {}
    for line in snapshot.text(PROCESSES.probe.place).splitlines():
        pid, parent, ticks, name = line.split(" ", 3)
        found[int(pid)] = _Task(int(parent), int(ticks), name)
    return found


def _ours(snapshot: Snapshot, tasks: Mapping[int, _Task]) -> set[int]:
    """Who looks, and all its parents."""
    words = snapshot.text(LOOKER.probe.place).split()
    chain = [int(word) for word in words[:2]]  # cat is gone by the time of the list
    while chain and (task := tasks.get(chain[-1])) and task.parent not in chain:
        chain.append(task.parent)
    return set(chain)


@check(
    "other-cpu",
    "other processes used the CPU",
    looks_at="/proc/PID/stat of every process, without iotrial, its parents and kernel threads",
    limit="10 % of all CPU time between the snapshots",
    remedy="Stop the named processes, or measure while they are idle; otherwise run more blocks.",
    source="proc_pid_stat(5)",
    reads=lambda _scene: (PROCESSES, LOOKER),
)
def other_cpu(case: LoadEvidence) -> Iterator[Doubt]:
    """Processes that are not the load used the CPU while it ran.

    The CPU time of every process is read before and after the load.  Processes of the load have
    ended by then; the process that reads the list, its parents (iotrial, the shell it was called
    from, sshd) and kernel threads, which may work for the load, are excluded.  The check reports
    the CPU time of all others, and names them.  Children that started and ended in between are
    accounted to the parent that waited for them.

    Source: proc_pid_stat(5); PF_KTHREAD in include/linux/sched.h.
    """
    part = share_of_others(case)
    if part < OTHERS:
        return
    spent = used(case)
    most = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in list(spent.items())[:_NAMED])
    yield other_cpu.doubt(
        f"other processes used {part:.0%} of the CPU time during the load: {most}"
    )


CORE = 0.95
ALL_CPUS = 0.97
"""Of all CPU time, the load's own and the kernel's for it.  Where others used a tenth, they are
named instead (:data:`other_cpu`)."""


@check(
    "generator-bound",
    "the load was CPU-bound, or did not fill its queue",
    looks_at=(
        "CPU of each job as reported by the tool; /proc/stat; fio's `iodepth_level` against its"
        " `iodepth`"
    ),
    limit=(
        "95 % of a core in a job; or 97 % of all CPU time used; for the queue"
        " (`queue-not-filled`): more than half of fio's I/Os submitted at less than half the"
        " configured depth"
    ),
    remedy=(
        "Spread the load with numjobs, batch its submissions, use fewer system calls"
        " (io_uring), or generate it on another host; normal for a polling engine (hipri)."
    ),
    source="HOWTO of fio (usr_cpu, sys_cpu, iodepth_level); proc_stat(5)",
    reads=lambda _scene: (STAT, PROCESSES, LOOKER),
)
def generator_bound(case: LoadEvidence) -> Iterator[Doubt]:
    """The load was CPU-bound: the rate is limited by the CPU, not by the storage.

    A job whose user and system time equal a whole core cannot submit faster; neither can a load on
    a host without an idle CPU.  The parser of fio reports the first under the same name; it is
    then reported once.  It also reports that fio did not keep its queue filled
    (``queue-not-filled``).

    Sources: HOWTO of fio (usr_cpu, sys_cpu, iodepth_level); proc_stat(5).
    """
    bound = [f"{job} {used:.0%}" for job, used in _jobs(case).items() if used >= CORE]
    if bound:
        yield generator_bound.doubt(f"CPU-bound jobs: {', '.join(bound[:5])}")
        return
    shares = cpu_shares(case)
    busy = 1 - shares.get("idle", 1.0) - shares.get("iowait", 0.0) - shares.get("steal", 0.0)
    if busy >= ALL_CPUS and share_of_others(case) < OTHERS:
        yield generator_bound.doubt(f"no idle CPU: {busy:.0%} of the CPU time of the host was used")


def _jobs(case: LoadEvidence) -> dict[str, float]:
    """Job → share of a core that it used, where the load says so of its jobs."""
    used: dict[str, float] = {}
    for each in case.measurements:
        if each.metric in ("cpu.usr", "cpu.sys") and each.job != "all":
            used[each.job] = used.get(each.job, 0.0) + each.value
    return used


NEAR = 0.97
"""Share of the power limit from which the processor is held back by it."""
_SENSORS = (
    "grep -s . /sys/devices/system/cpu/cpu*/thermal_throttle/*_count"
    " /sys/class/powercap/intel-rapl:[0-9]*/name"
    " /sys/class/powercap/intel-rapl:[0-9]*/energy_uj"
    " /sys/class/powercap/intel-rapl:[0-9]*/max_energy_range_uj"
    " /sys/class/powercap/intel-rapl:[0-9]*/constraint_0_power_limit_uw\n"
    "for disk; do\n"
    'grep -s . "/sys/block/$disk/device/"hwmon*/temp1_input'
    ' "/sys/block/$disk/device/"hwmon*/temp1_max\ndone\n:'
)
_COUNTED = re.compile(r"/(cpu\d+)/thermal_throttle/(core|package)_(throttle|power_limit)_count$")


def _reads(scene: CheckContext) -> tuple[CheckReading, ...]:
    argv = ("sh", "-c", _SENSORS, "iotrial-throttling", *scene.disks)
    return (CheckReading(Probe(argv=argv), str.strip),)


@check(
    "throttling",
    "thermal or power throttling",
    looks_at=(
        "thermal_throttle/*_count of each CPU; powercap energy and limit (RAPL); the"
        " temperature of NVMe drives"
    ),
    limit=(
        "any thermal event of the processor (INVALID); a power limit event, 97 % of the limit"
        " on average, or a drive at its warning temperature (doubt)"
    ),
    remedy=(
        "Improve cooling, raise the power limit, or reduce the load; warm up before the first"
        " block so that all treatments run at the same temperature."
    ),
    source="Documentation/ABI/testing/sysfs-devices-system-cpu and powercap.rst of the kernel",
    invalid=True,
    reads=_reads,
)
def throttling(case: LoadEvidence) -> Iterator[Doubt]:
    """The processor or a drive was throttled by its temperature or by a power limit.

    Intel processors count thermal events; RAPL reports the energy used and the limit; NVMe drives
    have a warning temperature.  Sensors that a host does not have (a virtual machine has none) are
    not judged.

    Sources: Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle);
    Documentation/power/powercap/powercap.rst; drivers/nvme/host/hwmon.c (temp1_max is the drive's
    WCTEMP).
    """
    before, after = _values(case.before), _values(case.after)
    yield from _events(before, after)
    yield from _power(before, after, case.elapsed)
    yield from _hot(after)


def _values(snapshot: Snapshot) -> dict[str, str]:
    """Path → value; the reading's place ends in the disks, so it is found by its name."""
    said = (text for place, text in snapshot.said.items() if "iotrial-throttling" in place)
    rows = (line.rpartition(":") for text in said for line in text.splitlines())
    return {path: value for path, _, value in rows}


def _events(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Doubt]:
    """Heat makes a trial INVALID; many processors meet their power limit under any load."""
    grown: dict[tuple[str, str], int] = {}
    for path, value in after.items():
        if (found := _COUNTED.search(path)) and path in before:
            more = int(value) - int(before[path])
            grown[found[2], found[3]] = max(grown.get((found[2], found[3]), 0), more)
    for (part, kind), times in grown.items():
        if times > 0:
            hot = kind == "throttle"
            why = "thermal throttling" if hot else "power limit"
            what = f"the processor was throttled: {part} {why} ({times} times)"
            yield throttling.doubt(what, invalid=hot)


def _power(before: Mapping[str, str], after: Mapping[str, str], seconds: float) -> Iterator[Doubt]:
    for path in after:
        folder, _, name = path.rpartition("/")
        limit = int(after.get(f"{folder}/constraint_0_power_limit_uw", "0"))
        if name != "energy_uj" or path not in before or not limit or seconds <= 0:
            continue
        used = int(after[path]) - int(before[path])
        if used < 0:  # the counter wraps around
            used += int(after.get(f"{folder}/max_energy_range_uj", "0"))
        watts = used / seconds / 1e6
        if watts >= NEAR * limit / 1e6:
            name = after.get(f"{folder}/name", folder.rpartition("/")[2])
            yield throttling.doubt(
                f"{name} used {watts:.0f} W of its limit of {limit / 1000000.0:.0f} W"
            )


def _hot(after: Mapping[str, str]) -> Iterator[Doubt]:
    for path, value in after.items():
        most = after.get(f"{path.removesuffix('input')}max", "")
        if path.endswith("temp1_input") and most and int(value) >= int(most) > 0:
            disk = path.split("/")[3]
            what = (
                f"{disk} is at {int(value) // 1000} °C, its warning temperature is"
                f" {int(most) // 1000} °C"
            )
            yield throttling.doubt(what)
