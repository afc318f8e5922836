"""Grids: recorded runs of two numeric factors that are crossed, often each cell once.

Two factors whose levels are amounts are *crossed* where each is run at several levels of the
other; every combination of the other factors is a grid of its own.  Where the effect of one
depends on the level of the other, an average over that one is the effect nowhere: what is left to
say is the grid itself and its best cell.  That describes these runs and claims nothing: each cell
may be one run, and the best of many is best by luck too.  So no sentence here says *better*.

Whether the effects depend on each other is tested on the logarithms, on which factors that
multiply add up.  Without repeats there is no pure error to test an interaction against; Tukey's one
degree of freedom is for that: what is left of the sum of both effects is regressed on their
product, which also fits a grid with holes (Milliken and Graybill).  With repeats in several
sessions it is the two-way interaction against the spread within cells; repeats of one session say
how steady a moment was, and nothing of how far cells are apart.  All tests of a study share the
level :data:`LEVEL` (Bonferroni), and a cell must be off by more than the margin: a difference that
nobody minds is none.

References:
    J. W. Tukey, Biometrics 5 (1949) 232-242 (one degree of freedom for non-additivity).
    G. A. Milliken and F. A. Graybill, JASA 65 (1970) 797-807 (the same in any linear model).
    H. Scheffé (1959), *The Analysis of Variance*, chapter 4 (two-way layouts).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import fdtrc

from iotrial.model.finding import Additivity, CellPlace, Grid, GridCell
from iotrial.model.measurement import METRICS, split
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import UNKNOWN, Treatment, treatment_text
from iotrial.stats.blocks import ARITHMETIC, Floats
from iotrial.stats.pairs import CellTable, RunCell, primary_tables, sessions
from iotrial.units import amount, format_value

LEVEL = 0.01
"""The share of studies whose factors all act independently that are told otherwise."""
NEAR = 0.05
"""A cell within so much of the best is about as good."""
PARALLEL = ("threads", "numjobs", "processes", "procs", "iodepth", "jobs", "concurrency", "depth")
"""Words of factors that say how much is asked for at once."""
LINES = 8
"""Levels across that are still told apart as the lines of a chart."""
_CURVE = 3
"""Levels from which a factor shows more than two ends."""
_FILLED = 0.5
"""The share of places that must have been run: of fewer, nobody would speak of a grid."""
_REPEATED = 3
"""Degrees of freedom within cells from which their spread is an error to test against."""

Cells = Mapping[CellPlace, RunCell]


def grids(results: Results) -> tuple[Grid, ...]:
    """Every grid of each workload's metrics that answer, in the study's order."""
    found = [
        each
        for table in primary_tables(results, sessions(results.valid))
        for each in _of_table(results.study, table)
    ]
    tested = sum(grid.additivity.p is not None for grid in found)
    off = math.log1p(results.study.decide.margin)
    return tuple(_judged(grid, LEVEL / max(tested, 1), off) for grid in found)


def not_additive(found: Iterable[Grid]) -> frozenset[str]:
    """The factors whose effect depends on another, in half of their grids or more."""
    told: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for grid in found:
        told[grid.down, grid.across].append(grid.additivity.depends)
    return frozenset(
        name for axes, depends in told.items() if 2 * sum(depends) >= len(depends) for name in axes
    )


def additivity(cells: Cells) -> Additivity:
    """Of the cells of one grid, two rows and two columns or more; nothing is judged yet."""
    every = [cell.by_session for cell in cells.values()]
    logs = np.array([float(each.mean()) for each in every])
    counts = np.array([len(each) for each in every], dtype=np.float64)
    within = math.fsum(float(each.var()) * len(each) for each in every)
    df_within = float(counts.sum()) - len(cells)
    repeated = df_within >= _REPEATED and within > ARITHMETIC
    design, names = _design(list(cells))
    weights = np.sqrt(counts) if repeated else np.ones(len(cells))
    fitted, *_ = np.linalg.lstsq(design * weights[:, None], logs * weights)
    rank = int(np.linalg.matrix_rank(design))
    left = logs - design @ fitted
    off = math.exp(float(np.abs(left).max()))
    if repeated:
        df = len(cells) - rank
        if not df:
            return Additivity("", None, off, depends=False)
        ratio = float(counts @ left**2) / df / (within / df_within)
        return Additivity("interaction", float(fdtrc(df, df_within, ratio)), off, depends=False)
    df_left = len(cells) - rank - 1
    if df_left < 1:
        return Additivity("", None, off, depends=False)
    p = _tukey(design, left, _product(list(cells), names, fitted), df_left)
    return Additivity("Tukey", p, off, depends=False)


def _tukey(design: Floats, left: Floats, product: Floats, df: int) -> float:
    """The p-value of the regression of what is ``left`` on the product of the effects."""
    whole = float(left @ left)
    own, *_ = np.linalg.lstsq(design, product)
    beside = product - design @ own
    size = float(beside @ beside)
    if whole <= ARITHMETIC or size <= ARITHMETIC:
        return 1.0
    explained = float(beside @ left) ** 2 / size
    rest = whole - explained
    if rest <= ARITHMETIC * whole:
        return 0.0
    return float(fdtrc(1, df, explained / (rest / df)))


def _design(places: Sequence[CellPlace]) -> tuple[Floats, list[tuple[int, str]]]:
    """A column for the mean, and one for each label but the first of each factor."""
    names = [
        (side, label)
        for side in (0, 1)
        for label in list(dict.fromkeys(place[side] for place in places))[1:]
    ]
    columns = [[1.0] * len(places)]
    columns += [[float(place[side] == label) for place in places] for side, label in names]
    return np.array(columns).T, names


def _product(places: Sequence[CellPlace], names: list[tuple[int, str]], fitted: Floats) -> Floats:
    """Of each cell: the effect of its row, times that of its column."""
    effects = {name: float(value) for name, value in zip(names, fitted[1:], strict=True)}
    sides = [
        np.array([effects.get((side, place[side]), 0.0) for place in places]) for side in (0, 1)
    ]
    down, across = (side - side.mean() for side in sides)
    return np.asarray(down * across)


def _judged(grid: Grid, level: float, off: float) -> Grid:
    found = grid.additivity
    depends = found.p is not None and found.p < level and math.log(found.off) > off
    return replace(grid, additivity=replace(found, depends=depends))


# -- which factors, which cells --------------------------------------------------------------


def _of_table(study: Study, table: CellTable) -> list[Grid]:
    """The grids of the first two factors that have any."""
    treatments = {key: dict(key[1]) for key in table.cells}
    rank = _rank(study)
    for axes in _axes(study, list(treatments.values())):
        down, across = axes
        parts: dict[Treatment, dict[CellPlace, RunCell]] = defaultdict(dict)
        for key, cell in table.cells.items():
            place = treatments[key].get(down, UNKNOWN), treatments[key].get(across, UNKNOWN)
            if UNKNOWN not in place:
                fixed = tuple(part for part in key[1] if part[0] not in axes)
                parts[fixed][place] = cell
        order = sorted(parts, key=lambda fixed: [rank(part) for part in fixed])
        if found := [
            _grid(table, fixed, axes, parts[fixed]) for fixed in order if _is_grid(parts[fixed])
        ]:
            return found
    return []


def _is_grid(cells: Cells) -> bool:
    rows, columns = ({place[side] for place in cells} for side in (0, 1))
    places = len(rows) * len(columns)
    return min(len(rows), len(columns)) > 1 and len(cells) >= max(4, _FILLED * places)


def _axes(study: Study, treatments: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """The factors down and across, of those whose levels are amounts: first what has more than two,
    and says how much is asked for at once; then the others in the study's order."""
    labels: dict[str, set[str]] = {}
    for factor in study.factors:
        told = {each[factor.name] for each in treatments if factor.name in each} - {UNKNOWN}
        if len(told) > 1 and all(amount(label) is not None for label in told):
            labels[factor.name] = told
    subjects = {factor.name: factor.subject for factor in study.factors}
    ordered = sorted(labels, key=lambda name: not _is_parallel(f"{name} {subjects[name]}"))
    pairs = list(itertools.combinations(ordered, 2))
    pairs.sort(key=lambda pair: min(len(labels[name]) for name in pair) < _CURVE)
    for one, other in pairs:
        turned = len(labels[one]) <= LINES < len(labels[other])
        yield (other, one) if turned else (one, other)


