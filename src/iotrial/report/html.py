"""HTML: one self-contained page, for a mail, a phone, a printer and a machine without a network.

What all pages have is :mod:`iotrial.report.page`'s.  All text is escaped by Jinja; rows of the long
table by :func:`_cell`.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from urllib.parse import quote

from jinja2 import Template
from markupsafe import Markup, escape

import iotrial
from iotrial.judgement.parts import VerdictRow
from iotrial.report import (
    block_hosts,
    ceiling,
    effects,
    hosts,
    panels,
    races,
    scaling,
    staged,
    strains,
    words,
)
from iotrial.report.page import hashed, resource, sheet, templates
from iotrial.report.pictures import pictures
from iotrial.report.strip import Scale, scale
from iotrial.report.view import Number, Part, TrialRow, View
from iotrial.units import format_change, format_seconds, format_value

STRIP = 180  # pixels


def html(view: View, *, folder: str = "") -> str:
    """The whole page.

    ``folder`` is the way from where the page will lie to the results folder, as a relative path;
    empty when it lies in it.
    """
    style, script = sheet(), resource("sort.js")
    when = None if view.started is None else datetime.fromtimestamp(view.started, UTC)
    shown = pictures(view)
    return _template().render(
        view=view,
        answer=words.headline(view.answer.replace(" %", "\u00a0%")),
        figures=shown.parts,
        curve=shown.curve,
        curves=shown.curves,
        grids=panels.shown(view.panels),
        leads=panels.leads(view.panels, view.findings),
        forests=shown.forests,
        chartless=shown.note,
        rows=_rows(view, f"{quote(folder.rstrip('/'))}/" if folder else ""),
        anchor=functools.partial(_anchor, {row.name: row.number for row in view.trials}),
        recorded=view.terms is words.RUNS,
        several_targets=_several_targets(view),
        on=scale((f for f in view.findings if f.primary), view.margin, STRIP),
        has_findings=any(part.findings for part in view.parts),
        has_resolvable=any(races.could_tell(part).startswith("could") for part in view.parts),
        when=when and f"{when:%Y-%m-%d %H:%M} UTC",
        lasted=format_seconds(view.seconds),
        version=iotrial.__version__,
        style=style,
        style_hash=hashed(style),
        script=script,
        script_hash=hashed(script),
    )


@functools.cache
def _template() -> Template:
    """Compiled once: that costs a fifth of a second, and several pages may be written."""
    environment = templates()
    environment.globals.update(_WORDS)
    return environment.get_template("report.html.j2")


# -- words the template uses -----------------------------------------------------------------


def number(value: float | None, unit: str) -> str:
    return "–" if value is None else format_value(value, unit)


def _level(row: VerdictRow, view: View) -> str:
    several = len({finding.factor for finding in view.findings}) > 1
    return f"{row.finding.factor}={row.finding.level}" if several else row.finding.level


def _averaged(part: Part, view: View) -> str:
    factors = [row.finding.factor for row in part.findings]
    return panels.averaged(view.panels, part.workload, factors)


def _baselines(part: Part) -> str:
    return words.baselines([row.finding for row in part.findings])


def verdict_strip(row: VerdictRow, on: Scale, margin: float) -> Markup:
    """The interval beside its numbers, drawn with the sheet's colours; all strips on one scale."""
    finding = row.finding
    ends = [finding.ratio if end is None else end for end in (finding.low, finding.high)]
    left, right, low, high, none, at = (
        round(6 + on.place(ratio) * (on.width - 12), 1)
        for ratio in (1 - margin, 1 + margin, *ends, 1.0, finding.ratio)
    )
    return Markup(
        '<svg class="strip {v}" width="{w}" height="18" viewBox="0 0 {w} 18" aria-hidden="true">'
        '<rect class="band" x="{l}" width="{b}" height="18"/>'
        '<path class="none" d="M{n} 0V18"/><path class="line" d="M{a} 9H{z}"/>'
        '<circle cx="{m}" cy="9" r="4.5"/></svg>'
    ).format(
        v=finding.verdict, w=on.width, l=left, b=round(right - left, 1), n=none, a=low, z=high, m=at
    )


_WORDS = {
    "averaged": _averaged,
    "baselines": _baselines,
    "block_hosts": block_hosts,
    "change": words.change,
    "count": words.count,
    "direction": words.direction,
    "effects": effects,
    "guard": words.guard,
    "hosts": hosts,
    "interval": words.interval,
    "latency_heads": words.latency_heads,
    "latency_row": words.latency_row,
    "merged_words": words.MERGED,
    "level": _level,
    "number": number,
    "panels": panels,
    "could_tell": races.could_tell,
    "races": races,
    "needs": words.needs,
    "plain_change": format_change,
    "pretended_words": words.PRETENDED,
    "share": words.share,
    "scaling": scaling,
    "staged": staged,
    "strains": strains,
    "ceiling": ceiling,
    "some": words.some,
    "strip": verdict_strip,
    "trials_done": words.done,
    "verdicts": words.VERDICTS,
}


# -- the long table --------------------------------------------------------------------------
# Ten thousand rows: put together here rather than in the template, and without the closing tags
# that HTML lets out (13.1.2.4 of the standard), which halves the page.


def _several_targets(view: View) -> bool:
    return len({row.target for row in view.trials}) > 1


def _anchor(numbers: dict[str, int], name: str) -> str:
    return f"t{numbers[name]}" if name in numbers else "trials"


def _rows(view: View, prefix: str) -> Markup:
    targets = _several_targets(view)
    lines = [_row(row, prefix, _cell(row.target) if targets else "") for row in view.trials]
    return Markup("".join(lines))  # noqa: S704 -- every text went through _cell


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
