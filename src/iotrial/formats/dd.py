"""What dd prints when it ends, in any of its spellings, one run after another.

The numbers in a line must fit each other, and the bytes the records: else something was changed
after dd wrote it, and that is an error.  iotrial divides bytes by seconds; the rate dd prints is
rounded.

A dd asked for a report (SIGUSR1, SIGINFO) prints the same lines in between, and nothing tells
them from those of a run of its own.  Reports that follow each other with no other line between,
and grow in bytes and in seconds, are taken as one run's, and this is said.  A line of bytes without
records before it is a run, too (``dd … 2>&1 | tail -1``), or its progress.

What a run did is said by the command line above it.  It holds for the next report; in a loop, for
all until another command.  Records without a line of bytes (old and other dd's, ``status=noxfer``)
have no time: such a run is named, and left out.  dd exits 0 in all cases that are doubted here.

Words are the locale's and are not read: where the numbers stand, and that they fit each other,
says what they are.  Some locales put words first (``скопировано 512 байт``), some translate the
``s`` of seconds and rates, some use other commas; decimals may be commas.

A rate is rounded, and so are the sizes in parentheses: coreutils count them in thousands (``GB``)
and in 1024 (``GiB``), busybox and toybox in 1024, without a blank before them, or without a B.
coreutils print seconds with six digits, trailing zeros cut (``%g``); uutils with one decimal.

Sources: GNU coreutils ``src/dd.c`` of 4.0 to 9.11 and the translations of 9.1; busybox
``coreutils/dd.c``; toybox ``dd.c``; FreeBSD ``bin/dd/misc.c`` (also macOS, NetBSD, OpenBSD, and
coreutils before 5.3); illumos ``dd.c``; POSIX ``dd`` and ``info dd`` of GNU coreutils 9.1 for the
operands; recordings in ``tests/data/dd``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt

_SOURCES = frozenset({"/dev/zero", "/dev/urandom", "/dev/random"})
_NOWHERE = frozenset({"/dev/null", "/dev/zero"})
_FACTOR = re.compile(r"([0-9]{1,18})(c|w|b|[kKmMgGtT](?:B|iB)?)?")
_SMALL = {"": 1, "c": 1, "w": 2, "b": 512}
_LIMIT = 2**63
_KEPT = ("bs", "ibs", "obs", "cbs", "count", "skip", "seek", "iflag", "oflag", "conv")


@dataclass(frozen=True, slots=True)
class DdOperands:
    """What a dd was to do, by its operands: a number may end in c (1), w (2), b (512), kB, K, KiB,
    MB, M, MiB …, be a product (``2x512``) and, as a count, end in B for bytes (``NEWS`` of 9.1).
    ``operations`` are ``read`` and ``write``, or ``total`` where nothing says which; ``block`` and
    ``size`` are bytes, 0 where they are not said.  ``cached``: those operations that memory may
    have answered.  ``path`` is what was read or written, ``operands`` the others, by name."""

    operations: tuple[str, ...] = ("total",)
    block: int = 0
    size: int = 0
    cached: tuple[str, ...] = ()
    path: str = ""
    operands: tuple[tuple[str, str], ...] = ()


def asked(words: Sequence[str]) -> DdOperands:
    """What the operands in ``words`` say; other words are passed over.

    >>> asked(["dd", "if=/dev/sdx", "of=/dev/null", "bs=1M", "count=8", "iflag=direct"])
    DdOperands(operations=('read',), block=1048576, size=8388608, cached=(), path='/dev/sdx', \
operands=(('bs', '1M'), ('count', '8'), ('iflag', 'direct')))
    """
    said = dict(word.split("=", 1) for word in words if "=" in word)
    operations = _operations(said.get("if", ""), said.get("of", ""))
    block = _number(said.get("bs", "512" if "count" in said else ""))
    if said.keys() & {"ibs", "obs"} and "bs" not in said:
        block = 0
    flags = {name: set(said.get(name, "").split(",")) for name in ("iflag", "oflag", "conv")}
    synced = flags["conv"] & {"fsync", "fdatasync"} or flags["oflag"] & {"direct", "sync", "dsync"}
    cold = {"read": "direct" in flags["iflag"], "write": bool(synced), "total": True}
    cached = tuple(each for each in operations if not cold[each])
    size = _size(said, block, flags["iflag"])
    return DdOperands(operations, block, size, cached, _path(said), _operands(said))


def _operations(source: str, sink: str) -> tuple[str, ...]:
    if not source or not sink or (source in _SOURCES and sink in _NOWHERE):
        return ("total",)
    if sink in _NOWHERE:
        return ("read",)
    return ("write",) if source in _SOURCES else ("read", "write")


def _path(said: Mapping[str, str]) -> str:
    """The one path that is not a device of the kernel's memory."""
    memory = _SOURCES | _NOWHERE
    return next((said[key] for key in ("of", "if") if said.get(key, "/dev/null") not in memory), "")


