"""Start: the loads of all posts of a trial, at the same moment, watched until the last has ended.

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

from iotrial.execute.hosts import Crew, Member
from iotrial.execute.load import barrier
from iotrial.execute.load.load import Ended, Watch, execute_load
from iotrial.execute.load.opened import watching
from iotrial.execute.load.part import Post, by_host, seal_of
from iotrial.execute.load.sampler import Sampler
from iotrial.execute.load.sealed import means, sealing
from iotrial.execute.load.served import Execute, through
from iotrial.execute.load.stalls import Pulse
from iotrial.execute.manual import Limits
from iotrial.execute.settings import cgroups
from iotrial.look import ports
from iotrial.model.doubt import Doubt
from iotrial.model.event import Sampled, Ticked
from iotrial.model.sample import Sample
from iotrial.model.tool import Ends
from iotrial.plan.placement import nics

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
class Together:
    """What the loads of one trial know of each other.  ``at`` is their moment, in seconds since
    the epoch by our clock (0: at once); ``speaker`` the host whose seconds are told; ``offsets``
    are those of the hosts' clocks; ``started`` how long starting took on each; ``failed`` the host
    whose load failed first."""

    hosts: int
    patience: float
    speaker: str
    at: float = 0.0
    offsets: dict[str, barrier.Offset] = field(default_factory=dict)
    started: dict[str, float] = field(default_factory=dict)
    failed: str = ""
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
        if self.hosts == 1:
            return False
        with self._lock:
            last = len(self._ended) == self.hosts - 1
            hung = last and time.monotonic() - self._ended[-1] > self.patience
        return bool(self.failed) or hung


def load(crew: Crew, posts: Sequence[Post], limits: Limits, folder: Path) -> Together:
    """Execute the loads of all posts; each knows then how it ended.

    Raises Interrupted after ending them, HostLost.
    """
    mine = by_host(posts)
    first = posts[0]
    ends = isinstance(first.driver, Ends)
    patience = 2 * first.seconds() + SLACK if ends else PATIENCE + first.seconds() / 2
    shared = Together(len(mine), patience, first.member.name)
    if crew.in_turn:
        shared.nap = math.inf  # nobody else is heard meanwhile, and waiting takes no time
    if len(mine) > 1 or (len(posts) > 1 and first.served):
        shared.offsets = crew.each(lambda member: barrier.offset(member.bench.host), list(mine))
        first_lead = (FIRST + EACH * len(mine)) * (SERVED if first.served else 1)
        crew.lead = crew.lead or first_lead
        shared.at = time.time() + crew.lead
    crew.each(lambda member: _on(member, mine[member.name], shared, folder, limits), list(mine))
    if shared.at and shared.started:
        ready = _ready(posts, shared) - (shared.at - crew.lead)
        crew.lead = lead(max(shared.started.values()), ready)
    return shared


def lead(started: float, ready: float) -> float:
    """Seconds from the order to the next common moment, where starting took so many on the slowest
    host, and the last tool was ready so many after the order (below 0: none told).  One that lays
    out its files takes long once, and a later trial need not wait for that."""
    return max(SOON, 2 * started, min(LONGEST, 1.5 * ready))


def _ready(posts: Sequence[Post], shared: Together) -> float:
    """When the last load that waits by itself had made ready, by our clock; 0: none said so."""
    times = [
        told - shared.offsets[post.member.name].seconds
        for post in posts
        if (told := barrier.noted(post.folder, barrier.READY))
    ]
    return max(times, default=0.0)


def _on(member: Member, posts: list[Post], shared: Together, folder: Path, limits: Limits) -> None:
    """The loads of one host, sampled."""
    first, host = posts[0], member.bench.host
    if first.served and (listen := member.place.listen):
        found = ports.chosen(listen, len(posts), ports.listening(host), member.bench.journal.token)
        for post, place in zip(posts, found, strict=True):
            post.listen = place
    commands = {post.folder.name: post.command() for post in posts}
    where, argv = first.folder, commands[first.folder.name]
    if first.name:
        ahead = shared.offsets[member.name].seconds if shared.offsets else 0.0
        at = shared.at + ahead if shared.at else 0.0
        gated = _gated(posts, commands) if shared.at else {}
        argv = barrier.together({**commands, **gated}, at, gated)
        where = folder / member.name
    places = [(post.aim.device, post.folder / "telemetry.jsonl") for post in posts]
    with ExitStack() as stack:
        tell = _telling(posts, limits)
        sampler = Sampler(host, *places[0], tell=tell, beside=places[1:], **_below(posts))
        stack.enter_context(sampler)
        for post in posts:
            stack.enter_context(Pulse(host, post.aim.device, post.folder))
        began = time.monotonic()
        begins = host.clock() + shared.at - time.time() if shared.at else 0.0
        watch = _watch(posts, sampler, shared, limits, begins)
        look = watching(host, posts, str(where.absolute()))
        try:
            execute: Execute = _served(posts, shared) if first.served else execute_load
            ended = execute(
                host,
                cgroups.join(_sealed(posts, argv), member.bench.group),
                folder=where,
                token=member.bench.journal.token,
                watch=replace(watch, look=look, begun=lambda: _noted(shared, member.name, began)),
            )
        except BaseException:
            shared.ended(member.name, -1)
            raise
        shared.ended(member.name, ended.exit)
        sampler.sample(ended.seconds)
    for post in posts:
        post.ended = _own(post, ended) if first.name else ended
        (post.folder / "exitcode").write_text(f"{post.ended.exit}\n", encoding="utf-8")


def _sealed(posts: list[Post], argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command in which no load can write what none of them may: all run as one."""
    bench, seals = posts[0].member.bench, [seal_of(post) for post in posts]
    if not any(seal.shut or seal.nodeless for seal in seals) and not all(s.disks for s in seals):
        return argv
    bench.means = bench.means or means(bench.host)
    return sealing(argv, seals, bench.means)


