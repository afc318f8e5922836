"""The page of the checks is what their cases say.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
from pathlib import Path

from iotrial_suites.suites import suites
from pages.check import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "check.md"
REMAKE = "IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_check_page.py"


def test_the_page_is_what_the_cases_say() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(reference(), "utf-8")
    assert PAGE.read_text("utf-8") == reference(), f"remake it: {REMAKE}"


def test_every_case_has_a_row() -> None:
    for suite in suites().values():
        section = reference().partition(f"\n## {suite.name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{case.name}` |" in section for case in suite.cases)
