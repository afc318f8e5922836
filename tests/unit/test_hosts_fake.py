"""The fake host's own powers: crash, refuse, lose power, pretend a load."""

from __future__ import annotations

import errno
import json
import math
import statistics
import time
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.errors import FileRefused
from iotrial.execute.load.barrier import together
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.hosts.fake.disk import DISKS, FakeDisk, index
from iotrial.hosts.fake.fio import bin_of
from iotrial.hosts.fake.machine import StaticFiles
from iotrial.hosts.steps import look
from iotrial.model.step import Probe, Read

QUEUE = "/sys/block/fake0/queue"
FIO = ("fio", "--output-format=json+", "--output=fio.json", "--name=one", "--filename=/dev/fake0")
FIO += ("--ioengine=io_uring", "--direct=1", "--time_based")


def text(host: FakeHost, path: str) -> str:
    return host.read(path).decode().strip()


def load(host: FakeHost, folder: Path, *options: str) -> dict[str, object]:
    """Run a pretended fio to its end and give back the entry of its first job."""
    process = host.start([*FIO, *options], folder=folder, environment={})
    assert process.wait(3600) == 0
    jobs: list[dict[str, object]] = json.loads((folder / "fio.json").read_text())["jobs"]
    return jobs[0]


# -- couplings, as seen on a real kernel --------------------------------------------------------


def test_writing_the_scheduler_resets_nr_requests_even_to_itself() -> None:
    host = FakeHost()
    host.write(f"{QUEUE}/nr_requests", b"64")
    host.write(f"{QUEUE}/scheduler", b"none")
    assert text(host, f"{QUEUE}/nr_requests") == "128"
    host.write(f"{QUEUE}/scheduler", b"kyber")
    assert text(host, f"{QUEUE}/nr_requests") == "256"
    assert host.list(f"{QUEUE}/iosched") == ["read_lat_nsec", "write_lat_nsec"]


def test_deadline_turns_into_mq_deadline_and_noop_is_refused() -> None:
    host = FakeHost()
    host.write(f"{QUEUE}/scheduler", b"deadline")
    assert "[mq-deadline]" in text(host, f"{QUEUE}/scheduler")
    with pytest.raises(FileRefused) as caught:
        host.write(f"{QUEUE}/scheduler", b"noop")
    assert caught.value.errno == errno.EINVAL


def test_bfq_turns_throttling_off_unless_a_hand_set_it() -> None:
    host = FakeHost()
    host.write(f"{QUEUE}/scheduler", b"bfq")
    assert text(host, f"{QUEUE}/wbt_lat_usec") == "0"
    host.write(f"{QUEUE}/wbt_lat_usec", b"2000")
    assert text(host, f"{QUEUE}/wbt_lat_usec") == "0", "the hidden default: taken as no change"
    host.write(f"{QUEUE}/scheduler", b"none")
    assert text(host, f"{QUEUE}/wbt_lat_usec") == "2000"
    host.write(f"{QUEUE}/wbt_lat_usec", b"500")
    host.write(f"{QUEUE}/scheduler", b"bfq")
    assert text(host, f"{QUEUE}/wbt_lat_usec") == "500"


def test_committing_limits_raises_read_ahead_and_never_lowers_it() -> None:
    host = FakeHost()
    for before, after in (("4", "128"), ("4096", "4096")):
        host.write(f"{QUEUE}/read_ahead_kb", before.encode())
        host.write(f"{QUEUE}/iostats", b"1")
        assert text(host, f"{QUEUE}/read_ahead_kb") == after


# -- crashes ------------------------------------------------------------------------------------


def four_operations(host: FakeHost) -> None:
    host.save("/var/lib/iotrial/a", b"saved\n")
    host.append("/var/lib/iotrial/b", b"first\n")
    host.write(f"{QUEUE}/nomerges", b"2")
    host.run(["mkdir", "/mnt/new"])


def crashed(at: int, how: CrashHow) -> FakeHost:
    host = FakeHost(crash_after=at, crash_how=how)
    with pytest.raises(HostCrashed):
        four_operations(host)
    host.reconnect()
    return host


def seen(host: FakeHost) -> tuple[list[str], str, bool]:
    names = host.list("/var/lib/iotrial") if host.machine.kind("/var/lib/iotrial") else []
    made = host.run(["stat", "-c", "%F", "/mnt/new"]).exit == 0
    return names, text(host, f"{QUEUE}/nomerges"), made


