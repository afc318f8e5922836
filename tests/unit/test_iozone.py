"""IOzone: what its text and its spreadsheets say."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import pytest
import xlrd
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats, iozone
from iotrial.formats.iozone import FORMAT
from iotrial.formats.iozone_tables import command
from iotrial.formats.iozone_xls import FORMAT as SHEET
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial.plan.sense import known_metric

DATA = Path(__file__).parent.parent / "data" / "iozone"
NOTHING = {"broken_off", "record_too_large", "throughput_us"}
NAMES = sorted(path.stem for path in DATA.glob("*.txt"))
WITH_RESULTS = [name for name in NAMES if name not in NOTHING]
SHEETS = sorted(path.stem for path in DATA.glob("*.xls"))
KB = 1024


def data(name: str) -> bytes:
    return (DATA / f"{name}.txt").read_bytes()


def recordings(name: str) -> tuple[Recording, ...]:
    return FORMAT.read(data(name), name)


def sheet(name: str) -> tuple[Recording, ...]:
    return SHEET.read((DATA / f"{name}.xls").read_bytes(), name)


def values(found: Recording, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in found.measurements if each.job == job}


def numbers(found: tuple[Recording, ...]) -> list[tuple[object, ...]]:
    return [(r.treatment, m.metric, m.job, m.value) for r in found for m in r.measurements]


def checks(found: Recording) -> set[str]:
    return {doubt.check for doubt in found.doubts}


def doubt_of(found: Recording, check: str) -> str:
    return next(doubt.what for doubt in found.doubts if doubt.check == check)


# --- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_RESULTS)
def test_a_recording_gives_known_metrics_in_their_units(name: str) -> None:
    found = recordings(name)
    for recording in found:
        assert recording.measurements
        assert (recording.tool, recording.workload) == ("iozone", "iozone")
        assert re.fullmatch(r"3\.\d{3}", recording.version)
        assert {"record", "size"} <= dict(recording.treatment).keys()
        for each in recording.measurements:
            assert known_metric(each.metric) == metric(each.metric)
            assert metric(each.metric).unit == each.unit
        keys = {(each.job, each.metric) for each in recording.measurements}
        assert len(keys) == len(recording.measurements)
    assert len({each.treatment for each in found}) == len(found)


@pytest.mark.parametrize("name", NAMES)
def test_iozone_is_recognised_and_nothing_else_is(name: str) -> None:
    assert FORMAT.recognises(data(name), "x") >= 2
    for other in ("bonnie", "dd", "fio"):
        for path in (DATA.parent / other).glob("*.*"):
            assert FORMAT.recognises(path.read_bytes()[:65536], path.name) < 2, path


def test_both_formats_are_plugins() -> None:
    assert formats()["iozone"] is FORMAT
    assert formats()["iozone-xls"] is SHEET


@pytest.mark.parametrize(
    ("name", "at", "expected"),
    [
        ("single", 0, {"write.bw": 321209 * KB, "random_write.iops": 557554 / 16}),
        ("single_ops", 0, {"write.iops": 121177, "read.bw": 897109 * 16384}),
        ("single_us", 0, {"write.lat.mean": 8e-6, "read.lat.mean": 1e-6}),
        ("single_cpu", 0, {"write.cpu": 0.5472, "reread.cpu": 0.7497}),
        ("auto", 1, {"refread.bw": 12902017 * KB}),
        (
            "throughput_direct",
            0,
            {
                "write.bw": 351865.67 * KB,
                "write.bw.parent": 286599.01 * KB,
                "random_write.bw.min": 131565.11 * KB,
                "random_write.bytes.min": 752 * KB,
            },
        ),
        ("throughput_ops", 0, {"read.iops": 683002.88, "read.bytes.min": 61 * 16384}),
        ("throughput_counts", 1, {"read.bw": 10071388.5 * KB}),
        ("throughput_cpu", 0, {"random_read.cpu": 1.9823}),
        ("extended_3.414", 0, {"pwrite.bw": 2203800 * KB, "repreadv.bw": 7100397 * KB}),
        ("extended_3.508", 4, {"repwritev.bw": 7100397 * KB, "read.bw": 20962191 * KB}),
        (
            "touching_3.420",
            0,
            {
                "write.bw": 1338494 * KB,
                "rewrite.bw": 10134284 * KB,
                "stride_read.bw": 18291580 * KB,
            },
        ),
        ("children_3.414", 0, {"reread.bw": 3159870 * KB}),
    ],
)
def test_numbers_come_in_base_units(name: str, at: int, expected: dict[str, float]) -> None:
    found = values(recordings(name)[at])
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-9), key


@pytest.mark.parametrize("name", ["single_gap", "gap_3.414", "gap_3.508"])
def test_a_number_belongs_to_its_test_and_not_to_the_heading_above_it(name: str) -> None:
    """In 3.508 fwrite's number stands below stride read's heading when tests are left out."""
    wanted = {"write", "rewrite", "random_read", "random_write"}
    if name != "single_gap":
        wanted |= {"stride_read", "fwrite", "refwrite"}
    (found,) = recordings(name)
    assert {each.partition(".")[0] for each in values(found)} == wanted
    row = next(line for line in data(name).decode().splitlines() if re.match(r" +256 ", line))
    order = [int(word) * KB for word in row.split()[2:]]
    assert [each.value for each in found.measurements if each.metric.endswith(".bw")] == order


@pytest.mark.parametrize("name", ["single_gap", "gap_3.414", "gap_3.508", "touching_3.420"])
def test_the_columns_are_found_without_the_command_line_too(name: str) -> None:
    without = re.sub(rb"\tCommand line used.*\n", b"", data(name))
    assert without != data(name)
    assert numbers(FORMAT.read(without, name)) == numbers(recordings(name))


def test_a_row_that_lost_a_digit_is_noticed() -> None:
    row = re.compile(rb"(\n +256 +16 +\d+)(\d)( )")
    assert row.search(data("single_gap"))
    with pytest.raises(FormatError, match="do not stand where"):
        FORMAT.read(row.sub(rb"\1\3", data("single_gap"), count=1), "x")


def test_every_operation_of_the_throughput_mode_is_read() -> None:
    (found,) = recordings("throughput")
    assert {name.partition(".")[0] for name in values(found)} == {
        "write", "rewrite", "read", "reread", "backward_read", "stride_read", "random_read",
        "mixed", "random_write", "pwrite", "pread", "fwrite", "fread",
    }  # fmt: skip


def test_cpu_is_taken_beside_each_test_and_not_from_the_table_with_wrong_names() -> None:
    assert "backward_read.cpu" not in values(recordings("throughput_cpu")[0])


def test_each_process_is_a_job() -> None:
    (found,) = recordings("threads")
    assert values(found, "process#1")["write.bw"] == 4352854.0 * KB
    assert values(found, "process#2")["write.bytes"] == 0
    assert ("posix_threads", "1") in found.treatment
    assert ("threads", "2") in found.treatment


def test_what_it_was_run_with_is_its_treatment() -> None:
    (found,) = recordings("throughput_direct")
    expected = (("record", "16k"), ("size", "1024k"), ("threads", "2"), ("direct", "1"))
    assert found.treatment == expected
    counts = [dict(each.treatment)["threads"] for each in recordings("throughput_counts")]
    assert counts == ["1", "2"]


def test_a_retest_that_was_not_asked_for_is_not_zero() -> None:
    names = values(recordings("throughput_no_retest")[0])
    assert names
    assert not [each for each in names if each.startswith(("rewrite", "reread"))]


def test_a_starved_process_is_doubted_and_gives_no_minimum() -> None:
    (found,) = recordings("throughput_plain")
    assert "mixed.bw.min" not in values(found)  # Min = Max = total: the zero was left out
    assert any(d.check == "uneven" and d.what.startswith("mixed") for d in found.doubts)
    assert {"left-out", "not-together"} <= checks(recordings("throughput")[0])
    assert not recordings("throughput_direct")[0].doubts


@pytest.mark.parametrize("name", sorted(NOTHING))
def test_no_result_is_an_error(name: str) -> None:
    with pytest.raises(FormatError, match="no result of IOzone"):
        recordings(name)


def test_the_error_has_the_words_of_iozone() -> None:
    with pytest.raises(FormatError, match="Can not open temp file"):
        recordings("broken_off")


@pytest.mark.parametrize("name", ["killed", "interrupted"])
def test_a_run_that_was_killed_gives_what_it_had_and_a_doubt(name: str) -> None:
    found = recordings(name)
    assert all("broken-off" in checks(each) for each in found)
    assert len(values(found[0])) == 26
    assert 0 < len(values(found[-1])) < 26
    with pytest.raises(FormatError, match="complete"):
        iozone.parse(data(name), name)


def test_a_number_that_is_cut_is_left_out() -> None:
    head = data("auto").partition(b"iozone test complete.")[0].rstrip()
    full = FORMAT.read(head, "x")
    assert "refread.bw" in values(full[-1])
    for cut in range(1, 7):
        found = FORMAT.read(head[:-cut], "x")
        assert values(found[-1]).keys() == values(full[-1]).keys() - {"refread.bw", "refread.iops"}


def test_several_runs_in_one_file_are_several_recordings() -> None:
    names = ["throughput_plain", "single", "broken_off", "gap_3.508", "killed", "auto"]
    joined = b"$ some script\n" + b"\n".join(map(data, names))
    found = FORMAT.read(joined, "x")
    assert numbers(found) == [
        (*rest,) for name in names if name != "broken_off" for rest in numbers(recordings(name))
    ]
    assert "Can not open temp file" in doubt_of(found[0], "no-result")
    assert [each.version for each in found if each.line][-1] == "3.489"


@pytest.mark.parametrize("unit", ["KB", "kB"])
def test_older_spellings_mean_the_same(unit: str) -> None:
    plain = data("throughput_plain").decode()
    older = plain.replace("kBytes/sec", "Kbytes/sec").replace("kByte", "Kbyte")
    older = older.replace("3.489", "3.283").replace(" kB", f" {unit}")
    assert numbers(FORMAT.read(older.encode(), "throughput_plain")) == numbers(
        recordings("throughput_plain")
    )


def test_quoted_crlf_and_stripped_output_says_the_same() -> None:
    for name in ("throughput_direct", "auto", "gap_3.508"):
        lines = data(name).split(b"\n")
        expected = numbers(recordings(name))
        assert numbers(FORMAT.read(b"\r\n".join(lines), name)) == expected
        assert numbers(FORMAT.read(b"\n".join(b"> " + each for each in lines), name)) == expected
        assert numbers(FORMAT.read(b"\n".join(map(bytes.strip, lines)), name)) == expected


def test_a_table_without_its_head_is_read_with_a_doubt() -> None:
    lines = data("auto").decode().split("\n")
    start = next(at for at, line in enumerate(lines) if "reclen" in line)
    (*found,) = FORMAT.read("\n".join(lines[start : start + 5]).encode(), "x")
    assert [values(each) for each in found] == [values(each) for each in recordings("auto")]
    assert {"unit", "excerpt"} <= checks(found[0])


def test_what_was_searched_for_children_is_enough() -> None:
    kept = [line for line in data("throughput_direct").splitlines() if b"see" in line]
    (found,) = FORMAT.read(b"\n".join(kept), "x")
    assert values(found)["write.bw"] == 351865.67 * KB
    assert "excerpt" in checks(found)
    assert "iops" not in " ".join(values(found))  # no record size is said


def test_a_report_alone_is_read_with_a_doubt_about_its_unit() -> None:
    report = data("single_xls").partition(b"Excel output is below:")[2]
    found = FORMAT.read(report, "x")
    assert [values(each) for each in found] == [values(each) for each in recordings("single_xls")]
    assert "unit" in checks(found[0])


def test_a_digit_that_differs_in_the_excel_report_is_an_error() -> None:
    with pytest.raises(FormatError, match="in the report"):
        FORMAT.read(data("single").replace(b'"256"   833776', b'"256"   833777'), "x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"(Avg throughput per process\s+= +)\d", rb"\g<1>9"),
        (rb"(Max throughput per process\s+= +)\d", rb"\g<1>1"),
        (rb"(Children see throughput for +2 rewriters\s+= +)\d", rb"\g<1>1"),
        (rb"\tMax throughput.*\n", b""),
        (rb"(Min xfer\s+= +)(\d)", rb"\g<1>9\2"),
        (rb"Parent sees throughput for  2 rewriters", b"Parent sees throughput for  2 readers"),
        (rb"(CPU utilization +)\d", rb"\g<1>7"),
    ],
)
def test_lines_that_contradict_each_other_are_damaged(old: bytes, new: bytes) -> None:
    damaged = re.sub(old, new, data("throughput_cpu"), count=1)
    assert damaged != data("throughput_cpu")
    with pytest.raises(FormatError):
        FORMAT.read(damaged, "x")


def test_processes_that_do_not_add_up_are_damaged() -> None:
    damaged = data("children_3.414").replace(b"= 3159870.00 KB/sec\n\tChild[1]",
                                             b"= 3159870.00 KB/sec\n\tChild[2]")  # fmt: skip
    assert damaged != data("children_3.414")
    with pytest.raises(FormatError, match="out of turn"):
        FORMAT.read(damaged, "x")


def test_a_mode_whose_rates_do_not_count_makes_the_trial_invalid() -> None:
    more = b"\tVerify Mode. Pattern a5\n\tPerformance measurements are invalid in this mode.\n"
    verified = data("single").replace(b"\tOutput is in", more + b"\tOutput is in")
    (found,) = FORMAT.read(verified, "x")
    assert [doubt.invalid for doubt in found.doubts if doubt.check == "no-rates"] == [True]


def test_a_run_of_several_record_sizes_is_bytes_over_time() -> None:
    parsed = iozone.parse(data("auto"), "auto")
    rates = [values(each)["write.bw"] for each in recordings("auto")]
    sizes = [float(dict(each.treatment)["size"][:-1]) * KB for each in recordings("auto")]
    time = sum(size / rate for size, rate in zip(sizes, rates, strict=True))
    found = {(each.job, each.metric): each.value for each in parsed.measurements}
    assert found["all", "write.bw"] == pytest.approx(sum(sizes) / time)
    assert found["all", "stride_read.iops[64k/32k]"] == pytest.approx(9318832 / 32)
    apart = [m.value for m in parsed.measurements if m.metric.startswith("write.bw[")]
    assert apart == pytest.approx(rates)
    with pytest.raises(FormatError, match="one is wanted"):
        iozone.parse(data("throughput_counts"), "x")


@pytest.mark.parametrize(
    ("line", "tests", "counts"),
    [
        ("iozone -a", None, ()),
        ("./iozone -eIa -i0 -i 2 -i 8", {0, 2}, ()),
        ("iozone -az -i 6 -f -i7", {6}, ()),
        ("iozone -l 2 -u 4 -i 9", {8}, (2, 3, 4)),
        ("iozone -+n -+m file -t 8 -t 16 -F a b -i 1", {1}, (8, 16)),
    ],
)
def test_a_command_line_says_which_tests_were_run(
    line: str, tests: set[int] | None, counts: tuple[int, ...]
) -> None:
    told = command(line)
    assert told is not None
    assert told.tests == tests
    assert told.counts == counts


# --- spreadsheets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "beside"), [("single", "single_xls"), ("counts", "counts_xls"), ("cpu", "cpu_xls")]
)
def test_the_spreadsheet_says_what_the_text_says(name: str, beside: str) -> None:
    found, told = sheet(name), recordings(beside)
    assert len(found) == len(told) > 0
    for one, other in zip(found, told, strict=True):
        assert one.treatment == other.treatment
        assert values(one)
        for key, value in values(one).items():
            loose = 0.0001 if key.endswith(".cpu") else 0.0  # the text rounds it
            assert value == pytest.approx(values(other)[key], rel=1e-6, abs=loose), key


def test_the_command_line_says_the_unit_of_a_spreadsheet() -> None:
    assert set(values(sheet("us")[0])) == {"write.lat.mean", "rewrite.lat.mean"}
    (found,) = sheet("ops")
    assert found.measurements
    assert values(found)["read.bw"] == values(found)["read.iops"] * 16 * KB


@pytest.mark.parametrize("name", SHEETS)
def test_a_spreadsheet_is_read_as_xlrd_reads_it(name: str) -> None:
    path = DATA / f"{name}.xls"
    cells = xlrd.open_workbook(path, logfile=io.StringIO()).sheet_by_index(0)
    rows = [cells.row_values(row) for row in range(cells.nrows)]
    theirs = {cell for row in rows for cell in row if not isinstance(cell, str)}
    assert SHEET.recognises(path.read_bytes(), path.name) == 3
    assert FORMAT.recognises(path.read_bytes(), path.name) == 0
    for recording in sheet(name):
        for each in recording.measurements:
            scales = {KB, 16 * KB, 1, 1e-6, 1 / 16, 1 / 64, 1 / 128, 0.01}
            told = [each.value / scale for scale in scales]
            assert any(abs(a - b) <= 1e-9 * a for a in told for b in theirs), each


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SHEETS), st.data())
def test_a_damaged_spreadsheet_gives_numbers_or_a_format_error(
    name: str, drawn: st.DataObject
) -> None:
    whole = (DATA / f"{name}.xls").read_bytes()
    at = drawn.draw(st.integers(0, len(whole)))
    cut = drawn.draw(st.integers(0, 40))
    inserted = drawn.draw(st.binary(max_size=12))
    try:
        found = SHEET.read(whole[:at] + inserted + whole[at + cut :], "x")
    except FormatError:
        return
    assert all(each.value > 0 for recording in found for each in recording.measurements)
    if cut != len(inserted):
        assert set(numbers(found)) <= set(numbers(sheet(name))), "a shift went unnoticed"


# --- damage ------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_mutated_output_gives_known_numbers_or_a_format_error(
    name: str, drawn: st.DataObject
) -> None:
    whole = data(name)
    lines = whole.split(b"\n")
    kind = drawn.draw(st.sampled_from(["cut", "bytes", "drop", "double", "swap", "joined"]))
    at = drawn.draw(st.integers(0, len(lines) - 1))
    if kind == "cut":
        mutated = whole[: drawn.draw(st.integers(0, len(whole)))]
    elif kind == "bytes":
        place = drawn.draw(st.integers(0, len(whole)))
        gone = drawn.draw(st.integers(0, 80))
        mutated = whole[:place] + drawn.draw(st.binary(max_size=12)) + whole[place + gone :]
    elif kind == "drop":
        mutated = b"\n".join(lines[:at] + lines[at + 1 :])
    elif kind == "double":
        mutated = b"\n".join(lines[: at + 1] + lines[at:])
    elif kind == "swap":
        other = drawn.draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
        mutated = b"\n".join(lines)
    else:
        mutated = whole + data(drawn.draw(st.sampled_from(NAMES)))
    try:
        found = FORMAT.read(mutated, "x")
    except FormatError:
        return
    for recording in found:
        for each in recording.measurements:
            assert metric(each.metric).unit == each.unit
            assert each.value >= 0


@pytest.mark.parametrize("name", ["auto", "throughput_cpu", "children_3.414", "touching_3.420"])
def test_a_changed_digit_is_noticed_where_the_numbers_are_there_twice(name: str) -> None:
    """-R repeats the rates; of the throughput mode all but Parent, and Min, must add up."""
    whole = data(name)
    before = {(str(r), m, j): v for r, m, j, v in numbers(recordings(name))}
    begin = whole.index(b"stride\n" if b"stride\n" in whole else b"File stride size")
    places = [at for at in range(begin, len(whole)) if whole[at : at + 1].isdigit()]
    chance = random.Random(4)
    wrong = []
    for at in chance.sample(places, min(250, len(places))):
        digit = str((int(whole[at : at + 1]) + chance.randint(1, 9)) % 10).encode()
        try:
            found = FORMAT.read(whole[:at] + digit + whole[at + 1 :], name)
        except FormatError:
            continue
        after = {(str(r), m, j): v for r, m, j, v in numbers(found)}
        loose = (".bw.parent", ".bw.min", ".bytes.min", ".cpu", ".bytes")
        wrong += [
            (key, value)
            for key, value in after.items()
            if key in before and abs(value - before[key]) > 1e-8 * before[key] + 0.05 * KB
            and not key[1].endswith(loose)
        ]  # fmt: skip
    assert not wrong


@given(st.binary(max_size=400))
def test_binary_garbage_is_a_format_error(garbage: bytes) -> None:
    for each in (FORMAT, SHEET):
        assert each.recognises(garbage, "x") in (0, 1)
        with pytest.raises(FormatError):
            each.read(garbage, "x")


def test_a_file_of_a_million_lines_ends_in_bearable_time() -> None:
    row = next(line for line in data("auto").splitlines() if re.match(rb" +64 ", line))
    with pytest.raises(FormatError):
        FORMAT.read(b"Iozone: Performance Test of File I/O\n" + b"Children see \n" * 300_000, "x")
    head, _, rest = data("auto").partition(row)
    assert len(FORMAT.read(head + (row + b"\n") * 20_000, "x")) >= 20_000
    assert rest
