"""Document: what ``compare --json`` says; a contract, ``"format": 1``."""

from __future__ import annotations

import math
from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Needs
from iotrial.model.latency import Latency
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.report import (
    block_hosts,
    ceiling,
    effects,
    hosts,
    keepsake,
    knees,
    panels,
    races,
    staged,
    strains,
)
from iotrial.report import scaling as scales
from iotrial.report.view import VerdictRow, View
from iotrial.stats.scaling import scaling

FORMAT = 1


def document(view: View) -> dict[str, Any]:
    """The findings as plain data for :func:`json.dumps`.

    ``ratio``, ``low`` and ``high`` are level / baseline (``low`` and ``high`` null where one
    block allows no interval); ``resolvable`` maps a workload to a fraction; ``trials`` counts
    what became of them; a failed trial is a doubt with the check ``failed``.  ``value`` and
    ``baseline_value`` are geometric means in ``unit``.  ``interactions`` are ratios of ratios,
    ``shares`` fractions of the variation on the log scale.  ``races`` tell all looks of a race,
    as ratios (``path``: log ratios) to the treatment that is kept in the end.  ``keep`` (not
    there: nothing to keep) holds the native files for what is recommended.  ``knees`` are of
    ordered factors, each level as a ratio to the best.
    ``needs`` of a finding is what would tell it (null: it is told, or the noise is not known):
    ``difference`` a fraction, ``blocks`` in all, ``more_blocks`` and ``seconds`` on top (null: more
    than 2,048 blocks), ``same``: so many also tell that nothing differs that matters.
    ``ceiling`` is what a search for the highest value came to.  ``scaling`` are the steps of
    factors that count, with what was seen at each; ``borne`` what CPUs, links, adapters, devices
    and paths bore.  ``grids`` are of recorded runs of two numeric factors that are crossed: every
    cell, the ``best`` one, and whether the effect of one ``depends`` on the other.
    """
    counts = view.counts
    return {
        "format": FORMAT,
        "pretended": view.pretended,
        "question": view.question,
        "recommendation": view.answer,
        "method": view.method,
        "margin": view.margin,
        "confidence": view.confidence,
        "resolvable": {
            part.workload: part.resolvable for part in view.parts if part.resolvable is not None
        },
        "findings": [
            _finding(row)
            for part in view.parts
            for row in (*part.findings, *part.guardrails, *part.others)
        ],
        **{
            name: [row for part in view.parts for row in effects.as_data(part)[name]]
            for name in ("interactions", "shares", "tradeoffs")
        },
        "races": [races.as_data(part.race) for part in view.parts if part.race is not None],
        "knees": [row for part in view.parts for row in knees.as_data(part, view.margin)],
        "doubts": [_doubt(doubt) for doubt in (*view.doubts, *view.failures)],
        "trials": {
            "planned": counts.planned,
            "valid": counts.valid,
            "invalid": counts.invalid,
            "failed": counts.failed,
            "missing": counts.missing,
        },
        "tools": list(view.tools),
        **({"keep": keepsake.document(view.kept)} if view.kept else {}),
        **staged.as_data(view.stages, view.choices),
        **ceiling.as_data(view.ceiling),
        **hosts.as_data(view.hosts),
        **block_hosts.as_data(view.block_hosts),
        **({"scaling": steps} if (steps := _scaling(view)) else {}),
        **({"grids": panels.as_data(view.panels)} if view.panels else {}),
        **({"borne": strains.as_data(view.borne)} if view.borne else {}),
    }


def _scaling(view: View) -> list[dict[str, Any]]:
    return [row for part in view.parts for row in scales.as_data(part.scaling)]


def _finding(row: VerdictRow) -> dict[str, Any]:
    finding = row.finding
    return {
        "workload": finding.workload,
        "metric": finding.metric,
        "factor": finding.factor,
        "level": finding.level,
        "baseline": finding.baseline,
        "ratio": finding.ratio if math.isfinite(finding.ratio) else None,
        "low": finding.low,
        "high": finding.high,
        "verdict": finding.verdict,
        "n": finding.n,
        "primary": finding.primary,
        "noise": finding.noise,
        "bound": finding.bound,
        "needs": _needs(finding.needs),
        **({"stage": finding.stage} if finding.stage else {}),
        "efficiency": scale.efficiency if (scale := scaling(finding)) else None,
        "unit": row.metric.unit,
        "value": row.value,
        "baseline_value": row.base,
    }


def _needs(needs: Needs | None) -> dict[str, Any] | None:
    if needs is None:
        return None
    return {
        "difference": needs.difference,
        "same": needs.same,
        "blocks": needs.blocks,
        "more_blocks": needs.more,
        "seconds": needs.seconds,
    }


def whole(view: View, results: Results) -> dict[str, Any]:
    """What ``report --as json`` says: the document, and all it rests on: every trial with its
    own numbers in base units, and the facts of the machine."""
    return {
        **document(view),
        "study": results.study.text,
        "hosts": results.facts,
        "latencies": [_latency(each) for each in results.latencies],
        "measurements": [_trial(record) for record in results.records],
    }


def _latency(each: Latency) -> dict[str, Any]:
    return {
        "workload": each.workload,
        "treatment": dict(each.treatment),
        "latency": each.name,
        "runs": each.runs,
        "ios": each.ios,
        "percentiles": {
            f"{one.p:g}": {"value": one.value, **({"censored": "high"} if one.beyond else {})}
            for one in each.percentiles
        },
    }


def _trial(record: TrialRecord) -> dict[str, Any]:
    trial = record.trial
    return {
        "trial": trial.folder,
        "block": trial.block,
        **({"host": trial.host} if trial.host else {}),
        "workload": trial.workload,
        "treatment": dict(trial.treatment),
        "target": trial.target,
        "state": record.state,
        "error": record.error,
        "started": record.started,
        "command": list(record.command),
        "settings": [list(setting) for setting in record.before],
        "values": {
            each.metric: {
                "value": each.value,
                "unit": each.unit,
                "raw": each.raw,
                **({"censored": each.censored} if each.censored else {}),
            }
            for each in record.measurements
        },
    }


def _doubt(doubt: Doubt) -> dict[str, Any]:
    return {
        "trial": doubt.trial,
        "check": doubt.check,
        "what": doubt.what,
        "advice": doubt.advice,
        "invalid": doubt.invalid,
    }
