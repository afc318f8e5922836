"""Options of mounts, and mounts themselves: every moment of death, and the former state comes back.

By the method of :mod:`deaths`, with the file systems of the fake machine.  A script that unmounts
and mounts again may die between the two (``torn``): then nothing is mounted there, the options are
forgotten, and only the journal knows them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from deaths import (
    Life,
    Live,
    Tally,
    at_each_operation,
    enumerate_deaths,
    hold_each_and_pay,
    killed,
    lived,
    opened,
    some,
)
from iotrial.errors import OwedError
from iotrial.execute.session import open_session
from iotrial.execute.settings.journal import Journal
from iotrial.execute.settings.restore import RestoreReport, restore
from iotrial.hosts.fake import FakeHost, HostCrashed
from iotrial.hosts.fake.parts.mounts import EXT4, NFS, Mounts
from iotrial.hosts.places import journal_folder
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.target import MountSpec, Target
from iotrial.model.tunable import Setting
from iotrial.tunables import Catalogue, tunable

STUDY = Study("?", "crash", (), (), (), Design(), DecisionRule(()))
MOMENTS = at_each_operation("torn", "after")
"""Not done is the same machine as the operation before it done."""
Treatment = dict[str, str]

FORMERS = {
    EXT4: (
        "rw,relatime",
        "rw,nosuid,noatime,commit=30,stripe=8",
        "rw,strictatime,nobarrier,discard,lazytime",
        "rw,relatime,data=journal",
        "rw,relatime,data=writeback,nodelalloc,commit=1",
    ),
    NFS: ("rw,relatime", "rw,noatime,rsize=65536,soft,nocto", "rw,sync,vers=3,acregmin=10,noac"),
}
TREATMENTS: dict[str, tuple[Treatment, ...]] = {
    EXT4: (
        {"mount.atime": "noatime", "mount.commit": "7"},
        {"mount.barrier": "nobarrier", "mount.discard": "on", "mount.atime": "strictatime"},
        {"mount.data": "journal"},
        {"mount.data": "writeback", "mount.delalloc": "nodelalloc", "mount.lazytime": "on"},
        {"mount.stripe": "16", "mount.sync": "sync", "mount.commit": "unset"},
    ),
    NFS: (
        {"mount.rsize": "131072", "mount.wsize": "32768"},
        {"mount.acregmin": "0", "mount.hard": "hard", "nfs.read_ahead_kb": "4096"},
        {"mount.noac": "noac", "mount.atime": "noatime"},
        {"mount.nconnect": "8", "mount.vers": "4.1"},
    ),
}
TREATED = {name for each in TREATMENTS.values() for treatment in each for name in treatment}
SOURCES = {EXT4: ("/dev/fakedata", "ext4"), NFS: ("srv:/export", "nfs4")}


def prepared(point: str, former: str) -> FakeHost:
    host = FakeHost()
    part = mounts(host)
    del part.mounted[point]
    assert part.mount(point, *SOURCES[point], former)
    return host


def mounts(host: FakeHost) -> Mounts:
    part = host.machine.parts["mount"]
    assert isinstance(part, Mounts)
    return part


def live(host: FakeHost, point: str, treatments: Sequence[Treatment]) -> None:
    """One life, to its end unless the host says otherwise."""
    session = opened(host)
    session.own_groups({point: [name for treatment in treatments for name in treatment]})
    hold_each_and_pay(
        session,
        ([Setting(point, name, value) for name, value in each.items()] for each in treatments),
    )


def lives() -> Iterator[tuple[str, Life]]:
    """Where, and there: from every former state every treatment, and then another one, so that each
    pair is held from some state."""
    for point, formers in FORMERS.items():
        treatments = TREATMENTS[point]
        for (row, former), (at, first) in itertools.product(
            enumerate(formers), enumerate(treatments)
        ):
            step = 1 + row % (len(treatments) - 1)
            pair = (first, treatments[(at + step) % len(treatments)])
            life = partial(live, point=point, treatments=pair)
            yield point, (partial(prepared, point, former), life)


def test_no_crash_leaves_a_mount_changed_or_gone(times: Callable[[int], int]) -> None:
    tally, unmounted = Tally(), 0

    # Counted where the controller dies: afterwards the restore has mounted it again.
    def watched(host: FakeHost, whole: Live, point: str) -> None:
        nonlocal unmounted
        try:
            whole(host)
        except HostCrashed:
            unmounted += point not in mounts(host).mounted
            raise

    for point, (former, whole) in lives():
        mortal = partial(watched, whole=whole, point=point)
        tally += enumerate_deaths(former, mortal, moments=some(MOMENTS))
    assert tally.crashes > times(700)
    assert tally.again > tally.crashes // 10
    assert unmounted > times(50)


def test_without_what_is_mounted_in_the_journal_a_file_system_would_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The enumeration can fail: a journal of options alone leaves a mount that nobody can make."""
    group = Catalogue.group
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda self, names: tuple(r for r in group(self, names) if r.name != "mount.mounted"),
    )
    deaths = (
        (point, life, moment) for point, life in lives() for moment in MOMENTS(lived(*life).log)
    )
    gone = 0
    for point, life, moment in itertools.islice(deaths, 0, None, 9):
        host = killed(*life, *moment)
        with suppress(OwedError):
            restore(host, journal_folder(host))
        gone += point not in mounts(host).mounted
    assert gone > 10


