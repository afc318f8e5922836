"""From races to findings: who is kept, dropped or the same, how that was seen, and how it went.

Each treatment is compared with the one that is kept; where that is not the baseline, the first
finding says how it compares with the baseline.  The verdict follows from the race alone: *worse*
was proven not to be the best, *same* lies within the margin of the kept one, and the rest is
*cannot-tell*.  Intervals are those of :mod:`iotrial.stats.race`; a dropped one's ends at 1.

While a race runs, the reference may change from look to look.  All differences are kept
(:class:`iotrial.stats.race.InterimLook`), so that the whole story is told against one reference:
what every look saw of the difference from the final kept one is exact, whoever led at that moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iotrial.model.finding import (
    Comparison,
    Finding,
    Place,
    RaceForecast,
    RaceResult,
    RaceTreatment,
    RequiredBlocks,
    Verdict,
)
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Guarantee
from iotrial.stats.blocks import SHARE, change_of
from iotrial.stats.critical import workload_confidence
from iotrial.stats.effects import baselines
from iotrial.stats.levels import race_knees
from iotrial.stats.race import WorkloadRace, ahead, raced
from iotrial.stats.recommend import left_out_of_race
from iotrial.stats.verdict import LAST, verdict
from iotrial.units import format_change, format_noise, format_wait, percent


@dataclass(frozen=True, slots=True)
class _TrialTimes:
    """What the trials of one workload took: ``seconds`` of wall time, ``each`` per trial; and
    what the study has ``left`` of its budget (infinite: it has none)."""

    seconds: float
    each: float
    left: float


def took(results: Results, workload: str) -> _TrialTimes:
    """Of all its trials, those that do not count too."""
    spent = [(r.trial.workload, r.seconds + r.prepared) for r in results.records]
    own = [seconds for name, seconds in spent if name == workload]
    budget = results.study.design.budget or math.inf
    left = budget - math.fsum(seconds for _, seconds in spent)
    return _TrialTimes(math.fsum(own), math.fsum(own) / max(len(own), 1), left)


def story(
    each: WorkloadRace, findings: Sequence[Finding], cost: _TrialTimes, most_blocks: int
) -> RaceResult:
    """``findings`` are the race's, one for each treatment but the kept one, in their order;
    ``most_blocks`` is the study's."""
    race = each.race
    told = iter(findings)
    return RaceResult(
        each.workload,
        each.metric,
        each.label(race.kept),
        race.decided,
        race.blocks,
        race.trials,
        cost.seconds,
        tuple(
            _racer(each, number, None if number == race.kept or not race.looks else next(told))
            for number in range(len(each.cells))
        ),
        tuple(look.block for look in race.looks),
        tuple(each.label(look.kept) for look in race.looks),
        half(each),
        _ahead(each, cost, most_blocks),
    )


def half(each: WorkloadRace) -> float | None:
    """The widest half interval at the last look, as a relative difference."""
    if not each.race.looks:
        return None
    last = each.race.looks[-1]
    halves = [
        value
        for number, value in enumerate(last.half)
        if number != last.kept and math.isfinite(value)
    ]
    return change_of(max(halves)) if halves else None


def _racer(each: WorkloadRace, number: int, finding: Finding | None) -> RaceTreatment:
    race, standing = each.race, each.race.standing(number)
    place = _place(each, number)
    count = len(each.trials[number])
    after = standing.dropped or standing.settled
    if place == "kept":
        return RaceTreatment(each.label(number), place, 0, count, 1.0, 1.0, 1.0)
    if finding is None or not standing.blocks:
        return RaceTreatment(each.label(number), place, after, count, None, None, None)
    sign = 1 if each.higher else -1
    path = tuple(
        (look.block, sign * float(look.estimates[number, race.kept]), float(width))
        for look in race.looks
        if math.isfinite(width := look.halves[number, race.kept])
    )
    return RaceTreatment(
        finding.level, place, after, count, finding.ratio, finding.low, finding.high, path
    )  # fmt: skip


def _place(each: WorkloadRace, number: int) -> Place:
    race, standing = each.race, each.race.standing(number)
    if standing.lost:
        return "lost"
    if each.broken[number]:
        return "guardrail"
    if standing.dropped:
        return "worse"
    if race.looks and number == race.kept:
        return "kept"
    if standing.settled:
        return "same" if standing.same else "not-better"
    return "open"


