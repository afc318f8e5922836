"""A race: which of K treatments is best, with as few trials as an honest answer allows.

After every block each treatment is compared with the leader, and

- is **dropped** when it is proven not to be the best.  The test is the closed one for the group
  of the best: one of p treatments must differ from the leader by the critical value of all pairs of
  p before another is looked at with p - 1 (Newman and Keuls; only groups that hold the leader
  matter, since nothing is claimed of two losers).  Were all of them equal, any would be dropped
  with probability 1 - confidence at most;
- is **settled** when it lies within the margin of the treatment that is to be kept, whatever
  else; settled treatments rest.  Where only the winner is asked for it is settled as soon as it
  is no more than the margin better than the kept one.  The kept one need not be the leader: of
  those that may be within half a margin of it, the one that settles the rest soonest is the
  reference, so that ties end early.

The race ends when nothing is open.  Treatments that are still in it are measured in every block
(a randomised block design with blocks of changing size).  Each pair has a noise of its own, which
counts for no less than a share of the noise pooled over all, so that one treatment may be noisier
than the others (:mod:`iotrial.stats.unequal`); every look spends what :mod:`iotrial.stats.critical`
allows.  The reference is chosen from the data, and so what drops and what is shown has the value of
all pairs: the interval shown with a treatment is two-sided and holds whichever is the reference, at
all looks together.
Where a treatment was dropped it ends at the kept one's level, as in Hsu's multiple comparisons with
the best.

Dropping may take the whole error probability, and so may settling, whose two sides cannot both be
wrong: of two treatments that are equal only *worse* can be false, and of two that differ by more
than the margin only *same*, and dropping the better one is as improbable as anything.

*What an open race would still take*, if differences and noise stay as they were seen: a treatment
is decided once it is told from the kept one (either is dropped), or once the interval of their
difference lies inside the margin.  Both need a half width below a known one, and half widths fall
with the blocks as the boundary and the noise say: the first number of blocks at which either holds
is what is said.  It is an expectation and no promise, for the estimate moves too.

*A study's records* are replayed block by block, one race for each workload, so that what to try
next, what was found and what is drawn all come from one replay.  Workloads share the confidence by
their number of comparisons.  A treatment whose whole interval of a guardrail (against the baseline,
paired within blocks) or of a limit (the mean of the logs, with a noise pooled over the treatments)
lies beyond what is allowed is out; one whose whole interval lies within keeps it; of the others
nobody can tell yet.  These intervals are one treatment's own at the study's confidence, and hold at
all looks together.

References:
    O. Maron and A. W. Moore (1997), The racing algorithm, Artificial Intelligence Review 11,
    193-225.  E. Even-Dar, S. Mannor and Y. Mansour (2006), Action elimination and stopping
    conditions, JMLR 7, 1079-1105.
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144.
    D. Newman (1939), Biometrika 31, 20-30; M. Keuls (1952), Euphytica 1, 112-122; R. Marcus,
    E. Peritz and K. R. Gabriel (1976), On closed testing procedures, Biometrika 63, 655-660.
    J. J. Goeman, A. Solari and T. Stijnen (2010), Three-sided hypothesis testing: simultaneous
    testing of superiority, equivalence and inferiority, Statistics in Medicine 29, 2117-2125.
    J. A. John and E. R. Williams (1995), *Cyclic and Computer Generated Designs*, chapter 1
    (reduced normal equations of incomplete blocks).
    C. Jennison and B. W. Turnbull (2000), *Group Sequential Methods with Applications to Clinical
    Trials*, sections 2.6 (unknown variance) and 10.2 (what is expected, given the data so far).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iotrial.model.study import Factor, Goal, Guarantee, Study
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats import unequal
from iotrial.stats.bets import SignBets, interval, likely_blocks
from iotrial.stats.blocks import ARITHMETIC, SHARE, Floats, Indices, ratio_of, rounding
from iotrial.stats.critical import FIRST, NEAR, quantile_at, workload_confidence
from iotrial.stats.verdict import LAST, LEAST_DF, guardrail

SIDES = (2, 3)
"""So many times the error is that of the intervals that settle: both sides of *same*, of which one
can be wrong.  Of several treatments only those matter that truly lie at the margin from the kept
one, on the side from which chance brings them in: with the second factor simulation shows 0 to
5.0 % that are wrong."""
MOST_ERROR = 0.5
"""Of those together, where the confidence is low."""
RATHER = 1.1
"""So much longer a tie may take if the favourite is the reference: it is what people would keep."""
PATIENCE = 3
"""A treatment that gave no number in so many blocks running is out of the race."""


@dataclass(frozen=True, slots=True)
class _TreatmentStanding:
    """One treatment after the latest look, against the kept one (itself: 0, 0, 0).

    ``estimate``, ``low`` and ``high`` are differences of logs; an end is infinite where there is
    none yet.  ``dropped`` is the block after which it was dropped, ``settled`` that after which
    it was settled against the kept one (0: neither), and ``same`` whether that is within the
    margin to both sides; ``lost`` where it gave no number time after time.  ``blocks`` is in how
    many blocks it was measured.
    """

    estimate: float
    low: float
    high: float
    blocks: int
    dropped: int = 0
    settled: int = 0
    same: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InterimLook:
    """What was seen after a block: all differences (row less column), so that it can be told
    against any treatment, whoever was ``kept`` at that moment.

    ``estimates`` and ``halves`` are (treatments, treatments); ``halves`` are half widths of the
    two-sided intervals against one reference (infinite: not both were measured).  ``sd`` is the
    noise of one trial on the log scale, with ``df`` degrees of freedom.
    """

    block: int
    kept: int
    active: tuple[int, ...]
    estimates: Floats
    halves: Floats
    sd: float
    df: int

    @property
    def estimate(self) -> tuple[float, ...]:
        """Differences from the kept treatment of that moment, (treatments,)."""
        return tuple(self.estimates[:, self.kept].tolist())

    @property
    def half(self) -> tuple[float, ...]:
        """Half widths of their intervals, (treatments,)."""
        return tuple(self.halves[:, self.kept].tolist())


class Race:
    """The state of a race among ``treatments`` treatments; feed it blocks with :meth:`add`.

    ``margin`` is a fraction (0.02: ratios of 1/1.02 … 1.02 do not matter); ``confidence`` that
    of all its claims together.  Responses are logs of which more is better.  ``favourite`` is
    kept among equals (the baseline), where it is one of them.  ``goal`` is what ends it: "all"
    treatments are told from the kept one or the same, or it is the "winner": none is more than the
    margin better.  Raises ValueError for fewer than two treatments.
    """

    guarantee: Guarantee = "normal"

    def __init__(
        self,
        treatments: int,
        margin: float,
        confidence: float,
        *,
        favourite: int | None = None,
        goal: Goal = "all",
    ) -> None:
        if treatments < 2:  # noqa: PLR2004
            raise ValueError(f"a race of {treatments}")
        error, size = 1 - confidence, treatments
        self.size, self.margin, self.favourite = size, math.log1p(margin), favourite
        self.goal: Goal = goal
        self._error = error
        self._information = np.zeros((size, size))
        self._adjusted = np.zeros(size)
        self._squares, self._differences = 0.0, 0
        self._common = np.zeros((size, size))
        self._sums, self._sums_of_squares = np.zeros((size, size)), np.zeros((size, size))
        self._blocks = np.zeros(size, dtype=np.intp)
        self._silent = np.zeros(size, dtype=np.intp)
        self._low, self._high = _unbounded(size), -_unbounded(size)
        self._floor = _unbounded(size)
        self._shown_low, self._shown_high = _unbounded(size), -_unbounded(size)
        self._estimate = np.zeros((size, size))
        self._dropped, self._settled = [0] * size, [0] * size
        self._alive = np.ones(size, dtype=bool)
        self.blocks, self.trials, self.sd = 0, 0, math.nan
        self.kept = favourite or 0
        self.active = tuple(range(size))
        self.looks: list[InterimLook] = []
        self.least = ARITHMETIC
        """The noise of one trial that the rounding of responses alone makes."""
        self.waiting: set[int] = set()
        """Treatments that may not be kept yet (a guardrail is open): they drop nobody, and are
        measured on, with the favourite, until they are cleared or dropped."""

    @property
    def decided(self) -> bool:
        """Whether nothing is open."""
        return not self.active

    @property
    def _within(self) -> npt.NDArray[np.bool_]:
        """Whether two are the same, (treatments, treatments)."""
        return np.asarray((self._low > -self.margin) & (self._high < self.margin))

    @property
    def lows(self) -> Floats:
        """Lower confidence bounds of every treatment less every other, (treatments, treatments),
        from the last look at which both had just been measured; minus infinity where there was
        none.  One side of what settles: each holds at all looks."""
        return self._low

    def standing(self, treatment: int) -> _TreatmentStanding:
        kept = self.kept
        low = float(self._shown_low[treatment, kept])
        high = float(self._shown_high[treatment, kept])
        if treatment == kept:
            low = high = 0.0
        if self._dropped[treatment]:
            high = min(high, 0.0)
            low = min(low, high)
        settled, same = self._settled[treatment], False
        if settled:
            same = self.goal == "all" or bool(self._within[kept, treatment])
            high = min(high, self.margin)
            low = max(low, -self.margin) if same else low
        return _TreatmentStanding(
            float(self._estimate[treatment, kept]),
            low,
            high,
            int(self._blocks[treatment]),
            self._dropped[treatment],
            settled,
            same,
            self._is_lost(treatment),
        )

    def against(self, treatment: int, reference: int) -> tuple[float, float, float, int]:
        """The difference of any two, the ends of its interval from the last look at which both
        had just been measured (infinite: none), and the number of their common blocks.  It holds
        at all looks, whatever ended the race, and whoever chose the reference."""
        return (
            float(self._estimate[treatment, reference]),
            float(self._shown_low[treatment, reference]),
            float(self._shown_high[treatment, reference]),
            int(self._common[treatment, reference]),
        )

    def drop(self, treatment: int) -> None:
        """Take a treatment out for another reason than its responses (a broken guardrail)."""
        self._alive[treatment] = False
        self._dropped[treatment] = self._dropped[treatment] or self.blocks
        self._settled[treatment] = 0
        if self.looks:
            self._choose()
        self.active = tuple(each for each in self.active if each != treatment)

    def add(self, responses: Mapping[int, float], asked: Iterable[int] | None = None) -> None:
        """One more block: treatment → log response, of those that gave one.

        ``asked`` are the treatments that were tried in it (left out: the active ones).  Those
        that gave no number are tried again, unless they gave none :data:`PATIENCE` times running.
        """
        self.blocks += 1
        here = sorted(responses)
        self._silent[list(self.active if asked is None else asked)] += 1
        self._silent[here] = 0
        self.trials += len(here)
        if len(here) > 1:
            self._count(here, np.array([responses[each] for each in here]))
        for each in range(self.size):
            if self._is_lost(each):
                self._alive[each] = False
                self._settled[each] = 0
        present = np.flatnonzero(self._blocks > 0)
        df = self._differences - (len(present) - 1)
        if len(present) > 1 and df >= LEAST_DF and FIRST <= self.blocks <= LAST:
            self._look(present, here, df)
        elif self._alive.sum() <= 1:
            self.active = ()

    def _is_lost(self, treatment: int) -> bool:
        return bool(self._silent[treatment] >= PATIENCE)

    def _count(self, here: list[int], values: Floats) -> None:
        away = values - values.mean()
        self._information[np.ix_(here, here)] -= 1 / len(here)
        self._information[here, here] += 1
        self._adjusted[here] += away
        self._squares += float((away**2).sum())
        pairs, apart = np.ix_(here, here), away[:, None] - away[None, :]
        self._common[pairs] += 1
        self._sums[pairs] += apart
        self._sums_of_squares[pairs] += apart**2
        self._differences += len(here) - 1
        self._blocks[here] += 1

    def _look(self, present: npt.NDArray[np.intp], here: list[int], df: int) -> None:
        """Least squares of log response = block + treatment, then drop, settle, choose."""
        among = np.ix_(present, present)
        inverse = np.linalg.pinv(self._information[among], hermitian=True)
        effects = inverse @ self._adjusted[present]
        rest = self._squares - float(effects @ self._adjusted[present])
        self.sd = max(math.sqrt(max(rest, 0.0) / df), self.least)
        spread = np.diag(inverse)
        unit = np.ones((self.size, self.size))
        unit[among] = spread[:, None] + spread[None, :] - 2 * inverse
        np.fill_diagonal(unit, 1.0)
        self._estimate[among] = effects[:, None] - effects[None, :]
        number = np.clip((2 / unit + 1e-9).astype(np.intp), FIRST, LAST)
        np.fill_diagonal(number, self._blocks)
        error = np.maximum(self._own() * np.sqrt(unit / 2), SHARE * self.sd * np.sqrt(unit))
        new, shown = np.ix_(here, here), -_unbounded(self.size)
        shown[new] = self._seen(here, number, error)
        self._choose()
        self.looks.append(
            InterimLook(
                self.blocks,
                self.kept,
                self.active,
                self._estimate.copy(),
                shown,
                self.sd,
                df,
            )
        )

    def _seen(self, here: list[int], number: Indices, error: Floats) -> Floats:
        """Take the intervals of all pairs of ``here`` and drop who is shown to be worse; the half
        widths of those that are shown, (here, here)."""
        new = np.ix_(here, here)
        these = number[new], error[new], self._common[new]
        settle = self._halves(*these, "one", _sides(self.size))
        show = self._halves(*these, "pairs", 1)
        if self.goal == "winner":
            self._floor[new] = self._estimate[new] - self._halves(*these, "pairs", 2)
        for low, high, half in (
            (self._low, self._high, settle),
            (self._shown_low, self._shown_high, show),
        ):
            low[new], high[new] = self._estimate[new] - half, self._estimate[new] + half
        self._drop(error, number)
        return show

    def _own(self) -> Floats:
        """The standard deviation of each pair's differences in its common blocks; 0 of one."""
        many = np.maximum(self._common, 2)
        squares = self._sums_of_squares - self._sums**2 / np.maximum(self._common, 1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0) / (many - 1)))

    def _halves(
        self, number: Indices, error: Floats, common: Floats, kind: unequal.Kind, times: float
    ) -> Floats:
        """Half widths of the intervals of pairs, at so many ``times`` the error of the race."""
        of_all = min(times * self._error, MOST_ERROR)
        return unequal.critical_at(number, kind, self.size, common - 1, of_all) * error

    def _drop(self, error: Floats, number: Indices) -> None:
        racing = np.flatnonzero(self._alive & (self._blocks > 0))
        if not len(racing):  # all of them are beyond a limit
            return
        rising = racing[np.argsort(self._estimate[racing, racing[0]], kind="stable")].tolist()
        while rising and rising[-1] in self.waiting:
            rising.pop()
        if not rising:
            return
        unmeasured = int((self._alive & (self._blocks == 0)).sum())
        leader, others = rising[-1], rising[:-1]
        away = self._estimate[leader] / error[leader]
        while others:
            left = len(others) + 1 + unmeasured
            df, looks = self._common[leader, others] - 1, number[leader, others]
            value = unequal.critical_at(looks, "pairs", left, df, self._error)
            beyond = away[others] / value
            first = int(np.argmax(beyond))
            if not beyond[first] > 1:
                return
            each = others.pop(first)
            self._alive[each] = False
            self._dropped[each] = self.blocks
            self._settled[each] = 0

    def _choose(self) -> None:
        """Who is kept so far, and who is still to be measured."""
        racing = np.flatnonzero(self._alive & (self._blocks > 0))
        waiting = {i for i in np.flatnonzero(self._alive).tolist() if not self._blocks[i]}
        waiting |= {each for each in self.waiting if self._alive[each]}
        if waiting and self.favourite is not None:
            waiting.add(self.favourite)
        eligible = [each for each in racing.tolist() if each not in self.waiting]
        if not eligible:
            # Who was kept may have been dropped since; the rest is told against the favourite.
            self.kept = self.kept if self.favourite is None else self.favourite
            self._settled = [0] * self.size
            self.active = tuple(sorted(waiting)) if len(waiting) > 1 else ()
            return
        leader = max(eligible, key=lambda each: float(self._estimate[each, racing[0]]))
        same = self._within
        if self.goal == "winner":
            same = same | (self._floor > -self.margin)  # the kept one less each
        found: list[tuple[float, int, list[int]]] = []
        for kept in eligible:
            if self._estimate[leader, kept] >= self.margin / 2:
                continue
            others = [each for each in racing.tolist() if each != kept and not same[kept, each]]
            room = _room(self._estimate[kept, others], self.margin, self.goal)
            need = 1 / room**2
            cost = float(need.sum() + need.max(initial=0.0))
            cost *= 1.0 if kept == self.favourite else RATHER
            found.append((cost, kept, others))
        self.kept, others = self._preferred(found)
        for each in racing.tolist():
            if each != self.kept:
                now = bool(same[self.kept, each])
                self._settled[each] = (self._settled[each] or self.blocks) if now else 0
        self._settled[self.kept] = 0
        self.active = tuple(sorted({self.kept, *others, *waiting})) if others or waiting else ()

    def _preferred(self, found: list[tuple[float, int, list[int]]]) -> tuple[int, list[int]]:
        """Of those that leave nothing open the favourite, else the fastest; else the cheapest."""
        whole = [kept for _, kept, others in found if not others]
        if self.favourite in whole:
            return self.favourite, []
        if whole:
            return max(whole, key=lambda each: float(self._estimate[each, whole[0]])), []
        _, kept, others = min(found)
        return kept, others


class ExactRace(Race):
    """A race that is right under any noise: all that it claims is read from one interval of each
    pair (:mod:`iotrial.stats.bets`)."""

    guarantee: Guarantee = "exact"

    @cached_property
    def _bets(self) -> SignBets:
        return SignBets(self.size)

    def _count(self, here: list[int], values: Floats) -> None:
        super()._count(here, values)
        self._bets.add(here, values, self.least)

    def _seen(self, here: list[int], number: Indices, error: Floats) -> Floats:
        """Intervals hold at all looks: each is cut with those before it.  Estimates are moved into
        them, and the longer side is the half width of both."""
        del number, error
        new = np.ix_(here, here)
        low, high = self._bets.intervals(here, self._error / (self.size * (self.size - 1)))
        cut_low, cut_high = np.maximum(low, self._low[new]), np.minimum(high, self._high[new])
        empty = cut_low > cut_high
        low, high = np.where(empty, low, cut_low), np.where(empty, high, cut_high)
        for ends in (self._low, self._shown_low, self._floor):
            ends[new] = low
        for ends in (self._high, self._shown_high):
            ends[new] = high
        middle = np.clip(self._estimate[new], low, high)
        self._estimate[new] = middle
        self._drop_below()
        return np.asarray(np.maximum(middle - low, high - middle))

    def _drop_below(self) -> None:
        """Whoever is below one that may be kept is dropped."""
        may = [i for i in np.flatnonzero(self._alive).tolist() if i not in self.waiting]
        for each in np.flatnonzero((self._shown_high[:, may] < 0).any(axis=1) & self._alive):
            self._alive[each] = False
            self._dropped[each] = self.blocks
            self._settled[each] = 0


