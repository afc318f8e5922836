"""sar's reports of devices, CPUs, I/O and interfaces: text (``-d -u -b -n DEV``), ``sadf -d`` and
``sadf -j``.

A recording a device (or interface; ``cpu`` for all CPUs; no name for the whole machine) with the
mean of its intervals.  Lines of sar's own averages stand in only where the samples are not there.
See :mod:`iotrial_import.formats.iostat` for columns and units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial_import.formats.iostat import (
    BEGINS,
    COLUMNS,
    DeviceSample,
    IostatRun,
    documents,
    recordings,
)

_AGAIN = "take the whole output of sar, from its first line on"
_BANNER = re.compile(r"Linux \S+ \(.*\)\s.*")
_TIME = re.compile(
    r"(\d\d:\d\d:\d\d(?: [AP]M)?"
    r"|(?:Average|Summary|Durchschn\.|Moyenne|Media|Média|Gemiddelde?|Среднее|平均时间|平均値) ?:)"
    r"\s+(.*)"
)
_STAMPED = re.compile(r'"timestamp"\s*:\s*\{')  # iostat's is a text
_SEPARATED = re.compile(r"^# hostname;interval;timestamp;", re.MULTILINE)
_NUMERIC = re.compile(r"\d+(?:[.,]\d+)?")
_KEYS = ("DEV", "CPU", "IFACE")
_FEW = 3  # numbers in a line that belongs to no report
_SADF = 3  # hostname;interval;timestamp
_ALL_CPUS = ("all", "-1")
_JSON: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "disk": ("disk-device", {
        "tps": "tps", "rkB": "rkB/s", "wkB": "wkB/s", "dkB": "dkB/s", "rd_sec": "rd_sec/s",
        "wr_sec": "wr_sec/s", "areq-sz": "areq-sz", "aqu-sz": "aqu-sz", "avgqu-sz": "avgqu-sz",
        "await": "await", "util-percent": "%util",
    }),
    "cpu-load": ("cpu", {"user": "%user", "usr": "%user", "system": "%system", "sys": "%system"}),
    "net-dev": ("iface", {
        "rxpck": "rxpck/s", "txpck": "txpck/s", "rxkB": "rxkB/s", "txkB": "txkB/s",
        "ifutil-percent": "%ifutil",
    }),
}  # fmt: skip


class _Sar:
    name = "sar"
    title = "sar, and sadf -d and -j"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        text = head.decode("utf-8", "replace")
        if BEGINS.search(text):
            return 3 if _STAMPED.search(text) else 0
        if _SEPARATED.search(text):
            return 3
        lines = text.splitlines()
        timed = any((m := _TIME.fullmatch(line)) and _is_head(m[2].split()) for line in lines)
        return 0 if not timed else 3 if any(map(_BANNER.fullmatch, lines[:5])) else 2

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if BEGINS.search(text):
            runs = list(_documents(text, raw))
        elif _SEPARATED.search(text):
            runs = _separated(text, raw)
        else:
            runs = list(_text(text, raw))
        found = tuple(
            each for run in runs for each in recordings(run, raw, "sar", since_boot=False)
        )
        if not found:
            raise FormatError(f"{raw}: no report that is known by sar", advice=_AGAIN)
        return found


FORMAT = _Sar()


def _is_head(words: Sequence[str]) -> bool:
    return any(word in COLUMNS for word in words)


class _Sections:
    """The runs of one text: one for each kind of report, by its columns."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.runs: dict[tuple[str, ...], IostatRun] = {}
        self.times: dict[tuple[str, ...], str] = {}

    def add(self, header: Sequence[str], values: Sequence[str], at: int, time: str) -> None:
        """One line of numbers; a time that is another's begins the next report.  Reports that are
        not known are passed over: their last column may be a name with blanks."""
        if not _is_head(header):
            return
        if len(values) != len(header):
            what = f"{self.raw}: line {at}: {len(values)} cells; the header has {len(header)}"
            raise FormatError(what, advice=_AGAIN)
        told = dict(zip(header, values, strict=True))
        device = next((told.pop(key) for key in _KEYS if key in told), "")
        if "CPU" in header:
            if device not in _ALL_CPUS:
                return
            device = "cpu"
        run = self.runs.setdefault(tuple(header), IostatRun(at))
        if self.times.get(tuple(header)) != time:
            run.reports.append([])
            self.times[tuple(header)] = time
        if device in [each.device for each in run.reports[-1]]:
            what = f"{self.raw}: line {at}: {device or 'a line'} comes twice at {time}"
            raise FormatError(what, advice=_AGAIN)
        run.reports[-1].append(DeviceSample(at, device, told))


