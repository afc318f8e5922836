"""fio's logs of one run come as many files, kinds × jobs × hosts; here they become one run.  Pure.

Files of one folder and one name (``x_bw.1.log``, ``x_clat.2.log``, ``x_clat.1.log.box7``) are of
one run of fio.  Within a job each quantity is taken from the log that knows it best: bandwidth
and IOPS from their own, percentiles from a log of every I/O rather than from histograms, of which
fio does not write the last.  The jobs are then put together by
:mod:`iotrial_import.cells`.

A run has one unit for all its latencies, which logs of fio before 3.18 do not say
(:mod:`iotrial_import.formats.fio_log` judges them one by one).  It is decided by what is surest:
what a JSON output of the run says; a log that can only be in one; the I/Os in flight, where the
rate of the job is known; the longest of the latencies, since ``lat`` = ``slat`` + ``clat``.

Logs that a JSON output in their folder names (``write_lat_log=x``) are of that run: it has all
their numbers, and better ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from iotrial.formats.fio.log import HIST, LogName, log_name
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt
from iotrial_import.cells import LabelledRecording, doubts_of, joined, merged, workload_of
from iotrial_import.formats.fio_log import MICRO, NANO, UNIT, judged_doubt
from iotrial_import.legend import OriginalFile

_KINDS = ("bw", "iops", "lat", "clat", "slat", HIST)
"""In the order in which they are believed; histograms lack what came last."""
_FORMATS = ("fio-log", "fio-hist-log")
_DIFFER = 0.01
_STAGES = ("lat", "clat", "slat")
_FLIGHT = 256  # I/Os: more than a job keeps in flight
_UNLIKE = 2.0  # times: a log and an output of one run

Jobs = dict[tuple[str, str], dict[str, Recording]]
"""(host, job) → kind → what its log says."""


def together(originals: Sequence[OriginalFile]) -> list[OriginalFile]:
    """The same, the logs of each run as one original, in the place of the first of them, or of the
    output that names them."""
    names = [_named(each) for each in originals]
    groups: dict[tuple[str, str, bool, bool], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if name is not None:
            groups[name.run].append(index)
    naming = _naming(originals)
    found: dict[int, OriginalFile | None] = {}
    for (folder, called, _, _), members in groups.items():
        jobs: Jobs = defaultdict(dict)
        mine = []
        for index in members:
            name = names[index]
            if name is None or name.kind in jobs[name.host, name.job]:
                continue  # the same log twice, once packed: not of this run
            jobs[name.host, name.job][name.kind] = originals[index].recordings[0]
            mine.append(index)
        at, place = naming.get((folder, called), (-1, -1))
        told = originals[at].recordings[place] if at >= 0 else None
        jobs = _in_one_unit(jobs, told)
        if told is not None:
            found.update(dict.fromkeys(mine))
            whole = _run(jobs, [originals[index] for index in mine]).recordings[0]
            found[at] = _with_logs(
                found.get(at) or originals[at], place, whole, [originals[i].file for i in mine]
            )
        elif len(mine) > 1:
            found.update(dict.fromkeys(mine))
            found[mine[0]] = _run(jobs, [originals[index] for index in mine])
    every = [found.get(index, original) for index, original in enumerate(originals)]
    return [each for each in every if each is not None]


def _naming(originals: Sequence[OriginalFile]) -> dict[tuple[str, str], tuple[int, int]]:
    """(folder, name) of logs → which original, and which of its recordings, is the only one that
    names them."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, original in enumerate(originals):
        folder = "".join(original.file.rpartition("/")[:2])
        for place, recording in enumerate(original.recordings):
            for name in dict.fromkeys(each.rpartition("/")[2] for each in recording.logs):
                found[folder, name].append((index, place))
    return {name: places[0] for name, places in found.items() if len(places) == 1}


def _with_logs(
    original: OriginalFile, place: int, logs: Recording, files: Sequence[str]
) -> OriginalFile:
    """An output with the logs that it names, of which it has all numbers.  That they are of
    another run is doubted."""
    recordings = list(original.recordings)
    told, seen = _whole(recordings[place]), _whole(logs)
    for name in ("iops", "bw", *(f"{stage}.mean" for stage in _STAGES)):
        for metric in (each for each in seen if split(each)[1] == name and told.get(each)):
            if not 1 / _UNLIKE < seen[metric] / told[metric] < _UNLIKE:
                what = (
                    f"{metric} is {told[metric]:g} by the output of the run, and {seen[metric]:g} "
                    f"by the logs that it names ({files[0]} …)"
                )
                advice = "one of them is of another run: the logs are overwritten by the next one"
                doubt = Doubt("fio-logs-differ", what, advice)
                recording = recordings[place]
                recordings[place] = replace(recording, doubts=(*recording.doubts, doubt))
                return _and(original, recordings, files)
    return _and(original, recordings, files)


def _and(
    original: OriginalFile, recordings: Sequence[Recording], files: Sequence[str]
) -> OriginalFile:
    known = original.files or (original.file,)
    return replace(original, recordings=tuple(recordings), files=(*known, *files))


def _whole(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements if each.job == "all"}


