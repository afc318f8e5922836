"""Parallel: a tool of many processes or threads (elbencho, IOR, mdtest), as far as they are alike.

Its options, switches and values, stand in a table that says what a person may write for them; in a
directory it works in a folder of its own, which stays for the next trial to read; it writes one
file with its result.

Programs that speak MPI are started on this host, as root as well, with more processes than cores.
Open MPI refuses both unless told in words or in its environment; the environment is taken, since
other MPIs pass over it and would refuse the words.  Source: mpirun(1) of Open MPI 4.1.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from iotrial.errors import UsageError
from iotrial.model.tool import Leftover, Load, ParsedOutput, ToolTarget
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.results import result

COUNT = (r"[1-9]\d{0,8}", "a whole number from 1")
COUNT_OR_NONE = (r"\d{1,9}", "a whole number")
SECONDS = (r"\d{1,6}", "whole seconds, such as 30")
SIZE = (r"\d{1,15}[kmgtKMGT]?", "bytes, such as 4k, 1m or 16g (of 1024)")


@dataclass(frozen=True, slots=True)
class OptionRules:
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
            yield "jobfile", f"{self.tool} takes no job file: set its options"
        seen: dict[str, str] = {}
        for name, value in workload.options:
            own = self.names.get(name, name)
            if own in seen:
                yield name, f"it is {seen[own]}, which is already given: keep one"
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


def size_of(value: OptionValue) -> int:
    """Bytes of what :data:`SIZE` lets through; 0 for anything else."""
    match = re.fullmatch(r"(\d{1,15})([kmgtKMGT]?)", str(value))
    if not match:
        return 0
    power: int = 1 << 10 * " kmgt".index(match[2].lower() or " ")
    return int(match[1]) * power


class ParallelTool(ABC):
    """The part of :class:`iotrial.model.tool.Tool` that these tools share."""

    name: str
    table: ClassVar[OptionRules]
    result_file = "stdout"

    @abstractmethod
    def together(self, said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
        """(option, what is wrong) for options that are right each, and wrong together."""

    @abstractmethod
    def load(self, said: Mapping[str, OptionValue], aimed: ToolTarget) -> Load:
        """What is executed for them.  Raises UsageError for a target that it is not for."""

    @abstractmethod
    def laying_out(self, said: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        """The options with which it makes the files of a load, and no more."""

    @abstractmethod
    def read(self, data: bytes) -> ParsedOutput:
        """What the file with the result says.  Raises FormatError."""

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        found = list(self.table.problems(workload))
        return found or list(self.together(self.table.said(workload)))

    def _said(self, workload: Workload, facts: Mapping[str, float]) -> dict[str, OptionValue]:
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        return self.table.said(workload)

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError with the first problem, and for a target that it is not for."""
        return self.load(self._said(workload, facts), aimed)

    def lay_out(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """See :class:`iotrial.model.tool.SupportsLayout`."""
        return self.load(self.laying_out(self._said(workload, facts)), aimed)

    def leaves(
        self,
        workload: Workload,  # noqa: ARG002 (whatever it does, it does it in there)
        aimed: ToolTarget,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> tuple[Leftover, ...]:
        """See :class:`iotrial.model.tool.SupportsLeftovers`: what one trial wrote the next may
        read."""
        own = own_folder(aimed, self.name)
        return (Leftover(own, "folder", "study"),) if aimed.kind == "directory" else ()

    def version_problem(self, version: str) -> str:
        """There is no ``--version``: such a tool complains, or crashes, and is there."""
        del version
        return ""

    def parse(self, folder: Path) -> ParsedOutput:
        return self.read(result(folder, self.result_file, self.table.tool))


def own_folder(aimed: ToolTarget, name: str) -> str:
    """Where the tool of this name works in a directory."""
    return aimed.own(f"iotrial-{name}")


def count_of(said: Mapping[str, OptionValue], name: str) -> int:
    """A number as it was said; 1 where it was not, or is none."""
    word = str(said.get(name, 1))
    return int(word) if word.isdecimal() else 1


def as_words(said: Mapping[str, OptionValue], dash: str = "-") -> Iterator[str]:
    """Options as words of a command."""
    for name, value in said.items():
        yield f"{dash}{name}"
        if value is not True:
            yield str(value)


_OPEN_MPI = (
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
)


def started(processes: int, words: Sequence[str]) -> tuple[str, ...]:
    """The command of ``processes`` of them."""
    return ("env", *_OPEN_MPI, "mpirun", "-n", str(processes), *words)
