"""A study in stages, as its reports tell it: what each stage found, kept, and why; at last the
settings in use against those that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.finding import Choice, Comparison, StageFound
from iotrial.model.results import Results
from iotrial.model.stage import Kept
from iotrial.model.study import Study
from iotrial.plan.stages import NEW, Course, begin, courses, slim, varies
from iotrial.report.visible import visible
from iotrial.units import format_change

CHOICE = ("factor", "current", "new", "decided by", "because")
"""The heads of the table of choices."""
MOST = 8
"""Levels that are listed one by one."""

Judge = Callable[[Results], tuple[Results, Comparison]]


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage in words: its ``title``, what is ``done`` of it, and ``lines`` of what came of it."""

    number: int
    title: str
    done: str
    lines: tuple[str, ...]
    found: StageFound


def judge_stages(results: Results, judge: Judge) -> tuple[Comparison, tuple[Doubt, ...]]:
    """Every stage judged as the study that it is, and what they come to; with the doubts of each.

    ``judge`` gives back the results with their doubts, and the findings.
    """
    found: list[StageFound] = []
    doubts: list[Doubt] = []
    gone = courses(results.study, results.planned, results.records)
    for course in gone:
        own = replace(course.results, folder=results.folder, facts=results.facts)
        comparison = Comparison(results.study.question, (), "", "")
        if varies(course.study) and own.records:
            own = slim(own)
            judged, comparison = judge(own)
            number = course.stage.number
            doubts += [replace(d, what=f"stage {number}: {d.what}") for d in judged.doubts]
            findings = tuple(replace(f, stage=number) for f in comparison.findings)
            comparison = replace(comparison, findings=findings)
        found.append(StageFound(course.stage, own, comparison, course.kept, course.decided))
    chosen = choices(results.study, gone)
    return (
        Comparison(
            question=results.study.question,
            findings=tuple(f for each in found for f in each.comparison.findings),
            recommendation=" ".join(_answer(results.study, found, chosen)),
            method=" ".join(_methods(results.study, found)),
            stages=tuple(found),
            choices=chosen,
        ),
        tuple(doubts),
    )


def _methods(study: Study, found: Sequence[StageFound]) -> Iterator[str]:
    for each in found:
        if each.comparison.method:
            yield f"Stage {each.stage.number}: {each.comparison.method}"
    if once := [str(each.stage.number) for each in found if each.comparison.method and _once(each)]:
        stages = "stage" if len(once) == 1 else "stages"
        yield (
            f"Intervals of {stages} {', '.join(once)} are for one look, when all blocks of a stage"
            " are done; seen before that, they are too sure."
        )
    yield (
        f"The {len(study.stages)} stages share the error: each has a confidence of "
        f"{study.decide.confidence ** (1 / len(study.stages)):.2%}, and what a stage keeps is "
        "read from intervals of all pairs of its levels."
    )


def _once(found: StageFound) -> bool:
    """Whether a stage's intervals are for one look: it is no race, and does not end when it is
    decided."""
    design = found.results.study.design
    return design.kind != "race" and design.stop != "decided"


def choices(study: Study, gone: Sequence[Course]) -> tuple[Choice, ...]:
    """For every factor of the study what it was, what it is to be, and why."""
    current, latest = begin(study).stands, dict[str, tuple[int, Kept]]()
    for course in gone:
        for kept in course.kept:
            if len(kept.levels) > 1 or kept.factor not in latest:
                latest[kept.factor] = (course.stage.number, kept)
    found = []
    for factor in study.factors:
        base = current[factor.name]
        choice = Choice(factor.name, base, base, 0, "not decided")
        if factor.name in latest:
            number, kept = latest[factor.name]
            choice = Choice(factor.name, base, kept.stands, number, kept.why)
        found.append(choice)
    return tuple(found)


