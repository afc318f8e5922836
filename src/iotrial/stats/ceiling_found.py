"""What a search for the highest value came to: the ceiling, and in words what is known of it.

Verdict and intervals are those of the race among the finalists, on trials of its own
(:mod:`iotrial.stats.race_findings`).  What the race says of the best is one-sided: *no other
finalist is better by more than so much*; that is what it ends by, since which of two equals is
taken does not matter.

The curve below it is :mod:`iotrial.stats.load_curve`'s.

References:
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144 (how much worse than the best at most).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iotrial.model.finding import Ceiling, Comparison, LoadPoint
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, treatment_text
from iotrial.stats.limits import Limits
from iotrial.stats.load_curve import knee, load_points
from iotrial.stats.method import percent
from iotrial.stats.race_findings import told
from iotrial.stats.raced import Raced, raced
from iotrial.units import format_value


def judge_ceiling(results: Results) -> Comparison:
    """The race among the finalists, and in words and as data what it says of the ceiling."""
    study = results.study
    name = study.workloads[1].name
    racing = {trial.treatment for trial in results.planned if trial.workload == name}
    cells = tuple(cell for cell in study.treatments(name) if cell in racing)
    races = raced(study, {name: cells}, results.records)
    comparison = told(results, races)
    found = _ceiling(results, cells, races)
    return replace(
        comparison,
        recommendation=_words(results, found),
        method=f"{_SEARCH} {comparison.method if races else ''}".strip(),
        ceiling=found,
    )


def as_good(each: Raced) -> bool:
    """Whether no finalist that is still in the race can be better than the kept one by more than
    the margin."""
    bound = loss(each)
    return bound is not None and bound <= math.expm1(each.race.margin)


def loss(each: Raced) -> float | None:
    """How much higher than the kept one another finalist may be at most, as a fraction; None
    while nobody can tell.  One that may not be kept yet, for a limit, counts as well."""
    race = each.race
    if not race.looks or race.kept in race.waiting or each.broken[race.kept]:
        return None
    others = [number for number in race.active if number != race.kept]
    highest = max((race.standing(number).high for number in others), default=0.0)
    return math.expm1(max(highest, 0.0)) if math.isfinite(highest) else None


def _ceiling(results: Results, cells: Sequence[Treatment], races: tuple[Raced, ...]) -> Ceiling:
    study = results.study
    search, final = study.workloads[0].name, study.workloads[1].name
    name = dict(study.decide.primary)[final]
    valid = [record for record in results.records if record.state == "valid"]
    own = [record for record in valid if record.trial.workload == final]
    limits = Limits(study.decide.limits, study.decide.confidence, len(cells))
    for record in own:
        if record.trial.treatment in cells:
            limits.add(cells.index(record.trial.treatment), record)
    best = _kept(cells, races, limits)
    limit = study.decide.limits[0] if study.decide.limits else None
    points = load_points(valid, name, final, study.decide.confidence)
    decided = {record.trial.treatment for record in own if record.value(name)}
    treatment = None if best is None or cells[best] not in decided else cells[best]
    point = next((each for each in points if each.treatment == treatment), None)
    ends = point.rates if point else None
    return Ceiling(
        name,
        point,
        ends[0] if ends else None,
        ends[1] if ends else None,
        loss(races[0]) if races and point else None,
        limit,
        limits.interval(best, limit[0]) if limit and best is not None else None,
        bool(point) and best is not None and (not limit or limits.kept(best)),
        points,
        knee(points, point),
        len({r.trial.treatment for r in results.records if r.trial.workload == search}),
        len(study.treatments(final)),
        len(cells),
    )


def _kept(cells: Sequence[Treatment], races: tuple[Raced, ...], limits: Limits) -> int | None:
    """The finalist that is kept; none where every one of them exceeds the limit."""
    if not races:
        return 0 if len(cells) == 1 and not limits.broken(0) else None
    each = races[0]
    left = [number for number in range(len(cells)) if not each.broken[number]]
    if each.race.looks and each.race.kept in left:
        return each.race.kept
    return left[0] if left else None


_SEARCH = (
    "A search: single trials, each where a Gaussian process laid through the rates so far expects "
    "most (expected improvement); nothing is claimed from them. Then, on fresh trials:"
)


def _words(results: Results, found: Ceiling) -> str:
    limit = _limit(found)
    tried = f"{found.searched} of {found.of} loads tried"
    if found.best is None:
        if not found.racing:
            return _nothing(found, tried)
        return f"No load is known to keep {limit}: {tried}, {found.racing} raced."
    unit = metric(found.metric).unit
    rate = f"{format_value(found.best.rate, unit)}{_between(found, unit)}"
    best = treatment_text(found.best.treatment)
    parts = [f"{best} reaches {rate}, {_latency(found.best)}."]
    if found.limit and not found.kept:
        parts.append(f"Cannot tell whether it keeps {limit}{_late(found)}.")
    elif found.limit:
        parts.append(f"It keeps {limit}{_late(found)}.")
    sure = percent(results.study.decide.confidence)
    if found.loss is not None:
        parts.append(
            f"None of the other {found.racing - 1} finalists is better by more than "
            f"{percent(math.ceil(found.loss * 1000) / 1000)} ({sure})."
        )
    elif found.racing > 1:
        parts.append("Cannot tell yet which of the finalists is best.")
    parts.append(f"{tried}, {found.racing} raced; of the others nothing is claimed.")
    if found.knee and found.knee.treatment != found.best.treatment:
        share = found.knee.rate / found.best.rate
        parts.append(
            f"The knee is {treatment_text(found.knee.treatment)}: {percent(round(share, 2))} of "
            f"that, {_latency(found.knee)}."
        )
    return " ".join(parts)


def _nothing(found: Ceiling, tried: str) -> str:
    """No finalist: nothing kept the limit, nothing gave a number, or the search was ended."""
    if not found.points:
        return f"No load gave a number yet: {tried}."
    late = [point for point in found.points if point.p99 is not None]
    least = min(late, key=lambda point: point.p99 or math.inf, default=None)
    limit = found.limit[1] if found.limit else math.inf
    if least is None or (least.p99 or 0.0) <= limit:
        most = max(found.points, key=lambda point: point.rate)
        return (
            f"Nothing is decided yet: {tried}, each by a single trial; in one of them "
            f"{treatment_text(most.treatment)} reached {_rate(found, most)}."
        )
    return (
        f"No load keeps {_limit(found)}: {tried}, the lowest p99 is "
        f"{format_value(least.p99 or 0.0, 's')}, at {treatment_text(least.treatment)} with "
        f"{_rate(found, least)}."
    )


def _rate(found: Ceiling, point: LoadPoint) -> str:
    return format_value(point.rate, metric(found.metric).unit)


def _limit(found: Ceiling) -> str:
    if not found.limit:
        return "no limit"
    return f"{found.limit[0]} ≤ {format_value(found.limit[1], 's')}"


def _between(found: Ceiling, unit: str) -> str:
    if found.low is None or found.high is None:
        return ""
    return f" ({format_value(found.low, unit)} … {format_value(found.high, unit)})"


def _late(found: Ceiling) -> str:
    if found.late is None:
        return ""
    return f" ({format_value(found.late[0], 's')} … {format_value(found.late[1], 's')})"


def _latency(point: LoadPoint) -> str:
    if point.p99 is None:
        return "latency unknown"
    return f"p99 {format_value(point.p99, 's')}"
