"""Parallel: a tool of many processes or threads (elbencho, IOR, mdtest), as far as they are alike.

Its options stand in a table; in a directory it works in a folder of its own, which stays for the
next trial to read; it writes one file with its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from iotrial.model.tool import Aimed, Left, Parsed
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.option_table import Table
from iotrial.tools.result import result


class Parallel(ABC):
    """The part of :class:`iotrial.model.tool.Tool` that these tools share."""

    name: str
    table: ClassVar[Table]
    result_file = "stdout"

    @abstractmethod
    def together(self, said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
        """(option, what is wrong) for options that are right each, and wrong together."""

    @abstractmethod
    def read(self, data: bytes) -> Parsed:
        """What the file with the result says.  Raises FormatError."""

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        found = list(self.table.problems(workload))
        return found or list(self.together(self.table.said(workload)))

    def leaves(
        self,
        workload: Workload,  # noqa: ARG002 (whatever it does, it does it in there)
        aimed: Aimed,
        facts: Mapping[str, float],  # noqa: ARG002
    ) -> tuple[Left, ...]:
        """See :class:`iotrial.model.tool.Leaves`: what one trial wrote the next may read."""
        own = own_folder(aimed, self.name)
        return (Left(own, "folder", "study"),) if aimed.kind == "directory" else ()

    def version_problem(self, version: str) -> str:
        """There is no ``--version``: such a tool complains, or crashes, and is there."""
        del version
        return ""

    def parse(self, folder: Path) -> Parsed:
        return self.read(result(folder, self.result_file, self.table.tool))


def own_folder(aimed: Aimed, name: str) -> str:
    """Where the tool of this name works in a directory."""
    return f"{aimed.path.rstrip('/')}/iotrial-{name}"
