"""Recording: one run of a load as a file tells it, whoever ran it.  Format: how to read such files.

A format is a plugin of :mod:`iotrial.formats`; it is pure and needs neither the tool nor a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from mmap import mmap
from typing import Protocol, runtime_checkable

from iotrial.model.measurement import Measurement
from iotrial.model.trial import Doubt, Treatment

Buffer = bytes | mmap
"""A file's bytes: whole, or mapped where the file is large."""
FEW = 4
"""Numbers below which the same ones may come out again in another folder."""


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """A latency's histogram: value → number of I/Os, values in units of ``tick`` seconds.  What
    took longer than ``last`` is counted there: from it on, a value is a lower bound."""

    tick: float
    last: int
    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Recording:
    """``tool`` is who wrote it and ``version`` its version ('' unknown); ``name`` what the file
    itself calls the run (fio's job, bonnie++'s machine; '' nothing) and ``line`` where it begins
    (from 1; 0 for a file without lines).

    ``workload`` says what was loaded: runs with the same one can be compared (``randread``,
    ``bonnie++``).  ``treatment`` is what the file says it was run with: (("bs", "64k"),
    ("iodepth", "64")), by the tool's own option names.  ``started`` is seconds since the epoch
    (UTC), 0 unknown; ``seconds`` how long it took, 0 unknown.

    ``logs`` are the names of logs that the file says were written (``x`` of ``x_clat.1.log``).
    ``tick`` is the unit, in seconds, of a log's latencies (0: it has none); ``other`` is the same
    recording in the other unit, where the log does not say which it is.

    ``bins`` and ``weights`` are what it takes to put recordings of one run together, and are of
    no other use: the histogram of each latency by its name (``read.clat``), and what each mean is
    a mean over (``read.clat.mean``: I/Os; ``cpu.usr``: seconds of its jobs).
    """

    tool: str
    workload: str
    measurements: tuple[Measurement, ...]
    name: str = ""
    version: str = ""
    line: int = 0
    treatment: Treatment = ()
    doubts: tuple[Doubt, ...] = ()
    started: float = 0.0
    seconds: float = 0.0
    logs: tuple[str, ...] = ()
    tick: float = field(default=0.0, compare=False)
    other: Recording | None = field(default=None, compare=False, repr=False)
    bins: Mapping[str, LatencyHistogram] = field(default_factory=dict, compare=False, repr=False)
    weights: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)


@runtime_checkable
class RecordingFormat(Protocol):
    """One format of files, every version of it."""

    name: str
    """As ``import --format`` takes it: ``fio-text``."""
    title: str
    """In words: ``fio, normal output``."""

    def recognises(self, head: bytes, name: str) -> int:
        """How sure this format is of a file that begins with ``head`` (up to 64 KiB) and is
        called ``name``: 0 not mine; 1 it has the shape; 2 it has words that only this tool
        writes; 3 both.  The surest reads the file."""
        ...

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        """Every run in the file, in its order; ``raw`` names the file in messages and
        measurements.

        Raises :class:`~iotrial.errors.FormatError`, naming file and line (or byte), for anything
        that is not whole and well formed: any bytes give the right numbers or that error.
        """
        ...