def test_operations_are_what_changes_the_machine() -> None:
    host = FakeHost()
    host.read("/proc/stat")
    host.list("/proc")
    host.run(["id", "-u"])
    host.run(["perl", "-e", "sysopen(F,$ARGV[0],128) or exit($!+0)", "/dev/fake0"])
    host.sleep(1)
    assert host.operations == 0
    four_operations(host)
    assert host.operations == len(host.log) == 4
    assert host.log[2] == f"write {QUEUE}/nomerges"


@pytest.mark.parametrize(
    ("at", "how", "after"),
    [
        (1, "before", ([], "0", False)),
        (1, "torn", ([".a.new"], "0", False)),
        (1, "after", (["a"], "0", False)),
        (2, "before", (["a"], "0", False)),
        (2, "torn", (["a", "b"], "0", False)),
        (3, "before", (["a", "b"], "0", False)),
        (3, "torn", (["a", "b"], "0", False)),
        (3, "after", (["a", "b"], "2", False)),
        (4, "after", (["a", "b"], "2", True)),
    ],
)
def test_a_crash_happens_at_its_operation(
    at: int, how: CrashHow, after: tuple[list[str], str, bool]
) -> None:
    assert seen(crashed(at, how)) == after


def test_a_torn_append_leaves_half_a_line() -> None:
    assert crashed(2, "torn").read("/var/lib/iotrial/b") == b"fir"


def test_a_torn_save_leaves_the_former_file_whole() -> None:
    host = FakeHost()
    host.save("/var/lib/iotrial/a", b"former")
    host.crash_after, host.crash_how = 2, "torn"
    with pytest.raises(HostCrashed):
        host.save("/var/lib/iotrial/a", b"later")
    host.reconnect()
    assert host.read("/var/lib/iotrial/a") == b"former"
    host.save("/var/lib/iotrial/a", b"later")
    assert host.list("/var/lib/iotrial") == ["a"]


def test_a_dead_controller_does_nothing_more() -> None:
    """Not even in a finally block, and no handler for Exception stops it dying."""
    host = FakeHost(crash_after=1)

    def careful() -> None:
        try:
            host.write(f"{QUEUE}/nomerges", b"1")
        finally:
            host.write(f"{QUEUE}/rq_affinity", b"2")

    with pytest.raises(HostCrashed):
        careful()
    with pytest.raises(HostCrashed):
        host.read("/proc/stat")
    host.reconnect()
    assert host.operations == 1
    assert text(host, f"{QUEUE}/rq_affinity") == "1"
    assert not issubclass(HostCrashed, Exception)


def test_a_crash_frees_the_lock_and_leaves_the_load_running(tmp_path: Path) -> None:
    host = FakeHost(crash_after=2)

    def locked_work() -> None:
        with host.lock("/run/iotrial/lock"):
            host.start(["sleep", "60"], folder=tmp_path, environment={"TOKEN": "t"})
            host.write(f"{QUEUE}/nomerges", b"1")

    with pytest.raises(HostCrashed):
        locked_work()
    host.reconnect()
    with host.lock("/run/iotrial/lock"):
        pids = [name for name in host.list("/proc") if name.isdigit() and name != "100"]
        assert len(pids) == 2, "the leader and its child"
        assert all(b"TOKEN=t" in host.read(f"/proc/{pid}/environ") for pid in pids)
        assert host.run(["kill", "-KILL", pids[0]]).exit == 0
        assert pids[1] in host.list("/proc"), "ending the leader alone leaves its child"


# -- refusals, reboots, meddling ------------------------------------------------------------------


def test_a_container_refuses_to_write_below_sys() -> None:
    host = FakeHost(refuse={"/sys/*": errno.EROFS, "read /proc/swaps": errno.EACCES})
    with pytest.raises(FileRefused) as caught:
        host.write(f"{QUEUE}/nomerges", b"1")
    assert caught.value.errno == errno.EROFS
    assert text(host, f"{QUEUE}/nomerges") == "0"
    with pytest.raises(FileRefused, match="swaps"):
        host.read("/proc/swaps")
    assert host.operations == 0


