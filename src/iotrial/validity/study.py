"""Of a study as a whole: what its valid trials show only together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from math import exp, log, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from iotrial.model.measurement import of_section, split
from iotrial.model.results import Results
from iotrial.model.study import Factor
from iotrial.model.trial import Doubt, Treatment, TrialRecord, treatment_text
from iotrial.model.validity import study_check
from iotrial.model.workload import Workload
from iotrial.stats.scaling import UNEVEN, apart
from iotrial.units import format_bytes, format_change, format_value, parse_bytes

if TYPE_CHECKING:
    from iotrial.stats.blocks import Floats, Indices

RATES = ("read.bw", "write.bw", "mixed.bw", "read.iops", "write.iops")


def primary(results: Results, workload: str) -> str:
    """The metric that the study decides a workload by; '' where it says none."""
    return results.study.decide.leading.get(workload, "")


def grouped(results: Results, workload: str) -> dict[Treatment, list[TrialRecord]]:
    """Treatment → its valid trials in the order of execution."""
    found: dict[Treatment, list[TrialRecord]] = defaultdict(list)
    for record in results.valid:
        if record.trial.workload == workload:
            found[record.trial.treatment].append(record)
    return found


def mean(records: list[TrialRecord], metric: str) -> float:
    """Geometric mean of a metric over trials; 0 where one of them has none."""
    values = [record.value(metric) for record in records]
    if not values or not all(value and value > 0 for value in values):
        return 0.0
    return exp(sum(log(value) for value in values if value) / len(values))


ERRORS = 4.0
"""Standard errors: with 6 degrees of freedom and more, by chance in less than 0.8 % of studies."""
LEAST_DF = 6
_FEWEST = 3
"""Trials of a treatment: one first, and two that scatter."""


@study_check(
    "first-run",
    "the first trial of each treatment differs from the others",
    looks_at="the valid trials of the study, in their order",
    limit=(
        "more than the margin and four standard errors, over treatments with at least three"
        " trials, 6 degrees of freedom in total"
    ),
    remedy=(
        "Warm up first (`prepare` for each study: precondition, lay out), and do not report"
        " absolute values of the first block."
    ),
    source="Student's t on logarithms, as the module says",
)
def first_run(results: Results) -> Iterator[Doubt]:
    """The first trial of each treatment differs from its later ones.

    Only the first block has these costs: blocks written for the first time, cold caches of array
    and drive, a rising CPU clock, an empty allocator.  For each treatment the logarithm of its
    first trial is compared with the mean of its later ones; the mean of these differences over
    treatments is compared with the scatter of the later trials.  Blocking removes the effect from
    comparisons between treatments; it remains in absolute values, and later trials may not be
    stationary either.

    Reference: Student (1908), The probable error of a mean, Biometrika 6, 1-25.
    """
    for workload in results.study.judged:
        metric = primary(results, workload.name)
        rows = [
            [log(value) for record in records if (value := record.value(metric)) and value > 0]
            for records in grouped(results, workload.name).values()
        ]
        effect, errors = first_against_later([row for row in rows if len(row) >= _FEWEST])
        if errors >= ERRORS and abs(effect) > results.study.decide.margin:
            what = (
                f"{workload.name}: the first trial of each treatment differs from its later ones"
                f" by {format_change(exp(effect))} in {metric}"
            )
            yield first_run.doubt(what)


def first_against_later(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The mean difference of each row's first value to the mean of its others, and how many
    standard errors that is; (0, 0) where there are too few."""
    freedom = sum(len(row) - 2 for row in rows)
    if freedom < LEAST_DF:
        return 0.0, 0.0
    later = [fmean(row[1:]) for row in rows]
    effect = fmean(row[0] - mean for row, mean in zip(rows, later, strict=True))
    squares = sum(
        (value - mean) ** 2 for row, mean in zip(rows, later, strict=True) for value in row[1:]
    )
    weight = sum(1 + 1 / (len(row) - 1) for row in rows) / len(rows) ** 2
    error = sqrt(squares / freedom * weight)
    if not error:
        return effect, ERRORS if effect else 0.0
    return effect, abs(effect) / error


