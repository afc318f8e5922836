"""A running host: which files it reads, who wins, and what is in force; few round trips."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

import pytest

from iotrial.hosts.fake import FakeHost
from iotrial.model.host import CompletedCommand
from iotrial.model.step import Read, Step, StepResult
from iotrial_lint.judge import judged_host
from iotrial_lint.machine import host_scene, scene_of
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import HostDisk, LintContext, LintMessage

Files = dict[str, str]


class CountedHost(FakeHost):
    """Counts how often it is asked, and has a program or two."""

    batches = 0
    said: dict[str, str] = {}  # noqa: RUF012 (each test has its own subclass' value)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        self.batches += 1
        return super().batch(steps)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        if argv[0] in ("modinfo", "multipath"):
            text = self.said.get(argv[-1])
            code = 127 if text is None else 0
            return CompletedCommand(tuple(argv), code, (text or "").encode(), b"")
        return super().run(argv, stdin=stdin, timeout=timeout)


def host(files: Files) -> CountedHost:
    made = CountedHost()
    for path, text in files.items():
        made.machine.put(path, text.encode(), mode=0o644)
    return made


def said(remarks: Iterable[LintMessage]) -> set[tuple[str, int, str]]:
    return {(remark.file, remark.line, remark.rule.name) for remark in remarks}


def found(files: Files) -> set[tuple[str, int, str]]:
    return said(judged_host(host_scene(host(files))))


def test_of_two_files_with_one_name_the_one_in_etc_is_read() -> None:
    files = {
        "/usr/lib/sysctl.d/50-x.conf": "vm.swapiness = 1\n",
        "/etc/sysctl.d/50-x.conf": "vm.swappiness = 60\n",
    }
    scene = host_scene(host(files))
    assert [sheet.file for sheet in scene.sheets if sheet.kind == "sysctl"] == [
        "/etc/sysctl.d/50-x.conf"
    ]
    assert judged_host(scene) == ()


def test_files_are_read_by_name_whatever_their_folder_and_the_last_wins() -> None:
    files = {
        "/etc/sysctl.d/10-first.conf": "vm.swappiness = 10\n",
        "/usr/lib/sysctl.d/20-second.conf": "vm.swappiness = 60\n",
    }
    assert found(files) == {("/etc/sysctl.d/10-first.conf", 1, "sysctl-overruled")}
    files["/etc/sysctl.conf"] = "vm.swappiness = 60\n"
    assert ("/usr/lib/sysctl.d/20-second.conf", 1, "sysctl-overruled") not in found(files)


def test_a_value_that_is_not_in_force_is_named() -> None:
    """The pretended kernel has 60."""
    assert found({"/etc/sysctl.conf": "vm.swappiness = 61\n"}) == {
        ("/etc/sysctl.conf", 1, "sysctl-not-in-force")
    }


def test_settings_that_cancel_each_other_are_found_across_files() -> None:
    files = {
        "/etc/sysctl.d/10-a.conf": "net.ipv4.tcp_rmem = 4096 131072 6291456\n",
        "/etc/sysctl.d/20-b.conf": "net.core.rmem_max = 212992\n",
    }
    assert found(files) == {("/etc/sysctl.d/20-b.conf", 1, "socket-max-below-tcp")}
    files["/etc/sysctl.d/30-c.conf"] = "net.core.rmem_max = 16777216\n"
    assert ("/etc/sysctl.d/20-b.conf", 1, "socket-max-below-tcp") not in found(files)


def test_the_active_profile_of_tuned_is_read_with_what_it_includes() -> None:
    files = {
        "/etc/tuned/active_profile": "mine\n",
        "/etc/tuned/mine/tuned.conf": "[main]\ninclude=base\n[sysctl]\nvm.swappiness=10\n",
        "/usr/lib/tuned/base/tuned.conf": "[disk]\nelevator=cfq\n",
        "/usr/lib/tuned/other/tuned.conf": "[disk]\nelevator=cfq\n",
        "/etc/sysctl.conf": "vm.swappiness = 60\n",
    }
    assert found(files) == {
        ("/usr/lib/tuned/base/tuned.conf", 2, "scheduler-removed"),
        ("/etc/tuned/mine/tuned.conf", 4, "tuned-and-sysctl"),
    }


def test_profiles_that_include_each_other_come_to_an_end() -> None:
    files = {
        "/etc/tuned/active_profile": "a b\n",
        "/etc/tuned/a/tuned.conf": "[main]\ninclude=b\n",
        "/etc/tuned/b/tuned.conf": "[main]\ninclude=a\n",
    }
    assert found(files) == set()


def test_every_place_of_a_host_is_read() -> None:
    files = {
        "/etc/udev/rules.d/60-x.rules": 'BUS=="scsi", TAG+="x"\n',
        "/etc/modprobe.d/x.conf": "options lpfc lpfc_fcp_wq_count=4\n",
        "/etc/multipath.conf": "defaults {\n rr_min_io 1\n}\n",
        "/etc/multipath/conf.d/x.conf": "defaults {\n failbak 1\n}\n",
        "/etc/fstab": "UUID=1 / xfs nobarrier 0 0\n",
        "/run/sysctl.d/x.conf": "vm.swapiness = 1\n",
    }
    assert found(files) == {
        ("/etc/udev/rules.d/60-x.rules", 1, "udev-removed-key"),
        ("/etc/modprobe.d/x.conf", 1, "module-removed"),
        ("/etc/multipath.conf", 2, "multipath-min-io"),
        ("/etc/multipath/conf.d/x.conf", 2, "multipath-unknown"),
        ("/etc/fstab", 1, "mount-option-removed"),
        ("/run/sysctl.d/x.conf", 1, "sysctl-misspelt"),
    }


def test_a_host_with_many_files_is_read_in_few_round_trips() -> None:
    files = {f"/etc/sysctl.d/{at}.conf": f"vm.name{at} = 1\n" for at in range(50)}
    here = host(files)
    host_scene(here)
    assert here.batches <= 5


def test_modinfo_and_the_release_of_multipath_are_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        "/etc/modprobe.d/x.conf": "options lpfc lpfc_brand_new=1\n",
        "/etc/multipath.conf": "defaults {\n getuid_callout x\n}\n",
    }
    here = host(files)
    assert len(judged_host(host_scene(here))) == 2
    answers = {"lpfc": "lpfc_brand_new:New (int)\n", "-h": "multipath-tools v0.8.5 (2020)\n"}
    monkeypatch.setattr(here, "said", answers)
    assert judged_host(host_scene(here)) == ()


def test_files_for_another_kernel_ask_nothing_of_this_one() -> None:
    sheet = parsed("sysctl", b"vm.swappiness = 10\n", "x")
    here = host({})
    before = here.batches
    assert scene_of(here, [sheet], kernel=(4, 18)) == LintContext(kernel=(4, 18), sheets=(sheet,))
    assert here.batches == before
    assert scene_of(here, [sheet]).there == {"vm.swappiness": "60\n"}


class Closed(CountedHost):
    """Of which only root may read a file."""

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return tuple(
            StepResult(errno=errno.EACCES)
            if isinstance(step, Read) and step.probe.path == "/etc/multipath.conf"
            else answer
            for step, answer in zip(steps, super().batch(steps), strict=True)
        )


def test_a_file_that_only_root_may_read_is_named() -> None:
    here = Closed()
    here.machine.put("/etc/multipath.conf", b"defaults {\n rr_min_io 1\n}\n", mode=0o600)
    scene = host_scene(here)
    assert scene.unread == ("/etc/multipath.conf",)
    assert judged_host(scene) == ()


def test_a_parameter_that_this_kernel_was_built_without_is_named() -> None:
    """The pretended kernel has few."""
    files = {"/etc/sysctl.conf": "vm.zone_reclaim_mode = 0\n-vm.stat_interval = 1\n"}
    assert found(files) == {("/etc/sysctl.conf", 1, "sysctl-not-here")}


def test_a_queue_below_its_device_and_two_schedulers_are_found() -> None:
    path = HostDisk("sda", {"nr_requests": "32", "scheduler": "[mq-deadline] none"}, depth=64)
    above = {"scheduler": "[bfq] none", "read_ahead_kb": "128"}
    under = HostDisk("sdb", {"read_ahead_kb": "4096", "scheduler": "[none]"})
    scene = LintContext(disks=(path, HostDisk("dm-0", above, slaves=("sda",)), under))
    rules = [(remark.key, remark.rule.name) for remark in judged_host(scene)]
    assert rules == [
        ("sda queue/nr_requests", "requests-below-depth"),
        ("dm-0 queue/scheduler", "scheduler-on-map"),
    ]
    scene = LintContext(disks=(under, HostDisk("md0", {"read_ahead_kb": "128"}, slaves=("sdb",))))
    assert [remark.rule.name for remark in judged_host(scene)] == ["read-ahead-below"]
