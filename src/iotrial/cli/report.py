"""``iotrial report``: the page, or the same in another shape; the table of all trials; several
folders as one report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotrial.cli.output import Output, common, json_text, write
from iotrial.errors import UsageError
from iotrial.extras import extra
from iotrial.model.results import Results
from iotrial.store import open_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iotrial.report.folders import FolderReport
    from iotrial.report.view import ReportView

_ENDS = {
    "html": "html",
    "md": "md",
    "json": "json",
    "csv": "csv",
    "parquet": "parquet",
    "xlsx": "xlsx",
    "junit": "xml",
}
"""What a report can be written as, and how its file's name ends."""
_KINDS = {f".{end}": kind for kind, end in _ENDS.items()}


@click.command()
@click.argument("folder", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(list(_ENDS)),
    metavar="KIND",
    help=f"What to write: {', '.join(_ENDS)}.  [default: as --out ends, or html]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to; - is stdout.  [default: FOLDER/report.KIND; junit: .xml; of several folders:"
    " together.KIND in the first]",
)
@common
def command(output: Output, folder: tuple[Path, ...], kind: str | None, out: Path | None) -> None:
    """Write the report of FOLDER: one page that works offline and from an e-mail.

    csv and parquet are the table of all trials; xlsx is a workbook with grids and charts; junit
    is for a CI server.  Several folders, of studies and of checks, become one report: environment
    and packages, functional and stress tests, performance, and what all of it does not show.

    \b
    Example:
      iotrial report results/2026-11-20-scheduler
      iotrial report results/2026-11-20-scheduler --out report.md
      iotrial report results/2026-11-20-scheduler --as json --out - | jq .findings
      iotrial report results/2026-11-20-scheduler --as xlsx
      iotrial report results/arrays results/check-md --out arrays.html
    """
    kind = kind or _KINDS.get(out.suffix if out else "", "html")
    if of_folders := _report_of(folder):
        _report_folders(output, of_folders, folder, kind, out)
        return
    results = open_results(folder[0])
    content = _written(kind, results)
    if str(out) == "-":
        _to_stdout(output, kind, content)
        return
    page = out or results.folder / f"report.{_ENDS[kind]}"
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    write(page, data, top=None if out else results.folder)
    output.document({"report": str(page)})
    output.answer(str(page))


def _report_of(folders: Sequence[Path]) -> FolderReport | None:
    """The report of several folders, or of one that holds something else than a study."""
    from iotrial.plugins import values

    reports: list[FolderReport] = list(values("reports").values())
    if meant := next((each for each in reports if any(map(each.takes, folders))), None):
        return meant
    if len(folders) == 1:
        return None
    if reports:
        return reports[0]
    raise UsageError(
        "no report of several folders is installed: the package iotrial_suites is missing",
        advice="Write the report of one folder, or install iotrial with that package.",
    )


def _report_folders(
    output: Output, report: FolderReport, folders: Sequence[Path], kind: str, out: Path | None
) -> None:
    """Write one report of all folders, and the page of each that it leads to."""
    if kind not in report.shapes:
        raise UsageError(
            f"{kind} is of one study, and these are several folders, or checks",
            advice=f"Together they are written as {', '.join(report.shapes)}; a session of checks"
            " has report.xml (JUnit) and report.tap in its folder.",
        )
    place = out or folders[0] / f"{report.name}.{report.shapes[kind]}"
    base = Path.cwd() if str(place) == "-" else place.absolute().parent
    made = report.written(folders, kind, base)
    for page, text in made.pages.items():
        if text is not None:
            write(page, text.encode("utf-8", "backslashreplace"), top=page.parent)
    if str(place) == "-":
        output.text(made.text)
        return
    write(place, made.text.encode("utf-8", "backslashreplace"), top=None if out else folders[0])
    output.document({"report": str(place), "pages": [str(page) for page in made.pages]})
    output.answer(str(place))


def _to_stdout(output: Output, kind: str, content: str | bytes) -> None:
    if isinstance(content, str):
        output.text(content)
        return
    if sys.stdout.isatty():
        advice = "Name a file with --out, or send it down a pipe."
        raise UsageError(f"{kind} is not for a terminal", advice=advice)
    click.echo(content, nl=False)


def _written(kind: str, results: Results) -> str | bytes:
    """The tables need no judgement; all else does.  Each shape imports what it needs."""
    if kind == "csv":
        from iotrial.report.trials import csv

        return csv(results)
    if kind == "parquet":
        from iotrial.report.trials import parquet

        with extra("parquet", "report --as parquet"):
            return parquet(results)
    from iotrial.judgement import judge
    from iotrial.report.view import view

    judged = judge(results)
    if kind == "json":
        from iotrial.report.document import whole

        return json_text(whole(judged)) + "\n"
    seen = view(judged)
    if kind == "xlsx":
        with extra("xlsx", "report --as xlsx"):
            from iotrial.report.xlsx import xlsx

        return xlsx(seen, judged.results)
    return _shaped(kind, seen)


def _shaped(kind: str, seen: ReportView) -> str:
    if kind == "html":
        from iotrial.report.study import html

        return html(seen)
    if kind == "md":
        from iotrial.report.study import markdown

        return markdown(seen)
    from iotrial.report.junit import junit

    return junit(seen)
