"""A study in stages, judged: what each stage found and kept; at last the settings in use against
those that were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from iotrial.model.finding import Comparison, LevelChoice, StageProgress, StageResult, slim
from iotrial.model.results import Results
from iotrial.model.study import StageDecision, Study
from iotrial.model.trial import Doubt
from iotrial.plan import tune
from iotrial.plan.stages import CURRENT, NEW, begin, claiming, courses, varies
from iotrial.units import format_change

Judge = Callable[[Results], tuple[Results, Comparison]]


def judge_stages(results: Results, judge: Judge) -> tuple[Comparison, tuple[Doubt, ...]]:
    """Every stage judged as the study that it is, and what they come to; with the doubts of each.

    ``judge`` gives back the results with their doubts, and the findings.
    """
    found: list[StageResult] = []
    doubts: list[Doubt] = []
    gone = courses(results.study, results.planned, results.records)
    for course in gone:
        own = replace(course.results, folder=results.folder, facts=results.facts)
        comparison = Comparison(results.study.question, (), "", "")
        if varies(course.study) and own.records:
            own = slim(own)
            judged, comparison = judge(own)
            if course.stage.then == "tune":
                comparison = replace(
                    comparison, search=tune.found(course.study, course.results.records)
                )
            number = course.stage.number
            doubts += [replace(d, what=f"stage {number}: {d.what}") for d in judged.doubts]
            findings = tuple(replace(f, stage=number) for f in comparison.findings)
            secondary = tuple(replace(f, stage=number) for f in comparison.secondary)
            comparison = replace(comparison, findings=findings, secondary=secondary)
        found.append(StageResult(course.stage, own, comparison, course.kept, course.decided))
    chosen = choices(results.study, gone)
    return (
        Comparison(
            question=results.study.question,
            findings=tuple(f for each in found for f in each.comparison.findings),
            secondary=tuple(f for each in found for f in each.comparison.secondary),
            recommendation=" ".join(_answer(results.study, found, chosen)),
            method=" ".join(_methods(results.study, found)),
            stages=tuple(found),
            choices=chosen,
            search=next((each.comparison.search for each in found if each.comparison.search), None),
        ),
        tuple(doubts),
    )


def _methods(study: Study, found: Sequence[StageResult]) -> Iterator[str]:
    for each in found:
        if each.comparison.method:
            yield f"Stage {each.stage.number}: {each.comparison.method}"
    told = (each for each in found if each.comparison.method)
    if once := [str(each.stage.number) for each in told if by_one_look(each)]:
        stages = "stage" if len(once) == 1 else "stages"
        yield (
            f"Intervals of {stages} {', '.join(once)} are valid for one look, after all blocks"
            " of a stage; before that they are too narrow."
        )
    yield (
        f"The {claiming(study)} stages{_that(study)} share the error rate: each has a confidence of"
        f" {study.decide.confidence ** (1 / claiming(study)):.2%}; {_by(study)}."
    )


def _that(study: Study) -> str:
    return " from which something is claimed" if study.design.kind == "tune" else ""


def _by(study: Study) -> str:
    if study.design.kind == "tune":
        return "the search selects levels by its model, and claims nothing"
    return "a stage selects levels from the intervals of all pairs of its levels"


def by_one_look(found: StageResult) -> bool:
    """Whether a stage's intervals are for one look: it is no race, and does not end when it is
    decided."""
    design = found.results.study.design
    return design.kind != "race" and design.stop != "decided"


def choices(study: Study, gone: Sequence[StageProgress]) -> tuple[LevelChoice, ...]:
    """For every factor of the study what it was, what it is to be, and why."""
    current, latest = begin(study).stands, dict[str, tuple[int, StageDecision]]()
    for course in gone:
        for kept in course.kept:
            if len(kept.levels) > 1 or kept.factor not in latest:
                latest[kept.factor] = (course.stage.number, kept)
    found = []
    for factor in study.factors:
        base = current[factor.name]
        choice = LevelChoice(factor.name, base, base, 0, "not decided")
        if factor.name in latest:
            number, kept = latest[factor.name]
            choice = LevelChoice(factor.name, base, kept.stands, number, kept.why)
        found.append(choice)
    return tuple(found)


def _answer(
    study: Study, found: Sequence[StageResult], chosen: Sequence[LevelChoice]
) -> Iterator[str]:
    """The recommendation: what to change, whether it was confirmed, and what is not done."""
    changes = [f"{c.factor} from {c.current} to {c.new}" for c in chosen if c.new != c.current]
    kept = [f"{c.factor}={c.current}" for c in chosen if c.stage and c.new == c.current]
    over = len(found) == len(study.stages) and found[-1].decided
    if not over:
        yield f"Not finished: stage {found[-1].stage.number} of {len(study.stages)} is next."
    tuned = study.design.kind == "tune"
    if tuned and changes and over and not proved(found):
        yield f"Change nothing: {', '.join(changes)} is not shown to be better."
    elif changes:
        keeping = f", and keep {', '.join(kept)}" if kept and not tuned else ""
        yield f"{'Change' if over else 'So far: change'} {', '.join(changes)}{keeping}."
    elif over:
        yield "Change nothing: no stage found an improvement."
    for each in found:
        if each.stage.then == "confirm" and each.decided:
            yield confirmed(study, each)


def proved(found: Sequence[StageResult]) -> bool:
    """Whether the last stage showed on fresh trials that what was chosen is better, or keeps a
    limit that the current settings exceed."""
    for race in found[-1].comparison.races:
        beyond = {each.label for each in race.racers if each.place == "guardrail"}
        if race.decided and race.kept == NEW and CURRENT in beyond and NEW not in beyond:
            return True
    verdicts = {f.verdict for f in found[-1].comparison.findings if f.primary and f.level == NEW}
    return found[-1].stage.then == "confirm" and "better" in verdicts and "worse" not in verdicts


def confirmed(study: Study, each: StageResult) -> str:
    own = [f for f in each.comparison.findings if f.primary and f.level == NEW]
    where = f" on {each.results.study.targets[0].name}" if study.targets else ""
    if not own:
        return (
            "Nothing to confirm."
            if not each.results.records
            else (f"Not confirmed{where}: no valid trials.")
        )
    verdicts = {f.verdict for f in own}
    broken = any(f.verdict == "worse" for f in each.comparison.findings if not f.primary)
    broken = broken or "guardrail: new" in each.comparison.recommendation  # a race's words
    told = ", ".join(
        f"{study.decide.named(f.workload, f.metric)} {_WORDS[f.verdict]}"
        f" ({format_change(f.ratio)}, {format_change(f.low or 1)} … {format_change(f.high or 1)})"
        for f in own
    )
    if "worse" in verdicts or broken:
        guard = ", and a guardrail is broken" if broken else ""
        return f"Not confirmed{where}: new against current is {told}{guard}."
    if "better" in verdicts:
        return f"Confirmed{where}: new against current is {told}."
    return f"Not confirmed{where}, no gain shown: new against current is {told}."


_WORDS = {"better": "better", "worse": "worse", "same": "the same", "cannot-tell": "undecided"}
