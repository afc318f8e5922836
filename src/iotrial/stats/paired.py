"""Runs that nobody randomised: what imported results can give.

A level is compared with its baseline over *paired cells*: cells alike in workload and every other
factor.  Each pair gives one log ratio (of the geometric means of its runs); their mean is the
effect.  A factor that a level's runs do not tell (``unknown``) cannot be matched, and is averaged
over for that comparison.

- Many pairs (10 and more): percentile bootstrap over pairs, 20,000 resamples, seeded.
- Fewer, where every cell was run again: Welch's interval from the spread within the cells.
- Fewer, from 2, without repeats: Student's t over pairs (a bootstrap of few is too narrow).
- One run against one run: a ratio without an interval, and no claim.

Every interval stands by itself, at the confidence of the study: nobody planned these comparisons
as a family.  Besides each workload alone, all workloads together are compared, quantity by
quantity.  A censored value gives a bound, or nothing where both sides are censored.

References:
    B. Efron and R. J. Tibshirani (1993), *An Introduction to the Bootstrap*, chapter 13.
    B. L. Welch, Biometrika 34 (1947) 28-35.
    P. J. Fleming and J. J. Wallace (1986), CACM 29, 218-221 (ratios are averaged geometrically).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Comparison, Finding, Verdict
from iotrial.model.measurement import Measurement, split
from iotrial.model.results import Results
from iotrial.model.study import Factor, Study
from iotrial.model.trial import UNKNOWN, Treatment
from iotrial.stats.blocks import ARITHMETIC
from iotrial.stats.judge import direction
from iotrial.stats.verdict import verdict

ALL = "all"
"""The name of all workloads together."""
MANY = 10
RESAMPLES = 20_000
_SEED = 1
_TOLD = 8
_NAMED = 3
_RATES = ("iops", "bw", "rate")

Floats = NDArray[np.float64]
Key = tuple[str, Treatment]
Side = Literal["", "high", "low"]


@dataclass
class Cell:
    """The runs of one workload and treatment for one metric: logs of their values, the folders,
    and on which side the truth lies where a value is censored."""

    logs: list[float] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    censored: Side = ""

    @property
    def middle(self) -> float:
        return math.fsum(self.logs) / len(self.logs)


Cells = dict[Key, Cell]


def judge_recorded(results: Results) -> Comparison:
    """Every level against its factor's baseline: all workloads together, then each; the metrics
    that answer first, then the others."""
    study = results.study
    metrics, cells = _metrics(results), _cells(results)
    found: list[Finding] = []
    if len(metrics) > 1:
        for quantity, of in _shared(metrics).items():
            together = {key: cell for pair in of.items() for key, cell in cells[pair].items()}
            found += _findings(study, ALL, quantity, together, primary=True)
    for workload, names in metrics.items():
        answers = primary(study, workload, names)
        for name in names:
            own = cells.get((workload, name), {})
            found += _findings(study, workload, name, own, primary=name in answers)
    ordered = tuple(sorted(found, key=lambda f: (f.workload != ALL, not f.primary)))
    return Comparison(study.question, ordered, answer(results, ordered), _method(results))


def primary(study: Study, workload: str, names: Mapping[str, int]) -> tuple[str, ...]:
    """The metrics that answer for a workload, of these with how many runs have each: the study's,
    else every rate that is not another one in other units (bandwidth beside IOPS) or a part of
    one (reads beside a total)."""
    chosen = dict(study.decide.primary)
    if (wanted := chosen.get(workload, chosen.get("", ""))) in names:
        return (wanted,)
    total = [name for name in names if name.startswith("total.")]
    rates = [n for n in total or names if split(n)[1] in _RATES and direction(n)]
    counted = {split(name)[0]: names[name] for name in rates if split(name)[1] == "iops"}
    rates = [n for n in rates if split(n)[1] != "bw" or counted.get(split(n)[0], 0) < names[n]]
    return tuple(rates) or tuple(n for n in names if direction(n) is not None) or tuple(names)


def alone(results: Results, findings: Sequence[Finding]) -> Iterator[Doubt]:
    """The doubt that runs are in no comparison, if some are and others are not."""
    used = {folder for finding in findings for folder in finding.trials}
    left = [record for record in results.valid if record.trial.folder not in used]
    if used and left:
        names = [r.source.partition("/")[2] or r.trial.folder for r in left]
        more = ", …" if len(names) > _NAMED else ""
        yield Doubt(
            "alone",
            f"{len(left)} of {len(results.valid)} runs are compared with nothing: no other run is"
            f" alike but for one factor ({', '.join(names[:_NAMED])}{more})",
            "Say what the runs are: --label, or --map.",
        )


def answering(results: Results) -> dict[str, str]:
    """The first of the metrics that answer, for each workload."""
    every = _metrics(results)
    return {name: primary(results.study, name, found)[0] for name, found in every.items()}


def _metrics(results: Results) -> dict[str, dict[str, int]]:
    """The metrics of each workload, in the order of the runs, and how many runs have each."""
    found: dict[str, dict[str, int]] = {w.name: {} for w in results.study.workloads}
    for record in results.valid:
        mine = found.setdefault(record.trial.workload, {})
        for name in dict.fromkeys(m.metric for m in record.measurements if m.job == "all"):
            mine[name] = mine.get(name, 0) + 1
    return {workload: names for workload, names in found.items() if names}


def _shared(metrics: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, str]]:
    """Quantity → workload → metric, for the rates that each of several workloads has one of."""
    found: dict[str, dict[str, str]] = {}
    for quantity in _RATES:
        names = {
            workload: [n for n in every if split(n)[1] == quantity]
            for workload, every in metrics.items()
        }
        sole = {
            workload: next((n for n in each if n.startswith("total.")), each[0])
            for workload, each in names.items()
            if len(each) == 1 or any(n.startswith("total.") for n in each)
        }
        if len(sole) > 1:
            found[quantity] = sole
    if "iops" in found and found.get("bw", {}).keys() <= found["iops"].keys():
        found.pop("bw", None)
    return found


def _cells(results: Results) -> dict[tuple[str, str], Cells]:
    """The cells of each workload and metric."""
    found: dict[tuple[str, str], Cells] = defaultdict(dict)
    for record in results.valid:
        key = record.trial.workload, record.trial.treatment
        for own in record.measurements:
            if own.job == "all" and math.isfinite(own.value) and own.value > 0:
                cell = found[key[0], own.metric].setdefault(key, Cell())
                cell.logs.append(math.log(own.value))
                cell.folders.append(record.trial.folder)
                cell.censored = _worse(cell, own)
    return found


def _worse(cell: Cell, own: Measurement) -> Side:
    return cell.censored or own.censored


def _findings(
    study: Study, workload: str, name: str, cells: Cells, *, primary: bool
) -> Iterator[Finding]:
    for factor in study.factors:
        known = [level.label for level in factor.levels if level.label != UNKNOWN]
        base = factor.baseline or (known[0] if known else "")
        for level in known:
            if level != base and (pairs := _pairs(cells, study.factors, factor.name, level, base)):
                yield _finding(study, (workload, name, factor, level, base), pairs, primary=primary)


@dataclass(frozen=True, slots=True)
class Pair:
    """Cells alike in everything but one factor: at its level, and at its baseline."""

    level: tuple[Cell, ...]
    base: tuple[Cell, ...]

    @property
    def log(self) -> float:
        return _mean(self.level) - _mean(self.base)

    @property
    def side(self) -> Side | None:
        """Where the ratio's truth lies beside its value; None where nothing can be said."""
        above, below = (_side(cells) for cells in (self.level, self.base))
        if not below:
            return above
        turned: Side = "low" if below == "high" else "high"
        return turned if above in ("", turned) else None


