"""Lines at the bottom of a terminal that are drawn anew again and again.

The cursor waits at the beginning of the first of them: all that is below is erased, whatever a
window of another size made of it in the meantime.  Counting rows upwards from their end leaves some
behind as soon as the window is made narrower, and the terminal folds what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import Segment
from rich.text import Text

_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""A window may be narrower already than it says (tmux says it a quarter of a second later): what
is too wide then is cut and takes one row."""


def can_move(console: Console) -> bool:
    """Whether what ``console`` writes to takes such codes; that colours are asked for by the
    environment makes no terminal of a file."""
    return console.is_terminal and console.file.isatty() and not console.is_dumb_terminal


class Moving:
    """The lines, which are shown until :meth:`end`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: RenderableType | None = None

    def show(self, shown: RenderableType | None) -> None:
        """What is shown from now on, as much of it as the window is high."""
        with self._console:
            self._erase()
            self._shown = shown
            self._draw()

    def end(self) -> None:
        self.show(None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While something else is printed, which stays above."""
        self._erase()
        try:
            yield
        finally:
            with self._console:
                self._draw()

    def _erase(self) -> None:
        if self._shown is not None:
            self._codes(_WRAP + "\r\x1b[J")  # also where an interrupted drawing left it off

    def _draw(self) -> None:
        if self._shown is None:
            return
        console = self._console
        lines = console.render_lines(self._shown, console.options.update(height=None), pad=False)
        room = max(console.height - 1, 1)
        parts = [Text.assemble(*((s.text, s.style or "") for s in each)) for each in lines[:room]]
        self._codes(_NO_WRAP)
        for number, part in enumerate(parts, 1):
            console.print(part, end="\n" * (number < len(parts)), no_wrap=True, overflow="crop")
        self._codes(_WRAP + "\r" + f"\x1b[{len(parts) - 1}A" * (len(parts) > 1))

    def _codes(self, codes: str) -> None:
        control = Control()
        control.segment = Segment(codes, None, [])
        self._console.control(control)
