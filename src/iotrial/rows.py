"""Rows: how trials and their records are written down as JSON, and read back.  Pure.

Used by the results folder (:mod:`iotrial.store`): plan.jsonl, trial.json, measurements.jsonl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.latency import Latency, Percentile
from iotrial.model.measurement import Measurement, metric
from iotrial.model.trial import Trial, TrialRecord

Triples = tuple[tuple[str, str, str], ...]


def line_out(record: TrialRecord) -> dict[str, Any]:
    """One line of measurements.jsonl: the trial's own numbers; its jobs' stay in the raw file.

    Settings are JSON within JSON: 10,000 trials hold few different ones, and a string that was
    seen before need not be parsed again.
    """
    return {
        **record_out(record),
        "folder": record.trial.folder,
        "before": json.dumps(record.before),
        "after": json.dumps(record.after),
        "values": {
            m.metric: [m.value, m.raw, m.censored, m.unit]
            for m in record.measurements
            if m.job == "all"
        },
        **({"by_part": by_part(record)} if record.parts else {}),
    }


def by_part(record: TrialRecord) -> dict[str, dict[str, list[Any]]]:
    """What each part measured, by its name."""
    found: dict[str, dict[str, list[Any]]] = {part: {} for part in record.parts}
    for m in record.measurements:
        if m.job in found:
            found[m.job][m.metric] = [m.value, m.raw, m.censored, m.unit]
    return found


def record_out(record: TrialRecord) -> dict[str, Any]:
    return {
        "trial": trial_out(record.trial),
        "state": record.state,
        "started": record.started,
        "seconds": round(record.seconds, 6),
        "load_seconds": round(record.load_seconds, 6),
        "tool": record.tool,
        "command": list(record.command),
        "writers": [list(names) for names in record.writers],
        "doubts": [[d.check, d.what, d.advice, d.invalid] for d in record.doubts],
        "error": record.error,
        **({"source": record.source} if record.source else {}),
        **({"prepared": round(record.prepared, 6)} if record.prepared else {}),
        **({"parts": list(record.parts)} if record.parts else {}),
        **({"starts": dict(record.starts)} if record.starts else {}),
        **({"clocks": [list(each) for each in record.clocks]} if record.clocks else {}),
    }


def latency_out(each: Latency) -> list[Any]:
    return [
        *(each.workload, each.treatment, each.name, each.runs, each.ios),
        [[one.p, one.value, one.beyond] for one in each.percentiles],
    ]


def latency_in(row: list[Any]) -> Latency:
    workload, treatment, name, runs, ios, percentiles = row
    told = tuple(Percentile(*one) for one in percentiles)
    return Latency(workload, tuple((n, label) for n, label in treatment), name, runs, ios, told)


def record_in(row: dict[str, Any], memo: dict[str, Triples]) -> TrialRecord:
    """The record of a row; ``memo`` is shared by the rows of one folder."""
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
        writers=_writers(row.get("writers", ((), ()))),  # not in older folders
        doubts=tuple(
            Doubt(name, what, advice, invalid=invalid, trial=trial.folder)
            for name, what, advice, invalid in row["doubts"]
        ),
        error=row["error"],
        measurements=(
            *(_measurement(name, told) for name, told in row["values"].items()),
            *(
                _measurement(name, told, part)
                for part, values in row.get("by_part", {}).items()
                for name, told in values.items()
            ),
        ),
        source=row.get("source", ""),
        prepared=row.get("prepared", 0.0),
        parts=tuple(row.get("parts", ())),
        starts=tuple(row.get("starts", {}).items()),
        clocks=tuple((name, ahead, within) for name, ahead, within in row.get("clocks", ())),
    )


def _measurement(name: str, told: Sequence[Any], job: str = "all") -> Measurement:
    """``told`` are value, raw, censored and the unit, which is not in older folders."""
    value, raw, censored, *unit = told
    return Measurement(name, value, unit[0] if unit else metric(name).unit, job, raw, censored)


def _writers(row: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ANN401
    before, after = row
    return tuple(map(str, before)), tuple(map(str, after))


def _triples(text: str, memo: dict[str, Triples]) -> Triples:
    """Settings read back; equal ones share one tuple."""
    if text not in memo:
        memo[text] = tuple((device, tunable, value) for device, tunable, value in json.loads(text))
    return memo[text]


def trial_out(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "id": trial.id,
        "block": trial.block,
        "workload": trial.workload,
        "treatment": dict(trial.treatment),
        "target": trial.target,
        "attempt": trial.attempt,
        **({"stage": trial.stage} if trial.stage else {}),
        **({"host": trial.host} if trial.host else {}),
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
        stage=row.get("stage", 0),  # not in folders without stages
        host=row.get("host", ""),  # only where blocks are spread over hosts
    )
