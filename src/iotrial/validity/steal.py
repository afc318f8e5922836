"""Steal: the hypervisor gave this machine's CPU time to somebody else.

Source: proc_stat(5), ``steal``: time that a virtual CPU was ready and the host ran others.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check
from iotrial.validity import processor

SHARE = 0.05


def judge(case: Case) -> Iterator[Doubt]:
    share = processor.shares(case).get("steal", 0.0)
    if share >= SHARE:
        yield CHECK.doubt(f"the hypervisor took {share:.0%} of this machine's CPU time")


CHECK = Check(
    name="steal",
    title="the hypervisor gave the CPU to others",
    looks_at="/proc/stat, `steal`",
    limit="5 % of all CPU time between the snapshots",
    remedy="More blocks, so that it hits all treatments alike; or a machine with CPUs of its own.",
    source="proc_stat(5)",
    reads=lambda _scene: (processor.STAT,),
    judge=judge,
)
