"""Treatment: one combination of factor levels.  Trial: a treatment x a workload x a block.  Doubt:
what makes a trial less believable, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from iotrial.model.measurement import Measurement

Treatment = tuple[tuple[str, str], ...]
"""(factor, label) pairs in the study's order; only the factors that apply to the workload."""
HOST_LOST = "host-lost"
OFFERED_ABOVE, OFFERED_BELOW = "offered-above", "offered-below"
"""The doubts about a limit that lies beyond the highest or the lowest rate that was offered: the
result of the trial is that rate, and the truth lies beyond it."""
"""The doubt of a trial that failed because a host went out of reach: it is queued again."""
TrialState = Literal["valid", "invalid", "failed"]
UNKNOWN = "unknown"
"""The label where an imported run does not say; it is compared with nothing."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """``check`` is the short name of who doubts (``drift``, ``steady-state``); ``invalid`` means
    that the trial does not count and is queued again.  ``trial`` is its folder, or empty when
    the doubt is about the whole study."""

    check: str
    what: str
    advice: str
    invalid: bool = False
    trial: str = ""


def treatment_text(treatment: Treatment) -> str:
    """``scheduler=bfq depth=8``; a study without factors has the one treatment ``-``."""
    return " ".join(f"{factor}={label}" for factor, label in treatment) or "-"


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as planned.  ``number`` counts from 1 in the order of execution; ``block`` from 1;
    ``attempt`` from 1 (an INVALID trial is queued again with the next attempt).  ``stage`` counts
    from 1; 0 where the study has no stages.  ``host`` is where its block runs, of a study whose
    blocks are spread over hosts; '' of any other."""

    number: int
    id: str
    block: int
    workload: str
    treatment: Treatment
    target: str
    attempt: int = 1
    stage: int = 0
    host: str = ""

    @property
    def folder(self) -> str:
        return f"{self.number:04d}-{self.id}"


DrainState = Literal["fell", "level", "limit"]


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """What the load of a trial did before it, unmeasured, until burst credits were used up.

    ``state``: its rate ``fell`` and was level; it was ``level`` where it had fallen earlier; the
    ``limit`` of time was over.  ``high`` and ``low`` are (bytes a second, I/Os a second) before and
    after the fall, ``seconds`` how long it ran in all, ``moved`` the bytes until the fall.
    """

    state: DrainState
    seconds: float
    high: tuple[float, float]
    low: tuple[float, float]
    moved: float = 0.0


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial as executed.

    ``started`` is seconds since the epoch (UTC), ``seconds`` how long the whole trial took,
    ``load_seconds`` how long the tool's own process lived.  ``tool`` is the tool's name,
    ``command`` its argv.
    ``before`` and ``after`` are the settings read back, (device, tunable, value) triples.
    ``writers`` are the programs seen at work at its beginning and at its end that change settings
    themselves, such as ``tuned (pid 812)``.  ``error`` says why a failed trial failed.
    ``source`` is where an imported run stands: file and line below the results folder;
    ``session`` what a person calls the session that it was taken in ('': nobody said).
    ``prepared`` are seconds that chores of the whole study or block, or a drain, took with it,
    which are not in ``seconds``; ``drained`` what the drain came to (None: there was none).
    Of a trial on several (host, target) pairs, ``parts`` names them (a measurement of one has it
    as its job); ``starts`` are (part, seconds after the common moment at which its load went on),
    ``clocks`` (host, seconds its clock was ahead of ours, how well that is known).  ``beside`` are
    the workload that ran at the same time, its tool, and its folder in the trial's (none: ()).
    """

    trial: Trial
    state: TrialState
    started: float
    seconds: float
    load_seconds: float = 0.0
    tool: str = ""
    command: tuple[str, ...] = ()
    before: tuple[tuple[str, str, str], ...] = ()
    after: tuple[tuple[str, str, str], ...] = ()
    writers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    doubts: tuple[Doubt, ...] = ()
    error: str = ""
    prepared: float = 0.0
    measurements: tuple[Measurement, ...] = field(default=(), repr=False)
    source: str = ""
    session: str = ""
    parts: tuple[str, ...] = ()
    starts: tuple[tuple[str, float], ...] = ()
    clocks: tuple[tuple[str, float, float], ...] = ()
    beside: tuple[str, str, str] | tuple[()] = ()
    drained: DrainRecord | None = None

    def of_part(self, part: str, metric: str) -> float | None:
        """What one part of several measured of a metric; None where it has no number of it."""
        return self.by_job(metric).get(part)

    def by_job(self, metric: str) -> dict[str, float | None]:
        """What each job, and each part of several, measured of a metric; None where that is no
        number."""
        found: dict[str, float | None] = {}
        for each in self.measurements:
            if each.metric == metric:
                found.setdefault(each.job, None if each.censored else each.value)
        return found

    def value(self, metric: str) -> float | None:
        """The trial's own number for a metric: over all jobs, or None where it has none.  A
        censored one is a bound and no number: it must enter no mean and no ratio."""
        for measurement in self.measurements:
            if measurement.metric == metric and measurement.job == "all":
                return None if measurement.censored else measurement.value
        return None
