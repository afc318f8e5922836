"""What several loads at the same time measured together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotrial.formats.fio.bins import added_up as bins_merged
from iotrial.formats.fio.bins import percentiles
from iotrial.model.measurement import Measurement
from iotrial.model.tool import ParsedOutput
from iotrial.tools import tool
from iotrial.tools.results import merged, summed

RECORDED = Path(__file__).parents[1] / "data" / "fio"


def report(folder: Path, iops: float, bins: dict[int, int]) -> tuple[str, ParsedOutput]:
    folder.mkdir()
    count = sum(bins.values())
    clat = {"N": count, "mean": sum(v * n for v, n in bins.items()) / count,
            "bins": {str(value): n for value, n in bins.items()}}  # fmt: skip
    read = {"io_bytes": 4096 * count, "runtime": 1000, "iops": iops, "total_ios": count,
            "bw_bytes": int(4096 * iops), "clat_ns": clat}  # fmt: skip
    job = {"jobname": "reads", "groupid": 0, "error": 0, "job_runtime": 1000, "read": read,
           "usr_cpu": 10.0, "sys_cpu": 20.0}  # fmt: skip
    (folder / "fio.json").write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    return f"{folder.name}/disk", tool("fio").parse(folder)


def test_rates_add_up_and_percentiles_are_those_of_all_ios_together(tmp_path: Path) -> None:
    fast = {1000: 990, 2000: 10}
    slow = {50_000: 100}
    told = [report(tmp_path / "a", 1000.0, fast), report(tmp_path / "b", 100.0, slow)]
    values = {m.metric: m.value for m in merged(tool("fio"), told) if m.job == "all"}
    assert values["read.iops"] == 1100.0
    pooled = percentiles(bins_merged([fast, slow]))
    for p, value in pooled.items():
        assert values[f"read.clat.p{p:g}"] == pytest.approx(value * 1e-9)
    apart = [{m.metric: m.value for m in each.measurements} for _, each in told]
    average = sum(each["read.clat.p95"] for each in apart) / 2
    assert values["read.clat.p95"] != pytest.approx(average)


def test_each_part_keeps_its_own_numbers_under_its_name(tmp_path: Path) -> None:
    told = [report(tmp_path / name, 10.0, {1000: 10}) for name in ("a", "b")]
    jobs = {(m.job, m.raw) for m in merged(tool("fio"), told) if m.metric == "read.iops"}
    assert jobs == {
        ("all", "trial.json"), ("a/disk", "a/disk/fio.json"), ("b/disk", "b/disk/fio.json"),
    }  # fmt: skip


def test_one_load_without_a_name_says_what_it_always_said(tmp_path: Path) -> None:
    _, parsed = report(tmp_path / "a", 10.0, {1000: 10})
    assert merged(tool("fio"), [("", parsed)]) == parsed.measurements


def test_a_part_that_says_nothing_leaves_nothing_to_say(tmp_path: Path) -> None:
    told = [report(tmp_path / "a", 10.0, {1000: 10}), ("b/disk", ParsedOutput(()))]
    assert merged(tool("fio"), told) == ()


def said(**values: float) -> ParsedOutput:
    return ParsedOutput(tuple(Measurement(k.replace("__", "."), v, "") for k, v in values.items()))


def test_of_one_load_alone_the_whole_is_that_load_whatever_it_counts() -> None:
    """A number that nobody knows how to add up, and a percentile without a histogram, too."""
    found = merged(tool("command"), [("a/disk", said(score=7.0, read__lat__p99=2.0))])
    assert {(m.job, m.metric, m.value) for m in found} == {
        (job, *each)
        for job in ("all", "a/disk")
        for each in (("score", 7.0), ("read.lat.p99", 2.0))
    }


def test_without_histograms_only_what_adds_up_is_said() -> None:
    one = said(read__iops=100, read__lat__mean=1.0, read__lat__p99=2.0, read__seconds=5)
    other = said(read__iops=300, read__lat__mean=3.0, read__lat__p99=9.0, read__seconds=7)
    values = {m.metric: m.value for m in summed([one, other])}
    assert values == {"read.iops": 400, "read.lat.mean": 2.5, "read.seconds": 7}
