"""Blocks as one HTML page that needs nothing beside it.

What all pages have is :mod:`iotrial.report.page`'s.  Every text is escaped by markupsafe.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from jinja2 import Template
from markupsafe import Markup, escape

import iotrial
from iotrial.report.blocks import (
    Block,
    Callout,
    Column,
    Document,
    Fold,
    Group,
    Heading,
    Items,
    Picture,
    Piece,
    Pre,
    Row,
    Section,
    Table,
    Text,
    Words,
    of,
    pieces,
)
from iotrial.report.page import hashed, sheet, templates

_TAGS = {"strong": "strong", "code": "code", "small": "small"}
_NOTHING = Markup()


def html(document: Document) -> str:
    """The page."""
    style = sheet()
    sections = [each for each in document.sections if isinstance(each, Section) and each.short]
    return _template().render(
        title=document.title,
        head=_blocks(document.head),
        sections=[(each.id, each.short) for each in sections],
        body=_blocks(document.sections),
        foot=document.foot,
        version=iotrial.__version__,
        style=style,
        style_hash=hashed(style),
    )


@functools.cache
def _template() -> Template:
    return templates().get_template("page.html.j2")


def _blocks(blocks: Sequence[Block]) -> Markup:
    return Markup("\n").join(_in_turn(blocks))


def _in_turn(blocks: Sequence[Block]) -> Iterator[Markup]:
    """Callouts that follow one another are one list."""
    for callouts, group in itertools.groupby(of("html", blocks), lambda b: isinstance(b, Callout)):
        if callouts:
            yield Markup('<ul class="doubts">\n{}\n</ul>').format(
                Markup("\n").join(map(_block, group))
            )
        else:
            yield from map(_block, group)


def _block(block: Block) -> Markup:  # noqa: PLR0911 (one a kind)
    match block:
        case Section():
            heading = _block(Heading(block.title))
            return Markup("<section{}>\n{}\n{}\n</section>").format(
                _place(block.id), heading, _blocks(block.blocks)
            )
        case Heading():
            said = _words(block.words)
            return Markup("<h{0}{1}>{2}</h{0}>").format(block.level, _place(block.id), said)
        case Text():
            return _text(block)
        case Items():
            items = Markup("").join(
                Markup("<li>{}</li>\n").format(_words(each)) for each in block.items
            )
            return Markup("<ul>\n{}</ul>").format(items)
        case Table():
            return _table(block)
        case Callout():
            return _callout(block)
        case Pre():
            look = Markup(' class="{}"').format(block.look) if block.look else _NOTHING
            return Markup("<pre{}>{}</pre>").format(look, block.text)
        case Fold():
            return Markup("<details{}><summary>{}</summary>\n{}\n</details>").format(
                " open" if block.open else "", _words(block.summary), _blocks(block.blocks)
            )
        case _:
            raise TypeError(f"no page can show {block!r}")


def _place(name: str) -> Markup:
    return Markup(' id="{}"').format(name) if name else _NOTHING


def _text(block: Text) -> Markup:
    if block.look == "alert":
        return Markup('<p class="pretended" role="alert">{}</p>').format(_words(block.words))
    look = Markup(' class="{}"').format(block.look) if block.look else _NOTHING
    return Markup("<p{}>{}</p>").format(look, _words(block.words))


def _words(words: Words) -> Markup:
    return Markup("").join(map(_piece, pieces(words)))


def _piece(piece: Piece) -> Markup:
    if isinstance(piece, Picture):
        return piece.svg
    if isinstance(piece, str):
        return _lines(piece)
    said = _lines(piece.text)
    if piece.href:
        said = Markup('<a href="{}">{}</a>').format(piece.href, said)
    if tag := _TAGS.get(piece.look):
        return Markup("<{0}>{1}</{0}>").format(tag, said)
    return Markup('<span class="{}">{}</span>').format(piece.look, said) if piece.look else said


def _lines(text: str) -> Markup:
    return Markup("<br>").join(map(escape, text.split("\n")))


def _table(block: Table) -> Markup:
    heads = Markup("").join(map(_head, block.head))
    width = len(block.head)
    bodies = Markup("\n").join(_bodies(block, width))
    return Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0">\n<table>\n'
        "<thead><tr>{}</tr></thead>\n{}\n</table>\n</div>"
    ).format(block.about, heads, bodies)


def _head(column: Column) -> Markup:
    if column.look == "strip":
        return Markup('<td class="strip"></td>')
    look = Markup(' class="n"') if column.look == "n" else _NOTHING
    return Markup('<th scope="col"{}>{}</th>').format(look, column.name)


def _bodies(block: Table, width: int) -> Iterator[Markup]:
    """Rows by what they are of: a group is not broken over two sheets of paper."""
    if not block.rows:
        yield Markup('<tbody><tr><td colspan="{}">{}</td></tr></tbody>').format(width, block.empty)
        return
    look, rows = _NOTHING, list[Markup]()
    for row in block.rows:
        if isinstance(row, Group):
            if rows:
                yield _body(look, rows)
            look, rows = Markup(' class="group"'), []
            rows.append(
                Markup('<tr><th scope="rowgroup" colspan="{}">{}</th></tr>').format(
                    width, _words(row.words)
                )
            )
        else:
            rows.append(_row(block.head, row))
    yield _body(look, rows)


def _body(look: Markup, rows: Sequence[Markup]) -> Markup:
    return Markup("<tbody{}>\n{}\n</tbody>").format(look, Markup("\n").join(rows))


def _row(head: Sequence[Column], row: Row) -> Markup:
    cells = (_cell(column, words) for column, words in zip(head, row, strict=True))
    return Markup("<tr>{}</tr>").format(Markup("").join(cells))


def _cell(column: Column, words: Words) -> Markup:
    if column.look == "head":
        return Markup('<th scope="row" class="k">{}</th>').format(_words(words))
    look = Markup(' class="{}"').format(column.look) if column.look else _NOTHING
    return Markup("<td{}>{}</td>").format(look, _words(words))


def _callout(block: Callout) -> Markup:
    tag = Markup(' <span class="tag">{}</span>').format(block.tag) if block.tag else _NOTHING
    name = Markup("<p><strong>{}</strong>{}</p>").format(block.name, tag)
    said = Markup("\n").join(map(_text, block.paragraphs))
    look = Markup(' class="invalid"') if block.tag else _NOTHING
    return Markup("<li{}>\n{}\n{}\n</li>").format(look, name, said)