def _unbounded(size: int) -> Floats:
    return np.full((size, size), -np.inf)


def _sides(treatments: int) -> int:
    return SIDES[treatments > 2]  # noqa: PLR2004


def _room(ahead_by: Floats, margin: float, goal: Goal) -> Floats:
    """What half a width must fall below for one that the kept one is ``ahead_by`` to be decided:
    dropped, or settled, whichever is sooner."""
    away = np.abs(ahead_by)
    to_settle = margin - away if goal == "all" else margin + ahead_by
    return np.maximum(np.maximum(away, to_settle), ARITHMETIC)


# -- what an open race would still take -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RaceDesign:
    """A race's own: how many ``treatments`` it began with, ``margin`` on the log scale, the
    ``confidence`` of all its claims together, what ends it, and what it holds under."""

    treatments: int
    margin: float
    confidence: float
    goal: Goal = "all"
    guarantee: Guarantee = "normal"


def blocks_to_decide(terms: RaceDesign, difference: float, sd: float, *, left: int = 0) -> int:
    """After how many blocks two treatments are decided of which one's log is less than the kept
    one's by ``difference``.

    ``sd`` is the noise of one trial on the log scale; ``left`` how many treatments are still in
    the race (0: all).  At most :data:`~iotrial.stats.verdict.LAST`.
    """
    racing = max(left or terms.treatments, 2)
    settling = min(_sides(terms.treatments) * (1 - terms.confidence), MOST_ERROR)
    error, away = 1 - terms.confidence, abs(difference)
    if terms.guarantee == "exact":
        needed = math.log(terms.treatments * (terms.treatments - 1) / error)
        room = float(_room(np.array([-difference]), terms.margin, terms.goal)[0])
        return min(likely_blocks(room / (sd * math.sqrt(2)), needed), LAST)
    for last in (NEAR, LAST):
        blocks = np.arange(FIRST, last + 1)
        to_drop = _half("pairs", racing, error, blocks, sd)
        to_settle = _half("one", terms.treatments, settling, blocks, sd)
        enough = (to_drop < away) | (to_settle < terms.margin - away)
        if terms.goal == "winner":
            to_hold = _half("pairs", terms.treatments, min(2 * error, MOST_ERROR), blocks, sd)
            enough |= to_hold < terms.margin + difference
        if enough.any():
            return int(blocks[np.argmax(enough)])
    return LAST


