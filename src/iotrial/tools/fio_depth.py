"""How many I/Os fio is told to keep in flight: jobs times depth.

Known only where nothing else in its options lets a queue run empty: rates, think time, syncs,
verification, batches, jobs after each other.

Source: HOWTO of fio (iodepth: a synchronous engine has one, whatever it says).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iotrial.errors import UsageError
from iotrial.model.workload import Workload
from iotrial.tools import fio_rules as rules
from iotrial.tools.fio_check import passed
from iotrial.tools.fio_options import resolved

_ASYNCHRONOUS = ("auto", "io_uring", "io_uring_cmd", "libaio", "posixaio")
_EMPTYING = (
    "rate", "thinktime", "latency_target", "iodepth_", "fsync", "fdatasync", "sync_file_range",
    "end_fsync", "verify", "flow", "startdelay", "read_iolog", "io_size", "serialize_overlap",
    "zonemode", "trim_", "io_submit_mode", "number_ios",
)  # fmt: skip


def depth_of(workload: Workload, facts: Mapping[str, float]) -> int:
    """I/Os in flight of all jobs together; 0 where it does not follow from the options."""
    if workload.jobfile:
        return 0
    try:
        said = dict(resolved(replace(workload, options=passed(workload)), facts))
    except UsageError:
        return 0
    if "runtime" not in said or rules.is_off(said.get("time_based", "1")):
        return 0
    if any(option.startswith(_EMPTYING) for option in said):
        return 0
    deep = said.get("ioengine", "auto") in _ASYNCHRONOUS
    jobs, depth = said.get("numjobs", "1"), said.get("iodepth", "1") if deep else "1"
    return int(jobs) * int(depth) if jobs.isdigit() and depth.isdigit() else 0
