"""Course: a stage of a study as it goes, and what stages hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from iotrial.model.results import Results
from iotrial.model.stage import Kept, Stage
from iotrial.model.study import Study
from iotrial.model.trial import Trial


@dataclass(frozen=True, slots=True)
class Carried:
    """What stages hand on: the labels ``left`` of each factor, and where it ``stands`` while it
    is not varied."""

    left: Mapping[str, tuple[str, ...]]
    stands: Mapping[str, str]

    def after(self, kept: Sequence[Kept]) -> Carried:
        return Carried(
            {**self.left, **{each.factor: each.kept for each in kept}},
            {**self.stands, **{each.factor: each.stands for each in kept}},
        )


@dataclass(frozen=True, slots=True)
class Course:
    """A stage as it goes.  ``study`` is the stage as a study, ``results`` its trials as that study
    sees them; ``before`` the blocks of earlier stages; ``so_far`` what it began with,
    ``baselines`` those of the whole study, ``kept`` what it came to (empty until it is
    ``decided``, and for a stage that confirms)."""

    stage: Stage
    study: Study
    results: Results
    before: int
    so_far: Carried
    baselines: Mapping[str, str]
    decided: bool
    kept: tuple[Kept, ...] = ()

    @property
    def words(self) -> str:
        """``readahead, narrow``."""
        return ", ".join([*self.stage.vary, self.stage.then])


def slim(results: Results) -> Results:
    """The same without the factors that stand still, for what compares and names treatments."""
    study = results.study
    kept = tuple(factor for factor in study.factors if len(factor.levels) > 1)
    names = {factor.name for factor in kept}

    def less(trial: Trial) -> Trial:
        return replace(trial, treatment=tuple(p for p in trial.treatment if p[0] in names))

    return replace(
        results,
        study=replace(study, factors=kept),
        planned=tuple(map(less, results.planned)),
        records=tuple(replace(each, trial=less(each.trial)) for each in results.records),
    )
