"""Exports hold the records' own numbers, and nothing in them computes or breaks."""

from __future__ import annotations

import csv as comma_separated
import dataclasses
import io
import itertools
import json
import math
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree as ET

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook
from openpyxl.utils import range_boundaries
from scipy import stats

import factories
from iotrial.cli.main import status
from iotrial.hosts.fake import fio
from iotrial.judgement import completed
from iotrial.model.finding import Comparison
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import Factor, Level
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.report.grids import sheets
from iotrial.report.junit import REGRESSION, junit
from iotrial.report.trials import csv, inert, parquet
from iotrial.report.view import view
from iotrial.report.words import visible
from iotrial.report.xlsx import xlsx
from iotrial.report.xlsx_cells import countable, sheet_names

DATA = Path(__file__).parents[2] / "docs" / "five-studies" / "data"
RESULTS = factories.results()
COMPARISON = factories.comparison(RESULTS)
JUDGED = dataclasses.replace(
    COMPARISON,
    findings=(
        dataclasses.replace(COMPARISON.findings[0], verdict="better"),
        dataclasses.replace(COMPARISON.findings[1], verdict="worse"),
        dataclasses.replace(COMPARISON.findings[2], verdict="cannot-tell"),
        dataclasses.replace(COMPARISON.findings[3], verdict="same"),
        *(
            dataclasses.replace(f, verdict="same", low=0.9, high=1.05)
            for f in COMPARISON.findings
            if not f.primary
        ),
    ),
)
VIEW = view(completed(RESULTS, JUDGED))
EVERY = {(r.trial.folder, m.metric): m for r in RESULTS.records for m in r.measurements}
HOSTILE = (
    "=1+1", "+SUM(A1)", "-2+3", "@SUM(1)", "\t=1", "＝1+1", "#N/A", "=cmd|' /C calc'!A0",  # noqa: RUF001
    'a"b,c\nd\x00\x1b[31m', "]]><x>&\ufffe\ud800", "'=1", " =1", "_x000A_", "",
)  # fmt: skip
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # noqa: RUF001
ROWS, COLUMNS = ("4k", "16k", "64k"), ("1", "2", "8")


def record(
    number: int, treatment: dict[str, str], *told: Measurement, block: int = 1
) -> TrialRecord:
    trial = Trial(number, f"{number:06x}", block, "w", tuple(treatment.items()), "disk")
    return TrialRecord(
        trial, "valid", factories.STARTED + number, 1.0, tool="fio", measurements=told
    )


def made(names: dict[str, tuple[str, ...]], *records: TrialRecord) -> Results:
    """Results of one workload ``w`` with these factors and records."""
    study = dataclasses.replace(
        factories.study(),
        workloads=(dataclasses.replace(factories.study().workloads[0], name="w"),),
        factors=tuple(
            Factor(name, "option", tuple(Level(label) for label in labels), subject=name)
            for name, labels in names.items()
        ),
        decide=dataclasses.replace(factories.study().decide, primary=(("w", "read.bw"),)),
    )
    planned = tuple(each.trial for each in records)
    return Results(Path("r"), study, planned, records)


def bandwidth(place: int) -> float:
    return 1e6 * 1.37**place


def grid() -> Results:
    """3 record sizes x 3 thread counts x 2 schedulers, twice each; one cell is missing."""
    cells = [
        {"sched": s, "threads": c, "bs": r} for s in ("none", "bfq") for r in ROWS for c in COLUMNS
    ]
    del cells[4]
    records = [
        record(
            n, cells[n % len(cells)], Measurement("read.bw", bandwidth(n), "bytes/s"), block=block
        )
        for block in (1, 2)
        for n in range((block - 1) * len(cells), block * len(cells))
    ]
    names = {"sched": ("none", "bfq"), "threads": ("8", "1", "2"), "bs": ("64k", "4k", "16k")}
    return made(names, *records)


def hostile() -> Results:
    """Everything that a study or a file may name is named to do harm."""
    records = [
        dataclasses.replace(
            record(n, {"=f": evil, "value": evil}, Measurement(f"read{evil}.bw", 1.5 + n, evil)),
            error=evil,
            source=evil,
        )
        for n, evil in enumerate(HOSTILE, 1)
    ]
    labels = tuple(dict.fromkeys(HOSTILE))
    results = made({"=f": labels, "value": labels}, *records)
    study = dataclasses.replace(results.study, question="=HYPERLINK(1)", name="=1\x00")
    return dataclasses.replace(results, study=study)


def workbook(results: Results, comparison: Comparison | None = None) -> bytes:
    said = comparison or Comparison("=1+1", (), "=2+2. Yes.", "@x")
    return xlsx(view(completed(results, said)), results)