def _in_one_unit(jobs: Jobs, told: Recording | None) -> Jobs:
    """The logs of a run in the unit that all of them have."""
    judged = [log for logs in jobs.values() for log in logs.values() if log.other]
    if not judged:
        return jobs
    tick, doubt = _tick(jobs, told)
    found: Jobs = defaultdict(dict)
    for key, logs in jobs.items():
        for kind, log in logs.items():
            mine = log.other if log.other and log.tick != tick else log
            doubts = tuple(each for each in mine.doubts if each.check != UNIT)
            found[key][kind] = replace(mine, doubts=doubts)
    if doubt:
        kinds = found[next(iter(found))]
        kind = next(iter(kinds))
        kinds[kind] = replace(kinds[kind], doubts=(*kinds[kind].doubts, doubt))
    return found


def _tick(jobs: Jobs, told: Recording | None) -> tuple[float, Doubt | None]:
    """The unit of a run's latencies in seconds, and a doubt where it was judged."""
    logs = {(*key, kind): log for key, each in jobs.items() for kind, log in each.items()}
    judged = {key: log for key, log in logs.items() if log.other}
    if told is not None and (ratios := _ratios(judged.values(), _whole(told))):
        return min(ratios, key=ratios.__getitem__), None
    sure = {
        tick
        for log in logs.values()
        if not log.other
        for tick in (log.tick, *(each.tick for each in log.bins.values()))
        if tick
    }
    if len(sure) == 1:
        return sure.pop(), None
    flights = [flight for each in jobs.values() if (flight := _flight(each))]
    if flights:
        why = f"in microseconds {max(flights):,.0f} I/Os of a job would be in flight"
        tick = NANO if max(flights) > _FLIGHT else MICRO
    else:
        key = min(judged, key=lambda each: (_KINDS.index(each[-1]), each))
        why, tick = f"its log of {key[-1]} looks like it", judged[key].tick
    return tick, judged_doubt(tick, f"all latencies of the run, since {why},")


def _ratios(logs: Iterable[Recording], told: Mapping[str, float]) -> dict[float, float]:
    """Unit → how far the logs' means are from those of the output, as a logarithm."""
    found: dict[float, float] = defaultdict(float)
    for log in logs:
        for each in (log, log.other):
            tick = log.tick if each is log else (NANO if log.tick == MICRO else MICRO)
            for metric, value in _whole(each or log).items():
                if metric.endswith(".mean") and value > 0 and told.get(metric, 0.0) > 0:
                    found[tick] += abs(math.log(value / told[metric]))
    return found


def _flight(logs: Mapping[str, Recording]) -> float:
    """How many I/Os a job had in flight, were its latencies microseconds; 0 unknown."""
    values = {name: value for log in logs.values() for name, value in _whole(log).items()}
    found = 0.0
    for kind in ("lat", "clat"):
        log = logs.get(kind)
        if log is None or log.other is None or found:
            continue
        micro = _whole(log if log.tick == MICRO else log.other)
        for metric, value in micro.items():
            if metric.endswith(f".{kind}.mean"):
                found += value * values.get(f"{split(metric)[0]}.iops", 0.0)
    return found


def _named(original: OriginalFile) -> LogName | None:
    if original.format not in _FORMATS or len(original.recordings) != 1:
        return None
    return log_name(original.file)


def _run(jobs: Jobs, originals: Sequence[OriginalFile]) -> OriginalFile:
    first = log_name(originals[0].file)
    raw = f"{first.folder}{first.name}_*" if first else ""
    parts = [
        LabelledRecording(_label(host, job), _of_job(logs, raw))
        for (host, job), logs in sorted(jobs.items(), key=lambda each: _order(*each[0]))
    ]
    whole = parts[0].recording if len(parts) == 1 else merged(_agreed(parts), raw)
    whole = replace(whole, measurements=(*whole.measurements, *_totals(whole, raw)))
    hosts = len({host for host, _ in jobs})
    files = tuple(each.file for each in originals)
    return replace(originals[0], recordings=(whole,), files=files, parts=hosts)


def _totals(run: Recording, raw: str) -> Iterator[Measurement]:
    """The rates of all operations together, as fio's JSON has them."""
    for name in ("iops", "bw"):
        parts = [each for each in run.measurements if each.metric in _parts(name)]
        mine = [each for each in parts if each.job == "all"]
        if mine:
            total = sum(each.value for each in mine)
            yield Measurement(f"total.{name}", total, mine[0].unit, "all", raw)


def _parts(name: str) -> tuple[str, ...]:
    return tuple(f"{operation}.{name}" for operation in ("read", "write", "trim"))


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


def _agreed(parts: Sequence[LabelledRecording]) -> list[LabelledRecording]:
    """Where logs can only be in different units, no latency of all together is given."""
    if len({each.tick for part in parts for each in part.recording.bins.values()}) < 2:  # noqa: PLR2004
        return list(parts)
    doubt = Doubt(
        "fio-logs-unit",
        "some logs look like micro-, others like nanoseconds: no latencies of all jobs together",
        "compare with fio's own output of the run",
    )
    return [
        LabelledRecording(each.label, _without_latencies(each.recording, doubt)) for each in parts
    ]


def _without_latencies(recording: Recording, doubt: Doubt) -> Recording:
    kept = tuple(_rates(recording))
    return replace(
        recording, measurements=kept, bins={}, weights={}, doubts=(*recording.doubts, doubt)
    )


def _rates(recording: Recording) -> Iterator[Measurement]:
    for each in recording.measurements:
        if split(each.metric)[1].partition(".")[0] not in _STAGES:
            yield each
