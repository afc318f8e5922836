"""Every run in any file of fio's JSON, with what it was run with."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats.fio.bins import middle
from iotrial.formats.fio.json_output import FORMAT, parse
from iotrial.formats.fio.report import _histogram
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Recording

DATA = Path(__file__).parent.parent / "data" / "fio"
TERSE = DATA.parent / "fio-terse"
CASES = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())
SMALL = ["mix", "trim", "short", "no-latencies", "stonewall", "text-and-json"]


def recorded(case: str) -> bytes:
    return (DATA / case / "fio.json").read_bytes()


def document(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recorded(case))
    return found


def read(data: bytes | str) -> tuple[Recording, ...]:
    return FORMAT.read(data.encode() if isinstance(data, str) else data, "f")


def figures(measurements: tuple[Measurement, ...]) -> dict[tuple[str, str], float]:
    return {(each.job, each.metric): each.value for each in measurements}


def checks(recording: Recording) -> set[str]:
    return {each.check for each in recording.doubts}


@pytest.mark.parametrize("case", CASES)
def test_a_run_of_one_group_has_the_numbers_of_its_trial(case: str) -> None:
    data = recorded(case)
    assert FORMAT.recognises(data[:65536], "fio.json") == 3
    runs = read(data)
    if case not in ("stonewall", "offered"):  # several groups
        (run,) = runs
        assert figures(run.measurements) == figures(parse(data, "f").measurements)


def test_each_group_of_jobs_is_a_run_with_its_own_options() -> None:
    first, second, both = read(recorded("stonewall"))
    assert [each.workload for each in (first, second, both)] == [
        "randrw", "randrw", "randread+write",
    ]  # fmt: skip
    assert dict(first.treatment)["rwmixread"] == "70"
    assert dict(second.treatment)["rwmixread"] == "40"
    assert dict(both.treatment)["bs"] == "8k+64k"
    assert both.name == "reader+writer"
    assert {each.job for each in second.measurements} == {"all", "mixed-read-4k#1"}
    assert {"filename", "runtime", "time_based", "rw", "name"} & set(dict(first.treatment)) == set()
    assert not any("one-after-another" in checks(each) for each in (first, second, both))


def test_a_run_says_when_it_began_how_long_it_took_and_which_fio_it_was() -> None:
    (run,) = read(recorded("mix"))
    report = document("mix")
    assert run.version == report["fio version"]
    assert run.started == report["timestamp_ms"] / 1000 - report["jobs"][0]["elapsed"]
    assert run.seconds == report["jobs"][0]["read"]["runtime"] / 1000
    assert run.tool == "fio"
    assert dict(run.treatment) == {
        "direct": "1", "rwmixread": "70", "bs": "4k", "iodepth": "16", "ioengine": "libaio",
    }  # fmt: skip


def test_options_of_global_hold_for_every_job_and_its_own_win() -> None:
    report = document("mix")
    report["global options"] = {"readwrite": "write", "bs": "1m", "numjobs": "4"}
    (run,) = read(json.dumps(report))
    assert run.workload == "randrw"
    assert dict(run.treatment)["bs"] == "4k"
    assert dict(run.treatment)["numjobs"] == "4"


def test_without_options_the_name_stands_for_the_workload_with_a_doubt() -> None:
    report = document("mix")
    del report["jobs"][0]["job options"]
    (run,) = read(json.dumps(report))
    assert (run.workload, run.treatment) == ("mix", ())
    assert "no-options" in checks(run)


@pytest.mark.parametrize("stem", ["2.1.10", "2.2.10"])
def test_fio_2_in_its_own_words(stem: str) -> None:
    pair, last = read((TERSE / f"{stem}.json").read_bytes())
    found = figures(pair.measurements)
    assert found["pair#1", "read.bw"] == pytest.approx(
        found["pair#1", "read.iops"] * 4096, rel=1e-3
    )
    assert found["pair#1", "read.clat.p50"] <= found["pair#1", "read.clat.p99.9"]
    written = figures(last.measurements)
    assert written["all", "write.bytes"] == pytest.approx(
        written["all", "write.bw"] * last.seconds, rel=1e-3
    )
    assert not {"inconsistent"} & (checks(pair) | checks(last))


def test_documents_may_be_an_array_be_wrapped_or_touch_each_other() -> None:
    one, two = document("mix"), document("trim")
    names = [("mix", "randrw"), ("trim", "randtrim")]
    texts = [
        json.dumps([one, two]),
        json.dumps([one, two], indent=2),
        json.dumps({"here": {"first": one}, "results": [two]}),
        json.dumps(one) + json.dumps(two),
        f"words\n{json.dumps(one, indent=1)}\nmore {{words}}\n{json.dumps(two)}\nend",
        f"2026-01-01 INFO {json.dumps(one)}\n2026-01-01 INFO {json.dumps(two)}\n",
    ]
    for text in texts:
        assert [(each.name, each.workload) for each in read(text)] == names


def test_equal_runs_one_after_another_are_two_and_a_copy_is_one() -> None:
    one = document("mix")
    later = json.loads(json.dumps(one))
    for key, step in (("timestamp", 1), ("timestamp_ms", 1400)):
        later[key] += step
    assert len(read(json.dumps(one) + "\n" + json.dumps(later))) == 2
    assert len(read(json.dumps(one) + "\n" + json.dumps(one))) == 1


def test_reports_of_one_run_without_clocks_are_told_by_their_counters() -> None:
    def at(seconds: int, rate: int = 1000) -> dict[str, Any]:
        report = document("mix")
        for key in ("timestamp", "timestamp_ms", "time"):
            del report[key]
        entry = report["jobs"][0]
        del entry["elapsed"]
        for operation in ("read", "write"):
            entry[operation].update(
                runtime=seconds * 1000, total_ios=rate * seconds, iops=float(rate),
                io_bytes=rate * 4096 * seconds, bw_bytes=rate * 4096, bw=rate * 4,
            )  # fmt: skip
        return report

    joined = "\n".join(json.dumps(at(each)) for each in (1, 2, 3))
    (only,) = read(joined)
    assert only.seconds == 3
    assert len(read("\n".join(json.dumps(at(3, rate)) for rate in (1000, 1010)))) == 2


def test_a_torn_report_is_named_and_the_whole_ones_are_read() -> None:
    text = recorded("mix").decode() + recorded("trim").decode()[:3000]
    (run,) = read(text)
    (doubt,) = (each for each in run.doubts if each.check == "fio-cut-short")
    assert "breaks in line" in doubt.what
    with pytest.raises(FormatError, match="no whole report of fio"):
        read(text[:2000])


def test_bins_named_by_number_are_those_fio_names_by_value() -> None:
    named = {"FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64, "FIO_IO_U_PLAT_NR": 1216}
    assert _histogram({"5": 1, "130": 2, "1215": 3, "7": 0, **named}, "f") == {
        5: 1, 133: 2, 16711680: 3,
    }  # fmt: skip
    assert _histogram({"5": 1, **named, "FIO_IO_U_PLAT_VAL": 32}, "f") == {}
    middles = [middle(index) for index in range(1216)]
    assert middles == sorted(set(middles))


def test_a_mean_outside_its_bounds_is_an_error() -> None:
    report = document("mix")
    report["jobs"][0]["read"]["clat_ns"]["mean"] *= 1000
    with pytest.raises(FormatError, match=r"jobs\[0\].read.clat_ns: mean .* does not lie between"):
        read(json.dumps(report))


def test_a_bandwidth_that_contradicts_the_bytes_is_doubted() -> None:
    report = document("mix")
    report["jobs"][0]["read"]["bw_bytes"] *= 2
    (run,) = read(json.dumps(report))
    assert "inconsistent" in checks(run)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ['{"a":\n', "{\n", "[\n", '{"fio version"\n', "nan\n{\n", "]\n\n["]
)
def test_a_million_openings_are_given_up_soon(piece: str) -> None:
    with pytest.raises(FormatError):
        read(piece * 100_000)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(recorded(draw(st.sampled_from(SMALL))))
    for _ in range(draw(st.integers(1, 4))):
        at, kind = draw(st.integers(0, max(0, len(data) - 1))), draw(st.integers(0, 5))
        if kind == 0:
            del data[at:]
        elif kind == 1 and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == 2:
            data[at:at] = draw(
                st.sampled_from([b"{", b"}", b"[", b"nan", b"1e999", b"\n{\n", b"-"])
            )
        elif kind == 3:
            data += recorded(draw(st.sampled_from(SMALL)))
        elif kind == 4:
            lines = bytes(data).split(b"\n")
            index = at % len(lines)
            lines[index : index + 1] = [lines[index]] * draw(st.sampled_from([0, 2]))
            data = bytearray(b"\n".join(lines))
        else:
            del data[at : at + draw(st.integers(1, 9))]
    return bytes(data)


@settings(max_examples=150, deadline=None)
@given(mutated())
def test_a_mutated_file_gives_sound_runs_or_a_format_error(data: bytes) -> None:
    try:
        runs = read(data)
    except FormatError:
        return
    for run in runs:
        assert math.isfinite(run.started)
        assert run.version.isprintable()
        for each in run.measurements:
            assert math.isfinite(each.value)
            assert each.value >= 0