def opened(content: bytes) -> Workbook:
    return openpyxl.load_workbook(io.BytesIO(content))


def lines(text: str) -> list[dict[str, str]]:
    return list(comma_separated.DictReader(io.StringIO(text), strict=True))


# --- CSV ---------------------------------------------------------------------------------------


def test_csv_has_every_number_as_it_was_recorded() -> None:
    rows = [row for row in lines(csv(RESULTS)) if row["metric"]]
    assert len(rows) == len(EVERY)
    for row in rows:
        told = EVERY[row["trial"], row["metric"]]
        assert float(row["value"]) == told.value
        assert (row["unit"], row["censored"], row["job"]) == (told.unit, told.censored, told.job)
        assert row["source"] == f"trials/{row['trial']}/{told.raw}"
    records = {r.trial.folder: r for r in RESULTS.records}
    for row in rows[:: len(rows) // 20]:
        of = records[row["trial"]]
        assert row["scheduler"] == dict(of.trial.treatment)["scheduler"]
        assert (int(row["block"]), row["workload"]) == (of.trial.block, of.trial.workload)
        assert row["state"] == of.state
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["started"])


def test_a_failed_trial_is_a_row_without_a_number() -> None:
    failed = [r.trial.folder for r in RESULTS.records if r.state == "failed"]
    empty = [row for row in lines(csv(RESULTS)) if not row["metric"]]
    assert failed
    assert [row["trial"] for row in empty] == failed
    assert {(row["value"], row["state"]) for row in empty} == {("", "failed")}


def test_the_columns_are_those_that_are_promised_a_factor_each() -> None:
    head = next(comma_separated.reader(io.StringIO(csv(grid()))))
    assert head == [
        "trial", "block", "workload", "sched", "threads", "bs", "metric", "value", "unit",
        "censored", "job", "state", "started", "source",
    ]  # fmt: skip


def test_a_factor_called_as_a_column_gets_a_name_of_its_own() -> None:
    results = made({"value": ("1", "2")}, record(1, {"value": "2"}))
    assert lines(csv(results))[0]["factor_value"] == "2"


def test_no_text_of_a_csv_is_a_formula_and_every_record_stays_one_row() -> None:
    text = csv(hostile())
    rows = lines(text)
    assert len(rows) == len(HOSTILE) == text.count("\n") - 1
    cells = [cell for row in rows for name, cell in row.items() if name != "value"]
    assert not [cell for cell in [*rows[0], *cells] if FORMULA.match(cell)]
    assert not [c for c in text if c < " " and c != "\n"]
    assert [float(row["value"]) for row in rows] == [1.5 + n for n in range(1, len(rows) + 1)]
    text.encode()


@given(st.text())
def test_any_text_in_a_csv_is_inert_and_is_kept(text: str) -> None:
    said = inert(visible(text))
    assert said.replace("'", "") == visible(text).replace("'", "")
    assert not re.search(r"[;|\t][\s\"]*[=+\-@]", said)
    number = re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", said, re.ASCII)
    assert number or not FORMULA.match(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a | @f", "a | '@f"),
        ('a;"=1+1"', 'a;"\'=1+1"'),
        (";-1;+2", ";'-1;'+2"),
        ("a;b=c", "a;b=c"),
    ],
)
def test_another_separator_makes_no_formula_of_a_text(text: str, said: str) -> None:
    assert inert(text) == said


@pytest.mark.parametrize("label", ["-1", "+5", "1e-3", "0", "none", "64k"])
def test_a_label_that_is_a_plain_number_stays_one(label: str) -> None:
    assert inert(label) == label


# --- Parquet -----------------------------------------------------------------------------------


def test_parquet_says_what_csv_says_and_is_typed() -> None:
    table = pq.read_table(io.BytesIO(parquet(RESULTS)))
    rows, told = table.to_pylist(), lines(csv(RESULTS))
    assert table.column_names == list(told[0])
    assert len(rows) == len(told)
    for row, said in zip(rows, told, strict=True):
        assert row["value"] == (float(said["value"]) if said["value"] else None)
        texts = {k: v or "" for k, v in row.items() if k not in ("block", "value", "started")}
        assert texts == {k: said[k] for k in texts}
        assert row["block"] == int(said["block"])
        assert row["started"].isoformat(timespec="milliseconds")[:23] == said["started"][:23]
    types = {field.name: field.type for field in table.schema}
    assert (types["block"], types["value"]) == (pa.int32(), pa.float64())
    assert types["started"] == pa.timestamp("us", tz="UTC")
    assert table.schema.metadata[b"iotrial.question"].decode() == factories.QUESTION


