"""elbencho: large files, many small files, or a device, by many threads.

Options by elbencho's long names (without the dashes) or its letters.  What is done: ``mkdirs``,
``write``, ``stat``, ``read``, ``delfiles``, ``deldirs``, each true, in elbencho's own order.  In a
directory, each thread has ``dirs`` directories of ``files`` files of ``size``; ``dirs = 0`` puts
them all into one.  ``write`` makes directories where there are any to be made.

Only what ran on this host is measured (no ``hosts``, no S3).  Its CSV is read, which every version
writes; it cuts MiB/s to whole ones.  Latencies are recorded, which costs little.

Sources: elbencho --help-all of 1.0 to 3.1; ProgArgs.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from iotrial.errors import UsageError
from iotrial.formats import elbencho
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget, inside
from iotrial.model.workload import OptionValue, Workload
from iotrial.tools.parallel import (
    COUNT,
    COUNT_OR_NONE,
    SECONDS,
    SIZE,
    OptionRules,
    ParallelTool,
    as_words,
    count_of,
    own_folder,
    size_of,
)

_PHASES = ("mkdirs", "write", "stat", "read", "delfiles", "deldirs")
_CHANGING = ("mkdirs", "write", "delfiles", "deldirs")
_TABLE = OptionRules(
    "elbencho",
    (*_PHASES, "direct", "rand", "norandalign", "trunc", "infloop", "sync", "dropcache"),
    {
        "threads": COUNT, "block": SIZE, "size": SIZE, "iodepth": COUNT, "dirs": COUNT_OR_NONE,
        "files": COUNT, "timelimit": SECONDS, "randamount": SIZE,
        "rwmixpct": (r"\d{1,2}|100", "a share of reads in percent, such as 30"),
        "blockvarpct": (r"\d{1,2}|100", "a share in percent, such as 100"),
    },
    {
        "d": "mkdirs", "w": "write", "r": "read", "F": "delfiles", "D": "deldirs", "t": "threads",
        "b": "block", "s": "size", "n": "dirs", "N": "files",
    },
)  # fmt: skip
_RESULT = "elbencho.csv"
_SLOW_STREAM, _SLOW_RATE, _STARTUP = 20e6, 200.0, 3.0  # bytes/s, 1/s, seconds


class Elbencho(ParallelTool):
    """The plugin.  Stateless; see :class:`iotrial.model.tool.Tool` for what each part promises."""

    name = "elbencho"
    summary = "files, directories and devices by many threads, several phases in a run"
    program = "elbencho"
    package = "elbencho"
    usual = "iops"
    measures = re.compile(
        r"[a-z]+(\.(dir|file))?\.(bw|iops|rate|cpu|seconds|lat\.(mean|min|max|p[\d.]+))"
    )
    remedy = (
        "elbencho is not in Debian or Ubuntu: take a package or the static program of your "
        "machine from github.com/breuner/elbencho/releases"
    )
    table = _TABLE
    result_file = _RESULT

    def together(self, said: Mapping[str, OptionValue]) -> Iterator[tuple[str, str]]:
        if not any(name in said for name in _PHASES):
            yield "write", f"set what to do: one or more of {', '.join(_PHASES)} = true"
        if "rwmixpct" in said and "write" not in said:
            yield "rwmixpct", "it turns a share of the writes into reads: say write = true"
        if "infloop" in said and "timelimit" not in said:
            yield "infloop", "it would never end: say timelimit, in seconds"
        block, size = (size_of(said.get(name, 0)) for name in ("block", "size"))
        if block and size and block > size:
            yield "block", "it is larger than the file: elbencho would take another"

    def read(self, data: bytes) -> ParsedOutput:
        return elbencho.parse(data, _RESULT)

    def reach(self, workload: Workload) -> LoadAccess:
        said = _TABLE.said(workload)
        reads = bool(said.keys() & {"read", "stat", "rwmixpct"})
        return LoadAccess(reads=reads, writes=any(name in said for name in _CHANGING))

    def load(self, said: Mapping[str, OptionValue], aimed: ToolTarget) -> Load:
        words = dict(said)
        if "size" not in words and aimed.kind != "device" and words.keys() & {"write", "read"}:
            if aimed.kind == "directory" or not aimed.size:
                advice = 'set how large each file is, for example size = "1g"'
                raise UsageError(
                    f"elbencho needs a size of its files in {aimed.path}", advice=advice
                )
            words["size"] = aimed.size
        if aimed.kind != "directory":
            for name in ("mkdirs", "deldirs", "dirs", "files", "delfiles", "stat"):
                if name in words:
                    advice = "aim it at a directory, or remove that"
                    raise UsageError(f"elbencho: {name} is for a directory", advice=advice)
        elif "write" in words and str(words.get("dirs", 1)).strip("0"):
            words["mkdirs"] = True  # one that exists is no error
        where = inside(own_folder(aimed, self.name)) if aimed.kind == "directory" else aimed.path
        fixed = ("elbencho", "--nolive", "--lat", "--csvfile", _RESULT)
        return Load((*fixed, *as_words(words, "--"), where))

    def laying_out(self, said: Mapping[str, OptionValue]) -> Mapping[str, OptionValue]:
        """Its files, written once."""
        kept = ("threads", "block", "size", "dirs", "files", "direct")
        return {"write": True, **{name: said[name] for name in said if name in kept}}

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        """What a slow disk needs; no longer than its time limit."""
        said = _TABLE.said(workload)
        phases = [name for name in _PHASES if name in said]
        size, files = size_of(said.get("size", 0)), 1
        if aimed.kind == "directory":
            files = (
                count_of(said, "threads") * max(1, count_of(said, "dirs")) * count_of(said, "files")
            )
        moved = (size * files or aimed.size) * sum(name in said for name in ("write", "read"))
        total = moved / _SLOW_STREAM + files * len(phases) / _SLOW_RATE
        if "timelimit" in said:
            limit = float(str(said["timelimit"])) * len(phases)
            total = limit if "infloop" in said else min(total, limit)
        return _STARTUP + total

    def buffered(self, workload: Workload) -> str:
        """See :class:`iotrial.model.tool.SupportsCaching`."""
        said = _TABLE.said(workload)
        moves = said.keys() & {"read", "write"}
        return "no direct = true" if moves and "direct" not in said else ""

    def version_problem(self, version: str) -> str:
        """The first line of its ``--version`` is its name alone."""
        if not version or "elbencho" in version:
            return ""
        return f"{version.strip()[:60]!r} is not elbencho: is another program named so?"


TOOL = Elbencho()
EXAMPLE: dict[str, object] = {"write": True, "size": "1m"}
