"""A conflict: who else sets on a host what is kept there.  The wing of lint finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wins = Literal["ours", "theirs", "perhaps"]


@dataclass(frozen=True, slots=True)
class Conflict:
    """``what`` is kept and ``who`` (file:line, or a program) sets it too, to ``value`` ('': not
    known); ``wins`` says whose value counts after the next boot, ``advice`` what to do."""

    what: str
    who: str
    value: str
    wins: Wins
    advice: str
