"""IOzone: what iotrial asks of it, and of fio in its place."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iotrial.errors import FormatError, UsageError
from iotrial.execute.preflight import remedy
from iotrial.formats.iozone import FORMAT
from iotrial.model.tool import ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.sense import known_metric
from iotrial.tools import executed, tool
from iotrial.tools.fio import TOOL as FIO
from iotrial.tools.iozone import OPERATIONS, TOOL

DATA = Path(__file__).parent.parent / "data" / "iozone"
FACTS = {"cpus": 2.0, "memory": 2.0**33}
FOLDER = ToolTarget("/mnt/t", "directory")
real = pytest.mark.skipif(
    not shutil.which("iozone"),
    reason="iozone is not installed: package iozone3 of Debian's component non-free",
)
real_fio = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")


def load(**options: OptionValue) -> Workload:
    return Workload("load", "iozone", tuple(options.items()))


def complaints(workload: Workload) -> dict[str, str]:
    return dict(TOOL.check(workload, FACTS))


def values(found: ParsedOutput) -> dict[str, float]:
    return {each.metric: each.value for each in found.measurements if each.job == "all"}


def checks(found: ParsedOutput) -> set[str]:
    return {doubt.check for doubt in found.doubts}


def words(workload: Workload, aimed: ToolTarget = FOLDER) -> str:
    return " ".join(TOOL.command(workload, aimed, FACTS).argv)


def run(folder: Path, workload: Workload, aimed: ToolTarget) -> ParsedOutput:
    made = TOOL.command(workload, aimed, FACTS)
    for name, content in made.files:
        (folder / name).write_bytes(content)
    done = subprocess.run(made.argv, cwd=folder, capture_output=True, check=True, timeout=60)
    (folder / "stdout").write_bytes(done.stdout)
    return TOOL.parse(folder)


def test_threads_have_a_file_each_in_the_target() -> None:
    workload = load(threads="2*cpus", size="8MiB", record="64k", operations="read, 8", direct=True)
    assert words(workload) == (
        "iozone -R -s 8192k -r 64k -i 0 -i 1 -i 8 -+p 50 -I -t 4 -F"
        " /mnt/t/iozone.0 /mnt/t/iozone.1 /mnt/t/iozone.2 /mnt/t/iozone.3"
    )


def test_one_stream_has_one_file_and_auto_mode_every_record() -> None:
    assert words(load(size="1m", cpu=True, include_flush=True)) == (
        "iozone -R -s 1024k -r 4k -i 0 -i 1 -i 2 -e -+u -f /mnt/t/iozone.0"
    )
    assert words(load(size="1m", auto=True, operations="read", excel=True)) == (
        "iozone -R -s 1024k -a -i 0 -i 1 -b iozone.xls -f /mnt/t/iozone.0"
    )


def test_auto_mode_goes_through_file_sizes_too_each_a_section() -> None:
    workload = load(auto=True, min_size="64k", max_size="256k", operations="read")
    assert words(workload) == "iozone -R -n 64k -g 256k -a -i 0 -i 1 -f /mnt/t/iozone.0"
    found = TOOL.sectioned(workload)
    assert [each.name for each in found if each.name.startswith("128k/")] == [
        f"128k/{record}k" for record in (4, 8, 16, 32, 64, 128)
    ]
    assert len(found) == 5 + 6 + 7
    large = TOOL.sectioned(load(auto=True, min_size="16m", max_size="32m"))
    assert next(each.name for each in large if each.name.startswith("32768k/")) == "32768k/64k"
    assert "16384k/4k" in {each.name for each in large}
    assert TOOL.sectioned(load(size="1m")) == ()
    assert TOOL.sectioned(load(size="2*memory", auto=True)) == (), "nobody knows how large"
    likely = TOOL.likely(workload, ToolTarget("/mnt/t", "directory"))
    assert likely < TOOL.likely(load(auto=True, max_size="64m"), ToolTarget("/mnt/t", "directory"))


def test_a_file_as_the_target_is_left_alone() -> None:
    """IOzone would put another file in its place."""
    aimed = ToolTarget("/srv/disk.img", "file", 2**20)
    assert words(load(threads=2, operations="write", each=True), aimed) == (
        "iozone -R -s 512k -r 4k -i 0 -C -t 2 -F /srv/disk.img.iozone.0 /srv/disk.img.iozone.1"
    )


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"thread": 2}, "thread"),
        ({"threads": 0}, "threads"),
        ({"threads": 257}, "threads"),
        ({"size": "100"}, "size"),
        ({"size": "10k", "record": "4k"}, "size"),
        ({"record": "x"}, "record"),
        ({"operations": "11"}, "operations"),
        ({"operations": "mixed"}, "operations"),
        ({"direct": "yes"}, "direct"),
        ({"auto": True, "threads": 2}, "auto"),
        ({"auto": True, "record": "4k"}, "auto"),
        ({"each": True}, "each"),
        ({"mix_read": 0}, "mix_read"),
        ({"stand_in": "dd"}, "stand_in"),
        ({"stand_in": "fio", "operations": "fwrite"}, "operations"),
        ({"stand_in": "fio", "excel": True}, "excel"),
        ({"max_size": "1m"}, "max_size"),
        ({"auto": True, "min_size": "2m", "max_size": "1m"}, "max_size"),
        ({"auto": True, "max_size": "1m", "size": "1m"}, "size"),
        ({"stand_in": "fio", "max_size": "1m"}, "max_size"),
    ],
)
def test_what_cannot_be_done_is_said_beforehand(
    options: dict[str, OptionValue], option: str
) -> None:
    assert option in complaints(load(**options))
    with pytest.raises(UsageError, match=option):
        TOOL.command(load(**options), FOLDER, FACTS)


@pytest.mark.parametrize(
    ("aimed", "said"),
    [(ToolTarget("/dev/loop7", "device"), "is a device"), (FOLDER, "needs a size")],
)
def test_a_target_that_cannot_be_is_refused(aimed: ToolTarget, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TOOL.command(load(threads=2), aimed, FACTS)


def test_every_operation_may_be_asked_for_and_has_metrics() -> None:
    assert not complaints(load(threads=2, size="1m", operations=", ".join(OPERATIONS)))
    for name in ("backward_read.bw", "mixed.iops", "refread.bw.parent", "repread.cpu"):
        assert known_metric(name) is not None


def test_it_always_writes_and_says_how_to_come_by_it() -> None:
    assert TOOL.reach(load(operations="read")).writes
    assert not TOOL.reach(load(operations="write")).reads
    assert "non-free" in remedy(TOOL)
    assert "iozone.org" in remedy(TOOL)
    assert 'stand_in = "fio"' in remedy(TOOL)
    assert "apt-get install fio" in remedy(FIO)
    assert tool("iozone") is TOOL
    assert TOOL.version_problem("Unsupported option -> (null) <-") == ""
    assert TOOL.version_problem("hello 1.0")


def test_a_run_is_expected_to_last_as_long_as_it_has_phases() -> None:
    assert TOOL.seconds(load(size="20m", operations="write"), FOLDER) == pytest.approx(2.1, rel=0.1)
    threads = TOOL.seconds(load(size="20m", operations="write", threads=1), FOLDER)
    assert threads == pytest.approx(10.1, rel=0.1)


def test_the_program_of_a_stand_in_is_the_one_that_is_needed() -> None:
    assert executed(load(stand_in="fio")) is FIO
    assert executed(load()) is TOOL


def test_a_run_that_was_broken_off_is_no_trial(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes((DATA / "killed.txt").read_bytes())
    with pytest.raises(FormatError, match="complete"):
        TOOL.parse(tmp_path)
    with pytest.raises(FormatError, match="IOzone wrote no result"):
        TOOL.parse(tmp_path / "elsewhere")


def test_a_spreadsheet_that_says_something_else_is_an_error(tmp_path: Path) -> None:
    told = (DATA / "single_xls.txt").read_bytes().replace(b"-b single.xls", b"-b iozone.xls")
    (tmp_path / "stdout").write_bytes(told)
    with pytest.raises(FormatError, match=r"iozone\.xls: IOzone wrote no spreadsheet"):
        TOOL.parse(tmp_path)
    (tmp_path / "iozone.xls").write_bytes((DATA / "single.xls").read_bytes())
    assert values(TOOL.parse(tmp_path))["write.bw"] > 0
    (tmp_path / "iozone.xls").write_bytes((DATA / "us.xls").read_bytes())
    with pytest.raises(FormatError, match="in stdout"):
        TOOL.parse(tmp_path)


def test_what_was_cached_or_not_flushed_is_doubted(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes((DATA / "throughput_plain.txt").read_bytes())
    (tmp_path / "memory").write_bytes(b"8589934592 2097152\n")
    assert {"cached", "unflushed"} <= checks(TOOL.parse(tmp_path))
    (tmp_path / "memory").write_bytes(b"1048576 2097152\n")
    assert "cached" not in checks(TOOL.parse(tmp_path))
    (tmp_path / "stdout").write_bytes((DATA / "throughput_direct.txt").read_bytes())
    assert not {"cached", "unflushed"} & checks(TOOL.parse(tmp_path))


@real
def test_a_real_run_is_read_whole_and_agrees_with_its_reports(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    operations = "0,1,2,3,4,5,6,7"
    workload = load(size="2m", record="64k", operations=operations, excel=True, cpu=True)
    found = run(tmp_path, workload, ToolTarget(str(target), "directory"))
    rates = {name.removesuffix(".bw") for name in values(found) if name.endswith(".bw")}
    assert len(rates) == 13
    assert {"backward_read", "record_rewrite", "refread"} <= rates
    assert {"cached", "unflushed"} <= checks(found)
    assert not list(target.iterdir())


@real
def test_a_real_auto_run_is_one_number_over_all_its_records(tmp_path: Path) -> None:
    aimed = ToolTarget(str(tmp_path / "disk.img"), "file", 2**20)
    (tmp_path / "disk.img").write_bytes(b"mine")
    found = run(tmp_path, load(auto=True, operations="write,read"), aimed)
    numbers = values(found)
    slowest, *others, fastest = sorted(
        numbers[f"read.bw[1024k/{2**power}k]"] for power in range(2, 11)
    )
    assert len(others) == 7, "nine record sizes"
    assert slowest < values(found)["read.bw"] < fastest
    assert (tmp_path / "disk.img").read_bytes() == b"mine"


@real
def test_a_real_run_over_file_sizes_has_every_section_that_was_promised(tmp_path: Path) -> None:
    workload = load(auto=True, min_size="64k", max_size="256k", operations="write,read")
    found = values(run(tmp_path, workload, ToolTarget(str(tmp_path), "directory")))
    assert {f"reread.bw[{each.name}]" for each in TOOL.sectioned(workload)} == {
        name for name in found if name.startswith("reread.bw[")
    }


@real_fio
@pytest.mark.parametrize("threads", [0, 2])
def test_fio_in_its_place_runs_the_same_phases_and_is_labelled(
    tmp_path: Path, threads: int
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    phases = "write, read, random, backward, stride, mixed, pwrite, pread"
    options: dict[str, OptionValue] = {"threads": threads} if threads else {}
    workload = load(stand_in="fio", size="2m", record="16k", operations=phases, **options)
    assert not complaints(workload)
    found = run(tmp_path, workload, ToolTarget(str(target), "directory"))
    assert "stand-in" in checks(found)
    assert "one-after-another" not in checks(found)
    numbers = values(found)
    for phase in (
        "write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read",
        "stride_read", "mixed", "pwrite", "pread",
    ):  # fmt: skip
        moved = 2**21 * max(1, threads)
        if phase == "stride_read":
            moved = 8 * 16384 * max(1, threads)  # every seventeenth of 128 records
        assert numbers[f"{phase}.bytes"] == moved, phase
        assert numbers[f"{phase}.bw"] == pytest.approx(numbers[f"{phase}.iops"] * 16384, rel=1e-3)
    assert all(known_metric(name) for name in numbers)
    assert {each.job for each in found.measurements} == {"all"}
    assert not list(target.iterdir())


@real_fio
def test_fio_in_its_place_without_its_report_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "iozone.fio").write_bytes(b"[global]\n")
    with pytest.raises(FormatError, match="stands in for IOzone"):
        TOOL.parse(tmp_path)


def test_a_recording_of_ours_is_one_of_the_formats(tmp_path: Path) -> None:
    data = (DATA / "throughput_cpu.txt").read_bytes()
    (tmp_path / "stdout").write_bytes(data)
    (recording,) = FORMAT.read(data, "stdout")
    assert TOOL.parse(tmp_path).measurements == recording.measurements
