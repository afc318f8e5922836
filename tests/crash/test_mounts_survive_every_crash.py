"""Options of mounts, and mounts themselves: every moment of death, and the former state comes back.

As ``test_settings_survive_every_crash``, with the file systems of the fake machine.  A script that
unmounts and mounts again may die between the two (``torn``): then nothing is mounted there, the
options are forgotten, and only the journal knows them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial import tunables
from iotrial.errors import OwedError, SettingLost, SettingRefused
from iotrial.execute import tuning
from iotrial.execute.bench import Bench, open_bench
from iotrial.execute.journal import Journal, open_journal, read_session, sessions
from iotrial.execute.restore import Payment, boot_id, pay, restore
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.hosts.fake.parts.mount import EXT4, NFS, Mounts
from iotrial.hosts.places import journal_folder
from iotrial.model.study import Decide, Design, Study
from iotrial.model.target import Mounting, Target
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable

STUDY = Study("?", "crash", (), (), (), Design(), Decide(()))
HOWS: tuple[CrashHow, ...] = ("torn", "after")
"""Not done is the same machine as the operation before it done."""
Treatment = dict[str, str]
Life = tuple[str, str, tuple[Treatment, Treatment]]

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
    folder = journal_folder(host)
    header = {"boot_id": boot_id(host), "token": "life", "study": "crash"}
    journal = open_journal(host, folder, header)
    bench = Bench(host, STUDY, journal)
    bench.own_group([name for treatment in treatments for name in treatment], point)
    for treatment in treatments:
        try:
            bench.hold([Setting(point, name, value) for name, value in treatment.items()])
        except (SettingRefused, SettingLost):
            break
    payment = Payment()
    pay(host, read_session(journal.path, host.read(journal.path)), payment)
    assert payment.owed == []


def lives() -> Iterator[Life]:
    """From every former state every treatment, and then another one: each pair from some state."""
    for point, formers in FORMERS.items():
        treatments = TREATMENTS[point]
        for (row, former), (at, first) in itertools.product(
            enumerate(formers), enumerate(treatments)
        ):
            step = 1 + row % (len(treatments) - 1)
            yield point, former, (first, treatments[(at + step) % len(treatments)])


def killed(life: Life, at: int, how: CrashHow) -> FakeHost:
    """The machine as a controller leaves it that died at operation ``at``."""
    point, former, treatments = life
    host = prepared(point, former)
    host.crash_after, host.crash_how = at, how
    with pytest.raises(HostCrashed):
        live(host, point, treatments)
    host.reconnect()
    return host


def length(life: Life) -> int:
    host = prepared(life[0], life[1])
    live(host, life[0], life[2])
    return host.operations


def deaths(all_lives: Iterable[Life]) -> Iterator[tuple[Life, int, CrashHow]]:
    for life in all_lives:
        for at in range(1, length(life) + 1):
            yield from ((life, at, how) for how in HOWS)


def test_no_crash_leaves_a_mount_changed_or_gone() -> None:
    crashes = again = unmounted = 0
    for life, at, how in deaths(lives()):
        before = prepared(life[0], life[1]).settings()
        host = killed(life, at, how)
        unmounted += life[0] not in mounts(host).mounted
        if at % 2:  # a restore that dies at its first or second change, then another
            host.crash_after = host.operations + 1 + at // 2 % 2
            host.crash_how = how
            try:
                restore(host, journal_folder(host))
            except HostCrashed:
                again += 1
            host.reconnect()
        restore(host, journal_folder(host))
        assert sessions(host, journal_folder(host)) == ()
        assert host.settings() == before, (life, at, how)
        crashes += 1
    assert crashes > 700
    assert again > crashes // 10
    assert unmounted > 50


def test_without_what_is_mounted_in_the_journal_a_file_system_would_be_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The enumeration can fail: a journal of options alone leaves a mount that nobody can make."""
    closure = tunables.group
    monkeypatch.setattr(
        tuning,
        "closure",
        lambda names: tuple(row for row in closure(names) if row.name != "mount.mounted"),
    )
    gone = 0
    for life, at, how in itertools.islice(deaths(lives()), 0, None, 9):
        host = killed(life, at, how)
        with suppress(OwedError):
            restore(host, journal_folder(host))
        gone += life[0] not in mounts(host).mounted
    assert gone > 10


def test_an_option_alone_would_leave_what_it_brought_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``data=journal`` brings ``nodelalloc``: the row that undoes only itself is not enough."""
    monkeypatch.setattr(
        tuning, "closure", lambda names: tuple(tunable(name) for name in dict.fromkeys(names))
    )
    host = prepared(EXT4, "rw,relatime")
    before = host.settings()
    live(host, EXT4, [{"mount.data": "journal"}])
    assert host.settings() != before


MADE = (
    Target("loop", "loop", size=2**20, filesystem="ext4"),
    Target("nas", "directory", "/mnt/new/deep", mount=Mounting("srv:/other", "nfs", "soft")),
    Target(
        "made", "directory", "/mnt/made", create=(("mkdir", "/mnt/made"),),
        remove=(("rmdir", "/mnt/made"),),
    ),
    Target("disk", "device", "FAKE0000", destroy="FAKE0000", filesystem="ext4"),
)  # fmt: skip


def made(host: FakeHost) -> None:
    """A session that makes targets of every kind, sets options of what it mounted, and leaves."""
    study = Study("?", "made", MADE, (), (), Design(), Decide(()))
    with open_bench(host, study, results=Path("/nowhere"), payment=Payment()) as bench:
        wanted = {aim.path: ("mount.atime", "mount.sync") for aim in bench.aims.values()}
        wanted.pop("/mnt/made")
        bench.own_groups(wanted)
        bench.hold([Setting(point, "mount.atime", "noatime") for point in wanted])
        bench.hold([Setting(point, "mount.sync", "sync") for point in wanted])


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
    host = FakeHost()
    before = everything(host)
    made(host)
    assert everything(host) == before
    crashes = 0
    for at, how in itertools.product(range(1, host.operations + 1), HOWS):
        host = FakeHost(crash_after=at, crash_how=how)
        with pytest.raises(HostCrashed):
            made(host)
        host.reconnect()
        if at % 2:  # a restore that dies too
            host.crash_after, host.crash_how = host.operations + 1 + at // 2 % 3, how
            with suppress(HostCrashed):
                restore(host, journal_folder(host))
            host.reconnect()
        restore(host, journal_folder(host))
        assert everything(host) == before, (at, how, host.log[at - 1 :][:1])
        crashes += 1
    assert crashes > 80


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
