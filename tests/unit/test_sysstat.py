"""iostat and sar: the means of what they printed, and what becomes of damage."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording, RecordingFormat
from iotrial_import.formats.iostat import FORMAT as IOSTAT
from iotrial_import.formats.sar import FORMAT as SAR
from mutants import mutants

DATA = Path(__file__).parent.parent / "data"
RECORDED: list[tuple[RecordingFormat, Path]] = [
    (each, path)
    for each in (IOSTAT, SAR)
    for path in sorted((DATA / each.name).iterdir())
    if path.suffix != ".md"
]
BANNER = "Linux 6.1.0 (box) \t11/21/26 \t_x86_64_\t(2 CPU)\n\n"
HEAD = "Device r/s rkB/s r_await rareq-sz w/s wkB/s w_await wareq-sz aqu-sz %util\n"
FIRST = "sda 9.00 9.00 9.00 1.00 9.00 9.00 9.00 1.00 9.00 9.00\n"
SECOND = "sda 10.00 40.00 2.00 4.00 0.00 0.00 0.00 0.00 1.00 50.00\n"
THIRD = "sda 30.00 240.00 4.00 8.00 0.00 0.00 0.00 0.00 3.00 100.00\n"
TEXT = BANNER + "\n".join(HEAD + row for row in (FIRST, SECOND, THIRD))


def values(recording: Recording) -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements}


def iostat(text: str) -> dict[str, dict[str, float]]:
    return {each.name: values(each) for each in IOSTAT.read(text.encode(), "f")}


@pytest.mark.parametrize(("form", "path"), RECORDED, ids=lambda x: getattr(x, "name", ""))
def test_a_recording_is_recognised_and_read(form: RecordingFormat, path: Path) -> None:
    data = path.read_bytes()
    assert form.recognises(data[:65536], path.name) == 3
    other = SAR if form is IOSTAT else IOSTAT
    assert other.recognises(data[:65536], path.name) == 0
    found = form.read(data, path.name)
    assert {"vda", "dev254-0"} & {each.name for each in found}
    assert all("since-boot" not in [d.check for d in each.doubts] for each in found)


def test_the_first_report_is_left_out_and_latencies_are_weighted() -> None:
    assert iostat(TEXT)["sda"] == pytest.approx(
        {
            "read.iops": 20.0, "read.bw": 140 * 1024.0, "read.lat.mean": 0.0035,
            "write.iops": 0.0, "write.bw": 0.0, "total.depth": 2.0, "total.util": 0.75,
        }
    )  # fmt: skip


def test_a_first_report_alone_is_doubted() -> None:
    (found,) = IOSTAT.read((BANNER + HEAD + FIRST).encode(), "f")
    assert [each.check for each in found.doubts] == ["since-boot"]
    assert values(found)["read.iops"] == 9


def test_two_executions_are_kept_apart() -> None:
    found = IOSTAT.read((TEXT + "\n" + TEXT).encode(), "f")
    assert [values(each)["read.iops"] for each in found] == [20.0, 20.0]
    assert [each.line for each in found] == [7, 18]


def test_a_device_that_is_left_out_was_idle() -> None:
    text = TEXT.replace(THIRD, THIRD.replace("sda", "sdb"))
    found = IOSTAT.read(text.encode(), "f")
    assert [values(each)["read.iops"] for each in found] == [5.0, 15.0]
    assert [d.check for each in found for d in each.doubts] == ["idle", "idle"]


@pytest.mark.parametrize(
    ("column", "size"),
    [("rkB/s", 1024), ("rMB/s", 2**20), ("rsec/s", 512), ("kB_read/s", 1024), ("Blk_read/s", 512)],
)
def test_units_are_the_kernel_s(column: str, size: int) -> None:
    report = f"Device: tps {column}\nsda 2.00 3.00\n"
    assert iostat(BANNER + "\n".join([report] * 2))["sda"]["read.bw"] == 3 * size


def test_sar_s_text_sadf_and_json_say_the_same() -> None:
    text, csv, document = (
        {each.name: values(each) for each in SAR.read((DATA / "sar" / name).read_bytes(), "f")}
        for name in ("dubn-12.7.5.txt", "sadf-du-12.7.5.csv", "sadf-j-12.7.5.json")
    )
    assert text["vda"] == csv["vda"] == document["vda"]
    assert text["cpu"] == csv["cpu"] == document["cpu"]
    assert text["eth0"] == document["eth0"]


@pytest.mark.parametrize("name", ["dubn-12.7.5.txt", "dub-10.1.5.txt"])
def test_sar_s_own_averages_are_ours(name: str) -> None:
    whole = (DATA / "sar" / name).read_text()
    lines = whole.splitlines(keepends=True)
    header = ""
    kept = lines[:2]
    for line in lines[2:]:
        if "/s" in line or "%user" in line:
            header = line
        elif line.startswith("Average:"):
            kept += [header, line]
    ours, theirs = (
        {(x.name, m.metric): m.value for x in SAR.read(t.encode(), "f") for m in x.measurements}
        for t in (whole, "".join(kept))
    )
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        if key[1].endswith(("iops", "bw", "cpu.usr")):
            assert ours[key] == pytest.approx(value, rel=0.05, abs=0.02 * 1024)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sda 10.00", "sda 11.00", "line 7: sda: rareq-sz 4 times 11/s is not 40/s"),
        (" 50.00", "", "line 7: 9 numbers; the header has 10"),
        (" 50.00", " 5x", "line 7: %util: '5x' is not a number"),
        (SECOND, SECOND * 2, "line 8: sda comes twice"),
        (f"{HEAD}{SECOND}", SECOND, "line 6: numbers below no header"),
        (f"{HEAD}{SECOND}", "Device tps kB/s\nsda 1.00 2.00\n", "line 6: other columns"),
        (TEXT, "nothing", "no report of devices"),
    ],
)
def test_what_is_damaged_is_an_error_with_its_place(old: str, new: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        iostat(TEXT.replace(old, new, 1))


def test_columns_of_the_cpus_that_change_are_an_error() -> None:
    cpu = "avg-cpu:  %user %system\n 1.00 2.00\n\n"
    text = BANNER + cpu + HEAD + FIRST + "\n" + cpu + HEAD + SECOND + "\n"
    with pytest.raises(FormatError, match="line 16: other columns than in line 10"):
        iostat(text + cpu.replace("%user", "%uses") + HEAD + THIRD)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[RecordingFormat, bytes]:
    form, path = draw(st.sampled_from(RECORDED))
    return form, draw(mutants([path.read_bytes()]))[1]


@settings(max_examples=300, deadline=None)
@given(spoilt())
def test_a_mutated_report_gives_sound_numbers_or_a_format_error(
    given_: tuple[RecordingFormat, bytes],
) -> None:
    form, data = given_
    form.recognises(data[:65536], "x")
    try:
        found = form.read(data, "f")
    except FormatError:
        return
    assert found
    for each in found:
        for m in each.measurements:
            assert math.isfinite(m.value)
            assert m.value >= 0
            assert m.unit == metric(m.metric).unit


# What sar -A and others say besides.

DISK = (
    "{0}:01          DEV       tps     rkB/s     wkB/s     await     %util\n"
    "{0}:02          sda    {1}.00    400.00      0.00      2.00     50.00\n"
    "Average:        sda    {1}.00    400.00      0.00      2.00     50.00\n\n"
)
OTHERS = (
    "10:00:01        INTR    intr/s\n10:00:02         sum    100.00\n"
    "Average:         sum    100.00\n"
    "\n10:00:01         CPU       MHz\n10:00:02         all   2400.00\n"
    "\n10:00:01        TEMP      degC     %temp               DEVICE\n"
    "10:00:02           1     45.00     45.00  a sensor of the board\n"
    "\n10:00:01     MBfsfree  MBfsused   %fsused FILESYSTEM\n"
    "10:00:02        12345      2345     15.96 /dev/sda1\n"
    "Summary:        12345      2345     15.96 /dev/sda1\n"
    "\nAverage:          BUS  idvendor    idprod  maxpower  manufact                product\n"
    "Average:            1      1d6b         2         0  Linux 6.1 hcd  a hub of many words\n\n"
)


def sar(text: str) -> list[tuple[str, float]]:
    found = SAR.read((BANNER + text).encode(), "f")
    return [(each.name, values(each)["total.iops"]) for each in found]


def test_reports_of_no_interest_are_passed_over() -> None:
    text = OTHERS + DISK.format("10:00", 100) + OTHERS
    assert sar(text) == [("sda", 100.0)]
    assert SAR.recognises((BANNER + text).encode(), "f") == 3


def test_a_restart_within_a_file_is_one_run() -> None:
    restart = "10:04:00     LINUX RESTART\t(2 CPU)\n\n"
    assert sar(DISK.format("10:00", 100) + restart + DISK.format("10:05", 300)) == [("sda", 200.0)]


def test_two_runs_of_sar_are_two_runs() -> None:
    again = BANNER + DISK.format("10:05", 300)
    assert sar(DISK.format("10:00", 100) + again) == [("sda", 100.0), ("sda", 300.0)]


def test_averages_that_come_again_are_of_another_run() -> None:
    lines = (DISK.format("10:00", 100) + DISK.format("10:05", 300)).splitlines(keepends=True)
    text = "".join(lines[0].replace("10:00:01", "Average:") + line for line in lines
                   if line.startswith("Average"))  # fmt: skip
    assert sar(text) == [("sda", 100.0), ("sda", 300.0)]


def test_json_of_iostat_with_times_is_iostat_s() -> None:
    text = (DATA / "iostat/x-12.7.5.json").read_text()
    timed = text.replace('"avg-cpu":', '"timestamp": "2026-11-21T10:00:00+0000", "avg-cpu":')
    assert timed != text
    assert (IOSTAT.recognises(timed.encode(), "f"), SAR.recognises(timed.encode(), "f")) == (3, 0)
    assert IOSTAT.read(timed.encode(), "f") == IOSTAT.read(text.encode(), "f")
    twice = IOSTAT.read(f"# first\n{timed}\n# second\n{timed}\n".encode(), "f")
    assert len(twice) == 2 * len(IOSTAT.read(timed.encode(), "f"))
