"""Doubt: what makes a trial less believable, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubt:
    """``check`` is the short name of who doubts (``drift``, ``steady-state``); ``invalid`` means
    that the trial does not count and is queued again.  ``trial`` is its folder, or empty when
    the doubt is about the whole study."""

    check: str
    what: str
    advice: str
    invalid: bool = False
    trial: str = ""
