"""The hosts of a study, each with its session.  Most studies have one.

What is done on every host is done at the same time, a thread each (:meth:`Hosts.each`).  A host
that goes out of reach is let go: what it is owed is noted, its own guard pays, and before the next
trial that needs it it is asked whether it is back.  The last host of a study is not let go; its
loss ends the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from iotrial.errors import (
    HostError,
    HostUnreachable,
    Interrupted,
    LockedError,
    OwedError,
    RefusedError,
)
from iotrial.execute.boot import BootFailed, Boots, check_boots
from iotrial.execute.interruption import Interruption
from iotrial.execute.keep.kept import refuse_pending
from iotrial.execute.load.chores import ChoreRunner
from iotrial.execute.preflight import check_machine
from iotrial.execute.session import HostSession, open_session
from iotrial.execute.settings.guard import locked
from iotrial.execute.settings.restore import RestoreReport, settle
from iotrial.hosts.at_once import Pool, at_once, gravest
from iotrial.look.kernels import KernelIdentity, Key, kernel_of, refuse_twins, shared
from iotrial.model.host import Connect
from iotrial.model.study import Study, StudyHost
from iotrial.model.target import HostTarget
from iotrial.model.trial import Doubt, Trial
from iotrial.model.tunable import Setting
from iotrial.plan.boots import Changes, boot_factors
from iotrial.plan.design import settings as settings_of
from iotrial.plan.parts import needed_by, parts_of, several, share, together
from iotrial.tunables import catalogue_of

T = TypeVar("T")


class HostsUnreachable(HostUnreachable):
    """Some hosts of several are out of reach: ``lost`` maps their names to why."""

    def __init__(self, lost: Mapping[str, HostUnreachable]) -> None:
        super().__init__("; ".join(error.message for error in lost.values()))
        self.lost = dict(lost)


@dataclass
class Hosts:
    """``pool`` has the sessions of the hosts at hand, which give everything back when they are
    closed; ``upkeep`` does their chores; ``owing`` what those that were lost are owed.
    ``owners`` says which host sets what several have in common, ``lenders`` who does so for
    others; ``locks`` let one host of each kernel in at a time.  ``in_turn``: no host makes anyone
    wait, and they are worked on one after another.  ``prepared`` makes a host ready that is back.
    ``lead`` is how long before their moment loads are started, in seconds.  ``spare`` hosts may
    lose all it has: others go on.  ``drained`` are the workloads and targets whose credits are used
    up, ``loaded`` is when the last load ended, on the first host's clock.  ``boots`` does what only
    a boot changes."""

    study: Study
    reach: Connect
    results: Path
    payment: RestoreReport
    said: Callable[[str], None]
    boots: Boots
    upkeep: dict[str, ChoreRunner] = field(default_factory=dict)
    owing: dict[str, OwedError | None] = field(default_factory=dict)
    owners: dict[Key, str] = field(default_factory=dict)
    lenders: set[str] = field(default_factory=set)
    prepared: Callable[[HostSession], None] | None = None
    doubts: list[Doubt] = field(default_factory=list)
    lead: float = 0.0
    spare: bool = False
    locks: dict[str, threading.Lock] = field(default_factory=dict)
    in_turn: bool = False
    drained: set[tuple[str, str]] = field(default_factory=set)
    loaded: float = 0.0
    pool: Pool[HostSession] = field(init=False)

    def __post_init__(self) -> None:
        self.pool = Pool(self.study.places, self._entered, in_turn=self.in_turn)

    @property
    def sessions(self) -> dict[str, HostSession]:
        """By name, in the study's order."""
        return self.pool.opened

    @property
    def several(self) -> bool:
        """Whether trials have parts."""
        return several(self.study)

    @property
    def first(self) -> HostSession:
        """The first host at hand: what is done once is done there."""
        return next(iter(self.sessions.values()))

    def adopt(self, study: Study) -> None:
        """From now on this is the study, on every host as far as it is about that."""
        self.study = study
        for session in self.sessions.values():
            session.study = self.share(session.place)

    def share(self, place: StudyHost) -> Study:
        return share(self.study, place) if self.several else self.study

    def parts(self, trial: Trial) -> tuple[HostTarget, ...]:
        return parts_of(self.study, trial)

    def each(
        self, do: Callable[[HostSession], T], names: Sequence[str] | None = None
    ) -> dict[str, T]:
        """``do`` for every session, or for those of these names, at the same time; by name.

        Raises what one of them raised: an Interrupted before all others, and HostLost only where
        there was nothing else, so that nobody gives up on a study for a host.
        """
        wanted = self.sessions.keys() if names is None else set(names)
        sessions = [session for name, session in self.sessions.items() if name in wanted]
        if len(sessions) == 1 and len(self.study.places) == 1 and not self.spare:
            return {sessions[0].name: do(sessions[0])}
        jobs = {each.name: partial(do, each) for each in sessions}
        found, errors = at_once(jobs, in_turn=self.in_turn)
        lost = {name: e for name, e in errors.items() if isinstance(e, HostUnreachable)}
        grave = [error for error in errors.values() if not isinstance(error, HostUnreachable)]
        if grave:
            raise next((e for e in grave if isinstance(e, Interrupted)), grave[0])
        if lost:
            raise HostsUnreachable(lost)
        return found

    # -- settings ---------------------------------------------------------------------------------

    def wanted(self, trial: Trial, of: Choose | None = None) -> dict[str, tuple[Setting, ...]]:
        """What is to be set for a trial, by host: each value by the host that owns it.

        Raises SettingRefused for a tunable that a target has nothing of.
        """
        known = catalogue_of(self.study)
        found: dict[str, dict[Setting, None]] = {name: {} for name in self.sessions}
        loaded: dict[str, list[HostTarget]] = {}
        for part in self.parts(trial) if self.several else ():
            loaded.setdefault(part.host, []).append(part)
        for session in self.sessions.values():
            for setting in self._of(session, trial, of or _settings, loaded.get(session.name, [])):
                owner = self.owner(session, setting.device, setting.tunable)
                found.setdefault(owner, {})[setting] = None
        return {
            name: tuple(sorted(each, key=lambda s: known.tunable(s.tunable).rank))
            for name, each in found.items()
        }

    def _of(
        self, session: HostSession, trial: Trial, of: Choose, mine: Sequence[HostTarget]
    ) -> Iterator[Setting]:
        if not self.several:
            yield from of(session, trial)
            return
        for part in mine:
            yield from of(session, replace(trial, target=part.target.name))
        if not mine:  # no load here; but a factor may be about a target that is
            named = {f.name for f in session.study.factors if f.target}
            some = tuple(pair for pair in trial.treatment if pair[0] in named)
            yield from of(session, replace(trial, treatment=some))

    def owner(self, session: HostSession, device: str, name: str) -> str:
        """Who sets a tunable for this host: of what is one kernel's, the first that has it."""
        owner = self.owners.setdefault(
            session.kernel.key(device, catalogue_of(self.study).tunable(name)), session.name
        )
        if owner != session.name and self.study.spread:
            raise RefusedError(
                f"{owner} and {session.name} share one kernel, and {name} is set on both:"
                " concurrent blocks would overwrite it",
                advice="Name one host per kernel, or vary a setting of each device.",
            )
        if owner != session.name:
            self.lenders.add(owner)
        return owner

    def hold(self, wanted: Mapping[str, tuple[Setting, ...]]) -> None:
        """Make these be in force, and on every other host what stood before.

        Raises SettingRefused, SettingLost; HostLost for a host that is not at hand.
        """
        for name, settings in wanted.items():
            if settings and name not in self.sessions:
                raise HostsUnreachable(
                    {name: HostUnreachable(f"{name}: it sets a value shared by its kernel")}
                )
        self.each(lambda session: session.hold(wanted.get(session.name, ())))

    def release(self) -> None:
        self.each(lambda session: session.release())

    def observed(self) -> dict[str, tuple[Setting, ...]]:
        """Every value of every group of every host, read now."""
        return self.each(lambda session: session.observed())

    def named(self, seen: Mapping[str, tuple[Setting, ...]]) -> tuple[Setting, ...]:
        """What was observed, as one; of several hosts with devices named ``box1:sda``."""
        if len(self.study.places) == 1:
            return next(iter(seen.values()))
        return tuple(
            Setting(f"{name}:{s.device}", s.tunable, s.value) for name in seen for s in seen[name]
        )

    # -- coming and going -------------------------------------------------------------------------

    def need(self, trial: Trial) -> None:
        """Have every host that a trial needs at hand: in its boot, reached, paid what it is owed,
        and ready.  Raises HostsUnreachable for those that are not, BootFailed for those that are
        not in that boot."""
        due = self._due(trial)
        unready = self._boot(trial, due) if due else {}
        needed = {*needed_by(self.study, trial), *self.lenders}
        gone = [each.name for each in self.study.places if each.name not in self.sessions]
        gone = [name for name in gone if name in needed]
        errors = self.pool.open(gone)
        lost: dict[str, HostUnreachable] = {}
        for name in gone:
            match errors.get(name):
                case None:
                    self.owing.pop(name, None)
                    if name not in due:
                        self.said(f"{name} is reachable again")
                case (HostUnreachable() | LockedError() | OwedError()) as error:
                    if isinstance(error, OwedError):
                        self.owing[name] = error
                    lost[name] = HostUnreachable(error.message, advice=error.advice)
                case (RefusedError() | HostError()) as error if name in due:
                    unready[name] = self.boots.fail(name, error.message)
                case error:
                    raise error
        if lost:
            raise HostsUnreachable(lost)
        if unready:
            raise BootFailed(next(iter(unready.values())))

    def _due(self, trial: Trial) -> dict[str, Changes]:
        """The hosts that must be booted for a trial.  Raises BootFailed where that has failed for
        the trial before, in the same boot."""
        if not boot_factors(self.study):
            return {}
        self.boots.look_again(each for each in self.study.places if each.name not in self.sessions)
        due = self.boots.due(self.study, trial)
        if not due and (problem := self.boots.problem(self.study, trial)):
            raise BootFailed(problem)
        return due

    def _boot(self, trial: Trial, due: Mapping[str, Changes]) -> dict[str, str]:
        """Boot hosts for a trial; gives back why some could not be, by name.  What else they are
        owed is paid first, and is ready again after it."""
        for error in self.pool.close(due).values():
            if not isinstance(error, HostUnreachable):
                raise error
        places = {each.name: each for each in self.study.places}
        lost = self.boots.boot({name: places[name] for name in due}, trial.block, due)
        if lost:
            raise HostsUnreachable(lost)
        return self.boots.problems(due)

    @contextmanager
    def _entered(self, place: StudyHost) -> Iterator[HostSession]:
        """A host's session.  Raises HostUnreachable, LockedError, and as a session does."""
        mine, payment = self.share(place), RestoreReport()
        try:
            with ExitStack() as stack:
                host = stack.enter_context(self.reach(place))
                check_machine(host, mine)
                if not self.boots.booted(place.name):
                    check_boots(host, place, mine)
                stack.enter_context(locked(host))
                refuse_pending(host)
                booted = self.boots.booted(place.name)
                for line in settle(host, self.said, booted=booted).done:
                    self.said(f"left from an earlier run: {line}")
                opened = open_session(host, mine, results=self.results, payment=payment)
                others = len(self.study.places) > 1 or self.study.spread
                kernel = kernel_of(host) if others else KernelIdentity("", ())
                with self.locks.setdefault(kernel.boot, threading.Lock()):  # one kernel, one hand:
                    session = stack.enter_context(opened)  # they would take each other's loops
                if self.several:
                    session.topologies |= together(self.study, place, session.topologies)
                session.kernel = kernel
                if self.prepared:
                    self.prepared(session)
                yield session
        finally:
            self._add(payment)

    def _add(self, payment: RestoreReport) -> None:
        self.payment.done += payment.done
        self.payment.notes += payment.notes
        self.payment.owed += payment.owed

    def lose(self, lost: Mapping[str, HostUnreachable]) -> None:
        """Let hosts go.  Raises HostUnreachable, or what is owed, where none is left."""
        for name, error in lost.items():
            if name not in self.sessions:
                continue
            self.said(f"connection to {name} lost: {error.message}")
            left = self.pool.close([name]).get(name)
            if not isinstance(left, OwedError | HostUnreachable | None):
                raise left
            self.owing[name] = left if isinstance(left, OwedError) else None
        if not self.sessions and not self.spare:
            raise next(iter(lost.values()))

    def finish(self) -> list[str]:
        """The chores at the end of a run; gives back what failed, and stays owed."""
        try:
            found = self.each(lambda session: self.upkeep[session.name].finish())
        except HostsUnreachable as lost:
            self.lose(lost.lost)
            return [error.message for error in lost.lost.values()]
        return [problem for problems in found.values() for problem in problems]

    def close(self) -> None:
        """Give everything back, everywhere.  Raises OwedError naming what could not be."""
        errors = {**self.pool.close(), **self.boots.back()}
        for name in [name for name, error in self.owing.items() if error is not None]:
            self._settle(name)
        errors |= {name: error for name, error in self.owing.items() if error is not None}
        if error := gravest(errors):
            raise error

    def _settle(self, name: str) -> None:
        """Ask a host that was lost once more; what its guard has paid, or is paid now, is owed no
        longer."""
        place = next(each for each in self.study.places if each.name == name)
        try:
            with self.reach(place) as host, locked(host):
                self.payment.done += settle(host, lambda line: self.said(f"{name}: {line}")).done
        except OwedError as owed:
            self.owing[name] = owed
        except HostUnreachable:
            return
        else:
            self.owing[name] = None


