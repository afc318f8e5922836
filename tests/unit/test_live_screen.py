"""The screen of ``status --follow``: what the page shows, in a window of any size."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import factories
from iotrial.cli import screen
from iotrial.judgement import judge
from iotrial.live.live import findings
from iotrial.live.picture import InterimFindings, LiveDocument
from iotrial.model.event import (
    CountersSampled,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.results import TelemetrySample
from iotrial.model.tunable import Setting

RESULTS = factories.results()
RECORDS = RESULTS.records
WIDE, HIGH = 200, 60


def counters(reads: int) -> dict[str, int]:
    return {
        "reads": reads, "sectors_read": 8 * reads, "read_ms": reads // 2, "in_flight": 4,
        "writes": 0, "sectors_written": 0, "write_ms": 0, "io_ms": 900,
    }  # fmt: skip


def sample(host: str, target: str, t: float) -> TelemetrySample:
    """A map of two paths, the first of which carries three quarters of 4,000 reads a second."""
    done = int(4000 * t)
    values = {
        "t": t,
        "cpu": {"user": int(t * 25), "idle": int(t * 75)},
        "pressure": {what: {"some": int(t * 1e5)} for what in ("io", "cpu", "memory")},
        "disk": {**counters(done), "io_ms": int(900 * t)},
        "paths": {"sdb": counters(done * 3 // 4), "sdc": counters(done // 4)},
    }
    return TelemetrySample(host, target, "dm-3", values)


def at_work(hosts: int = 1, targets: int = 1) -> LiveDocument:
    picture = LiveDocument(RESULTS.study, os.getpid())
    picture.add(TrialsPlanned(63, 63, Path("r")), 0.0)
    picture.add(InterimFindings(findings(RESULTS, judge), {"valid": 58, "failed": 2}), 0.0)
    picture.add(TrialEnded(RECORDS[0]), 0.0)
    picture.add(TrialBegan(RECORDS[1].trial, 3.0), 0.0)
    picture.add(SettingsInForce("local", [Setting("sda", "queue.scheduler", "bfq")]), 0.0)
    for t in (0.0, 1.0):
        for host in range(1, hosts + 1):
            for target in range(1, targets + 1):
                picture.add(CountersSampled(sample(f"box{host}", f"lun{target}", t)), t)
    return picture


def shown(
    document: dict[str, Any],
    before: dict[str, Any] | None = None,
    *,
    width: int = WIDE,
    height: int = HIGH,
) -> list[str]:
    paper = Console(file=io.StringIO(), width=width)
    first = before or document
    told = screen.remembered(document, screen.remembered(first, first))
    paper.print(screen.picture(told, width, height))
    said = paper.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in said.splitlines()]


def row(lines: list[str], name: str) -> list[str]:
    """The words of the one row that begins so."""
    (found,) = [line.split() for line in lines if line.split()[:1] == [name]]
    return found


def test_it_has_rows_settings_intervals_trials_and_how_many_failed() -> None:
    said = "\n".join(shown(at_work().document(1.1)))
    for part in (
        RESULTS.study.question, "59 valid  2 failed", "queue.scheduler=bfq", "worse",
        "randread read.iops", "last trials",
    ):  # fmt: skip
        assert part in said


def test_a_row_has_what_the_page_has_of_it() -> None:
    lines = shown(at_work().document(1.1))
    (head,) = [line for line in lines if line.startswith("host ")]
    assert head.split("  ")[0] == "host"
    for each in ("read", "read bytes", "read lat", "in flight", "busy", "CPU", "waits memory"):
        assert each in head
    assert row(lines, "box1") == [
        "box1", "lun1", "dm-3", "–", "4.00", "kIOPS", "0", "IOPS", "15.6", "MiB/s", "0", "B/s",
        "500", "µs", "4", "90%", "25%", "10%", "10%", "10%",
    ]  # fmt: skip


def test_paths_stand_below_their_device_with_their_share_of_it() -> None:
    lines = shown(at_work(hosts=2).document(1.1))
    of = [line.split() for line in lines]
    places = [at for at, words in enumerate(of) if words[:1] in (["box1"], ["box2"], ["└"])]
    assert [of[at][0] for at in places] == ["box1", "└", "└", "box2", "└", "└"]
    assert of[places[1]][:7] == ["└", "sdb", "75%", "3.00", "kIOPS", "0", "IOPS"]
    assert of[places[2]][:7] == ["└", "sdc", "25%", "1.00", "kIOPS", "0", "IOPS"]


def test_of_several_rows_the_first_is_all_of_them_together() -> None:
    assert not [line for line in shown(at_work().document(1.1)) if line.startswith("total")]
    total = row(shown(at_work(hosts=2, targets=3).document(1.1)), "total")
    assert total[:4] == ["total", "–", "24.0", "kIOPS"]
    assert "25%" in total


def test_between_two_loads_the_last_numbers_stay() -> None:
    picture = at_work(hosts=2)
    before = picture.document(1.1)
    picture.add(TrialEnded(RECORDS[1]), 2.0)
    picture.add(TrialBegan(RECORDS[2].trial, 3.0), 2.1)
    after = picture.document(2.2)
    assert after["rows"][0]["rates"] == {}
    for name in ("box1", "box2", "total"):
        assert row(shown(after, before), name) == row(shown(before), name)
    assert [line for line in shown(after, before) if "└" in line] == [
        line for line in shown(before) if "└" in line
    ]


def test_a_window_too_low_for_paths_shows_targets_and_a_lower_one_a_row_a_host() -> None:
    document = at_work(hosts=8, targets=4).document(1.1)
    whole = shown(document, height=130)
    assert sum("└" in line for line in whole) == 64
    targets = shown(document, height=68)
    assert not [line for line in targets if "└" in line]
    assert sum(line.startswith("box") for line in targets) == 32
    assert "64 paths not shown: the window is too small" in "\n".join(targets)
    hosts = shown(document, height=24)
    assert [line.split()[:5] for line in hosts if line.startswith("box")] == [
        [f"box{number}", "4", "targets", "16.0", "kIOPS"] for number in range(1, 9)
    ]
    few = "\n".join(shown(at_work(hosts=40).document(1.1), height=24))
    assert "30 hosts not shown" in few


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_a_narrow_window_leaves_columns_out_and_shortens_nothing_of_the_rest(width: int) -> None:
    lines = shown(at_work(hosts=2).document(1.1), width=width)
    table = [line for line in lines if line.startswith(("host", "total", "box")) or "└" in line]
    assert len(table) == 8
    assert not [line for line in table if "…" in line]
    assert max(map(cell_len, table)) <= width
    assert "4.00 kIOPS" in "".join(table)


def test_a_run_that_has_sampled_nothing_yet_and_one_without_paths_have_a_screen() -> None:
    fresh = LiveDocument(RESULTS.study)
    assert shown(fresh.document(0.1))[0] == RESULTS.study.question
    older = at_work().document(1.1)
    del older["paths"]
    assert row(shown(older), "box1")[2] == "dm-3"
