"""Suites of checks.  PLUGINS: a module with a ``SUITE`` (:func:`suite_of` makes it) is a suite.

Each function of it with :func:`~iotrial_suites.case.case` is a case; they are done in the order in
which they stand.  Listings, the page and the tests follow from here; suites from elsewhere come by
:mod:`iotrial.plugins`.

Nothing here calls a host: :mod:`iotrial_suites.session` does.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from sys import modules

from iotrial.errors import UsageError
from iotrial.plugins import values
from iotrial_suites.case import Case, Suite


@cache
def suites() -> Mapping[str, Suite]:
    """Every suite by its name, in alphabetical order."""
    return values("suites")


def suite_of(module: str, title: str, tools: tuple[str, ...] = ()) -> Suite:
    """The suite of a module's cases, in their order; ``tools`` are those whose versions matter."""
    found = (value for value in vars(modules[module]).values() if isinstance(value, Case))
    name = module.rpartition(".")[2].replace("_", "-")
    return Suite(name, title, tuple(dict.fromkeys(found)), tools)


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
