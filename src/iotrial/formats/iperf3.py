"""iperf3's output, JSON (:mod:`iotrial.formats.iperf3_json`, where the metrics are explained) and
normal, of every version from 3.0 on.

Normal output is one test after another, a client's or a server's.  Only the summary gives numbers;
they have three digits, and a doubt says so.  Intervals are read where nothing else says what a
client received: UDP in reverse before 3.2.  What a server says of the other end's count is left
out: it was not told (0.00 Bytes).

Who sends: a client, unless it says "Reverse mode"; ``--bidir`` marks every line ([TX-C]).  A
server does not say, but only a sender's intervals have a column of retransmits (Linux), or of
datagrams without jitter.

Bytes go by 1024 and bits by 1000.  Rate, time and bytes of a line must agree as far as their
digits go, and a sum with its streams.

Sources: iperf_locale.c and units.c of 3.0.1 to 3.21; recordings in ``tests/data/iperf3``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iotrial.errors import FormatError
from iotrial.formats import text_of, the_one
from iotrial.formats.iperf3_json import Iperf3Flow, documents, doubts_of, measured
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt

_NEW = re.compile(r"(?:^|\s)(?:Connecting to host .+, port \d+|Accepted connection from )")
_OUTSIDE = re.compile(r"Server listening on \d|Server output:")
_HEADER = re.compile(r"\[ ID\](?:\[Role\])? +Interval +Transfer")
_MARK = r"\[ *(?P<id>\d+|SUM)\](?:\[(?P<way>[RT]X)-[CS]\])?"
_ROW = re.compile(
    _MARK + r" +(?P<begin>\d+\.\d+)-(?P<end>\d+\.\d+) +sec +(?P<moved>[\d.]+) +(?P<size>[KMGTP]?)"
    r"Bytes +(?P<rate>[\d.]+) +(?P<unit>[KMGTP]?)(?P<kind>bi?t?|By?t?e?)s/sec(?P<rest>.*)"
)
"""3.0 cuts a rate after ten characters: ``620941 KBys/sec``."""
_LIKE_A_ROW = re.compile(_MARK + r" +\d+\.\d+-")
_OTHER = re.compile(r"datagrams received out-of-order")
_REST = re.compile(
    r" *(?:(?P<jitter>\d+\.\d+) ms +(?:(?P<lost>-?\d+)/ *(?P<packets>-?\d+) +"
    r"\((?P<share>[-+.\de]+|-?nan|inf)%\)|Unknown/\d+))? *"
    r"(?:(?P<again>-?\d+)(?: +[\d.]+ [KMG]?Bytes)?)? *(?P<omitted>\(omitted\))? *"
    r"(?P<role>sender|receiver)? *"
)
_SHARE = r"(\d{1,5}(?:\.\d{1,6})?)%"
_CPU = re.compile(rf"CPU Utilization: local/\w+ {_SHARE} \({_SHARE}u/{_SHARE}s\)")
_SETTINGS = re.compile(
    r"Starting Test: protocol: (?P<protocol>\w+), (?P<parallel>\d+) streams?, (?P<length>\d+) byte "
    r"blocks, omitting (?P<omit>\d+) seconds?, (?P<time>\d+) second test"
)
_SAID = re.compile(r"iperf3: (?:error|interrupt) - .+|iperf3: interrupt")
_SCALE = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_AGAIN = "repeat the test, with -J: JSON has every digit"


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    id: str
    way: str
    role: str
    span: float
    moved: float
    rate: float
    apart: tuple[float, float]
    """Half a unit in the last digit of ``moved`` and ``rate``."""
    jitter: float | None
    lost: int | None
    packets: int | None
    again: int | None
    omitted: bool
    final: bool

    @property
    def hint(self) -> bool | None:
        """Whether this host sends, where an interval's columns say so."""
        if self.final or (self.again is None and self.jitter is None):
            return None
        return self.jitter is None


@dataclass(frozen=True, slots=True)
class _Test:
    """The lines of one test; ``version`` may stand before them."""

    line: int
    lines: tuple[tuple[int, str], ...]
    version: str

    def has(self, pattern: str) -> bool:
        return any(re.search(pattern, text) for _, text in self.lines)


def tests(text: str, raw: str) -> tuple[Recording, ...]:
    """Every test in ``text``.  Raises :class:`~iotrial.errors.FormatError` with the line."""
    found = [_recording(test, raw) for test in _split(text)]
    if not found:
        raise FormatError(f"{raw}: no test of iperf3 in {text.count(chr(10)) + 1} lines")
    if len(found) == 1 and not found[0].measurements:
        what = found[0].doubts[0].what
        raise FormatError(f"{raw}: line {found[0].line}: {what}", advice=_AGAIN)
    return tuple(found)


