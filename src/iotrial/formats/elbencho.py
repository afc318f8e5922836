"""elbencho's results: its CSV, its JSON and its text, of 1.0 to 3.1.

One recording a run, with every phase in it by its operation: ``create.rate`` and ``write.bw`` of
WRITE, ``read.rate`` and ``read.bw`` of READ, ``stat.rate`` of STAT, ``delete.rate`` of RMFILES,
``create.dir.rate`` of MKDIRS, ``delete.dir.rate`` of RMDIRS.  ``write.lat.*`` is of an I/O,
``create.lat.*`` of a file written whole, ``read.file.lat.*`` of one read whole.  A mix gives its
reads and writes apart, and ``total.*`` where elbencho counts them together (1.x).  Buckets are
directories here, objects files.  SYNC and DROPCACHE lie between and are left out.

All numbers are those of *last done*: the whole phase, to the end of the slowest thread.  MiB are
2^20 and cut to whole ones, but exact in JSON.  Percentiles are upper bounds ("99%<=724"), so that
the truth is lower.

JSON (``--jsonfile``, 3.0-27 and later): a document a phase, one after the other.  elbencho writes
every number as text ("threads":"4"); plain numbers are read as well, and so are documents on
several lines or in a list, as other programs pass them on.  Bytes are exact here.

Normal output and ``--resfile``: tables of phases, in three layouts.  1.0 to 1.2 name the operation
in every row ("time ms", "entries/s"); since 1.3 a phase's first row names it and ``---`` ends it
("Elapsed ms", since 2.1 "Elapsed time" in words).  Of a mix, "IOPS read" and "IOPS write" are its
parts; where the row is plain it is both together.  A file read or written in one block has no IOPS
row.  ``COMMAND LINE`` of a resfile gives the options, which the table has not.

Sources: Statistics.cpp and ProgArgs.cpp of 1.0 to 3.1; recordings in ``tests/data/elbencho``.
"""

from __future__ import annotations

import json
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats import elbencho_phase, text_of, the_one
from iotrial.formats.elbencho_phase import (
    AGAIN,
    BOTH,
    BYTES,
    ENTRIES,
    IOS,
    MIB,
    MICRO,
    MILLI,
    MIXED_READ,
    WRITTEN,
    Phase,
    PhasePart,
    named,
    recordings,
    share,
    started,
    version_of,
    whole,
)
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Treatment

BEGINS = re.compile(r"^\s*(?:\[\s*)?\{", re.MULTILINE)
"""The first document; what others said may stand before it."""
_BETWEEN = re.compile(r"[\s,\[\]]*")
_OPTIONS = {
    "path_type": "path type", "paths": "paths", "hosts": "hosts", "threads": "threads",
    "dirs": "dirs", "files": "files", "file_size": "size", "block_size": "block",
    "direct_io": "direct", "random_offsets": "rand", "io_depth": "iodepth",
    "truncate_files": "trunc",
}  # fmt: skip
_TRUTH = {"true": "1", "false": "0"}
_RATES = {"entries/s": ENTRIES, "iops": IOS, "bytes/s": BYTES}
_TOTALS = {"entries": ENTRIES, "bytes": BYTES, "ios": IOS}
_BUCKET = re.compile(r"(\d{1,12}(?:\.\d)?)-(\d{1,12}(?:\.\d)?)us")
_PERCENTILES = (50, 75, 90, 99, 99.9, 99.99)


