"""How charts are drawn: their colours, their common parts, and SVG of them.

A chart is a Vega-Lite document, made here of plain dicts; vl-convert draws it, without a browser
and without a network.

One SVG serves white paper and a dark screen.  It is drawn in the light colours, each with one
meaning only, so that a style sheet can exchange them by attribute (``svg [fill="#0b63a5"] {fill:
…}``); without the style sheet, and on paper, it stays right.  Levels differ in shape as well as
in colour.

vl-convert is the extra ``charts``: sections of a report that are drawn too are read without it
(:class:`~iotrial.extras.LazyModule`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from iotrial.extras import LazyModule

if TYPE_CHECKING:
    import vl_convert
else:
    vl_convert = LazyModule("vl_convert")

Spec = dict[str, Any]
"""A Vega-Lite document."""
Row = Mapping[str, object]
"""What a mark is drawn from: fields by name."""
NARROW, WIDE = 440, 900
"""Pixels: beside each other on a desk, the narrow ones as they are on a phone."""
_FEW_DECADES = 1e4


# -- colours --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Colour:
    """``light`` on a white ground and ``dark`` on a near-black one, as ``#rrggbb``."""

    light: str
    dark: str


INK = Colour("#1b2027", "#e6e9ed")
MUTED = Colour("#5a6472", "#a3acb8")
LINE = Colour("#c9ced6", "#454d58")
GRID = Colour("#e8ebef", "#2b313a")
BAND = Colour("#dfe6ee", "#2c3846")
PAPER = Colour("#ffffff", "#14181d")

BETTER = Colour("#0a6b8f", "#56b9e0")
WORSE = Colour("#b8460b", "#ff9a57")
SAME = Colour("#4b5563", "#c2c9d2")
UNSURE = Colour("#7a6f9b", "#b9addf")

BASELINE = Colour("#3f4854", "#d5dae0")
SERIES = (
    Colour("#0b63a5", "#5aaef0"),
    Colour("#d1570a", "#ff9250"),
    Colour("#0b8a68", "#3ccba0"),
    Colour("#a8478f", "#e691cf"),
    Colour("#8f7200", "#e3c34d"),
    Colour("#1995ad", "#72d5ea"),
    Colour("#7a4a2a", "#d7a27f"),
)
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right",
    "triangle-left",
)  # fmt: skip

CHART_COLOURS = (
    INK, MUTED, LINE, GRID, BAND, PAPER, BETTER, WORSE, SAME, UNSURE, BASELINE, *SERIES,
)  # fmt: skip


def of_group(place: int) -> tuple[Colour, str]:
    """Colour and shape of the group at ``place``; the first is the baseline's.  They repeat
    beyond the eighth."""
    colours = (BASELINE, *SERIES)
    return colours[place % len(colours)], SHAPES[place % len(SHAPES)]


def dark(below: str) -> str:
    """A style sheet that exchanges, on a dark screen, every colour of what is ``below`` a
    selector."""
    swaps = "\n".join(
        f'{below} [{what}="{colour.light}"] {{ {what}: {colour.dark}; }}'
        for colour in CHART_COLOURS
        for what in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{swaps}\n}}\n"


# -- parts of charts ------------------------------------------------------------------------------

TWO_LINES: Spec = {
    "title": None, "labelExpr": "slice(split(datum.label,'\\n'),1)", "labelLineHeight": 16,
}  # fmt: skip
"""The axis of labels that are "place, name, number": all but the place is shown, on two lines."""
SIGNS = "datum.value == 0 ? '0' : format(datum.value, '+~g')"
"""How an axis of changes is labelled."""
SECONDS = (
    "datum.value >= 1 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 1e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "format(datum.value * 1e6, '~r') + ' µs'"
)
"""How an axis of seconds is labelled."""


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade from ``low`` to ``high``; only 1 where that makes too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < _FEW_DECADES else (1,)
    ticks = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}


def channel(field: str, **more: object) -> Spec:
    """What a channel of a mark shows: ``v:Q`` is field ``v``, a quantity (``N``: a name, ``O``: a
    place in an order, without: as the channel that it ends).  ``more``: its ``axis``, ``scale``,
    ``legend``, ``sort``."""
    name, _, kind = field.partition(":")
    return {"field": name, **({"type": _TYPES[kind]} if kind else {}), **more}


def mark(kind: str, data: str, looks: Spec, only: str = "", /, **channels: Spec) -> Spec:
    """A layer: a mark for each row of ``data`` ("": of the whole chart's) for which the expression
    ``only`` holds."""
    return {
        **({"data": {"name": data}} if data else {}),
        **({"transform": [{"filter": only}]} if only else {}),
        "mark": {"type": kind, **looks},
        "encoding": channels,
    }


