"""Which of a host's sysctl files wins: the last that sets a parameter.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from iotrial_lint.sheet import Setting, Sheet


def winners(sheets: Iterable[Sheet]) -> tuple[tuple[str, Setting], ...]:
    """(file, setting) of each kernel parameter, of sheets in the order in which they are read."""
    wins: dict[str, tuple[str, Setting]] = {}
    for sheet in sheets:
        if sheet.kind == "sysctl":
            wins.update((each.name, (sheet.file, each)) for each in sheet.of("sysctl"))
    return tuple(wins.values())
