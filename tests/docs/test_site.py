"""The site that ./dev docs makes of these pages is whole, and needs nothing but its folder.

Broken links of the pages are found each time by test_docs.py, without what makes the site."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from browsing import Browser
from public_names import PUBLIC

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [ROOT / "dev", "docs", "--out", out],
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
    )
    if "could not be installed" in done.stderr:
        pytest.skip(f"./dev docs cannot be set up here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stderr
    assert not re.findall(r"(?m)^(?!setup: ).+", done.stderr), done.stderr
    assert done.stdout == f"{out}/index.html\n"
    return out


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    tree = index[index.index('"sidebar-tree"') : index.index('class="main"')]
    listed = set(re.findall(r'href="([^"#]+)"', tree)) | {"README.html"}
    assert listed == {str(page.relative_to(ROOT).with_suffix(".html")) for page in PAGES}
    assert not [name for name in listed if not (site / name).is_file()]
    groups = ["Tutorial", "How-to", "Reference", "Explanation", "Decisions"]
    assert re.findall(r'class="caption-text">([^<]+)<', tree) == groups


def test_the_names_that_are_public_are_on_the_page_for_python(site: Path) -> None:
    python = (site / "docs" / "python.html").read_text("utf-8")
    assert not [name for name in PUBLIC if not re.search(rf'id="iotrial\.[\w.]*\b{name}"', python)]


def test_what_a_page_loads_lies_beside_it(site: Path) -> None:
    loads = re.compile(r'<(?:script|link|img|iframe|source|object)\b[^>]*?\s(?:src|href)="([^"]+)"')
    for page in site.rglob("*.html"):
        named = loads.findall(page.read_text("utf-8"))
        assert len(named) > 5, page
        files = {name.partition("?")[0].partition("#")[0] for name in named}
        assert not [name for name in files if not (page.parent / name).exists()], page
    for style in site.rglob("*.css"):
        assert not re.findall(r"@import|url\((?!['\"]?data:)", style.read_text("utf-8")), style


@pytest.mark.browser
def test_from_a_disk_it_is_searched_and_fits_a_phone(
    site: Path, browser: str, tmp_path: Path
) -> None:
    with Browser(browser, tmp_path / "profile") as found:
        tab = found.tab(390, 844)
        for page in ("index", "docs/knobs", "docs/python", "docs/five-studies", "docs/validity"):
            tab.go(f"file://{site}/{page}.html")
            assert tab.see("document.documentElement.scrollWidth") == 390, page
        background = "getComputedStyle(document.body).backgroundColor"
        light = tab.see(background)
        tab.dark()
        assert tab.see(background) != light
        tab.go(f"file://{site}/search.html?q=nr_requests")
        results = "[...document.querySelectorAll('#search-results li a')].map(a => a.textContent)"
        assert "Knobs" in tab.until(f"({results}).includes('Knobs') && {results}")
        assert not [name for name in tab.requests() if not name.startswith(("file:", "data:"))]
        assert not tab.complaints()


def test_a_broken_link_and_a_page_outside_the_navigation_fail(site: Path, tmp_path: Path) -> None:
    assert site
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "conf.py", tmp_path / "docs")
    for name, text in (
        ("README.md", "# One\n\n[to nowhere](docs/nowhere.md) [no place](docs/README.md#place)"),
        ("docs/README.md", "# Two\n\n## Reference: look\n\n| [Three](three.md) | gone |\n"),
        ("docs/left-out.md", "# Four\n"),
    ):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-m", "sphinx", "-W", "-q", "-c", "docs", ".", "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "docs")},
    )
    assert done.returncode == 1
    for what in ("docs/nowhere", "'place'", "docs/three", "left-out.md"):
        assert what in done.stderr, done.stderr
