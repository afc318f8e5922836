"""Whole plots: factors that are costly to change, and the error their effects are judged by.

A hard factor is changed least often: within a block all treatments with one of its levels follow
one another and form a *whole plot*.  What changes from one setting-up to the next (the array is
made anew, the firmware flashed) is shared by all trials of a whole plot, so they are no
replicates of the hard factor.  There are two errors: between whole plots of a block, and between
trials of a whole plot.  A contrast is judged in the stratum it lives in:

- ``within``: its weights sum to 0 in each whole plot (easy factors, and their interactions with
  hard ones); the error is that within whole plots;
- ``whole``: its weights are equal within each whole plot (hard factors and interactions of these);
  it is one of the whole plots' means, with the residual block × whole plot as error;
- ``blocks``: both at once; the contrast is taken in each block by itself, with Student's t over the
  blocks.  That needs nothing but independent blocks, and has the fewest degrees of freedom.

References:
    B. Jones and C. J. Nachtsheim (2009), Split-plot designs: what, why, and how, Journal of
    Quality Technology 41, 340-361.
    F. Yates (1935), Complex experiments, JRSS Suppl. 2, 181-247 (two errors, two strata).
    W. G. Cochran and G. M. Cox (1957), *Experimental Designs*, 2nd ed., 7.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from iotrial.model.study import Study
from iotrial.model.trial import Treatment
from iotrial.stats.blocks import Fit, Floats, Indices, Layout, fit

Stratum = Literal["", "within", "whole", "blocks"]
"""Empty: there are no whole plots, and one error."""
ROUNDING = 1e-9


def whole_plots(study: Study, cells: Sequence[Treatment]) -> tuple[int, ...]:
    """Which whole plot of a block each cell is in, counted from 0; empty where no factor is hard
    or only one of its levels is there."""
    hard = {factor.name for factor in study.factors if factor.hard}
    parts = [tuple(pair for pair in cell if pair[0] in hard) for cell in cells]
    places = {part: number for number, part in enumerate(dict.fromkeys(parts))}
    return tuple(places[part] for part in parts) if len(places) > 1 else ()


def stratum(row: Floats, plots: Sequence[int]) -> Stratum:
    """In which stratum the contrast with the weights ``row`` (cells,) lives."""
    if not plots:
        return ""
    groups = [row[np.asarray(plots) == plot] for plot in dict.fromkeys(plots)]
    if all(abs(group.sum()) < ROUNDING for group in groups):
        return "within"
    if all(np.ptp(group) < ROUNDING for group in groups):
        return "whole"
    return "blocks"


def fit_in(where: Stratum, layout: Layout, logs: Floats, rows: Floats, plots: Sequence[int]) -> Fit:
    """:func:`iotrial.stats.blocks.fit` in one stratum: same arguments, same result."""
    if where == "within":
        return fit(Layout(_within(layout, plots), layout.cell), logs, rows)
    if where == "whole":
        return _fit_whole(layout, logs, rows, plots)
    if where == "blocks":
        return _fit_blocks(layout, logs, rows)
    return fit(layout, logs, rows)


def _within(layout: Layout, plots: Sequence[int]) -> Indices:
    """The whole plot of each observation, as if it were its block."""
    own = np.asarray(plots, dtype=np.intp)[layout.cell]
    keys = layout.block * (own.max(initial=0) + 1) + own
    _, numbered = np.unique(keys, return_inverse=True)
    return np.asarray(numbered, dtype=np.intp)


def _fit_whole(layout: Layout, logs: Floats, rows: Floats, plots: Sequence[int]) -> Fit:
    """The means of whole plots, each adjusted for the cells it lacks."""
    within = _within(layout, plots)
    own = np.asarray(plots, dtype=np.intp)
    same = (own[:, None] == own[None, :]).astype(np.float64)
    inner = Layout(within, layout.cell)
    deviation = fit(inner, logs, np.eye(len(own)) - same / same.sum(axis=0)).estimate
    level = logs - deviation[layout.cell]
    counts = np.bincount(within)
    sums = np.zeros((len(counts), *np.shape(logs)[1:]))
    np.add.at(sums, within, level)
    means = (sums.T / counts).T
    _, first = np.unique(within, return_index=True)
    outer = Layout(layout.block[first], own[layout.cell[first]])
    together = np.zeros((len(rows), own.max() + 1))
    np.add.at(together.T, own, rows.T)
    return fit(outer, means, together)


def _fit_blocks(layout: Layout, logs: Floats, rows: Floats) -> Fit:
    """One contrast, taken in every block that has all its cells."""
    row = rows[0]
    needed = np.abs(row) > ROUNDING
    whole = np.flatnonzero((layout.incidence[:, needed] > 0).all(axis=1))
    values = np.zeros((len(layout.incidence), *np.shape(logs)[1:]))
    np.add.at(values, layout.block, (row[layout.cell] * logs.T).T)
    values = values[whole]
    df = max(len(whole) - 1, 0)
    length = float(row @ row)
    mean = values.mean(axis=0) if len(whole) else np.full(np.shape(logs)[1:], np.nan)
    spread = ((values - mean) ** 2).sum(axis=0)
    sd = np.sqrt(spread / df / length) if df else np.full(np.shape(logs)[1:], np.nan)
    unit = np.array([[length / max(len(whole), 1)]])
    return Fit(np.asarray(mean)[None, ...], unit, np.asarray(sd), df)
