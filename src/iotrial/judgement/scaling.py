"""Scaling: each step of a factor that counts (hosts, arrays), its efficiency, and what stood at its
limit or was uneven then.  What was seen is no proof of a cause (:mod:`iotrial.stats.causes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iotrial.errors import FormatError
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.strain import Strain
from iotrial.model.trial import TrialRecord
from iotrial.stats.causes import Observation, typical, why
from iotrial.stats.scaling import Scaling, counting, scaling

_TRIALS = 9
"""Of a level, at most: a median of so many is enough, and each may have thousands of parts."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level of a factor that counts.  ``efficiency`` is that against the baseline (None: it
    is the baseline); ``bends``: the first level that has lost more than the margin."""

    workload: str
    factor: str
    level: str
    efficiency: Scaling | None
    seen: tuple[Observation, ...]
    bends: bool = False


def steps(results: Results, findings: Sequence[Finding]) -> tuple[Step, ...]:
    """The baseline and every level of each factor that counts, by what the factor counts."""
    found: list[Step] = []
    counts = counting(results.study)
    counted = [
        (each, scale)
        for each in findings
        if (scale := scaling(each, results.study.metrics, counts))
    ]
    for factor in dict.fromkeys(each.factor for each, _ in counted):
        mine = [(each, scale) for each, scale in counted if each.factor == factor]
        mine.sort(key=lambda pair: float(pair[0].level))
        workload, baseline = mine[0][0].workload, mine[0][0].baseline
        before = _of(results, workload, factor, baseline)
        rows = [Step(workload, factor, baseline, None, why(before))]
        bent = False
        for each, scale in mine:
            loses = _loses(scale, each, results.study.decide.margin)
            now = _of(results, workload, factor, each.level)
            seen = why(now, before)
            rows.append(Step(workload, factor, each.level, scale, seen, loses and not bent))
            bent = bent or loses
        found += rows
    return tuple(found)


def _loses(scale: Scaling, finding: Finding, margin: float) -> bool:
    """Whether more than the margin is surely lost; of fewer things nothing can be."""
    end = scale.efficiency if scale.high is None else scale.high
    return float(finding.level) > float(finding.baseline) and end < 1 - margin


def _of(results: Results, workload: str, factor: str, level: str) -> tuple[Strain, ...]:
    records = [
        record
        for record in results.valid
        if record.trial.workload == workload and (factor, level) in record.trial.treatment
    ]
    return borne(results, records)


def borne(results: Results, records: Sequence[TrialRecord]) -> tuple[Strain, ...]:
    """What everything bore in most of these trials; what cannot be read is left out."""
    apart = max(1, -(-len(records) // _TRIALS))
    return typical(_strains(results, record) for record in records[::apart])


def _strains(results: Results, record: TrialRecord) -> tuple[Strain, ...]:
    try:
        return results.traces.strains(record)
    except FormatError:
        return ()
