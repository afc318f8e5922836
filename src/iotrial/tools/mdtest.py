"""mdtest: many files and directories, made, looked at, read and removed by MPI processes.

Options by mdtest's letters or by name: n ``items`` (a process), I ``items_per_directory``, z
``depth``, b ``branches``, w ``write_bytes``, e ``read_bytes``, N ``stride`` (another process's
files are read), F ``files_only``, D ``directories_only``, L ``leaves``, u ``own_directory``, y
``sync``, R ``random``, and C ``create``, T ``stat``, E ``read``, r ``delete`` for one phase or
some of them (none: all), and ``processes``.  ``-i`` is 1: a study repeats by itself, at random.

All of it goes through the caches of the kernel; ``stride`` or ``own_directory`` on several hosts
is what keeps them out, and this is one host.

Sources: mdtest -h of 1.9.3 to 4.1; mdtest.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from iotrial.errors import UsageError
from iotrial.formats import mdtest
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget, inside
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.parallel import (
    COUNT,
    COUNT_OR_NONE,
    SIZE,
    OptionRules,
    ParallelTool,
    as_words,
    count_of,
    own_folder,
    size_of,
    started,
)

_PHASES = ("C", "T", "E", "r")
_TABLE = OptionRules(
    "mdtest",
    (*_PHASES, "F", "D", "L", "u", "y", "R"),
    {
        "n": COUNT, "I": COUNT, "z": COUNT_OR_NONE, "b": COUNT, "w": SIZE, "e": SIZE,
        "N": COUNT, "processes": COUNT,
    },
    {
        "items": "n", "items_per_directory": "I", "depth": "z", "branches": "b",
        "write_bytes": "w", "read_bytes": "e", "stride": "N", "files_only": "F",
        "directories_only": "D", "leaves": "L", "own_directory": "u", "sync": "y", "random": "R",
        "create": "C", "stat": "T", "read": "E", "delete": "r",
    },
)  # fmt: skip
_SLOW_RATE, _STARTUP = 200.0, 5.0  # 1/s, seconds


class Mdtest(ParallelTool):
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "mdtest"
    summary = "many files and directories made, looked at and removed by MPI processes"
    program = "mdtest"
    package = "mdtest"
    usual = "create.rate"
    measures = re.compile(r"[a-z]+(\.(dir|tree))?\.rate(\.sd)?")
    remedy = (
        "mdtest is not in Debian or Ubuntu: it is built with IOR; apt-get install openmpi-bin "
        "libopenmpi-dev, and build github.com/hpc/ior (./bootstrap, ./configure, make)"
    )
    table = _TABLE

    def together(self, said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
        if "n" not in said and "I" not in said:
            yield "items", "set how many files and directories each process makes, such as 1000"
        if "F" in said and "D" in said:
            yield "files_only", "with directories_only nothing is left"
        if size_of(said.get("e", 0)) > size_of(said.get("w", 0)):
            yield "read_bytes", "it is more than write_bytes: a read would end early"

    def read(self, data: bytes) -> ParsedOutput:
        return mdtest.parse(data, "stdout")

    def reach(self, workload: Workload) -> LoadAccess:
        said = _TABLE.said(workload)
        every = not any(letter in said for letter in _PHASES)
        return LoadAccess(
            reads=every or bool(said.keys() & {"T", "E"}),
            writes=every or bool(said.keys() & {"C", "r"}),
        )

    def load(self, said: Mapping[str, OptionValue], aimed: ToolTarget) -> Load:
        if aimed.kind != "directory":
            advice = "aim it at a directory, or let the target have a filesystem"
            raise UsageError(f"mdtest works in a directory; {aimed.path} is none", advice=advice)
        folder = f"{inside(own_folder(aimed, self.name))}/mdtest"
        plain = {
            letter: size_of(value) if letter in ("w", "e") else value  # older ones know no 4k
            for letter, value in said.items()
            if letter != "processes"
        }
        words = ("mdtest", "-i", "1", "-d", folder, *as_words(plain))
        return Load(started(count_of(said, "processes"), words))

    def laying_out(self, said: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        """Its files and directories, made only."""
        return {**{name: value for name, value in said.items() if name not in _PHASES}, "C": True}

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow disk needs."""
        del aimed
        said = _TABLE.said(workload)
        phases = sum(letter in said for letter in _PHASES) or len(_PHASES)
        kinds = 1 if said.keys() & {"F", "D"} else 2
        items = count_of(said, "n") * count_of(said, "processes")
        return _STARTUP + items * kinds * phases / _SLOW_RATE

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        del workload
        return "mdtest's files"


TOOL = Mdtest()
EXAMPLE: dict[str, object] = {"items": 1000}
