"""The answer to the study's question in words, how it was come to, and what was left out.

The recommendation is no firmer than the verdicts.  A level is recommended only where it is better
for some workload, worse for none, and breaks no guardrail.  Levels are compared with the baseline,
never with each other, and the sentence says so.  "Cannot tell" is always said, with what the data
could have told and what would tell it.

No number stands without its terms, so the method says how the intervals were made.  Nor is anything
left out silently: a reader of a report without interactions must not take it that there are none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.finding import Finding, Verdict
from iotrial.model.measurement import split
from iotrial.model.results import Results
from iotrial.model.study import Factor, Study
from iotrial.model.trial import Treatment
from iotrial.stats import effects
from iotrial.stats.blocks import SHARE, BlockLayout, ContrastFit, Floats
from iotrial.stats.designs import estimable, parameters
from iotrial.stats.effects import coordinates, varied
from iotrial.stats.levels import crowded
from iotrial.stats.responses import named_responses
from iotrial.stats.verdict import LAST
from iotrial.units import ABSURD, format_change, format_noise, format_wait, percent


def left_out(results: Results) -> Iterator[str]:
    """A sentence for each workload and each of: interactions, shares of the variation; and for
    each factor whose knee is not looked for."""
    yield from crowded(results)
    for workload, data in named_responses(results):
        own = varied(data.cells, results.study.factors)
        if (many := effects.possible(own)) > effects.MOST:
            yield (
                f"{workload}: {many:,} interactions of two factors are possible, more than"
                f" {effects.MOST:,}: none is estimated."
            )
        if why := _too_much(data.cells, own):
            yield f"{workload}: no analysis of variance (ANOVA): {why}."


def left_out_of_race(results: Results) -> Iterator[str]:
    """A sentence, where several factors race together: what one might look for, and why not."""
    if sum(len(factor.levels) > 1 for factor in results.study.factors) > 1:
        yield (
            "A race compares whole treatments: main effects, interactions, shares of the"
            " variation (ANOVA) and knees are not estimated, because treatments dropped early"
            " have too few trials; a full design estimates them."
        )


def _too_much(cells: Sequence[Treatment], own: effects.Varied) -> str:
    """Why there is no table of shares; '' if that is not for its size."""
    if len(own) < 2:  # noqa: PLR2004 (one factor explains all)
        return ""
    if len(cells) > effects.MOST_CELLS:
        return f"{len(cells):,} treatments are more than {effects.MOST_CELLS:,}"
    counts = [len(labels) for _, labels in own]
    if parameters(counts, 2) <= effects.MOST_PARAMETERS:
        return ""
    wide = estimable(coordinates(cells, own), counts).matrix.shape[1]
    if wide <= effects.MOST_PARAMETERS:
        return ""
    return f"its model has {wide:,} parameters, more than {effects.MOST_PARAMETERS:,}"


# -- how the intervals were made ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntervalBasis:
    """What the intervals of one workload's primary metric rest on; ``of`` is what varies by the
    fit's sd."""

    workload: str
    layout: BlockLayout
    fit: ContrastFit
    critical: Floats | None
    unusable: int
    of: str = "one trial"


def method(
    results: Results, terms: Sequence[IntervalBasis], family: int, ranked: Collection[object]
) -> str:
    """Design, n, degrees of freedom, confidence, family, critical values and margin; and what the
    verdicts by ranks are, where there are any (``ranked``)."""
    study = results.study
    parts = [_design(results), *map(_workload, terms)]
    if family:
        parts.append(
            f"Two-sided simultaneous {percent(study.decide.confidence)} intervals for the family "
            f"of all {family} primary {_plural(family, 'comparison')}; workloads share the "
            "confidence by their number of comparisons. They hold whichever treatment is noisier:"
            " the standard error of a comparison is that of its own differences within blocks,"
            f" at least {percent(SHARE)} of that by the pooled noise. {_read_from(study)}, with a"
            f" margin of ±{percent(study.decide.margin)}."
        )
    if ranked:
        parts.append(_RANKS)
    if study.decide.guardrails:
        parts.append(f"Guardrails: individual {percent(study.decide.confidence)} intervals (t).")
    parts += left_out(results)
    return " ".join(parts)


