"""The rules of lint.  PLUGINS: one rule, one function.

Rules stand by what they judge; each function with :func:`~iotrial_lint.rule.rule` or
:func:`~iotrial_lint.rule.host_rule` is one, and what is judged and the page ``docs/lint.md`` follow
from here.  Rules from elsewhere come by :mod:`iotrial.plugins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from iotrial.plugins import values
from iotrial_lint.rule import Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its name, in alphabetical order."""
    return values("lint")
