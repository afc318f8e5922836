"""What the doctor says of machines, each with one thing wrong; and the facts of a machine."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from iotrial.errors import TargetRefused
from iotrial.execute.targets.loops import LoopPlan, free_number
from iotrial.look import machine as about
from iotrial.look.doctor import CHECKS, HostCheck, examine, overall
from iotrial.look.facts import gather, kernel_parameters, numbers
from iotrial.look.places import laid_size, settle_folder
from iotrial.model.host import Host
from iotrial.model.target import Target
from machines import Written, answer, disk, machine

SYSFS = "23 22 0:22 / /sys {} - sysfs sysfs rw"
GIB = 2**30


def host_of(written: Written) -> Host:
    return written  # type: ignore[return-value]


def healthy() -> Written:
    """A quiet bare-metal server."""
    host = machine()
    host.files["/proc/self/mountinfo"] += SYSFS.format("rw").encode() + b"\n"
    host.add("/proc/self/stat", "42 (iotrial) R 1")
    host.add("/proc/42/comm", "iotrial")
    host.add("/proc/1/comm", "systemd")
    host.add("/proc/loadavg", "0.10 0.20 0.30 1/200 4711")
    host.add("/proc/pressure/io", "some avg10=0.00 avg60=1.00\nfull avg10=0.00")
    host.add(
        "/proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon\nprocessor\t: 1\nflags\t: fpu sse"
    )
    host.add("/proc/meminfo", "MemTotal:       16384 kB")
    host.add("/etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"')
    host.add("/dev/loop-control", "")
    host.add(about.CLOCKSOURCE, "tsc")
    host.add(about.GOVERNOR, "performance")
    host.scripts["iotrial-boot"] = "running|6.18.0|quiet\nkernel|6.18.0|\nmethod|kexec|\n"
    disk(host, "sda", "8:0", {"queue/scheduler": "[none] mq-deadline bfq"})
    for command, text in (
        (("id", "-u"), "0\n"),
        (("uname", "-r"), "6.18.0\n"),
        (("stat", "-f", "-c", "%a %S %T", "/"), "26214400 4096 ext2/ext3\n"),
        (("fio", "--version"), "fio-3.33\n"),
    ):
        host.answers[command] = answer(command, text)
    return host


def verdicts(host: Written, owed: tuple[str, ...] = ()) -> dict[str, HostCheck]:
    return {check.name: check for check in examine(host_of(host), tools=(), owed=owed)}


def test_nothing_speaks_against_a_quiet_server() -> None:
    checks = examine(host_of(healthy()), tools=())
    assert [check for check in checks if check.verdict != "ok" or check.remedy] == []
    assert overall(checks) == "ok"
    assert len(checks) == len(CHECKS) + 1


@pytest.mark.parametrize(
    ("path", "text", "name", "verdict", "reason"),
    [
        ("/proc/812/comm", "tuned", "other-writers", "warn", "tuned (pid 812)"),
        ("/proc/813/comm", "iotrial", "other-writers", "bad", "iotrial (pid 813)"),
        (about.GOVERNOR, "powersave", "cpu-governor", "warn", "powersave"),
        (about.CLOCKSOURCE, "hpet", "clocksource", "warn", "hpet"),
        ("/proc/loadavg", "7.00 1 1 1/1 1", "load", "warn", "load 7.00 on 2 processors"),
        ("/proc/pressure/io", "some avg10=30.00 avg60=0", "load", "warn", "30% of the time"),
        ("/sys/block/md0/md/sync_action", "check", "md-resync", "bad", "md0: check"),
        ("/sys/class/dmi/id/product_name", "KVM", "virtual-machine", "warn", "KVM"),
        ("/proc/swaps", "Head\n/dev/sdb partition 9 8 -2", "swap", "warn", "8.00 KiB of swap"),
    ],
)
def test_one_thing_wrong_is_one_remark_with_a_remedy(
    path: str, text: str, name: str, verdict: str, reason: str
) -> None:
    host = healthy()
    host.add(path, text)
    remarks = [check for check in examine(host_of(host), tools=()) if check.verdict != "ok"]
    assert [(check.name, check.verdict) for check in remarks] == [(name, verdict)]
    assert reason in remarks[0].reason
    assert remarks[0].remedy


def test_a_container_is_told_by_its_read_only_sysfs() -> None:
    host = healthy()
    table = host.files["/proc/self/mountinfo"].decode()
    host.add("/proc/self/mountinfo", table.replace("/sys rw", "/sys ro"))
    assert verdicts(host)["sysfs"].verdict == "bad"
    assert "container" in verdicts(host)["sysfs"].reason


def test_an_ordinary_user_is_told_what_still_works() -> None:
    host = healthy()
    host.answers[("id", "-u")] = answer(("id", "-u"), "1000\n")
    check = verdicts(host)["root"]
    assert (check.verdict, "file targets" in check.remedy) == ("warn", True)


def test_debts_are_the_gravest() -> None:
    checks = verdicts(healthy(), ("sda: queue.scheduler = none",))
    assert checks["owed"].verdict == "bad"
    assert "sda: queue.scheduler = none" in checks["owed"].reason
    assert overall(tuple(checks.values())) == "bad"


def test_a_host_that_no_guard_would_restore_is_said() -> None:
    host = healthy()
    assert "guard" not in verdicts(host)
    host.unguarded = "it is in a container"
    check = verdicts(host)["guard"]
    assert (check.verdict, check.reason) == (
        "warn",
        "no guard would restore it: it is in a container",
    )


def test_no_room_no_loop_driver_and_one_scheduler_are_remarks() -> None:
    host = healthy()
    room = ("stat", "-f", "-c", "%a %S %T", "/")
    host.answers[room] = answer(room, "100 4096 ext2/ext3\n")
    del host.files["/dev/loop-control"]
    host.add("/sys/devices/virtual/block/sda/queue/scheduler", "[none]")
    remarks = {name for name, check in verdicts(host).items() if check.verdict == "warn"}
    assert remarks == {"room", "loop", "schedulers"}


def test_a_check_that_cannot_look_does_not_stop_the_others() -> None:
    host = healthy()
    host.answers[("id", "-u")] = answer(("id", "-u"), "", exit_=1)
    checks = verdicts(host)
    assert "could not be checked" in checks["room"].reason
    assert checks["clocksource"].verdict == "ok"


@dataclass(frozen=True)
class Needed:
    """A tool as the doctor sees it."""

    program: str
    name: str = "load"
    package: str = "load-package"

    def version_problem(self, version: str) -> str:
        return "" if version == "fio-3.33" else f"{version} is too old"


@pytest.mark.parametrize(
    ("said", "verdict", "reason"),
    [
        ("fio-3.33\n", "ok", "fio-3.33"),
        ("fio-2.1\n", "bad", "fio-2.1 is too old"),
        ("", "bad", "fio is not installed"),
    ],
)
def test_a_load_tool_is_there_and_new_enough(said: str, verdict: str, reason: str) -> None:
    host = healthy()
    command = ("fio", "--version")
    host.answers[command] = answer(command, said, exit_=0 if said else 127)
    check = examine(host_of(host), tools=(Needed("fio"),))[-1]  # type: ignore[arg-type]
    assert (check.name, check.verdict, check.reason) == ("tool-load", verdict, reason)
    assert ("load-package" in check.remedy) == (verdict == "bad")


def test_the_facts_of_a_machine() -> None:
    facts = gather(host_of(healthy()), [], ["fio", "bonnie++"])
    assert numbers(facts) == {"cpus": 2.0, "memory": 16384 * 1024.0, "io_uring": 0.0}
    assert facts["programs"] == {"fio": "fio-3.33", "bonnie++": ""}
    assert facts["distribution"] == "Debian GNU/Linux 12 (bookworm)"
    assert facts["schedulers"] == ["none", "mq-deadline", "bfq"]
    assert facts["virtualisation"] == ""


def test_no_password_of_the_boot_loader_reaches_the_facts() -> None:
    line = "root=/dev/sda1 mitigations=off rd.iscsi.password=hunter2 scsi_mod.use_blk_mq=1 quiet"
    assert kernel_parameters(line) == "mitigations=off scsi_mod.use_blk_mq=1"


@pytest.mark.parametrize(
    ("flags", "vendor", "product", "kind"),
    [
        ("fpu", "Dell Inc.", "PowerEdge R650", ""),
        ("fpu hypervisor", "QEMU", "Standard PC", "QEMU Standard PC"),
        ("fpu hypervisor", "", "", "a hypervisor"),
        ("fpu", "Amazon EC2", "m7g.large", "Amazon EC2"),
    ],
)
def test_a_virtual_machine_is_told(flags: str, vendor: str, product: str, kind: str) -> None:
    assert about.virtualisation(f"processor: 0\nflags\t\t: {flags}", vendor, product) == kind


def test_the_scheduler_in_brackets_is_a_choice_like_the_others() -> None:
    assert about.choices("none [mq-deadline] bfq\n") == ("none", "mq-deadline", "bfq")


# Loops and places: the pure parts.


@pytest.mark.parametrize(
    ("blocks", "number"),
    [
        ([], 0),
        (["loop0", "loop7", "sda"], 8),
        (["loop3"], 4),
        (["loop0", "loop99999"], 1),
        (["loop", "loop1p1"], 0),
    ],
)
def test_a_new_loop_device_has_a_number_that_no_other_has(blocks: list[str], number: int) -> None:
    assert free_number(blocks) == number


def test_a_plan_comes_back_from_the_journal_whole() -> None:
    plan = LoopPlan("disk", "/var/lib/iotrial/files/iotrial-1.img", GIB, 8)
    assert LoopPlan.from_dict(plan.as_dict()) == plan
    assert plan.node == "/dev/loop8"
    with pytest.raises(KeyError):
        LoopPlan.from_dict({"file": "/x"})


def test_files_are_laid_out_in_whole_mebibytes() -> None:
    assert [laid_size(size) for size in (0, 1, 2**20, 2**20 + 1)] == [0, 2**20, 2**20, 2**21]


def test_a_mount_that_fstab_promises_and_that_is_not_there_is_refused() -> None:
    host = healthy()
    host.add("/mnt/nas/keep", "")
    host.add("/etc/fstab", "srv:/x /mnt/nas nfs4 noauto 0 0\n/dev/sda1 /mnt/other xfs defaults 0 0")
    target = Target("nas", "directory", "/mnt/nas")
    with pytest.raises(TargetRefused, match="nothing is mounted on /mnt/nas") as caught:
        settle_folder(host_of(host), target, target.path)
    assert caught.value.evidence[0] == "/etc/fstab promises a mount on /mnt/nas"
    host.files["/proc/self/mountinfo"] += b"41 22 0:50 / /mnt/nas rw - nfs4 srv:/x rw\n"
    place = settle_folder(host_of(host), target, target.path)
    assert (place.mount.fstype, place.disk) == ("nfs4", None)
