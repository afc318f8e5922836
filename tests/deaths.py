"""A controller's death at every moment of a life on the pretended machine, and what must follow.

A *life* is two functions.  ``prepared()`` gives a :class:`FakeHost` in some former state: what an
administrator had set.  ``live(host)`` is what a run does to it: open the journal, own what will be
changed, hold one treatment, hold another, pay.

:func:`enumerate_deaths` lives it once to its end, which must leave the machine as it was, and so
learns its operations.  Then it lives it again for each *moment*: the number of an operation (from
1) and how the controller dies at it: ``before`` it is done, with it ``torn`` in two, or ``after``
it.  Each time another controller comes and restores.  In half of the cases that restore dies too,
at one of its first changes and in the same way, and another one comes after it.  Afterwards no
journal may be left, and whatever ``seen`` says of the machine must read as before.

That this can fail is shown where the lives are: each file of ``tests/crash`` takes away something
that its lives are survived by, and finds machines that stay changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from iotrial.errors import SettingLost, SettingRefused
from iotrial.execute.session import HostSession
from iotrial.execute.settings.journal import open_journal, read_session, sessions
from iotrial.execute.settings.restore import RestoreReport, boot_id, pay, restore
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting

STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))
HOWS: tuple[CrashHow, ...] = ("before", "torn", "after")

Prepared = Callable[[], FakeHost]
Live = Callable[[FakeHost], object]
Life = tuple[Prepared, Live]
Moment = tuple[int, CrashHow]
Moments = Callable[[Sequence[str]], Iterable[Moment]]
"""From the operations of a whole life (``FakeHost.log``), when and how it is ended."""


@dataclass(frozen=True)
class Tally:
    """How many crashes there were, and how many of the restores crashed too."""

    crashes: int = 0
    again: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.crashes + other.crashes, self.again + other.again)


DEATHS: list[Tally] = []
"""Of every enumeration since the list was cleared; the summary of the test run adds them up."""


def at_each_operation(*hows: CrashHow) -> Moments:
    """At each operation in each of these ways."""

    def moments(operations: Sequence[str]) -> Iterator[Moment]:
        for at in range(1, len(operations) + 1):
            yield from ((at, how) for how in hows)

    return moments


IN_EVERY_WAY = at_each_operation(*HOWS)

SHARE = [1]
"""Of the moments, every how many-th is lived; ``tests/crash/conftest.py`` sets it: 1 with --all."""


def share_of(every: Iterable[Moment]) -> Iterator[Moment]:
    """Every so many-th of these moments, in each life from another one on.  A life may end in three
    ways at each operation; 7 has no factor of 3, so the ways take turns."""
    for number, moment in enumerate(every, len(DEATHS)):
        if number % SHARE[0] == 0:
            yield moment


def some(moments: Moments = IN_EVERY_WAY) -> Moments:
    return lambda operations: share_of(moments(operations))


def opened(host: FakeHost, study: Study = STUDY) -> HostSession:
    """A bench with a new journal on the machine; nothing is owned yet."""
    header = {"boot_id": boot_id(host), "token": "life", "study": "crash"}
    return HostSession(host, study, open_journal(host, journal_folder(host), header))


def hold_each_and_pay(session: HostSession, treatments: Iterable[Sequence[Setting]]) -> None:
    """The rest of a life once its groups are owned: one treatment after another, until the machine
    refuses one, then pay."""
    host, journal = session.host, session.journal
    for settings in treatments:
        try:
            session.hold(settings)
        except (SettingRefused, SettingLost):
            break
    payment = RestoreReport()
    pay(host, read_session(journal.path, host.read(journal.path)), payment)
    assert payment.owed == []


def lived(prepared: Prepared, live: Live) -> FakeHost:
    """The machine after a whole life; its log is that life's operations."""
    host = prepared()
    host.log.clear()
    live(host)
    return host


def length(prepared: Prepared, live: Live) -> int:
    """How many operations a whole life has."""
    return lived(prepared, live).operations


def killed(prepared: Prepared, live: Live, at: int, how: CrashHow) -> FakeHost:
    """The machine as a controller leaves it that died at operation ``at``, for the next one."""
    host = prepared()
    host.log.clear()
    host.crash_after, host.crash_how = at, how
    with pytest.raises(HostCrashed):
        live(host)
    host.reconnect()
    return host


def restore_dies(host: FakeHost, change: int, how: CrashHow) -> bool:
    """Whether a restore died that was to die at this change of its own; shorter ones end well."""
    host.crash_after, host.crash_how = host.operations + change, how
    try:
        restore(host, journal_folder(host))
    except HostCrashed:
        return True
    finally:
        host.reconnect()
    return False


def enumerate_deaths(
    prepared: Prepared,
    live: Live,
    *,
    moments: Moments = IN_EVERY_WAY,
    seen: Callable[[FakeHost], object] = FakeHost.settings,
    changes: int = 2,
) -> Tally:
    """End a life at each of these moments and restore.  Fails where anything stays changed.

    ``seen`` says what must be the same before and after.  ``changes``: a restore that dies does so
    at its first change, its second, and so on up to this one, in turn.
    """
    before = seen(prepared())
    whole = lived(prepared, live)
    assert seen(whole) == before, f"lived to its end: {live} on {prepared}"
    crashes = again = 0
    for at, how in moments(whole.log):
        host = killed(prepared, live, at, how)
        if at % 2:
            again += restore_dies(host, 1 + at // 2 % changes, how)
        restore(host, journal_folder(host))
        assert sessions(host, journal_folder(host)) == ()
        died = f"died at operation {at} ({whole.log[at - 1]}), {how}"
        assert seen(host) == before, f"{died}: {live} on {prepared}"
        crashes += 1
    DEATHS.append(tally := Tally(crashes, again))
    return tally