_RANKS = (
    "By ranks: randomisation test that exchanges each level with its baseline within blocks, on"
    " aligned ranks; p is adjusted for all comparisons (Holm) and holds whatever the noise."
)


def _read_from(study: Study) -> str:
    if study.decide.test == "ranks":
        return (
            "As the study file chose, better and worse are the verdicts by ranks; same is read from"
            " the interval"
        )
    return "Verdicts are read from the interval alone"


def method_beside(study: Study, found: Sequence[Finding]) -> str:
    """What the intervals of the second family hold for."""
    if not found:
        return ""
    names = _unique(finding.metric for finding in found)
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return (
        f"The second family: {len(found)} {_plural(len(found), 'comparison')} of"
        f" {', '.join(names[:MOST])}{more}, with simultaneous {percent(study.decide.confidence)}"
        " intervals of its own."
    )


_TRIED = {
    "full": "Randomised complete blocks",
    "fraction": "Randomised blocks of a fraction of the combinations",
    "one-at-a-time": "Randomised blocks of the baseline and each other level alone",
    "recorded": "Recorded runs",
}
_AVERAGED = {
    "full": " Each factor's effect is averaged over the levels of the others.",
    "fraction": " Each factor's effect is averaged over the levels of the others, assuming that"
    " the interactions aliased by the fraction are negligible.",
    "one-at-a-time": " Each factor's effect is estimated with the others at their baseline only.",
}


def _design(results: Results) -> str:
    blocks = results.study.design.blocks
    text = (
        f"{_TRIED[results.study.design.kind]}: n = {blocks} {_plural(blocks, 'block')} planned, "
        f"{len(results.valid)} valid of {len(results.records)} trials executed. "
        "Effects are ratios of geometric means to the baseline level, from the linear model "
        "log response = block + treatment of each workload."
    )
    if len(results.study.factors) > 1:
        text += _AVERAGED.get(results.study.design.kind, "")
    if results.study.design.stop == "decided":
        text += (
            " Sequential, with a look after every block: the intervals hold simultaneously at all"
            " looks."
        )
    text += _extended(results)
    hard = [factor.name for factor in results.study.factors if factor.hard]
    if hard:
        text += (
            f" {', '.join(hard)}: whole-plot factor, judged against the variation between whole"
            " plots of a block."
        )
    return text


def _extended(results: Results) -> str:
    """What it means for the intervals that the study was extended."""
    if not (before := results.study.design.extended):
        return ""
    said = f" Extended after {_and(before)} {_plural(before[-1], 'block')}, with the results known"
    if results.study.design.stop == "decided":
        return f"{said}: the error rate is unchanged, because the intervals hold at every look."
    return (
        f"{said}. One look was planned and the extension adds a second: from then on the"
        " intervals hold simultaneously at all looks (error spending, Lan and DeMets), are"
        f" wider than single-look intervals, and replace the results after"
        f" {before[0]} {_plural(before[0], 'block')}."
        " Together with that first report the error rate may slightly exceed"
        f" {percent(1 - results.study.decide.confidence)} (docs/deciding.md has numbers)."
    )


