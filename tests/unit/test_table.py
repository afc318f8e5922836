"""A table of numbers: what its columns are, what its cells say, and what becomes of damage."""

from __future__ import annotations

import io
import math
import tomllib
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial_import.formats.table import FORMAT, tables
from iotrial_import.formats.table_columns import columns_from, is_date, to_toml
from iotrial_import.formats.table_rows import columns_of, guess
from iotrial_import.formats.table_xlsx import FORMAT as XLSX
from mutants import mutants

DATA = Path(__file__).parent.parent / "data" / "table"
RECORDED = sorted(path for path in DATA.iterdir() if path.name != "README.md")
OPS = """\
storage,op,threads,value_kib_s,note
lun,read,4,100,
lun,random_read,4,50,slow
lun,read,8,200,
nas,random_read,8,25,
"""
LONG = """\
scheduler,metric,value,unit,cpu_pct,suppressed
cfq,seq_out_block,100,K/sec,27,false
cfq,random_seeks,496.2,/sec,1,false
cfq,seq_stat,,files/sec,,true
noop,seq_out_block,90,K/sec,20,false
noop,random_seeks,400,/sec,1,false
noop,seq_stat,300,files/sec,9,false
"""


def read(text: str, said: str = "") -> tuple[Recording, ...]:
    columns = columns_from(tomllib.loads(said)) if said else None
    return FORMAT.read(text.encode(), "f.csv", columns)


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements}


def only(text: str, said: str = "") -> list[dict[str, float]]:
    return [values(each) for each in read(text, said)]


def guessed(text: str) -> dict[str, object]:
    return dict(tomllib.loads(to_toml(columns_of(tables(text.encode(), "f")[0], None)))["columns"])


def test_each_row_is_a_recording_with_its_line() -> None:
    first, second, *_ = read(OPS)
    assert (first.workload, first.line, values(first)) == ("read", 2, {"read.bw": 102400.0})
    assert first.treatment == (("storage", "lun"), ("threads", "4"))
    assert (second.workload, second.line) == ("random_read", 3)
    assert values(second) == {"random_read.bw": 51200.0}


def test_what_was_guessed_can_be_written_down_and_read_again() -> None:
    for text in (OPS, LONG, 'disk,"a ""b"" (ms)"\nx,1\ny,2\n'):
        found = columns_of(tables(text.encode(), "f")[0], None)
        assert columns_from(tomllib.loads(to_toml(found))) == found


def test_a_person_corrects_the_guess_and_the_rest_stays() -> None:
    said = '[columns]\nvalue_kib_s = { metric = "bw", unit = "MB/s" }\nthreads = "note"'
    first = read(OPS, said)[0]
    assert values(first) == {"read.bw": 100e6}
    assert first.treatment == (("storage", "lun"),)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('value_kib = "note"', "no column 'value_kib'\n  did you mean 'value_kib_s'"),
        ('op = "wrkload"', "'wrkload' is not a role\n  did you mean 'workload'"),
        ('op = { metric = "bx" }', "unknown metric 'bx'"),
        ('op = { metric = "bw", unit = "ms" }', "bw is in bytes/s, 'ms' is not"),
        ('op = { metric = "bw", unit = "Mb/s" }', "is ambiguous (bits or bytes)"),
        ('op = { metrik = "bw" }', "unknown key 'metrik'"),
        ("op = 3", "neither a role nor a table"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused(said: str, problem: str) -> None:
    with pytest.raises(UsageError) as failure:
        read(OPS, f"[columns]\n{said}")
    assert problem in str(failure.value)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("KB/s", 1e3), ("KiB/s", 1024.0), ("MB/s", 1e6), ("MiB/s", 2**20), ("GB/s", 1e9),
     ("GiB/s", 2**30), ("bytes/s", 1.0), ("K/sec", 1024.0), ("Gbit/s", 1e9 / 8)],
)  # fmt: skip
def test_a_rate_means_what_is_said(unit: str, factor: float) -> None:
    said = f'[columns]\nx = {{ metric = "read.bw", unit = "{unit}" }}'
    assert only("disk,x\na,3\nb,4\n", said)[0] == {"read.bw": pytest.approx(3 * factor)}


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("read_kiops", "read.iops", 2000.0), ("IOPS", "total.iops", 2.0),
        ("latency_ms", "total.lat.mean", 0.002), ("p99 latency (us)", "total.lat.p99", 2e-6),
        ("clat_p99_95_us", "total.clat.p99.95", 2e-6), ("Write MB/s", "write.bw", 2e6),
        ("random read [MiB/s]", "random_read.bw", 2.0 * 2**20), ("cpu_usr_pct", "cpu.usr", 0.02),
        ("seconds", "total.seconds", 2.0), ("Throughput, kB/s", "total.bw", 2000.0),
        ("files/s", "total.rate", 2.0), ("write lat max (ms)", "write.lat.max", 0.002),
        ("99.9th percentile (ms)", "total.lat.p99.9", 0.002), ("tps", "total.rate", 2.0),
    ],
)  # fmt: skip
def test_a_header_says_metric_and_unit(header: str, name: str, value: float) -> None:
    first = only(f'disk;"{header}"\na;2\nb;3\n')[0]
    assert first == {name: pytest.approx(value)}


