"""The reference of the knobs is what the tables say.

After a change that is meant, remake the page: ``IOTRIAL_GOLDEN=write pytest FILE``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import get_args

import pytest

from iotrial.model.target import Scope
from iotrial.model.tunable import Tunable
from iotrial.plan.knobs import BELONGS, about
from iotrial.tunables import all_tunables, families
from pages.knobs import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "knobs.md"
TEXT = reference()
REMAKE = "IOTRIAL_GOLDEN=write .venv/bin/python -m pytest tests/docs/test_knobs.py"


def test_the_page_is_what_the_tables_say() -> None:
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        PAGE.write_text(TEXT, "utf-8")
    assert PAGE.read_text("utf-8") == TEXT, f"remake it: {REMAKE}"


def test_every_family_and_every_knob_has_a_section() -> None:
    assert re.findall(r"^## `([\w.]+)`: ", TEXT, re.MULTILINE) == sorted(families())
    sections = re.findall(r"^### `(.+)`$", TEXT, re.MULTILINE)
    assert sorted(sections) == sorted(row.name for row in all_tunables())


@pytest.mark.parametrize("knob", all_tunables(), ids=lambda knob: knob.name)
def test_of_every_knob_it_is_said_what_it_belongs_to_how_it_is_read_and_changed(
    knob: Tunable,
) -> None:
    said = about(knob)
    assert said["belongs to"]
    assert said["read"]
    assert said["source"]
    assert ("changed" in said) != ("not in a trial" in said)


def test_every_scope_has_words() -> None:
    assert set(BELONGS) == set(get_args(Scope))
