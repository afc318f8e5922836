"""From results to findings: one interval per comparison, and what it allows us to say.

For each workload a linear model on log responses (:mod:`iotrial.stats.blocks`) gives the ratio of
each level to its baseline; the critical value makes all primary intervals of the study hold
together (:mod:`iotrial.stats.critical`); the verdict is read from interval and margin
(:mod:`iotrial.stats.verdict`).  Guardrails get one comparison's own interval: they are a warning,
and a warning should not come later because there are many of them.

Beside the verdict stands what ranks say (:mod:`iotrial.stats.ranks`).  With ``test = "ranks"``
*better* and *worse* are theirs, where the estimate has the same sign; *same* is the interval's.

The family is that of the *plan*: a comparison that lost all its trials still counts, so that no
interval gets narrower because something failed.

References:
    R. G. Miller (1981), *Simultaneous Statistical Inference*, 2nd ed., chapter 1 (families).
    P. J. Fleming and J. J. Wallace (1986), How not to lie with statistics, CACM 29, 218-221
    (ratios are averaged geometrically).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iotrial.errors import UsageError
from iotrial.model.finding import Comparison, Finding, RankVerdict, RequiredBlocks, Verdict
from iotrial.model.measurement import is_offered
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import OFFERED_ABOVE, OFFERED_BELOW, TrialRecord
from iotrial.stats import drain
from iotrial.stats import effects as compared
from iotrial.stats.blocks import (
    ARITHMETIC,
    ContrastFit,
    Floats,
    Stratum,
    by_stratum,
    fit_in,
    ratio,
    whole_plots,
)
from iotrial.stats.ceiling import judge_ceiling
from iotrial.stats.critical import ONCE, Look, workload_confidence
from iotrial.stats.effects import (
    CellContrast,
    ContrastFamily,
    comparisons,
    critical_values,
    families,
    interactions,
    shares,
)
from iotrial.stats.levels import knees
from iotrial.stats.power import (
    ComparisonPrecision,
    blocks_to_differ,
    detectable,
    seconds_of_a_block,
    to_hold,
    to_tell,
)
from iotrial.stats.race import blocks_to_decide
from iotrial.stats.race_findings import judge_race, races_of, second_family
from iotrial.stats.ranks import Key, by_ranks
from iotrial.stats.recommend import (
    MOST,
    IntervalBasis,
    RecommendationBasis,
    beside,
    method,
    method_beside,
    recommend,
)
from iotrial.stats.responses import (
    Responses,
    asked,
    counted,
    look_of,
    measured_in,
    nothing_varied,
    planned_cells,
    responses_of,
)
from iotrial.stats.verdict import LAST, guardrail, verdict


@dataclass(frozen=True, slots=True)
class ComparisonQuestion:
    """What is asked of one workload and one metric.

    ``contrasts`` are those that have data; ``confidence`` is what their intervals must hold
    together (a guardrail's: each by itself).  ``tolerance`` is a guardrail's; None for a primary
    metric.  All contrasts are of one ``stratum``; ``plots`` says which whole plot each cell is in.
    ``look`` is the one at which the study is judged.
    """

    workload: str
    responses: Responses
    contrasts: tuple[CellContrast, ...]
    confidence: float
    tolerance: float | None = None
    stratum: Stratum = ""
    plots: tuple[int, ...] = ()
    look: Look = ONCE

    @property
    def primary(self) -> bool:
        """Whether the answer belongs to the family, or is a guardrail's."""
        return self.tolerance is None


@dataclass(frozen=True, slots=True)
class RatioIntervals:
    """Ratios with their intervals: arrays (contrasts,), or (contrasts, studies) for simulated
    studies of one layout; ``critical`` (contrasts,) are their critical values.  Without residual
    degrees of freedom there are none, and no ends."""

    fit: ContrastFit
    ratio: Floats
    critical: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None


def judge(results: Results) -> Comparison:
    """Every finding of a study, in the study's order: workload, metric (primary ones first),
    factor, level.

    A level that shares no block with its baseline has no finding; the recommendation names it.
    """
    told = _judged(results)
    told = replace(told, method=" ".join(filter(None, (told.method, drain.said(results)))))
    if not results.study.decide.secondary:
        return told
    found = _secondary(results)
    return replace(
        told,
        secondary=found,
        recommendation=" ".join(filter(None, (told.recommendation, beside(found)))),
        method=" ".join(filter(None, (told.method, method_beside(results.study, found)))),
    )


def _secondary(results: Results) -> tuple[Finding, ...]:
    """The findings of the second family: those that the study would have, had it asked for these
    metrics alone."""
    decide = results.study.decide
    if results.study.design.kind == "race":
        return second_family(results)
    alone = replace(decide, primary=decide.secondary, secondary=(), guardrails=())
    told = replace(results, study=replace(results.study, decide=alone))
    asked = questions(told)
    ranked = _by_ranks(told, asked)
    found = (f for q in asked for f in _findings(told, q, answer(q, q.responses.logs), ranked))
    ordered = _in_order(told.study, tuple(found))
    ordered = tuple(_bounded(told, finding) for finding in ordered)
    return tuple(replace(finding, primary=False, secondary=True) for finding in ordered)


def _judged(results: Results) -> Comparison:
    """The same without the second family."""
    study = results.study
    if study.design.kind == "race":
        return judge_race(results)
    if study.design.kind == "saturate":
        return judge_ceiling(results)
    if study.design.kind == "tune":
        return Comparison(study.question, (), "", "")  # a search claims nothing
    answered = [(each, answer(each, each.responses.logs)) for each in questions(results)]
    ranked = _by_ranks(results, [question for question, _ in answered])
    findings = tuple(
        finding
        for question, answered_by in answered
        for finding in _findings(results, question, answered_by, ranked)
    )
    findings = tuple(_bounded(results, each) for each in _in_order(study, findings))
    primary = [pair for pair in answered if pair[0].primary]
    resolvable = _least_precise(study, primary)
    case = RecommendationBasis(
        study,
        compared.baselines(results),
        tuple(_called(study, finding) for finding in findings),
        dict(resolvable),
        _missing(results, findings),
    )
    words = recommend(case) if study.factors else nothing_varied(results)
    if results.records and not results.valid:
        words = _none_valid(results.records)
    words = " ".join(filter(None, (words, _taken_back(results, findings))))
    terms = tuple(_terms(study, question, got) for question, got in primary)
    how = method(results, terms, sum(map(len, planned(results).values())), ranked)
    crossed, simple = interactions(results)
    return Comparison(
        study.question,
        findings,
        words,
        how,
        resolvable,
        crossed,
        simple,
        shares(results),
        knees=knees(results, findings),
    )


def _bounded(results: Results, finding: Finding) -> Finding:
    """Without a claim that values beyond the offered rates may not bear: these are bounds.  Of two
    levels the one that is higher may lie above all rates, and the other below, and nothing else."""
    if not is_offered(finding.metric) or finding.verdict == "cannot-tell":
        return finding
    level, base = (
        _beyond(results, finding.workload, (finding.factor, label))
        for label in (finding.level, finding.baseline)
    )
    high, low = (level, base) if finding.ratio > 1 else (base, level)
    doubtful = OFFERED_BELOW in high or OFFERED_ABOVE in low
    if finding.verdict == "same":
        doubtful = bool(level | base)
    return replace(finding, verdict="cannot-tell", needs=None) if doubtful else finding


def _beyond(results: Results, workload: str, part: tuple[str, str]) -> set[str]:
    """On which sides of the offered rates trials of a level ended."""
    own = (each for each in counted(results)[workload] if part in each.trial.treatment)
    checks = {doubt.check for each in own for doubt in each.doubts}
    return checks & {OFFERED_ABOVE, OFFERED_BELOW}


def _called(study: Study, finding: Finding) -> Finding:
    """As a recommendation names it."""
    if not finding.primary:
        return finding
    return replace(finding, workload=study.decide.named(finding.workload, finding.metric))


def _taken_back(results: Results, findings: Sequence[Finding]) -> str:
    """What the first report of a study said that was extended since, and this one does not."""
    study = results.study
    if not study.design.extended or study.design.stop == "decided":
        return ""
    blocks = study.design.extended[0]
    design = replace(study.design, blocks=blocks, extended=())
    first = replace(
        results,
        study=replace(study, design=design),
        planned=tuple(trial for trial in results.planned if trial.block <= blocks),
        records=tuple(record for record in results.records if record.trial.block <= blocks),
    )
    now = {_key(f): f.verdict for f in findings}
    gone = [
        f"{study.decide.named(f.workload, f.metric)} {f.level} ({f.verdict})"
        for f in _judged(first).findings
        if f.primary and f.verdict not in {"cannot-tell", now.get(_key(f))}
    ]
    more = f" and {len(gone) - MOST} more" if len(gone) > MOST else ""
    said = f"The study was extended; these verdicts after {blocks} blocks no longer hold:"
    return f"{said} {', '.join(gone[:MOST])}{more}." if gone else ""


def _key(finding: Finding) -> tuple[str, str, str, str]:
    return finding.workload, finding.metric, finding.factor, finding.level


def _in_order(study: Study, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The study's order, which strata break up."""
    if not any(factor.hard for factor in study.factors):
        return findings
    factors = [factor.name for factor in study.factors]
    keys = list(dict.fromkeys((f.workload, f.metric, f.primary) for f in findings))
    places = {key: place for place, key in enumerate(keys)}
    return tuple(
        sorted(
            findings,
            key=lambda f: (places[f.workload, f.metric, f.primary], factors.index(f.factor)),
        )
    )


def _least_precise(
    study: Study, primary: Sequence[tuple[ComparisonQuestion, RatioIntervals]]
) -> tuple[tuple[str, float], ...]:
    """By workload (and metric, of several), the smallest difference that its least precise
    comparison could have told."""
    told: dict[str, float] = {}
    for question, got in primary:
        if got.critical is not None:
            least = _resolvable(question, got)
            name = study.decide.named(question.workload, question.responses.metric)
            told[name] = max(least, told.get(name, least))
    return tuple(told.items())


def _none_valid(records: Sequence[TrialRecord]) -> str:
    """What there is to say where every trial failed or was spoilt: the first cause."""
    first = records[0]
    spoilt = (doubt.what for doubt in first.doubts if doubt.invalid)
    why = first.error or next(spoilt, "") or f"it is {first.state}"
    executed = "the only trial is not" if len(records) == 1 else f"none of {len(records)} trials is"
    return f"No claim possible: {executed} valid. Trial {first.trial.number}: {why.rstrip('.')}."


def planned(results: Results) -> dict[tuple[str, str], tuple[CellContrast, ...]]:
    """The primary comparisons of the study's plan, by workload and metric: the family."""
    study, base = results.study, compared.baselines(results)
    plan = planned_cells(results)
    return {
        (load, metric): comparisons(study, measured_in(study, load, metric, plan[load]), base)
        for load, metric in asked(study)
    }


def questions(results: Results) -> tuple[ComparisonQuestion, ...]:
    """What the study asks and has data for: per workload the primary metrics, then guardrails."""
    study, plan = results.study, planned(results)
    family = sum(map(len, plan.values()))
    found: list[ComparisonQuestion] = []
    for workload in (w.name for w in study.judged):
        for metric in (name for load, name in study.decide.primary if load == workload):
            if own := len(plan[workload, metric]):
                share = workload_confidence(study.decide.confidence, own, family)
                data = responses_of(results, workload, metric)
                found += _parted(study, _question(results, workload, data, share))
        for name, tolerance in study.decide.guardrails:
            data = responses_of(results, workload, name)
            single = study.decide.confidence
            given = _question(results, workload, data, single, tolerance=tolerance)
            found += _parted(study, given)
    return tuple(found)


def _parted(study: Study, question: ComparisonQuestion | None) -> list[ComparisonQuestion]:
    """One question for each stratum; those that need blocks by themselves, one each."""
    if question is None:
        return []
    plots = whole_plots(study, question.responses.cells)
    if not plots:
        return [question]
    rows = compared.weights(question.contrasts, len(question.responses.cells))
    parts: list[ComparisonQuestion] = []
    for where, places in by_stratum(rows, plots):
        own = tuple(question.contrasts[place] for place in places)
        share = question.confidence
        if question.primary:
            share = workload_confidence(share, len(own), len(question.contrasts))
        parts.append(replace(question, contrasts=own, confidence=share, stratum=where, plots=plots))
    return parts


def answer(question: ComparisonQuestion, logs: Floats) -> RatioIntervals:
    """``logs`` are the question's own, or simulated ones of shape (observations, studies)."""
    layout = question.responses.layout
    rows = compared.weights(question.contrasts, len(question.responses.cells))
    fitted = fit_in(question.stratum, layout, logs, rows, question.plots)
    middle = ratio(fitted.estimate)
    if fitted.df == 0:
        return RatioIntervals(fitted, middle)
    critical = critical_values(_families(question), fitted.own_df, question.look)
    return RatioIntervals(fitted, middle, critical, *fitted.interval(critical))


def _families(question: ComparisonQuestion) -> list[ContrastFamily]:
    """The families of its comparisons; each guardrail is one by itself."""
    if question.primary:
        return families(question.contrasts, question.confidence)
    error = 1 - question.confidence
    return [ContrastFamily((at,), error) for at in range(len(question.contrasts))]


def verdict_on(results: Results, question: ComparisonQuestion, low: float, high: float) -> Verdict:
    """The verdict that the study's decision rule reads from one interval."""
    higher = results.study.metrics.higher(question.responses.metric)
    if question.tolerance is not None:
        return guardrail(low, high, question.tolerance, higher_is_better=higher)
    return verdict(low, high, results.study.decide.margin, higher_is_better=higher)


def _question(
    results: Results,
    workload: str,
    data: Responses,
    confidence: float,
    *,
    tolerance: float | None = None,
) -> ComparisonQuestion | None:
    """None where no level met its baseline in a block."""
    base = compared.baselines(results)
    possible = comparisons(results.study, data.cells, base)
    with_data = compared.measured(possible, data.layout)
    if not with_data:
        return None
    look = look_of(results.study, data)
    return ComparisonQuestion(workload, data, with_data, confidence, tolerance, look=look)


def _by_ranks(results: Results, asked: Sequence[ComparisonQuestion]) -> dict[Key, RankVerdict]:
    """What ranks say of the primary comparisons of these."""
    own = ((each.workload, each.responses, each.contrasts) for each in asked if each.primary)
    return by_ranks(results.study, own, sum(map(len, planned(results).values())))


def _findings(
    results: Results,
    question: ComparisonQuestion,
    got: RatioIntervals,
    ranked: Mapping[Key, RankVerdict],
) -> list[Finding]:
    incidence = question.responses.layout.incidence
    folders = _folders(question.responses)
    of_trials = question.stratum not in _VARIES
    noise = float(got.fit.sd) if got.critical is not None and of_trials else None
    found: list[Finding] = []
    for number, contrast in enumerate(question.contrasts):
        low, high = _ends(got, number)
        claim: Verdict = "cannot-tell"
        if low is not None and high is not None:
            claim = verdict_on(results, question, low, high)
        key = (question.workload, question.responses.metric, contrast.factor, contrast.level)
        rank = ranked.get(key) if question.primary else None
        if question.primary and results.study.decide.test == "ranks" and claim != "same":
            claim = _decided_by(results, question, rank, float(got.ratio[number]))
        found.append(
            Finding(
                question.workload,
                question.responses.metric,
                contrast.factor,
                contrast.level,
                contrast.baseline,
                float(got.ratio[number]),
                low,
                high,
                claim,
                compared.blocks_behind(contrast, incidence),
                _behind(contrast, folders),
                question.primary,
                noise,
                needs=_needs(results, question, got, number) if claim == "cannot-tell" else None,
                ranks=rank,
            )
        )
    return found


def _decided_by(
    results: Results, question: ComparisonQuestion, rank: RankVerdict | None, ratio: float
) -> Verdict:
    """The verdict by ranks, where the estimate of the ratio has the same sign."""
    if rank is None or rank.verdict == "cannot-tell":
        return "cannot-tell"
    rises = (rank.verdict == "better") is results.study.metrics.higher(question.responses.metric)
    return rank.verdict if (ratio > 1) is rises else "cannot-tell"


def _ends(got: RatioIntervals, number: int) -> tuple[float | None, float | None]:
    """None where nothing is known of the comparison's noise."""
    if got.low is None or got.high is None or not math.isfinite(float(got.high[number])):
        return None, None
    return float(got.low[number]), float(got.high[number])


def _needs(
    results: Results, question: ComparisonQuestion, got: RatioIntervals, number: int
) -> RequiredBlocks | None:
    """What would tell one of the contrasts; None where no noise was measured."""
    if (seen := seen_of(question, got, number)) is None:
        return None
    estimate, a_block = float(got.fit.estimate[number]), seconds_of_a_block(results)
    if question.tolerance is not None:
        return to_hold(seen, estimate, question.tolerance, a_block=a_block)
    directed = results.study.metrics.higher(question.responses.metric) is not None
    margin = results.study.decide.margin
    return to_tell(seen, estimate, margin, directed=directed, a_block=a_block)


def seen_of(
    question: ComparisonQuestion, got: RatioIntervals, number: int
) -> ComparisonPrecision | None:
    """How well one of the contrasts is known; None where no noise was measured."""
    blocks = len(question.responses.layout.incidence)
    if got.critical is None or not math.isfinite(float(got.critical[number])):
        return None
    family = next(each for each in _families(question) if number in each.places)
    fit = got.fit
    return ComparisonPrecision(
        float(fit.standard_error[number]),
        float(fit.own_df[number]),
        fit.df,
        blocks,
        len(family.places) + 1,
        family.error,
        question.look.planned,
    )


def _folders(data: Responses) -> list[list[tuple[int, str]]]:
    """(number, folder) of the trials in each cell."""
    folders: list[list[tuple[int, str]]] = [[] for _ in data.cells]
    for cell, trial in zip(data.layout.cell.tolist(), data.trials, strict=True):
        folders[cell].append((trial.number, trial.folder))
    return folders


def _behind(contrast: CellContrast, folders: list[list[tuple[int, str]]]) -> tuple[str, ...]:
    """The folders behind a contrast, in the order of execution."""
    trials = (trial for cell in contrast.cells for trial in folders[cell])
    return tuple(name for _, name in sorted(trials))


def _resolvable(question: ComparisonQuestion, got: RatioIntervals) -> float:
    """The smallest difference that the least precise of the comparisons would have told in four of
    five studies, were all treatments as noisy as the average one."""
    seen = [seen_of(question, got, number) for number in range(len(question.contrasts))]
    errors = np.sqrt(np.diag(got.fit.unit)) * got.fit.sd
    told = (
        detectable(max(float(errors[at]), ARITHMETIC), float(got.critical[at]), each.df, each.rest)
        for at, each in enumerate(seen)
        if each and got.critical is not None
    )
    return max(told, default=math.inf)


def _terms(study: Study, question: ComparisonQuestion, got: RatioIntervals) -> IntervalBasis:
    data = question.responses
    name = study.decide.named(question.workload, data.metric) + _STRATA[question.stratum]
    of = _VARIES.get(question.stratum, "one trial")
    return IntervalBasis(name, data.layout, got.fit, got.critical, len(data.unusable), of)


_VARIES: dict[Stratum, str] = {"whole": "one whole plot", "blocks": "one block"}
_STRATA: dict[Stratum, str] = {
    "": "",
    "within": " (within whole plots)",
    "whole": " (whole plots)",
    "blocks": " (whole blocks)",
}


def _missing(results: Results, findings: Sequence[Finding]) -> tuple[tuple[str, str, str], ...]:
    """(workload, factor, level) of the planned comparisons that have no data."""
    found = {(f.workload, f.metric, f.factor, f.level) for f in findings if f.primary}
    return tuple(
        (results.study.decide.named(workload, metric), contrast.factor, contrast.level)
        for (workload, metric), contrasts in planned(results).items()
        for contrast in contrasts
        if (workload, metric, contrast.factor, contrast.level) not in found
    )


# -- how many blocks tell a difference that somebody names ----------------------------------------


def blocks_until(results: Results, log: float) -> int:
    """The blocks in all after which a true difference of ``log`` > 0 (log scale) is told in each
    primary comparison with a power of 80 %; of a race, those after which it is expected to be.

    Raises UsageError where no noise was measured, and where 2,048 blocks do not.
    """
    race = results.study.design.kind == "race"
    found = list(_of_race(results, log) if race else _of_blocks(results, log))
    known = [each for each in found if each is not None]
    if not found:
        raise UsageError(
            "the noise of these results is unknown", advice="Give a number: --more-blocks 5."
        )
    if len(known) < len(found) or max(known) >= LAST:
        raise UsageError(
            f"this difference needs more than {LAST:,} blocks at this noise",
            advice="Give a larger difference, or reduce the noise (longer trials).",
        )
    return max(known)


def _of_blocks(results: Results, log: float) -> Iterator[int | None]:
    for question in questions(results):
        got = answer(question, question.responses.logs)
        for number in range(len(question.contrasts) if question.primary else 0):
            if seen := seen_of(question, got, number):
                yield blocks_to_differ(seen, log)


def _of_race(results: Results, log: float) -> Iterator[int | None]:
    for each in races_of(results):
        race = each.race
        if race.looks and not race.decided:
            yield blocks_to_decide(each.terms, log, race.sd, left=len(race.active))


def blocks_at_margin(results: Results, log: float) -> int | None:
    """The blocks in all after which a race at this noise is expected to decide, were its margin
    ``log`` > 0 (log scale): between two equals, and between two that differ by the margin; 2,048
    (:data:`~iotrial.stats.verdict.LAST`) where no fewer do.  None before the first look."""
    found = [
        blocks_to_decide(replace(each.terms, margin=log), difference, each.race.sd, left=2)
        for each in races_of(results)
        if each.race.looks
        for difference in (0.0, log)
    ]
    return max(found, default=None)
