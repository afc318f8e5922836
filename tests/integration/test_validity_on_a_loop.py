"""What spoils a measurement is provoked on this machine, and the trial says so.

Everything is real: loop devices made for the test, and loads and disturbers that it starts and
ends itself, by their numbers.  Heat, steal and a resync cannot be made here: those are tested on
snapshots (tests/unit/test_validity.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from iotrial.tools import tool
from iotrial.trial_files import read_trial
from iotrial.validity import judged, written
from stalls import stalled

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
]
STUDY = """
question = "What spoilt it?"
[targets.disk]
{target}
[workloads.load]
tool = "fio"
{load}
[design]
blocks = {blocks}
settle = "0s"
"""
OWN_LOOP = 'loop = {{ size = "64MiB", directory = "{folder}" }}'
RANDREAD = 'rw = "randread", bs = "4k", iodepth = 16, ramp_time = "200ms", runtime = "1s"'
OF_THE_MACHINE = {"other-cpu", "pressure", "steal", "generator-bound", "swap", "standstill"}
"""What other people on this machine may rightly bring upon a trial that we do not disturb."""


def run(
    folder: Path,
    options: str = RANDREAD,
    *,
    target: str = "",
    jobfile: str = "",
    blocks: int = 1,
    before: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The trials of a study, each with its folder as ``folder``.  ``jobfile`` stands in for
    ``options``; ``before`` are words before the command."""
    study, own = folder / "study.toml", OWN_LOOP.format(folder=folder)
    said = f"options = {{ {options} }}"
    if jobfile:
        (folder / "own.fio").write_text(jobfile)
        said = 'jobfile = "own.fio"'
    study.write_text(STUDY.format(target=target or own, load=said, blocks=blocks))
    words = ("run", str(study), "--out", str(folder / "results"))
    argv = [*before, sys.executable, "-m", "iotrial.cli.main", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=250)
    found = sorted((folder / "results" / "trials").glob("*/trial.json"))
    assert found, done.stdout + done.stderr
    return [json.loads(path.read_text()) | {"folder": path.parent} for path in found]


