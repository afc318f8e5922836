"""fio's terse output of every version gives the numbers of the JSON of the same run."""

from __future__ import annotations

import math
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.fio import json_output as fio_json
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial_import.formats import fio_terse

DATA = Path(__file__).parent.parent / "data" / "fio-terse"
TEXTS = sorted(DATA.glob("*.txt"), key=lambda path: path.name)
BOTH = [path for path in TEXTS if b'"fio version"' in path.read_bytes()]
FIELDS = {
    "1.60.2-v2": 78, "2.0.7-v2": 120, "2.0.7-v3": 121, "2.16-v2": 161, "2.1.10-v4": 162,
    "2.99-v5": 180, "3.42-v5": 180, "3.33-v3": 121,
}  # fmt: skip
NO_TIMES = "0;0;0.000000;0.000000"
ZEROS = f"0;0;0;0;{NO_TIMES};{NO_TIMES};{'0%=0;' * 20}{NO_TIMES};0;0;0.000000%;0.000000;0.000000"


def block(size: int, time_ms: int, share: float = 100.0, mean: float | None = None) -> str:
    """A direction that moved ``size`` KiB in ``time_ms``, in blocks of 4 KiB, 10 µs each."""
    bandwidth = size * 1000 // time_ms
    iops = size // 4 * 1000 // time_ms
    ranks = ";".join(["50.000000%=10", "99.000000%=12", *["0%=0"] * 18])
    times = "8;12;10.000000;1.000000"
    average = bandwidth if mean is None else mean
    return (
        f"{size};{bandwidth};{iops};{time_ms};0;0;0.000000;0.000000;{times};{ranks};{times};"
        f"{bandwidth};{bandwidth};{share:f}%;{average:f};0.000000"
    )


TAIL = "1.000000%;2.000000%;3;4;5;" + ";".join(["100.0%"] + ["0.0%"] * 6 + ["0.00%"] * 22)


def job(read: str = "", name: str = "load", group: int = 0, tail: str = "") -> str:
    return f"3;fio-3.33;{name};{group};0;{read or block(40000, 1000)};{ZEROS};{TAIL}{tail}"


def read(text: str) -> tuple[Recording, ...]:
    return fio_terse.FORMAT.read(text.encode(), "f")


def values(recording: Recording, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements if each.job == job}


def checks(recording: Recording) -> list[str]:
    return [each.check for each in recording.doubts]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_every_recording_is_recognised_and_read(path: Path) -> None:
    data = path.read_bytes()
    sure = {name: each.recognises(data[:65536], path.name) for name, each in formats().items()}
    expected = "fio-json" if path in BOTH else "fio-terse"
    assert sure[expected] == max(sure.values()) or path.stem.startswith("1.60")
    for found in fio_terse.FORMAT.read(data, "f"):
        assert found.tool == "fio"
        assert found.line
        for each in found.measurements:
            assert math.isfinite(each.value)
            assert each.value >= 0
            assert metric(each.metric).unit == each.unit


@pytest.mark.parametrize("stem", FIELDS)
def test_a_line_has_as_many_fields_as_the_docstring_says(stem: str) -> None:
    lines = (DATA / f"{stem}.txt").read_text().split("\n")
    first = next(line for line in lines if line.count(";") > 60)
    without_disks = re.sub(r"(;\w+(;\d+){7};\d+\.\d\d%)+$", "", first)
    assert without_disks.count(";") + 1 == FIELDS[stem]


@pytest.mark.parametrize("path", BOTH, ids=lambda path: path.stem)
def test_terse_and_json_of_one_run_agree_as_far_as_terse_is_precise(path: Path) -> None:
    data = path.read_bytes()
    terse = {(f.name, m.job, m.metric): m for f in fio_terse.FORMAT.read(data, "f")
             for m in f.measurements if m.job != "all"}  # fmt: skip
    json = {(f.name, m.job, m.metric): m for f in fio_json.FORMAT.read(data, "f")
            for m in f.measurements if m.job != "all"}  # fmt: skip
    if path.stem.startswith("2.16"):  # its lines cannot be told from runs
        terse = {key: each for key, each in terse.items() if key[0] != "pair"}
        json = {key: each for key, each in json.items() if key[0] != "pair"}
    missing = {m for _, _, m in json} - {m for _, _, m in terse}
    assert {m for m in missing if "slat.p" not in m and ".lat.p" not in m} <= set()
    for key, each in terse.items():
        if key[2].endswith("per_io"):
            assert each.value == pytest.approx(json[key].value, rel=0.03)
        else:
            slack = {"bytes/s": 2048.0, "1/s": 1.0, "bytes": 1024.0, "s": 1e-6}
            rel = 1e-5 if each.unit != "fraction" else 1e-3
            assert each.value == pytest.approx(
                json[key].value, rel=rel, abs=slack.get(each.unit, 1e-6)
            ), key
        assert each.censored == json[key].censored


