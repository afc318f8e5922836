"""Telemetry: devices, their paths, CPU, pressure, interrupts, once a second on the trial's clock.

One JSON object a line in ``telemetry.jsonl``: ``t`` in seconds since the load began, then counters
exactly as the kernel keeps them (they grow; a reader takes differences).  What a kernel lacks
(``/proc/pressure`` often) is left out.  ``paths`` are the same counters of the disks below the
device, where it is built on others; ``cores`` and ``nics``, which are the host's, stand in the
first device's file only: there may be hundreds.  The first line alone has ``limits``: how many
I/Os the queue of each disk takes (``nr_requests``), and a SCSI disk itself (``queue_depth``).

Sources: Documentation/admin-guide/iostats.rst, proc(5), Documentation/accounting/psi.rst.

Stalls: was the machine standing still while a load ran?

A thread wakes twenty times a second and looks at the device's counters.  Where it wakes late by
:data:`LATE` and more, ``pauses.jsonl`` of the trial's folder gets a line: ``t``, when it should
have woken, in seconds since the load began; ``seconds``, by how much it was late; and ``bytes``
that the device moved since it last looked (null: nobody counts them).  A pause before the device's
first I/O or after its last one is left out: the load began, or ended, and measured nothing.  A
trial without pauses has no such file.  :mod:`iotrial.validity.course` decides.

Only the machine that iotrial itself runs on is watched: the answers of a host far away are late by
the network as well, and the clock of a made-up one is not ours.  Twenty looks a second of some tens
of microseconds each are about a thousandth of one CPU.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from iotrial.hosts.local import LocalHost
from iotrial.model.host import Host
from iotrial.model.step import Probe, Read
from iotrial.validity import written
from iotrial.validity.disk import counters

DISK_FIELDS = (
    "reads", "reads_merged", "sectors_read", "read_ms",
    "writes", "writes_merged", "sectors_written", "write_ms",
    "in_flight", "io_ms", "weighted_ms",
)  # fmt: skip
CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
PRESSURE = ("io", "cpu", "memory")
_LINE = json.JSONEncoder(separators=(",", ":"))
_SENT = 8  # the place of the bytes sent in a line of /proc/net/dev
_INTERFACES = "/proc/net/dev"
NETWORK = (_INTERFACES, "/proc/net/snmp", "/proc/net/rpc/nfs")


@dataclass
class Sampler:
    """Writes samples of ``host`` to ``path`` while the context lives.

    ``device`` is the kernel name of the block device under test; empty means that the target is
    remote, and that the network counters are what matters.  ``tell`` is told each sample.
    ``beside`` are other devices that are loaded at the same time, each with a file of its own.
    ``below`` names the disks that a device is built on, ``nics`` interfaces that they are reached
    through.  ``held`` are settings that must not change meanwhile, (device, tunable, where it is
    read); ``values`` has each value of theirs in turn, with the seconds of the first sample of it.
    """

    host: Host
    device: str
    path: Path
    tell: Callable[[str, Mapping[str, Any]], None] | None = None
    beside: Sequence[tuple[str, Path]] = ()
    below: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nics: Sequence[str] = ()
    held: Sequence[tuple[str, str, Probe]] = ()
    values: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    _files: list[IO[str]] = field(default_factory=list)
    _absent: set[str] = field(default_factory=set)
    _now: dict[tuple[str, str], str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._files = [path.open("w", encoding="utf-8") for _, path in self._places]
        try:
            self.sample(0.0)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for file in self._files:
            file.close()

    @property
    def _places(self) -> tuple[tuple[str, Path], ...]:
        return ((self.device, self.path), *self.beside)

    def sample(self, elapsed: float, by: float = math.inf) -> None:
        """Read every source once and write one line; at 0.0 the first, whatever came before.
        An answer after ``by``, on the host's clock, is not kept."""
        said = self._read(beginning=not elapsed)
        if self.host.clock() > by:
            return
        self._note(elapsed)
        values: dict[str, Any] = {"t": round(elapsed, 3)}
        values["cpu"] = cpu_times(said.get("/proc/stat", ""))
        values["interrupts"] = interrupts(said.get("/proc/interrupts", ""))
        values["pressure"] = {
            what: pressure
            for what in PRESSURE
            if (pressure := pressures(said.get(f"/proc/pressure/{what}", "")))
        }
        each = [{**values, **self._own(device, said)} for device, _ in self._places]
        if not elapsed:
            for (device, _), line in zip(self._places, each, strict=True):
                line["limits"] = {disk: _limits(disk, said) for disk in self._disks(device)}
        each[0]["cores"] = cores(said.get("/proc/stat", ""))
        each[0]["tasks"] = tasks(said.get("/proc/stat", ""))
        if self.nics:
            counted = interfaces(said.get(_INTERFACES, ""))
            each[0]["nics"] = {name: counted[name] for name in self.nics if name in counted}
        self.first = self.first if self.first and elapsed else each[0]
        self.last = each[0]
        for file, line in zip(self._files, each, strict=False):
            if not elapsed:
                file.seek(0)
                file.truncate()
            file.write(_LINE.encode(line) + "\n")
        if self.tell:
            for (device, _), line in zip(self._places, each, strict=True):
                self.tell(device, line)

    def _note(self, elapsed: float) -> None:
        """The settings that have another value now than they had."""
        for setting, value in self._now.items():
            seen = self.values.setdefault(setting, [])
            if not seen or seen[-1][1] != value:
                seen.append((elapsed, value))

    def _own(self, device: str, said: Mapping[str, str]) -> dict[str, Any]:
        """What a sample says of one device, or of the network where there is none."""
        if not device:
            return {"network": {path: said.get(path, "") for path in NETWORK}}
        paths = {
            path: counters
            for path in self.below.get(device, ())
            if (counters := disk(said.get(_stat(path), "")))
        }
        found: dict[str, Any] = {"disk": disk(said.get(_stat(device), ""))}
        return {**found, "paths": paths} if paths else found

    def _disks(self, device: str) -> tuple[str, ...]:
        return tuple(self.below.get(device, (device,) if device else ()))

    def _read(self, *, beginning: bool) -> dict[str, str]:
        """Every source that there is, in one round trip."""
        wanted = [
            "/proc/stat",
            "/proc/interrupts",
            *(f"/proc/pressure/{what}" for what in PRESSURE),
        ]
        for device, _ in self._places:
            wanted += [_stat(device)] if device else NETWORK
            wanted += [_stat(path) for path in self.below.get(device, ())]
            if beginning:
                wanted += [path for disk in self._disks(device) for path in _limiting(disk)]
        wanted += [_INTERFACES] if self.nics else []
        wanted = list(dict.fromkeys(wanted))
        there = [path for path in wanted if path not in self._absent]
        looks = [Read(Probe(path)) for path in there] + [Read(probe) for _, _, probe in self.held]
        answers = self.host.batch(looks)
        self._now = {
            (device, name): value
            for (device, name, probe), answer in zip(self.held, answers[len(there) :], strict=True)
            if not answer.errno and (value := probe.value(answer.raw)) is not None
        }
        found = dict(zip(there, answers, strict=False))
        self._absent.update(path for path, answer in found.items() if answer.errno)
        return {path: answer.raw.decode("ascii", "replace") for path, answer in found.items()}


