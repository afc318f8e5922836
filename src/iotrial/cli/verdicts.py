"""What a results folder comes to, shown and filed: used by ``run``, ``compare`` and ``report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iotrial import files
from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.model.finding import Comparison, Finding
from iotrial.model.results import Results
from iotrial.report.words import PRETENDED
from iotrial.units import format_wait

if TYPE_CHECKING:
    from iotrial.report.view import View


def judged(results: Results) -> tuple[Results, Comparison]:
    """The findings, and the results with what their own trials make doubtful (drift) added."""
    if results.study.design.kind == "recorded":
        from iotrial.stats.alone import alone
        from iotrial.stats.opposites import opposites
        from iotrial.stats.paired import judge_recorded

        hidden = tuple(opposites(results))
        comparison = judge_recorded(results, hidden)
        beside = (each.doubt for each in hidden)
        doubts = (*beside, *results.doubts, *alone(results, comparison.findings))
        return replace(results, doubts=doubts), comparison
    if results.study.stages:
        from iotrial.report.staged import judge_stages

        comparison, doubts = judge_stages(results, _judged)
        return replace(results, doubts=(*results.doubts, *doubts)), comparison
    return _judged(results)


def _judged(results: Results) -> tuple[Results, Comparison]:
    """The same of a study without stages, or of one stage."""
    from iotrial.report.warmup import warmup_doubts
    from iotrial.stats.host_effects import host_doubts  # scipy is slow to import
    from iotrial.stats.interactions import interaction_doubts
    from iotrial.stats.judge import judge
    from iotrial.stats.outliers import outlier_doubts
    from iotrial.stats.rank_check import rank_doubts
    from iotrial.stats.summary import drift_doubts
    from iotrial.stats.unequal_noise import noise_doubts
    from iotrial.validity import of_study

    comparison = judge(results)
    hidden = interaction_doubts(
        comparison.interactions, comparison.simple, results.study.decide.margin
    )
    doubts = (
        *results.doubts,
        *host_doubts(results),
        *drift_doubts(results),
        *rank_doubts(results, comparison.findings),
        *noise_doubts(results),
        *outlier_doubts(results),
        *warmup_doubts(results),
        *of_study(results),
        *hidden,
    )
    if results.study.aa:
        from iotrial.report.noise import noise
        from iotrial.report.noise_text import answer
        from iotrial.stats.noise import arm_doubts

        doubts += tuple(arm_doubts(comparison.findings, results.study.decide.confidence))
        comparison = replace(comparison, recommendation=answer(noise(results)))
    return replace(results, doubts=doubts), comparison


def say_noise(output: Output, results: Results) -> dict[str, Any]:
    """Of an A/A study: say the noise floor, and give it back for the document;
    nothing for any other study."""
    from iotrial.report.noise import document, noise
    from iotrial.report.noise_text import noise_text

    if results.study.aa is None:
        return {}
    found = noise(results)
    if results.pretended:
        output.answer(PRETENDED)
    output.answer(noise_text(found))
    return {"noise": document(found)}


def how_to_go_on(results: Results, findings: Sequence[Finding]) -> str:
    """The command that goes on with what cannot be told; empty where there is none."""
    from iotrial.plan.extend import check_extendable, reached, under_way

    more = [f.needs.blocks for f in findings if f.primary and f.needs and f.needs.blocks]
    try:
        if not more or under_way(results):
            return ""
        check_extendable(results)
    except UsageError:
        return ""
    blocks = max(1, max(more) - reached(results))
    pretended = " --pretend" * results.pretended
    seconds = max(f.needs.seconds or 0 for f in findings if f.primary and f.needs)
    wait = format_wait(seconds)
    return f"to go on ({wait}): iotrial run {results.folder} --more-blocks {blocks}{pretended}"


def publish(output: Output, results: Results, **more: Any) -> None:  # noqa: ANN401 (JSON values)
    """Judge, write findings.json and report.html beside the trials, and say the answer."""
    from iotrial.report.text import verdict_table

    seen = filed(output, results, **more)
    output.answer(verdict_table(seen))
    output.note(f"report: {page_of(results)}")
    if hint := how_to_go_on(results, seen.findings):
        output.note(hint)


def filed(output: Output, results: Results, **more: Any) -> View:  # noqa: ANN401 (JSON values)
    """Judge, and write findings.json and report.html beside the trials; what they say."""
    from iotrial.report.document import document  # altair is slow to import
    from iotrial.report.html import html
    from iotrial.report.view import view

    seen = view(*judged(results))
    answer = document(seen)
    files.write_json(results.folder / "findings.json", answer)
    page = page_of(results)
    files.write_text(page, html(seen))
    floor = say_noise(output, results)
    if floor:
        files.write_json(results.folder / "noise.json", floor)
    place = {"results": str(results.folder), "report": str(page)}
    output.document({**answer, **floor, **place, **more})
    return seen


def page_of(results: Results) -> Path:
    return results.folder / "report.html"
