"""Study: question, hosts, targets, workloads, factors, design, decision rule, stages; and the
earlier results that say what it measures first."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from iotrial.model.listen import ListenAddress
from iotrial.model.measurement import Metrics
from iotrial.model.target import Target
from iotrial.model.trial import Treatment
from iotrial.model.tunable import Tunable
from iotrial.model.workload import OptionValue, Workload, metrics_of
from iotrial.units import parse_bytes

Goal = Literal["all", "winner"]
Guarantee = Literal["normal", "exact"]
Then = Literal["narrow", "knee", "best", "screen", "confirm", "tune", "worth"]
"""What is done with the levels once the stage is decided (:mod:`iotrial.plan.stages`)."""
Options = tuple[tuple[str, OptionValue], ...]
FactorKind = Literal["tunable", "group", "option", "target", "manual", "count", "recorded"]
UNSET = "unset"
"""The level of a tunable factor that leaves the tunable as it was at the start."""


@dataclass(frozen=True, slots=True)
class TargetSignature:
    """What was measured then, or is now: a target's ``kind``, ``path`` (of a file or directory),
    and the ``ids`` that a disk keeps, on the machine with the id ``machine``."""

    kind: str
    path: str
    machine: str
    ids: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PriorResults:
    """``folder`` names the earlier results; ``order`` has, for each workload, treatments from the
    one that did best there; ``targets`` are what they were measured on."""

    folder: str
    order: tuple[tuple[str, tuple[Treatment, ...]], ...]
    targets: tuple[TargetSignature, ...] = ()

    def ranks(self, workload: str) -> dict[Treatment, int]:
        """Treatment → its place in the order, from 0; what the prior does not know is not in it."""
        known = dict(self.order).get(workload, ())
        return {treatment: place for place, treatment in enumerate(known)}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Whole numbers in steps of ``step`` from ``origin``, no less than ``start`` and no more than
    ``to``; None: as far as the levels reach that survived."""

    origin: int
    step: int
    start: int | None = None
    to: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.  ``number`` counts from 1; ``vary`` names factors, ``fixed`` holds (factor, label)
    pairs that are held still in it.  ``options`` are by workload, in place of the workload's own.
    ``sweeps`` are finer levels for a factor.  Empty ``workloads``: all; empty ``target``: the
    study's; 0 ``blocks`` and empty ``kind``: the design's.  ``here`` is for one machine's share of
    a study on several: the names of what the stage loads there, perhaps none."""

    number: int
    vary: tuple[str, ...]
    then: Then = "best"
    fixed: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, Options], ...] = ()
    sweeps: tuple[tuple[str, Sweep], ...] = ()
    workloads: tuple[str, ...] = ()
    target: str = ""
    blocks: int = 0
    kind: Literal["", "full", "fraction", "one-at-a-time", "race"] = ""
    here: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StageDecision:
    """What a factor came to in a stage: ``levels`` tried, ``kept`` of them, the one at which it
    ``stands`` from then on where it is not varied, and ``why`` in words."""

    factor: str
    levels: tuple[str, ...]
    kept: tuple[str, ...]
    stands: str
    why: str


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a factor.  ``label`` names it everywhere; exactly one of the others counts:
    ``settings`` ((tunable, value) pairs; tunable and group factors), ``option``, ``options``
    ((option, value) pairs that are switched as one) or ``target``.

    ``alternatives`` are (tunable, values): any of these values will do, the first that is
    available; until the host was asked, the first of them stands in ``settings``."""

    label: str
    settings: tuple[tuple[str, str], ...] = ()
    option: OptionValue | None = None
    target: str = ""
    alternatives: tuple[tuple[str, tuple[str, ...]], ...] = ()
    options: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Factor:
    """What is varied.  ``subject`` is the tunable's name, or the option's, or what a person is
    asked to do (``{level}`` in it is the level), or what is counted (``hosts``, ``devices``);
    ``verify`` is the command that prints the level.
    ``workload`` limits an option factor to one workload (empty: all).  ``target`` says whose
    device a tunable factor means (empty: the target under test); ``on`` names the very thing it
    is set on (``eth0``), where that does not follow from a target.  ``baseline`` is a level's
    label (empty: the level in force at the start, else the first).  ``hard``: costly to change,
    hence changed least often.  ``coarse`` are the labels that a staged study begins with; the
    other levels are for a finer sweep (empty: it begins with all)."""

    name: str
    kind: FactorKind
    levels: tuple[Level, ...]
    subject: str = ""
    workload: str = ""
    target: str = ""
    baseline: str = ""
    on: str = ""
    verify: tuple[str, ...] = ()
    hard: bool = False
    coarse: tuple[str, ...] = ()

    def level(self, label: str) -> Level:
        return next(level for level in self.levels if level.label == label)

    def options(self, level: Level) -> tuple[tuple[str, OptionValue], ...]:
        """The workload options that a level of this factor sets."""
        return level.options if level.option is None else ((self.subject, level.option),)


