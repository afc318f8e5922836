"""Blocks: what a report is made of before it has a shape.

A section of a report is a function that gives blocks.  A renderer of :mod:`iotrial.report.render`
gives all of them one shape (HTML, Markdown), adds nothing and leaves nothing unsaid; where a shape
has no room for a block, the section says so (:class:`ShapeOnly`).

Text in blocks is fit to look at (:mod:`iotrial.report.words`) and not escaped for any shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

Shape = Literal["html", "markdown"]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Words with a ``look``: ``strong``, ``code``, ``small`` (on a line of its own, less
    important), or words of the style sheet such as ``verdict better``.  ``href`` leads to another
    place ('': it is no link)."""

    text: str
    look: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a page shows and ``text`` says with characters elsewhere ('': nothing)."""

    svg: Markup
    text: str = ""


Piece = str | TextSpan | Picture
Words = Piece | tuple[Piece, ...]
"""A line break in a text begins a new line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """``level`` 2 is a section's; ``id`` names the place on a page ('': nothing leads there)."""

    words: Words
    level: int = 2
    id: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph.  ``look``: ``note`` is less important, ``lead`` more, ``alert`` first of all."""

    words: Words
    look: str = ""


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list."""

    items: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """``look``: ``n`` is a number (on the right), ``k`` is not broken, ``head`` names its row,
    ``strip`` holds pictures, on the scale that ``scale`` draws."""

    name: str
    look: str = ""
    scale: Picture | None = None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A line of a table that says what the rows below it are of."""

    words: Words


Row = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """``about`` says what it holds, to who cannot see it; ``empty`` what stands there without a
    row; ``look``: ``facts`` is as wide as what it holds, ``grid`` numbers in two directions,
    ``stacked`` has each row as lines of its own on a small screen, so that nothing is out of
    sight."""

    head: tuple[Column, ...]
    rows: tuple[Row | RowGroup, ...]
    about: str = ""
    empty: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class Callout:
    """A thing to read before believing the rest: its name, a ``tag`` where it is grave, and what is
    said of it."""

    name: str
    paragraphs: tuple[Text, ...]
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Preformatted:
    """Text as a program or a file has it, line by line."""

    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Collapsible:
    """Evidence that most readers skip: a page shows its ``summary``, and the rest when asked."""

    summary: Words
    blocks: tuple[Block, ...]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn chart: ``kind`` says how much room it wants (``trials``: all the width), ``caption``
    how to read it."""

    kind: str
    svg: Markup
    title: str
    caption: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Charts side by side, with what stands beside them."""

    figures: tuple[Figure, ...]
    beside: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """Links to sections: their ids and short names."""

    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PrebuiltMarkup:
    """What is so long that its section makes the page's markup itself, text by text escaped."""

    markup: Markup


@dataclass(frozen=True, slots=True)
class ShapeOnly:
    """A block for one shape alone."""

    shape: Shape
    block: Block


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that belong together; ``title`` is its heading ('': it has none, and ``about`` says
    what it is)."""

    title: Words
    blocks: tuple[Block, ...]
    id: str = ""
    about: str = ""


Block = (
    Heading | Text | BulletList | Table | Callout | Preformatted | Collapsible | Figures | Contents
    | PrebuiltMarkup | ShapeOnly | Section
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report: its title, what stands above all sections, the sections, and the last line.
    ``alert`` stands before everything; ``name`` is what a window is called that shows it ('': as
    the title); ``sortable``: tables can be sorted by a column; ``searchable``: the rows of its
    first table can be searched."""

    title: str
    head: tuple[Block, ...]
    sections: tuple[Block, ...]
    foot: str = ""
    alert: str = ""
    name: str = ""
    sortable: bool = False
    searchable: bool = False


def pieces(words: Words) -> tuple[Piece, ...]:
    return words if isinstance(words, tuple) else (words,)


def joined(several: Sequence[Words], between: str = ", ") -> Words:
    """All of them, with a text between each two."""
    found: list[Piece] = []
    for each in several:
        found += [*([between] if found else []), *pieces(each)]
    return tuple(found)


def plain(head: Sequence[str], rows: Iterable[Sequence[str]], about: str = "") -> Table:
    """A table of texts."""
    return Table(tuple(map(Column, head)), tuple(map(tuple, rows)), about)


def sentence(text: str) -> str:
    """A phrase with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def of(shape: Shape, blocks: Sequence[Block]) -> Iterator[Block]:
    """Those that a shape has room for."""
    for each in blocks:
        if not isinstance(each, ShapeOnly):
            yield each
        elif each.shape == shape:
            yield each.block