def _is_parallel(text: str) -> bool:
    return bool({*re.findall(r"[a-z]+", text.lower())} & {*PARALLEL})


def _rank(study: Study) -> Callable[[tuple[str, str]], tuple[float, int]]:
    """The place of a level: amounts ascend, names stand in the study's order."""
    places = {
        (factor.name, level.label): place
        for factor in study.factors
        for place, level in enumerate(factor.levels)
    }

    def rank(part: tuple[str, str]) -> tuple[float, int]:
        value = amount(part[1])
        return (math.inf if value is None else value), places.get(part, len(places))

    return rank


def _grid(table: CellTable, fixed: Treatment, axes: tuple[str, str], cells: Cells) -> Grid:
    rows, columns = (
        tuple(sorted({place[side] for place in cells}, key=_amount)) for side in (0, 1)
    )
    told = {place: cell for place, cell in cells.items() if not cell.censored}
    tested = Additivity("", None, 1.0, depends=False)
    if _is_grid(told):
        tested = additivity({p: told[p] for p in itertools.product(rows, columns) if p in told})
    best, near = _best(told, table.metric)
    shown = {p: _cell(cells[p]) for p in itertools.product(rows, columns) if p in cells}
    return Grid(
        table.workload, table.metric, fixed, *axes, rows, columns, shown, best, near, tested
    )


