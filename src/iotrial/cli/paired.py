"""``iotrial compare BEFORE AFTER --paired N``: both studies run again, in turn.

Each of the N pairs is two sessions one after the other, so that what wanders over hours is in both.
Which of a pair goes first alternates: ABBA.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.plan.inventory import check_ways
from iotrial.store import check, is_finished, open_results, written_study

BEFORE, AFTER = "before", "after"
_SUFFIX = "-paired"


def measured_in_turn(
    output: Output, before: Path, after: Path, times: int, out: Path | None
) -> tuple[tuple[Results, ...], tuple[Results, ...]]:
    """The new results of both, ``times`` of each, below ``out``.  What is there already, of the
    same studies, is kept.  Raises UsageError, before anything runs, for results that nobody can run
    again and for a folder below ``out`` that holds another study."""
    from iotrial.cli.run import execute

    sources = {BEFORE: before, AFTER: after}
    studies = {side: _study(source) for side, source in sources.items()}
    top = out or _top(Path("results"), studies, times)
    turns = _turns(top, times)
    for side, folder in turns:
        check(folder, studies[side])
    made: dict[str, list[Results]] = {BEFORE: [], AFTER: []}
    for place, (side, folder) in enumerate(turns):
        output.note(f"{place // 2 + 1} of {times}: {sources[side]} again, into {folder}")
        if not _done(folder):
            study = studies[side]
            outcome = execute(output, study, folder, pretend=study.pretended)
            if outcome.stopped:
                output.note(f"stopped: {outcome.stopped}")
        made[side].append(open_results(folder))
    return tuple(made[BEFORE]), tuple(made[AFTER])


def _study(source: Path) -> Study:
    """The study in a results folder, extended as it was.  Raises UsageError where it has none that
    could be run again."""
    results = open_results(source)
    if results.study.design.kind == "recorded":
        raise UsageError(
            f"{source} holds imported runs, and only a study can be run again",
            advice="Make a study of it: iotrial init; or import more sessions, --before and"
            " --after.",
        )
    if results.study.aa:
        raise UsageError(
            f"{source} holds an A/A study, which has one treatment under several names",
            advice="Name the results of the study itself.",
        )
    study = written_study(source)
    check_ways((each.name, each.ssh) for each in study.hosts)
    return replace(study, pretended=results.pretended)


def _turns(top: Path, times: int) -> list[tuple[str, Path]]:
    """Which side is measured when, and into which folder."""
    return [
        (side, top / f"{side}-{number}")
        for number in range(1, times + 1)
        for side in ((BEFORE, AFTER) if number % 2 else (AFTER, BEFORE))
    ]


def _top(parent: Path, studies: dict[str, Study], times: int) -> Path:
    """The newest folder of these two studies of which something is left to do, or a new one."""
    for top in sorted(parent.glob(f"*{_SUFFIX}*"), reverse=True):
        turns = _turns(top, times)
        begun = [turn for turn in turns if (turn[1] / "plan.jsonl").exists()]
        ours = begun and all(_is_of(folder, studies[side]) for side, folder in begun)
        if ours and not all(_done(folder) for _, folder in turns):
            return top
    stem = f"{time.strftime('%Y-%m-%d')}{_SUFFIX}"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 10_000))]
    return next(parent / each for each in names if not (parent / each).exists())


def _is_of(folder: Path, study: Study) -> bool:
    try:
        check(folder, study)
    except UsageError:
        return False
    return True


def _done(folder: Path) -> bool:
    return (folder / "plan.jsonl").exists() and is_finished(folder)