def _split(text: str) -> Iterator[_Test]:
    version, began, inside = "", 0, False
    lines: list[tuple[int, str]] = []
    opens = bool(_NEW.search(text))
    for at, line in enumerate(text.split("\n"), 1):
        if match := re.search(r"\biperf (3\.[\w.+-]+)", line):
            version = match[1]
        starts = bool(_NEW.search(line)) or (not opens and not began and bool(_HEADER.search(line)))
        if starts:
            if lines:
                yield _Test(began, tuple(lines), version)
            began, lines, inside = at, [], True
        elif _OUTSIDE.search(line):
            inside = False
        if inside:
            lines.append((at, line))
        elif match := _SAID.search(line):
            lines, began = [*lines, (at, line)], began or at
    if lines:
        yield _Test(began, tuple(lines), version)


def _recording(test: _Test, raw: str) -> Recording:
    rows = tuple(_rows(test, raw))
    said = [match[0] for _, text in test.lines if (match := _SAID.search(text))]
    doubts = [
        Doubt("iperf3-error", f"iperf3 says: {each[:120]}", "Repeat the test.", invalid=True)
        for each in said[:1]
    ]
    final = [row for row in rows if row.final]
    if not final and not said:
        message = f"{raw}: line {test.line}: this test of iperf3 has no summary: it did not end"
        raise FormatError(message, advice=_AGAIN)
    flows = tuple(_flows(test, rows, raw, doubts)) if final else ()
    cpu = _cpu(test) if flows else ()
    udp = any(row.jitter is not None for row in final)
    if flows:
        what = "iperf3's text has three digits: up to 0.5 % off"
        doubts.append(Doubt("iperf3-text", what, "Take the JSON of the same test (-J)."))
    settings = next((m for _, line in test.lines if (m := _SETTINGS.search(line))), None)
    treatment = tuple(
        (name, value)
        for name, value in (settings.groupdict() if settings else {}).items()
        if name != "protocol" and value != "0"
    )
    return Recording(
        tool="iperf3",
        workload=_workload(test, flows, settings["protocol"].lower() if settings else "", udp),
        measurements=measured(flows, cpu, raw),
        version=test.version,
        line=test.line,
        treatment=treatment,
        doubts=(*doubts, *doubts_of(flows, tcp=not udp)),
        seconds=max((row.span for row in final), default=0.0),
    )


def _workload(test: _Test, flows: Sequence[Iperf3Flow], protocol: str, udp: bool) -> str:  # noqa: FBT001
    name = protocol or ("udp" if udp else "tcp")
    if len(flows) > 1:
        return f"{name}-bidir"
    client = not test.has(r"Accepted connection from ")
    return f"{name}-reverse" if flows and flows[0].sends is not client else name


# Lines.


def _rows(test: _Test, raw: str) -> Iterator[_Row]:
    headers = [at for at, line in test.lines if _HEADER.search(line)]
    last = headers[-1] if len(headers) > 1 else 0
    for at, line in test.lines:
        if match := _ROW.search(line):
            rest = _REST.fullmatch(match["rest"].partition("iperf3: ")[0])
            if rest is None:
                message = f"{raw}: line {at}: {match['rest'].strip()[:40]!r} ends no line of iperf3"
                raise FormatError(message, advice=_AGAIN)
            summary = bool(rest["role"]) or (rest["jitter"] is not None and 0 < last < at)
            yield _row(at, match, rest, summary, raw)
        elif _LIKE_A_ROW.search(line) and not _OTHER.search(line):
            message = f"{raw}: line {at}: {line.strip()[:60]!r} is not a whole line of iperf3"
            raise FormatError(message, advice=_AGAIN)
        elif last and at > last and re.match(r"\[ *(?:\d+|SUM)\]\S* +[\d.]+ *$", line):
            raise FormatError(f"{raw}: line {at}: this line is cut off", advice=_AGAIN)


