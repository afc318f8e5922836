"""vdbench's averages, in the form of each of its reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from iotrial.errors import FormatError
from iotrial.model.recording import Recording
from iotrial_import.formats.vdbench import FORMAT
from mutants import mutants

DATA = Path(__file__).parent.parent / "data" / "vdbench"
SUMMARY = (DATA / "summary.html").read_text()


def read(name: str) -> tuple[Recording, ...]:
    return FORMAT.read((DATA / name).read_bytes(), name)


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements}


@pytest.mark.parametrize("name", ["summary.html", "flatfile.html", "files.txt"])
def test_its_reports_are_recognised(name: str) -> None:
    assert FORMAT.recognises((DATA / name).read_bytes(), "x") == 3


def test_the_average_of_each_run_is_read_in_base_units() -> None:
    found = read("summary.html")
    assert [(each.workload, each.line, each.seconds) for each in found] == [
        ("reads", 19, 3.0),
        ("reads", 23, 3.0),
    ]
    assert [dict(each.treatment) for each in found] == [
        {"xfersize": "4k", "threads": "8"},
        {"xfersize": "8k", "threads": "8"},
    ]
    assert values(found[0]) == pytest.approx(
        {
            "total.iops": 25600.0, "total.bw": 100 * 2.0**20, "total.lat.mean": 312e-6,
            "read.iops": 25600.0, "read.bw": 100 * 2.0**20, "read.lat.mean": 312e-6,
            "read.lat.max": 0.011, "total.lat.sd": 140e-6, "total.depth": 8.0,
            "cpu.usr": 0.05, "cpu.sys": 0.07,
        }
    )  # fmt: skip


def test_the_flat_file_says_the_same() -> None:
    for one, other in zip(read("summary.html"), read("flatfile.html"), strict=True):
        both = values(one).keys() & values(other).keys()
        assert {"total.iops", "total.bw", "read.lat.mean"} <= both
        assert {n: values(one)[n] for n in both} == {n: values(other)[n] for n in both}
        assert one.workload == other.workload
    told = dict(read("flatfile.html")[0].treatment)
    assert told == {"xfersize": "4096", "threads": "8", "rdpct": "100", "seekpct": "100"}


def test_reads_and_writes_of_files_are_apart() -> None:
    (found,) = read("files.txt")
    assert values(found) == pytest.approx(
        {
            "total.iops": 3500.0, "total.lat.mean": 0.018, "total.bw": 3500 * 2.0**20,
            "read.iops": 2100.0, "read.lat.mean": 0.006, "read.bw": 2100 * 2.0**20,
            "write.iops": 1400.0, "write.lat.mean": 0.036, "write.bw": 1400 * 2.0**20,
            "create.rate": 5.0, "delete.rate": 2.0, "cpu.usr": 0.25, "cpu.sys": 0.04,
        }
    )  # fmt: skip


def test_a_mix_of_a_device_has_no_reads_of_its_own() -> None:
    text = SUMMARY.replace("4096 100.00", "4096  70.00")
    found = values(FORMAT.read(text.encode(), "f")[0])
    assert found["total.iops"] == 25600.0
    assert "read.iops" not in found


def test_older_reports_have_fewer_columns() -> None:
    lines = []
    for line in SUMMARY.splitlines():
        words = line.split()
        if "read    write     resp  queue" in line:
            words = [*words[:11], *words[13:]]
        elif "1024**2" in line:
            words = [*words[:7], *words[9:]]
        elif len(words) == 15 and words[0][:2] == "10":
            words = [*words[:9], *words[11:]]
        lines.append(" ".join(words))
    assert "read.lat.max" in values(read("summary.html")[0])
    found = values(FORMAT.read("\n".join(lines).encode(), "f")[0])
    assert "read.lat.max" not in found
    assert found["total.lat.sd"] == pytest.approx(140e-6)


def test_averages_alone_are_runs() -> None:
    lines = [line for line in SUMMARY.splitlines() if "Starting" not in line]
    found = FORMAT.read("\n".join(lines).encode(), "f")
    assert [values(each)["total.iops"] for each in found] == [900.0, 25600.0, 16640.0]
    assert {each.workload for each in found} == {"vdbench"}


def test_a_run_that_did_not_end_is_a_doubt_and_alone_an_error() -> None:
    text = "\n".join(line for line in SUMMARY.splitlines() if "avg_2-2" not in line)
    (found,) = FORMAT.read(text.encode(), "f")
    (doubt,) = found.doubts
    assert (doubt.check, "reads (line 19)" in doubt.what) == ("vdbench-unfinished", True)
    with pytest.raises(FormatError, match=r"reads \(line 11\)"):
        FORMAT.read(text[: text.index("avg_2-3")].encode(), "f")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("25600.00   100.00    4096", "25600.00   100.00", "line 17: 12 numbers; 13 columns"),
        ("25600.00   100.00", "256O0.00   100.00", "line 17: rate: '256O0.00' is not a number"),
        ("MB/sec   bytes   read", "MB/sec   bytes", "line 8: columns that are not known"),
    ],
)
def test_what_is_not_whole_is_an_error_with_its_line(old: str, new: str, said: str) -> None:
    assert old in SUMMARY
    with pytest.raises(FormatError, match=said):
        FORMAT.read(SUMMARY.replace(old, new).encode(), "f")


@given(pair=mutants([SUMMARY.encode(), (DATA / "flatfile.html").read_bytes()]))
@settings(max_examples=100, deadline=None)
def test_a_mutated_report_gives_sound_numbers_or_a_format_error(pair: tuple[bytes, bytes]) -> None:
    try:
        found = FORMAT.read(pair[1], "f")
    except FormatError:
        return
    assert all(0 <= value < 1e18 for each in found for value in values(each).values())