def _and(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _workload(terms: IntervalBasis) -> str:
    n, trials = len(terms.layout.incidence), len(terms.layout.cell)
    text = f"{terms.workload}: n = {n} {_plural(n, 'block')}, {trials} trials"
    if terms.unusable:
        text += f", {terms.unusable} excluded (no positive value)"
    if terms.critical is None:
        return f"{text}, 0 residual df, so no interval."
    noise = format_noise(float(terms.fit.sd))
    return (
        f"{text}, {terms.fit.df} residual df, noise of {terms.of} {noise}, "
        f"{_values(terms.critical)}."
    )


def _values(critical: Floats) -> str:
    known = [float(each) for each in critical if math.isfinite(each)]
    if not known:
        return "no critical value"
    low, high = f"{min(known):.3f}", f"{max(known):.3f}"
    return f"critical value {low}" if low == high else f"critical values {low} to {high}"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


# -- the recommendation ---------------------------------------------------------------------------

MOST = 4
"""Claims spelt out for a factor; the rest is in the table of findings."""
THROUGHPUT = ("iops", "bw", "rate")
TOLD = ("Change ", "Keep ", "Which ", "Guardrail ")
"""How sentences begin that nobody may miss: a level is better or worse, or at what price."""


@dataclass(frozen=True, slots=True)
class RecommendationBasis:
    """All that a recommendation rests on.  ``resolvable`` is by workload; ``missing`` are
    (workload, factor, level) without data.  A workload with several primary metrics is one for
    each of them here, named by both (:meth:`~iotrial.model.study.DecisionRule.named`)."""

    study: Study
    baselines: Mapping[str, str]
    findings: tuple[Finding, ...]
    resolvable: Mapping[str, float]
    missing: tuple[tuple[str, str, str], ...] = ()


def recommend(case: RecommendationBasis) -> str:
    """One short paragraph per factor of the study, in its order."""
    told = [_factor(case, factor) for factor in case.study.factors]
    return " ".join(part for part in told if part)


def _factor(case: RecommendationBasis, factor: Factor) -> str:
    own = [f for f in case.findings if f.factor == factor.name and f.primary]
    lost = _lost(case, factor)
    if not own:
        return f"No claim possible for {factor.name}: {_nothing(case, factor)}."
    if all(f.low is None for f in own):
        n = max(f.n for f in own)
        blocks = "block gives" if n == 1 else "incomplete blocks give"
        return (
            f"No claim possible for {factor.name}: n = {n}, and {n} {blocks} no estimate of the"
            f" noise. Run at least 2 blocks, better 5.{lost}"
        )
    sentences = [
        _lead(case, factor, own) + _claims(case, own),
        _same(case, own),
        _untold(case, own),
        _guarded(case, factor),
    ]
    return " ".join(sentence for sentence in sentences if sentence) + lost


def beside(found: Sequence[Finding]) -> str:
    """What the second family shows, the largest differences first; '' where it shows none."""
    told = []
    for verdict in ("worse", "better"):
        own = [finding for finding in found if finding.verdict == verdict]
        largest = sorted(own, key=lambda f: -abs(math.log(f.ratio)))
        named = [
            f"{f.workload} {f.metric} {f.level} ({format_change(f.ratio)}, interval {_ends(f)})"
            for f in largest[:MOST]
        ]
        told += [f"{verdict}: {', '.join(named)}{_more(own)}"] if own else []
    return f"Of metrics that the question does not name, {'; '.join(told)}." if told else ""


def _nothing(case: RecommendationBasis, factor: Factor) -> str:
    if any(name == factor.name for _, name, _ in case.missing):
        return f"no level shares a block with {case.baselines[factor.name]} in valid trials"
    return "it has no second level to compare"


def _lead(case: RecommendationBasis, factor: Factor, own: Sequence[Finding]) -> str:
    """What to do, in a few words."""
    base = _named(factor, case.baselines[factor.name])
    better, worse = _levels(own, "better"), _levels(own, "worse")
    broken = _levels(_guardrails(case, factor), "worse")
    good = [level for level in better if level not in worse and level not in broken]
    ranked = sorted(own, key=lambda finding: loss(case.study, finding))
    risks = {finding.level: finding for finding in ranked if risk(case.study, finding)}
    if safe := [level for level in good if level not in risks]:
        return f"Change {base} to {_choice(own, safe)}"
    if good:
        least = min((risks[level] for level in good), key=lambda f: loss(case.study, f))
        lost = percent(round(loss(case.study, least), 3))
        return (
            f"No reason to change {base} yet, for {least.level} may cost {least.workload} up to"
            f" {lost} (undecided)"
        )
    if any(level in worse for level in better):
        return f"Which {factor.name} is best depends on the {_asked(case.study)}"
    if better:
        return f"Keep {base} unless the broken guardrail does not matter"
    return f"Keep {base}" if worse else _undecided(case, factor, own)


def _asked(study: Study) -> str:
    """By what the primary comparisons of a study differ."""
    if len(study.decide.primary) == len(study.decide.leading):
        return "workload"
    return "metric" if len(study.decide.leading) == 1 else "workload or metric"


def loss(study: Study, finding: Finding) -> float:
    """What a level may cost by its interval, as a fraction of the baseline; 0 where nothing."""
    higher = study.metrics.higher(finding.metric)
    if finding.low is None or finding.high is None or higher is None:
        return 0.0
    return max(0.0, 1 - finding.low if higher else finding.high - 1)


def risk(study: Study, finding: Finding) -> bool:
    """Whether a load of which nothing was told may lose more than the margin."""
    return finding.verdict == "cannot-tell" and loss(study, finding) > study.decide.margin


def _undecided(case: RecommendationBasis, factor: Factor, own: Sequence[Finding]) -> str:
    """What to do where nothing is better and nothing is worse."""
    base = _named(factor, case.baselines[factor.name])
    verdicts = {f.verdict for f in own}
    if verdicts == {"same"} and not any(name == factor.name for _, name, _ in case.missing):
        margin = percent(case.study.decide.margin)
        return f"No difference that matters (±{margin}) between {base} and {_others(factor, own)}"
    if verdicts == {"cannot-tell"}:
        return f"Cannot tell: no level of {factor.name} was shown to differ from {base}"
    return f"No reason to change {base}"


def _others(factor: Factor, own: Sequence[Finding]) -> str:
    """``net=tuned``; of several levels ``each of bfq, kyber``."""
    levels = list(dict.fromkeys(f.level for f in own))
    if len(levels) == 1:
        return _named(factor, levels[0])
    more = f" and {len(levels) - MOST} more" if len(levels) > MOST else ""
    return f"each of {', '.join(levels[:MOST])}{more}"


def _choice(own: Sequence[Finding], good: Sequence[str]) -> str:
    """The recommended levels, the largest mean effect first."""
    if len(good) == 1:
        return good[0]
    gain = {
        level: sum(abs(math.log(f.ratio)) for f in own if (f.level, f.verdict) == (level, "better"))
        for level in good
    }
    ranked = sorted(good, key=lambda level: -gain[level])[:MOST]
    return f"{', '.join(ranked[:-1])} or {ranked[-1]} (not compared with each other)"


def _claims(case: RecommendationBasis, own: Sequence[Finding]) -> str:
    """``: for randread bfq is 18.0 % slower (95 % interval −19.9 … −16.1), …``"""
    made = [f for f in own if f.verdict in ("better", "worse")]
    largest = sorted(made, key=lambda f: -abs(math.log(f.ratio)))[:MOST]
    told = [f for f in made if f in largest]
    if not told:
        return "."
    by_workload: dict[str, list[str]] = {}
    word = f"{percent(case.study.decide.confidence)} interval "  # said once
    for finding in told:
        by_workload.setdefault(finding.workload, []).append(_claim(finding, word))
        word = ""
    parts = [f"for {workload} {', '.join(said)}" for workload, said in by_workload.items()]
    more = f"; {len(made) - len(told)} more in the table" if len(made) > len(told) else ""
    return f": {'; '.join(parts)}{more}."


def _claim(finding: Finding, word: str) -> str:
    size = format_change(finding.ratio).lstrip("+−")
    # "8 is faster" says little: a bare number gets its factor's name.
    bare = finding.level.replace(".", "").isdigit()
    name = f"{finding.factor}={finding.level}" if bare else finding.level
    return f"{name} is {size} {_comparative(finding)} ({word}{_ends(finding)})"


def _comparative(finding: Finding) -> str:
    up = finding.ratio > 1
    if split(finding.metric)[1] in THROUGHPUT:
        return "faster" if up else "slower"
    word = "higher" if up else "lower"  # the metric is named once
    return word if finding.workload.endswith(finding.metric) else f"{word} in {finding.metric}"


def _ends(finding: Finding) -> str:
    ends = (format_change(end or 1.0) for end in (finding.low, finding.high))
    return " … ".join(end.removesuffix(" %") for end in ends)


def _same(case: RecommendationBasis, own: Sequence[Finding]) -> str:
    named = _by_workload(own, "same")
    if not named:
        return ""
    base, margin = own[0].baseline, percent(case.study.decide.margin)
    return f"Same as {base} within ±{margin}: {named}."


def _untold(case: RecommendationBasis, own: Sequence[Finding]) -> str:
    named = _by_workload(own, "cannot-tell")
    if not named:
        return ""
    limits = ", ".join(
        f"{_size(case.resolvable[workload])} ({workload})"
        for workload in _unique(f.workload for f in own if f.verdict == "cannot-tell")
        if workload in case.resolvable
    )
    limits = f"; smallest detectable difference {limits}" if limits else ""
    return f"Undecided: {named}{limits}. {_needed(own)}".rstrip()


def _needed(own: Sequence[Finding]) -> str:
    """What would tell all that cannot be told, in one sentence."""
    asked = [f.needs for f in own if f.verdict == "cannot-tell" and f.needs]
    near = [each for each in asked if each.blocks is not None]
    far = len(asked) - len(near)
    if not near:
        return f"{_verdicts(far)} more than {LAST:,} blocks." if far else ""
    most = max(near, key=lambda each: each.blocks or 0)
    cost = f"{most.blocks:,} blocks in all, about {format_wait(most.seconds or 0)} more"
    if far:
        return f"{_verdicts(len(near))} {cost}; {far} more than {LAST:,} blocks."
    return f"{_verdicts(len(near))} {cost}."


def _verdicts(count: int) -> str:
    return "A verdict needs" if count == 1 else f"Verdicts on {count} comparisons need"


def _guarded(case: RecommendationBasis, factor: Factor) -> str:
    """Guardrails that broke; and those still open for a level that is better."""
    own = _guardrails(case, factor)
    better = _levels([f for f in case.findings if f.factor == factor.name and f.primary], "better")
    broken = [f for f in own if f.verdict == "worse"]
    unsure = [f for f in own if f.verdict == "cannot-tell" and f.level in better]
    said = [
        f"{f.workload} {f.level} ({f.metric} {format_change(f.ratio)}, interval {_ends(f)})"
        for f in broken[:MOST]
    ]
    told = [f"Guardrail broken: {', '.join(said)}{_more(broken)}."] if broken else []
    if unsure:
        names = _unique(f"{f.workload} {f.level} ({f.metric})" for f in unsure[:MOST])
        told.append(f"Guardrail undecided: {', '.join(names)}{_more(unsure)}.")
    return " ".join(told)


def _guardrails(case: RecommendationBasis, factor: Factor) -> list[Finding]:
    return [f for f in case.findings if f.factor == factor.name and not f.primary]


def _more(findings: Sequence[Finding]) -> str:
    return f" and {len(findings) - MOST} more" if len(findings) > MOST else ""


def _lost(case: RecommendationBasis, factor: Factor) -> str:
    lost = [f"{workload} {level}" for workload, name, level in case.missing if name == factor.name]
    shown = ", ".join(lost[:MOST]) + (f" and {len(lost) - MOST} more" if len(lost) > MOST else "")
    return f" No valid trials to compare: {shown}." if lost else ""


def _by_workload(own: Sequence[Finding], verdict: Verdict) -> str:
    """``randread (kyber, bfq); seqwrite (all levels)``"""
    parts = []
    for workload in _unique(f.workload for f in own):
        there = [f for f in own if f.workload == workload]
        named = _levels(there, verdict)
        if named:
            every = len(named) == len(there) > 1
            parts.append(f"{workload} ({'all levels' if every else ', '.join(named)})")
    return "; ".join(parts)


def _named(factor: Factor, level: str) -> str:
    """``scheduler=none``: "keep none" alone would read as keeping nothing."""
    return f"{factor.name}={level}"


def _size(effect: float) -> str:
    if effect >= ABSURD:
        return f"more than {ABSURD}×"
    return f"{1 + effect:.1f}×" if effect >= 1 else format_change(1 + effect).lstrip("+")


def _levels(findings: Sequence[Finding], verdict: Verdict) -> list[str]:
    return _unique(f.level for f in findings if f.verdict == verdict)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
