"""One results folder against another: is anything worse than it was?

The two were measured at different times, so nothing is paired: drift between them cannot be told
from a change, and the findings say so.  Per workload and treatment that both have, the ratio of
geometric means with Welch's interval on the log scale, Šidák-corrected over the family of all
such comparisons.

References: B. L. Welch, Biometrika 34 (1947) 28-35; Z. Šidák, JASA 62 (1967) 626-633.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from iotrial.model.finding import Comparison, Finding, Verdict
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats.pairs import answering
from iotrial.stats.verdict import verdict
from iotrial.units import format_change

Key = tuple[str, Treatment]
Floats = NDArray[np.float64]


def regress(former: Results, latter: Results) -> Comparison:
    """Findings with ``factor`` = ``results``: ``latter`` against ``former``, per treatment.

    ``level`` is the treatment, ``baseline`` the former folder's name.
    """
    primary = dict(former.study.decide.primary)
    if former.study.design.kind == "recorded":
        primary = answering(former)
    ours, theirs = _logs(former, primary), _logs(latter, primary)
    shared = [key for key in ours if key in theirs]
    confidence = former.study.decide.confidence
    each = confidence ** (1 / len(shared)) if shared else confidence
    findings = tuple(
        _finding(key, primary[key[0]], ours[key], theirs[key], each, former) for key in shared
    )
    return Comparison(
        question=f"Is {latter.folder.name} worse than {former.folder.name}?",
        findings=findings,
        recommendation=_sentence(findings, former, latter),
        method=(
            f"{len(shared)} treatments that both have; unpaired (Welch) intervals, together at"
            f" {confidence:.3g} (Šidák); margin {former.study.decide.margin:.3g}. The two were"
            " not interleaved: drift of the machine between them counts as a change."
        ),
    )


def _logs(results: Results, primary: dict[str, str]) -> dict[Key, list[tuple[float, str]]]:
    found: dict[Key, list[tuple[float, str]]] = defaultdict(list)
    for record in results.valid:
        value = _value(record, primary)
        if value is not None:
            stage = (("stage", str(record.trial.stage)),) if record.trial.stage else ()
            key = (record.trial.workload, (*stage, *record.trial.treatment))
            found[key].append((math.log(value), record.trial.folder))
    return found


def _value(record: TrialRecord, primary: dict[str, str]) -> float | None:
    name = primary.get(record.trial.workload)
    value = record.value(name) if name else None
    return value if value is not None and value > 0 else None


def _finding(  # noqa: PLR0913, PLR0917 (the parts of one comparison)
    key: Key,
    name: str,
    ours: list[tuple[float, str]],
    theirs: list[tuple[float, str]],
    confidence: float,
    former: Results,
) -> Finding:
    a, b = np.array([v for v, _ in ours]), np.array([v for v, _ in theirs])
    shift = float(b.mean() - a.mean())
    half = _half_width(a, b, confidence)
    low, high = (None, None) if half is None else (math.exp(shift - half), math.exp(shift + half))
    workload, treatment = key
    return Finding(
        workload=workload,
        metric=name,
        factor="results",
        level=treatment_text(treatment),
        baseline=former.folder.name,
        ratio=math.exp(shift),
        low=low,
        high=high,
        verdict=_verdict(low, high, name, former.study.decide.margin),
        n=min(len(a), len(b)),
        trials=tuple(folder for _, folder in (*ours, *theirs)),
    )


def _verdict(low: float | None, high: float | None, name: str, margin: float) -> Verdict:
    if low is None or high is None:
        return "cannot-tell"
    return verdict(low, high, margin, higher_is_better=metric(name).higher)


def _half_width(a: Floats, b: Floats, confidence: float) -> float | None:
    """Half of Welch's interval; None where a side has no second trial."""
    if len(a) < 2 or len(b) < 2:  # noqa: PLR2004 (a variance needs two)
        return None
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0:
        return 0.0
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return float(student.ppf((1 + confidence) / 2, df)) * math.sqrt(va + vb)


def _sentence(findings: tuple[Finding, ...], former: Results, latter: Results) -> str:
    if not findings:
        return (
            f"{former.folder.name} and {latter.folder.name} share no workload and treatment:"
            " nothing can be compared."
        )
    worse = [f for f in findings if f.verdict == "worse"]
    if worse:
        parts = [f"{f.workload} with {f.level} ({format_change(f.ratio)})" for f in worse]
        return f"Yes: {latter.folder.name} is worse for {', '.join(parts)}."
    unclear = sum(1 for f in findings if f.verdict == "cannot-tell")
    if unclear:
        rest = "; the others are no worse" if unclear < len(findings) else ""
        return f"Cannot tell for {unclear} of {len(findings)} comparisons{rest}."
    return f"No: nothing in {latter.folder.name} is worse."
