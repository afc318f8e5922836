"""Drain: the load of a trial runs before it, unmeasured, until burst credits are used up.

It is the load of that trial as it would be measured: the same command, at the same target, under
the same settings, with the same seal and the same leftovers, watched and ended in the same way.  So
it writes nothing that the trial may not write, and what a death leaves of it is what it leaves of
a trial.  A load that ends is started again.  What the device moved is read from the samples of each
load; when there is enough, :mod:`iotrial.stats.drain` decides.

It is due before the first trial of each workload and target in a session, and again where no load
went on for :data:`PAUSE` seconds: credits come back with time.  The outcome is part of the trial's
record; ``drain.json`` in its folder has the whole curve, ``drain`` there what the last load said.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from iotrial.execute.hosts import Hosts
from iotrial.execute.load import start
from iotrial.execute.load.chores import clear
from iotrial.execute.load.part import TrialPart, by_host, trial_parts
from iotrial.execute.manual import TrialLimits
from iotrial.execute.session import HostSession
from iotrial.model.event import CountersSampled, Event, Message, Tell
from iotrial.model.results import TelemetrySample
from iotrial.model.trial import DrainRecord, DrainState, Trial, TrialRecord
from iotrial.stats.drain import DrainLevels, DrainPoint, drained, level, told
from iotrial.units import format_value, format_wait

PAUSE = 60.0
"""Seconds without a load after which credits may have come back: a volume that serves ten times its
base rate from credits earns those of a tenth of the pause."""
EACH = 60.0
"""Seconds between two lines for people."""
SHORTEST = 0.2
"""Seconds of which a rate is taken: what is shorter is left to the next sample."""
_SECTOR = 512
_FORMAT = 1


@dataclass
class _DrainCurve:
    """What the devices of ``parts`` did since the drain began, from the samples that are told;
    ``base`` are the seconds since then at which the present load began."""

    devices: set[tuple[str, str]]
    tell: Tell
    base: float = 0.0
    points: list[DrainPoint] = field(default_factory=list)
    moved: float = 0.0
    _last: dict[tuple[str, str], tuple[float, float, float]] = field(default_factory=dict)
    _rates: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def begin(self, seconds: float) -> None:
        """Another load begins."""
        self.base = seconds
        self._last.clear()
        self._rates.clear()

    def __call__(self, event: Event) -> None:
        if isinstance(event, CountersSampled):
            self._note(event.sample)
            self.tell(event)

    def _note(self, sample: TelemetrySample) -> None:
        key, disk = (sample.host, sample.device), sample.values.get("disk")
        if key not in self.devices or not disk:
            return
        ios = float(disk["reads"] + disk["writes"])
        moved = float(disk["sectors_read"] + disk["sectors_written"]) * _SECTOR
        now = float(sample.values["t"])
        before = self._last.get(key)
        if before is None or now < before[0]:  # the first of a load is taken once more
            self._last[key] = now, ios, moved
            return
        seconds = now - before[0]
        if seconds < SHORTEST:
            return
        self._last[key] = now, ios, moved
        self._rates[key] = (moved - before[2]) / seconds, (ios - before[1]) / seconds
        self.moved += moved - before[2]
        if self._rates.keys() == self.devices:  # of several, what each did last
            rates = [sum(of) for of in zip(*self._rates.values(), strict=True)]
            self.points.append(DrainPoint(self.base + now, rates[0], rates[1], self.moved))
            self._rates.clear()


def due(hosts: Hosts, trial: Trial) -> bool:
    """Whether the load of this trial is to run before it."""
    now = hosts.first.host.clock()
    if now - hosts.loaded > PAUSE:
        hosts.drained.clear()
    return hosts.study.design.drain > 0 and (trial.workload, trial.target) not in hosts.drained


def drain(
    hosts: Hosts,
    trial: Trial,
    folder: Path,
    limits: TrialLimits,
    done: Iterable[TrialRecord],
) -> tuple[str, DrainRecord | None]:
    """Run the load until there is nothing left to be used up, or the time for it is over; gives
    back what is wrong, or '', and what it came to.  ``done`` are the trials so far.

    Raises Interrupted, HostUnreachable.
    """
    clock, most = hosts.first.host.clock, hosts.study.design.drain
    own, began = folder / "drain", clock()
    own.mkdir()
    parts = [part for part in trial_parts(hosts, trial, own) if not part.beside]
    devices = {(part.session.host.name, part.aim.device) for part in parts}
    what = f"{trial.workload} on {trial.target}"
    if not all(device for _, device in devices):
        return f"drain: the target of {what} has no block device that counts what it does", None
    known = _known(trial, done)
    curve = _DrainCurve(devices, limits.tell)
    found: list[DrainLevels] = []
    next_told = EACH

    def over() -> bool:
        nonlocal next_told
        if not found and (levels := drained(curve.points, known)):
            found.append(levels)
        elapsed = clock() - began
        if next_told <= elapsed < most and curve.points and not found:
            next_told += EACH
            rate = format_value(curve.points[-1].iops, "IOPS")
            limits.tell(Message(f"drain: {what}: {rate} after {format_wait(elapsed)}"))
        return bool(found) or elapsed >= most

    limits.tell(Message(f"drain: {what}, unmeasured, for {format_wait(most)} at most"))
    while not over():
        shutil.rmtree(own)
        own.mkdir()
        curve.begin(clock() - began)
        if problem := _once(hosts, trial, own, replace(limits, tell=curve), over):
            return f"drain: {problem}", None
    hosts.drained.add((trial.workload, trial.target))
    hosts.loaded = clock()
    outcome = _outcome(found, curve.points, clock() - began)
    limits.tell(Message(f"drain: {what}: {told(outcome)}"))
    _keep(folder, trial, outcome, curve.points)
    return "", outcome


def _once(
    hosts: Hosts, trial: Trial, folder: Path, limits: TrialLimits, over: Callable[[], bool]
) -> str:
    """One load, as :func:`iotrial.execute.trial.execute_trial` has it, without its looks."""
    parts = trial_parts(hosts, trial, folder)
    mine = by_host(parts)

    def ready(session: HostSession) -> str:
        return next(filter(None, (part.ready() for part in mine[session.name])), "")

    def after(session: HostSession) -> None:
        for part in mine[session.name]:
            clear(session, part.leaves)
            part.settle()

    if problem := next(filter(None, hosts.each(ready, list(mine)).values()), ""):
        return problem
    start.load(hosts, parts, limits, folder, enough=over)
    hosts.each(after, list(mine))
    return "" if over() else next(filter(None, map(_failure, parts)), "")


def _failure(part: TrialPart) -> str:
    """Why a load that was not told to end ended badly, or ''."""
    return part.read()[1] if part.ended.exit or part.ended.timed_out else ""


def _known(trial: Trial, done: Iterable[TrialRecord]) -> float | None:
    """What :func:`iotrial.stats.drain.drained` may know of earlier drains."""
    fell = [
        each
        for each in done
        if each.drained
        and each.drained.state == "fell"
        and (each.trial.target, each.trial.host) == (trial.target, trial.host)
    ]
    own = [e.drained.low[0] for e in fell if e.drained and e.trial.workload == trial.workload]
    if own:
        return own[-1]
    return 0.0 if fell else None


def _outcome(
    found: Sequence[DrainLevels], points: Sequence[DrainPoint], seconds: float
) -> DrainRecord:
    if found:
        levels = found[0]
        state: DrainState = "fell" if levels.fell else "level"
        return DrainRecord(state, seconds, levels.high, levels.low, levels.moved)
    last = level(points)
    return DrainRecord("limit", seconds, last, last)


def _keep(folder: Path, trial: Trial, outcome: DrainRecord, points: Sequence[DrainPoint]) -> None:
    curve = [[round(p.seconds, 3), round(p.bandwidth), round(p.iops, 1)] for p in points]
    row = {
        "format": _FORMAT,
        "workload": trial.workload,
        "target": trial.target,
        **asdict(outcome),
        "curve": {"columns": ["seconds", "bytes_per_second", "iops"], "rows": curve},
    }
    (folder / "drain.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
