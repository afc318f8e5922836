"""PostgreSQL as a load, for real: a cluster on a loop device, made, started with the settings of
the treatment, and gone whatever ends the run; and its own I/O, recorded, ranks settings as it
does."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

import throttled
from iotrial.model.trial import TrialRecord
from iotrial.store import open_results

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.skipif(not shutil.which("pgbench"), reason="pgbench is not installed"),
    pytest.mark.skipif(
        not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        reason="no server of PostgreSQL is installed",
    ),
]

IOTRIAL = [sys.executable, "-m", "iotrial.cli.main"]
STUDY = """\
[targets.db]
loop = {{ size = "256MiB", directory = "{folder}" }}
filesystem = "ext4"
[workloads.bank]
tool = "pgbench"
options = {{ scale = 1, clients = 2, {options} }}
prepare = ["lay out"]
{more}
[design]
kind = "full"
blocks = 1
settle = "0s"
"""
LIMITS = (15, 30, 60, 2000)
"""Writes a second of the load's control group; the load asks for some 80."""
ASKED = 'time = "6s", rate = 40, script = "simple-update"'


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("IOTRIAL_STATE", str(tmp_path / "state"))
    yield tmp_path / "state"
    assert not list((tmp_path / "state").rglob("*.journal"))
    assert not servers()


