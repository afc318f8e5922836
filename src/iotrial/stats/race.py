"""A race: which of K treatments is best, with as few trials as an honest answer allows.

After every block each treatment is compared with the leader, and

- is **dropped** when it is proven not to be the best.  The test is the closed one for the group
  of the best: the last of p treatments must differ from the first by the studentized range of p
  before the next to last is looked at with p - 1 (Newman and Keuls; only groups that hold the
  leader matter, since nothing is claimed of two losers).  Were all of them equal, any would be
  dropped with probability 1 - confidence at most;
- is **settled** when it lies within the margin of the treatment that is to be kept, whatever
  else; settled treatments rest.  The kept one need not be the leader: of those that may be within
  half a margin of it, the one that settles the rest soonest is the reference, so that ties end
  early.

The race ends when nothing is open.  Treatments that are still in it are measured in every block
(a randomised block design with blocks of changing size); the noise is one variance pooled over
all of them; every look spends what :mod:`iotrial.stats.boundary` allows.  The interval shown with
a treatment is two-sided and simultaneous (Dunnett) at all looks together; where a treatment was
dropped it ends at the kept one's level, as in Hsu's multiple comparisons with the best.

References:
    O. Maron and A. W. Moore (1997), The racing algorithm, Artificial Intelligence Review 11,
    193-225.  E. Even-Dar, S. Mannor and Y. Mansour (2006), Action elimination and stopping
    conditions, JMLR 7, 1079-1105.
    J. C. Hsu (1984), Constrained simultaneous confidence intervals for multiple comparisons with
    the best, Annals of Statistics 12, 1136-1144.
    D. Newman (1939), Biometrika 31, 20-30; M. Keuls (1952), Euphytica 1, 112-122; R. Marcus,
    E. Peritz and K. R. Gabriel (1976), On closed testing procedures, Biometrika 63, 655-660.
    J. A. John and E. R. Williams (1995), *Cyclic and Computer Generated Designs*, chapter 1
    (reduced normal equations of incomplete blocks).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from iotrial.stats.blocks import ARITHMETIC, Floats
from iotrial.stats.boundary import FIRST, LAST, against_one, extremes, tails_at
from iotrial.stats.looks import LEAST_DF

SAME_SHARE = 0.2
"""Of the error probability, what calling something *same* may take: it is asked at the end, where
nearly all would be spent on it, while dropping is what saves trials.  Dropping may take the whole
of it: both can go wrong only where some treatments are equal and another lies at the margin, and
1.2 times the level bounds the sum.  Simulated races stay within the level there (tests)."""
RATHER = 1.1
"""So much longer a tie may take if the favourite is the reference: it is what people would keep."""
PATIENCE = 3
"""A treatment that gave no number in so many blocks running is out of the race."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One treatment after the latest look, against the kept one (itself: 0, 0, 0).

    ``estimate``, ``low`` and ``high`` are differences of logs; an end is infinite where there is
    none yet.  ``dropped`` is the block after which it was dropped, ``settled`` that after which
    it was the same as the kept one within the margin (0: neither); ``lost`` where it gave no
    number time after time.  ``blocks`` is in how many blocks it was measured.
    """

    estimate: float
    low: float
    high: float
    blocks: int
    dropped: int = 0
    settled: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Look:
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
    kept among equals (the baseline), where it is one of them.  Raises ValueError for fewer than
    two treatments.
    """

    def __init__(
        self, treatments: int, margin: float, confidence: float, *, favourite: int | None = None
    ) -> None:
        if treatments < 2:  # noqa: PLR2004
            raise ValueError(f"a race of {treatments}")
        error, size = 1 - confidence, treatments
        self.size, self.margin, self.favourite = size, math.log1p(margin), favourite
        self._error = error
        self._to_settle = against_one(size - 1, error * SAME_SHARE)
        self._to_show = against_one(size - 1, error / 2)
        self._information = np.zeros((size, size))
        self._adjusted = np.zeros(size)
        self._squares, self._differences = 0.0, 0
        self._blocks = np.zeros(size, dtype=np.intp)
        self._silent = np.zeros(size, dtype=np.intp)
        self._low, self._high = _unbounded(size), -_unbounded(size)
        self._shown_low, self._shown_high = _unbounded(size), -_unbounded(size)
        self._estimate = np.zeros((size, size))
        self._dropped, self._settled = [0] * size, [0] * size
        self._alive = np.ones(size, dtype=bool)
        self.blocks, self.trials, self.sd = 0, 0, math.nan
        self.kept = favourite or 0
        self.active = tuple(range(size))
        self.looks: list[Look] = []
        self.waiting: set[int] = set()
        """Treatments that may not be kept yet (a guardrail is open): they drop nobody, and are
        measured on, with the favourite, until they are cleared or dropped."""

    @property
    def decided(self) -> bool:
        """Whether nothing is open."""
        return not self.active

    def standing(self, treatment: int) -> Standing:
        kept = self.kept
        low = float(self._shown_low[treatment, kept])
        high = float(self._shown_high[treatment, kept])
        if treatment == kept:
            low = high = 0.0
        if self._dropped[treatment]:
            high = min(high, 0.0)
            low = min(low, high)
        if self._settled[treatment]:
            low, high = max(low, -self.margin), min(high, self.margin)
        return Standing(
            float(self._estimate[treatment, kept]),
            low,
            high,
            int(self._blocks[treatment]),
            self._dropped[treatment],
            self._settled[treatment],
            self._is_lost(treatment),
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
        if len(present) > 1 and df >= LEAST_DF and self.blocks <= LAST:
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
        self._differences += len(here) - 1
        self._blocks[here] += 1

    def _look(self, present: npt.NDArray[np.intp], here: list[int], df: int) -> None:
        """Least squares of log response = block + treatment, then drop, settle, choose."""
        among = np.ix_(present, present)
        inverse = np.linalg.pinv(self._information[among], hermitian=True)
        effects = inverse @ self._adjusted[present]
        rest = self._squares - float(effects @ self._adjusted[present])
        self.sd = max(math.sqrt(max(rest, 0.0) / df), ARITHMETIC)
        spread = np.diag(inverse)
        unit = np.ones((self.size, self.size))
        unit[among] = spread[:, None] + spread[None, :] - 2 * inverse
        np.fill_diagonal(unit, 1.0)
        self._estimate[among] = effects[:, None] - effects[None, :]
        number = np.clip((2 / unit + 1e-9).astype(np.intp), FIRST, LAST)
        error = self.sd * np.sqrt(unit)
        new = np.zeros((self.size, self.size), dtype=bool)
        new[np.ix_(here, here)] = True
        for low, high, wanted in (
            (self._low, self._high, self._to_settle),
            (self._shown_low, self._shown_high, self._to_show),
        ):
            half = -stdtrit(df, tails_at(wanted, number)) * error
            np.copyto(low, self._estimate - half, where=new)
            np.copyto(high, self._estimate + half, where=new)
        shown = np.where(new, -stdtrit(df, tails_at(self._to_show, number)) * error, np.inf)
        self._drop(df, error, number)
        self._choose()
        self.looks.append(
            Look(
                self.blocks,
                self.kept,
                self.active,
                self._estimate.copy(),
                shown,
                self.sd,
                df,
            )
        )

    def _drop(self, df: int, error: Floats, number: npt.NDArray[np.intp]) -> None:
        racing = np.flatnonzero(self._alive & (self._blocks > 0))
        rising = racing[np.argsort(self._estimate[racing, racing[0]], kind="stable")]
        while len(rising) and int(rising[-1]) in self.waiting:
            rising = rising[:-1]
        if not len(rising):
            return
        unmeasured = int((self._alive & (self._blocks == 0)).sum())
        leader, left = rising[-1], len(rising) + unmeasured
        for each in rising[:-1]:
            tail = tails_at(extremes(left, self._error), number[leader, each])
            if not self._estimate[leader, each] > -stdtrit(df, tail) * error[leader, each]:
                return
            self._alive[each] = False
            self._dropped[each] = self.blocks
            self._settled[each] = 0
            left -= 1

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
        same = (self._low > -self.margin) & (self._high < self.margin)
        found: list[tuple[float, int, list[int]]] = []
        for kept in eligible:
            if self._estimate[leader, kept] >= self.margin / 2:
                continue
            others = [each for each in racing.tolist() if each != kept and not same[kept, each]]
            away = np.abs(self._estimate[kept, others])
            room = np.maximum(np.maximum(away, self.margin - away), ARITHMETIC)
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


def _unbounded(size: int) -> Floats:
    return np.full((size, size), -np.inf)