def test_a_reboot_forgets_settings_and_keeps_files() -> None:
    host = FakeHost()
    boot = host.read("/proc/sys/kernel/random/boot_id")
    host.write(f"{QUEUE}/scheduler", b"bfq")
    host.save("/run/iotrial/x", b"1")
    host.save("/var/lib/iotrial/x", b"1")
    host.run(["dd", "if=/dev/urandom", "of=/var/tmp/x", "bs=1M", "count=8"])
    host.run(["losetup", "/dev/loop9", "/var/tmp/x"])
    assert "loop9" in host.list("/sys/block")
    host.reboot()
    assert host.read("/proc/sys/kernel/random/boot_id") != boot
    assert text(host, f"{QUEUE}/scheduler").startswith("[none]")
    assert host.list("/run") == []
    assert host.list("/var/lib/iotrial") == ["x"]
    assert host.list("/var/tmp") == ["x"]
    assert "loop9" not in host.list("/sys/block")


def test_a_power_cut_loses_what_was_not_synced() -> None:
    host = FakeHost()
    host.append("/var/lib/iotrial/journal", b"line\n")
    for name, more in (("lost", ()), ("kept", ("conv=fsync",))):
        host.run(["dd", "if=/dev/urandom", f"of=/var/tmp/{name}", "bs=1M", "count=1", *more])
    host.power_cut()
    assert host.list("/var/tmp") == ["kept"]
    assert host.read("/var/lib/iotrial/journal") == b"line\n"


def test_a_name_can_become_another_disk() -> None:
    host = FakeHost()
    host.replace_disk("fake0", FakeDisk("fake0", (240, 0), serial="OTHER"))
    assert text(host, "/sys/block/fake0/serial") == "OTHER"


def test_another_program_may_meddle() -> None:
    host = FakeHost()
    before = host.settings()
    host.meddle(f"{QUEUE}/nomerges", b"2")
    changed = {path for path, value in host.settings().items() if before[path] != value}
    assert changed == {f"{QUEUE}/nomerges"}
    assert host.operations == 0


# -- disks, loop devices, room --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disk", "busy", "found"),
    [
        ("fake0", 0, ""),
        ("fakesys1", 16, "TYPE=ext4"),
        ("fakesys", 16, "PTTYPE=gpt"),
        ("fakeswap", 16, "TYPE=swap"),
        ("fakefs", 0, "TYPE=xfs"),
        ("fakeleg", 16, ""),
    ],
)
def test_disks_show_who_uses_them(disk: str, busy: int, found: str) -> None:
    host = FakeHost()
    alone = ["perl", "-e", "sysopen(F,$ARGV[0],128) or exit($!+0)", f"/dev/{disk}"]
    assert host.run(alone).exit == busy
    probed = host.run(["blkid", "-p", "-o", "export", f"/dev/{disk}"])
    assert (probed.exit, found in probed.text) == (0 if found else 2, True)


def test_tables_name_the_system_disk_and_the_swap() -> None:
    host = FakeHost()
    assert "/ / rw,relatime - ext4 /dev/fakesys1 rw" in text(host, "/proc/self/mountinfo")
    assert text(host, "/proc/swaps").splitlines()[1].startswith("/dev/fakeswap")
    assert host.list("/sys/block/fakeleg/holders") == ["dm-0"]
    assert host.list("/sys/block/dm-0/slaves") == ["fakeleg"]
    assert text(host, "/sys/block/fakesys/fakesys1/partition") == "1"


