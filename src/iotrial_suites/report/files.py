"""The reports of a session, written into its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from iotrial.files import write_text
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial_suites.report.document import document
from iotrial_suites.report.junit import junit
from iotrial_suites.report.tap import tap
from iotrial_suites.result import Checked

FORMS: Mapping[str, Callable[[Checked], str]] = {
    "report.html": lambda checked: html(document(checked)),
    "report.md": lambda checked: markdown(document(checked)),
    "report.xml": junit,
    "report.tap": tap,
}


def written(checked: Checked, folder: Path) -> tuple[Path, ...]:
    """Write every form; gives back the paths, the page first."""
    paths = []
    for name, form in FORMS.items():
        path = folder / name
        write_text(path, form(checked))
        paths.append(path)
    return tuple(paths)
