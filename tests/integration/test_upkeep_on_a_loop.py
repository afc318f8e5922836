"""Caches that are really dropped, targets that are really trimmed, filled and written twice.

Everything is real: loop devices made for the test, mincore(2) and the kernel's own counters.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iotrial.execute.load.cache import drop, resident
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.model.target import PreparedTarget, Target
from lab import Lab
from stalls import stalled

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fincore"), reason="fincore (util-linux) is missing"),
]
DROPS = pytest.mark.alone
"""For what empties the cache of the whole kernel, or must find in it what it read before."""
MIB = 2**20
STUDY = """
question = "What is left of what was there before?"
{host}
[targets.disk]
loop = {{ size = "{size}", directory = "{place}" }}
{target}
[workloads.load]
tool = "{tool}"
options = {options}
{load}
[design]
blocks = {blocks}
settle = "0s"
[decide]
primary = "{primary}"
"""
READS = {"tool": "dd", "options": '{ rw = "read", bs = "64KiB" }', "primary": "read.bw"}
FIO = {
    "tool": "fio",
    "options": '{ rw = "read", bs = "64k", size = "16m", direct = 0, loops = 1 }',
    "primary": "read.bw",
}
EXT4 = 'filesystem = "ext4"'


def study(folder: Path, **said: object) -> Path:
    path = folder / "study.toml"
    defaults: dict[str, object] = {"size": "64MiB", "target": "", "blocks": 1, "host": ""}
    path.write_text(STUDY.format(**{"place": folder, "load": "", **defaults, **READS, **said}))
    return path


def iotrial(folder: Path, *words: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "iotrial.cli.main", *words]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=200, cwd=folder
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done


def run(folder: Path, ends: int = 0, **said: object) -> list[dict[str, Any]]:
    """The trials of a study, each with its folder as ``folder``; without those during which the
    machine stood still."""
    study(folder, **said)
    iotrial(folder, "run", "study.toml", "--out", "results", ends=ends)
    found = sorted((folder / "results" / "trials").glob("*/trial.json"))
    trials = [json.loads(path.read_text()) | {"folder": path.parent} for path in found]
    return [trial for trial in trials if not stalled(trial)]


def checks(trial: dict[str, Any]) -> list[str]:
    return [check for check, *_ in trial["doubts"]]


def in_memory(*paths: Path) -> int:
    return resident(LocalHost(), list(map(str, paths))).resident


def file_in(folder: Path, size: int = 8 * MIB, *, in_pieces_of: int = MIB) -> Path:
    """A file that is in the cache, and on the disk."""
    path = folder / "data"
    with path.open("wb", buffering=0) as file:
        for _ in range(size // in_pieces_of):
            file.write(os.urandom(in_pieces_of))
    os.sync()
    assert path.read_bytes()
    assert in_memory(path) == size
    return path


def aim_at(path: Path) -> PreparedTarget:
    return PreparedTarget(
        Target("data", "file", str(path), path.stat().st_size), str(path), "", None
    )


@contextmanager
def locked(path: Path, size: int) -> Iterator[None]:
    """The first ``size`` bytes cannot leave memory (mlock(2)) while this lasts."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as shared:
        held = ctypes.c_char.from_buffer(shared)
        address, length = ctypes.c_void_p(ctypes.addressof(held)), ctypes.c_size_t(size)
        assert libc.mlock(address, length) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            libc.munlock(address, length)
            del held


# The page cache.


@DROPS
def test_a_file_in_the_cache_is_not_there_after_a_drop(tmp_path: Path) -> None:
    path = file_in(tmp_path)
    assert drop(LocalHost(), aim_at(path)) == ()
    assert in_memory(path) == 0


@DROPS
def test_what_is_locked_in_memory_is_told_and_makes_the_trial_invalid(tmp_path: Path) -> None:
    path = file_in(tmp_path)
    with locked(path, 2 * MIB):
        (doubt,) = drop(LocalHost(), aim_at(path))
    assert (doubt.check, doubt.invalid) == ("cache-kept", True)
    assert "2.00 MiB of the 8.00 MiB" in doubt.what


@DROPS
def test_a_locked_page_among_many_is_a_doubt_alone(tmp_path: Path) -> None:
    path = file_in(tmp_path, in_pieces_of=mmap.PAGESIZE)  # a folio stays as a whole
    with locked(path, mmap.PAGESIZE):
        (doubt,) = drop(LocalHost(), aim_at(path))
    assert (doubt.check, doubt.invalid) == ("cache-kept", False)