def test_a_header_without_a_unit_is_asked_for_it() -> None:
    with pytest.raises(FormatError, match=r"line 2, column bw: '120' has no unit"):
        read("scheduler,bw\nnoop,120\ncfq,130\n")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", "  "])
def test_every_separator_gives_the_same(mark: str) -> None:
    rows = [["sched", "depth", "read MB/s"], ["noop", "4", "1.5"], ["cfq", "8", "2.5"]]
    text = "\n".join(mark.join(row) for row in rows) + "\n"
    assert only(text) == [{"read.bw": 1.5e6}, {"read.bw": 2.5e6}]


def test_markdown_and_drawn_tables_are_read_between_other_text() -> None:
    rows = "| sched | IOPS |\n|:--|--:|\n| a | **12** |\n| b | 13 |\n"
    text = f"# Results\n\nSee | below\n\n{rows}\nEnd.\n"
    assert [each.line for each in read(text)] == [7, 8]
    drawn = "+---+------+\n| s | IOPS |\n+---+------+\n| a | 12   |\n| b | 13   |\n+---+------+\n"
    assert only(drawn) == only(text) == [{"total.iops": 12.0}, {"total.iops": 13.0}]


def test_decimal_commas_and_grouped_thousands_are_told_apart() -> None:
    assert only("s;MB/s\na;1.110,25\nb;0,5\n") == [{"total.bw": 1110250000.0}, {"total.bw": 5e5}]
    assert only("s\tIOPS\na\t1,234.5\nb\t2,345\n") == [{"total.iops": 1234.5}, {"total.iops": 2345}]
    assert only("s\tIOPS\na\t1,234,567\nb\t2,345\n")[1] == {"total.iops": 2345}
    unclear = "s\tIOPS\na\t1,234\nb\t2,345\n"
    with pytest.raises(FormatError, match="thousand times more or less"):
        read(unclear)
    said = 'decimal = "{}"\n[columns]\ns = "factor"'
    assert only(unclear, said.format("."))[0] == {"total.iops": 1234}
    assert only(unclear, said.format(","))[0] == {"total.iops": 1.234}
    assert only("s;IOPS\na;1,234\nb;2,345\n")[0] == {"total.iops": 1.234}
    with pytest.raises(FormatError, match="line 2: '1,234' may be a thousand times"):
        read("s;IOPS\na;1,234\nb;950\n")
    with pytest.raises(FormatError, match="is the comma or the point the decimal mark"):
        read("s\tIOPS\na\t1,5\nb\t2.5\n")


def test_a_unit_in_the_cell_counts() -> None:
    text = "s,throughput,latency\na,120 MB/s,230us\nb,1.2 GiB/s,1.5 ms\n"
    assert only(text)[1] == {
        "total.bw": pytest.approx(1.2 * 2**30), "total.lat.mean": pytest.approx(0.0015)
    }  # fmt: skip
    with pytest.raises(FormatError, match="line 2, column lat_ms: '3 GB/s' is in GB/s"):
        read("s,lat_ms\na,3 GB/s\nb,3\n")


def test_what_is_missing_is_no_number_and_what_is_cut_off_is_named() -> None:
    text = "s,read_iops,lat_ms\na,n/a,1\nb,,>16712\nc,+++++,<2\nd,5,-\n"
    a, b, c, d = read(text)
    assert (values(a), values(d)) == ({"total.lat.mean": 0.001}, {"read.iops": 5.0})
    assert [(m.value, m.censored) for m in b.measurements] == [(16.712, "high")]
    assert [(m.value, m.censored) for m in c.measurements] == [(0.002, "low")]
    assert "read.iops" in c.doubts[0].what
    assert c.doubts[0].check == "censored"


