"""What fio is told never goes beyond a file target's end, nor writes to a file of its options."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.errors import TargetRefused, UsageError
from iotrial.hosts.local import LocalHost
from iotrial.look.targets import ready
from iotrial.model.target import Target
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import tool

FIO = tool("fio")
MIB = 2**20
SHORT: dict[str, OptionValue] = {"rw": "randread", "bs": "4k", "io_size": "16k", "ioengine": "sync"}


def load(jobfile: str = "", **options: OptionValue) -> Workload:
    return Workload("w", "fio", tuple(options.items()), jobfile=jobfile)


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")
@pytest.mark.parametrize(
    "options",
    [{}, {"offset": "1m"}, {"offset": "50%"}, {"offset": "4k", "offset_increment": "64k",
     "numjobs": 3}, {"offset_increment": "25%", "numjobs": 2}, {"offset": "3MiB"},
     {"offset": "1m", "offset_align": "4k"}, {"offset": "50%", "size": "50%"}],
)  # fmt: skip
def test_an_existing_file_is_as_it_was_after_a_read_behind_an_offset(
    tmp_path: Path, options: dict[str, OptionValue]
) -> None:
    file = tmp_path / "precious"
    content = os.urandom(4 * MIB)
    file.write_bytes(content)
    node = file.stat().st_ino
    made = FIO.command(
        load(**SHORT, direct=0, **options), ToolTarget(str(file), "file", 4 * MIB), {}
    )
    subprocess.run(made.argv, cwd=tmp_path, check=False, timeout=60, capture_output=True)
    assert file.read_bytes() == content
    assert file.stat().st_ino == node


@pytest.mark.parametrize(
    "options",
    [{"offset": "4m"}, {"offset": "0x100000"}, {"offset": "2z"}, {"offset": "50%", "size": "4m"},
     {"offset_increment": "50%", "filesize": "4m", "numjobs": 2},
     {"offset": "1m", "offset_increment": "2m", "numjobs": 3}],
)  # fmt: skip
def test_what_may_end_beyond_the_file_is_refused(options: dict[str, OptionValue]) -> None:
    with pytest.raises(UsageError):
        FIO.command(load(**SHORT, **options), ToolTarget("/mnt/f", "file", 4 * MIB), {})


def test_a_job_file_that_may_end_beyond_the_file_is_refused() -> None:
    jobs = "[global]\noffset=50%\n[a]\nrw=read\nsize=2m\n"
    with pytest.raises(UsageError, match="beyond its end"):
        FIO.command(load(jobs), ToolTarget("/mnt/f", "file", 4 * MIB), {})
    FIO.command(load(jobs), ToolTarget("/dev/loop9", "device"), {})


@pytest.mark.parametrize("place", ["/mnt/f", "/dev/loop9", "../x", "a/b"])
@pytest.mark.parametrize(
    "option",
    ["mem", "write_iolog", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"],
)
def test_no_option_has_fio_write_to_a_file_beside_its_logs(option: str, place: str) -> None:
    value = f"mmapshared:{place}" if option == "mem" else place
    for each in (load(rw="read", **{option: value}), load(f"[a]\nrw=read\n{option}={value}\n")):
        assert FIO.check(each, {})
    assert not FIO.check(load(rw="read", write_bw_log="mine", mem="malloc"), {})


def test_a_link_to_nothing_in_a_directory_is_not_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir(mode=0o700)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    jobs = f"[a]\nrw=write\nsize=4k\nfilename={folder}/"
    target = Target("d", "directory", str(folder))
    with pytest.raises(TargetRefused, match="outside its target"):
        ready(LocalHost(), target, FIO.reach(load(f"{jobs}link\n")))
    ready(LocalHost(), target, FIO.reach(load(f"{jobs}plain\n")))
