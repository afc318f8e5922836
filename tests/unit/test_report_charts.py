"""Charts: what is drawn, for the eye, for the colour-blind, for the dark and for the ear."""

from __future__ import annotations

import dataclasses
import itertools
import re
from xml.etree import ElementTree as ET

import altair as alt
import pytest

import factories
from iotrial.judgement import completed
from iotrial.model.measurement import metric
from iotrial.report import charts, drawing
from iotrial.report.blocks import Figure
from iotrial.report.series import PercentileSpread, Series, SeriesPoint
from iotrial.report.view import view
from iotrial.report.words import change

pytestmark = pytest.mark.charts

RESULTS = factories.results()
VIEW = view(completed(RESULTS, factories.comparison(RESULTS)))
PART = VIEW.parts[1]
FIGURES: tuple[Figure, ...] = ()
KINDS = ("change", "means", "latency", "trials")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", autouse=True)
def _drawn() -> None:
    """They are drawn for these tests alone, not by each process that only collects them."""
    globals()["FIGURES"] = charts.figures(PART, VIEW.margin, "x")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    return FIGURES[KINDS.index(request.param)]


def parsed(figure: Figure) -> ET.Element:
    return ET.fromstring(figure.svg)  # noqa: S314 -- our own


def series(groups: tuple[str, ...]) -> Series:
    points = tuple(
        SeriesPoint(k, 100 + k, groups[k % len(groups)], k, valid=k != 3) for k in range(40)
    )
    spreads = tuple(
        PercentileSpread(group, "read", name, value, value * 0.9, value * 1.2, 5)
        for name, value in (("p50", 1e-4), ("p99.9", 0.02))
        for group in groups
    )
    return Series("w", groups, "scheduler", points, 40, (0.0, 20.0), spreads)


def test_a_workload_has_four_charts() -> None:
    assert [figure.kind for figure in FIGURES] == ["change", "means", "latency", "trials"]


def test_the_means_are_drawn_in_their_own_unit_with_the_interval_of_each() -> None:
    spec = charts.means_spec(PART)
    rows = spec["datasets"]["rows"]
    assert [row["row"].split("\n")[1] for row in rows] == list(factories.LEVELS)
    for row, (_, extent) in zip(rows, PART.means, strict=True):
        assert extent.low is not None
        assert row["low"] < row["v"] < row["high"]
        assert row["v"] == pytest.approx(extent.middle / 1000)
    assert "read IOPS (kIOPS)" in re.findall(r">([^<]+)</text>", FIGURES[1].svg)
    told = next(row for row in PART.findings if row.finding.level == "bfq")
    (mean,) = [
        extent.middle for treatment, extent in PART.means if dict(treatment) == {"scheduler": "bfq"}
    ]
    assert mean == pytest.approx(told.value)


@pytest.mark.parametrize(
    "spec",
    [
        charts.interval_spec(PART.findings, 0.02),
        charts.means_spec(PART),
        charts.trials_spec(series(("a", "b")), metric("read.iops")),
        charts.latency_spec(series(("a", "b")).spreads, ("a", "b")),
    ],
    ids=["change", "means", "trials", "latency"],
)
def test_specifications_keep_the_schema(spec: dict[str, object]) -> None:
    alt.Chart.from_dict(spec, validate=True)


@pytest.mark.parametrize("figure", KINDS, indirect=True)
def test_a_chart_has_a_text_alternative_with_its_numbers(figure: Figure) -> None:
    root = parsed(figure)
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby", "").split()
    said = {child.get("id"): child.text or "" for child in root if child.get("id")}
    assert list(said) == ids
    title, words = said.values()
    assert title.startswith("randmix: ")
    assert all(level in words for level in factories.LEVELS[1:])
    assert re.search(r"\d", words)


def test_the_text_alternative_says_interval_and_verdict() -> None:
    words = parsed(FIGURES[0])[1].text or ""
    row = PART.findings[0].finding
    assert f"mq-deadline against none: {change(row)}, worse." in words


@pytest.mark.parametrize("figure", KINDS, indirect=True)
def test_every_colour_is_one_that_the_dark_sheet_exchanges(figure: Figure) -> None:
    used = set(re.findall(r'(?:fill|stroke)="([^"]+)"', figure.svg)) - {"none", "transparent"}
    assert used <= {colour.light for colour in drawing.CHART_COLOURS}


def test_charts_hold_no_reference_to_anything() -> None:
    for figure in FIGURES:
        assert not re.search(r"(href|src|url\(|style)=?", str(figure.svg))