def test_parquet_takes_any_name() -> None:
    table = pq.read_table(io.BytesIO(parquet(hostile())))
    assert table.column("value").to_pylist() == [1.5 + n for n in range(1, len(HOSTILE) + 1)]
    assert table.column("=f").to_pylist() == [visible(evil) for evil in HOSTILE]


# --- xlsx: grids -------------------------------------------------------------------------------


def area(book: Workbook, formula: str) -> list[Any]:
    """The values that a chart's reference points at."""
    name, _, where = formula.rpartition("!")
    sheet = book[name.removeprefix("'").removesuffix("'").replace("''", "'")]
    left, top, right, bottom = range_boundaries(where.replace("$", ""))
    return [sheet.cell(r, c).value for r in range(top, bottom + 1) for c in range(left, right + 1)]


def test_records_stand_down_and_threads_across_whatever_the_study_begins_with() -> None:
    (sheet,) = sheets(grid())
    assert (sheet.down, sheet.across) == ("bs", "threads")
    assert [block.fixed for block in sheet.blocks] == [(("sched", "none"),), (("sched", "bfq"),)]
    assert (sheet.blocks[1].down, sheet.blocks[1].across) == (ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (("scheduler", "numjobs", "bs"), ("bs", "numjobs")),
        (("iodepth", "block_size"), ("block_size", "iodepth")),
        (("record", "size"), ("size", "record")),
        (("record", "size", "threads"), ("record", "threads")),
        (("scheduler", "iodepth"), ("iodepth", "scheduler")),
        (("scheduler", "host"), ("scheduler", "host")),
        (("scheduler",), ("scheduler", "")),
        ((), ("", "")),
    ],
)
def test_the_most_natural_pair_makes_the_grid(
    names: tuple[str, ...], pair: tuple[str, str]
) -> None:
    told = Measurement("read.bw", 2.0, "bytes/s")
    records = [record(n, dict.fromkeys(names, f"{n}"), told) for n in (1, 2)]
    (sheet,) = sheets(made(dict.fromkeys(names, ("1", "2")), *records))
    assert (sheet.down, sheet.across) == pair


def test_a_cell_of_the_workbook_is_the_geometric_mean_of_its_trials() -> None:
    results = grid()
    book = opened(workbook(results))
    sheet = book["read"]
    assert sheet["A1"].value == "w: read bandwidth (MiB/s), geometric means"
    assert "bs down; threads across" in sheet["A2"].value
    tops = [row[0].row for row in sheet.iter_rows(max_col=1) if row[0].value == "bs \\ threads"]
    assert len(tops) == 2
    found = {}
    for top, scheduler in zip(tops, ("none", "bfq"), strict=True):
        assert sheet.cell(top - 1, 1).value == f"sched={scheduler}; n = 2 in every cell"
        for i, bs in enumerate(ROWS, 1):
            assert sheet.cell(top + i, 1).value == bs
            for j, threads in enumerate(COLUMNS, 1):
                assert sheet.cell(top, 1 + j).value == int(threads)
                found[scheduler, bs, threads] = sheet.cell(top + i, 1 + j).value
    for (scheduler, bs, threads), value in found.items():
        wanted = {"sched": scheduler, "threads": threads, "bs": bs}
        logs = [
            math.log(r.value("read.bw") or 0)
            for r in results.records
            if dict(r.trial.treatment) == wanted
        ]
        if not logs:
            assert value is None
        else:
            assert value * 2**20 == pytest.approx(math.exp(sum(logs) / len(logs)), rel=1e-12)
    assert sum(value is None for value in found.values()) == 1


def test_unequal_numbers_of_trials_stand_beside_the_grid() -> None:
    told = Measurement("read.bw", 2e6, "bytes/s")
    records = [
        record(1, {"bs": "4k"}, told),
        record(2, {"bs": "4k"}, told, block=2),
        record(3, {"bs": "8k"}, told),
    ]
    sheet = opened(workbook(made({"bs": ("4k", "8k")}, *records)))["read"]
    assert sheet["A4"].value == "n on the right"
    rows = [[cell.value for cell in row] for row in sheet["A5:E7"]]
    assert rows[0][:2] == ["bs", "MiB/s"]
    assert [row[4] for row in rows[1:]] == [2, 1]