def _cell(cell: RunCell) -> GridCell:
    ends = math.exp(min(cell.logs)), math.exp(max(cell.logs))
    return GridCell(math.exp(cell.middle), len(cell.logs), *ends, cell.censored)


def _best(cells: Cells, metric: str) -> tuple[CellPlace | None, CellPlace | None]:
    """The best cell, and the smallest of those about as good."""
    higher = METRICS.higher(metric)
    if higher is None or not cells:
        return None, None
    sign = 1 if higher else -1
    best = max(cells, key=lambda place: (sign * cells[place].middle, -_asked(place)))
    reach = abs(math.log1p(-NEAR if higher else NEAR))
    near = [p for p in cells if abs(cells[p].middle - cells[best].middle) <= reach + ARITHMETIC]
    return best, min(near, key=lambda place: (_asked(place), -sign * cells[place].middle))


def _asked(place: CellPlace) -> float:
    return math.prod(map(_amount, place))


def _amount(label: str) -> float:
    value = amount(label)
    return math.inf if value is None else value


# -- in words -------------------------------------------------------------------------------------

_LINE = 140
"""Characters of a first sentence that is still read as one."""
_TOLD = 1e-3
_WITHIN = f"within {NEAR * 100:.0f} % of it"


def sentences(grids: Sequence[Grid]) -> Iterator[str]:
    """The answer's: the best cell of each workload, then whether the effects depend on each
    other.  None where nobody knows which way is better, and nothing depends."""
    tops = _tops(grids)
    depends = [grid for grid in grids if grid.additivity.depends]
    if len(grids) == 1 and tops:
        (grid,) = tops
        yield f"Best: {best(grid)}{f'; {_depends(grid)}' if depends else ''}."
        near = nearest(grid)
        yield f"{near[0].upper()}{near[1:]}."
        return
    if tops:
        yield _several(tops)
    axes = Counter((grid.down, grid.across) for grid in depends)
    for (down, across), count in axes.items():
        of = sum((grid.down, grid.across) == (down, across) for grid in grids)
        where = f"in {count:,} of {of:,} grids" if of > 1 else "there"
        rest = ": averages omitted here" if down in not_additive(grids) else ""
        yield f"The effect of {down} depends on {across} {where}{rest}."


def best(grid: Grid) -> str:
    """``iodepth 32 × numjobs 8, 412,000 IOPS``; empty where nobody knows which way is better."""
    if grid.best is None:
        return ""
    return f"{named(grid, grid.best)}, {value(grid.metric, grid.cells[grid.best].value)}"


def nearest(grid: Grid) -> str:
    """``the smallest within 5 % of it: iodepth 16 × numjobs 8``."""
    if grid.near is None or grid.near == grid.best:
        return f"no smaller cell is {_WITHIN}"
    return f"the smallest {_WITHIN}: {named(grid, grid.near)}"


