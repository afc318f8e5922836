"""How many blocks tell a difference of a size that somebody names, at the noise of this study."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.stats.boundary import LAST
from iotrial.stats.contrasts import baselines
from iotrial.stats.judge import answer, questions, seen_of
from iotrial.stats.needs import blocks_to_differ
from iotrial.stats.race_ahead import Terms, blocks_to_decide
from iotrial.stats.raced import raced


def blocks_until(results: Results, log: float) -> int:
    """The blocks in all after which a true difference of ``log`` > 0 (log scale) is told in each
    primary comparison with a power of 80 %; of a race, those after which it is expected to be.

    Raises UsageError where no noise was measured, and where 2,048 blocks do not.
    """
    race = results.study.design.kind == "race"
    found = list(_of_race(results, log) if race else _of_blocks(results, log))
    known = [each for each in found if each is not None]
    if not found:
        raise UsageError(
            "the noise of these results is not known", advice="Say how many: --more-blocks 5."
        )
    if len(known) < len(found) or max(known) >= LAST:
        raise UsageError(
            f"such a difference takes more than {LAST:,} blocks at this noise",
            advice="Ask for a larger one, or make trials longer or quieter.",
        )
    return max(known)


def _of_blocks(results: Results, log: float) -> Iterator[int | None]:
    for question in questions(results):
        got = answer(question, question.responses.logs)
        for number in range(len(question.contrasts) if question.primary else 0):
            if seen := seen_of(question, got, number):
                yield blocks_to_differ(seen, log)


def _of_race(results: Results, log: float) -> Iterator[int | None]:
    study = results.study
    cells = {workload.name: study.treatments(workload.name) for workload in study.workloads}
    for each in raced(study, cells, results.records, baselines(results)):
        race = each.race
        if race.looks and not race.decided:
            terms = Terms(race.size, race.margin, each.confidence)
            yield blocks_to_decide(terms, log, race.sd, left=len(race.active))


def blocks_at_margin(results: Results, log: float) -> int | None:
    """The blocks in all after which a race at this noise is expected to decide, were its margin
    ``log`` > 0 (log scale): between two equals, and between two that differ by the margin; 2,048
    (:data:`~iotrial.stats.boundary.LAST`) where no fewer do.  None before the first look."""
    study = results.study
    cells = {workload.name: study.treatments(workload.name) for workload in study.workloads}
    found = [
        blocks_to_decide(
            Terms(each.race.size, log, each.confidence), difference, each.race.sd, left=2
        )
        for each in raced(study, cells, results.records, baselines(results))
        if each.race.looks
        for difference in (0.0, log)
    ]
    return max(found, default=None)