@dataclass(frozen=True, slots=True)
class StudyHost:
    """A machine that the study names.  ``ssh`` is how ssh(1) reaches it, ``via`` how another
    connector does (``NAME://TO``); both empty: it is this machine.
    ``lease`` in seconds: so long after the link is lost it restores itself.  ``listen`` is where a
    tool's servers are reached (None: through the SSH connection).  ``power`` is a command of this
    machine that cycles the power of the host where it does not come back from a boot."""

    name: str
    ssh: str = ""
    lease: float = 30.0
    listen: ListenAddress | None = None
    via: str = ""
    power: tuple[str, ...] = ()

    @property
    def way(self) -> str:
        """How it is reached, in the words of a command line ('': it is this machine)."""
        return self.ssh or self.via

    @property
    def reached(self) -> str:
        """The same for people: the command, where it is one."""
        return f"ssh {self.ssh}" if self.ssh else self.via


@dataclass(frozen=True, slots=True)
class Design:
    """How treatments are spread over trials.  ``budget`` (0: none) and ``settle`` in seconds.
    ``drain``: how long the load of each workload runs at most, unmeasured, before its first trial,
    until burst credits are used up (0: not at all).
    ``recorded``: somebody else ran them; nothing is left to run.  A ``fraction`` has the least
    number of treatments of its ``resolution``, or as many as ``runs`` says (0: not said).  Of a
    ``race`` ``blocks`` is the most: it ends as soon as nothing is open; any other design does so
    with ``stop`` "decided".  ``prior``: earlier results say what it measures first.  ``saturate``
    searches with its first workload, and races the best of it with the second
    (:mod:`iotrial.plan.saturate`); ``tune`` searches the best levels of many factors
    (:mod:`iotrial.plan.tune`).  ``blocks_over`` "hosts": each block runs on one of the target's
    hosts, several at the same time (:mod:`iotrial.plan.design`).  ``extended`` are the numbers of
    blocks that the study had before each time it was extended, after its results had been seen
    (:mod:`iotrial.plan.extend`).  ``share``: of a stage, the seconds of its trials after which it
    begins no further block (0: no limit).  ``chosen`` is the number of blocks where that was chosen
    before the study began and is not its file's (0: it is)."""

    kind: Literal["full", "fraction", "one-at-a-time", "race", "saturate", "tune", "recorded"] = (
        "full"
    )
    blocks: int = 5
    seed: int = 1
    budget: float = 0.0
    settle: float = 0.5
    resolution: int = 5
    runs: int = 0
    stop: Literal["blocks", "decided"] = "blocks"
    blocks_over: Literal["time", "hosts"] = "time"
    prior: PriorResults | None = None
    extended: tuple[int, ...] = ()
    drain: float = 0.0
    share: float = 0.0
    chosen: int = 0

    @property
    def looked(self) -> bool:
        """Whether results are seen, and going on is decided, more than once: intervals then have
        to hold at all looks together."""
        return self.stop == "decided" or bool(self.extended)


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """When a difference counts.  ``primary`` holds (workload, metric) pairs, perhaps several of a
    workload: all comparisons of theirs are one family; ``secondary`` pairs are another, with an
    error of its own.  ``margin`` is the smallest difference that matters, as a fraction;
    ``guardrails`` map a metric to the largest tolerated relative change (0.1: +10 %, −0.05: −5 %);
    ``limits`` a metric to what it must not exceed, in its base unit.  ``goal`` is what ends a race:
    all treatments are told from the kept one, or none is more than the margin better.  ``test`` is
    what *better* and *worse* are read from (:mod:`iotrial.stats.ranks`).  ``guarantee`` "exact": a
    race is right under any noise (:mod:`iotrial.stats.bets`)."""

    primary: tuple[tuple[str, str], ...]
    margin: float = 0.02
    confidence: float = 0.95
    guardrails: tuple[tuple[str, float], ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    goal: Goal = "all"
    secondary: tuple[tuple[str, str], ...] = ()
    test: Literal["intervals", "ranks"] = "intervals"
    guarantee: Guarantee = "normal"

    @property
    def leading(self) -> dict[str, str]:
        """Workload → the first of its primary metrics."""
        found: dict[str, str] = {}
        for workload, metric in self.primary:
            found.setdefault(workload, metric)
        return found

    def named(self, workload: str, metric: str) -> str:
        """How words call this response: by its workload, where that has one primary metric."""
        several = sum(name == workload for name, _ in self.primary) > 1
        return f"{workload} {metric}" if several else workload

    def of(self, workloads: Collection[str]) -> DecisionRule:
        """The same for these workloads alone."""
        primary, secondary = (
            tuple(pair for pair in pairs if pair[0] in workloads)
            for pairs in (self.primary, self.secondary)
        )
        return replace(self, primary=primary, secondary=secondary)


@dataclass(frozen=True, slots=True)
class AA:
    """That a study is an A/A one: the baseline treatment against itself, in ``arms`` identical
    copies.  ``levels`` are its (factor, label) pairs and ``of`` the study it was made from, with
    all its levels; empty and None until the host was asked which levels are the baseline."""

    arms: int
    levels: tuple[tuple[str, str], ...] = ()
    of: Study | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """``text`` is the study file as it was, ``digest`` the first 12 hex digits of its SHA-256.
    ``exclude`` holds cells that are not to be run: each a tuple of (factor, label) pairs.
    ``aa``: it is an A/A study, made from what ``text`` says.  ``stages``: it is done in these,
    one after the other (:mod:`iotrial.plan.stages`).  ``inventory``: those of ``hosts`` that
    another file names, each with how ssh(1) reaches it ('': this machine).  ``pretended``: it is
    executed on a made-up machine, and its numbers are made up too.  ``knobs`` are the tunables that
    it defines itself."""

    question: str
    name: str
    targets: tuple[Target, ...]
    workloads: tuple[Workload, ...]
    factors: tuple[Factor, ...]
    design: Design
    decide: DecisionRule
    exclude: tuple[tuple[tuple[str, str], ...], ...] = ()
    text: str = ""
    digest: str = ""
    hosts: tuple[StudyHost, ...] = ()
    aa: AA | None = None
    stages: tuple[Stage, ...] = ()
    inventory: tuple[tuple[str, str], ...] = ()
    pretended: bool = False
    knobs: tuple[Tunable, ...] = field(default=(), repr=False, compare=False)

    places: tuple[StudyHost, ...] = field(init=False, repr=False, compare=False)
    """The machines that the targets are on, in the study's order: those they name, or the study's
    only one, or this machine."""

    metrics: Metrics = field(init=False, repr=False, compare=False)
    """Those that iotrial knows, and those that the workloads define."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", metrics_of(self.workloads))
        # Reckoned once: with a thousand hosts it is asked for a thousand times a trial.
        named = {host for target in self.targets for host in target.hosts}
        known = [place for place in self.hosts if place.name in named or len(self.hosts) == 1]
        object.__setattr__(self, "places", tuple(known) or (StudyHost("local"),))

    @property
    def place(self) -> StudyHost:
        """The first of :attr:`places`: of most studies the only one."""
        return self.places[0]

    @property
    def spread(self) -> bool:
        """Whether blocks are spread over hosts: each runs on one, several at the same time."""
        return self.design.blocks_over == "hosts"

    @property
    def whole(self) -> tuple[Target, ...]:
        """The targets that are not only part of another."""
        members = {name for target in self.targets for name in target.of}
        return tuple(target for target in self.targets if target.name not in members)

    @property
    def judged(self) -> tuple[Workload, ...]:
        """The workloads that have trials: all but those that only run beside others."""
        return tuple(workload for workload in self.workloads if not workload.neighbour)

    def target(self, name: str) -> Target:
        return next(target for target in self.targets if target.name == name)

    def workload(self, name: str, stage: int = 0) -> Workload:
        """The workload of that name, with the options that it has in a stage (0: none)."""
        found = next(workload for workload in self.workloads if workload.name == name)
        if not stage:
            return found
        return found.with_options(dict(self.stages[stage - 1].options).get(name, ()))

    def treatments(self, workload: str) -> tuple[tuple[tuple[str, str], ...], ...]:
        """All combinations of the levels of the factors that apply to a workload, in the study's
        order, but for the excluded ones: tuples of (factor, label) pairs."""
        axes = [
            [(factor.name, level.label) for level in factor.levels]
            for factor in self.factors
            if factor.workload in ("", workload)
        ]
        return tuple(
            cell
            for cell in itertools.product(*axes)
            if not any(set(pairs) <= set(cell) for pairs in self.exclude)
        )

    def factor(self, name: str) -> Factor:
        return next(factor for factor in self.factors if factor.name == name)


def ordered(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels that are numbers or sizes, ascending; none where any other but ``unset`` is
    neither.

    >>> ordered(["unset", "1MiB", "64k"])
    ('64k', '1MiB')
    """
    try:
        sizes = {label: parse_bytes(label) for label in labels if label != UNSET}
    except ValueError:
        return ()
    return tuple(sorted(sizes, key=sizes.__getitem__)) if len(sizes) > 1 else ()


def digest(*texts: str) -> str:
    """The first 12 hex digits of the SHA-256 of a study file's text and of its job files'."""
    joined = "\0".join(texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:12]
