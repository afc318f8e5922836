"""What dd prints when it ends, in any of its spellings, one run after another.

The numbers in a line must fit each other, and the bytes the records: else something was changed
after dd wrote it, and that is an error.  iotrial divides bytes by seconds; the rate dd prints is
rounded.

A dd asked for a report (SIGUSR1, SIGINFO) prints the same lines in between, and nothing tells
them from those of a run of its own.  Reports that follow each other with no other line between,
and grow in bytes and in seconds, are taken as one run's, and this is said.  A line of bytes without
records before it is a run, too (``dd … 2>&1 | tail -1``), or its progress.

What a run did is said by the command line above it.  It holds for the next report; in a loop, for
all until another command.  Records without a line of bytes (old and other dd's,
``status=noxfer``) have no time: such a run is named, and left out.

Sources: see :mod:`iotrial.formats.dd.report`; recordings in ``tests/data/dd``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from iotrial.errors import FormatError
from iotrial.formats.dd.doubts import Run, doubts_about
from iotrial.formats.dd.operands import Asked, asked
from iotrial.formats.dd.report import Report, counts, elapsed, report
from iotrial.formats.lines import text_of
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed
from iotrial.model.trial import Doubt

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
    told: Asked | None
    asked: Asked | None
    loop: bool = False  # a loop began: its command is that of every report that follows
    looped: bool = False  # and it gave a report
    counts: list[tuple[int, int, str]] = field(default_factory=list)
    counted: int = 0  # the line of the last count
    beside: bool = False
    apart: bool = True
    clear: bool = False  # nothing but blank lines since the last report
    waiting: int = 0  # the line of a command that has no report yet
    runs: list[Run] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    untimed: list[int] = field(default_factory=list)
    slow: list[tuple[Run, float]] = field(default_factory=list)


class Dd:
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


FORMAT = Dd()


def _workload(operations: tuple[str, ...]) -> str:
    """``read``, ``write``, ``both``; ``dd`` where no command says which."""
    if len(operations) == _BOTH:
        return "both"
    return "dd" if operations == ("total",) else operations[0]


def parse(data: bytes, raw: str, told: Asked | None = None) -> Parsed:
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
    return Parsed(tuple(_measured(reader.runs, raw)), doubts)


def _read(data: Buffer, raw: str, told: Asked | None) -> _Reader:
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


def _report(reader: _Reader, at: int, made: Report) -> None:
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
    run = Run(
        line=at,
        bytes=made.bytes,
        seconds=seconds if seconds >= _LEAST else 0.0,
        read=counted[0],
        written=counted[-1],
        asked=reader.asked or Asked(),
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


def _goes_on(last: Run, run: Run) -> bool:
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
        yield Doubt("no-report", what, "it failed or was stopped: leave it out, or repeat it")
    for at in reader.untimed:
        what = f"the dd that ends on line {at} gave no time, and was left out"
        yield Doubt("no-time-given", what, "an old dd, or status=noxfer: time it, or repeat it")
    for run, seconds in reader.slow:
        if seconds + 0.01 < run.seconds * (1 - 1e-5):
            what = f"the dd on line {run.line} took {run.seconds:g} s, its time {seconds:g} s"
            yield Doubt("time", what, _CHANGED, invalid=True)


def _measured(runs: Sequence[Run], raw: str) -> Iterator[Measurement]:
    operations = dict.fromkeys(op for run in runs for op in run.asked.operations)
    for operation in operations:
        mine = [run for run in runs if operation in run.asked.operations]
        yield from _rates(operation, mine, "all", raw)
    for index, run in enumerate(runs, 1):
        for operation in run.asked.operations:
            yield from _rates(operation, [run], f"dd#{index}", raw)


def _rates(operation: str, runs: Sequence[Run], label: str, raw: str) -> Iterator[Measurement]:
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
