"""``iotrial compare BEFORE AFTER --paired N``: both studies run again, in turn.

Each of the N pairs is two sessions one after the other, so that what wanders over hours is in both.
Which of a pair goes first alternates: ABBA.
"""

from __future__ import annotations

import time
from pathlib import Path

from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.store import is_finished, open_results, study_at

BEFORE, AFTER = "before", "after"


def measured_in_turn(
    output: Output, before: Path, after: Path, times: int, out: Path | None
) -> tuple[tuple[Results, ...], tuple[Results, ...]]:
    """The new results of both, ``times`` of each, below ``out``.  What is there already, of the
    same studies, is kept.  Raises UsageError for results that nobody can run again."""
    from dataclasses import replace

    from iotrial.cli.run import execute

    made: dict[str, list[Results]] = {BEFORE: [], AFTER: []}
    sources = {BEFORE: before, AFTER: after}
    pretended = {}
    for side, source in sources.items():
        results = open_results(source)
        if results.study.design.kind == "recorded":
            raise UsageError(
                f"{source} holds imported runs, and only a study can be run again",
                advice="Make a study of it: iotrial init; or import more sessions, --before and"
                " --after.",
            )
        pretended[side] = results.pretended
    top = out or Path("results") / f"{time.strftime('%Y-%m-%d')}-paired"
    for number in range(1, times + 1):
        order = (BEFORE, AFTER) if number % 2 else (AFTER, BEFORE)
        for side in order:
            folder = top / f"{side}-{number}"
            study = replace(study_at(sources[side] / "study.toml"), pretended=pretended[side])
            output.note(f"{number} of {times}: {sources[side]} again, into {folder}")
            if not ((folder / "plan.jsonl").exists() and is_finished(folder)):
                execute(output, study, folder, pretend=pretended[side])
            made[side].append(open_results(folder))
    return tuple(made[BEFORE]), tuple(made[AFTER])
