"""Extending a study that has ended, by more blocks, after its results were seen.  Pure.

Whoever sees results, and goes on because they do not tell, looks twice.  A fixed number of blocks
spends the whole error on its one look, so that nothing is left for a second at the same critical
value.  From its first extension on a study is therefore judged by intervals that hold at all
looks together, those before the extension included (:mod:`iotrial.stats.critical`, error spending
after Lan and DeMets); they are wider, and hold whatever the reason to go on was, and however
often.  A race, and a design with ``stop = "decided"``, are judged so from the beginning: of them
only the most blocks grow, which costs no error.

The order within a block depends on the study, its seed and the number of the block alone
(:mod:`iotrial.plan.design`): the added blocks are those that a longer plan would have had.

References:
    K. K. G. Lan and D. L. DeMets (1989), Changing frequency of interim analysis in sequential
    monitoring, Biometrics 45, 1017-1020 (looks that depend on what was seen).
    C. Jennison and B. W. Turnbull (1989), Interim analyses: the repeated confidence interval
    approach, JRSS B 51, 305-361 (intervals that hold whatever the rule to stop or go on).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict  # as pydantic wants it before Python 3.12

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.design import waiting
from iotrial.plan.stages import next_trials
from iotrial.rows import checked
from iotrial.stats.verdict import LAST

RESERVE = 1.25
"""A budget grows by so many times what the added blocks take at the pace so far: they should not
end for want of a few seconds."""
_WHY_NOT = {
    "saturate": "a search ends at its optimum",
    "recorded": "its trials are imported",
}


@dataclass(frozen=True, slots=True)
class Extension:
    """From ``before`` blocks to ``blocks``, at most where the study may end sooner; ``budget`` is
    the whole study's from then on, in seconds (0: none)."""

    before: int
    blocks: int
    budget: float = 0.0

    def as_row(self) -> dict[str, Any]:
        """A line of plan.jsonl."""
        return {"extended": self.blocks, "before": self.before, "budget": self.budget}


class _ExtensionRow(TypedDict):
    """The line of plan.jsonl that extends the study."""

    extended: Annotated[int, Field(ge=1, le=LAST)]
    before: Annotated[int, Field(ge=1, le=LAST)]
    budget: Annotated[float, Field(ge=0, le=1e12)]


_ROW: TypeAdapter[Any] = TypeAdapter(_ExtensionRow)


def extension_in(row: Mapping[str, Any]) -> Extension:
    """What :meth:`Extension.as_row` told.  Raises FormatError."""
    told = checked(_ROW, row)
    return Extension(told["before"], told["extended"], told["budget"])


def extended(study: Study, extensions: Sequence[Extension]) -> Study:
    """The study after all its extensions, in their order."""
    for each in extensions:
        design = replace(
            study.design,
            blocks=each.blocks,
            budget=each.budget,
            extended=(*study.design.extended, each.before),
        )
        study = replace(study, design=design)
    return study


def under_way(results: Results) -> bool:
    """Whether something planned is still to be done, and may be: a study that its budget ended is
    over, although trials wait."""
    left = waiting(results.planned, results.records) or next_trials(
        results.study, results.planned, results.records
    )
    return bool(left) and not _spent(results)


def reached(results: Results) -> int:
    """The last block of which a trial was done."""
    return max((record.trial.block for record in results.records), default=0)


def extend(results: Results, more: int) -> Extension:
    """What extends these results by ``more`` blocks.

    Raises UsageError, which says what to do, where nothing can be added to them.
    """
    check_extendable(results)
    study = results.study
    blocks = reached(results) + more
    if more < 1 or blocks > LAST:
        raise UsageError(
            f"{more} more blocks give {blocks:,}",
            advice=(f"Give at least 1, in total at most {LAST:,}."),
        )
    budget = study.design.budget
    if budget:
        used, whole = _used(results), max(len({r.trial.block for r in results.records}), 1)
        budget = max(budget, math.ceil(used + more * used / whole * RESERVE))
    return Extension(reached(results), max(study.design.blocks, blocks), budget)


def check_extendable(results: Results) -> None:
    """Raises UsageError, which says what to do, for results that cannot be extended."""
    study, kind = results.study, results.study.design.kind
    again = "Write a study of the undecided treatments, with its own [design] blocks."
    if study.aa:
        why, again = (
            "it is an A/A study",
            "Run it again with more blocks: run STUDY --aa --blocks N.",
        )
    elif study.stages:
        why = "its later stages depend on the levels that earlier ones selected"
    elif study.spread:
        why = "its blocks are spread over hosts, each of which has its share"
    elif study.decide.test == "ranks":
        why = "its verdicts are those by ranks, which hold at one look"
        again = "Write a study with more [design] blocks; its results stand by themselves."
    elif kind in _WHY_NOT:
        why = _WHY_NOT[kind]
    elif not results.records:
        why, again = "no trial was executed", f"Run {study.name} first."
    elif not study.factors:
        why, again = "it varies no factor", "Add a factor: [factors]."
    elif _decided(results):
        why = "all its comparisons are decided"
        again = f"`iotrial compare {results.folder}` has its verdicts."
    else:
        return
    raise UsageError(f"{results.folder} cannot be extended: {why}", advice=again)


def _decided(results: Results) -> bool:
    """Whether a study that ends when it knows has ended so: more blocks would stay empty."""
    design = results.study.design
    if design.kind != "race" and design.stop != "decided":
        return False
    if waiting(results.planned, results.records):
        return False
    longer = replace(results.study, design=replace(design, blocks=LAST))
    return not next_trials(longer, results.planned, results.records)


def _used(results: Results) -> float:
    return math.fsum(record.seconds + record.prepared for record in results.records)


def _spent(results: Results) -> bool:
    """Whether the budget leaves no room for one more trial like the last, as the run decides it."""
    budget = results.study.design.budget
    if not budget or not results.records:
        return False
    return _used(results) + results.records[-1].seconds > budget