def test_a_censored_value_is_a_bound_and_a_number() -> None:
    told = Measurement("read.bw", 2e6, "bytes/s", censored="high")
    records = [record(n, {"bs": f"{n}k"}, told) for n in (1, 2)]
    sheet = opened(workbook(made({"bs": ("1k", "2k")}, *records)))["read"]
    assert sheet["B6"].value == pytest.approx(2e6 / 2**20)
    assert sheet["B6"].number_format.startswith('"≥ "')
    assert "censored values, beyond" in sheet["A2"].value


def test_values_that_are_not_positive_have_an_arithmetic_mean_and_the_title_says_so() -> None:
    records = [record(n, {}, Measurement("read.bw", v, "bytes/s")) for n, v in ((1, 0.0), (2, 3.0))]
    records[1] = dataclasses.replace(
        records[1], trial=dataclasses.replace(records[1].trial, block=2)
    )
    (sheet,) = sheets(made({}, *records))
    assert sheet.mean == "arithmetic"
    assert sheet.blocks[0].cells["", ""].mean == 1.5


def test_two_targets_are_not_averaged() -> None:
    told = Measurement("read.bw", 2e6, "bytes/s")
    records = [record(1, {"bs": "4k"}, told), record(2, {"bs": "4k"}, told)]
    records[1] = dataclasses.replace(
        records[1], trial=dataclasses.replace(records[1].trial, target="other")
    )
    (sheet,) = sheets(made({"bs": ("4k",)}, *records))
    assert sheet.down == "target"
    assert {cell.n for cell in sheet.blocks[0].cells.values()} == {1}


def test_trials_that_do_not_count_are_in_no_cell() -> None:
    good = record(1, {"bs": "4k"}, Measurement("read.bw", 2e6, "bytes/s"))
    bad = dataclasses.replace(
        record(2, {"bs": "4k"}, Measurement("read.bw", 9e9, "bytes/s")), state="invalid"
    )
    (sheet,) = sheets(made({"bs": ("4k",)}, good, bad))
    assert [(c.mean, c.n) for c in sheet.blocks[0].cells.values()] == [(2e6, 1)]


# --- xlsx: charts ------------------------------------------------------------------------------

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def charts(content: bytes) -> Iterator[ET.Element]:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        names = [name for name in packed.namelist() if name.startswith("xl/charts/chart")]
        for name in sorted(names, key=lambda name: int(re.findall(r"\d+", name)[0])):
            yield ET.fromstring(packed.read(name))  # noqa: S314 (we wrote it)


def cached(part: ET.Element) -> tuple[str, dict[int, str]]:
    points = {int(p.get("idx", "")): p.findtext(f"{_C}v") or "" for p in part.iter(f"{_C}pt")}
    return next(part.iter(f"{_C}f")).text or "", points


@pytest.mark.parametrize("results", [grid(), RESULTS], ids=["grid", "study"])
def test_every_chart_draws_the_cells_of_its_own_block(results: Results) -> None:
    content = workbook(results)
    book = opened(content)
    drawn = list(charts(content))
    assert len(drawn) == sum(len(each.blocks) for each in sheets(results))
    for chart in drawn:
        series = list(chart.iter(f"{_C}ser"))
        assert series
        for each in series:
            for tag in ("tx", "cat", "val"):
                part = each.find(f"{_C}{tag}")
                assert part is not None
                formula, points = cached(part)
                cells = area(book, formula)
                for place, value in enumerate(cells):
                    if isinstance(value, float):
                        assert float(points[place]) == pytest.approx(value, rel=1e-12)
                    else:
                        assert points.get(place) == (None if value is None else str(value))
        orders = [each.find(f"{_C}order").get("val") for each in series]  # type: ignore[union-attr]
        assert len(set(orders)) == len(series)


def test_a_chart_has_the_interval_of_every_mean_as_error_bars() -> None:
    content = workbook(RESULTS)
    (grid, *_) = sheets(RESULTS)
    (block, *_) = grid.blocks
    first = next(charts(content))
    (series,) = first.iter(f"{_C}ser")
    (bars,) = series.iter(f"{_C}errBars")
    ends = {
        side: [float(v.text or "") for v in bars.find(f"{_C}{side}").iter(f"{_C}v")]  # type: ignore[union-attr]
        for side in ("minus", "plus")
    }
    drawn = [float(v.text or "") for v in series.find(f"{_C}val").iter(f"{_C}v")]  # type: ignore[union-attr]
    for place, level in enumerate(block.down):
        logs = [
            math.log(value)
            for record in RESULTS.valid
            if record.trial.workload == grid.workload
            and dict(record.trial.treatment)[grid.down] == level
            and (value := record.value(grid.metric.name))
        ]
        low, high = stats.t.interval(
            RESULTS.study.decide.confidence, len(logs) - 1, fmean(logs), stats.sem(logs)
        )
        middle = fmean(logs)
        assert ends["minus"][place] / drawn[place] == pytest.approx(-math.expm1(low - middle))
        assert ends["plus"][place] / drawn[place] == pytest.approx(math.expm1(high - middle))
    said = [opened(content).worksheets[1].cell(2, 1).value]
    assert "error bars in charts: the interval of each mean by itself" in said[0]


