"""One cell of a table: a number, perhaps with its unit; a number that was cut off; nothing.

Whether a comma is the decimal mark or groups thousands is decided once for a table, from all its
numbers; where nothing tells, a number such as ``1,234`` is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from iotrial.units import parse_unit

Mark = Literal[".", ",", ""]
"""The decimal mark of a table; '' unknown."""

_MISSING = frozenset(
    ("", "n/a", "na", "nan", "null", "none", "nil", "-", "--", "---", "–", "—", "?", "#n/a", "x",
     "n.a.", "n.a", "not run", "missing", "tbd", "*", "inf", "+inf", "-inf", "infinity",
     "+infinity", "-infinity", "+nan", "-nan", "#div/0!", "#num!", "#value!")
)  # fmt: skip
_TOO_FAST = re.compile(r"\+{3,}")
_BEYOND = re.compile(r"(>=|<=|>|<|≥|≤|⩾|⩽)\s*(.*)")
_BODY = r"[0-9][0-9.,'’_ \u00a0\u2009\u202f]*|[.,][0-9]+"  # blanks may group thousands
_NUMBER = re.compile(rf"([-+−]?)({_BODY})([eE][-+]?[0-9]{{1,3}})?\s*([A-Za-zµ%/][A-Za-zµ0-9/ ]*)?")
_MARKS = r"[.,'’_ \u00a0\u2009\u202f]"
_LONGEST = 60
_GROUP = 3


@dataclass(frozen=True, slots=True)
class CellNumber:
    """``value`` in the cell's own ``unit`` ('' the column's); ``censored`` as in a measurement;
    ``value`` is NaN where the cell only says that it was too much to tell."""

    value: float
    unit: str = ""
    censored: Literal["", "high", "low"] = ""


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no number; ``+++++`` says so too."""
    plain = cell.strip().strip("*`").strip().lower()
    return plain in _MISSING or bool(_TOO_FAST.fullmatch(plain))


def is_nothing(cell: str) -> bool:
    """The same, but for ``+++++``, which says that there was too much."""
    return is_missing(cell) and not _TOO_FAST.fullmatch(_bare(cell))


def number_in(cell: str) -> re.Match[str] | None:
    """The parts of a number, or None: sign, digits with their marks, exponent, unit."""
    plain = _bare(cell)
    beyond = _BEYOND.fullmatch(plain)
    plain = beyond[2] if beyond else plain
    match = _NUMBER.fullmatch(plain) if len(plain) <= _LONGEST else None
    if match is None or (match[4] and not _unit(match[4])):
        return None
    return match


def _unit(text: str) -> bool:
    if text in ("k", "K", "M", "G"):
        return True
    try:
        parse_unit(text)
    except ValueError:
        return False
    return True


def _bare(cell: str) -> str:
    """Without blanks around, and without Markdown's bold and code."""
    return cell.strip().strip("*`").strip()


def decimal_mark(cells: Iterable[str]) -> Mark:
    """The decimal mark that the numbers of a table agree on: '' where none of them tells.

    Raises ValueError with the two cells that contradict each other.
    """
    seen: dict[str, str] = {}
    for cell in cells:
        match = number_in(cell)
        if match and (mark := _tells(match[2].strip())):
            seen.setdefault(mark, cell)
    if len(seen) > 1:
        one, other = seen.values()
        raise ValueError(f"{one!r} and {other!r}: is the comma or the point the decimal mark?")
    return next(iter(seen), "")  # type: ignore[arg-type]


def _tells(body: str) -> str:
    """The decimal mark that this number shows by itself, or ''."""
    points, commas = body.count("."), body.count(",")
    if points and commas:
        return "." if body.rfind(".") > body.rfind(",") else ","
    if not points and not commas:
        return ""
    mark, other = (".", ",") if points else (",", ".")
    whole, _, part = body.partition(mark)
    if points + commas > 1:
        return other  # 1,234,567
    grouped = len(part) == _GROUP and 1 <= len(whole) <= _GROUP and whole[0] != "0"
    return "" if grouped else mark


def parse_number(cell: str, mark: Mark) -> CellNumber | None:
    """The number in a cell, None where it is missing.

    Raises ValueError for what is neither, for a number that may mean two, and for one that is
    below zero or beyond what a float holds.
    """
    plain = _bare(cell)
    if _TOO_FAST.fullmatch(plain):
        return CellNumber(math.nan, censored="high")
    if is_missing(cell):
        return None
    beyond = _BEYOND.fullmatch(plain)
    match = number_in(cell)
    if match is None:
        raise ValueError("is not a number")
    sign, body, exponent, unit = match.groups()
    value = float(_digits(body.strip(), mark) + (exponent or ""))
    if not math.isfinite(value):
        raise ValueError("is beyond any number")
    if sign in ("-", "−") and value:
        raise ValueError("is below zero")
    censored: Literal["", "high", "low"] = ""
    if beyond:
        censored = "high" if beyond[1] in (">", ">=", "≥", "⩾") else "low"
    return CellNumber(value, (unit or "").strip(), censored)


def _digits(body: str, mark: Mark) -> str:
    """The number as Python writes it.  Raises ValueError where groups are no groups of three, and
    where a comma may be either."""
    if not mark and "," in body:
        raise ValueError(
            'may be a thousand times more or less: say decimal = "," or "." with --map'
        )
    whole, point, part = body.partition(mark or ".")
    groups = re.split(_MARKS, whole)
    used = set(re.findall(_MARKS, whole))
    wrong = any(len(group) != _GROUP for group in groups[1:]) or len(groups[0]) > _GROUP
    if len(groups) > 1 and (wrong or len(used) > 1 or not groups[0]):
        raise ValueError("is not a number: its digits are grouped otherwise than by three")
    if part and not part.isdecimal():
        raise ValueError("is not a number: it has two decimal marks")
    return f"{''.join(groups) or '0'}{'.' if point else ''}{part}"
