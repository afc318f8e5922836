"""Rows and cells of a table without a number are told, and are no runs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.cli.main import status
from iotrial.model.trial import Doubt
from iotrial_import.formats import table, table_xlsx

NOTHING = ("NaN", "nan", "inf", "-inf", "Infinity", "", "n/a", "N/A", "-", "null", "#DIV/0!")


def said(text: str) -> tuple[int, tuple[Doubt, ...]]:
    """How many runs a table has, and the doubts on what it lacks."""
    data = text.encode()
    return len(table.FORMAT.read(data, "t.csv")), table.FORMAT.gaps(data, "t.csv")


@pytest.mark.parametrize("cell", NOTHING)
def test_a_row_without_a_value_is_no_run_and_is_told(cell: str) -> None:
    runs, (doubt,) = said(f"scheduler,iops\ncfq,100\nnoop,{cell}\nnoop,120\n")
    assert runs == 2
    assert doubt.check == "no-value"
    assert doubt.what == f"t.csv:3 (iops: {cell or 'empty'}) has no value, and is not a run"
    assert not doubt.invalid


@given(cells=st.lists(st.sampled_from((*NOTHING, "100", "7.5")), min_size=1, max_size=12))
def test_every_row_is_a_run_or_counted_as_none(cells: list[str]) -> None:
    rows = "".join(f"s{at % 2},{cell}\n" for at, cell in enumerate(cells))
    runs, doubts = said(f"scheduler,iops\ns9,1\n{rows}")
    lacking = [at for at, cell in enumerate(cells) if cell in NOTHING]
    assert runs == 1 + len(cells) - len(lacking)
    if not lacking:
        assert doubts == ()
        return
    (doubt,) = doubts
    first = f"t.csv:{3 + lacking[0]} (iops: "
    assert first in doubt.what
    if len(lacking) > 1:
        assert doubt.what.startswith(f"{len(lacking)} rows have no value")
    else:
        assert doubt.what.startswith(first)


def test_a_run_that_lacks_one_of_its_values_counts_without_it_and_is_told() -> None:
    text = "scheduler,iops,lat_ms\ncfq,100,1\ncfq,NaN,2\nnoop,120,\nnoop,NaN,NaN\n"
    runs, (rows, cells) = said(text)
    assert runs == 3
    assert rows.what == "t.csv:5 (iops: NaN) has no value, and is not a run"
    assert cells.what.startswith("2 cells have no value, where others of their column do; ")
    assert cells.what.endswith("the first is t.csv:3 (iops: NaN)")


def test_a_column_that_is_not_of_a_workload_is_no_gap() -> None:
    text = "op,read MB/s,write MB/s\nseqread,100,\nseqread,101,\nseqwrite,,90\n"
    assert said(text) == (3, ())


def test_what_was_too_fast_to_tell_is_told_as_a_bound_not_as_a_gap() -> None:
    assert said("scheduler,iops\ncfq,100\nnoop,+++++\n") == (2, ())
    long = "scheduler,metric,value,unit,suppressed\ncfq,iops,10,1/s,no\nnoop,iops,,1/s,yes\n"
    assert said(long) == (2, ())


def test_a_spreadsheet_names_sheet_and_row() -> None:
    book = openpyxl.Workbook()
    for row in (("scheduler", "iops"), ("cfq", 100), ("noop", "NaN"), ("noop", 120)):
        book.active.append(row)
    book.active.title = "old"
    file = io.BytesIO()
    book.save(file)
    (doubt,) = table_xlsx.FORMAT.gaps(file.getvalue(), "t.xlsx")
    assert doubt.what == "t.xlsx sheet 'old', row 3 (iops: NaN) has no value, and is not a run"


def test_import_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("scheduler,iops\ncfq,100\ncfq,inf\nnoop,120\nnoop,n/a\n")
    assert status(["import", "t.csv", "--out", "r", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (doubt,) = [each for each in found["doubts"] if each["check"] == "no-value"]
    assert "2 rows have no value, and are no runs; the first is t.csv:3" in doubt["what"]
    assert [each["value"] for each in found["measurements"]] == [100.0, 120.0]
    assert status(["compare", "r"]) in (0, 1)
    assert "no-value" in "".join(capsys.readouterr())
