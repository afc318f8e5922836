"""Document: what ``compare --json`` says, a contract, ``"format": 1``; its findings as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from iotrial.judgement import Judged
from iotrial.judgement.parts import VerdictRow, WorkloadFindings
from iotrial.model.finding import RequiredBlocks
from iotrial.model.measurement import Metrics
from iotrial.model.results import LatencyDistribution, Results
from iotrial.model.study import DecisionRule
from iotrial.model.trial import Doubt, TrialRecord
from iotrial.report import (
    ceiling,
    differing,
    effects,
    evidence,
    hosts,
    keepsake,
    knees,
    offered,
    panels,
    races,
    search,
    staged,
)
from iotrial.report import scaling as scales
from iotrial.report.trials import PRETENDED, inert
from iotrial.report.view import answer, named
from iotrial.report.words import visible
from iotrial.stats.scaling import scaling

FORMAT = 1


def document(judged: Judged) -> dict[str, Any]:
    """The findings as plain data for :func:`json.dumps`, in base units (seconds, bytes, 1/s).
    Raises nothing of its own.

    ``ratio``, ``low`` and ``high`` are level / baseline (``low`` and ``high`` null where one
    block allows no interval); ``resolvable`` maps a workload to a fraction; ``trials`` counts
    what became of them; a failed trial is a doubt with the check ``failed``.  ``value`` and
    ``baseline_value`` are geometric means in ``unit``.  ``interactions`` are ratios of ratios,
    ``shares`` fractions of the variation on the log scale.  ``races`` tell all looks of a race,
    as ratios (``path``: log ratios) to the treatment that is kept in the end.  ``keep`` (not
    there: nothing to keep) holds the native files for what is recommended.  ``knees`` are of
    ordered factors, each level as a ratio to the best.  ``means`` are the treatments' own, each
    with its interval by itself.
    ``needs`` of a finding is what would tell it (null: it is told, or the noise is not known):
    ``difference`` a fraction, ``blocks`` in all, ``more_blocks`` and ``seconds`` on top (null: more
    than 2,048 blocks), ``same``: so many also tell that nothing differs that matters.
    ``by_ranks`` of a finding (not there: the design allows none) is the ``verdict`` of a rank test
    beside that of the interval, with its adjusted ``p``.
    ``offered`` are the rates of loads that offer several, and the bound of their response time.
    ``ceiling`` is what a search for the highest value came to.  ``scaling`` are the steps of
    factors that count, with what was seen at each; ``usage`` how busy hosts and devices were under
    each treatment; ``borne`` what CPUs, links, adapters, devices and paths bore.  ``grids`` are of
    recorded runs of two numeric factors that are crossed: every cell, the ``best`` one, and whether
    the effect of one ``depends`` on the other.
    """
    results, comparison = judged.results, judged.comparison
    decide = results.study.decide
    parts = tuple(map(named, judged.parts))
    kept = keepsake.keepsake(judged)
    return {
        "format": FORMAT,
        "pretended": results.pretended,
        "question": visible(comparison.question or results.study.question),
        "recommendation": answer(judged),
        "method": visible(comparison.method),
        "margin": decide.margin,
        "confidence": decide.confidence,
        "resolvable": {
            _asked(part, decide): part.resolvable for part in parts if part.resolvable is not None
        },
        "findings": [
            _finding(row, results.study.metrics)
            for part in parts
            for row in (*part.findings, *part.guardrails, *part.secondary, *part.others)
        ],
        **{
            name: [row for part in parts for row in effects.as_data(part)[name]]
            for name in ("interactions", "shares", "tradeoffs")
        },
        "races": [races.as_data(part.race) for part in parts if part.race is not None],
        "knees": [row for part in parts for row in knees.as_data(part, decide.margin)],
        "means": [row for part in parts for row in _means(part)],
        **({"offered": told} if (told := _offered(parts)) else {}),
        "doubts": [
            _doubt(doubt) for doubt in (*evidence.doubts(results), *evidence.failures(results))
        ],
        "trials": asdict(judged.counts),
        "tools": list(evidence.tools(results)),
        **({"keep": keepsake.document(kept)} if kept else {}),
        **({"drains": drains} if (drains := list(_drains(results))) else {}),
        **staged.as_data(
            tuple(map(staged.row, comparison.stages)), tuple(map(staged.shown, comparison.choices))
        ),
        **ceiling.as_data(comparison.ceiling),
        **search.as_data(comparison.search),
        **differing.as_data(comparison.differences),
        **hosts.as_data(judged.hosts),
        **hosts.block_data(judged.block_hosts),
        **({"scaling": steps} if (steps := _scaling(parts)) else {}),
        **({"grids": panels.as_data(grids)} if (grids := panels.panels(comparison.grids)) else {}),
        **({"usage": scales.usage_data(judged.usages)} if judged.usages else {}),
        **({"borne": scales.borne_data(judged.utilisation)} if judged.utilisation else {}),
    }


def _drains(results: Results) -> Iterator[dict[str, Any]]:
    """What loads did, unmeasured, before their first trials; rates before and after the fall."""
    for record in results.records:
        if (told := record.drained) is not None:
            yield {
                "trial": record.trial.folder,
                "workload": record.trial.workload,
                "target": record.trial.target,
                "state": told.state,
                "seconds": told.seconds,
                "bytes_per_second": [told.high[0], told.low[0]],
                "iops": [told.high[1], told.low[1]],
                "bytes": told.moved,
            }


def _asked(part: WorkloadFindings, decide: DecisionRule) -> str:
    """The workload; with its metric, where it has several primary ones."""
    alone = decide.named(part.load.name, part.metric.name) == part.load.name
    return part.workload if alone else f"{part.workload} {part.metric.name}"


def _offered(parts: Sequence[WorkloadFindings]) -> list[dict[str, Any]]:
    told = {part.workload: part.load.offered for part in parts}
    return [row for name, rates in told.items() for row in offered.as_data(name, rates)]


def _scaling(parts: Sequence[WorkloadFindings]) -> list[dict[str, Any]]:
    return [row for part in parts for row in scales.as_data(part.scaling)]


def _finding(row: VerdictRow, metrics: Metrics) -> dict[str, Any]:
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
        **({"sessions": finding.compared.sessions} if finding.compared else {}),
        "primary": finding.primary,
        "secondary": finding.secondary,
        "noise": finding.noise,
        "bound": finding.bound,
        "needs": _needs(finding.needs),
        **({"by_ranks": asdict(finding.ranks)} if finding.ranks else {}),
        **({"stage": finding.stage} if finding.stage else {}),
        "efficiency": scale.efficiency if (scale := scaling(finding, metrics)) else None,
        "unit": row.metric.unit,
        "value": row.value,
        "baseline_value": row.base,
    }


COLUMNS = (
    "workload", "stage", "metric", "factor", "level", "baseline", "ratio", "low", "high", "verdict",
    "n", "primary", "secondary", "noise", "bound", "efficiency", "unit", "value", "baseline_value",
    "by_ranks", "p_by_ranks",
)  # fmt: skip
"""Of :func:`findings_csv`: keys of a finding in the document."""


def findings_csv(judged: Judged) -> str:
    """The findings as a table for other programs: a line each, ratios and base units; what is not
    known is empty.  As the table of trials, it computes nothing in a spreadsheet."""
    into = io.StringIO()
    write = csv.writer(into, lineterminator="\n").writerow
    made_up = ["yes"] if judged.results.pretended else []
    write([*COLUMNS, *(PRETENDED if made_up else ())])
    for row in document(judged)["findings"]:
        if ranks := row.pop("by_ranks", None):
            row |= {"by_ranks": ranks["verdict"], "p_by_ranks": ranks["p"]}
        write([*(_cell(row.get(name)) for name in COLUMNS), *made_up])
    return into.getvalue()


def _cell(value: object) -> str | int | float:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return value
        case float():
            return repr(value)
    return inert(str(value))


def _means(part: WorkloadFindings) -> list[dict[str, Any]]:
    return [
        {
            "workload": part.workload,
            "metric": part.metric.name,
            "treatment": dict(treatment),
            "value": extent.middle,
            "low": extent.low,
            "high": extent.high,
            "unit": part.metric.unit,
        }
        for treatment, extent in part.means
    ]


def _needs(needs: RequiredBlocks | None) -> dict[str, Any] | None:
    if needs is None:
        return None
    return {
        "difference": needs.difference,
        "same": needs.same,
        "blocks": needs.blocks,
        "more_blocks": needs.more,
        "seconds": needs.seconds,
    }


def whole(judged: Judged) -> dict[str, Any]:
    """What ``report --as json`` says: the document, and all it rests on: every trial with its
    own numbers in base units, and the facts of the machine."""
    results = judged.results
    return {
        **document(judged),
        "study": results.study.text,
        "hosts": results.facts,
        "latencies": [_latency(each) for each in results.latencies],
        "measurements": [_trial(record) for record in results.records],
    }


def _latency(each: LatencyDistribution) -> dict[str, Any]:
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