def _ahead(each: WorkloadRace, cost: _TrialTimes, most_blocks: int) -> RaceForecast | None:
    race = each.race
    need = ahead(race, each.terms)
    if not need:
        return None
    blocks = max(need.values())
    trials = sum(need.values()) + blocks
    allowed = most_blocks - race.blocks
    if math.isfinite(cost.left):
        a_block = max(cost.each * len(race.active), 1e-9)
        allowed = min(allowed, int(cost.left / a_block))
    return RaceForecast(blocks, trials, trials * cost.each, max(allowed, 0))


def needs(each: WorkloadRace, cost: _TrialTimes) -> dict[int, RequiredBlocks]:
    """Open treatment → what would tell it from the kept one: blocks until it is expected to be
    dropped or called the same, if difference and noise stay as they were seen
    (:mod:`iotrial.stats.race`); as long as the race would go on for it."""
    race, found = each.race, {}
    for number, more in ahead(race, each.terms).items():
        away = race.standing(number).estimate * (1 if each.higher else -1)
        within = abs(away) <= race.margin
        seconds = more * len(race.active) * cost.each
        difference = abs(change_of(race.margin if within else away))
        far = race.blocks + more >= LAST
        found[number] = (
            RequiredBlocks(difference, None, None, None, within)
            if far
            else RequiredBlocks(difference, race.blocks + more, more, seconds, within)
        )
    return found


def price(told: RaceResult) -> str:
    """What could be seen in the end, and what going on would cost."""
    words = ""
    if told.half is not None:
        words = f"The widest interval at the end is ±{format_change(1 + told.half)[1:]}."
    if told.ahead is None:
        return words
    more = told.ahead
    words += (
        f" The undecided treatments need about {more.blocks} more blocks at the observed noise:"
        f" {more.trials} trials, {format_wait(more.seconds)}."
    )
    if more.allowed < more.blocks:
        left = f"only {more.allowed} more" if more.allowed else "no more"
        words += (
            f" The study allows {left}: extend it, or raise [design] blocks or budget in a new one."
        )
    return words.strip()


# -- findings -------------------------------------------------------------------------------------

MOST = 4
"""Treatments spelt out in a sentence."""


def judge_race(results: Results) -> Comparison:
    """The findings of a study that is a race, in its workloads' order."""
    return told(results, races_of(results))


def races_of(results: Results) -> tuple[WorkloadRace, ...]:
    """The races of a study over all its treatments."""
    study = results.study
    # Also what was not planned yet: of a large grid, most of it, and none of it may go unsaid.
    cells = {workload.name: study.treatments(workload.name) for workload in study.judged}
    return raced(study, cells, results.records, baselines(results))


def told(results: Results, races: tuple[WorkloadRace, ...]) -> Comparison:
    """What these races come to."""
    study = results.study
    findings = tuple(
        finding for each in races for finding in _findings(each, took(results, each.workload))
    )
    stories = tuple(
        story(
            each,
            _against_kept(each),
            took(results, each.workload),
            study.design.blocks,
        )
        for each in races
    )
    words = " ".join(
        f"{_words(each, study.decide.margin, one.seconds)} {price(one)}".rstrip()
        for each, one in zip(races, stories, strict=True)
    )
    return Comparison(
        study.question,
        findings,
        words or "No race: the study varies no factor.",
        _method(results, races),
        tuple((one.workload, one.half) for one in stories if one.half is not None),
        races=stories,
        knees=race_knees(results, races),
    )


def second_family(results: Results) -> tuple[Finding, ...]:
    """Every treatment against the one that is kept, in the metrics of the second family.

    The trials are those that the race made, the intervals those of a race by that metric: they
    hold at every look and for all pairs, so neither who is kept nor when it ended matters.
    """
    study = results.study
    asked = [
        (each, metric)
        for each in races_of(results)
        for workload, metric in study.decide.secondary
        if workload == each.workload and each.race.looks
    ]
    family = sum(len(each.cells) - 1 for each, _ in asked)
    found: list[Finding] = []
    for each, metric in asked:
        share = workload_confidence(study.decide.confidence, len(each.cells) - 1, family)
        rule = DecisionRule(
            ((each.workload, metric),),
            study.decide.margin,
            share,
            guarantee=study.decide.guarantee,
        )
        alone = replace(study, decide=rule)
        (other,) = raced(alone, {each.workload: each.cells}, results.records, baselines(results))
        found += _of_metric(each, other, study.decide.margin)
    return tuple(found)


