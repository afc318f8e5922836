"""Blocks as one HTML page that needs nothing beside it.

Every text is escaped by markupsafe.  Nothing in a page is fetched, and its content security policy
forbids that anything be: only the page's own style sheet and its own script, both named by their
hashes, are let through.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

import iotrial
from iotrial.report import drawing
from iotrial.report.blocks import (
    Block,
    BulletList,
    Callout,
    Collapsible,
    Column,
    Contents,
    Document,
    Figure,
    Figures,
    Heading,
    Picture,
    Piece,
    PrebuiltMarkup,
    Preformatted,
    Row,
    RowGroup,
    Section,
    Table,
    Text,
    Words,
    of,
    pieces,
)

_TAGS = {"strong": "strong", "code": "code", "small": "small"}
_NOTHING = Markup()


def html(document: Document) -> str:
    """The page."""
    style, script = _sheet(), _resource("sort.js") if document.sortable else _NOTHING
    if document.searchable:
        style += _resource("search.css")
        script += _resource("search.js")
    return _template().render(
        name=document.name or document.title,
        title=document.title.replace(" %", "\u00a0%"),
        alert=document.alert,
        head=_blocks(document.head),
        body=_blocks(document.sections),
        foot=document.foot,
        version=iotrial.__version__,
        style=style,
        style_hash=_hashed(style),
        script=script,
        script_hash=_hashed(script),
    )


@functools.cache
def _template() -> Template:
    """What it is given is escaped, and what it misses is an error."""
    found = Environment(
        loader=PackageLoader("iotrial.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return found.get_template("page.html.j2")


def _resource(name: str) -> Markup:
    """A file beside the template, as it is."""
    text = resources.files("iotrial.report").joinpath("templates", name).read_text("utf-8")
    return Markup(text)  # noqa: S704 -- the package's own


def _sheet() -> Markup:
    """The style sheet, and for the dark the exchange of every colour the charts draw with."""
    dark = drawing.dark("svg.chart")
    return _resource("report.css") + Markup(dark)  # noqa: S704 -- the palette is ours


def _hashed(text: str) -> str:
    """A content security policy's name for an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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


@functools.singledispatch
def _block(block: object) -> Markup:
    raise TypeError(f"no page can show {block!r}")


@_block.register
def _(block: Section) -> Markup:
    heading = _block(Heading(block.title)) if block.title else _NOTHING
    about = Markup(' aria-label="{}"').format(block.about) if block.about else _NOTHING
    return Markup("<section{}{}>\n{}\n{}\n</section>").format(
        _place(block.id), about, heading, _blocks(block.blocks)
    )


@_block.register
def _(block: Heading) -> Markup:
    said = _words(block.words)
    return Markup("<h{0}{1}>{2}</h{0}>").format(block.level, _place(block.id), said)


@_block.register
def _(block: Text) -> Markup:
    if block.look == "alert":
        return Markup('<p class="pretended" role="alert">{}</p>').format(_words(block.words))
    return Markup("<p{}>{}</p>").format(_looking(block.look), _words(block.words))


@_block.register
def _(block: BulletList) -> Markup:
    items = (Markup("<li>{}</li>\n").format(_words(each)) for each in block.items)
    return Markup("<ul>\n{}</ul>").format(Markup("").join(items))


@_block.register
def _(block: Preformatted) -> Markup:
    return Markup("<pre{}>{}</pre>").format(_looking(block.look), block.text)


@_block.register
def _(block: Collapsible) -> Markup:
    return Markup("<details{}><summary>{}</summary>\n{}\n</details>").format(
        Markup(" open") if block.open else _NOTHING, _words(block.summary), _blocks(block.blocks)
    )


@_block.register
def _(block: Figures) -> Markup:
    figures = Markup("\n").join(map(_figure, block.figures))
    beside = Markup("<div>\n{}\n</div>").format(_blocks(block.beside))
    return Markup('<div class="figures">\n{}\n{}\n</div>').format(
        figures, beside if block.beside else _NOTHING
    )