def test_one_trial_in_each_cell_has_no_error_bars() -> None:
    once = dataclasses.replace(
        RESULTS, records=tuple(each for each in RESULTS.records if each.trial.block == 1)
    )
    for chart in charts(workbook(once)):
        assert not list(chart.iter(f"{_C}errBars"))


def test_recorded_runs_have_no_error_bars() -> None:
    """Their session is the unit: repeats within one are no measure of the next."""
    study = RESULTS.study
    recorded = dataclasses.replace(
        RESULTS,
        study=dataclasses.replace(study, design=dataclasses.replace(study.design, kind="recorded")),
    )
    made = list(charts(workbook(recorded)))
    assert made
    for chart in made:
        assert not list(chart.iter(f"{_C}errBars"))


def test_a_chart_has_titles_and_axes_that_can_be_seen_and_begins_at_0() -> None:
    first, second = charts(workbook(grid()))
    texts = [
        "".join(t.text or "" for t in title.iter(f"{_A}t")) for title in first.iter(f"{_C}title")
    ]
    assert texts == [
        "w: read bandwidth by bs and threadssched=none", "bs", "read bandwidth (MiB/s)",
    ]  # fmt: skip
    assert [e.get("val") for e in first.iter(f"{_C}delete")] == ["0", "0"]
    assert [e.get("val") for e in first.iter(f"{_C}min")] == ["0"]
    assert list(first.iter(f"{_C}lineChart"))
    assert cached(next(second.iter(f"{_C}val")))[0] == "'read'!$B$24:$B$26"


def test_names_are_drawn_as_bars_and_no_chart_covers_the_next_block() -> None:
    content = workbook(RESULTS)
    assert all(list(chart.iter(f"{_C}barChart")) for chart in charts(content))
    for sheet in opened(workbook(grid())).worksheets[1:-1]:
        rows = [chart.anchor._from.row for chart in sheet._charts]
        assert all(b - a >= 17 for a, b in itertools.pairwise(rows))


# --- xlsx: the other sheets --------------------------------------------------------------------


def test_the_first_sheet_says_question_answer_findings_and_doubts() -> None:
    book = opened(workbook(RESULTS, COMPARISON))
    sheet = book.worksheets[0]
    assert sheet.title == "Answer"
    assert sheet["A1"].value == factories.QUESTION
    assert sheet["A2"].value.startswith("Keep none")
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    for row, finding in zip(
        [r for r in rows if r[1] in ("read.iops", "write.bw") and r[2] == "scheduler"],
        [f for f in COMPARISON.findings if f.primary],
        strict=True,
    ):
        assert row[:5] == [
            finding.workload, finding.metric, "scheduler", finding.level, "none",
        ]  # fmt: skip
        assert row[5] == pytest.approx(finding.ratio - 1)
        assert (row[6], row[7]) == pytest.approx((finding.low - 1, finding.high - 1))
        assert row[8] == finding.verdict.replace("cannot-tell", "cannot tell")
        assert row[9] == finding.n
    notes = [row[13] for row in rows if row[1] == "read.clat.p99" and row[2]]
    assert notes
    assert all("+10 %" in note for note in notes)
    texts = [cell for row in rows for cell in row if isinstance(cell, str)]
    assert "the machine ran other work" in texts
    assert "drift" in texts
    assert "Guardrails" in texts


def test_a_sentence_of_the_first_sheet_is_whole_in_one_cell_that_has_room_for_it() -> None:
    long = "what somebody did to the machine while it was measured; " * 12
    doubts = (*RESULTS.doubts, Doubt("disturbed", long.strip(), "Measure it again " * 8))
    told = dataclasses.replace(RESULTS, doubts=doubts)
    said = dataclasses.replace(COMPARISON, method=f"First {long}. Then something else.")
    sheet = opened(workbook(told, said)).worksheets[0]
    wide = {each.min_row: each for each in sheet.merged_cells.ranges}
    rows = {row[0].value: row for row in sheet.iter_rows()}
    sentence = next(value for value in rows if str(value).startswith("First what"))
    assert sentence == f"First {long}."
    place = rows[sentence][0].row
    assert wide[place].size["columns"] == 14
    assert sheet.row_dimensions[place].height >= 15 * len(sentence) / 214
    doubt = rows["disturbed"]
    assert [cell.value for cell in doubt if cell.value] == [
        "disturbed", "the whole study", "yes", long.strip(), doubt[11].value,
    ]  # fmt: skip
    assert all(cell.alignment.wrap_text for cell in doubt if cell.value)
    assert sheet.row_dimensions[doubt[0].row].height >= 15 * len(long) / 81