def phases_of_json(text: str, raw: str) -> Iterator[Phase]:
    """Every document.  Raises FormatError with the line."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=str, parse_float=str)
    begins = BEGINS.search(text)
    at = _skip(text, begins.start() if begins else 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            what = getattr(error, "msg", str(error)[:60] or "nested too deeply")
            message = f"{raw}: line {line}: no whole document of elbencho: {what}"
            raise FormatError(message, advice=AGAIN) from None
        place = f"{raw}: line {line}"
        yield _phase(_mapping(document, place), line, place)
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a key that is there twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key occurs twice")
    return record


def _phase(document: dict[str, Any], line: int, place: str) -> Phase:
    config = _under(document, "config", place)
    last = _under(document, "last_done", place)
    first = _under(document, "first_done", place)

    phase = Phase(
        line=line,
        name=named(_text(document, "phase_type", place), f"{place}: phase_type"),
        run=(_text(document, "label", place), _text(config, "command", place)),
        seconds=whole(_text(last, "elapsed_time_ms", place), f"{place}: elapsed_time_ms") / MILLI,
        first=whole(_text(first, "elapsed_time_ms", place), f"{place}: elapsed_time_ms") / MILLI,
        version=version_of(_text(config, "version", place), place),
        started=started(_text(document, "iso_start_date", place), place),
        cpu=share(_text(last, "cpu%", place), place),
        treatment=tuple(
            (option, _option(config, key, place))
            for key, option in _OPTIONS.items()
            if key in config
        ),
    )
    latency = _under(last, "latency", place)
    _part_of_json(phase.part(WRITTEN), last, first, place)
    _latencies(phase.part(WRITTEN), latency, "", place)
    if "rwmix_read" in last:
        mixed = _under(last, "rwmix_read", place)
        _part_of_json(phase.part(MIXED_READ), mixed, _under(first, "rwmix_read", place), place)
        _latencies(phase.part(MIXED_READ), latency, "rwmix_read", place)
    return phase


def _part_of_json(part: PhasePart, last: dict[str, Any], first: dict[str, Any], place: str) -> None:
    part.step = 1.0
    for key, kind in _RATES.items():
        if key in last:
            part.rates[kind] = whole(_text(last, key, place), f"{place}: {key}")
    for key, kind in _TOTALS.items():
        if key in last:
            part.totals[kind] = whole(_text(last, key, place), f"{place}: {key}")
        if key in first:
            part.before[kind] = whole(_text(first, key, place), f"{place}: {key}")


def _latencies(part: PhasePart, latency: dict[str, Any], which: str, place: str) -> None:
    for key, kind in (("entries", ENTRIES), ("IO", IOS)):
        found = _under(latency, key, place)
        histogram = _under(found, "histogram", place)
        found = _under(found, which, place) if which else found
        histogram = _under(histogram, which, place) if which else histogram
        quantities = {
            name: whole(_text(found, said, place), f"{place}: {said}") / MICRO
            for said, name in (("min_us", "min"), ("avg_us", "mean"), ("max_us", "max"))
            if said in found
        }
        if "buckets" in histogram:
            quantities |= _percentiles(histogram["buckets"], f"{place}: histogram")
        if quantities:
            part.latency[kind] = quantities


def _percentiles(buckets: object, place: str) -> dict[str, float]:
    """The upper ends of the buckets that hold them, as elbencho prints them in its text."""
    ends: list[float] = []
    counts: list[int] = []
    for each in buckets if isinstance(buckets, list) else []:
        record = _mapping(each, place)
        match = _BUCKET.fullmatch(_text(record, "range", place))
        if not match or (ends and float(match[2]) <= ends[-1]):
            raise FormatError(f"{place}: no range of latencies, or out of order", advice=AGAIN)
        ends.append(float(match[2]))
        counts.append(int(whole(_text(record, "count", place), f"{place}: count")))
    if not ends or not sum(counts):
        return {}
    below = list(accumulate(counts))
    return {
        f"p{percent:g}": ends[bisect_left(below, below[-1] * percent / 100)] / MICRO
        for percent in _PERCENTILES
    }


def _option(config: dict[str, Any], key: str, place: str) -> str:
    value = _text(config, key, place)
    value = _TRUTH.get(value, value)
    if key != "path_type":
        whole(value, f"{place}: {key}")
    return value


def _mapping(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {str(value)[:30]!r} is not an object", advice=AGAIN)
    return value


def _under(record: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    """What stands under a key; nothing where it is not there, or is the text that an empty one
    is written as."""
    value = record.get(key, "")
    return {} if value == "" else _mapping(value, f"{place}: {key}")


def _text(record: dict[str, Any], key: str, place: str) -> str:
    value = record.get(key, "")
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, str):
        raise FormatError(f"{place}: {key} is {str(value)[:30]!r}", advice=AGAIN)
    return value


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


def phases_of_text(text: str, raw: str) -> Iterator[Phase]:
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
        raise FormatError(f"{place}: {what!r} occurs twice in a phase", advice=AGAIN)
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
        part = _part_of_row(phase, what, kind)
        amounts = part.rates if where == "rates" else part.totals
        if kind in amounts:
            return  # Dirs/s after Files/s (--dirstats)
        amounts[kind] = last * unit
        if where == "totals":
            part.before[kind] = first * unit
        return


def _part_of_row(phase: Phase, what: str, kind: str) -> PhasePart:
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
    found |= {f"p{percent:g}": bound / MICRO for percent, bound in values}


def _two(rest: str, place: str) -> list[str]:
    words = rest.split()
    if len(words) != _TWO:
        raise FormatError(f"{place}: {len(words)} values; first and last are due", advice=AGAIN)
    return words


def _span(word: str, place: str) -> float:
    match = _SPAN.fullmatch(word)
    if not match:
        raise FormatError(f"{place}: {word[:30]!r} is not a latency", advice=AGAIN)
    return float(match[1]) / _UNITS[match[2]]


def _time(word: str, what: str, place: str) -> float:
    """``12ms``, ``1.001s``, ``2m3.456s``, ``3h25m45s``; plain ms in older versions."""
    if what != "Elapsed time":
        return whole(word, f"{place}: {what}") / 1e3
    match = _TIME.fullmatch(word)
    if not match or not any(match.groups()):
        raise FormatError(f"{place}: {word[:30]!r} is not a time such as 2m3.456s", advice=AGAIN)
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


_CSV = re.compile(rb"^[^\n]*\boperation,time ms \[first\],time ms \[last\],", re.MULTILINE)
_LIVE = re.compile(rb"^ISO Date,Label,Phase,RuntimeMS,")
_JSON = re.compile(rb'"phase_type"\s*:')
_JSON_PARTS = re.compile(rb'"(?:first|last)_done"\s*:\s*\{|"iso_start_date"\s*:')
_TABLE = re.compile(rb"^OPERATION +RESULT TYPE +FIRST DONE +LAST DONE", re.MULTILINE)
_START = re.compile(rb"^[A-Z][A-Z0-9_+-]* +(?:Elapsed (?:ms|time)|time ms) +: ", re.MULTILINE)


class ElbenchoFormat:
    """The plugin."""

    name = "elbencho"
    title = "elbencho, CSV, JSON and normal output"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        if _CSV.search(head) or _LIVE.match(head):
            return 3
        if _JSON.search(head) and _JSON_PARTS.search(head):
            return 3
        return (2 if _TABLE.search(head) else 0) + (1 if _START.search(head) else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if _JSON.search(text.encode()) and BEGINS.search(text):
            phases = phases_of_json(text, raw)
        elif elbencho_phase.HEAD.search(text) or _LIVE.match(text.encode()):
            phases = elbencho_phase.phases_of_csv(text, raw)
        else:
            phases = phases_of_text(text, raw)
        found = tuple(recordings(phases, raw))
        if not found:
            message = f"{raw}: no phase of elbencho in {text.count(chr(10)) + 1} lines"
            raise FormatError(message, advice=AGAIN)
        return found


FORMAT = ElbenchoFormat()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The one run in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several."""
    return the_one(FORMAT.read(data, raw), raw, "runs of elbencho")
