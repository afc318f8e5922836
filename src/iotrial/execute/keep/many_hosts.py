"""Keeping on several hosts: on all of them or on none, as far as that can be had.

Each host does what :mod:`iotrial.execute.keep.keeping` says, over its own link, with its own
journal and its own guard.  Nobody's change is made to stay before every host has all of it in force
(two-phase commit: Gray and Reuter, Transaction Processing, 1993, section 10.3).  What is then left
is one rename on each host at the same time.  A link that is lost in that moment leaves one host in
doubt: it is named, and the others take theirs back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

from iotrial.errors import HostUnreachable, IotrialError, OwedError, RefusedError
from iotrial.execute.keep import keeping
from iotrial.execute.keep.keeping import OutcomeUnknown
from iotrial.execute.keep.kept import KeptProfile, ProfileDifference, find, verify
from iotrial.execute.settings.guard import with_lock
from iotrial.execute.settings.restore import RestoreReport
from iotrial.hosts.at_once import Pool, at_once, gravest
from iotrial.keep.native import NativeFile
from iotrial.keep.profile import Profile
from iotrial.look.kernels import Key, kernel_of, refuse_twins
from iotrial.model.host import Connect, Host
from iotrial.model.study import StudyHost
from iotrial.tunables import tunable

State = Literal["kept", "trying", "as-before", "lost", "in-doubt", "owed"]


class _AnotherFailed(IotrialError):
    """This host could; another one could not."""


class _TakenBack(_AnotherFailed):
    """Confirmed, and taken back."""


class _NotOnTrial(RefusedError):
    """There is nothing that could be confirmed."""


@dataclass(frozen=True, slots=True)
class HostProfile:
    """What of a profile is one host's: a profile of one machine, and its native files."""

    profile: Profile
    files: tuple[NativeFile, ...]


@dataclass(frozen=True, slots=True)
class HostOutcome:
    """What a host came to: ``state``, ``why`` where that is not what was asked for, and what a
    person should know (``notes``)."""

    host: str
    state: State
    why: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostOutcomes:
    """``outcomes`` by host, in their order; ``error`` is the gravest of what went wrong."""

    outcomes: tuple[HostOutcome, ...]
    error: IotrialError | None = None


class _Vote:
    """Whether all of ``hosts`` can: each says so once, and hears the answer when all have."""

    def __init__(self, hosts: int) -> None:
        self._said: dict[str, bool] = {}
        self._hosts = hosts
        self._all = threading.Condition()

    def cast(self, host: str, *, able: bool) -> bool:
        """Whether every host is able.  One that is not need not wait to hear it."""
        with self._all:
            self._said.setdefault(host, able)
            self._all.notify_all()
            return able and self._all.wait_for(self._decided) and all(self._said.values())

    def agree(self, host: str) -> None:
        """This host is able.  Raises Withdrawn unless all are."""
        if not self.cast(host, able=True):
            raise _AnotherFailed("failed on another host")

    def _decided(self) -> bool:
        return len(self._said) == self._hosts or not all(self._said.values())


@contextmanager
def reached(places: Sequence[StudyHost], reach: Connect, *, lock: bool) -> Iterator[Pool[Host]]:
    """The hosts at these places, open as far as they can be.

    Raises RefusedError where two names are one machine.
    """
    with Pool(places, with_lock(reach) if lock else reach) as pool:
        pool.open()
        if len(pool.opened) > 1:
            refuse_twins({name: kernel_of(host) for name, host in pool.opened.items()})
        yield pool


def apply(
    hosts: Mapping[str, Host],
    shares: Mapping[str, HostProfile],
    *,
    trial: float = 0.0,
    stop: Callable[[], None] = lambda: None,
) -> HostOutcomes:
    """As :func:`iotrial.execute.keep.keeping.apply`, on each host its share: on all or on none.

    The caller holds the hosts' locks.  Raises RefusedError, before anything is changed, where two
    hosts are one kernel and both would set what belongs to it.
    """
    _refuse_shared(hosts, shares)
    force, stay = _Vote(len(shares)), _Vote(len(shares))

    def one(name: str) -> tuple[str, ...]:
        host, share = hosts[name], shares[name]
        with (
            _unable(name, force, stay),
            keeping.begun(host, share.profile, share.files, trial=trial, stop=stop) as notes,
        ):
            force.agree(name)
            if not trial:
                keeping.commit(host, share.profile.name)
        if not stay.cast(name, able=True):
            keeping.undo(host, share.profile.name)
            raise _AnotherFailed("connection to another host lost")
        return notes

    done, errors = at_once({name: partial(one, name) for name in shares})
    state: State = "trying" if trial else "kept"
    good = {name: HostOutcome(name, state, notes=notes) for name, notes in done.items()}
    return _came(shares, good, errors, "as-before")


