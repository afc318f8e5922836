"""Every trial of a report: a table of thousands of rows, each number with the link to its raw file.

Its rows are put together here rather than block by block, and without the closing tags that HTML
lets out (13.1.2.4 of the standard), which halves the page.  Every text goes through
:func:`markupsafe.escape`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from urllib.parse import quote

from markupsafe import Markup, escape

from iotrial.report import words
from iotrial.report.blocks import Only, Ready, Section, Text
from iotrial.report.view import Number, TrialRow
from iotrial.units import format_seconds, format_value

_OPEN = 300
"""Trials up to which the table is unfolded."""


def section(rows: Sequence[TrialRow], terms: words.Terms, folder: str = "") -> Only:
    """``folder`` is the way from the page to the results folder ('': it lies there)."""
    prefix = f"{quote(folder.rstrip('/'))}/" if folder else ""
    note = (
        f"{terms.order} Each number links to the raw file it came from; the links work where this"
        " page lies in its results folder."
    )
    table = Ready(_table(rows, terms, prefix))
    return Only("html", Section(f"Every {terms.one}", (Text(note, "note"), table), "trials"))


def anchors(rows: Sequence[TrialRow]) -> Callable[[str], str]:
    """The place of a trial on the page, by the name of its folder."""
    numbers = {row.name: row.number for row in rows}
    return lambda name: f"t{numbers[name]}" if name in numbers else "trials"


def _table(rows: Sequence[TrialRow], terms: words.Terms, prefix: str) -> Markup:
    targets = len({row.target for row in rows}) > 1
    heads = [("no.", "n"), ("at", "n"), ("workload", ""), ("treatment", "")]
    heads += [("target", "")] if targets else []
    heads += [(terms.again, "n"), ("response", "n"), ("p99 latency", "n"), ("state", "")]
    heads += [("doubts", ""), ("files", "unsorted")]
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(
            Markup(' class="{}"').format(look) if look else "", name
        )
        for name, look in heads
    )
    lines = [_row(row, prefix, _cell(row.target) if targets else "") for row in rows]
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


def _row(row: TrialRow, prefix: str, target: str) -> str:
    again = f" (attempt {row.attempt})" if row.attempt > 1 else ""
    doubts = _cell(", ".join(row.doubts))
    where = f" on {escape(row.host)}" if row.host else ""
    base = "/".join([f"{prefix}trials/{row.folder}", *row.parts[:1]])
    files = f'<a href="{base}/command">command</a> <a href="{base}/stdout">stdout</a>'
    if len(row.parts) > 1:
        files = f'<a href="{prefix}trials/{row.folder}/">{len(row.parts)} loads</a>'
    if row.source:
        said = f"original, line {escape(row.line)}" if row.line else "original"
        files = f'<a href="{prefix}{row.source}">{said}</a>'
    return (
        f"<tr id=t{row.number} class={escape(row.state)}><td class=n>{row.number}"
        f"<td class=n data-s={row.seconds:.1f}>{format_seconds(row.seconds)}"
        f"{_cell(row.workload)}<td class=k>{escape(row.treatment)}{target}"
        f"<td class=n>{row.block}{where}{_linked(row.response, prefix)}{_linked(row.p99, prefix)}"
        f"<td>{escape(row.state)}{again}{doubts}"
        f"<td class=k>{files}\n"
    )


@functools.lru_cache(maxsize=1024)
def _cell(text: str) -> str:
    return f"<td>{escape(text)}"


def _linked(number: Number, prefix: str) -> str:
    if number.value is None:
        return "<td class=n data-s>–"
    said = escape(format_value(number.value, number.unit))
    shown = f'<a href="{prefix}{number.href}">{said}</a>' if number.href else said
    return f"<td class=n data-s={number.value:.6g}>{shown}"
