"""elbencho's normal output and its ``--resfile``: tables of phases.

Three layouts: 1.0 to 1.2 name the operation in every row ("time ms", "entries/s"); since 1.3 a
phase's first row names it and ``---`` ends it ("Elapsed ms", since 2.1 "Elapsed time" in words).
Of a mix, "IOPS read" and "IOPS write" are its parts; where the row is plain it is both together.
A file read or written in one block has no IOPS row.  ``COMMAND LINE`` of a resfile gives the
options, which the table has not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from iotrial.errors import FormatError
from iotrial.formats.elbencho.csv_result import share
from iotrial.formats.elbencho.phase import (
    AGAIN,
    BOTH,
    BYTES,
    ENTRIES,
    IOS,
    MIB,
    MIXED_READ,
    WRITTEN,
    Part,
    Phase,
    named,
    whole,
)  # fmt: skip
from iotrial.model.trial import Treatment

TABLE = re.compile(r"^OPERATION\s+RESULT TYPE\s+FIRST DONE\s+LAST DONE\s*$", re.MULTILINE)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ROW = re.compile(r"(?P<name>[A-Z][A-Z0-9_+-]*)?\s+(?P<what>\S.*?)\s*:\s+(?P<rest>\S.*?)\s*")
_STARTS = ("time ms", "Elapsed ms", "Elapsed time")
_THINGS = r"(?:entries|Entries|Dirs|Files|Buckets|Objects|dirs|files|buckets|objects)"
_LABELS = (
    (re.compile(_THINGS + r"/s( read| write| total)?"), ENTRIES, "rates"),
    (re.compile(r"IOPS( read| write| total)?"), IOS, "rates"),
    (re.compile(r"(?:Throughput )?MiB/s( read| write| total)?"), BYTES, "rates"),
    (re.compile(_THINGS + r"(?: (?:total|read|write))?"), ENTRIES, "totals"),
    (re.compile(r"Total " + _THINGS), ENTRIES, "totals"),
    (re.compile(r"I/Os|IOs total|IOs read|IOs write"), IOS, "totals"),
    (re.compile(r"MiB|Total MiB|MiB read|MiB write"), BYTES, "totals"),
)
_OLD_READS = {"Read MiB/s": "MiB/s read", "Read MiB": "MiB read"}  # 1.6 to 1.9
_LATENCY = re.compile(
    r"(?P<of>.+?)(?P<part> wr| rd)? (?P<what>latency(?: us)?|lat us|lat % us|lat %ile)"
)
_TIME = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,2})m)?(?:(\d{1,2})(?:\.(\d{3}))?s)?(?:(\d{1,3})ms)?")
_EDGES = re.compile(r"\[ min=(\S+) avg=(\S+) max=(\S+) \]")
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,2})?)(us|ms|s)?")
_BOUND = re.compile(r"(\d{1,2}(?:\.\d{1,8})?)%<=(\d{1,14}(?:\.\d)?)")
_UNITS = {"us": 1e6, "ms": 1e3, "s": 1.0, None: 1e6}  # in a second
_MICRO = 1e6  # in a second
_TWO = 2
_VALUED = {
    "t": "threads", "threads": "threads", "b": "block", "block": "block", "s": "size",
    "size": "size", "n": "dirs", "dirs": "dirs", "N": "files", "files": "files",
    "iodepth": "iodepth", "randamount": "randamount", "timelimit": "timelimit",
}  # fmt: skip
_SHELL = re.compile(r"[^\n\"']{0,40}?(?:^|[\s/])(elbencho\s+-.*)")
"""A line of a shell, or of its ``set -x``, that starts it; ``--resfile`` says COMMAND LINE."""
_ATTACHED = re.compile(r"-([a-zA-Z])=?(\d{1,18}[kmgtpeKMGTPE]?)")
_SWITCHES = ("direct", "rand", "trunc", "norandalign")


@dataclass(slots=True)
class _Reader:
    """Where the reading is: the phase, and what was said of its run before the table."""

    raw: str
    phase: Phase | None = None
    each: bool = False
    run: tuple[str, ...] = ("", "")
    treatment: Treatment = ()
    seen: set[str] = field(default_factory=set)


def phases_of(text: str, raw: str) -> Iterator[Phase]:
    """Every phase.  Raises FormatError for a row that is not whole."""
    reader = _Reader(raw)
    for at, line in enumerate(_ESCAPE.sub("", text).split("\n"), 1):
        if line.strip() == "---" or TABLE.match(line) or line.startswith("COMMAND LINE: "):
            yield from _done(reader)
            if TABLE.match(line):
                reader.run = (reader.run[0], str(at))
            elif line.startswith("C"):
                reader.treatment = _options(line.partition(": ")[2])
        elif match := _SHELL.match(line):
            yield from _done(reader)
            reader.treatment = _options(match[1])
        elif line.startswith("LABEL: "):
            reader.run = (line[7:], "")
        elif match := _ROW.fullmatch(line):
            yield from _row(reader, match, at)
    if reader.phase is not None and not text.endswith("\n"):
        message = f"{raw}: line {text.count(chr(10)) + 1}: the text ends within a phase"
        raise FormatError(message, advice=AGAIN)
    yield from _done(reader)


def _done(reader: _Reader) -> Iterator[Phase]:
    if reader.phase is not None:
        yield reader.phase
    reader.phase = None


def _row(reader: _Reader, match: re.Match[str], at: int) -> Iterator[Phase]:
    name, what, rest = match["name"], match["what"], match["rest"]
    what = _OLD_READS.get(what, what)
    place = f"{reader.raw}: line {at}"
    if what in _STARTS:
        yield from _done(reader)
        if name is None:
            raise FormatError(f"{place}: a phase without its operation", advice=AGAIN)
        first, last = (_time(word, what, place) for word in _two(rest, place))
        reader.phase = Phase(
            line=at,
            name=named(name, place),
            run=reader.run,
            seconds=last,
            first=first,
            fine=1.0 if what == "Elapsed time" and "h" in rest else 0.001,
            treatment=reader.treatment,
        )
        reader.each, reader.seen = what == "time ms", set()
        return
    if not _is_known(what):
        return
    phase = reader.phase
    if phase is None or name not in ((phase.name,) if reader.each else (None,)):
        raise FormatError(f"{place}: {what!r} stands in no phase", advice=AGAIN)
    if what in reader.seen:
        raise FormatError(f"{place}: {what!r} is there twice in a phase", advice=AGAIN)
    reader.seen.add(what)
    if what == "CPU util %":
        phase.cpu = share(_two(rest, place)[1], place)
    elif latency := _LATENCY.fullmatch(what):
        _latency(phase, latency, rest, place)
    else:
        _counted(phase, what, rest, place)


def _is_known(what: str) -> bool:
    return (
        what == "CPU util %"
        or bool(_LATENCY.fullmatch(what))
        or any(label.fullmatch(what) for label, _, _ in _LABELS)
    )


def _counted(phase: Phase, what: str, rest: str, place: str) -> None:
    first, last = (whole(word, f"{place}: {what}") for word in _two(rest, place))
    for label, kind, where in _LABELS:
        if not label.fullmatch(what):
            continue
        if what.endswith("/s total") or what == "IOPS total":
            return  # the sum of a mix's parts
        unit = MIB if kind == BYTES else 1.0
        part = _part(phase, what, kind)
        amounts = part.rates if where == "rates" else part.totals
        if kind in amounts:
            return  # Dirs/s after Files/s (--dirstats)
        amounts[kind] = last * unit
        if where == "totals":
            part.before[kind] = first * unit
        return


def _part(phase: Phase, what: str, kind: str) -> Part:
    if what.endswith(" read"):
        return phase.part(MIXED_READ)
    mixed = phase.name.startswith(("RWMIX", "MIX-T"))
    plain = mixed and not what.endswith(" write") and kind != ENTRIES
    return phase.part(BOTH if plain else WRITTEN)


def _latency(phase: Phase, match: re.Match[str], rest: str, place: str) -> None:
    kind = IOS if match["of"] == "IO" else ENTRIES
    mixed = phase.name.startswith(("RWMIX", "MIX-T")) and not match["part"] and kind == IOS
    name = MIXED_READ if match["part"] == " rd" else BOTH if mixed else WRITTEN
    found = phase.part(name).latency.setdefault(kind, {})
    if not match["what"].endswith(("% us", "%ile")):
        edges = _EDGES.fullmatch(rest)
        if not edges:
            raise FormatError(f"{place}: no minimum, mean and maximum", advice=AGAIN)
        for quantity, word in zip(("min", "mean", "max"), edges.groups(), strict=True):
            found[quantity] = _span(word, place)
        return
    if "xceeded" in rest:
        return  # longer than its histogram reaches: elbencho knows no percentiles
    bounds = _BOUND.findall(rest)
    if not bounds or rest != f"[ {' '.join(f'{p}%<={bound}' for p, bound in bounds)} ]":
        raise FormatError(f"{place}: {rest[:40]!r} are no percentiles", advice=AGAIN)
    values = [(float(percent), float(bound)) for percent, bound in bounds]
    if values != sorted(values) or sorted(v for _, v in values) != [v for _, v in values]:
        raise FormatError(f"{place}: percentiles out of order", advice=AGAIN)
    found |= {f"p{percent:g}": bound / _MICRO for percent, bound in values}


def _two(rest: str, place: str) -> list[str]:
    words = rest.split()
    if len(words) != _TWO:
        raise FormatError(f"{place}: {len(words)} values; first and last are due", advice=AGAIN)
    return words


def _span(word: str, place: str) -> float:
    match = _SPAN.fullmatch(word)
    if not match:
        raise FormatError(f"{place}: {word[:30]!r} is no latency", advice=AGAIN)
    return float(match[1]) / _UNITS[match[2]]


def _time(word: str, what: str, place: str) -> float:
    """``12ms``, ``1.001s``, ``2m3.456s``, ``3h25m45s``; plain ms in older versions."""
    if what != "Elapsed time":
        return whole(word, f"{place}: {what}") / 1e3
    match = _TIME.fullmatch(word)
    if not match or not any(match.groups()):
        raise FormatError(f"{place}: {word[:30]!r} is no time such as 2m3.456s", advice=AGAIN)
    hours, minutes, seconds, thousandths, milli = (int(each or 0) for each in match.groups())
    return hours * 3600.0 + minutes * 60.0 + seconds + (thousandths + milli) / 1e3


def _options(command: str) -> Treatment:
    """The options that say what the load was; nothing where the line cannot be split."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if (short := _ATTACHED.fullmatch(word)) and short[1] in _VALUED:
            name, equals, value = short[1], "=", short[2]
        if name in _SWITCHES and not equals:
            found[name] = "1"
        elif name in _VALUED and (value or at + 1 < len(words)):
            value = value if equals else words[at + 1]
            if re.fullmatch(r"\d{1,18}[kmgtpeKMGTPE]?", value):
                found[_VALUED[name]] = value
    return tuple(found.items())
