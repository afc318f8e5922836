"""Stalls: was the machine standing still while a load ran?

A thread wakes twenty times a second and looks at the device's counters.  Where it wakes late by
:data:`LATE` and more, ``pauses.jsonl`` of the trial's folder gets a line: ``t``, when it should
have woken, in seconds since the load began; ``seconds``, by how much it was late; and ``bytes``
that the device moved since it last looked (null: nobody counts them).  A pause before the device's
first I/O or after its last one is left out: the load began, or ended, and measured nothing.  A
trial without pauses has no such file.  :mod:`iotrial.validity.standstill` decides.

A pulse is felt on the machine that we are on: there is none of a host far away, whose answers are
late by the network as well, and none of a made-up one, whose clock is not ours.  Twenty
looks a second of some tens of microseconds each are about a thousandth of one CPU.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from iotrial.hosts.local import LocalHost
from iotrial.model.host import Host
from iotrial.validity import moved, written

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
        count = moved.counters(os.pread(descriptor, 512, 0).decode("ascii", "replace"))
    except OSError:
        return None
    return count.total if count else None
