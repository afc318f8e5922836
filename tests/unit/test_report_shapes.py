"""The report on a terminal, as Markdown, and as the JSON contract of ``compare``.

After a change that is meant, remake the golden files: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

import factories
from iotrial.judgement import completed
from iotrial.model.finding import Comparison, Finding
from iotrial.report import words
from iotrial.report.document import document
from iotrial.report.render.markdown import code, escape
from iotrial.report.study import markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import ReportView, view
from iotrial.report.words import IntervalScale, ruler, scale, strip

RESULTS = factories.results()
COMPARISON = factories.comparison(RESULTS)
JUDGED = completed(RESULTS, COMPARISON)
VIEW = view(JUDGED)
GOLDEN = Path(__file__).parent.parent / "golden"
RENDERER = MarkdownIt("commonmark").enable("table")


def said(shown: ReportView, *, width: int = 80) -> str:
    """What a terminal without colour is given."""
    console = Console(file=io.StringIO(), width=width, no_color=True, color_system=None)
    console.print(verdict_table(shown), crop=False)
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize(
    ("name", "text"), [("report.txt", said(VIEW)), ("report.md", markdown(VIEW))]
)
def test_the_report_reads_as_it_did(name: str, text: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


# -- terminal --------------------------------------------------------------------------------


def test_the_terminal_has_the_answer_first_and_keeps_to_80_columns() -> None:
    lines = said(VIEW).splitlines()
    assert lines[0].startswith("Keep none:")
    assert max(map(cell_len, lines)) <= 80


def test_names_in_brackets_are_no_markup_and_escapes_do_not_reach_the_terminal() -> None:
    level = "[bold red]x[/] \x1b[2J"
    findings = tuple(dataclasses.replace(f, level=level) for f in COMPARISON.findings)
    text = said(
        view(completed(RESULTS, dataclasses.replace(COMPARISON, findings=findings))), width=200
    )
    assert "[bold" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("length", [20, 30, 40, 50, 100])
def test_long_names_stay_whole_and_no_number_is_lost(length: int) -> None:
    level = "a-level-with-a-name-that-nobody-should-choose-".ljust(length, "x")[:length]
    findings = tuple(dataclasses.replace(f, level=level) for f in COMPARISON.findings)
    lines = said(
        view(completed(RESULTS, dataclasses.replace(COMPARISON, findings=findings)))
    ).splitlines()
    assert max(cell_len(line) for line in lines if level not in line or len(level) < 80) <= 80
    assert any(line.startswith(level) for line in lines)
    for finding in (each for each in findings if each.primary):
        assert any(words.interval(finding) in line for line in lines)


@pytest.mark.parametrize(("low", "high"), [(0.0123, 45.678), (0.00123, 456789.0), (98.76, 2.5e7)])
def test_wide_numbers_take_their_room_from_the_strip_and_not_from_n(
    low: float, high: float
) -> None:
    findings = tuple(
        dataclasses.replace(f, level="a-level", ratio=high / 2, low=low, high=high, n=123)
        for f in COMPARISON.findings
    )
    lines = said(
        view(completed(RESULTS, dataclasses.replace(COMPARISON, findings=findings)))
    ).splitlines()
    rows = [
        line for line in lines if words.interval(findings[0]) in line and "guardrail" not in line
    ]
    assert rows
    assert max(map(cell_len, lines)) <= 80
    assert all(" 123" in line for line in rows)
    assert all("─" in line for line in rows)


def test_verdicts_are_words_and_have_a_colour_where_there_is_one() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    console.print(verdict_table(VIEW))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[1;31mworse" in console.file.getvalue()
    assert "worse" in said(VIEW)


def finding(ratio: float, low: float | None, high: float | None) -> Finding:
    return dataclasses.replace(COMPARISON.findings[0], ratio=ratio, low=low, high=high)


@pytest.mark.parametrize(
    ("numbers", "drawn"),
    [
        ((0.84, 0.8, 0.88), "├──●─┤       │       "),
        ((1.0, 0.94, 1.06), "         ├───●───┤   "),
        ((1.06, 0.96, 1.08), "           ├─┼───●─┤ "),
        ((1.1, None, None), "             │      ●"),
        ((1.0, 1.0, 1.0), "             ●       "),
    ],
)
def test_an_interval_is_drawn_where_it_lies(
    numbers: tuple[float, float, float], drawn: str
) -> None:
    assert strip(finding(*numbers), IntervalScale(0.8, 1.1, 21)) == drawn


ratios = st.floats(0.05, 20)


@given(st.lists(st.tuples(ratios, ratios, ratios), min_size=1, max_size=5), st.integers(9, 60))
def test_every_strip_fits_its_scale_and_shows_the_estimate(
    triples: list[tuple[float, float, float]], width: int
) -> None:
    findings = [finding(b, a, c) for a, b, c in map(sorted, triples)]
    on = scale(findings, 0.02, width)
    for each in findings:
        drawn = strip(each, on)
        assert len(drawn) == width
        assert drawn[on.cell(each.ratio)] == "●"
    assert cell_len(ruler(on)) == width


# -- Markdown --------------------------------------------------------------------------------


HOSTILE = ("a|b", "`x`", "<b>", "*x*", "[a](javascript:b)", "_a_", "# h", "a\\|b", "&lt;", "~~x~~")


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_a_name_as_it_is(text: str) -> None:
    rendered = RENDERER.render(f"| a | b |\n| --- | --- |\n| {escape(text)} | end |\n")
    cells = re.findall(r"<td>(.*?)</td>", rendered)
    shown = cells[0].replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert (shown.replace("&amp;", "&"), cells[1]) == (text, "end")


@pytest.mark.parametrize("text", ["a|b", "x`y", "``", "`a`", "plain <b>"])
def test_markdown_shows_a_command_as_it_is(text: str) -> None:
    rendered = RENDERER.render(f"| a | b |\n| --- | --- |\n| {code(text)} | end |\n")
    cells = re.findall(r"<td>(.*?)</td>", rendered)
    shown = cells[0].removeprefix("<code>").removesuffix("</code>")
    assert shown.replace("&lt;", "<").replace("&gt;", ">") == text
    assert cells[1] == "end"


def test_markdown_tables_have_the_same_number_of_cells_in_every_row() -> None:
    rendered = RENDERER.render(markdown(VIEW))
    for table in re.findall(r"<table>(.*?)</table>", rendered, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        assert len({len(re.findall(r"<t[dh]", row)) for row in rows}) == 1


# -- JSON ------------------------------------------------------------------------------------


def test_the_document_keeps_the_contract_and_is_json() -> None:
    made = json.loads(json.dumps(document(JUDGED), allow_nan=False))
    assert made["format"] == 1
    assert made["question"] == factories.QUESTION
    assert made["recommendation"] == COMPARISON.recommendation
    keys = {
        "workload", "metric", "factor", "level", "baseline", "ratio", "low", "high", "verdict", "n",
    }  # fmt: skip
    assert all(keys <= set(found) for found in made["findings"])
    assert {found["verdict"] for found in made["findings"]} <= {
        "better", "worse", "same", "cannot-tell",
    }  # fmt: skip
    assert all({"trial", "what", "advice", "invalid"} <= set(d) for d in made["doubts"])
    assert "stages" not in made
    assert made["resolvable"] == {"randread": 0.012, "randmix": 0.024, "seqwrite": 0.081}
    assert made["trials"]["valid"] == 60


def test_the_document_gives_the_numbers_unrounded() -> None:
    by_level = {(f["workload"], f["metric"], f["level"]): f for f in document(JUDGED)["findings"]}
    for found in COMPARISON.findings:
        assert by_level[found.workload, found.metric, found.level]["ratio"] == found.ratio


def test_each_doubt_of_each_trial_is_in_the_document() -> None:
    doubts = document(JUDGED)["doubts"]
    assert [d["check"] for d in doubts] == ["noise", "drift", "steady-state", "failed"]
    assert doubts[0]["trial"] == ""


def test_a_study_without_findings_has_every_shape() -> None:
    empty = dataclasses.replace(RESULTS, planned=(), records=(), facts={}, doubts=())
    judged = completed(empty, Comparison("", (), "", ""))
    shown = view(judged)
    assert said(shown).startswith("No answer yet.")
    assert markdown(shown).startswith("# No answer yet.")
    assert document(judged)["findings"] == []