def _half(kind: unequal.Kind, treatments: int, level: float, blocks: Indices, sd: float) -> Floats:
    """Half widths of the pairs of so many equally noisy treatments after each of ``blocks``, for an
    error of ``level`` at all looks; infinite before the first look."""
    value = unequal.critical_at(blocks, kind, treatments, (blocks - 1).astype(np.float64), level)
    first = (blocks - 1) * (treatments - 1) >= LEAST_DF
    return np.where(first, value * sd * np.sqrt(2 / blocks), math.inf)


def ahead(race: Race, terms: RaceDesign) -> dict[int, int]:
    """Open treatment (but for the kept one) → blocks it still needs, 1 or more.

    Empty where nothing is open, and before the first look.  One that was not yet measured beside
    the kept one needs as many as the slowest of the others.
    """
    if not race.looks or race.decided:
        return {}
    standing = [race.standing(each) for each in range(race.size)]
    left = sum(not each.dropped for each in standing)
    still = [each for each in race.active if each != race.kept]
    found: dict[int, int] = {}
    for each in still:
        both = min(standing[each].blocks, standing[race.kept].blocks)
        if both:
            whole = blocks_to_decide(terms, -standing[each].estimate, race.sd, left=left)
            found[each] = max(1, whole - both)
    slowest = max(found.values(), default=1)
    return {each: found.get(each, slowest) for each in still}


