"""Colours of charts: what they are on white paper, and on a dark screen.

One SVG serves both.  It is drawn in the light colours, each with one meaning only, so that a
style sheet can exchange them by attribute (``svg [fill="#0b63a5"] {fill: …}``); without the
style sheet, and on paper, it stays right.  Levels differ in shape as well as in colour.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colour:
    """``light`` on a white ground and ``dark`` on a near-black one, as ``#rrggbb``."""

    light: str
    dark: str


INK = Colour("#1b2027", "#e6e9ed")
MUTED = Colour("#5a6472", "#a3acb8")
LINE = Colour("#c9ced6", "#454d58")
GRID = Colour("#e8ebef", "#2b313a")
BAND = Colour("#dfe6ee", "#2c3846")
PAPER = Colour("#ffffff", "#14181d")

BETTER = Colour("#0a6b8f", "#56b9e0")
WORSE = Colour("#b8460b", "#ff9a57")
SAME = Colour("#4b5563", "#c2c9d2")
UNSURE = Colour("#7a6f9b", "#b9addf")

BASELINE = Colour("#3f4854", "#d5dae0")
SERIES = (
    Colour("#0b63a5", "#5aaef0"),
    Colour("#d1570a", "#ff9250"),
    Colour("#0b8a68", "#3ccba0"),
    Colour("#a8478f", "#e691cf"),
    Colour("#8f7200", "#e3c34d"),
    Colour("#1995ad", "#72d5ea"),
    Colour("#7a4a2a", "#d7a27f"),
)
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right",
    "triangle-left",
)  # fmt: skip

CHART_COLOURS = (
    INK, MUTED, LINE, GRID, BAND, PAPER, BETTER, WORSE, SAME, UNSURE, BASELINE, *SERIES,
)  # fmt: skip


def of_group(place: int) -> tuple[Colour, str]:
    """Colour and shape of the group at ``place``; the first is the baseline's.  They repeat
    beyond the eighth."""
    colours = (BASELINE, *SERIES)
    return colours[place % len(colours)], SHAPES[place % len(SHAPES)]


def dark(below: str) -> str:
    """A style sheet that exchanges, on a dark screen, every colour of what is ``below`` a
    selector."""
    swaps = "\n".join(
        f'{below} [{what}="{colour.light}"] {{ {what}: {colour.dark}; }}'
        for colour in CHART_COLOURS
        for what in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme: dark) {{\n{swaps}\n}}\n"
