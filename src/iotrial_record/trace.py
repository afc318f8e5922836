"""Trace: what the block layer was asked of some devices, event by event, as columns; and the folder
that holds one.

An I/O is queued (``bio``: what a program or file system asked for), issued to the driver, perhaps
merged with others, and completed.  In a folder each part is a file of NumPy's (``part-000001.npz``)
with some hundred thousand events; ``recording.json`` says of what, when, and what was lost.  A part
is written beside, and then renamed: a recorder that is killed leaves whole parts.

Source of the letters of ``rwbs``: ``blk_fill_rwbs`` in the kernel's kernel/trace/blktrace.c.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt

from iotrial.errors import UsageError
from iotrial.files import replaced, write_json
from iotrial.plan.problem import choices

FORMAT = 1
INDEX = "recording.json"
QUEUED, ISSUED, COMPLETED = range(3)
EVENTS = ("block_bio_queue", "block_rq_issue", "block_rq_complete")
"""By their kind, as tracefs calls them."""
SECTOR = 512
OPERATIONS = {"R": "read", "W": "write", "D": "discard", "F": "flush", "Z": "zone", "N": "other"}
"""What is asked for, by its letter; the code of an event is that letter."""
SYNC, FUA, PREFLUSH, AHEAD, META = (1 << bit for bit in range(5))
_FLAGS = {"S": SYNC, "F": FUA, "A": AHEAD, "M": META}
_COLUMNS: Mapping[str, npt.DTypeLike] = {
    "at": "<i8", "kind": "u1", "device": "u1", "sector": "<u8", "sectors": "<u4",
    "operation": "u1", "flags": "u1", "process": "<u4", "error": "<i4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceEvents:
    """Events in the order of time, each an entry of every column: ``at`` ns since the recording
    began, ``kind`` (QUEUED, ISSUED, COMPLETED), ``device`` its place among those of the recording,
    ``sector`` and ``sectors`` of 512 bytes, ``operation`` the code of its letter, ``flags``,
    ``process`` the thread that caused it (0: nobody's), ``error`` of a completion."""

    at: npt.NDArray[np.int64]
    kind: npt.NDArray[np.uint8]
    device: npt.NDArray[np.uint8]
    sector: npt.NDArray[np.uint64]
    sectors: npt.NDArray[np.uint32]
    operation: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]
    process: npt.NDArray[np.uint32]
    error: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.at)

    def only(self, which: npt.NDArray[Any]) -> TraceEvents:
        return TraceEvents(*(getattr(self, each.name)[which] for each in fields(self)))


def joined(parts: Iterable[TraceEvents]) -> TraceEvents:
    """All of them, in the order of time."""
    every = list(parts)
    columns = {
        name: np.concatenate([getattr(each, name) for each in every]).astype(kind, copy=False)
        if every
        else np.empty(0, kind)
        for name, kind in _COLUMNS.items()
    }
    order = np.argsort(columns["at"], kind="stable")
    return TraceEvents(**{name: column[order] for name, column in columns.items()})


def letters(rwbs: bytes) -> tuple[int, int]:
    """The operation and the flags that the kernel's letters mean.

    >>> letters(b"WS"), letters(b"FWFS"), letters(b"DE"), letters(b"FF")
    ((87, 1), (87, 7), (68, 0), (70, 4))
    """
    text = rwbs.partition(b"\0")[0].decode("ascii", "replace")
    flags = 0
    if len(text) > 1 and text[0] == "F" and text[1] in OPERATIONS:
        flags, text = PREFLUSH, text[1:]
    operation = text[:1] if text[:1] in OPERATIONS else "N"
    for letter in text[1:]:
        flags |= _FLAGS.get(letter, 0)
    return ord(operation), flags