def test_the_last_sheet_has_every_trial_with_the_records_numbers() -> None:
    sheet = opened(workbook(RESULTS, COMPARISON)).worksheets[-1]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    head, body = rows[0], rows[1:]
    assert sheet.title == "Trials"
    assert len(body) == len(RESULTS.records)
    place = next(i for i, name in enumerate(head) if name.startswith("read.bw "))
    assert head[place] == "read.bw (MiB/s)"
    for row, told in zip(body, RESULTS.records, strict=True):
        value = told.value("read.bw")
        assert row[0] == told.trial.folder
        assert row[head.index("scheduler")] == dict(told.trial.treatment)["scheduler"]
        assert row[head.index("state")] == told.state
        seen = row[place]
        assert seen is None if value is None else seen * 2**20 == pytest.approx(value, rel=1e-14)
        started = row[head.index("started (UTC)")].timestamp() - told.started
        assert started % 900 == pytest.approx(0, abs=0.01) or started % 900 > 899.99
    failed = [row for row in body if row[head.index("state")] == "failed"]
    assert "io_uring_queue_init" in failed[0][head.index("doubts and errors")]


def test_no_cell_of_a_workbook_is_a_formula_or_an_error() -> None:
    results = hostile()
    content = workbook(results)
    book = opened(content)
    seen = set()
    for sheet in book.worksheets:
        for row in sheet.iter_rows():
            for cell in row:
                assert cell.data_type in ("n", "s", "d", "inlineStr"), cell.coordinate
                if isinstance(cell.value, str):
                    seen.add(cell.value)
                    assert bool(cell.quotePrefix) == cell.value.startswith(tuple("=+-@＝＋－＠"))  # noqa: RUF001
    assert {"=1+1", "-2+3", "#N/A", "=cmd|' /C calc'!A0"} <= seen
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            if name.endswith((".xml", ".rels")):
                root = ET.fromstring(packed.read(name))  # noqa: S314 (we wrote it)
                if "worksheets/sheet" in name:
                    assert not [e for e in root.iter() if e.tag.endswith("}f")]


@given(st.lists(st.text(max_size=60), max_size=12))
def test_names_of_sheets_are_such_as_excel_takes(wanted: list[str]) -> None:
    names = sheet_names([visible(each) for each in wanted], ("Answer", "Trials"))
    assert len(names) == len(wanted)
    lower = [name.lower() for name in ("Answer", "Trials", "History", *names)]
    assert len(set(lower)) == len(lower)
    for name in names:
        assert 1 <= len(name) <= 31
        assert not re.search(r"[\[\]:*?/\\]", name)
        assert not name.startswith("'")
        assert not name.endswith("'")


@pytest.mark.parametrize(
    ("labels", "counts"),
    [(("4", "16"), True), (("0.5", "1"), True), (("4k",), False), (("007",), False),
     (("1", "none"), False), (("1.50",), False), (("-1",), False)],
)  # fmt: skip
def test_labels_are_numbers_only_where_a_number_says_the_same(
    labels: tuple[str, ...],
    counts: bool,  # noqa: FBT001
) -> None:
    assert countable(labels) is counts


def test_a_results_folder_without_a_trial_is_exported_too() -> None:
    empty = dataclasses.replace(RESULTS, planned=(), records=(), facts={}, doubts=())
    nothing = Comparison(factories.QUESTION, (), "", "")
    assert opened(workbook(empty, nothing)).sheetnames == ["Answer", "Trials"]
    assert len(csv(empty).splitlines()) == 1
    assert pq.read_table(io.BytesIO(parquet(empty))).num_rows == 0
    ET.fromstring(junit(view(completed(empty, nothing))))  # noqa: S314 (we wrote it)


# --- JUnit -------------------------------------------------------------------------------------


def cases(text: str) -> dict[str, ET.Element]:
    """Test cases by name, once the document's form is that of the schema."""
    root = ET.fromstring(text)  # noqa: S314 (we wrote it)
    assert root.tag == "testsuites"
    (suite,) = root
    assert (suite[0].tag, suite[-1].tag) == ("properties", "system-out")
    found = suite.findall("testcase")
    for each in (root, suite):
        assert int(each.get("tests", "")) == len(found)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(each.get(name, "")) == len(list(suite.iter(tag)))
    for case in found:
        assert {"classname", "name", "time"} <= set(case.attrib)
        assert len(case) <= 1
        assert {child.tag for child in case} <= {"failure", "error", "skipped", "system-out"}
    names = {f"{case.get('classname')} {case.get('name')}": case for case in found}
    assert len(names) == len(found)
    return names


