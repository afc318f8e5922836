"""What a report says of several factors: interactions, shares of the variation, trade-offs."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from stats_studies import noisy, results, with_metric

from iotrial.judgement import Judged, judge
from iotrial.model.results import Results
from iotrial.model.trial import Trial
from iotrial.report.document import document
from iotrial.report.effects import (
    MOST_NAMED,
    SIDES,
    effect_figures,
    labelled,
    pair_spec,
    tradeoff_spec,
)
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view
from iotrial.stats.tradeoffs import MeanInterval, beaten, tradeoffs

pytestmark = pytest.mark.charts

FACTORS = {"scheduler": ("none", "bfq"), "depth": ("1", "32"), "size": ("4k", "64k")}
P99 = {"none": 1.4, "bfq": 1.0}


def study() -> Results:
    """bfq is slow at depth 1 and fast at depth 32; none has the longer tail."""
    noise = noisy(0.004, 7, {("reads", "64k"): 0.5})

    def response(trial: Trial) -> float:
        level = dict(trial.treatment)
        crossed = {("bfq", "1"): 0.8, ("bfq", "32"): 1.2}
        return noise(trial) * crossed.get((level["scheduler"], level["depth"]), 1.0)

    of = results(FACTORS, ["reads"], 4, response)
    return with_metric(
        of,
        "read.clat.p99",
        lambda r: P99[dict(r.trial.treatment)["scheduler"]] / r.measurements[0].value,
    )


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge(study())


@pytest.fixture(scope="module")
def seen(judged: Judged) -> ReportView:
    return view(judged)


def test_the_terminal_lists_what_differs_and_what_explains(seen: ReportView) -> None:
    console = Console(width=80, record=True)
    console.print(verdict_table(seen))
    said = " ".join(console.export_text().split())
    assert "3 interactions: 1 differs" in said
    assert "scheduler=bfq × depth=32 +5" in said
    assert "variation explained: size" in said
    assert "Pareto-optimal for read.iops and read.clat.p99: scheduler=bfq depth=32 size=4k" in said
    assert "the average effect of scheduler=bfq hides opposite effects" in said


def test_markdown_has_the_same(seen: ReportView) -> None:
    said = markdown(seen)
    assert "| scheduler=bfq × depth=32 | differs |" in said
    assert "Variation explained: size" in said


def test_the_document_has_all_of_it_and_is_json(judged: Judged) -> None:
    said = json.loads(json.dumps(document(judged), allow_nan=False))
    assert len(said["interactions"]) == 3
    crossed = said["interactions"][0]
    assert crossed["factors"] == ["scheduler", "depth"]
    assert (crossed["verdict"], crossed["n"]) == ("differs", 4)
    assert crossed["low"] < crossed["ratio"] < crossed["high"]
    assert {tuple(each["source"]) for each in said["shares"]} >= {("size",), ("residual",)}
    assert sum(each["eta2"] for each in said["shares"]) == pytest.approx(1)
    [cost] = said["tradeoffs"]
    assert (cost["gain"], cost["cost"], len(cost["treatments"])) == (
        "read.iops", "read.clat.p99", 8,
    )  # fmt: skip


def test_the_page_draws_them_with_words_for_those_who_do_not_see(seen: ReportView) -> None:
    figures = effect_figures(seen.parts[0], seen.margin, "e")
    titles = [figure.title for figure in figures]
    assert titles[0] == "Main effects on read IOPS, all on one scale"
    assert titles[1] == "Effect of scheduler at each depth", "the one that differs comes first"
    assert "Shares of the variation of read IOPS" in titles
    assert titles[-1] == "read IOPS against read latency clat.p99"
    for figure in figures:
        drawn = ET.fromstring(figure.svg)  # noqa: S314 -- our own
        described = drawn.find("{http://www.w3.org/2000/svg}desc")
        assert described is not None
        assert described.text
    page = html(seen)
    assert all(title in page for title in titles)
    assert "Interactions: does one factor" in page


def test_every_point_of_an_interaction_has_its_interval(seen: ReportView) -> None:
    rows = [e for e in seen.parts[0].simple if (e.factor, e.other) == ("scheduler", "depth")]
    drawn = pair_spec(rows, 0.02)["datasets"]["rows"]
    assert [(row["at"], row["g"]) for row in drawn] == [("depth=1", "bfq"), ("depth=32", "bfq")]
    for row in drawn:
        assert row["low"] < row["v"] < row["high"]


def test_one_factor_gets_no_chart_of_several() -> None:
    of = results({"scheduler": ("none", "bfq")}, ["reads"], 3, noisy(0.01, 1))
    assert effect_figures(view(judge(of)).parts[0], 0.02, "e") == ()


# -- trade-offs -------------------------------------------------------------------------------


def test_only_what_nothing_beats_is_filled(seen: ReportView) -> None:
    [found] = seen.parts[0].tradeoffs
    best = {point.treatment for point in found.points if point.front}
    fastest = (("scheduler", "bfq"), ("depth", "32"), ("size", "4k"))
    assert best == {fastest}
    drawn = tradeoff_spec(found, "read IOPS", "1/s")["datasets"]
    assert (len(drawn["rows"]), len(drawn["best"])) == (8, 1)
    for row in drawn["rows"]:
        assert row["x1"] < row["x"] < row["x2"]
        assert row["y1"] < row["y"] < row["y2"]
    named = [row for side in SIDES for row in drawn[side]]
    assert sorted(row["t"] for row in named) == sorted(row["t"] for row in drawn["rows"])


def test_names_of_points_that_lie_close_do_not_cover_each_other() -> None:
    def row(name: str, x: float, y: float) -> dict[str, object]:
        return {"t": name, "x": x, "x1": x - 1, "x2": x + 1, "y": y, "y1": y - 1, "y2": y + 1}

    close = [row("kyber", 50, 50), row("bfq", 51, 50.5), row("none", 0, 0), row("far", 100, 100)]
    sides = {str(each["t"]): each["side"] for each in labelled(close)}
    assert set(sides) == {"kyber", "bfq", "none", "far"}
    assert sides["kyber"] != sides["bfq"]
    assert str(sides["far"]).startswith("before"), "else it would leave the chart"
    many = [row(str(at), at, at) for at in range(MOST_NAMED + 1)]
    assert not list(labelled(many))


def test_a_latency_that_is_the_primary_metric_is_not_drawn_against_itself() -> None:
    of = study()
    assert {each.cost for each in tradeoffs(of)} == {"read.clat.p99"}
    alone = results(FACTORS, ["reads"], 2, noisy(0.01, 1))
    assert tradeoffs(alone) == ()


def extent(low: float, high: float) -> MeanInterval:
    return MeanInterval((low * high) ** 0.5, low, high)


@pytest.mark.parametrize(
    ("own", "other", "lost"),
    [
        (((9, 11), (1, 2)), ((12, 14), (1, 2)), True),
        (((9, 11), (1, 2)), ((12, 14), (1.1, 2)), False),
        (((9, 11), (1, 2)), ((10, 14), (0.9, 1.8)), False),
        (((9, 11), (1, 2)), ((9, 11), (0.4, 0.9)), True),
        (((9, 11), (1, 2)), ((9, 11), (1, 2)), False),
    ],
    ids=["faster", "faster but slower to answer", "perhaps better in both", "quicker", "equal"],
)
def test_beaten_is_only_what_was_shown_to_be(
    own: tuple[tuple[float, float], ...],
    other: tuple[tuple[float, float], ...],
    lost: bool,  # noqa: FBT001
) -> None:
    one, two = (tuple(extent(*ends) for ends in each) for each in (own, other))
    assert beaten((one[0], one[1]), (two[0], two[1]), (True, False)) is lost


@given(st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=1, max_size=12))
def test_somebody_is_never_beaten(values: list[tuple[float, float]]) -> None:
    points = [(extent(x, x * 1.2), extent(y, y * 1.2)) for x, y in values]
    assert any(not any(beaten(own, other, (True, False)) for other in points) for own in points)


def test_without_intervals_nothing_was_shown() -> None:
    points = [(MeanInterval(x, None, None), MeanInterval(1.0, None, None)) for x in (1.0, 2.0)]
    assert not beaten(points[0], points[1], (True, False))
