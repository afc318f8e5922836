"""Alone: recorded runs that are compared with nothing, and what they may be.

Runs are compared where they are alike but for one factor.  A file that does not say how fio was
run names its workload by its job: it never meets a run that says ``randread``, though it may be
one.  Which of the other workloads measure the same is known, and so is what to say on the next
import.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Finding
from iotrial.model.measurement import split
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord

_NAMED, _LISTED = 3, 12
_BY_JOB = "no-options"
"""The doubt of a format that has nothing but the job's name for a workload."""


def alone(results: Results, findings: Sequence[Finding]) -> Iterator[Doubt]:
    """Doubts that runs are in no comparison, if some are and others are not, or if they may only
    be called otherwise."""
    used = {folder for finding in findings for folder in finding.trials}
    left = [record for record in results.valid if record.trial.folder not in used]
    strangers = {name: others for name in _by_job(left) if (others := _may_be(name, results.valid))}
    if strangers:
        named = "; ".join(f"{name} may be {' or '.join(o)}" for name, o in strangers.items())
        yield Doubt(
            "alone",
            f"{_runs(left, results)}: a workload is only named by its job ({named})",
            f"Import again, with what each run was: {_label(results, strangers)}",
        )
    elif used and left:
        yield Doubt(
            "alone",
            f"{_runs(left, results)}: no other run is alike but for one factor",
            "Say what the runs are: --label, or --map.",
        )


def _runs(left: Sequence[TrialRecord], results: Results) -> str:
    names = [r.source.partition("/")[2] or r.trial.folder for r in left]
    more = ", …" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED])
    return f"{len(left)} of {len(results.valid)} runs are compared with nothing ({listed}{more})"


def _by_job(records: Sequence[TrialRecord]) -> list[str]:
    """The workloads of which nothing is known but the name of a job."""
    names = dict.fromkeys(record.trial.workload for record in records)
    told = {record.trial.workload for record in records if not _is_by_job(record)}
    return [name for name in names if name not in told]


def _is_by_job(record: TrialRecord) -> bool:
    return any(doubt.check == _BY_JOB for doubt in record.doubts)


def _may_be(name: str, records: Sequence[TrialRecord]) -> list[str]:
    """The workloads, known by more than a job's name, that do the same operations."""
    mine = next(_operations(record) for record in records if record.trial.workload == name)
    return list(
        dict.fromkeys(
            record.trial.workload
            for record in records
            if not _is_by_job(record) and _operations(record) == mine
        )
    )


def _operations(record: TrialRecord) -> set[str]:
    return {
        operation
        for each in record.measurements
        for operation, quantity in [split(each.metric)]
        if each.job == "all" and quantity in ("iops", "bw")
    }


def _label(results: Results, strangers: dict[str, list[str]]) -> str:
    """The option, with a workload for each run where there are few."""
    copied = any(doubt.check == "copies" for doubt in results.doubts)
    if copied or len(results.records) > _LISTED:
        first = next(iter(strangers.values()))[0]
        return f"--label workload={shlex.quote(first)},… (one for each run, in order)"
    ordered = sorted(results.records, key=lambda record: record.trial.number)
    every = [
        strangers[name][0] if (name := record.trial.workload) in strangers else name
        for record in ordered
    ]
    return f"--label {shlex.quote('workload=' + ','.join(every))}"
