"""The page on the five studies says what `import` and `compare` say today.

After a change that is meant, remake it: ``.venv/bin/python docs/five-studies/make.py``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.charts

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT = DOCS / "five-studies" / "make.py"
PAGE = DOCS / "five-studies.md"
PICTURES = sorted((DOCS / "five-studies").glob("*.svg"))
LARGEST = 25_000  # bytes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page and its pictures, made anew."""
    folder = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return folder


def said(picture: Path) -> list[str]:
    """Title and description of a picture."""
    text = picture.read_text("utf-8")
    return re.findall(r"<(?:title|desc) id=[^>]*>([^<]+)<", text)


def test_the_page_is_what_import_and_compare_say(made: Path) -> None:
    assert (made / PAGE.name).read_text("utf-8") == PAGE.read_text("utf-8")


def test_the_pictures_are_those_of_the_numbers(made: Path) -> None:
    """How they are drawn depends on the fonts of a machine; what they say of themselves does
    not."""
    anew = sorted((made / "five-studies").glob("*.svg"))
    assert [each.name for each in anew] == [each.name for each in PICTURES]
    assert [said(each) for each in anew] == [said(each) for each in PICTURES]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_shown_with_words(picture: Path) -> None:
    shown = re.findall(rf"!\[([^\]]+)\]\(five-studies/{picture.name}\)", PAGE.read_text("utf-8"))
    assert len(shown) == 1
    title, words = said(picture)
    assert shown[0].startswith(title)
    assert len(words.split()) > 10
    assert picture.stat().st_size < LARGEST


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_brings_its_own_ground_for_day_and_night(picture: Path) -> None:
    text = picture.read_text("utf-8")
    assert "prefers-color-scheme: dark" in text
    assert '<rect width="100%" height="100%"' in text


@pytest.mark.parametrize(
    "file", sorted((DOCS / "five-studies" / "data").glob("*.toml")), ids=lambda path: path.stem
)
def test_settings_are_keys_and_values_and_named_on_the_page(file: Path) -> None:
    assert tomllib.loads(file.read_text("utf-8"))
    assert f"five-studies/data/{file.name}" in PAGE.read_text("utf-8")


def test_what_the_page_is_known_for() -> None:
    """If the script lost these, the page would still equal what it makes."""
    page = PAGE.read_text("utf-8")
    for line in (
        "| depth 256 for 30, 8 volumes | −0.31 % |",
        "| **wins, losses, undecided** | – | **1, 8, 3** | **2, 6, 4** | **4, 4, 4** |",
        "88,914 in one table and 98,914 KiB/s",
        "4,833 I/Os were in flight; at most 3,200 are possible",
        "17 of 48 values are `+++++`",
        "9 percentiles are 16,712 ms",
    ):
        assert line in page
