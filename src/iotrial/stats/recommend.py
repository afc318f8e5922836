"""The recommendation: an answer to the study's question in words, no firmer than the verdicts.

A level is recommended only where it is better for some workload, worse for none, and breaks no
guardrail.  Levels are compared with the baseline, never with each other, and the sentence says
so.  "Cannot tell" is always said, with what the data could have told and what would tell it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.finding import Finding, Verdict
from iotrial.model.study import Factor, Study
from iotrial.stats.boundary import LAST
from iotrial.stats.method import percent
from iotrial.units import ABSURD, format_change, format_wait

MOST = 4
"""Claims spelt out for a factor; the rest is in the table of findings."""
THROUGHPUT = ("iops", "bw", "rate")
TOLD = ("Change ", "Keep ", "Which ", "Guardrail ")
"""How sentences begin that nobody may miss: a level is better or worse, or at what price."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that a recommendation rests on.  ``resolvable`` is by workload; ``missing`` are
    (workload, factor, level) without data."""

    study: Study
    baselines: Mapping[str, str]
    findings: tuple[Finding, ...]
    resolvable: Mapping[str, float]
    missing: tuple[tuple[str, str, str], ...] = ()


def recommend(case: Case) -> str:
    """One short paragraph per factor of the study, in its order."""
    told = [_factor(case, factor) for factor in case.study.factors]
    return " ".join(part for part in told if part)


def _factor(case: Case, factor: Factor) -> str:
    own = [f for f in case.findings if f.factor == factor.name and f.primary]
    lost = _lost(case, factor)
    if not own:
        return f"No claim possible for {factor.name}: {_nothing(case, factor)}."
    if all(f.low is None for f in own):
        n = max(f.n for f in own)
        blocks = "block leaves" if n == 1 else "blocks, so incomplete, leave"
        return (
            f"No claim possible for {factor.name}: n = {n}, and {n} {blocks} no measure of "
            f"noise. Run at least 2 blocks, better 5.{lost}"
        )
    sentences = [
        _lead(case, factor, own) + _claims(case, own),
        _same(case, own),
        _untold(case, own),
        _guarded(case, factor),
    ]
    return " ".join(sentence for sentence in sentences if sentence) + lost


def _nothing(case: Case, factor: Factor) -> str:
    if any(name == factor.name for _, name, _ in case.missing):
        return f"no level shares a block with {case.baselines[factor.name]} in valid trials"
    return "it has no second level to compare"


def _lead(case: Case, factor: Factor, own: Sequence[Finding]) -> str:
    """What to do, in a few words."""
    base = _named(factor, case.baselines[factor.name])
    better, worse = _levels(own, "better"), _levels(own, "worse")
    broken = _levels(_guardrails(case, factor), "worse")
    good = [level for level in better if level not in worse and level not in broken]
    if good:
        return f"Change {base} to {_choice(own, good)}"
    if any(level in worse for level in better):
        return f"Which {factor.name} is best depends on the workload"
    if better:
        return f"Keep {base} unless the broken guardrail does not matter"
    return f"Keep {base}" if worse else _undecided(case, factor, own)


def _undecided(case: Case, factor: Factor, own: Sequence[Finding]) -> str:
    """What to do where nothing is better and nothing is worse."""
    base = _named(factor, case.baselines[factor.name])
    verdicts = {f.verdict for f in own}
    if verdicts == {"same"} and not any(name == factor.name for _, name, _ in case.missing):
        return f"Any {factor.name} will do"
    if verdicts == {"cannot-tell"}:
        return f"Cannot tell: no {factor.name} was shown to differ from {base}"
    return f"No reason to change {base}"


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


def _claims(case: Case, own: Sequence[Finding]) -> str:
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
    if finding.metric.rpartition(".")[2] in THROUGHPUT:
        return "faster" if up else "slower"
    return f"{'higher' if up else 'lower'} in {finding.metric}"


def _ends(finding: Finding) -> str:
    ends = (format_change(end or 1.0) for end in (finding.low, finding.high))
    return " … ".join(end.removesuffix(" %") for end in ends)


def _same(case: Case, own: Sequence[Finding]) -> str:
    named = _by_workload(own, "same")
    if not named:
        return ""
    base, margin = own[0].baseline, percent(case.study.decide.margin)
    return f"Same as {base} within ±{margin}: {named}."


def _untold(case: Case, own: Sequence[Finding]) -> str:
    named = _by_workload(own, "cannot-tell")
    if not named:
        return ""
    limits = ", ".join(
        f"{_size(case.resolvable[workload])} ({workload})"
        for workload in _unique(f.workload for f in own if f.verdict == "cannot-tell")
        if workload in case.resolvable
    )
    said = f"Cannot tell for {named}; these trials could tell differences from {limits} up."
    return f"{said} {_needed(own)}".rstrip()


def _needed(own: Sequence[Finding]) -> str:
    """What would tell all that cannot be told, in one sentence."""
    asked = [f.needs for f in own if f.verdict == "cannot-tell" and f.needs]
    near = [each for each in asked if each.blocks is not None]
    far = len(asked) - len(near)
    if not near:
        return f"To tell {_it(far)} would take more than {LAST:,} blocks." if far else ""
    most = max(near, key=lambda each: each.blocks or 0)
    cost = f"{most.blocks:,} blocks in all, about {format_wait(most.seconds or 0)} more"
    if far:
        return f"To tell {len(near)} of them would take {cost}; {far} more than {LAST:,} blocks."
    return f"To tell {_it(len(near))} would take {cost}."


def _it(count: int) -> str:
    return "it" if count == 1 else "them all"


def _guarded(case: Case, factor: Factor) -> str:
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
        told.append(f"Guardrail not settled: {', '.join(names)}{_more(unsure)}.")
    return " ".join(told)


def _guardrails(case: Case, factor: Factor) -> list[Finding]:
    return [f for f in case.findings if f.factor == factor.name and not f.primary]


def _more(findings: Sequence[Finding]) -> str:
    return f" and {len(findings) - MOST} more" if len(findings) > MOST else ""


def _lost(case: Case, factor: Factor) -> str:
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
