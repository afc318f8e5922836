"""The ceiling: where the highest response of a grid is likely to be, and what a search came to.

*The search.*  A load is a cell of a grid: engine, block, jobs, depth, batch.  Its rate changes
smoothly along the ordered axes (in octaves) and by some share from engine to engine.  A Gaussian
process is laid through the logs of the rates measured so far; the next cell is the one whose
expected improvement over the best so far is largest; the search ends when no cell promises more
than :data:`WORTH` any more.  With a bound on latency, a second process is laid through the logs of
latency over the bound, and the improvement counts with the probability that the bound is kept.  The
order of measuring is all that rests on this model.  Nothing is claimed from it: who is best among
the finalists (:func:`finalists`) is decided by a race on fresh trials.

*What it came to.*  Verdict and intervals are those of that race
(:mod:`iotrial.stats.race_findings`).  What the race says of the best is one-sided: *no other
finalist is better by more than so much*; that is what it ends by, since which of two equals is
taken does not matter.

*The curve below it*: latency against load.  A load that raced is drawn from its deciding trials
alone: by the trial for which it was chosen it looks better than it is.  Every other load has that
one.  The front are the loads that no other beats in both rate and mean latency.  The knee is the
one of them that lies farthest above the straight line from the front's first to its last, both axes
as shares of their range: before it more load brings more rate than latency, after it more latency.
The interval of a load is that of its geometric mean.  Its noise is its own, and counts for no less
than a share of that of all loads with several trials; the interval is one load's own, and holds at
all looks together (:mod:`iotrial.stats.critical`).

References:
    D. R. Jones, M. Schonlau and W. J. Welch (1998), Efficient global optimization of expensive
    black-box functions, Journal of Global Optimization 13, 455-492 (expected improvement).
    M. Schonlau, W. J. Welch and D. R. Jones (1998), Global versus local search in constrained
    optimization of computer models, IMS Lecture Notes 34, 11-25 (probability of the constraint).
    C. E. Rasmussen and C. K. I. Williams (2006), *Gaussian Processes for Machine Learning*,
    chapters 2 and 5 (posterior, marginal likelihood).
    P. Z. G. Qian, H. Wu and C. F. J. Wu (2008), Gaussian process models for computer experiments
    with qualitative and quantitative factors, Technometrics 50, 383-396 (one correlation between
    any two levels).
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144 (how much worse than the best at most).
    V. Satopää, J. Albrecht, D. Irwin and B. Raghavan (2011), Finding a "Kneedle" in a haystack:
    detecting knee points in system behavior, ICDCS Workshops, 166-171.
    J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research 9, 383-387.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from iotrial.model.finding import Ceiling, Comparison, LoadPoint
from iotrial.model.measurement import metric
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats.blocks import Floats, Indices, ratio_of
from iotrial.stats.race import GuardrailLimits, WorkloadRace, mean_interval, raced
from iotrial.stats.race_findings import told
from iotrial.units import format_value, percent

WORTH = 0.0001
"""A search ends when no cell is expected to bring more than this share."""
DEPTH = math.log(3)
"""Rates below a third of the best are all alike: how bad they are says nothing of the best."""
OVER = math.log(8)
"""The same of latencies beyond the bound by more than this factor, on either side."""
SURE = 0.02
"""Where nothing kept the bound yet, the search gives up when no cell keeps it with more than this
probability."""
WINDOW = 0.06
"""A finalist was at most this share below the best when it was measured once."""
MOST_FINALISTS = 4
MOST_CENTRES = 8
SPREAD = 8
INNER = 0.4
"""So far from the middle, of an axis of length 1, a search begins at most."""
NOMINAL = 0.25
"""How far two levels without an order are apart, beside axes of length 1."""
FEWEST = 2
SAFE = 0.85
"""With a bound, one finalist at least was below this share of it."""
_REACH = (1.5, 4.0, 10.0)
"""How many octaves two cells may be apart and still tell of one another."""
_ALIKE = (0.6, 0.9, 0.98)
"""Correlation of two levels without an order."""
_SWEEPS = 4
_SUMS = (0.0, 0.6)
"""Share of the surface that is a sum over the axes."""
_NOISE = (1e-4, 2e-3, 2e-2)
"""Variance of a trial's noise, over that of the surface."""


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """A cell that was measured: ``rate`` and ``latency`` in base units; 0 where it gave none."""

    rate: float
    latency: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class CellGrid:
    """``places`` (cells, axes): in octaves along ordered axes, the level's number along others;
    ``ordered`` says which.  ``bound`` on the latency in seconds, infinite for none."""

    places: Floats
    ordered: tuple[bool, ...]
    bound: float = math.inf


