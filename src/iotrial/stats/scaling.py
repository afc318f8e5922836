"""Scaling: how much of n times as much equipment arrives, and what stood in its way.

The efficiency of a level of a *count* (arrays, hosts …) is the ratio of its rate to the baseline's,
divided by the ratio of the counts: 1 is linear, 0.9 loses a tenth.

*Causes* are what stood at its limit, and what was uneven, while a load was measured: observations
and no proofs.  That a CPU was busy does not show that it held the load back, and what nobody
samples (an array's own processors, a switch) may be the limit unseen.  Shares of a limit follow
Gregg's USE method (utilisation, saturation, errors): a resource is suspected where its use is near
what it can do.

Sources: N. J. Gunther (2007), *Guerrilla Capacity Planning*, chapter 4; B. Gregg (2013),
Communications of the ACM 56(2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Literal

from iotrial.model.finding import Finding
from iotrial.model.measurement import METRICS, Metrics
from iotrial.model.results import ResourceUsage
from iotrial.model.study import Study
from iotrial.units import format_seconds

COUNTS = (
    "arrays", "hosts", "nodes", "clients", "servers", "devices", "disks", "drives", "volumes",
    "luns", "paths", "controllers", "targets",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scaling:
    """Efficiency and the ends of its interval (None: no interval)."""

    efficiency: float
    low: float | None
    high: float | None


def counting(study: Study) -> frozenset[str]:
    """The factors of a study that count something: those that say so, or are named for it."""
    return frozenset(
        factor.name
        for factor in study.factors
        if factor.kind == "count" or factor.name.lower() in COUNTS
    )


def scaling(
    finding: Finding, metrics: Metrics = METRICS, counts: Container[str] = ()
) -> Scaling | None:
    """The efficiency of a finding on a rate and a count; None for any other.  ``metrics`` are those
    of the study, ``counts`` factors that count, whatever their names."""
    counted = finding.factor in counts or finding.factor.lower() in COUNTS
    if not counted or not metrics.higher(finding.metric):
        return None
    try:
        more = float(finding.level) / float(finding.baseline)
    except (ValueError, ZeroDivisionError):
        return None
    if not math.isfinite(finding.ratio) or finding.bound or not more > 0:
        return None
    ends = (None if end is None else end / more for end in (finding.low, finding.high))
    return Scaling(finding.ratio / more, *ends)


# -- causes ---------------------------------------------------------------------------------------

CPU = 0.90
"""Of all CPUs of a host: from there on work waits for a CPU, some of the time."""
CORE = 0.95
"""Of one CPU: a job, or the interrupts of one queue, have no more."""
STOLEN = 0.05
LINK = 0.90
"""Of its payload in one direction."""
QUEUE = 0.90
"""Of the I/Os that a disk takes at once, on average."""
UNEVEN = 0.25
"""Above or below an even share, as a share of that."""
SLOWER = 1.2
"""Times the mean latency of the baseline."""
LEAST = 50.0
"""I/Os a second of each peer, on average, below which shares are chance."""
NAMED = 3
_PAIR = 2

What = Literal["cpu", "core", "stolen", "nic", "adapter", "queue", "uneven", "slower", "nothing"]
_LINKS: tuple[Literal["nic", "adapter"], ...] = ("nic", "adapter")


@dataclass(frozen=True, slots=True)
class ScalingObservation:
    """One thing that was seen, as a sentence (``said``); ``host`` and ``name`` of what stands out
    most ('': none), ``value`` the share that was compared with a limit or with an even share."""

    what: What
    said: str
    host: str = ""
    name: str = ""
    value: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def typical(trials: Iterable[Sequence[ResourceUsage]]) -> tuple[ResourceUsage, ...]:
    """What each thing bore in most trials: the median of each number, in the first one's order."""
    found: dict[tuple[str, ...], list[ResourceUsage]] = {}
    for strains in trials:
        for each in strains:
            found.setdefault(_key(each), []).append(each)
    return tuple(_middle(same) for same in found.values())


def _key(each: ResourceUsage) -> tuple[str, ...]:
    """A loop device may have another number, and another CPU be the busiest, in each trial."""
    own = "" if each.kind == "core" or (each.kind == "device" and each.of) else each.name
    return each.host, each.kind, own, each.of


