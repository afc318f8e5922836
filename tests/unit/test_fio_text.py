"""fio's text output: every version recorded, its rounding, and what proves that it was changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats import formats
from iotrial.formats.fio import json_output as fio_json
from iotrial.model.measurement import metric
from iotrial.model.recording import Recording
from iotrial_import.formats.fio_text import FORMAT
from iotrial_import.formats.fio_text_lines import FioSpelling

DATA = Path(__file__).parent.parent / "data" / "fio-text"
RECORDED = sorted(DATA.glob("*.txt"))
WITH_JSON = [path for path in RECORDED if b'"fio version"' in path.read_bytes()]
RATES = ("iops", "bw", "bytes")
OLD = """\
r: (g=0): rw=randread, bs=64K-64K/64K-64K/64K-64K, ioengine=libaio, iodepth=64
...
fio-2.1.10
Starting 24 processes

r: (groupid=0, jobs=24): err= 0: pid=18927: Mon Sep 28 04:33:39 2015
  read : io=245760MB, bw=114797KB/s, iops=1793, runt=2192204msec
    slat (usec): min=3, max=1043.2K, avg=13321.16, stdev=75910.29
    clat (msec): min=1, max=30893, avg=841.14, stdev=173.65
     lat (msec): min=1, max=30893, avg=854.46, stdev=192.02
    clat percentiles (msec):
     |  1.00th=[  404], 50.00th=[  889], 90.00th=[  922], 95.00th=[  971],
     | 99.00th=[ 1270], 99.50th=[ 1352], 99.90th=[ 1582], 99.95th=[16712],
     | 99.99th=[16712]
  cpu          : usr=0.03%, sys=0.19%, ctx=127342, majf=0, minf=13035
     issued    : total=r=3932160/w=0/d=0, short=r=0/w=0/d=0

Run status group 0 (all jobs):
   READ: io=245760MB, aggrb=114796KB/s, minb=114796KB/s, maxb=114796KB/s, mint=2192204msec, maxt=2192204msec

Disk stats (read/write):
    md0: ios=9/0, merge=0/0, ticks=0/0, in_queue=0, util=0.00%, aggrios=9/0, aggrmerge=9/0, aggrticks=2000000000/0, aggrin_queue=117283254, aggrutil=90.03%
  sdc: ios=9/0, merge=3/0, ticks=2000000000/0, in_queue=170120268, util=89.08%
  sdd: ios=9/0, merge=5/0, ticks=2000000000/0, in_queue=64446240, util=90.03%
"""  # noqa: E501


def read(text: str | bytes) -> tuple[Recording, ...]:
    return FORMAT.read(text if isinstance(text, bytes) else text.encode(), "f")


def one(text: str | bytes) -> Recording:
    (recording,) = read(text)
    return recording


def recorded(name: str) -> tuple[Recording, ...]:
    return read((DATA / f"{name}.txt").read_bytes())


def values(recording: Recording, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in recording.measurements if each.job == job}


def checks(recording: Recording) -> set[str]:
    return {doubt.check for doubt in recording.doubts}


def test_the_format_is_a_plugin() -> None:
    assert formats()["fio-text"] is FORMAT


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_recording_is_recognised_and_read_without_an_inconsistency(path: Path) -> None:
    data = path.read_bytes()
    assert FORMAT.recognises(data[:65536], path.name) == (1 if path in WITH_JSON else 3)
    for recording in read(data):
        assert recording.tool == "fio"
        assert path.name.startswith(recording.version.removeprefix("fio-"))
        assert not checks(recording) & {"inconsistent", "overflow", "no-options", "not-whole"}
        for each in recording.measurements:
            assert metric(each.metric).unit == each.unit
            assert each.value >= 0


def tolerance(name: str, value: float) -> float:
    """What the text's digits leave: exact I/Os, four digits of bytes, rounded-up percentiles."""
    if name in {"cpu.usr", "cpu.sys"}:
        return 6e-5
    if name.endswith((".max", ".sd")) or (".p" in name and name != "cpu.per_io"):
        return max(1e-6, value * 0.01)
    return max(1e-7, value * 0.003) if name == "cpu.per_io" or "lat" in name else value * 0.003


