"""bonnie++: what its output says, in every version, and what iotrial asks of it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError, UsageError
from iotrial.formats import bonnie as of_table
from iotrial.formats import formats
from iotrial.formats.bonnie import FILES, FORMAT, IO, BonnieRun, parse, runs
from iotrial.model.measurement import metric
from iotrial.model.tool import ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.plan.sense import known_metric
from iotrial.tools import tool
from iotrial.tools.bonnie import TOOL

DATA = Path(__file__).parent.parent / "data" / "bonnie"
RECORDED = sorted(path for path in DATA.iterdir() if path.suffix in (".csv", ".txt"))
VERSIONS = sorted((DATA / "versions").glob("*.csv"))
FACTS = {"cpus": 2.0, "memory": 2.0**33}
FOLDER = ToolTarget("/mnt/x", "directory")
INSIDE = "/mnt/x/iotrial-bonnie/data"
FAST = "+++++,+++"
OLD = f"box,1000M,100,88,200,27,300,8,400,68,500,12,496.2,1,16,19929,100,{','.join([FAST] * 5)}"
NEW = (
    "1.97,1.97,box,4,99,4G,,786,99,17094,3,15431,3,4662,91,37881,4,548.4,17,16,,,,,142,1,"
    "+++++,+++,259,0,141,1,+++++,+++,253,0,10us,11ms,2s,3us,4us,5us,6us,7us,8us,9us,10us,11us"
)
NO_LARGE_FILE = (
    "1.96,1.96,box,1,99,,,,,,,,,,,,,,60,32,32,,,1702,14,2025,12,1332,4,1873,16,2047,13,1266,3,"
    ",,,,,,3874ms,6645ms,8659ms,505ms,7257ms,9627ms"
)
TABLE = """\
Version  {version:<8}   ------Sequential Output------ --Sequential Input- --Random-
{second:<20}-Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP
box             32G {io}
{latency}                    ------Sequential Create------ --------Random Create--------
                    -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
              files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
                 16    81   0 +++++ +++   117   0    80   0 +++++ +++   115   0
