"""What a results folder comes to, shown and filed: used by ``run``, ``compare`` and ``report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iotrial import files
from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.report.words import PRETENDED
from iotrial.units import format_wait

if TYPE_CHECKING:
    from iotrial.judgement import Judged
    from iotrial.report.view import ReportView


def say_noise(output: Output, judged: Judged) -> dict[str, Any]:
    """Of an A/A study: say the noise floor, and give it back for the document;
    nothing for any other study."""
    from iotrial.judgement.noise import document
    from iotrial.report.noise_text import noise_text

    if judged.results.study.aa is None:
        return {}
    if judged.results.pretended:
        output.answer(PRETENDED)
    output.answer(noise_text(judged.noise))
    return {"noise": document(judged.noise)}


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
    command = f"iotrial run {results.folder} --more-blocks {blocks}{pretended}"
    return f"to decide what is open ({wait}): {command}"


def publish(output: Output, results: Results, **more: Any) -> None:  # noqa: ANN401 (JSON values)
    """Judge, write findings.json and report.html beside the trials, and say the answer."""
    from iotrial.report.text import verdict_table

    seen = filed(output, results, **more)
    output.answer(verdict_table(seen))
    output.note(f"report: {page_of(results)}")
    if hint := how_to_go_on(results, seen.findings):
        output.note(hint)


def filed(output: Output, results: Results, **more: Any) -> ReportView:  # noqa: ANN401 (JSON values)
    """Judge, and write findings.json and report.html beside the trials; what they say."""
    from iotrial.judgement import judge  # scipy is slow to import
    from iotrial.report.document import document
    from iotrial.report.study import html
    from iotrial.report.view import view

    judged = judge(results)
    answer = document(judged)
    files.write_json(results.folder / "findings.json", answer)
    seen, page = view(judged), page_of(results)
    files.write_text(page, html(seen))
    floor = say_noise(output, judged)
    if floor:
        files.write_json(results.folder / "noise.json", floor)
    place = {"results": str(results.folder), "report": str(page)}
    output.document({**answer, **floor, **place, **more})
    return seen


def page_of(results: Results) -> Path:
    return results.folder / "report.html"
