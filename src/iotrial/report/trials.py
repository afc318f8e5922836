"""Every trial of a report: on the page, and as a table for other programs, CSV and Parquet.

On the page it is a table of thousands of rows, each number with the link to its raw file.  They are
put together here rather than block by block, and without the closing tags that HTML lets out
(13.1.2.4 of the standard), which halves the page.  Every text goes through
:func:`markupsafe.escape`.

The table for programs is long: a row per trial and metric, in base units.  A trial without a number
(it failed) has one row all the same, so that it is not missed.  A trial's numbers are those of all
its jobs together; each job's own are in the raw file that ``source`` names.  Text is fit to look at
(:mod:`iotrial.report.words`): one line, no control characters.

Sources: RFC 4180; OWASP, *CSV Injection* (the signs that begin a formula).
"""

from __future__ import annotations

import csv as comma_separated
import datetime as dt
import functools
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup, escape

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import Trial, TrialRecord
from iotrial.report import words
from iotrial.report.blocks import PrebuiltMarkup, Section, ShapeOnly, Text
from iotrial.report.view import LinkedNumber, TrialView
from iotrial.report.words import visible
from iotrial.units import format_seconds, format_value

# -- on the page ----------------------------------------------------------------------------------

_OPEN = 300
"""Trials up to which the table is unfolded."""


def section(rows: Sequence[TrialView], terms: words.Wording, folder: str | None = "") -> ShapeOnly:
    """``folder`` is the way from the page to the results folder ('': it lies there; None: nowhere,
    and nothing links to raw files)."""
    prefix = f"{quote(folder.rstrip('/'))}/" if folder else folder
    note = (
        f"{terms.order} Each number links to its raw file; the links work while this page is in"
        " its results folder."
    )
    if prefix is None:
        note = f"{terms.order} Raw files stayed in the results folder."
    table = PrebuiltMarkup(_table(rows, terms, prefix))
    return ShapeOnly("html", Section(f"Every {terms.one}", (Text(note, "note"), table), "trials"))


def anchors(rows: Sequence[TrialView]) -> Callable[[str], str]:
    """The place of a trial on the page, by the name of its folder."""
    numbers = {row.name: row.number for row in rows}
    return lambda name: f"t{numbers[name]}" if name in numbers else "trials"


def _table(rows: Sequence[TrialView], terms: words.Wording, prefix: str | None) -> Markup:
    targets = len({row.target for row in rows}) > 1
    heads = [("no.", "n"), ("at", "n"), ("workload", ""), ("treatment", "")]
    heads += [("target", "")] if targets else []
    heads += [(terms.again, "n"), ("response", "n"), ("p99 latency", "n"), ("state", "")]
    heads += [("doubts", ""), *([] if prefix is None else [("files", "unsorted")])]
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(
            Markup(' class="{}"').format(look) if look else "", name
        )
        for name, look in heads
    )
    lines = [_line(row, prefix, _cell(row.target) if targets else "") for row in rows]
    return Markup(
        "<details{}>\n<summary>{}</summary>\n"
        '<div class="scroll trialtable" role="region" aria-label="Every {}" tabindex="0">\n'
        '<table class="sortable">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n'
        "</table>\n</div>\n</details>"
    ).format(
        Markup(" open") if len(rows) <= _OPEN else Markup(' class="many"'),
        words.count(len(rows), terms.one),
        terms.one,
        head,
        Markup("".join(lines)),  # noqa: S704 -- every text went through escape
    )


def _line(row: TrialView, prefix: str | None, target: str) -> str:
    again = f" (attempt {row.attempt})" if row.attempt > 1 else ""
    doubts = _cell(", ".join(row.doubts))
    where = f" on {escape(row.host)}" if row.host else ""
    files = "" if prefix is None else f"<td class=k>{_files(row, prefix)}"
    return (
        f"<tr id=t{row.number} class={escape(row.state)}><td class=n>{row.number}"
        f"<td class=n data-s={row.seconds:.1f}>{format_seconds(row.seconds)}"
        f"{_cell(row.workload)}<td class=k>{escape(row.treatment)}{target}"
        f"<td class=n>{row.block}{where}{_linked(row.response, prefix)}{_linked(row.p99, prefix)}"
        f"<td>{escape(row.state)}{again}{doubts}{files}\n"
    )


def _files(row: TrialView, prefix: str) -> str:
    base = "/".join([f"{prefix}trials/{row.folder}", *row.parts[:1]])
    files = f'<a href="{base}/command">command</a> <a href="{base}/stdout">stdout</a>'
    if len(row.parts) > 1:
        files = f'<a href="{prefix}trials/{row.folder}/">{len(row.parts)} loads</a>'
    if row.source:
        said = f"original, line {escape(row.line)}" if row.line else "original"
        files = f'<a href="{prefix}{row.source}">{said}</a>'
    return files


@functools.lru_cache(maxsize=1024)
def _cell(text: str) -> str:
    return f"<td>{escape(text)}"


def _linked(number: LinkedNumber, prefix: str | None) -> str:
    if number.value is None:
        return "<td class=n data-s>–"
    said = escape(format_value(number.value, number.unit))
    shown = (
        f'<a href="{prefix}{number.href}">{said}</a>'
        if number.href and prefix is not None
        else said
    )
    return f"<td class=n data-s={number.value:.6g}>{shown}"


# -- the table for programs -----------------------------------------------------------------------

BEFORE = ("trial", "block", "workload")
AFTER = ("metric", "value", "unit", "censored", "job", "state", "started", "source")
"""The columns before and after those of the factors."""
PRETENDED = ("pretended",)
"""One more, last, where the numbers are made up: a table of real ones has none."""