def _stat(device: str) -> str:
    return f"/sys/block/{device}/stat"


def _limiting(disk: str) -> tuple[str, ...]:
    return f"/sys/block/{disk}/queue/nr_requests", f"/sys/block/{disk}/device/queue_depth"


def _limits(disk: str, said: Mapping[str, str]) -> list[int]:
    """nr_requests and queue_depth; 0 for what is not there."""
    return [int(t) if (t := said.get(p, "").strip()).isdigit() else 0 for p in _limiting(disk)]


def disk(text: str) -> dict[str, int]:
    """``/sys/block/X/stat`` → counters by name (sectors of 512 bytes, times in ms)."""
    return dict(zip(DISK_FIELDS, map(int, text.split()), strict=False))


def cpu_times(text: str) -> dict[str, int]:
    """The ``cpu`` line of /proc/stat → jiffies by state, over all CPUs."""
    for line in text.splitlines():
        if line.startswith("cpu "):
            return dict(zip(CPU_FIELDS, map(int, line.split()[1:]), strict=False))
    return {}


def tasks(text: str) -> list[int]:
    """/proc/stat → how many tasks run, and how many wait for I/O, at this moment."""
    found = {name: count for name, _, count in (line.partition(" ") for line in text.splitlines())}
    return [int(found.get(f"procs_{what}", "0") or 0) for what in ("running", "blocked")]


