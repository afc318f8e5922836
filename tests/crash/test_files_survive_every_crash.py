"""A configuration file and the daemon that reads it, and a setting that a command writes: every
moment of death, then a restore.

The method is that of :mod:`deaths`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from deaths import Tally, enumerate_deaths, hold_each_and_pay, opened, some
from imitation import CONFIGURATION, Client
from iotrial.execute.session import HostSession
from iotrial.execute.settings.journal import open_journal
from iotrial.execute.settings.restore import boot_id, restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.tunable import Setting
from iotrial.tunables import catalogue_of, command
from iotrial.tunables.file import rows

KNOBS = tuple(
    rows(
        "rsize",
        file=CONFIGURATION,
        content="rsize {value}\n",
        reload=["fakeclient", "reload"],
        read=["fakeclient", "show"],
        field="rsize:",
    )
)
STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()), knobs=KNOBS)
FORMERS: tuple[tuple[bytes, int] | None, ...] = (
    None,
    (b"rsize 4096\n", 0o600),
    (b"\n  rsize\t65536", 0o640),
)
LEVELS = ("8192", "131072", "nonsense", "16384")
KNOB, COMMAND = "file.rsize", "command.rsize"
TREATED = {KNOB, COMMAND}
BY_COMMAND = Study(
    "?", "crash", (), (), (), Design(), DecisionRule(()),
    knobs=command.rows(
        "rsize", read=["fakeclient", "show"], write=["fakeclient", "set", "{value}"],
        field="rsize:",
    ),
)  # fmt: skip


def prepared(former: tuple[bytes, int] | None) -> FakeHost:
    host = FakeHost(parts=[Client])
    if former:
        host.machine.put(CONFIGURATION, former[0], mode=former[1])
        host.run(["fakeclient", "reload"])
    return host


def seen(host: FakeHost) -> tuple[str, object]:
    file = host.machine.files.get(CONFIGURATION)
    return host.run(["fakeclient", "show"]).text, file and (file.data, file.mode)


def deaths(study: Study, knob: str) -> Tally:
    """Of lives with two levels one after the other, after each former state."""

    def live(host: FakeHost, levels: tuple[str, ...]) -> None:
        session = opened(host, study)
        session.own_groups({"": [knob]})
        hold_each_and_pay(session, ([Setting("", knob, level)] for level in levels))

    tally = Tally()
    for former, pair in itertools.product(FORMERS, itertools.permutations(LEVELS, 2)):
        mortal = partial(live, levels=pair)
        tally += enumerate_deaths(partial(prepared, former), mortal, moments=some(), seen=seen)
    return tally


def test_the_file_belongs_to_the_group_of_its_value_and_goes_back_first() -> None:
    assert [row.name for row in catalogue_of(STUDY).group([KNOB])] == [f"{KNOB}.content", KNOB]


def test_no_crash_leaves_the_file_or_the_daemon_changed(times: Callable[[int], int]) -> None:
    tally = deaths(STUDY, KNOB)
    assert tally.crashes > times(500)
    assert tally.again > tally.crashes // 10


def test_no_crash_leaves_what_a_command_writes_changed(times: Callable[[int], int]) -> None:
    tally = deaths(BY_COMMAND, COMMAND)
    assert tally.crashes > times(300)
    assert tally.again > tally.crashes // 10


def test_what_a_command_wrote_is_written_back_after_a_reboot() -> None:
    host = prepared(None)
    before = seen(host)
    journal = open_journal(host, journal_folder(host), {"boot_id": boot_id(host), "token": "t"})
    session = HostSession(host, BY_COMMAND, journal)
    session.own_groups({"": [COMMAND]})
    session.hold([Setting("", COMMAND, "8192")])
    assert seen(host) != before
    host.reboot()
    restore(host, journal_folder(host))
    assert seen(host) == before


@pytest.mark.parametrize("former", FORMERS)
def test_what_outlives_a_reboot_is_given_back_after_one(former: tuple[bytes, int] | None) -> None:
    host = prepared(former)
    before = seen(host)
    journal = open_journal(host, journal_folder(host), {"boot_id": boot_id(host), "token": "t"})
    session = HostSession(host, STUDY, journal)
    session.own_groups({"": [KNOB]})
    session.own_groups({"": ["sysctl.vm.swappiness"]})
    session.hold([Setting("", KNOB, "8192"), Setting("", "sysctl.vm.swappiness", "1")])
    host.reboot()
    swappiness = host.read("/proc/sys/vm/swappiness")
    host.meddle("/proc/sys/vm/swappiness", b"7")
    payment = restore(host, journal_folder(host))
    assert seen(host) == before
    assert any("rebooted" in note for note in payment.notes)
    assert host.read("/proc/sys/vm/swappiness") == b"7\n" != swappiness
