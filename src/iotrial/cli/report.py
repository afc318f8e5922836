"""``iotrial report``: the page, or the same in another shape; the table of all trials; several
folders as one report."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iotrial.called import called
from iotrial.cli.output import Output, common, json_text, write, writing
from iotrial.errors import UsageError
from iotrial.extras import extra
from iotrial.model.results import Results
from iotrial.store import open_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iotrial.report.redact import Redaction
    from iotrial.report.sections import FolderReport
    from iotrial.report.view import ReportView

_ENDS = {
    "html": "html",
    "md": "md",
    "json": "json",
    "csv": "csv",
    "findings": "csv",
    "parquet": "parquet",
    "xlsx": "xlsx",
    "junit": "xml",
    "fio": "fio",
}
"""What a report can be written as, and how its file's name ends."""
_FIGURES = ("svg", "png")
"""As which each figure is written as a file of its own."""
_NAMES = {"findings": "findings.csv"}
"""Files that are not called ``report``."""
_KINDS = {f".{end}": kind for kind, end in _ENDS.items() if kind not in _NAMES}


@click.command()
@click.argument("folder", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice([*_ENDS, *_FIGURES]),
    metavar="KIND",
    help=f"Format: {', '.join([*_ENDS, *_FIGURES])}.  [default: from the suffix of --out, or html]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Output file; - is stdout.  [default: FOLDER/report.KIND; junit: .xml; findings:"
    " findings.csv; svg, png: the folder figures; of several folders: together.KIND in the first]",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Write placeholders for host names, addresses, serial numbers, WWNs and machine ids.",
)
@common
def command(
    output: Output,
    folder: tuple[Path, ...],
    kind: str | None,
    out: Path | None,
    *,
    redact: bool,
) -> None:
    """Write the report of FOLDER: one self-contained page.

    csv and parquet are the table of all trials, findings the table of verdicts (csv writes it too,
    as findings.csv beside the trials); xlsx is a workbook with grids and charts; junit is for a CI
    server; svg and png write each figure as a file.  Several folders, of studies and of checks,
    become one report: environment and packages, functional and stress tests, performance, and
    limits of the results.

    \b
    Example:
      iotrial report results/2026-11-20-scheduler
      iotrial report results/2026-11-20-scheduler --out report.md
      iotrial report results/2026-11-20-scheduler --as json --out - | jq .findings
      iotrial report results/2026-11-20-scheduler --as xlsx
      iotrial report results/2026-11-20-scheduler --as png --out slides
      iotrial report results/arrays results/check-md --out arrays.html
    """
    kind = kind or _KINDS.get(out.suffix if out else "", "html")
    if output.json and str(out) == "-" and kind != "json":
        raise UsageError(
            f"--json is one document on stdout, and --out - would write {kind} there",
            advice="Name a file with --out, or leave --json out.",
        )
    if of_folders := _report_of(folder):
        if redact:
            raise UsageError(
                "--redact is of one study's folder, and these are several folders, or checks",
                advice="Write the report of each study by itself.",
            )
        _report_folders(output, of_folders, folder, kind, out)
        return
    if kind == "fio":
        raise UsageError(
            f"fio is a format for a recorded load, and {folder[0]} holds none",
            advice="A trial's own job file is in its folder, below trials/.",
        )
    results = open_results(folder[0])
    redaction = _redaction(results) if redact else None
    if kind in _FIGURES:
        _figures(output, results, kind, out, redaction)
        return
    content = _content(kind, results, redaction)
    if str(out) == "-":
        _to_stdout(output, kind, content)
        return
    page = out or results.folder / _NAMES.get(kind, f"report.{_ENDS[kind]}")
    made = {page: content}
    if kind == "csv" and not out:
        beside_it = results.folder / _NAMES["findings"]
        made[beside_it] = _content("findings", results, redaction)
    for path, text in made.items():
        data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
        write(path, data, top=None if out else results.folder)
    beside = [str(path) for path in made if path != page]
    output.document({"report": str(page), **({"beside": beside} if beside else {})})
    output.answer("\n".join(map(str, made)))


