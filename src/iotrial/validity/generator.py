"""Generator: the load had no CPU left, and the rate is the CPU's and not the storage's.

A job whose user and system time come to a whole core cannot submit faster; so a machine on which
no CPU was ever idle.  fio's own parser says the first under the same name; then it is said once.
That fio did not keep its queue filled is said by its parser as well (``queue-not-filled``).

Sources: HOWTO of fio (usr_cpu, sys_cpu, iodepth_level); proc_stat(5).
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check
from iotrial.validity import other_cpu, processor

CORE = 0.95
ALL = 0.97
"""Of all CPU time, the load's own and the kernel's for it.  Where others used a tenth, they are
named instead (:mod:`iotrial.validity.other_cpu`)."""


def judge(case: Case) -> Iterator[Doubt]:
    bound = [f"{job} {used:.0%}" for job, used in _jobs(case).items() if used >= CORE]
    if bound:
        yield CHECK.doubt(f"jobs kept a core busy all the time: {', '.join(bound[:5])}")
        return
    shares = processor.shares(case)
    busy = 1 - shares.get("idle", 1.0) - shares.get("iowait", 0.0) - shares.get("steal", 0.0)
    if busy >= ALL and other_cpu.share(case) < other_cpu.SHARE:
        yield CHECK.doubt(f"no CPU was idle: {busy:.0%} of the CPU time of the machine was used")


def _jobs(case: Case) -> dict[str, float]:
    """Job → share of a core that it used, where the load says so of its jobs."""
    used: dict[str, float] = {}
    for each in case.measurements:
        if each.metric in ("cpu.usr", "cpu.sys") and each.job != "all":
            used[each.job] = used.get(each.job, 0.0) + each.value
    return used


CHECK = Check(
    name="generator-bound",
    title="the load had no CPU left, or did not fill its queue",
    looks_at="CPU of each job as the tool says it; /proc/stat; fio's `iodepth_level` against the"
    " `iodepth` that it was given",
    limit="95 % of a core in a job; or 97 % of all CPU time used; for the queue"
    " (`queue-not-filled`): more than half of fio's I/Os were submitted with less than half the"
    " depth asked for",
    remedy="Spread the load with numjobs, batch its submissions, take fewer system calls"
    " (io_uring), or generate it elsewhere; expect it of a polling engine (hipri).",
    source="HOWTO of fio (usr_cpu, sys_cpu, iodepth_level); proc_stat(5)",
    reads=lambda _scene: (processor.STAT, other_cpu.ALL, other_cpu.LOOKER),
    judge=judge,
)
