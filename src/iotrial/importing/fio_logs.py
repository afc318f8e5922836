"""fio's logs of one run come as many files, kinds × jobs × hosts; here they become one run.  Pure.

Files of one folder and one name (``x_bw.1.log``, ``x_clat.2.log``, ``x_clat.1.log.box7``) are of
one run of fio.  Within a job each quantity is taken from the log that knows it best: bandwidth
and IOPS from their own, percentiles from a log of every I/O rather than from histograms, of which
fio does not write the last.  The jobs are then put together by
:mod:`iotrial.importing.merged`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iotrial.formats.fio.log_name import HIST, LogName, log_name
from iotrial.importing.merged import Part, doubts_of, joined, merged, workload_of
from iotrial.importing.run import Original
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import Recording

_KINDS = ("bw", "iops", "lat", "clat", "slat", HIST)
"""In the order in which they are believed; histograms lack what came last."""
_FORMATS = ("fio-log", "fio-hist-log")
_DIFFER = 0.01
_STAGES = ("lat", "clat", "slat")

Jobs = dict[tuple[str, str], dict[str, Recording]]
"""(host, job) → kind → what its log says."""


def together(originals: Sequence[Original]) -> list[Original]:
    """The same, the logs of each run as one original, in the place of the first of them."""
    names = [_named(each) for each in originals]
    groups: dict[tuple[str, str, bool, bool], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if name is not None:
            groups[name.run].append(index)
    found: dict[int, Original | None] = {}
    for members in groups.values():
        jobs: Jobs = defaultdict(dict)
        mine = []
        for index in members:
            name = names[index]
            if name is None or name.kind in jobs[name.host, name.job]:
                continue  # the same log twice, once packed: not of this run
            jobs[name.host, name.job][name.kind] = originals[index].recordings[0]
            mine.append(index)
        if len(mine) > 1:
            found.update(dict.fromkeys(mine))
            found[mine[0]] = _run(jobs, [originals[index] for index in mine])
    every = [found.get(index, original) for index, original in enumerate(originals)]
    return [each for each in every if each is not None]


def _named(original: Original) -> LogName | None:
    if original.format not in _FORMATS or len(original.recordings) != 1:
        return None
    return log_name(original.file)


def _run(jobs: Jobs, originals: Sequence[Original]) -> Original:
    first = log_name(originals[0].file)
    raw = f"{first.folder}{first.name}_*" if first else ""
    parts = [
        Part(_label(host, job), _of_job(logs, raw))
        for (host, job), logs in sorted(jobs.items(), key=lambda each: _order(*each[0]))
    ]
    whole = parts[0].recording if len(parts) == 1 else merged(_in_one_unit(parts), raw)
    hosts = len({host for host, _ in jobs})
    files = tuple(each.file for each in originals)
    return replace(originals[0], recordings=(whole,), files=files, parts=hosts)


def _order(host: str, job: str) -> tuple[str, int]:
    return host, int(job or 0)


def _label(host: str, job: str) -> str:
    return f"{host}#{job}" if host and job else host or job


def _of_job(logs: Mapping[str, Recording], raw: str) -> Recording:
    """The logs of one job: each metric from the log that knows it best."""
    ordered = [logs[kind] for kind in _KINDS if kind in logs]
    if len(ordered) == 1:
        return ordered[0]
    best: dict[str, Measurement] = {}
    for log in ordered:
        for each in log.measurements:
            best.setdefault(each.metric, each)
    bins = {name: each for log in reversed(ordered) for name, each in log.bins.items()}
    seconds = max(each.seconds for each in ordered)
    values = {name: each.value for name, each in best.items()}
    weights = {name: ios for name in values if (ios := _ios(name, values, seconds))}
    for log in ordered:
        weights.update(log.weights)
    return replace(
        ordered[0],
        workload=workload_of(ordered),
        measurements=tuple(best.values()),
        treatment=joined([each.treatment for each in ordered if each.treatment]),
        doubts=(*doubts_of(ordered), *_contradictions(logs, raw)),
        started=min((each.started for each in ordered if each.started), default=0.0),
        seconds=seconds,
        bins=bins,
        weights=weights,
    )


def _ios(name: str, values: Mapping[str, float], seconds: float) -> float:
    """How many I/Os a mean latency is of, where its own log does not say; 0 unknown."""
    operation, quantity = split(name)
    if quantity not in {f"{stage}.mean" for stage in _STAGES}:
        return 0.0
    rate = values.get(f"{operation}.iops", 0.0)
    return rate * seconds or values.get(f"{operation}.ios", 0.0)


def _contradictions(logs: Mapping[str, Recording], raw: str) -> tuple[Doubt, ...]:
    """The logs of a job that have a line for each I/O have as many lines."""
    counts: dict[str, dict[str, float]] = defaultdict(dict)
    for kind, log in logs.items():
        for each in log.measurements if kind != HIST else ():
            if split(each.metric)[1] == "ios":
                counts[each.metric][kind] = each.value
    found = []
    for name, of_kind in counts.items():
        least, most = min(of_kind, key=of_kind.__getitem__), max(of_kind, key=of_kind.__getitem__)
        if of_kind[least] < (1 - _DIFFER) * of_kind[most]:
            what = (
                f"{raw}: {name} is {of_kind[least]:g} by the log of {least} and "
                f"{of_kind[most]:g} by that of {most}"
            )
            advice = "one of them is of another run, or was cut off: give the logs of one run"
            found.append(Doubt("fio-logs-differ", what, advice))
    return tuple(found)


def _in_one_unit(parts: Sequence[Part]) -> list[Part]:
    """fio has one unit for all latencies.  Where logs were taken for different ones (they do not
    say), no latency of all together is given."""
    if len({each.tick for part in parts for each in part.recording.bins.values()}) < 2:  # noqa: PLR2004
        return list(parts)
    doubt = Doubt(
        "fio-logs-unit",
        "some logs look like micro-, others like nanoseconds: no latencies of all jobs together",
        "compare with fio's own output of the run",
    )
    return [Part(each.label, _without_latencies(each.recording, doubt)) for each in parts]


def _without_latencies(recording: Recording, doubt: Doubt) -> Recording:
    kept = tuple(_rates(recording))
    return replace(
        recording, measurements=kept, bins={}, weights={}, doubts=(*recording.doubts, doubt)
    )


def _rates(recording: Recording) -> Iterator[Measurement]:
    for each in recording.measurements:
        if split(each.metric)[1].partition(".")[0] not in _STAGES:
            yield each
