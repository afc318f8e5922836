"""fio's logs for real: what a run here logged says what its output says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.formats.fio.json_output import parse
from iotrial.model.recording import Recording
from iotrial_import import fio_logs
from iotrial_import.files import read as read_file
from iotrial_import.formats import fio_hist_log, fio_log
from iotrial_import.legend import ImportMap

pytestmark = pytest.mark.skipif(
    not shutil.which("fio"), reason="fio is not installed (apt-get install fio)"
)
ARGUMENTS = (
    "--name=mix --rw=randrw --bs=4k,8k --size=4m --ioengine=psync --runtime=3 --time_based "
    "--rate_iops=400,200 --lat_percentiles=1 --clat_percentiles=1 --output-format=json "
    "--output=out.json --write_lat_log=x --write_bw_log=x --write_iops_log=x "
    "--write_hist_log=x --log_hist_msec=200"
)


def values(run: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in run.measurements}


def read(path: Path) -> dict[str, float]:
    (run,) = fio_log.FORMAT.read(path.read_bytes(), path.name)
    assert not run.doubts
    return values(run)


BUSY = 0.1
"""fio's own time ends with the slowest job, the logs' with the last I/O: on a busy machine the
rates are that far apart, at most."""


def test_the_logs_of_a_run_say_what_its_output_says(tmp_path: Path) -> None:
    subprocess.run(["fio", *ARGUMENTS.split()], cwd=tmp_path, check=True, timeout=200)
    measured = parse((tmp_path / "out.json").read_bytes(), "out.json").measurements
    told = {each.metric: each.value for each in measured if each.job == "all"}
    for stage in ("lat", "clat"):
        found = read(tmp_path / f"x_{stage}.1.log")
        same = [name for name in told if re.search(rf"\.({stage}\.p[\d.]+|bytes)$", name)]
        assert len(same) == 2 * 7
        assert {n: found[n] for n in same} == pytest.approx({n: told[n] for n in same})
        assert found[f"read.{stage}.mean"] == pytest.approx(told[f"read.{stage}.mean"])
    for kind in ("bw", "iops"):
        found = read(tmp_path / f"x_{kind}.1.log")
        for name in ("read.iops", "write.iops", "read.bw", "write.bw"):
            assert found[name] == pytest.approx(told[name], rel=BUSY)
    path = tmp_path / "x_clat_hist.1.log"
    (run,) = fio_hist_log.FORMAT.read(path.read_bytes(), path.name)
    ios = told["read.bytes"] / 4096
    assert 0.8 * ios < values(run)["read.ios"] <= ios  # the last interval is not logged
    assert values(run)["read.clat.p50"] == pytest.approx(told["read.clat.p50"], rel=0.2)


def test_the_logs_of_all_jobs_together_say_what_fio_says_of_the_group(tmp_path: Path) -> None:
    arguments = [*ARGUMENTS.split(), "--numjobs=3", "--group_reporting", "--slat_percentiles=1"]
    arguments = [
        each.replace("json", "json+").replace("out.json+", "out.json") for each in arguments
    ]
    subprocess.run(
        ["fio", *arguments, "--ioengine=libaio", "--iodepth=4"],
        cwd=tmp_path, check=True, timeout=200,
    )  # fmt: skip
    measured = parse((tmp_path / "out.json").read_bytes(), "out.json").measurements
    told = {each.metric: each.value for each in measured if each.job == "all"}
    paths = sorted(tmp_path.glob("x_*.log"))
    assert len(paths) == 6 * 3
    (whole,) = fio_logs.together([read_file(each.name, each, ImportMap()) for each in paths])
    (run,) = whole.recordings
    assert {each.job for each in run.measurements} == {"all", "1", "2", "3"}
    found = {each.metric: each.value for each in run.measurements if each.job == "all"}
    same = [name for name in told if re.search(r"\.([sc]?lat\.p[\d.]+|bytes)$", name)]
    assert len(same) == 2 * (1 + 3 * 6)
    assert {n: found[n] for n in same} == pytest.approx({n: told[n] for n in same}, rel=1e-12)
    for name in (name for name in told if name.endswith((".iops", ".bw"))):
        assert found[name] == pytest.approx(told[name], rel=BUSY)
    for name in (name for name in told if name.endswith("lat.mean")):
        assert found[name] == pytest.approx(told[name], rel=1e-5)
    assert not run.doubts
