"""Finding: effect, interval, verdict, the trials behind it; and what else a study comes to: races,
knees, ceilings, grids, and its stages as they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.model.results import Results
from iotrial.model.study import Stage, StageDecision, Study
from iotrial.model.trial import Treatment, Trial

CellPlace = tuple[str, str]
"""The labels of a cell: of the factor down, and of the one across."""
Verdict = Literal["better", "worse", "same", "cannot-tell"]
Likeness = Literal["same", "differs", "cannot-tell"]
Place = Literal["kept", "same", "not-better", "open", "worse", "guardrail", "lost"]
"""How a treatment ended in a race: kept; the same as the kept one; shown to be no more than the
margin better, where a winner was asked for; undecided; proven not to be the best; out for a broken
guardrail; without any number."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """``value`` is the geometric mean of ``n`` runs in the metric's base unit, ``low`` and
    ``high`` the smallest and the largest of them.  ``bound`` says on which side of the value the
    truth lies, where a run's was censored."""

    value: float
    n: int
    low: float
    high: float
    bound: Literal["", "high", "low"] = ""


@dataclass(frozen=True, slots=True)
class Additivity:
    """Whether the two factors act independently: whether the logarithms of the cells are a sum of
    one effect of each.

    ``test`` is Tukey's, where no cell has repeats, else that of the two-way interaction (empty:
    too few cells for either); ``p`` its p-value.  ``off`` is how far the cell that fits worst lies
    from such a sum, as a ratio of at least 1.  ``depends``: they do not act independently, beyond
    chance and by more than the margin.
    """

    test: Literal["", "Tukey", "interaction"]
    p: float | None
    off: float
    depends: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """One workload and metric at the levels ``fixed`` of the other factors: ``rows`` are the
    labels of the factor ``down``, ``columns`` those of ``across``, both ascending; a place without
    a cell was not run.

    ``best`` is the best cell that is no bound (None: nobody knows which way is better), ``near``
    the one of those about as good that asks for least: whose amounts have the smallest product.
    """

    workload: str
    metric: str
    fixed: Treatment
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[CellPlace, GridCell]
    best: CellPlace | None
    near: CellPlace | None
    additivity: Additivity


@dataclass(frozen=True, slots=True)
class RequiredBlocks:
    """What would tell a comparison that nobody can tell yet.

    ``difference`` is the relative one that would be told (0.05: 5 %).  ``blocks`` is how many it
    takes in all, ``more`` of them on top of those that are there, in ``seconds`` of wall time (all
    three None: more than can be reckoned with).  ``same``: so many also tell that there is no
    difference that matters.
    """

    difference: float
    blocks: int | None
    more: int | None
    seconds: float | None
    same: bool = False


@dataclass(frozen=True, slots=True)
class RankVerdict:
    """What a rank test says of a comparison (``iotrial.stats.ranks``): better, worse or
    cannot-tell, and ``p``, adjusted for all comparisons of the family."""

    verdict: Verdict
    p: float


