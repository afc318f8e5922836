"""Working set: it lies in a cache, on the host, in the array or in the drive.

Signs that only a study as a whole shows.  On a rotating disk random reads are a hundred times
slower than sequential ones; where both are as fast, a cache answered.  And a second size tells:
where a study reads two working sets with the same load, as levels of its size or as two workloads
that differ in nothing else, and the small one is much faster, a cache answered for it.

Source: the seek of a drive of 7,200/min costs 8 to 12 ms, 4 KiB at 150 MB/s cost 0.03 ms
(vendors' data sheets); :data:`ALIKE` is far from any such ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.study import Factor
from iotrial.model.trial import Treatment
from iotrial.model.validity import Check
from iotrial.model.workload import Workload
from iotrial.units import format_bytes, format_change, parse_bytes
from iotrial.validity import trials

ALIKE = 0.8
"""Random reads at this share of the sequential rate are no disk's."""
FASTER = 1.25
"""A smaller working set that is so much faster than the largest."""
_SIZES = ("size", "filesize")
_BETWEEN = {"read": "randread", "write": "randwrite"}


def study(results: Results) -> Iterator[Doubt]:
    if _rotating(results):
        yield from _random_as_sequential(results)
    for factor in results.study.factors:
        if factor.kind == "option" and factor.subject in _SIZES:
            yield from _small_and_fast(results, factor)
    yield from _second_sizes(results)


def _rotating(results: Results) -> bool:
    """Whether every device of the study is a disk that turns.  A loop device says what the disk
    below its file says, but is answered by a file system."""
    devices = [
        (str(name), about)
        for facts in results.facts.values()
        for name, about in facts.get("devices", {}).items()
    ]
    return bool(devices) and all(
        about.get("queue", {}).get("rotational") == "1" and not name.startswith("loop")
        for name, about in devices
    )


def _random_as_sequential(results: Results) -> Iterator[Doubt]:
    workloads = results.study.workloads
    for one, other in product(workloads, workloads):
        operation, pattern = str(one.option("rw")), str(other.option("rw"))
        if _BETWEEN.get(operation) != pattern or not _as_large(one, other):
            continue
        metric = f"{operation}.bw"
        in_order = trials.grouped(results, one.name)
        for treatment, records in trials.grouped(results, other.name).items():
            ordered = trials.mean(in_order.get(treatment, []), metric)
            random = trials.mean(records, metric)
            if ordered and random >= ALIKE * ordered:
                yield CHECK.doubt(
                    f"{other.name} is as fast as {one.name} ({random / ordered:.0%}) on a disk"
                    " that turns: a cache answered"
                )
                break


def _as_large(one: Workload, other: Workload) -> bool:
    return all(one.option(name) == other.option(name) for name in ("bs", "size"))


def _small_and_fast(results: Results, factor: Factor) -> Iterator[Doubt]:
    sizes = {level.label: _bytes(level.option) for level in factor.levels}
    known = [label for label in sizes if sizes[label]]
    largest = max(known, key=lambda label: sizes[label], default="")
    for workload in results.study.workloads:
        metric = _rate(results, workload.name)
        groups = trials.grouped(results, workload.name)
        fast: dict[str, float] = {}
        for treatment, records in groups.items():
            label = dict(treatment).get(factor.name, "")
            other = groups.get(_with(treatment, factor.name, largest), [])
            base, value = trials.mean(other, metric), trials.mean(records, metric)
            if label in known and label != largest and base and value >= FASTER * base:
                fast[label] = max(fast.get(label, 0.0), value / base)
        if fast:
            told = ", ".join(f"{label} by {format_change(ratio)}" for label, ratio in fast.items())
            smallest = min(fast, key=lambda label: sizes[label])
            yield CHECK.doubt(
                f"{workload.name}: smaller working sets are faster than {largest}: {told}."
                f" {_where(results, (sizes[smallest], sizes[largest]))}"
            )


def _second_sizes(results: Results) -> Iterator[Doubt]:
    """Of workloads that differ in their size alone, each against the largest of them."""
    families: dict[tuple[object, ...], list[tuple[int, Workload]]] = {}
    for workload in results.study.workloads:
        said = [str(value) for name, value in workload.options if name in _SIZES]
        if len(said) == 1 and (size := _bytes(said[0])):
            rest = tuple(sorted((n, str(v)) for n, v in workload.options if n not in _SIZES))
            key = (workload.tool, workload.cache, rest)
            families.setdefault(key, []).append((size, workload))
    for own in families.values():
        (most, large), *smaller = sorted(own, key=lambda pair: -pair[0])
        metric = _rate(results, large.name)
        for size, small in smaller:
            ratio = _faster(results, (small.name, large.name), metric)
            if size < most and ratio >= FASTER:
                yield CHECK.doubt(
                    f"{small.name} moves {ratio:.1f} times as much over {format_bytes(size)} as"
                    f" {large.name}, the same load, over {format_bytes(most)}."
                    f" {_where(results, (size, most))}"
                )


def _faster(results: Results, names: tuple[str, str], metric: str) -> float:
    """How many times one workload moves what another does, at the treatment where it is most."""
    small, large = (trials.grouped(results, name) for name in names)
    ratios = [
        trials.mean(records, metric) / base
        for treatment, records in small.items()
        if (base := trials.mean(large.get(treatment, []), metric))
    ]
    return max(ratios, default=0.0)


def _rate(results: Results, workload: str) -> str:
    """What a workload is compared by: its primary metric where that is a rate, else what it read
    or wrote."""
    metric = trials.primary(results, workload)
    if metric.endswith((".iops", ".bw", ".rate")):
        return metric
    records = [r for r in results.valid if r.trial.workload == workload]
    return next((name for name in trials.RATES if trials.mean(records, name)), metric)


def _where(results: Results, sizes: tuple[int, int]) -> str:
    """Which cache it may be."""
    told = [facts.get("memory") for facts in results.facts.values()]
    memory = max((int(value) for value in told if value), default=0)
    if memory and sizes[0] < memory <= sizes[1]:
        return (
            f"The small one fits into the memory ({format_bytes(memory)}), the large one does not"
        )
    return "A cache on the way answers for the small one: the host's, the array's or the drive's"


def _with(treatment: Treatment, factor: str, label: str) -> Treatment:
    return tuple((name, label if name == factor else own) for name, own in treatment)


def _bytes(option: object) -> int:
    try:
        return parse_bytes(str(option))
    except ValueError:
        return 0


CHECK = Check(
    name="working-set",
    title="the working set lies in a cache",
    looks_at="the study's results: fio's random and sequential loads of one block size on disks"
    " that turn; treatments, and workloads, that differ in nothing but `size` (or `filesize`);"
    " the memory of the host",
    limit="random at 80 % of sequential or more on rotating disks; a smaller working set 25 %"
    " faster than the largest",
    remedy="Take a working set several times larger than every cache on the way, or decide on"
    " purpose that the cache is what you measure.",
    source="data sheets of disks: seek 8 to 12 ms",
    study=study,
)