def calm(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those during which the machine did not stand still."""
    return [trial for trial in trials if not stalled(trial)]


def doubts(trial: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """By check: what it says, all of it, and whether any of it is INVALID."""
    found: dict[str, tuple[str, bool]] = {}
    for check, what, _, invalid in trial["doubts"]:
        former, worse = found.get(check, ("", False))
        found[check] = (f"{former}; {what}" if former else what, worse or invalid)
    return found


@contextmanager
def beside(folder: Path, *commands: Sequence[str]) -> Iterator[list[int]]:
    """Commands that run meanwhile; ended by their numbers."""
    started = [
        subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for argv in commands
    ]
    try:
        yield [each.pid for each in started]
    finally:
        for each in started:
            with suppress(ProcessLookupError):
                each.terminate()
        for each in started:
            each.wait(200)


def fio_on(node: str, rw: str) -> list[str]:
    """A stranger's load, from when the first trial goes on: a disk that somebody writes to
    beforehand is refused."""
    options = [f"--rw={rw}", "--bs=64k", "--direct=1", "--ioengine=libaio", "--iodepth=8"]
    load = ["--name=foreign", f"--filename={node}", *options, "--time_based", "--runtime=999"]
    goes_on = 'until set -- results/trials/*.partial/telemetry.jsonl && test -e "$1"'
    wait = f'(set --; {goes_on}; do sleep 0.02; done); exec "$@"'
    return ["sh", "-c", wait, "-", "fio", *load]


@pytest.mark.alone
def test_undisturbed_trials_are_valid_and_without_doubt_ten_times(tmp_path: Path) -> None:
    trials = calm(run(tmp_path, blocks=10))
    assert [trial["state"] for trial in trials] == ["valid"] * 10
    assert {check for trial in trials for check in doubts(trial)} <= OF_THE_MACHINE


@pytest.mark.parametrize("rw", ["randwrite", "randrw"])
def test_undisturbed_writes_are_valid_and_without_doubt(tmp_path: Path, rw: str) -> None:
    options = f'rw = "{rw}", bs = "16k", iodepth = 8, ramp_time = "200ms", runtime = "1s"'
    for attempt in range(3):  # other programs may keep the load from its CPU each time
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        trials = calm(run(folder, options, blocks=3))
        found = {check for trial in trials for check in doubts(trial)}
        if found <= OF_THE_MACHINE and len(trials) == 3:
            break
    assert [trial["state"] for trial in trials] == ["valid"] * 3
    assert found <= OF_THE_MACHINE


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_undisturbed_files_on_a_file_system_are_valid_and_without_doubt(
    tmp_path: Path, rw: str
) -> None:
    """fio lays its files out in the load: what that writes is not foreign."""
    target = OWN_LOOP.format(folder=tmp_path) + '\nfilesystem = "ext4"'
    options = f'rw = "{rw}", bs = "16k", size = "16m", iodepth = 8, runtime = "3s"'
    trials = calm(run(tmp_path, options, target=target, blocks=3))
    assert [trial["state"] for trial in trials] == ["valid"] * 3
    assert {check for trial in trials for check in doubts(trial)} <= OF_THE_MACHINE


def test_an_error_in_the_kernels_log_makes_the_trial_invalid(
    tmp_path: Path, loop_device: str
) -> None:
    """The load reads the first half; the second is cut off the file, and somebody reads there."""
    node = f"/dev/{loop_device}"
    file = Path(f"/sys/block/{loop_device}/loop/backing_file").read_text().strip()
    size = Path(file).stat().st_size
    cut = (
        f'truncate --size={size // 2} "$1"; exec dd if="$2" of=/dev/null bs=4k count=1 iflag=direct'
    )
    last = f"{cut} skip={size // 4096 - 1}"
    goes_on = "until ls results/trials/*.partial/telemetry.jsonl; do sleep 0.02; done 2>/dev/null"
    options = RANDREAD.replace('"1s"', '"3s"') + f', size = "{size // 2}"'
    with beside(tmp_path, ["sh", "-c", f"{goes_on}; {last}", "-", file, node]):
        trial = run(tmp_path, options, target=f'device = "{node}"')[0]
    assert trial["state"] == "invalid"
    what, invalid = doubts(trial)["kernel-errors"]
    assert invalid
    assert f"I/O error, dev {loop_device}, sector {size // 512 - 8} " in what


@pytest.mark.parametrize("rw", ["randwrite", "randread"])
def test_a_second_fio_on_the_device_makes_the_trial_invalid(
    tmp_path: Path, loop_device: str, rw: str
) -> None:
    node = f"/dev/{loop_device}"
    longer = RANDREAD.replace('"1s"', '"4s"')  # a busy machine starts the second one late
    with beside(tmp_path, fio_on(node, rw)):
        trial = run(tmp_path, longer, target=f'device = "{node}"')[0]
    what, invalid = doubts(trial)["foreign-io"]
    assert trial["state"] == "invalid"
    assert invalid
    assert f"{loop_device} {'wrote' if rw == 'randwrite' else 'read'}" in what


def test_a_foreign_reader_is_seen_in_a_longer_load_that_writes(
    tmp_path: Path, loop_device: str
) -> None:
    node = f"/dev/{loop_device}"
    backing = Path("/sys/block", loop_device, "loop", "backing_file").read_text().strip()
    options = 'rw = "randwrite", bs = "16k", iodepth = 8, runtime = "6s"'
    with beside(tmp_path, fio_on(node, "randread")):
        trial = run(tmp_path, options, target=f'device = "{node}"\ndestroy = "{backing}"')[0]
    assert doubts(trial)["foreign-io"][1]


@pytest.mark.alone
def test_burners_on_all_cpus_are_named(tmp_path: Path) -> None:
    burner = ["nice", "-n", "0", "sh", "-c", "while :; do :; done"]
    with beside(tmp_path, *[burner] * 2 * (os.cpu_count() or 1)) as pids:
        trial = run(tmp_path)[0]
    assert trial["state"] == "valid"
    found = doubts(trial)
    assert any(f"sh (pid {pid})" in found["other-cpu"][0] for pid in pids)
    assert "stalled for CPU" in found["pressure"][0]


def test_a_small_working_set_read_through_the_cache_is_seen(tmp_path: Path) -> None:
    options = 'rw = "randread", bs = "4k", direct = 0, ioengine = "psync", size = "4m"'
    trial = run(tmp_path, f'{options}, runtime = "2s"')[0]
    what, invalid = doubts(trial)["cached"]
    assert "served from the page cache" in what
    assert not invalid


@pytest.mark.alone
def test_a_second_working_set_shows_the_cache_that_answers_the_small_one(tmp_path: Path) -> None:
    """The small one is in the page cache after 16 reads; of the large one the load reads a
    small part within its time, each block for the first time."""
    load = 'rw = "randread", bs = "4k", direct = 0, ioengine = "psync", runtime = "1s"'
    study, own = tmp_path / "study.toml", tmp_path / "results"
    text = STUDY.format(
        target=f'loop = {{ size = "1GiB", directory = "{tmp_path}" }}',
        load=f'options = {{ {load}, size = "64k" }}',
        blocks=2,
    )
    text += f'[workloads.large]\ntool = "fio"\noptions = {{ {load}, size = "1g" }}\n'
    study.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", study, "--out", own, "--json"],
        check=False, timeout=300, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [d["what"] for d in json.loads(done.stdout)["doubts"] if d["check"] == "working-set"]
    assert len(found) == 1
    assert found[0].startswith("load moves ")
    assert "times as much over 64.0 KiB as large, the same load, over 1.00 GiB" in found[0]


@pytest.fixture
def mounted(tmp_path: Path, loop_device: str) -> Iterator[Path]:
    """An empty ext4 on a loop device of the test's own."""
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", f"/dev/{loop_device}"], check=True, timeout=200)
    subprocess.run(["mount", f"/dev/{loop_device}", place], check=True, timeout=200)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True, timeout=200)


