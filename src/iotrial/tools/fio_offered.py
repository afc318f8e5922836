"""Offered rates with fio: one job file with a section for each rate, and what follows from them.

A load at an offered rate is open: I/Os start at their time, whether or not those before them have
ended.  What of fio 3.33 does this was tried out:

* ``io_submit_mode=offload`` counts ``lat`` from the queue of its workers on, but does not start:
  most runs wait forever in ``workqueue_init`` (a worker that is quicker than the thread that starts
  it loses its flag; fixed in 3.42).  An asynchronous engine is not possible with it.
* Inline, an asynchronous engine waits for all I/Os in flight before it sleeps until the next one
  (``rate_ddir`` in io_u.c): one slow I/O holds back the others, and none of that is in a latency.
* So each rate is spread over clients: threads with a synchronous engine that start their I/Os at
  the moments of a Poisson process of their own (``rate_process=poisson``), which together are one
  Poisson process.  A client that waits for its I/O delays its own next one and no other.

There are so many clients that one starts an I/O every 4 to 8 bounds on average: then a quarter of
the I/Os at most meets a busy client where latencies are as long as the bound, and of a storage that
cannot keep up the latencies alone are four bounds and more.  What an I/O waits for its client is
added (:mod:`iotrial.stats.offered`).

``ramp_time`` leaves out the first moment, in which all clients start at once; after it the time of
each begins with its next I/O.  fio takes whole numbers per second for each client, hence the
number of clients that meets the rate best; and whole microseconds for a gap, 0.1 % at 2,000 a
second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iotrial.errors import UsageError
from iotrial.formats.fio.jobfile import JobSection, Option
from iotrial.formats.fio.report import FioJob, FioOfferedRate, latency_of, offer_text
from iotrial.model.measurement import Measurement, of_section
from iotrial.model.trial import OFFERED_ABOVE, OFFERED_BELOW, Doubt
from iotrial.model.workload import OfferedRates
from iotrial.stats.offered import OfferedLevel, level, within
from iotrial.tools import fio_options as rules
from iotrial.units import format_seconds, format_value

APART = 8
"""Bounds between two I/Os of one client, on average, at most."""
_LEAST, _MOST = 16, 256
"""Clients of a rate; fio 3.33 needs 230 KiB for each, of all rates from the start."""
_BEYOND = 10
"""I/Os beyond a percentile, without which it is none."""
_RAMP = 0.2  # of the runtime
_SHARED: tuple[Option, ...] = (
    ("rate_process", "poisson"),
    ("thread", "1"),
    ("group_reporting", "1"),
    ("lat_percentiles", "1"),
    ("clat_percentiles", "0"),
)
_OWN = frozenset({
    *(name for name, _ in _SHARED), "numjobs", "stonewall", "wait_for", "startdelay", "time_based",
    "description", "slat_percentiles", "percentile_list", "unified_rw_reporting", "io_submit_mode",
    "disable_lat", "gtod_reduce", "stats", "loops", "io_size", "number_ios", "new_group",
})  # fmt: skip
_OURS = ("rate", "thinktime", "iodepth", "latency_", "steadystate")
"""How options begin that say when I/Os start, or how many are in flight."""


def clients(rate: int, bound: float) -> tuple[int, int]:
    """How many there are, and the rate of each: as near to ``rate`` as whole numbers come."""
    most = min(max(_LEAST, round(APART * rate * bound)), _MOST, rate)
    count = min(
        range(-(-most // 2), most + 1),
        key=lambda n: (abs(n * max(1, round(rate / n)) - rate), -n),
    )
    return count, max(1, round(rate / count))


def sections(offered: OfferedRates, own: Sequence[Option]) -> tuple[JobSection, ...]:
    """What fio runs, rate by rate, beside the workload's ``own`` options."""
    known = (*own, *_shared(offered, own))
    heads = (0,) * len(known)
    return tuple(
        JobSection(str(rate), (*known, *more), heads=(*heads, *(1,) * len(more)))
        for rate, more in _levels(offered)
    )


def job_text(offered: OfferedRates, own: Sequence[Option]) -> str:
    """The job file; the workload's own options are on the command line."""
    parts = [("global", _shared(offered, own))]
    parts += [(str(rate), more) for rate, more in _levels(offered)]
    return "".join(
        "".join([f"[{name}]\n", *(f"{option}={value}\n" for option, value in more)])
        for name, more in parts
    )