def _row(
    at: int,
    match: re.Match[str],
    rest: re.Match[str],
    final: bool,  # noqa: FBT001
    raw: str,
) -> _Row:
    place = f"{raw}: line {at}"
    span = _float(match["end"], place) - _float(match["begin"], place)
    size = 1024.0 ** _SCALE[match["size"]]
    per = (1024.0 if match["kind"][0] == "B" else 1000.0) ** _SCALE[match["unit"]]
    per /= 1.0 if match["kind"][0] == "B" else 8.0
    moved, rate = _float(match["moved"], place) * size, _float(match["rate"], place) * per
    apart = (_half(match["moved"]) * size, _half(match["rate"]) * per)
    least = (moved - apart[0]) / (span + 0.0101)
    most = (moved + apart[0]) / max(span - 0.0101, 1e-9)
    if final and not least - apart[1] <= rate * 1.0001 <= (most + apart[1]) * 1.0002:
        message = f"{place}: {match['moved']} {match['size']}Bytes in {span:.2f} s are not "
        raise FormatError(
            f"{message}{match['rate']} {match['unit']}{match['kind']}s/sec", advice=_AGAIN
        )
    lost, packets = (int(rest[key]) if rest[key] else None for key in ("lost", "packets"))
    if final and lost is not None and packets:
        _share(lost, packets, rest["share"], place)
    return _Row(
        line=at,
        id=match["id"],
        way=match["way"] or "",
        role=rest["role"] or "",
        span=span,
        moved=moved,
        rate=rate,
        apart=apart,
        jitter=_float(rest["jitter"], place) / 1000.0 if rest["jitter"] else None,
        lost=lost,
        packets=packets,
        again=int(rest["again"]) if rest["again"] else None,
        omitted=bool(rest["omitted"]),
        final=final,
    )


def _share(lost: int, packets: int, said: str, place: str) -> None:
    """The percentage has two digits (``%.2g``)."""
    try:
        share = float(said)
    except ValueError:
        share = float("nan")
    if not abs(100.0 * lost / packets - share) <= 0.051 * abs(share) + 1e-9:
        raise FormatError(f"{place}: {lost} of {packets} are not {said} %", advice=_AGAIN)


def _float(text: str, place: str) -> float:
    if not re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", text):
        raise FormatError(f"{place}: {text[:30]!r} is not a number", advice=_AGAIN)
    return float(text)


def _half(text: str) -> float:
    """Half a unit in the last digit, and a little for what the tool itself rounded before."""
    return 0.502 * 10.0 ** -len(text.partition(".")[2])


def _cpu(test: _Test) -> tuple[tuple[str, float], ...]:
    for _, line in test.lines:
        if match := _CPU.search(line):
            names = ("total.cpu", "cpu.usr", "cpu.sys")
            return tuple((n, float(v) / 100.0) for n, v in zip(names, match.groups(), strict=True))
    return ()


# Flows.


def _flows(
    test: _Test, rows: Sequence[_Row], raw: str, doubts: list[Doubt]
) -> Iterator[Iperf3Flow]:
    ways = list(dict.fromkeys(row.way for row in rows if row.final))
    if len(ways) > 1 and "" in ways:
        raise FormatError(f"{raw}: line {test.line}: some lines say a role and some do not")
    for way in ways:
        sends = way == "TX" if way else _sends(test, rows, raw, doubts)
        yield _flow(test, [row for row in rows if row.way == way], sends, raw)


def _sends(test: _Test, rows: Sequence[_Row], raw: str, doubts: list[Doubt]) -> bool:
    server = test.has(r"Accepted connection from ")
    hints = {row.hint for row in rows if row.hint is not None}
    told = hints.pop() if len(hints) == 1 else None
    if told is None and not hints:
        heads = [("Retr" in line, at) for at, line in test.lines if _HEADER.search(line)]
        first = min(row.line for row in rows)
        if len(heads) > 1 and heads[0][1] < first and not heads[0][0] and heads[-1][0]:
            told = False  # retransmits are known, and not of these intervals
    if not server and test.has(r"Connecting to host "):
        sends = not test.has(r"Reverse mode, remote host .* is sending")
        if hints or (told is not None and told is not sends):
            message = f"{raw}: line {test.line}: it contradicts itself on who sent"
            raise FormatError(message, advice=_AGAIN)
        return sends
    if told is not None:
        return told
    counts = {row.role: row.moved for row in rows if row.final}
    if server and counts.get("receiver") and not counts.get("sender"):
        return False
    what = "the file does not say who sent: taken for the normal direction"
    doubts.append(Doubt("iperf3-direction", what, "Check the command line that was used."))
    return not server


