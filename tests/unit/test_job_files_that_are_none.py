"""What is given as a job file and is none: refused at once, with the file and why; no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotrial.errors import StudyError
from iotrial.plan.load import load_study

STUDY = """
[targets.disk]
device = "/dev/fake0"
[workloads.reads]
tool = "fio"
jobfile = {name}
"""
JOB = "[a]\nrw=randread\nruntime=1\n"


def study(folder: Path, name: str = '"job.fio"') -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(name=name))
    return path


def test_a_job_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(JOB.replace("\n", "\r\n") + "\tbs=4k ; \u00e9\n")
    assert load_study(study(tmp_path)).workloads[0].jobfile.startswith("[a]")


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/dev/full", ".", "/proc/self/fd"])
def test_what_is_no_file_is_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "job.fio").symlink_to(name)
    with pytest.raises(StudyError, match=r"job\.fio cannot be read: it is no|Is a directory"):
        load_study(study(tmp_path))


def test_a_fifo_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.fio")
    with pytest.raises(StudyError, match=r"job\.fio cannot be read: it is not a regular file"):
        load_study(study(tmp_path))


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "job.fio").open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(StudyError, match="larger than any job file"):
        load_study(study(tmp_path))


@pytest.mark.parametrize(
    "more",
    ["\0", "filename=/dev/fake0\0x\n", "bs=4k\x1b[2J\n", "filename=x\x1c\n", "bs=4k\rrw=write\n"],
)
def test_characters_that_cannot_be_shown_are_named_with_their_line(
    tmp_path: Path, more: str
) -> None:
    (tmp_path / "job.fio").write_bytes((JOB + more).encode())
    with pytest.raises(StudyError, match=r"job\.fio: line 4 contains a non-printable") as caught:
        load_study(study(tmp_path))
    assert not set("\0\x1b\x1c\r") & set(str(caught.value))


def test_a_line_that_fio_would_read_as_two_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text(f"{JOB}description={'a' * 9000}\n")
    with pytest.raises(StudyError, match=r"line 4 is longer than 4000 bytes"):
        load_study(study(tmp_path))


def test_a_nul_in_the_name_and_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="NUL"):
        load_study(study(tmp_path, '"a\\u0000b"'))
    (tmp_path / "job.fio").write_bytes(b"[a]\n\xff\xfe\n")
    with pytest.raises(StudyError, match="not UTF-8"):
        load_study(study(tmp_path))
