"""Who else sets what is kept, and who wins."""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import export
from iotrial.keep.profile import Profile
from iotrial_lint.conflicts import SettingConflict, conflicts
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.rule import ConfigFile

SWAP = KeptSetting("sysctl.vm.swappiness", "10")
QUEUE = KeptSetting("queue.scheduler", "bfq", "sda", (("wwid", "naa.1"),))
MODULE = KeptSetting("module.lpfc.lpfc_hba_queue_depth", "64")


def sheet(path: str, text: str) -> ConfigFile:
    kind = kind_of(path)
    assert kind is not None
    return parsed(kind, text.encode(), path)


def found(
    entry: KeptSetting, *sheets: ConfigFile, writers: tuple[str, ...] = ()
) -> tuple[SettingConflict, ...]:
    profile = Profile("mine", (entry,))
    return conflicts(profile.entries, export(profile).files, sheets, writers)


def test_a_sysctl_file_that_is_read_later_wins_and_an_earlier_one_does_not() -> None:
    earlier = sheet("/usr/lib/sysctl.d/50-default.conf", "vm.swappiness = 60\n")
    later = sheet("/etc/sysctl.d/99-zz.conf", "# mine\nvm.swappiness = 1\n")
    last = sheet("/etc/sysctl.conf", "vm/swappiness=2\n")
    said = found(SWAP, earlier, later, last)
    assert [(each.who, each.value, each.wins) for each in said] == [
        ("/usr/lib/sysctl.d/50-default.conf:1", "60", "ours"),
        ("/etc/sysctl.d/99-zz.conf:2", "1", "theirs"),
        ("/etc/sysctl.conf:1", "2", "theirs"),
    ]
    assert all(each.advice for each in said)


def test_who_sets_the_same_value_or_another_knob_is_no_conflict() -> None:
    alike = sheet("/etc/sysctl.d/99-zz.conf", "vm.swappiness = 10\nvm.dirty_ratio = 1\n")
    assert found(SWAP, alike) == ()


def test_our_own_file_is_no_conflict() -> None:
    (ours,) = export(Profile("mine", (SWAP,))).files
    assert found(SWAP, sheet(ours.path, "vm.swappiness = 99\n")) == ()


def test_a_later_udev_rule_wins_perhaps() -> None:
    rule = 'ACTION=="add", KERNEL=="sd*", ATTR{queue/scheduler}="none"\n'
    (late,) = found(QUEUE, sheet("/etc/udev/rules.d/99-vendor.rules", rule))
    assert (late.wins, late.value) == ("perhaps", "none")
    (early,) = found(QUEUE, sheet("/usr/lib/udev/rules.d/60-vendor.rules", rule))
    assert early.wins == "ours"


def test_modprobe_and_the_active_tuned_profile_are_looked_at() -> None:
    other = sheet("/etc/modprobe.d/zz.conf", "options lpfc lpfc_hba_queue_depth=30\n")
    (said,) = found(MODULE, other)
    assert (said.wins, said.value) == ("theirs", "30")
    tuned = sheet("/etc/tuned/web/tuned.conf", "[sysctl]\nvm.swappiness=30\n")
    (said,) = found(SWAP, tuned)
    assert said.wins == "ours"
    assert "reapply_sysctl" in said.advice


def test_programs_that_set_knobs_are_named_for_the_knobs_they_set() -> None:
    at_work = ("irqbalance (pid 7)", "sshd (pid 8)")
    irq = KeptSetting("irq.affinity", "1", "33", (("of", "nvme0q1"),))
    (said,) = found(irq, writers=at_work)
    assert said.who == "irqbalance (pid 7)"
    assert found(SWAP, writers=at_work) == ()