ALIKE = 0.8
"""Random reads at this share of the sequential rate are no disk's."""
FASTER = 1.25
"""A smaller working set that is so much faster than the largest."""
_SIZES = ("size", "filesize")
_BETWEEN = {"read": "randread", "write": "randwrite"}


@study_check(
    "working-set",
    "the working set fits in a cache",
    looks_at=(
        "the study's results: fio's random and sequential loads of one block size on rotating"
        " disks; treatments and workloads that differ only in `size` (or `filesize`); the"
        " memory of the host"
    ),
    limit=(
        "random at 80 % of sequential or more on rotating disks; a smaller working set 25 %"
        " faster than the largest"
    ),
    remedy=(
        "Use a working set several times larger than every cache on the path, or measure the"
        " cache on purpose."
    ),
    source="data sheets of disks: seek 8 to 12 ms",
)
def working_set(results: Results) -> Iterator[Doubt]:
    """The working set fits in a cache of the host, the array or the drive.

    Only a study as a whole shows this.  On a rotating disk random reads are a hundred times slower
    than sequential ones; if both are as fast, reads were served from a cache.  A second size shows
    it too: if a study reads two working sets with the same load, as levels of its size or as two
    workloads that differ only in size, and the smaller is much faster, it was served from a cache.

    Source: the seek of a drive of 7,200/min costs 8 to 12 ms, 4 KiB at 150 MB/s cost 0.03 ms
    (vendors' data sheets); :data:`ALIKE` is far from any such ratio.
    """
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
    workloads = results.study.judged
    for one, other in product(workloads, workloads):
        operation, pattern = str(one.option("rw")), str(other.option("rw"))
        if _BETWEEN.get(operation) != pattern or not _as_large(one, other):
            continue
        metric = f"{operation}.bw"
        in_order = grouped(results, one.name)
        for treatment, records in grouped(results, other.name).items():
            ordered = mean(in_order.get(treatment, []), metric)
            random = mean(records, metric)
            if ordered and random >= ALIKE * ordered:
                yield working_set.doubt(
                    f"{other.name} is as fast as {one.name} ({random / ordered:.0%}) on a"
                    " rotating disk: reads were served from a cache"
                )
                break


def _as_large(one: Workload, other: Workload) -> bool:
    return all(one.option(name) == other.option(name) for name in ("bs", "size"))


def _small_and_fast(results: Results, factor: Factor) -> Iterator[Doubt]:
    sizes = {level.label: _bytes(level.option) for level in factor.levels}
    known = [label for label in sizes if sizes[label]]
    largest = max(known, key=lambda label: sizes[label], default="")
    for workload in results.study.judged:
        metric = _rate(results, workload.name)
        groups = grouped(results, workload.name)
        fast: dict[str, float] = {}
        for treatment, records in groups.items():
            label = dict(treatment).get(factor.name, "")
            other = groups.get(_with(treatment, factor.name, largest), [])
            base, value = mean(other, metric), mean(records, metric)
            if label in known and label != largest and base and value >= FASTER * base:
                fast[label] = max(fast.get(label, 0.0), value / base)
        if fast:
            told = ", ".join(f"{label} by {format_change(ratio)}" for label, ratio in fast.items())
            smallest = min(fast, key=lambda label: sizes[label])
            yield working_set.doubt(
                f"{workload.name}: smaller working sets are faster than {largest}: {told}."
                f" {_where(results, (sizes[smallest], sizes[largest]))}"
            )


def _second_sizes(results: Results) -> Iterator[Doubt]:
    """Of workloads that differ in their size alone, each against the largest of them."""
    families: dict[tuple[object, ...], list[tuple[int, Workload]]] = {}
    for workload in results.study.judged:
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
                yield working_set.doubt(
                    f"{small.name} moves {ratio:.1f} times as much over {format_bytes(size)} as"
                    f" {large.name}, the same load, over {format_bytes(most)}."
                    f" {_where(results, (size, most))}"
                )


