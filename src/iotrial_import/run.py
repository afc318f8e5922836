"""Original: a file as it was given, and what it says.  Run: a recording and what is known of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from iotrial.model.recording import Recording
from iotrial.model.trial import UNKNOWN, Doubt, Treatment
from iotrial_import.formats.table.columns import Columns
from iotrial_import.legend import SESSION

_NOT_SAID = ("", UNKNOWN, "n/a", "na", "?", "-")
FILE, FOLDER = "file", "folder"
"""The factors of runs that only their files' names, or the folders they are in, tell apart."""
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was given: its name (relative, ``/`` between folders), its format's name, and
    its runs.  Of a run in many files ``file`` is the first and ``files`` are all; ``parts`` says
    how many hosts it was put together from.  ``columns`` are those of each table in it, ``doubts``
    are about the file, not about one run."""

    file: str
    format: str
    recordings: tuple[Recording, ...]
    files: tuple[str, ...] = ()
    parts: int = 1
    columns: tuple[Columns, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A recording in its place: ``treatment`` has every factor; ``block`` counts the cell's
    repeats from 1; ``properties`` is all that was said of it, factor or not; ``parts`` is how
    many hosts (or other runs) it was put together from."""

    file: str
    recording: Recording
    properties: Mapping[str, str]
    treatment: Treatment = ()
    block: int = 1
    parts: int = 1

    @property
    def workload(self) -> str:
        return self.recording.workload

    @property
    def id(self) -> str:
        """Six hex digits that name this run of this file."""
        said = f"{self.file}\n{self.recording.line}\n{self.workload}\n{self.treatment}{self.block}"
        return sha256(said.encode()).hexdigest()[:6]

    @property
    def place(self) -> str:
        """Where it was read: ``a.csv:12``."""
        return f"{self.file}:{self.recording.line}" if self.recording.line else self.file

    @property
    def numbers(self) -> tuple[tuple[str, str, float], ...]:
        """The same for copies of one run."""
        return tuple((m.metric, m.job, m.value) for m in self.recording.measurements)

    def label(self, name: str) -> str:
        """What it says of a property."""
        label = self.properties.get(name, "")
        return UNKNOWN if label.lower() in _NOT_SAID else label

    def with_label(self, name: str, label: str) -> Run:
        return replace(self, properties={**self.properties, name: label})

    def placed(self, names: Iterable[str]) -> Run:
        """With these properties as its treatment."""
        return replace(self, treatment=tuple((name, self.label(name)) for name in names))


def varied(runs: Sequence[Run]) -> list[str]:
    """The properties with several known labels within some workload, in order of appearance."""
    names = dict.fromkeys(name for run in runs for name in run.properties)
    labels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        for name in names:
            if (label := run.label(name)) != UNKNOWN:
                labels[run.workload, name].add(label)
    several = {name for (_, name), found in labels.items() if len(found) > 1} - {SESSION}
    return [name for name in names if name in several]


def some(texts: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