def test_reads_of_blocks_that_were_never_written_are_seen(tmp_path: Path, mounted: Path) -> None:
    """A sparse file that was there before: direct I/O on it reads no disk."""
    hole = mounted / "hole"
    hole.touch()
    os.truncate(hole, 32 * 2**20)
    trial = run(tmp_path, target=f'file = "{hole}"\nsize = "32MiB"')[0]
    assert "unwritten" in doubts(trial)["cached"][0]


def test_a_synchronous_engine_does_not_fill_the_queue_it_was_asked_for(tmp_path: Path) -> None:
    """A study's own options are refused for it beforehand; a report of fio can still say it."""
    options = ["--rw=randread", "--bs=4k", "--ioengine=psync", "--iodepth=16", "--size=1m"]
    output = ["--output-format=json+", "--output=fio.json"]
    subprocess.run(["fio", "--name=x", *options, *output], cwd=tmp_path, check=True, timeout=200)
    found = {doubt.check: doubt.what for doubt in tool("fio").parse(tmp_path).doubts}
    assert "psync" in found["queue-not-filled"]


@pytest.mark.alone
def test_one_job_that_reads_memory_is_bound_by_its_core(tmp_path: Path) -> None:
    """Before every other program by its scheduling class, on a loaded machine too; the kernel
    gives starved programs 5 % of a CPU now and then, hence one of five trials is enough.
    Without ``invalidate = 0`` fio would read its file from the disk again in each round."""
    options = 'rw = "read", bs = "4k", direct = 0, ioengine = "psync", size = "4m", invalidate = 0'
    first = ("chrt", "--fifo", "10")
    trials = run(tmp_path, f'{options}, runtime = "1s"', blocks=5, before=first)
    assert any("generator-bound" in doubts(trial) for trial in trials)


@pytest.mark.alone
def test_a_rate_that_doubles_in_the_middle_is_no_steady_state(tmp_path: Path) -> None:
    head = "[global]\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\nrate_iops=100\ntime_based=1\n"
    jobs = "[whole]\nruntime=18\n[later]\nruntime=9\nstartdelay=9\n"
    trial = run(tmp_path, jobfile=head + jobs)[0]
    assert "not in a steady state" in doubts(trial)["steady-state"][0]


@pytest.mark.alone
def test_a_rate_that_stays_is_a_steady_state(tmp_path: Path) -> None:
    options = 'rw = "randread", bs = "4k", iodepth = 2, rate_iops = 100, runtime = "13s"'
    assert set(doubts(run(tmp_path, options)[0])) <= OF_THE_MACHINE


@contextmanager
def little_memory(limit: int) -> Iterator[str]:
    """A control group in which a process has no more than ``limit`` bytes; gives back what a
    shell has to say to be in it."""
    root = Path("/sys/fs/cgroup/memory")
    if not (root / "memory.limit_in_bytes").exists():
        pytest.skip("needs the memory controller of cgroup v1: a limit for one process")
    group = root / f"iotrial-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield f"echo $$ >{group}/cgroup.procs"
    finally:
        for _ in range(100):
            with suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(0.1)


@pytest.mark.alone
def test_memory_that_lacks_is_pressure(tmp_path: Path) -> None:
    """What processes map is four times their limit: it reads again what was just taken from it."""
    if not Path("/proc/pressure/memory").exists():
        pytest.skip("this kernel has no /proc/pressure")
    large = tmp_path / "large"
    large.write_bytes(os.urandom(96 * 2**20))
    with large.open("rb") as file:  # else its pages are in our account, and not in the group's
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    touch = (
        "import mmap, random, sys\n"
        "file = open(sys.argv[1], 'rb')\n"
        "pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "while True: pages[random.randrange(len(pages))]\n"
    )
    with little_memory(24 * 2**20) as inside:
        words = ["sh", "-c", f'{inside}; exec "$@"', "-", sys.executable, "-c", touch, str(large)]
        with beside(tmp_path, *[words] * 4):
            trial = run(tmp_path, RANDREAD.replace('"1s"', '"3s"'))[0]
    assert "stalled for memory" in doubts(trial)["pressure"][0]