def test_jobs_of_a_group_are_one_run_and_groups_are_runs_of_their_own() -> None:
    first, second = fio_terse.FORMAT.read((DATA / "3.33-v3.txt").read_bytes(), "f")
    assert {each.job for each in first.measurements} == {"all", "pair#1", "pair#2"}
    assert {each.job for each in second.measurements} == {"all", "last#1"}
    one, two = values(first, "pair#1"), values(first, "pair#2")
    assert values(first)["read.bw"] == pytest.approx(one["read.bw"] + two["read.bw"])


def test_runs_appended_to_one_file_are_told_from_reports_of_one_run() -> None:
    for name in ("3.33-appended.txt", "3.33-appended.json"):
        format_ = fio_json.FORMAT if name.endswith("json") else fio_terse.FORMAT
        assert len(format_.read((DATA / name).read_bytes(), "f")) == 3
    for name in ("3.33-intervals.txt", "3.33-intervals.json"):
        format_ = fio_json.FORMAT if name.endswith("json") else fio_terse.FORMAT
        (only,) = format_.read((DATA / name).read_bytes(), "f")
        assert only.seconds == pytest.approx(3.0, abs=0.01)


def test_lines_of_one_group_are_told_by_their_share_of_its_bandwidth() -> None:
    halves = "\n".join([job(block(40000, 1000, 50.0))] * 2)
    (run,) = read(halves)
    assert values(run)["read.bw"] == 2 * 40000 * 1024
    runs = read("\n".join([job(block(40000, 1000)), job(block(40004, 1000))]))
    assert [values(each)["read.bw"] for each in runs] == [40000 * 1024, 40004 * 1024]
    assert not any("job-or-run" in checks(each) for each in runs)


def test_where_nothing_tells_each_line_is_a_run_with_a_doubt() -> None:
    silent = block(40000, 1000, 0.0, 0.0)
    runs = read("\n".join([job(silent), job(silent), job(silent, group=1)]))
    assert ["job-or-run" in checks(each) for each in runs] == [True, True, False]


def test_lines_that_say_the_same_of_the_disks_are_of_one_run() -> None:
    disks = ";sda;1;2;3;4;5;6;7;8.00%"
    silent = block(40000, 1000, 0.0, 0.0)
    (run,) = read("\n".join([job(silent, tail=disks)] * 3))
    assert len({each.job for each in run.measurements}) == 4


def test_the_bandwidth_is_in_1000_bytes_before_2_0_8() -> None:
    first, second = (fio_terse.FORMAT.read((DATA / f"2.0.7-v{v}.txt").read_bytes(), "f")
                     for v in (2, 3))  # fmt: skip
    for run in (*first, *second):
        found = values(run)
        for operation in ("read", "write"):
            if f"{operation}.bytes" in found:
                block_size = found[f"{operation}.bw"] / found[f"{operation}.iops"]
                assert block_size == pytest.approx(
                    {"pair": 4096, "last": 65536}[run.name], rel=1e-3
                )


@pytest.mark.parametrize(
    ("tail", "prefix"),
    [
        (";a description; with semicolons", ""),
        (";sda;1;2;3;4;5;6;7;8.00%;slaves;1;2;3;4;5;6;7;8.00%", ""),
        (";5;17", "fio: a warning of fio\n"),
        ("", "Jobs: 1 (f=1): [r] [100.0% done]\r"),
    ],
)
def test_what_follows_and_what_stands_around_changes_no_number(tail: str, prefix: str) -> None:
    (run,) = read(f"{prefix}{job(tail=tail)}\n\nsome words\n")
    (plain,) = read(job())
    assert values(run) == values(plain)
    assert ("fio-said" in checks(run)) == prefix.startswith("fio: ")