@DROPS
def test_a_file_in_a_memory_file_system_stays() -> None:
    path = Path("/dev/shm") / f"iotrial-test-{os.getpid()}"
    path.write_bytes(bytes(MIB))
    try:
        (doubt,) = drop(LocalHost(), aim_at(path))
    finally:
        path.unlink()
    assert (doubt.check, doubt.invalid) == ("cache-kept", True)


@DROPS
def test_a_device_is_told_by_what_its_disk_has_to_read(loop_device: str) -> None:
    """fincore 2.38 says of any block device that nothing of it is cached."""
    node = f"/dev/{loop_device}"
    aim = PreparedTarget(
        Target("d", "device", node), node, loop_device, identify(LocalHost(), node)
    )
    with Path(node).open("rb") as held:  # the last close of a device empties its cache
        held.read(4 * MIB)
        assert drop(LocalHost(), aim) == ()
        with locked(Path(node), MIB):
            (doubt,) = drop(LocalHost(), aim)
        assert (doubt.check, doubt.invalid) == ("cache-kept", True)


@DROPS
def test_a_disk_that_counts_nothing_verifies_nothing(loop_device: str) -> None:
    node = f"/dev/{loop_device}"
    Path("/sys/block", loop_device, "queue", "iostats").write_text("0")
    aim = PreparedTarget(
        Target("d", "device", node), node, loop_device, identify(LocalHost(), node)
    )
    (doubt,) = drop(LocalHost(), aim)
    assert doubt.check == "cache-unverified"
    assert "iostats" in doubt.what


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize(
    "cache",
    [pytest.param("keep", marks=DROPS), pytest.param("drop", marks=DROPS), "remount"],
)
def test_buffered_reads_come_from_the_disk_where_the_cache_was_emptied(
    tmp_path: Path, cache: str
) -> None:
    """By the disk's own count; and the doubt that all may come from memory is there without."""
    # fio itself drops a file from the cache before it reads, unless it is told not to.
    options = FIO["options"].replace("loops = 1", "invalidate = 0")
    load = f'cache = "{cache}"\nprepare = ["lay out", {{ command = ["sync"] }}]'
    said = FIO | {"options": options, "load": load}
    trials = run(tmp_path, target=EXT4, size="128MiB", blocks=2, **said)
    assert [trial["state"] for trial in trials] == ["valid", "valid"]
    for trial in trials[1:]:
        lines = (trial["folder"] / "telemetry.jsonl").read_text().splitlines()
        first, last = json.loads(lines[0]), json.loads(lines[-1])
        read = (last["disk"]["sectors_read"] - first["disk"]["sectors_read"]) * 512
        if cache == "keep":
            assert read < MIB
            assert "cached" in checks(trial)
        else:
            assert read >= 16 * MIB
            assert not [check for check in checks(trial) if check.startswith("cache")]


# Chores.


def blocks_of(path: Path) -> int:
    """Bytes that a file really has on its disk."""
    return path.stat().st_blocks * 512


def test_trim_gives_the_backing_file_its_holes(tmp_path: Path) -> None:
    """Seen from inside the run: the evidence is taken before the loop device is removed."""
    evidence = ["sh", "-c", f"stat -c '%b %B' {tmp_path}/iotrial-*.img"]
    load = f'prepare = ["trim"]\nevidence = [{json.dumps(evidence)}]'
    (trial,) = run(tmp_path, load=load)
    blocks, size = map(int, (trial["folder"] / "evidence-1.txt").read_text().split())
    assert blocks * size < MIB
    assert (trial["folder"] / "prepare-1" / "exitcode").read_text() == "0\n"


def written(name: str) -> str:
    """A command that prints the sectors a loop device over a file in ``name`` has written."""
    script = (
        'for f in /sys/block/loop*/loop/backing_file; do case "$(cat "$f")" in '
        f'{name}/*) cat "${{f%/loop/backing_file}}/stat";; esac; done'
    )
    return json.dumps(["sh", "-c", script])