def _flow(test: _Test, rows: Sequence[_Row], sends: bool, raw: str) -> Iperf3Flow:  # noqa: FBT001
    server = test.has(r"Accepted connection from ")
    sent, received = (_sum(rows, role, raw) for role in ("sender", "receiver"))
    both = _sum(rows, "", raw)
    if both is not None and both.jitter is None:
        message = f"{raw}: line {both.line}: neither sender nor receiver stands at its end"
        raise FormatError(message, advice=_AGAIN)
    ours = (sent or both) if sends else received
    moved, rate = (ours.moved, ours.rate) if ours else (None, None)
    if ours is None and both is not None:
        moved, rate = _counted(rows, both.span)
    if rate is None:
        what = "sent" if sends else "received"
        message = f"{raw}: line {test.line}: no line says what this host {what}"
        raise FormatError(message, advice=_AGAIN)
    there = received if sends else (sent or both)
    losses = both or received
    streams = [row for row in rows if row.final and row.id != "SUM"]
    role = ours.role if ours else ""
    return Iperf3Flow(
        sends=sends,
        sent=rate if sends else (there.rate if there and not server else None),
        received=rate if not sends else (there.rate if there and not server else None),
        moved=moved,
        retransmits=sent.again if sent and sent.jitter is None and (sends or not server) else None,
        jitter=losses.jitter if losses else None,
        lost=losses.lost if losses else None,
        packets=losses.packets if losses else None,
        streams=tuple(row.rate for row in streams if row.role == role) if ours else (),
    )


def _sum(rows: Sequence[_Row], role: str, raw: str) -> _Row | None:
    """The row of all streams: the only one, or the one called SUM."""
    mine = [row for row in rows if row.final and row.role == role]
    seen: set[str] = set()
    for row in mine:
        if row.id in seen:
            message = f"{raw}: line {row.line}: a second line for [{row.id}] {role}".rstrip()
            raise FormatError(message, advice=_AGAIN)
        seen.add(row.id)
    total = next((row for row in mine if row.id == "SUM"), None)
    parts = [row for row in mine if row.id != "SUM"]
    if total is None:
        if len(parts) > 1:
            message = f"{raw}: line {parts[-1].line}: {len(parts)} streams without their sum"
            raise FormatError(message, advice=_AGAIN)
        before = {row.id for row in rows if not row.final} - {"SUM"}
        if parts and len(before) > 1:
            message = f"{raw}: line {parts[0].line}: one of {len(before)} streams, and no sum"
            raise FormatError(message, advice=_AGAIN)
        return parts[0] if parts else None
    added = sum(row.moved for row in parts)
    apart = sum(row.apart[0] for row in parts) + total.apart[0]
    if parts and abs(added - total.moved) > apart:
        message = f"{raw}: line {total.line}: the sum is not that of its {len(parts)} streams"
        raise FormatError(message, advice=_AGAIN)
    return total


def _counted(rows: Sequence[_Row], span: float) -> tuple[float | None, float | None]:
    """Bytes and bytes/s of the intervals, which must be all of the ``span`` in seconds."""
    kept = [row for row in rows if not row.final and not row.omitted]
    sums = [row for row in kept if row.id == "SUM"] or kept
    if not sums or len({row.id for row in sums}) > 1:
        return None, None
    moved, seconds = sum(row.moved for row in sums), sum(row.span for row in sums)
    whole = seconds > 0 and abs(seconds - span) <= 0.011 * (len(sums) + 1)
    return (moved, moved / seconds) if whole else (None, None)


_JSON = re.compile(rb'"(?:sum_sent|sum_received|bits_per_second|accepted_connection|test_start)"')
_ITS_OWN = re.compile(rb'"version"\s*:\s*"iperf 3|"(?:connecting_to|cpu_utilization_percent)"\s*:')
_LINE = re.compile(rb"\[ *(?:\d+|SUM)\](?:\[[RT]X-[CS]\])? +\d+\.\d+-\d+\.\d+ +sec +[\d.]+ ")
_WORDS = re.compile(
    rb"Connecting to host .+, port \d|Server listening on \d|iperf Done\.|iperf 3\."
)


class Iperf3Format:
    """The plugin."""

    name = "iperf3"
    title = "iperf3, JSON and normal output"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        head = head.replace(b"\0", b"")  # UTF-16, as PowerShell writes it
        if _JSON.search(head):
            return 3 if _ITS_OWN.search(head) else 1
        return (1 if _LINE.search(head) else 0) + (2 if _WORDS.search(head) else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if re.search(r"^\s*[\[{]?\s*\{", text, re.MULTILINE):
            return documents(text, raw)
        return tests(text, raw)


FORMAT = Iperf3Format()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The one test in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several."""
    return the_one(FORMAT.read(data, raw), raw, "tests of iperf3")
