"""The reference of the study file is what the schema says, and its examples are studies.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from iotrial.plan.load import parse_study
from iotrial.plan.validate import TABLES
from pages.study_file import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "study-file.md"
TEXT = reference()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
JOB = "".join(re.findall(r"^```ini\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))


def completed(example: str) -> str:
    """A shorter example with the tables of the first one that it leaves out."""
    said = tomllib.loads(example)
    parts = re.split(r"^(?=\[)", EXAMPLES[0], flags=re.MULTILINE)
    missing = [f"[{name}." for name in ("targets", "workloads") if name not in said]
    return example + "".join(part for part in parts if part.startswith(tuple(missing)))


def test_the_page_is_what_the_schema_says() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(TEXT, "utf-8")
    assert PAGE.read_text("utf-8") == TEXT


def test_every_key_of_every_table_is_there() -> None:
    assert "<!-- keys" not in TEXT
    for model in TABLES.values():
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}` | {field.description}".replace("|", "") in (
                TEXT.replace("|", "")
            )


def test_the_first_example_is_complete() -> None:
    assert completed(EXAMPLES[0]) == EXAMPLES[0]
    assert len(EXAMPLES) > 10


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_study(example: str) -> None:
    study = parse_study(completed(example), "study.toml", {"mine.fio": JOB}.__getitem__)
    assert study.workloads


@pytest.mark.parametrize(
    ("key", "executed"),
    [("manual", True), ("stage", True), ("ssh", True), ("mount", True), ("devices", True),
     ("tunable", True), ("loop", True), ("guardrails", True), ("destroy", True)],
)  # fmt: skip
def test_what_is_not_executed_is_said_at_its_key(key: str, executed: bool) -> None:  # noqa: FBT001
    (row,) = re.findall(rf"^\| `{key}` .*$", TEXT, re.MULTILINE)
    assert ("Not executed" not in row) == executed


def test_every_kind_of_design_is_executed() -> None:
    rows = re.findall(r"^\| `kind` .*$", TEXT, re.MULTILINE)
    assert len(rows) == 2, "of the design, and of a stage"
    for row in rows:
        assert '"race"' in row
        assert "Not executed" not in row
