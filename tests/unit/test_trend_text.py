"""A series as characters: as wide as the window, its changes where they are."""

from __future__ import annotations

import dataclasses
import math

import pytest
from rich.cells import cell_len

from iotrial.stats.changes import HistoryPoint, changes
from iotrial_store.history import StoreChange, StoreHistory, StoreSeries
from iotrial_store.trend_text import trend_text

DAY = 86_400.0


def history(count: int, step: float, *, doubted: int = -1) -> StoreHistory:
    """Nights of 1000 and after the twelfth 1000 · ``step``, 1 % up and down; one is ``doubted``."""
    points = [
        HistoryPoint(
            night * DAY,
            8,
            math.log(1000 * (step if night >= 12 else 1) * (1.01 if night % 2 else 1)),
            0.01,
            8 if night == doubted else 0,
        )
        for night in range(count)
    ]
    series = StoreSeries(
        "nightly", "load", "scheduler=none", "disk", "read.iops", "1/s",
        higher=True, machines="m", hosts="box",
        points=tuple(points), results=tuple(map(str, range(count))),
    )  # fmt: skip
    found = changes(points, margin=0.02)
    return StoreHistory(
        series,
        found,
        tuple(StoreChange(at, "a", "b", at.ratio < 1, ()) for at in found.changes),
    )


@pytest.mark.parametrize("width", [24, 40, 72, 200])
def test_it_is_no_wider_than_the_window_and_has_a_dot_a_night(width: int) -> None:
    drawn = trend_text(history(20, 0.8), width)
    assert drawn is not None
    head, *lines = drawn.plain.split("\n")
    assert head == "nightly: load scheduler=none, read.iops  nights differ by 0.53 %"
    assert all(cell_len(line) <= min(width, 72) for line in lines)
    dots = "".join(lines).count("●")
    assert dots == 20 if width >= 40 else 0 < dots <= 20
    assert lines[0].startswith("1.01 kIOPS ")
    assert lines[-2].split()[:2] == ["800", "IOPS"]


def test_a_line_parts_the_nights_before_a_change_from_those_after_it() -> None:
    drawn = trend_text(history(20, 0.8), 60)
    assert drawn is not None
    _, *rows, days = drawn.plain.split("\n")
    (at,) = {row.index("│") for row in rows}
    assert rows[0][:at].count("●") == 12
    assert rows[0][at:].count("●") == 0
    assert rows[-1][at:].count("●") == 8
    assert days.split() == ["1970-01-01", "1970-01-20"]
    assert any("red" in str(span.style) for span in drawn.spans)


def test_a_change_that_may_be_has_a_broken_line_and_a_night_left_out_a_hollow_dot() -> None:
    perhaps = trend_text(history(14, 0.8), 60)
    assert perhaps is not None
    assert ("┆" in perhaps.plain, "│" in perhaps.plain) == (True, False)
    doubted = trend_text(history(20, 1.0, doubted=5), 60)
    assert doubted is not None
    assert (doubted.plain.count("○"), doubted.plain.count("●")) == (1, 19)


def test_where_there_is_no_room_or_no_night_nothing_is_drawn() -> None:
    some = history(20, 0.8)
    assert trend_text(some, 20) is None
    none = tuple(dataclasses.replace(each, valid=False) for each in some.series.points)
    series = dataclasses.replace(some.series, points=none)
    assert trend_text(dataclasses.replace(some, series=series), 80) is None
    one = dataclasses.replace(some.series, points=some.series.points[:1])
    alone = trend_text(dataclasses.replace(some, series=one, changes=()), 80)
    assert alone is not None
    assert alone.plain.count("●") == 1
