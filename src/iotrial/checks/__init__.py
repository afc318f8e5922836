"""Suites of checks.  PLUGINS: a folder is a suite, a file in it is a case.

A folder of this package with a ``SUITE`` (:func:`suite_of` makes it) is a suite, named as the
folder with ``-`` for ``_``.  A module in it with a ``CASE`` (:class:`~iotrial.model.check.Case`) is
a case.  Cases are done in the order of their ``ORDER``, where a module has one, then by name.
Listings, the page and the tests follow from here; suites from elsewhere come by
:mod:`iotrial.plugins`.

Nothing here calls a host: :mod:`iotrial.execute.checking` does.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

from iotrial.errors import UsageError
from iotrial.model.check import Case, Suite
from iotrial.plugins import modules, values


@cache
def suites() -> Mapping[str, Suite]:
    """Every suite by its name, in alphabetical order."""
    return values("suites")


def suite_of(package: str, title: str, tools: tuple[str, ...] = ()) -> Suite:
    """The suite that a package holds, one case a module; ``tools`` are those whose versions
    matter."""
    cases: list[tuple[int, str, Case]] = []
    for module in modules(package):
        case = getattr(module, "CASE", None)
        if case is not None:
            cases.append((getattr(module, "ORDER", 50), case.name, case))
    ordered = tuple(case for _, _, case in sorted(cases, key=lambda each: each[:2]))
    return Suite(package.rpartition(".")[2].replace("_", "-"), title, ordered, tools)


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