@pytest.mark.parametrize(
    ("chore", "least"),
    [('{ precondition = "2x" }', 128), ('{ fill = "50%" }', 32), ('"lay out"', 64)],
)
def test_the_kernel_counts_what_a_chore_says_it_writes(
    tmp_path: Path, chore: str, least: int
) -> None:
    load = f"prepare = [{chore}]\nevidence = [{written(str(tmp_path))}]"
    trials = run(tmp_path, load=load, blocks=2)
    for trial in trials:  # once a study: the second block writes nothing more
        sectors = int((trial["folder"] / "evidence-1.txt").read_text().split()[6])
        assert sectors * 512 == least * MIB
    assert (trials[0]["folder"] / "prepare-1").exists()
    assert not (trials[1]["folder"] / "prepare-1").exists()
    assert trials[0]["prepared"] > 0
    plan = json.loads(iotrial(tmp_path, "plan", "study.toml", "--json").stdout)
    assert [each["bytes_written"] for each in plan["chores"]] == [least * MIB]
    assert plan["bytes_written"] == (64 + least) * MIB


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
def test_a_file_system_is_filled_to_its_share_and_emptied_at_the_end(tmp_path: Path) -> None:
    load = """
prepare = [{ fill = "60%", each = "trial" }]
evidence = [["df", "--output=pcent,target"]]
"""
    (trial,) = run(tmp_path, target=EXT4, size="128MiB", load=load, **FIO)
    assert trial["state"] == "valid", trial
    rows = (trial["folder"] / "evidence-1.txt").read_text().splitlines()
    (row,) = [line for line in rows if f"{tmp_path}/" in line]
    assert 60 <= int(row.split("%")[0]) <= 80  # with fio's own file, of one eighth


def test_a_failed_chore_fails_the_trial_and_its_cleanup_is_done(tmp_path: Path) -> None:
    load = f"""
prepare = [{{ command = ["touch", "{tmp_path}/there"] }}, {{ command = ["ls", "{tmp_path}/no"] }}]
cleanup = [{{ command = ["rm", "{tmp_path}/there"] }}]
"""
    (trial,) = run(tmp_path, ends=5, load=load)
    assert trial["state"] == "failed"
    assert trial["error"].startswith(f"prepare-2 (command `ls {tmp_path}/no`): ls: cannot access")
    assert not (trial["folder"] / "telemetry.jsonl").exists()
    assert not (tmp_path / "there").exists()


def test_after_a_failed_load_the_cleanup_is_done_and_evidence_is_kept(tmp_path: Path) -> None:
    load = f"""
prepare = [{{ command = ["touch", "{tmp_path}/there"] }}]
cleanup = [{{ command = ["rm", "{tmp_path}/there"] }}]
evidence = [["ls", "{tmp_path}/there"], ["false"], ["sh", "-c", "yes; true"]]
"""
    options = '{ rw = "write", bs = "64KiB", size = "96MiB" }'  # the device has 64
    (trial,) = run(tmp_path, ends=5, load=load, options=options, primary="write.bw")
    assert trial["state"] == "failed"
    assert "No space left" in trial["error"]
    assert not (tmp_path / "there").exists()
    assert (trial["folder"] / "evidence-1.txt").read_text() == f"{tmp_path}/there\n"
    assert (trial["folder"] / "evidence-3.txt").stat().st_size == 4 * MIB
    told = [what for check, what, *_ in trial["doubts"] if check == "evidence"]
    assert [what.split("`")[1] for what in told] == ["false", "sh -c yes; true"]


def test_a_cleanup_that_fails_stays_owed(tmp_path: Path) -> None:
    load = f'cleanup = [{{ command = ["rmdir", "{tmp_path}/folder"] }}]'
    (trial,) = run(tmp_path, ends=4, load=load)
    assert "rmdir" in trial["error"]
    (tmp_path / "folder").mkdir()
    iotrial(tmp_path, "restore")
    assert not (tmp_path / "folder").exists()


def children_named(word: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in words and b"iotrial.cli" not in words:
            found.append(int(process.name))
    return found


def await_(what: Sequence[object] | object, seconds: float = 200) -> None:
    until = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.05)


