"""Burst credits for real: a loop device that the kernel slows to a fifth after so many seconds.

The run, and so each load, is in a control group of the test's own, which limits nothing at first.
The test does to it what a cloud does to a volume: when the drain has gone on for :data:`CREDITS`
seconds, the device of the run is limited in that group.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_killed_at_any_moment import iotrial, kill_with_guard, loads_of, loops_of

import throttled
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
    pytest.mark.skipif(bool(throttled.why_not()), reason=throttled.why_not()),
]
CREDITS = 15.0
"""Seconds."""
FAST, LATER = 1000, 200
"""Reads a second; the first by fio itself, so that a busy machine makes no difference."""
STUDY = """
question = "Which read-ahead?"
[targets.disk]
loop = {{ size = "32MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", direct = 1, rate_iops = {fast}, runtime = "3s" }}
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 256]
[design]
blocks = 2
settle = "0s"
drain = "{drain}"
"""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A control group that what is started by :func:`started` is in."""
    folder = throttled.GROUP.parent / f"iotrial-{tmp_path.name}"
    folder.mkdir()
    yield folder
    for _ in range(100):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"{folder} is still in use: {(folder / 'cgroup.procs').read_text()}")


def started(group: Path, *words: str) -> subprocess.Popen[bytes]:
    enter = 'echo $$ > "$0" && exec "$@"'
    argv = ["sh", "-c", enter, str(group / "cgroup.procs"), *iotrial(*words)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def slow_down(group: Path, folder: Path, limit: int) -> None:
    """Limit the loop device of the run, 0: not at all."""
    (loop,) = loops_of(folder)
    number = Path("/sys/block", loop, "dev").read_text().strip()
    (group / throttled.LIMIT).write_text(f"{number} {limit}")


def wait_for_load(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 120
    while not loads_of(folder):
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def written(folder: Path, drain: str = "3m") -> Path:
    study = folder / "study.toml"
    study.write_text(STUDY.format(folder=folder, fast=FAST, drain=drain))
    return study


def ended(process: subprocess.Popen[bytes], folder: Path) -> tuple[TrialRecord, ...]:
    said = process.communicate(timeout=400)[0].decode()
    assert process.returncode == 0, said
    assert not loads_of(folder)
    assert not loops_of(folder)
    return open_results(folder / "results").records


def test_no_trial_measures_what_the_device_did_before_it_was_slowed(
    state: Path, tmp_path: Path, group: Path
) -> None:
    study = written(tmp_path)
    process = started(group, "run", str(study), "--out", str(tmp_path / "results"))
    wait_for_load(process, tmp_path)
    time.sleep(CREDITS)
    slow_down(group, tmp_path, LATER)
    records = ended(process, tmp_path)
    first = next(each for each in records if each.drained)
    found = first.drained
    assert found is not None
    assert found.state == "fell", found
    # A busy machine may read less than it is allowed to; nothing lets it read more.
    assert 0 < found.low[1] < 1.2 * LATER
    assert 2 * found.low[1] < found.high[1] < 1.3 * FAST
    assert CREDITS * found.low[1] * 4096 < found.moved < 1.5 * CREDITS * FAST * 4096
    assert sum(each.drained is not None for each in records) == 1
    rates = [each.value("read.iops") or 0.0 for each in records]
    assert len(rates) == 4
    assert max(rates) < 1.3 * LATER
    kept = json.loads((tmp_path / "results/trials" / first.trial.folder / "drain.json").read_text())
    assert kept["state"] == "fell"
    assert len(kept["curve"]["rows"]) > CREDITS


def test_killed_in_the_drain_everything_is_restored_and_the_study_resumes(
    state: Path, tmp_path: Path, group: Path
) -> None:
    study, out = written(tmp_path, "12s"), tmp_path / "results"
    process = started(group, "run", str(study), "--out", str(out))
    wait_for_load(process, tmp_path)
    assert list(out.glob("trials/*.partial/drain"))
    kill_with_guard(process, state)
    assert process.stdout
    process.stdout.close()
    done = subprocess.run(iotrial("restore"), capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not loads_of(tmp_path)
    assert not loops_of(tmp_path)
    assert not any((state / "journal.d").glob("*.journal"))
    records = ended(started(group, "run", str(study), "--out", str(out)), tmp_path)
    assert [each.drained.state for each in records if each.drained] == ["limit"]
    assert {each.state for each in records} == {"valid"}
