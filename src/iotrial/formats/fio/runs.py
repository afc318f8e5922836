"""Reports of fio in one file → runs: which report goes on with which, and what each group of
jobs was run with.

``--status-interval`` makes fio write a report again and again while it runs, each with all the
numbers since the start: the last of them counts.  A file of many runs looks the same.  What tells
them apart is whether there was time for another run between the two reports, and where there is
no ``timestamp`` (before 2.2.6), whether the counters went on at the rate they had.

fio writes the options of its jobs since 2.8 ("job options", "global options").  Without them the
file does not say whether the I/O was random: then the job's name stands for the workload.

Sources: stat.c of fio 2.0.10 … 3.42; ``tests/data/fio`` has recordings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from iotrial.formats.fio.documents import printable
from iotrial.formats.fio.doubts import doubts_about
from iotrial.formats.fio.measured import bins, measurements, weights
from iotrial.formats.fio.report import Job
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt, Treatment

# Options that say where, how long, or what is written down: not what the I/O was like.
NOT_TREATMENT = frozenset({
    "name", "description", "filename", "directory", "filename_format", "opendir", "hostname",
    "port", "runtime", "ramp_time", "time_based", "timeout", "startdelay", "start_delay",
    "stonewall", "wait_for_previous", "wait_for", "new_group", "group_reporting", "output",
    "output-format", "exec_prerun", "exec_postrun", "write_bw_log", "write_lat_log",
    "write_iops_log", "write_hist_log", "write_iolog", "log_avg_msec", "log_hist_msec",
    "log_hist_coarseness", "log_max_value", "log_offset", "log_compression", "log_store_compressed",
    "log_unix_epoch", "log_entries", "log_window_value", "log_issue_time", "log_prio",
    "log_alternate_epoch", "log_alternate_epoch_clock_id", "job_start_clock_id", "per_job_logs",
    "bwavgtime", "iopsavgtime", "percentile_list", "clat_percentiles", "lat_percentiles",
    "slat_percentiles", "significant_figures", "unified_rw_reporting", "disk_util", "ss", "ss_dur",
    "ss_ramp", "steadystate", "steadystate_duration", "steadystate_ramp_time",
    "steadystate_check_interval", "create_only", "unlink", "stats", "allow_file_create",
    "allow_mounted_write", "kb_base", "unit_base", "continue_on_error", "rw", "exitall",
    "exitall_on_error", "exit_what", "error_dump", "uid", "gid", "clientuid", "comment",
})  # fmt: skip
LOGS = ("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log")
_ALIASES = {"readwrite": "rw", "blocksize": "bs", "wait_for_previous": "stonewall"}
_ROUNDED = 0.25  # s; between the last I/O of a run and the time in its report
_CLOCKS = 2.0  # s; within them a job's start belongs to its run
INTERVAL = 0.5
"""s; less than the least ``--status-interval``, which is a second, and more than chance."""
_TICK = 0.02  # s; what a counter may be ahead of the clock, or behind
_AT_RATE = 4.0  # within this factor counters went on at the rate they had


@dataclass(frozen=True, slots=True)
class Run:
    """One report.  ``jobs`` are its jobs, each with the entry it was read from; ``torn`` says
    which broken reports stand beside it."""

    report: Mapping[str, Any]
    jobs: tuple[tuple[Job, Mapping[str, Any]], ...]
    line: int
    said: tuple[str, ...]
    repeated: frozenset[str]
    torn: tuple[str, ...] = ()

    @property
    def ended(self) -> float:
        """When the report was written, in seconds since the epoch; 0 unknown."""
        exact = _plain(self.report.get("timestamp_ms")) / 1000
        return exact or _plain(self.report.get("timestamp"))

    @property
    def elapsed(self) -> float:
        return max((_plain(record.get("elapsed")) for _, record in self.jobs), default=0.0)

    @property
    def took(self) -> float:
        """How long fio had run, at least.  ``elapsed`` is rounded up to a whole second."""
        groups: dict[int, float] = {}
        for job, _ in self.jobs:
            groups[job.group] = max(groups.get(job.group, 0.0), job.measured)
        return max(self.elapsed - 1, sum(groups.values()))

    @property
    def began(self) -> float:
        return self.ended - self.elapsed if self.ended and self.elapsed else 0.0


def _plain(value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and 0 <= value < 2**53 else 0.0  # type: ignore[operator,arg-type]


def last_of_each(runs: Sequence[Run]) -> tuple[Run, ...]:
    """One report for each run, the last, with what was said beside the others."""
    found: list[Run] = []
    for each in runs:
        if found and _goes_on(found[-1], each):
            before = found.pop()
            said, torn = (*before.said, *each.said), (*before.torn, *each.torn)
            found.append(replace(each, line=before.line, said=said, torn=torn))
        else:
            found.append(each)
    return tuple(found)


def _goes_on(before: Run, after: Run) -> bool:
    """Whether both are reports of the same run."""
    if before.report == after.report:
        return True
    if _identity(before) != _identity(after):
        return False
    if before.ended and after.ended:
        # A run that began when the other had ended cannot be longer than what lies between.
        exact = before.report.get("timestamp_ms") and after.report.get("timestamp_ms")
        return after.took > after.ended - before.ended + (_ROUNDED if exact else 1 + _ROUNDED)
    pairs = [(a, b) for (a, _), (b, _) in zip(before.jobs, after.jobs, strict=True)]
    return goes_on([_count(a) for a, _ in pairs], [_count(b) for _, b in pairs])


def _identity(run: Run) -> tuple[object, ...]:
    jobs = [(job.label, job.group, record.get("job options")) for job, record in run.jobs]
    return run.report.get("fio version"), run.report.get("global options"), jobs


Count = tuple[float, float]
"""Bytes moved and seconds measured, of one job."""


def _count(job: Job) -> Count:
    return sum(each.bytes for each in job.directions), job.measured


def goes_on(before: Sequence[Count], after: Sequence[Count], least: float = INTERVAL) -> bool:
    """Whether the counters of the same jobs are later ones of the same run: all grew, at the rate
    they had, and for ``least`` seconds at least: no two equal runs differ by :data:`INTERVAL`."""
    grown = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)]
    if any(size < 0 or time < 0 for size, time in grown):
        return False
    if max(time for _, time in grown) < least:
        return False
    for (size, time), (whole, seconds) in zip(grown, after, strict=True):
        rate = whole / seconds if seconds else 0.0
        if not time / _AT_RATE - _TICK <= size / (rate or 1.0) <= time * _AT_RATE + _TICK:
            return False
    return True


def recordings(run: Run, raw: str) -> Iterator[Recording]:
    """One for each group of jobs: they ran at the same time, the groups one after another."""
    members = sorted(run.jobs, key=lambda each: each[0].group)
    for _, found in groupby(members, key=lambda each: each[0].group):
        group = list(found)
        jobs = relabelled([job for job, _ in group])
        options = [_options(run.report, record) for _, record in group]
        known = all(each is not None for each in options)
        doubts = doubts_about(jobs, run.said, run.repeated)
        yield Recording(
            tool="fio",
            workload=_workload(options) if known else names(jobs),
            measurements=(*measurements(jobs, raw), *utilisation(run.report, raw)),
            name=names(jobs),
            version=_version(run.report),
            line=run.line,
            treatment=_treatment(options) if known else (),
            doubts=(*doubts, *(() if known else (without_options(),)), *_torn(run)),
            started=_started(run, group),
            seconds=max((job.measured for job in jobs), default=0.0),
            logs=tuple(dict.fromkeys(_logs(options, jobs))),
            bins=bins(jobs),
            weights=weights(jobs),
        )


def utilisation(report: Mapping[str, Any], raw: str) -> tuple[Measurement, ...]:
    """``total.util``: the share of the time in which the busiest of its disks did something, of
    the whole run (fio counts whole disks, with what others do to them)."""
    rows = report.get("disk_util")
    found = [
        row["util"] / 100
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("util"), int | float)
        and 0 <= row["util"] <= 100.5  # noqa: PLR2004 (percent, rounded)
    ]
    return (Measurement("total.util", max(found), "fraction", raw=raw),) if found else ()


def _logs(options: Sequence[Mapping[str, str] | None], jobs: Sequence[Job]) -> Iterator[str]:
    """The names of the logs of these jobs; one that is not said is the job's own."""
    for each, job in zip(options, jobs, strict=True):
        for option in LOGS:
            if each and option in each:
                yield each[option] or job.label.rpartition("#")[0]


