"""iperf3's output, JSON and normal, of every version from 3.0 on.

The work is done in :mod:`iotrial.formats.iperf3.json_output` and
:mod:`iotrial.formats.iperf3.text`; what the metrics mean stands in
:mod:`iotrial.formats.iperf3.flow`.
"""

from __future__ import annotations

import re

from iotrial.errors import FormatError
from iotrial.formats.iperf3.json_output import documents
from iotrial.formats.iperf3.text import tests
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed

_JSON = re.compile(rb'"(?:sum_sent|sum_received|bits_per_second|accepted_connection|test_start)"')
_ITS_OWN = re.compile(rb'"version"\s*:\s*"iperf 3|"(?:connecting_to|cpu_utilization_percent)"\s*:')
_LINE = re.compile(rb"\[ *(?:\d+|SUM)\](?:\[[RT]X-[CS]\])? +\d+\.\d+-\d+\.\d+ +sec +[\d.]+ ")
_WORDS = re.compile(
    rb"Connecting to host .+, port \d|Server listening on \d|iperf Done\.|iperf 3\."
)


class Iperf3:
    """The plugin."""

    name = "iperf3"
    title = "iperf3, JSON and normal output"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        head = head.replace(b"\0", b"")  # UTF-16, as PowerShell writes it
        if _JSON.search(head):
            return 3 if _ITS_OWN.search(head) else 1
        return (1 if _LINE.search(head) else 0) + (2 if _WORDS.search(head) else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if re.search(r"^\s*[\[{]?\s*\{", text, re.MULTILINE):
            return documents(text, raw)
        return tests(text, raw)


FORMAT = Iperf3()


def parse(data: bytes, raw: str) -> Parsed:
    """The one test in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several."""
    found = FORMAT.read(data, raw)
    if len(found) != 1:
        raise FormatError(f"{raw}: {len(found)} tests of iperf3; one is wanted")
    return Parsed(found[0].measurements, found[0].doubts)
