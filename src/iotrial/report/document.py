"""Document: what ``compare --json`` says; a contract, ``"format": 1``."""

from __future__ import annotations

from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Finding
from iotrial.report.view import View

FORMAT = 1


def document(view: View) -> dict[str, Any]:
    """The findings as plain data for :func:`json.dumps`.

    ``ratio``, ``low`` and ``high`` are level / baseline (``low`` and ``high`` null where one
    block allows no interval); ``resolvable`` maps a workload to a fraction; ``trials`` counts
    what became of them; a failed trial is a doubt with the check ``failed``.
    """
    counts = view.counts
    return {
        "format": FORMAT,
        "question": view.question,
        "recommendation": view.answer,
        "method": view.method,
        "margin": view.margin,
        "confidence": view.confidence,
        "resolvable": {
            part.workload: part.resolvable for part in view.parts if part.resolvable is not None
        },
        "findings": [_finding(finding) for finding in view.findings],
        "doubts": [_doubt(doubt) for doubt in (*view.doubts, *view.failures)],
        "trials": {
            "planned": counts.planned,
            "valid": counts.valid,
            "invalid": counts.invalid,
            "failed": counts.failed,
            "missing": counts.missing,
        },
        "tools": list(view.tools),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "workload": finding.workload,
        "metric": finding.metric,
        "factor": finding.factor,
        "level": finding.level,
        "baseline": finding.baseline,
        "ratio": finding.ratio,
        "low": finding.low,
        "high": finding.high,
        "verdict": finding.verdict,
        "n": finding.n,
        "primary": finding.primary,
        "noise": finding.noise,
    }


def _doubt(doubt: Doubt) -> dict[str, Any]:
    return {
        "trial": doubt.trial,
        "check": doubt.check,
        "what": doubt.what,
        "advice": doubt.advice,
        "invalid": doubt.invalid,
    }
