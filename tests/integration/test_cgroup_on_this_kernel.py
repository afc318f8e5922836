"""Limits of a control group for real: fio on a loop device is as slow as it was told to be."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.errors import FileRefused, RefusedError
from iotrial.execute.load.load import TOKEN
from iotrial.execute.settings import tuning
from iotrial.execute.settings.journal import Journal, open_journal
from iotrial.execute.settings.restore import restore
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake.parts.kernel import V1 as ROOT
from iotrial.hosts.fake.parts.kernel import ControlGroup, ControlGroups
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.cgroup import V1, aside

LIMITS = ("read_bps", "write_bps", "read_iops", "write_iops")
NAMES = [f"cgroup.v1.{what}" for what in LIMITS]
HERE = Path(ROOT, "blkio.throttle.read_iops_device").exists()

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.skipif(not HERE, reason=f"no blkio controller of cgroup v1 at {ROOT}"),
]


def number(device: str) -> str:
    return Path(f"/sys/block/{device}/dev").read_text().strip()


@pytest.fixture
def books(state: Path) -> Iterator[Journal]:
    """A journal of the test's own; what it owes at the end is paid, and must be payable."""
    host = LocalHost()
    boot = host.read("/proc/sys/kernel/random/boot_id").decode().strip()
    folder = journal_folder(host)
    assert str(state) in folder
    journal = open_journal(host, folder, {"boot_id": boot, "token": f"test-{os.getpid()}"})
    try:
        yield journal
    finally:
        restore(host, folder)
        assert not Path(V1).exists()
        assert not Path(aside(V1)).exists()


@pytest.fixture
def in_memory(loop_device: str) -> Iterator[str]:
    """That device, its file in memory, so that no other work on a disk keeps it from its rate."""
    node = f"/dev/{loop_device}"
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(64 * 2**20)
        subprocess.run(["losetup", "--detach", node], check=True, timeout=200)
        subprocess.run(["losetup", node, file.name], check=True, timeout=200)
        yield loop_device
        subprocess.run(["losetup", "--detach", node], check=True, timeout=200)


def fio(device: str, folder: str, rw: str, seconds: int = 3) -> subprocess.Popen[str]:
    """A load that begins now, in the group if one is named."""
    job = ["fio", "--name=x", f"--filename=/dev/{device}", f"--rw={rw}", "--bs=4k", "--direct=1"]
    job += ["--iodepth=4", "--ioengine=libaio", f"--runtime={seconds}", "--time_based"]
    argv = tuning.join([*job, "--output-format=json"], folder)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def rate(load: subprocess.Popen[str], seen: str) -> float:
    """What it got done a second, when it has ended: of ``iops`` or ``bw_bytes``."""
    said, _ = load.communicate(timeout=200)
    assert load.returncode == 0, said
    job = json.loads(said)["jobs"][0]
    return float(max(job[side][seen] for side in ("read", "write")))


@pytest.mark.parametrize(
    ("what", "limit", "rw", "seen"),
    [
        ("read_iops", 200, "randread", "iops"),
        ("write_bps", 1_000_000, "randwrite", "bw_bytes"),
    ],
)
def test_a_load_in_the_group_is_as_slow_as_it_was_told_to_be(
    what: str, limit: int, rw: str, seen: str, in_memory: str, books: Journal
) -> None:
    """Beside one that nobody limits: what keeps the machine busy keeps it from both."""
    host, name, device = LocalHost(), f"cgroup.v1.{what}", number(in_memory)
    folder = tuning.own(host, books, [name])
    group = snapshot(host, [name], device)
    assert rate(fio(in_memory, folder, rw, 1), seen) > 3 * limit, "the group itself limits nothing"
    apply(host, [Setting(device, name, str(limit))])
    assert observe(host, tunable(name), device) == str(limit)
    for _ in range(3):  # other programs may keep it from what it is allowed
        loads = fio(in_memory, folder, rw), fio(in_memory, "", rw)
        limited, free = (rate(load, seen) for load in loads)
        if limited > 0.9 * limit:
            break
    assert limited == pytest.approx(limit, rel=0.10)
    assert free > 3 * limit, "others are not limited"
    assert put_back(host, group.owed) == ()
    assert Path(V1, f"blkio.throttle.{what}_device").read_text() == ""