@contextmanager
def some_swap(loop: str) -> Iterator[None]:
    """Swap on a loop device of the test's own, used before any other: that may be too small."""
    node = f"/dev/{loop}"
    if not Path("/proc/swaps").exists() or not shutil.which("mkswap"):
        pytest.skip("needs a kernel with swap, and mkswap")
    subprocess.run(["mkswap", node], check=True, capture_output=True, timeout=200)
    subprocess.run(["swapon", "-p", "32767", node], check=True, capture_output=True, timeout=200)
    try:
        yield
    finally:
        subprocess.run(["swapoff", node], check=True, capture_output=True, timeout=200)


@pytest.mark.alone
def test_swapping_is_seen(tmp_path: Path, loop_device: str) -> None:
    hog = "x = bytearray(64 << 20)\nwhile True:\n for i in range(0, len(x), 4096): x[i] = 1"
    with some_swap(loop_device), little_memory(24 * 2**20) as inside:
        words = ["sh", "-c", f'{inside}; exec "$@"', "-", sys.executable, "-c", hog]
        with beside(tmp_path, words):
            trial = run(tmp_path, RANDREAD.replace('"1s"', '"3s"'))[0]
    assert "swapped" in doubts(trial)["swap"][0]


def test_the_decision_can_be_made_again_from_disk(tmp_path: Path, loop_device: str) -> None:
    node = f"/dev/{loop_device}"
    with beside(tmp_path, fio_on(node, "randwrite")):
        trials = run(tmp_path, target=f'device = "{node}"')
    for trial in trials:
        folder = trial["folder"]
        record = read_trial(folder)
        parsed = tool(record.tool).parse(folder)
        again = judged(written.case(folder, parsed.measurements), {d.check for d in parsed.doubts})
        assert again
        assert [(d.check, d.what, d.invalid) for d in again] == [
            (d.check, d.what, d.invalid)
            for d in record.doubts
            if d.check in {d.check for d in again}
        ]


_WAIT = """
import os, signal, sys, time
from pathlib import Path
here = Path(sys.argv[1])
while not list(here.glob("results/trials/*.partial/telemetry.jsonl")):
    time.sleep(0.05)
time.sleep(float(sys.argv[2]))
"""
"""Wait for a load to begin, and so many seconds more."""
_KEEP_ALL_CPUS = (
    _WAIT
    + """
begin = time.monotonic() + 0.3
for cpu in os.sched_getaffinity(0):
    if not os.fork():
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
        time.sleep(max(0.0, begin - time.monotonic()))
        while time.monotonic() < begin + 0.6:
            pass
        os._exit(0)
for _ in os.sched_getaffinity(0):
    os.wait()
"""
)
_STOP_FIO = (
    _WAIT
    + """
def loads():
    for each in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (each / "cwd").readlink()
        except OSError:
            continue
        if cwd.is_relative_to(here / "results") and (each / "comm").read_text() == "fio\\n":
            yield int(each.name)
pids = list(loads())
for pid in pids:
    os.kill(pid, signal.SIGSTOP)
time.sleep(2.5)
for pid in pids:
    os.kill(pid, signal.SIGCONT)
"""
)


@pytest.mark.alone
def test_a_machine_that_stood_still_makes_the_trial_invalid(tmp_path: Path) -> None:
    """For 0.6 s all CPUs are kept by programs that no ordinary one can push aside."""
    words = (sys.executable, "-c", _KEEP_ALL_CPUS, str(tmp_path), "2")
    with beside(tmp_path, words):
        options = 'rw = "randread", bs = "4k", iodepth = 16, runtime = "4s"'
        trial = run(tmp_path, options)[0]
    what, invalid = doubts(trial)["standstill"]
    assert "this host stalled for" in what
    assert invalid
    assert trial["state"] == "invalid"


@pytest.mark.alone
def test_a_load_that_stood_still_while_the_machine_went_on_is_a_doubt(tmp_path: Path) -> None:
    """As under a device that hangs: whole seconds without an I/O."""
    with beside(tmp_path, (sys.executable, "-c", _STOP_FIO, str(tmp_path), "6")):
        options = 'rw = "randread", bs = "4k", iodepth = 16, runtime = "16s"'
        trial = run(tmp_path, options)[0]
    what, invalid = doubts(trial)["standstill"]
    assert "completed no I/O for" in what
    assert not invalid
