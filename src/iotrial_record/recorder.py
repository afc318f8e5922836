"""The recorder: an instance of the host's trace buffer, read while the kernel fills it.

The instance is owed like any setting: its removal is in the journal before it is made, and a guard
on the host removes it when we die.  Each look takes what pages there are; a page is made columns at
once, and what was asked long enough ago goes to a part of the folder, so that a day takes as much
memory as a minute.  Two marks written into the trace itself say when the recording began and ended,
on the clock of its events.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrial.errors import HostError, HostUnreachable, OwedError, RefusedError, TargetRefused
from iotrial.execute.settings.guard import guarded, lease_of
from iotrial.execute.settings.journal import ResourceUndo, numbered, open_journal
from iotrial.execute.settings.restore import RestoreReport, boot_id, pay
from iotrial.hosts.places import journal_folder, lock_path
from iotrial.look.identity import BlockDevice, identity_of, sight, sight_number, whole
from iotrial.look.reading import status
from iotrial.model.host import Host
from iotrial_record.pages import HEADER, EventFormat, PageEvents, event_format, events_of
from iotrial_record.trace import (
    COMPLETED,
    EVENTS,
    PREFLUSH,
    QUEUED,
    SECTOR,
    TracedDevice,
    TraceEvents,
    TraceFacts,
    TracePart,
    joined,
    letters,
    save_index,
    save_part,
)

LEASE = 30.0
_NAME = "iotrial-record"
_MOST = 12 << 20
"""Bytes of one answer: the link carries them whole."""
_BUFFER = 128 << 20
_LEAST, _GREATEST = 1 << 20, 64 << 20
"""Bytes of the buffer of all CPUs together, and of each at least and at most."""
_LOOK, _SOON = 1.0, 0.05
"""Seconds between two looks, at most and at least."""
_EASY = 4 << 20
"""Bytes that a look should find: little beside what one CPU's buffer and one answer hold."""
_PART = 1 << 18
"""Events of a part."""
_SOONEST = 30.0
"""Seconds after which a part has fewer: so much is lost when the recorder is killed."""
_WITHIN = 60.0
_BIO_COMPLETE = "block_bio_complete"
_LOST = re.compile(r"^(?:overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)
_PAGE = re.compile(r"field: char data;\s*offset:(\d+);\s*size:(\d+);")


@cache
def _script() -> str:
    return files("iotrial_record").joinpath("record.sh").read_text("utf-8")


def _argv(verb: str, name: str, *words: str) -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", _script(), _NAME, verb, name, *words)


def _told(host: Host, verb: str, name: str, *words: str) -> bytes:
    done = host.run(_argv(verb, name, *words), timeout=_WITHIN)
    if done.exit:
        raise HostError(
            f"{host.name}: the block layer cannot be recorded: {done.complaint}",
            advice="The kernel needs CONFIG_BLK_DEV_IO_TRACE, and iotrial root outside containers.",
        )
    return done.stdout


def _unreadable(host: Host) -> HostError:
    return HostError(
        f"{host.name}: the trace buffer of this kernel cannot be read",
        advice="iotrial reads that of 64-bit little-endian kernels.",
    )


@dataclass(frozen=True, slots=True)
class _Traced:
    """A device as its events name it: ``number`` that of the whole disk, as the kernel packs it;
    ``first`` and ``last`` the sectors of it that are recorded."""

    device: TracedDevice
    number: int
    first: int
    last: int
    bios: bool


def devices_of(host: Host, paths: Sequence[str]) -> tuple[_Traced, ...]:
    """The block devices at these paths.  Raises TargetRefused where one is none."""
    return tuple(_traced(host, path) for path in dict.fromkeys(paths))


def _traced(host: Host, path: str) -> _Traced:
    found = _below(host, path)
    disk = whole(host, found)
    first = int(host.read(f"{found.folder}/start")) if found.is_partition else 0
    major, minor = map(int, disk.devno.split(":"))
    queues = host.run(["test", "-d", f"{disk.folder}/mq"]).exit == 0
    ids = identity_of(host, found).ids
    traced = TracedDevice(found.name, found.devno, found.size, tuple(ids))
    last = first + found.size // SECTOR
    return _Traced(traced, major << 20 | minor, first, last, bios=not queues)


def _below(host: Host, path: str) -> BlockDevice:
    """The block device that a path is, or that the file system of a file or folder is on."""
    seen = status(host, path)
    if seen is None or seen.is_block_device:
        return sight(host, path)
    number = host.run(["stat", "--format=%Hd:%Ld", "--", path]).text.strip()
    try:
        return sight_number(host, number)
    except TargetRefused as error:
        raise TargetRefused(
            f"{path} is on a file system that is on no one block device",
            advice="Name its devices: lsblk; of a file system of the network the server's.",
        ) from error


@dataclass
class Recorder:
    """A recording that goes on.  ``folder`` is where its parts go; ``names``: those of threads are
    kept, too."""

    host: Host
    devices: tuple[_Traced, ...]
    folder: Path
    names: bool = False
    index: TraceFacts = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = f"iotrial-{secrets.token_hex(4)}"
        kernel = self.host.run(["uname", "-r"]).text.strip()
        asked = tuple(each.device for each in self.devices)
        self.index = TraceFacts(self.host.name, kernel, time.time(), asked)
        self._formats: dict[int, tuple[int, EventFormat]] = {}
        self._print = -1
        self._page = self._cpus = 1
        self._bio_complete = -1
        self._began: int | None = None
        self._seen = np.iinfo(np.int64).min
        self._waiting: list[TraceEvents] = []
        self._counts = dict.fromkeys(EVENTS, 0)
        self._called: dict[int, str] = {}
        self._written = time.monotonic()

    # -- on the host ------------------------------------------------------------------------------

    def record(
        self, seconds: float, *, stop: Callable[[], bool], tell: Callable[[float, TraceFacts], None]
    ) -> TraceFacts:
        """Record for so many seconds, or until ``stop`` says so; ``tell`` hears how it goes, with
        the seconds so far.  The caller holds the host's lock.

        Raises HostError where the kernel cannot, HostUnreachable; what was read is in the folder
        then, and the host removes the instance by itself.
        """
        if self.host.unprivileged:
            raise RefusedError(
                f"{self.host.name}: recording needs root", advice=self.host.unprivileged
            )
        place = journal_folder(self.host)
        path = f"{place}/{self.name}.journal"
        with guarded(self.host, path, lock_path(self.host), lease_of(self.host, LEASE)):
            header = {
                "boot_id": boot_id(self.host),
                "token": self.name,
                "study": "a recording",
                "results": str(self.folder.resolve()),
                "at": time.time(),
            }
            journal = open_journal(self.host, place, header)
            plan = {"name": f"trace instance {self.name}", **numbered(_argv("remove", self.name))}
            journal.owe_made(ResourceUndo("command", plan))
            try:
                self._record(seconds, stop, tell)
            finally:  # also where the folder's disk is full
                payment = RestoreReport()
                with suppress(HostUnreachable):
                    pay(self.host, journal.session(), payment)
                if payment.owed:
                    raise OwedError(f"{self.host.name}: not fully restored:", owed=payment.owed)
        return self.index

    def _record(
        self, seconds: float, stop: Callable[[], bool], tell: Callable[[float, TraceFacts], None]
    ) -> None:
        try:
            self._make()
            self._keep()
            self._read_on(seconds, stop, tell)
        finally:
            self._keep()

    def _make(self) -> None:
        self._cpus = max(1, int(self.host.run(["nproc", "--all"]).text))
        each = min(max(_BUFFER // self._cpus, _LEAST), _GREATEST)
        numbers = sorted({each.number for each in self.devices})
        filtered = " || ".join(f"dev == {number}" for number in numbers)
        bios = any(each.bios for each in self.devices)
        events = [*EVENTS, *([_BIO_COMPLETE] if bios else [])]
        said = _told(self.host, "make", self.name, str(each >> 10), filtered, *events)
        text = said.decode("ascii", "replace")
        page = _PAGE.search(text)
        blocks = [f"ID:{part}" for part in text.split("ID:")[1:]]
        if page is None or int(page[1]) != HEADER or len(blocks) != len(events) + 1:
            raise _unreadable(self.host)
        self._page = int(page[1]) + int(page[2])
        kinds = [*range(len(EVENTS)), COMPLETED]
        for kind, block in zip(kinds, blocks[:-1], strict=False):
            shape = event_format(block)
            self._formats[shape.number] = (kind, shape)
        self._bio_complete = event_format(blocks[len(EVENTS)]).number if bios else -1
        self._print = event_format(blocks[-1]).number

    def _read_on(
        self, seconds: float, stop: Callable[[], bool], tell: Callable[[float, TraceFacts], None]
    ) -> None:
        began, most = time.monotonic(), str(max(1, _MOST // self._page // self._cpus))
        until = began + seconds
        nap, looked = _SOON, began
        while not stop() and (left := until - time.monotonic()) > 0:
            self.host.sleep(min(nap, left))
            found, now = self._look(most), time.monotonic()
            nap = min(_LOOK, max(_SOON, (now - looked) * _EASY / max(found, 1)))
            looked = now
            tell(now - began, self.index)
        _told(self.host, "stop", self.name)
        while self._look(most) >= _MOST // 2:
            pass
        if self._began is None:  # our own mark is not in it: another order of bytes
            raise _unreadable(self.host)
        stats = _told(self.host, "stats", self.name).decode("ascii", "replace")
        lost = sum(map(int, _LOST.findall(stats)))
        self._write(self._waiting_before(np.iinfo(np.int64).max))
        self.index = replace(self.index, lost=lost, complete=True)

    def _look(self, most: str) -> int:
        """Take what is there, and say how many bytes that is."""
        pages = _told(self.host, "read", self.name, str(self._page), most)
        found = events_of(pages, self._page)
        before = self._seen
        if len(found.at):
            self._seen = max(self._seen, int(found.at.max()))
        self._marks(found)
        self.index = replace(self.index, gaps=self.index.gaps + found.gaps)
        self._waiting.append(self._events(found))
        # What is older than the newest of the look before has been read of every CPU.
        ready = self._waiting_before(before)
        self._write(ready)
        return len(pages)

    # -- events -----------------------------------------------------------------------------------

    def _marks(self, found: PageEvents) -> None:
        marks = found.at[found.number == self._print]
        if marks.size and self._began is None:
            self._began = int(marks.min())
        if marks.size and self._began is not None:
            self.index = replace(self.index, seconds=(int(marks.max()) - self._began) / 1e9)

    def _events(self, found: PageEvents) -> TraceEvents:
        parts = []
        for number, (kind, shape) in self._formats.items():
            which = found.number == number
            if not which.any():
                continue
            parts += self._of_kind(found, which, kind, shape, bios=number == self._bio_complete)
        return joined(parts)

    def _of_kind(
        self,
        found: PageEvents,
        which: npt.NDArray[np.bool_],
        kind: int,
        shape: EventFormat,
        *,
        bios: bool,
    ) -> list[TraceEvents]:
        def numbers(name: str, kind: str) -> npt.NDArray[np.int64]:
            if name not in shape.fields:
                return np.zeros(int(which.sum()), np.int64)
            column = found.column(which, shape.fields[name])
            return np.ascontiguousarray(column).view(kind)[:, 0].astype(np.int64)

        operation, flags = _decoded(found.column(which, shape.fields["rwbs"]))
        process = numbers("common_pid", "<i4")
        if self.names and kind == QUEUED:
            self._name(process, found.column(which, shape.fields["comm"]))
        at, sector = found.at[which], numbers("sector", "<u8")
        device = numbers("dev", "<u4")
        columns = (numbers("nr_sector", "<u4"), operation, flags, process)
        parts = []
        for place, each in enumerate(self.devices):
            mine = (device == each.number) & (sector >= each.first) & (sector < each.last)
            mine |= (device == each.number) & (columns[0] == 0)  # a flush is of the whole disk
            if kind == COMPLETED and each.bios != bios:
                continue
            count = int(mine.sum())
            length, op, flag, pid = (column[mine] for column in columns)
            if kind == QUEUED:  # a flush is asked for as a write of nothing, with a flush before
                op = np.where((length == 0) & (flag & PREFLUSH > 0), ord("F"), op)
            parts.append(
                TraceEvents(
                    at=at[mine],
                    kind=np.full(count, kind, np.uint8),
                    device=np.full(count, place, np.uint8),
                    sector=np.maximum(sector[mine] - each.first, 0).astype(np.uint64),
                    sectors=length.astype(np.uint32),
                    operation=op.astype(np.uint8),
                    flags=flag.astype(np.uint8),
                    process=(pid if kind == QUEUED else np.zeros(count)).astype(np.uint32),
                    error=numbers("error", "<i4")[mine].astype(np.int32),
                )
            )
        return parts

    def _name(self, process: npt.NDArray[np.int64], called: npt.NDArray[np.uint8]) -> None:
        for number, first in zip(*np.unique(process, return_index=True), strict=True):
            if int(number) not in self._called:
                text = called[first].tobytes().partition(b"\0")[0]
                self._called[int(number)] = text.decode("utf-8", "replace")

    # -- the folder -------------------------------------------------------------------------------

    def _waiting_before(self, at: int) -> TraceEvents | None:
        """What waits and is not later; None where that is not yet worth a part."""
        last = at == np.iinfo(np.int64).max
        old = time.monotonic() - self._written >= _SOONEST
        if not last and not old and sum(map(len, self._waiting)) < _PART:
            return None
        self._written = time.monotonic()
        every = joined(self._waiting)
        ready = every.at <= at
        self._waiting = [every.only(~ready)]
        return every.only(ready)

    def _write(self, events: TraceEvents | None) -> None:
        if events is None or not len(events):
            return
        if self._began is None:
            self._began = int(events.at[0])
        moved = replace(events, at=events.at - self._began)
        part = save_part(self.folder, len(self.index.parts) + 1, moved)
        for kind, name in enumerate(EVENTS):
            self._counts[name] += int(np.count_nonzero(events.kind == kind))
        self._keep(part)

    def _keep(self, *parts: TracePart) -> None:
        names = {str(number): name for number, name in sorted(self._called.items())}
        ends = max((part.ends / 1e9 for part in parts), default=0.0)
        self.index = replace(
            self.index,
            parts=(*self.index.parts, *parts),
            seconds=max(self.index.seconds, ends),  # of one that does not come to its end
            counts=dict(self._counts),
            names=names,
        )
        save_index(self.folder, self.index)


def _decoded(
    rwbs: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Operations and flags of many; there are few different ones."""
    # As numbers: rows are sorted ten times as slowly.  What stands behind a NUL says nothing.
    width = -(-rwbs.shape[1] // 8) * 8
    clean = np.zeros((len(rwbs), width), np.uint8)
    clean[:, : rwbs.shape[1]] = np.where(np.cumsum(rwbs == 0, axis=1) > 0, 0, rwbs)
    words = clean.view("<u8")
    if words[:, 1:].any():
        kinds, which = np.unique(words, axis=0, return_inverse=True)
    else:
        kinds, which = np.unique(words[:, 0], return_inverse=True)
    meant = np.array([letters(kind.tobytes()) for kind in kinds], np.int64).reshape(-1, 2)
    return meant[which.ravel(), 0], meant[which.ravel(), 1]