def cores(text: str) -> dict[str, list[int]]:
    """Each CPU of /proc/stat → jiffies that it was busy, those of them in interrupts (softirq
    too), and all.  What a hypervisor took counts as neither busy nor idle."""
    found = {}
    for line in text.splitlines():
        name, *words = line.split()
        if not (name.startswith("cpu") and name[3:].isdigit()):
            continue
        spent = dict(zip(CPU_FIELDS, map(int, words), strict=False))
        whole = sum(spent.values())
        rest = sum(spent.get(state, 0) for state in ("idle", "iowait", "steal"))
        interrupted = spent.get("irq", 0) + spent.get("softirq", 0)
        found[name[3:]] = [whole - rest, interrupted, whole]
    return found


def interfaces(text: str) -> dict[str, list[int]]:
    """/proc/net/dev → bytes received and sent, by interface."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) > _SENT:
            found[name.strip()] = [int(words[0]), int(words[_SENT])]
    return found


def interrupts(text: str) -> dict[str, int]:
    """/proc/interrupts → count over all CPUs by ``number name``; silent lines are left out."""
    lines = text.splitlines()
    columns = len(lines[0].split()) if lines else 0
    totals = {}
    for line in lines[1:]:
        number, _, rest = line.partition(":")
        words = rest.split()
        total = sum(int(word) for word in words[:columns] if word.isdigit())
        if total:
            totals[f"{number.strip()} {' '.join(words[columns:])}".strip()] = total
    return totals


def pressures(text: str) -> dict[str, int]:
    """A PSI file → ``some`` and ``full`` stall totals in microseconds."""
    totals = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        _, _, total = rest.rpartition("total=")
        if total.isdigit():
            totals[kind] = int(total)
    return totals


STEP = 0.05
"""Seconds between two looks."""
LATE = 0.1
"""Seconds.  On two CPUs with a load of six a thread was late by more than this once in 200 s, and
then alone: the device went on."""


class StallWatch:
    """Feels the pulse of ``host`` while the context lives.  ``device`` is the kernel name of the
    block device under test, '' none."""

    def __init__(self, host: Host, device: str, folder: Path) -> None:
        self._felt = isinstance(host, LocalHost)
        self._stat = Path("/sys/block", device, "stat") if device else None
        self._path = folder / written.PAUSES
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feel, name="iotrial-pulse", daemon=True)

    def __enter__(self) -> Self:
        if self._felt:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._felt:
            self._thread.join()

    def _feel(self) -> None:
        descriptor = _opened(self._stat)
        try:
            self._write(*self._felt_pauses(descriptor))
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _felt_pauses(self, descriptor: int | None) -> tuple[list[_Late], float | None]:
        """Until it is over: where it woke late, and what the device has moved at last."""
        began = time.monotonic()
        first = last = _counted(descriptor)
        due, found, over = began + STEP, list[_Late](), False
        while not over:
            over = self._over.wait(max(0.0, due - time.monotonic()))
            now, count = time.monotonic(), _counted(descriptor)
            if now - due >= LATE and (last is None or last != first):
                found.append(_Late(due - began, now - due, last, count))
            due, last = now + STEP, count
        return found, last

    def _write(self, found: list[_Late], last: float | None) -> None:
        rows = [each.row() for each in found if last is None or each.after != last]
        if rows:
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            self._path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Late:
    """A look that was due at ``t`` and late by ``seconds``, with the bytes that the device had
    moved ``before`` and ``after``."""

    t: float
    seconds: float
    before: float | None
    after: float | None

    def row(self) -> dict[str, float | None]:
        known = self.before is not None and self.after is not None
        grown = (self.after or 0.0) - (self.before or 0.0) if known else None
        return {"t": round(self.t, 3), "seconds": round(self.seconds, 3), "bytes": grown}


def _opened(path: Path | None) -> int | None:
    try:
        return None if path is None else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _counted(descriptor: int | None) -> float | None:
    """Bytes that the device has moved; None where it is gone, or does not count."""
    if descriptor is None:
        return None
    try:
        count = counters(os.pread(descriptor, 512, 0).decode("ascii", "replace"))
    except OSError:
        return None
    return count.total if count else None