@dataclass(frozen=True, slots=True)
class TracedDevice:
    """A device of a recording: its ``name`` and ``number`` (major:minor) then, its ``size`` in
    bytes, and what it is known by (kind, value)."""

    name: str
    number: str
    size: int
    ids: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TracePart:
    """A file of a recording, and how many events are in it; ``begins`` and ``ends`` in ns."""

    file: str
    events: int
    begins: int
    ends: int


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What ``recording.json`` says.  ``seconds`` is how long was recorded, ``lost`` how many events
    the kernel overwrote before they were read, ``gaps`` at how many places, ``complete`` whether
    the recorder came to its end; ``names`` are those of threads, where they were asked for."""

    host: str
    kernel: str
    began: float
    devices: tuple[TracedDevice, ...]
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    gaps: int = 0
    complete: bool = False
    parts: tuple[TracePart, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def doubt(self) -> str:
        """Why it is not what was asked of the devices, whole; '' where it is."""
        if self.lost or self.gaps:
            return f"{self.lost} events were lost at {self.gaps} places"
        return "" if self.complete else "the recorder did not come to its end"


def save_part(folder: Path, number: int, events: TraceEvents) -> TracePart:
    """Write a part, whole or not at all."""
    name = f"part-{number:06d}.npz"
    columns = {each.name: getattr(events, each.name) for each in fields(events)}
    # Differences of times and repeated sectors are what zlib makes small.
    columns["at"] = np.diff(events.at, prepend=np.int64(0))
    # As np.savez_compressed does, at zlib's quickest: it takes a seventh of the time and a ninth
    # more room.
    with (
        replaced(folder / name) as handle,
        os.fdopen(handle, "wb", closefd=False) as whole,
        ZipFile(whole, "w", ZIP_DEFLATED, compresslevel=1) as file,
    ):
        for column, values in columns.items():
            with file.open(f"{column}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(values), allow_pickle=False)
    return TracePart(name, len(events), int(events.at[0]), int(events.at[-1]))


def save_index(folder: Path, index: TraceFacts) -> None:
    write_json(folder / INDEX, {"format": FORMAT, **asdict(index)})


def load_index(folder: Path) -> TraceFacts:
    """Raises UsageError where the folder holds no recording that this version reads."""
    path = folder / INDEX
    if not path.is_file():
        raise UsageError(
            f"{folder} is no recording: it has no {INDEX}",
            advice="Name a folder that `iotrial record` made.",
        )
    try:
        entry = json.loads(path.read_text("utf-8"))
        if entry.pop("format") != FORMAT:
            raise UsageError(
                f"{path}: a recording of another version of iotrial",
                advice="Use the version that made it.",
            )
        devices = tuple(
            TracedDevice(**{**each, "ids": tuple(map(tuple, each["ids"]))})
            for each in entry.pop("devices")
        )
        parts = tuple(TracePart(**each) for each in entry.pop("parts"))
        return TraceFacts(devices=devices, parts=parts, **entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{folder} is no recording: {error}", advice="Name a folder that `iotrial record` made."
        ) from error


def load_parts(folder: Path, index: TraceFacts) -> Iterator[TraceEvents]:
    """Part by part: a day does not fit into memory.  Raises UsageError for a damaged one."""
    for part in index.parts:
        path = folder / part.file
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                columns = {name: found[name] for name in _COLUMNS}
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise UsageError(f"{path} cannot be read: {error}", advice="Record again.") from error
        columns["at"] = np.cumsum(columns["at"])
        yield TraceEvents(**columns)


def load_device(
    folder: Path, device: str, spelled: Callable[[str], str]
) -> tuple[TraceFacts, Iterator[TraceEvents]]:
    """The index and the parts of a recording as if it was of the ``device`` of this name alone
    ('': its only one); ``counts``, ``lost`` and ``gaps`` remain those of all.

    Raises UsageError for a folder without a recording, for a name that is none of its devices', and
    where one of several is to be named; ``spelled`` says how the user names it."""
    index = load_index(folder)
    names = [each.name for each in index.devices]
    if device and device not in names:
        raise UsageError(
            f"{folder} is not a recording of {device}", advice=choices(device, names, "devices")
        )
    if not device and len(names) > 1:
        raise UsageError(
            f"{folder} is of several devices ({', '.join(names)}), and a workload has one target",
            advice=f"Select one, for example: {spelled(names[0])}",
        )
    at = names.index(device) if device else 0
    return replace(index, devices=index.devices[at : at + 1]), _parts_of(folder, index, at)


def _parts_of(folder: Path, index: TraceFacts, at: int) -> Iterator[TraceEvents]:
    for events in load_parts(folder, index):
        mine = events.only(events.device == at)
        yield replace(mine, device=np.zeros_like(mine.device))
