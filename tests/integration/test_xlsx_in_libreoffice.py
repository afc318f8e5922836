"""A spreadsheet program opens the workbook, and sees the numbers that were written."""

from __future__ import annotations

import csv
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest

import factories
from iotrial.judgement import completed
from iotrial.report.view import view
from iotrial.report.xlsx import xlsx

OFFICE = shutil.which("soffice")


@pytest.mark.skipif(not OFFICE, reason="needs LibreOffice: apt-get install libreoffice-calc-nogui")
def test_a_spreadsheet_program_sees_the_cells_and_keeps_the_charts(tmp_path: Path) -> None:
    results = factories.results()
    book = tmp_path / "book.xlsx"
    book.write_bytes(xlsx(view(completed(results, factories.comparison(results))), results))
    convert = [str(OFFICE), f"-env:UserInstallation=file://{tmp_path}/office", "--headless"]
    every = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,-1"
    for kind, folder in ((every, "csv"), ("xlsx", "again")):
        subprocess.run(
            [*convert, "--convert-to", kind, "--outdir", tmp_path / folder, book],
            check=True, capture_output=True, timeout=240,
        )  # fmt: skip
    written = openpyxl.load_workbook(book)
    again = openpyxl.load_workbook(tmp_path / "again" / "book.xlsx")
    assert again.sheetnames == written.sheetnames
    for sheet in written.worksheets[1:-1]:
        path = tmp_path / "csv" / f"book-{sheet.title}.csv"
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        for line in sheet.iter_rows(min_row=6, max_row=9, max_col=2):
            name, value = (cell.value for cell in line)
            shown = rows[line[0].row - 1]
            assert shown[0] == name
            assert float(shown[1]) == pytest.approx(value, rel=1e-9)
        assert len(again[sheet.title]._charts) == len(sheet._charts) == 1
