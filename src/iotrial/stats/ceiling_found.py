"""What a search for the highest value came to: the ceiling, the curve below it, and its knee.

Verdict and intervals are those of the race among the finalists, on trials of its own
(:mod:`iotrial.stats.race_findings`).  What the race says of the best is one-sided: *no other
finalist is better by more than so much*; that is what it ends by, since which of two equals is
taken does not matter.

The front are the loads that no other beats in both rate and mean latency.  The knee is the one of
them that lies farthest above the straight line from the front's first to its last, both axes as
shares of their range: before it more load brings more rate than latency, after it more latency.

References:
    V. Satopää, J. Albrecht, D. Irwin and B. Raghavan (2011), Finding a "Kneedle" in a haystack:
    detecting knee points in system behavior, ICDCS Workshops, 166-171.
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144 (how much worse than the best at most).
    J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research 9, 383-387.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from iotrial.model.finding import Ceiling, Comparison, LoadPoint
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats.boundary import LAST, tails_at
from iotrial.stats.limits import Limits
from iotrial.stats.method import percent
from iotrial.stats.race_findings import told
from iotrial.stats.raced import Raced, raced
from iotrial.units import format_value

FEWEST = 2


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
    points = _points(valid, name)
    treatment = None if best is None else cells[best]
    at_best = [r for r in own if r.trial.treatment == treatment]
    known = _points(at_best, name)
    point = known[0] if known else None
    ends = _interval([v for r in at_best if (v := r.value(name))], study.decide.confidence)
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
        _knee(points, point),
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


def _points(records: Iterable[TrialRecord], name: str) -> tuple[LoadPoint, ...]:
    """Every load once, by latency; the front is marked."""
    operation = name.partition(".")[0]
    known: dict[Treatment, list[TrialRecord]] = {}
    for record in records:
        if record.value(name):
            known.setdefault(record.trial.treatment, []).append(record)
    points = [
        LoadPoint(
            treatment,
            _mean(each, name) or 0.0,
            _mean(each, f"{operation}.clat.mean"),
            _mean(each, f"{operation}.clat.p99"),
            len(each),
        )
        for treatment, each in known.items()
    ]
    points.sort(key=lambda point: (point.mean or math.inf, -point.rate))
    marked, most = [], 0.0
    for point in points:
        marked.append(replace(point, front=point.mean is not None and point.rate > most))
        most = max(most, point.rate)
    return tuple(marked)


def _mean(records: Sequence[TrialRecord], name: str) -> float | None:
    """Geometric mean over trials."""
    values = [value for record in records if (value := record.value(name)) and value > 0]
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def _interval(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Of the geometric mean, at all looks together; None for one trial."""
    logs = np.log(np.array(values))
    if len(logs) < FEWEST:
        return None
    tail = float(tails_at((1 - confidence) / 2, np.array([min(len(logs), LAST)]))[0])
    half = -float(stdtrit(len(logs) - 1, tail)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return math.exp(logs.mean() - min(half, 700.0)), math.exp(logs.mean() + min(half, 700.0))


def _knee(points: Sequence[LoadPoint], best: LoadPoint | None) -> LoadPoint | None:
    front = [p for p in points if p.front and p.mean and (best is None or p.rate <= best.rate)]
    if not front:
        return None
    (low, late), (least, most) = (
        (min(found), max(found) or 1.0)
        for found in ([p.mean or 0.0 for p in front], [p.rate for p in front])
    )

    def above(point: LoadPoint) -> float:
        rate = (point.rate - least) / ((most - least) or 1.0)
        return rate - ((point.mean or 0.0) - low) / ((late - low) or 1.0)

    return max(front, key=above)


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
            f"{percent(found.loss)} ({sure})."
        )
    elif found.racing > 1:
        parts.append("Cannot tell yet which of the finalists is best.")
    parts.append(f"{tried}, {found.racing} raced; of the others nothing is claimed.")
    if found.knee and found.knee.treatment != found.best.treatment:
        share = found.knee.rate / found.best.rate
        parts.append(
            f"The knee is {treatment_text(found.knee.treatment)}: {percent(share)} of that, "
            f"{_latency(found.knee)}."
        )
    return " ".join(parts)


def _nothing(found: Ceiling, tried: str) -> str:
    """No finalist: nothing kept the limit, or nothing gave a number."""
    late = [point for point in found.points if point.p99 is not None]
    if not found.limit or not late:
        return f"No load gave a number yet: {tried}."
    least = min(late, key=lambda point: point.p99 or math.inf)
    return (
        f"No load keeps {_limit(found)}: {tried}, the lowest p99 is "
        f"{format_value(least.p99 or 0.0, 's')}, at {treatment_text(least.treatment)} with "
        f"{format_value(least.rate, metric(found.metric).unit)}."
    )


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
