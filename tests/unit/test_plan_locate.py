"""The locator of keys in TOML agrees with tomllib on what there is, and where."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.plan.problem import KeyPath, inline, line_of, locate

DATA = Path(__file__).parents[1] / "data" / "studies"

KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=5),
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
SCALARS = st.one_of(
    TEXTS.map(inline),
    st.booleans().map(inline),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from([
        "'a # literal = \" ]'", '"""two\n lines ] # = """', "'''\nraw \\ } '''", '"""q"""""',
        "0x_ff".replace("_", ""), "inf", "1979-05-27 07:32:00", "1979-05-27T07:32:00Z",
        "07:32:00", '"escaped \\" quote"', '""', "''", '""""""', "''''''",
    ]),
)  # fmt: skip
BLANKS = st.sampled_from(["", " ", "\n", '\n  # a comment, with ] and } and " in it\n', "\r\n"])


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    blank = draw(BLANKS)
    comma = draw(st.sampled_from([",", "," + blank]))
    inner = comma.join(blank + item + blank for item in draw(st.lists(items, max_size=3)))
    return f"[{inner}{blank}]"


@st.composite
def inline_tables(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    entries = draw(st.dictionaries(KEYS, items, max_size=3))
    inner = ", ".join(f"{_key(key)} = {value}" for key, value in entries.items())
    return f"{{ {inner} }}"


def _key(name: str) -> str:
    return inline({name: 1}).split(" = ")[0].removeprefix("{ ") if "=" not in name else inline(name)


VALUES = st.recursive(SCALARS, lambda deeper: arrays(deeper) | inline_tables(deeper), max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Root keys, then tables, arrays of tables and dotted keys, with blank lines and comments."""
    lines: list[str] = []

    def pairs() -> None:
        for key, value in draw(st.dictionaries(KEYS, VALUES, max_size=3)).items():
            below = draw(st.sampled_from(["", ".sub", ' . "a.b" . c']))
            before = draw(st.sampled_from(["", "  ", "# note\n"]))
            lines.append(f"{before}{_key(key)}{below} = {value}")

    pairs()
    headers = draw(st.lists(st.lists(KEYS, min_size=1, max_size=3), max_size=4))
    for number, names in enumerate(headers):
        header = ".".join([f"t{number}", *map(_key, names)])
        if draw(st.booleans()):
            lines.append(f"[{header}]  # a table")
            pairs()
        else:
            for _ in range(draw(st.integers(1, 3))):
                lines.append(f"[[ {header} ]]")
                pairs()
                lines.append(f"[{header}.inside]")
                pairs()
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


def paths(value: object, at: KeyPath = ()) -> dict[KeyPath, Any]:
    """Every key path of a parsed document, with its value."""
    found: dict[KeyPath, Any] = {at: value} if at else {}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= paths(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found |= paths(item, (*at, index))
    return found


def assert_agrees(text: str) -> None:
    found, known = locate(text), paths(tomllib.loads(text))
    assert set(found) == set(known)
    for path, span in found.items():
        assert text.count("\n", 0, span.start) + 1 >= span.line >= 1
        if span.end > span.start:
            assert tomllib.loads(f"v = {text[span.start : span.end]}")["v"] == known[path]
        else:
            assert isinstance(known[path], dict | list)


@given(documents())
def test_every_key_that_tomllib_finds_is_located_and_its_span_is_its_value(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a random dotted key may go into a value: not TOML
        return
    assert_agrees(text)


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.toml")), ids=lambda path: path.stem)
def test_study_files_are_located_whole(path: Path) -> None:
    text = path.read_text("utf-8")
    try:
        tomllib.loads(text)
    except ValueError:  # not TOML, or more digits than Python reads
        return
    assert_agrees(text)


TEXT = """\
question = "?"
[targets.disk]
loop = { size = "1GiB" }
[workloads.w]
options.rw = "read"
[factors.f]
levels = [
  "a", # first
  "b",
]
[[exclude]]
f = "a"
[[exclude]]
f = [
 "a",
 "b"]
"""


@pytest.mark.parametrize(("path", "line"), [
    (("question",), 1),
    (("targets",), 2),
    (("targets", "disk", "loop", "size"), 3),
    (("targets", "disk", "loop", "missing"), 3),
    (("workloads", "w", "options", "rw"), 5),
    (("workloads", "w", "tool"), 4),
    (("factors", "f", "levels", 1), 9),
    (("exclude", 0, "f"), 12),
    (("exclude", 1), 13),
    (("exclude", 1, "f", 1), 16),
    (("nowhere",), 0),
])  # fmt: skip
def test_a_line_is_that_of_the_key_or_of_the_table_around_it(path: KeyPath, line: int) -> None:
    assert line_of(locate(TEXT), path) == line


@given(st.recursive(
    TEXTS | st.booleans() | st.integers(-(10**9), 10**9),
    lambda deeper: st.lists(deeper, max_size=3) | st.dictionaries(TEXTS, deeper, max_size=3),
))  # fmt: skip
def test_what_is_written_inline_is_read_back(value: object) -> None:
    assert tomllib.loads(f"v = {inline(value)}")["v"] == value
