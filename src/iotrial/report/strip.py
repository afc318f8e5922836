"""Strip: an interval drawn with characters, on a scale that its neighbours share.

::

    ├──●──┤    │        the interval lies below the baseline
          ├─●──┼─┤      it holds the baseline: nothing can be told
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotrial.model.finding import Finding
from iotrial.report.words import bare

_ROOM = 3.0
"""An interval that is wider than this many times the spread of the ratios is cut: ``<`` ``>``."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Ratios from ``low`` to ``high`` (both ends included, 1 between them) on ``width`` cells."""

    low: float
    high: float
    width: int

    def place(self, ratio: float) -> float:
        """From 0 at ``low`` to 1 at ``high``."""
        return (ratio - self.low) / (self.high - self.low)

    def cell(self, ratio: float) -> int:
        return min(self.width - 1, max(0, round(self.place(ratio) * (self.width - 1))))


def scale(findings: Iterable[Finding], margin: float, width: int) -> Scale:
    """One scale that holds every ratio, the baseline and the margin around it, and of every
    interval as much as leaves the others readable."""
    middles, ends = [1 - margin, 1 + margin], []
    for finding in findings:
        if math.isfinite(finding.ratio):
            middles.append(finding.ratio)
        ends += [end for end in (finding.low, finding.high) if end is not None]
    least, most = min(middles), max(middles)
    room = _ROOM * (most - least)
    low = min([least, *(max(end, least - room) for end in ends)])
    high = max([most, *(min(end, most + room) for end in ends)])
    return Scale(low, high if high > low else low + 0.02, width)


def strip(finding: Finding, on: Scale) -> str:
    """``finding`` on the scale ``on``: exactly ``on.width`` characters."""
    cells = [" "] * on.width
    zero = on.cell(1.0)
    cells[zero] = "│"
    if finding.low is not None and finding.high is not None:
        first, last = on.cell(finding.low), on.cell(finding.high)
        cells[first : last + 1] = ["─"] * (last + 1 - first)
        if first < zero < last:
            cells[zero] = "┼"
        cells[first] = "├" if finding.low >= on.low else "<"
        cells[last] = "┤" if finding.high <= on.high else ">"
    if math.isfinite(finding.ratio):
        cells[on.cell(finding.ratio)] = {"": "●", "high": ">", "low": "<"}[finding.bound]
    return "".join(cells)


def ruler(on: Scale) -> str:
    """The scale's ends in %, with 0 above the baseline where there is room for it."""
    left, right = bare(on.low), f"{bare(on.high)} %"
    cells = list(left + " " * max(1, on.width - len(left) - len(right)) + right)[: on.width]
    return "".join(_marked(cells, on.cell(1.0), len(left), on.width - len(right)))


def _marked(cells: Sequence[str], zero: int, left: int, right: int) -> list[str]:
    marked = list(cells)
    if left < zero < right - 1 and zero < len(marked):
        marked[zero] = "0"
    return marked