class _Averages(_Sections):
    """The averages of one text: those of a device that come again are another run's, or, where
    the machine was started again in between, of the time since then."""

    def __init__(self, raw: str) -> None:
        super().__init__(raw)
        self.before: list[tuple[tuple[str, ...], IostatRun]] = []

    def add(self, header: Sequence[str], values: Sequence[str], at: int, time: str) -> None:
        columns = tuple(header)
        told = dict(zip(header, values, strict=False))
        device = next((told[key] for key in _KEYS if key in told), "")
        device = "cpu" if "CPU" in told and device in _ALL_CPUS else device
        run = self.runs.get(columns)
        if run and device in [each.device for each in run.reports[-1]]:
            self.before.append((columns, self.runs.pop(columns)))
            del self.times[columns]
        super().add(header, values, at, time)


def _text(text: str, raw: str) -> Iterator[IostatRun]:
    found, averages = _Sections(raw), _Averages(raw)
    header: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        if _BANNER.fullmatch(line):
            yield from _whole(found, averages)
            found, averages, header = _Sections(raw), _Averages(raw), []
            continue
        match = _TIME.fullmatch(line)
        words = match[2].split() if match else []
        if not match:
            if sum(1 for word in line.split() if _NUMERIC.fullmatch(word)) >= _FEW:
                raise FormatError(f"{raw}: line {at}: numbers without a time", advice=_AGAIN)
        elif not any(_NUMERIC.fullmatch(word) for word in words):
            header = words  # also of reports that are not known: their lines are passed over
        elif not header:
            raise FormatError(f"{raw}: line {at}: numbers below no header", advice=_AGAIN)
        else:
            sections = found if match[1][0].isdigit() else averages
            sections.add(header, words, at, match[1])
    yield from _whole(found, averages)


def _whole(found: _Sections, averages: _Averages) -> Iterator[IostatRun]:
    yield from found.runs.values()
    for header, run in (*averages.before, *averages.runs.items()):
        if header not in found.runs:
            yield run


def _separated(text: str, raw: str) -> list[IostatRun]:
    """What ``sadf -d`` prints: a line with ``#`` names the columns of those below it."""
    found = _Sections(raw)
    header: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        cells = line.split(";")
        if line.startswith("#"):
            header = cells
        elif header and line and not cells[-1].startswith("LINUX-RESTART"):
            if len(cells) != len(header):
                what = f"{raw}: line {at}: {len(cells)} cells; the header has {len(header)}"
                raise FormatError(what, advice=_AGAIN)
            found.add(header[_SADF:], cells[_SADF:], at, cells[_SADF - 1])
    return list(found.runs.values())


def _documents(text: str, raw: str) -> Iterator[IostatRun]:
    try:
        for document in documents(text):
            for host in document["sysstat"]["hosts"]:
                found = _Sections(raw)
                for at, each in enumerate(host["statistics"]):
                    _statistics(each, at, found)
                yield from found.runs.values()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{raw}: no whole JSON of sadf: {type(error).__name__}: {error}"
        raise FormatError(what, advice=_AGAIN) from None


def _statistics(statistics: Mapping[str, Any], at: int, found: _Sections) -> None:
    network = statistics.get("network", {})
    for kind, (key, columns) in _JSON.items():
        for each in statistics.get(kind, network.get(kind, [])):
            told = {new: str(each[old]) for old, new in columns.items() if old in each}
            name = {"disk": "DEV", "cpu-load": "CPU", "net-dev": "IFACE"}[kind]
            found.add([name, *told], [str(each[key]), *told.values()], 0, f"sample {at}")
