"""Recorded outputs of fio, and what may become of them, give measurements or a FormatError."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotrial.errors import FormatError
from iotrial.formats.fio.bins import PERCENTILES, added_up, percentiles
from iotrial.formats.fio.json_output import FORMAT, parse
from iotrial.model.measurement import metric
from iotrial.model.tool import ParsedOutput

DATA = Path(__file__).parent.parent / "data" / "fio"
CASES = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())


def recorded(case: str) -> bytes:
    return (DATA / case / "fio.json").read_bytes()


def report(case: str) -> dict[str, Any]:
    """The last document of a recording, read without iotrial."""
    text = recorded(case).decode()
    start = 0 if text.startswith("{") else text.rindex("\n{") + 1
    document: dict[str, Any] = json.JSONDecoder().raw_decode(text, start)[0]
    return document


def values(parsed: ParsedOutput, job: str = "all") -> dict[str, float]:
    return {each.metric: each.value for each in parsed.measurements if each.job == job}


def doubts(parsed: ParsedOutput) -> dict[str, bool]:
    return {each.check: each.invalid for each in parsed.doubts}


def changed(case: str, change: Callable[[dict[str, Any]], None]) -> ParsedOutput:
    """The recording with its first job changed by ``change(job)``."""
    document = report(case)
    change(document["jobs"][0])
    return parse(json.dumps(document, indent=2).encode(), "fio.json")


@pytest.mark.parametrize("case", CASES)
def test_every_recording_is_read_and_says_where_it_comes_from(case: str) -> None:
    parsed = parse(recorded(case), "fio.json")
    assert parsed.measurements
    for each in parsed.measurements:
        assert math.isfinite(each.value)
        assert each.value >= 0
        assert each.raw == "fio.json"
        assert metric(each.metric).unit == each.unit
    pairs = [(each.job, each.metric) for each in parsed.measurements]
    assert len(set(pairs)) == len(pairs)
    source = (DATA / case / "source.txt").read_text()
    assert all(word in source for word in ("kernel", "fio-", "date", "command"))


EXPECTED = {
    "randread": {}, "mix": {}, "write": {}, "trim": {}, "two-jobs": {}, "grouped": {},
    "two-jobs-without-bins": {}, "several-documents": {}, "text-and-json": {}, "steady": {},
    "two-clients": {}, "no-latencies": {}, "lat-percentiles": {}, "unified": {},
    "rate-limited": {}, "offered": {},
    "not-steady": {"steady-state": True},
    "no-space": {"no-time": True, "fio-error": True},
    "short": {"short": False},
    "fraction-of-a-second": {"fio-said": False, "short": False},
    "generator-bound": {"generator-bound": False},
    "stonewall": {},
    "interrupted": {"fio-cut-short": True},
    "interrupted-in-ramp": {"fio-cut-short": True, "short": False},
}  # fmt: skip


def test_a_report_is_doubted_exactly_when_something_spoilt_it() -> None:
    assert {case: doubts(parse(recorded(case), "fio.json")) for case in CASES} == EXPECTED


def test_sections_that_follow_each_other_are_measured_apart() -> None:
    parsed = parse(recorded("stonewall"), "fio.json")
    found, jobs = values(parsed), report("stonewall")["jobs"]
    names = ["mixed-read-4k", "mixed-read-4k(2)", "reader", "writer"]
    for name, job in zip(names, jobs, strict=True):
        for operation in ("read", "write"):
            told = found.get(f"{operation}.iops[{name}]", 0.0)
            assert told == pytest.approx(job[operation]["iops"])
    assert found["read.clat.p99[reader]"] == pytest.approx(
        jobs[2]["read"]["clat_ns"]["percentile"]["99.000000"] * 1e-9
    )
    assert not any("[" in name for name in values(parse(recorded("grouped"), "fio.json")))


def test_logs_that_the_client_could_not_read_are_counted_and_numbers_stay() -> None:
    why = b"fio: inflate error -3\nfio: failed decompressing log\n"
    lost = why + b"fio: failed converting IO log\n"
    parsed = parse(lost + recorded("two-clients") + lost, "fio.json")
    assert doubts(parsed) == {"fio-log-lost": False}
    assert parsed.doubts[0].what.startswith("2 of its jobs' logs ")
    assert parsed.measurements == parse(recorded("two-clients"), "fio.json").measurements


@pytest.mark.parametrize("case", ["randread", "mix", "write", "trim", "short", "lat-percentiles"])
def test_merged_bins_give_the_percentiles_fio_prints_for_one_job(case: str) -> None:
    found = values(parse(recorded(case), "fio.json"))
    checked = 0
    for operation in ("read", "write", "trim"):
        for stage in ("slat", "clat", "lat"):
            listed = report(case)["jobs"][0][operation][f"{stage}_ns"].get("percentile")
            if listed:
                for p in PERCENTILES:
                    name = f"{operation}.{stage}.p{p:g}"
                    assert found[name] == listed[f"{p:.6f}"] * 1e-9
                    checked += 1
    assert checked >= len(PERCENTILES)


def test_the_numbers_are_fios_own_in_base_units() -> None:
    raw = report("write")["jobs"][0]
    found = values(parse(recorded("write"), "fio.json"))
    assert found["write.iops"] == raw["write"]["iops"]
    assert found["write.bw"] == raw["write"]["bw_bytes"]
    assert found["write.bytes"] == raw["write"]["io_bytes"]
    assert found["write.clat.mean"] == pytest.approx(raw["write"]["clat_ns"]["mean"] / 1e9)
    assert found["cpu.sys"] == pytest.approx(raw["sys_cpu"] / 100)
    busy = (raw["usr_cpu"] + raw["sys_cpu"]) / 100 * raw["job_runtime"] / 1000
    assert found["cpu.per_io"] == pytest.approx(busy / raw["write"]["total_ios"])
    assert found["write.bw"] == pytest.approx(found["write.iops"] * 65536, rel=1e-6)
    assert not any(name.startswith("read.") for name in found)


def test_rates_of_jobs_are_added_and_percentiles_merged() -> None:
    parsed = parse(recorded("two-jobs"), "fio.json")
    one, two, both = (values(parsed, job) for job in ("pair#1", "pair#2", "all"))
    raw = [each["read"] for each in report("two-jobs")["jobs"]]
    assert both["read.iops"] == pytest.approx(one["read.iops"] + two["read.iops"])
    assert both["read.bytes"] == one["read.bytes"] + two["read.bytes"]
    counts = [each["clat_ns"]["N"] for each in raw]
    mean = sum(n * each["clat_ns"]["mean"] for n, each in zip(counts, raw, strict=True))
    assert both["read.clat.mean"] == pytest.approx(mean / sum(counts) / 1e9)
    latencies = [
        int(value)
        for each in raw
        for value, count in each["clat_ns"]["bins"].items()
        for _ in range(count)
    ]
    latencies.sort()
    for p in PERCENTILES:
        rank = math.ceil(p / 100 * len(latencies))
        assert both[f"read.clat.p{p:g}"] == latencies[rank - 1] * 1e-9


def test_without_bins_there_is_a_percentile_per_job_and_none_for_all() -> None:
    parsed = parse(recorded("two-jobs-without-bins"), "fio.json")
    assert "read.clat.p99" in values(parsed, "pair#1")
    assert "read.clat.mean" in values(parsed)
    assert not [name for name in values(parsed) if ".clat.p" in name]


def test_the_last_of_several_documents_counts_and_a_torn_one_does_not() -> None:
    data = recorded("several-documents")
    assert values(parse(data, "f"))["read.bytes"] == 335142912
    torn = parse(data[:-500], "f")
    assert values(torn)["read.bytes"] == 323899392
    assert doubts(torn) == {"fio-cut-short": True}


def test_clients_are_jobs_and_their_sum_is_made_from_them() -> None:
    parsed = parse(recorded("two-clients"), "f")
    raw = report("two-clients")["client_stats"]
    total = next(each for each in raw if each["jobname"] == "All clients")
    found = values(parsed)
    assert {each.job for each in parsed.measurements} == {"all", "remote#1", "remote#2"}
    assert found["read.iops"] == pytest.approx(total["read"]["iops"])
    assert found["read.bytes"] == total["read"]["io_bytes"]
    assert found["read.clat.mean"] == pytest.approx(total["read"]["clat_ns"]["mean"] / 1e9)
    assert "read.clat.p99" in found


def test_jobs_with_one_name_are_told_apart() -> None:
    parsed = parse(recorded("stonewall"), "f")
    names = {each.job for each in parsed.measurements}
    assert names == {"all", "mixed-read-4k#1", "mixed-read-4k#2", "reader#1", "writer#1"}


def test_rates_of_jobs_that_ran_one_after_another_are_not_added() -> None:
    parsed = parse(recorded("stonewall"), "f")
    rates = [values(parsed, job)["read.iops"]
             for job in ("mixed-read-4k#1", "mixed-read-4k#2", "reader#1")]  # fmt: skip
    assert min(rates) < values(parsed)["read.iops"] < max(rates)


def test_a_cut_report_names_the_byte_where_it_ends() -> None:
    data = recorded("randread")[:5000]
    with pytest.raises(FormatError, match=r"f: no whole report of fio: .* at byte \d+ \(line"):
        parse(data, "f")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"fio: no\n", b"{" * 100_000, b'{"a":' * 9999,
                                  b'{"fio version": 3}', b'{"fio version": "x", "jobs": []}',
                                  b'{"fio version": "x", "jobs": {"a": 1}}',
                                  b'{"fio version": ' + b"9" * 5000 + b"}"])  # fmt: skip
def test_what_is_no_report_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse(data, "f")


def test_bare_nan_is_no_number_and_no_obstacle() -> None:
    text = recorded("randread").decode()
    mean = str(report("randread")["jobs"][0]["read"]["clat_ns"]["mean"])
    for word in ("nan", "-nan", "inf", "NaN"):
        parsed = parse(text.replace(f": {mean}", f": {word}").encode(), "f")
        assert "read.clat.mean" not in values(parsed)
        assert values(parsed)["read.iops"] > 0


def test_iops_that_contradict_the_count_are_doubted() -> None:
    parsed = changed("randread", lambda job: job["read"].update(iops=job["read"]["iops"] * 1.1))
    assert doubts(parsed) == {"inconsistent": False}


def test_short_ios_are_doubted() -> None:
    assert doubts(changed("mix", lambda job: job["read"].update(short_ios=2))) == {
        "short-io": False
    }


def test_jobs_that_did_not_run_together_are_doubted() -> None:
    def halve(job: dict[str, Any]) -> None:
        read = job["read"]
        halves = {key: read[key] / 2 for key in ("iops", "bw", "bw_bytes")}
        read.update(runtime=read["runtime"] * 2, **halves)

    assert doubts(changed("two-jobs", halve)) == {"uneven": False}


def test_a_key_with_two_values_is_doubted_unless_it_is_an_option() -> None:
    text = recorded("randread").decode()
    twice = text.replace('"total_ios" :', '"total_ios" : 7, "total_ios" :', 1)
    assert doubts(parse(twice.encode(), "f")) == {"two-values": False}
    option = text.replace('"filename" :', '"filename" : "/dev/other", "filename" :', 1)
    assert doubts(parse(option.encode(), "f")) == {}


def test_a_disk_util_that_is_missing_is_not_missed() -> None:
    assert b"disk_util" not in recorded("no-latencies").split(b'"jobs"')[0]
    assert values(parse(recorded("no-latencies"), "f"))["read.iops"] > 0


def test_the_disks_that_fio_names_are_known() -> None:
    assert parse(recorded("mix"), "f").disks == ("loop697",)
    assert parse(recorded("no-latencies"), "f").disks == ()
    for odd in (None, {}, [7], [{}], [{"name": 7}], [{"name": ["sda"]}]):
        document = json.loads(recorded("mix"))
        document["disk_util"] = odd
        assert parse(json.dumps(document).encode(), "f").disks == ()


def as_fio2(document: dict[str, Any]) -> dict[str, Any]:
    """A recording in the fields of fio 2: microseconds, KiB, no N, no bins, zeros repeated."""
    for job in document["jobs"]:
        del job["job_runtime"]
        for operation in ("read", "write", "trim"):
            record = job[operation]
            record["io_bytes"] = record.pop("io_kbytes")
            del record["bw_bytes"], record["total_ios"]
            record["iops"] = int(record["iops"])
            for stage in ("slat", "clat", "lat"):
                latency = record.pop(f"{stage}_ns")
                for field in ("N", "bins"):
                    latency.pop(field, None)
                for field in ("min", "max", "mean", "stddev"):
                    latency[field] /= 1000
                listed = latency.get("percentile", {})
                latency["percentile"] = {p: v // 1000 for p, v in listed.items()}
                record[stage] = latency
    document["fio version"] = "fio-2.1.10"
    return document


@pytest.mark.parametrize("case", ["randread", "mix", "write"])
def test_fields_of_fio_2_mean_the_same_numbers(case: str) -> None:
    new = values(parse(recorded(case), "f"))
    old = parse(json.dumps(as_fio2(report(case)), indent=1).encode(), "f")
    assert doubts(old) == {}
    assert values(old).keys() == new.keys()
    for name, value in values(old).items():
        # whole microseconds in a percentile, whole IOPS
        slack = 1e-6 if ".p" in name or ".slat." in name else 0.0
        assert value == pytest.approx(new[name], rel=2e-3, abs=slack)


def test_a_percentile_in_the_last_bin_is_censored() -> None:
    def slow(job: dict[str, Any]) -> None:
        job["read"]["clat_ns"]["bins"] = {"1000": 50, "17112760320": 50}

    parsed = changed("randread", slow)
    sides = {m.metric: m.censored for m in parsed.measurements if m.job == "all"}
    assert sides["read.clat.p50"] == ""
    assert sides["read.clat.p99"] == "high"


def test_names_that_cannot_be_printed_are_made_printable() -> None:
    parsed = changed("randread", lambda job: job.update(jobname="a\ud800\n\x1b[31m"))
    assert {each.job for each in parsed.measurements} == {"all", "a???[31m#1"}


MUTATED = ["mix", "two-jobs-without-bins", "not-steady", "several-documents", "no-space"]
PIECES = [b"-", b"9" * 30, b"null", b"nan", b"[]", b"{}", b'"x"', b"1e400", b"true", b"}", b"{",
          b"\xff", b"\x00", b'"', b",", b"0", b"-1", b"\n{", b"9" * 5000]  # fmt: skip


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    data = bytearray(recorded(draw(st.sampled_from(MUTATED))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "delete", "insert", "replace", "number"])):
            case "cut":
                del data[at:]
            case "delete":
                del data[at : at + draw(st.integers(1, 200))]
            case "insert":
                data[at:at] = draw(st.sampled_from(PIECES) | st.binary(max_size=8))
            case "replace":
                data[at : at + 1] = draw(st.sampled_from(PIECES) | st.binary(max_size=2))
            case "number":
                if number := re.compile(rb": ([-.0-9]+)").search(data, at):
                    data[slice(*number.span(1))] = draw(st.sampled_from(PIECES))
    return bytes(data)


@given(mutations())
@settings(max_examples=400, deadline=None)
def test_a_mutated_report_gives_sound_numbers_or_a_format_error(data: bytes) -> None:
    try:
        parsed = parse(data, "f")
    except FormatError:
        return
    for each in parsed.measurements:
        assert math.isfinite(each.value)
        assert each.value >= 0
        each.job.encode()
    for doubt in parsed.doubts:
        doubt.what.encode()


@given(st.lists(st.dictionaries(st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1))
def test_merging_keeps_every_io_and_the_order_of_percentiles(parts: list[dict[int, int]]) -> None:
    total = added_up(parts)
    assert sum(total.values()) == sum(sum(part.values()) for part in parts)
    found = list(percentiles(total).values())
    assert found == sorted(found)
    assert all(total[value] for value in found)


def test_ten_thousand_reports_can_be_read_again_in_seconds() -> None:
    data = recorded("not-steady")
    assert len(data) > 14_000
    fastest = math.inf
    for _ in range(30):
        start = time.perf_counter()
        parse(data, "f")
        fastest = min(fastest, time.perf_counter() - start)
    assert fastest < 2e-3


def synced() -> ParsedOutput:
    """A recording of random writes with ``fsync=32``."""
    data = (DATA.parent / "fio-text" / "3.42-fsync-text-and-json.txt").read_bytes()
    return parse(data, "fio.json")


def test_commits_have_a_latency() -> None:
    found, told = values(synced()), json_of_fsync()["sync"]["lat_ns"]
    assert found["sync.lat.mean"] == pytest.approx(told["mean"] * 1e-9)
    assert found["sync.lat.max"] == pytest.approx(told["max"] * 1e-9)
    assert found["sync.lat.p99"] == pytest.approx(told["percentile"]["99.000000"] * 1e-9)
    assert not [name for name in values(parse(recorded("write"), "f")) if "sync" in name]


def json_of_fsync() -> dict[str, Any]:
    text = (DATA.parent / "fio-text" / "3.42-fsync-text-and-json.txt").read_text()
    document = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    job: dict[str, Any] = document["jobs"][0]
    return job


@pytest.mark.parametrize(("times", "doubted"), [(5, False), (100, True)])
def test_a_write_into_memory_is_no_commit(times: float, *, doubted: bool) -> None:
    def slow(job: dict[str, Any]) -> None:
        took = job["write"]["lat_ns"]["mean"] * times
        job["sync"] = {
            "total_ios": 9,
            "lat_ns": {"min": took, "max": took, "mean": took, "stddev": 0.0, "N": 9},
        }

    parsed = changed("write", slow)
    assert ("sync-apart" in doubts(parsed)) is doubted
    if doubted:
        (what,) = [each.what for each in parsed.doubts if each.check == "sync-apart"]
        assert "the write's latency is not that of a commit" in what


def test_the_totals_are_of_all_operations_and_the_spread_of_all_jobs() -> None:
    mixed = values(parse(recorded("mix"), "f"))
    for quantity in ("iops", "bw"):
        parts = mixed[f"read.{quantity}"] + mixed[f"write.{quantity}"]
        assert mixed[f"total.{quantity}"] == pytest.approx(parts)
    two = parse(recorded("two-jobs"), "f")
    each = [values(two, m.job) for m in two.measurements if m.metric == "read.clat.max"]
    assert values(two)["read.clat.max"] == max(job["read.clat.max"] for job in each)
    document = report("two-jobs")
    parts = [job["read"]["clat_ns"] for job in document["jobs"]]
    count = sum(part["N"] for part in parts)
    mean = sum(part["mean"] * part["N"] for part in parts) / count
    squares = sum(p["N"] * (p["stddev"] ** 2 + (p["mean"] - mean) ** 2) for p in parts)
    assert values(two)["read.clat.sd"] == pytest.approx((squares / count) ** 0.5 * 1e-9)


def test_the_busiest_disk_says_how_busy_the_storage_was() -> None:
    document = report("randread")
    document["disk_util"] = [{"name": "sda", "util": 12.5}, {"name": "sdb", "util": 75.0}]
    assert values(parse(json.dumps(document).encode(), "f"))["total.util"] == 0.75
    document["disk_util"] = [{"name": "sda", "util": 1e30}, "sdb", {"name": "sdc"}]
    assert "total.util" not in values(parse(json.dumps(document).encode(), "f"))


def test_whether_disks_are_reported_is_no_treatment() -> None:
    document = report("randread")
    document["global options"] = {**document.get("global options", {}), "disk_util": "0"}
    (found,) = FORMAT.read(json.dumps(document).encode(), "f")
    assert "disk_util" not in dict(found.treatment)
    assert "ioengine" in dict(found.treatment)