@_block.register
def _(block: Contents) -> Markup:
    links = (Markup('<li><a href="#{}">{}</a></li>').format(*each) for each in block.places)
    return Markup('<nav aria-label="In this report"><ul>{}</ul></nav>').format(
        Markup("").join(links)
    )


@_block.register
def _(block: PrebuiltMarkup) -> Markup:
    return block.markup


def _looking(look: str) -> Markup:
    return Markup(' class="{}"').format(look) if look else _NOTHING


def _place(name: str) -> Markup:
    return Markup(' id="{}"').format(name) if name else _NOTHING


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


@_block.register
def _(block: Table) -> Markup:
    heads = Markup("<thead><tr>{}</tr></thead>\n").format(Markup("").join(map(_head, block.head)))
    if not any(column.name for column in block.head):
        heads = _NOTHING
    look = _looking(block.look)
    width = len(block.head)
    bodies = Markup("\n").join(_bodies(block, width))
    return Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0">\n<table{}>\n'
        "{}{}\n</table>\n</div>"
    ).format(block.about, look, heads, bodies)


def _figure(figure: Figure) -> Markup:
    drawn = figure.svg
    if figure.kind == "trials":
        drawn = Markup(
            '<div class="scroll" role="region" aria-label="{}" tabindex="0">{}</div>'
        ).format(figure.title, figure.svg)
    return Markup(
        '<figure class="{}">\n<figcaption>{}<span>{}</span></figcaption>\n{}\n</figure>'
    ).format(figure.kind, figure.title, figure.caption, drawn)


def _head(column: Column) -> Markup:
    if column.look == "strip":
        return Markup('<td class="strip">{}</td>').format(_piece(column.scale or ""))
    look = _looking("n" if column.look == "n" else "")
    return Markup('<th scope="col"{}>{}</th>').format(look, column.name)


def _bodies(block: Table, width: int) -> Iterator[Markup]:
    """Rows by what they are of: a group is not broken over two sheets of paper."""
    if not block.rows:
        yield Markup('<tbody><tr><td colspan="{}">{}</td></tr></tbody>').format(width, block.empty)
        return
    look, rows = _NOTHING, list[Markup]()
    for row in block.rows:
        if isinstance(row, RowGroup):
            if rows:
                yield _body(look, rows)
            look, rows = Markup(' class="group"'), []
            rows.append(
                Markup('<tr><th scope="rowgroup" colspan="{}">{}</th></tr>').format(
                    width, _words(row.words)
                )
            )
        else:
            rows.append(_row(block, row))
    yield _body(look, rows)


def _body(look: Markup, rows: Sequence[Markup]) -> Markup:
    return Markup("<tbody{}>\n{}\n</tbody>").format(look, Markup("\n").join(rows))


def _row(block: Table, row: Row) -> Markup:
    cells = [_cell(column, words) for column, words in zip(block.head, row, strict=True)]
    if block.look == "stacked":
        names = [column.name for column in block.head]
        cells[1:] = map(_named, names[1:], cells[1:])
    return Markup("<tr>{}</tr>").format(Markup("").join(cells))


def _cell(column: Column, words: Words) -> Markup:
    if column.look == "head":
        return Markup('<th scope="row" class="k">{}</th>').format(_words(words))
    return Markup("<td{}>{}</td>").format(_looking(column.look), _words(words))


def _named(name: str, cell: Markup) -> Markup:
    """A cell that says what it holds where no head stands above it."""
    named = Markup('<td data-head="{}"').format(name)
    return cell.replace("<td", named, 1) if name else cell


@_block.register
def _(block: Callout) -> Markup:
    tag = Markup(' <span class="tag">{}</span>').format(block.tag) if block.tag else _NOTHING
    name = Markup("<p><strong>{}</strong>{}</p>").format(block.name, tag)
    said = Markup("\n").join(map(_block, block.paragraphs))
    look = _looking("invalid" if block.tag else "")
    return Markup("<li{}>\n{}\n{}\n</li>").format(look, name, said)