def test_the_top_of_an_old_fio_s_percentiles_is_censored() -> None:
    first = read("op,p99_ms,p99_9_ms\nread,16711,16712\nwrite,1,2\n")[0]
    assert [m.censored for m in first.measurements] == ["", "high"]


def test_a_long_table_is_one_recording_a_treatment() -> None:
    cfq, noop = read(LONG)
    assert (cfq.treatment, cfq.line, noop.line) == ((("scheduler", "cfq"),), 2, 5)
    assert values(cfq) == {
        "write.bw": 102400.0, "write.cpu": 0.27, "seek.rate": 496.2, "seek.cpu": 0.01
    }  # fmt: skip
    assert cfq.doubts[0].what.endswith(": stat.seq.rate")
    assert values(noop)["stat.seq.rate"] == 300
    assert noop.doubts == ()


def test_a_repeated_long_table_is_as_many_recordings() -> None:
    again = LONG + "".join(LONG.splitlines(keepends=True)[1:])
    assert [each.line for each in read(again)] == [2, 5, 8, 11]


def test_a_column_that_another_decides_is_told_all_the_same() -> None:
    text = "workload,block_kib,arrays,hosts,read_kiops\n" + "".join(
        f"{w},{4 if w == 'a' else 8},{n},{3 if n == 1 else 4},{n + 1}\n"
        for w in "ab"
        for n in (1, 2, 3)
    )
    found = guessed(text)
    assert [found[n] for n in ("workload", "block_kib", "arrays", "hosts")] == [
        "workload", "factor", "factor", "factor",
    ]  # fmt: skip


def test_repeats_and_names_are_no_factors() -> None:
    text = "id,op,bs,run,iops\n" + "".join(
        f"r{i},read,{4 * (i // 2 + 1)}k,{i % 2 + 1},{i}\n" for i in range(6)
    )
    found = guessed(text)
    assert (found["id"], found["bs"], found["run"]) == ("name", "factor", "repeat")
    assert read(text)[1].name == "r1 run 2"
    assert read(text)[1].treatment == (("bs", "4k"),)


DIARY = """\
op,scheduler,size,when,who,what happened,bw_mb_s
read,noop,4k,2007-03-01,anna,first try,100
read,cfq,4k,2007-03-01,anna,array was rebuilding,120
read,noop,8k,2007-03-02,ben,fine,101
read,cfq,8k,2007-03-02,ben,fine,119
write,noop,4k,2007-03-02,ben,cable changed before,100
write,cfq,4k,2007-03-03,anna,second try after reboot,120
write,noop,8k,2007-03-03,ben,fan replaced,101
write,cfq,8k,2007-03-04,anna,all good now,119
"""


def test_dates_and_texts_of_which_almost_none_comes_again_are_no_factors() -> None:
    found = guessed(DIARY)
    assert [name for name, role in found.items() if role == "factor"] == [
        "scheduler", "size", "who",
    ]  # fmt: skip
    assert (found["when"], found["what happened"]) == ("note", "name")


def test_sentences_are_no_factor_even_where_they_come_again() -> None:
    said = ("it was slow on this day", "nothing else ran at that time")
    rows = "".join(f"read,{n % 3}k,{said[n % 2]},{n}\n" for n in range(12))
    assert guessed(f"op,bs,observed,bw_mb_s\n{rows}")["observed"] == "note"


def test_a_person_makes_a_factor_of_a_date() -> None:
    first = read(DIARY, '[columns]\nwhen = "factor"')[0]
    assert ("when", "2007-03-01") in first.treatment


@pytest.mark.parametrize(
    "cell",
    ["2007-03-01", "2007-03-01T10:00:00Z", "1.3.2007", "3/1/07", "1 Mar 2007", "March 1st, 2007",
     "Thu Mar  1 10:00:00 2007", "10:00:01", "01/03/2007 9:05 PM"],
)  # fmt: skip
def test_a_day_or_a_time_is_told_from_a_level(cell: str) -> None:
    assert is_date(cell)