def _of_metric(each: WorkloadRace, other: WorkloadRace, margin: float) -> Iterator[Finding]:
    """``other`` is the same race as another metric sees it."""
    kept, sign = each.race.kept, 1 if other.higher else -1
    for number in _others(each):
        middle, *ends, blocks = other.race.against(number, kept)
        if not blocks:
            continue
        low, high = (math.exp(end) for end in sorted(sign * end for end in ends))
        known = low > 0 and math.isfinite(high)
        yield Finding(
            each.workload,
            other.metric,
            each.factor,
            each.label(number),
            each.label(kept),
            math.exp(sign * middle),
            low if known else None,
            high if known else None,
            verdict(low, high, margin, higher_is_better=other.higher) if known else "cannot-tell",
            blocks,
            tuple(sorted({*other.trials[number], *other.trials[kept]})),
            primary=False,
            noise=other.race.sd,
            secondary=True,
        )


def _findings(each: WorkloadRace, cost: _TrialTimes) -> list[Finding]:
    race = each.race
    if not race.looks:
        return []
    open_ = needs(each, cost)
    found = {n: replace(_finding(each, n), needs=open_.get(n)) for n in _others(each)}
    told = [finding for finding in found.values() if finding.n]
    favourite = race.favourite
    if favourite is not None and favourite != race.kept:
        told.insert(0, _turned(found[favourite]))
    return told


def _against_kept(each: WorkloadRace) -> list[Finding]:
    """One for every other treatment, in their order; none before the first look."""
    return [_finding(each, number) for number in _others(each)] if each.race.looks else []


def _others(each: WorkloadRace) -> list[int]:
    return [number for number in range(len(each.cells)) if number != each.race.kept]


def _finding(each: WorkloadRace, number: int) -> Finding:
    """A treatment against the kept one, as ratios of the metric itself."""
    race, standing = each.race, each.race.standing(number)
    ends = [standing.low, standing.high]
    sign = 1 if each.higher else -1
    low, high = sorted(sign * end for end in ends)
    verdict: Verdict = "cannot-tell"
    if standing.same:
        verdict = "same"
    elif standing.dropped and not each.broken[number]:
        verdict = "worse"
    bounded = math.isfinite(low) and math.isfinite(high)
    return Finding(
        each.workload,
        each.metric,
        each.factor,
        each.label(number),
        each.label(race.kept),
        math.exp(sign * standing.estimate),
        math.exp(low) if bounded else None,
        math.exp(high) if bounded else None,
        verdict,
        standing.blocks,
        tuple(sorted({*each.trials[number], *each.trials[race.kept]})),
        noise=race.sd,
    )


def _turned(finding: Finding) -> Finding:
    """The kept treatment against the baseline."""
    opposite: dict[Verdict, Verdict] = {"worse": "better"}
    return Finding(
        finding.workload,
        finding.metric,
        finding.factor,
        finding.baseline,
        finding.level,
        1 / finding.ratio,
        None if finding.high is None else 1 / finding.high,
        None if finding.low is None else 1 / finding.low,
        opposite.get(finding.verdict, finding.verdict),
        finding.n,
        finding.trials,
        noise=finding.noise,
        needs=finding.needs,
    )


def _words(each: WorkloadRace, margin: float, seconds: float) -> str:
    """What to keep, what it took, and what is left open."""
    race = each.race
    kept = _named(each, race.kept)
    if not race.looks:
        return f"{each.workload}: no claim possible: too few blocks with valid trials."
    standing = {n: race.standing(n) for n in range(len(each.cells))}
    dropped = [n for n, s in standing.items() if s.dropped and not each.broken[n]]
    same = [n for n, s in standing.items() if s.same]
    below = [n for n, s in standing.items() if s.settled and not s.same]
    still = [n for n in race.active if n != race.kept and standing[n].blocks]
    untried = [n for n in race.active if not standing[n].blocks]
    lost = [n for n, s in standing.items() if s.lost]
    tried = f"after {race.blocks} blocks, {race.trials} trials and {format_wait(seconds)}"
    lead = _lead(each, kept, same + below, lost, margin)
    parts = [f"{each.workload}: {lead}, {tried}."]
    if dropped:
        parts.append(f"Worse: {_listed(each, dropped)}.")
    if same:
        parts.append(f"Same within {percent(margin)}: {_listed(each, same)}.")
    if below:
        told = _listed(each, below)
        parts.append(f"Not better by more than {percent(margin)}, perhaps worse: {told}.")
    if still:
        parts.append(f"Undecided: {_listed(each, still)}.")
    if untried:
        parts.append(f"Not measured yet: {len(untried)} of {len(each.cells)} treatments.")
    for number, names in enumerate(each.broken):
        if names:
            parts.append(
                f"Excluded for a broken guardrail: {each.label(number)} ({', '.join(names)})."
            )
    if lost:
        silent = ", ".join(map(each.label, lost))
        parts.append(f"Excluded, repeatedly without a valid trial: {silent}.")
    return " ".join(parts)


