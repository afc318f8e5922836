"""A run made visible elsewhere: its events are noted, and a thread does the rest.

Called with an event, :class:`LiveStatus` appends to a queue and returns.  The thread folds the
events once a second, writes ``live.json`` and feeds the page.  Whatever goes wrong in it (a full
disk, a reader that is stuck, a fault of ours) stays in it.  Intervals alone are reckoned in the
run's own thread, while no load goes on: elsewhere they would take the CPU from the load that is
measured.

Findings so far, as data: how wide the intervals are after each block.  Pure.

A race's verdicts hold after every look.  A design of so many blocks is judged once, at its end:
until then its intervals say where things stand, and no verdict is read from them.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from iotrial.live.address import Address, is_loopback, listen, names, new_token, url
from iotrial.live.file import LiveFile
from iotrial.live.picture import InterimFindings, LiveDocument, RunEnd
from iotrial.model.event import CountersSampled, Event, LoadProgress, ResultsUpdated
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.ahead import open_ended
from iotrial.plan.stages import next_trials

if TYPE_CHECKING:
    from iotrial.judgement import Judged
    from iotrial.live.server import LiveServer

MOST = 200
"""Findings that are told; the rest is for the report."""


def findings(results: Results, judge: Callable[[Results], Judged]) -> list[dict[str, Any]]:
    """One for each primary comparison that has a number; of stages those of the one that is at
    work.  ``verdict`` is '' as long as none may be read."""
    if not results.valid:
        return []
    comparison = judge(results).comparison
    at_work, stage = results, 0
    if comparison.stages:
        at_work, stage = comparison.stages[-1].results, comparison.stages[-1].stage.number
    looks = open_ended(at_work.study) or is_over(at_work)
    found = [
        each
        for each in comparison.findings
        if each.primary and each.ratio > 0 and each.stage == stage
    ]
    return [_as_data(each, looks=looks, stage=stage) for each in found[:MOST]]


def is_over(results: Results) -> bool:
    """Whether nothing is left to do: then a verdict is read, whatever the design."""
    done = {record.trial.number for record in results.records}
    if any(trial.number not in done for trial in results.planned):
        return False
    return not next_trials(results.study, results.planned, results.records)


def _as_data(each: Finding, *, looks: bool, stage: int) -> dict[str, Any]:
    return {
        "workload": each.workload,
        "metric": each.metric,
        "factor": each.factor,
        "level": each.level,
        "baseline": each.baseline,
        "ratio": each.ratio,
        "low": each.low,
        "high": each.high,
        "verdict": each.verdict if looks else "",
        "n": each.n,
        "stage": stage,
    }


BEAT = 1.0
MOST_EVENTS = 100_000
"""Events that wait for a thread that is stuck; the oldest go first."""
LAST = 3.0
"""Seconds that the end of a run waits for the thread."""
SHARE = 50.0
"""Intervals are reckoned again after so many times what reckoning them took: 2 % at most."""


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where the page is: ``url`` with its token; ``loopback``: seen from this machine only."""

    url: str
    port: int
    loopback: bool


class LiveStatus:
    """A context around a run.  ``address`` is where the page is served (None: nowhere).

    Entering raises UsageError where it cannot be served there; nothing else raises.
    """

    def __init__(self, study: Study, address: Address | None) -> None:
        self.place: PageAddress | None = None
        self._address = address
        self._picture = LiveDocument(study, os.getpid())
        self._queue: deque[tuple[Event | InterimFindings | RunEnd, float]] = deque(
            maxlen=MOST_EVENTS
        )
        self._file = LiveFile()
        self._server: LiveServer | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._live, name="live", daemon=True)
        self._next_look = 0.0
        self._counted = False
        self._end = (0, "")

    def __enter__(self) -> Self:
        if self._address is not None:
            from iotrial.live.server import AccessControl, LiveServer  # noqa: PLC0415 (few ask)

            listening, token = listen(self._address), new_token()
            gate = AccessControl(token, names(self._address))
            self._server = LiveServer(self._picture, listening, gate, time.time)
            where = url(listening, self._address, token)
            self.place = PageAddress(where, listening.getsockname()[1], is_loopback(listening))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._end = (int(getattr(error, "exit_code", 2)), str(error) or type(error).__name__)
        self._note(RunEnd(*self._end))
        self._done.set()
        self._thread.join(LAST)

    def ends(self, exit_code: int) -> None:
        """What the run will exit with, once it has come to its end."""
        self._end = (exit_code, "")

    def __call__(self, event: Event) -> None:
        """Note what a run tells."""
        if isinstance(event, ResultsUpdated):
            self._known(event.results)
        elif not isinstance(
            event, LoadProgress
        ):  # each second that a load goes on: samples say more
            self._counted = self._counted or isinstance(event, CountersSampled)
            self._note(event)

    def _known(self, results: Results) -> None:
        """Reckon the intervals, unless that is to take too much of the run's time."""
        counts = {"valid": 0, "invalid": 0, "failed": 0}
        for record in results.records:
            counts[record.state] += 1
        found: list[dict[str, object]] | None = None
        begun = time.monotonic()
        # A picture is not worth a run: what cannot be judged yet is judged at the end.
        with suppress(Exception):
            if results.valid and (begun >= self._next_look or is_over(results)):
                from iotrial.judgement import judge  # noqa: PLC0415  SciPy is slow to import

                begun = time.monotonic()
                found = findings(results, judge)
                self._next_look = time.monotonic() + SHARE * (time.monotonic() - begun)
        self._note(InterimFindings(found, counts))

    def _note(self, event: Event | InterimFindings | RunEnd) -> None:
        self._queue.append((event, time.time()))

    def _live(self) -> None:
        import asyncio  # noqa: PLC0415 (in this thread: a run need not wait for it)

        with suppress(Exception):
            asyncio.run(self._beat())
        self._file.close()

    async def _beat(self) -> None:
        import asyncio  # noqa: PLC0415

        if self._server is not None:
            await self._server.begin()
        due = time.monotonic()
        while True:
            last = self._done.is_set()
            with suppress(Exception):
                self._tell()
            if last:
                break
            due = max(due + BEAT, time.monotonic())
            # Set in the run's thread, which must not depend on this loop being well.
            while not self._done.is_set() and (left := due - time.monotonic()) > 0:
                await asyncio.sleep(min(left, BEAT / 5))
                if self._counted and left < BEAT / 2:
                    due = time.monotonic()  # a sample is told while it is new
            self._counted = False
        if self._server is not None:
            await self._server.end()

    def _tell(self) -> None:
        """Fold what was noted, then say how things stand."""
        while self._queue:
            event, at = self._queue.popleft()
            with suppress(Exception):
                self._picture.add(event, at)
        self._picture.tick()
        document = self._picture.document(time.time())
        if self._picture.results:
            self._file.write(Path(self._picture.results), document)
        if self._server is not None:
            self._server.tell(document)