@dataclass(frozen=True, slots=True)
class SessionComparison:
    """The geometric means over the sessions before and after, in base units, and how many
    ``sessions`` each side has (None: they were measured in pairs, the finding's ``n``)."""

    former: float
    latter: float
    sessions: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Finding:
    """``level`` of ``factor`` against ``baseline``, for one workload and metric.

    ``ratio`` is the geometric-mean ratio level / baseline, ``low`` and ``high`` the ends of its
    simultaneous interval at the study's confidence (None where no interval exists: one block).
    ``n`` is the number of blocks behind it; ``trials`` the folders.  ``primary`` is False for a
    guardrail, whose interval is one comparison's own.  ``noise`` is the standard deviation of one
    trial on the log scale (None where unknown).  ``bound`` says on which side of the ratio the
    truth lies, where one of the two values is censored; where both are, the ratio is nan.
    ``stage`` is that of a staged study, from 1 (0: none).  ``needs`` is what would tell it, where
    the verdict is cannot-tell (None: it is told, or no noise was measured to say it from).
    ``secondary``: it is of the second family, and neither primary nor a guardrail's.  ``ranks`` is
    the verdict by ranks beside that of the interval (None: the design does not allow one).
    Between results ``compared`` are the two sides (None: the finding is of one results folder).
    """

    workload: str
    metric: str
    factor: str
    level: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verdict: Verdict
    n: int
    trials: tuple[str, ...] = ()
    primary: bool = True
    noise: float | None = None
    bound: Literal["", "high", "low"] = ""
    stage: int = 0
    needs: RequiredBlocks | None = None
    secondary: bool = False
    ranks: RankVerdict | None = None
    compared: SessionComparison | None = None


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether the effect of one factor's level depends on the level of another.

    ``ratio`` is that of two ratios: the effect of ``levels[0]`` (against ``baselines[0]``) with
    the other factor at ``levels[1]``, by its effect with that one at ``baselines[1]``.  ``low``
    and ``high`` are simultaneous over all interactions of the study (None: no interval).
    ``beside`` are the interactions that the design cannot tell from this one.
    """

    workload: str
    metric: str
    factors: tuple[str, str]
    levels: tuple[str, str]
    baselines: tuple[str, str]
    ratio: float
    low: float | None
    high: float | None
    verdict: Likeness
    n: int
    beside: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SimpleEffect:
    """``level`` of ``factor`` against ``baseline``, with ``other`` held at ``at``."""

    workload: str
    metric: str
    factor: str
    level: str
    baseline: str
    other: str
    at: str
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class VarianceShare:
    """How much of the variation of a workload's log responses one source explains.

    ``source`` is ``("scheduler",)``, ``("scheduler", "depth")``, or the word for what is no
    effect (``blocks``, ``higher``, ``whole plots``, ``residual``).  ``squares`` with ``df`` is its
    sum of squares; ``plain`` its share of the total (eta²), ``share`` that corrected for what
    noise alone explains (omega²), between ``low`` and ``high`` (None for what is no effect).
    ``metric`` is whose variation it is.
    """

    workload: str
    source: tuple[str, ...]
    df: int
    squares: float
    plain: float
    share: float
    low: float | None = None
    high: float | None = None
    metric: str = ""

    @property
    def effect(self) -> bool:
        """Whether it is one of factors, and not of blocks or chance."""
        return self.low is not None


@dataclass(frozen=True, slots=True)
class RaceTreatment:
    """One treatment of a race, against the one that is kept in the end (itself: 1, 1, 1).

    ``after`` is the block after which it was dropped or called the same (0: neither);
    ``trials`` how many of it count.  ``ratio``, ``low`` and ``high`` are of the metric (None: no
    number, no interval).  ``path`` tells every look at which both were measured: (block, log
    ratio, half width of its interval).
    """

    label: str
    place: Place
    after: int
    trials: int
    ratio: float | None
    low: float | None
    high: float | None
    path: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RaceForecast:
    """What a race that is open would still take at the noise seen so far, about.

    ``allowed`` is how many blocks the study has left.  ``seconds`` is wall time.
    """

    blocks: int
    trials: int
    seconds: float
    allowed: int


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How a race of one workload went.

    ``looks`` are the blocks after which it was looked at, ``leaders`` who was kept so far at each.
    ``trials`` and ``seconds`` are what it took, ``half`` the widest half interval at the last look
    as a relative difference (None: no interval).  ``ahead`` is None where nothing is open.
    """

    workload: str
    metric: str
    kept: str
    decided: bool
    blocks: int
    trials: int
    seconds: float
    racers: tuple[RaceTreatment, ...]
    looks: tuple[int, ...]
    leaders: tuple[str, ...]
    half: float | None
    ahead: RaceForecast | None = None


