"""The list of results that IO500 prints: a line for each phase, and the scores.

A phase is a run of its own: its name is the workload (``ior-easy-write``), its number
``write.bw``, ``read.bw`` or the rate of its operation (``create.rate``, ``stat.rate``,
``delete.rate``, ``read.rate``, ``find.rate``), and its time ``total.seconds``.  A phase of no
number (``timestamp``) and the scores are left out: a score is a geometric mean of all.

Sources: ``io500.sh`` and ``src/main.c`` of IO500, releases of 2018 to 2023; the GiB/s of the
first ones were written GB/s and divided by 2^30 (``core_summarize``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_LINE = re.compile(
    r"\[(?P<mark>RESULT(?:-invalid)?|\s{6,7})\s*\]\s+(?:(?:BW|IOPS)\s+phase\s+\d{1,2}\s+)?"
    rf"(?P<phase>[a-zA-Z][\w-]{{1,60}})\s+(?P<value>{_NUMBER}) "
    r"(?P<unit>[GM]i?B/s|k?[iI][oO][pP][sS])"
    rf"\s*:\s*time\s+(?P<time>{_NUMBER}) seconds(?P<invalid>\s*\[INVALID\])?\s*"
)
_SHAPE = re.compile(rb"\[RESULT(?:-invalid)?\s*\] .+ : time +\d[\d.]* seconds")
_OPERATIONS = ("write", "read", "stat", "delete", "find")
_SCALE = {"gib/s": 2**30, "gb/s": 2**30, "mib/s": 2**20, "mb/s": 2**20, "kiops": 1e3, "iops": 1.0}


class IO500:
    """The plugin."""

    name = "io500"
    title = "IO500, its list of results"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        return 3 if _SHAPE.search(head) else 0

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        found = tuple(_recordings(text_of(data, raw), raw))
        if not found:
            raise FormatError(f"{raw}: no result of IO500", advice="Take its list of results.")
        return found


FORMAT = IO500()


def _recordings(text: str, raw: str) -> Iterator[Recording]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("[RESULT"):
            continue
        said = _LINE.fullmatch(line)
        if said is None:
            message = f"{raw}: line {number}: {line[:60]!r} is not a result of IO500"
            raise FormatError(message, advice="[RESULT] PHASE NUMBER UNIT : time NUMBER seconds")
        value = float(said["value"]) * _SCALE[said["unit"].lower()]
        if value <= 0:
            continue
        phase = said["phase"].replace("_", "-")
        name = _metric(phase, rate=said["unit"].lower().endswith("iops"))
        invalid = said["invalid"] or said["mark"].endswith("invalid")
        yield Recording(
            tool="io500",
            workload=phase,
            measurements=(
                of_metric(name, value, raw),
                Measurement("total.seconds", float(said["time"]), "s", raw=raw),
            ),
            line=number,
            doubts=(_INVALID,) if invalid else (),
            seconds=float(said["time"]),
        )


def _metric(phase: str, *, rate: bool) -> str:
    words = phase.split("-")
    operation = next((each for each in _OPERATIONS if each in words), "total")
    if not rate:
        return f"{operation}.bw"
    return f"{'create' if operation == 'write' else operation}.rate"


_INVALID = Doubt(
    "io500-invalid",
    "IO500 says that this phase is not valid",
    "it ended before its stonewall, or an option was not allowed: see its result.txt",
)
