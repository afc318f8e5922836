"""Start: the loads of all parts of a trial, at the same moment, watched until the last has ended.

One load on one host is executed as it is.  Several on one host are started by one shell there, in
a folder each; on several hosts each such shell waits for a common moment, or the tools themselves
do, ready for their first I/O (:mod:`iotrial.execute.load.barrier`).  A load that fails ends the
others: what they would measure is not what was asked for.  One that outlives all others by
:data:`PATIENCE` has hung.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from iotrial.execute.hosts import Hosts
from iotrial.execute.load import barrier
from iotrial.execute.load.load import LoadExit, LoadWatch, execute_load
from iotrial.execute.load.opened import watching
from iotrial.execute.load.part import TrialPart, by_host, seal_of
from iotrial.execute.load.sampler import Sampler, StallWatch
from iotrial.execute.load.sealed import means, sealing
from iotrial.execute.load.served import LoadExecutor, through
from iotrial.execute.manual import TrialLimits
from iotrial.execute.session import HostSession
from iotrial.execute.settings import tuning
from iotrial.look import ports
from iotrial.model.event import CountersSampled, LoadProgress
from iotrial.model.results import TelemetrySample
from iotrial.model.tool import SupportsSizedLoads
from iotrial.model.trial import Doubt
from iotrial.plan.placement import nics
from iotrial.tunables.cgroup import aside

SLACK = 60.0
"""Seconds a load may take beyond twice what its options say, before it is ended."""
PATIENCE = 10.0
"""Seconds that a load which ends by time may outlive all others; and half of what it takes."""
FIRST, EACH = 2.0, 0.25
"""Seconds before the first common moment, and so many more for each host: nobody knows yet what
starting takes there."""
SERVED = 2
"""So many times as long where a server, the way to it and its client begin one after another."""
SOON, LONGEST = 0.7, 15.0
"""Seconds before every other one at least; and at most for the sake of tools that make ready."""
UNEVEN, INVALID = 0.02, 0.25
"""Shares of the load's time by which starts may differ: more is a doubt, more is no trial."""
LEAST = 0.05


@dataclass
class StartBarrier:
    """What the loads of one trial know of each other.  ``at`` is their moment, in seconds since
    the epoch by our clock (0: at once); ``speaker`` the host whose seconds are told; ``offsets``
    are those of the hosts' clocks; ``started`` how long starting took on each; ``failed`` the host
    whose load failed first; ``enough()`` ends all of them."""

    hosts: int
    patience: float
    speaker: str
    at: float = 0.0
    offsets: dict[str, barrier.ClockOffset] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    enough: Callable[[], bool] = lambda: False
    _ended: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    nap: float = 1.0
    """Seconds that a host waits for the moment before it looks again whether to stop."""

    def ended(self, name: str, status: int) -> None:
        with self._lock:
            self._ended.append(time.monotonic())
            if status and not self.failed:
                self.failed = name

    def over(self) -> bool:
        """Whether a load that still runs is to be ended."""
        if self.enough():
            return True
        if self.hosts == 1:
            return False
        with self._lock:
            last = len(self._ended) == self.hosts - 1
            hung = last and time.monotonic() - self._ended[-1] > self.patience
        return bool(self.failed) or hung


def load(
    hosts: Hosts,
    parts: Sequence[TrialPart],
    limits: TrialLimits,
    folder: Path,
    *,
    enough: Callable[[], bool] = lambda: False,
) -> StartBarrier:
    """Execute the loads of all parts; each knows then how it ended.  They are ended as soon as
    ``enough()``, which is asked once a second.

    Raises Interrupted after ending them, HostLost.
    """
    mine = by_host(parts)
    first = parts[0]
    ends = isinstance(first.driver, SupportsSizedLoads)
    patience = 2 * first.seconds() + SLACK if ends else PATIENCE + first.seconds() / 2
    shared = StartBarrier(len(mine), patience, first.session.name, enough=enough)
    if hosts.in_turn:
        shared.nap = math.inf  # nobody else is heard meanwhile, and waiting takes no time
    if len(mine) > 1 or (len(parts) > 1 and first.served):
        shared.offsets = hosts.each(lambda session: barrier.offset(session.host), list(mine))
        first_lead = (FIRST + EACH * len(mine)) * (SERVED if first.served else 1)
        hosts.lead = hosts.lead or first_lead
        shared.at = time.time() + hosts.lead
    hosts.each(lambda session: _on(session, mine[session.name], shared, folder, limits), list(mine))
    if shared.at and shared.started:
        ready = _ready(parts, shared) - (shared.at - hosts.lead)
        hosts.lead = lead(max(shared.started.values()), ready)
    return shared


