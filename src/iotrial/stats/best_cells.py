"""Best cells: what grids come to, in words.

The best cell is a description of these runs, never a claim: each may be one run, and the best of
many is best by luck too.  So no sentence here says *better*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from iotrial.model.grid import Grid, Place
from iotrial.model.measurement import METRICS, split
from iotrial.model.trial import UNKNOWN, treatment_text
from iotrial.stats.grid import NEAR, not_additive
from iotrial.units import format_value

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
        rest = ": their averages are left out here" if down in not_additive(grids) else ""
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
        return f"whether the effect of {grid.down} depends on {grid.across}: too few cells to tell"
    p = f"p = {found.p:.2g}" if found.p >= _TOLD else f"p < {_TOLD:g}"
    how = f"{test[found.test]}, {p}"
    if found.depends:
        off = f"were it the same everywhere, some cell would be {_off(found.off)} off"
        return f"{_depends(grid)}: {how}; {off}"
    return f"no sign that the effect of {grid.down} depends on {grid.across}: {how}"


def named(grid: Grid, place: Place) -> str:
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
    return f"The best {ways} of each of {of} is named beside its grid."


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
