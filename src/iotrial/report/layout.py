"""Lines and tables that fit a window without breaking a word.

A word that is longer than the window stays whole: the terminal continues it, and what is copied
from there is one word.  In a pipe, which has no width, nothing is folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

HANG = 2
"""What continues a line is indented by so much more than its beginning."""
_PROSE = 20
"""A column of prose is not made narrower: its rows stand upright instead."""
_NOTHING = ("", "–")
"""Cells that are left out of a row that stands upright."""
_AMPLE = 45
_TALL = 3
"""Nor is one that has less than ample room made taller than so many lines."""
_UNIT = r"(?:%|[mµ]?s|[kM]?/s|(?:[KMGTP]i)?B(?:/s)?)"
_WORD = re.compile(rf"(?:(?<=\d) (?={_UNIT}(?!\w))|\S)+\s*")
"""A number and its unit are one."""


def folded(text: str | Text, width: int, *, hang: int = HANG, mark: str = "") -> Text:
    """``text`` in lines of at most ``width`` cells, broken between words only; ``mark`` ends a line
    that goes on."""
    whole = text if isinstance(text, Text) else Text(text)
    lines = whole.split("\n", allow_blank=True)
    return Text("\n").join(part for line in lines for part in _parts(line, width, hang, mark))


def _parts(line: Text, width: int, hang: int, mark: str) -> Iterator[Text]:
    plain = line.plain
    if cell_len(plain) <= width:
        yield line
        return
    indent = len(plain) - len(plain.lstrip())
    pad = " " * min(indent + hang, width // 2)
    breaks: list[int] = []
    used = indent
    for word in _WORD.finditer(plain, indent):
        long = cell_len(word[0].rstrip()) + (cell_len(mark) if word.end() < len(plain) else 0)
        if used + long > width and word.start() > indent:
            breaks.append(word.start())
            used = len(pad)
        used += cell_len(word[0])
    parts = line.divide(breaks)
    for number, part in enumerate(parts):
        part.rstrip()
        shown = Text(pad) + part if number else part
        yield shown + mark if mark and number < len(breaks) else shown


def cut(text: str, width: int) -> str:
    """As many whole words of ``text`` as ``width`` has room for, and ``…`` where there are more.
    A word that is too long by itself is cut."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for word in _WORD.finditer(text):
        if cell_len(kept + word[0].rstrip()) + 2 > width:
            break
        kept += word[0]
    if kept:
        return f"{kept.rstrip()} …"
    return text[: max(width - 1, 0)] + "…"


class TextLine:
    """A paragraph: what continues it is indented."""

    def __init__(self, text: str | Text, indent: int = 0, *, style: str = "") -> None:
        self._text = Text(" " * indent, style=style) + text
        self._hang = 0 if indent else HANG

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        found = folded(self._text, options.max_width, hang=self._hang)
        found.no_wrap, found.overflow = True, "ignore"
        yield found


def paragraphs(found: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """Every text among ``found`` as a :class:`TextLine`."""
    for each in found:
        yield TextLine(each) if isinstance(each, Text) else each


class TextTable(Table):
    """A table whose columns are as narrow as the window needs, and never narrower than a word.
    Where that is too wide, each row stands upright: its first cell, then the others by name."""

    def __init__(self, *heads: str, ruled: bool = False, **options: Any) -> None:  # noqa: ANN401 (what a Table takes)
        options.setdefault("show_header", bool(heads))
        super().__init__(
            *heads,
            box=box.SIMPLE_HEAD if ruled else None,
            padding=(0, 1),
            pad_edge=False,
            show_edge=False,
            **options,
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console
        return Measurement(options.max_width, options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._upright(options.max_width)
            return
        yield self._folded(widths)

    def _folded(self, widths: Sequence[int]) -> Table:
        """The same, each cell folded: Rich would part a number from its unit."""
        table = Table(
            box=self.box,
            padding=(0, 1),
            pad_edge=False,
            show_edge=False,
            show_header=self.show_header,
            header_style=self.header_style,
        )
        for column, width in zip(self.columns, widths, strict=True):
            head = folded(_text(column.header), width, hang=0)
            table.add_column(
                head, justify=column.justify, style=column.style, width=width, no_wrap=True
            )
        columns = [list(column.cells) for column in self.columns]
        for row, cells in zip(self.rows, zip(*columns, strict=True), strict=True):
            texts = map(_text, cells)
            shown = (folded(text, width, hang=0) for text, width in zip(texts, widths, strict=True))
            table.add_row(*shown, style=row.style)
        return table

    def _widths(self, room: int) -> list[int] | None:
        gap = 3 if self.box else 2
        room -= gap * (len(self.columns) - 1)
        most, least = [], []
        for column in self.columns:
            cells = _lines(column.cells)
            lines = [*_lines([column.header] if self.show_header else []), *cells]
            longest = max([*map(cell_len, lines), column.min_width or 0])
            words = (word[0].rstrip() for line in lines for word in _WORD.finditer(line))
            prose = min(max(map(cell_len, cells), default=0), _PROSE)
            most.append(longest)
            least.append(longest if column.no_wrap else max([prose, *map(cell_len, words)]))
        if sum(least) > room:
            return None
        widths = list(most)
        while sum(widths) > room:
            wide = max((w, i) for i, w in enumerate(widths) if w > least[i])[1]
            widths[wide] -= 1
        tall = any(w < _AMPLE and m > _TALL * w for w, m in zip(widths, most, strict=True))
        return None if tall else widths

    def _upright(self, width: int) -> Iterator[Text]:
        columns = [list(map(_text, column.cells)) for column in self.columns]
        heads = [_text(column.header).plain if self.show_header else "" for column in self.columns]
        for number, cells in enumerate(zip(*columns, strict=True)):
            named = [
                Text.assemble((f"{head}: ", "dim"), cell) if head and at else cell
                for at, (head, cell) in enumerate(zip(heads, cells, strict=True))
                if cell.plain.strip() not in _NOTHING
            ]
            found = _packed(named, width)
            found.no_wrap, found.overflow = True, "ignore"
            found.stylize(self.rows[number].style or "")
            yield found


def _lines(cells: Iterable[Any]) -> list[str]:
    return [line for cell in cells for line in _text(cell).plain.split("\n")]


def _text(cell: Any) -> Text:  # noqa: ANN401 (what rich takes for a cell)
    return cell if isinstance(cell, Text) else Text(str(cell))


def _packed(cells: Sequence[Text], width: int) -> Text:
    """Cells beside each other, as many as a line has room for, the rest indented below."""
    lines = [Text()]
    for cell in cells:
        last = lines[-1]
        gap = "  " if last.plain.strip() else ""
        if gap and cell_len(last.plain) + 2 + cell_len(cell.plain) > width:
            lines.append(Text(" " * HANG) + cell)
        else:
            lines[-1] = last + gap + cell
    return Text("\n").join(folded(line, width) for line in lines)