def by_group(groups: Sequence[str], width: int, first: int = 0) -> tuple[Spec, Spec]:
    """Colour and shape of field ``g`` by group, with a legend on a chart ``width`` pixels wide; the
    first group looks as that at ``first`` does."""
    looks = [of_group(first + place) for place in range(len(groups))]
    columns = _columns(groups, width)
    legend = {"title": None, "orient": "top", "columns": columns, "symbolOpacity": 1}
    return coloured("g", groups, looks, legend)


def coloured(
    field: str, names: Sequence[str], looks: Sequence[tuple[Colour, str]], legend: Spec | None
) -> tuple[Spec, Spec]:
    """The channels colour and shape of a field that is one of ``names``."""
    ranges = [colour.light for colour, _ in looks], [shape for _, shape in looks]
    color, shape = (
        channel(f"{field}:N", legend=legend, scale={"domain": list(names), "range": those})
        for those in ranges
    )
    return color, shape


def _columns(names: Sequence[str], width: int) -> int:
    """As many as fit, by the average character's width; all on one line where they do."""
    widths = [min(220, 7 * len(name)) + 14 + _APART for name in names]
    return len(names) if sum(widths) <= width else max(1, width // max(widths))


_APART = 36
"""Pixels between the columns of a legend: a browser's font may be wider than it was drawn."""
_TEXT = {
    "labelColor": MUTED.light, "titleColor": MUTED.light,
    "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 220,
}  # fmt: skip
_CONFIG = {
    "aria": False,
    "font": "sans-serif",
    "background": "transparent",
    "view": {"stroke": "transparent"},
    "axis": {
        **_TEXT, "gridColor": GRID.light, "domainColor": LINE.light, "tickColor": LINE.light,
    },
    "axisX": {"labelSeparation": 6},
    "axisY": {"labelColor": INK.light},
    "legend": {**_TEXT, "labelColor": INK.light, "symbolSize": 80, "columnPadding": _APART},
}  # fmt: skip


def document(layers: Sequence[Spec], width: int, height: int, data: Spec) -> Spec:
    """The Vega-Lite document of ``layers``, the first behind all; ``data``: rows by name."""
    return {
        "width": width,
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": 4,
        "layer": list(layers),
        "config": _CONFIG,
        "datasets": data,
    }


def faceted(  # noqa: PLR0913
    layers: Sequence[Spec], width: float, height: int, rows: Sequence[Row], *, facet: Spec,
    resolve: Spec, **more: object,
) -> Spec:  # fmt: skip
    """The same of small multiples, each of this size, by ``facet``; ``resolve`` says what each has
    of its own."""
    return {
        "padding": 4,
        "data": {"name": "rows"},
        "facet": facet,
        "spec": {"layer": list(layers), "width": width, "height": height},
        "resolve": resolve,
        "config": _CONFIG,
        "datasets": {"rows": rows},
        **more,
    }


def margin_rows(margin: float) -> list[Row]:
    """What :func:`margin_layers` are drawn from."""
    return [{"low": -margin * 100, "none": 0, "high": margin * 100}]


def margin_layers() -> tuple[Spec, Spec]:
    """Behind changes in % to the right: the margin as a band, and no change as a line."""
    band = {"color": BAND.light, "opacity": 1}
    return (
        mark("rect", "margin", band, x=channel("low:Q"), x2=channel("high")),
        mark("rule", "margin", {"color": MUTED.light}, x=channel("none:Q")),
    )


# -- SVG ------------------------------------------------------------------------------------------


_TAG = re.compile(r"<[a-z][^>]*>")
_ARIA = re.compile(r' (?:role|aria-[a-z]+|class|pointer-events|display|xmlns:xlink)="[^"]*"')
_LONG = re.compile(r"(\.\d\d)\d+")
_OPEN = re.compile(r"<svg[^>]*?(width=\"[^\"]*\" height=\"[^\"]*\" viewBox=\"[^\"]*\")[^>]*>")


def svg(spec: Spec, title: str, words: str, ident: str) -> Markup:
    """``spec`` drawn, with ``title`` and ``words`` as its text alternative.

    vl-convert escapes what it is given to write; title and words are escaped here.
    """
    drawn = vl_convert.vegalite_to_svg(json.dumps(spec), allowed_base_urls=[])
    body = _TAG.sub(lambda tag: _LONG.sub(r"\1", _ARIA.sub("", tag[0])), drawn)
    size = _OPEN.match(body)
    if size is None:
        raise ValueError(f"vl-convert drew no SVG for {title!r}: {drawn[:80]!r}")
    opened = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        'aria-labelledby="{i}-t {i}-d" {size}><title id="{i}-t">{t}</title>'
        '<desc id="{i}-d">{d}</desc>'
    ).format(i=ident, size=Markup(size[1]), t=title, d=words)  # noqa: S704 -- three numbers
    return opened + Markup(body[size.end() :])  # noqa: S704 -- made by vl-convert, escaped there


_SHARPER = 2.0
"""Points of a PNG to a pixel."""


def png(svg: str) -> bytes:
    """An SVG as points."""
    return bytes(vl_convert.svg_to_png(svg, scale=_SHARPER))
