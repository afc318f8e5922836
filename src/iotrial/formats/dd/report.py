"""The lines of dd's report, in any spelling: counts of records; bytes, seconds and rate.

Words are the locale's and are not read: where the numbers stand, and that they fit each other,
says what they are.  Some locales put words first (``скопировано 512 байт``), some translate the
``s`` of seconds and rates, some use other commas; decimals may be commas.

A rate is rounded, and so are the sizes in parentheses: coreutils count them in thousands (``GB``)
and in 1024 (``GiB``), busybox and toybox in 1024, without a blank before them, or without a B.
coreutils print seconds with six digits, trailing zeros cut (``%g``); uutils with one decimal.

Sources: GNU coreutils ``src/dd.c`` of 4.0 to 9.11 and the translations of 9.1; busybox
``coreutils/dd.c``; toybox ``dd.c``; FreeBSD ``bin/dd/misc.c`` (also macOS, NetBSD, OpenBSD, and
coreutils before 5.3); illumos ``dd.c``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_N = r"[0-9]{1,20}(?:[.,][0-9]{1,12})?(?:[eE][-+]?[0-9]{1,2})?"
_BYTES = r"(?<![0-9.,+=])(?P<bytes>[0-9]{1,25})"
_NOT_SECONDS = r"(?:[munµ]s|ms|min|m|h)\b"
_LETTERS = r"[^\W\d_]"
_COMMA = r"[,，、]"  # noqa: RUF001
_COPIED = re.compile(
    rf"{_BYTES}[^0-9(（,，、]{{1,40}}(?:[(（](?P<human>[^()（）]{{1,60}})[)）])?"  # noqa: RUF001
    rf"[^0-9,，、]{{0,60}}{_COMMA}\s?(?P<seconds>{_N})\s?(?!{_NOT_SECONDS}){_LETTERS}{{1,12}}\.?"  # noqa: RUF001
    rf"{_COMMA}\s?(?P<rate>{_N}|[^\W\d]{{3,24}})(?P<blank>\s?)(?P<unit>[kKMGTPEZYRQ]?i?B?)"
    rf"/(?!{_NOT_SECONDS}){_LETTERS}{{1,8}}(?![\w/])"
)
_TRANSFERRED = re.compile(
    rf"{_BYTES} bytes? transferred in (?P<seconds>{_N}) (?:secs?|seconds?) "
    rf"\((?P<rate>{_N}|inf|nan)(?P<blank>\s?)(?P<unit>bytes|[kKMGTPEZ]?i?B)/sec\)(?P<human>)"
)
_RECORDS = re.compile(r"([^0-9]{0,40})(?<!\+)([0-9]{1,20})\+([0-9]{1,20})(?!\+)([^0-9]{0,60})")
_HUMAN = re.compile(rf"({_N})(\s?)([kKMGTPEZYRQ]i?B?|B|bytes)")
_PREFIXES = "KMGTPEZYRQ"
_SURE = re.compile(r"[^\w\s]*([0-9]+\+[0-9]+ records (in|out))\b")
_LONGEST = 1000  # characters of a line that are looked at


@dataclass(frozen=True, slots=True)
class Report:
    """``seconds``, and what one more in the last digit of it, ``tick``, is worth; ``rate`` in
    bytes/s, infinite where a word stands for it, and its last digit, ``step``.  ``wrong`` says
    which of dd's own numbers do not fit each other, '' none.  ``progress`` if it may be one of
    ``status=progress``: whole seconds, or more digits than a result has."""

    text: str
    bytes: int
    seconds: float
    tick: float
    rate: float
    step: float
    wrong: str
    progress: bool


def report(line: str) -> Report | None:
    """The report in a line, or None."""
    if "/" not in line:
        return None
    found = _COPIED.search(line[:_LONGEST]) or _TRANSFERRED.search(line[:_LONGEST])
    if not found:
        return None
    moved, text = int(found["bytes"]), found["seconds"]
    seconds = number(text)
    decimals = len(re.split(r"[.,]", re.split("[eE]", text)[0] + ".")[1])
    rate, step, bases = _rate(found)
    coreutils = found.re is _COPIED and 1000 in bases and len(bases) == 1  # noqa: PLR2004
    tick = _step(text)
    if coreutils and decimals > 1 and 0 < seconds < math.inf:
        tick = min(tick, 10.0 ** (math.floor(math.log10(seconds)) - 5))
    digits = len(re.sub(r"\D", "", text).lstrip("0"))
    made = Report(
        text=found[0],
        bytes=moved,
        seconds=seconds,
        tick=tick,
        rate=rate,
        step=step,
        wrong="",
        progress=not decimals or decimals == 1 or digits > 6,  # noqa: PLR2004 (%g)
    )
    for wrong in _wrong(made, found["human"] or "", found["unit"], bases):
        return Report(made.text, moved, seconds, tick, rate, step, wrong, progress=made.progress)
    return made


def counts(line: str) -> tuple[int, int, str] | None:
    """Full and partial records, and ``in`` or ``out`` where it is English, else ''."""
    found = _RECORDS.fullmatch(line.strip()) if "+" in line else None
    if not found or not re.search(_LETTERS + "{2}", found[1] + found[4]):
        return None
    sure = _SURE.search(line)
    return int(found[2]), int(found[3]), sure[2] if sure else ""


def number(text: str) -> float:
    return float(text.replace(",", "."))


def _step(text: str) -> float:
    """What one more in the last printed digit is worth: ``2.50`` → 0.01, ``4e-05`` → 1e-05."""
    mantissa, _, exponent = text.replace(",", ".").lower().partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _rate(found: re.Match[str]) -> tuple[float, float, tuple[int, ...]]:
    """The printed rate, its last digit, and what its prefix may count in (likeliest first)."""
    unit = found["unit"]
    bases = _bases(found["blank"], unit)
    if not found["rate"][0].isdecimal():
        return math.inf, math.inf, bases
    scale = bases[0] ** _power(unit)
    return number(found["rate"]) * scale, _step(found["rate"]) * scale, bases


def _bases(blank: str, unit: str) -> tuple[int, ...]:
    """Only coreutils leaves a blank and writes B, and i where it counts in 1024."""
    if "i" in unit:
        return (1024,)
    return (1000,) if blank and unit.endswith("B") else (1024, 1000)


def _power(unit: str) -> int:
    return _PREFIXES.find(unit[0].upper()) + 1 if unit and unit[0].upper() in _PREFIXES else 0


def _wrong(made: Report, human: str, unit: str, bases: tuple[int, ...]) -> Iterator[str]:
    """dd's own numbers against each other, as far as their digits go."""
    if math.isfinite(made.step) and made.bytes and made.seconds:
        power = _power(unit)
        others = [made.rate * (base / bases[0]) ** power for base in bases]
        if not any(_fits(made, each) for each in others):
            found = made.bytes / made.seconds
            yield f"its rate is {made.rate:.4g} bytes/s, its bytes by its seconds {found:.4g}"
    for part in re.split(r",\s", human):
        size = _HUMAN.fullmatch(part.strip())
        if size:
            value, step = number(size[1]), _step(size[1])
            scales = [base ** _power(size[3]) for base in _bases(size[2], size[3])]
            if not any(
                abs(value * each - made.bytes) <= step * each * (1 + 1e-9) for each in scales
            ):
                yield f"{part.strip()!r} is not {made.bytes} bytes"


def _fits(made: Report, rate: float) -> bool:
    least = made.bytes / (made.seconds + made.tick) - made.step
    quickest = made.seconds - made.tick
    most = made.bytes / quickest + made.step if quickest > 0 else math.inf
    return least * (1 - 1e-9) <= rate <= most * (1 + 1e-9)


def elapsed(made: Report) -> float:
    """Seconds, by the rate where that has more digits (uutils say ``0.1 s``)."""
    if not math.isfinite(made.step) or not made.rate or not made.seconds:
        return made.seconds
    exact = abs(made.bytes / made.seconds - made.rate) <= made.step
    return made.seconds if exact else made.bytes / made.rate
