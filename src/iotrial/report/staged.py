"""A study in stages in words and as data: what each stage found, kept, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from iotrial.judgement.stages import by_one_look, confirmed
from iotrial.model.finding import LevelChoice, StageResult
from iotrial.model.study import StageDecision
from iotrial.report import search
from iotrial.report.blocks import Block, Column, Heading, Row, Table, plain
from iotrial.report.words import visible

CHOICE = ("factor", "current", "new", "decided by", "because")
"""The heads of the table of choices."""
MOST = 8
"""Levels that are listed one by one."""


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage in words: its ``title``, what is ``done`` of it, and ``lines`` of what came of it."""

    number: int
    title: str
    done: str
    lines: tuple[str, ...]
    found: StageResult


def row(found: StageResult) -> StageRow:
    """One line of the table of stages."""
    stage, results = found.stage, found.results
    parts = [", ".join(stage.vary), _THEN[stage.then]]
    if stage.workloads:
        parts.append(f"under {', '.join(stage.workloads)}")
    if stage.target:
        parts.append(f"on {stage.target}")
    for load, options in stage.options:
        parts.append(f"{load} with {' '.join(f'{name}={value}' for name, value in options)}")
    valid = sum(record.state == "valid" for record in results.records)
    done = f"{valid} of {len(results.planned)} trials valid"
    if not results.planned:
        done = "no trials needed" if found.decided else "not started"
    elif not found.decided:
        done += ", undecided"
        if by_one_look(found) and found.comparison.findings:
            done += "; intervals before its end are too narrow"
    title = "; ".join(filter(None, parts))
    return StageRow(stage.number, visible(title), done, tuple(_lines(found)), found)


_THEN = {
    "narrow": "narrowed",
    "knee": "to the knee",
    "best": "to the best",
    "screen": "screened",
    "confirm": "current against new",
    "tune": "search for the best combination",
    "worth": "what each factor is worth in it",
}


def _lines(found: StageResult) -> Iterator[str]:
    if found.comparison.search:
        yield search.said(found.comparison.search)
    for kept in found.kept:
        yield visible(f"{kept.factor}: {_left(kept)}: {kept.why}")
    if found.stage.then == "confirm" and found.decided:
        yield visible(confirmed(found.results.study, found))


def _left(kept: StageDecision) -> str:
    """``6 of 20 levels left, 69632 … 90112``, or the one that was taken."""
    if len(kept.kept) == 1:
        return f"{kept.stands} of {len(kept.levels)}" if len(kept.levels) > 1 else kept.stands
    shown = ", ".join(kept.kept) if len(kept.kept) <= MOST else f"{kept.kept[0]} … {kept.kept[-1]}"
    return f"{len(kept.kept)} of {len(kept.levels)} left ({shown})"


def shown(choice: LevelChoice) -> LevelChoice:
    """Fit to look at."""
    return LevelChoice(
        visible(choice.factor),
        visible(choice.current),
        visible(choice.new),
        choice.stage,
        visible(choice.why),
    )


def cells(choice: LevelChoice) -> tuple[str, ...]:
    """One line of the table of choices."""
    by = f"stage {choice.stage}" if choice.stage else "–"
    new = choice.new if choice.new != choice.current else f"{choice.new} (kept)"
    return (choice.factor, choice.current, new, by, choice.why)


def as_data(stages: Sequence[StageRow], chosen: Sequence[LevelChoice]) -> dict[str, Any]:
    """For the JSON document; nothing for a study without stages."""
    if not stages:
        return {}
    return {
        "stages": [
            {
                "stage": each.number,
                "vary": list(each.found.stage.vary),
                "then": each.found.stage.then,
                "decided": each.found.decided,
                "trials": len(each.found.results.planned),
                "words": list(each.lines),
                "kept": [
                    {
                        "factor": kept.factor,
                        "levels": list(kept.levels),
                        "kept": list(kept.kept),
                        "stands": kept.stands,
                        "why": kept.why,
                    }
                    for kept in each.found.kept
                ],
            }
            for each in stages
        ],
        "choices": list(map(asdict, chosen)),
    }


def blocks(stages: Sequence[StageRow], choices: Sequence[LevelChoice]) -> Iterator[Block]:
    """What each stage kept and why; at last what is in use against what was chosen."""
    if not stages:
        return
    yield Heading("Stages", id="stages")
    head = (Column("", "n"), Column("stage"), Column("trials"), Column("result"))
    told: tuple[Row, ...] = tuple(
        (str(each.number), each.title, each.done, "\n".join(each.lines) or "–") for each in stages
    )
    yield Table(head, told, "Stages")
    yield Heading("Current against new")
    yield plain(CHOICE, map(cells, choices), "Current against new")
