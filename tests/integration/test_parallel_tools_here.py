"""elbencho, IOR and mdtest for real, where they are: alone, and in a study."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import tool

MIB = 2.0**20
STUDY = """
question = "Does the block size matter here?"
[targets.disk]
loop = {{ size = "200MiB", directory = "{folder}" }}
filesystem = "ext4"
[workloads.load]
tool = "{tool}"
options = {options}
[factors.{factor}]
option = "{factor}"
levels = {levels}
[decide]
primary = "{primary}"
[design]
blocks = 2
settle = "0s"
"""


def needs(name: str) -> None:
    """elbencho, IOR and mdtest are in no Debian; their recordings are read in tests/unit."""
    programs = [name] if name == "elbencho" else [name, "mpirun"]
    missing = [each for each in programs if not shutil.which(each)]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed. {getattr(tool(name), 'remedy', '')}")


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("elbencho",
         {"write": True, "stat": True, "read": True, "delfiles": True, "deldirs": True,
          "threads": 2, "files": 20, "size": "1m", "block": "64k"},
         {"create.rate", "write.bw", "write.lat.mean", "stat.rate", "read.bw", "delete.rate",
          "delete.dir.rate", "write.cpu"}),
        ("ior", {"block": "8m", "transfer": "256k", "processes": 2}, {"write.bw", "read.bw"}),
        ("ior", {"block": "8m", "transfer": "256k", "file_per_process": True, "fsync": True},
         {"write.bw", "read.bw"}),
        ("mdtest", {"items": 50, "processes": 2, "write_bytes": "4k"},
         {"create.rate", "stat.rate", "read.rate", "delete.rate", "create.dir.rate"}),
    ],
)  # fmt: skip
def test_a_run_here_is_read_and_leaves_nothing(
    tmp_path: Path, name: str, options: dict[str, OptionValue], wanted: set[str]
) -> None:
    needs(name)
    folder, results = tmp_path / "load", tmp_path / "results"
    folder.mkdir()
    results.mkdir()
    workload = Workload("load", name, tuple(options.items()))
    argv = tool(name).command(workload, ToolTarget(str(folder), "directory"), {}).argv
    done = subprocess.run(argv, capture_output=True, check=False, timeout=200, cwd=results)
    assert done.returncode == 0, done.stdout + done.stderr
    (results / "stdout").write_bytes(done.stdout)
    found = {each.metric: each.value for each in tool(name).parse(results).measurements}
    assert wanted <= found.keys()
    assert all(value > 0 for metric, value in found.items() if metric.endswith((".bw", ".rate")))
    assert not [path for path in folder.rglob("*") if path.is_file()]
    if name == "elbencho":  # 2 threads x 20 files of 1 MiB; times are cut to ms, bytes to MiB
        moved = found["write.bw"] * found["write.seconds"] / MIB
        slack = found["write.bw"] / MIB * 1e-3 + found["write.seconds"] + 0.1
        assert moved == pytest.approx(40, abs=slack)


@pytest.mark.root
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("name", "options", "factor", "levels", "primary"),
    [
        ("elbencho", '{ write = true, size = "8m", direct = true }', "block", '["64k", "1m"]',
         "write.bw"),
        ("ior", '{ write = true, block = "8m", direct = true, processes = 2 }', "transfer",
         '["64k", "1m"]', "write.bw"),
        ("mdtest", "{ items = 40, files_only = true }", "processes", "[1, 2]", "create.rate"),
    ],
)  # fmt: skip
def test_a_study_on_a_file_system_of_its_own(
    tmp_path: Path, name: str, options: str, factor: str, levels: str, primary: str
) -> None:
    needs(name)
    study = STUDY.format(
        folder=tmp_path, tool=name, options=options, factor=factor, levels=levels, primary=primary
    )
    (tmp_path / "study.toml").write_text(study)
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", "study.toml", "--out", "r", "--json"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "r" / "measurements.jsonl").read_text().splitlines()
    assert len(rows) == 4
    assert all(json.loads(row)["values"][primary][0] > 0 for row in rows)
