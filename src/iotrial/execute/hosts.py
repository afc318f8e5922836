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
from pathlib import Path
from typing import TypeVar

from iotrial.errors import HostUnreachable, Interrupted, LockedError, OwedError, RefusedError
from iotrial.execute.keep.kept import refuse_pending
from iotrial.execute.load.chores import ChoreRunner
from iotrial.execute.preflight import check_machine
from iotrial.execute.session import HostSession, open_session
from iotrial.execute.settings.guard import locked
from iotrial.execute.settings.restore import RestoreReport, read_reports, restore
from iotrial.hosts.at_once import at_once
from iotrial.hosts.places import journal_folder
from iotrial.look.kernels import KernelIdentity, Key, kernel_of, refuse_twins, shared
from iotrial.model.host import Connect
from iotrial.model.study import Study, StudyHost
from iotrial.model.target import HostTarget
from iotrial.model.trial import Doubt, Trial
from iotrial.model.tunable import Setting
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
    """``sessions`` are those of the hosts at hand, by name; ``stacks`` give everything back when
    they are closed, ``upkeep`` does their chores; ``owing`` what those that were lost are owed.
    ``owners`` says which host sets what several have in common, ``lenders`` who does so for
    others; ``locks`` let one host of each kernel in at a time.  ``in_turn``: no host makes anyone
    wait, and they are worked on one after another.  ``prepared`` makes a host ready that is back.
    ``lead`` is how long before their moment loads are started, in seconds.  ``spare`` hosts may
    lose all it has: others go on."""

    study: Study
    reach: Connect
    results: Path
    payment: RestoreReport
    said: Callable[[str], None]
    sessions: dict[str, HostSession] = field(default_factory=dict)
    stacks: dict[str, ExitStack] = field(default_factory=dict)
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
        found, errors = at_once({m.name: _bound(do, m) for m in sessions}, in_turn=self.in_turn)
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
                f"{owner} and {session.name} are one kernel, and {name} is set on both: blocks "
                "that run at the same time would set it against each other",
                advice="Name one host of each kernel, or vary what is each device's own.",
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
                    {name: HostUnreachable(f"{name}: it sets what its kernel shares")}
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
        """Have every host that a trial needs at hand.  Raises HostLost for those that are not."""
        missing = [place for place in self.study.places if place.name not in self.sessions]
        needed = {*needed_by(self.study, trial), *self.lenders}
        gone = [place for place in missing if place.name in needed]
        errors: dict[str, HostUnreachable] = {}
        for place in gone:
            try:
                self.join(place)
                self.said(f"{place.name} is back")
            except (HostUnreachable, LockedError) as error:
                errors[place.name] = HostUnreachable(error.message, advice=error.advice)
            except OwedError as owed:
                self.owing[place.name] = owed
                errors[place.name] = HostUnreachable(owed.message, advice=owed.advice)
        if errors:
            raise HostsUnreachable(errors)

    def join(self, place: StudyHost) -> None:
        """Reach a host, pay what it is owed, and have its session ready."""
        session = self.open(place)
        try:
            if self.prepared:
                self.prepared(session)
        except BaseException:
            self.stacks.pop(place.name).close()
            raise
        order = [each.name for each in self.study.places]
        self.sessions[place.name] = session
        self.sessions = dict(sorted(self.sessions.items(), key=lambda each: order.index(each[0])))
        self.owing.pop(place.name, None)

    def open(self, place: StudyHost) -> HostSession:
        """A host's session.  Raises HostUnreachable, LockedError, and as a session does."""
        with ExitStack() as stack:
            host = stack.enter_context(self.reach(place))
            mine = self.share(place)
            check_machine(host, mine)
            stack.enter_context(locked(host))
            for line in read_reports(host, journal_folder(host)):
                self.said(line)
            refuse_pending(host)
            for line in restore(host, journal_folder(host)).done:
                self.said(f"owed from an earlier run: {line}")
            payment = RestoreReport()
            opened = open_session(host, mine, results=self.results, payment=payment)
            kernel = kernel_of(host) if len(self.study.places) > 1 else KernelIdentity("", ())
            with self.locks.setdefault(kernel.boot, threading.Lock()):  # one kernel, one hand:
                session = stack.enter_context(opened)  # they would take each other's loop devices
            if self.several:
                session.topologies |= together(self.study, place, session.topologies)
            session.kernel = kernel
            self.stacks[place.name] = stack.pop_all()
            return session
        raise AssertionError  # never: the stack lets everything through

    def lose(self, lost: Mapping[str, HostUnreachable]) -> None:
        """Let hosts go.  Raises HostUnreachable, or what is owed, where none is left."""
        for name, error in lost.items():
            session = self.sessions.pop(name, None)
            if session is None:
                continue
            self.said(f"{name} is lost: {error.message}")
            try:
                self._close(session)
                self.owing[name] = None
            except OwedError as owed:
                self.owing[name] = owed
            except HostUnreachable:
                self.owing[name] = None
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

    def _close(self, session: HostSession) -> None:
        try:
            self.stacks.pop(session.name).close()
        finally:
            self.payment.done += session.payment.done
            self.payment.notes += session.payment.notes
            self.payment.owed += session.payment.owed

    def close(self) -> None:
        """Give everything back, everywhere.  Raises OwedError naming what could not be."""
        sessions, self.sessions = list(self.sessions.values()), {}
        closing = {m.name: _bound(self._close, m) for m in reversed(sessions)}
        _, errors = at_once(closing, in_turn=self.in_turn)
        for name in [name for name, error in self.owing.items() if error is not None]:
            self._settle(name)
        owed = [error for error in errors.values() if isinstance(error, OwedError)]
        owed += [error for error in self.owing.values() if error is not None]
        if others := [e for e in errors.values() if not isinstance(e, OwedError)]:
            raise others[0]
        if len(owed) == 1:
            raise owed[0]
        if owed:
            lines = [line for each in owed for line in (each.message, *each.owed)]
            raise OwedError(
                f"{len(owed)} hosts are still owed something:", owed=lines, advice=owed[0].advice
            )

    def _settle(self, name: str) -> None:
        """Ask a host that was lost once more; what its guard has paid, or is paid now, is owed no
        longer."""
        place = next(each for each in self.study.places if each.name == name)
        try:
            with self.reach(place) as host, locked(host):
                for line in read_reports(host, journal_folder(host)):
                    self.said(f"{name}: {line}")
                self.payment.done += restore(host, journal_folder(host)).done
        except OwedError as owed:
            self.owing[name] = owed
        except HostUnreachable:
            return
        else:
            self.owing[name] = None