def _middle(same: Sequence[ResourceUsage]) -> ResourceUsage:
    return replace(
        same[-1],
        busy=_median(each.busy for each in same),
        iowait=_median(each.iowait for each in same),
        load=_median(each.load for each in same),
        interrupts=median(each.interrupts for each in same),
        stolen=median(each.stolen for each in same),
        ios=median(each.ios for each in same),
        came=median(each.came for each in same),
        went=median(each.went for each in same),
        latency=median(each.latency for each in same),
        depth=median(each.depth for each in same),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def why(
    now: Sequence[ResourceUsage], before: Sequence[ResourceUsage] = ()
) -> tuple[ScalingObservation, ...]:
    """What stands out in ``now``, the likeliest first; ``before`` is the same at the baseline.
    Nothing where nothing was sampled."""
    if not now:
        return ()
    found = [*_at_limit(now)]
    if not found:
        found.append(ScalingObservation("nothing", "no sampled resource was at its limit"))
        found += _slower(now, before)
    return (*found, *uneven(now))


def _at_limit(strains: Sequence[ResourceUsage]) -> Iterator[ScalingObservation]:
    cpus = [each for each in strains if each.kind == "cpu"]
    full = [each for each in cpus if (each.busy or 0) >= CPU]
    yield from _most("cpu", full, len(cpus), _share, _cpu)
    stolen = [each for each in cpus if each.stolen >= STOLEN]
    yield from _most("stolen", stolen, len(cpus), lambda each: each.stolen, _stolen)
    busy = {each.host for each in full}
    cores = [each for each in strains if each.kind == "core"]
    alone = [each for each in cores if _share(each) >= CORE and each.host not in busy]
    yield from _most("core", alone, len(cores), _share, _core)
    for kind in _LINKS:
        links = [each for each in strains if each.kind == kind]
        near = [each for each in links if _share(each) >= LINK]
        yield from _most(kind, near, len(links), _share, _link)
    disks = [each for each in _bottom(strains) if each.limit]
    queued = [each for each in disks if _filled(each) >= QUEUE]
    yield from _most("queue", queued, len(disks), _filled, _queue)


def _most(
    what: What,
    found: Sequence[ResourceUsage],
    of: int,
    value: Callable[[ResourceUsage], float],
    words: Callable[[ResourceUsage], str],
) -> Iterator[ScalingObservation]:
    """The one that stands out most, and how many are like it."""
    if found:
        most = max(found, key=value)
        more = f" ({len(found)} of {of} at their limit)" if len(found) > 1 else ""
        yield ScalingObservation(what, words(most) + more, most.host, most.name, value(most))


def _share(each: ResourceUsage) -> float:
    return each.busy or 0.0


def _filled(each: ResourceUsage) -> float:
    return each.depth / each.limit


def _cpu(each: ResourceUsage) -> str:
    interrupted = f", {each.interrupts:.0%} in interrupts" if each.interrupts >= 0.1 else ""  # noqa: PLR2004
    return f"the CPU of {each.host} was {_share(each):.0%} busy{interrupted}"


def _stolen(each: ResourceUsage) -> str:
    return f"the hypervisor withheld {each.stolen:.0%} of the CPU time of {each.host} (steal)"


def _core(each: ResourceUsage) -> str:
    interrupted = f", {each.interrupts:.0%} in interrupts" if each.interrupts >= 0.1 else ""  # noqa: PLR2004
    return f"CPU {each.name} of {each.host} was {_share(each):.0%} busy{interrupted}"


def _link(each: ResourceUsage) -> str:
    return f"{each.name} of {each.host} used {_share(each):.0%} of its link bandwidth"


def _queue(each: ResourceUsage) -> str:
    return (
        f"the queue of {each.name} on {each.host} was full: {each.depth:.1f} of at most"
        f" {each.limit} I/Os in flight on average"
    )


def _bottom(strains: Sequence[ResourceUsage]) -> list[ResourceUsage]:
    """The disks: paths, and devices that are not built on any."""
    built = {(each.host, each.of) for each in strains if each.kind == "path"}
    return [
        each
        for each in strains
        if each.kind == "path" or (each.kind == "device" and (each.host, each.of) not in built)
    ]


def _slower(
    now: Sequence[ResourceUsage], before: Sequence[ResourceUsage]
) -> Iterator[ScalingObservation]:
    """Devices whose I/Os take longer than at the baseline, though nothing here is full."""
    known = {_key(each): each for each in before if each.kind == "device" and each.latency}
    grown = [
        (each.latency / known[_key(each)].latency, each)
        for each in now
        if each.kind == "device" and _key(each) in known and each.latency
    ]
    if not grown:
        return
    most, each = max(grown, key=lambda pair: pair[0])
    if most >= SLOWER:
        was = known[_key(each)].latency
        yield ScalingObservation(
            "slower",
            f"I/O latency of {each.name} on {each.host} was {format_seconds(each.latency)}, at"
            f" the baseline {format_seconds(was)}: the bottleneck is below the sampled layers"
            " (the device, an array, the path to it)",
            each.host,
            each.name,
            most,
        )


def uneven(strains: Sequence[ResourceUsage]) -> tuple[ScalingObservation, ...]:
    """Where peers did not carry alike: hosts with as many parts, targets of the same name, paths
    of one device, adapters of one host."""
    found = [*_hosts(strains), *_parts(strains)]
    paths: dict[tuple[str, str], dict[str, float]] = {}
    adapters: dict[str, dict[str, float]] = {}
    for each in strains:
        if each.kind == "path":
            paths.setdefault((each.host, each.of), {})[each.name] = each.ios
        elif each.kind == "adapter":
            adapters.setdefault(each.host, {})[each.name] = each.ios
    for (host, of), shares in paths.items():
        where = of or host
        found += _carried(shares, host, f"of the I/O of the {len(shares)} paths of {where}")
    for host, shares in adapters.items():
        found += _carried(shares, host, f"of the I/O through the {len(shares)} adapters of {host}")
    return tuple(found)


def apart(shares: Mapping[str, float]) -> tuple[str, float] | None:
    """Who is farthest from an even share, and its share of that (2.0: twice as much as even);
    None where all are near, or there is nothing to share."""
    mean = sum(shares.values()) / len(shares) if shares else 0.0
    if len(shares) < _PAIR or mean <= 0:
        return None
    # Of two that are as far apart the one that did less: there it is held back.
    name = max(shares, key=lambda each: (round(abs(shares[each] / mean - 1), 6), -shares[each]))
    ratio = shares[name] / mean
    return (name, ratio) if abs(ratio - 1) > UNEVEN else None


def _carried(shares: Mapping[str, float], host: str, words: str) -> Iterator[ScalingObservation]:
    total = sum(shares.values())
    if total / max(1, len(shares)) < LEAST or not apart(shares):
        return
    name = max(shares, key=lambda each: shares[each])
    part = shares[name] / total
    said = f"{name} carried {part:.0%} {words} (even: {1 / len(shares):.0%})"
    yield ScalingObservation("uneven", said, host, name, part)


def _hosts(strains: Sequence[ResourceUsage]) -> Iterator[ScalingObservation]:
    ios: dict[str, float] = {}
    parts: dict[str, set[str]] = {}
    for each in strains:
        if each.kind == "device":
            ios[each.host] = ios.get(each.host, 0.0) + each.ios
            parts.setdefault(each.host, set()).add(each.of.partition("/")[2])
    for alike in {frozenset(names) for names in parts.values()}:
        mine = {host: ios[host] for host, names in parts.items() if names == alike}
        yield from _did(mine, "hosts")


def _parts(strains: Sequence[ResourceUsage]) -> Iterator[ScalingObservation]:
    """The devices of one target on one host: ``arrays#1``, ``arrays#2``."""
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for each in strains:
        if each.kind == "device" and "#" in each.of:
            groups.setdefault((each.host, each.of.partition("#")[0]), {})[each.of] = each.ios
    for (_host, of), mine in groups.items():
        yield from _did(mine, f"devices of {of}")


def _did(shares: Mapping[str, float], words: str) -> Iterator[ScalingObservation]:
    """``shares`` are by host, or by part, which begins with its host."""
    most = apart(shares)
    if most and sum(shares.values()) / len(shares) >= LEAST:
        name, ratio = most
        said = f"{name} reached {ratio:.0%} of the mean of the {len(shares)} {words}"
        yield ScalingObservation("uneven", said, name.partition("/")[0], name, ratio)
