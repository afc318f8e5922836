"""Spread: a study whose blocks are spread over hosts, as many at the same time as there are hosts.

Each host has a thread of its own that does its trials in their order; what the plan
says of one host is what a study on that host alone would be.  A host that is lost is asked for
again and again while others are at work; when they have nothing left to do, they take its blocks
over (:mod:`iotrial.plan.design`).  What a thread learns that ends the study (a setting that
cannot be held, a signal) ends it for all, after the trials that are under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from iotrial.errors import HostUnreachable, Interrupted
from iotrial.execute.hosts import Hosts, HostsUnreachable
from iotrial.execute.manual import TrialLimits
from iotrial.execute.trial import execute_trial
from iotrial.hosts.at_once import at_once
from iotrial.model.event import Message, ResultsUpdated, TrialBegan, TrialEnded, TrialsPlanned
from iotrial.model.study import StudyHost
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.ahead import all_failed, most_left
from iotrial.plan.design import taken_over, waiting
from iotrial.plan.parts import alone_on
from iotrial.plan.stages import next_trials
from iotrial.store import Store

ASK = 10.0
"""Seconds between two questions whether a lost host is back."""
SHARE = 50.0
"""What was found so far is told again after so many times what telling it took."""


def by_itself(hosts: Hosts, place: StudyHost) -> Hosts:
    """One host of several by itself, which may be lost."""
    alone = Hosts(
        alone_on(hosts.study, place),
        hosts.reach,
        hosts.results,
        hosts.payment,
        hosts.said,
        hosts.boots,
        upkeep=hosts.upkeep,
        owners=hosts.owners,
        prepared=hosts.prepared,
        spare=True,
        locks=hosts.locks,
        in_turn=hosts.in_turn,
    )
    alone.pool.join(hosts.pool)
    alone.adopt(alone.study)
    return alone


@dataclass
class MultiHostRun:
    """``hosts_of`` are the hosts by name, each by itself, also those that are lost; ``spent`` those
    whose budget is; ``tried`` those that have done a block; ``failed`` says that nothing could be
    measured on any; ``ended`` is set when something ends the study."""

    hosts_of: dict[str, Hosts]
    store: Store
    limits: TrialLimits
    spent: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    failed: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    _working: int = 0
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _next_told: float = 0.0

    @property
    def in_turn(self) -> bool:
        """As of the hosts that these are."""
        return any(hosts.in_turn for hosts in self.hosts_of.values())

    @property
    def at_hand(self) -> list[str]:
        return [name for name, hosts in self.hosts_of.items() if hosts.sessions]

    def execute(self) -> str:
        """Everything that is planned and not done, until nothing is; gives back why it ended
        early.  Raises as trials do, and HostUnreachable where no host is left."""
        while due := self._due():
            limit, able = self.store.study.design.budget, set(self.at_hand) - self.spent
            jobs = {name: self._work(name, mine) for name, mine in due.items() if name in able}
            if not jobs:
                return f"the budget of {limit:.0f} s is spent on each host"
            self._working = len(jobs)
            _, errors = at_once(jobs, in_turn=self.in_turn)
            self.limits.interruption.check()
            if errors:
                every = list(errors.values())
                raise next((e for e in every if isinstance(e, Interrupted)), every[0])
            if self.failed:
                self._tell(last=True)
                return self.failed
        self._tell(last=True)
        return ""

    def _due(self) -> dict[str, list[Trial]]:
        """What is to be done now, by host; of none where all is done."""
        store = self.store
        while True:
            trials = waiting(store.planned, store.records)
            found: dict[str, list[Trial]] = {}
            for trial in trials:
                found.setdefault(trial.host, []).append(trial)
            if not set(self.at_hand).isdisjoint(found):
                most = most_left(store.study, store.planned, store.records, ())
                self.limits.tell(TrialsPlanned(len(trials), most, store.folder))
                return found
            if [name for name in found if self._is_back(name)]:
                continue
            if found and not self.at_hand:
                raise HostUnreachable(
                    f"no host is reachable: {', '.join(found)}",
                    advice="Run the same command again to resume when they are reachable.",
                )
            added = taken_over(store.study, store.planned, store.records, self.at_hand)
            if added:
                blocks = len({trial.block for trial in added})
                self.limits.tell(
                    Message(f"{', '.join(found)}: {blocks} blocks moved to other hosts")
                )
            elif not (added := next_trials(store.study, store.planned, store.records)):
                return {}
            store.append_plan(added)

    def _work(self, name: str, trials: list[Trial]) -> Callable[[], None]:
        def work() -> None:
            try:
                self._trials(name, trials)
            except BaseException:
                self.ended.set()
                raise
            finally:
                with self._turn:
                    self._working -= 1
                    self._turn.notify_all()

        return work

    def _trials(self, name: str, trials: list[Trial]) -> None:
        hosts, tell = self.hosts_of[name], self.limits.tell
        block = trials[0].block
        for trial in trials:
            if self.ended.is_set():
                return
            if not hosts.sessions and not self._awaited(name):
                return
            if trial.block != block:
                block = trial.block
                self._tell()
                if self._in_vain(name):
                    return
            typical = _typical(self.store.records, trial)
            if self._over(name, typical):
                self.spent.add(name)
                return
            tell(TrialBegan(trial, typical))
            try:
                tell(TrialEnded(execute_trial(hosts, self.store, trial, self.limits)))
            except HostUnreachable as error:  # between two steps, where nobody looks for it
                hosts.lose({name: error})
            self.limits.interruption.check()

    def _in_vain(self, name: str) -> bool:
        """Whether each host has done a block, and nothing could be measured on any: one on which
        loads fail at once does not end what others are still at."""
        self.tried.add(name)
        if self.tried >= set(self.at_hand):
            self.failed = self.failed or all_failed(self.store.study, [*self.store.records])
        if self.failed:
            self.ended.set()
        return bool(self.failed)

    def _over(self, name: str, typical: float) -> bool:
        if not (budget := self.store.study.design.budget):
            return False
        used = sum(r.seconds + r.prepared for r in [*self.store.records] if r.trial.host == name)
        return used + typical > budget

    def _awaited(self, name: str) -> bool:
        """Whether a lost host comes back while others are at work."""
        if self.in_turn:
            return False
        with self._turn:
            self._working -= 1
        try:
            while True:
                with self._turn:
                    if self._working <= 0 or self.ended.is_set():
                        return False
                    self._turn.wait(ASK)
                self.limits.interruption.check()
                if self._is_back(name):
                    return True
        finally:
            with self._turn:
                self._working += 1

    def _is_back(self, name: str) -> bool:
        hosts = self.hosts_of[name]
        try:
            hosts.need(Trial(0, "", 0, "", (), "", host=name))
        except HostsUnreachable:
            return False
        return bool(hosts.sessions)

    def _tell(self, *, last: bool = False) -> None:
        """What was found so far, not too often: it is reckoned while loads go on elsewhere."""
        if not last and time.monotonic() < self._next_told:
            return
        begun = time.monotonic()
        self.limits.tell(ResultsUpdated(self.store.results()))
        self._next_told = time.monotonic() + SHARE * (time.monotonic() - begun)


def execute_over(hosts: Hosts, store: Store, limits: TrialLimits) -> str:
    """Execute all of a study whose blocks are spread over hosts; gives back why it ended early."""
    with _apart(hosts) as hosts_of:
        run = MultiHostRun(hosts_of, store, limits)
        limits.tell(ResultsUpdated(store.results()))
        return run.execute()


@contextmanager
def _apart(hosts: Hosts) -> Iterator[dict[str, Hosts]]:
    """Each host by itself; whatever becomes of them, they are the hosts of one study again."""
    hosts_of = {place.name: by_itself(hosts, place) for place in hosts.study.places}
    try:
        yield hosts_of
    finally:
        hosts.pool.look()
        for each in hosts_of.values():
            hosts.owing |= each.owing
        hosts.adopt(hosts.study)


def _typical(records: list[TrialRecord], trial: Trial) -> float:
    """What a trial of this workload took last, in seconds (0: none yet)."""
    for record in reversed([*records]):
        if record.trial.workload == trial.workload:
            return record.seconds
    return 0.0