"""
WITHOUT_CHARACTERS = "          162171  12 74414   6           229003   8 361.2   1"


def table(version: str = "1.03e", io: str = WITHOUT_CHARACTERS, latency: str = "") -> str:
    return TABLE.format(version=version, second="", io=io, latency=latency)


def values(parsed: ParsedOutput) -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if not each.censored}


def read(text: str) -> dict[str, float]:
    return values(parse(text.encode(), "f"))


def bounds(text: str) -> dict[str, float]:
    found = parse(text.encode(), "f").measurements
    return {each.metric: each.value for each in found if each.censored == "high"}


def doubts(parsed: ParsedOutput) -> dict[str, str]:
    return {each.check: each.what for each in parsed.doubts}


def load(**options: OptionValue) -> Workload:
    return Workload("load", "bonnie++", tuple(options.items()))


def words(aimed: ToolTarget = FOLDER, **options: OptionValue) -> str:
    return " ".join(TOOL.command(load(**options), aimed, FACTS).argv)


def test_a_line_of_1_03_has_no_version_and_its_numbers_are_kib() -> None:
    parsed = parse(OLD.encode(), "f")
    assert values(parsed) == {
        "putc.bw": 102400.0, "putc.cpu": 0.88, "write.bw": 204800.0, "write.cpu": 0.27,
        "rewrite.bw": 307200.0, "rewrite.cpu": 0.08, "getc.bw": 409600.0, "getc.cpu": 0.68,
        "read.bw": 512000.0, "read.cpu": 0.12, "seek.rate": 496.2, "seek.cpu": 0.01,
        "create.seq.rate": 19929.0, "create.seq.cpu": 1.0,
    }  # fmt: skip


def test_what_was_too_fast_is_named_and_is_no_number() -> None:
    (run,) = runs(OLD.encode(), "f")
    assert run.censored == FILES[1:]
    assert set(FILES[1:]) & set(values(parse(OLD.encode(), "f"))) == set()
    said = doubts(parse(OLD.encode(), "f"))["censored"]
    assert all(name in said for name in FILES[1:])
    assert "create.seq" not in said


def test_1_97_has_concurrency_a_seed_and_latencies() -> None:
    found = read(NEW)
    assert found["write.bw"] == 17094 * 1024
    assert found["seek.rate"] == pytest.approx(548.4)
    assert found["delete.random.rate"] == 253
    slowest = {n: v for n, v in found.items() if n.endswith(".lat.max")}
    assert [slowest[f"{n.rpartition('.')[0]}.lat.max"] for n in IO] == pytest.approx(
        [10e-6, 11e-3, 2.0, 3e-6, 4e-6, 5e-6]
    )
    assert slowest["delete.random.lat.max"] == pytest.approx(11e-6)


def test_1_96_leaves_out_a_comma_when_it_leaves_out_the_large_file() -> None:
    found = read(NO_LARGE_FILE)
    assert found["create.seq.rate"] == 1702
    assert found["delete.random.rate"] == 1266
    assert found["create.seq.lat.max"] == pytest.approx(3.874)
    assert not {name.partition(".")[0] for name in found} & {"write", "read", "putc", "seek"}


def test_1_98_has_two_columns_more_than_1_97() -> None:
    fields = NEW.split(",")
    later = ",".join(["1.98", "2.00a", *fields[2:7], "8192", "5", *fields[7:]])
    assert read(later) == read(NEW)
    with pytest.raises(FormatError, match=r"line 1: 50 fields; format 1\.97 has 48"):
        read(later.replace("1.98,2.00a", "1.97,1.97"))
    with pytest.raises(FormatError, match=r"line 1: 48 fields; format 1\.98 has 50"):
        read(NEW.replace("1.97,1.97", "1.98,1.98"))


@pytest.mark.parametrize("path", [p for p in RECORDED if p.suffix == ".csv"], ids=lambda p: p.name)
def test_a_recording_and_its_table_agree_as_far_as_the_table_can_be_trusted(path: Path) -> None:
    exact = values(parse(path.read_bytes(), "f"))
    printed = parse(path.with_suffix(".txt").read_bytes(), "f")
    (row,), (drawn,) = (runs(p.read_bytes(), "f") for p in (path, path.with_suffix(".txt")))
    assert set(drawn.censored) <= set(row.censored)
    assert set(row.censored) - set(drawn.censored) <= set(FILES)
    assert {n for n in exact if n.partition(".")[0] not in ("create", "stat", "delete")} == {
        n for n in values(printed) if n.partition(".")[0] not in ("create", "stat", "delete")
    }
    for name, value in values(printed).items():
        assert value == pytest.approx(exact[name], rel=0.05)
    assert not any(name in values(printed) for name in FILES)


def test_numbers_of_files_in_the_table_of_2_00_are_not_taken_for_rates() -> None:
    text = (DATA / "files-2.00a.txt").read_text()
    assert re.search(r"\b1024 +\d+ ", text)  # 1 × 1024 files, in a column headed /sec
    parsed = parse(text.encode(), "f")
    assert "create.seq.rate" not in values(parsed)
    assert "create.seq.lat.max" in values(parsed)
    assert "numbers of files" in doubts(parsed)["bonnie-table"]


def test_a_table_of_1_03_is_read_by_its_columns() -> None:
    found = read(table())
    assert found["write.bw"] == 162171 * 1024
    assert found["read.bw"] == 229003 * 1024
    assert found["seek.rate"] == pytest.approx(361.2)
    assert found["create.seq.rate"] == 81
    assert found["delete.random.rate"] == 115
    assert not {"putc.bw", "getc.bw", "stat.seq.rate"} & set(found)


def test_a_whole_row_may_be_wider_than_its_heading() -> None:
    io = "147392  63 1591090  15 3077400   5 4203100  56 74651   6 146.9   0"
    found = read(table(io=io))
    assert [found[name] for name in IO] == pytest.approx(
        [n * 1024 for n in (147392, 1591090, 3077400, 4203100, 74651)] + [146.9]
    )


def test_latencies_of_a_table_stand_in_their_columns() -> None:
    row = "Latency                        1992ms    2372ms              1200ms     289ms\n"
    found = read(table("1.97", latency=row))
    assert found["write.lat.max"] == pytest.approx(1.992)
    assert found["seek.lat.max"] == pytest.approx(0.289)
    assert "putc.lat.max" not in found


def test_several_lines_are_several_runs() -> None:
    data = f"{OLD}\n{NEW}\n".encode()
    assert [(run.name, run.version, run.line) for run in runs(data, "f")] == [
        ("box", "", 1), ("box", "1.97", 2),
    ]  # fmt: skip
    with pytest.raises(FormatError, match=r"2 runs of bonnie\+\+ \(lines 1, 2\)"):
        parse(data, "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("a,b,c,d,e,f,g,h,i", "neither CSV nor a table"),
        (OLD[:-4], "line 1: 26 fields"),
        (OLD.replace("1000M", ""), "without its size"),
        (NEW.replace(",16,,,,,", ",,,,,,"), "without their number"),
        (NEW.replace("box,4,", "box,x,"), "'x' is not a count"),
        (OLD.replace("19929", "x"), r"create.seq.rate: 'x' is not a number"),
        (OLD.replace("19929", "nan"), "is not a number"),
        (OLD.replace("1000M", "1000X"), "'1000X' is not a size"),
        (OLD.replace(",88,", ",,", 1), "putc CPU: '' is not a number"),
        (OLD.replace(",100,88", ",+++++,88", 1), r"putc.bw: '\+\+\+\+\+' is not a number"),
        (NEW.replace("11ms", "11"), "latency of write.bw: '11' is not a time"),
        (NEW.replace("1.97,1.97", "2.05,2.05"), "CSV format 2.05"),
        (NEW[:100], "format 1.97 has 48"),
        (table().partition("box")[0], "ends before its numbers"),
        (table(io="          162171  12 74414   6     229003   8   361.2   1"), "column 4"),
    ],
)
def test_what_is_not_whole_is_an_error_with_its_line(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read(text)


def test_bytes_that_are_no_text_are_an_error() -> None:
    with pytest.raises(FormatError, match=r"f: line 2: byte 3 is NUL"):
        parse(b"ab\n\0", "f")


def numbers(run: BonnieRun) -> dict[str, tuple[float, str]]:
    return {each.metric: (each.value, each.censored) for each in run.measurements}


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_every_version_says_the_same_in_its_csv_and_in_its_tables(path: Path) -> None:
    said = runs(path.read_bytes(), "f")
    drawn = runs(path.with_suffix(".txt").read_bytes(), "f")
    assert len(said) == len(drawn) == 3
    for one, other in zip(said, drawn, strict=True):
        assert other.version == path.stem
        assert one.version in ("", path.stem)
        exact, printed = numbers(one), numbers(other)
        if path.stem == "2.00":  # rounded; its rates of files are not rates
            exact = {name: exact[name] for name in printed}
        assert set(printed) == set(exact)
        for name, (value, censored) in printed.items():
            assert censored == exact[name][1]
            if censored and not one.version:  # a line without a version or a size may be of 1.00
                assert exact[name][0] in (value, value / 2)
                continue
            rounded = 0.05 if path.stem == "2.00" else 1e-9
            near = 0.5 if name == "seek.rate" else 0.0
            assert value == pytest.approx(exact[name][0], rel=rounded, abs=near)


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_tables_with_their_csv_are_the_same_runs_once(path: Path) -> None:
    csv = path.read_bytes()
    both = runs(
        path.with_suffix(".txt").read_bytes() + b"\nWriting a byte at a time...\n" + csv, "f"
    )
    assert [numbers(run) for run in both] == [numbers(run) for run in runs(csv, "f")]


def test_what_was_too_fast_is_at_least_the_amount_in_half_a_second() -> None:
    fast = OLD.replace("200,27,300,8", f"{FAST},{FAST}").replace("496.2,1", FAST)
    assert bounds(fast) == {
        "write.bw": 1000 * 2**20 / 0.5,
        "rewrite.bw": 1000 * 2**20 / 0.5,
        "seek.rate": 8192 / 0.5,
        **dict.fromkeys(FILES[1:], 16 * 1024 / 0.5),
    }


def test_in_1_00_too_fast_is_less_than_a_second_and_it_seeks_8000_times() -> None:
    first = runs((DATA / "versions/1.00c.csv").read_bytes(), "f")[0]
    assert numbers(first)["write.bw"] == (32 * 2**20, "high")
    assert bounds(OLD.replace("1000M", "1000").replace("496.2,1", "+++++,7"))["seek.rate"] == 8000


def test_nobody_knows_how_many_characters_1_97_moved() -> None:
    (run,) = runs(NEW.replace("786,99", FAST).encode(), "f")
    assert "putc.bw" in run.censored
    assert "putc.bw" not in numbers(run)


def test_1_98_says_how_often_it_sought() -> None:
    fields = NEW.replace("548.4,17", FAST).split(",")
    later = ",".join(["1.98", "2.00a", *fields[2:7], "100", "5", *fields[7:]])
    assert bounds(later)["seek.rate"] == 200


def test_sizes_that_32_bits_cannot_count_have_no_rates() -> None:
    parsed = parse(NEW.replace(",4G,", ",3T,").encode(), "f")
    assert not {"write.bw", "read.bw", "rewrite.bw"} & set(values(parsed))
    assert values(parsed)["write.lat.max"] == pytest.approx(0.011)
    assert "write.bw" in doubts(parsed)["overflow"]
    assert read(OLD.replace("1000M", "3T"))["write.bw"] == 200 * 1024  # 1.03 counts in doubles


def test_a_recording_says_of_which_machine_and_how_it_was_run() -> None:
    text = f"prose, with a comma\n{OLD}\n> {NEW}\n"
    assert formats()["bonnie++"] is FORMAT
    assert FORMAT.recognises(text.encode(), "x") == 3
    one, other = FORMAT.read(text.encode(), "f")
    assert (one.tool, one.workload, one.name, one.version, one.line) == (
        "bonnie++", "bonnie++", "box", "", 2,
    )  # fmt: skip
    assert one.treatment == (("size", "1000M"), ("files", "16"))
    assert other.treatment == (("size", "4G"), ("files", "16"), ("concurrency", "4"))
    shaped = FORMAT.read(OLD.replace("1000M", "4G:16k").replace(",16,", ",2:99:9/3,").encode(), "f")
    assert shaped[0].treatment == (("size", "4G"), ("chunk", "16k"), ("files", "2:99:9/3"))


def test_a_line_that_stands_there_twice_is_one_run() -> None:
    (run,) = runs(f'{OLD}\n\n    $ echo "{OLD}" | bon_csv2txt\n'.encode(), "f")
    assert {each.check for each in run.doubts} == {"censored", "copy"}


@pytest.mark.parametrize("name", ['"box, two"', "box, two"])
def test_a_name_may_have_a_comma(name: str) -> None:
    assert [run.name.strip('"') for run in runs(OLD.replace("box", name).encode(), "f")] in (
        ["box, two"], ["box,two"],
    )  # fmt: skip
    (run,) = runs(NEW.replace("box", name).encode(), "f")
    assert numbers(run)["write.bw"] == (17094 * 1024, "")


def test_a_table_of_several_machines_is_several_runs() -> None:
    io = "one           1000M 34694  88 39045  27 19030   8 36912  68 63545  12 496.2   1\n"
    more = "one              16 19929 100 +++++ +++ 32373  99 +++++ +++ +++++ +++ +++++ +++\n"
    head, second = table().split("box             32G")[0], table().split("\n", 4)[4]
    foot = "\n".join(second.splitlines()[:-1])
    text = f"{head}{io}{io.replace('one', 'two')}{foot}\n{more}{more.replace('one', 'two')}"
    found = runs(text.encode(), "f")
    assert [run.name for run in found] == ["one", "two"]
    assert all(numbers(run)["create.seq.rate"] == (19929, "") for run in found)
    with pytest.raises(FormatError, match="2 runs with 1 runs of files"):
        runs(f"{head}{io}{io}{foot}\n{more}".encode(), "f")


def test_an_indented_table_is_read_by_its_columns_too() -> None:
    quoted = "".join(f"> {line}\n" for line in table().splitlines())
    assert read(quoted) == read(table())


def test_a_table_and_the_line_below_it_must_agree() -> None:
    row = f"box,32G,,,162171,12,74414,6,,,229003,8,361.2,1,16,81,0,{FAST},117,0,80,0,{FAST},115,0"
    assert len(runs(f"{table()}{row}\n".encode(), "f")) == 1
    with pytest.raises(FormatError, match=r"line 9: not the numbers of the table on line 1"):
        runs(f"{table()}{row.replace('162171', '162117')}\n".encode(), "f")


def test_bonnie_before_bonnie_is_read_too() -> None:
    text = (
        "              -------Sequential Output-------- ---Sequential Input-- --Random--\n"
        "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n"
        "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU\n"
        "box       100  3392 95.1  5150 21.7  2081 17.7  3211 92.2  4994 21.2   75.2  4.6\n"
    )
    (one,) = FORMAT.read(text.encode(), "f")
    assert (one.tool, one.name, one.treatment) == ("bonnie", "box", (("size", "100M"),))
    found = {each.metric: each.value for each in one.measurements}
    assert found["write.bw"] == 5150 * 1024
    assert found["seek.cpu"] == pytest.approx(0.046)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    texts = [path.read_bytes() for path in RECORDED]
    texts += [
        path.with_suffix(suffix).read_bytes() for path in VERSIONS for suffix in (".csv", ".txt")
    ]
    texts += [text.encode() for text in (OLD, NEW, NO_LARGE_FILE, table())]
    data = bytearray(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 6))
        data[at:end] = draw(st.binary(max_size=6) | st.sampled_from([b",", b"+++", b"9", b"ms"]))
    return bytes(data)


@settings(max_examples=200, deadline=None)
@given(mutations())
def test_a_mutated_output_gives_sound_numbers_or_a_format_error(data: bytes) -> None:
    assert 0 <= FORMAT.recognises(data, "f") <= 3
    try:
        found = FORMAT.read(data, "f")
    except FormatError as error:
        if not str(error).startswith("f: "):
            pytest.fail(f"does not name the file: {error}")
        return
    for each in (each for run in found for each in run.measurements):
        assert math.isfinite(each.value)
        assert each.value >= 0
        assert each.unit == metric(each.metric).unit
        assert known_metric(each.metric) is not None


@pytest.mark.parametrize("name", [*IO, *FILES])
def test_a_study_may_decide_by_what_bonnie_measures(name: str) -> None:
    found = known_metric(name)
    assert found is not None
    assert found.higher is True
    assert known_metric(f"{name.rpartition('.')[0]}.lat.max") is not None


@pytest.mark.parametrize("name", ["create.some.rate", "putc.seq.bw", "putc.x", "create.seq"])
def test_no_other_names_are_metrics(name: str) -> None:
    assert known_metric(name) is None


def test_the_registry_finds_it() -> None:
    assert tool("bonnie++") is TOOL
    assert TOOL.reach(load(size=0)).writes


def test_what_a_study_says_is_said_to_bonnie() -> None:
    assert words(size="2G:16k", files="1:100:10:3", fast=True, sync=True, seed=5) == (
        f"bonnie++ -d {INSIDE} -q -m iotrial -s 2048:16k -n 1:100:10:3 -r 0 -f -b -z 5 -u root"
    )
    assert words(s="2*memory", n=1, c=4, u="nobody:nogroup") == (
        f"bonnie++ -d {INSIDE} -q -m iotrial -s 16384 -n 1 -r 0 -c 4 -u nobody:nogroup"
    )
    assert words(size="64MiB", files=0, direct=True, fast=True, user="", ram=16) == (
        f"bonnie++ -d {INSIDE} -q -m iotrial -s 64 -n 0 -r 16 -f -D"
    )


@pytest.mark.parametrize(
    ("options", "option", "problem"),
    [
        ({}, "size", "say it"),
        ({"size": "big"}, "size", "unknown name 'big'"),
        ({"size": "64M:x"}, "size", "not a size such as"),
        ({"size": -5}, "size", "less than a MiB"),
        ({"size": 64, "s": 64}, "s", "it is size, which is already given"),
        ({"size": 0, "files": 0}, "files", "nothing is left"),
        ({"size": 64, "x": 2}, "x", "in random order"),
        ({"size": 64, "fast": 1}, "fast", "true or false"),
        ({"size": 64, "user": "root; id"}, "user", "a user such as root"),
        ({"size": 64, "files": "many"}, "files", "a number of files"),
        ({"size": 64, "direct": True}, "direct", "add fast = true"),
        ({"size": 64, "ram": 64}, "ram", "below twice"),
        ({"size": 64, "Z": "f"}, "Z", "no option 'Z'"),
    ],
)
def test_what_cannot_work_is_said_before(
    options: dict[str, OptionValue], option: str, problem: str
) -> None:
    assert problem in dict(TOOL.check(load(**options), FACTS))[option]
    with pytest.raises(UsageError):
        TOOL.command(load(**options), FOLDER, FACTS)


@pytest.mark.parametrize("kind", ["device", "file"])
def test_it_works_in_directories_only(kind: str) -> None:
    aimed = ToolTarget("/dev/loop7", "device") if kind == "device" else ToolTarget("/f", "file")
    with pytest.raises(UsageError, match="works in a directory"):
        words(aimed, size=64)


@pytest.mark.parametrize(
    ("options", "doubted"),
    [
        ({"size": "64M"}, True),
        ({"size": "2*memory"}, False),
        ({"size": "64M", "direct": True, "fast": True}, False),
        ({"size": "64M", "ram": 16}, False),
        ({"size": 0}, False),
    ],
)
def test_a_file_in_the_page_cache_is_doubted(
    tmp_path: Path, options: dict[str, OptionValue], *, doubted: bool
) -> None:
    for name, content in TOOL.command(load(**options), FOLDER, FACTS).files:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "stdout").write_text(NEW + "\n")
    parsed = TOOL.parse(tmp_path)
    assert ("page-cache" in doubts(parsed)) is doubted
    assert values(parsed) == read(NEW)


def test_no_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="wrote no result"):
        TOOL.parse(tmp_path)


def test_a_run_takes_longer_the_more_it_does() -> None:
    least = TOOL.seconds(load(size=0, files=0), FOLDER)
    large = TOOL.seconds(load(size="1G", files=0, fast=True), FOLDER)
    both = TOOL.seconds(load(size="1G", files=0), FOLDER)
    assert least < large < both < TOOL.seconds(load(size="1G"), FOLDER)


def test_it_has_no_version_to_ask_for_but_another_program_is_noticed() -> None:
    assert TOOL.version_problem("bonnie++: invalid option -- '-'") == ""
    assert "not bonnie++" in TOOL.version_problem("bonnie 7")


@pytest.mark.parametrize(
    "row",
    [
        "fileserver-17.example 256G           412345  45 198765  33           523456  41 812.3   2",
        "  box           256G           412345  45 198765  33           523456  41 812.3   2",
        "box            256G           1412345 100 1198765 100           2523456 100 12812.3 100",
    ],
)
def test_a_row_that_is_moved_to_the_right_keeps_its_columns(row: str) -> None:
    lines = table(io="").split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("box"))
    found = read("\n".join([*lines[:at], row, *lines[at + 1 :]]))
    words = row.split()
    assert [found[name] for name in ("write.bw", "rewrite.bw", "read.bw", "seek.rate")] == (
        pytest.approx([*(float(words[n]) * 1024 for n in (2, 4, 6)), float(words[8])])
    )
    assert not {"putc.bw", "getc.bw"} & set(found)


COLUMN = st.tuples(
    st.just("+++++") | st.integers(0, 20_000_000).map(str),
    st.just("+++") | st.integers(0, 800).map(str),
)


@given(st.lists(st.just(("", "")) | COLUMN, min_size=6, max_size=6).filter(any))
def test_whatever_bonnie_prints_as_a_row_is_read_back(columns: list[tuple[str, str]]) -> None:
    row = "box".ljust(16) + "24G" + "".join(f" {value:>5} {cpu:>3}" for value, cpu in columns)
    lines = table(io="").split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("box"))
    lines[at] = row.rstrip()
    (found,) = of_table.table(lines, range(len(lines)), "f")
    assert found.cells[:6] == tuple(columns)


def test_numbers_that_run_together_are_refused_in_words() -> None:
    with pytest.raises(FormatError, match="no value and CPU with blanks between"):
        read(table(io=" 98765  97412345  45198765  33 87654  95523456  41 812.3   2"))