def _faster(results: Results, names: tuple[str, str], metric: str) -> float:
    """How many times one workload moves what another does, at the treatment where it is most."""
    small, large = (grouped(results, name) for name in names)
    ratios = [
        mean(records, metric) / base
        for treatment, records in small.items()
        if (base := mean(large.get(treatment, []), metric))
    ]
    return max(ratios, default=0.0)


def _rate(results: Results, workload: str) -> str:
    """What a workload is compared by: its primary metric where that is a rate, else what it read
    or wrote."""
    metric = primary(results, workload)
    if metric.endswith((".iops", ".bw", ".rate")):
        return metric
    records = [r for r in results.valid if r.trial.workload == workload]
    return next((name for name in RATES if mean(records, name)), metric)


def _where(results: Results, sizes: tuple[int, int]) -> str:
    """Which cache it may be."""
    told = [facts.get("memory") for facts in results.facts.values()]
    memory = max((int(value) for value in told if value), default=0)
    if memory and sizes[0] < memory <= sizes[1]:
        return (
            f"The smaller working set fits in memory ({format_bytes(memory)}), the larger does not"
        )
    return "The smaller working set is served from a cache: of the host, the array or the drive"


def _with(treatment: Treatment, factor: str, label: str) -> Treatment:
    return tuple((name, label if name == factor else own) for name, own in treatment)


def _bytes(option: object) -> int:
    try:
        return parse_bytes(str(option))
    except ValueError:
        return 0


NEAR = 0.99
_TOOL = "iperf3"
_RECEIVED = {"read": ("read.bw",), "write": ("write.bw.received", "write.bw")}


@study_check(
    "link",
    "the link is saturated at every treatment",
    looks_at="the study's results: iperf3 workloads against the bandwidth of all others",
    limit="all treatments within 1 % of the iperf3 bandwidth",
    remedy=(
        "Use smaller blocks or fewer jobs, decide by latency or CPU per I/O, or use a faster link."
    ),
    source="iperf3(1): payload, as received",
)
def link(results: Results) -> Iterator[Doubt]:
    """All treatments reach the link bandwidth, so that no difference is detectable.

    In a study over a network, an iperf3 workload measures the bandwidth of the link.  If every
    treatment of another workload is within 1 % of it, the link was measured and not the setting:
    the verdict ``same`` is then not evidence about the setting.  iperf3 counts payload, as a load
    does; a load whose protocol needs a few percent of the link stays below the limit.
    """
    for operation in ("read", "write"):
        ceiling = _ceiling(results, operation)
        metric = f"{operation}.bw"
        for workload in results.study.judged if ceiling else ():
            if workload.tool == _TOOL:
                continue
            groups = grouped(results, workload.name).values()
            rates = [mean(records, metric) for records in groups]
            if rates and min(rates) >= NEAR * ceiling:
                most = format_value(ceiling, "bytes/s")
                yield link.doubt(
                    f"{workload.name} saturates the link at every treatment: {metric} is at"
                    f" least {min(rates) / ceiling:.1%} of the iperf3 bandwidth, {most}. No"
                    " difference is detectable"
                )


def _ceiling(results: Results, operation: str) -> float:
    """What iperf3 reaches in this direction at its best treatment; 0 not known."""
    found = [0.0]
    for workload in results.study.judged:
        if workload.tool == _TOOL:
            for records in grouped(results, workload.name).values():
                means = (mean(records, metric) for metric in _RECEIVED[operation])
                found.append(next(filter(None, means), 0.0))
    return max(found)


_ADD_UP = ("iops", "bw", "rate")


