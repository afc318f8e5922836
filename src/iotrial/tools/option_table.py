"""Options that a tool takes as switches and values, as a table: what a person may write for them.

elbencho, IOR and mdtest have theirs here; each says which of its options a study may use.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iotrial.errors import UsageError
from iotrial.model.workload import OptionValue, Workload

COUNT = (r"[1-9]\d{0,8}", "a whole number from 1")
COUNT_OR_NONE = (r"\d{1,9}", "a whole number")
SECONDS = (r"\d{1,6}", "whole seconds, such as 30")
SIZE = (r"\d{1,15}[kmgtKMGT]?", "bytes, such as 4k, 1m or 16g (of 1024)")


@dataclass(frozen=True, slots=True)
class Table:
    """``shapes``: option → (what its value must look like, in words).  ``names``: another name
    → the option's own."""

    tool: str
    switches: tuple[str, ...]
    shapes: Mapping[str, tuple[str, str]]
    names: Mapping[str, str] = field(default_factory=dict)

    def said(self, workload: Workload) -> dict[str, OptionValue]:
        """Own name → value; a switch that is false is left out."""
        found = {self.names.get(name, name): value for name, value in workload.options}
        return {name: value for name, value in found.items() if value is not False}

    def problems(self, workload: Workload) -> Iterator[tuple[str, str]]:
        """(option, what is wrong with it)."""
        if workload.jobfile:
            yield "jobfile", f"{self.tool} takes no job file: say its options"
        seen: dict[str, str] = {}
        for name, value in workload.options:
            own = self.names.get(name, name)
            if own in seen:
                yield name, f"it is {seen[own]}, which is there already: keep one"
            seen[own] = name
            if own in self.switches:
                if not isinstance(value, bool):
                    yield name, "it is true or false"
            elif own not in self.shapes:
                known = (*self.switches, *self.shapes, *self.names)
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                yield name, f"{self.tool} has no option {name!r} here; {hint}"
            elif isinstance(value, bool) or not re.fullmatch(self.shapes[own][0], str(value)):
                yield name, f"{str(value)[:40]!r}: it is {self.shapes[own][1]}"

    def refuse(self, workload: Workload, problems: list[tuple[str, str]]) -> None:
        """Raises UsageError with the first problem."""
        for option, problem in problems:
            raise UsageError(f"workload {workload.name}: {option}: {problem}")


def size_of(value: OptionValue) -> int:
    """Bytes of what :data:`SIZE` lets through; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,15})([kmgtKMGT]?)", str(value))
    if not match:
        return 0
    power: int = 1 << 10 * " kmgt".index(match[2].lower() or " ")
    return int(match[1]) * power