@contextmanager
def _unable(host: str, *votes: _Vote) -> Iterator[None]:
    """Whatever ends this early, nobody waits for the host's word."""
    try:
        yield
    except BaseException:
        for vote in votes:
            vote.cast(host, able=False)
        raise


def confirm(hosts: Mapping[str, Host], name: str) -> HostOutcomes:
    """What is being tried on all of these hosts is kept on all of them.

    Nothing is where one of them cannot; a host on which it is kept already is none that cannot.
    """
    able, stay = _Vote(len(hosts)), _Vote(len(hosts))

    def one(called: str) -> bool:
        host = hosts[called]
        with _unable(called, able, stay):
            there = find(host, name)
            if there is None:
                raise _NotOnTrial(f"{host.name}: {name} is not in a trial period; possibly undone")
            mine = there.pending
            if mine:
                keeping.prepare(host, name)
            able.agree(called)
            if mine:
                keeping.commit(host, name)
        if not stay.cast(called, able=True) and mine:
            keeping.undo(host, name)
            raise _TakenBack("connection to another host lost")
        return mine

    done, errors = at_once({each: partial(one, each) for each in hosts})
    if done and not errors and not any(done.values()):
        advice = f"See: iotrial keep {name} verify"
        errors = {next(iter(done)): RefusedError(f"{name} is kept already", advice=advice)}
    good = {each: HostOutcome(each, "kept") for each in done}
    return _came(hosts, good, errors, "trying")


def verified(
    hosts: Mapping[str, Host], name: str
) -> tuple[dict[str, tuple[KeptProfile, tuple[ProfileDifference, ...]]], dict[str, Exception]]:
    """What differs on each host; and of the others why it cannot be said (RefusedError: nothing is
    kept there)."""
    return at_once({each: partial(verify, host, name) for each, host in hosts.items()})


def undone(
    hosts: Mapping[str, Host], name: str
) -> tuple[dict[str, RestoreReport], dict[str, Exception]]:
    """Give everything back on each host; and of the others why not."""
    return at_once({each: partial(keeping.undo, host, name) for each, host in hosts.items()})


def _came(
    order: Mapping[str, object],
    good: Mapping[str, HostOutcome],
    errors: Mapping[str, Exception],
    otherwise: State,
) -> HostOutcomes:
    outcomes = tuple(
        good[name] if name in good else _outcome(name, errors[name], otherwise) for name in order
    )
    return HostOutcomes(
        outcomes, gravest(errors, (OutcomeUnknown, HostUnreachable, _AnotherFailed))
    )


def _outcome(name: str, error: Exception, otherwise: State) -> HostOutcome:
    said = error.message if isinstance(error, IotrialError) else str(error)
    said = said.removeprefix(f"{name}: ")
    if isinstance(error, OutcomeUnknown):
        return HostOutcome(name, "in-doubt", said)
    if isinstance(error, HostUnreachable):
        return HostOutcome(name, "lost", f"{said}. {error.advice}".strip())
    if isinstance(error, OwedError):
        return HostOutcome(name, "owed", said)
    return HostOutcome(
        name, "as-before" if isinstance(error, (_TakenBack, _NotOnTrial)) else otherwise, said
    )


def _refuse_shared(hosts: Mapping[str, Host], shares: Mapping[str, HostProfile]) -> None:
    """Of namespaces on one kernel each would take the other's value for what was there before."""
    kernels = {name: kernel_of(hosts[name]) for name in shares}
    owners: dict[Key, str] = {}
    for name, share in shares.items():
        for entry in share.profile.entries:
            first = owners.setdefault(kernels[name].key(entry.device, tunable(entry.tunable)), name)
            if first != name:
                raise RefusedError(
                    f"{first} and {name} share one kernel, and therefore {entry}",
                    advice=f"Keep it on one of them: host = {first!r} in the profile.",
                )
