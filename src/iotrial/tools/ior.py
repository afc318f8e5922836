"""IOR: large files, shared or one a process, by processes that MPI starts.

Options by IOR's letters or by name: a ``api``, b ``block``, t ``transfer``, s ``segments``, w
``write``, r ``read``, F ``file_per_process``, C ``reorder``, Z ``reorder_random``, e ``fsync``, Y
``fsync_per_write``, z ``random``, k ``keep``, D ``stonewall`` (seconds), and ``direct``
(``--posix.odirect``, IOR 3.3 and later) and ``processes``.  Each process writes block × segments.
Without write and read it does both.  ``-i`` is 1: a study repeats by itself, at random.  What was
written is removed, unless ``keep`` or only read is said.

Sources: ior -h of 3.0.1 to 4.1; parse_options.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from iotrial.errors import UsageError
from iotrial.formats import ior
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget, inside
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.parallel import (
    COUNT,
    SECONDS,
    SIZE,
    OptionRules,
    ParallelTool,
    as_words,
    count_of,
    own_folder,
    size_of,
    started,
)

_TABLE = OptionRules(
    "IOR",
    ("w", "r", "F", "C", "Z", "e", "Y", "z", "k", "direct"),
    {
        "b": SIZE, "t": SIZE, "s": COUNT, "D": SECONDS, "processes": COUNT,
        "a": (r"POSIX|MMAP|MPIIO", "POSIX, MMAP or MPIIO"),
    },
    {
        "api": "a", "block": "b", "transfer": "t", "segments": "s", "write": "w", "read": "r",
        "file_per_process": "F", "reorder": "C", "reorder_random": "Z", "fsync": "e",
        "fsync_per_write": "Y", "random": "z", "keep": "k", "stonewall": "D",
    },
)  # fmt: skip
_BLOCK, _TRANSFER = 2**20, 2**18  # bytes; IOR's own defaults
_SLOW_STREAM, _STARTUP = 20e6, 5.0  # bytes/s, seconds


class Ior(ParallelTool):
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "ior"
    summary = "large files, shared or one a process, written and read by MPI processes"
    program = "ior"
    package = "ior"
    usual = "iops"
    measures = re.compile(r"(read|write)\.(bw|iops|lat\.mean|seconds)|delete\.seconds")
    remedy = (
        "IOR is not in Debian or Ubuntu: apt-get install openmpi-bin libopenmpi-dev, and build it "
        "from github.com/hpc/ior (./bootstrap, ./configure, make)"
    )
    table = _TABLE

    def together(self, said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
        block, transfer = size_of(said.get("b", _BLOCK)), size_of(said.get("t", _TRANSFER))
        if not transfer or not block:
            yield "transfer" if not transfer else "block", "it is 0"
        elif block % transfer:
            yield "block", f"{block} bytes are not a multiple of a transfer of {transfer}"
        if "direct" in said and said.get("a", "POSIX") != "POSIX":
            yield "direct", "it is for the API POSIX"

    def read(self, data: bytes) -> ParsedOutput:
        return ior.parse(data, "stdout")

    def reach(self, workload: Workload) -> LoadAccess:
        said = _TABLE.said(workload)
        both = not said.keys() & {"w", "r"}
        return LoadAccess(reads="r" in said or both, writes="w" in said or both)

    def load(self, said: Mapping[str, OptionValue], aimed: ToolTarget) -> Load:
        if aimed.kind == "device":
            advice = "aim it at a directory, or let the target have a filesystem"
            what = f"IOR makes and removes its file; {aimed.path} is a device"
            raise UsageError(what, advice=advice)
        folder = inside(own_folder(aimed, self.name))
        name = f"{folder}/ior" if aimed.kind == "directory" else aimed.path
        words = ["ior", "-i", "1"]
        words += ["-k"] if said.keys() & {"w", "r"} == {"r"} and "k" not in said else []
        for letter, value in said.items():
            if letter == "direct":
                words.append("--posix.odirect")
            elif letter != "processes":
                words += as_words({letter: value})
        return Load(started(count_of(said, "processes"), [*words, "-o", name]))

    def laying_out(self, said: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        """Its files, written and kept."""
        kept = {name: value for name, value in said.items() if name not in ("r", "D", "z")}
        return {**kept, "w": True, "k": True}

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow disk needs; a stonewall ends a phase."""
        del aimed
        said, reach = _TABLE.said(workload), self.reach(workload)
        blocks = count_of(said, "s") * count_of(said, "processes")
        phase = (size_of(said.get("b", _BLOCK)) or _BLOCK) * blocks / _SLOW_STREAM
        if str(said.get("D", "")).isdecimal():
            phase = min(phase, float(str(said["D"])))
        return _STARTUP + phase * (reach.reads + reach.writes)

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        said = _TABLE.said(workload)
        api = said.get("a", "POSIX")
        if api != "POSIX":
            return f"api = {api}"
        return "" if "direct" in said else "no direct = true"


TOOL = Ior()
