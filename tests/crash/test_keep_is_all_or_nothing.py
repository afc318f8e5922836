"""``iotrial keep … apply`` ended at every operation, in every way: what was begun is undone by
whoever comes next, so that all of it is there or none.

The moments are those of :mod:`deaths`; what comes next is ``keep NAME undo`` of what is pending,
as the guard and the unit of the next boot do it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from deaths import HOWS, killed, lived
from iotrial.errors import LockedError, OwedError, RefusedError
from iotrial.execute.boot import bring_back
from iotrial.execute.interruption import Interruption
from iotrial.execute.keep.keeping import ASIDE, apply, confirm, undo
from iotrial.execute.keep.kept import find, kept, refuse_pending, verify
from iotrial.execute.keep.loader import fitted
from iotrial.execute.keep.many_hosts import HostProfile
from iotrial.execute.keep.trial_boot import booted_back, booted_for_trial, in_trial_boot
from iotrial.execute.load.load import loads
from iotrial.hosts.fake import FakeHost, HostCrashed
from iotrial.hosts.fake.disk import FakeDisk
from iotrial.hosts.fake.parts.boots import ENTRY, LINE, MENU
from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import export
from iotrial.keep.profile import Profile
from iotrial.look.boots import boot_debt
from iotrial.look.identity import identify
from iotrial.model.host import Connect
from iotrial.model.study import StudyHost

PLACE = StudyHost("box", "root@box")
DISK, OTHER = "fake0", "fake1"
IDS = identify(FakeHost(), f"/dev/{DISK}").ids
FORMER = b"vm.swappiness = 33\n"
SYSCTL = "/etc/sysctl.d/99-iotrial-crash.conf"
PROFILE = Profile(
    "crash",
    (
        KeptSetting("sysctl.vm.swappiness", "7"),
        KeptSetting("sysctl.vm.dirty_bytes", "1048576"),
        KeptSetting("mm.thp", "never"),
        KeptSetting("queue.scheduler", "bfq", DISK, IDS),
        KeptSetting("queue.nr_requests", "64", DISK, IDS),
        KeptSetting("module.loop.max_loop", "16"),
        KeptSetting("boot.nvme.poll_queues", "2"),
    ),
)
FILES = export(PROFILE).files
MENUS = (MENU, ENTRY)
BOOTED = Profile("crash", (KeptSetting("boot.nvme.poll_queues", "2"),))


def prepared() -> FakeHost:
    """Somebody's own file is where one of ours will be."""
    host = FakeHost()
    host.machine.put(SYSCTL, FORMER, mode=0o640)
    return host


def seen(host: FakeHost) -> object:
    paths = [*(each.path for each in FILES), *MENUS, LINE]
    files = {path: host.machine.files.get(path) for path in paths}
    return host.settings(), {path: file and (file.data, file.mode) for path, file in files.items()}


def live(host: FakeHost) -> None:
    apply(host, PROFILE, FILES)


def finish(host: FakeHost) -> None:
    """What a guard or a boot does: undo what is pending."""
    for each in kept(host):
        if each.pending:
            undo(host, each.profile.name)


def test_files_of_four_kinds_are_written_and_values_are_in_force() -> None:
    host = lived(prepared, live)
    assert {each.path for each in FILES} >= {
        SYSCTL,
        "/etc/tmpfiles.d/iotrial-crash.conf",
        "/etc/udev/rules.d/99-iotrial-crash.rules",
        "/etc/modprobe.d/iotrial-crash.conf",
    }
    for each in FILES:
        assert host.read(each.path).decode() == each.text
    assert host.read("/proc/sys/vm/swappiness") == b"7\n"
    assert b"[bfq]" in host.read(f"/sys/block/{DISK}/queue/scheduler")


