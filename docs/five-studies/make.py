"""Make docs/five-studies.md and its pictures: ``python docs/five-studies/make.py``.

The numbers are those of ``iotrial import`` and ``iotrial compare`` on the files in ``data``, in
this process; the words are those of ``page.md.j2``.  Made twice it is the same.  An argument is the
folder to write below, instead of ``docs``.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from iotrial.model.finding import Finding
from iotrial.report import words
from iotrial.report.render.markdown import escape

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bonnie import bonnie  # noqa: E402
from clustermd import clustermd  # noqa: E402
from panasas import panasas  # noqa: E402
from pictures import Picture  # noqa: E402
from redhawk import redhawk  # noqa: E402
from source import imported  # noqa: E402
from violin import violin  # noqa: E402

PAGE = "five-studies.md"
REMAKE = ".venv/bin/python docs/five-studies/make.py"
LABEL = "scheduler=cfq,deadline,anticipatory,noop"


def percent(ratio: float, digits: int = 1) -> str:
    """A ratio as a change: 0.9969 → ``−0.31 %``."""
    change = (ratio - 1) * 100
    return f"{'−' if change < 0 else '+'}{abs(change):.{digits}f} %"


def interval(finding: Finding, digits: int = 1) -> str:
    """The ends of an interval, or why there is none."""
    if finding.low is None or finding.high is None:
        return words.interval(finding)
    return f"{percent(finding.low, digits)[:-2]} … {percent(finding.high, digits)[:-2]}"


def change(finding: Finding) -> str:
    """One run against one: its ratio, a bound, or nothing."""
    if math.isnan(finding.ratio):
        return "–"
    at = {"": "", "high": "≥ ", "low": "≤ "}[finding.bound]
    return at + percent(finding.ratio)


def made() -> tuple[str, list[Picture]]:
    """The page and its pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        studies = {
            "redhawk": imported(folder, "redhawk"),
            "violin": imported(folder, "violin"),
            "bonnie": imported(folder, "bonnie", "--label", LABEL),
            "fio": imported(folder, "cluster-md-fio"),
            "dd": imported(folder, "cluster-md-dd"),
        }
    values = {
        "redhawk": dict(redhawk(studies["redhawk"])),
        "violin": dict(violin(studies["violin"])),
        "bonnie": dict(bonnie(studies["bonnie"])),
        "clustermd": dict(clustermd(studies["fio"], studies["dd"])),
        "panasas": dict(panasas()),
    }
    environment = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (Markdown)
    )
    environment.filters["change"] = change
    environment.globals.update(
        studies=studies, percent=percent, interval=interval, escape=escape,
        verdicts=words.VERDICTS, label=LABEL, remake=REMAKE,
    )  # fmt: skip
    text = environment.get_template("page.md.j2").render(values)
    return text, [p for each in values.values() for p in each["pictures"].values()]


def main(docs: Path) -> None:
    """Write both below ``docs``."""
    text, drawn = made()
    pictures = docs / HERE.name
    pictures.mkdir(exist_ok=True)
    (docs / PAGE).write_text(text, encoding="utf-8")
    for each in drawn:
        each.write(pictures)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent)
