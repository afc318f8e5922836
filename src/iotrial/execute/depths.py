"""Depths: cells whose ``nr_requests`` is more than the device takes with their scheduler.

Each level may be fine by itself, and the kernel still refuse two of them together
(block/blk-sysfs.c queue_requests_store(), block/blk-mq.c blk_mq_update_nr_requests(); tried on a
loop device with 6.18): without a scheduler a request needs a tag of the device, and there are
``mq/0/nr_tags`` of them, which stay as many whatever is written; a scheduler takes 2048 at most.
Only reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrial.hosts.steps import reads
from iotrial.model.host import Host
from iotrial.model.step import Look, Probe
from iotrial.model.study import Study
from iotrial.model.topology import Topology
from iotrial.model.trial import Treatment, treatment_text
from iotrial.plan.design import cells, levels_of, nodes
from iotrial.plan.foreseen import each_study
from iotrial.tunables import tunable

_SCHEDULER, _REQUESTS = "queue.scheduler", "queue.nr_requests"
_BOTH = (_SCHEDULER, _REQUESTS)
_MOST = 2048
"""Requests that any scheduler takes: MAX_SCHED_RQ of block/blk-mq.h, and the same number by
another name in every kernel that has ``mq/``."""
_NONE = ("none", "noop")
_LOOPS = "/sys/module/loop/parameters/hw_queue_depth"


@dataclass(frozen=True, slots=True)
class _Queue:
    """What a device says: its name for people, the scheduler in force ('': not known), its tags
    (0: not known), and where they are read."""

    name: str
    scheduler: str
    tags: int
    place: str


def too_deep(host: Host, study: Study, topologies: Mapping[str, Topology]) -> Iterator[str]:
    """Every cell that asks for more requests than its device takes with its scheduler, in words.

    Nothing is said of a device that does not tell its tags: it has one queue, or none of its own.
    """
    asked = list(_asked(study, topologies))
    queues = _queues(host, study, list(dict.fromkeys((at, device) for _, at, device, _ in asked)))
    for cell, target, device, held in asked:
        queue = queues[target, device]
        if why := _problem(held.get(_SCHEDULER, queue.scheduler), held[_REQUESTS], queue):
            yield f"cell {treatment_text(cell)}: {_REQUESTS}: {why}"


def _problem(scheduler: str, value: str, queue: _Queue) -> str:
    """Why the kernel refuses ``value`` requests, or ''."""
    if not queue.tags or not scheduler or not value.isdecimal():
        return ""
    requests = int(value)
    if scheduler in _NONE and requests > queue.tags:
        return (
            f"{requests} on {queue.name} is above its {queue.tags} tags ({queue.place}), and"
            f" without a scheduler (`{scheduler}`) each request needs one. Write {queue.tags} or"
            f" less, or take a scheduler with it: that takes {_MOST}."
        )
    if scheduler not in _NONE and requests > _MOST:
        return (
            f"{requests} on {queue.name} is above {_MOST}, the most that a scheduler"
            f" (`{scheduler}`) takes. Write {_MOST} or less."
        )
    return ""


_Asked = tuple[Treatment, str, str, Mapping[str, str]]


def _asked(study: Study, topologies: Mapping[str, Topology]) -> Iterator[_Asked]:
    """Of each cell that sets nr_requests, as far as it says something of queues: target, device,
    and what both tunables are set to there."""
    seen: dict[tuple[Treatment, str, str], None] = {}
    for cell in dict.fromkeys(_cells(study)):
        held: dict[tuple[str, str], dict[str, str]] = {}
        for factor, level in levels_of(study, cell):
            for target in [factor.target] if factor.target else topologies:
                for name, value in level.settings if target in topologies else ():
                    below = topologies[target]
                    for device in nodes(factor, tunable(name), below) if name in _BOTH else ():
                        held.setdefault((target, device), {})[name] = value
        for (target, device), values in held.items():
            if _REQUESTS in values and (cell, target, device) not in seen:
                seen[cell, target, device] = None
                yield cell, target, device, values


def _cells(study: Study) -> Iterator[Treatment]:
    """Every cell of every stage, without the factors that do not touch the two tunables."""
    factors = [factor for factor in study.factors if factor.levels]
    touching = {
        factor.name
        for factor in factors
        if any(name in _BOTH for level in factor.levels for name, _ in level.settings)
    }
    if not any(_REQUESTS in dict(level.settings) for f in factors for level in f.levels):
        return
    for each in each_study(study):
        for workload in each.workloads:
            for cell in cells(each, workload.name):
                yield tuple(pair for pair in cell if pair[0] in touching)


def _queues(
    host: Host, study: Study, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], _Queue]:
    """What every device of a target says, asked in one batch."""
    loops = {target.name for target in study.targets if target.kind == "loop"}
    # Before a loop device is made, another disk stands in for it, whose queue is its own.
    other = [at in loops and not device.startswith("loop") for at, device in wanted]
    probes = [
        each
        for (_, device), is_other in zip(wanted, other, strict=True)
        for each in (
            tunable(_SCHEDULER).probe(device),
            Probe(_LOOPS if is_other else f"/sys/block/{device}/mq/0/nr_tags"),
        )
    ]
    answers = host.batch([Look(probe) for probe in probes]) if probes else ()
    said = [reads(probe, answer) or "" for probe, answer in zip(probes, answers, strict=True)]
    return {
        (at, device): _Queue(
            "a new loop device" if is_other else device,
            "none" if is_other else scheduler,
            int(tags) if tags.isdecimal() else 0,
            probe.path,
        )
        for (at, device), is_other, scheduler, tags, probe in zip(
            wanted, other, said[::2], said[1::2], probes[1::2], strict=True
        )
    }
