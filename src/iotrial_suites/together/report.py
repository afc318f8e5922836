"""One report of several folders, of studies and of checks: what ``iotrial report`` writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from iotrial.cli.output import json_text
from iotrial.errors import UsageError
from iotrial.judgement import Judged, judge
from iotrial.report.folders import FolderReport, Written
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial.report.study import html as page_of
from iotrial.report.view import view
from iotrial.store import open_results
from iotrial_suites.report.files import written as files_of
from iotrial_suites.result import Checked
from iotrial_suites.session.folder import HEADER, checked
from iotrial_suites.together.data import data
from iotrial_suites.together.document import document
from iotrial_suites.together.view import Checks, Study, together


def _written(folders: Sequence[Path], kind: str, base: Path) -> Written:
    """The document, and the page of each folder that it leads to."""
    sessions: list[Checks] = []
    studies: list[Study] = []
    judged: list[tuple[str, Judged]] = []
    pages: dict[Path, str | None] = {}
    for folder in dict.fromkeys(folders):
        name = folder.absolute().name
        at = f"{quote(os.path.relpath(folder.absolute(), base))}/"
        page = folder / "report.html"
        if _takes(folder):
            sessions.append(Checks(name, at, _checks(folder, page)))
            pages[page] = None
            continue
        if folder.is_dir() and not (folder / "plan.jsonl").is_file():
            raise UsageError(
                f"{folder} is neither a study's results nor a session of checks: it has no"
                f" plan.jsonl and no {HEADER}",
                advice="Name folders that `iotrial run` and `iotrial check` printed.",
            )
        of = judge(open_results(folder))
        seen = view(of)
        pages[page] = page_of(seen)
        judged.append((name, of))
        studies.append(Study(name, at, seen))
    all_ = together(sessions, studies)
    if kind == "json":
        return Written(json_text(data(all_, sessions, judged)) + "\n", pages)
    return Written((html if kind == "html" else markdown)(document(all_)), pages)


def _takes(folder: Path) -> bool:
    return (folder / HEADER).is_file()


def _checks(folder: Path, page: Path) -> Checked:
    """A session; its page is written where the session was killed before it was."""
    whole = checked(folder)
    if not page.exists():
        files_of(whole, folder)
    return whole


REPORT = FolderReport(
    "together",
    "functional tests, stress and performance as one page",
    {"html": "html", "md": "md", "json": "json"},
    _takes,
    _written,
)
