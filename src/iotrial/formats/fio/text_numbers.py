"""Numbers as fio's text output prints them: shortened, and each with the span it may stand for.

fio shortens a count to six digits (four since 2.17, option ``significant_figures``) by its
``num2str``, and what that leaves differs between versions:

* without a prefix it is whole and cut off: 912 stands for 912 up to 913;
* with a prefix and no decimals it is rounded (cut off before 1.44);
* with decimals, up to 2.19, the digits after the point are no decimal fraction: they are the
  remainder of the last division, without its leading zeros.  ``1205.5KB`` may be 1205 KiB and 5
  bytes: only the digits before the point can be relied on;
* from 2.20 to 3.25 a fraction that rounds up to one is printed as zero: ``11.0G`` may be 11.99.

Up to 2.16 the prefixes are K, M, G, P, E (there is no T, and P is what others call T), each 1024
where kb_base is 1024, which is the default.  Since 2.17 KiB is 1024 and kB 1000.

Sources: lib/num2str.c and stat.c of fio 1.16 to 3.42, and its commits d694a6a7, 9e55f2c7 and
c736b361.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,9})?"
SIZE = rf"\s*({NUMBER})\s?([kKMGTPE]?)(i?)(B|bit|b)?"
"""Four groups: number, prefix, i, unit."""
_OLD, _NEW = "KMGPE", "KMGTPE"
_PROPER, _MENDED = (2, 20), (3, 26)


@dataclass(frozen=True, slots=True)
class Span:
    """The truth lies from ``low`` to ``high``; ``shown`` is what was printed."""

    low: float
    high: float
    shown: float

    def scaled(self, factor: float) -> Span:
        return Span(self.low * factor, self.high * factor, self.shown * factor)

    def wider(self, more: float) -> Span:
        return Span(self.low - more, self.high + more, self.shown)

    def meets(self, other: Span) -> bool:
        slack = 1e-9 * max(abs(self.high), abs(other.high), 1e-9)
        return self.low <= other.high + slack and other.low <= self.high + slack

    def has(self, value: float) -> bool:
        return self.meets(Span(value, value, value))

    def within(self, other: Span) -> Span:
        """What both allow; they must meet."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        high = max(low, high)
        return Span(low, high, min(max(self.shown, low), high))


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one version of fio spells: ``old`` up to 2.16; ``kilo`` is what its K stands for there
    (1024 or 1000: the text does not say)."""

    old: bool
    version: tuple[int, int] = (0, 0)
    kilo: int = 1024

    def count(self, number: str, prefix: str) -> Span:
        """A count of I/Os, or a time: its prefixes are thousands in every version."""
        return self._span(number, 1000.0 ** self._power(prefix))

    def size(self, found: tuple[str, str, str, str]) -> Span:
        """Bytes, or bytes a second, from the groups of :data:`SIZE`."""
        number, prefix, binary, unit = found
        kilo = 1024 if binary else self.kilo if self.old else 1000
        bits = 8 if unit == "bit" else 1
        return self._span(number, float(kilo) ** self._power(prefix)).scaled(1 / bits)

    def _power(self, prefix: str) -> int:
        return (_OLD if self.old else _NEW).find(prefix.upper()) + 1 if prefix else 0

    def _span(self, number: str, factor: float) -> Span:
        value, digits = float(number), len(number.partition(".")[2])
        if factor <= 1:
            return Span(value, value + 1, value)
        whole = math.floor(value)
        if not digits:
            return Span(value - 0.5, value + (1 if self.old else 0.5), value).scaled(factor)
        if self.old or self.version < _PROPER:
            return Span(whole, whole + 1, value).scaled(factor)
        half = 0.5 * 10.0**-digits
        low, high = value - half, value + half
        if value == whole and self.version < _MENDED:
            high = whole + 1
        return Span(low, high, value).scaled(factor)


def groups(found: re.Match[str], first: int) -> tuple[str, str, str, str]:
    """The four groups of the :data:`SIZE` that begins with group ``first``."""
    a, b, c, d = (found[first + i] or "" for i in range(4))
    return a, b, c, d