def _gated(
    posts: list[Post], commands: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The commands that wait by themselves, by folder; a server does nothing before its client."""
    served = {post.folder.name: commands[post.folder.name] for post in posts if post.served}
    waits = {p.folder.name: load.argv for p in posts if (load := p.gated(barrier.GATE))}
    return {**waits, **served}


def _served(posts: list[Post], shared: Together) -> Execute:
    gate = barrier.GATE if shared.at else None
    return through([post.client(gate) for post in posts])


class _Below(TypedDict):
    below: dict[str, tuple[str, ...]]
    nics: tuple[str, ...]


def _below(posts: list[Post]) -> _Below:
    """What is sampled beside the devices: the disks that they are built on, the interfaces that
    these are reached through."""
    below = {post.aim.device: post.topology.names("disk") for post in posts if post.aim.device}
    found = dict.fromkeys(name for post in posts for name in nics(post.topology))
    built = {device: disks for device, disks in below.items() if disks != (device,)}
    return _Below(below=built, nics=tuple(found))


def _noted(shared: Together, name: str, began: float) -> None:
    shared.started[name] = time.monotonic() - began


def _telling(posts: list[Post], limits: Limits) -> Callable[[str, Mapping[str, Any]], None]:
    by_device = {post.aim.device: post for post in posts}

    def tell(device: str, values: Mapping[str, Any]) -> None:
        post = by_device[device]
        sample = Sample(post.member.bench.host.name, post.trial.target, device, values)
        limits.tell(Sampled(sample))

    return tell


def _watch(
    posts: list[Post], sampler: Sampler, shared: Together, limits: Limits, begins: float
) -> Watch:
    first = posts[0]

    def tick(elapsed: float) -> None:
        # What was read after the load began is no beginning; the one before its start is.
        sampler.sample(elapsed, math.inf if elapsed else begins)
        if first.member.name == shared.speaker:
            limits.tell(Ticked(first.trial, elapsed))

    longest = max(post.seconds() for post in posts)
    return Watch(
        2 * longest + SLACK, tick, limits.interruption, shared.over, begins, nap=shared.nap
    )


def _own(post: Post, ended: Ended) -> Ended:
    """How one of several loads of a host ended."""
    status = barrier.ended(post.folder, ended.exit or -9)
    return Ended(status, ended.seconds, ended.timed_out)


def starts(posts: Sequence[Post], shared: Together) -> dict[str, float]:
    """Part → when its load went on, in seconds after the common moment (after the first of them,
    where there was none), by our clock.  One that never did is not in it."""
    found = {}
    for post in posts:
        told = barrier.noted(post.folder) if post.name else None
        if told is not None:
            ahead = shared.offsets.get(post.member.name, barrier.Offset(0.0, 0.0)).seconds
            found[post.name] = told - ahead
    zero = shared.at or min(found.values(), default=0.0)
    return {name: round(value - zero, 6) for name, value in found.items()}


def skewed(began: Mapping[str, float], shared: Together, seconds: float) -> list[Doubt]:
    """A doubt where the loads did not begin at the same time."""
    if len(began) < 2 or not seconds:  # noqa: PLR2004 (one begins with itself)
        return []
    late = max(began, key=began.__getitem__)
    skew = began[late] - min(began.values())
    known = max((each.within for each in shared.offsets.values()), default=0.0)
    if skew <= max(LEAST, UNEVEN * seconds) + known:
        return []
    what = f"loads began {skew:.3f} s apart, {late} last; a load took {seconds:.1f} s"
    advice = "Load for longer, or leave out the host that is slow to start."
    return [Doubt("start-skew", what, advice, invalid=skew > INVALID * seconds)]
