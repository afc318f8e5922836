"""Suites of checks.  PLUGINS: a folder is a suite, a file in it is a case.

A folder of this package with a ``TITLE`` is a suite, named as the folder with ``-`` for ``_``; it
may name ``TOOLS`` whose versions matter.  A module in it with a ``CASE``
(:class:`~iotrial.model.check.Case`) is a case.  Cases are done in the order of their ``order``,
where a module has one, then by name.  Listings, the page and the tests follow from here.

Nothing here calls a host: :mod:`iotrial.execute.checking` does.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from iotrial.errors import UsageError
from iotrial.model.check import Case, Suite


@cache
def suites() -> Mapping[str, Suite]:
    """Every suite by its name, in alphabetical order."""
    found = [_suite(each.name) for each in pkgutil.iter_modules(__path__) if each.ispkg]
    return MappingProxyType({suite.name: suite for suite in found})


def _suite(folder: str) -> Suite:
    package = importlib.import_module(f"{__name__}.{folder}")
    cases: list[tuple[int, str, Case]] = []
    for module in pkgutil.iter_modules(package.__path__):
        plugin = importlib.import_module(f"{package.__name__}.{module.name}")
        case = getattr(plugin, "CASE", None)
        if case is not None:
            cases.append((getattr(plugin, "ORDER", 50), case.name, case))
    ordered = tuple(case for _, _, case in sorted(cases, key=lambda each: each[:2]))
    tools = tuple(getattr(package, "TOOLS", ()))
    return Suite(folder.replace("_", "-"), str(package.TITLE), ordered, tools)


def suite(name: str) -> Suite:
    """The suite of this name.  Raises UsageError with the nearest one."""
    known = suites()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    advice = f"Did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"no suite {name!r}", advice=f"{advice}There are: {', '.join(known)}")


def chosen(words: tuple[str, ...]) -> tuple[tuple[Suite, Case], ...]:
    """The cases that are meant by names of suites (``md``) and of cases (``md/create``), each
    once.  Raises UsageError for what is none."""
    found: dict[str, tuple[Suite, Case]] = {}
    for word in words:
        name, _, one = word.partition("/")
        of = suite(name)
        cases = [case for case in of.cases if not one or case.name == one]
        if not cases:
            names = [case.name for case in of.cases]
            near = difflib.get_close_matches(one, names, n=1, cutoff=0.5)
            advice = f"Did you mean {name}/{near[0]}? " if near else ""
            raise UsageError(
                f"no case {word!r}", advice=f"{advice}`iotrial check --list {name}` lists them."
            )
        found.update((of.id_of(case), (of, case)) for case in cases)
    return tuple(found.values())