def test_after_any_death_all_of_it_is_kept_or_nothing() -> None:
    before, after = seen(prepared()), seen(lived(prepared, live))
    assert before != after
    came_to = {"nothing": 0, "all": 0}
    for at, how in itertools.product(range(1, lived(prepared, live).operations + 1), HOWS):
        host = killed(prepared, live, at, how)
        finish(host)
        there = find(host, "crash")
        assert seen(host) == (after if there else before), (at, how, host.log[-3:])
        came_to["all" if there else "nothing"] += 1
        if there:
            undo(host, "crash")
            assert seen(host) == before, (at, how)
    assert came_to["nothing"] > 20
    assert came_to["all"] >= 1


def test_an_undo_that_dies_is_done_again_to_the_end() -> None:
    before = seen(prepared())
    whole = lived(prepared, live)
    whole.log.clear()
    undo(whole, "crash")
    for at, how in itertools.product(range(1, whole.operations + 1), HOWS):
        host = lived(prepared, live)
        host.log.clear()
        host.crash_after, host.crash_how = at, how
        with pytest.raises(HostCrashed):
            undo(host, "crash")
        host.reconnect()
        if find(host, "crash"):
            undo(host, "crash")
        assert seen(host) == before, (at, how)


def by_grub() -> FakeHost:
    return FakeHost()


def by_systemd_boot() -> FakeHost:
    """Its words are in a file that is not ours."""
    host = FakeHost()
    del host.machine.files[MENU]
    for path in (ENTRY, LINE):
        host.machine.put(path, host.read("/proc/cmdline"), mode=0o644)
    return host


def boot_words(host: FakeHost) -> None:
    apply(host, BOOTED, fitted(host, export(BOOTED)).files)


@pytest.mark.parametrize("booted", [by_grub, by_systemd_boot])
def test_a_menu_goes_with_its_file_after_any_death_of_apply_and_of_undo(
    booted: Callable[[], FakeHost],
) -> None:
    before, after = seen(booted()), seen(lived(booted, boot_words))
    assert before != after
    for at, how in itertools.product(range(1, lived(booted, boot_words).operations + 1), HOWS):
        host = killed(booted, boot_words, at, how)
        finish(host)
        assert seen(host) == (after if find(host, "crash") else before), (at, how)
    whole = lived(booted, boot_words)
    whole.log.clear()
    undo(whole, "crash")
    assert seen(whole) == before
    for at, how in itertools.product(range(1, whole.operations + 1), HOWS):
        host = lived(booted, boot_words)
        host.log.clear()
        host.crash_after, host.crash_how = at, how
        with pytest.raises(HostCrashed):
            undo(host, "crash")
        host.reconnect()
        if find(host, "crash"):
            undo(host, "crash")
        assert seen(host) == before, (at, how)
        assert not [path for path in host.machine.files if path.endswith(".menu")], (at, how)


def reaching(host: FakeHost) -> Connect:
    return lambda _place: nullcontext(host)


def tried_by_a_boot(host: FakeHost) -> None:
    files = fitted(host, export(BOOTED)).files
    shares = {PLACE: HostProfile(BOOTED, files)}
    with booted_for_trial(reaching(host), shares, 60, said=str, stop=Interruption()):
        apply(host, BOOTED, files, trial=60)
    assert boot_debt(host)
    with booted_back(reaching(host), [PLACE], "crash", said=str) as tried:
        assert in_trial_boot(host, "crash")
        tried.append(PLACE.name)
        confirm(host, "crash")
    assert not boot_debt(host)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("booted", [by_grub, by_systemd_boot])
def test_a_trial_by_a_boot_ends_in_the_host_s_own_boot_after_any_death(
    booted: Callable[[], FakeHost], monkeypatch: pytest.MonkeyPatch, *, cut: bool
) -> None:
    """Kept whole and confirmed, or as before; a unit on the host does what ``bring_back`` does, and
    a guard what ``finish`` does: nobody waits on the machine made up."""
    monkeypatch.setattr("iotrial.execute.keep.keeping._watch_on", lambda *_, **__: None)
    before, after = seen(booted()), seen(lived(booted, tried_by_a_boot))
    assert before != after
    came_to = {"nothing": 0, "all": 0}
    for at, how in itertools.product(range(1, lived(booted, tried_by_a_boot).operations + 1), HOWS):
        host = killed(booted, tried_by_a_boot, at, how)
        if cut:
            host.power_cut()
        finish(host)
        bring_back(reaching(host), PLACE, within=1.0)
        there = find(host, "crash")
        assert not boot_debt(host), (at, how)
        assert seen(host) == (after if there else before), (at, how)
        came_to["all" if there else "nothing"] += 1
    assert came_to["nothing"] > 20
    assert came_to["all"] >= 1


