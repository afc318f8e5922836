"""elbencho's results: its CSV, its JSON and its text, of 1.0 to 3.1.

One recording a run, with every phase in it by its operation: ``create.rate`` and ``write.bw`` of
WRITE, ``read.rate`` and ``read.bw`` of READ, ``stat.rate`` of STAT, ``delete.rate`` of RMFILES,
``create.dir.rate`` of MKDIRS, ``delete.dir.rate`` of RMDIRS.  ``write.lat.*`` is of an I/O,
``create.lat.*`` of a file written whole, ``read.file.lat.*`` of one read whole.  A mix gives its
reads and writes apart, and ``total.*`` where elbencho counts them together (1.x).  Buckets are
directories here, objects files.  SYNC and DROPCACHE lie between and are left out.

All numbers are those of *last done*: the whole phase, to the end of the slowest thread.  MiB are
2^20 and cut to whole ones, but exact in JSON.  Percentiles are upper bounds ("99%<=724"), so that
the truth is lower.

Sources: Statistics.cpp and ProgArgs.cpp of 1.0 to 3.1; recordings in ``tests/data/elbencho``.
"""

from __future__ import annotations

import re

from iotrial.errors import FormatError
from iotrial.formats.elbencho import csv_result, json_result
from iotrial.formats.elbencho import text as tables
from iotrial.formats.elbencho.phase import AGAIN, recordings
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed

_CSV = re.compile(rb"^[^\n]*\boperation,time ms \[first\],time ms \[last\],", re.MULTILINE)
_LIVE = re.compile(rb"^ISO Date,Label,Phase,RuntimeMS,")
_JSON = re.compile(rb'"phase_type"\s*:')
_JSON_PARTS = re.compile(rb'"(?:first|last)_done"\s*:\s*\{|"iso_start_date"\s*:')
_TABLE = re.compile(rb"^OPERATION +RESULT TYPE +FIRST DONE +LAST DONE", re.MULTILINE)
_START = re.compile(rb"^[A-Z][A-Z0-9_+-]* +(?:Elapsed (?:ms|time)|time ms) +: ", re.MULTILINE)


class Elbencho:
    """The plugin."""

    name = "elbencho"
    title = "elbencho, CSV, JSON and normal output"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        if _CSV.search(head) or _LIVE.match(head):
            return 3
        if _JSON.search(head) and _JSON_PARTS.search(head):
            return 3
        return (2 if _TABLE.search(head) else 0) + (1 if _START.search(head) else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if _JSON.search(text.encode()) and json_result.BEGINS.search(text):
            phases = json_result.phases_of(text, raw)
        elif csv_result.HEAD.search(text) or _LIVE.match(text.encode()):
            phases = csv_result.phases_of(text, raw)
        else:
            phases = tables.phases_of(text, raw)
        found = tuple(recordings(phases, raw))
        if not found:
            message = f"{raw}: no phase of elbencho in {text.count(chr(10)) + 1} lines"
            raise FormatError(message, advice=AGAIN)
        return found


FORMAT = Elbencho()


def parse(data: bytes, raw: str) -> Parsed:
    """The one run in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several."""
    found = FORMAT.read(data, raw)
    if len(found) != 1:
        raise FormatError(f"{raw}: {len(found)} runs of elbencho; one is wanted")
    return Parsed(found[0].measurements, found[0].doubts)
