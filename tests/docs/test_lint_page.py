"""The page of the rules is what the rules say.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from iotrial_lint.rule import KINDS
from iotrial_lint.rules import rules
from pages.lint import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lint.md"
REMAKE = "IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_lint_page.py"


def test_the_page_is_what_the_rules_say() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(reference(), "utf-8")
    assert PAGE.read_text("utf-8") == reference(), f"remake it: {REMAKE}"


def test_every_rule_has_a_section_with_its_severity_and_source() -> None:
    text = reference()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(rules())
    for name, rule in rules().items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"- severity: {rule.severity}\n" in section
        assert "- source: " in section


def test_every_kind_of_file_is_listed() -> None:
    listed = re.findall(r"^- `(\w+)`: ", reference(), re.MULTILINE)
    assert listed == sorted(KINDS)