@study_check(
    "uneven-hosts",
    "the result of one host differs greatly from the other hosts",
    looks_at=(
        "the study's results: the primary metric of each host of a treatment, over all its"
        " trials, if it is additive (IOPS, bandwidth)"
    ),
    limit=f"{UNEVEN:.0%} above or below the mean of the hosts that load targets of the same names",
    remedy=(
        "Check `Load distribution` in the report for that host: CPU, adapter, paths. Measure a"
        " host of another kind separately."
    ),
    source="the study's measurements",
)
def uneven_hosts(results: Results) -> Iterator[Doubt]:
    """The result of one host differs greatly from the other hosts under the same load.

    Their sum then does not represent n hosts, and scaling depends on the one host.  Only hosts that
    load targets of the same names are compared.
    """
    for workload in results.study.judged:
        name = primary(results, workload.name)
        if "." not in name or split(name)[1] not in _ADD_UP:
            continue
        found = []
        for treatment, records in grouped(results, workload.name).items():
            found += [
                (abs(most[1] - 1), treatment, most, len(did))
                for did in _alike(records, name)
                if (most := apart(did))
            ]
        if not found:
            continue
        _, treatment, (host, ratio), hosts = max(found, key=lambda each: each[0])
        more = f"; {len(found) - 1} more like it" if len(found) > 1 else ""
        yield uneven_hosts.doubt(
            f"{workload.name} at {treatment_text(treatment)}: {host} reached {ratio:.0%} of the"
            f" mean of the {hosts} hosts{more}"
        )


def _alike(records: Sequence[TrialRecord], name: str) -> Iterator[dict[str, float]]:
    """What hosts with targets of the same names did, each over all trials."""
    did: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for record in records:
        values = record.by_job(name)
        for part in record.parts:
            host, _, target = part.partition("/")
            did[host] = did.get(host, 0.0) + (values.get(part) or 0.0)
            names.setdefault(host, set()).add(target)
    for targets in {frozenset(each) for each in names.values()}:
        yield {host: did[host] for host, each in names.items() if each == targets}


STEADY = 0.002
"""Standard deviation of log rates, over all treatments, below which no storage is as steady."""
AT_CAP = 0.02
"""A rate so near below what the load was told to offer is what was offered."""
_LEAST_TRIALS = 6


@study_check(
    "capped",
    "a limit was measured, and not the device",
    looks_at=(
        "the rates of all valid trials of a workload; the `rate` and `rate_iops` of fio; how busy"
        " the device was"
    ),
    limit=(
        "all treatments within 2 % below the rate that the load offers; or a standard deviation"
        " of less than 0.2 % over at least six trials of two and more treatments"
    ),
    remedy=(
        "Remove the cap (rate, rate_iops, a limit of the link or of a control group), or compare"
        " latencies at this rate: they are what differs then."
    ),
    source=(
        "fio(1), rate and rate_iops; measured: capped at 200 and 5,000 IOPS fio's rate varied by"
        " 0.14 and 0.10 %, uncapped on a loop device by 0.5 % and more"
    ),
)
def capped(results: Results) -> Iterator[Doubt]:
    """Every treatment reached the same rate, because something else than the device limits it.

    Of a load that offers a fixed rate (``rate_iops``), through a link or under a control group that
    is slower than the device, every treatment has that rate: *same* is true of the cap and says
    nothing of the treatments.  The load's own options say what it offers.  Of limits elsewhere the
    numbers tell: storage varies from trial to trial, a token bucket does not.
    """
    for workload in results.study.judged:
        metric = primary(results, workload.name)
        if split(metric)[1] not in ("iops", "bw") if metric else True:
            continue  # iops.within as well: it is found by rates that are offered
        groups = grouped(results, workload.name)
        values = [
            value
            for records in groups.values()
            for record in records
            if (value := record.value(metric)) and value > 0
        ]
        if len(groups) < _SEVERAL or len(values) < _LEAST_TRIALS:
            continue
        offered = _offered(workload, metric)
        unit = results.study.metrics.display_unit(metric)
        if offered and all(value >= offered * (1 - AT_CAP) for value in values):
            yield capped.doubt(
                f"{workload.name}: every trial reached the {format_value(offered, unit)} that the"
                " load offers (rate): the device was not at its limit"
            )
            continue
        logs = [log(value) for value in values]
        middle = fmean(logs)
        sd = sqrt(fmean((each - middle) ** 2 for each in logs))
        if sd < STEADY:
            yield capped.doubt(
                f"{workload.name}: {metric} of all {len(values)} trials is"
                f" {format_value(exp(middle), unit)} within {sd:.2%}, steadier than storage is: a"
                " limit of the load, a link or a control group was measured"
            )


