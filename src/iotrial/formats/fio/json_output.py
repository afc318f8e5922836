"""fio's JSON output → measurements and doubts, and the runs in any file of it.

One file may hold text before, between and after JSON documents (messages, ``--output-format=
normal,json+``), one document per ``--status-interval``, or the output of many runs.  With
``--client`` the jobs are under ``client_stats``, followed by an entry "All clients" that has no
percentiles: it is left out, and made again from the jobs.

:func:`parse` is for the file of one trial: the last whole report counts, and groups of jobs that
ran one after another are averaged over the time, with a doubt.  :data:`FORMAT` gives every run of
any file, and each group of jobs as a run of its own.

A report is a JSON object with a key "fio version".  It may stand alone, be one of several that
follow each other (``--status-interval``, or the output of many runs in one file), or lie inside
an array or object that another program put around it.  What cannot be decoded but holds the words
``"fio version"`` is a torn report: where it breaks is said, and what follows is still read.  fio
writes 0/0 as bare ``nan``, and before 2.2 it wrote control characters in strings as they are.

``--status-interval`` makes fio write a report again and again while it runs, each with all the
numbers since the start: the last of them counts.  A file of many runs looks the same.  What tells
them apart is whether there was time for another run between the two reports, and where there is
no ``timestamp`` (before 2.2.6), whether the counters went on at the rate they had.

fio writes the options of its jobs since 2.8 ("job options", "global options").  Without them the
file does not say whether the I/O was random: then the job's name stands for the workload.

Sources: HOWTO of fio, section "JSON output"; stat.c and json.c of fio 2.0.10 … 3.42;
``tests/data/fio`` has recordings.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.formats.fio.report import (
    ONE_AFTER_ANOTHER,
    FioJob,
    bins,
    doubts_about,
    job_from,
    measurements,
    of_sections,
    queue_doubts,
    weights,
)
from iotrial.formats.fio.report import mapping as as_mapping
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt, Treatment

MARK = '"fio version"'
AGAIN = "repeat the trial: fio did not terminate normally, or the disk with the results is full"
_OPEN = re.compile(
    rf'(?:^[ \t]*|(?<=[}}\]])[\s,]*)(?:\{{(?=\s*")|\[(?=\s*\{{))|\{{(?=\s*{MARK})', re.MULTILINE
)
# printf("%f") of 0/0: bare nan, which no JSON parser takes.  NaN of the same length is taken.
_BARE_NAN = re.compile(r"-?(?:nan|inf)\b")
_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)(?=\s*[,}\]])")
_FROM = re.compile(r"<[^<>\s]+> (?=fio: |note: )")
_DEEPEST = 6  # objects and arrays around a report; others wrap it once or twice
_TRIES = 2000  # documents that do not decode, after which the rest is not looked at
_GLANCE = 4096  # characters in which most of those show that they are none


@dataclass(frozen=True, slots=True)
class _FioReport:
    """``line`` is where it begins; ``said`` what fio said before it (of the last one: and after
    it); ``repeated`` the keys of its document that have two values."""

    record: Mapping[str, Any]
    line: int
    said: tuple[str, ...]
    repeated: frozenset[str]


@dataclass(frozen=True, slots=True)
class _TruncatedReport:
    """A report that breaks: why, ``at`` which character, in which ``line``, and how many whole
    reports stand before it."""

    what: str
    at: int
    line: int
    after: int


def reports(text: str, raw: str) -> tuple[tuple[_FioReport, ...], tuple[_TruncatedReport, ...]]:
    """The whole reports in ``text``, and the torn ones, each in order.

    Raises :class:`~iotrial.errors.FormatError`, with byte and line, where none is whole.
    """
    whole: list[_FioReport] = []
    torn: list[_TruncatedReport] = []
    first: _TruncatedReport | None = None
    lines, documents, place, told, failed = _Lines(text), False, 0, 0, 0
    healed, decodable = False, text
    while failed < _TRIES and (match := _OPEN.search(text, place)) is not None:
        start = match.end() - 1
        try:
            value, end, repeated = _decode(decodable, start)
        except (ValueError, RecursionError) as error:
            at = _place(error, start)
            if not healed and _BARE_NAN.match(text, at):
                healed, decodable = True, _NAN.sub(lambda found: "NaN".rjust(len(found[0])), text)
                continue
            broken = _TruncatedReport(
                getattr(error, "msg", "nested too deeply"), at, lines(at), len(whole)
            )
            first = first or broken
            ours = text.find(MARK, start, at) >= 0
            inner = bool(torn) and torn[-1].after == len(whole)
            if ours or (text[start] == "{" and not inner and not text[at:].strip()):
                torn.append(broken)
            failed += 1 + _TRIES * (at - start) // (4 * len(text))
            place = start + 1
            continue
        documents, place = True, end
        said = text[told:start]
        for record in _inside(value, _DEEPEST):
            whole.append(_FioReport(record, lines(start), tuple(messages(said)), repeated))
            said, told = "", end
    if not whole:
        raise _nothing(text, raw, first, documents=documents)
    last = whole[-1]
    said_last = (*last.said, *messages(text[told:]))
    whole[-1] = _FioReport(last.record, last.line, said_last, last.repeated)
    return tuple(whole), tuple(torn)


class _Lines:
    """Place → line number, for places asked for nearly in order, without counting anew."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def __call__(self, at: int) -> int:
        if at < self._at:
            return self._line - self._text.count("\n", at, self._at)
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line


