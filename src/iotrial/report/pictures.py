"""Pictures: all charts of a page, where the extra ``charts`` is there; where not, text for them."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.called import called
from iotrial.extras import advice, missing
from iotrial.report import panels
from iotrial.report.blocks import Figure
from iotrial.report.strip import ruler, scale, strip
from iotrial.report.view import Part, View

_CELLS = 48


@dataclass(frozen=True, slots=True)
class Pictures:
    """``parts`` are the figures of each part, ``curve`` is that of a ceiling,
    ``curves`` those of the grids that are shown.  Without charts
    ``forests`` has the intervals of each part as lines of text, and ``note`` says how to get
    charts."""

    parts: tuple[tuple[Figure, ...], ...]
    curve: Figure | None = None
    curves: tuple[Figure, ...] = ()
    forests: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def pictures(view: View) -> Pictures:
    """What the page shows beside its tables."""
    lacking = missing("charts")
    if lacking:
        return Pictures(
            parts=tuple(() for _ in view.parts),
            forests=tuple(_forest(part, view) for part in view.parts),
            note=f"Intervals are drawn as text: charts need {' and '.join(lacking)}"
            f" ({advice('charts')}). Then: {called()} report FOLDER",
        )
    # They import Altair and the drawing engine.
    from iotrial.report import charts  # noqa: PLC0415
    from iotrial.report.ceiling_chart import curve_figure  # noqa: PLC0415
    from iotrial.report.effect_charts import effect_figures  # noqa: PLC0415
    from iotrial.report.knee_charts import knee_figures  # noqa: PLC0415
    from iotrial.report.panel_charts import panel_figure  # noqa: PLC0415
    from iotrial.report.race_charts import race_figures  # noqa: PLC0415

    figures = tuple(
        (
            *race_figures(part, view.margin, f"r{place}"),
            *knee_figures(part, view.margin, f"k{place}"),
            *charts.figures(part, view.margin, f"c{place}"),
            *effect_figures(part, view.margin, f"e{place}"),
        )
        for place, part in enumerate(view.parts)
    )
    curves = tuple(
        panel_figure(panel, f"g{place}") for place, panel in enumerate(panels.shown(view.panels))
    )
    curve = curve_figure(view.ceiling, "curve") if view.ceiling else None
    return Pictures(figures, curve, curves)


def _forest(part: Part, view: View) -> tuple[str, ...]:
    """A line for each level, all parts on one scale; the first line is the scale."""
    if not part.findings:
        return ()
    on = scale((each for each in view.findings if each.primary), view.margin, _CELLS)
    several = len({row.finding.factor for row in part.findings}) > 1
    names = [
        f"{row.finding.factor}={row.finding.level}" if several else row.finding.level
        for row in part.findings
    ]
    width = max(map(len, names))
    drawn = [strip(row.finding, on) for row in part.findings]
    lines = [(f"{name:<{width}}", line) for name, line in zip(names, drawn, strict=True)]
    return tuple(f"{name}  {line}".rstrip() for name, line in [(" " * width, ruler(on)), *lines])
