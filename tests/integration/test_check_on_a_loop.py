"""``iotrial check`` as its user has it: a suite on real loop devices, and what hangs for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root

ENTRY = [sys.executable, "-c", "from iotrial.cli.main import main; main()"]


def check(*words: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [*ENTRY, "check", *words, "--json"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def loops() -> set[str]:
    return {path.name for path in Path("/sys/block").glob("loop*")}


def test_a_scheduler_takes_and_gives_back_every_setting(state: Path, tmp_path: Path) -> None:
    before = loops()
    code, said = check("scheduler/none", "scheduler/refuses-unknown", cwd=tmp_path)
    assert code == 0
    assert [row["state"] for row in said["results"]] == ["pass", "pass"]
    folder = tmp_path / said["results_folder"]
    rows = (folder / said["results"][0]["evidence"] / "commands.jsonl").read_text().splitlines()
    written = [json.loads(row) for row in rows if "iotrial-put" in row]
    assert len(written) >= 10
    assert {path.name for path in folder.iterdir()} >= {"report.html", "report.xml", "report.tap"}
    assert not loops_that_stay(before)
    again = check("scheduler/refuses-unknown", cwd=tmp_path)[1]
    assert again["results"][0]["last"]["state"] == "pass", "the last time stands beside it"


def loops_attached() -> set[str]:
    """Those that have a file of our state folder."""
    files = {name: Path("/sys/block", name, "loop", "backing_file") for name in loops()}
    return {name for name, file in files.items() if file.exists()} - loops_of_others()


def loops_that_stay(before: set[str]) -> set[str]:
    """New ones of nobody else's.  Those of other tests have no file for a moment as they come and
    go: what is ours would stay."""
    deadline = time.monotonic() + 60
    while (new := loops() - before - loops_of_others()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return new


def loops_of_others() -> set[str]:
    """Those that have a file which is not of our state folder."""
    here = os.environ["IOTRIAL_STATE"]
    others = set()
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # gone since it was listed
            if here not in file.read_text():
                others.add(file.parents[1].name)
    return others


def test_a_disk_that_is_not_armed_or_in_use_is_refused(
    state: Path, tmp_path: Path, loop_device: str
) -> None:
    node = f"/dev/{loop_device}"
    code, said = check("scheduler", "--devices", node, cwd=tmp_path)
    assert code == 2
    code, said = check("scheduler", "--devices", node, "--destroy", "S4X1N0A", cwd=tmp_path)
    assert code == 3
    assert "S4X1N0A" in said["error"]["message"]
    subprocess.run(["mkswap", node], check=True, capture_output=True, timeout=200)
    file = (Path("/sys/block") / loop_device / "loop" / "backing_file").read_text().strip()
    code, said = check("scheduler", "--devices", node, "--destroy", file, cwd=tmp_path)
    assert code == 3
    assert "swap" in said["error"]["message"]
    assert not (tmp_path / "results").exists()


def test_a_disk_that_is_handed_over_is_used_and_wiped(
    state: Path, tmp_path: Path, loop_device: str
) -> None:
    node = f"/dev/{loop_device}"
    file = (Path("/sys/block") / loop_device / "loop" / "backing_file").read_text().strip()
    words = ("scheduler/refuses-unknown", "--devices", node, "--destroy", file)
    code, said = check(*words, cwd=tmp_path)
    assert code == 0, said["results"]  # first: what is long is cut off
    folder = tmp_path / said["results_folder"] / said["results"][0]["evidence"]
    text = (folder / "commands.jsonl").read_text()
    assert f"/sys/block/{loop_device}/queue" in text
    assert "iotrial-wipe" in text


def test_a_stop_undoes_what_was_made_and_the_rest_is_done_later(
    state: Path, tmp_path: Path
) -> None:
    words = [*ENTRY, "check", "scheduler/switch-under-load", "scheduler/refuses-unknown"]
    out = tmp_path / "out"
    with subprocess.Popen([*words, "--out", str(out)], cwd=tmp_path) as process:
        deadline = time.monotonic() + 200
        rows = out / "cases" / "scheduler.switch-under-load-1" / "commands.jsonl"
        while not rows.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 130
    assert not list((state / "journal.d").iterdir())
    assert not (out / "results.jsonl").exists()
    code, said = check("--resume", str(out), cwd=tmp_path)
    assert code == 0, said
    assert [row["state"] for row in said["results"]] == ["pass", "pass"]


def test_a_full_disk_says_where_owes_nothing_and_the_rest_is_done_later(
    state: Path, tmp_path: Path
) -> None:
    small, before = tmp_path / "small", loops()
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(small)]
    subprocess.run(mount, check=True, timeout=200)
    try:
        out = small / "out"
        code, said = check("scheduler/none", "--out", str(out), cwd=tmp_path)
        assert code == 5, said
        assert "No space left" in said["error"]["message"]
        assert f"{out}/cases/scheduler.none-1/" in said["error"]["message"]
        assert "--resume" in said["error"]["advice"]
        assert not list((state / "journal.d").iterdir()), "it is undone although nothing is kept"
        assert not loops_that_stay(before)
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True, timeout=200)
        code, said = check("--resume", str(out), cwd=tmp_path)
        assert code == 0, said
        assert [row["state"] for row in said["results"]] == ["pass"]
    finally:
        subprocess.run(["umount", str(small)], check=True, timeout=200)


def test_a_kill_is_undone_by_the_host_itself(state: Path, tmp_path: Path) -> None:
    """Repeated, so that the case is still going on when a busy machine lets us look."""
    before, out = loops_attached(), tmp_path / "out"
    words = [*ENTRY, "check", "scheduler/switch-under-load", "--repeat", "4", "--out", str(out)]
    with subprocess.Popen(words, cwd=tmp_path) as process:
        deadline = time.monotonic() + 200
        while not (loops_attached() - before and list(out.glob("cases/*/commands.jsonl"))):
            assert time.monotonic() < deadline
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.05)
        process.kill()
    while loops_attached() - before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    told = subprocess.run(
        [*ENTRY, "restore"], capture_output=True, text=True, timeout=200, check=False
    )
    assert "the guard restored" in told.stdout, told
    assert "No setting is left to restore" in told.stdout
    code, said = check("--resume", str(out), cwd=tmp_path)
    assert code == 0, said
    assert [path.name for path in (out / "cases").glob("*.killed-1")]


def test_where_nothing_can_be_run_there_is_no_success(state: Path, tmp_path: Path) -> None:
    code, said = check("cluster-md/assemble", "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert [row["state"] for row in said["results"]] == ["not run"]
    assert code == 5
    code, said = check("--resume", str(tmp_path / "out"), "--out", "other", cwd=tmp_path)
    assert code == 2
    assert "without SUITE, --on, --out" in said["error"]["advice"]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    code, said = check("scheduler/none", "--out", str(tmp_path / "full"), cwd=tmp_path)
    assert code == 2
    assert said["error"]["advice"] == "Name another --out."