Choose = Callable[[HostSession, Trial], Sequence[Setting]]


def _settings(session: HostSession, trial: Trial) -> tuple[Setting, ...]:
    return settings_of(session.study, trial, session.topologies)


@contextmanager
def open_hosts(  # noqa: PLR0913 (each has its name)
    study: Study,
    reach: Connect,
    *,
    results: Path,
    payment: RestoreReport,
    said: Callable[[str], None],
    in_turn: bool = False,
    interruption: Interruption | None = None,
) -> Iterator[Hosts]:
    """The hosts of a study, every one reached and its targets ready; on the way out all that is
    owed is paid.

    Raises HostUnreachable where a host cannot be reached at the beginning: a study is begun whole.
    """
    boots = Boots(reach, results, said, interruption, in_turn=in_turn)
    hosts = Hosts(study, reach, results, payment, said, boots, in_turn=in_turn)
    try:
        if boot_factors(study):
            boots.begin(study.places, refuse_pending)
        errors = hosts.pool.open()
        lost = [error for error in errors.values() if isinstance(error, HostUnreachable)]
        goes_on = len(lost) == len(errors) and hosts.sessions and _goes_on(study, results)
        if not goes_on:
            hosts.pool.check()
        for each in lost:
            said(f"{each.message}; the other hosts continue")
        if len(study.places) > 1:
            kernels = {name: session.kernel for name, session in hosts.sessions.items()}
            refuse_twins(kernels)
            hosts.doubts += shared(kernels)
        yield hosts
    finally:
        hosts.close()


def _goes_on(study: Study, results: Path) -> bool:
    """Whether a study goes on without some of its hosts: one that has begun, and whose blocks
    others take over."""
    return study.spread and (results / "plan.jsonl").exists()
