"""CPUs for real: what this kernel offers is held, read back and given back; the rest says why not.

A limit of /dev/cpu_dma_latency lives in a process of ours: it must be in force (the device file
reads the least that anybody asks for), be replaced, end, and end with the run that asked.
"""

from __future__ import annotations

import os
import random
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from iotrial.errors import FileRefused, SettingRefused
from iotrial.execute.load.load import TOKEN, end_loads
from iotrial.execute.settings.journal import SettingsUndo, open_journal
from iotrial.execute.settings.restore import boot_id, restore
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake.parts.kernel import CPU_ROOT, Cpus
from iotrial.hosts.local import LocalHost
from iotrial.hosts.places import journal_folder
from iotrial.model.step import Read
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.cpu import HOLDER, PIDFILE

pytestmark = [pytest.mark.root, pytest.mark.alone]

LATENCY = tunable("cpu.dma_latency")
DEVICE = Path("/dev/cpu_dma_latency")
IDLE = Path(CPU_ROOT, "cpu0/cpuidle/state1/disable")
RESUME = Path(CPU_ROOT, "cpu0/power/pm_qos_resume_latency_us")


def in_force() -> int:
    """Microseconds that the kernel allows now."""
    with DEVICE.open("rb") as file:
        return int(struct.unpack("i", file.read(4))[0])


def holders() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if HOLDER.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


@pytest.fixture
def host() -> Iterator[LocalHost]:
    """This machine; whatever a test leaves of ours is ended, and the test told of it."""
    local = LocalHost()
    assert holders() == []
    yield local
    left = holders()
    for act in LATENCY.acts("", "unset"):
        local.run(act.argv)
    assert left == []


@pytest.mark.skipif(not DEVICE.exists(), reason=f"this kernel has no {DEVICE}")
def test_a_latency_limit_is_in_force_is_replaced_and_ends(host: LocalHost) -> None:
    before = in_force()
    group = snapshot(host, [LATENCY.name], "")
    assert [owed.setting.value for owed in group.owed] == ["unset"]
    for value in ("0", "70", "1000", "65535"):  # "1000" and "ffff": never four characters
        apply(host, [Setting("", LATENCY.name, value)])
        assert observe(host, LATENCY, "") == value
        assert in_force() == min(int(value), before)
        assert len(holders()) == 1
        assert oct(Path(PIDFILE).parent.stat().st_mode)[-3:] == "700"
    assert put_back(host, group.owed) == ()
    assert in_force() == before
    assert not Path(PIDFILE).exists()
    assert list(Path(PIDFILE).parent.glob("cpu_dma_latency*")) == []


@pytest.mark.skipif(not DEVICE.exists(), reason=f"this kernel has no {DEVICE}")
def test_a_latency_limit_ends_with_the_load_of_its_run(host: LocalHost) -> None:
    """The holder carries the mark of the run, so that a restore that ends the load ends it too,
    even one that began so late that no pid file names it."""
    before = in_force()
    token = f"test-{os.getpid()}"
    host.mark({TOKEN: token})
    apply(host, [Setting("", LATENCY.name, "3")])
    host.mark({})
    (holder,) = holders()
    Path(PIDFILE).unlink()
    assert end_loads(host, token) == [f"ended process {holder} of the load"]
    deadline = time.monotonic() + 60
    while in_force() != before:  # the kernel lets go of it when the process has ended
        assert time.monotonic() < deadline, in_force()
        time.sleep(0.05)
    assert observe(host, LATENCY, "") == "unset"


@pytest.mark.skipif(not DEVICE.exists(), reason=f"this kernel has no {DEVICE}")
def test_a_latency_limit_is_given_back_from_the_journal_alone(host: LocalHost, state: Path) -> None:
    """The scripts have many lines, quotes and backslashes: the journal must keep them all."""
    before, folder = in_force(), journal_folder(host)
    assert str(state) in folder
    journal = open_journal(host, folder, {"boot_id": boot_id(host), "token": "no such token"})
    owed = snapshot(host, [LATENCY.name], "").owed
    journal.owe_settings(SettingsUndo("", None, owed))
    apply(host, [Setting("", LATENCY.name, "5")])
    assert in_force() == min(5, before)
    assert restore(host, folder).done == ["restored cpu.dma_latency=unset"]
    assert in_force() == before