def outcome(case: ET.Element) -> str:
    return next((child.tag for child in case if child.tag != "system-out"), "passed")


def verdicts(text: str) -> dict[str, set[str]]:
    """Verdict of the primary findings → what became of their cases."""
    found: dict[str, set[str]] = {}
    by_name = cases(text)
    for finding in (f for f in JUDGED.findings if f.primary):
        name = (
            f"scheduler.{finding.workload} {finding.metric}: scheduler={finding.level} against none"
        )
        found.setdefault(finding.verdict, set()).add(outcome(by_name[name]))
    return found


def test_a_worse_level_is_an_answer_and_a_worse_folder_a_failure() -> None:
    answer = verdicts(junit(VIEW))
    assert answer["worse"] == answer["better"] == {"passed"}
    assert answer["cannot-tell"] == {"skipped"}
    gate = verdicts(junit(VIEW, failing=REGRESSION))
    assert gate["worse"] == {"failure"}
    assert gate["better"] == gate["same"] == {"passed"}


def test_what_cannot_be_told_says_why() -> None:
    skipped = [case[0] for case in cases(junit(VIEW)).values() if outcome(case) == "skipped"]
    told = [each.get("message", "") for each in skipped]
    assert any(
        "cannot tell" in each and "n = 5" in each and "smallest detectable difference" in each
        for each in told
    )


def test_a_guardrail_that_is_exceeded_fails_in_one_folder_too() -> None:
    beyond = dataclasses.replace(JUDGED.findings[-1], ratio=1.4, low=1.3, high=1.5, verdict="worse")
    changed = dataclasses.replace(JUDGED, findings=(*JUDGED.findings[:-1], beyond))
    found = {
        n: c
        for n, c in cases(junit(view(completed(RESULTS, changed)))).items()
        if "(guardrail)" in n
    }
    assert len(found) == 6
    failed = [case for case in found.values() if outcome(case) == "failure"]
    assert "beyond +10 %" in failed[0][0].get("message", "")
    assert len(failed) == 1


def test_every_failed_trial_is_an_error_and_missing_ones_are_skipped() -> None:
    fewer = dataclasses.replace(RESULTS, records=RESULTS.records[:50])
    found = cases(junit(view(completed(fewer, COMPARISON))))
    errors = {name: case for name, case in found.items() if outcome(case) == "error"}
    assert set(errors) == {f"trials {r.trial.folder}" for r in fewer.records if r.state == "failed"}
    assert "io_uring_queue_init" in next(iter(errors.values()))[0].get("message", "")
    assert outcome(found["trials all planned trials executed"]) == "skipped"
    whole = cases(junit(VIEW))
    assert outcome(whole["trials all planned trials executed"]) == "passed"


def test_nothing_in_a_name_breaks_the_xml() -> None:
    results = hostile()
    record = dataclasses.replace(results.records[8], state="failed", error="\x00]]>\ufffe<&\ud800")
    results = dataclasses.replace(results, records=(record, *results.records[9:]))
    finding = dataclasses.replace(
        COMPARISON.findings[0], workload="w", level=HOSTILE[8], trials=("\x00",), verdict="worse"
    )
    seen = view(completed(results, Comparison("\x0b", (finding,), "<>&\x01", "\ufffe")))
    found = cases(junit(seen, failing=REGRESSION).encode().decode())
    assert {outcome(case) for case in found.values()} >= {"failure", "error"}


# --- the verbs ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pretended study, run: one command."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert status(["run", "study.toml", "--pretend", "--out", "r", "--quiet"]) == 0
    return tmp_path / "r"


STUDY = """
question = "Which depth?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", ioengine = "libaio", runtime = "1s" }
[factors.iodepth]
option = "iodepth"
levels = [1, 16]
[factors.bs]
option = "bs"
levels = ["4k", "64k"]
[design]
blocks = 3
settle = "0s"
"""