def _listed(each: WorkloadRace, numbers: list[int]) -> str:
    """The nearest to the kept one with their changes; the others are in the table."""
    near = sorted(numbers, key=lambda n: abs(each.race.standing(n).estimate))[:MOST]
    told = [f"{each.label(n)} ({_change(each, n)})" for n in near]
    more = f" and {len(numbers) - MOST} more" if len(numbers) > MOST else ""
    return ", ".join(told) + more


def _lead(each: WorkloadRace, kept: str, same: list[int], lost: list[int], margin: float) -> str:
    race = each.race
    if not race.decided:
        return f"best treatment not decided yet; {kept} leads"
    if race.kept in lost:
        return "best treatment not decided: no remaining treatment could be measured"
    return _decided(each, kept, same, margin) + (
        ", among the treatments with valid trials" if lost else ""
    )


def _decided(each: WorkloadRace, kept: str, same: list[int], margin: float) -> str:
    race = each.race
    if race.goal == "winner" and same:
        change = race.favourite is not None and race.favourite != race.kept
        lead = f"change {_named(each, race.favourite)} to {kept}: " if change else ""
        return f"{lead}no treatment is better than {kept} by more than {percent(margin)}"
    if race.favourite == race.kept:
        return f"no reason to change {kept}" if same else f"keep {kept}, it is best"
    if race.favourite in same:
        known = _named(each, race.favourite)
        return f"no reason to change {known}: the same as {kept} within {percent(margin)}"
    if same:
        return (
            f"no difference that matters (±{percent(margin)}) between {kept} and the"
            " treatments found the same"
        )
    if race.favourite is None:
        return f"{kept} is best"
    return f"change {_named(each, race.favourite)} to {kept}, it is best"


def _named(each: WorkloadRace, number: int | None) -> str:
    label = each.label(number or 0)
    return label if "=" in label else f"{each.factor}={label}"


def _change(each: WorkloadRace, number: int) -> str:
    finding = _finding(each, number)
    if finding.low is None or finding.high is None:
        return format_change(finding.ratio)
    ends = f"{format_change(finding.low)} … {format_change(finding.high)}"
    return f"{format_change(finding.ratio)}, interval {ends}"


def _method(results: Results, races: tuple[WorkloadRace, ...]) -> str:
    study = results.study
    sure, margin = percent(study.decide.confidence), percent(study.decide.margin)
    parts = [
        f"A race in randomised blocks, at most {study.design.blocks}.",
        f"{_HOW} {_INTERVALS[study.decide.guarantee]}",
        *([_WINNER] if study.decide.goal == "winner" else []),
        f"At {sure} confidence no claim is wrong, {_LOOKS[study.decide.guarantee]}.",
        f"The margin is ±{margin}.",
    ]
    if before := study.design.extended:
        parts.append(
            f"Extended after {', '.join(map(str, before))} blocks, with the results known: the"
            " error rate is unchanged, because the intervals hold at every look."
        )
    parts += left_out_of_race(results)
    if prior := study.design.prior:
        parts.append(
            f"Earlier results ({prior.folder}) set the order of measurement; they enter no"
            " estimate."
        )
    parts += [
        f"{each.workload}: {each.race.blocks} blocks, {each.race.trials} trials (a fixed design:"
        f" {each.race.blocks * len(each.cells)}), noise of one trial"
        f" {format_noise(each.race.sd)}."
        for each in races
        if each.race.looks
    ]
    return " ".join(parts)


_WINNER = (
    "The study asks for the winner: a treatment also rests once it is shown to be no more than the"
    " margin better than the kept one, and its verdict may stay open."
)
_HOW = (
    "After every block, from the third on, each treatment shown to be worse than the best is"
    " dropped, each treatment shown to be equivalent to the kept one rests,"
    " and the race ends when no treatment is undecided. Effects are ratios of geometric means from"
    " log response = block + treatment. Intervals are two-sided and hold for all pairs of"
    " treatments, whichever is kept and whichever is noisier:"
)
_LOOKS: dict[Guarantee, str] = {
    "normal": f"at any look up to block {LAST}",
    "exact": "at any look, whatever the noise",
}
_INTERVALS: dict[Guarantee, str] = {
    "normal": "the standard error of a pair is that of its own differences within blocks, at least"
    f" {percent(SHARE)} of that by the pooled noise. Dropping is a closed test of all pairs."
    " The interval of a dropped treatment ends at the kept one.",
    "exact": "they hold every difference against which bets on the signs of the pair's differences"
    " within blocks have not won (test martingales); an estimate outside is moved to the end."
    " The interval of a dropped treatment ends at the kept one.",
}
