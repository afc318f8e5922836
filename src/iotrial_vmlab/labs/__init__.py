"""The kinds of lab, one file each: a module with a ``LAB``.  A new file is a new kind."""

from __future__ import annotations

from collections.abc import Mapping

from iotrial.errors import UsageError
from iotrial.plugins import values
from iotrial_vmlab.lab import LabKind


def kinds() -> Mapping[str, LabKind]:
    """Every kind by its name, in alphabetical order."""
    return values("labs")


def kind_of(name: str) -> LabKind:
    """Raises UsageError for one that does not exist."""
    known = kinds()
    if name not in known:
        raise UsageError(
            f"unknown lab {name!r}",
            advice=f"There is: {', '.join(known)}. Such as: iotrial vmlab up {next(iter(known))}",
        )
    return known[name]
