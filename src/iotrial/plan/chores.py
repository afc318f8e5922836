"""Chores and the page cache in a study: what cannot be meant, and what it costs.

Runs on the nouns, with the tools' own knowledge; still without a machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iotrial.errors import IotrialError
from iotrial.model.chore import Chore
from iotrial.model.study import Factor, Study
from iotrial.model.target import Target
from iotrial.model.tool import Aimed, Caching, LaysOut
from iotrial.model.trial import Trial
from iotrial.model.workload import Workload
from iotrial.plan.ahead import all_blocks
from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem
from iotrial.plan.sense import variants
from iotrial.tools import tool
from iotrial.units import parse_bytes

ASSUMED_FILL_RATE = 200e6
"""Bytes per second of random data, which /dev/urandom gives rather than the disk takes."""
_TRIM_SECONDS = 1.0
_DROP_SECONDS = 0.5
_FORGETFUL = ("tmpfs", "ramfs")


@dataclass(frozen=True, slots=True)
class Doing:
    """A chore as planned: ``times`` in all, each of ``written`` bytes (infinite: unknown) and
    ``seconds`` (of a command nobody knows)."""

    workload: str
    target: str
    when: Literal["prepare", "cleanup"]
    chore: Chore
    times: int
    written: float
    seconds: float


def doings(study: Study, aims: Mapping[str, Aimed]) -> tuple[Doing, ...]:
    """Every chore of the study, with what it will cost.  ``aims`` maps a target's name to what is
    loaded, with its size in bytes.  Raises UsageError while levels are open."""
    trials = all_blocks(study)
    found: list[Doing] = []
    shared: set[tuple[str, tuple[Chore, ...]]] = set()
    for workload in study.workloads:
        for name in dict.fromkeys(t.target for t in trials if t.workload == workload.name):
            mine = [t for t in trials if (t.workload, t.target) == (workload.name, name)]
            once = tuple(c for c in workload.prepare if c.each == "study")
            known = (name, once) in shared and _sharable(once)
            shared.add((name, once))
            prepare = [c for c in workload.prepare if not (known and c.each == "study")]
            size = aims[name].size or study.target(name).size
            found += _doings(workload, "prepare", prepare, mine, size)
            found += _doings(workload, "cleanup", workload.cleanup, mine, size)
    return tuple(found)


def _sharable(chores: Sequence[Chore]) -> bool:
    """Whether chores are the same for whatever workload they are done."""
    return not any(chore.kind in ("lay out", "command") for chore in chores)


def _doings(
    workload: Workload,
    when: Literal["prepare", "cleanup"],
    chores: Sequence[Chore],
    trials: Sequence[Trial],
    size: int,
) -> Iterator[Doing]:
    hosts = len({t.host for t in trials})
    times = {"study": hosts, "block": len({t.block for t in trials}), "trial": len(trials)}
    for chore in chores:
        written = _written(chore, workload, size)
        seconds = written / ASSUMED_FILL_RATE if math.isfinite(written) else 0.0
        seconds += _TRIM_SECONDS if chore.kind == "trim" else 0.0
        name = trials[0].target
        yield Doing(workload.name, name, when, chore, times[chore.each], written, seconds)


def _written(chore: Chore, workload: Workload, size: int) -> float:
    """Bytes at most; infinite where the size is not known before it is there."""
    known = float(size) or math.inf
    match chore.kind:
        case "fill":
            return chore.share * known
        case "precondition":
            return chore.times * known
        case "lay out":
            return known if size else _files(workload)
    return 0.0


def _files(workload: Workload) -> float:
    try:
        size = parse_bytes(str(workload.option("size", "0")))
        return float(size * int(str(workload.option("numjobs", 1)))) or math.inf
    except ValueError:
        return math.inf


def around(workload: Workload) -> float:
    """Seconds that the cache takes before each load."""
    return _DROP_SECONDS if workload.cache in ("drop", "remount") else 0.0


# What cannot be meant.


def chore_problems(
    workloads: Sequence[Workload], factors: Sequence[Factor], targets: Sequence[Target]
) -> Iterator[Problem]:
    """Every problem with cache, chores and evidence."""
    first: dict[str, str] = {}
    for workload in workloads:
        path: KeyPath = ("workloads", workload.name)
        if workload.cache == "direct":
            yield from _direct((*path, "cache"), workload, factors)
        if workload.cache == "remount":
            yield from _remount((*path, "cache"), targets)
        for key, chores in (("prepare", workload.prepare), ("cleanup", workload.cleanup)):
            for at, chore in enumerate(chores):
                for target in targets:
                    yield from _chore((*path, key, at), chore, workload, target)
        for at, argv in enumerate(workload.evidence):
            if not argv or not argv[0] or any("\0" in word for word in argv):
                yield Problem((*path, "evidence", at), "a command without a program")
        yield from _undoing((*path, "prepare"), workload, targets, first)


def _direct(path: KeyPath, workload: Workload, factors: Sequence[Factor]) -> Iterator[Problem]:
    driver = tool(workload.tool)
    if not isinstance(driver, Caching):
        message = f"nobody knows whether {driver.name} goes past the page cache here"
        yield Problem(path, message, 'Use cache = "drop", or "keep".')
        return
    try:
        why = [driver.buffered(variant) for _, variant in variants(workload, factors)]
    except IotrialError:
        return  # the tool says so at its own place
    if any(why):
        message = f"the I/O goes through the page cache: {next(filter(None, why))}"
        yield Problem(path, message, 'Have the tool use O_DIRECT, or say cache = "drop".')


def _remount(path: KeyPath, targets: Sequence[Target]) -> Iterator[Problem]:
    for target in targets:
        if not (target.filesystem or target.mount):
            message = f"target {target.name} is not mounted by iotrial"
            advice = 'Give it `filesystem` or `mount`, or say cache = "drop".'
            yield Problem(path, message, advice)
        elif target.mount and target.mount.type in _FORGETFUL:
            message = f"{target.mount.type} loses what it holds when it is unmounted"
            yield Problem(path, message, "Leave it out: all of it is memory.")


def _chore(path: KeyPath, chore: Chore, workload: Workload, target: Target) -> Iterator[Problem]:
    kind = target.under_load
    if kind != "directory":
        return
    if chore.kind == "precondition":
        message = f"target {target.name} is a directory: its file system is not overwritten"
        yield Problem(path, message, 'Use { fill = "…" }, or precondition a device or file.')
    if chore.kind == "lay out" and not isinstance(tool(workload.tool), LaysOut):
        message = f"{workload.tool} lays out no files without a load"
        yield Problem(path, message, "Use a file target, or a command of your own.")


def _undoing(
    path: KeyPath, workload: Workload, targets: Sequence[Target], first: dict[str, str]
) -> Iterator[Problem]:
    """Two workloads that prepare one target differently, each once: the later undoes the
    earlier, whose trials go on among its own."""
    for target in targets:
        once = [c for c in workload.prepare if c.each != "trial" and c.destroys(target)]
        if not once:
            continue
        words = ", ".join(chore.words for chore in once)
        if first.setdefault(target.name, words) != words:
            message = f"another workload prepares {target.name} otherwise: {first[target.name]}"
            advice = 'Trials of both are mixed. Say each = "trial", or make a study for each.'
            yield Problem(path, message, advice)
