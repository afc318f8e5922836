"""Again: a recording as a load of a study: its I/Os as a trace, which the tool ``replay`` does at
their times, or a job file of fio's with the same character (:mod:`iotrial_record.model`).

How long an I/O took is from its queueing to the completion of its last sector
(:func:`iotrial_record.character.responses`).  It is in the trace so that a replay knows how many of
them are in flight, and which of a thread's waited for those before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrial.errors import UsageError
from iotrial.model.workload import TRACED
from iotrial.units import format_wait
from iotrial_record.character import character, responses
from iotrial_record.model import job_file
from iotrial_record.trace import (
    COMPLETED,
    QUEUED,
    SECTOR,
    TraceEvents,
    TraceFacts,
    joined,
    load_device,
)

_MOST = 500_000
"""I/Os of a trace: 15 MB of text, which each trial sends to its host."""
_ACTIONS = {ord("R"): 0, ord("W"): 1, ord("D"): 2, ord("F"): 3}


def text_for(
    tool: str, folder: Path, begin: float, seconds: float | None, *, device: str = ""
) -> str:
    """What ``tool`` (``replay`` or ``fio``) does of the recording in ``folder``, from ``begin`` on
    and for so many seconds (None: to its end); of a recording of several devices what was asked of
    the one that ``device`` names.

    Raises UsageError for a folder without a recording, a device that is not named or not in it, and
    a part without I/Os or with too many."""
    index, parts = load_device(folder, device, lambda name: _key(folder, name))
    if begin >= index.seconds or (seconds is not None and begin + seconds > index.seconds + 1):
        said = f"from {format_wait(begin)}" + (f" for {format_wait(seconds)}" if seconds else "")
        raise UsageError(
            f"{folder} is {format_wait(index.seconds)} long, and the part is {said}",
            advice="Take a part of it, or all of it.",
        )
    if tool == "replay":
        return trace_text(folder, begin, seconds, device)
    end = index.seconds if seconds is None else begin + seconds
    part = replace(index, seconds=min(end, index.seconds) - begin)
    load = character(part, _between(index, parts, begin, end))
    try:
        return job_file(part, load, target=False)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}", advice="Record again.") from None


def _key(folder: Path, device: str, more: str = "") -> str:
    """How a study names a part of the recording."""
    named = f', device = "{device}"' if device else ""
    return f'recorded = {{ folder = "{folder.name}"{named}{more} }}'


@lru_cache(maxsize=4)
def trace_text(folder: Path, begin: float, seconds: float | None, device: str) -> str:
    """The I/Os of a part of a recording (:attr:`iotrial.model.workload.Workload.trace`).  Raises
    UsageError where it has none, or more than a trial can have."""
    index, parts = load_device(folder, device, lambda name: _key(folder, name))
    end = index.seconds if seconds is None else begin + seconds
    events = joined(_between(index, parts, begin, end))
    moves = (events.sectors > 0) | (events.operation == ord("F"))
    known = np.isin(events.operation, list(_ACTIONS))
    asked = np.flatnonzero((events.kind == QUEUED) & known & moves)
    if not len(asked):
        of = f" of {device}" if device else ""
        raise UsageError(f"{folder}: no I/O{of} is in it", advice="Record while there is a load.")
    if len(asked) > _MOST:
        what = f"{len(asked)} I/Os from {format_wait(begin)} on"
        part = _key(folder, device, ', time = "60s"')
        advice = f"A trial has {_MOST} at most: {part}"
        raise UsageError(f"{folder}: {what}", advice=advice)
    took = np.zeros(len(events), np.int64)
    for place, waited in responses(events):
        took[place] = waited
    mine = events.only(asked)
    threads = np.unique(mine.process, return_inverse=True)[1].ravel()
    columns: list[npt.NDArray[np.int64]] = [
        mine.at // 1000,
        threads,
        np.vectorize(_ACTIONS.__getitem__, otypes=[np.int64])(mine.operation),
        mine.sector.astype(np.int64) * SECTOR,
        mine.sectors.astype(np.int64) * SECTOR,
        took[asked] // 1000,
    ]
    lines = [" ".join(map(str, row)) for row in zip(*(c.tolist() for c in columns), strict=True)]
    lasts = min(end, index.seconds) - begin
    return f"{TRACED}{lasts:.6f}\n" + "\n".join(lines) + "\n"


def _between(
    index: TraceFacts, parts: Iterable[TraceEvents], begin: float, end: float
) -> Iterator[TraceEvents]:
    """What was asked between the two, and what was completed of it; times count from ``begin``."""
    first, last = int(begin * 1e9), int(end * 1e9)
    for part, events in zip(index.parts, parts, strict=True):
        if part.ends < first:
            continue
        if part.begins > last:
            return
        late = (events.kind == COMPLETED) & (events.at >= first)
        mine = events.only(late | ((events.at >= first) & (events.at < last)))
        yield replace(mine, at=mine.at - first)