@pytest.mark.parametrize("path", WITH_JSON, ids=lambda path: path.stem)
def test_text_and_json_of_one_run_agree_as_far_as_the_text_goes(path: Path) -> None:
    data = path.read_bytes()
    text = {(each.job, each.metric): each for each in one(data).measurements}
    told = {(each.job, each.metric): each for each in fio_json.parse(data, "f").measurements}
    text = {key: each for key, each in text.items() if not key[1].startswith("sync.")}
    told = {
        key: each
        for key, each in told.items()
        if not key[1].startswith("sync.") and "[" not in key[1]
    }
    missing = {name for job, name in told.keys() - text.keys()}
    # Of a group the text lacks the time its jobs ran in all; of disks it has rounded lines.
    assert missing <= {"cpu.per_io", "total.util"}
    assert not text.keys() - told.keys()
    for (job, name), each in text.items():
        if name != "cpu.per_io":
            wanted = told[job, name]
            assert each.value == pytest.approx(wanted.value, abs=tolerance(name, wanted.value))
            assert each.censored == wanted.censored


@pytest.mark.parametrize("version", ["1.60.2", "2.0.7", "2.1.10", "2.2.10", "2.8", "2.16", "2.99"])
def test_jobs_that_ran_together_are_one_recording_and_their_rates_add_up(version: str) -> None:
    (together,) = recorded(f"{version}-jobs")
    assert (together.workload, together.name) == ("randread+write", "first, second")
    assert dict(together.treatment) == {
        "bs": "4k+16k", "ioengine": "libaio", "iodepth": "4+2", "numjobs": "3",
    }  # fmt: skip
    alone = [values(together, f"first#{i}") for i in (1, 2)]
    for name in ("read.iops", "read.bw", "read.bytes"):
        assert values(together)[name] == pytest.approx(sum(each[name] for each in alone))
    assert values(together)["read.bw"] == pytest.approx(values(together)["read.iops"] * 4096)
    assert "read.clat.p99" not in values(together)
    had = version != "1.60.2"  # which takes percentiles only where it is told to
    assert ("write.clat.p99" in values(together)) == had  # of the only job that wrote


@pytest.mark.parametrize("version", ["1.60.2", "2.1.10", "2.16", "3.1", "3.42"])
def test_groups_are_recordings_of_their_own(version: str) -> None:
    first, second = recorded(f"{version}-groups")
    assert (first.workload, second.workload) == ("read", "randwrite")
    assert dict(first.treatment)["bs"] == "64k"
    assert dict(second.treatment)["bs"] == "8k"
    assert first.line < second.line


def test_a_group_of_jobs_reported_as_one_has_percentiles_and_reads_and_writes_apart() -> None:
    (mix,) = recorded("2.1.10-grouped")
    found = values(mix)
    assert dict(mix.treatment)["numjobs"] == "3"
    assert found["read.clat.p99"] > 0
    assert found["write.clat.p99"] > 0
    assert "cpu.usr" in found
    assert "cpu.per_io" not in found


def test_the_last_of_several_reports_counts() -> None:
    for version in ("2.8", "3.42"):
        name = f"{version}-intervals"
        if (DATA / f"{name}.txt").exists():
            (last,) = recorded(name)
            assert last.seconds == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("version", ["2.16", "3.42"])
def test_clients_are_put_together_by_group_and_the_sum_of_all_is_passed_over(version: str) -> None:
    first, second = recorded(f"{version}-clients")
    assert {each.job for each in first.measurements} == {
        "all", "job a#1", "job a#2", "job a#3", "job a#4",
    }  # fmt: skip
    assert {each.job for each in second.measurements} == {"all", "job b#1", "job b#2"}
    assert values(second)["read.bytes"] == 2 * 2**20