def servers() -> list[str]:
    """Servers of PostgreSQL that a load of iotrial's started."""
    done = subprocess.run(
        ["pgrep", "-fa", "unix_socket_directories=@iotrial"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def iotrial(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [*IOTRIAL, *words], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def study(folder: Path, options: str, more: str = "") -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(folder=folder, options=options, more=more))
    return path


def ran(folder: Path, options: str, more: str = "") -> tuple[TrialRecord, ...]:
    iotrial("run", str(study(folder, options, more)), "--out", str(folder / "results"))
    return tuple(open_results(folder / "results").valid)


def value(trial: TrialRecord, metric: str) -> float:
    return next(e.value for e in trial.measurements if e.metric == metric and e.job == "all")


def test_a_study_of_a_setting_of_the_server(tmp_path: Path) -> None:
    more = '[factors.commit]\noption = "pg.synchronous_commit"\nlevels = ["on", "off"]'
    trials = {
        dict(each.trial.treatment)["commit"]: each for each in ran(tmp_path, 'time = "4s"', more)
    }
    assert value(trials["off"], "transaction.rate") > 1.2 * value(trials["on"], "transaction.rate")
    for each in trials.values():
        folder = tmp_path / "results/trials" / each.trial.folder
        said = (folder / "stdout").read_text()
        assert f"tps = {value(each, 'transaction.rate'):.6f} " in said
        rows = [
            line.split()
            for log in folder.glob("transactions.*")
            for line in log.read_text().splitlines()
        ]
        took = [int(row[2]) for row in rows]
        assert value(each, "transaction.lat.mean") == pytest.approx(sum(took) / len(took) / 1e6)
        found = re.search(r"latency average = ([0-9.]+) ms", said)
        assert found
        mean = value(each, "transaction.lat.mean")
        # pgbench's own is the time of the run by transactions: what clients waited for a CPU
        # between two of them is in it.
        assert mean * 1e3 == pytest.approx(float(found[1]), rel=0.1)


def test_nobody_else_may_connect_to_its_server(tmp_path: Path) -> None:
    """A server of user postgres would execute programs for them."""
    run = subprocess.Popen(
        [*IOTRIAL, "run", str(study(tmp_path, 'time = "8s"')), "--out", str(tmp_path / "results")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    asked: dict[str, tuple[bool, str]] = {}
    # The server may come up between two questions: each user is asked until it has answered.
    while len(asked) < 3 and time.monotonic() < until:
        sockets = re.findall(r"@(iotrial-pgbench-\d+)/", Path("/proc/net/unix").read_text())
        for user in {"root", "nobody", "postgres"} - set(asked):
            for socket in dict.fromkeys(sockets):
                ask = ["psql", "-h", f"@{socket}", "-U", "postgres", "-tAc", "select 1", "postgres"]
                done = subprocess.run(
                    ["setpriv", f"--reuid={user}", "--clear-groups", *ask], check=False,
                    capture_output=True, text=True, cwd="/",
                )  # fmt: skip
                if done.returncode == 0 or "authentication failed" in done.stderr:
                    asked[user] = (done.returncode == 0, done.stderr)
    assert run.wait(120) == 0
    assert {user: let for user, (let, _) in asked.items()} == {
        "root": True, "nobody": False, "postgres": False,
    }, asked  # fmt: skip


def test_scripts_beside_each_other_are_sections(tmp_path: Path) -> None:
    (trial,) = ran(tmp_path, 'time = "3s", script = "select-only@8,simple-update@2"')
    reads, writes = (
        value(trial, f"transaction.rate[{name}]") for name in ("select-only", "simple-update")
    )
    assert reads + writes == pytest.approx(value(trial, "transaction.rate"))
    assert reads == pytest.approx(4 * writes, rel=0.3)


@pytest.mark.parametrize(("size", "when"), [("48MiB", "initdb"), ("80MiB", "pgbench -i")])
def test_a_target_without_room_is_named_with_what_to_do(
    tmp_path: Path, size: str, when: str
) -> None:
    path = study(tmp_path, ASKED)
    path.write_text(path.read_text().replace("256MiB", size).replace("scale = 1", "scale = 9"))
    iotrial("run", str(path), "--out", str(tmp_path / "results"), code=5)
    (failed,) = open_results(tmp_path / "results").records
    assert re.search(f"{when}: .*No space left on device, below {tmp_path}/", failed.error)
    assert "make the target larger, or scale smaller" in failed.error


def test_a_setting_that_the_server_refuses_fails_the_trial_with_its_words(tmp_path: Path) -> None:
    text = study(tmp_path, 'time = "2s", "pg.shared_buffers" = "no size"')
    said = iotrial("run", str(text), "--out", str(tmp_path / "results"), "--json", code=5)
    assert "shared_buffers" in said
    assert json.loads(said)


def test_whenever_the_controller_is_killed_no_server_is_left(
    tmp_path: Path, times: Callable[[int], int]
) -> None:
    moments = random.Random(26)
    for number in range(times(10)):
        out = tmp_path / f"results-{number}"
        run = subprocess.Popen(
            [*IOTRIAL, "run", str(study(tmp_path, 'time = "20s"')), "--out", str(out)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        time.sleep(moments.uniform(1.0, 9.0))
        assert run.poll() is None
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        until = time.monotonic() + 60
        while time.monotonic() < until and (
            servers() or list((tmp_path / "state").rglob("*.journal"))
        ):
            time.sleep(0.2)
        assert not servers()
        assert str(tmp_path) not in Path("/proc/mounts").read_text()


@contextmanager
def mounted(device: str, folder: Path) -> Iterator[Path]:
    folder.mkdir()
    os.truncate(folder.parent / "loop.img", 256 << 20)
    subprocess.run(["losetup", "--set-capacity", device], check=True)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    subprocess.run(["mount", device, str(folder)], check=True)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        subprocess.run(["wipefs", "--quiet", "--all", device], check=True)  # else it is refused


@pytest.mark.skipif(bool(throttled.why_not()), reason=throttled.why_not())
def test_its_own_ios_recorded_and_replayed_rank_settings_as_it_does(
    tmp_path: Path, loop_device: str
) -> None:
    device, more = f"/dev/{loop_device}", (
        f'[factors.limit]\ntunable = "cgroup.v1.write_iops"\nlevels = {list(LIMITS)}\n'
    )  # fmt: skip
    own = {
        dict(each.trial.treatment)["limit"]: value(each, "transaction.lat.mean")
        for each in ran(tmp_path, ASKED, more)
    }
    script = files("iotrial.tools").joinpath("pgbench.sh").read_bytes()
    with mounted(device, tmp_path / "mnt") as folder:
        (folder / "data").mkdir(mode=0o755)
        (tmp_path / "pgbench.sh").write_bytes(script)
        words = [str(folder / "data"), "1", "2", "1"]
        load = ["sh", str(tmp_path / "pgbench.sh"), *words]
        subprocess.run([*load, "0", "0", "simple-update"], check=True, cwd=tmp_path)
        recorder = subprocess.Popen(
            [*IOTRIAL, "record", device, "--for", "60s", "--out", str(tmp_path / "load")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not (tmp_path / "load/recording.json").exists():
            assert recorder.poll() is None
        subprocess.run(
            [*load, "6", "40", "simple-update"], check=True, cwd=tmp_path, capture_output=True
        )
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(60) in (0, 130)
    again = tmp_path / "again.toml"
    again.write_text(
        f'[targets.disk]\ndevice = "{device}"\ndestroy = "{tmp_path / "loop.img"}"\n'
        f'[workloads.bank]\ntool = "replay"\nrecorded = "load"\n{more}'
        '[decide]\nprimary = "write.response.mean"\n'
        '[design]\nkind = "full"\nblocks = 1\nsettle = "0s"\n'
    )
    iotrial("run", str(again), "--out", str(tmp_path / "again"))
    replayed = {
        dict(each.trial.treatment)["limit"]: value(each, "write.response.mean")
        for each in open_results(tmp_path / "again").valid
    }
    order = [str(limit) for limit in LIMITS]
    assert sorted(own, key=lambda level: -own[level]) == order, own
    assert sorted(replayed, key=lambda level: -replayed[level]) == order, replayed