# -- limits: is a latency below what the study allows? --------------------------------------------


def mean_interval(
    own: Sequence[float], every: Sequence[Sequence[float]], error: float
) -> tuple[float, float] | None:
    """Ends of the mean of ``own`` values, one of ``every`` group, at all looks together; None while
    the noise is unknown.  Its noise is its own, and no less than a share of that of all groups."""
    df = sum(len(each) - 1 for each in every if each)
    if len(own) < FIRST - 1 or df < LEAST_DF:
        return None
    squares = [float(((np.array(e) - np.mean(e)) ** 2).sum()) for e in every if len(e) > 1]
    alone = float(np.var(own, ddof=1))
    sd = math.sqrt(max(alone, SHARE**2 * math.fsum(squares) / df))
    half = quantile_at(error / 2, min(len(own), LAST), len(own) - 1) * sd / math.sqrt(len(own))
    middle = math.fsum(own) / len(own)
    return middle - half, middle + half


class GuardrailLimits:
    """What was seen of the limited metrics.  ``limits`` are (metric, limit in its base unit)."""

    def __init__(
        self, limits: Sequence[tuple[str, float]], confidence: float, treatments: int
    ) -> None:
        self._limits = tuple(limits)
        self._error = 1 - confidence
        self._seen: dict[str, list[list[float]]] = {
            name: [[] for _ in range(treatments)] for name, _ in limits
        }

    def add(self, treatment: int, record: TrialRecord) -> None:
        for name, seen in self._seen.items():
            value = record.value(name)
            if value is not None and math.isfinite(value) and value > 0:
                seen[treatment].append(math.log(value))

    def interval(self, treatment: int, name: str) -> tuple[float, float] | None:
        """Ends of the metric's geometric mean; None while the noise is unknown."""
        own = self._seen[name][treatment]
        found = mean_interval(own, self._seen[name], self._error)
        return None if found is None else (ratio_of(found[0]), ratio_of(found[1]))

    def broken(self, treatment: int) -> tuple[str, ...]:
        """The names of the limits that the treatment exceeds."""
        return tuple(
            name
            for name, limit in self._limits
            if (ends := self.interval(treatment, name)) is not None and ends[0] > limit
        )

    def waiting(self) -> set[int]:
        """The treatments of which a limit is neither kept nor exceeded."""
        size = max((len(each) for each in self._seen.values()), default=0)
        return {each for each in range(size) if not self.kept(each) and not self.broken(each)}

    def kept(self, treatment: int) -> bool:
        """Whether every limit is kept."""
        return all(
            (ends := self.interval(treatment, name)) is not None and ends[1] <= limit
            for name, limit in self._limits
        )


