"""What cannot be, or cannot be meant: doubts about runs that somebody else did.  Pure.

- ``rates``: bandwidth is IOPS times block size; more than 1 % off is no rounding, nor a unit of
  what is printed in whole ones: MiB/s, MB/s or KiB/s, and I/Os a second, of each job.  IOR's
  IOPS leave out open and close, which its bandwidth has: it is doubted only where bandwidth is
  more than they make.
- ``mix``: the share of reads is the one that was asked for, within 2 points.
- ``in-flight``: Little's law: what is in flight on average (rate x latency) cannot exceed jobs x
  depth x hosts.  Where nobody says how many that were, a run is doubted that has far more in flight
  than any other.
- ``link``: nothing that is read over a network is faster than it; what all sits at its ceiling
  cannot show a difference.
- ``cached``: random reads as fast as sequential ones come from a memory, not from a disk.

``impossible`` are numbers of one run that exclude each other.  Of each job and of all, for each
latency:

- its percentiles never fall, and lie with its mean between its minimum and maximum, but for the
  width of a bin of fio's histogram;
- nothing takes no time: its mean is above 0 where I/Os were done or any percentile is;
- ``lat`` is ``slat`` and ``clat`` together, and no less than either;
- no percentile lies beyond the last bin of fio's histogram.

And no rate or time is beyond what any machine can do (10^10 I/Os or 10^15 bytes a second, 10^18
bytes, 10 years): a counter that ran over, or a unit that was mistaken.

``censored`` is what is a bound and no value: on which side the truth lies, and why.  What took
longer than the last bin of fio's histogram is counted there, so that 16,712 ms or 17.1 s is all
that such a fio can say.

Sources: J. D. C. Little, Operations Research 9 (1961) 383-387; ``stat.c`` and ``stat.h`` of fio
(``plat_val_to_idx``, ``FIO_IO_U_PLAT_GROUP_NR``: 19 groups of 64 bins in µs until 2.99, 29 in ns
since).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from iotrial.formats.fio.report import LAST_BIN
from iotrial.model.measurement import Measurement, split
from iotrial.model.trial import Doubt
from iotrial.units import format_value, parse_bytes
from iotrial_import.legend import ImportedRun, ImportMap, some

_OFF, _MIX_OFF = 0.01, 0.02
_UNITS = (2.0**20, 1e6, 2.0**10, 1e3)  # bytes/s
_IN_TURN = ("ior", "elbencho")
_LESS_TIME = ("ior",)  # IOPS without open and close
_WORDS = re.compile(r" *bytes?$")  # "262144 bytes", as IOR says some of its sizes
_BLOCK = re.compile(r"(?:bs|block|block_size|blocksize|record|record_size|reclen|xfersize)(_\w+)?")
_SHARE = ("read_pct", "rwmixread", "read_percent", "reads_pct")
_FLIGHT = {
    "depth": ("iodepth", "queue_depth_fio", "qd"),
    "jobs": ("numjobs", "jobs", "threads"),
    "hosts": ("hosts", "clients", "nodes"),
}
_FAR, _ENOUGH = 2.5, 8
"""An outlier has this many times more in flight than any other, of at least so many runs."""
_AT_CEILING = 0.9  # headers and acknowledgements take their part
_RANDOM = {"random_read": "read", "randread": "read", "rand_read": "read"}
_ALIKE, _CELLS = 0.05, 5

Values = Mapping[str, float]


def of_runs(
    runs: Sequence[ImportedRun], legend: ImportMap, in_flight: float
) -> dict[str, list[Doubt]]:
    """Doubts by a run's id.  ``in_flight`` is what job files beside the results allow on one
    host; 0 unknown."""
    found: dict[str, list[Doubt]] = defaultdict(list)
    flights: dict[str, float] = {}
    for run in runs:
        values = _values(run)
        found[run.id] += [*_rates(run, values), *_mix(run, values), *_link(values, legend)]
        flights[run.id] = flight = _flight(values, in_turn=run.recording.tool in _IN_TURN)
        allowed = legend.in_flight or _allowed(run, in_flight)
        if allowed and flight > allowed * (1 + _OFF):
            found[run.id].append(_too_many(flight, f"at most {allowed:,.0f} are possible"))
        elif allowed:
            flights.pop(run.id)
    ordered = sorted(flights.values(), reverse=True)
    if len([each for each in ordered if each]) >= _ENOUGH and ordered[0] > _FAR * ordered[1]:
        odd = next(name for name, flight in flights.items() if flight == ordered[0])
        what = f"no other run here has more than {ordered[1]:,.0f}"
        if not found[odd]:
            found[odd].append(_too_many(ordered[0], what))
    return {name: doubts for name, doubts in found.items() if doubts}


def of_study(runs: Sequence[ImportedRun], legend: ImportMap) -> Iterator[Doubt]:
    """Doubts about all of it."""
    yield from _cached(runs)
    yield from _ceiling(runs, legend)


def _values(run: ImportedRun) -> dict[str, float]:
    return {
        m.metric: m.value for m in run.recording.measurements if m.job == "all" and not m.censored
    }


def _operations(values: Values) -> tuple[str, ...]:
    """Those that have a latency, or all: ``total`` where it is the one that has."""
    timed = {split(name)[0] for name in values if split(name)[1] in ("lat.mean", "clat.mean")}
    every = tuple(dict.fromkeys(split(name)[0] for name in values))
    return ("total",) if "total" in timed else tuple(each for each in every if each != "total")


def _rates(run: ImportedRun, values: Values) -> Iterator[Doubt]:
    size = _block(run)
    jobs = max(1, len({m.job for m in run.recording.measurements} - {"all"}))
    parts = ("read", "write", "trim")
    for operation in dict.fromkeys(split(name)[0] for name in values):
        bandwidth, iops = values.get(f"{operation}.bw"), values.get(f"{operation}.iops")
        if operation == "total" and iops is None:
            iops = sum(values.get(f"{part}.iops", 0.0) for part in parts)
        if not (size and bandwidth and iops):
            continue
        off = bandwidth / (iops * size) - 1
        unit = next((each for each in _UNITS if bandwidth % each == 0), 0.0)
        cut = 1 / iops if float(iops).is_integer() else 0.0  # fio before 2.99 leaves out the rest
        far = _OFF + jobs * (unit / bandwidth + cut)
        if off > far or (off < -far and run.recording.tool not in _LESS_TIME):
            said = format_value(bandwidth, "bytes/s")
            what = f"{operation}: bandwidth {said} is {off:+.1%} off IOPS x {size:g} bytes"
            advice = "One of the two was measured or written down differently; ask which."
            yield Doubt("rates", what, advice)


def _block(run: ImportedRun) -> float:
    # IOR has a block, which is what a task writes, and a transfer, which is what an I/O is.
    first = {"xfersize": run.properties["xfersize"]} if "xfersize" in run.properties else {}
    for name, said in {**first, **run.properties}.items():
        label = _WORDS.sub("", said)
        match = _BLOCK.fullmatch(name)
        if match:
            unit = (match[1] or "").strip("_").removesuffix("s")
            try:
                return float(parse_bytes(f"{label}{unit}" if label[-1:].isdigit() else label))
            except ValueError:
                continue
    return 0.0


def _mix(run: ImportedRun, values: Values) -> Iterator[Doubt]:
    asked = next((run.properties[name] for name in _SHARE if name in run.properties), "")
    reads, writes = values.get("read.iops", 0.0), values.get("write.iops", 0.0)
    try:
        wanted = float(asked.removesuffix("%")) / 100
    except ValueError:
        return
    if reads + writes and abs(reads / (reads + writes) - wanted) > _MIX_OFF:
        what = f"{reads / (reads + writes):.1%} of the I/Os are reads; {wanted:.0%} were asked for"
        yield Doubt("mix", what, "It is another load than its name says.")


def _flight(values: Values, *, in_turn: bool) -> float:
    """How many are in flight on average: the sum over operations of rate x latency; the most of
    any where they come one after the other."""
    flights = [0.0]
    for operation in _operations(values):
        iops = values.get(f"{operation}.iops", 0.0)
        stages = (values.get(f"{operation}.{stage}.mean") for stage in ("lat", "clat"))
        flights.append(iops * next((value for value in stages if value), 0.0))
    return max(flights) if in_turn else sum(flights)


def _allowed(run: ImportedRun, in_flight: float) -> float:
    """sections side by side x jobs x depth x hosts, as far as the run says; by the job files where
    it does not."""
    told = {
        what: next((_count(run.properties[n]) for n in names if n in run.properties), 0.0)
        for what, names in _FLIGHT.items()
    }
    hosts = told["hosts"] or 1.0
    if told["depth"]:
        named = {m.job.rpartition("/")[2] for m in run.recording.measurements if "#" in m.job}
        jobs = (told["jobs"] or 1.0) * max(1, len(named))
        return told["depth"] * jobs * hosts * run.parts
    return in_flight * hosts * run.parts


def _count(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return 0.0


def _too_many(flight: float, why: str) -> Doubt:
    what = f"by Little's law {flight:,.0f} I/Os were in flight; {why}"
    return Doubt("in-flight", what, "Latency or rate is not of this run, or not of this load.")


def _link(values: Values, legend: ImportMap) -> Iterator[Doubt]:
    for name, value in values.items():
        if legend.link and split(name)[1] == "bw" and value > legend.link:
            ours, most = (format_value(each, "bytes/s") for each in (value, legend.link))
            what = f"{name} {ours} is more than the link carries ({most})"
            yield Doubt("link", what, "It came from a cache on this side, or is another link's.")


def _ceiling(runs: Sequence[ImportedRun], legend: ImportMap) -> Iterator[Doubt]:
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for run in runs if legend.link else ():
        for name, value in _values(run).items():
            if split(name)[1] == "bw":
                high = _AT_CEILING * legend.link <= value <= legend.link
                found[run.workload, name].append(high)
    for (workload, name), told in found.items():
        if len(told) > 1 and all(told):
            what = f"{workload}: every {name} sits at the ceiling of the link"
            advice = "They cannot show a difference: the link was measured, not the storage."
            yield Doubt("link", what, advice)


def _cached(runs: Sequence[ImportedRun]) -> Iterator[Doubt]:
    by_cell = {(run.workload, run.treatment): run for run in runs}
    alike = [
        near
        for (workload, treatment), run in by_cell.items()
        if (other := by_cell.get((_RANDOM.get(workload, ""), treatment)))
        if (near := _ratio(run, other)) is not None
    ]
    count = sum(abs(ratio - 1) < _ALIKE for ratio in alike)
    if len(alike) >= _CELLS and count > len(alike) / 3:
        what = f"in {count} of {len(alike)} cells random reads are as fast as sequential ones"
        yield Doubt(
            "cached", what, "The working set sat in a cache, or there are no heads to move."
        )


def _ratio(random: ImportedRun, sequential: ImportedRun) -> float | None:
    ours, theirs = _values(random), _values(sequential)
    for quantity in ("iops", "bw"):
        one = next((v for name, v in ours.items() if split(name)[1] == quantity), None)
        two = next((v for name, v in theirs.items() if split(name)[1] == quantity), None)
        if one and two:
            return one / two
    return None


_LATENCY = re.compile(r"(?P<of>.+\.)?(?P<stage>[sc]?lat)\.(?P<what>min|max|mean|p[\d.]+)")
_BIN = 0.02  # a bin of fio's is 1/64 wide, and its middle is said
_ROUNDED = 0.02  # three numbers of three digits
_LEAST = 2e-6  # s: of whole microseconds each may be one off
_BEYOND_ANY = {"1/s": 1e10, "bytes/s": 1e15, "bytes": 1e18, "s": 10 * 365.25 * 86400}
_LAST = max(tick * last for tick, last in LAST_BIN.items())
_ADVICE = "One of the numbers is not of this run: see the file, and take it from the tool again."

Measured = Mapping[str, Measurement]


def impossible(run: ImportedRun) -> Iterator[Doubt]:
    """A doubt for each job of a run whose numbers exclude each other; it does not count."""
    of_job: dict[str, dict[str, Measurement]] = defaultdict(dict)
    for each in run.recording.measurements:
        of_job[each.job].setdefault(each.metric, each)
    for job, values in of_job.items():
        found = [*_beyond(values), *_latencies(values)]
        if found:
            whose = "" if job == "all" else f"job {job}: "
            more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
            yield Doubt("impossible", f"{whose}{found[0]}{more}", _ADVICE, invalid=True)


def _beyond(values: Measured) -> Iterator[str]:
    for name, each in values.items():
        if not 0 <= each.value <= _BEYOND_ANY.get(each.unit, float("inf")):
            yield f"{name} is {each.value:.3g} {each.unit}"


def _latencies(values: Measured) -> Iterator[str]:
    stages: dict[tuple[str, str], dict[str, Measurement]] = defaultdict(dict)
    for name, each in values.items():
        if said := _LATENCY.fullmatch(name):
            stages[said["of"] or "", said["stage"]][said["what"]] = each
    for (of, stage), found in stages.items():
        yield from _vanished(f"{of}{stage}", found, values.get(f"{of}iops"))
        yield from _ordered(f"{of}{stage}", found)
    for of in dict.fromkeys(of for of, _ in stages):
        yield from _sum(
            of, {s: stages[of, s] for s in ("lat", "clat", "slat") if (of, s) in stages}
        )


def _ordered(name: str, found: Measured) -> Iterator[str]:
    """Percentiles that fall, or values outside of minimum and maximum.  Bounds are no values."""
    exact = {what: each for what, each in found.items() if not each.censored}
    ranks = sorted((each for each in exact if each[0] == "p"), key=lambda p: float(p[1:]))
    for one, two in pairwise(ranks):
        if exact[two].value < exact[one].value:
            yield f"{name}.{two} {_said(exact[two])} is below {name}.{one} {_said(exact[one])}"
    least, most = exact.get("min"), exact.get("max")
    for what in (*ranks, "mean") if "mean" in exact else ranks:
        slack = _BIN if what != "mean" else 1e-3
        value = exact[what].value
        if least and value < least.value * (1 - slack) - 1e-9:
            yield f"{name}.{what} {_said(exact[what])} is below its minimum {_said(least)}"
        if most and value > most.value * (1 + slack) + 1e-9:
            yield f"{name}.{what} {_said(exact[what])} is above its maximum {_said(most)}"
    for what, each in found.items():
        if what[0] == "p" and each.value > _LAST * (1 + _BIN):
            yield f"{name}.{what} {_said(each)} is beyond the last bin of any fio"
            return


def _vanished(name: str, found: Measured, rate: Measurement | None) -> Iterator[str]:
    """A mean of 0 though there were I/Os that took time.  ``slat`` may be too short to be seen."""
    mean = found.get("mean")
    if mean is None or mean.value > 0 or name.endswith("slat"):
        return
    others = [each for what, each in found.items() if what != "mean" and each.value > _LEAST]
    if others or (rate and rate.value > 0):
        why = f"{others[0].metric} is {_said(others[0])}" if others else "there were I/Os"
        yield f"{name}.mean is 0, though {why}"


def _sum(of: str, stages: Mapping[str, Measured]) -> Iterator[str]:
    means = {stage: each["mean"].value for stage, each in stages.items() if "mean" in each}
    if "lat" not in means:
        return
    whole = means.pop("lat")
    slack = _ROUNDED * whole + _LEAST
    for stage, value in means.items():
        if value > whole + slack:
            said = format_value(value, "s"), format_value(whole, "s")
            yield f"{of}{stage}.mean {said[0]} is above {of}lat.mean {said[1]}"
            return
    if len(means) == 2 and abs(sum(means.values()) - whole) > slack:  # noqa: PLR2004 (both)
        parts = " and ".join(f"{stage} {format_value(v, 's')}" for stage, v in means.items())
        yield f"{of}lat.mean {format_value(whole, 's')} is not {parts} together"


def _said(each: Measurement) -> str:
    return format_value(each.value, each.unit)


_CHECK = "censored"
_NEAR = 1e-3  # 16711.68 ms is printed as 16712
_NAMED = 4
_LAST_BIN = (
    "the last bin of fio's histogram is there, and what took longer is counted in it",
    "How much longer, this version of fio cannot say; the maximum (clat.max) may.",
)
_SAID = (
    "the file gives a bound (the end of a bin, or a value that was cut), no value",
    "It is compared as a bound; measure again with finer means if it matters.",
)
_SIDES = {"high": "at least", "low": "at most"}


def bounds(run: ImportedRun) -> Iterator[Doubt]:
    """A doubt for the bounds of each side and reason that no doubt of the file names."""
    named = " ".join(doubt.what for doubt in run.recording.doubts if doubt.check == _CHECK)
    groups: dict[tuple[str, bool], dict[str, list[str]]] = {}
    for each in run.recording.measurements:
        if each.censored and each.job == "all" and each.metric not in named:
            value = f"{each.value:,.6g} {each.unit}".rstrip()
            alike = groups.setdefault((each.censored, _is_last_bin(each)), {})
            alike.setdefault(value, []).append(each.metric)
    for (side, last), values in groups.items():
        said = []
        for value, metrics in values.items():
            verb = "is" if len(metrics) == 1 else "are"
            said.append(f"{some(metrics, _NAMED, ', ')} {verb} {_SIDES[side]} {value}")
        why, advice = _LAST_BIN if last else _SAID
        yield Doubt(_CHECK, f"{some(said, _NAMED, ', ')}: {why}", advice)


def _is_last_bin(each: Measurement) -> bool:
    ends = [tick * last for tick, last in LAST_BIN.items()]
    latency = "lat.p" in each.metric and each.unit == "s"
    return latency and any(math.isclose(each.value, end, rel_tol=_NEAR) for end in ends)