def start(grid: CellGrid) -> tuple[int, ...]:
    """The cells that the search begins with: for each combination of levels without an order
    (:data:`MOST_CENTRES` at most) the one in the middle of all others, then :data:`SPREAD` that
    lie far from all these, though not at the edges."""
    low, high = grid.places.min(axis=0), grid.places.max(axis=0)
    places = np.where(high > low, (grid.places - low) / np.where(high > low, high - low, 1.0), 0.5)
    nominal = [axis for axis, each in enumerate(grid.ordered) if not each]
    places[:, nominal] = (grid.places[:, nominal] > 0) * NOMINAL
    inner = np.abs(places - 0.5).max(axis=1, initial=0.0, where=np.array(grid.ordered)) <= INNER
    ordered = [axis for axis, each in enumerate(grid.ordered) if each]
    away = np.abs(places[:, ordered] - 0.5).sum(axis=1)
    kinds: dict[tuple[float, ...], list[int]] = {}
    for cell in range(len(places)):
        kinds.setdefault(tuple(grid.places[cell, nominal].tolist()), []).append(cell)
    chosen = [
        min(cells, key=lambda cell: (round(float(away[cell]), 9), cell))
        for cells in list(kinds.values())[:MOST_CENTRES]
    ]
    left = [cell for cell in np.flatnonzero(inner).tolist() if cell not in chosen]
    while left and len(chosen) < min(len(kinds), MOST_CENTRES) + SPREAD:
        apart = [float(np.abs(places[chosen] - places[cell]).sum(axis=1).min()) for cell in left]
        chosen.append(left.pop(int(np.argmax(apart))))
    return tuple(dict.fromkeys(chosen))


def next_cell(grid: CellGrid, seen: Mapping[int, MeasuredCell]) -> int | None:
    """The cell to measure next; None when the search is over.

    ``seen`` has at least two cells.  Pure: the same answer for the same numbers.
    """
    left = np.array([cell for cell in range(len(grid.places)) if cell not in seen], dtype=np.intp)
    known = np.array(sorted(seen), dtype=np.intp)
    if not len(left) or not any(each.rate for each in seen.values()):
        return None
    chance = np.ones(len(left))
    kept = [cell for cell in known.tolist() if keeps(grid, seen[cell])]
    if math.isfinite(grid.bound):
        chance = _chance(grid, seen, known, left)
        if not kept:
            best = int(np.argmax(chance))
            return int(left[best]) if chance[best] > SURE else _gentlest(grid, left)
    rates = _rates(seen, known)
    everything = np.concatenate([left, known])
    middle, spread = _posterior(grid, known, rates, everything)
    held = np.isin(known, kept)
    best_so_far = float(middle[len(left) :][held].max())
    gain = _improvement(middle[: len(left)], spread[: len(left)], best_so_far) * chance
    best = int(np.argmax(gain))
    return int(left[best]) if gain[best] > WORTH else None


def keeps(grid: CellGrid, seen: MeasuredCell) -> bool:
    """Whether a cell was measured within the bound."""
    return seen.rate > 0 and seen.latency <= grid.bound


def finalists(grid: CellGrid, seen: Mapping[int, MeasuredCell]) -> tuple[int, ...]:
    """The cells that the race is among, the likeliest best first: all within :data:`WINDOW` of
    it, two at least and :data:`MOST_FINALISTS` at most, as far as so many kept the bound.  One
    that kept it by luck is found out in the race."""
    kept = [cell for cell, each in seen.items() if keeps(grid, each)]
    if len(kept) < FEWEST:
        return tuple(kept)
    known = np.array(sorted(seen), dtype=np.intp)
    middle, _ = _posterior(grid, known, _rates(seen, known), known)
    likely = dict(zip(known.tolist(), middle.tolist(), strict=True))
    kept.sort(key=lambda cell: (-likely[cell], cell))
    least = likely[kept[0]] - WINDOW
    near = [cell for cell in kept if likely[cell] >= least]
    chosen = near[:MOST_FINALISTS] if len(near) > 1 else kept[:FEWEST]
    safe = [cell for cell in kept if seen[cell].latency <= grid.bound * SAFE]
    if safe and not set(safe) & set(chosen):
        chosen = [*chosen[: MOST_FINALISTS - 1], safe[0]]
    return tuple(chosen)


def _gentlest(grid: CellGrid, left: Indices) -> int | None:
    """The lowest of the cells that were not measured, where it is the lowest of all that have its
    levels on the axes without an order."""
    nominal = [axis for axis, each in enumerate(grid.ordered) if not each]
    load = grid.places[:, [axis for axis, each in enumerate(grid.ordered) if each]].sum(axis=1)
    for cell in left[np.argsort(load[left], kind="stable")].tolist():
        alike = (grid.places[:, nominal] == grid.places[cell, nominal]).all(axis=1)
        if load[cell] <= load[alike].min():
            return int(cell)
    return None


def _rates(seen: Mapping[int, MeasuredCell], known: Indices) -> Floats:
    best = max(each.rate for each in seen.values())
    found = [math.log(max(seen[cell].rate, 1e-300) / best) for cell in known.tolist()]
    rates: Floats = np.maximum(np.array(found), -DEPTH)
    return rates


def _chance(
    grid: CellGrid,
    seen: Mapping[int, MeasuredCell],
    known: Indices,
    left: Indices,
) -> Floats:
    """The probability that each cell of ``left`` keeps the bound."""
    over = np.array([
        math.log(seen[cell].latency / grid.bound) if seen[cell].latency else OVER
        for cell in known.tolist()
    ])  # fmt: skip
    middle, spread = _posterior(grid, known, np.clip(over, -OVER, OVER), left)
    found: Floats = ndtr(-middle / spread)
    return found


def _improvement(middle: Floats, spread: Floats, best: float) -> Floats:
    above = middle - best
    scaled = above / spread
    density = np.exp(-0.5 * scaled**2) / math.sqrt(2 * math.pi)
    found: Floats = above * ndtr(scaled) + spread * density
    return found