def test_a_loop_device_comes_and_goes() -> None:
    host = FakeHost()
    remove = ["perl", "-e", 'open(F,"+<","/dev/loop-control"); ioctl(F,0x4C81,$ARGV[0]+0)', "7"]
    host.run(["dd", "if=/dev/urandom", "of=/var/tmp/b", "bs=1M", "count=4"])
    assert host.run(["losetup", "--direct-io=on", "/dev/loop7", "/var/tmp/b"]).exit == 0
    assert text(host, "/sys/block/loop7/loop/backing_file") == "/var/tmp/b"
    assert text(host, "/sys/block/loop7/size") == str(4 * 2**20 // 512)
    assert host.run(remove).exit == errno.EBUSY
    assert host.run(["losetup", "-d", "/dev/loop7"]).exit == 0
    assert host.run(["losetup", "-d", "/dev/loop7"]).exit == 1
    assert host.run(remove).exit == 0
    assert host.run(remove).exit == errno.ENODEV
    assert "loop7" not in host.list("/sys/block")


def test_attaching_a_missing_file_leaves_the_empty_device_as_the_kernel_does() -> None:
    host = FakeHost()
    assert host.run(["losetup", "/dev/loop7", "/var/tmp/none"]).exit == 1
    assert text(host, "/sys/block/loop7/size") == "0"


def test_there_is_only_so_much_room() -> None:
    host = FakeHost()
    done = host.run(["dd", "if=/dev/urandom", "of=/var/tmp/b", "bs=1M", "count=60000"])
    assert done.exit == 1
    assert "No space left" in done.complaint


# -- pretended loads ------------------------------------------------------------------------------


def test_a_load_takes_its_time_on_the_hosts_clock(tmp_path: Path) -> None:
    host = FakeHost()
    began = host.clock()
    job = load(host, tmp_path, "--rw=randread", "--runtime=10s", "--ramp_time=2s", "--iodepth=8")
    assert host.clock() - began == pytest.approx(12)
    assert job["job_runtime"] == 10_000
    assert int(text(host, "/sys/block/fake0/stat").split()[0]) > 10_000


def test_a_job_file_counts_as_options_do(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(
        "[global]\nfilename=/dev/fake0\nruntime=2\ntime_based\n; note\n\n"
        "[reads]\nrw=randread\n[writes]\nrw=write\nbs=64k\n"
    )
    host = FakeHost()
    argv = ["fio", "--output-format=json+", "--output=out.json", "job.fio"]
    assert host.start(argv, folder=tmp_path, environment={}).wait(99) == 0
    document = json.loads((tmp_path / "out.json").read_text())
    assert [job["jobname"] for job in document["jobs"]] == ["reads", "writes"]
    assert document["jobs"][0]["read"]["total_ios"] > 0 == document["jobs"][0]["write"]["total_ios"]
    assert document["global options"]["filename"] == "/dev/fake0"


def test_a_result_agrees_with_itself(tmp_path: Path) -> None:
    job = load(FakeHost(), tmp_path, "--rw=randrw", "--rwmixread=70", "--runtime=2", "--iodepth=4")
    for direction in ("read", "write"):
        told = job[direction]
        assert isinstance(told, dict)
        assert sum(told["clat_ns"]["bins"].values()) == told["total_ios"] == told["clat_ns"]["N"]
        assert told["iops"] == pytest.approx(told["total_ios"] / 2)
        assert all(int(value) == bin_of(int(value)) for value in told["clat_ns"]["bins"])


def test_the_truth_to_be_found_is_the_schedulers_effect(tmp_path: Path) -> None:
    host = FakeHost()
    rates: dict[str, list[float]] = {"none": [], "bfq": []}
    for _ in range(30):
        for scheduler, found in rates.items():
            host.write(f"{QUEUE}/scheduler", scheduler.encode())
            job = load(host, tmp_path, "--rw=randread", "--runtime=1", "--iodepth=8")
            told = job["read"]
            assert isinstance(told, dict)
            found.append(math.log(told["iops"]))
    effect = statistics.mean(rates["bfq"]) - statistics.mean(rates["none"])
    assert math.exp(effect) == pytest.approx(0.82, abs=0.03)
    assert 0.015 < statistics.stdev(rates["none"]) < 0.05


def test_the_same_seed_is_the_same_luck(tmp_path: Path) -> None:
    options = ("--rw=randread", "--runtime=1", "--iodepth=8")
    first, again, other = (load(FakeHost(seed=s), tmp_path, *options)["read"] for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["fio", "missing.fio"], "unable to open 'missing.fio'"),
        (["fio", "--output=x"], "No job(s) defined"),
        (["fio", "--name=a", "--filename=/dev/nvme9n9", "--runtime=1"], "/dev/nvme9n9"),
    ],
)
def test_a_load_that_cannot_start_says_so(tmp_path: Path, argv: list[str], words: str) -> None:
    process = FakeHost().start(argv, folder=tmp_path, environment={})
    assert process.wait(1) == 1
    assert words in (tmp_path / "stderr").read_text()


def test_a_killed_load_leaves_no_result(tmp_path: Path) -> None:
    host = FakeHost()
    process = host.start([*FIO, "--runtime=10"], folder=tmp_path, environment={})
    assert process.wait(3) is None
    process.kill(gently=True)
    assert process.wait(3) == -15
    assert not (tmp_path / "fio.json").exists()


def test_every_disk_has_a_number_of_its_own() -> None:
    numbers = [disk.devno for disk in DISKS] + [disk.content_devno for disk in DISKS]
    assert len(set(numbers)) == len(DISKS) + 1


