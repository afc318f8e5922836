"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import iotrial

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(iotrial.__path__, prefix="iotrial.")
)
EXAMPLES = [
    name for name in MODULES if ">>>" in Path(find_spec(name).origin).read_text(encoding="utf-8")
]
"""To look through every class of all others takes half a minute."""


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [t for name in EXAMPLES for t in finder.find(importlib.import_module(name))]
    assert sum(len(each.examples) for each in found) > 20


def test_every_module_can_be_imported() -> None:
    for name in MODULES:
        importlib.import_module(name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_says(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