# -- a study's records as races -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkloadRace:
    """The race of one workload.  ``cells`` are its treatments, in the race's numbering;
    ``higher`` whether more of the metric is better (logs were turned round where it is not);
    ``trials`` are the folders of each treatment's trials that counted; ``broken`` names the
    guardrails and limits for which a treatment was dropped."""

    workload: str
    metric: str
    higher: bool
    cells: tuple[Treatment, ...]
    race: Race
    confidence: float
    trials: tuple[tuple[str, ...], ...]
    broken: tuple[tuple[str, ...], ...]

    def label(self, treatment: int) -> str:
        """``bfq``; where several factors are varied ``scheduler=bfq depth=8``."""
        cell = self.cells[treatment]
        return cell[0][1] if len(cell) == 1 else treatment_text(cell)

    @property
    def factor(self) -> str:
        """The one factor's name; ``treatment`` where several are varied together."""
        cell = self.cells[0]
        return cell[0][0] if len(cell) == 1 else "treatment"

    @property
    def terms(self) -> RaceDesign:
        """What its race was begun with."""
        race = self.race
        return RaceDesign(race.size, race.margin, self.confidence, race.goal, race.guarantee)


def raced(
    study: Study,
    cells: Mapping[str, Sequence[Treatment]],
    records: Iterable[TrialRecord],
    baseline: Mapping[str, str] | None = None,
) -> tuple[WorkloadRace, ...]:
    """The races of a study, in its workloads' order, after all of ``records``.

    ``cells`` are the treatments of each workload, ``baseline`` each factor's baseline level where
    it is known.  A workload with one treatment has no race.
    """
    family = sum(len(each) - 1 for each in cells.values() if len(each) > 1)
    by_workload: dict[str, list[TrialRecord]] = {}
    for record in records:
        by_workload.setdefault(record.trial.workload, []).append(record)
    return tuple(
        _race(
            study,
            workload.name,
            tuple(cells[workload.name]),
            by_workload.get(workload.name, ()),
            _Terms(
                workload_confidence(study.decide.confidence, len(cells[workload.name]) - 1, family),
                {factor.name: _label(factor, baseline or {}) for factor in study.factors},
            ),
        )
        for workload in study.judged
        if len(cells.get(workload.name, ())) > 1
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    confidence: float
    baseline: Mapping[str, str]


def _label(factor: Factor, known: Mapping[str, str]) -> str:
    return known.get(factor.name, "") or factor.baseline


def _race(
    study: Study,
    workload: str,
    cells: tuple[Treatment, ...],
    records: Sequence[TrialRecord],
    terms: _Terms,
) -> WorkloadRace:
    metric = study.decide.leading[workload]
    higher = study.metrics.higher(metric) is not False
    standing = [
        number
        for number, cell in enumerate(cells)
        if all(terms.baseline.get(factor) == label for factor, label in cell)
    ]
    favourite = standing[0] if standing else None
    race = (ExactRace if study.decide.guarantee == "exact" else Race)(
        len(cells),
        study.decide.margin,
        terms.confidence,
        favourite=favourite,
        goal=study.decide.goal,
    )
    values = [v for r in records if (v := r.value(metric)) and 0 < v < math.inf]
    race.least = max(race.least, rounding(values))
    place = {cell: number for number, cell in enumerate(cells)}
    folders: list[list[str]] = [[] for _ in cells]
    guards = _Guards(study, favourite, len(cells))
    limits = GuardrailLimits(study.decide.limits, study.decide.confidence, len(cells))
    broken: list[tuple[str, ...]] = [() for _ in cells]
    for asked, block in _blocks(records):
        found: dict[int, float] = {}
        for record in block:
            value, number = record.value(metric), place.get(record.trial.treatment)
            if number is None:
                continue
            if value is not None and math.isfinite(value) and value > 0:
                found[number] = math.log(value) if higher else -math.log(value)
                folders[number].append(record.trial.folder)
            guards.add(number, record)
            limits.add(number, record)
        race.waiting = guards.waiting() | limits.waiting()
        race.add(found, [place[cell] for cell in asked if cell in place])
        for number in range(len(cells)):
            names = (*guards.broken(number), *limits.broken(number))
            if names and not broken[number]:
                broken[number] = names
                race.drop(number)
    return WorkloadRace(
        workload,
        metric,
        higher,
        cells,
        race,
        terms.confidence,
        tuple(map(tuple, folders)),
        tuple(broken),
    )


def _blocks(
    records: Sequence[TrialRecord],
) -> list[tuple[list[Treatment], list[TrialRecord]]]:
    """By block: the treatments that were tried, and the last valid attempt at each."""
    tried: dict[int, dict[Treatment, TrialRecord | None]] = {}
    for record in sorted(records, key=lambda each: (each.trial.attempt, each.trial.number)):
        block = tried.setdefault(record.trial.block, {})
        if record.state == "valid":
            block[record.trial.treatment] = record
        else:
            block.setdefault(record.trial.treatment, None)
    return [
        (list(tried[number]), [each for each in tried[number].values() if each])
        for number in sorted(tried)
    ]


class _Guards:
    """The guardrails of a race: each treatment's metric against the baseline's, block by block.

    The interval is one comparison's own at the study's confidence, paired within blocks, and
    holds at all looks together.  A treatment whose whole interval lies beyond what is tolerated
    is out: it could not be kept.
    """

    def __init__(self, study: Study, favourite: int | None, size: int) -> None:
        self._study, self._favourite = study, favourite
        self._seen: list[dict[tuple[str, int], float]] = [{} for _ in range(size)]

    def add(self, treatment: int, record: TrialRecord) -> None:
        for name, _ in self._study.decide.guardrails:
            value = record.value(name)
            if value is not None and math.isfinite(value) and value > 0:
                self._seen[treatment][name, record.trial.block] = math.log(value)

    def broken(self, treatment: int) -> tuple[str, ...]:
        """The names of the guardrails that the treatment breaks."""
        if self._favourite is None or treatment == self._favourite:
            return ()
        return tuple(
            name
            for name, tolerance in self._study.decide.guardrails
            if (ends := self.interval(treatment, name)) is not None
            and self._verdict(name, tolerance, *ends) == "worse"
        )

    def waiting(self) -> set[int]:
        """The treatments of which a guardrail is neither kept nor broken."""
        if self._favourite is None:
            return set()
        return {
            treatment
            for treatment in range(len(self._seen))
            if treatment != self._favourite
            and any(
                (ends := self.interval(treatment, name)) is None
                or self._verdict(name, tolerance, *ends) != "same"
                for name, tolerance in self._study.decide.guardrails
            )
        }

    def interval(self, treatment: int, name: str) -> tuple[float, float] | None:
        """Ends of the ratio to the baseline, or None with fewer than three common blocks."""
        own, base = self._seen[treatment], self._seen[self._favourite or 0]
        differences = [own[key] - base[key] for key in own if key in base and key[0] == name]
        count = len(differences)
        if count < 3:  # noqa: PLR2004
            return None
        mean = math.fsum(differences) / count
        variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
        tail = (1 - self._study.decide.confidence) / 2
        if self._study.decide.guarantee == "exact":
            low, high = interval(tuple(differences), tail)
            return ratio_of(low), ratio_of(high)
        half = quantile_at(tail, count, count - 1) * math.sqrt(variance / count)
        return ratio_of(mean - half), ratio_of(mean + half)

    def _verdict(self, name: str, tolerance: float, low: float, high: float) -> str:
        higher = self._study.metrics.higher(name)
        return guardrail(low, high, tolerance, higher_is_better=higher)
