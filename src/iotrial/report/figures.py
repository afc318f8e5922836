"""The figures of a report as files: for slides, papers and pages of somebody else.

In a page each stands below its title and its caption; a file has both within the picture, on white.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from markupsafe import Markup

from iotrial.report import drawing
from iotrial.report.blocks import Figure
from iotrial.report.charts import pictures
from iotrial.report.view import ReportView

Kind = Literal["svg", "png"]
_SIZE = re.compile(r'<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)"')
_TITLE, _CAPTION, _NOTE = (15, 20, 8), (12, 16, 6.6), (11, 15, 6.2)
"""Of a text: its size, the height of a line, and the width of a character, in pixels."""
_EDGE = 12


def files(view: ReportView, kind: Kind) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each figure's file, in the order of the report."""
    used: Counter[str] = Counter()
    for workload, figure in _figures(view):
        name = "-".join(filter(None, (_plain(workload), figure.kind)))
        used[name] += 1
        end = f"-{used[name]}" if used[name] > 1 else ""
        said = f"{workload}: {figure.title}" if workload else figure.title
        drawn = alone(figure, said, pretended=view.pretended)
        content = drawn if kind == "svg" else drawing.png(drawn)
        yield f"{name}{end}.{kind}", content.encode() if isinstance(content, str) else content


def _figures(view: ReportView) -> Iterator[tuple[str, Figure]]:
    drawn = pictures(view)
    for part, figures in zip(view.parts, drawn.parts, strict=True):
        yield from ((part.workload, figure) for figure in figures)
    yield from (("", figure) for figure in (drawn.curve, *drawn.curves) if figure)


def _plain(name: str) -> str:
    """As much of a name as is fit for any file system."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60] or "figure"


def alone(figure: Figure, title: str, *, pretended: bool) -> str:
    """An SVG that needs nothing beside it: the figure below its title and its caption."""
    size = _SIZE.match(figure.svg)
    if size is None:
        raise ValueError(f"{figure.title!r} says no size")
    width, height = (float(part) for part in size.groups())
    texts = [(title, _TITLE, drawing.INK), (figure.caption, _CAPTION, drawing.MUTED)]
    if pretended:
        made_up = "Pretended: the numbers come from a simulated host."
        texts.append((made_up, _NOTE, drawing.WORSE))
    said, y = Markup(), float(_EDGE)
    for text, (points, line, letter), colour in texts:
        for part in textwrap.wrap(text, max(20, int(width / letter))):
            y += line
            said += Markup(
                '<text x="{x}" y="{y}" font-family="sans-serif" font-size="{points}"'
                ' fill="{colour}">{part}</text>'
            ).format(x=_EDGE, y=round(y, 1), points=points, colour=colour.light, part=part)
    whole = (width + 2 * _EDGE, height + y + 2 * _EDGE)
    place = Markup('<svg x="{x}" y="{y}" ').format(x=_EDGE, y=round(y + _EDGE, 1))
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        '<rect width="{w}" height="{h}" fill="{paper}"/>{said}{figure}</svg>\n'
    ).format(
        w=whole[0],
        h=round(whole[1], 1),
        paper=drawing.PAPER.light,
        said=said,
        figure=figure.svg.replace("<svg ", place, 1),
    )
