"""Two sides of a comparison: results folders of before and of after."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import chain, combinations

from iotrial.errors import UsageError
from iotrial.model.doubt import Doubt
from iotrial.model.finding import Comparison
from iotrial.model.recording import FEW
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord


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
    without: dict[str, str] = {}
    for each in every[1:]:
        _alike(first, each)
        without |= unlike_loads(first, each)
    if not sides.paired:
        _no_copies(every)
    comparison = regress(
        sides.former, sides.latter, without=without, between=between, paired=sides.paired
    )
    if not comparison.findings:
        raise UsageError(
            comparison.recommendation,
            advice="Compare two executions of the same study, or of studies alike.",
        )
    told = [*chain.from_iterable(unlike_machines(first, each) for each in every[1:])]
    if not sides.paired:
        told += [each for side in (sides.former, sides.latter) for each in _near(side)]
    return (
        replace(
            first,
            planned=tuple(chain.from_iterable(each.planned for each in every)),
            records=tuple(chain.from_iterable(each.records for each in every)),
            doubts=(*told, *chain.from_iterable(each.doubts for each in every)),
        ),
        comparison,
    )


def _near(side: tuple[Results, ...]) -> list[Doubt]:
    """That sessions of one side followed each other closely."""
    from iotrial.stats.sessions import within_a_night

    near = within_a_night(side)
    if not near:
        return []
    named = ", ".join(f"{one} and {other}" for one, other in near[:3])
    more = f", and {len(near) - 3} pairs more" if len(near) > 3 else ""  # noqa: PLR2004
    return [
        Doubt(
            "near-sessions",
            f"less than six hours lie between {named}{more}: their interval holds for those hours,"
            " and not for how far days are apart",
            "Measure sessions on different days, or both sides in turn: --paired",
        )
    ]


def _identity(record: TrialRecord) -> Hashable:
    trial, numbers = record.trial, tuple((m.metric, m.value) for m in record.measurements)
    return (trial.workload, trial.treatment, record.started, numbers)


def _no_copies(every: tuple[Results, ...]) -> None:
    """Raises UsageError where all runs of a folder are in another one too.  Rounded numbers may be
    the same in two sessions: runs that do not say when they were need some to be told by."""
    runs = [
        {_identity(record) for record in each.valid}
        for each in every
        if all(r.started or len(r.measurements) >= FEW for r in each.valid)
    ]
    if len(runs) < len(every):
        return
    for (one, ours), (other, theirs) in combinations(zip(every, runs, strict=True), 2):
        if ours and theirs and (ours <= theirs or theirs <= ours):
            copy, whole = (one, other) if ours < theirs else (other, one)
            raise UsageError(
                f"{copy.folder} holds runs of {whole.folder} and no others: a copy is no session",
                advice="Leave it out.",
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
