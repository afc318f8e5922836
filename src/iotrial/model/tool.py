"""Tool: a load generator that iotrial drives.  A plugin of ``iotrial.tools``.

``command`` and ``parse`` are pure: they work where the tool is not installed and need no host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from iotrial.model.listen import ListenAddress
from iotrial.model.measurement import Measurement
from iotrial.model.target import PreparedTarget
from iotrial.model.trial import Doubt
from iotrial.model.workload import Workload


@dataclass(frozen=True, slots=True)
class ToolTarget:
    """What a load is aimed at, as a tool needs to know it: ``path`` given to the tool, ``kind``
    of path, ``size`` in bytes the load may use (0: the whole device, or the tool's default),
    ``capacity`` what there is (0: not known).  ``host`` is the name of the host where the directory
    is the target of several, which may well be one directory of a server ('': of one host
    alone)."""

    path: str
    kind: Literal["device", "file", "directory"]
    size: int = 0
    host: str = ""
    capacity: int = 0

    def own(self, name: str) -> str:
        """The path of what a tool makes in the directory, by a name that no other host uses.

        >>> ToolTarget("/mnt/nfs", "directory", host="n1").own("iotrial-fio")
        '/mnt/nfs/iotrial-fio-n1'
        """
        return f"{self.path.rstrip('/')}/{name}{'-' if self.host else ''}{self.host}"


@dataclass(frozen=True, slots=True)
class Load:
    """What to execute in a trial's folder: ``argv``, and ``files`` to put there before (name →
    content), such as a job file."""

    argv: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a load leaves at an absolute ``path``, in a directory that was there before us.

    A ``file`` the load makes itself.  A ``folder`` is made before the load, which works
    :func:`inside` it; everything in there goes with it.  ``each`` says when it is removed: after
    every ``trial``, or at the end of the ``study``, so that the next trial finds it.  ``ours``: the
    tool gave the file its name, not the study; what has that name before is not to be touched.
    """

    path: str
    kind: Literal["file", "folder"]
    each: Literal["trial", "study"]
    ours: bool = field(default=False, compare=False)


def inside(folder: str) -> str:
    """Where in a folder of iotrial's the load works; beside it lies what says whose it is.

    >>> inside("/mnt/x/iotrial-fio")
    '/mnt/x/iotrial-fio/data'
    """
    return f"{folder}/data"


@dataclass(frozen=True, slots=True)
class LoadAccess:
    """What a load will touch.  ``reads`` and ``writes`` say whether it does so at all;
    ``paths`` are files or devices it names itself, beside the one it is aimed at; ``runs`` are
    commands it would have a shell execute (``exec_prerun`` and the like).  ``storage`` is False
    where what is read and written comes over a network, and the target is only where it starts.

    A load that only reads may still change a file: ``extent`` is how many bytes a file must have
    so that the tool does not lay out the rest, ``sized`` the options that ask for so much,
    ``alters`` are options that are not known to leave a file as it is.  ``mentions`` are paths of
    which nobody knows what is done there: they must not lead to a device; ``{target}`` in one
    stands for the target's path.  ``opaque``: what it opens cannot be computed at all."""

    reads: bool
    writes: bool
    paths: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    storage: bool = True
    extent: int = 0
    alters: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    sized: str = field(default="", compare=False)
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """Measurements (the trial's own with job ``all``, then one set per job) and doubts; ``basis``
    is what a tool that is :class:`SupportsMerge` makes several loads one from, and knows alone;
    ``disks`` are the kernel names of those that the tool says its files are on ((): not said)."""

    measurements: tuple[Measurement, ...]
    doubts: tuple[Doubt, ...] = ()
    basis: object = field(default=None, compare=False, repr=False)
    disks: tuple[str, ...] = ()


@runtime_checkable
class Tool(Protocol):
    """One load generator.  ``options`` a person may write are checked by ``check``."""

    name: str
    summary: str
    program: str
    package: str

    def check(self, workload: Workload, facts: Mapping[str, float]) -> list[tuple[str, str]]:
        """(option, what is wrong with it) for every option that cannot work; empty: fine.

        ``facts`` are the numbers an option's value may use (``cpus``, ``memory`` in bytes).
        """
        ...

    def reach(self, workload: Workload) -> LoadAccess: ...

    def command(
        self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]
    ) -> Load: ...

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """How long one execution is expected to take, from its options alone."""
        ...

    def version_problem(self, version: str) -> str:
        """Why the installed version (what ``program --version`` printed) will not do, or ''."""
        ...

    def parse(self, folder: Path) -> ParsedOutput:
        """Read what one execution left in ``folder``.

        Raises :class:`~iotrial.errors.FormatError`, naming file and place, for anything that is
        not a whole and well-formed result.
        """
        ...


