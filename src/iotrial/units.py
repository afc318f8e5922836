"""Bytes, seconds, rates and fractions: parsed and printed only here.

Inside iotrial every quantity is in base units: bytes, seconds, 1/s, bytes/s, a fraction of 1.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

_BYTES = {
    "": 1, "b": 1,
    "k": 2**10, "kb": 10**3, "kib": 2**10,
    "m": 2**20, "mb": 10**6, "mib": 2**20,
    "g": 2**30, "gb": 10**9, "gib": 2**30,
    "t": 2**40, "tb": 10**12, "tib": 2**40,
}  # fmt: skip
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3,
    "nsec": 1e-9, "usec": 1e-6, "msec": 1e-3,
    "": 1.0, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_NUMBER = re.compile(r"\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,2})?)\s*([a-zA-Zµ%/]*)\s*")


@lru_cache(maxsize=1024, typed=True)  # the same few words of a study, for each host and trial
def _split(text: str | float, what: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(str(text))
    if not match:
        raise ValueError(f"{text!r} is not {what}")
    return Fraction(match[1]), match[2]


def parse_bytes(text: str | int) -> int:
    """``"1GiB"``, ``"64k"`` (fio's binary k), ``"1GB"`` (10^9), ``4096`` → bytes.

    Raises ValueError on anything else, and on a negative or fractional number of bytes.
    """
    number, unit = _split(text, 'a size such as "1GiB", "64k" or 4096')
    try:
        size = number * _BYTES[unit.lower()]
    except KeyError:
        raise ValueError(f"{text!r}: unknown unit {unit!r}; use k, M, G, KiB, MiB, GiB") from None
    if not 0 <= size < 2**63 or size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def amount(label: str) -> float | None:
    """What a label counts: ``16`` → 16, ``4k`` → 4096; None for a name."""
    try:
        value = float(label)
    except ValueError:
        try:
            return float(parse_bytes(label))
        except ValueError:
            return None
    return value if math.isfinite(value) else None


def parse_seconds(text: str | float) -> float:
    """``"30m"``, ``"10s"``, ``"250ms"``, ``1.5`` → seconds.  Raises ValueError."""
    number, unit = _split(text, 'a duration such as "10s", "30m" or "250ms"')
    try:
        seconds = float(number) * _SECONDS[unit.lower()]
    except KeyError:
        raise ValueError(f"{text!r}: unknown unit {unit!r}; use ms, s, m, h, d") from None
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{text!r} is not a duration")
    return seconds


def parse_iops(text: str | int) -> int:
    """``500``, ``"8k"`` (8000), ``"1.5M"``, ``"20kIOPS"`` → I/Os per second, a whole number above
    0.  Raises ValueError."""
    number, unit = _split(text, 'a rate such as 500 or "8k" (IOPS)')
    prefix = unit.lower().removesuffix("iops")
    if prefix not in _PREFIXES:
        raise ValueError(f"{text!r}: unknown unit {unit!r}; use k or M, thousands and millions")
    rate = number * _PREFIXES[prefix]
    if not 1 <= rate < 10**9 or rate != int(rate):
        raise ValueError(f"{text!r} is not a whole number of I/Os per second, 1 or more")
    return int(rate)


_PREFIXES = {"": 1, "k": 10**3, "m": 10**6}
_PER = {"/sec": "/s", "/second": "/s", " per s": "/s", " per second": "/s", " per sec": "/s"}
_EVENTS = r"(?:i?ops|tps|(?:1|io|ios|ops|op|req|requests|files?|seeks?|transactions?)?/s)"
_RATE = re.compile(rf"([kKmM]?){_EVENTS}")
_VOLUME = re.compile(r"([kKmMgGtT]?)(i?)(b|B|bytes?|[Bb]ytes?|bit|bits|bp|Bp)(/?s?)")
_TIMES = ("ns", "us", "ms", "s", "nsec", "usec", "msec", "sec", "secs", "second", "seconds", "min")


def parse_unit(text: str) -> tuple[float, str]:
    """What one of a unit is in base units: ``"KiB/s"`` → ``(1024.0, "bytes/s")``, ``"MB/s"`` →
    ``(1e6, "bytes/s")``, ``"kiops"`` → ``(1000.0, "1/s")``, ``"ms"``, ``"%"``; ``""`` → 1.

    ``K/s`` is KiB/s, as bonnie++ and IOzone write it; ``k/s`` is thousands of events.  Raises
    ValueError for what is no unit, and for ``Mb/s``: bits or bytes, nobody knows.
    """
    plain = text.strip().replace("µ", "u").replace("\u03bc", "u")  # micro and mu
    for spelt, meant in _PER.items():
        if plain.lower().endswith(spelt):
            plain = plain[: -len(spelt)] + meant
    if plain.lower() in ("", "fraction", "ratio"):
        return 1.0, plain and "fraction"
    if plain.lower() in ("%", "pct", "percent"):
        return 0.01, "fraction"
    if plain.lower() in _TIMES:
        return _SECONDS[plain.lower()], "s"
    if plain in ("K/s", "KiB"):
        return 1024.0, "bytes/s" if plain == "K/s" else "bytes"
    event = _RATE.fullmatch(plain) or _RATE.fullmatch(plain.lower())
    if event and plain != "M/s":
        return {"": 1.0, "k": 1e3, "m": 1e6}[event[1].lower()], "1/s"
    return _volume(plain, text)


def _volume(plain: str, text: str) -> tuple[float, str]:
    match = _VOLUME.fullmatch(plain)
    if not match or match[4] == "/" or (match[3] in ("bp", "Bp") and match[4] != "s"):
        wanted = "such as KiB/s, MB/s, iops, kiops, us, ms, s, %"
        raise ValueError(f"{text!r} is not a unit {wanted}")
    prefix, binary, what, per = match.groups()
    bits_or_bytes = (what == "b" and not prefix.islower()) or (what == "bp" and prefix.islower())
    if bits_or_bytes and per:
        raise ValueError(
            f"{text!r} is ambiguous (bits or bytes): write {prefix}bit/s or {prefix}B/s"
        )
    size = (1024.0 if binary else 1000.0) ** (" kmgt".index(prefix.lower()) if prefix else 0)
    if what in ("bit", "bits", "bp"):
        size /= 8.0
    return size, "bytes/s" if per else "bytes"


def parse_fraction(text: str | float) -> float:
    """``"2%"`` → 0.02, ``"+10%"`` → 0.1, ``0.02`` → 0.02.  Raises ValueError."""
    number, unit = _split(text, 'a share such as "2%" or 0.02')
    if unit not in ("", "%"):
        raise ValueError(f"{text!r}: unknown unit {unit!r}; use %")
    if not unit and number > 1:
        said = f"{float(number):g}"
        meant = f'write "{said}%" for {said} %'
        raise ValueError(f"{text!r}: a number without % is a fraction; {meant}")
    return float(number / 100 if unit == "%" else number)


def _scaled(value: float, step: float, names: tuple[str, ...], digits: int) -> str:
    index = 0
    while round(abs(value)) >= step and index < len(names) - 1:
        value /= step
        index += 1
    return f"{_short(value, digits)} {names[index]}".rstrip()


def _short(value: float, digits: int) -> str:
    """``digits`` significant digits, never an exponent below 1e15, no trailing zeros lost."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    power = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value
    return f"{value:.{min(max(0, digits - 1 - power), 9)}f}"


def format_bytes(size: float) -> str:
    """1073741824 → ``"1.00 GiB"``; whole bytes stay whole."""
    if abs(size) < 1024:
        return f"{size:.0f} B"
    return _scaled(size, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), 3)


