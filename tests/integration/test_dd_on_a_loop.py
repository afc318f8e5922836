"""A real dd on a real block device says the same as the kernel, and drives a study."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.model.tool import ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import tool

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
]

DD = tool("dd")
SIZE = 64 * 2**20
LOADS = ("write", "read")
WAYS = ("direct", "buffered")
STUDY = """
question = "Does read-ahead help a buffered stream here?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.stream]
tool = "dd"
options = {{ rw = "read", bs = "64KiB", direct = false }}
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [0, 1024]
[design]
blocks = 2
settle = "0s"
[decide]
primary = "read.bw"
"""


def moved(name: str) -> tuple[int, int]:
    """Bytes a block device has read and written (sectors are of 512 bytes)."""
    fields = Path(f"/sys/block/{name}/stat").read_text("ascii").split()
    return int(fields[2]) * 512, int(fields[6]) * 512


def execute(aimed: ToolTarget, folder: Path, **options: OptionValue) -> ParsedOutput:
    """As in a trial: the command and what it said stay in the folder."""
    workload = Workload("load", "dd", tuple(options.items()))
    assert DD.check(workload, {}) == []
    argv = DD.command(workload, aimed, {}).argv
    (folder / "command").write_text(" ".join(argv))
    with (folder / "stderr").open("wb") as stderr:
        subprocess.run(
            argv, stderr=stderr, env={**os.environ, "LC_ALL": "C"}, timeout=200, check=True
        )
    return DD.parse(folder)


def values(parsed: ParsedOutput) -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if each.job == "all"}


@pytest.mark.parametrize(("rw", "way"), [(r, w) for r in LOADS for w in WAYS])
def test_dd_counts_what_the_kernel_counts(
    loop_device: str, tmp_path: Path, rw: str, way: str
) -> None:
    aimed = ToolTarget(f"/dev/{loop_device}", "device", SIZE)
    before = moved(loop_device)
    parsed = execute(aimed, tmp_path, rw=rw, bs="1MiB", direct=way == "direct")
    read, written = map(int.__sub__, moved(loop_device), before)
    assert values(parsed)[f"{rw}.bytes"] == SIZE
    assert values(parsed)[f"{rw}.bytes"] == pytest.approx(
        written if rw == "write" else read, rel=0.01
    )
    assert values(parsed)[f"{rw}.bw"] == pytest.approx(values(parsed)[f"{rw}.iops"] * 2**20)
    assert not [doubt for doubt in parsed.doubts if doubt.invalid]
    assert ("cache" in {each.check for each in parsed.doubts}) == (
        (rw, way) == ("read", "buffered")
    )


def test_every_buffered_read_of_a_device_nobody_holds_reaches_it(
    loop_device: str, tmp_path: Path
) -> None:
    # The kernel drops a block device's page cache when it is closed for the last time.
    aimed = ToolTarget(f"/dev/{loop_device}", "device", SIZE)
    for _ in range(2):
        before, _ = moved(loop_device)
        execute(aimed, tmp_path, direct=False)
        assert moved(loop_device)[0] - before == pytest.approx(SIZE, rel=0.01)


def test_the_end_of_the_device_is_a_doubt(loop_device: str, tmp_path: Path) -> None:
    aimed = ToolTarget(f"/dev/{loop_device}", "device")
    parsed = execute(aimed, tmp_path, size="80MiB")
    assert values(parsed)["read.bytes"] == SIZE
    assert "fewer" in {doubt.check for doubt in parsed.doubts}


def test_a_file_keeps_what_lies_beyond_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3 * 2**20)
    aimed = ToolTarget(str(file), "file", 3 * 2**20)
    parsed = execute(aimed, tmp_path, rw="write", size="1MiB", seek="1MiB", direct=False)
    assert file.read_bytes() == b"x" * 2**20 + bytes(2**20) + b"x" * 2**20
    assert values(parsed)["write.bytes"] == 2**20
    assert values(execute(aimed, tmp_path, direct=False, skip="1MiB"))["read.bytes"] == 2**21


def test_a_device_that_is_gone_is_not_made(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(subprocess.CalledProcessError):
        execute(ToolTarget(str(gone), "device"), tmp_path, rw="write", size="1MiB")
    assert not gone.exists()


@pytest.mark.usefixtures("state")
def test_a_study_of_read_ahead_is_judged_by_dd(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(folder=tmp_path))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--json"),
            *("--out", str(tmp_path / "results")),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["trials"]["valid"] == 4
    assert [each["level"] for each in answer["findings"]] == ["1024"]
    assert [each["n"] for each in answer["findings"]] == [2]


def test_a_file_target_is_laid_out_before_dd_reads_it(tmp_path: Path, state: Path) -> None:
    study = tmp_path / "study.toml"
    target = f'file = "{tmp_path}/data"\nsize = "16MiB"'
    text = STUDY.format(folder=tmp_path).replace("direct = false", "direct = true")
    loop = f'loop = {{ size = "64MiB", directory = "{tmp_path}" }}'
    assert loop in text
    text = text.replace(loop, target).replace('tunable = "queue.read_ahead_kb"', 'option = "bs"')
    study.write_text(text.replace("[0, 1024]", '["64KiB", "1MiB"]'))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--json"),
            *("--out", str(tmp_path / "results")),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials"]["valid"] == 4
    assert not (tmp_path / "data").exists()
