"""``iotrial report``: the page, or the same as Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from iotrial.cli.output import Output, common
from iotrial.cli.verdicts import judged
from iotrial.report.view import View
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
    help="Where to.  [default: FOLDER/report.KIND]",
)
@common
def command(output: Output, folder: Path, kind: str, out: Path | None) -> None:
    """Write the report of FOLDER: one page that works offline and from an e-mail.

    \b
    Example:
      iotrial report results/2026-11-20-scheduler
      iotrial report results/2026-11-20-scheduler --as md --out report.md
    """
    from iotrial.report.view import view

    results = open_results(folder)
    page = out or results.folder / f"report.{kind}"
    page.write_text(_writer(kind)(view(*judged(results))), encoding="utf-8")
    output.document({"report": str(page)})
    output.answer(str(page))


def _writer(kind: str) -> Callable[[View], str]:
    if kind == "html":
        from iotrial.report.html import html

        return html
    if kind == "md":
        from iotrial.report.markdown import markdown

        return markdown
    from iotrial.report.document import document

    return lambda seen: json.dumps(document(seen), ensure_ascii=False, indent=1) + "\n"
