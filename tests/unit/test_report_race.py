"""How the decision of a race was reached, in every shape of a report."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

import altair as alt
import pytest
from race_studies import FOUR, gauss, raced
from rich.cells import cell_len
from rich.console import Console

from iotrial.judgement import Judged, judge
from iotrial.model.finding import RaceResult
from iotrial.model.study import Goal
from iotrial.report import races
from iotrial.report.document import document
from iotrial.report.races import race_figures, race_spec
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view

pytestmark = pytest.mark.charts

SIXTEEN = {f"s{number}": -0.004 * number * (number % 4) for number in range(16)}


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge(raced(FOUR, gauss(0.01), baseline="bfq"))


@pytest.fixture(scope="module")
def seen(judged: Judged) -> ReportView:
    return view(judged)


@pytest.mark.parametrize("goal", ["all", "winner"])
def test_what_is_not_better_has_a_sign_and_the_legend_says_so(goal: Goal) -> None:
    of = raced(
        {"none": 0.0, "kyber": -0.012, "bfq": -0.014}, gauss(0.04), baseline="none", goal=goal
    )
    judged, shown = judge(of), goal == "winner"
    seen = view(judged)
    (figure,) = race_figures(seen.parts[0], seen.margin, "x")
    assert ("not better (◆)" in figure.caption) is shown
    assert ("not better after block" in figure.svg) is shown
    assert ("not better" in said(seen)) is shown
    places = {each["verdict"] for each in document(judged)["races"][0]["treatments"]}
    assert ("not-better" in places) is shown


def story(of: ReportView) -> RaceResult:
    told = of.parts[0].race
    assert told is not None
    return told


def said(of: ReportView) -> str:
    console = Console(file=io.StringIO(), width=80, no_color=True, color_system=None)
    console.print(verdict_table(of))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_says_who_went_when_within_80_columns(seen: ReportView) -> None:
    lines = said(seen).splitlines()
    assert max(map(cell_len, lines)) <= 80
    (head,) = [at for at, line in enumerate(lines) if line.startswith("treatment")]
    rows = [line.split() for line in lines[head + 2 : head + 6]]
    assert [row[0] for row in rows[:2]] in (["none", "mq-deadline"], ["mq-deadline", "none"])
    assert rows[0][1:3] == ["kept", "–"]
    assert rows[1][1] == "same"
    assert {row[0]: row[1] for row in rows[2:]} == {"kyber": "worse", "bfq": "worse"}
    assert "widest interval at the end ±" in " ".join(said(seen).split())


def test_names_too_long_for_a_column_stay_whole_and_no_number_is_lost() -> None:
    name = "a-level-with-a-name-that-nobody-should-ever-choose-for-anything"
    lines = said(view(judge(raced({"none": 0.0, name: -0.3}, gauss(0.01))))).splitlines()
    assert max(map(cell_len, lines)) <= 80
    rows = [at for at, line in enumerate(lines) if line.startswith(f"{name}  verdict: worse")]
    assert "…" in lines[rows[-1] + 1]


def test_markdown_and_the_page_have_the_table(seen: ReportView) -> None:
    assert "| treatment | verdict | after block | trials | difference (interval) |" in (
        markdown(seen)
    )
    page = html(seen)
    assert "Course of the race" in page
    assert '<th scope="col" class="n">after block</th>' in page
    assert "smallest detectable difference" not in page


def test_the_document_tells_every_look(judged: Judged) -> None:
    (told,) = json.loads(json.dumps(document(judged), allow_nan=False))["races"]
    assert told["labels"] == list(FOUR)
    assert told["decided"]
    assert set(told["dropped"]) == {"kyber", "bfq"}
    assert len(told["settled"]) == 1
    assert told["trials"] == sum(each["trials"] for each in told["treatments"])
    assert [look["block"] for look in told["looks"]][-1] == told["blocks"]
    paths = {each["treatment"]: each["path"] for each in told["treatments"]}
    assert paths["bfq"][-1]["block"] == told["dropped"]["bfq"]
    assert paths[told["kept"]] == []


def test_an_open_race_leads_and_says_what_going_on_would_cost() -> None:
    seen = view(judge(raced({"none": 0.0, "bfq": 0.012}, gauss(0.02), blocks=8)))
    told = races.as_data(story(seen))
    assert not told["decided"]
    assert told["ahead"]["blocks"] > 0
    assert [row[1] for row in races.rows(story(seen))] == ["leads", "cannot tell"]
    assert "more blocks at the observed noise" in seen.answer


def test_before_the_first_look_there_is_neither_table_nor_chart() -> None:
    judged = judge(raced(FOUR, gauss(0.01), blocks=1))
    seen = view(judged)
    assert races.rows(story(seen)) == ()
    assert race_figures(seen.parts[0], seen.margin, "r") == ()
    assert json.dumps(document(judged), allow_nan=False)
    assert "Course of the race" not in html(seen)


def test_the_chart_has_a_panel_a_treatment_and_keeps_the_schema(seen: ReportView) -> None:
    alt.Chart.from_dict(race_spec(story(seen), seen.margin), validate=True)
    (figure,) = race_figures(seen.parts[0], seen.margin, "r0")
    root = ET.fromstring(figure.svg)  # noqa: S314 -- our own
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("dropped after block" in text for text in texts)
    assert any("the same after block" in text for text in texts)
    described = root.find("{http://www.w3.org/2000/svg}desc")
    assert described is not None
    assert described.text is not None
    for racer in story(seen).racers:
        assert (f"{racer.label}: " in described.text) == (racer.place != "kept")
    assert figure.title in html(seen)


def test_sixteen_treatments_are_fifteen_panels_on_one_scale() -> None:
    told = story(view(judge(raced(SIXTEEN, gauss(0.01), blocks=40))))
    spec = race_spec(told, 0.02)
    rows = spec["datasets"]["rows"]
    ends = [row for row in rows if row["what"] == "end"]
    assert len(ends) == 15
    assert spec["columns"] == 4
    low, high = spec["spec"]["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    assert all(low <= row["v"] <= high for row in rows if "v" in row)
    assert all(low <= row["low"] <= row["high"] <= high for row in rows)


def test_the_first_scale_tick_beside_0_is_the_margin() -> None:
    told = story(view(judge(raced(FOUR, gauss(0.01)))))
    axis = race_spec(told, 0.02)["spec"]["layer"][-1]["encoding"]["y"]["axis"]
    assert {0, -2} <= set(axis["values"])


def test_who_led_on_the_way_is_told_where_it_changed() -> None:
    told = story(view(judge(raced({"a": 0.0, "b": 0.001, "c": 0.0}, gauss(0.02), blocks=80))))
    changes = [a != b for a, b in zip(told.leaders, told.leaders[1:], strict=False)]
    assert bool(races.leading(told)) == any(changes)
    if any(changes):
        assert races.leading(told).endswith(f"{told.kept} since.")