def _mean(cells: Sequence[Cell]) -> float:
    return math.fsum(cell.middle for cell in cells) / len(cells)


def _side(cells: Sequence[Cell]) -> Side:
    return next((cell.censored for cell in cells if cell.censored), "")


def _pairs(cells: Cells, factors: Sequence[Factor], name: str, level: str, base: str) -> list[Pair]:
    ours = {key: cell for key, cell in cells.items() if dict(key[1]).get(name) == level}
    theirs = {key: cell for key, cell in cells.items() if dict(key[1]).get(name) == base}
    blind = {
        factor.name
        for factor in factors
        for side in (ours, theirs)
        if all(dict(key[1]).get(factor.name) == UNKNOWN for key in side)
    }
    level_of, base_of = (_rest(side, {name, *blind}) for side in (ours, theirs))
    return [Pair(tuple(level_of[k]), tuple(base_of[k])) for k in level_of if k in base_of]


def _rest(cells: Cells, without: set[str]) -> dict[Key, list[Cell]]:
    found: dict[Key, list[Cell]] = defaultdict(list)
    for (workload, treatment), cell in cells.items():
        rest = tuple((name, label) for name, label in treatment if name not in without)
        found[workload, rest].append(cell)
    return found


def _finding(
    study: Study,
    about: tuple[str, str, Factor, str, str],
    pairs: list[Pair],
    *,
    primary: bool,
) -> Finding:
    workload, name, factor, level, base = about
    told = [pair for pair in pairs if pair.side == ""]
    bound: Side = ""
    claim: Verdict = "cannot-tell"
    low = high = None
    if told:
        logs = np.array([pair.log for pair in told])
        ratio = math.exp(float(logs.mean()))
        low, high = _interval(told, logs, study.decide.confidence)
        count = _count(told)
        if low is not None and high is not None:
            claim = verdict(low, high, study.decide.margin, higher_is_better=direction(name))
    else:
        sides = {pair.side for pair in pairs}
        bound = pairs[0].side or "" if len(sides) == 1 else ""
        logs = np.array([pair.log for pair in pairs])
        ratio = math.exp(float(logs.mean())) if bound else math.nan
        count = _count(pairs)
    folders = {f for pair in told or pairs for c in (*pair.level, *pair.base) for f in c.folders}
    return Finding(
        workload,
        name,
        factor.name,
        level,
        base,
        ratio,
        low,
        high,
        claim,
        count,
        tuple(sorted(folders)),
        primary,
        bound=bound,
    )


