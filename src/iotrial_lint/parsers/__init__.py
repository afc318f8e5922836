"""The parsers of lint.  PLUGINS: one kind of file, one module.

A module of this package has ``KIND``, ``TITLE`` (for people), ``knows(path)`` (whether a file is
of this kind by its place and name) and ``parse(text, file)``, which gives a
:class:`~iotrial_lint.sheet.Sheet` for any text whatsoever: what cannot be parsed is a complaint
with its line, never an exception.  ``gathered(text, file, read)``, where there is one, reads what
the file includes too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePosixPath
from types import MappingProxyType, ModuleType
from typing import cast

from iotrial.plugins import modules
from iotrial_lint.sheet import Kind, Sheet


@cache
def parsers() -> Mapping[Kind, ModuleType]:
    """Every parser by its kind."""
    found = {each.KIND: each for each in modules(__name__) if hasattr(each, "KIND")}
    return MappingProxyType(found)


def kind_of(path: str) -> Kind | None:
    """The kind of a file by its place and name; None when they do not tell."""
    place = PurePosixPath(path)
    return next((kind for kind, module in parsers().items() if module.knows(place)), None)


def parsed(
    kind: Kind, data: bytes, file: str = "", read: Callable[[str], str] | None = None
) -> Sheet:
    """A file of this kind, whatever its bytes are; with ``read`` (OSError where it cannot) also
    what it includes."""
    module, text = parsers()[kind], data.decode("utf-8", "replace")
    if read is not None and hasattr(module, "gathered"):
        return cast("Sheet", module.gathered(text, file, read))
    return cast("Sheet", module.parse(text, file))
