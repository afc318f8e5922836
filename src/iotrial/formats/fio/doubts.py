"""What makes a report of fio less believable.  fio exits 0 in most of these cases."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from iotrial.formats.fio.report import Direction, Job
from iotrial.model.trial import Doubt
from iotrial.units import format_value

_BUSY = 0.95  # share of one core above which a job waits for itself, not for the disk
_SHORT = 0.99  # a job asked for 1 s may report 0.999
_APART = 0.02  # tolerated difference between iops and total_ios / runtime
_COMMITS = 10  # times what a write takes
_UNEVEN = 0.10  # tolerated difference between the times jobs ran
# What a client says of a log that its server sent in pieces that do not decompress: the last line
# once for each log, the others only why (client.c, fio 3.33 and 3.42).
_LOST = "fio: failed converting IO log"
_WHY_LOST = ("fio: inflate error", "fio: failed decompressing log")


def doubts_about(
    jobs: Sequence[Job], said: Sequence[str], repeated: frozenset[str]
) -> tuple[Doubt, ...]:
    """Every doubt about a report: its ``jobs``, the messages fio printed around it (``said``),
    and the keys that its JSON gives two values (``repeated``)."""
    return (
        *_words(said),
        *_whole(jobs),
        *(doubt for one in jobs for doubt in _job(one)),
        *_in_concert(jobs),
        *_keys(repeated),
    )


def _words(said: Sequence[str]) -> Iterator[Doubt]:
    if lost := said.count(_LOST):
        what = f"{lost} of its jobs' logs did not survive the way from fio's server to its client"
        advice = 'its numbers are whole; without start = "server" (fio --client) logs are not sent'
        yield Doubt("fio-log-lost", what, advice)
    for line in dict.fromkeys(said):
        if line == _LOST or line.startswith(_WHY_LOST):
            continue
        if "terminating on signal" in line or "not whole" in line:
            advice = "repeat the trial: fio was stopped before it was done"
            yield Doubt("fio-cut-short", line, advice, invalid=True)
        else:
            yield Doubt("fio-said", line, "read fio's message: an option may not have worked")


def _whole(jobs: Sequence[Job]) -> Iterator[Doubt]:
    if not any(one.ios for one in jobs):
        advice = "look at fio's stderr, and at ramp_time, runtime and size"
        yield Doubt("no-io", "fio measured no I/O at all", advice, invalid=True)
    elif not any(one.measured for one in jobs):
        advice = "give the load more time: runtime, or a larger size"
        yield Doubt("no-time", "fio measured zero seconds", advice, invalid=True)


def _job(one: Job) -> Iterator[Doubt]:
    if one.error:
        what = f"job {one.label} ended with error {one.error} ({_meaning(one.error)})"
        yield Doubt("fio-error", what, "look at fio's stderr for the failing I/O", invalid=True)
    if one.attained is False:
        what = f"job {one.label} did not reach the steady state it was to reach"
        advice = "give it more runtime, or a wider steadystate limit"
        yield Doubt("steady-state", what, advice, invalid=True)
    if one.usr + one.sys > _BUSY:
        share = (one.usr + one.sys) * 100
        what = f"job {one.label} kept its core {share:.0f} % busy: it may not fill the queue"
        advice = "spread the load with numjobs, or expect this of a polling engine (hipri)"
        yield Doubt("generator-bound", what, advice)
    if 0 < one.measured < _SHORT:
        what = f"job {one.label} was measured for only {one.measured:.3f} s"
        yield Doubt("short", what, "give the load at least a second: runtime, or a larger size")
    yield from _synced(one)
    for each in one.directions:
        yield from _direction(each, one.label)


def _synced(one: Job) -> Iterator[Doubt]:
    """Writes into memory are quick; who waits for them waits for the fsync."""
    write = next((each for each in one.directions if each.operation == "write"), None)
    took = write and (write.latencies.get("lat") or write.latencies.get("clat"))
    if took and one.sync and one.sync.mean > _COMMITS * took.mean:
        what = (
            f"job {one.label}: a write took {format_value(took.mean, 's')}, and an fsync "
            f"{format_value(one.sync.mean, 's')}: the write's latency is not that of a commit"
        )
        advice = 'decide by the commits too: primary or guardrail "sync.lat.p99"'
        yield Doubt("sync-apart", what, advice)


def _meaning(error: int) -> str:
    return os.strerror(error) if error in errno.errorcode else "not an errno"


def _direction(each: Direction, label: str) -> Iterator[Doubt]:
    if each.incomplete:
        what = f"job {label}: {each.incomplete} {each.operation}s were short or dropped"
        yield Doubt("short-io", what, "the target ended early or failed: check size and dmesg")
    if not each.seconds:
        return
    counted = each.ios / each.seconds
    # fio's runtime has a resolution of 1 ms, and iops was a whole number until fio 2.1
    slack = counted * (_APART + 0.001 / each.seconds) + 1.0
    if abs(each.iops - counted) > slack:
        what = f"job {label}: {each.iops:.0f} {each.operation} IOPS, but {counted:.0f} by its count"
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")
    moved = each.bytes / each.seconds
    if abs(each.bw - moved) > moved * (_APART + 0.001 / each.seconds) + 1024:
        what = (
            f"job {label}: {each.bw:.0f} bytes/s of {each.operation}s, but {moved:.0f} by its count"
        )
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")


def _in_concert(jobs: Sequence[Job]) -> Iterator[Doubt]:
    groups = {one.group for one in jobs}
    if len(groups) > 1:
        what = f"{len(groups)} groups of jobs ran one after another: rates are averages over time"
        yield Doubt("one-after-another", what, "give each stage a workload of its own")
    for group in sorted(groups):
        spans = [one.measured for one in jobs if one.group == group and one.measured]
        if spans and min(spans) < max(spans) * (1 - _UNEVEN):
            what = f"jobs ran between {min(spans):.3f} s and {max(spans):.3f} s: not all together"
            yield Doubt("uneven", what, "give all jobs one runtime, with time_based")


def _keys(repeated: frozenset[str]) -> Iterator[Doubt]:
    if repeated:
        names = ", ".join(sorted(repeated)[:5])
        what = f"the JSON gives two values for {names}; the last one was taken"
        yield Doubt("two-values", what, "look at the raw file")