Choose = Callable[[HostSession, Trial], Sequence[Setting]]


def _settings(session: HostSession, trial: Trial) -> tuple[Setting, ...]:
    return settings_of(session.study, trial, session.topologies)


def _opening(hosts: Hosts, place: StudyHost) -> Callable[[], HostSession]:
    return lambda: hosts.open(place)


def _bound(do: Callable[[HostSession], T], session: HostSession) -> Callable[[], T]:
    return lambda: do(session)


@contextmanager
def open_hosts(  # noqa: PLR0913 (each has its name)
    study: Study,
    reach: Connect,
    *,
    results: Path,
    payment: RestoreReport,
    said: Callable[[str], None],
    in_turn: bool = False,
) -> Iterator[Hosts]:
    """The hosts of a study, every one reached and its targets ready; on the way out all that is
    owed is paid.

    Raises HostUnreachable where a host cannot be reached at the beginning: a study is begun whole.
    """
    hosts = Hosts(study, reach, results, payment, said, in_turn=in_turn)
    try:
        jobs = {each.name: _opening(hosts, each) for each in study.places}
        opened, errors = at_once(jobs, in_turn=in_turn)
        hosts.sessions = {p.name: opened[p.name] for p in study.places if p.name in opened}
        lost = {n: e for n, e in errors.items() if isinstance(e, HostUnreachable)}
        if len(lost) < len(errors) or (lost and not (hosts.sessions and _goes_on(study, results))):
            raise next(iter(errors.values()))
        for error in lost.values():
            said(f"{error.message}; the others go on")
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