def _redaction(results: Results) -> Redaction:
    """Also of this machine's own name, which results of it may have in any text."""
    from iotrial.report.redact import Redaction

    return Redaction(results, also=[platform.node(), platform.node().partition(".")[0]])


def _content(kind: str, results: Results, redaction: Redaction | None) -> str | bytes:
    """What is written.  Raises UsageError where something is left that was to be taken out."""
    if redaction is None:
        return _written(kind, results)
    content = _written(kind, redaction.results())
    if isinstance(content, str):
        content = content.replace(called(), "iotrial")  # a path may name who works here
    _nothing_left(content.encode() if isinstance(content, str) else content, redaction)
    return content


def _nothing_left(content: bytes, redaction: Redaction) -> None:
    if left := redaction.left(content):
        raise UsageError(
            f"--redact: {len(left)} of the names and numbers that are to be taken out would still"
            f" be in the report, {left[0]!r} first; nothing is written",
            advice="This is a fault of iotrial: please report how that name was written.",
        )


def _figures(
    output: Output,
    results: Results,
    kind: str,
    out: Path | None,
    redaction: Redaction | None,
) -> None:
    """Write each figure into a folder."""
    from iotrial.judgement import judge
    from iotrial.report.view import view

    if str(out) == "-":
        raise UsageError("figures are files, and stdout is one", advice="Name a folder with --out.")
    with extra("charts", f"report --as {kind}"):
        import_module("vl_convert")
        from iotrial.report.figures import files

        told = redaction.results() if redaction else results
        every = list(files(view(judge(told)), "svg" if kind == "svg" else "png"))
    for name, content in every:
        if redaction:
            _nothing_left(name.encode() + content, redaction)
    place = out or results.folder / "figures"
    if place.exists() and not place.is_dir():
        raise UsageError(
            f"{place} is not a folder, and figures are several files",
            advice="Name a folder with --out.",
        )
    with writing(place, "--out"):
        place.mkdir(parents=True, exist_ok=True)
    for name, content in every:
        write(place / name, content, top=None if out else results.folder)
    paths = [str(place / name) for name, _ in every]
    output.document({"report": str(place), "figures": paths})
    output.answer("\n".join(paths) if paths else "There is nothing to draw yet.")


def _report_of(folders: Sequence[Path]) -> FolderReport | None:
    """The report of several folders, or of one that holds something else than a study."""
    from iotrial.plugins import values

    reports: list[FolderReport] = list(values("reports").values())
    if meant := next((each for each in reports if any(map(each.takes, folders))), None):
        return meant
    if len(folders) == 1:
        return None
    if meant := next((each for each in reports if each.studies), None):
        return meant
    raise UsageError(
        "no report of several folders is installed: the package iotrial_suites is missing",
        advice="Write the report of one folder, or install iotrial with that package.",
    )


def _report_folders(
    output: Output, report: FolderReport, folders: Sequence[Path], kind: str, out: Path | None
) -> None:
    """Write one report of all folders, and the page of each that it leads to."""
    if kind not in report.shapes and not report.studies:
        raise UsageError(
            f"{kind} is a format for a study, and {folders[0]} holds {report.title}",
            advice=f"Formats: {', '.join(report.shapes)}.",
        )
    if kind not in report.shapes:
        raise UsageError(
            f"{kind} is a format for one study; the arguments are several folders, or checks",
            advice=f"Formats for several folders: {', '.join(report.shapes)}; a session of"
            " checks has report.xml (JUnit) and report.tap in its folder.",
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
        advice = "Name a file with --out, or write to a pipe."
        raise UsageError(f"{kind} cannot be written to a terminal", advice=advice)
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
    if kind == "findings":
        from iotrial.report.document import findings_csv

        return findings_csv(judged)
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
