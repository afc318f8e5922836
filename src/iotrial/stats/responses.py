"""Which numbers count, what they look like, and whether they wandered while they were taken.

There is one response per workload, metric, block and treatment.  A trial counts when it is valid;
of several valid attempts at one cell of a block the last does.  Its response must be a positive,
finite number, because effects are ratios: a trial without one, or with a bound only (censored), is
set aside and shows as a smaller n.  Everything is put in the study's order, so that nothing
computed from it can depend on the order of the records.

*Drift.*  For each workload it is tested whether log responses, less the mean of their treatment,
follow the order of execution: Spearman's rank correlation for a monotone drift, the lag-1
autocorrelation for slow wandering or jumps.  Blocks are *not* removed first: a drift that blocks
cancel is still worth knowing.  Both tests are two-sided and share the level 0.01 of the whole
study equally (Bonferroni), so that a study without drift is doubted in about 1 % of cases.

References:
    C. Spearman (1904), The proof and measurement of association …, Am. J. Psychology 15, 72-101;
    M. G. Kendall and J. D. Gibbons (1990), *Rank Correlation Methods*, 5th ed., 4.18 (its t
    approximation).
    M. S. Bartlett (1946), On the theoretical specification … of autocorrelated time-series, JRSS
    Suppl. 8, 27-41 (variance of the lag-1 autocorrelation of white noise).
    R. J. Hyndman and Y. Fan (1996), Sample quantiles in statistical packages, Am. Statistician
    50, 361-365 (definition 7 here).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from iotrial.model.measurement import sectioned
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Doubt, Treatment, Trial, TrialRecord
from iotrial.model.workload import BESIDE
from iotrial.stats.blocks import ARITHMETIC, BlockLayout, Floats, Indices, fit, rounding
from iotrial.stats.critical import ONCE, Look
from iotrial.units import format_change, format_noise, format_value

Counted = dict[str, tuple[TrialRecord, ...]]
Rank = tuple[tuple[int, int, str], ...]
Round = tuple[int, str, str]
"""Block, target, host."""


@dataclass(frozen=True, slots=True)
class Responses:
    """The usable responses of one workload and metric, by block and then by treatment.

    ``logs`` (observations,) are natural logarithms; ``cells`` the treatments that ``layout.cell``
    points at; ``unusable`` the valid trials without a positive number.
    """

    metric: str
    trials: tuple[Trial, ...]
    cells: tuple[Treatment, ...]
    layout: BlockLayout
    logs: Floats
    unusable: tuple[Trial, ...] = ()


def counted(results: Results) -> Counted:
    """The records that count, by workload (in the study's order), by block, by treatment."""
    if "counted" not in results.known:
        results.known["counted"] = _counted(results)
    found: Counted = results.known["counted"]
    return found


def _counted(results: Results) -> Counted:
    last: dict[tuple[str, Round, Treatment], TrialRecord] = {}
    for record in results.valid:
        trial = record.trial
        key = (trial.workload, round_of(results.study, trial), trial.treatment)
        if key not in last or _attempt(last[key]) < _attempt(record):
            last[key] = record
    order = treatment_order(results.study)
    ranks = {treatment: order(treatment) for _, _, treatment in last}
    by_workload: dict[str, list[TrialRecord]] = {w.name: [] for w in results.study.judged}
    for key in sorted(last, key=lambda key: (key[1], ranks[key[2]])):
        by_workload.setdefault(key[0], []).append(last[key])
    return {workload: tuple(records) for workload, records in by_workload.items()}


def round_of(study: Study, trial: Trial) -> Round:
    """The block a trial is compared within.  Where the target is not itself varied, trials on
    different targets are never compared, hence in different blocks; nor are trials on different
    hosts, where blocks are spread over them."""
    varied = any(factor.kind == "target" for factor in study.factors)
    return trial.block, "" if varied else trial.target, trial.host


def responses(records: Sequence[TrialRecord], metric: str, study: Study) -> Responses:
    """``records`` of one workload, as :func:`counted` gives them, read for one metric."""
    usable: list[TrialRecord] = []
    unusable: list[Trial] = []
    values: list[float] = []
    for record in records:
        value = record.value(metric)
        if value is not None and math.isfinite(value) and value > 0:
            usable.append(record)
            values.append(value)
        else:
            unusable.append(record.trial)
    trials = tuple(record.trial for record in usable)
    cells = in_order(study, {trial.treatment for trial in trials})
    layout = BlockLayout(
        _indices([round_of(study, trial) for trial in trials]),
        _indices_in([trial.treatment for trial in trials], cells),
        rounding(values),
    )
    return Responses(metric, trials, cells, layout, np.log(values), tuple(unusable))


def responses_of(results: Results, workload: str, metric: str) -> Responses:
    """Of one workload, read for one metric."""
    key = ("responses", workload, metric)
    if key not in results.known:
        records = counted(results).get(workload, ())
        results.known[key] = responses(records, metric, results.study)
    found: Responses = results.known[key]
    return found


def asked(study: Study) -> Iterator[tuple[str, str]]:
    """(Workload, primary metric), by workload in the study's order."""
    for workload in study.judged:
        yield from (pair for pair in study.decide.primary if pair[0] == workload.name)


def primary_responses(results: Results) -> Iterator[tuple[str, Responses]]:
    """Each workload with each of its primary metrics that has data, in the study's order."""
    for workload, metric in asked(results.study):
        data = responses_of(results, workload, metric)
        if data.trials:
            yield workload, data


def named_responses(results: Results) -> Iterator[tuple[str, Responses]]:
    """The same, as words call them (:meth:`~iotrial.model.study.DecisionRule.named`)."""
    for workload, data in primary_responses(results):
        yield results.study.decide.named(workload, data.metric), data


def planned_cells(results: Results) -> dict[str, tuple[Treatment, ...]]:
    """The treatments of the study's plan, by workload with a primary metric."""
    trials = results.planned or tuple(record.trial for record in results.records)
    cells: dict[str, set[Treatment]] = defaultdict(set)
    for trial in trials:
        cells[trial.workload].add(trial.treatment)
    study = results.study
    return {workload: in_order(study, cells[workload]) for workload in study.decide.leading}


def measured_in(
    study: Study, workload: str, metric: str, cells: Sequence[Treatment]
) -> tuple[Treatment, ...]:
    """The treatments in which a metric can be had: that of a load beside another one only where
    that load runs."""
    _, section = sectioned(metric)
    if not any(each.neighbour and each.name == section for each in study.workloads):
        return tuple(cells)
    always = study.workload(workload).beside == section
    runs = {
        (factor.name, level.label): str(level.option) == section
        for factor in study.factors
        if factor.subject == BESIDE
        for level in factor.levels
    }
    varied = {cell: [runs[part] for part in cell if part in runs] for cell in cells}
    return tuple(cell for cell, own in varied.items() if (any(own) if own else always))


def look_of(study: Study, data: Responses) -> Look:
    """How the study is looked at: once, where its blocks are fixed beforehand, and it was not
    extended since."""
    design = study.design
    if not design.looked:
        return ONCE
    planned = (*design.extended, design.blocks)[0] if design.stop == "decided" else 0
    return Look(len(data.layout.incidence), planned)


def in_order(study: Study, treatments: set[Treatment]) -> tuple[Treatment, ...]:
    """Treatments in the order of the study's factors and levels."""
    return tuple(sorted(treatments, key=treatment_order(study)))


def treatment_order(study: Study) -> Callable[[Treatment], Rank]:
    """A sort key: the places of a treatment's levels in the study."""
    place = {
        (factor.name, level.label): (number, position)
        for number, factor in enumerate(study.factors)
        for position, level in enumerate(factor.levels)
    }
    unknown = (len(place), 0)
    return lambda treatment: tuple((*place.get(part, unknown), part[1]) for part in treatment)


def _attempt(record: TrialRecord) -> tuple[int, int]:
    return record.trial.attempt, record.trial.number


def _indices(keys: Sequence[Round]) -> Indices:
    return _indices_in(keys, sorted(set(keys)))


def _indices_in(keys: Sequence[object], places: Sequence[object]) -> Indices:
    place = {key: number for number, key in enumerate(places)}
    return np.array([place[key] for key in keys], dtype=np.intp)


# -- what they look like, and drift ---------------------------------------------------------------

LEVEL = 0.01
"""The share of studies without drift that are doubted all the same."""
FEWEST = 10
"""Trials of a workload below which neither test could ever speak at this level."""


@dataclass(frozen=True, slots=True)
class _TreatmentSummary:
    """One treatment of one workload: ``n`` trials, their geometric ``mean`` in the metric's unit,
    ``sd`` of the logarithms (nan for n = 1; differences between blocks included), and the
    minimum, quartiles and maximum."""

    workload: str
    metric: str
    treatment: Treatment
    n: int
    mean: float
    sd: float
    quartiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ResponseNoise:
    """``trial``: standard deviation of one trial on the log scale, blocks and treatments taken
    out; ``paired``: that of the log ratio of two trials of one block (√2 times as large)."""

    workload: str
    trial: float
    paired: float
    df: int


def quantiles(values: Sequence[float] | Floats, shares: Sequence[float]) -> tuple[float, ...]:
    """Sample quantiles by linear interpolation (Hyndman and Fan's definition 7)."""
    return tuple(float(value) for value in np.quantile(np.asarray(values), shares))


def summaries(results: Results) -> tuple[_TreatmentSummary, ...]:
    """The primary metrics of every workload and treatment with data, in the study's order."""
    return tuple(
        _summary(workload, data, cell)
        for workload, data in primary_responses(results)
        for cell in range(len(data.cells))
    )


def noise(results: Results) -> tuple[ResponseNoise, ...]:
    """The noise of each workload's primary metric, where more than one block shows it."""
    found: list[ResponseNoise] = []
    for workload, data in primary_responses(results):
        fitted = fit(data.layout, data.logs, np.zeros((0, len(data.cells))))
        if fitted.df:
            sd = float(fitted.sd)
            found.append(ResponseNoise(workload, sd, sd * math.sqrt(2), fitted.df))
    return tuple(found)


def nothing_varied(results: Results) -> str:
    """The recommendation of a study without factors: there is none, only what was measured."""
    sentences = ["No factor was varied: no recommendation."]
    for part in summaries(results):
        spread = f", sd {format_noise(part.sd)}" if part.n > 1 else ""
        value = format_value(part.mean, results.study.metrics.display_unit(part.metric))
        sentences.append(f"{part.workload}: {part.metric} {value} (n = {part.n}{spread}).")
    return " ".join(sentences)


def drift_doubts(results: Results) -> tuple[Doubt, ...]:
    """Doubts about the whole study (none invalid) where a workload's responses drifted steadily
    or hung together in the order of execution."""
    series = [(name, _in_time(data)) for name, data in named_responses(results)]
    tested = [(workload, steps) for workload, steps in series if len(steps) >= FEWEST]
    level = LEVEL / (2 * len(tested)) if tested else 0.0
    return tuple(doubt for workload, steps in tested for doubt in _doubts(workload, steps, level))


def spearman(values: Floats) -> tuple[float, float]:
    """Rank correlation of ``values`` (>= 3) with their order, and its two-sided p-value by the t
    approximation.  Ties get their mean rank."""
    n = len(values)
    ranks, order = mean_ranks(values), np.arange(n, dtype=np.float64)
    if ranks.std() == 0:
        return 0.0, 1.0
    rho = float(np.corrcoef(ranks, order)[0, 1])
    t = abs(rho) * math.sqrt((n - 2) / max(1 - rho**2, ARITHMETIC))
    return rho, float(2 * stdtr(n - 2, -t))


def mean_ranks(values: Floats) -> Floats:
    """1 for the smallest; ties share their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], dtype=np.float64)


def autocorrelation(values: Floats) -> tuple[float, float]:
    """Lag-1 autocorrelation of ``values`` (>= 3), and its two-sided p-value: for white noise it
    is about normal with mean -1/n and variance 1/n."""
    n, centred = len(values), values - values.mean()
    total = float(centred @ centred)
    if total == 0:
        return 0.0, 1.0
    lag = float(centred[1:] @ centred[:-1]) / total
    return lag, float(2 * ndtr(-abs(lag + 1 / n) * math.sqrt(n)))


def _summary(workload: str, data: Responses, cell: int) -> _TreatmentSummary:
    logs = data.logs[data.layout.cell == cell]
    sd = float(logs.std(ddof=1)) if len(logs) > 1 else math.nan
    quartiles = quantiles(np.exp(logs), (0, 0.25, 0.5, 0.75, 1))
    mean = math.exp(float(logs.mean()))
    return _TreatmentSummary(
        workload, data.metric, data.cells[cell], len(logs), mean, sd, quartiles
    )


def _in_time(data: Responses) -> Floats:
    """Log responses less their treatment's mean, and that of their host where blocks are spread
    over hosts, in the order of execution.  Treatments measured once say nothing and are left
    out."""
    counts = np.bincount(data.layout.cell)
    means = np.bincount(data.layout.cell, data.logs) / counts
    rest = data.logs - means[data.layout.cell]
    if any(trial.host for trial in data.trials):
        _, host = np.unique([trial.host for trial in data.trials], return_inverse=True)
        rest -= (np.bincount(host, rest) / np.bincount(host))[host]
    numbers = np.array([trial.number for trial in data.trials])
    order = np.argsort(numbers)
    steps = rest[order][counts[data.layout.cell[order]] > 1]
    return steps if np.abs(steps).max(initial=0.0) > ARITHMETIC else steps[:0]


def _doubts(workload: str, steps: Floats, level: float) -> Iterator[Doubt]:
    rho, p = spearman(steps)
    if p < level:
        slope = float(np.polyfit(np.arange(len(steps)), steps, 1)[0])
        change = format_change(math.exp(slope * (len(steps) - 1)))
        yield Doubt(
            "trend",
            f"{workload}: results drifted by about {change} from the first trial to the last "
            f"(Spearman's rho {rho:.2f}, p = {p:.1g}, n = {len(steps)})",
            "blocking removes a slow drift from the ratios, which stay valid; find the cause"
            " (cache, temperature, a device not preconditioned) before using absolute values",
        )
        return
    lag, p = autocorrelation(steps)
    if p < level:
        how = "are correlated" if lag > 0 else "alternate"
        yield Doubt(
            "autocorrelation",
            f"{workload}: neighbouring trials {how} beyond chance (lag-1 autocorrelation "
            f"{lag:.2f}, p = {p:.1g}, n = {len(steps)})",
            "a disturbance outside the study varies over time; run more blocks, settle longer,"
            " or look for other load on the device",
        )