def _answer(study: Study, found: Sequence[StageFound], chosen: Sequence[Choice]) -> Iterator[str]:
    """The recommendation: what to change, whether it was confirmed, and what is not done."""
    changes = [f"{c.factor} from {c.current} to {c.new}" for c in chosen if c.new != c.current]
    kept = [f"{c.factor}={c.current}" for c in chosen if c.stage and c.new == c.current]
    over = len(found) == len(study.stages) and found[-1].decided
    if not over:
        yield f"Not finished: stage {found[-1].stage.number} of {len(study.stages)} is to be done."
    if changes:
        keeping = f", and keep {', '.join(kept)}" if kept else ""
        yield f"{'Change' if over else 'So far: change'} {', '.join(changes)}{keeping}."
    elif over:
        yield "Change nothing: no stage found a reason to."
    for each in found:
        if each.stage.then == "confirm" and each.decided:
            yield _confirmed(study, each)


def _confirmed(study: Study, each: StageFound) -> str:
    own = [f for f in each.comparison.findings if f.primary and f.level == NEW]
    where = f" on {each.results.study.targets[0].name}" if study.targets else ""
    if not own:
        return (
            "There was nothing to confirm."
            if not each.results.records
            else (f"Not confirmed{where}: no valid trials.")
        )
    verdicts = {f.verdict for f in own}
    broken = any(f.verdict == "worse" for f in each.comparison.findings if not f.primary)
    broken = broken or "guardrail: new" in each.comparison.recommendation  # a race's words
    told = ", ".join(
        f"{f.workload} {_WORDS[f.verdict]} ({format_change(f.ratio)}, "
        f"{format_change(f.low or 1)} … {format_change(f.high or 1)})"
        for f in own
    )
    if "worse" in verdicts or broken:
        guard = ", and a guardrail is broken" if broken else ""
        return f"Not confirmed{where}: new against current is {told}{guard}."
    if "better" in verdicts:
        return f"Confirmed{where}: new against current is {told}."
    return f"Not confirmed{where}, where no gain was shown: new against current is {told}."


_WORDS = {"better": "better", "worse": "worse", "same": "the same", "cannot-tell": "not told"}


# In words.


def row(found: StageFound) -> StageRow:
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
    done = f"{valid} of {len(results.planned)} trials count"
    if not results.planned:
        done = "no trials needed" if found.decided else "not begun"
    elif not found.decided:
        done += ", not decided"
        if _once(found) and found.comparison.findings:
            done += "; intervals before its end are too sure"
    title = "; ".join(filter(None, parts))
    return StageRow(stage.number, visible(title), done, tuple(_lines(found)), found)


_THEN = {
    "narrow": "narrowed",
    "knee": "to the knee",
    "best": "to the best",
    "screen": "screened",
    "confirm": "current against new",
}


def _lines(found: StageFound) -> Iterator[str]:
    for kept in found.kept:
        yield visible(f"{kept.factor}: {_left(kept)}: {kept.why}")
    if found.stage.then == "confirm" and found.decided:
        yield visible(_confirmed(found.results.study, found))


def _left(kept: Kept) -> str:
    """``6 of 20 levels left, 69632 … 90112``, or the one that was taken."""
    if len(kept.kept) == 1:
        return f"{kept.stands} of {len(kept.levels)}" if len(kept.levels) > 1 else kept.stands
    shown = ", ".join(kept.kept) if len(kept.kept) <= MOST else f"{kept.kept[0]} … {kept.kept[-1]}"
    return f"{len(kept.kept)} of {len(kept.levels)} left ({shown})"


def shown(choice: Choice) -> Choice:
    """Fit to look at."""
    return Choice(
        visible(choice.factor),
        visible(choice.current),
        visible(choice.new),
        choice.stage,
        visible(choice.why),
    )


def cells(choice: Choice) -> tuple[str, ...]:
    """One line of the table of choices."""
    by = f"stage {choice.stage}" if choice.stage else "–"
    new = choice.new if choice.new != choice.current else f"{choice.new} (kept)"
    return (choice.factor, choice.current, new, by, choice.why)


def as_data(stages: Sequence[StageRow], chosen: Sequence[Choice]) -> dict[str, Any]:
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
        "choices": [
            {
                "factor": each.factor,
                "current": each.current,
                "new": each.new,
                "stage": each.stage,
                "why": each.why,
            }
            for each in chosen
        ],
    }
