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
from contextlib import ExitStack
from pathlib import Path

import pytest

from iotrial.store import open_results
from lab import Lab, lab, why_not

__all__ = ["lab"]

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
    short = tmp_path / "short.fio"
    text = Path(answer["jobfile"]).read_text("utf-8")
    short.write_text(text.replace("runtime=60s", "runtime=1s").replace("ramp_time=5s", ""))
    checked = subprocess.run(
        ["fio", "--output-format=json", short], capture_output=True, timeout=200, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["jobs"][0]["read"]["iops"] > 0
    compared = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "compare", str(out), "--json"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert json.loads(compared.stdout)["ceiling"]["best"] == found["best"]
    page = (out / "report.html").read_text("utf-8")
    assert "Latency against load" in page
    assert "Pareto-optimal loads (rate and mean latency)" in page
    again = saturate(f"/dev/{loop_device}", *SHORT, "--out", str(out))
    assert again.returncode == 0
    assert "is complete" in again.stderr


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
    wait = time.monotonic() + 200
    while len(list((out / "trials").glob("*[0-9a-f]"))) < 3 and time.monotonic() < wait:
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=200)
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


def test_a_device_that_is_named_is_written_to_and_no_other_name_will_do(
    tmp_path: Path, state: Path, loop_device: str
) -> None:
    backing = tmp_path / "loop.img"
    assert not any(backing.read_bytes())
    asked = [f"/dev/{loop_device}", "--write", *SHORT, "--budget", "6s"]
    other = saturate(*asked, "--destroy", str(tmp_path / "other.img"), "--out", str(tmp_path / "1"))
    assert other.returncode == 3
    assert f"is not the disk at /dev/{loop_device}" in other.stderr
    several = saturate(*asked, "--destroy", "a", "--destroy", "b", "--out", str(tmp_path / "2"))
    assert several.returncode == 2
    assert "one for each, in their order" in several.stderr
    assert not any(backing.read_bytes())
    done = saturate(*asked, "--destroy", str(backing), "--json", "--out", str(tmp_path / "3"))
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["ceiling"]["metric"] == "write.iops"
    assert "No decision yet" in answer["recommendation"]
    assert any(backing.read_bytes())


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_targets_on_two_hosts_are_loaded_together_and_their_sum_counts(
    tmp_path: Path, lab: Lab
) -> None:
    boxes = [lab.box(f"box{number}") for number in (1, 2)]
    images = [tmp_path / f"{name}.img" for name in ("one", "two", "three")]
    for image in images:
        image.write_bytes(bytes(8 << 20))
    where = [boxes[0], boxes[0], boxes[1]]
    targets = [f"{box.where}:{image}" for box, image in zip(where, images, strict=True)]
    out = tmp_path / "results"
    asked = ["--engine", "libaio", "--runtime", "600ms", "--p99", "1s", "--budget", "12s"]
    done = saturate(*asked, "--json", "--out", str(out), "--", *targets)
    assert done.returncode == 1, done.stderr
    assert "No decision yet" in json.loads(done.stdout)["recommendation"]
    results = open_results(out)
    record = next(each for each in results.records if each.value("read.iops"))
    parts = ("box1/one.img", "box1/two.img", "box2/three.img")
    assert record.parts == parts
    apart = {m.job: m.value for m in record.measurements if m.metric == "read.iops"}
    assert apart["all"] == pytest.approx(sum(apart[part] for part in parts), rel=1e-6)
    late = {m.job: m.value for m in record.measurements if m.metric == "read.clat.p99"}
    assert min(late[part] for part in parts) <= late["all"] <= max(late[part] for part in parts)


# The search as it is, over few loads: each trial on several hosts takes seconds.
FEW = """
from iotrial.plan import saturate
saturate.DEPTHS, saturate.BATCHES = (1, 8), (1,)
saturate.job_counts = lambda cpus: (1, 2)
from iotrial.cli.main import main
main()
"""


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_a_search_on_two_hosts_comes_to_its_end_with_a_job_file_for_each_that_starts_there(
    tmp_path: Path, lab: Lab
) -> None:
    boxes = [lab.box(f"far{number}") for number in (1, 2)]
    loads = {"far1": ("one.img", "two.img"), "far2": ("three.img",)}
    for name in (each for images in loads.values() for each in images):
        (tmp_path / name).write_bytes(bytes(8 << 20))
    targets = [f"{box.where}:{tmp_path / name}" for box in boxes for name in loads[box.name]]
    out = tmp_path / "results"
    asked = ["--engine", "libaio", "--runtime", "800ms", "--margin", "50%", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", FEW, "saturate", *asked, "--out", str(out), "--", *targets],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    found = answer["ceiling"]
    assert (found["of"], found["best"]["value"] > 0) == (4, True)
    assert [Path(each).name for each in answer["jobfiles"]] == [
        "ceiling-far1.fio",
        "ceiling-far2.fio",
    ]
    # As a user starts them: each on its host, at the same time.
    with ExitStack() as stack:
        started = []
        for box, path in zip(boxes, answer["jobfiles"], strict=True):
            job = configparser.ConfigParser(allow_no_value=True)
            job.read(path)
            assert tuple(job.sections()) == loads[box.name]
            for name in job.sections():
                said, best = dict(job[name]), found["best"]["treatment"]
                assert said["filename"] == str(tmp_path / name)
                assert (said["numjobs"], said["iodepth"]) == (best["jobs"], best["depth"])
            text = Path(path).read_text("utf-8").replace("ramp_time=5s\n", "")
            short = tmp_path / f"short-{box.name}.fio"
            short.write_text(text.replace("runtime=60s", "runtime=1s"))
            ssh = ["ssh", *box.where.split(), "fio --output-format=json -"]
            job_file = stack.enter_context(short.open())
            process = subprocess.Popen(ssh, stdin=job_file, stdout=subprocess.PIPE, text=True)
            started.append(stack.enter_context(process))
        told = [json.loads(process.communicate(timeout=200)[0])["jobs"] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert [tuple(each["jobname"] for each in jobs) for jobs in told] == [*loads.values()]
    assert all(each["read"]["iops"] > 0 for jobs in told for each in jobs)


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
        timeout=200,
        check=False,
    )
    assert without.returncode != 0
    assert "fio is not installed" in without.stderr
