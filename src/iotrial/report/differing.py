"""What two results folders differ in besides their numbers, as rows and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.model.finding import Difference
from iotrial.report import words
from iotrial.report.evidence import among
from iotrial.report.words import visible

TITLE = "What differs"
NOTHING = "Kernel, machine, tools, settings and study are the same as far as they were noted."
_NAMED = 2
_MOST = 24
"""Lines: the JSON document has all."""


def rows(found: Sequence[Difference]) -> Iterator[tuple[str, str, str]]:
    """Kind, what it is, and its two values with where."""
    for each in found[:_MOST]:
        yield each.kind, visible(each.what), f"{_said(each)}{_where(each)}"
    if len(found) > _MOST:
        yield "", f"and {len(found) - _MOST:,} more", "all are in --json"


def _said(each: Difference) -> str:
    return f"{visible(each.before)} and {visible(each.after)}"


def _where(each: Difference) -> str:
    if not each.where or each.where == ("local",):
        return ""
    if each.kind == "settings":
        return f" ({words.some(list(map(visible, each.where)), _NAMED)})"
    return f" ({visible(among(each.where, ()))})"


def as_data(found: Sequence[Difference] | None) -> dict[str, Any]:
    """For the JSON document; nothing of one folder."""
    if found is None:
        return {}
    return {
        "differs": [
            {
                "kind": each.kind,
                "what": each.what,
                "before": each.before,
                "after": each.after,
                "where": list(each.where),
            }
            for each in found
        ]
    }
