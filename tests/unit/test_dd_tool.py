"""A workload of dd: what is executed, what is refused, and what it will touch."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import FormatError, UsageError
from iotrial.hosts.fake import FakeHost
from iotrial.model.tool import LoadAccess, SupportsLayout, ToolTarget
from iotrial.model.workload import Chore, OptionValue, Workload
from iotrial.tools import tool

DD = tool("dd")
DISK = ToolTarget("/dev/sdx", "device")
FILE = ToolTarget("/data/file", "file", 64 * 2**20)


def workload(**options: OptionValue) -> Workload:
    return Workload("load", "dd", tuple(options.items()))


def command(aimed: ToolTarget, **options: OptionValue) -> str:
    return shlex.join(DD.command(workload(**options), aimed, {}).argv)


def test_reads_go_around_the_page_cache() -> None:
    assert command(DISK) == "dd if=/dev/sdx of=/dev/null bs=1048576 iflag=direct"
    assert command(FILE, bs="64k", direct=False, skip="1MiB") == (
        "dd if=/data/file of=/dev/null bs=65536 count=1008 skip=16"
    )


def test_writes_end_on_the_disk_and_make_no_device_files() -> None:
    assert command(DISK, rw="write", size="8MiB", nonblock=True, seek="2MiB") == (
        "dd if=/dev/zero of=/dev/sdx bs=1048576 count=8 seek=2 oflag=direct,nonblock "
        "conv=notrunc,nocreat,fsync"
    )
    assert command(FILE, rw="write", direct=False, fsync=False) == (
        "dd if=/dev/zero of=/data/file bs=1048576 count=64 conv=notrunc,nocreat"
    )


def test_a_file_to_read_in_a_directory_is_laid_out_where_the_study_says_so() -> None:
    folder = ToolTarget("/data", "directory")
    options = (("size", "8MiB"), ("bs", "64KiB"), ("skip", "1MiB"), ("direct", False))
    reading = Workload("load", "dd", options, prepare=(Chore("lay out", "study"),))
    assert shlex.join(DD.command(reading, folder, {}).argv) == (
        "dd if=/data/iotrial.dd of=/dev/null bs=65536 count=128 skip=16"
    )
    assert isinstance(DD, SupportsLayout)
    assert shlex.join(DD.lay_out(reading, folder, {}).argv) == (
        "dd if=/dev/zero of=/data/iotrial.dd bs=65536 count=144 conv=notrunc,fsync"
    )
    with pytest.raises(UsageError, match="is a directory"):
        DD.command(replace(reading, prepare=()), folder, {})


def test_both_copies_one_half_of_the_target_over_the_other() -> None:
    assert command(FILE, rw="both", nonblock=True) == (
        "dd if=/data/file of=/data/file bs=1048576 count=32 seek=32 iflag=direct,nonblock "
        "oflag=direct,nonblock conv=notrunc,nocreat,fsync"
    )
    assert command(DISK, rw="both", size="8MiB", skip="1MiB", direct=False, fsync=False) == (
        "dd if=/dev/sdx of=/dev/sdx bs=1048576 count=8 skip=1 seek=9 conv=notrunc,nocreat"
    )
    assert DD.reach(workload(rw="both")) == LoadAccess(reads=True, writes=True)
    with pytest.raises(UsageError, match="has no 83886080 bytes"):
        command(FILE, rw="both", size="40MiB")
    with pytest.raises(UsageError, match="over what is read"):
        command(DISK, rw="both", size="8MiB", seek="4MiB")
    with pytest.raises(UsageError, match="is a directory"):
        command(ToolTarget("/data", "directory"), rw="both", size="1MiB")


def test_a_directory_gets_a_file_to_write_and_none_to_read() -> None:
    folder = ToolTarget("/data", "directory")
    assert "of=/data/iotrial.dd" in command(folder, rw="write", size="1MiB")
    assert "nocreat" not in command(folder, rw="write", size="1MiB")
    with pytest.raises(UsageError, match="is a directory"):
        command(folder, size="1MiB")


def test_a_write_needs_a_size() -> None:
    with pytest.raises(UsageError, match="needs a size"):
        command(DISK, rw="write")
    with pytest.raises(UsageError, match="more than"):
        command(ToolTarget("/data/file", "file", 2**20), bs="2MiB")


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"rw": "copy"}, "rw", "not read, write or both"),
        ({"count": 4}, "count", "say size"),
        ({"skp": 4}, "skp", "did you mean 'skip'"),
        ({"of": "/dev/sda"}, "of", "not an option"),
        ({"bs": "4q"}, "bs", "unknown unit"),
        ({"bs": 0}, "bs", "zero bytes"),
        ({"bs": "2GiB"}, "bs", "1GiB at most"),
        ({"bs": 1000}, "bs", "multiple of 512"),
        ({"size": 1000}, "size", "whole number of blocks"),
        ({"direct": "yes"}, "direct", "true or false"),
        ({"fsync": True}, "fsync", "rw = write"),
        ({"rw": "write", "skip": "1MiB"}, "skip", "rw = read"),
    ],
)
def test_options_that_cannot_work_are_named(
    options: dict[str, OptionValue], option: str, words: str
) -> None:
    [(named, what)] = DD.check(workload(**options), {})
    assert named == option
    assert words in what
    with pytest.raises(UsageError, match=option):
        command(FILE, **options)


def test_what_it_touches_is_its_target() -> None:
    assert DD.reach(workload()) == LoadAccess(reads=True, writes=False)
    assert DD.reach(workload(rw="write")) == LoadAccess(reads=False, writes=True)
    assert DD.reach(workload(rw="wrong")).writes


def test_the_time_is_that_of_a_slow_disk() -> None:
    assert DD.seconds(workload(size="20MB"), DISK) == pytest.approx(1.05)
    assert DD.seconds(workload(size="?"), DISK) > DD.seconds(workload(), FILE) > 3


def test_only_the_dd_of_coreutils_will_do() -> None:
    assert DD.version_problem("dd (coreutils) 9.1\nCopyright") == ""
    assert DD.version_problem("dd (uutils coreutils) 0.2.2") == ""
    assert "BusyBox" in DD.version_problem("BusyBox v1.35.0 multi-call binary")


def test_a_trial_is_read_by_the_command_it_was(tmp_path: Path) -> None:
    text = (
        "4+0 records in\n4+0 records out\n4194304 bytes (4.2 MB, 4.0 MiB) copied, 2 s, 2.1 MB/s\n"
    )
    (tmp_path / "stderr").write_text(text)
    with pytest.raises(FormatError, match="command"):
        DD.parse(tmp_path)
    (tmp_path / "command").write_text(command(FILE, direct=False) + "\n")
    parsed = DD.parse(tmp_path)
    assert {m.metric: m.value for m in parsed.measurements if m.job == "all"} == {
        "read.bytes": 4194304,
        "read.seconds": 2.0,
        "read.bw": 2097152,
        "read.iops": 2.0,
    }
    assert {doubt.check for doubt in parsed.doubts} == {"fewer", "cache"}


def test_the_pretended_machine_has_dd() -> None:
    assert DD.version_problem(FakeHost().run(["dd", "--version"]).text) == ""