JUST = 0.9995
"""Of a unit: what three digits would round to 1000 of the next smaller one."""


def format_seconds(seconds: float) -> str:
    """0.000123 → ``"123 µs"``; 75 → ``"1m15s"``; 4000 → ``"1h07m"``."""
    size = abs(seconds)
    if size >= 3600:
        return f"{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}m"
    if size >= 60:
        return f"{int(seconds // 60)}m{int(seconds % 60):02d}s"
    for step, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if size >= step * JUST:
            return f"{_short(seconds / step, 3)} {name}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0 s"


def format_wait(seconds: float) -> str:
    """How long something will take, as one would say it: ``"8 s"``, ``"1m15s"``, ``"1h07m"``."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else format_seconds(whole)


def format_value(value: float, unit: str) -> str:
    """A number in base units (``1/s``, ``bytes/s``, ``s``, ``bytes``, ``fraction``) for people;
    of a rate of I/Os the unit is ``IOPS``: 54100 → ``"54.1 kIOPS"``."""
    match unit:
        case "bytes/s":
            return f"{format_bytes(value)}/s"
        case "bytes":
            return format_bytes(value)
        case "s":
            return format_seconds(value)
        case "1/s" | "IOPS":
            what = "/s" if unit == "1/s" else "IOPS"
            said = _scaled(value, 1000.0, (what, f"k{what}", f"M{what}"), 3)
            return said.replace(" /s", "/s")
        case "fraction":
            return f"{value * 100:.1f} %"
    return f"{_short(value, 4)} {unit}".rstrip()


ABSURD = 100
"""Nobody wants to know how many more times: an interval of two trials ends anywhere."""


_ROUND = 1e6  # times from which on only their power says anything


def format_change(ratio: float) -> str:
    """A ratio as a signed change: 0.82 → ``"−18.0 %"`` (a true minus sign); 250 → ``"×250"``."""
    if ratio >= ABSURD:
        return f"×{ratio:,.0f}" if ratio < _ROUND else f"×{ratio:.0e}"
    change = round((ratio - 1) * 100, 1) + 0.0  # what rounds to nothing has no sign of its own
    sign = "−" if change < 0 else "+"
    return f"{sign}{abs(change):.1f} %"


def format_noise(sd: float) -> str:
    """A standard deviation on the log scale as people say it: 0.049 → ``4.9 %``."""
    return f"{sd * 100:.2g} %"


def percent(share: float) -> str:
    """0.95 → ``95 %``, 0.999 → ``99.9 %``."""
    return f"{share * 100:.6g} %"


def axis_scale(largest: float, unit: str) -> tuple[float, str]:
    """``(divisor, name)`` for an axis that reaches ``largest``: divide by the one, write the other.

    2e9 bytes/s → ``(2**30, "GiB/s")``; 81000 IOPS → ``(1000.0, "kIOPS")``; 0.002 s →
    ``(1e-3, "ms")``.
    """
    size = abs(largest)
    match unit:
        case "bytes" | "bytes/s":
            steps = [(2.0 ** (10 * power), f"{name}B") for power, name in _BINARY]
            return _step(size, [(step, name + unit[5:]) for step, name in steps])
        case "s":
            steps = [(3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]
            return _step(size, steps)
        case "1/s" | "IOPS":
            what = "/s" if unit == "1/s" else "IOPS"
            return _step(size, [(1e6, f"M{what}"), (1e3, f"k{what}"), (1.0, what)])
        case "fraction":
            return 0.01, "%"
    return 1.0, unit


_BINARY = ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"), (0, ""))


def _step(size: float, steps: list[tuple[float, str]]) -> tuple[float, str]:
    return next((step for step in steps if size >= step[0]), steps[-1])