_SEVERAL = 2


def _offered(workload: Workload, metric: str) -> float:
    """What fio's options let the load do of a metric, at most; 0 where they do not limit it."""
    if workload.tool != "fio":
        return 0.0
    operation, quantity = split(metric)
    said = dict(workload.options).get("rate_iops" if quantity == "iops" else "rate", "")
    words = str(said).split(",")
    place = {"read": 0, "write": 1}.get(operation, 0)
    text = words[place] if place < len(words) and words[place] else words[0]
    try:
        each = float(parse_bytes(text)) if text else 0.0
        jobs = int(str(workload.option("numjobs", 1)))
    except ValueError:
        return 0.0
    return each * jobs


FELL = 0.10
"""Of the rate: a smaller step is left to the tests of drift."""
CHANCE = 0.001
"""The share of studies of independent trials that are doubted all the same."""
_ENDS = 3
"""Trials on each side of a step."""
_EXCHANGES, _FEWER, _MANY = 9999, 999, 1000
_AT_ONCE = 1_000_000  # numbers
_STEEPER = 0.5


@study_check(
    "credits",
    "the rate fell by a step after so many bytes",
    looks_at="the rates of all valid trials of a workload in their order; the bytes they moved",
    limit=(
        "one step down by 10 % and more, by chance in less than 0.1 % of studies, that leaves less"
        " than half of the variation that a slow drift leaves"
    ),
    remedy=(
        'Use the credits or the fast area up before the first trial: `drain = "30m"` under'
        ' [design], or `prepare = [{ precondition = "1x" }]` and more; or let them come back before'
        " each (settle). Discard the trials before the step."
    ),
    source=(
        "K. J. Worsley (1979), On the likelihood ratio test for a shift in location of normal"
        " populations, JASA 74, 365-367; by permutation"
    ),
)
def burst_credits(results: Results) -> Iterator[Doubt]:
    """The first trials measured burst credits of a cloud disk, or a fast area of a drive.

    A cloud volume serves its burst rate until its credits are used up, and a drive its cache of
    single-level cells until that is full: from then on every treatment has the lower rate.  The
    logarithms of the rates, less their treatment's mean, are split where the means of both sides
    differ most; the same is done with the trials in 9,999 random orders (999 of many trials).  A
    slow drift has no such place, and is left to the tests of drift.  Blocks keep comparisons fair
    but for the block of the step itself; absolute values before it are those of the credits.
    """
    for workload in results.study.judged:
        metric = primary(results, workload.name)
        found = _step(results, workload.name, metric) if metric else None
        if found is not None:
            number, change, moved = found
            so_far = f", after {format_bytes(int(moved))} in all" if moved else ""
            yield burst_credits.doubt(
                f"{workload.name}: {metric} fell by a step of {format_change(change)} before trial"
                f" {number}{so_far}: what was measured before it were burst credits or a cache"
            )


