"""Little's law: what is in flight on average is the rate times the time that one takes.

A load that keeps its queues filled has jobs x depth I/Os in flight, so that IOPS x mean latency
must come to that.  Less: some jobs did nothing for part of the time, ended early, or waited for
something else than I/O.  More: the numbers do not belong to each other (a clock that was wrong,
jobs that were not added up).  Each host of several is looked at by itself.

It is looked at where the tool says how many it keeps in flight: fio with a number of jobs and a
depth, without a rate, think time, syncs or verification, and past the page cache.

Source: J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research 9(3).
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check

LOW, HIGH = 0.8, 1.1
"""Of jobs x depth.  fio's own work between two I/Os is in neither, and under a fifth where storage
is measured at all."""
FEWEST = 1000
"""I/Os: of fewer those at both ends weigh too much."""
_OPERATIONS = ("read", "write", "trim")


def judge(case: Case) -> Iterator[Doubt]:
    depth, found = case.scene.depth, in_flight(case)
    if not depth or found is None or not case.scene.direct:
        return
    if not LOW <= found / depth <= HIGH:
        yield CHECK.doubt(
            f"IOPS times mean latency is {found:.1f} I/Os in flight, but the load was to keep"
            f" {depth:.0f}: {found / depth:.0%}"
        )


def in_flight(case: Case) -> float | None:
    """How many I/Os the load's own numbers say were in flight; None where they do not say."""
    total, ios = 0.0, 0.0
    for operation in _OPERATIONS:
        rate, latency = (case.own(f"{operation}.{what}") for what in ("iops", "lat.mean"))
        if rate and latency is None:
            return None
        total += (rate or 0.0) * (latency or 0.0)
        ios += case.own(f"{operation}.ios") or (rate or 0.0) * case.seconds
    return total if total and ios >= FEWEST else None


CHECK = Check(
    name="littles-law",
    title="rate and latency do not make the I/Os that were to be in flight",
    looks_at="fio's IOPS and mean latency (`lat`) of each host, against `numjobs` x `iodepth`",
    limit=f"less than {LOW:.0%} or more than {HIGH:.0%} of jobs x depth, of {FEWEST:,}"
    " I/Os or more",
    remedy="Less: look whether all jobs ran to the end, and at the load's CPU (`generator-bound`);"
    " use an asynchronous engine. More: trust neither rate nor latency of this trial.",
    source="Little 1961; HOWTO of fio (lat, iodepth)",
    judge=judge,
)
