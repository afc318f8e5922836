"""The table of all trials, long: a row per trial and metric, in base units.

A trial without a number (it failed) has one row all the same, so that it is not missed.  A trial's
numbers are those of all its jobs together; each job's own are in the raw file that ``source``
names.  Text is fit to look at (:mod:`iotrial.report.visible`): one line, no control characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import Trial, TrialRecord
from iotrial.report.visible import visible

BEFORE = ("trial", "block", "workload")
AFTER = ("metric", "value", "unit", "censored", "job", "state", "started", "source")
"""The columns before and after those of the factors."""
PRETENDED = ("pretended",)
"""One more, last, where the numbers are made up: a table of real ones has none."""


@dataclass(frozen=True, slots=True)
class Row:
    """``labels`` are the treatment's, a factor each; None where the factor does not apply.
    ``value`` is in ``unit``, a base unit; None where nothing was measured.  ``censored`` says on
    which side of the value the truth lies.  ``started`` is seconds since the epoch, None if
    unknown.  ``source`` is the raw file below the results folder, with the line where known."""

    trial: str
    block: int
    workload: str
    labels: tuple[str | None, ...]
    metric: str
    value: float | None
    unit: str
    censored: str
    job: str
    state: str
    started: float | None
    source: str


def labels_of(trial: Trial) -> dict[str, str]:
    """What a trial has in the columns of the factors; where blocks are spread over hosts, also
    its ``host``."""
    return dict(trial.treatment) | ({"host": trial.host} if trial.host else {})


def factors(results: Results) -> tuple[str, ...]:
    """The factors that have a column: the study's, in its order."""
    found = dict.fromkeys(factor.name for factor in results.study.factors)
    for record in results.records:
        found |= dict.fromkeys(labels_of(record.trial))
    return tuple(found)


def columns(results: Results) -> tuple[str, ...]:
    """The names of the columns.  A factor that is called as another column is (``value``) has
    ``factor_`` before its name."""
    taken = [*BEFORE, *AFTER, *PRETENDED]
    names = []
    for factor in factors(results):
        name = visible(factor)
        while name in taken:
            name = f"factor_{name}"
        taken.append(name)
        names.append(name)
    return (*BEFORE, *names, *AFTER, *(PRETENDED if results.pretended else ()))


def rows(results: Results) -> Iterator[Row]:
    """Every row, in the order of execution."""
    names = factors(results)
    for record in results.records:
        told = record.measurements or (Measurement("", float("nan"), "", job=""),)
        for measurement in told:
            yield _row(record, measurement, names)


def _row(record: TrialRecord, measured: Measurement, names: tuple[str, ...]) -> Row:
    trial, of = record.trial, labels_of(record.trial)
    return Row(
        trial=visible(trial.folder),
        block=trial.block,
        workload=visible(trial.workload),
        labels=tuple(visible(of[name]) if name in of else None for name in names),
        metric=visible(measured.metric),
        value=measured.value if measured.metric else None,
        unit=visible(measured.unit),
        censored=measured.censored,
        job=visible(measured.job),
        state=record.state,
        started=record.started if record.started > 0 else None,
        source=visible(source(record, measured.raw)),
    )


def source(record: TrialRecord, raw: str = "") -> str:
    """Where a number of a trial came from: below ``originals/`` or ``trials/``."""
    if record.source:
        return record.source
    return "/".join(part for part in ("trials", record.trial.folder, raw) if part)
