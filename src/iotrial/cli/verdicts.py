"""What a results folder comes to, shown and filed: used by ``run``, ``compare`` and ``report``."""

from __future__ import annotations

import json
from typing import Any

from iotrial.cli.output import Output
from iotrial.model.results import Results


def publish(output: Output, results: Results, **more: Any) -> None:  # noqa: ANN401 (JSON values)
    """Judge, write findings.json and report.html beside the trials, and say the answer."""
    from iotrial.report.document import document  # noqa: PLC0415 (scipy and altair are slow)
    from iotrial.report.html import html  # noqa: PLC0415
    from iotrial.report.text import verdict_table  # noqa: PLC0415
    from iotrial.report.view import view  # noqa: PLC0415
    from iotrial.stats.judge import judge  # noqa: PLC0415

    seen = view(results, judge(results))
    answer = document(seen)
    (results.folder / "findings.json").write_text(
        json.dumps(answer, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    page = results.folder / "report.html"
    page.write_text(html(seen), encoding="utf-8")
    output.document({**answer, "results": str(results.folder), "report": str(page), **more})
    output.answer(verdict_table(seen))
    output.note(f"report: {page}")