@dataclass(frozen=True, slots=True)
class TrialTableRow:
    """``labels`` are the treatment's, a factor each; None where the factor does not apply.
    ``value`` is in ``unit``, a base unit; None where nothing was measured.  ``censored`` says on
    which side of the value the truth lies.  ``started`` is seconds since the epoch, None if
    unknown.  ``source`` is the raw file below the results folder, with the line where known."""

    trial: str
    block: int
    workload: str
    labels: tuple[str | None, ...]
    metric: str
    value: float | None
    unit: str
    censored: str
    job: str
    state: str
    started: float | None
    source: str


def labels_of(trial: Trial) -> dict[str, str]:
    """What a trial has in the columns of the factors; where blocks are spread over hosts, also
    its ``host``."""
    return dict(trial.treatment) | ({"host": trial.host} if trial.host else {})


def factors(results: Results) -> tuple[str, ...]:
    """The factors that have a column: the study's, in its order."""
    found = dict.fromkeys(factor.name for factor in results.study.factors)
    for record in results.records:
        found |= dict.fromkeys(labels_of(record.trial))
    return tuple(found)


def columns(results: Results) -> tuple[str, ...]:
    """The names of the columns.  A factor that is called as another column is (``value``) has
    ``factor_`` before its name."""
    taken = [*BEFORE, *AFTER, *PRETENDED]
    names = []
    for factor in factors(results):
        name = visible(factor)
        while name in taken:
            name = f"factor_{name}"
        taken.append(name)
        names.append(name)
    return (*BEFORE, *names, *AFTER, *(PRETENDED if results.pretended else ()))


def rows(results: Results) -> Iterator[TrialTableRow]:
    """Every row, in the order of execution."""
    names = factors(results)
    for record in results.records:
        told = record.measurements or (Measurement("", float("nan"), "", job=""),)
        for measurement in told:
            yield _row(record, measurement, names)


def _row(record: TrialRecord, measured: Measurement, names: tuple[str, ...]) -> TrialTableRow:
    trial, of = record.trial, labels_of(record.trial)
    return TrialTableRow(
        trial=visible(trial.folder),
        block=trial.block,
        workload=visible(trial.workload),
        labels=tuple(visible(of[name]) if name in of else None for name in names),
        metric=visible(measured.metric),
        value=measured.value if measured.metric else None,
        unit=visible(measured.unit),
        censored=measured.censored,
        job=visible(measured.job),
        state=record.state,
        started=record.started if record.started > 0 else None,
        source=visible(source(record, measured.raw)),
    )


def source(record: TrialRecord, raw: str = "") -> str:
    """Where a number of a trial came from: below ``originals/`` or ``trials/``."""
    if record.source:
        return record.source
    return "/".join(part for part in ("trials", record.trial.folder, raw) if part)


# -- CSV ------------------------------------------------------------------------------------------

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # noqa: RUF001 (full-width signs count as well)
_WITHIN = re.compile(r"([;|\t][\s\"]*)(?=[=+\-@＝＋－＠])")  # noqa: RUF001 (as above)
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def csv(results: Results) -> str:
    """The whole table with its line of names: UTF-8, a line a row, comma, numbers with a point and
    every digit they have.

    A text that a spreadsheet program would take for a formula has an apostrophe before it; so has
    what would begin a cell within a text where the program's separator is another one than the
    comma.
    """
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


# -- Parquet --------------------------------------------------------------------------------------


def parquet(results: Results) -> bytes:
    """The whole table as a file, typed, for data frames.

    ``block`` is an integer, ``value`` a double (null: nothing was measured), ``started`` a time
    (UTC; null: unknown), everything else text, coded by a dictionary since it repeats.  Labels of
    factors stay text: ``4k`` and ``none`` are labels, and so is ``32``.  The schema's metadata
    names the study and its question.
    """
    import pyarrow as pa  # noqa: PLC0415  an extra
    from pyarrow import parquet as files  # noqa: PLC0415

    made = list(rows(results))
    told = {
        "trial": [row.trial for row in made],
        "block": [row.block for row in made],
        "workload": [row.workload for row in made],
        **_labels(results, made),
        "metric": [row.metric or None for row in made],
        "value": [row.value for row in made],
        "unit": [row.unit for row in made],
        "censored": [row.censored for row in made],
        "job": [row.job for row in made],
        "state": [row.state for row in made],
        "started": [None if row.started is None else round(row.started * 1e6) for row in made],
        "source": [row.source for row in made],
    }
    if results.pretended:
        told["pretended"] = [True] * len(made)
    typed = {
        "block": pa.int32(),
        "value": pa.float64(),
        "started": pa.timestamp("us", tz="UTC"),
        "pretended": pa.bool_(),
    }
    text = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field(name, typed.get(name, text)) for name in told]
    about = {
        "iotrial.study": visible(results.study.name),
        "iotrial.question": visible(results.study.question),
    }
    if results.pretended:
        about["iotrial.pretended"] = "yes"
    table = pa.table(
        [
            pa.array(values, type=field.type)
            for field, values in zip(fields, told.values(), strict=True)
        ],
        schema=pa.schema(fields, metadata=about),
    )
    into = io.BytesIO()
    files.write_table(table, into, compression="zstd")
    return into.getvalue()


def _labels(results: Results, made: list[TrialTableRow]) -> dict[str, list[str | None]]:
    names = columns(results)[len(BEFORE) :]
    shown = names[: len(factors(results))]
    return {name: [row.labels[place] for row in made] for place, name in enumerate(shown)}