def _shared(offered: OfferedRates, own: Sequence[Option]) -> tuple[Option, ...]:
    said = dict(own)
    more = [*_SHARED, ("description", offer_text(offered.percentile, offered.bound))]
    if "ioengine" not in said:
        more.append(("ioengine", "psync"))
    if "ramp_time" not in said and "runtime" in said:
        more.append(("ramp_time", rules.spelled(rules.duration(said["runtime"]) * _RAMP)))
    return tuple(more)


def _levels(offered: OfferedRates) -> Iterator[tuple[int, tuple[Option, ...]]]:
    for at, rate in enumerate(offered.rates):
        count, each = clients(rate, offered.bound)
        own = (("numjobs", str(count)), ("rate_iops", str(each)))
        yield rate, (*own, ("stonewall", "1")) if at else own


def problems(offered: OfferedRates, said: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(option, what is wrong with it) beside these rates; ``said`` are canonical names."""
    for option in said:
        if option in _OWN or option.startswith(_OURS):
            yield option, "`offered` sets it: each rate has clients of its own; remove it"
    if said.get("rw", "read") not in rules.READS | {"write", "randwrite"}:
        what = "a rate is offered to reads or to writes alone"
        yield "rw", f"{what}; write a workload for each, and run one `beside` the other"
    if (engine := said.get("ioengine", "psync")) not in rules.SYNCHRONOUS - {"mmap", "splice"}:
        what = f"ioengine={engine}: a client waits for its I/O; the clients are the depth"
        yield "ioengine", f"{what}; remove it, or take psync or pvsync2"
    if "runtime" not in said:
        yield "runtime", 'each rate needs one, for example runtime = "2s"'
        return
    try:
        seconds = rules.duration(said["runtime"])
    except UsageError:
        return  # said at its own place
    need = _BEYOND / (1 - offered.percentile / 100) / offered.rates[0]
    if 0 < seconds < need * (1 - 1e-9):
        what = (
            f"a p{offered.percentile:g} needs {need * offered.rates[0]:,.0f} I/Os, at"
            f" {offered.rates[0]:,} IOPS {need:g} s"
        )
        yield "runtime", f"{what}: set a longer one, or begin with a higher rate"


# -- what follows from the sections ---------------------------------------------------------------


def derived(jobs: Sequence[FioJob], raw: str) -> tuple[tuple[Measurement, ...], tuple[Doubt, ...]]:
    """The response time of each section that has an offered rate, and the highest rate within the
    bound, with the doubts about it; nothing of a load without offered rates, or without
    histograms.  ``jobs`` are those of all loads at the same time."""
    groups: dict[tuple[int, str], list[FioJob]] = {}
    for job in jobs:
        if job.offer:
            groups.setdefault((job.group, job.label.rpartition("#")[0]), []).append(job)
    found: list[Measurement] = []
    levels: list[OfferedLevel] = []
    offer, operation = None, ""
    for (_, name), own in groups.items():
        told = _level(own)
        if told is None:
            return (), ()
        offer, operation, one = told
        levels.append(one)
        metric = of_section(f"{operation}.response.p{offer.percentile:g}", name)
        found.append(Measurement(metric, one.response, "s", raw=raw))
    if offer is None:
        return (), ()
    rate = within(levels, offer.bound)
    name = f"{operation}.iops.within"
    found.append(Measurement(name, rate.rate, "1/s", raw=raw))
    return tuple(found), tuple(_doubts(rate.beyond, rate.rate, offer))


def _level(own: Sequence[FioJob]) -> tuple[FioOfferedRate, str, OfferedLevel] | None:
    """One rate, over all jobs of its section; None where there is no histogram."""
    offers = [job.offer for job in own if job.offer]
    parts = [direction for job in own for direction in job.directions]
    histogram = latency_of(parts)
    if histogram is None:
        return None
    found = level(
        histogram,
        rate=sum(each.rate for each in offers),
        clients=sum(each.clients for each in offers),
        share=offers[0].percentile / 100,
        seconds=max(each.seconds for each in parts),
    )
    return offers[0], parts[0].operation, found


def _doubts(beyond: str, rate: float, offer: FioOfferedRate) -> Iterator[Doubt]:
    told = format_value(rate, "IOPS")
    bound = f"p{offer.percentile:g} \u2264 {format_seconds(offer.bound)}"
    if beyond == "above":
        what = f"the highest offered rate, {told}, is served within {bound}: the limit is above it"
        advice = "offer higher rates: until then nothing is said that rests on this trial's limit"
        yield Doubt(OFFERED_ABOVE, what, advice)
    elif beyond == "below":
        what = f"the lowest offered rate, {told}, is not served within {bound}: the limit is below"
        advice = "offer lower rates: until then nothing is said that rests on this trial's limit"
        yield Doubt(OFFERED_BELOW, what, advice)
