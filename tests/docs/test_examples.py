"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import iotrial

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(iotrial.__path__, prefix="iotrial.")
)


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [t for name in MODULES for t in finder.find(importlib.import_module(name))]
    assert sum(len(each.examples) for each in found) > 20


@pytest.mark.parametrize("name", MODULES)
def test_an_example_gives_what_it_says(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