def relabelled(jobs: Sequence[Job]) -> list[Job]:
    """The jobs with ordinals that count within their own group."""
    seen: Counter[str] = Counter()
    found = []
    for each in jobs:
        name = each.label.rpartition("#")[0]
        seen[name] += 1
        found.append(replace(each, label=f"{name}#{seen[name]}"))
    return found


def names(jobs: Sequence[Job]) -> str:
    """What the jobs are called, each name once: ``reader+writer``."""
    return "+".join(dict.fromkeys(job.label.rpartition("#")[0] for job in jobs))


def without_options() -> Doubt:
    what = (
        "the file does not say how fio was run: whether at random, with which block size or depth"
    )
    advice = "take the job's name for it, or say it yourself; fio 3 writes it in its JSON"
    return Doubt("no-options", what, advice)


def _torn(run: Run) -> Iterator[Doubt]:
    for what in run.torn:
        advice = "repeat that run: fio was stopped, or the disk with the results was full"
        yield Doubt("fio-cut-short", what, advice)


def _version(report: Mapping[str, Any]) -> str:
    return printable(str(report.get("fio version", ""))[:60])


def _started(run: Run, group: Sequence[tuple[Job, Mapping[str, Any]]]) -> float:
    """When the group began, if the report says so, else when fio did; 0 where neither is known.
    ``job_start`` (ms, since 3.37) may be on another clock: it counts only within the run."""
    starts = [_plain(record.get("job_start")) / 1000 for _, record in group]
    first = min(starts, default=0.0)
    if run.began and run.began - _CLOCKS <= first <= run.ended:
        return first
    return run.began or run.ended


def _options(report: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, str] | None:
    """A job's options, those of ``[global]`` first; None where the report has none at all."""
    found: dict[str, str] = {}
    shared, own = report.get("global options"), record.get("job options")
    if not isinstance(shared, dict | list) and not isinstance(own, dict):
        return None
    for each in shared if isinstance(shared, list) else [shared]:
        if isinstance(each, dict):
            found.update(_spelled(each))
    if isinstance(own, dict):
        found.update(_spelled(own))
    return found


def _spelled(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, str | int | float):
            known = _ALIASES.get(name, name)
            yield printable(known[:80]), printable(str(value)[:200])


def _workload(options: Sequence[Mapping[str, str] | None]) -> str:
    """The rw of the jobs, ``read`` where none is given (it is fio's default)."""
    return "+".join(dict.fromkeys((each or {}).get("rw") or "read" for each in options))


def _treatment(options: Sequence[Mapping[str, str] | None]) -> Treatment:
    """The options that say what the I/O was like; where jobs differ, all values."""
    known = [each or {} for each in options]
    wanted = dict.fromkeys(name for each in known for name in each if name not in NOT_TREATMENT)
    return tuple(
        (name, "+".join(dict.fromkeys(each.get(name, "-") or "1" for each in known)))
        for name in wanted
    )
