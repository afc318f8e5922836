"""Load generators, one file each: a module here with a ``TOOL`` is a plugin.

Adding a tool is adding a file; the listings, the checks of studies and the tests follow.
"""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING

from iotrial.errors import UsageError
from iotrial.plugins import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iotrial.model.tool import Tool
    from iotrial.model.workload import Workload


@cache
def tools() -> Mapping[str, Tool]:
    """Every tool by its name, in alphabetical order."""
    return values("tools")


def tool(name: str) -> Tool:
    """The tool of this name.  Raises :class:`~iotrial.errors.UsageError` with the nearest one."""
    known = tools()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}?  " if near else ""
    raise UsageError(f"no tool {name!r}", advice=f"{advice}there are: {', '.join(known)}")


def executed(workload: Workload) -> Tool:
    """The tool whose program is executed: the workload's, or the one that stands in for it
    (``stand_in``, where the tool has such an option and checks it)."""
    other = workload.option("stand_in")
    return tool(str(other)) if other in tools() else tool(workload.tool)
