"""What ``report`` does with several folders, or with one of checks: one report of all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from iotrial.cli.output import Output, json_text
from iotrial.cli.writing import write, writing
from iotrial.errors import UsageError
from iotrial.execute.checking.folder import HEADER, checked
from iotrial.judgement import Judged, judge
from iotrial.model.checked import Checked
from iotrial.report.checked.files import written
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial.report.study import html as page_of
from iotrial.report.together.data import data
from iotrial.report.together.document import document
from iotrial.report.together.view import Checks, Study, together
from iotrial.report.view import view
from iotrial.store import open_results

SHAPES = {"html": "html", "md": "md", "json": "json"}
"""What it can be written as, and how its file's name ends."""


def report_together(output: Output, folders: Sequence[Path], kind: str, out: Path | None) -> None:
    """Write one report of all folders, and the page of each that it leads to."""
    if kind not in SHAPES:
        raise UsageError(
            f"{kind} is of one study, and these are several folders, or checks",
            advice=f"Together they are written as {', '.join(SHAPES)}; a session of checks has"
            " report.xml (JUnit) and report.tap in its folder.",
        )
    place = out or folders[0] / f"together.{SHAPES[kind]}"
    base = Path.cwd() if str(place) == "-" else place.absolute().parent
    sessions: list[Checks] = []
    studies: list[Study] = []
    judged: list[tuple[str, Judged]] = []
    pages: list[Path] = []
    for folder in dict.fromkeys(folders):
        name = folder.absolute().name
        at = f"{quote(os.path.relpath(folder.absolute(), base))}/"
        if (folder / HEADER).is_file():
            whole, page = _checks(folder)
            sessions.append(Checks(name, at, whole))
        else:
            if folder.is_dir() and not (folder / "plan.jsonl").is_file():
                raise UsageError(
                    f"{folder} is neither a study's results nor a session of checks: it has no"
                    f" plan.jsonl and no {HEADER}",
                    advice="Name folders that `iotrial run` and `iotrial check` printed.",
                )
            of = judge(open_results(folder))
            seen, page = view(of), folder / "report.html"
            write(page, page_of(seen).encode("utf-8", "backslashreplace"), top=folder)
            judged.append((name, of))
            studies.append(Study(name, at, seen))
        pages.append(page)
    all_ = together(sessions, studies)
    if kind == "json":
        text = json_text(data(all_, sessions, judged)) + "\n"
    else:
        text = (html if kind == "html" else markdown)(document(all_))
    if str(place) == "-":
        output.text(text)
        return
    write(place, text.encode("utf-8", "backslashreplace"), top=None if out else folders[0])
    output.document({"report": str(place), "pages": [str(page) for page in pages]})
    output.answer(str(place))


def _checks(folder: Path) -> tuple[Checked, Path]:
    """A session and its page, which is written where the session was killed before it was."""
    whole, page = checked(folder), folder / "report.html"
    if not page.exists():
        with writing(page):
            written(whole, folder)
    return whole, page
