"""The linear model of a randomised block design: log response = block + cell + error.

A block is one round in which every treatment is tried once; a cell is a treatment.  Drift between
blocks cancels, because treatments are compared within blocks only.  Cells may be missing (failed
trials, a study cut by its budget): the intra-block analysis by least squares needs no balance.
The error is one variance for all cells, pooled within blocks.

References:
    R. C. Bose (1950), *Least Squares Aspects of Analysis of Variance*, Institute of Statistics
    Mimeo Series 9 (intra-block normal equations, connectedness).
    J. A. John and E. R. Williams (1995), *Cyclic and Computer Generated Designs*, 2nd ed.,
    chapter 1 (reduced normal equations, the information matrix and its generalised inverse).
    W. G. Cochran and G. M. Cox (1957), *Experimental Designs*, 2nd ed., 4.2 (randomised blocks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

ARITHMETIC = 1e-12
"""Logarithms of measured rates carry about 15 digits: no standard error is believed to be below
this, so that rounding never passes for a difference."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which block and which cell each observation is in: two index vectors of equal length.

    Indices count from 0 without gaps; no cell occurs twice in a block.
    """

    block: Indices
    cell: Indices

    @property
    def incidence(self) -> Floats:
        """Blocks x cells: 1 where the cell was observed in the block."""
        counts = np.zeros((self.block.max(initial=-1) + 1, self.cell.max(initial=-1) + 1))
        counts[self.block, self.cell] = 1.0
        return counts


@dataclass(frozen=True, slots=True)
class Fit:
    """Contrasts of cell effects on the log scale, for one study or for many of one layout.

    ``estimate`` has shape (contrasts,) or (contrasts, studies); ``sd``, the standard deviation of
    one trial, is a number or (studies,).  ``unit`` is the contrasts' covariance for an error
    variance of 1.  ``df`` are the residual degrees of freedom; with 0 of them ``sd`` is nan.
    """

    estimate: Floats
    unit: Floats
    sd: Floats
    df: int

    @property
    def correlation(self) -> Floats:
        """Of the contrasts with one another: (contrasts, contrasts)."""
        scale = np.sqrt(np.diag(self.unit))
        return np.asarray(self.unit / np.outer(scale, scale))

    @property
    def standard_error(self) -> Floats:
        """Same shape as ``estimate``."""
        scale = np.sqrt(np.diag(self.unit))
        error = np.multiply.outer(scale, self.sd)
        return np.asarray(np.maximum(error, ARITHMETIC))

    def interval(self, critical: float) -> tuple[Floats, Floats]:
        """Ends of the intervals of the ratios, for a critical value of |t|; needs ``df`` > 0."""
        half = critical * self.standard_error
        return ratio(self.estimate - half), ratio(self.estimate + half)


def ratio(logs: Floats) -> Floats:
    """exp, kept finite: one degree of freedom can ask for an interval no double can hold."""
    return np.asarray(np.exp(np.clip(logs, -700.0, 700.0)))


def fit(layout: Layout, logs: Floats, contrasts: Floats) -> Fit:
    """Least squares of ``logs`` (observations,) or (observations, studies) on block + cell.

    ``contrasts`` is (contrasts, cells), rows summing to 0 over cells that blocks connect (two
    cells seen in one block always are).
    """
    incidence = layout.incidence
    sizes = incidence.sum(axis=1)
    by_block = _totals(layout.block, len(sizes))
    by_cell = _totals(layout.cell, incidence.shape[1])
    means = ((by_block @ logs).T / sizes).T
    information = np.diag(incidence.sum(axis=0)) - incidence.T @ (incidence.T / sizes).T
    anchored, parts = _anchored(information)
    effects = solve(anchored, by_cell @ logs - incidence.T @ means, assume_a="pos")
    unit = contrasts @ solve(anchored, contrasts.T, assume_a="pos")
    expected = means - ((incidence @ effects).T / sizes).T
    residuals = logs - expected[layout.block] - effects[layout.cell]
    df = len(logs) - len(sizes) - incidence.shape[1] + parts
    sd = np.sqrt((residuals**2).sum(axis=0) / df) if df else np.full(logs.shape[1:], np.nan)
    return Fit(contrasts @ effects, unit, np.asarray(sd), df)


def _totals(index: Indices, count: int) -> csr_array:
    """A matrix that adds up observations by ``index``."""
    ones = np.ones(len(index))
    return csr_array((ones, (index, np.arange(len(index)))), shape=(count, len(index)))


def _anchored(information: Floats) -> tuple[Floats, int]:
    """The information matrix made invertible, and into how many parts the blocks fall.

    Effects are known up to a constant in each connected part.  Adding the part's all-ones matrix
    fixes that constant and leaves every contrast within the part as it is (John and Williams,
    section 1.6).
    """
    parts, label = connected_components(np.abs(information) > ARITHMETIC)
    same = label[:, None] == label[None, :]
    return information + same / same.sum(axis=0), int(parts)