def _operands(said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, said[key]) for key in _KEPT if key in said)


def _size(said: Mapping[str, str], block: int, flags: set[str]) -> int:
    count = said.get("count", "")
    if count.endswith("B"):
        # Bytes since coreutils 9.1, where 1MB was a number of blocks before; 8B was an error.
        return _number(count[:-1]) if count[:-1].isdecimal() else 0
    return _number(count) * (1 if "count_bytes" in flags else block)


def _number(text: str) -> int:
    """0 for what is no number of dd's, or too large for a file."""
    factors = [_FACTOR.fullmatch(part) for part in text.split("x")]
    found = prod(int(f[1]) * _unit(f[2] or "") for f in factors if f)
    return found if all(factors) and found < _LIMIT else 0


def _unit(name: str) -> int:
    if name in _SMALL:
        return _SMALL[name]
    power = "kmgt".index(name[0].lower()) + 1
    return int((1000 if name[1:] == "B" else 1024) ** power)


_SHORT = 0.99  # seconds; as for fio
_LONGER = "give it more to copy: a larger size"


@dataclass(frozen=True, slots=True)
class DdRun:
    """``line`` is that of its last report.  ``bytes`` and ``seconds`` are what dd counted (0 s:
    no time).  ``read`` and ``written`` are full and partial records.  ``progress``: it may be no
    result but the progress of one; ``alone``: it has no records; ``begins``: there was another
    line before it.  ``earlier``: reports before the last."""

    line: int
    bytes: int
    seconds: float
    read: tuple[int, int]
    written: tuple[int, int]
    asked: DdOperands
    progress: bool = False
    alone: bool = False
    begins: bool = False
    earlier: int = 0

    def after(self, last: DdRun) -> DdRun:
        """The same run as ``last``, further on."""
        return replace(self, earlier=self.earlier + last.earlier + 1, asked=last.asked)


def doubts_about(run: DdRun, label: str) -> Iterator[Doubt]:
    """Every doubt about one run; ``label`` is its job."""
    yield from _time(run, label)
    yield from _numbers(run, label)
    size = run.asked.size
    if run.bytes < size:
        what = f"{label} copied {run.bytes} of {size} bytes"
        yield Doubt("fewer", what, "the source ended, or the target was full: check their sizes")
    if run.read[1] > 1:
        what = f"{label}: {run.read[1]} of its records were read in part"
        yield Doubt("partial", what, "a smaller bs, or iflag=fullblock where it reads a pipe")
    for operation in run.asked.cached:
        yield _memory(operation, label)
    if run.earlier:
        what = f"{label}: {run.earlier} reports before line {run.line} are taken as its progress"
        yield Doubt("progress", what, "put an empty line between them, if they were runs of dd")


def _time(run: DdRun, label: str) -> Iterator[Doubt]:
    if not run.bytes:
        yield Doubt("no-io", f"{label} copied nothing", "check dd's messages", invalid=True)
    elif not run.seconds:
        yield Doubt("no-time", f"{label} took no time that dd could see", _LONGER, invalid=True)
    elif run.seconds < _SHORT:
        yield Doubt("short", f"{label} took only {run.seconds:.3g} s", _LONGER)


def _numbers(run: DdRun, label: str) -> Iterator[Doubt]:
    """dd's numbers against what it was asked."""
    block, (full, partial) = run.asked.block, run.written
    # From bytes alone, or with records of another size, nothing follows.
    if block and full + partial and not full * block <= run.bytes <= (full + partial) * block:
        what = f"{label}: {full}+{partial} records of {block} bytes are not {run.bytes} bytes"
        yield Doubt("records", what, "is it the command of this run?", invalid=True)


def _memory(operation: str, label: str) -> Doubt:
    if operation == "read":
        what = f"{label} read through the page cache: reads may be served from memory"
        return Doubt("cache", what, "read with direct = true (iflag=direct)")
    what = f"{label} ended when the page cache had the data, not the disk"
    return Doubt("cache", what, "write with fsync = true (conv=fsync) or direct = true")


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
class _DdReport:
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