def test_without_its_stamp_some_deaths_would_leave_words_in_the_menu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That the enumeration can fail: nothing says that the menu is still to be made anew."""
    monkeypatch.setattr("iotrial.execute.keep.keeping.stamp_menus", lambda *_: None)
    before, left = seen(by_grub()), 0
    for at in range(1, lived(by_grub, boot_words).operations + 1):
        host = killed(by_grub, boot_words, at, "after")
        finish(host)
        left += find(host, "crash") is None and seen(host) != before
    assert left


def test_where_what_was_before_is_gone_ours_stays_and_is_owed_after_any_death() -> None:
    """Somebody removes what lies beside, whenever: nothing then says that it is undone."""
    ours = next(each.text for each in FILES if each.path == SYSCTL).encode()
    owed = 0
    for at, how in itertools.product(range(1, lived(prepared, live).operations + 1), HOWS):
        host = killed(prepared, live, at, how)
        gone = host.machine.files.pop(SYSCTL + ASIDE, None)
        there = host.machine.files.get(SYSCTL)
        if gone is None or there is None:
            continue
        owed += 1
        for _ in range(2):
            with pytest.raises(OwedError) as caught:
                undo(host, "crash")
            assert f"gone from {SYSCTL}{ASIDE}" in str(caught.value), (at, how)
            assert host.read(SYSCTL) == ours, (at, how)
        host.machine.files[SYSCTL + ASIDE] = gone  # as it says
        undo(host, "crash")
        assert seen(host) == seen(prepared()), (at, how)
    assert owed > 3


def test_an_undo_that_dies_where_what_was_before_is_gone_takes_nothing_away() -> None:
    ours = next(each.text for each in FILES if each.path == SYSCTL).encode()
    whole = lived(prepared, live)
    del whole.machine.files[SYSCTL + ASIDE]
    whole.log.clear()
    with pytest.raises(OwedError):
        undo(whole, "crash")
    for at, how in itertools.product(range(1, whole.operations + 1), HOWS):
        host = lived(prepared, live)
        del host.machine.files[SYSCTL + ASIDE]
        host.log.clear()
        host.crash_after, host.crash_how = at, how
        with pytest.raises(HostCrashed):
            undo(host, "crash")
        host.reconnect()
        assert host.read(SYSCTL) == ours, (at, how)
        with pytest.raises(OwedError):
            undo(host, "crash")
        host.remove(SYSCTL)  # the other thing that it says
        assert undo(host, "crash").owed == []
        assert find(host, "crash") is None


def test_without_the_journal_some_deaths_would_leave_half_of_it() -> None:
    """That the enumeration can fail: nobody undoes what was begun."""
    before, after = seen(prepared()), seen(lived(prepared, live))
    halves = 0
    for at in range(1, lived(prepared, live).operations + 1):
        halves += seen(killed(prepared, live, at, "after")) not in (before, after)
    assert halves > 3


def test_another_disk_of_that_name_is_refused_and_told_apart_later() -> None:
    host = prepared()
    before = seen(host)
    other = Profile(
        "crash", (KeptSetting("queue.scheduler", "bfq", DISK, (("serial", "ANOTHER"),)),)
    )
    with pytest.raises(RefusedError, match=f"{DISK} is now another device: was serial ANOTHER"):
        apply(host, other, export(other).files)
    assert seen(host) == before
    kept_host = lived(prepared, live)
    assert verify(kept_host, "crash")[1] == ()
    kept_host.replace_disk(DISK, FakeDisk(DISK, (240, 0), serial="ANOTHER"))
    assert [each.what for each in verify(kept_host, "crash")[1]] == [DISK]


def swapped(host: FakeHost) -> FakeHost:
    """Found in another order, the two disks have each other's names, and values as new."""
    for name, devno, other in ((DISK, (240, 0), OTHER), (OTHER, (240, 16), DISK)):
        number = other[-1]
        wwid = f"naa.600fa4e00000000{number}"
        host.replace_disk(name, FakeDisk(name, devno, serial=f"FAKE000{number}", wwid=wwid))
    return host