def additive(grid: Grid) -> str:
    """Whether the effects depend on each other, and how that is known."""
    found = grid.additivity
    test = {"Tukey": "Tukey's test for non-additivity", "interaction": "test of the interaction"}
    if not found.test or found.p is None:
        return f"interaction of {grid.down} and {grid.across}: too few cells for a test"
    p = f"p = {found.p:.2g}" if found.p >= _TOLD else f"p < {_TOLD:g}"
    how = f"{test[found.test]}, {p}"
    if found.depends:
        off = f"an additive model deviates by up to {_off(found.off)}"
        return f"{_depends(grid)}: {how}; {off}"
    return f"no evidence that the effect of {grid.down} depends on {grid.across}: {how}"


def named(grid: Grid, place: CellPlace) -> str:
    """``iodepth 32 × numjobs 8``."""
    return f"{grid.down} {place[0]} × {grid.across} {place[1]}"


def value(name: str, number: float) -> str:
    """A metric's value as one says it: ``412,000 IOPS``, ``1.20 GiB/s``."""
    if split(name)[1] == "iops":
        rounded = float(f"{number:.4g}")
        return f"{rounded:,.0f} IOPS" if rounded >= 1000 else f"{rounded:g} IOPS"  # noqa: PLR2004
    return format_value(number, METRICS.unit(name))


def fixed(levels: Iterable[tuple[str, str]]) -> str:
    """``bs=4k scheduler=none``: the levels of the other factors that are known."""
    told = tuple(part for part in levels if part[1] != UNKNOWN)
    return treatment_text(told) if told else ""


def _depends(grid: Grid) -> str:
    return f"the effect of {grid.down} depends on {grid.across}"


def _off(ratio: float) -> str:
    return f"{(ratio - 1) * 100:.0f} %" if ratio < 2 else f"{ratio:.1f}×"  # noqa: PLR2004


def _tops(grids: Sequence[Grid]) -> list[Grid]:
    """Of each workload and metric, the grid with the best cell of all."""
    found: dict[tuple[str, str], list[Grid]] = defaultdict(list)
    for grid in grids:
        if grid.best is not None:
            found[grid.workload, grid.metric].append(grid)
    return [
        max(each, key=_value) if METRICS.higher(name) else min(each, key=_value)
        for (_, name), each in found.items()
    ]


def _value(grid: Grid) -> float:
    return grid.cells[grid.best].value if grid.best is not None else 0.0


def _several(tops: Sequence[Grid]) -> str:
    """One sentence on all of them that is short enough for a heading."""
    axes = {(grid.down, grid.across) for grid in tops}
    if len(axes) == 1:
        ((down, across),) = axes
        common = [part for part in tops[0].fixed if all(part in grid.fixed for grid in tops)]
        at = f" at {said}" if (said := fixed(common)) else ""
        for with_values in (True, False):
            told = ", ".join(_short(grid, tops, common, with_values=with_values) for grid in tops)
            said = f"Best {down} × {across}{at}: {told}."
            if len(said) <= _LINE:
                return said
    names = list(dict.fromkeys(grid.workload for grid in tops))
    of = f"{len(tops):,} workloads" if len(names) == len(tops) else f"{len(tops):,} metrics"
    ways = " or ".join(dict.fromkeys(f"{down} × {across}" for down, across in sorted(axes)[:2]))
    return f"The best {ways} of each of {of} is given with its grid."


def _short(
    grid: Grid, tops: Sequence[Grid], common: Sequence[tuple[str, str]], *, with_values: bool
) -> str:
    """``randread 256 × 32 (bs=4k)``; without what all of them have in ``common``."""
    place = grid.best or ("", "")
    alike = sum(each.workload == grid.workload for each in tops) > 1
    name = f"{grid.workload} {grid.metric}" if alike else grid.workload
    own = fixed([part for part in grid.fixed if part not in common])
    more = [own] if own else []
    more += [value(grid.metric, grid.cells[place].value)] if with_values else []
    return f"{name} {place[0]} × {place[1]}" + (f" ({', '.join(more)})" if more else "")
