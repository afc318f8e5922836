"""How the intervals were made, in words, so that no number stands without its terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iotrial.model.results import Results
from iotrial.stats.blocks import Fit, Layout
from iotrial.stats.left_out import left_out
from iotrial.stats.simultaneous import Critical

HOW = {
    "t": "Student's t",
    "Dunnett": "Dunnett, exact",
    "Šidák": "Šidák's bound, slightly too wide",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What the intervals of one workload's primary metric rest on; ``of`` is what varies by the
    fit's sd."""

    workload: str
    layout: Layout
    fit: Fit
    critical: Critical | None
    unusable: int
    of: str = "one trial"


def method(results: Results, terms: Sequence[Terms], family: int) -> str:
    """Design, n, degrees of freedom, confidence, family, critical values and margin."""
    study = results.study
    parts = [_design(results), *map(_workload, terms)]
    if family:
        parts.append(
            f"Two-sided simultaneous {percent(study.decide.confidence)} intervals for the family "
            f"of all {family} primary {_plural(family, 'comparison')}; workloads share the "
            "confidence by their number of comparisons. Verdicts are read from the interval "
            f"alone, with a margin of ±{percent(study.decide.margin)}."
        )
    if study.decide.guardrails:
        parts.append(
            f"Guardrails: {percent(study.decide.confidence)} intervals, each by itself (t)."
        )
    parts += left_out(results)
    return " ".join(parts)


def percent(share: float) -> str:
    """0.95 → ``95 %``, 0.999 → ``99.9 %``."""
    return f"{share * 100:.6g} %"


_TRIED = {
    "full": "Randomised complete blocks",
    "fraction": "Randomised blocks of a fraction of the combinations",
    "one-at-a-time": "Randomised blocks of the baseline and each other level alone",
    "recorded": "Recorded runs",
}
_AVERAGED = {
    "full": " Each factor's effect is averaged over the levels of the others.",
    "fraction": " Each factor's effect is averaged over the levels of the others, and rests on the"
    " interactions that the fraction gives up being small.",
    "one-at-a-time": " Each factor's effect is seen with the others at their baseline only.",
}


def _design(results: Results) -> str:
    blocks = results.study.design.blocks
    text = (
        f"{_TRIED[results.study.design.kind]}: n = {blocks} {_plural(blocks, 'block')} planned, "
        f"{len(results.valid)} valid of {len(results.records)} trials done. "
        "Effects are ratios of geometric means to the baseline level, from the linear model "
        "log response = block + treatment of each workload."
    )
    if len(results.study.factors) > 1:
        text += _AVERAGED.get(results.study.design.kind, "")
    if results.study.design.stop == "decided":
        text += " Looked at after every block: the intervals hold at all looks together."
    text += _extended(results)
    hard = [factor.name for factor in results.study.factors if factor.hard]
    if hard:
        text += (
            f" {', '.join(hard)} changes least often: whole plots, judged against the spread "
            "between whole plots of a block."
        )
    return text


def _extended(results: Results) -> str:
    """What it means for the intervals that the study was extended."""
    if not (before := results.study.design.extended):
        return ""
    said = f" Extended after {_and(before)} blocks, when the results had been seen"
    if results.study.design.stop == "decided":
        return f"{said}: that changes nothing, for all looks were reckoned with from the beginning."
    return (
        f"{said}. One look had been planned, and going on after it is a second: from then on the "
        "intervals hold at all looks together (error spending, Lan and DeMets), are wider than "
        f"those of one look, and take the place of what was said after {before[0]} blocks. Taken "
        "together with that first report the error may be somewhat more than "
        f"{percent(1 - results.study.decide.confidence)} (docs/deciding.md has numbers)."
    )


def _and(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _workload(terms: Terms) -> str:
    n, trials = len(terms.layout.incidence), len(terms.layout.cell)
    text = f"{terms.workload}: n = {n} {_plural(n, 'block')}, {trials} trials"
    if terms.unusable:
        text += f", {terms.unusable} set aside (no positive value)"
    if not terms.critical:
        return f"{text}, 0 residual df, so no interval."
    noise = noise_text(float(terms.fit.sd))
    return (
        f"{text}, {terms.fit.df} residual df, noise of {terms.of} {noise}, "
        f"critical value {terms.critical.value:.3f} ({HOW[terms.critical.method]})."
    )


def noise_text(sd: float) -> str:
    """A standard deviation on the log scale as people say it: 0.049 → ``4.9 %``."""
    return f"{sd * 100:.2g} %"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
