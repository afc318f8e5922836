"""Rows: how trials and their records are written down as JSON, and read back.  Pure.

Used by the results folder (:mod:`iotrial.store`): plan.jsonl, trial.json, measurements.jsonl.
"""

from __future__ import annotations

from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement, metric
from iotrial.model.trial import Trial, TrialRecord

Triples = tuple[tuple[str, str, str], ...]


def line_out(record: TrialRecord) -> dict[str, Any]:
    """One line of measurements.jsonl: the trial's own numbers; its jobs' stay in the raw file."""
    return {
        **record_out(record),
        "folder": record.trial.folder,
        "before": record.before,
        "after": record.after,
        "values": {
            m.metric: [m.value, m.raw, m.censored] for m in record.measurements if m.job == "all"
        },
    }


def record_out(record: TrialRecord) -> dict[str, Any]:
    return {
        "trial": trial_out(record.trial),
        "state": record.state,
        "started": record.started,
        "seconds": round(record.seconds, 6),
        "load_seconds": round(record.load_seconds, 6),
        "tool": record.tool,
        "command": list(record.command),
        "doubts": [[d.check, d.what, d.advice, d.invalid] for d in record.doubts],
        "error": record.error,
    }


def record_in(row: dict[str, Any], memo: dict[Triples, Triples]) -> TrialRecord:
    trial = trial_in_row(row["trial"])
    return TrialRecord(
        trial=trial,
        state=row["state"],
        started=row["started"],
        seconds=row["seconds"],
        load_seconds=row["load_seconds"],
        tool=row["tool"],
        command=tuple(row["command"]),
        before=_triples(row["before"], memo),
        after=_triples(row["after"], memo),
        doubts=tuple(
            Doubt(name, what, advice, invalid=invalid, trial=trial.folder)
            for name, what, advice, invalid in row["doubts"]
        ),
        error=row["error"],
        measurements=tuple(
            Measurement(name, value, metric(name).unit, "all", raw, censored)
            for name, (value, raw, censored) in row["values"].items()
        ),
    )


def _triples(rows: list[list[str]], memo: dict[Triples, Triples]) -> Triples:
    """Settings read back; equal ones share one tuple (10,000 trials hold few different ones)."""
    triples = tuple((device, tunable, value) for device, tunable, value in rows)
    return memo.setdefault(triples, triples)


def trial_out(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "id": trial.id,
        "block": trial.block,
        "workload": trial.workload,
        "treatment": dict(trial.treatment),
        "target": trial.target,
        "attempt": trial.attempt,
    }


def trial_in_row(row: dict[str, Any]) -> Trial:
    return Trial(
        number=row["number"],
        id=row["id"],
        block=row["block"],
        workload=row["workload"],
        treatment=tuple(row["treatment"].items()),
        target=row["target"],
        attempt=row["attempt"],
    )
