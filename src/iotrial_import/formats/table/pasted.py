"""A table of numbers: CSV by commas, semicolons, tabs or bars, Markdown, or pasted columns.

What each column is, is guessed, or said by a person (:mod:`iotrial_import.formats.table.columns`).
Several tables in one text are read one after another.
"""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial.errors import FormatError, IotrialError
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt
from iotrial_import.formats.table.columns import Columns
from iotrial_import.formats.table.gaps import gaps
from iotrial_import.formats.table.rows import laid, recordings
from iotrial_import.formats.table.text import Table, tables_in

_NAMED = re.compile(rb"[^\d\s.,;|+-]")  # what a line of names has, and a list of numbers has not
_LAST_WORDS = "the file has no line end: its last number may be cut"


class _Text:
    name = "table"
    title = "a table of numbers: CSV, Markdown, or columns of text"
    takes_columns = True

    def recognises(self, head: bytes, name: str) -> int:
        """1 for a table of which a column is a measurement with a unit; never more: what a tool
        wrote is for the tool's own format."""
        whole = head[: head.rfind(b"\n") + 1] or head
        if not _NAMED.search(whole):  # thousands of logs are soon told apart from tables
            return 0
        try:
            found = tables(whole, name)
            return int(any(laid(each, None)[1].having("value") for each in found))
        except IotrialError:
            return 0

    def columns(
        self, data: Buffer, raw: str, columns: Columns | None = None
    ) -> tuple[Columns, ...]:
        """What the columns of each table are: as said, the rest as guessed."""
        return tuple(laid(table, columns)[1] for table in tables(data, raw))

    def read(self, data: Buffer, raw: str, columns: Columns | None = None) -> tuple[Recording, ...]:
        """``columns`` is what a person says of them.  Raises FormatError with line and column,
        and UsageError for columns that the table does not have."""
        found = tables(data, raw)
        read = [each for table in found for each in recordings(*laid(table, columns), raw)]
        if not read:
            raise FormatError(f"{raw}: a table without a number")
        if bytes(data[-1:]) != b"\n" and found[-1].rows[-1].cells[-1:] != ("",):
            cut = Doubt("cut", _LAST_WORDS, "Look whether the last line is whole.")
            read[-1] = replace(read[-1], doubts=(*read[-1].doubts, cut))
        return tuple(read)

    def gaps(self, data: Buffer, raw: str, columns: Columns | None = None) -> tuple[Doubt, ...]:
        """What rows and cells of its tables have no number."""
        found = tables(data, raw)
        return tuple(each for table in found for each in gaps(*laid(table, columns), raw))


FORMAT = _Text()


def tables(data: Buffer, raw: str) -> tuple[Table, ...]:
    """Every table in a text.  Raises FormatError, also where there is none."""
    found = tuple(each for each in tables_in(text_of(data, raw), raw) if each.rows)
    if not found:
        advice = "A table has a line of names and lines with as many cells."
        raise FormatError(f"{raw}: no table of numbers", advice=advice)
    return found
