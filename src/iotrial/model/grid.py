"""Grid: what a metric came to where two numeric factors are crossed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iotrial.model.trial import Treatment

Place = tuple[str, str]
"""The labels of a cell: of the factor down, and of the one across."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """``value`` is the geometric mean of ``n`` runs in the metric's base unit, ``low`` and
    ``high`` the smallest and the largest of them.  ``bound`` says on which side of the value the
    truth lies, where a run's was censored."""

    value: float
    n: int
    low: float
    high: float
    bound: Literal["", "high", "low"] = ""


@dataclass(frozen=True, slots=True)
class Additivity:
    """Whether the two factors act independently: whether the logarithms of the cells are a sum of
    one effect of each.

    ``test`` is Tukey's, where no cell has repeats, else that of the two-way interaction (empty:
    too few cells for either); ``p`` its p-value.  ``off`` is how far the cell that fits worst lies
    from such a sum, as a ratio of at least 1.  ``depends``: they do not act independently, beyond
    chance and by more than the margin.
    """

    test: Literal["", "Tukey", "interaction"]
    p: float | None
    off: float
    depends: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """One workload and metric at the levels ``fixed`` of the other factors: ``rows`` are the
    labels of the factor ``down``, ``columns`` those of ``across``, both ascending; a place without
    a cell was not run.

    ``best`` is the best cell that is no bound (None: nobody knows which way is better), ``near``
    the one of those about as good that asks for least: whose amounts have the smallest product.
    """

    workload: str
    metric: str
    fixed: Treatment
    down: str
    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[Place, GridCell]
    best: Place | None
    near: Place | None
    additivity: Additivity
