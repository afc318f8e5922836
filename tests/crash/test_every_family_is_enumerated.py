"""No family of tunables without a life that is ended at every operation.

Each crash file says in ``TREATED`` which tunables its treatments change, derived from them.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from iotrial.tunables import families

FILES = sorted(Path(__file__).parent.glob("test_*_survive*_every_crash.py"))


def treated() -> dict[str, set[str]]:
    """The tunables that each crash file treats; a file that has other lives has none."""
    modules = (importlib.import_module(path.stem) for path in FILES)
    return {module.__name__: getattr(module, "TREATED", set()) for module in modules}


def family_of(name: str) -> str:
    return name.partition(".")[0]


def test_a_tunable_is_named_after_its_family() -> None:
    """Else what follows would take one family for another."""
    named = {row.name: family for family, rows in families().items() for row in rows}
    assert not [name for name, family in named.items() if family_of(name) != family]


def test_nothing_is_treated_that_no_family_has() -> None:
    names = {name for each in treated().values() for name in each}
    assert {family_of(name) for name in names} <= set(families())


@pytest.mark.parametrize("family", families())
def test_every_family_is_touched_by_a_treatment_that_must_survive(family: str) -> None:
    where = [file for file, names in treated().items() if family in map(family_of, names)]
    assert where, f"no treatment in {[path.name for path in FILES]} changes a tunable of {family}"
