"""Change points of a study that is run again every night, with a stated rate of false alarms.

A series has a point a night: the mean of the logs of its trials.  Nights differ by more than their
trials do, neighbouring nights are alike, tails are heavy, and single nights are far off.  What is
wanted is a list of the places where the level changed, which may be read every night: of a hundred
series without a change, five may show one *at any of the looks of a year* (:data:`YEAR` points).

*The statistic.*  Before a night k lie the nights since the last change, from k on those until
today.  A center and a spread are taken from the nights before alone (Huber's proposal 2: what is
more than :data:`_CLIP` standard deviations away counts for so much), and the nights from k on are
clipped by the same measure.  T is the difference of the two means in standard errors (a CUSUM, as
the generalised likelihood ratio over all places has it).  No future night has a part in it, so that
each look can be done again later and says the same: what was told once stays told.  One wild night
counts for _CLIP at most, and nothing is told before three nights (:data:`FEWEST_AFTER`).  Where all
nights from k on lie farther away than that, T is taken from what they all exceed.

*Likeness of neighbours.*  The variance of a mean of nights is not that of a night over their
number.  Noise is taken to be a share a of a slowly wandering part (autocorrelation a·φʲ) and the
rest white, with (a, φ) from a grid that reaches from white to a wander of a month.  The
autocorrelations of the nights before, less the bias that a short series gives them, say how
plausible each of these is; the variance is a mean over all of them, in which the large ones count
more (a power mean).  So a short past is trusted little, and a long white one is nearly as good as
independent nights.

*The threshold* was found by simulation (:func:`threshold`): years of noise that is normal, of
Student's t with 3 degrees of freedom, with 2 % of wild nights, of unequal trials, autoregressive
with 0.6 and 0.8, and white with a slow wander.  At 5 % the share of years with a false alarm was 0
to 1 % in noise that is independent from night to night or autoregressive with 0.6, 4 % with 0.8.
Where a wander of three weeks makes three tenths of the variance it was 11 and 14 % (2 % with a
margin as large as the noise): the level does move there, and only a margin keeps that from being
told.  Errors below 1 % are
extrapolated.

*Weights.*  The variance of a night is that between nights and that of its trials over their number.
Nights that were invalid, or of which more than half of the trials are doubted, are left out.

*The margin.*  A change is told when T says that there is one, and the median of the nights after it
is beyond the margin by :data:`_BEYOND` standard errors.

*After a change* the search begins anew from it; spread and likeness of neighbours are kept.  Where
the change is, is then said from all nights between its neighbours: places weigh as their
likelihoods do, an interval holds 95 % of the weight.  How large it is, all nights of the series
say together (:mod:`iotrial.stats.steps`).

*Many series*: :func:`among` divides the error by their number (Bonferroni), or holds the expected
share of those without a change among all that are told to have one (Benjamini and Hochberg), where
the p of a series is the least error at which it would tell one.

References:
    E. S. Page (1954), Continuous inspection schemes, Biometrika 41, 100-115 (CUSUM).
    D. Siegmund and E. S. Venkatraman (1995), Using the generalized likelihood ratio statistic for
    sequential detection of a change-point, Annals of Statistics 23, 255-271.
    P. J. Huber (1964), Robust estimation of a location parameter, Annals of Mathematical Statistics
    35, 73-101 (proposal 2).
    F. H. C. Marriott and J. A. Pope (1954), Bias in the estimation of autocorrelations, Biometrika
    41, 390-402.
    C. S. J. Chu, M. Stinchcombe and H. White (1996), Monitoring structural change, Econometrica 64,
    1045-1065 (an error for all looks together).
    Y. Benjamini and Y. Hochberg (1995), Controlling the false discovery rate, JRSS B 57, 289-300.
    D. S. Matteson and N. A. James (2014), A nonparametric approach for multiple change point
    analysis, JASA 109, 334-345; M. Fleming et al. (2023), Hunter: using change point detection to
    hunt for performance regressions, ICPE 2023 (what benchmarks/history.py compares with).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from iotrial.stats import MAD_OF_NORMAL
from iotrial.stats.blocks import ARITHMETIC, Floats, Indices
from iotrial.stats.noise import CONFIDENCE, StandardDeviation
from iotrial.stats.steps import WANDERS, LogStep, log_steps

YEAR = 365
"""Points for which the error is stated."""
FEWEST = 10
"""Points from which a spread is taken, those of a yardstick counted."""
FEWEST_BEFORE = 5
"""Points before a change, at least."""
FEWEST_AFTER = 3
"""Points from which a change is told: two wild nights in a row are not one."""
FARTHEST = 90
"""Points after a change in which it is looked for."""
_CLIP = 3.0
_SHARE_OF_SQUARES = float(
    2 * ndtr(_CLIP)
    - 1
    - 2 * _CLIP * math.exp(-(_CLIP**2) / 2) / math.sqrt(2 * math.pi)
    + 2 * _CLIP**2 * ndtr(-_CLIP)
)
"""What clipping leaves of the variance of normal noise."""
_ROUNDS = 4
_BEYOND = 2.0
_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean."""
_PERHAPS = 3.0, 2
"""A change that may be: T, and points after it, at least."""

_WHITE = 0.3
"""How plausible white noise is beforehand."""
_LAGS = 20
_TRUST = 0.35
"""Autocorrelations of neighbouring lags are alike: less is known from them than from so many
independent ones, for which it would be 0.5."""
_POWER = 3.0

State = Literal["confirmed", "may be"]
Rule = Literal["each", "any", "share"]


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One night: ``mean`` and ``sd`` of the logs of ``trials`` trials, of which ``doubted`` are
    doubted; ``time`` in any unit."""

    time: float
    trials: int
    mean: float
    sd: float = math.nan
    doubted: int = 0
    valid: bool = True

    @property
    def counts(self) -> bool:
        return (
            self.valid
            and self.trials > 0
            and 2 * self.doubted <= self.trials
            and math.isfinite(self.mean)
        )


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """``first`` is the time of the first point after the change, which lies between ``earliest``
    and ``latest`` with 95 %; the level after it is ``ratio`` times that before.  ``told`` is the
    time of the point that confirmed it.  Of one that may be, ``more`` points like those after it
    would confirm it.  ``low`` and ``high`` hold the ratio with 95 %."""

    first: float
    earliest: float
    latest: float
    ratio: float
    low: float
    high: float
    state: State
    told: float | None = None
    more: int = 0


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """``changes`` in the order of time, one that may be last.  ``used`` points; ``left_out`` are
    the times of those that were not.  ``sd`` is the noise from night to night on the log scale
    (None: too few points), ``error`` the share of series without a change of which a change is told
    in :data:`YEAR` points, at most."""

    changes: tuple[HistoryChange, ...]
    used: int
    left_out: tuple[float, ...]
    sd: float | None
    error: float


def threshold(error: float) -> float:
    """How large T must be, so that so many series without a change have one in a year.

    >>> [round(threshold(error), 2) for error in (0.5, 0.05, 0.005)]
    [3.81, 5.4, 6.99]
    """
    return _AT[1] + math.log(_AT[0] / error) / _STEEP


def _error_at(value: float) -> float:
    return min(1.0, _AT[0] * math.exp(_STEEP * (_AT[1] - value)))


_AT = 0.05, 5.4
_STEEP = 1.45


def changes(
    points: Sequence[HistoryPoint],
    *,
    margin: float = 0.0,
    error: float = 0.05,
    known: StandardDeviation | None = None,
) -> SeriesHistory:
    """The changes of one series by more than ``margin`` (a share).  ``known`` is a noise from night
    to night that was measured before, such as from A/A studies of the machine."""
    series = _Series(points, math.log1p(margin), known)
    found, start, told = [], 0, 0
    need = threshold(error)
    past = _Past(known)
    while (alarm := series.alarm(start, past, need, told)) is not None:
        past = past.joined(series.before(start, alarm.place, past))
        start, told = alarm.place, alarm.told
        found.append(alarm)
    return series.history(found, series.perhaps(start, past, need, told), error)


def among(
    many: Sequence[Sequence[HistoryPoint]],
    *,
    margin: float = 0.0,
    error: float = 0.05,
    known: Sequence[StandardDeviation | None] | None = None,
    rule: Rule = "share",
) -> tuple[SeriesHistory, ...]:
    """The changes of many series.  ``error`` is, in a year: of ``each`` the share of series without
    a change that show one; of ``any`` the probability that any of these does; of ``share`` the
    expected share of these among all series of which a change is told."""
    yards = known or [None] * len(many)
    both = list(zip(many, yards, strict=True))
    own = error
    if rule == "any":
        own = error / max(len(many), 1)
    if rule == "share":
        least = sorted(_least_error(each, math.log1p(margin), yard) for each, yard in both)
        kept = [at for at, p in enumerate(least, 1) if p <= error * at / len(least)]
        own = error * max(kept, default=1) / max(len(many), 1)
    return tuple(changes(each, margin=margin, error=own, known=yard) for each, yard in both)


def _least_error(
    points: Sequence[HistoryPoint], margin: float, known: StandardDeviation | None
) -> float:
    """The least error at which the series has a change."""
    series = _Series(points, margin, known)
    tops = series.tops(0, _Past(known))
    passed = [top.value for top in tops if top.value > 0 and series.matters(top)]
    return _error_at(max(passed, default=-math.inf)) if passed else 1.0


# -- noise ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _sums(size: int) -> tuple[Floats, Floats]:
    """For each wander the sum of all correlations of n nights, n from 0 on, and those of lags."""
    lag = np.arange(1, size + 1)
    rows = np.array([share * keep**lag for share, keep in WANDERS])
    n = np.arange(size + 1)
    zero = np.zeros((len(rows), 1))
    plain = np.hstack([zero, np.cumsum(rows, axis=1)])
    by_lag = np.hstack([zero, np.cumsum(lag * rows, axis=1)])
    last = np.maximum(n - 1, 0)
    return n + 2 * (n * plain[:, last] - by_lag[:, last]), rows[:, :_LAGS]


_PLAUSIBLE = np.log([_WHITE] + [(1 - _WHITE) / (len(WANDERS) - 1)] * (len(WANDERS) - 1))


def _size(points: int) -> int:
    """Tables are shared by series that are about as long."""
    return 512 * (1 + (points + FARTHEST) // 512)


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """What is known of the noise but for the nights at hand: the sum of squares and of products of
    neighbours (by lag), the nights and the stretches that they are from."""

    known: StandardDeviation | None
    squares: float = 0.0
    products: Floats | None = None
    nights: int = 0
    stretches: int = 0

    @property
    def df(self) -> int:
        return self.nights - self.stretches + (self.known.df if self.known else 0)

    def joined(self, before: _Before) -> _Past:
        products = before.products if self.products is None else self.products + before.products
        return _Past(
            self.known,
            self.squares + before.squares,
            products,
            self.nights + before.nights,
            self.stretches + 1,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """The nights before a place: their center and spread, what their noise is like, and its sums
    for :class:`_Past`.  ``plausible`` are the weights of the wanders."""

    center: float
    spread: float
    trial: float
    between: float
    weight: float
    nights: int
    squares: float
    products: Floats
    plausible: Floats
    lost: Floats

    def variance(self, after: Indices, size: int) -> Floats:
        """Of the difference of the mean of so many nights after and that of those before, for a
        spread of 1."""
        sums, _ = _sums(size)
        n = self.nights
        mean_before = (sums[:, n] / n**2)[:, None]
        mean_after = sums[:, after] / after**2
        across = (sums[:, n + after] - sums[:, n][:, None] - sums[:, after]) / (n * after)
        each = (mean_after + mean_before - across) / (1 - self.lost)[:, None]
        return np.asarray((self.plausible @ each**_POWER) ** (1 / _POWER))


def _center(values: Floats, weights: Floats) -> tuple[float, Floats, float]:
    """Huber's proposal 2 with a clip of :data:`_CLIP`: the center, the clipped residuals and the
    spread, of values with variances 1 / ``weights``."""
    roots = np.sqrt(weights)
    center = float(np.median(values))
    spread = float(np.median(np.abs(values - center))) / MAD_OF_NORMAL
    spread = spread or float(np.abs(values - center).mean())
    rest = (values - center) * roots
    for _ in range(_ROUNDS):
        rest = np.clip(rest, -_CLIP * spread, _CLIP * spread)
        center += float((rest * roots).sum() / weights.sum())
        rest = np.clip((values - center) * roots, -_CLIP * spread, _CLIP * spread)
        spread = math.sqrt(float(rest @ rest) / max(len(rest) - 1, 1) / _SHARE_OF_SQUARES)
    return center, rest, spread


@dataclass(frozen=True, slots=True)
class _Top:
    """The place with the largest T of those that a look sees."""

    place: int
    told: int
    value: float
    error: float
    center: float


class _Series:
    """The points of a series that count, in the order of time.  ``margin`` is a log."""

    def __init__(
        self, points: Sequence[HistoryPoint], margin: float, known: StandardDeviation | None
    ) -> None:
        ordered = sorted(points, key=lambda point: point.time)
        kept = [point for point in ordered if point.counts]
        self._left = tuple(point.time for point in ordered if not point.counts)
        self._times = [point.time for point in kept]
        self._values = np.array([point.mean for point in kept], dtype=np.float64)
        self._trials = np.array([point.trials for point in kept], dtype=np.float64)
        df = np.maximum(self._trials - 1, 0)
        sds = np.nan_to_num(np.array([point.sd for point in kept], dtype=np.float64))
        # Of the points up to each: a look knows no later one.
        self._within = np.cumsum(df * sds**2) / np.maximum(np.cumsum(df), 1)
        self._margin, self._known = margin, known
        self._size = _size(len(kept))
        self._least = ARITHMETIC * max(1.0, float(np.abs(self._values).max(initial=0.0)))

    def before(self, start: int, place: int, past: _Past) -> _Before:
        """The nights from ``start`` to before ``place``."""
        values = self._values[start:place]
        trial = float(self._within[place - 1])
        of_trials = trial / self._trials[start:place]
        noise = float(of_trials.mean())
        n = len(values)
        _, _, plain = _center(values, np.ones(n))
        between = max(plain**2 - noise, 0.0)
        total = max(between + noise, self._least**2)
        weights = np.asarray(total / np.maximum(between + of_trials, self._least**2))
        center, rest, _ = _center(values, weights)
        squares = float(rest @ rest) / _SHARE_OF_SQUARES
        known = self._known
        added = known.df * known.sd**2 if known else 0.0
        df = n - 1 + past.df
        spread = math.sqrt(max((squares + past.squares + added) / df, noise, self._least**2))
        clipped = np.clip(rest, -_CLIP * spread, _CLIP * spread)
        clipped = clipped - clipped.mean()
        products = np.zeros(_LAGS + 1)
        most = min(_LAGS, n - 1)
        products[: most + 1] = [clipped[lag:] @ clipped[: n - lag] for lag in range(most + 1)]
        every = products if past.products is None else products + past.products
        nights, stretches = n + past.nights, 1 + past.stretches
        plausible, lost = self._plausible(every, nights, nights // stretches)
        return _Before(
            center, spread, trial, between, total, n, squares, products, plausible, lost
        )  # fmt: skip

    def _plausible(self, products: Floats, nights: int, long: int) -> tuple[Floats, Floats]:
        """The weights of the wanders, and the share of the variance that each hides from so long a
        stretch, since its own mean is taken off."""
        sums, rows = _sums(self._size)
        lost = np.minimum(sums[:, long] / long**2, 0.99)
        lags = min(_LAGS, long // 3)
        if products[0] <= 0 or not lags:
            return np.exp(_PLAUSIBLE), lost
        seen = products[1 : lags + 1] / products[0]
        expected = (rows[:, :lags] - lost[:, None]) / (1 - lost)[:, None]
        logs = _PLAUSIBLE - _TRUST * nights * ((seen - expected) ** 2).sum(axis=1)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum(), lost

    def _row(self, before: _Before, place: int) -> tuple[Floats, Floats]:
        """T of all looks after ``place``, and the standard error of the difference of the means."""
        values = self._values[place : place + FARTHEST]
        of_trials = before.trial / self._trials[place : place + FARTHEST]
        ratios = before.weight / np.maximum(before.between + of_trials, self._least**2)
        scores = (values - before.center) * np.sqrt(ratios) / before.spread
        clipped = np.clip(scores, -_CLIP, _CLIP)
        after = np.arange(1, len(values) + 1)
        worth = np.cumsum(ratios)
        mean = np.cumsum(clipped * np.sqrt(ratios)) / worth
        # What all nights agree in: the mean of unclipped scores is at least that.
        least, most = np.minimum.accumulate(scores), np.maximum.accumulate(scores)
        agreed = np.where(least > 0, least, np.minimum(most, 0.0))
        # Nights of few trials say less: so many nights as their weights amount to.
        deviation = np.sqrt(
            before.variance(after, self._size) * np.maximum(after / worth, 1.0) * _SHARE_OF_SQUARES
        )
        largest = np.where(np.abs(agreed) > np.abs(mean), agreed, mean)
        return largest / deviation, deviation * before.spread

    def _places(self, start: int, past: _Past) -> range:
        least = max(FEWEST_BEFORE, FEWEST - past.df)
        return range(start + least, len(self._values))

    def tops(self, start: int, past: _Past) -> list[_Top]:
        """For each look the place with the largest T, in the order of time."""
        length = len(self._values)
        best, errors, centers = np.full((3, length), -1.0)
        places = np.zeros(length, dtype=np.intp)
        for place in self._places(start, past):
            before = self.before(start, place, past)
            values, row = self._row(before, place)
            looks = np.arange(place + FEWEST_AFTER - 1, place + len(values))
            later = np.abs(values[FEWEST_AFTER - 1 :])
            better = later > best[looks]
            looks = looks[better]
            best[looks], errors[looks] = later[better], row[FEWEST_AFTER - 1 :][better]
            places[looks], centers[looks] = place, before.center
        return [
            _Top(int(places[at]), at, float(best[at]), float(errors[at]), float(centers[at]))
            for at in np.flatnonzero(best >= 0).tolist()
        ]

    def matters(self, top: _Top) -> bool:
        """Whether the change is by more than the margin."""
        if not self._margin:
            return True
        after = float(np.median(self._values[top.place : top.told + 1]))
        return abs(after - top.center) > self._margin + _BEYOND * _MEDIAN * top.error

    def alarm(self, start: int, past: _Past, need: float, told: int) -> _Top | None:
        """The first change after ``start`` that is told, at the look ``told`` or later."""
        for top in self.tops(start, past):
            if top.told >= told and top.value > need and self.matters(top):
                return top
        return None

    def perhaps(self, start: int, past: _Past, need: float, told: int) -> tuple[int, int] | None:
        """The place of a change that the last points may be the first of, and how many more would
        tell it."""
        least, fewest = _PERHAPS
        found: tuple[float, int, int] | None = None
        last = len(self._values)
        for place in self._places(start, past):
            after = last - place
            if not fewest <= after <= FARTHEST or place <= told:
                continue
            before = self.before(start, place, past)
            values, _ = self._row(before, place)
            value = float(values[-1])
            level = float(np.median(self._values[place:])) - before.center
            if abs(value) < max(least, found[0] if found else 0.0) or abs(level) <= self._margin:
                continue
            many = np.arange(after, FARTHEST + 1)
            grown = np.sqrt(
                before.variance(many[:1], self._size) / before.variance(many, self._size)
            )
            passed = np.flatnonzero((abs(value) * grown > need) & (many >= FEWEST_AFTER))
            if len(passed):
                found = abs(value), place, max(1, int(passed[0]))
        return found[1:] if found else None

    def history(
        self, found: Sequence[_Top], possible: tuple[int, int] | None, error: float
    ) -> SeriesHistory:
        """``possible``: the place of a change that may be, and how many more points would tell."""
        past, spread = _Past(self._known), None
        told = [top.place for top in found]
        ends = [0, *told, *(possible or ())[:1], len(self._values)]
        ranges: list[tuple[int, int, int]] = []
        for begin, place, end in zip(ends, ends[1:], ends[2:], strict=False):
            before = self.before(begin, place, past)
            earliest, best, latest = self._place(before, begin, place, end)
            if ranges and best <= ranges[-1][1]:
                best = place
            ranges.append((earliest, best, latest))
            if place in told:
                past = past.joined(before)
        begin = told[-1] if told else 0
        if len(self._values) - begin > 1 and len(self._values) + past.df >= FEWEST:
            spread = self.before(begin, len(self._values), past).spread
        steps = self._steps([best for _, best, _ in ranges])
        changed = []
        for at, ((earliest, best, latest), step) in enumerate(zip(ranges, steps, strict=True)):
            sure = at < len(found)
            changed.append(
                HistoryChange(
                    first=self._times[best],
                    earliest=self._times[earliest],
                    latest=self._times[latest],
                    ratio=math.exp(step.size),
                    low=math.exp(step.size - step.half),
                    high=math.exp(step.size + step.half),
                    state="confirmed" if sure else "may be",
                    told=self._times[found[at].told] if sure else None,
                    more=0 if sure or not possible else possible[1],
                )
            )
        return SeriesHistory(tuple(changed), len(self._values), self._left, spread, error)

    def _steps(self, places: Sequence[int]) -> tuple[LogStep, ...]:
        """How large the changes at ``places`` are, outliers of each stretch clipped."""
        if not places:
            return ()
        n = len(self._values)
        stretches = [slice(*ends) for ends in itertools.pairwise([0, *places, n])]
        centers = np.concatenate(
            [
                np.full(len(part), _center(part, np.ones(len(part)))[0])
                for part in (self._values[each] for each in stretches)
            ]
        )
        rest = self._values - centers
        _, _, spread = _center(rest, np.ones(n))
        of_trials = self._within[-1] / self._trials
        between = max(spread**2 - float(of_trials.mean()), 0.0)
        variances = np.maximum(between + of_trials, self._least**2)
        clip = _CLIP * max(spread, self._least)
        return log_steps(
            centers + np.clip(rest, -clip, clip),
            np.asarray(variances / variances.mean()),
            places,
            known=self._known,
            least=self._least,
        )

    def _place(self, before: _Before, start: int, place: int, end: int) -> tuple[int, int, int]:
        """The earliest, the most plausible and the latest place."""
        first, last = start + FEWEST_BEFORE - 1, end - 1
        level, _, _ = _center(self._values[place:end], np.ones(end - place))
        # Correlated nights say less: the likelihood counts as that of fewer.
        few = np.array([FEWEST_AFTER])
        unlike = float(before.variance(few, self._size)[0]) / (1 / FEWEST_AFTER + 1 / before.nights)
        most = _CLIP**2

        def loss(center: float) -> Floats:
            away = (self._values[first:last] - center) / before.spread
            return np.asarray(np.minimum(away**2, most) / 2)

        gain = np.concatenate([[0.0], np.cumsum(loss(level) - loss(before.center))])
        gain = gain / max(unlike, 1.0)
        weights = np.exp(gain - gain.max())
        weights /= weights.sum()
        order = np.argsort(-weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(weights[order]), CONFIDENCE)) + 1
        inside = order[:enough]
        return first + int(inside.min()), first + int(order[0]), first + int(inside.max())