def test_killed_in_the_middle_of_a_chore_nothing_goes_on_and_the_cleanup_is_owed(
    tmp_path: Path,
) -> None:
    """kill -9 while a device is being written: the writer is ended, the clean-up is done."""
    load = f"""
prepare = [{{ command = ["touch", "{tmp_path}/there"] }}, {{ precondition = 100, each = "trial" }}]
cleanup = [{{ command = ["rm", "-f", "{tmp_path}/there"] }}]
"""
    study(tmp_path, load=load)
    process = subprocess.Popen(
        [sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "results"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    await_(lambda: list((tmp_path / "results").glob("trials/*/prepare-2/stdout")))
    await_(lambda: children_named("of=/dev/loop"))
    assert (tmp_path / "there").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    iotrial(tmp_path, "restore")
    assert not (tmp_path / "there").exists()
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in loops
    assert not list(tmp_path.glob("iotrial-*"))


def test_an_interrupted_run_is_cleaned_up_too(tmp_path: Path) -> None:
    load = f"""
prepare = [{{ command = ["touch", "{tmp_path}/there"] }}, {{ command = ["sleep", "1000"] }}]
cleanup = [{{ command = ["rm", "{tmp_path}/there"] }}]
"""
    study(tmp_path, load=load)
    process = subprocess.Popen(
        [sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "results"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    await_(lambda: list((tmp_path / "results").glob("trials/*/prepare-2/stdout")))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=200) == 130
    assert not (tmp_path / "there").exists()


def test_a_device_that_is_not_armed_is_not_trimmed(loop_device: str, tmp_path: Path) -> None:
    path = study(tmp_path, load='prepare = ["trim"]')
    text = path.read_text().splitlines()
    path.write_text("\n".join(
        f'device = "/dev/{loop_device}"' if line.startswith("loop") else line for line in text
    ))  # fmt: skip
    for verb in ("plan", "run"):
        done = iotrial(tmp_path, verb, "study.toml", ends=3)
        assert "the study does not permit it" in done.stderr


@DROPS
def test_all_of_it_over_ssh(lab: Lab, tmp_path: Path) -> None:
    box = lab.box(into=((tmp_path, "/var/tmp"),))
    load = """
cache = "drop"
prepare = ["trim", { precondition = "1x" }, { command = ["touch", "/run/there"] }]
cleanup = [{ command = ["rm", "/run/there"] }]
evidence = [["ls", "/run/there"]]
"""
    host = f'[hosts.box]\nssh = "{box.where}"'
    (trial,) = run(tmp_path, load=load, host=host, place="/var/tmp")
    assert trial["state"] == "valid", trial
    assert (trial["folder"] / "evidence-1.txt").read_text() == "/run/there\n"
    said = (trial["folder"] / "prepare-2" / "stderr").read_text()
    assert "67108864 bytes" in said
    assert not [check for check in checks(trial) if check.startswith("cache-")]
    assert box.run("ls", "/run").split().count("there") == 0


def writing(value: int, place: Path) -> str:
    """A chore that sets the read-ahead of every loop device over a file in ``place``."""
    own = f"grep -qs {place} $d/loop/backing_file"
    script = f"for d in /sys/block/loop*; do {own} && echo {value} >$d/queue/read_ahead_kb; done"
    return f'{{ command = ["sh", "-c", "{script}; true"] }}'


def test_a_prepare_that_changes_what_the_treatment_set_fails_the_trial_by_name(
    tmp_path: Path,
) -> None:
    """A trial under a label that is not true would be worse than none."""
    load = f"""
prepare = [{{ command = ["true"] }}, {writing(512, tmp_path)}]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [128, 512]
"""
    trials = run(tmp_path, 5, load=load)
    by_level = {trial["trial"]["treatment"]["ahead"]: trial for trial in trials}
    assert by_level["512"]["state"] == "valid", "it asks for what the chore sets"
    failed = by_level["128"]
    assert failed["state"] == "failed"
    assert failed["error"].startswith("prepare-2 (command `sh -c")
    assert "queue.read_ahead_kb" in failed["error"]
    assert "went from 128 to 512" in failed["error"]
    assert not (failed["folder"] / "stdout").exists(), "no load was begun"


def test_a_chore_of_the_study_may_set_what_it_likes_for_the_treatment_comes_after_it(
    tmp_path: Path,
) -> None:
    chore = writing(512, tmp_path).replace(" }", ', each = "study" }')
    load = f"""
prepare = [{chore}]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [128, 256]
"""
    for trial in run(tmp_path, load=load):
        assert trial["state"] == "valid"
        level = trial["trial"]["treatment"]["ahead"]
        before = (trial["folder"] / "before.json").read_text()
        assert f'"{level}"' in before
        assert "512" not in before