def test_colours_have_one_meaning_each() -> None:
    lights = [colour.light for colour in drawing.CHART_COLOURS]
    assert len(set(lights)) == len(lights)


def test_shapes_differ_where_colours_do() -> None:
    looks = [drawing.of_group(place) for place in range(8)]
    assert len({shape for _, shape in looks}) == len({colour for colour, _ in looks}) == 8


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


MARKS = (*drawing.SERIES, drawing.BASELINE, drawing.BETTER, drawing.WORSE, drawing.SAME,
         drawing.UNSURE)  # fmt: skip


@pytest.mark.parametrize("colour", MARKS, ids=lambda colour: colour.light)
def test_marks_stand_out_on_both_grounds(colour: drawing.Colour) -> None:
    assert contrast(colour.light, drawing.PAPER.light) >= 3
    assert contrast(colour.dark, drawing.PAPER.dark) >= 3


def test_text_is_legible_on_both_grounds() -> None:
    for colour in (drawing.INK, drawing.MUTED):
        assert contrast(colour.light, drawing.PAPER.light) >= 4.5
        assert contrast(colour.dark, drawing.PAPER.dark) >= 4.5


# Severe protanomaly and deuteranomaly: Machado, Oliveira & Fernandes 2009, table of matrices.
BLINDNESS = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
               (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
               (-0.011820, 0.042940, 0.968881)),
}  # fmt: skip


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_four_levels_differ_for_the_colour_blind(kind: str, theme: str) -> None:
    colours = (drawing.BASELINE, *drawing.SERIES[:3])
    seen = [
        [max(0.0, sum(m * c for m, c in zip(row, linear(getattr(colour, theme)), strict=True)))
         ** (1 / 2.2) for row in BLINDNESS[kind]]
        for colour in colours
    ]  # fmt: skip
    for one, other in itertools.combinations(seen, 2):
        distance = sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
        assert distance > 0.12


def test_hostile_names_are_text_in_a_chart() -> None:
    name = '<script>alert("1")</script>&\'</style>\\n'
    rows = [
        dataclasses.replace(
            row, finding=dataclasses.replace(row.finding, level=name, baseline=name)
        )
        for row in PART.findings
    ]
    part = dataclasses.replace(
        PART,
        workload=name,
        findings=tuple(rows),
        series=series((name, "none")),
        means=tuple(((("f", f"{name}{at}"),), extent) for at, (_, extent) in enumerate(PART.means)),
    )
    figures = charts.figures(part, 0.02, "h")
    assert len(figures) == 4
    for figure in figures:
        root = parsed(figure)
        assert not [child for child in root.iter() if child.tag in (f"{SVG}script", f"{SVG}style")]
        shown = ["".join(child.itertext()) for child in root.iter(f"{SVG}text")]
        assert any(text.startswith("<script>alert") for text in shown)


def test_twelve_levels_and_long_names_can_be_drawn() -> None:
    groups = tuple(f"level-with-a-rather-long-name-{n}" for n in range(12))
    part = dataclasses.replace(PART, series=series(groups))
    for figure in charts.figures(part, 0.02, "l"):
        parsed(figure)


def test_equal_values_and_missing_intervals_can_be_drawn() -> None:
    flat = [
        dataclasses.replace(
            row, finding=dataclasses.replace(row.finding, ratio=1.0, low=None, high=None)
        )
        for row in PART.findings
    ]
    points = tuple(SeriesPoint(0.0, 5.0, "a", n, valid=True) for n in range(3))
    spread = PercentileSpread("a", "read", "p50", 1e-4, 1e-4, 1e-4, 3)
    lone = Series("w", ("a",), "x", points, 3, (0.0,), (spread,))
    part = dataclasses.replace(PART, findings=tuple(flat), series=lone)
    for figure in charts.figures(part, 0.0, "f"):
        assert "NaN" not in figure.svg


def test_what_there_are_no_numbers_for_is_not_drawn() -> None:
    lone = Series("w", (), "", (), 0, (), ())
    part = dataclasses.replace(PART, findings=(), means=(), series=lone)
    assert charts.figures(part, 0.02, "n") == ()


def test_a_thinned_chart_says_so() -> None:
    thin = dataclasses.replace(series(("a", "b")), measured=5000)
    figure = charts.figures(dataclasses.replace(PART, series=thin), 0.02, "t")[-1]
    assert figure.title == "40 of 5,000 trials, in order of execution"
    assert "40 of 5,000 trials drawn" in figure.caption