def report(line: str) -> _DdReport | None:
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
    made = _DdReport(
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
        return _DdReport(made.text, moved, seconds, tick, rate, step, wrong, progress=made.progress)
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


def _wrong(made: _DdReport, human: str, unit: str, bases: tuple[int, ...]) -> Iterator[str]:
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


def _fits(made: _DdReport, rate: float) -> bool:
    least = made.bytes / (made.seconds + made.tick) - made.step
    quickest = made.seconds - made.tick
    most = made.bytes / quickest + made.step if quickest > 0 else math.inf
    return least * (1 - 1e-9) <= rate <= most * (1 + 1e-9)


def elapsed(made: _DdReport) -> float:
    """Seconds, by the rate where that has more digits (uutils say ``0.1 s``)."""
    if not math.isfinite(made.step) or not made.rate or not made.seconds:
        return made.seconds
    exact = abs(made.bytes / made.seconds - made.rate) <= made.step
    return made.seconds if exact else made.bytes / made.rate


_OVERWRITTEN = "\v"  # stands for \r, which text_of makes an end of line
_LINE = re.compile(rf"([^\n{_OVERWRITTEN}]*)(\n|{_OVERWRITTEN}|$)")
_BESIDE = re.compile(r"[^0-9/]{0,40}[0-9]* ?[^0-9/]{2,60}")  # "1 truncated record", in any words
_SAID = re.compile(r"(?:\S*/)?dd: .*")
_COMMAND = re.compile(r"(?:^|[\s;#$(`/|&])dd((?:\s+[a-z]{2,6}=[^\s;|&)`<>]+)+)")
_LOOP = re.compile(r"\bfor\s+\w+\s+in\b|\bfor\s*\(\(|\b(?:while|until)\b.*\bdo\b|\b(?:seq|xargs)\b")
_TIME = re.compile(r"real\s+(?:([0-9]+)m)?([0-9]+[.,][0-9]+)s?")
_TIMES = re.compile(r"(?:user|sys)\s+[0-9m.,]+s?|load: .*|\s*")
_ALIKE = re.compile(r"(?:[a-zA-Z]B|B|秒|\bbytes|octets)/\s?\w|copied|transferred", re.IGNORECASE)
_MOST = 2**64
_LEAST = 1e-9  # seconds; dd's clock counts nanoseconds
_AGAIN = "repeat it: dd was stopped, was told status=noxfer or none, or the text is cut"
_CHANGED = "take the original: one of its numbers was changed after dd wrote it"
_BOTH = 2
_HEAD = 4096  # characters of a line in which a command is looked for


@dataclass(slots=True)
class _Reader:
    """Where the reading stands: the counts that wait for their line of bytes, whether the next
    report begins a run, and by which operands."""

    raw: str
    told: DdOperands | None
    asked: DdOperands | None
    loop: bool = False  # a loop began: its command is that of every report that follows
    looped: bool = False  # and it gave a report
    counts: list[tuple[int, int, str]] = field(default_factory=list)
    counted: int = 0  # the line of the last count
    beside: bool = False
    apart: bool = True
    clear: bool = False  # nothing but blank lines since the last report
    waiting: int = 0  # the line of a command that has no report yet
    runs: list[DdRun] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    untimed: list[int] = field(default_factory=list)
    slow: list[tuple[DdRun, float]] = field(default_factory=list)


class DdFormat:
    """The plugin."""

    name = "dd"
    title = "dd, what it prints when it ends"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        found = shape = 0
        for line in re.split(r"[\r\n]+", head.decode("utf-8", "replace")):
            shape |= 1 if report(line) else 0
            counted = counts(line)
            found |= 1 if counted and counted[2] else 0
        return shape + 2 * found

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        reader = _read(data, raw, None)
        beside = tuple(_beside(reader))
        return tuple(
            Recording(
                tool="dd",
                workload=_workload(run.asked.operations),
                measurements=tuple(
                    each
                    for operation in run.asked.operations
                    for each in _rates(operation, [run], "all", raw)
                ),
                name=run.asked.path,
                line=run.line,
                treatment=run.asked.operands,
                doubts=(*doubts_about(run, f"dd#{index}"), *(beside if index == 1 else ())),
                seconds=run.seconds,
            )
            for index, run in enumerate(reader.runs, 1)
        )


FORMAT = DdFormat()


def _workload(operations: tuple[str, ...]) -> str:
    """``read``, ``write``, ``both``; ``dd`` where no command says which."""
    if len(operations) == _BOTH:
        return "both"
    return "dd" if operations == ("total",) else operations[0]


def parse(data: bytes, raw: str, told: DdOperands | None = None) -> ParsedOutput:
    """Measurements and doubts of every run of dd in ``data``; ``raw`` names the file.

    ``told`` is what the one dd was told; without it, command lines in the text say so, else the
    operation is ``total``.  Per run (``dd#1`` …) and operation, and over all runs: ``bytes``;
    ``seconds`` (s), ``bw`` (bytes/s, of the whole time) and ``iops`` (records/s) where dd gave a
    time.  Raises :class:`~iotrial.errors.FormatError` with the line.
    """
    reader = _read(data, raw, told)
    doubts = (
        *(doubt for i, run in enumerate(reader.runs, 1) for doubt in doubts_about(run, f"dd#{i}")),
        *_beside(reader),
    )
    return ParsedOutput(tuple(_measured(reader.runs, raw)), doubts)


def _read(data: Buffer, raw: str, told: DdOperands | None) -> _Reader:
    content = bytes(data[:])
    if not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = content.replace(b"\r\n", b"\n").replace(b"\r", _OVERWRITTEN.encode())
    reader = _Reader(raw, told, told)
    before, at = "\n", 1
    for match in _LINE.finditer(text_of(content, raw)):
        _line(reader, at, match[1].strip(), before)
        before = match[2]
        at += before == "\n"
    if reader.counts:
        _untimed(reader, "the text ends")
    if reader.waiting:
        reader.unanswered.append(reader.waiting)
    if not reader.runs:
        why = [f": the dd that ends on line {at} gave no time" for at in reader.untimed[:1]]
        raise FormatError(f"{raw}: no result of dd in it{''.join(why)}", advice=_AGAIN)
    return reader


def _line(reader: _Reader, at: int, text: str, before: str) -> None:
    overwritten = before == _OVERWRITTEN  # status=progress, by what follows
    found = counts(text)
    made = None if found else report(text)
    if found:
        _count(reader, at, text, found)
    elif made and len(reader.counts) != 1:
        if reader.counts or not overwritten:
            _report(reader, at, made)
    elif "dd: " in text and _SAID.fullmatch(text):
        reader.said.append("".join(c if c.isprintable() else "?" for c in text[:200]))
    elif reader.counts and (text or not overwritten):
        if not reader.beside and len(reader.counts) > 1 and text and _BESIDE.fullmatch(text):
            reader.beside = True
            if not _ALIKE.search(text):
                return
        _untimed(reader, f"{text[:60]!r}", damaged=bool(made) or bool(_ALIKE.search(text)))
        _other(reader, at, text)
    elif not overwritten:
        _other(reader, at, text)


def _count(reader: _Reader, at: int, text: str, found: tuple[int, int, str]) -> None:
    if (
        len(reader.counts) == 1
        and not reader.counts[0][2]
        and (at > reader.counted + 1 or found[2] == "in")
    ):
        reader.counts.clear()  # prose with a plus in it
    wrong = "out" if not reader.counts else "in"
    if len(reader.counts) > 1 and found[2] != "out" and reader.counts[1][2] != "in":
        _untimed(reader, f"{text[:60]!r}")
        wrong = "out"
    if len(reader.counts) > 1 or found[2] == wrong:
        message = f"{reader.raw}: line {at}: {text[:60]!r} out of turn"
        raise FormatError(message, advice="give each dd a file of its own, if they ran at once")
    reader.counts.append(found)
    reader.counted, reader.beside = at, False


def _untimed(reader: _Reader, instead: str, *, damaged: bool = False) -> None:
    """Counts without a line of bytes: prose with a plus in it, a dd that says no more, or a line
    that was damaged."""
    at, english = reader.counted, any(each[2] for each in reader.counts)
    one = len(reader.counts) == 1
    reader.counts.clear()
    if damaged or (one and english):
        message = f"{reader.raw}: line {at + 1}: {instead} where dd says more"
        raise FormatError(message, advice=_AGAIN)
    if not one:
        reader.untimed.append(at)
        reader.waiting = 0


def _other(reader: _Reader, at: int, text: str) -> None:
    """A line that is not dd's: what follows it is another run."""
    took = _TIME.fullmatch(text) if text.startswith("real") else None
    if took:
        if reader.clear:
            seconds = 60.0 * int(took[1] or 0) + float(took[2].replace(",", "."))
            reader.slow.append((reader.runs[-1], seconds))
        reader.apart, reader.clear = True, False
        return
    if _TIMES.fullmatch(text):
        reader.apart = reader.apart or not text.startswith("load: ")
        return
    reader.apart, reader.clear = True, False
    reader.loop |= bool(_LOOP.search(text[:_HEAD]))
    command = _COMMAND.search(text[:_HEAD]) if "dd" in text[:_HEAD] else None
    if command:
        if reader.waiting:
            reader.unanswered.append(reader.waiting)
        if not reader.waiting and reader.loop and not _LOOP.search(text) and reader.looped:
            reader.loop = reader.looped = False
        reader.waiting = at
        reader.asked = asked(command[1].split())


def _report(reader: _Reader, at: int, made: _DdReport) -> None:
    place = f"{reader.raw}: line {at}"
    if made.bytes >= _MOST or not math.isfinite(made.seconds):
        raise FormatError(f"{place}: {made.text[:80]!r} is beyond any dd")
    if made.wrong:
        raise FormatError(f"{place}: {made.wrong}: {made.text[:80]!r}", advice=_CHANGED)
    counted = tuple((full, partial) for full, partial, _ in reader.counts) or ((0, 0), (0, 0))
    full, partial = counted[-1]
    uneven = full and not partial and made.bytes % full
    if (
        made.bytes < full + partial
        or uneven
        or (reader.counts and made.bytes and not full + partial)
    ):
        message = f"{place}: {full}+{partial} records cannot be {made.bytes} bytes"
        raise FormatError(message, advice=_CHANGED)
    seconds = elapsed(made)
    run = DdRun(
        line=at,
        bytes=made.bytes,
        seconds=seconds if seconds >= _LEAST else 0.0,
        read=counted[0],
        written=counted[-1],
        asked=reader.asked or DdOperands(),
        progress=made.progress,
        alone=not reader.counts,
        begins=reader.apart,
    )
    while reader.runs and not run.begins and _goes_on(reader.runs[-1], run):
        last = reader.runs.pop()
        run = replace(run.after(last), begins=last.begins)
        if not last.alone:
            break
    reader.runs.append(run)
    reader.looped = reader.loop
    if not reader.loop:
        reader.asked = reader.told
    reader.counts.clear()
    reader.apart, reader.waiting, reader.clear = False, 0, True


def _goes_on(last: DdRun, run: DdRun) -> bool:
    """Whether ``last`` was but the progress of ``run``: by its seconds, or because it has no
    records where ``run`` has (coreutils 8.25 shows its progress like a result)."""
    if last.alone and (last.progress or not run.alone):
        return last.bytes <= run.bytes and last.seconds <= run.seconds + 1
    if last.alone or run.alone:
        return False
    return last.bytes < run.bytes and last.seconds < run.seconds


def _beside(reader: _Reader) -> Iterator[Doubt]:
    for line in dict.fromkeys(reader.said):
        yield Doubt("dd-said", line, "read dd's message: not all may have been copied")
    for at in reader.unanswered:
        what = f"the dd on line {at} has no result"
        yield Doubt("no-report", what, "it failed or was stopped: remove it, or repeat it")
    for at in reader.untimed:
        what = f"the dd that ends on line {at} gave no time, and was left out"
        yield Doubt("no-time-given", what, "an old dd, or status=noxfer: time it, or repeat it")
    for run, seconds in reader.slow:
        if seconds + 0.01 < run.seconds * (1 - 1e-5):
            what = f"the dd on line {run.line} took {run.seconds:g} s, its time {seconds:g} s"
            yield Doubt("time", what, _CHANGED, invalid=True)


def _measured(runs: Sequence[DdRun], raw: str) -> Iterator[Measurement]:
    operations = dict.fromkeys(op for run in runs for op in run.asked.operations)
    for operation in operations:
        mine = [run for run in runs if operation in run.asked.operations]
        yield from _rates(operation, mine, "all", raw)
    for index, run in enumerate(runs, 1):
        for operation in run.asked.operations:
            yield from _rates(operation, [run], f"dd#{index}", raw)


def _rates(operation: str, runs: Sequence[DdRun], label: str, raw: str) -> Iterator[Measurement]:
    """Runs come one after another: their bytes over their time."""
    moved, seconds = sum(run.bytes for run in runs), sum(run.seconds for run in runs)
    records = [sum(run.written if operation == "write" else run.read) for run in runs]
    yield Measurement(f"{operation}.bytes", float(moved), "bytes", label, raw)
    if not all(run.seconds for run in runs):
        return
    yield Measurement(f"{operation}.seconds", seconds, "s", label, raw)
    yield Measurement(f"{operation}.bw", moved / seconds, "bytes/s", label, raw)
    if all(records):
        yield Measurement(f"{operation}.iops", sum(records) / seconds, "1/s", label, raw)
