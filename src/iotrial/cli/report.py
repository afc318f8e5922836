"""``iotrial report``: the page, or the same as Markdown or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from iotrial.cli.output import Output, common
from iotrial.cli.verdicts import judged
from iotrial.model.finding import Comparison
from iotrial.model.results import Results
from iotrial.store import open_results


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(["html", "md", "json"]),
    default="html",
    show_default=True,
    help="What to write.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to; - is stdout.  [default: FOLDER/report.KIND]",
)
@common
def command(output: Output, folder: Path, kind: str, out: Path | None) -> None:
    """Write the report of FOLDER: one page that works offline and from an e-mail.

    \b
    Example:
      iotrial report results/2026-11-20-scheduler
      iotrial report results/2026-11-20-scheduler --as md --out report.md
      iotrial report results/2026-11-20-scheduler --as json --out - | jq .findings
    """
    results, comparison = judged(open_results(folder))
    text = _written(kind, results, comparison)
    if str(out) == "-":
        output.text(text)
        return
    page = out or results.folder / f"report.{kind}"
    page.write_text(text, encoding="utf-8")
    output.document({"report": str(page)})
    output.answer(str(page))


def _written(kind: str, results: Results, comparison: Comparison) -> str:
    from iotrial.report.view import view

    seen = view(results, comparison)
    if kind == "html":
        from iotrial.report.html import html

        return html(seen)
    if kind == "md":
        from iotrial.report.markdown import markdown

        return markdown(seen)
    from iotrial.report.document import whole

    return json.dumps(whole(seen, results), ensure_ascii=False, indent=1) + "\n"