def test_kb_of_1000_bytes_is_known_by_the_ios() -> None:
    (old,), (new,) = recorded("2.1.10-kb1000"), recorded("3.42-kb1000")
    for each in (old, new):
        assert values(each)["read.bw"] == pytest.approx(values(each)["read.iops"] * 4096, rel=1e-9)


def test_bandwidth_in_bits_is_in_bytes_here() -> None:
    (each,) = recorded("2.8-bits")
    assert values(each)["read.bw"] == pytest.approx(values(each)["read.iops"] * 4096)


def test_what_fio_reports_as_mixed_is_mixed() -> None:
    (each,) = recorded("2.1.10-unified")
    assert {name.partition(".")[0] for name in values(each)} == {"mixed", "total", "cpu"}


def test_trims_are_apart_and_fsyncs_have_a_latency() -> None:
    (null,) = recorded("3.42-null")
    assert values(null)["trim.bytes"] == values(null)["write.bytes"] == 40 * 2**20
    (synced,) = recorded("3.42-fsync-text-and-json")
    assert 0 < values(synced, "s#1")["sync.lat.mean"] < 1
    assert values(synced, "s#1")["sync.lat.p99"] > 0


def test_a_stopped_run_and_a_steady_state_that_was_not_reached_are_doubts() -> None:
    assert "fio-cut-short" in checks(recorded("3.42-interrupted")[0])
    assert "steady-state" in checks(recorded("3.42-steady")[0])


def test_the_top_of_the_percentiles_is_censored() -> None:
    high = {each.metric for each in one(OLD).measurements if each.censored == "high"}
    assert high == {"read.clat.p99.99"}
    assert values(one(OLD))["read.clat.p99.99"] == pytest.approx(16.71168)
    assert values(one(OLD))["read.clat.p99.9"] == pytest.approx(1.582)


def test_numbers_are_exact_where_the_text_allows_it() -> None:
    found = values(one(OLD))
    assert found["read.bytes"] == 3932160 * 65536
    assert found["read.iops"] == pytest.approx(3932160 / 2192.204)
    assert found["read.lat.mean"] == pytest.approx(0.85446)


def test_ticks_that_overflow_32_bits_are_a_doubt() -> None:
    assert "overflow" not in checks(one(OLD))
    wrapped = OLD.replace(
        "sdc: ios=9/0, merge=3/0, ticks=2000000000/0", "sdc: ios=9/0, merge=3/0, ticks=3000000000/0"
    )
    wrapped = wrapped.replace(
        "aggrticks=2000000000/0", f"aggrticks={(5_000_000_000 - 2**32) // 2}/0"
    )
    assert "overflow" in checks(one(wrapped))


