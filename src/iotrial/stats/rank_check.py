"""Do ranks say the same as the verdicts?  Where not, the study gets a doubt, ``ranks-differ``.

Verdicts rest on means of logarithms, which a few trials far from the others can carry.  Beside
each, the differences within blocks are judged by their ranks (:mod:`iotrial.stats.ranks`):

- *better* or *worse*, and the middle of the differences is not even half as far from nothing, or
  on the other side: few trials make the difference;
- *same*, and the middle lies outside the margin: few trials hide a difference;
- *cannot tell*, and the signed ranks show more than the margin while the differences have heavy
  tails: few trials make the interval wide.

Half is far: for normal noise the middle differs from the mean by 0.22 standard errors (the ratio
of their variances is π/3; Hodges and Lehmann 1963), and a verdict needs two and more.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, treatment_text
from iotrial.stats.blocks import Floats
from iotrial.stats.boundary import tails_at
from iotrial.stats.ranks import hodges_lehmann, robust_sd, signed_rank
from iotrial.stats.responses import counted, responses
from iotrial.units import format_change

LEAST = 5
"""With fewer differences their middle is hardly another number than their mean."""
HALF = 0.5
HEAVY = 1.5
"""Tails are heavy where the standard deviation is so many times the robust one."""
_ADVICE = (
    "look at the trials that lie apart from the others of their treatment: if something hit them, "
    "find it and repeat the study; if the workload is like that, decide whether mean or typical "
    "value counts"
)


def rank_doubts(results: Results, findings: Sequence[Finding]) -> Iterator[Doubt]:
    """One for each primary finding with which the ranks of its differences disagree."""
    primary = [finding for finding in findings if finding.primary and finding.low is not None]
    blocks = {name: _by_block(results, name) for name in {f.workload for f in primary}}
    told: set[tuple[str, frozenset[str]]] = set()
    for finding in primary:
        pair = (finding.workload, frozenset((finding.level, finding.baseline)))
        differences = _differences(finding, blocks[finding.workload])
        if pair in told or len(differences) < LEAST:
            continue
        told.add(pair)
        middle = hodges_lehmann(differences)
        if why := _disagrees(results, finding, differences, middle, len(primary)):
            yield Doubt(
                "ranks-differ",
                f"{finding.workload}: {finding.level} against {finding.baseline} is "
                f"{format_change(finding.ratio)} by mean and {format_change(math.exp(middle))} by "
                f"ranks (Hodges-Lehmann, n = {len(differences)}): {why}",
                _ADVICE,
            )


def _disagrees(
    results: Results, finding: Finding, differences: Floats, middle: float, family: int
) -> str:
    """In what way the ranks disagree; empty where they do not."""
    mean, margin = math.log(finding.ratio), math.log1p(results.study.decide.margin)
    match finding.verdict:
        case "better" | "worse":
            differs = middle * math.copysign(1.0, mean) < HALF * abs(mean)
            return f"few trials make it {finding.verdict}" if differs else ""
        case "same":
            return "few trials make it the same" if abs(middle) > margin else ""
    heavy = float(differences.std(ddof=1)) > HEAVY * robust_sd(differences)
    level = (1 - results.study.decide.confidence) / family
    if results.study.design.kind == "race" or results.study.design.looked:
        level = 2 * float(tails_at(level / 2, np.array([len(differences)]))[0])
    clear = heavy and abs(middle) > margin and signed_rank(differences) <= level
    return "few trials hide a difference" if clear else ""


def _by_block(results: Results, workload: str) -> list[dict[Treatment, float]]:
    """Log responses of the trials that count, by block."""
    metric = dict(results.study.decide.primary)[workload]
    data = responses(counted(results).get(workload, ()), metric, results.study)
    found: dict[int, dict[Treatment, float]] = defaultdict(dict)
    for block, cell, log in zip(data.layout.block, data.layout.cell, data.logs, strict=True):
        found[int(block)][data.cells[cell]] = float(log)
    return list(found.values())


def _differences(finding: Finding, blocks: Sequence[Mapping[Treatment, float]]) -> Floats:
    """Of each block the mean difference of the level from the baseline, all else alike."""
    found = []
    for block in blocks:
        own = [
            value - block[other]
            for treatment, value in block.items()
            for other in [_counterpart(finding, treatment, block)]
            if other is not None
        ]
        if own:
            found.append(math.fsum(own) / len(own))
    return np.array(found)


def _counterpart(
    finding: Finding, treatment: Treatment, block: Mapping[Treatment, float]
) -> Treatment | None:
    """The treatment of the block to compare with; None where there is none.  A race over several
    factors names whole treatments."""
    if treatment_text(treatment) == finding.level:
        return next((t for t in block if treatment_text(t) == finding.baseline), None)
    if (finding.factor, finding.level) not in treatment:
        return None
    other = tuple(
        (name, finding.baseline if name == finding.factor else label) for name, label in treatment
    )
    return other if other in block else None