def scheduler(host: FakeHost, name: str) -> bytes:
    return host.read(f"/sys/block/{name}/queue/scheduler")


def test_a_disk_that_has_another_name_is_found_by_its_ids() -> None:
    host = lived(prepared, live)
    former = scheduler(swapped(prepared()), OTHER)
    there, differences = verify(swapped(host), "crash")
    assert there.moved == {DISK: OTHER}
    assert {each.what for each in differences} == {
        f"queue.scheduler on {OTHER}",
        f"queue.nr_requests on {OTHER}",
    }
    host.meddle(f"/sys/block/{OTHER}/queue/scheduler", b"bfq")  # as the rule of the boot does
    host.meddle(f"/sys/block/{OTHER}/queue/nr_requests", b"64")
    host.meddle(f"/sys/block/{DISK}/queue/scheduler", b"kyber")  # nobody's but its owner's
    assert verify(host, "crash")[1] == ()
    assert undo(host, "crash").owed == []
    assert scheduler(host, OTHER) == former
    assert b"[kyber]" in scheduler(host, DISK)
    assert kept(host) == ()


def test_it_is_kept_on_the_disk_that_was_measured() -> None:
    host = swapped(prepared())
    before = scheduler(host, DISK)
    notes = apply(host, PROFILE, FILES)
    assert f"{DISK} is now {OTHER}" in notes[0]
    assert b"[bfq]" in scheduler(host, OTHER)
    assert scheduler(host, DISK) == before
    (there,) = kept(host)
    assert {each.device for each in there.profile.entries} == {"", OTHER}


def test_a_disk_that_is_there_twice_is_not_chosen() -> None:
    host = lived(prepared, live)
    for name, devno in ((OTHER, (240, 16)), ("fakesys", (240, 32))):  # two paths to one disk
        both = FakeDisk(name, devno, serial="FAKE0000", wwid="naa.600fa4e000000000")
        host.replace_disk(name, both)
    host.replace_disk(DISK, FakeDisk(DISK, (240, 0), serial="ANOTHER"))
    there, differences = verify(host, "crash")
    assert there.moved == {}
    assert [(each.what, each.since) for each in differences] == [(DISK, "now another device")]


def test_only_a_whole_change_can_be_confirmed_and_no_run_begins_beside_one_that_waits() -> None:
    whole = lived(prepared, live).operations
    halves = 0
    for at in range(1, whole + 1):
        host = killed(prepared, live, at, "after")
        there = find(host, "crash")
        if there is None or not there.pending:
            refuse_pending(host)
            continue
        with pytest.raises(LockedError, match="confirm, or iotrial keep crash undo"):
            refuse_pending(host)
        try:
            confirm(host, "crash")
        except RefusedError:
            halves += 1
        else:
            assert verify(host, "crash")[1] == ()
    assert halves > 3


def test_undo_of_what_is_kept_ends_no_process(tmp_path: Path) -> None:
    """It was done long ago: whoever has its name as a mark by now is a stranger."""
    host = lived(prepared, live)
    host.start(["sleep", "600"], folder=tmp_path, environment={"IOTRIAL_LOAD": "crash"})
    strangers = loads(host, "crash")
    assert strangers
    assert undo(host, "crash").owed == []
    assert loads(host, "crash") == strangers
