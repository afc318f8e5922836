"""pread: random reads of one Python process, one at a time.

Options: ``bs``, bytes of a read (4096); ``runtime``, seconds (10).  It measures the system call as
a program in Python sees it, through the page cache, and is here to show what a tool is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from iotrial.errors import FormatError, UsageError
from iotrial.model.measurement import Measurement
from iotrial.model.tool import Load, LoadAccess, ParsedOutput, ToolTarget
from iotrial.model.workload import Workload

_DEFAULTS = {"bs": 4096, "runtime": 10}
_PROGRAM = b"""\
import json, os, random, sys, time
path, size, runtime = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
file = os.open(path, os.O_RDONLY)
blocks = os.lseek(file, 0, os.SEEK_END) // size
reads, began = 0, time.monotonic()
while (now := time.monotonic()) < began + runtime:
    os.pread(file, size, random.randrange(blocks) * size)
    reads += 1
print(json.dumps({"reads": reads, "bytes": reads * size, "seconds": now - began}))
"""


class Pread:
    """Stateless; :class:`iotrial.model.tool.Tool` says what each part promises."""

    name = "pread"
    summary = "random reads of one Python process"
    program = "python3"
    package = "python3"
    usual = "read.iops"
    measures = re.compile(r"read\.(iops|bw|bytes|seconds)")

    def check(
        self,
        workload: Workload,
        facts: Mapping[str, float],  # noqa: ARG002 (no option depends on the machine)
    ) -> list[tuple[str, str]]:
        return [
            (name, f"{value!r} is not a number above 0" if name in _DEFAULTS else "no such option")
            for name, value in workload.options
            if name not in _DEFAULTS or not isinstance(value, int | float) or value <= 0
        ]

    def reach(self, workload: Workload) -> LoadAccess:
        del workload
        return LoadAccess(reads=True, writes=False)

    def command(self, workload: Workload, aimed: ToolTarget, facts: Mapping[str, float]) -> Load:
        """Raises UsageError for an option that cannot work, and for a directory."""
        for option, problem in self.check(workload, facts):
            raise UsageError(f"workload {workload.name}: {option}: {problem}")
        if aimed.kind == "directory":
            raise UsageError(f"pread reads one file or device; {aimed.path} is a directory")
        words = (str(workload.option(name, usual)) for name, usual in _DEFAULTS.items())
        return Load(("python3", "pread.py", aimed.path, *words), (("pread.py", _PROGRAM),))

    def seconds(self, workload: Workload, aimed: ToolTarget) -> float:
        del aimed
        return float(workload.option("runtime", _DEFAULTS["runtime"]))

    def version_problem(self, version: str) -> str:
        known = version.startswith("Python 3.")
        return "" if known else f"{version.strip()[:60]!r} is no Python 3"

    def parse(self, folder: Path) -> ParsedOutput:
        """Raises FormatError for anything but the one line that the program prints."""
        path = folder / "stdout"
        try:
            said = json.loads(path.read_bytes())
            reads, size, seconds = (float(said[name]) for name in ("reads", "bytes", "seconds"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path}: not the result of pread: {error}") from None
        if not (math.isfinite(seconds) and seconds > 0 and reads >= 0):
            raise FormatError(f"{path}: {reads:g} reads in {seconds:g} s cannot be")
        numbers = (
            ("read.iops", reads / seconds, "1/s"),
            ("read.bw", size / seconds, "bytes/s"),
            ("read.bytes", size, "bytes"),
            ("read.seconds", seconds, "s"),
        )
        return ParsedOutput(tuple(Measurement(*each, raw="stdout") for each in numbers))


TOOL = Pread()
