"""CSV: the table of all trials (:mod:`iotrial.report.trial_table`) for any program.

UTF-8, a line a row, comma, numbers with a point and every digit they have.  A text that a
spreadsheet program would take for a formula has an apostrophe before it; so has what would begin
a cell within a text where the program's separator is another one than the comma.

Sources: RFC 4180; OWASP, *CSV Injection* (the signs that begin a formula).
"""

from __future__ import annotations

import csv as comma_separated
import datetime as dt
import io
import re

from iotrial.model.results import Results
from iotrial.report.trial_table import columns, rows
from iotrial.report.visible import visible

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # noqa: RUF001 (full-width signs count as well)
_WITHIN = re.compile(r"([;|\t][\s\"]*)(?=[=+\-@＝＋－＠])")  # noqa: RUF001 (as above)
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def csv(results: Results) -> str:
    """The whole table with its line of names."""
    into = io.StringIO()
    write = comma_separated.writer(into, lineterminator="\n").writerow
    write([inert(name) for name in columns(results)])
    made_up = ["yes"] if results.pretended else []
    for row in rows(results):
        write(
            (
                inert(row.trial),
                row.block,
                inert(row.workload),
                *("" if label is None else inert(label) for label in row.labels),
                inert(row.metric),
                "" if row.value is None else repr(float(row.value)),
                inert(row.unit),
                inert(row.censored),
                inert(row.job),
                inert(row.state),
                "" if row.started is None else _time(row.started),
                inert(row.source),
                *made_up,
            )
        )
    return into.getvalue()


def inert(text: str) -> str:
    """``text``, or ``'text`` where a spreadsheet would compute it.  A plain number stays one.
    Control characters, line breaks too, are shown by their codes."""
    text = _WITHIN.sub(r"\1'", visible(text))
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _time(seconds: float) -> str:
    """ISO 8601, UTC, to the millisecond: ``2026-11-20T09:30:00.000Z``."""
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
