"""Opposites: where an average over groups is the effect in none of them.

+20 % on reads and -20 % on writes average to nothing, and "all" would call that *same*.  The groups
are the workloads where all are averaged, and the levels of every other factor.  A doubt needs two
things: the groups' effects differ beyond chance, and one of them is better while another is worse
by its own interval and the study's margin.

Beyond chance is Welch's test of equal means under unequal variances: Cochran's Q with the
correction for variances that are estimated from few values.  The values are the sessions of a
group, or where there is but one session its pairs: what is then said is of that session.  All such
tests of a study share the level 0.01 (Bonferroni).  Of fewer than four values, or of the very same
ones, the spread is not known: where fewer than two workloads have one, no test is possible, what
they came to is held against the margin alone, and the doubt says so.

References:
    W. G. Cochran, Biometrics 10 (1954) 101-129 (Q).
    B. L. Welch, Biometrika 38 (1951) 330-336 (its correction).
    M. Gail and R. Simon, Biometrics 41 (1985) 361-372 (effects that differ in direction are what
    an average hides; those that differ in size are not).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import t as student

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import UNKNOWN
from iotrial.stats.blocks import ARITHMETIC
from iotrial.stats.pairs import ALL, Contrast, Pair, Table, contrasts, ratio_of, tables
from iotrial.stats.sessions import by_session, sessions
from iotrial.stats.verdict import verdict
from iotrial.units import format_change

LEVEL = 0.01
"""The share of studies whose groups are all alike that are doubted all the same."""
_WORKLOAD = "workload"
_NAMED = 3
_FEWEST = 4
"""Sessions, or pairs of one session, from which a group's spread is an error to test against."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Of one group: its mean log ratio, that one's ``variance`` and degrees of freedom (0: not
    known), and the ``sessions`` that it is of, where they are several."""

    group: str
    log: float
    variance: float
    df: float
    sessions: int = 0

    def interval(self, confidence: float) -> tuple[float, float]:
        """Of the ratio, by Student's t; the point where the variance is not known."""
        if not self.df:
            return ratio_of(self.log), ratio_of(self.log)
        half = math.sqrt(self.variance) * float(student.ppf((1 + confidence) / 2, self.df))
        return ratio_of(self.log - half), ratio_of(self.log + half)


@dataclass(frozen=True, slots=True)
class _Split:
    """A contrast parted by ``name``: a factor, or the workload."""

    table: Table
    contrast: Contrast
    name: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """``level`` of ``factor``, whose average over ``workload`` (one, or all) hides opposites."""

    workload: str
    factor: str
    level: str
    doubt: Doubt


def opposites(results: Results) -> Iterator[Hidden]:
    """Each primary effect that averages opposite ones, with a doubt about the whole study."""
    splits = [
        each
        for table in tables(results, sessions(results.valid))
        if table.primary
        for contrast in contrasts(results.study, table.cells)
        for each in _splits(table, contrast)
    ]
    tested = [each for each in splits if len(_known(each)) > 1]
    level = LEVEL / len(tested) if tested else 0.0
    for each in splits:
        if said := _doubted(each, level, results.study):
            yield Hidden(each.table.workload, each.contrast.factor, each.contrast.level, said)


def heterogeneity(effects: Sequence[Effect]) -> float:
    """The p-value of Welch's test that all effects (two or more, variances known) are equal."""
    weights = [1 / each.variance for each in effects]
    total, count = math.fsum(weights), len(effects)
    middle = math.fsum(w * each.log for w, each in zip(weights, effects, strict=True)) / total
    q = math.fsum(w * (each.log - middle) ** 2 for w, each in zip(weights, effects, strict=True))
    lost = math.fsum(
        (1 - w / total) ** 2 / each.df for w, each in zip(weights, effects, strict=True)
    )
    corrected = 1 + 2 * (count - 2) / (count**2 - 1) * lost
    return float(fisher.sf(q / (count - 1) / corrected, count - 1, (count**2 - 1) / (3 * lost)))


