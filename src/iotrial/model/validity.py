"""Validity: what is read around a load, and what a check decides from it.

A check is a plugin of ``iotrial.validity``.  It never calls a host: it says as data what is to be
read, and decides from what was read and what the load said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Literal

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.step import Probe
from iotrial.model.trial import Doubt


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a trial was about, as far as checks need to know it.

    ``device`` is the kernel name of the block device under test ('': none, such as a network
    mount), ``disks`` those at the bottom of it; ``kind`` what the load was aimed at; ``reads`` and
    ``writes`` whether it does so at all; ``direct`` whether all of it is known to go past the page
    cache, ``buffered`` why some of it does not ('': it does, or nobody knows); ``cache`` how the
    page cache was met before it; ``size`` how many bytes it may use, ``memory`` how many the host
    has (0: unknown); ``cpus`` how many processors; ``depth`` how many I/Os it keeps in flight (0:
    nobody says).  ``ways`` are the disks below that are meant to carry alike, each with the
    adapter and the NUMA node it hangs on ('': none).  ``below`` is all that the device is built on,
    by kernel names.  ``shared``: another load of the study runs at the same time, so what the
    device counts is of both.
    """

    device: str = ""
    disks: tuple[str, ...] = ()
    kind: Literal["device", "file", "directory"] = "device"
    reads: bool = True
    writes: bool = True
    direct: bool = False
    buffered: str = ""
    cache: str = "keep"
    size: int = 0
    memory: float = 0.0
    cpus: int = 1
    depth: int = 0
    ways: tuple[tuple[str, str, str], ...] = ()
    below: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class CheckReading:
    """One thing that a check wants read before and after the load.  ``keep`` says what of it is
    worth keeping: a snapshot is stored with every trial."""

    probe: Probe
    keep: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was read at one moment: ``at`` in seconds of the host's monotonic clock, ``said`` what
    each reading said, by its probe's place.  What could not be read is not in it."""

    at: float = 0.0
    said: Mapping[str, str] = field(default_factory=dict)

    def text(self, place: str) -> str:
        """What was read there; '' where there is nothing."""
        return self.said.get(place, "")


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """Bytes that were read and written."""

    read: float
    write: float

    def __sub__(self, other: BytesMoved) -> BytesMoved:
        return BytesMoved(self.read - other.read, self.write - other.write)

    def of(self, operation: str) -> float:
        """Those of ``read`` or ``write``."""
        return self.read if operation == "read" else self.write

    @property
    def total(self) -> float:
        return self.read + self.write


@dataclass(frozen=True, slots=True)
class IOSample:
    """One line of telemetry: ``t`` in seconds since the load began, and what the device had moved
    and how many I/Os it had ``finished`` since it is there."""

    t: float
    moved: BytesMoved
    finished: int = 0


@dataclass(frozen=True, slots=True)
class LateSample:
    """A look at the device that came late: due at ``t`` seconds since the load began, late by
    ``seconds``; ``bytes`` that the device moved since the look before, None where nobody counts."""

    t: float
    seconds: float
    bytes: float | None


@dataclass(frozen=True, slots=True)
class LoadEvidence:
    """All that is known of one load: what checks decide from.  ``seconds`` is how long the load's
    process lived; ``samples`` are the telemetry of the device, ``pauses`` where this machine may
    have stood still; ``named`` are the disks that the load itself says it used."""

    scene: CheckContext
    before: Snapshot
    after: Snapshot
    seconds: float
    measurements: tuple[Measurement, ...] = ()
    samples: tuple[IOSample, ...] = ()
    pauses: tuple[LateSample, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def elapsed(self) -> float:
        """Seconds between the snapshots."""
        return self.after.at - self.before.at

    def own(self, metric: str) -> float | None:
        """The load's own number of all its jobs; None where it says none, or a bound."""
        for each in self.measurements:
            if each.metric == metric and each.job == "all":
                return None if each.censored else each.value
        return None


Judge = Callable[[LoadEvidence], Iterable[Doubt]]
StudyJudge = Callable[[Results], Iterable[Doubt]]
Reads = Callable[[CheckContext], Iterable[CheckReading]]


def _nothing_read(_scene: CheckContext) -> Iterable[CheckReading]:
    return ()


def _no_doubt(_case: LoadEvidence) -> Iterable[Doubt]:
    return ()


def _no_doubt_of_study(_results: Results) -> Iterable[Doubt]:
    return ()


@dataclass(frozen=True, slots=True)
class ValidityCheck:
    """One check.  A function with :func:`check` or :func:`study_check` is one, whatever its name;
    so is each other value of this type in a plugin's module.

    ``name`` is what its doubts are called; ``looks_at``, ``limit``, ``remedy``, ``source`` and
    ``about`` are for people.  ``invalid`` says whether it can make a trial INVALID.  ``reads`` says
    what has to be read for a scene, ``judge`` decides on a trial, ``study`` on all of them
    together.
    """

    name: str
    title: str
    looks_at: str
    limit: str
    remedy: str
    source: str
    invalid: bool = False
    reads: Reads = _nothing_read
    judge: Judge = _no_doubt
    study: StudyJudge = _no_doubt_of_study
    about: str = ""

    @property
    def of_study(self) -> bool:
        """Whether it looks at a study as a whole."""
        return self.study is not _no_doubt_of_study

    def doubt(self, what: str, *, invalid: bool = False) -> Doubt:
        """A doubt of this check, with its remedy."""
        return Doubt(self.name, what, self.remedy, invalid=invalid)


def check(  # noqa: PLR0913 (a check's words, all by name)
    name: str,
    title: str,
    *,
    looks_at: str,
    limit: str,
    remedy: str,
    source: str,
    invalid: bool = False,
    reads: Reads = _nothing_read,
) -> Callable[[Judge], ValidityCheck]:
    """The function decides on a trial; its docstring is what the check is about.  All else is as in
    :class:`ValidityCheck`."""

    def made(judge: Judge) -> ValidityCheck:
        about = getdoc(judge) or ""
        return ValidityCheck(
            name, title, looks_at, limit, remedy, source, invalid, reads, judge, about=about
        )

    return made


def study_check(  # noqa: PLR0913 (a check's words)
    name: str, title: str, *, looks_at: str, limit: str, remedy: str, source: str
) -> Callable[[StudyJudge], ValidityCheck]:
    """The function decides on all trials of a study together; else as :func:`check`."""

    def made(study: StudyJudge) -> ValidityCheck:
        about = getdoc(study) or ""
        return ValidityCheck(name, title, looks_at, limit, remedy, source, study=study, about=about)

    return made