def test_all_limits_are_held_and_given_back(loop_device: str, books: Journal) -> None:
    host, device = LocalHost(), number(loop_device)
    tuning.own(host, books, NAMES)
    group = snapshot(host, NAMES, device)
    assert {each.value for each in group.values} == {"unset"}
    asked = [Setting(device, name, str(1000 + at)) for at, name in enumerate(NAMES)]
    apply(host, asked)
    assert [observe(host, tunable(s.tunable), device) for s in asked] == [s.value for s in asked]
    assert put_back(host, group.owed) == ()
    assert {observe(host, tunable(name), device) for name in NAMES} == {"unset"}


def test_a_killed_run_leaves_no_group_behind(loop_device: str, books: Journal) -> None:
    """The load is still at work in the group when the restore begins."""
    host = LocalHost()
    folder = tuning.own(host, books, NAMES)
    apply(host, [Setting(number(loop_device), "cgroup.v1.read_iops", "50")])
    argv = tuning.join(
        (
            *("fio", "--name=x", f"--filename=/dev/{loop_device}", "--rw=randread", "--direct=1"),
            *("--numjobs=3", "--runtime=600", "--time_based", "--bs=4k"),
        ),
        folder,
    )
    load = subprocess.Popen(
        argv,
        env={**os.environ, TOKEN: books.token},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 200
        while len(Path(V1, "cgroup.procs").read_text().split()) < 4:
            assert time.monotonic() < deadline, "fio does not appear in the group"
            time.sleep(0.05)
        payment = restore(host, journal_folder(host))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(load.pid, signal.SIGKILL)
        load.wait()
    assert [line for line in payment.done if "of the load" in line]
    assert not Path(V1).exists()


def test_limits_of_the_version_that_is_not_here_are_refused(books: Journal) -> None:
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    if controllers.exists() and "io" in controllers.read_text().split():
        pytest.skip("this kernel has the io controller of cgroup v2")
    with pytest.raises(RefusedError, match="no io controller of cgroup v2") as caught:
        tuning.own(LocalHost(), books, ["cgroup.v2.read_bps"])
    assert "cgroup.v1.…" in caught.value.advice


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fake_answers_random_writes_as_the_kernel_does(
    seed: int, loop_device: str, books: Journal
) -> None:
    """Never a multiple of 2³² for iops: the kernel would divide by it."""
    host, fake, device = LocalHost(), ControlGroups(), number(loop_device)
    tuning.own(host, books, NAMES)
    fake.made[V1] = ControlGroup()

    def fake_write(path: str, data: bytes) -> None:
        take = fake.controls()[path].take
        assert take is not None
        take(data.decode())

    chance = random.Random(seed)
    values = ["0", "1", "200", "4294967295", "5000000000", "18446744073709551615", "x", "max", "-1"]
    for _ in range(60):
        path = f"{V1}/blkio.throttle.{chance.choice(LIMITS)}_device"
        line = f"{device} {chance.choice(values)}"
        answers = []
        for write in (host.write, fake_write):
            try:
                write(path, line.encode())
                answers.append(0)
            except (FileRefused, OSError) as error:
                answers.append(error.errno or -1)
        assert answers[0] == answers[1], (path, line)
        assert host.read(path).decode().strip() == fake.controls()[path].value, line


def test_of_two_loads_the_one_with_the_larger_weight_gets_more(
    in_memory: str, books: Journal
) -> None:
    """bfq, in whose hands the device is.  The shares follow weights of 10 to 1 only roughly."""
    host, device = LocalHost(), number(in_memory)
    names = ["cgroup.v1.bfq_weight", "cgroup.v1.beside.bfq_weight"]
    mine = tuning.own(host, books, names, neighbour=True)
    scheduler = snapshot(host, ["queue.scheduler"], in_memory)
    group = snapshot(host, names, device)
    assert {each.value for each in group.values} == {"100"}
    apply(host, [Setting(in_memory, "queue.scheduler", "bfq")])
    # Otherwise each new queue has thirty times its weight for seconds, whosever it is.
    Path(f"/sys/block/{in_memory}/queue/iosched/low_latency").write_text("0")
    shares = []
    try:
        for own, others in (("1000", "100"), ("100", "1000")):
            apply(host, [Setting(device, names[0], own), Setting(device, names[1], others)])
            assert [observe(host, tunable(name), device) for name in names] == [own, others]
            loads = [fio(in_memory, folder, "randread") for folder in (mine, aside(mine))]
            first, second = (rate(load, "iops") for load in loads)
            shares.append(first / (first + second))
    finally:
        assert put_back(host, group.owed) == ()
        assert put_back(host, scheduler.owed) == ()
    more, less = shares
    assert more > less + 0.2, shares  # 0.5 and more where nothing else runs
