"""Events in, one document out: the page, the terminal and the metrics all read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import factories
from iotrial.judgement import judge
from iotrial.live.live import findings
from iotrial.live.picture import InterimFindings, LiveDocument, RunEnd
from iotrial.model.event import (
    CountersSampled,
    Message,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.results import TelemetrySample
from iotrial.model.trial import TrialRecord
from iotrial.model.tunable import Setting

RESULTS = factories.results()
RECORDS = RESULTS.records


def sample(host: str, t: float, reads: int, target: str = "disk") -> TelemetrySample:
    values = {
        "t": t,
        "cpu": {"user": int(t * 100), "idle": int(t * 300)},
        "disk": {"reads": reads, "sectors_read": reads * 8, "read_ms": reads, "io_ms": int(t * 900),
                 "in_flight": 4, "writes": 0, "sectors_written": 0, "write_ms": 0},
    }  # fmt: skip
    return TelemetrySample(host, target, "sda", values)


def loaded(*hosts: str) -> LiveDocument:
    """A trial at work; each host reads 1,000 a second."""
    picture = LiveDocument(RESULTS.study)
    picture.add(TrialsPlanned(63, 63, Path("results/x")), 0.0)
    picture.add(TrialBegan(RECORDS[0].trial, 3.0), 1.0)
    picture.add(SettingsInForce("local", [Setting("sda", "queue.nr_requests", "64")]), 2.0)
    picture.add(SettingsInForce("local", SETTINGS), 2.0)
    for t in (0.0, 1.0):
        for host in hosts:
            picture.add(CountersSampled(sample(host, t, int(1000 * t))), 3.0 + t)
    picture.tick()
    return picture


SETTINGS = [Setting("sda", "queue.nr_requests", "64"), Setting("sda", "queue.scheduler", "bfq")]


def test_rows_are_whatever_the_samples_name_and_the_total_is_their_sum() -> None:
    document = loaded("a", "b", "c").document(4.2)
    assert [row["host"] for row in document["rows"]] == ["a", "b", "c"]
    assert document["total"]["read.iops"] == 3000.0
    assert document["total"]["read.lat"] == 0.001
    assert {each["host"]: each["rates"]["cpu.busy"] for each in document["hosts"]} == {
        "a": 0.25, "b": 0.25, "c": 0.25,
    }  # fmt: skip


def test_a_host_that_says_nothing_leaves_the_total_and_stays_in_its_row() -> None:
    picture = loaded("a", "b")
    for t in range(2, 8):
        picture.add(CountersSampled(sample("a", t, 1000 * t)), 3.0 + t)
    document = picture.document(10.1)
    assert document["total"]["read.iops"] == 1000.0
    assert [row["age"] for row in document["rows"]] == [0.1, 6.1]


def test_rows_stay_between_trials_without_numbers() -> None:
    picture = loaded("a")
    picture.add(TrialEnded(RECORDS[0]), 5.0)
    picture.add(TrialBegan(RECORDS[1].trial, 3.0), 5.1)
    document = picture.document(5.2)
    assert document["rows"][0]["rates"] == {}
    assert document["total"] == {}


def test_what_is_varied_comes_first_among_the_settings() -> None:
    assert loaded("a").document(4.0)["settings"] == [
        ["local", "sda", "queue.scheduler", "bfq", True],
        ["local", "sda", "queue.nr_requests", "64", False],
    ]


def test_the_past_has_one_point_a_tick_and_none_where_nothing_was_said() -> None:
    picture = loaded("a")
    assert len(picture.points) == picture.pointed == 1
    picture.tick()
    assert picture.pointed == 1
    assert picture.points[0][:2] == [4.0, 1000.0]


def test_progress_counts_down_while_a_trial_goes_on() -> None:
    picture = loaded("a")
    before = picture.document(3.5)["progress"]
    assert (before["done"], before["most"]) == (0, 63)
    assert before["wait"] == pytest.approx(63 * 3.0 - 0.5)
    picture.add(TrialEnded(RECORDS[0]), 6.0)
    after = picture.document(6.0)["progress"]
    assert (after["done"], after["valid"]) == (1, 1)
    assert after["wait"] == pytest.approx(62 * RECORDS[0].seconds, abs=0.1)


def test_trials_that_do_not_count_say_why() -> None:
    picture = loaded("a")
    bad = next(record for record in RECORDS if record.state == "invalid")
    picture.add(TrialEnded(bad), 6.0)
    told = picture.document(6.0)["trials"][0]
    assert told["state"] == "invalid"
    assert told["why"] == next(doubt.what for doubt in bad.doubts if doubt.invalid)


def so_far(count: int) -> list[dict[str, Any]]:
    """The findings when ``count`` trials are done."""
    some = factories.dataclasses.replace(RESULTS, records=RECORDS[:count])
    return findings(some, judge)


def test_intervals_narrow_from_block_to_block_and_earlier_looks_are_kept() -> None:
    picture = loaded("a")
    for block in (2, 3, 4):
        picture.add(InterimFindings(so_far(12 * block), {"valid": 12 * block}), float(block))
    found = picture.document(9.0)["findings"]
    each = next(f for f in found if f["level"] == "bfq" and f["workload"] == "randread")
    widths = [high / low for _, low, _, high in each["looks"]]
    assert [n for n, *_ in each["looks"]] == [2, 3, 4]
    assert max(widths[1:]) < widths[0]


def test_a_design_of_so_many_blocks_gives_no_verdict_before_its_end() -> None:
    assert {each["verdict"] for each in so_far(36)} == {""}
    assert "worse" in {each["verdict"] for each in so_far(len(RECORDS))}


def test_what_cannot_be_judged_yet_keeps_what_was_known() -> None:
    picture = loaded("a")
    picture.add(InterimFindings(so_far(36), {"valid": 36}), 1.0)
    picture.add(InterimFindings(None, {"valid": 37}), 2.0)
    document = picture.document(3.0)
    assert document["findings"]
    assert document["progress"]["valid"] == 37


def test_the_end_has_the_exit_code_and_the_reason() -> None:
    picture = loaded("a")
    picture.add(RunEnd(130, "stopped by SIGINT"), 9.0)
    document = picture.document(9.0)
    assert (document["state"], document["exit"], document["trial"]) == ("over", 130, None)
    assert document["why"] == "stopped by SIGINT"
    assert document["progress"]["wait"] == 0.0


def test_every_document_is_json_whatever_names_hold() -> None:
    picture = loaded('a"<script>\n\x1b')
    picture.add(Message("</script>\udcff"), 1.0)
    assert json.loads(json.dumps(picture.document(1.0)))["words"] == ["</script>\udcff"]


def test_a_replayed_trial_shows_what_its_telemetry_says(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of the picture's seconds is that of the recorded counters over the whole load."""
    from iotrial.cli.main import status  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(
        '[targets.disk]\nloop = { size = "16MiB" }\n[workloads.reads]\ntool = "fio"\n'
        'options = { rw = "randread", bs = "4k", runtime = "7s" }\n[design]\nblocks = 1\n'
    )
    assert status(["run", "study.toml", "--pretend", "--out", "r", "-q"]) == 0
    record: TrialRecord = RECORDS[0]
    lines = (tmp_path / "r" / "trials").glob("*/telemetry.jsonl")
    rows = [json.loads(line) for line in next(lines).read_text().splitlines()]
    picture = LiveDocument(RESULTS.study)
    picture.add(TrialBegan(record.trial, 0.0), 0.0)
    for values in rows:
        picture.add(CountersSampled(TelemetrySample("local", "disk", "fake0", values)), values["t"])
        picture.tick()
    whole = [row for row in rows if row["t"] <= 7.0]
    reads = whole[-1]["disk"]["reads"] - whole[0]["disk"]["reads"]
    shown = [float(point[1] or 0.0) for point in picture.points if float(point[0] or 0) <= 7.0]
    assert len(shown) == 7
    assert sum(shown) / 7.0 == pytest.approx(reads / whole[-1]["t"], rel=1e-3)


def test_each_path_has_a_line_that_stays_between_trials_and_is_no_part_of_the_total() -> None:
    picture = loaded("a")
    for t in (2.0, 3.0):
        told = sample("b", t, int(1000 * t))
        half = {"reads": int(500 * t), "sectors_read": 0, "read_ms": 0}
        values = {**told.values, "paths": {"sdb": half, "sdc": half}}
        picture.add(CountersSampled(TelemetrySample("b", "disk", "dm-3", values)), 3.0 + t)
    document = picture.document(6.1)
    assert [(each["host"], each["path"]) for each in document["paths"]] == [
        ("b", "sdb"),
        ("b", "sdc"),
    ]
    assert [each["rates"]["read.iops"] for each in document["paths"]] == [500.0, 500.0]
    assert document["total"]["read.iops"] == 2000.0
    picture.add(TrialBegan(RECORDS[1].trial, 3.0), 7.0)
    assert [each["rates"] for each in picture.document(7.1)["paths"]] == [{}, {}]