@pytest.mark.skipif(not DEVICE.exists(), reason=f"this kernel has no {DEVICE}")
def test_a_holder_that_dies_is_seen_as_a_drift(host: LocalHost) -> None:
    apply(host, [Setting("", LATENCY.name, "3")])
    os.kill(holders()[0], 9)
    deadline = time.monotonic() + 200
    while holders() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert observe(host, LATENCY, "") == "unset"
    assert put_back(host, snapshot(host, [LATENCY.name], "").owed) == ()
    apply(host, [Setting("", LATENCY.name, "4")])  # a stale pid file is no obstacle
    assert observe(host, LATENCY, "") == "4"
    apply(host, [Setting("", LATENCY.name, "unset")])


@pytest.mark.skipif(not DEVICE.exists(), reason=f"this kernel has no {DEVICE}")
@pytest.mark.parametrize("value", ["-1", "x", "7 8", "99999999999"])
def test_a_latency_that_is_no_number_is_refused(value: str, host: LocalHost) -> None:
    with pytest.raises(SettingRefused):
        apply(host, [Setting("", LATENCY.name, value)])
    assert holders() == []


@pytest.mark.skipif(not IDLE.exists(), reason=f"this kernel has no {IDLE}")
def test_an_idle_state_is_left_out_and_taken_in_again(host: LocalHost) -> None:
    before = IDLE.read_text()
    name = "cpu.idle.state1.disable"
    group = snapshot(host, [name], "cpu0")
    other = "0" if before.strip() == "1" else "1"
    apply(host, [Setting("cpu0", name, other)])
    assert IDLE.read_text().strip() == other
    assert put_back(host, group.owed) == ()
    assert IDLE.read_text() == before


@pytest.mark.skipif(not RESUME.exists(), reason=f"this kernel has no {RESUME}")
@pytest.mark.parametrize("value", ["n/a", "1", "100000"])
def test_a_resume_latency_is_held_and_given_back(value: str, host: LocalHost) -> None:
    before = RESUME.read_text()
    group = snapshot(host, ["cpu.resume_latency"], "cpu0")
    apply(host, [Setting("cpu0", "cpu.resume_latency", value)])
    assert RESUME.read_text().strip() == value
    assert put_back(host, group.owed) == ()
    assert RESUME.read_text() == before


CPUFREQ = ("cpu.governor", "cpu.energy_preference", "cpu.min_freq", "cpu.max_freq")


@pytest.mark.parametrize("name", [*CPUFREQ, "cpu.boost", "cpu.no_turbo"])
def test_what_this_machine_lacks_is_not_here_and_says_what_is_missing(
    name: str, host: LocalHost
) -> None:
    if Path(CPU_ROOT, "cpu0/cpufreq").exists():
        pytest.skip("this machine has cpufreq: nothing is lacking")
    device = "cpu0" if tunable(name).scope == "cpu" else ""
    assert snapshot(host, [name], device).values == ()
    (answer,) = host.batch([Read(tunable(name).probe(device))])
    assert re.search(r"/sys/devices/system/cpu/.*: No such file or directory", answer.complaint)


def test_siblings_that_cannot_be_switched_offer_nothing_else(host: LocalHost) -> None:
    state = Path(CPU_ROOT, "smt/control").read_text()
    knob = tunable("cpu.smt")
    assert observe(host, knob, "") == state.strip()
    if state.strip() not in ("on", "off"):
        assert "is not one of" in knob.domain(state.encode()).refusal("off")
        with pytest.raises(SettingRefused):
            apply(host, [Setting("", "cpu.smt", "off")])


@pytest.mark.parametrize("seed", [1, 2])
def test_the_fake_answers_random_writes_as_the_kernel_does(seed: int, host: LocalHost) -> None:
    files = [path for path in (str(IDLE), str(RESUME)) if Path(path).exists()]
    if not files:
        pytest.skip("this kernel has neither idle states nor resume latencies")
    former = {path: host.read(path) for path in files}
    fake = Cpus()

    def fake_write(path: str, data: bytes) -> None:
        take = fake.controls()[path].take
        assert take is not None
        take(data.decode())

    for path in files:
        fake_write(path, former[path])
    chance = random.Random(seed)
    values = ["0", "1", "-1", "n/a", "x", "100", "0x10", "010", "+3", str(2**31 - 1), str(2**32)]
    try:
        for _ in range(60):
            path, value = chance.choice(files), chance.choice(values)
            answers = []
            for write in (host.write, fake_write):
                try:
                    write(path, value.encode())
                    answers.append(0)
                except (FileRefused, OSError) as error:
                    answers.append(error.errno or -1)
            assert answers[0] == answers[1], (path, value)
            for each in files:
                assert host.read(each).decode().strip() == fake.controls()[each].value, value
    finally:
        for path, text in former.items():
            host.write(path, text)