def test_an_option_alone_would_leave_what_it_brought_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``data=journal`` brings ``nodelalloc``: the row that undoes only itself is not enough."""
    monkeypatch.setattr(
        Catalogue,
        "group",
        lambda _self, names: tuple(tunable(name) for name in dict.fromkeys(names)),
    )
    host = prepared(EXT4, "rw,relatime")
    before = host.settings()
    live(host, EXT4, [{"mount.data": "journal"}])
    assert host.settings() != before


MADE = (
    Target("loop", "loop", size=2**20, filesystem="ext4"),
    Target("nas", "directory", "/mnt/new/deep", mount=MountSpec("srv:/other", "nfs", "soft")),
    Target(
        "made", "directory", "/mnt/made", create=(("mkdir", "/mnt/made"),),
        remove=(("rmdir", "/mnt/made"),),
    ),
    Target("disk", "device", "FAKE0000", destroy="FAKE0000", filesystem="ext4"),
)  # fmt: skip


def made(host: FakeHost) -> None:
    """A session that makes targets of every kind, sets options of what it mounted, and leaves."""
    study = Study("?", "made", MADE, (), (), Design(), DecisionRule(()))
    with open_session(host, study, results=Path("/nowhere"), payment=RestoreReport()) as session:
        wanted = {aim.path: ("mount.atime", "mount.sync") for aim in session.aims.values()}
        wanted.pop("/mnt/made")
        session.own_groups(wanted)
        session.hold([Setting(point, "mount.atime", "noatime") for point in wanted])
        session.hold([Setting(point, "mount.sync", "sync") for point in wanted])


def everything(host: FakeHost) -> tuple[object, ...]:
    """What there is, but for the books of iotrial itself."""
    machine, part = host.machine, mounts(host)
    ours = "/var/lib/iotrial"
    return (
        host.settings(),
        sorted(path for path in machine.folders if not path.startswith(ours)),
        sorted(path for path in machine.files if not path.startswith((ours, "/run"))),
        sorted(path for path in machine.files if "/files/" in path),
        sorted(machine.blocks),
        sorted(node for node in part.made if not node.startswith("/dev/loop")),
    )


def test_no_crash_leaves_anything_that_was_made_for_a_target() -> None:
    tally = enumerate_deaths(FakeHost, made, moments=MOMENTS, seen=everything, changes=3)
    assert tally.crashes > 80


def test_a_mount_that_is_not_owed_would_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """That enumeration can fail too."""
    owe = Journal.owe_made
    monkeypatch.setattr(
        Journal, "owe_made", lambda self, debt: debt.what == "mount" or owe(self, debt)
    )
    host = FakeHost()
    before = everything(host)
    with suppress(OwedError):
        made(host)
    assert everything(host) != before
