"""The plain install, without the extras: what works, and what says which package it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import openpyxl
import pytest

from absent import without
from iotrial.cli.main import VERBS
from iotrial.extras import PACKAGES, advice

ROOT = Path(__file__).parent.parent.parent
EXTRAS = ("vl_convert", "openpyxl", "pyarrow", "numba", "llvmlite")
TOOLS = ("altair", "narwhals", "jsonschema", "hypothesis", "pytest")
"""What tests and the makers of pages need, and nothing else."""


def plain(
    *arguments: str, folder: Path, code: int = 0, lacking: tuple[str, ...] = EXTRAS
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **without(*lacking, *TOOLS), "IOTRIAL_STATE": str(folder / "state")},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that the plain install has done on a made-up machine."""
    made = tmp_path_factory.mktemp("plain")
    plain("init", "scheduler", "study.toml", folder=made)
    study = made / "study.toml"
    study.write_text(re.sub(r"(?m)^blocks = \d+", "blocks = 2", study.read_text()))
    plain("run", "study.toml", "--pretend", "--out", "done", folder=made)
    return made


def test_every_verb_can_be_asked_for_help_without_extras(tmp_path: Path) -> None:
    asked = (
        "import sys; from iotrial.cli.main import status\n"
        "sys.exit(any(status([verb, '--help']) for verb in sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, *VERBS],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, **without(*EXTRAS)},
    )
    assert done.stdout.count("Usage: iotrial") == len(VERBS)


def test_a_study_is_planned_and_judged_without_extras(folder: Path) -> None:
    plain("plan", "study.toml", "--pretend", folder=folder)
    assert plain("compare", "done", folder=folder).stdout
    for kind in ("html", "md", "json", "csv", "junit"):
        plain("report", "done", "--as", kind, folder=folder)


def test_the_page_without_charts_has_intervals_as_text_and_says_how_to_get_charts(
    folder: Path,
) -> None:
    page = (folder / "done" / "report.html").read_text(encoding="utf-8")
    assert page.count('<pre class="forest"') == 3
    assert re.search(r"^mq-deadline +[├<]─*●", page, re.MULTILINE)
    assert "charts need vl-convert-python" in page
    assert 'class="chart"' not in page


def test_figures_need_the_charts_and_say_so(folder: Path) -> None:
    said = plain("report", "done", "--as", "png", folder=folder, code=2).stderr
    assert "report --as png needs vl-convert-python" in said
    assert "iotrial[charts]" in said


def test_charts_need_that_one_package(folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(folder / "done", tmp_path / "done").parent
    others = tuple(name for name in EXTRAS if name != "vl_convert")
    plain("report", "done", folder=folder, lacking=others)
    page = (folder / "done" / "report.html").read_text(encoding="utf-8")
    assert page.count('class="chart"') > 3
    assert '<pre class="forest"' not in page


@pytest.mark.parametrize(("kind", "package"), [("xlsx", "openpyxl"), ("parquet", "pyarrow")])
def test_what_needs_an_extra_says_how_to_get_it(folder: Path, kind: str, package: str) -> None:
    said = plain("report", "done", "--as", kind, folder=folder, code=2).stderr
    assert f"report --as {kind} needs {package}, which is not installed" in said
    assert f"pipx inject iotrial {package}, or pip install 'iotrial[{kind}]'" in said
    assert "Traceback" not in said


def test_old_results_are_read_without_extras(tmp_path: Path) -> None:
    log = ROOT / "tests" / "data" / "fio-log" / "3.42_clat.1.log"
    plain("import", str(log), "--out", "logs", folder=tmp_path)
    book = openpyxl.Workbook()
    book.active.append(["bandwidth MB/s"])
    book.active.append([512])
    book.save(tmp_path / "book.xlsx")
    said = plain("import", "book.xlsx", "--out", "book", folder=tmp_path, code=2)
    assert "reading a spreadsheet needs openpyxl" in said.stdout + said.stderr


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: {re.split(r"[>=;]", each)[0] for each in asked}
        for name, asked in project["optional-dependencies"].items()
    }
    assert {name: set(held.values()) for name, held in PACKAGES.items()} == {
        name: held for name, held in extras.items() if name in PACKAGES
    }
    assert set(extras) == {*PACKAGES, "fast", "all"}


def test_in_an_environment_of_uv_the_advice_is_uvs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert advice("xlsx") == "pipx inject iotrial openpyxl, or pip install 'iotrial[xlsx]'"
    (tmp_path / "uv-receipt.toml").touch()
    assert advice("xlsx") == f"uv pip install --python {tmp_path} openpyxl"


def test_a_wheel_holds_every_file_of_the_source(tmp_path: Path) -> None:
    """Templates, pages and scripts too: what is installed works away from the checkout."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
    shared = {name for name in names if ".data/data/share/" in name}
    held = names - shared
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == files
    assert "iotrial/execute/settings/guard.sh" in held
    assert len(shared) == len(VERBS) + 4, "a page for iotrial and each verb, three completions"
