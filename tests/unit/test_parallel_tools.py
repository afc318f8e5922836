"""elbencho, IOR and mdtest as loads: what a study may say, and which command it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotrial.errors import FormatError, UsageError
from iotrial.model.tool import LoadAccess, SupportsCaching, SupportsLayout, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools import tool

FOLDER = ToolTarget("/mnt/x", "directory")
DATA = Path(__file__).parent.parent / "data"


def load(name: str, **options: OptionValue) -> Workload:
    return Workload("load", name, tuple(options.items()))


def words(name: str, aimed: ToolTarget = FOLDER, **options: OptionValue) -> str:
    return " ".join(tool(name).command(load(name, **options), aimed, {}).argv)


@pytest.mark.parametrize(
    ("name", "options", "command"),
    [
        (
            "elbencho", {"write": True, "r": True, "t": 4, "size": "1m", "block": "64k",
                         "direct": True, "rand": False},
            ("--write --read --threads 4 --size 1m --block 64k --direct --mkdirs"
            " /mnt/x/iotrial-elbencho/data"),
        ),
        ("elbencho", {"write": True, "size": "1m", "dirs": 0, "files": 9},
         "--write --size 1m --dirs 0 --files 9 /mnt/x/iotrial-elbencho/data"),
        ("elbencho", {"stat": True, "files": 9}, "--stat --files 9 /mnt/x/iotrial-elbencho/data"),
        ("ior", {"block": "4m", "t": "64k", "file_per_process": True, "processes": 3,
                 "direct": True},
         "mpirun -n 3 ior -i 1 -b 4m -t 64k -F --posix.odirect -o /mnt/x/iotrial-ior/data/ior"),
        ("ior", {"read": True}, "mpirun -n 1 ior -i 1 -k -r -o /mnt/x/iotrial-ior/data/ior"),
        ("ior", {"read": True, "write": True},
         "mpirun -n 1 ior -i 1 -r -w -o /mnt/x/iotrial-ior/data/ior"),
        ("mdtest", {"items": 100, "files_only": True, "write_bytes": "4k", "processes": 2},
         "mpirun -n 2 mdtest -i 1 -d /mnt/x/iotrial-mdtest/data/mdtest -n 100 -F -w 4096"),
    ],
)  # fmt: skip
def test_options_by_letter_or_name_become_the_command(
    name: str, options: dict[str, OptionValue], command: str
) -> None:
    assert words(name, **options).endswith(command)


@pytest.mark.parametrize(
    ("name", "options", "option", "problem"),
    [
        ("elbencho", {"size": "1m"}, "write", "set what to do"),
        ("elbencho", {"write": True, "w": True}, "w", "already given"),
        ("elbencho", {"write": True, "hosts": "a,b"}, "hosts", "no option 'hosts' here"),
        ("elbencho", {"write": True, "threads": 0}, "threads", "a whole number from 1"),
        ("elbencho", {"write": "yes"}, "write", "true or false"),
        ("elbencho", {"write": True, "size": "4k", "block": "8k"}, "block", "larger than the file"),
        ("elbencho", {"read": True, "rwmixpct": 30}, "rwmixpct", "say write"),
        ("elbencho", {"read": True, "infloop": True}, "infloop", "never end"),
        ("ior", {"block": "1m", "transfer": "3k"}, "block", "not a multiple"),
        ("ior", {"transfer": 0}, "transfer", "it is 0"),
        ("ior", {"api": "HDF5"}, "api", "POSIX, MMAP or MPIIO"),
        ("ior", {"api": "MPIIO", "direct": True}, "direct", "for the API POSIX"),
        ("mdtest", {}, "items", "set how many"),
        ("mdtest", {"n": 5, "F": True, "D": True}, "files_only", "nothing is left"),
        ("mdtest", {"n": 5, "read_bytes": "4k"}, "read_bytes", "more than write_bytes"),
    ],
)
def test_options_that_cannot_work_are_said(
    name: str, options: dict[str, OptionValue], option: str, problem: str
) -> None:
    found = tool(name).check(load(name, **options), {})
    assert any(each == option and problem in what for each, what in found), found
    with pytest.raises(UsageError):
        words(name, **options)


@pytest.mark.parametrize(
    ("name", "options", "touched"),
    [
        ("elbencho", {"write": True}, LoadAccess(reads=False, writes=True)),
        ("elbencho", {"read": True}, LoadAccess(reads=True, writes=False)),
        ("elbencho", {"write": True, "rwmixpct": 10}, LoadAccess(reads=True, writes=True)),
        ("elbencho", {"delfiles": True}, LoadAccess(reads=False, writes=True)),
        ("ior", {}, LoadAccess(reads=True, writes=True)),
        ("ior", {"r": True}, LoadAccess(reads=True, writes=False)),
        ("mdtest", {"n": 5}, LoadAccess(reads=True, writes=True)),
        ("mdtest", {"n": 5, "stat": True}, LoadAccess(reads=True, writes=False)),
        ("mdtest", {"n": 5, "delete": True}, LoadAccess(reads=False, writes=True)),
    ],
)
def test_what_a_load_touches_is_known_before(
    name: str, options: dict[str, OptionValue], touched: LoadAccess
) -> None:
    assert tool(name).reach(load(name, **options)) == touched


def test_whether_io_goes_through_the_page_cache() -> None:
    for name, options, why in (
        ("elbencho", {"read": True}, "no direct = true"),
        ("elbencho", {"read": True, "direct": True}, ""),
        ("elbencho", {"stat": True}, ""),
        ("ior", {}, "no direct = true"),
        ("ior", {"direct": True}, ""),
        ("ior", {"api": "MMAP"}, "api = MMAP"),
        ("mdtest", {"n": 5}, "mdtest's files"),
    ):
        driver = tool(name)
        assert isinstance(driver, SupportsCaching)
        assert driver.buffered(load(name, **options)) == why


def test_files_that_are_only_read_can_be_laid_out_first() -> None:
    for name, options, command in (
        ("elbencho", {"read": True, "size": "1m", "files": 4, "rand": True},
         "--write --size 1m --files 4 --mkdirs /mnt/x/iotrial-elbencho/data"),
        ("ior", {"r": True, "b": "4m", "z": True, "processes": 2},
         "mpirun -n 2 ior -i 1 -b 4m -w -k -o /mnt/x/iotrial-ior/data/ior"),
        ("mdtest", {"T": True, "n": 7},
             "mdtest -i 1 -d /mnt/x/iotrial-mdtest/data/mdtest -n 7 -C"),
    ):  # fmt: skip
        driver = tool(name)
        assert isinstance(driver, SupportsLayout)
        argv = driver.lay_out(load(name, **options), FOLDER, {}).argv
        assert " ".join(argv).endswith(command)


def test_a_target_that_does_not_fit_is_refused_with_what_would() -> None:
    device, file = ToolTarget("/dev/x", "device", 2**30), ToolTarget("/mnt/f", "file", 2**30)
    assert words("elbencho", device, write=True).endswith("--write /dev/x")
    assert words("elbencho", file, write=True).endswith("--write --size 1073741824 /mnt/f")
    assert words("ior", file).endswith("-o /mnt/f")
    for name, aimed, options in (
        ("ior", device, {}), ("mdtest", device, {"n": 5}), ("mdtest", file, {"n": 5}),
        ("elbencho", file, {"write": True, "files": 5}), ("elbencho", FOLDER, {"write": True}),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            words(name, aimed, **options)
        assert caught.value.advice


def test_how_long_it_takes_grows_with_what_it_does_and_ends_with_its_limit() -> None:
    one = tool("elbencho").seconds(load("elbencho", read=True, size="1g"), FOLDER)
    two = tool("elbencho").seconds(load("elbencho", read=True, size="1g", files=4), FOLDER)
    end = tool("elbencho").seconds(load("elbencho", read=True, size="1g", timelimit=9), FOLDER)
    assert end == 12 < one < two
    short = tool("ior").seconds(load("ior", b="1g", r=True), FOLDER)
    assert short < tool("ior").seconds(load("ior", b="1g", processes=4), FOLDER)
    few = tool("mdtest").seconds(load("mdtest", n=100, F=True), FOLDER)
    assert few < tool("mdtest").seconds(load("mdtest", n=100), FOLDER)


@pytest.mark.parametrize(
    ("name", "result", "recorded"),
    [
        ("elbencho", "elbencho.csv", "elbencho/2.0-9.csv"),
        ("ior", "stdout", "ior/4.1dev.one.txt"),
        ("mdtest", "stdout", "mdtest/4.0.0.F.txt"),
    ],
)
def test_one_run_is_read_from_what_it_left(
    tmp_path: Path, name: str, result: str, recorded: str
) -> None:
    with pytest.raises(FormatError, match="wrote no result"):
        tool(name).parse(tmp_path)
    text = (DATA / recorded).read_text()
    if name == "elbencho":
        text = "\n".join(text.splitlines()[:7]) + "\n"
    (tmp_path / result).write_text(text)
    assert tool(name).parse(tmp_path).measurements
