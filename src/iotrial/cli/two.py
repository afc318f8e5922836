"""Two sides of a comparison: results folders of before and of after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from iotrial.errors import UsageError
from iotrial.model.finding import Comparison
from iotrial.model.results import Results


@dataclass(frozen=True, slots=True)
class Sides:
    """The results of before and after; ``paired``: measured in turn, the n-th beside the n-th."""

    former: tuple[Results, ...]
    latter: tuple[Results, ...]
    paired: bool = False


def compared(sides: Sides, between: float) -> tuple[Results, Comparison]:
    """The findings, with the trials and doubts of all folders beside them.  ``between`` is the
    standard deviation between sessions as a relative difference (0: unknown).

    Raises UsageError where nothing is comparable.
    """
    from iotrial.stats.regress import regress  # SciPy is slow to import
    from iotrial.stats.unlike import unlike_loads, unlike_machines

    first, every = sides.former[0], (*sides.former, *sides.latter)
    for each in every[1:]:
        _alike(first, each)
    without: dict[str, str] = {}
    for each in every[1:]:
        without |= unlike_loads(first, each)
    comparison = regress(
        sides.former, sides.latter, without=without, between=between, paired=sides.paired
    )
    if not comparison.findings:
        raise UsageError(
            comparison.recommendation,
            advice="Compare two executions of the same study, or of studies alike.",
        )
    told = chain.from_iterable(unlike_machines(first, each) for each in every[1:])
    return (
        replace(
            first,
            planned=tuple(chain.from_iterable(each.planned for each in every)),
            records=tuple(chain.from_iterable(each.records for each in every)),
            doubts=(*told, *chain.from_iterable(each.doubts for each in every)),
        ),
        comparison,
    )


def _alike(former: Results, latter: Results) -> None:
    """That both are real or both pretended.  Raises UsageError."""
    if former.pretended != latter.pretended:
        made_up, real = (former, latter) if former.pretended else (latter, former)
        raise UsageError(
            f"{made_up.folder} holds pretended results and {real.folder} real ones: what differs"
            " between them means nothing",
            advice="Compare two real folders; `run` without --pretend makes one.",
        )
