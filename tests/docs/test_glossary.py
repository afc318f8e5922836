"""The glossary is true of the code: the name of every public class is made of its terms."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import iotrial

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
CLASSES: dict[str, Path] = {}
WORD = re.compile(r"[A-Z]+\d*(?=[A-Z][a-z]|$)|[A-Z][a-z]+\d*")
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
GENERAL = PAGE.index("## General words")


PUBLIC = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)


@cache
def files_of_classes() -> dict[str, list[Path]]:
    """Public class → its files.  Read by these tests alone, not by each process that only collects
    them; parsing takes ten times as long, and a class of a module begins a line."""
    found: dict[str, list[Path]] = {}
    for path in sorted(ROOT.glob("src/**/*.py")):
        for name in PUBLIC.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(path.relative_to(ROOT))
    return found


@pytest.fixture(scope="module", autouse=True)
def _classes() -> None:
    CLASSES.update((name, found[-1]) for name, found in files_of_classes().items())


def listed(text: str) -> list[str]:
    """The terms of a part of the page: first columns of its tables, and its paragraph of names."""
    programs = re.search(r"^## Names of programs[^\n]*\n\n([^\n]*)\.$", text, re.MULTILINE)
    rows = [*ROW.findall(text), *([programs[1]] if programs else [])]
    terms = [re.sub("[-/+]", "", each).strip().lower() for row in rows for each in row.split(",")]
    return [each for each in terms if each and each not in {"term", "words"}]


def forms(word: str) -> set[str]:
    return {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}


def missing(words: tuple[str, ...], terms: Iterable[str]) -> list[str]:
    """The words that are in none of the terms; the longest term that fits is taken first."""
    if not words:
        return []
    for length in range(len(words), 0, -1):
        *before, last = words[:length]
        if any(" ".join([*before, form]) in terms for form in forms(last)):
            return missing(words[length:], terms)
    return [words[0], *missing(words[1:], terms)]


def test_the_name_of_a_public_class_is_made_of_terms_of_the_glossary() -> None:
    terms = set(listed(PAGE))
    unknown = {
        f"{name} ({path})": absent
        for name, path in CLASSES.items()
        if (absent := missing(tuple(each.lower() for each in WORD.findall(name)), terms))
    }
    assert not unknown, "enter the term in docs/glossary.md, or take one that is there"


def test_a_name_is_taken_once() -> None:
    places = files_of_classes()
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_a_term_has_one_place_and_a_general_word_a_use() -> None:
    terms = listed(PAGE)
    assert not sorted({each for each in terms if terms.count(each) > 1})
    used = {form for name in CLASSES for each in WORD.findall(name) for form in forms(each.lower())}
    assert not set(listed(PAGE[GENERAL:])) - used


def test_the_nouns_of_the_package_are_terms() -> None:
    assert iotrial.__doc__
    nouns = re.findall(r"^([A-Z][a-z]+)  ", iotrial.__doc__, re.MULTILINE)
    assert len(nouns) > 10
    assert {each.lower() for each in nouns} <= set(listed(PAGE))
