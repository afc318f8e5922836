"""The rules of lint.  PLUGINS: one rule, one file.

A module of this package with a ``RULE`` (:class:`~iotrial.lint.rule.Rule`) is a plugin; what is
judged and the page ``docs/lint.md`` follow from here.  Rules from elsewhere come by
:mod:`iotrial.plugins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from iotrial.lint.rule import Rule
from iotrial.plugins import values


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its name, in alphabetical order."""
    return values("lint")