def _posterior(
    grid: CellGrid, known: Indices, values: Floats, asked: Indices
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the surface at ``asked``, by a likely process."""
    best = _likeliest(grid, known, values)
    if best is None:  # all values alike
        return np.full(len(asked), values.mean()), np.full(len(asked), 1e-9)
    parts = [_along(grid, axis, asked, known, each) for axis, each in enumerate(best.reach)]
    cross = _together(parts, best.shared)
    middle: Floats = best.level + cross @ best.weights
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(best.noisy, cross.T))
    variance: Floats = best.size * np.maximum(1.0 - explained, 1e-9)
    return middle, np.sqrt(variance)


@dataclass(frozen=True, slots=True, eq=False)
class _Process:
    """A process laid through what was measured: its reach along each axis, the share of sums, and
    the level and size that are likeliest for them.  ``noisy`` (known, known) are its correlations
    with the noise of a trial, ``weights`` those of the values."""

    likelihood: float
    reach: tuple[float, ...]
    shared: float
    level: float
    size: float
    noisy: Floats
    weights: Floats


def _likeliest(grid: CellGrid, known: Indices, values: Floats) -> _Process | None:
    """The choices are improved one after the other, until none changes."""
    flat = grid.places.min(axis=0) == grid.places.max(axis=0)
    reaches: list[tuple[float, ...]] = [
        (1.0,) if still else _REACH if ordered else _ALIKE
        for ordered, still in zip(grid.ordered, flat.tolist(), strict=True)
    ]
    choices = [*reaches, _SUMS, _NOISE]
    along = [
        {each: _along(grid, axis, known, known, each) for each in some}
        for axis, some in enumerate(reaches)
    ]

    @functools.cache
    def fitted(picked: tuple[float, ...]) -> _Process | None:
        *reach, shared, noise = picked
        near = _together([part[each] for part, each in zip(along, reach, strict=True)], shared)
        return _fit(near + noise * np.eye(len(known)), values, (tuple(reach), shared))

    def likelihood(picked: tuple[float, ...]) -> float:
        found = fitted(picked)
        return found.likelihood if found else -math.inf

    now = tuple(some[len(some) // 2] for some in choices)
    for _ in range(_SWEEPS):
        before = now
        for place, some in enumerate(choices):
            others = [(*now[:place], each, *now[place + 1 :]) for each in some]
            now = max(others, key=likelihood)
        if now == before:
            break
    return fitted(now)


def _fit(noisy: Floats, values: Floats, choice: tuple[tuple[float, ...], float]) -> _Process | None:
    count = len(values)
    ones, solved = np.linalg.solve(noisy, np.stack([np.ones(count), values], axis=1)).T
    level = float(solved.sum() / ones.sum())
    weights: Floats = solved - level * ones
    size = float((values - level) @ weights) / count
    if not size > 0:
        return None
    likelihood = -0.5 * (count * math.log(size) + float(np.linalg.slogdet(noisy)[1]))
    return _Process(likelihood, *choice, level, size, noisy, weights)


def _together(parts: Sequence[Floats], shared: float) -> Floats:
    """The correlation of cells from those along each axis: a part of the surface is the sum of
    what each axis does by itself, the rest is what they do together."""
    product = functools.reduce(np.multiply, parts)
    if not shared:
        return product
    found: Floats = shared * sum(parts) / len(parts) + (1 - shared) * product
    return found


def _along(
    grid: CellGrid,
    axis: int,
    one: Indices,
    other: Indices,
    reach: float,
) -> Floats:
    """(one, other): Matérn 5/2 along an ordered axis, one correlation along others."""
    apart = np.abs(grid.places[one, axis][:, None] - grid.places[other, axis][None, :])
    if not grid.ordered[axis]:
        return np.where(apart > 0, reach, 1.0)
    far = math.sqrt(5) * apart / reach
    found: Floats = (1 + far + far**2 / 3) * np.exp(-far)
    return found


# -- the curve below it ---------------------------------------------------------------------------

SEVERAL = 2


def load_points(
    records: Iterable[TrialRecord], name: str, final: str, confidence: float
) -> tuple[LoadPoint, ...]:
    """Every load of ``records`` (valid ones) once, by mean latency; the front is marked.

    ``name`` is the metric of the rate, ``final`` the workload of the deciding trials.
    """
    operation = name.partition(".")[0]
    known: dict[Treatment, list[TrialRecord]] = {}
    for record in records:
        if record.value(name):
            known.setdefault(record.trial.treatment, []).append(record)
    for treatment, each in known.items():
        known[treatment] = [r for r in each if r.trial.workload == final] or each
    rates = _Noise([_logs_of(each, name) for each in known.values()], confidence)
    means = _Noise(
        [_logs_of(each, f"{operation}.clat.mean") for each in known.values()], confidence
    )
    points = [
        LoadPoint(
            treatment,
            _mean(each, name) or 0.0,
            _mean(each, f"{operation}.clat.mean"),
            _mean(each, f"{operation}.clat.p99"),
            len(each),
            rates=rates.interval(_logs_of(each, name)),
            means=means.interval(_logs_of(each, f"{operation}.clat.mean")),
        )
        for treatment, each in known.items()
    ]
    points.sort(key=lambda point: (point.mean or math.inf, -point.rate))
    marked, most = [], 0.0
    for point in points:
        marked.append(replace(point, front=point.mean is not None and point.rate > most))
        most = max(most, point.rate)
    return tuple(marked)


def knee(points: Sequence[LoadPoint], best: LoadPoint | None) -> LoadPoint | None:
    """The knee of the front, up to the ``best`` load."""
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


def _logs_of(records: Sequence[TrialRecord], name: str) -> list[float]:
    return [math.log(v) for record in records if (v := record.value(name)) and v > 0]


def _mean(records: Sequence[TrialRecord], name: str) -> float | None:
    """Geometric mean over trials."""
    logs = _logs_of(records, name)
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


class _Noise:
    """The noise of one trial on the log scale, from loads that have several."""

    def __init__(self, loads: Sequence[Sequence[float]], confidence: float) -> None:
        self._loads = [each for each in loads if len(each) >= SEVERAL]
        self._error = 1 - confidence

    def interval(self, logs: Sequence[float]) -> tuple[float, float] | None:
        """Of the geometric mean; None for one trial, and where the noise is unknown."""
        found = mean_interval(logs, self._loads, self._error)
        return None if found is None else (ratio_of(found[0]), ratio_of(found[1]))


# -- what it came to ------------------------------------------------------------------------------


def judge_ceiling(results: Results) -> Comparison:
    """The race among the finalists, and in words and as data what it says of the ceiling."""
    study = results.study
    name = study.judged[1].name
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


def as_good(each: WorkloadRace) -> bool:
    """Whether no finalist that is still in the race can be better than the kept one by more than
    the margin."""
    bound = loss(each)
    return bound is not None and bound <= math.expm1(each.race.margin)


def loss(each: WorkloadRace) -> float | None:
    """How much higher than the kept one another finalist may be at most, as a fraction; None
    while nobody can tell.  One that may not be kept yet, for a limit, counts as well."""
    race = each.race
    if not race.looks or race.kept in race.waiting or each.broken[race.kept]:
        return None
    # Also those that rest, since they are the same: they may be better by up to the margin.
    others = [race.standing(number) for number in range(race.size) if number != race.kept]
    highest = max((one.high for one in others if not one.dropped and not one.lost), default=0.0)
    return math.expm1(max(highest, 0.0)) if math.isfinite(highest) else None


def _ceiling(
    results: Results, cells: Sequence[Treatment], races: tuple[WorkloadRace, ...]
) -> Ceiling:
    study = results.study
    search, final = study.judged[0].name, study.judged[1].name
    name = study.decide.leading[final]
    valid = [record for record in results.records if record.state == "valid"]
    own = [record for record in valid if record.trial.workload == final]
    limits = GuardrailLimits(study.decide.limits, study.decide.confidence, len(cells))
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


def _kept(
    cells: Sequence[Treatment], races: tuple[WorkloadRace, ...], limits: GuardrailLimits
) -> int | None:
    """The finalist that is kept; none where every one of them exceeds the limit."""
    if not races:
        return 0 if len(cells) == 1 and not limits.broken(0) else None
    each = races[0]
    left = [number for number in range(len(cells)) if not each.broken[number]]
    if each.race.looks and each.race.kept in left:
        return each.race.kept
    return left[0] if left else None


_SEARCH = (
    "A search: single trials, each at the load with the largest expected improvement of a"
    " Gaussian process fitted to the rates so far; no claim rests on them. Then, on new trials:"
)


def _words(results: Results, found: Ceiling) -> str:
    limit = _limit(found)
    tried = f"{found.searched} of {found.of} loads tested"
    if found.best is None:
        if not found.racing:
            return _nothing(found, tried)
        return f"No load was shown to keep {limit}: {tried}, {found.racing} raced."
    unit = metric(found.metric).display_unit
    rate = f"{format_value(found.best.rate, unit)}{_between(found, unit)}"
    best = treatment_text(found.best.treatment)
    parts = [f"{best} reaches {rate}, {_latency(found.best)}."]
    if found.limit and not found.kept:
        parts.append(f"Not decided whether it keeps {limit}{_late(found)}.")
    elif found.limit:
        parts.append(f"It keeps {limit}{_late(found)}.")
    sure = percent(results.study.decide.confidence)
    if found.loss is not None:
        parts.append(
            f"None of the other {found.racing - 1} finalists is better by more than "
            f"{percent(math.ceil(found.loss * 1000) / 1000)} ({sure})."
        )
    elif found.racing > 1:
        parts.append("The best of the finalists is not decided yet.")
    parts.append(f"{tried}, {found.racing} raced; no claim about the others.")
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
        return f"No load has a result yet: {tried}."
    late = [point for point in found.points if point.p99 is not None]
    least = min(late, key=lambda point: point.p99 or math.inf, default=None)
    limit = found.limit[1] if found.limit else math.inf
    if least is None or (least.p99 or 0.0) <= limit:
        most = max(found.points, key=lambda point: point.rate)
        return (
            f"No decision yet: {tried}, each in a single trial; {treatment_text(most.treatment)}"
            f" reached {_rate(found, most)}."
        )
    return (
        f"No load keeps {_limit(found)}: {tried}, the lowest p99 is "
        f"{format_value(least.p99 or 0.0, 's')}, at {treatment_text(least.treatment)} with "
        f"{_rate(found, least)}."
    )


def _rate(found: Ceiling, point: LoadPoint) -> str:
    return format_value(point.rate, metric(found.metric).display_unit)


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