def test_a_description_without_an_end_of_line_hides_no_job() -> None:
    """As fio 2.0 to 2.0.6 wrote them."""
    one = job(name="one").replace("fio-3.33", "2.0.6")
    text = f"{one}\n;about it{one.replace(';one;', ';two;').replace(';0;0;', ';1;0;', 1)}\n;more"
    assert [(each.name, each.line) for each in read(text)] == [("one", 1), ("two", 2)]


def test_percentiles_of_lat_are_told_by_their_height() -> None:
    high = block(40000, 1000).replace(
        "8;12;10.000000;1.000000;40000;", "8;90;50.000000;1.000000;40000;"
    )
    (run,) = read(job(high.replace("50.000000%=10;99.000000%=12", "50.000000%=50;99.000000%=88")))
    found = values(run)
    assert "read.clat.p50" not in found
    assert found["read.lat.p50"] == pytest.approx(50e-6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (job()[:-1], r"line 1: field 121 \(share of a latency\): '0.00' is none"),
        (job()[:300], "line 1: field"),
        (f"{job()}\n{job()[:25]}", "line 2: .* not begin as"),
        (job().replace(";10000;", ";1000;", 1).replace("40000;40000", "40000;4000"), "KiB in 1000"),
        (job().replace(";8;12;10.0", ";8;12;100.0", 1), "does not lie between 8 and 12"),
        (job().replace("99.000000%=12", "99.000000%=1"), "percentiles do not rise"),
        (job().replace(f";{ZEROS}", f";{ZEROS};{ZEROS};{ZEROS};{ZEROS}"), "blocks"),
        (job().replace("3;fio-3.33", "7;nonsense"), "not begin as"),
        ("nothing\nof it", "no line of fio's terse output in 2 lines"),
        (job().replace("2.000000%", "x%"), r"field 89 \(CPU\): 'x%' is none"),
    ],
)
def test_what_is_not_whole_is_an_error_with_its_line_and_field(changed: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        read(changed)


PLAIN = [path.read_bytes() for path in TEXTS if path not in BOTH]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(PLAIN)))
    for _ in range(draw(st.integers(1, 4))):
        at, kind = draw(st.integers(0, max(0, len(data) - 1))), draw(st.integers(0, 6))
        if kind == 0:
            del data[at:]
        elif kind == 1 and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == 2:
            data[at:at] = draw(st.binary(max_size=20))
        elif kind == 3:
            fields = bytes(data).split(b";")
            index = at % len(fields)
            fields[index : index + 1] = [fields[index]] * draw(st.sampled_from([0, 2]))
            data = bytearray(b";".join(fields))
        elif kind == 4:
            lines = bytes(data).split(b"\n")
            random.Random(at).shuffle(lines)
            data = bytearray(b"\n".join(lines))
        elif kind == 5:
            data += draw(st.sampled_from(PLAIN))
        else:
            del data[at : at + draw(st.integers(1, 9))]
    return bytes(data)


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_a_mutated_file_gives_sound_numbers_or_a_format_error(data: bytes) -> None:
    try:
        found = fio_terse.FORMAT.read(data, "f")
    except FormatError:
        return
    for run in found:
        pairs = [(each.job, each.metric) for each in run.measurements]
        assert len(set(pairs)) == len(pairs)
        for each in run.measurements:
            assert math.isfinite(each.value)
            assert each.value >= 0


@settings(max_examples=200, deadline=None)
@given(st.integers(5, 120), st.sampled_from([0, 2]))
def test_a_field_that_is_dropped_or_doubled_is_seen(at: int, times: int) -> None:
    """Between the head and the description no field can go or come."""
    fields = job().split(";")
    changed = [*fields[:at], *[fields[at]] * times, *fields[at + 1 :]]
    with pytest.raises(FormatError):
        read(";".join(changed))


def test_ten_thousand_lines_are_read_in_seconds() -> None:
    began = time.monotonic()
    runs = read("\n".join(job(block(40000 + 4 * (n % 7), 1000)) for n in range(10_000)))
    assert len(runs) == 10_000
    assert time.monotonic() - began < 30