def lead(started: float, ready: float) -> float:
    """Seconds from the order to the next common moment, where starting took so many on the slowest
    host, and the last tool was ready so many after the order (below 0: none told).  One that lays
    out its files takes long once, and a later trial need not wait for that."""
    return max(SOON, 2 * started, min(LONGEST, 1.5 * ready))


def _ready(parts: Sequence[TrialPart], shared: StartBarrier) -> float:
    """When the last load that waits by itself had made ready, by our clock; 0: none said so."""
    times = [
        told - shared.offsets[part.session.name].seconds
        for part in parts
        if (told := barrier.noted(part.folder, barrier.READY))
    ]
    return max(times, default=0.0)


def _on(
    session: HostSession,
    parts: list[TrialPart],
    shared: StartBarrier,
    folder: Path,
    limits: TrialLimits,
) -> None:
    """The loads of one host, sampled."""
    first, host = parts[0], session.host
    if first.served and (listen := session.place.listen):
        found = ports.chosen(listen, len(parts), ports.listening(host), session.journal.token)
        for part, place in zip(parts, found, strict=True):
            part.listen = place
    commands = {part.folder.name: _grouped(part) for part in parts}
    where, argv = first.folder, commands[first.folder.name]
    if first.name:
        ahead = shared.offsets[session.name].seconds if shared.offsets else 0.0
        at = shared.at + ahead if shared.at else 0.0
        gated = _gated(parts, commands) if shared.at else {}
        argv = barrier.together({**commands, **gated}, at, gated)
        where = folder / session.name
    places = [(part.aim.device, part.folder / "telemetry.jsonl") for part in parts]
    with ExitStack() as stack:
        tell = _telling(parts, limits)
        sampler = Sampler(
            host,
            *places[0],
            tell=tell,
            beside=places[1:],
            held=session.sampled(),
            **_below(parts),
        )
        stack.enter_context(sampler)
        for part in parts:
            stack.enter_context(StallWatch(host, part.aim.device, part.folder))
        began = time.monotonic()
        begins = host.clock() + shared.at - time.time() if shared.at else 0.0
        watch = _watch(parts, sampler, shared, limits, begins)
        look = watching(host, parts, str(where.absolute()))
        try:
            execute: LoadExecutor = _served(parts, shared) if first.served else execute_load
            ended = execute(
                host,
                tuning.join(_sealed(parts, argv), session.group),
                folder=where,
                token=session.journal.token,
                watch=replace(watch, look=look, begun=lambda: _noted(shared, session.name, began)),
            )
        except BaseException:
            shared.ended(session.name, -1)
            raise
        shared.ended(session.name, ended.exit)
        sampler.sample(ended.seconds)
    first.sampled = sampler.values
    for part in parts:
        part.ended = _own(part, ended) if first.name else ended
        (part.folder / "exitcode").write_text(f"{part.ended.exit}\n", encoding="utf-8")


def _grouped(part: TrialPart) -> tuple[str, ...]:
    """The command of a part; a load beside leaves the group of the others for its own."""
    group = part.session.group if part.beside else ""
    return tuning.join(part.command(), aside(group) if group else "")


