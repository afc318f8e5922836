"""The page of contracts: its files are there, its numbers are those of the source, and what may not
change in a version did not."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import iotrial.errors as tree
from iotrial.errors import IotrialError
from iotrial.plugins import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/contracts.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Rules")[0].splitlines()
    if line.startswith("| ") and "tests/" in line
]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:30])
def test_a_contract_is_where_the_page_says(row: list[str]) -> None:
    _, defined, number, held = row
    files = re.findall(r"`((?:src|tests)/[^`]+)`", f"{defined} {held}")
    assert files
    assert [name for name in files if not (ROOT / name).is_file()] == []
    if number != "–":
        found = re.fullmatch(r"(\d+) \(`([a-z_.]+)\.([A-Z_]+)`\)", number)
        assert found, number
        assert str(getattr(import_module(found[2]), found[3])) == found[1]


def test_every_number_of_a_format_has_a_contract() -> None:
    """But those that never leave the machine: an image of a lab, the drain of a trial."""
    here = {
        ".".join((*path.relative_to(ROOT / "src").with_suffix("").parts, name))
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'^(FORMAT) = "?\d', path.read_text("utf-8"), re.MULTILINE)
    }
    named = {cell for row in ROWS for cell in re.findall(r"`(\S+\.FORMAT)`", row[2])}
    assert here - named == {"iotrial_vmlab.recipe.FORMAT"}


def test_an_exit_code_never_changes_its_meaning() -> None:
    """A script that calls iotrial relies on them: a new error takes one of these, or a new one."""
    codes = {
        name: kind.exit_code
        for name, kind in vars(tree).items()
        if isinstance(kind, type) and issubclass(kind, IotrialError)
    }
    assert codes == codes | {
        "UsageError": 2,
        "StudyError": 2,
        "RefusedError": 3,
        "OwedError": 4,
        "TrialError": 5,
        "HostError": 6,
        "LockedError": 75,
        "Interrupted": 130,
    }


def test_kinds_of_plugins_keep_their_names() -> None:
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    for kind in KINDS:
        assert f"`iotrial.{kind}` |" in page


def test_the_citation_is_of_this_version_and_can_be_read_by_others() -> None:
    """Keys that the schema 1.2.0 asks for (`cffconvert --validate` says all of it)."""
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["message"]
    assert CITATION["title"] == PROJECT["name"]
    assert CITATION["version"] == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["abstract"] == PROJECT["description"]
    assert CITATION["authors"] == [{"name": "The iotrial developers"}]


def test_security_names_tests_that_are_there() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text("utf-8"))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []
