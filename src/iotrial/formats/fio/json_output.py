"""fio's JSON output → measurements and doubts, and the runs in any file of it.

One file may hold text before, between and after JSON documents (messages, ``--output-format=
normal,json+``), one document per ``--status-interval``, or the output of many runs.  With
``--client`` the jobs are under ``client_stats``, followed by an entry "All clients" that has no
percentiles: it is left out, and made again from the jobs.

:func:`parse` is for the file of one trial: the last whole report counts, and groups of jobs that
ran one after another are averaged over the time, with a doubt.  :data:`FORMAT` gives every run of
any file, and each group of jobs as a run of its own.

Source of the fields: HOWTO of fio, section "JSON output"; ``tests/data/fio`` has recordings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.fio.documents import AGAIN, MARK, Torn, printable, reports
from iotrial.formats.fio.doubts import doubts_about
from iotrial.formats.fio.measured import measurements
from iotrial.formats.fio.queue import queue_doubts
from iotrial.formats.fio.report import Job, job
from iotrial.formats.fio.report import mapping as as_mapping
from iotrial.formats.fio.runs import Run, last_of_each, recordings, utilisation
from iotrial.formats.lines import text_of
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed


def parse(data: bytes, raw: str) -> Parsed:
    """Measurements (see :func:`~iotrial.formats.fio.measured.measurements`) and doubts of the
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
    measured = (*measurements(jobs, raw), *utilisation(report.record, raw))
    return Parsed(measured, (*doubts, *shallow), jobs, said_disks)


def _disks(rows: object) -> tuple[str, ...]:
    """Those that fio has opened files on, and what they are built on; () where it says none."""
    names = (
        [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else ()
    )
    return tuple(name for name in names if isinstance(name, str))


def together(several: Sequence[Parsed], all_of: str) -> tuple[Measurement, ...]:
    """The numbers of several loads that ran at the same time, as if their jobs stood in one
    report: rates summed, means weighted, percentiles of all their bins.  ``several`` are what
    :func:`parse` gave of each; ``all_of`` names all their files.
    """
    bases = (each.basis for each in several)
    jobs = [job for basis in bases if isinstance(basis, tuple) for job in basis]
    return tuple(each for each in measurements(jobs, all_of) if each.job == "all")


class _Json:
    """The plugin; see :class:`iotrial.model.recording.Format`."""

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
            runs.append(Run(each.record, jobs, each.line, each.said, each.repeated, broken))
        return tuple(found for run in last_of_each(runs) for found in recordings(run, raw))


def _broken(torn: Torn) -> str:
    return f"a report breaks in line {torn.line}: {torn.what}; it is left out"


FORMAT = _Json()


def _jobs(report: Mapping[str, Any], raw: str) -> tuple[tuple[Job, Mapping[str, Any]], ...]:
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
        jobs.append((job(record, f"{name}#{seen[name]}", f"{raw}: {key}[{index}]"), record))
    return tuple(jobs)