@dataclass(frozen=True, slots=True)
class FactorWorth:
    """What a search expects of a factor's ``level`` against its ``baseline`` in the recommended
    combination, as a ratio of the metric; ``low`` and ``high`` hold 95 % of what its model leaves
    open.  It is the ``recommended`` level or, of a factor that stays at its baseline, the best
    other one."""

    factor: str
    level: str
    baseline: str
    ratio: float
    low: float
    high: float
    recommended: bool


@dataclass(frozen=True, slots=True)
class LevelSearch:
    """Where a search for the best levels stands: the valid ``trials``, their ``noise`` (standard
    deviation of the log), the share by which the best combination is expected to be better than
    the recommended one by changes that are each worth the margin (``missing``), and ``why`` it
    ended.  ``worths`` are of all factors that it varied: those to be changed first."""

    metric: str
    trials: int
    noise: float
    missing: float
    why: str
    worths: tuple[FactorWorth, ...]


@dataclass(frozen=True, slots=True)
class KneeLevel:
    """One level on the way to a knee, against the level that was best on average (itself: 1).

    ``ratio``, ``low`` and ``high`` are of the metric, the interval simultaneous over all pairs of
    levels (None: no interval).  ``tested`` is the bound of the test for the knee: at worst the
    level's share of whichever other is best, in goodness (1: none is better; None: not tested).
    ``broken``: it broke a guardrail, and cannot be the knee.
    """

    label: str
    ratio: float
    low: float | None
    high: float | None
    tested: float | None
    as_good: bool
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Knee:
    """The smallest ``level`` of an ordered factor that is as good as the best ('': none was shown
    to be).  ``levels`` are in order, those that are no number first; ``best`` is the one that was
    best on average (of a race: the kept one), ``value`` its geometric mean in the metric's unit.
    ``confidence`` is that of the test; ``open`` are levels without any number; ``higher`` whether
    more of the metric is better.
    """

    workload: str
    metric: str
    factor: str
    level: str
    best: str
    value: float
    levels: tuple[KneeLevel, ...]
    confidence: float
    open: tuple[str, ...] = ()
    higher: bool = True


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A load that was measured: geometric means over its ``trials``.  ``rate`` in the study's
    metric; ``mean`` and ``p99`` of its latency in seconds (None: not measured).  ``front``: no
    other load reached as much with less latency.  ``rates`` and ``means`` are the ends of the
    intervals of rate and mean latency (None: one trial, or the noise is unknown)."""

    treatment: Treatment
    rate: float
    mean: float | None
    p99: float | None
    trials: int
    front: bool = False
    rates: tuple[float, float] | None = None
    means: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What a search for the highest value came to.

    ``best`` is the load that is kept (None: none keeps the limit), ``low`` and ``high`` the
    interval of its rate; ``loss`` at most how much higher another finalist may be, as a fraction
    (None: nobody can tell).  ``limit`` is (metric, most), ``late`` the interval of that metric at
    the best load, and ``kept`` whether it lies below.  ``points`` are all loads measured, in the
    order of their latency, ``knee`` the one of them where more load begins to cost more latency
    than it brings.  ``searched`` treatments of ``of`` were tried, ``racing`` of them raced.
    """

    metric: str
    best: LoadPoint | None
    low: float | None
    high: float | None
    loss: float | None
    limit: tuple[str, float] | None
    late: tuple[float, float] | None
    kept: bool
    points: tuple[LoadPoint, ...]
    knee: LoadPoint | None
    searched: int
    of: int
    racing: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All findings of a study, and what they amount to.

    ``recommendation`` answers the question in words.  ``method`` says how the intervals were
    made (design, n, confidence, family), so that no number stands without its terms.
    ``secondary`` findings are another family, on metrics that the question did not name; nothing
    is decided by them, so they are in no recommendation.  ``resolvable`` maps a workload (with its
    metric, where it has several primary ones) to the smallest relative difference the data could
    have told.
    Of a study with several factors, ``interactions``, the ``simple`` effects beside them, and the
    ``shares`` of the variation.  ``races`` tell how the decision of a race was reached; ``knees``
    where more of an ordered factor gives no more.  Of a study in stages, the ``stages`` so far, and
    the ``choices`` they came to.  Of a search for the highest value the ``ceiling``, of one for the
    best levels the ``search``.  Of
    recorded runs the ``grids`` of numeric factors that are crossed.  Between two folders the
    ``differences`` of what was measured (None: it is of one folder).
    """

    question: str
    findings: tuple[Finding, ...]
    recommendation: str
    method: str
    resolvable: tuple[tuple[str, float], ...] = ()
    interactions: tuple[Interaction, ...] = ()
    simple: tuple[SimpleEffect, ...] = ()
    shares: tuple[VarianceShare, ...] = ()
    races: tuple[RaceResult, ...] = ()
    stages: tuple[StageResult, ...] = ()
    choices: tuple[LevelChoice, ...] = ()
    knees: tuple[Knee, ...] = ()
    ceiling: Ceiling | None = None
    search: LevelSearch | None = None
    grids: tuple[Grid, ...] = ()
    differences: tuple[Difference, ...] | None = None
    secondary: tuple[Finding, ...] = ()


DifferenceKind = Literal["kernel", "machine", "tool", "settings", "study"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What two results folders differ in besides their numbers.  ``what`` names it, ``before`` and
    ``after`` are its values; ``where`` are the hosts, or of settings the treatments (empty: it is
    of the whole study)."""

    kind: DifferenceKind
    what: str
    before: str
    after: str
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage found, as the study of its own that it is; ``kept`` what its factors came to
    (empty while it is not ``decided``, and where it confirms)."""

    stage: Stage
    results: Results
    comparison: Comparison
    kept: tuple[StageDecision, ...]
    decided: bool


@dataclass(frozen=True, slots=True)
class LevelChoice:
    """A factor's ``current`` level and its ``new`` one, the number of the ``stage`` that decided
    (0: none yet) and ``why``."""

    factor: str
    current: str
    new: str
    stage: int
    why: str


@dataclass(frozen=True, slots=True)
class CarriedLevels:
    """What stages hand on: the labels ``left`` of each factor, and where it ``stands`` while it
    is not varied."""

    left: Mapping[str, tuple[str, ...]]
    stands: Mapping[str, str]

    def after(self, kept: Sequence[StageDecision]) -> CarriedLevels:
        return CarriedLevels(
            {**self.left, **{each.factor: each.kept for each in kept}},
            {**self.stands, **{each.factor: each.stands for each in kept}},
        )


@dataclass(frozen=True, slots=True)
class StageProgress:
    """A stage as it goes.  ``study`` is the stage as a study, ``results`` its trials as that study
    sees them; ``before`` the blocks of earlier stages; ``so_far`` what it began with,
    ``baselines`` those of the whole study, ``kept`` what it came to (empty until it is
    ``decided``, and for a stage that confirms)."""

    stage: Stage
    study: Study
    results: Results
    before: int
    so_far: CarriedLevels
    baselines: Mapping[str, str]
    decided: bool
    kept: tuple[StageDecision, ...] = ()

    @property
    def words(self) -> str:
        """``readahead, narrow``."""
        return ", ".join([*self.stage.vary, self.stage.then])


def slim(results: Results) -> Results:
    """The same without the factors that stand still, for what compares and names treatments."""
    study = results.study
    kept = tuple(factor for factor in study.factors if len(factor.levels) > 1)
    names = {factor.name for factor in kept}

    def less(trial: Trial) -> Trial:
        return replace(trial, treatment=tuple(p for p in trial.treatment if p[0] in names))

    return replace(
        results,
        study=replace(study, factors=kept),
        planned=tuple(map(less, results.planned)),
        records=tuple(replace(each, trial=less(each.trial)) for each in results.records),
    )
