"""Bytes to measurements: what tools wrote, in every version of theirs.  Pure; needs no tool.

A module here, or in a tool's package here, with a ``FORMAT`` is a plugin: adding a format is
adding a file, and what ``import`` recognises, its listing and the tests of mutated files follow.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iotrial.model.recording import Format


@cache
def formats() -> Mapping[str, Format]:
    """Every format by its name, in alphabetical order."""
    found: dict[str, Format] = {}
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        plugin = getattr(importlib.import_module(module.name), "FORMAT", None)
        if plugin is not None:
            found[plugin.name] = plugin
    return MappingProxyType(dict(sorted(found.items())))
