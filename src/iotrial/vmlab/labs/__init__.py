"""The kinds of lab, one file each: a module with a ``KIND``.  A new file is a new kind."""

from __future__ import annotations

import importlib
import pkgutil

from iotrial.errors import UsageError
from iotrial.vmlab.lab import Kind


def kinds() -> dict[str, Kind]:
    """Every kind by its name."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    found = (importlib.import_module(f"{__name__}.{name}").KIND for name in names)
    return {kind.name: kind for kind in found}


def kind_of(name: str) -> Kind:
    """Raises UsageError for one that does not exist."""
    known = kinds()
    if name not in known:
        raise UsageError(
            f"there is no lab {name!r}",
            advice=f"There is: {', '.join(known)}. Such as: iotrial vmlab up {next(iter(known))}",
        )
    return known[name]
