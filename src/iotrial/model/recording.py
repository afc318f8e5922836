"""Recording: one run of a load as a file tells it, whoever ran it.  Format: how to read such files.

A format is a plugin of :mod:`iotrial.formats`; it is pure and needs neither the tool nor a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from mmap import mmap
from typing import Protocol

from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement
from iotrial.model.trial import Treatment

Buffer = bytes | mmap
"""A file's bytes: whole, or mapped where the file is large."""


@dataclass(frozen=True, slots=True)
class Recording:
    """``tool`` is who wrote it and ``version`` its version ('' unknown); ``name`` what the file
    itself calls the run (fio's job, bonnie++'s machine; '' nothing) and ``line`` where it begins
    (from 1; 0 for a file without lines).

    ``workload`` says what was loaded: runs with the same one can be compared (``randread``,
    ``bonnie++``).  ``treatment`` is what the file says it was run with: (("bs", "64k"),
    ("iodepth", "64")), by the tool's own option names.  ``started`` is seconds since the epoch
    (UTC), 0 unknown; ``seconds`` how long it took, 0 unknown.
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


class Format(Protocol):
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