def _step(results: Results, workload: str, metric: str) -> tuple[int, float, float] | None:
    """The number of the first trial after a step down, the ratio of the levels, and the bytes that
    the trials before it moved; None where there is none."""
    import numpy as np  # noqa: PLC0415  NumPy is slow to import

    if results.study.metrics.higher(metric) is not True:
        return None
    kept: list[tuple[TrialRecord, float]] = []
    for records in grouped(results, workload).values():
        logs = [(r, log(value)) for r in records if (value := r.value(metric)) and value > 0]
        middle = fmean(each for _, each in logs) if logs else 0.0
        kept += [(record, each - middle) for record, each in logs if len(logs) > 1]
    kept.sort(key=lambda pair: pair[0].trial.number)
    rest = np.array([each for _, each in kept])
    if len(rest) < 2 * _ENDS + 1 or float(np.ptp(rest)) <= 0:
        return None
    largest, at = (each[0] for each in _splits(rest[None, :]))
    before, after = rest[:at], rest[at:]
    change = exp(float(after.mean() - before.mean()))
    left = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    line = np.polyval(np.polyfit(np.arange(len(rest)), rest, 1), np.arange(len(rest)))
    if change > 1 - FELL or left > _STEEPER * float(((rest - line) ** 2).sum()):
        return None
    chance = np.random.default_rng(1)  # seeded: the same results give the same doubts
    rows = max(1, _AT_ONCE // len(rest))
    orders = _EXCHANGES if len(rest) <= _MANY else _FEWER
    as_large = 0
    for done in range(0, orders, rows):
        every = chance.permuted(np.tile(rest, (min(rows, orders - done), 1)), axis=1)
        as_large += int((_splits(every)[0] >= largest - 1e-12).sum())
    if (1 + as_large) / (1 + orders) > CHANCE:
        return None
    moved = sum(
        record.value(f"{operation}.bytes") or 0.0
        for record, _ in kept[:at]
        for operation in ("read", "write")
    )
    return kept[at][0].trial.number, change, moved


def _splits(rows: Floats) -> tuple[Floats, Indices]:
    """Of each row (rows, trials) the largest standardised difference between the means of its two
    sides, over all places to split it, and the first place of the right side."""
    import numpy as np  # noqa: PLC0415

    n = rows.shape[1]
    left = np.cumsum(rows, axis=1)[:, _ENDS - 1 : n - _ENDS]
    sizes = np.arange(_ENDS, n - _ENDS + 1)
    total = rows.sum(axis=1, keepdims=True)
    apart = np.abs(left / sizes - (total - left) / (n - sizes))
    scaled = apart * np.sqrt(sizes * (n - sizes) / n)
    at = scaled.argmax(axis=1)
    return scaled[np.arange(len(rows)), at], at + _ENDS


HELD = 0.05
"""Of the rate that a load beside others offers: more below it, and treatments met other loads."""


@study_check(
    "beside",
    "a load beside another one did not hold its rate",
    looks_at="`rate` and `rate_iops` of fio beside another workload, and what it reached",
    limit="5 % below what it offers, on average over the trials of a treatment",
    remedy=(
        "Let it offer less, so that every treatment meets the same load; or take its rate for a"
        " result: it is in the second family."
    ),
    source="fio(1), rate and rate_iops",
)
def beside(results: Results) -> Iterator[Doubt]:
    """A load that runs beside the judged one offers a fixed rate, and did not reach it.

    What a neighbour does to a load can be compared between treatments only if the neighbour does
    the same.  A load that offers a rate below what the device gives does; one that cannot reach it
    takes what is left, and a treatment that leaves it more has worse latencies for that alone.
    """
    for workload in results.study.judged:
        for cell, records in grouped(results, workload.name).items():
            names = {record.beside[0] for record in records if record.beside}
            for name in names:
                other = results.study.workload(name)
                for metric in RATES:
                    offered = _offered(other, metric)
                    reached = mean(records, of_section(metric, name))
                    if offered and 0 < reached < offered * (1 - HELD):
                        unit = results.study.metrics.display_unit(metric)
                        yield beside.doubt(
                            f"{name} beside {workload.name} reached {format_value(reached, unit)}"
                            f" of the {format_value(offered, unit)} that it offers, with"
                            f" {treatment_text(cell)}"
                        )