@runtime_checkable
class SupportsCaching(Protocol):
    """A tool that knows whether its I/O goes through the page cache.  Of others nobody knows."""

    def buffered(self, workload: Workload) -> str:
        """Why some of its I/O goes through the page cache, such as ``direct = false``; '' when it
        all goes past it (O_DIRECT)."""
        ...


@runtime_checkable
class SupportsQueueing(Protocol):
    """A tool that knows how many I/Os its load keeps in flight."""

    def depth(self, workload: Workload, facts: Mapping[str, float]) -> int:
        """Of all its jobs together, all the time; 0 where that does not follow from its
        options."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadCharacter:
    """What a load is to storage.  ``reads``, ``writes``, ``sequential``, ``random`` and
    ``buffered`` (through the page cache) say whether some of it is so, ``metadata`` whether it
    opens, makes or lists many files; what is not known is True.  ``block`` is its largest I/O in
    bytes, ``depth`` how many I/Os all its jobs together have in flight at most (0: not known)."""

    reads: bool = True
    writes: bool = True
    sequential: bool = True
    random: bool = True
    buffered: bool = True
    metadata: bool = True
    block: int = 0
    depth: int = 0


@runtime_checkable
class SupportsCharacter(Protocol):
    """A tool that knows from the options what its load is to storage."""

    def character(self, workload: Workload, facts: Mapping[str, float]) -> WorkloadCharacter:
        """Raises as :meth:`Tool.reach`."""
        ...


@runtime_checkable
class SupportsMetrics(Protocol):
    """A tool that knows which metrics it can give: others are refused before anything is run."""

    measures: re.Pattern[str]
    """Matches the whole name of each."""
    usual: str
    """What decides where the study says nothing: the quantity of the load's reads or writes
    (``bw``), or a whole metric (``create.rate``)."""


@runtime_checkable
class SupportsMetricChoice(Protocol):
    """A tool whose usual metric depends on the load."""

    def primary(self, workload: Workload) -> str:
        """The whole metric that decides where the study says nothing."""
        ...

    def lacking(self, workload: Workload, metric: str) -> str:
        """Why this load has no such metric, though the tool measures it; ''."""
        ...


@runtime_checkable
class SupportsFamily(Protocol):
    """A tool whose results are a table of several operations, all of which people read."""

    def family(self, workload: Workload) -> Sequence[str]:
        """The metrics that this load gives and that are judged though no study names them."""
        ...


@dataclass(frozen=True, slots=True)
class LoadSection:
    """A part of a load that is measured by itself: a section of fio's job file, one record size of
    IOzone's.  ``after``: it begins when those before it have ended; ``pooled``: the rate of the
    whole load is one over all its sections, and says nothing where they follow each other."""

    name: str
    reads: bool
    writes: bool
    after: bool = False
    pooled: bool = False


@runtime_checkable
class SupportsSections(Protocol):
    """A tool whose loads can have sections.  It gives each metric of a section as the trial's own
    number, the section's name in brackets (:func:`iotrial.model.measurement.of_section`)."""

    def sectioned(self, workload: Workload) -> Sequence[LoadSection]:
        """Those of a load that has more than one; else none."""
        ...


@dataclass(frozen=True, slots=True)
class RateSeries:
    """A rate over time within one trial: ``values`` in base units, one every ``step`` seconds.
    ``what`` says in words whose rate it is."""

    step: float
    values: tuple[float, ...]
    what: str = ""


@runtime_checkable
class SupportsTrace(Protocol):
    """A tool that can note its own rate over time while it measures."""

    def traced(self, load: Load, workload: Workload) -> Load:
        """The same load, told to do so: some hundred times, into files in the trial's folder."""
        ...

    def course(self, folder: Path, metric: str) -> RateSeries | None:
        """What it noted: the rate that ``metric`` is the mean of, or for a latency the rate of
        the same operation; ramp time left out.  None where the folder holds nothing of it."""
        ...


@dataclass(frozen=True, slots=True)
class AssumedSpeed:
    """What storage is taken to do: ``stream`` in bytes per second, ``rate`` in small I/Os per
    second."""

    stream: float
    rate: float