def test_iops_whose_product_overflowed_32_bits_are_counted_again() -> None:
    wrapped = 3932160 * 1000 * 2 % 2**32 // 2192204
    text = OLD.replace("total=r=3932160", "total=r=7864320").replace("iops=1793", f"iops={wrapped}")
    text = text.replace("64K-64K/64K-64K/64K-64K", "32K-32K/32K-32K/32K-32K")
    recording = one(text)
    assert "overflow" in checks(recording)
    assert values(recording)["read.iops"] == pytest.approx(7864320 / 2192.204)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("io=245760MB, bw", "io=24576MB, bw", "in all, by its jobs"),
        ("bw=114797KB/s", "bw=114897KB/s", "one of them was changed"),
        ("iops=1793", "iops=1783", "one of them was changed"),
        ("runt=2192204msec", "runt=2192704msec", "in all, by its jobs"),
        ("mint=2192204", "mint=2192203", "in all"),
        ("aggrb=114796", "aggrb=114799", "are not"),
        ("READ: io=245760MB", "READ: io=245770MB", "in all"),
        ("READ:", "WRITE:", "no job of the group"),
        ("avg=841.14", "avg=84100.14", "between min and max"),
        ("90.00th=[  922]", "90.00th=[  822]", "less than the one before"),
        ("max=30893, avg=841.14, stdev=173.65", "max=30893, av", "begins as a line of latencies"),
        ("  read : io", "  slat (usec): min=3, max=4, avg=3.1, stdev=0.1\n  read : io", "before"),
        ("jobs=24)", "jobs=0)", "no job"),
        ("Run status group 0", "Run status group 1", "no job"),
        ("iodepth=64", "iodepth=", "begins as the first line"),
    ],
)
def test_numbers_that_contradict_each_other_are_an_error_with_its_line(
    old: str, new: str, why: str
) -> None:
    assert old in OLD
    with pytest.raises(FormatError, match=rf"f: line \d+: .*{why}"):
        read(OLD.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("Starting 24", "Starting 25", "not-whole"),
        ("iodepth=64", "iodepth=1", "inconsistent"),
        ("64K-64K/64K-64K/64K-64K", "4K-4K/4K-4K/4K-4K", "inconsistent"),
        ("avg=854.46", "avg=1854.46", "inconsistent"),
        ("err= 0:", "err= 5 (file:io_u.c:1234, error=Input/output error):", "fio-error"),
        ("Starting 24 processes", "fio: terminating on signal 2", "fio-cut-short"),
        ("r: (g=0): rw", "s: (g=0): rw", "no-options"),
        ("short=r=0", "short=r=7", "short-io"),
    ],
)
def test_what_fio_itself_may_print_is_a_doubt(old: str, new: str, check: str) -> None:
    assert check not in checks(one(OLD))
    assert check in checks(one(OLD.replace(old, new, 1)))


def test_runs_one_after_another_and_what_shells_put_between_are_told_apart() -> None:
    line = "Jobs: 1 (f=1): [r] [50.0% done] [1K/0K/0K /s] [3/0/0 iops] [eta 00m:01s]\r"
    both = f"$ fio a\n{OLD}\n$ fio b\n{line}{OLD}{line}"
    assert [each.line for each in read(both)] == [7, 7 + OLD.count("\n") + 2 + 1]


def test_a_run_without_its_first_lines_after_another_is_a_run() -> None:
    bare = OLD[OLD.index("r: (groupid") :].replace("pid=18927", "pid=18999")
    first, second = read(OLD + bare)
    assert dict(first.treatment)["numjobs"] == dict(second.treatment)["numjobs"] == "24"
    assert second.workload == "r"
    assert "no-options" in checks(second)


def test_a_run_that_has_no_result_is_said() -> None:
    begun = OLD[: OLD.index("r: (groupid")]
    assert "no-report" in checks(one(OLD + begun))
    with pytest.raises(FormatError, match="line 1: a run of fio without a result"):
        read(begun)


@pytest.mark.parametrize("before", ["> ", "2024-05-01T10:00:00.123Z ", "\x1b[32m", "    ", "#> "])
def test_quoting_time_stamps_and_colours_are_passed_over(before: str) -> None:
    text = "\n".join(before + line for line in OLD.splitlines())
    assert values(one(text)) == values(one(OLD))
    assert one(text).name == "r"