def _splits(table: Table, contrast: Contrast) -> Iterator[_Split]:
    told = [pair for pair in contrast.pairs if pair.side == ""]
    names = dict.fromkeys(name for pair in told for name, _ in pair.key[1])
    for name in ([_WORKLOAD] if table.workload == ALL else []) + list(names):
        groups = _grouped(told, name)
        if len(groups) > 1:
            effects = tuple(_effect(label, pairs) for label, pairs in groups.items())
            yield _Split(table, contrast, name, effects)


def _grouped(pairs: Sequence[Pair], name: str) -> Mapping[str, list[Pair]]:
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        label = pair.key[0] if name == _WORKLOAD else dict(pair.key[1]).get(name, UNKNOWN)
        if label != UNKNOWN:
            found[label].append(pair)
    return found


def _effect(group: str, pairs: Sequence[Pair]) -> Effect:
    """By its sessions where there are several, else by its pairs.  Repeats within a cell say how
    steady a moment was, and nothing of how far cells are apart."""
    units = by_session(pairs)
    logs = units if len(units) > 1 else np.array([pair.log for pair in pairs])
    middle = float(logs.mean())
    if len(logs) < _FEWEST or float(logs.std()) <= ARITHMETIC:
        return Effect(group, middle, 0.0, 0.0, sessions=len(units))
    variance = float(logs.var(ddof=1)) / len(logs)
    return Effect(group, middle, variance, len(logs) - 1.0, sessions=len(units))


def _known(parted: _Split) -> list[Effect]:
    return [each for each in parted.effects if each.df]


def _doubted(parted: _Split, level: float, study: Study) -> Doubt | None:
    known = _known(parted)
    tested = len(known) > 1
    if not tested and parted.name != _WORKLOAD:  # levels that were run once scatter by themselves
        return None
    up, down = _sides(known if tested else parted.effects, study)
    if not up or not down:
        return None
    units = "sessions" if any(each.sessions > 1 for each in parted.effects) else "pairs"
    how = f"each by too few {units} for a test of whether they differ beyond chance"
    if tested:
        p = heterogeneity(known)
        if p >= level:
            return None
        said = f"p = {p:.1g}" if p >= 1e-15 else "p < 1e-15"  # noqa: PLR2004 (a float tells no less)
        test = f"Welch's test of equal effects, {said}"
        how = f"they differ beyond the scatter of their {units}: {test}"
    told = [pair.log for pair in parted.contrast.pairs if pair.side == ""]
    average = format_change(ratio_of(math.fsum(told) / len(told)))
    contrast, table = parted.contrast, parted.table
    where = "" if parted.name == _WORKLOAD else f"{parted.name}="
    return Doubt(
        "opposites",
        f"{table.workload}, {table.metric}: {contrast.factor}={contrast.level} against"
        f" {contrast.baseline} is {_listed(up, where)}, but {_listed(down, where)};"
        f" {average} is their average ({how})",
        "Decide for each of them by itself: iotrial compare --where FACTOR=LEVEL",
    )


def _sides(effects: Sequence[Effect], study: Study) -> tuple[list[Effect], list[Effect]]:
    """Those above 1 and those below it, by their intervals and the margin."""
    confidence, margin = study.decide.confidence, study.decide.margin
    found = {
        way: [
            each
            for each in effects
            if verdict(*each.interval(confidence), margin, higher_is_better=True) == way
        ]
        for way in ("better", "worse")
    }
    up = sorted(found["better"], key=lambda each: -each.log)
    return up, sorted(found["worse"], key=lambda each: each.log)


def _listed(effects: Sequence[Effect], where: str) -> str:
    told = [f"{format_change(ratio_of(e.log))} for {where}{e.group}" for e in effects[:_NAMED]]
    more = f" and {len(effects) - _NAMED} more" if len(effects) > _NAMED else ""
    return ", ".join(told) + more
