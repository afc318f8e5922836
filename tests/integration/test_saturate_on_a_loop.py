"""The verb saturate executed for real, on a loop device: short trials, a search, a race, a job.

Nothing here depends on which load wins: the machine may be busy.
"""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

SHORT = ("--engine", "libaio", "--engine", "io_uring", "--runtime", "100ms", "--margin", "30%")
ENTRY = (sys.executable, "-m", "iotrial.cli.main", "saturate")


def saturate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENTRY, *arguments], capture_output=True, text=True, timeout=280, check=False
    )


def test_a_search_ends_with_a_curve_and_a_job_file_that_fio_takes(
    tmp_path: Path, state: Path, loop_device: str
) -> None:
    out = tmp_path / "results"
    done = saturate(f"/dev/{loop_device}", *SHORT, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    found = answer["ceiling"]
    assert found["best"]["value"] > 0
    assert found["racing"] >= 2
    assert found["searched"] < 0.1 * found["of"] + 10
    rates = [point["value"] for point in found["curve"] if point["front"]]
    assert rates == sorted(rates)
    assert "ETA at most" in done.stderr
    assert "(last " in done.stderr
    job = configparser.ConfigParser(allow_no_value=True)
    job.read(answer["jobfile"])
    said = dict(job["final"])
    assert (said["filename"], said["rw"]) == (f"/dev/{loop_device}", "randread")
    assert said["numjobs"] == found["best"]["treatment"]["jobs"]
    checked = subprocess.run(
        ["fio", "--parse-only", answer["jobfile"]], capture_output=True, timeout=30, check=False
    )
    assert checked.returncode == 0, checked.stderr
    compared = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "compare", str(out), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(compared.stdout)["ceiling"]["best"] == found["best"]
    assert "Latency against load" in (out / "report.html").read_text("utf-8")
    again = saturate(f"/dev/{loop_device}", *SHORT, "--out", str(out))
    assert again.returncode == 0
    assert "nothing is left to do" in again.stderr


def test_a_bound_that_nothing_keeps_is_exit_1_and_says_what_came_nearest(
    tmp_path: Path, state: Path, loop_device: str
) -> None:
    out = tmp_path / "results"
    done = saturate(f"/dev/{loop_device}", *SHORT, "--p99", "1us", "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert "No load keeps read.clat.p99 ≤ 1.00 µs" in done.stdout.replace("\n", " ")
    assert not (out / "ceiling.fio").exists()


def test_ctrl_c_ends_it_and_the_same_command_goes_on(
    tmp_path: Path, state: Path, loop_device: str
) -> None:
    out = tmp_path / "results"
    command = [*ENTRY, f"/dev/{loop_device}", *SHORT, "--out", str(out)]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait = time.monotonic() + 120
    while len(list((out / "trials").glob("*[0-9a-f]"))) < 3 and time.monotonic() < wait:
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130, said
    kept = {path.name for path in (out / "trials").iterdir() if not path.suffix}
    assert len(kept) >= 3
    done = saturate(f"/dev/{loop_device}", *SHORT, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert kept <= {path.name for path in (out / "trials").iterdir()}
    assert (out / "ceiling.fio").exists()


def test_a_device_is_not_written_to_without_being_named(
    tmp_path: Path, state: Path, loop_device: str
) -> None:
    node = f"/dev/{loop_device}"
    before = (tmp_path / "loop.img").read_bytes()
    asked = saturate(node, "--rw", "randwrite", "--out", str(tmp_path / "one"))
    assert asked.returncode == 3
    assert "Add --write" in asked.stderr
    unarmed = saturate(node, "--write", *SHORT, "--out", str(tmp_path / "two"))
    assert unarmed.returncode == 3
    assert "destroy" in unarmed.stderr
    assert (tmp_path / "loop.img").read_bytes() == before


def test_a_device_that_is_not_there_and_a_machine_without_fio_are_refused(
    tmp_path: Path, state: Path
) -> None:
    gone = saturate("/dev/no-such-disk", *SHORT, "--out", str(tmp_path / "one"))
    assert gone.returncode == 3
    assert "/dev/no-such-disk" in gone.stderr
    empty = tmp_path / "bin"
    empty.mkdir()
    without = subprocess.run(
        [*ENTRY, "loop", "--out", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(empty)},
        timeout=60,
        check=False,
    )
    assert without.returncode != 0
    assert "fio is not installed" in without.stderr
