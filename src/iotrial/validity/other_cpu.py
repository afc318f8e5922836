"""Other CPU: processes that are not the load used the CPU while it ran.

Every process is looked at before and after the load.  The load's own are gone by then; what reads
the list, its parents (iotrial, the shell it was called from, sshd) and kernel threads, which may
work for the load, are left out.  What the rest used is somebody else's, and they are named.
Children that began and ended in between are in the account of the parent that waited for them.

Source: proc_pid_stat(5); PF_KTHREAD in include/linux/sched.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Snapshot
from iotrial.validity.processor import TICKS

SHARE = 0.10
"""Of all CPUs: what a load of one or two jobs begins to feel."""
_SCRIPT = "cat /proc/[0-9]*/stat 2>/dev/null\n:"
_KERNEL = 0x00200000
_NAMED = 3
_PPID, _FLAGS, _TIMES = 1, 6, slice(11, 15)
"""Places behind the name, which may hold blanks and brackets."""


@dataclass(frozen=True, slots=True)
class Task:
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


ALL = Reading(Probe(argv=("sh", "-c", _SCRIPT, "iotrial-processes")), kept)
LOOKER = Reading(Probe("/proc/self/stat"), kept)


def used(case: Case) -> Mapping[str, float]:
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


def share(case: Case) -> float:
    """Of all CPU time between the snapshots, what others used."""
    whole = case.elapsed * case.scene.cpus
    return min(1.0, sum(used(case).values()) / whole) if whole > 0 else 0.0


def _inherited(before: Mapping[int, Task], after: Mapping[int, Task]) -> dict[int, int]:
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


def _tasks(snapshot: Snapshot) -> dict[int, Task]:
    found = {}
    for line in snapshot.text(ALL.probe.place).splitlines():
        pid, parent, ticks, name = line.split(" ", 3)
        found[int(pid)] = Task(int(parent), int(ticks), name)
    return found


def _ours(snapshot: Snapshot, tasks: Mapping[int, Task]) -> set[int]:
    """Who looks, and all its parents."""
    words = snapshot.text(LOOKER.probe.place).split()
    chain = [int(word) for word in words[:2]]  # cat is gone by the time of the list
    while chain and (task := tasks.get(chain[-1])) and task.parent not in chain:
        chain.append(task.parent)
    return set(chain)


def judge(case: Case) -> Iterator[Doubt]:
    part = share(case)
    if part < SHARE:
        return
    spent = used(case)
    most = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in list(spent.items())[:_NAMED])
    yield CHECK.doubt(f"others used {part:.0%} of the CPU time while the load ran: {most}")


CHECK = Check(
    name="other-cpu",
    title="other programs used the CPU",
    looks_at="/proc/PID/stat of every process, without iotrial, its parents and kernel threads",
    limit="10 % of all CPU time between the snapshots",
    remedy="End what is named, or measure when it is quiet; more blocks where you cannot.",
    source="proc_pid_stat(5)",
    reads=lambda _scene: (ALL, LOOKER),
    judge=judge,
)