SLOW = AssumedSpeed(20e6, 200.0)
"""Slow on purpose: time-outs follow from it."""
LIKELY = AssumedSpeed(800e6, 20_000.0)
"""Flash, or a loop device over a file on it: what a plan is reckoned with."""


@runtime_checkable
class SupportsSizedLoads(Protocol):
    """A tool whose loads end by their size and not by time: how long depends on the storage, and
    :meth:`Tool.seconds` is what :data:`SLOW` storage needs."""

    def likely(self, workload: Workload, aimed: ToolTarget) -> float:
        """Seconds of one execution on :data:`LIKELY` storage."""
        ...


@runtime_checkable
class SupportsKnownWrites(Protocol):
    """A tool that knows how much its load writes, whatever the storage does."""

    def written(self, workload: Workload) -> float:
        """Bytes of one execution."""
        ...


@runtime_checkable
class SupportsWriteRate(Protocol):
    """A tool that may know how fast its load writes at most, whatever the storage does."""

    def write_rate(self, workload: Workload) -> float:
        """Bytes per second; infinite where nothing limits them."""
        ...


@runtime_checkable
class SupportsPathCheck(Protocol):
    """A tool that cannot be told of every path."""

    def unnameable(self, workload: Workload, aimed: ToolTarget) -> str:
        """Why the load would open something else than ``aimed`` says, or ''."""
        ...


@runtime_checkable
class SupportsLeftovers(Protocol):
    """A tool whose loads leave something behind: in the end, or when they are killed."""

    def leaves(
        self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]
    ) -> tuple[Leftover, ...]:
        """Everything that is made outside of the trial's folder, and was not there before."""
        ...


@runtime_checkable
class SupportsMerge(Protocol):
    """A tool whose results of loads that ran at the same time can be made one exactly."""

    def merge(self, several: Sequence[ParsedOutput]) -> tuple[Measurement, ...]:
        """The numbers of all loads together (job ``all``), from what ``parse`` gave of each."""
        ...


@runtime_checkable
class SupportsLayout(Protocol):
    """A tool that can write the files that a load in a directory will read, without a load."""

    def lay_out(
        self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]
    ) -> Load: ...


@dataclass(frozen=True, slots=True)
class LoadBarrier:
    """Where loads wait for one another: words that a load has a shell do when it is ready; they
    return at the common moment, or fail where it is not to begin.  ``every`` job of it may do
    them; ``first`` are the same for a load whose jobs are not all ready at the same time: only
    those wait, and tell when, that find nobody has begun."""

    every: str
    first: str


@runtime_checkable
class SupportsBarrier(Protocol):
    """A tool that can be started early, make ready, and wait before its first I/O and its clock."""

    def gated(self, load: Load, workload: Workload, gate: LoadBarrier) -> Load | None:
        """The same load, told to do ``gate`` when it is ready; None where this one cannot."""
        ...


@runtime_checkable
class SupportsServer(Protocol):
    """A tool that has a client and a server of its own: the server is where the load is, the client
    here, where it is told what to do and the results come to."""

    def unserved(self, workload: Workload, path: str = "") -> list[tuple[str, str]]:
        """(option, why it cannot go through the client), as ``check``; with the ``path`` of a
        target also what of that cannot."""
        ...

    def serving(self, listen: ListenAddress | None = None) -> tuple[tuple[str, ...], str]:
        """The command of a server, and its socket, relative to the folder it is started in: in a
        folder that only its user can look into; '' where it is to ``listen`` on the network."""
        ...

    def client(self, load: Load, listen: ListenAddress | None = None) -> tuple[Load, str]:
        """The same load, to be executed in a folder here, and what the server is called there: the
        name of that folder's link to its socket, or its address."""
        ...

    def unlike(self, here: str, there: str) -> str:
        """Why client and server of these versions (what ``program --version`` printed) do not go
        together, or ''."""
        ...

    def failure(self, folder: Path) -> str:
        """Why a client that has ended in ``folder`` came to nothing, whatever its status; ''."""
        ...

    def own_name(self, name: str, server: str) -> str:
        """What a file that the client of ``server``, as :meth:`client` calls it, left would be
        called without it."""
        ...


def aimed_at(aim: PreparedTarget) -> ToolTarget:
    """What a tool is told of a target."""
    if aim.target.filesystem:
        return ToolTarget(aim.path, "directory")
    return ToolTarget(aim.path, aim.target.under_load, aim.target.size, aim.host, aim.capacity)