def test_a_load_that_waits_for_a_moment_moves_nothing_before_it(tmp_path: Path) -> None:
    host = FakeHost()
    (tmp_path / "disk").mkdir()
    argv = together({"disk": [*FIO, "--runtime=10"]}, time.time() + 1000)
    began, former = host.clock(), text(host, "/sys/block/fake0/stat")
    process = host.start(argv, folder=tmp_path, environment={})
    assert process.wait(500) is None
    assert text(host, "/sys/block/fake0/stat") == former
    assert process.wait(600) == 0
    assert host.clock() - began > 900
    job = json.loads((tmp_path / "disk" / "fio.json").read_text())["jobs"][0]
    assert int(text(host, "/sys/block/fake0/stat").split()[0]) == pytest.approx(
        job["read"]["total_ios"], rel=0.01
    )


def test_every_part_has_its_files_in_the_folders_that_it_names() -> None:
    machine = FakeHost().machine
    for part in machine.parts.values():
        assert all(
            path.startswith(tuple(f"{at}/" for at in part.below)) for path in part.controls()
        )
        assert {machine.kind(folder) for folder in part.below} <= {"directory"}


def test_control_files_whose_names_last_have_the_same_names_after_each_write() -> None:
    machine = FakeHost().machine
    for part in machine.parts.values():
        before = part.controls()
        if not isinstance(before, StaticFiles):
            continue
        known = before.folders
        for path, control in list(before.items()):
            for text in ("0", "1", "5", "off", "none"):
                if control.take is not None:
                    with suppress(OSError):
                        machine.write(path, text.encode())
        assert part.controls() is before
        assert known == index(tuple(before))


def test_a_batch_answers_as_single_reads_do() -> None:
    host = FakeHost()
    paths = [f"{QUEUE}/{name}" for name in ("scheduler", "nr_requests", "none_such", "iosched")]
    paths += ["/sys/block/fake0/device/timeout", "/sys/block/fake0/device", "/proc/stat", "/etc"]
    answers = host.batch([Read(Probe(path)) for path in paths])
    assert answers == tuple(look(host, Probe(path)) for path in paths)
    assert {answer.errno for answer in answers} == {0, errno.ENOENT, errno.EISDIR}


def test_a_loop_device_shows_its_new_backing_file_and_none_when_it_is_detached() -> None:
    host = FakeHost()
    host.save("/root/one", b"x" * 4096)
    host.save("/root/two", b"x" * 8192)
    host.run(["losetup", "/dev/loop7", "/root/one"])
    assert text(host, "/sys/block/loop7/loop/backing_file") == "/root/one"
    assert text(host, "/sys/block/loop7/size") == "8"
    host.run(["losetup", "-d", "/dev/loop7"])
    host.run(["losetup", "/dev/loop7", "/root/two"])
    assert text(host, "/sys/block/loop7/loop/backing_file") == "/root/two"
    assert text(host, "/sys/block/loop7/size") == "16"


def test_machines_that_are_alike_share_their_tree_and_not_their_state() -> None:
    one, other = FakeHost(), FakeHost(seed=2)
    assert one.machine.tree is other.machine.tree
    one.write(f"{QUEUE}/scheduler", b"bfq")
    assert "[none]" in text(other, f"{QUEUE}/scheduler")
    one.run(["losetup", "/dev/loop7", "/etc/fstab"])
    assert one.machine.kind("/sys/block/loop7") == "directory"
    assert not other.machine.kind("/sys/block/loop7")


def test_what_is_known_of_a_disk_is_of_that_disk_and_its_scheduler() -> None:
    host, other = FakeHost(), FakeHost()

    def said(of: FakeHost, path: str) -> bytes:
        return of.batch([Read(Probe(path))])[0].raw

    knob = "/sys/block/fake0/queue/iosched/read_expire"
    host.write("/sys/block/fake0/queue/scheduler", b"mq-deadline")
    assert said(host, knob)
    host.write("/sys/block/fake0/queue/scheduler", b"none")
    assert not said(host, knob)
    for path in ("/sys/block/fake0/serial", "/sys/block/fake0/wwid", "/sys/block/fake0/none"):
        assert said(host, path) == said(other, path)
    other.replace_disk("fake0", FakeDisk("fake0", (240, 0), serial="ANOTHER"))
    assert said(other, "/sys/block/fake0/serial") == b"ANOTHER\n"
    assert not said(other, "/sys/block/fake0/wwid")
    assert said(host, "/sys/block/fake0/serial") == b"FAKE0000\n"