def _nothing(
    text: str, raw: str, broken: _TruncatedReport | None, *, documents: bool
) -> FormatError:
    if documents and (broken is None or MARK not in text):
        return FormatError(f"{raw}: JSON, but not a report of fio: it has no 'fio version'")
    if broken is None:
        return FormatError(f"{raw}: no report of fio: there is no JSON at line 1 or later")
    offset = len(text[: broken.at].encode("utf-8", "surrogateescape"))
    place = f"byte {offset} (line {broken.line})"
    message = f"{raw}: no whole report of fio: {broken.what} at {place}"
    return FormatError(message, advice=AGAIN)


def _inside(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    """The reports in a decoded document."""
    if isinstance(value, dict) and "fio version" in value:
        yield value
    elif depth and isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _inside(each, depth - 1)


def _decode(text: str, start: int) -> tuple[object, int, frozenset[str]]:
    """One JSON value, where it ends, and its repeated keys.  Raises ValueError, RecursionError."""
    repeated: set[str] = set()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            repeated.update(_contradictions(pairs))
        return record

    decoder = json.JSONDecoder(object_pairs_hook=unique, strict=False)
    glance = text[start : start + _GLANCE]
    try:  # an error counts all lines before it: of a whole file, for each bracket in a log
        value, end = decoder.raw_decode(glance)
    except json.JSONDecodeError as error:
        if error.pos < _GLANCE // 2 and len(glance) == _GLANCE:
            raise _Broken(error.msg, start + error.pos) from None
    else:
        return value, start + end, frozenset(repeated)
    repeated.clear()
    value, end = decoder.raw_decode(text, start)
    return value, end, frozenset(repeated)


class _Broken(ValueError):
    """As json.JSONDecodeError, without counting lines: ``msg`` and ``pos``."""

    def __init__(self, msg: str, pos: int) -> None:
        super().__init__(msg)
        self.msg, self.pos = msg, pos


def _place(error: ValueError | RecursionError, start: int) -> int:
    """The character at which a document breaks."""
    at = getattr(error, "pos", start)
    return at if isinstance(at, int) else start


def _contradictions(pairs: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Keys with two different values.  Strings are the options of a job, where ``filename`` may
    well be there many times."""
    first: dict[str, Any] = {}
    for key, value in pairs:
        if first.setdefault(key, value) != value and not isinstance(value, str):
            yield key


def messages(text: str) -> Iterator[str]:
    """fio's own messages in the text around a report; of a server behind its host's name."""
    for line in (_FROM.sub("", each) for each in text.splitlines()):
        if line.startswith(("fio: ", "note: ")):
            yield printable(line[:200])


def printable(text: str) -> str:
    """Text that can be written anywhere: no lone surrogates, no control characters."""
    return "".join(
        char if char.isprintable() else "?" for char in text.encode("utf-8", "replace").decode()
    )


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
class FioRun:
    """One report.  ``jobs`` are its jobs, each with the entry it was read from; ``torn`` says
    which broken reports stand beside it."""

    report: Mapping[str, Any]
    jobs: tuple[tuple[FioJob, Mapping[str, Any]], ...]
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


def last_of_each(runs: Sequence[FioRun]) -> tuple[FioRun, ...]:
    """One report for each run, the last, with what was said beside the others."""
    found: list[FioRun] = []
    for each in runs:
        if found and _goes_on(found[-1], each):
            before = found.pop()
            said, torn = (*before.said, *each.said), (*before.torn, *each.torn)
            found.append(replace(each, line=before.line, said=said, torn=torn))
        else:
            found.append(each)
    return tuple(found)


def _goes_on(before: FioRun, after: FioRun) -> bool:
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


def _identity(run: FioRun) -> tuple[object, ...]:
    jobs = [(job.label, job.group, record.get("job options")) for job, record in run.jobs]
    return run.report.get("fio version"), run.report.get("global options"), jobs


Count = tuple[float, float]
"""Bytes moved and seconds measured, of one job."""


def _count(job: FioJob) -> Count:
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


def recordings(run: FioRun, raw: str) -> Iterator[Recording]:
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


def _logs(options: Sequence[Mapping[str, str] | None], jobs: Sequence[FioJob]) -> Iterator[str]:
    """The names of the logs of these jobs; one that is not said is the job's own."""
    for each, job in zip(options, jobs, strict=True):
        for option in LOGS:
            if each and option in each:
                yield each[option] or job.label.rpartition("#")[0]


def relabelled(jobs: Sequence[FioJob]) -> list[FioJob]:
    """The jobs with ordinals that count within their own group."""
    seen: Counter[str] = Counter()
    found = []
    for each in jobs:
        name = each.label.rpartition("#")[0]
        seen[name] += 1
        found.append(replace(each, label=f"{name}#{seen[name]}"))
    return found


def names(jobs: Sequence[FioJob]) -> str:
    """What the jobs are called, each name once: ``reader+writer``."""
    return "+".join(dict.fromkeys(job.label.rpartition("#")[0] for job in jobs))


def without_options() -> Doubt:
    what = (
        "the file has no record of how fio was run: whether at random, with which block size"
        " or depth"
    )
    advice = "take the job's name for it, or say it yourself; fio 3 writes it in its JSON"
    return Doubt("no-options", what, advice)


def _torn(run: FioRun) -> Iterator[Doubt]:
    for what in run.torn:
        advice = "repeat that run: fio was stopped, or the disk with the results was full"
        yield Doubt("fio-cut-short", what, advice)


def _version(report: Mapping[str, Any]) -> str:
    return printable(str(report.get("fio version", ""))[:60])


def _started(run: FioRun, group: Sequence[tuple[FioJob, Mapping[str, Any]]]) -> float:
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


def parse(data: bytes, raw: str) -> ParsedOutput:
    """Measurements (see :func:`~iotrial.formats.fio.report.measurements`) and doubts of the
    last whole report in ``data``; ``raw`` names the file.

    Raises :class:`~iotrial.errors.FormatError` with the byte offset.
    """
    whole, torn = reports(data.decode("utf-8", "surrogateescape"), raw)
    report, said = whole[-1], list(whole[-1].said)
    if len(whole) > 1:
        said = [*whole[0].said, *said]
    if any(each.after == len(whole) for each in torn):
        said.append("fio: the last report is not whole")
    entries = _jobs(report.record, raw)
    jobs = tuple(one for one, _ in entries)
    doubts = doubts_about(jobs, said, report.repeated)
    shallow = queue_doubts(report.record, [entry for _, entry in entries])
    said_disks = _disks(report.record.get("disk_util"))
    apart = tuple(of_sections(jobs, raw))
    if apart:  # and a study is judged by these
        doubts = tuple(doubt for doubt in doubts if doubt.check != ONE_AFTER_ANOTHER)
    measured = (*measurements(jobs, raw), *apart, *utilisation(report.record, raw))
    return ParsedOutput(measured, (*doubts, *shallow), jobs, said_disks)


def _disks(rows: object) -> tuple[str, ...]:
    """Those that fio has opened files on, and what they are built on; () where it says none."""
    names = (
        [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else ()
    )
    return tuple(name for name in names if isinstance(name, str))


def together(several: Sequence[ParsedOutput], all_of: str) -> tuple[Measurement, ...]:
    """The numbers of several loads that ran at the same time, as if their jobs stood in one
    report: rates summed, means weighted, percentiles of all their bins.  ``several`` are what
    :func:`parse` gave of each; ``all_of`` names all their files.
    """
    bases = (each.basis for each in several)
    jobs = [job_from for basis in bases if isinstance(basis, tuple) for job_from in basis]
    whole = (each for each in measurements(jobs, all_of) if each.job == "all")
    return (*whole, *of_sections(jobs, all_of))


class _Json:
    """The plugin; see :class:`iotrial.model.recording.RecordingFormat`."""

    name = "fio-json"
    title = "fio, JSON output (json, json+)"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        begins = b"{" in head[:1] or b"\n{" in head or b"[" in head[:1]
        return 0 if MARK.encode() not in head else 3 if begins else 2

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """One recording for each group of jobs of each run."""
        whole, torn = reports(text_of(data, raw), raw)
        runs = []
        for index, each in enumerate(whole, 1):
            jobs = _jobs(each.record, f"{raw}: line {each.line}")
            broken = tuple(_broken(one) for one in torn if max(one.after, 1) == index)
            runs.append(FioRun(each.record, jobs, each.line, each.said, each.repeated, broken))
        return tuple(found for run in last_of_each(runs) for found in recordings(run, raw))


def _broken(torn: _TruncatedReport) -> str:
    return f"a report breaks in line {torn.line}: {torn.what}; it is left out"


FORMAT = _Json()


def _jobs(report: Mapping[str, Any], raw: str) -> tuple[tuple[FioJob, Mapping[str, Any]], ...]:
    key = "jobs" if "jobs" in report else "client_stats"
    entries = report.get(key)
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{raw}: a report of fio without jobs", advice=AGAIN)
    records = [as_mapping(entry, f"{raw}: {key}[{i}]") for i, entry in enumerate(entries)]
    if key == "client_stats" and len(records) > 1:
        records = [each for each in records if each.get("jobname") != "All clients"]
    seen: Counter[str] = Counter()
    jobs = []
    for index, record in enumerate(records):
        name = record.get("jobname")
        if not isinstance(name, str):
            raise FormatError(f"{raw}: {key}[{index}].jobname is not a text")
        name = printable(name)
        seen[name] += 1
        jobs.append((job_from(record, f"{name}#{seen[name]}", f"{raw}: {key}[{index}]"), record))
    return tuple(jobs)