def _count(pairs: Sequence[Pair]) -> int:
    """Pairs; or, for one pair, the repeats that both sides have."""
    if len(pairs) > 1:
        return len(pairs)
    return min(sum(len(c.logs) for c in side) for side in (pairs[0].level, pairs[0].base))


def _interval(
    pairs: Sequence[Pair], logs: Floats, confidence: float
) -> tuple[float | None, float | None]:
    repeated = _welch(pairs, confidence) if len(logs) < MANY else None
    if repeated is not None:
        ends = repeated
    elif len(logs) > 1 and float(logs.std()) > ARITHMETIC:
        ends = _over_pairs(logs, confidence)
    else:  # one ratio, or the very same again: nothing says how far it may be off
        return None, None
    return math.exp(ends[0]), math.exp(ends[1])


def _over_pairs(logs: Floats, confidence: float) -> tuple[float, float]:
    if len(logs) >= MANY:
        return bootstrap(logs, confidence)
    half = float(logs.std(ddof=1)) / math.sqrt(len(logs)) * _t(len(logs) - 1, confidence)
    return float(logs.mean()) - half, float(logs.mean()) + half


def bootstrap(values: Floats, confidence: float) -> tuple[float, float]:
    """Percentile interval of the mean of ``values`` (n,), by :data:`RESAMPLES` resamples."""
    chance = np.random.default_rng(_SEED)
    step = max(1, 4_000_000 // len(values))
    means = np.concatenate(
        [
            values[chance.integers(0, len(values), (min(step, RESAMPLES - at), len(values)))].mean(
                axis=1
            )
            for at in range(0, RESAMPLES, step)
        ]
    )
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _welch(pairs: Sequence[Pair], confidence: float) -> tuple[float, float] | None:
    """Of the mean over pairs whose cells were all run again, from the spread within the cells;
    None where some cell was run once."""
    cells = [cell for pair in pairs for side in (pair.level, pair.base) for cell in side]
    if any(len(cell.logs) < 2 for cell in cells):  # noqa: PLR2004 (one run has no spread)
        return None
    parts, freedom = [], 0.0
    for pair in pairs:
        for side in (pair.level, pair.base):
            for cell in side:
                values = np.array(cell.logs)
                share = 1.0 / (len(pairs) * len(side))
                part = share**2 * float(values.var(ddof=1)) / len(values)
                parts.append(part)
                freedom += part**2 / (len(values) - 1)
    if not freedom:
        return None
    middle = math.fsum(pair.log for pair in pairs) / len(pairs)
    half = math.sqrt(sum(parts)) * _t(sum(parts) ** 2 / freedom, confidence)
    return middle - half, middle + half


def _t(df: float, confidence: float) -> float:
    return float(student.ppf((1 + confidence) / 2, df))


def answer(results: Results, findings: Sequence[Finding]) -> str:
    """The answer: what can be claimed, factor by factor; then what it rests on."""
    asked = [finding for finding in findings if finding.primary]
    said = []
    for factor, group in groupby(_widest(asked), key=lambda finding: finding.factor):
        claims = list(group)
        told = [f"{f.level} {f.verdict}" for f in claims if f.verdict != "cannot-tell"]
        if told:
            said.append(f"{factor} against {claims[0].baseline}: {', '.join(told[:_TOLD])}.")
    if not said:
        said.append("Nothing can be told from these runs." if asked else "Nothing was varied.")
    runs = len(results.valid)
    cells = {(record.trial.workload, record.trial.treatment) for record in results.valid}
    said.append(f"They are {runs:,} imported runs of {len(cells):,} cells.")
    if runs == len(cells):
        said.append("No cell was run twice: one pair of runs (n = 1) is a ratio, and no claim.")
    return " ".join(said)


def _widest(asked: Sequence[Finding]) -> list[Finding]:
    """The findings over all workloads together, where there are any."""
    return [finding for finding in asked if finding.workload == ALL] or list(asked)


def _method(results: Results) -> str:
    return (
        f"Paired cells: ratios of cells alike but for one factor, averaged on the log scale; from"
        f" {MANY} pairs a percentile bootstrap ({RESAMPLES:,} resamples), below that Welch's from"
        f" repeats where every cell has some, else Student's t; each interval by itself at"
        f" {results.study.decide.confidence:.3g}. The runs were neither randomised nor blocked:"
        " whatever changed between them counts as an effect."
    )
