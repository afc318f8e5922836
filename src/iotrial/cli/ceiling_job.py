"""``ceiling.fio``: fio's job file for the load that a search found, one for each host."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from iotrial.files import read_text, write_text
from iotrial.model.finding import Ceiling
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord, treatment_text
from iotrial.plan.parts import parts_of
from iotrial.report.words import PRETENDED
from iotrial.tools.fio_job import job_of
from iotrial.units import format_value

NAME = "ceiling"
_LONGER = {"runtime": "60s", "ramp_time": "5s", "time_based": "1"}
"""A trial is shorter than anybody would want to watch."""
_APART = {"new_group": "1"}
"""Of several targets each has a report of its own; ``group_reporting`` would make one of all."""


def write_jobs(results: Results, found: Ceiling | None) -> list[str]:
    """The paths of the files, in the results folder; none where no load was found."""
    if found is None or found.best is None:
        return []
    final = results.study.workloads[1].name
    last = [
        record
        for record in results.records
        if record.trial.workload == final
        and record.trial.treatment == found.best.treatment
        and record.state == "valid"
    ]
    return (
        [_write(results, found, host, loads) for host, loads in _loads(results, last[-1]).items()]
        if last
        else []
    )


def _loads(results: Results, record: TrialRecord) -> dict[str, dict[str, Sequence[str]]]:
    """fio's commands of a trial, by host and target; the host is '' where there is one."""
    if not record.parts:
        return {"": {record.trial.workload: record.command}}
    parts = parts_of(results.study, record.trial)
    one = len({part.host for part in parts}) == 1
    found: dict[str, dict[str, Sequence[str]]] = {}
    for part in parts:
        said = results.folder / "trials" / record.trial.folder / part.name / "command"
        argv = shlex.split(read_text(said, results.folder))
        found.setdefault("" if one else part.host, {})[part.target.name] = argv
    return found


def _write(results: Results, found: Ceiling, host: str, loads: dict[str, Sequence[str]]) -> str:
    best = found.best
    assert best is not None  # noqa: S101 (for the type checker: asked before)
    value = format_value(best.rate, metric(found.metric).unit)
    heading = [
        f"The most {found.metric} that iotrial saturate found: {treatment_text(best.treatment)}.",
        f"It reached {value} in {best.trials} short trials.",
        "Runtime and ramp are longer here.  Look at filename before you run it.",
    ]
    if results.pretended:
        heading.insert(0, PRETENDED)
    if host:
        heading.append(f"This is the part of {host}: start the files of all hosts together,")
        heading.append(f"each on its host: ssh {host} fio - < {NAME}-{host}.fio")
    if found.metric.startswith("write"):
        heading.append("IT WRITES: what is there now is lost.")
    path = results.folder / f"{NAME}{'-' if host else ''}{host}.fio"
    instead = _LONGER | (_APART if len(loads) > 1 else {})
    write_text(path, job_of(loads, heading, instead))
    return str(path)
