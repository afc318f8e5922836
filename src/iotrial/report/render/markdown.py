"""Blocks as Markdown: for an issue, a merge request or a wiki.  Tables as GitHub reads them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from iotrial.report.blocks import (
    Block,
    BulletList,
    Callout,
    Collapsible,
    Contents,
    Document,
    Figures,
    Heading,
    Picture,
    Piece,
    PrebuiltMarkup,
    Preformatted,
    RowGroup,
    Section,
    Table,
    Text,
    Words,
    of,
    pieces,
)

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~>$]|^[-+=])")
_STRONG = frozenset(
    {"strong", "changed", "worse", "state fail", "state known", "verdict better", "verdict worse"}
)
"""Looks that stand out."""


def markdown(document: Document) -> str:
    """The document.  Evidence that a page folds away is left out."""
    alert = (Text(document.alert, "alert"),) if document.alert else ()
    blocks = (*alert, Heading(document.title, 1), *document.head, *document.sections)
    return "\n".join(line for each in _rendered(blocks) for line in (*each, "")).rstrip() + "\n"


def escape(text: str) -> str:
    """``text`` as it is, whatever it holds: no markup, no link, no mention, one table cell."""
    safe = _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace("://", "&#58;//")


def code(text: str) -> str:
    """``text`` between as many backticks as it needs; fit for a table cell."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence, pad = "`" * (longest + 1), " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def _rendered(blocks: Sequence[Block]) -> Iterator[list[str]]:
    """The lines of each block; between two blocks there is an empty one."""
    callouts: list[str] = []
    for block in of("markdown", blocks):
        if isinstance(block, Callout):  # those that follow one another are one list
            callouts += _lines_of(block)
            continue
        if callouts:
            yield callouts
            callouts = []
        match block:
            case Section():
                heading = (Heading(block.title),) if block.title else ()
                yield from _rendered((*heading, *block.blocks))
            case Figures():
                yield from _rendered(block.beside)
            case Collapsible() | Contents() | PrebuiltMarkup():
                pass
            case _:
                yield _lines_of(block)
    if callouts:
        yield callouts


@functools.singledispatch
def _lines_of(block: object) -> list[str]:
    raise TypeError(f"Markdown cannot say {block!r}")


@_lines_of.register
def _(block: Heading) -> list[str]:
    return [f"{'#' * block.level} {_words(block.words)}"]


@_lines_of.register
def _(block: Text) -> list[str]:
    said = _words(block.words)
    return [f"> **{said}**" if block.look == "alert" else said]


@_lines_of.register
def _(block: BulletList) -> list[str]:
    return [f"- {_words(each)}" for each in block.items]


@_lines_of.register
def _(block: Preformatted) -> list[str]:
    return [f"    {line}" for line in block.text.splitlines()]


def _ended(said: str) -> str:
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _cell(words: Words) -> str:
    """What would begin a list begins none in a table."""
    return re.sub(r"^\\([-+=])", r"\1", _words(words)) or "–"


def _words(words: Words) -> str:
    return "".join(map(_piece, pieces(words)))


def _piece(piece: Piece) -> str:
    if isinstance(piece, Picture):
        return code(piece.text) if piece.text else ""
    if isinstance(piece, str):
        return _lines(piece)
    if piece.look == "code":
        return code(piece.text)
    said = _lines(piece.text)
    if piece.href and not piece.href.startswith("#"):  # headings get anchors of their own
        said = f"[{said}](<{piece.href}>)"
    if piece.look == "small":
        return f"<br>{said}"
    return f"**{said}**" if piece.look in _STRONG and said else said


def _lines(text: str) -> str:
    """Blanks at its ends stay: what stands beside it is another piece."""
    return "<br>".join(map(_kept, text.split("\n")))


def _kept(text: str) -> str:
    bare = text.strip(" ")
    before = text[: len(text) - len(text.lstrip(" "))]
    return f"{before}{escape(bare)}{text[len(before) + len(bare) :]}"


@_lines_of.register
def _(block: Table) -> list[str]:
    marks = {"n": "--:"}
    lines = [
        [_lines(column.name) or _piece(column.scale or "") for column in block.head],
        [marks.get(column.look, "---") for column in block.head],
    ]
    for row in block.rows:
        if isinstance(row, RowGroup):
            said = _words(row.words)
            lines.append([f"**{said}**", *[""] * (len(block.head) - 1)])
        else:
            cells = [_cell(each) for each in row]
            if block.look == "grid":
                cells[0] = f"**{cells[0]}**"
            lines.append(cells)
    if not block.rows and block.empty:
        lines.append([_lines(block.empty), *[""] * (len(block.head) - 1)])
    return ["| " + " | ".join(line) + " |" for line in lines]


@_lines_of.register
def _(block: Callout) -> list[str]:
    tag = f" ({block.tag.lower()})" if block.tag else ""
    said = " ".join(map(_ended, (_words(each.words) for each in block.paragraphs)))
    return [f"- **{_lines(block.name)}**{tag}: {said}"]
