"""The page of the checks is what the checks say.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from iotrial.validity import checks
from pages.validity import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "validity.md"
REMAKE = "IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_validity_page.py"


def test_the_page_is_what_the_checks_say() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(reference(), "utf-8")
    assert PAGE.read_text("utf-8") == reference(), f"remake it: {REMAKE}"


def test_every_check_has_a_section_with_its_limit() -> None:
    text = reference()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(checks())
    assert all(check.limit in text and check.remedy in text for check in checks().values())
    assert ":mod:" not in text


def test_a_check_of_a_study_is_told_from_one_of_a_trial() -> None:
    of = dict(re.findall(r"^\| \[`([\w-]+)`\]\(#[\w-]+\) \| (.+?) \|", reference(), re.MULTILINE))
    studies = {"beside", "capped", "credits", "link", "first-run", "working-set", "uneven-hosts"}
    assert {of[name] for name in studies} == {"the study"}
    assert {of[name] for name in checks().keys() - studies} == {"a trial"}