def _sealed(parts: list[TrialPart], argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command in which no load can write what none of them may: all run as one."""
    session, seals = parts[0].session, [seal_of(part) for part in parts]
    if not any(seal.shut or seal.nodeless for seal in seals) and not all(s.disks for s in seals):
        return argv
    session.means = session.means or means(session.host)
    return sealing(argv, seals, session.means)


def _gated(
    parts: list[TrialPart], commands: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The commands that wait by themselves, by folder; a server does nothing before its client."""
    served = {part.folder.name: commands[part.folder.name] for part in parts if part.served}
    waits = {p.folder.name: load.argv for p in parts if (load := p.gated(barrier.GATE))}
    return {**waits, **served}


def _served(parts: list[TrialPart], shared: StartBarrier) -> LoadExecutor:
    gate = barrier.GATE if shared.at else None
    return through([part.client(gate) for part in parts])


class _Below(TypedDict):
    below: dict[str, tuple[str, ...]]
    nics: tuple[str, ...]


def _below(parts: list[TrialPart]) -> _Below:
    """What is sampled beside the devices: the disks that they are built on, the interfaces that
    these are reached through."""
    below = {part.aim.device: part.topology.names("disk") for part in parts if part.aim.device}
    found = dict.fromkeys(name for part in parts for name in nics(part.topology))
    built = {device: disks for device, disks in below.items() if disks != (device,)}
    return _Below(below=built, nics=tuple(found))


def _noted(shared: StartBarrier, name: str, began: float) -> None:
    shared.started[name] = time.monotonic() - began


def _telling(
    parts: list[TrialPart], limits: TrialLimits
) -> Callable[[str, Mapping[str, Any]], None]:
    by_device = {part.aim.device: part for part in parts}

    def tell(device: str, values: Mapping[str, Any]) -> None:
        part = by_device[device]
        sample = TelemetrySample(part.session.host.name, part.trial.target, device, values)
        limits.tell(CountersSampled(sample))

    return tell


def _watch(
    parts: list[TrialPart],
    sampler: Sampler,
    shared: StartBarrier,
    limits: TrialLimits,
    begins: float,
) -> LoadWatch:
    first = parts[0]

    def tick(elapsed: float) -> None:
        # What was read after the load began is no beginning; the one before its start is.
        sampler.sample(elapsed, math.inf if elapsed else begins)
        if first.session.name == shared.speaker:
            limits.tell(LoadProgress(first.trial, elapsed))

    longest = max(part.seconds() for part in parts)
    return LoadWatch(
        2 * longest + SLACK, tick, limits.interruption, shared.over, begins, nap=shared.nap
    )


def _own(part: TrialPart, ended: LoadExit) -> LoadExit:
    """How one of several loads of a host ended."""
    status = barrier.ended(part.folder, ended.exit or -9)
    return LoadExit(status, ended.seconds, ended.timed_out)


def starts(parts: Sequence[TrialPart], shared: StartBarrier) -> dict[str, float]:
    """Part → when its load went on, in seconds after the common moment (after the first of them,
    where there was none), by our clock.  One that never did is not in it."""
    found = {}
    for part in parts:
        told = barrier.noted(part.folder) if part.name else None
        if told is not None:
            ahead = shared.offsets.get(part.session.name, barrier.ClockOffset(0.0, 0.0)).seconds
            found[part.name] = told - ahead
    zero = shared.at or min(found.values(), default=0.0)
    return {name: round(value - zero, 6) for name, value in found.items()}


def skewed(began: Mapping[str, float], shared: StartBarrier, seconds: float) -> list[Doubt]:
    """A doubt where the loads did not begin at the same time."""
    if len(began) < 2 or not seconds:  # noqa: PLR2004 (one begins with itself)
        return []
    late, first = max(began, key=began.__getitem__), min(began, key=began.__getitem__)
    skew = began[late] - began[first]
    # Both times are read from clocks, each of which is known that well.
    hosts = {part.partition("/")[0] for part in (late, first)}
    known = sum(each.within for name, each in shared.offsets.items() if name in hosts)
    if skew <= max(LEAST, UNEVEN * seconds) + known:
        return []
    what = f"start times of loads differ by {skew:.3f} s, {late} last; a load took {seconds:.1f} s"
    advice = "Raise the runtime, or remove the host that starts late."
    return [Doubt("start-skew", what, advice, invalid=skew > INVALID * seconds)]
