"""What dd prints when it ends, in any of its spellings, one run after another.

Sources: GNU coreutils ``src/dd.c`` (``print_stats``, ``print_xfer_stats``: ``%g`` seconds, SI
units; decimals and words are the locale's), busybox ``coreutils/dd.c`` and toybox ``dd.c`` (units
of 1024, no blank before them, or no B), FreeBSD ``bin/dd/misc.c`` (``summary``; also macOS, and
coreutils before 5.1).  The rate dd prints is rounded: iotrial divides bytes by seconds, and holds
the printed one against it.

A dd asked for a report (SIGUSR1, SIGINFO) prints the same lines in between, and nothing tells
them from those of a run of its own.  Reports that follow each other with no other line between,
and grow in bytes and in seconds, are taken as one run's, and this is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iotrial.errors import FormatError
from iotrial.formats.dd_doubts import Run, doubts_about
from iotrial.formats.dd_operands import Asked, asked
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement
from iotrial.model.tool import Parsed

_N = r"[0-9]{1,20}(?:[.,][0-9]{1,12})?(?:[eE][-+]?[0-9]{1,2})?"
_SECONDS = r"s|secs?|seconds?|Sekunden?|secondes?|segundos?|second[io]|秒"
_COPIED = re.compile(
    rf"(?P<bytes>[0-9]{{1,25}})[^0-9(（,，]{{1,40}}(?:[(（][^()（）]{{1,60}}[)）])?[^0-9,，、]{{0,60}}"  # noqa: RUF001
    rf"[,，、]\s?(?P<seconds>{_N})\s?(?:{_SECONDS})[,，、]\s?"  # noqa: RUF001
    rf"(?P<rate>{_N}|[^\W\d]{{3,12}})(?P<blank>\s?)(?P<unit>[kKMGTPEZY]?i?B?)/(?:s|秒)"
)
_TRANSFERRED = re.compile(
    rf"(?P<bytes>[0-9]{{1,25}}) bytes? transferred in (?P<seconds>{_N}) (?:secs?|seconds?) "
    rf"\((?P<rate>{_N}|inf) (?P<unit>)(?P<blank>)bytes/sec\)"
)
_RECORDS = re.compile(r"([0-9]{1,20})\+([0-9]{1,20})\s?([^0-9]{2,60})")
_BESIDE = re.compile(r"dd: .*|[0-9]+ (?:truncated|odd length swab) (?:records?|blocks?)")
_COMMAND = re.compile(r"(?:^|[\s;#$])dd((?:\s+[a-z]{2,6}=\S+)+)")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|$)")
_PREFIXES = "KMGTPEZY"
_MOST = 2**64
_LEAST = 1e-9  # seconds; dd's clock counts nanoseconds
_AGAIN = "repeat it: dd was stopped, was told status=noxfer or none, or the text is cut"


@dataclass(slots=True)
class _Reader:
    """Where the reading stands: the counts that wait for their line of bytes, whether the next
    report begins a run, and by which operands."""

    raw: str
    asked: Asked | None
    counts: list[tuple[int, int]] = field(default_factory=list)
    apart: bool = True
    waiting: int = 0  # the line of a command that has no report yet
    runs: list[Run] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)


def parse(data: bytes, raw: str, told: Asked | None = None) -> Parsed:
    """Measurements and doubts of every run of dd in ``data``; ``raw`` names the file.

    ``told`` is what the one dd was told; without it, command lines in the text say so, else the
    operation is ``total``.  Per run (``dd#1`` …) and operation, and over all runs: ``bytes``;
    ``seconds`` (s), ``bw`` (bytes/s, of the whole time) and ``iops`` (records/s) where dd gave a
    time.  Raises :class:`~iotrial.errors.FormatError` with the line.
    """
    reader = _Reader(raw, told)
    before = "\n"
    for number, match in enumerate(_LINE.finditer(data.decode("utf-8", "replace")), 1):
        _line(reader, number, match[1].strip(), before)
        before = match[2]
    if reader.counts:
        raise FormatError(f"{raw}: the text ends before a run of dd does", advice=_AGAIN)
    if reader.waiting:
        reader.unanswered.append(reader.waiting)
    if not reader.runs:
        raise FormatError(f"{raw}: no result of dd in it", advice=_AGAIN)
    doubts = (
        *(doubt for i, run in enumerate(reader.runs, 1) for doubt in doubts_about(run, f"dd#{i}")),
        *_beside(reader),
    )
    return Parsed(tuple(_measured(reader.runs, raw)), doubts)


def _line(reader: _Reader, number: int, text: str, before: str) -> None:
    records = _RECORDS.fullmatch(text)
    summary = _COPIED.fullmatch(text) or _TRANSFERRED.fullmatch(text)
    if records:
        _count(reader, number, records)
    elif summary and len(reader.counts) != 1:
        if reader.counts or before != "\r":  # else: status=progress, overwritten by what follows
            _report(reader, number, summary)
    elif _BESIDE.fullmatch(text):
        if text.startswith("dd: "):
            reader.said.append("".join(c if c.isprintable() else "?" for c in text[:200]))
    elif reader.counts and (text or before != "\r"):
        raise FormatError(
            f"{reader.raw}: line {number}: {text[:60]!r} where dd says bytes and seconds",
            advice=_AGAIN,
        )
    elif before != "\r":
        _other(reader, number, text)


def _count(reader: _Reader, number: int, found: re.Match[str]) -> None:
    wrong = "out" if not reader.counts else "in"
    if len(reader.counts) > 1 or found[3].split()[-1:] == [wrong]:
        message = f"{reader.raw}: line {number}: {found[0][:60]!r} out of turn"
        raise FormatError(message, advice="give each dd a file of its own, if they ran at once")
    reader.counts.append((int(found[1]), int(found[2])))


def _other(reader: _Reader, number: int, text: str) -> None:
    """A line that is not dd's: what follows it is another run."""
    reader.apart = True
    command = _COMMAND.search(text[:4096])
    if command:
        if reader.waiting:
            reader.unanswered.append(reader.waiting)
        reader.waiting = number
        reader.asked = asked(command[1].split())


def _report(reader: _Reader, number: int, found: re.Match[str]) -> None:
    moved, seconds = int(found["bytes"]), _float(found["seconds"])
    if moved >= _MOST or not math.isfinite(seconds):
        raise FormatError(f"{reader.raw}: line {number}: {found[0][:80]!r} is beyond any dd")
    rate, step = _rate(found)
    if not math.isfinite(rate):
        rate, step = 0.0, math.inf
    counted = tuple(reader.counts) or ((0, 0), (0, 0))
    run = Run(
        line=number,
        bytes=moved,
        seconds=seconds if seconds >= _LEAST else 0.0,
        tick=_step(found["seconds"]),
        rate=rate,
        rate_step=step,
        read=counted[0],
        written=counted[-1],
        asked=reader.asked or Asked(),
    )
    last = reader.runs[-1] if reader.runs else None
    if last and not reader.apart and last.bytes < moved and last.seconds < seconds:
        reader.runs[-1] = run.after(last)
    else:
        reader.runs.append(run)
    reader.counts.clear()
    reader.apart, reader.waiting = False, 0


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _step(text: str) -> float:
    """What one more in the last printed digit is worth: ``2.50`` → 0.01, ``4e-05`` → 1e-05."""
    mantissa, _, exponent = text.replace(",", ".").lower().partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _rate(found: re.Match[str]) -> tuple[float, float]:
    """The printed rate and its last digit, bytes/s; a word (Infinity) has neither."""
    if not found["rate"][0].isdigit():
        return math.inf, math.inf
    unit = found["unit"]
    # Only coreutils leaves a blank and writes B: it alone counts in thousands.
    base = 1000 if found["blank"] and unit.endswith("B") and "i" not in unit else 1024
    power = _PREFIXES.find(unit[0].upper()) + 1 if unit else 0
    return _float(found["rate"]) * base**power, _step(found["rate"]) * base**power


def _beside(reader: _Reader) -> Iterator[Doubt]:
    for line in dict.fromkeys(reader.said):
        yield Doubt("dd-said", line, "read dd's message: not all may have been copied")
    for number in reader.unanswered:
        what = f"the dd on line {number} has no result"
        yield Doubt("no-report", what, "it failed or was stopped: leave it out, or repeat it")


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
    counts = [sum(run.written if operation == "write" else run.read) for run in runs]
    yield Measurement(f"{operation}.bytes", float(moved), "bytes", label, raw)
    if not all(run.seconds for run in runs):
        return
    yield Measurement(f"{operation}.seconds", seconds, "s", label, raw)
    yield Measurement(f"{operation}.bw", moved / seconds, "bytes/s", label, raw)
    if all(counts):
        yield Measurement(f"{operation}.iops", sum(counts) / seconds, "1/s", label, raw)
