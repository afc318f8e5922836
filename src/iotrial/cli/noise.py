"""Where a plan takes its noise from: said, piloted, or measured by an A/A study."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from iotrial.errors import FormatError, IotrialError
from iotrial.files import read_bytes
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.store import open_results
from iotrial.units import format_wait, parse_fraction

ASSUMED = 0.05
"""What one trial is taken to vary by when nobody says: seen for 2 s of 4 KiB random reads."""


@dataclass(frozen=True, slots=True)
class Noise:
    """``spreads``: what one trial of each workload varies by (standard deviation, log scale).
    ``source`` is where that is from, in words; ``folder`` its results, of ``age`` seconds."""

    spreads: dict[str, float]
    source: str = ""
    folder: Path | None = None
    age: float = 0.0

    @property
    def largest(self) -> float:
        return max(self.spreads.values())

    def document(self) -> dict[str, object]:
        """For JSON."""
        folder = str(self.folder) if self.folder else None
        return {"workloads": self.spreads, "folder": folder, "age": self.age if folder else None}


@dataclass(frozen=True, slots=True)
class Below:
    """Where to look for A/A studies nobody named: below ``parent``, of the ``host`` of this
    name."""

    parent: Path
    host: str

    def folders(self) -> list[Path]:
        """Results folders of A/A studies, newest first."""
        heads = {path: _head(path) for path in self.parent.glob("*/plan.jsonl")}
        found = [path for path, head in heads.items() if b'"aa":' in head]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent for path in found]


def _head(path: Path) -> bytes:
    try:
        return read_bytes(path, path.parent).partition(b"\n")[0]
    except FormatError:
        return b""


def chosen(study: Study, noise: str | None, pilot: Path | None, below: Below) -> Noise:
    """What to plan with: the spread or the folder said, else the newest A/A study of the same
    targets and workloads, else an assumption."""
    if noise is not None and not Path(noise).is_dir():
        try:
            spread = parse_fraction(noise)
        except ValueError as error:
            raise click.BadParameter(
                f"{error}; nor is it a results folder", param_hint="--noise"
            ) from error
        return _alike(study, spread)
    if noise is not None:
        return _from(study, Path(noise), "--noise")
    if pilot is not None:
        return _from(study, pilot, "--pilot")
    return next(_found(study, below), None) or _alike(study, ASSUMED)


def _alike(study: Study, spread: float) -> Noise:
    return Noise({workload.name: spread for workload in study.workloads})


def _from(study: Study, folder: Path, option: str) -> Noise:
    results = open_results(folder)
    if results.pretended and not study.pretended:
        raise click.BadParameter("holds pretended results, no measurement", param_hint=option)
    known = _spreads(results)
    if not known:
        raise click.BadParameter("has no repeated trials", param_hint=option)
    return _noise(study, results, known)


def _spreads(results: Results) -> dict[str, float]:
    """Of an A/A study its floor; of any other the largest spread of a workload's comparisons."""
    if results.study.aa:
        from iotrial.stats.noise import floors

        return {floor.workload: floor.within.sd for floor in floors(results)}
    from iotrial.stats.judge import judge

    known: dict[str, float] = {}
    for finding in judge(results).findings:
        if finding.noise is not None:
            known[finding.workload] = max(finding.noise, known.get(finding.workload, 0.0))
    return known


def _noise(study: Study, results: Results, known: dict[str, float]) -> Noise:
    """A workload that was not measured is taken to be as noisy as the noisiest that was."""
    most = max(known.values())
    ended = max(record.started + record.seconds for record in results.records)
    age = max(0.0, time.time() - ended)
    kind = "A/A study" if results.study.aa else "results"
    source = f"{kind} {results.folder}, {format_wait(age)} old"
    if missing := [w.name for w in study.workloads if w.name not in known]:
        source += f"; {', '.join(missing)} not measured there, the largest taken"
    return Noise(
        {w.name: known.get(w.name, most) for w in study.workloads}, source, results.folder, age
    )


def _found(study: Study, below: Below) -> Iterator[Noise]:
    """The newest first.  What cannot be read is passed over: nobody asked for it."""
    for folder in below.folders():
        try:
            results = open_results(folder)
            here = below.host in results.facts
            if here and alike(study, results.study) and (known := _spreads(results)):
                yield _noise(study, results, known)
        except IotrialError:
            continue


def alike(study: Study, other: Study) -> bool:
    """Whether the noise of ``other`` is that of ``study``: same machine, targets and workloads, and
    every workload decided by the same number."""
    theirs = {workload.name: workload for workload in other.workloads}
    return (
        study.place == other.place
        and study.pretended == other.pretended
        and set(study.targets) <= set(other.targets)
        and all(theirs.get(workload.name) == workload for workload in study.workloads)
        and set(study.decide.primary) <= set(other.decide.primary)
    )
