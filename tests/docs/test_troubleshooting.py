"""The page of messages quotes what iotrial says: each pattern is in a text of the source."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
ENOUGH = 8
"""Letters of a message, at least, that are no ``…``: fewer would be found anywhere."""


def text(node: ast.AST) -> str:
    """A literal, with ``…`` for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else "…"


@cache
def said() -> str:
    """Every literal of the core and of stores but docstrings, a line each."""
    found: set[str] = set()
    folders = (ROOT / "src/iotrial", ROOT / "src/iotrial_store")
    for file in sorted(path for folder in folders for path in folder.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if id(node) not in docstrings and isinstance(node, ast.JoinedStr | ast.Constant):
                found.add(text(node).replace("\n", " "))
    return "\n".join(found)


@pytest.mark.parametrize("message", [row[0] for row in ROWS])
def test_a_message_is_one_that_iotrial_says(message: str) -> None:
    parts = [part.strip() for part in message.split("…")]
    assert len("".join(parts)) >= ENOUGH
    assert re.search(".*".join(map(re.escape, parts)), said()), message


def test_a_message_that_iotrial_does_not_say_is_seen() -> None:
    with pytest.raises(AssertionError):
        test_a_message_is_one_that_iotrial_says("the disk … is on fire")


def test_every_row_of_the_page_is_looked_at() -> None:
    heads = PAGE.count("| message | cause | what to do |")
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert len(ROWS) == len(lines) - 2 * heads
    assert len({row[0] for row in ROWS}) == len(ROWS) > 50