def test_report_writes_every_export_of_a_study_that_was_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, end in (("csv", "csv"), ("parquet", "parquet"), ("xlsx", "xlsx"), ("junit", "xml")):
        capsys.readouterr()
        assert status(["report", str(folder), "--as", kind, "--json"]) == 0
        path = Path(json.loads(capsys.readouterr().out)["report"])
        assert path == folder / f"report.{end}"
    rows = lines((folder / "report.csv").read_text())
    assert {(row["iodepth"], row["bs"]) for row in rows} == {
        (d, b) for d in ("1", "16") for b in ("4k", "64k")
    }
    assert (folder / rows[0]["source"]).is_file()
    sheet = openpyxl.load_workbook(folder / "report.xlsx")["read.iops"]
    assert [sheet.cell(5, c).value for c in (1, 2, 3)] == ["bs \\ iodepth", 1, 16]
    assert cases((folder / "report.xml").read_text())


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "junit"])
def test_an_export_goes_down_a_pipe_byte_by_byte(folder: Path, kind: str) -> None:
    command = [sys.executable, "-c", "from iotrial.cli.main import main; main()"]
    done = subprocess.run(
        [*command, "report", "r", "--as", kind, "--out", "-"],
        cwd=folder.parent, capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    starts = {"csv": b"trial,block", "parquet": b"PAR1", "xlsx": b"PK", "junit": b"<?xml"}
    assert done.stdout.startswith(starts[kind])
    if kind == "parquet":
        assert pq.read_table(io.BytesIO(done.stdout)).num_rows > 0
    if kind == "xlsx":
        assert opened(done.stdout).sheetnames[-1] == "Trials"


def test_compare_files_a_regression_for_ci_and_exits_1(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    factor = '[factors.iodepth]\noption = "iodepth"\nlevels = [1, 16]\n'
    (tmp_path / "study.toml").write_text(STUDY.replace(factor, ""))
    for name, share in (("before", 1.0), ("again", 1.0), ("after", 0.1)):
        monkeypatch.setattr(fio, "EFFECT", {"none": share})
        assert status(["run", "study.toml", "--pretend", "--out", name, "--quiet"]) == 0
    between = "--between", "2%", "--quiet"
    assert status(["compare", "before", "after", "--junit", "ci.xml", *between]) == 1
    found = cases(Path("ci.xml").read_text())
    failed = {name for name, case in found.items() if outcome(case) == "failure"}
    assert {name.partition(" ")[2] for name in failed} == {
        "read.iops: bs=4k against before", "read.iops: bs=64k against before",
    }  # fmt: skip
    assert status(["compare", "before", "again", "--junit", "same.xml", *between]) == 0
    same = cases(Path("same.xml").read_text())
    assert not [case for case in same.values() if outcome(case) == "failure"]


def test_imported_results_are_exported_as_iozone_lays_them_out(tmp_path: Path) -> None:
    out = tmp_path / "redhawk"
    assert status(["import", str(DATA / "redhawk.csv"), "--out", str(out), "--quiet"]) == 0
    for kind in ("csv", "xlsx"):
        assert status(["report", str(out), "--as", kind]) == 0
    told = [row for row in lines((out / "report.csv").read_text()) if row["state"] == "valid"]
    book = openpyxl.load_workbook(out / "report.xlsx")
    assert book.sheetnames[1:-1] == [
        "read", "random_read", "write", "random_write", "rewrite", "reread",
    ]  # fmt: skip
    sheet = book["random_write"]
    (top,) = [
        row[0].row
        for row in sheet.iter_rows(max_col=1)
        if str(row[0].value).startswith(
            "storage=emc-lvm-12, scheduler=noop, queue_depth=256, os_tuned=true"
        )
    ]
    across = {sheet.cell(top + 1, c).value: c for c in range(2, 7)}
    down = {sheet.cell(top + r, 1).value: top + r for r in range(2, 5)}
    wanted = [
        row
        for row in told
        if row["workload"] == "random_write"
        and (row["storage"], row["scheduler"], row["queue_depth"], row["os_tuned"])
        == ("emc-lvm-12", "noop", "256", "true")
    ]
    assert len(wanted) > 4
    for row in wanted:
        cell = sheet.cell(down[int(row["record_kib"])], across[int(row["threads"])])
        assert cell.value * 2**20 == pytest.approx(float(row["value"]), rel=1e-12)
        assert row["source"].startswith("originals/redhawk.csv:")


def test_ten_thousand_trials_are_written_within_seconds() -> None:
    """In processor seconds, since the machine may be busy; each takes about a third of this."""
    many = factories.many()
    seen = view(completed(many, factories.comparison(many)))
    for write, limit in (
        (lambda: csv(many), 6.0), (lambda: parquet(many), 4.0), (lambda: xlsx(seen, many), 15.0),
    ):  # fmt: skip
        start = time.process_time()
        assert len(write()) > 500_000
        assert time.process_time() - start < limit