@pytest.mark.parametrize("cell", ["2.6.18", "70:30", "64k", "mar", "8/2", "2007", "1:1", ""])
def test_a_version_or_a_mix_is_no_date(cell: str) -> None:
    assert not is_date(cell)


def test_gb_is_gib_where_iops_times_block_size_says_so() -> None:
    text = "workload,block_kib,total_kiops,bandwidth_gb_s\na,4,2980,11.38\nb,8,2304,17.57\n"
    assert guessed(text)["bandwidth_gb_s"] == {"metric": "bw", "unit": "GiB/s"}
    decimal = "workload,block_kib,total_kiops,bandwidth_gb_s\na,4,2980,12.2\nb,8,2304,18.87\n"
    assert guessed(decimal)["bandwidth_gb_s"] == {"metric": "bw", "unit": "GB/s"}


def test_guess_takes_a_header_and_rows() -> None:
    found = guess(["op", "iops"], [["read", "1"], ["write", "2"]])
    assert [each.role for each in found.columns] == ["workload", "value"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op,iops\nread,1x\nwrite,2\n", r"line 2, column iops: '1x' is not a number"),
        ("op,iops\nread,-1\nwrite,2\n", r"line 2, column iops: '-1' is below zero"),
        ("op,iops\nread,1e999\nwrite,2\n", r"line 2, column iops: '1e999' is beyond"),
        ("op,iops\nread,1\nwrite\n", r"line 3: 1 cells; the header has 2"),
        ("op,iops,iops\nread,1,2\n", r"line 1: two columns are called 'iops'"),
        ("op,iops\nread,1.2.3\nwrite,2\n", r"line 2, column iops: '1.2.3' is not a number"),
        ("op,bs\nread,4k\nwrite,8k\n", r"line 1: no column is a measurement"),
        ("1,2\n3,4\n", "numbers below no header"),
        ("hello\nworld\n", "no table of numbers"),
        ('op,iops\n"read,1\n', "line 2: no table"),
    ],
)
def test_what_is_not_whole_is_an_error_with_its_place(text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read(text)


def test_a_file_without_a_last_line_end_is_doubted() -> None:
    assert read("op,iops\nread,1\nwrite,2\n")[-1].doubts == ()
    assert [d.check for d in read("op,iops\nread,1\nwrite,2")[-1].doubts] == ["cut"]


def test_only_tables_of_measurements_are_recognised() -> None:
    assert FORMAT.recognises(OPS.encode(), "x.csv") == 1
    for text in (b"", b"hello, world\nthis is, prose\n", b"\0\1\2", b"PK\x03\x04", b"{}"):
        assert FORMAT.recognises(text, "x.csv") == 0


# --- spreadsheets --------------------------------------------------------------------------------


def workbook(*sheets: tuple[str, list[list[object]]]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


HEAD: list[object] = ["scheduler", "threads", "read MB/s"]


def test_a_sheet_is_a_table_below_its_title() -> None:
    rows = [["Monday"], [], HEAD, ["noop", 4, 120.5], ["cfq", 8, 2]]
    data = workbook(("s", rows))
    assert XLSX.recognises(data[:65536], "a.xlsx") == 3
    first, second = XLSX.read(data, "a.xlsx")
    assert (values(first), first.line) == ({"read.bw": 120.5e6}, 4)
    assert second.treatment == (("scheduler", "cfq"), ("threads", "8"))


def test_several_sheets_are_a_factor_or_the_workload() -> None:
    rows = [["scheduler", "MB/s"], ["noop", 1], ["cfq", 2]]
    found = XLSX.read(workbook(("read", rows), ("random read", rows)), "a")
    assert [(each.workload, *values(each)) for each in found] == [
        ("read", "read.bw"), ("read", "read.bw"),
        ("random read", "random_read.bw"), ("random read", "random_read.bw"),
    ]  # fmt: skip
    other = XLSX.read(workbook(("old", rows), ("new", rows)), "a")
    assert other[3].treatment == (("sheet", "new"), ("scheduler", "cfq"))


def test_merged_cells_and_percents_mean_what_is_seen() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["scheduler", "threads", "cpu %"], ["noop", 4, 0.5], [None, 8, 0.25]):
        sheet.append(row)
    sheet.merge_cells("A2:A3")
    for cell in ("C2", "C3"):
        sheet[cell].number_format = "0%"
    target = io.BytesIO()
    book.save(target)
    second = XLSX.read(target.getvalue(), "a")[1]
    assert second.treatment == (("scheduler", "noop"), ("threads", "8"))
    assert values(second) == {"total.cpu": 0.25}


def test_a_formula_without_its_result_is_an_error() -> None:
    data = workbook(("s", [HEAD, ["noop", 4, "=1+1"], ["cfq", 8, 2]]))
    with pytest.raises(FormatError, match="sheet 's', cell C2: a formula without its result"):
        XLSX.read(data, "a.xlsx")


def test_a_sheet_s_errors_name_sheet_row_and_column() -> None:
    data = workbook(("s", [HEAD, ["noop", 4, "12x"], ["cfq", 8, 2]]))
    with pytest.raises(FormatError, match=r"a\.xlsx: sheet 's', row 2, column read MB/s: '12x'"):
        XLSX.read(data, "a.xlsx")


# --- what a column is not ------------------------------------------------------------------------

ENDS = """scheduler,run,io_mb,bw_mib_s,status
none,1,1000,100,ok
none,2,1000,101,OK
bfq,1,900,90,completed
bfq,2,900,9,STATUS
"""


@pytest.mark.parametrize("said", ["killed", "Failed (timeout)", "error: no space", "aborted"])
def test_a_run_that_the_table_says_ended_badly_does_not_count(said: str) -> None:
    found = FORMAT.read(ENDS.replace("STATUS", said).encode(), "f.csv")
    assert [[d.check for d in run.doubts if d.invalid] for run in found] == [
        [], [], [], ["table-ended"]
    ]  # fmt: skip
    assert f"status = {said}" in found[3].doubts[0].what


@pytest.mark.parametrize("said", ["no errors", "done, 0 errors", "not killed", "finished"])
def test_a_run_without_errors_counts(said: str) -> None:
    found = FORMAT.read(ENDS.replace("STATUS", f'"{said}"').encode(), "f.csv")
    assert not any(run.doubts for run in found)


def test_an_exit_code_that_is_not_0_says_so_too() -> None:
    text = ENDS.replace("status", "exit_code").replace("STATUS", "137")
    for word in ("ok", "OK", "completed"):
        text = text.replace(word, "0")
    found = FORMAT.read(text.encode(), "f.csv")
    assert [bool(run.doubts) for run in found] == [False, False, False, True]


def test_how_much_was_done_is_no_factor() -> None:
    found = FORMAT.read(ENDS.replace("STATUS", "ok").encode(), "f.csv")
    assert {name for run in found for name, _ in run.treatment} == {"scheduler"}
    sizes = ENDS.replace("io_mb", "size_mb").replace("STATUS", "ok")
    found = FORMAT.read(sizes.encode(), "f.csv")
    assert {name for run in found for name, _ in run.treatment} == {"scheduler", "size_mb"}


def test_a_row_of_data_is_no_header() -> None:
    data = b"easy  took 1.5 s  2.1 GiB/s\nhard  took 2.5 s  3.1 GiB/s\n"
    assert FORMAT.recognises(data, "f.txt") == 0
    with pytest.raises(FormatError):
        FORMAT.read(data, "f.txt")


# --- damage --------------------------------------------------------------------------------------


def sound(found: tuple[Recording, ...]) -> None:
    assert found
    for each in found:
        for m in each.measurements:
            assert math.isfinite(m.value)
            assert m.value >= 0
            assert m.unit == metric(m.metric).unit


TEXTS = [OPS.encode(), LONG.encode(), *(path.read_bytes() for path in RECORDED)]


@settings(max_examples=250, deadline=None)
@given(mutants(TEXTS).map(lambda pair: pair[1]))
def test_a_mutated_table_gives_sound_numbers_or_a_format_error(data: bytes) -> None:
    FORMAT.recognises(data[:65536], "x.csv")
    try:
        found = FORMAT.read(data, "f")
    except FormatError:
        return
    sound(found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=4))
def test_a_damaged_spreadsheet_is_an_error_or_the_same_numbers(at: int, new: bytes) -> None:
    rows = [HEAD, ["noop", 4, 120.5], ["cfq", 8, 2]]
    whole = workbook(("s", rows))
    place = at % len(whole)
    try:
        found = XLSX.read(whole[:place] + new + whole[place + len(new) :], "f")
    except FormatError:
        return
    assert [values(each) for each in found] == [values(each) for each in XLSX.read(whole, "f")]