@pytest.mark.parametrize(
    ("old", "version", "printed", "low", "high"),
    [
        (True, (2, 8), ("1205", "K"), 1204.5e3, 1206e3),
        (True, (2, 8), ("1205.5", "K"), 1205e3, 1206e3),
        (False, (3, 16), ("12.3", "k"), 12.25e3, 12.35e3),
        (False, (3, 16), ("11.0", "G"), 10.95e9, 12e9),
        (False, (3, 36), ("11.0", "G"), 10.95e9, 11.05e9),
        (False, (2, 17), ("12.6", "k"), 12e3, 13e3),
        (True, (2, 8), ("2", "P"), 1.5e12, 3e12),
        (False, (3, 36), ("912", ""), 912, 913),
    ],
)
def test_a_shortened_number_stands_for_a_span(
    *, old: bool, version: tuple[int, int], printed: tuple[str, str], low: float, high: float
) -> None:
    span = FioSpelling(old=old, version=version).count(*printed)
    assert (span.low, span.high) == pytest.approx((low, high))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_report_cut_anywhere_is_an_error_or_a_doubt_or_has_the_same_numbers(path: Path) -> None:
    data = path.read_bytes()
    whole = {(r.workload, m.job, m.metric): m.value for r in read(data) for m in r.measurements}
    for at in range(200, len(data), 97):
        try:
            found = read(data[:at])
        except FormatError:
            continue
        for recording in found:
            if not checks(recording) & {"not-whole", "no-report"}:
                for each in recording.measurements:
                    key = recording.workload, each.job, each.metric
                    if "intervals" not in path.name:
                        assert each.value == pytest.approx(whole[key])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_one_changed_digit_never_changes_a_rate_unseen(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(RECORDED))
    text = path.read_text()
    lines = [
        match.start() + digit.start()
        for match in re.finditer(r".*(?:\b(?:io|IOPS)=|issued|READ: |WRITE: ).*", text)
        for digit in re.finditer(r"\d", match[0])
    ]
    at = data.draw(st.sampled_from(lines))
    digit = data.draw(st.sampled_from("0123456789"))
    how = data.draw(st.sampled_from((digit, "", digit + text[at])))
    try:
        found = read(text[:at] + how + text[at + 1 :])
    except FormatError:
        return
    for before, after in zip(read(text), found, strict=True):
        if checks(after) - checks(before):
            continue
        for name, value in values(after).items():
            if name.endswith(RATES):
                assert value == pytest.approx(values(before)[name], rel=0.02)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_mutation_gives_recordings_or_a_format_error(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(RECORDED)).read_bytes()
    lines = content.split(b"\n")
    for _ in range(data.draw(st.integers(1, 4))):
        change = data.draw(st.sampled_from(MUTATIONS))
        change(lines, data.draw(st.integers(0, len(lines) - 1)), data)
    try:
        found = read(b"\n".join(lines))
    except FormatError:
        return
    for recording in found:
        for each in recording.measurements:
            assert each.value >= 0
            assert each.value < float("inf")


def _cut(lines: list[bytes], at: int, data: st.DataObject) -> None:
    lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]


def _flip(lines: list[bytes], at: int, data: st.DataObject) -> None:
    spot = data.draw(st.integers(0, len(lines[at])))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    lines[at] = lines[at][:spot] + byte + lines[at][spot + 1 :]


def _drop(lines: list[bytes], at: int, data: st.DataObject) -> None:
    several = data.draw(st.integers(1, 5))
    lines[at : at + several] = [b""]


def _double(lines: list[bytes], at: int, data: st.DataObject) -> None:
    several = data.draw(st.integers(1, 30))
    lines[at:at] = lines[at : at + several]


def _swap(lines: list[bytes], at: int, data: st.DataObject) -> None:
    other = data.draw(st.integers(0, len(lines) - 1))
    lines[at], lines[other] = lines[other], lines[at]


def _junk(lines: list[bytes], at: int, data: st.DataObject) -> None:
    lines.insert(at, data.draw(st.binary(max_size=60)))


def _join(lines: list[bytes], _: int, data: st.DataObject) -> None:
    lines += data.draw(st.sampled_from(RECORDED)).read_bytes().split(b"\n")


MUTATIONS = (_cut, _flip, _drop, _double, _swap, _junk, _join)


@given(st.binary(max_size=300))
def test_any_bytes_at_all_give_a_format_error(content: bytes) -> None:
    with pytest.raises(FormatError, match=r"^f:"):
        read(content)


@pytest.mark.parametrize(
    "text",
    ["(groupid=" * 30000, "x: (g=0): rw=" * 30000, "| 1.00th=[ 1]," * 30000,
     "Jobs: 1 [eta 1] " * 30000, "issued : total=" + "r=1/" * 30000,
     "read: IOPS=1, BW=" + "1" * 100000, "<a> " * 50000],
)  # fmt: skip
def test_endless_lines_end(text: str) -> None:
    with pytest.raises(FormatError):
        read(f"{text}\n{text}")
