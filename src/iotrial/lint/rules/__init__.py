"""The rules of lint.  PLUGINS: one rule, one file.

A module of this package with a ``RULE`` (:class:`~iotrial.lint.rule.Rule`) is a plugin; what is
judged and the page ``docs/lint.md`` follow from here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from iotrial.lint.rule import Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its name, in alphabetical order."""
    found: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__):
        rule = getattr(importlib.import_module(f"{__name__}.{module.name}"), "RULE", None)
        if rule is not None:
            found[rule.name] = rule
    return MappingProxyType(dict(sorted(found.items())))
