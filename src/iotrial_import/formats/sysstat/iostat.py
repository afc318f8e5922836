"""iostat's reports: ``-x``, ``-d``, with ``-k``, ``-m``, ``-t``, ``-z``, ``-s``, and ``-o JSON``.

A recording a device, with the mean of its intervals, and one for the CPUs; the first report, which
covers the time since the machine was started, is left out.  See
:mod:`iotrial_import.formats.sysstat.samples` for columns and units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial_import.formats.sysstat.documents import BEGINS, documents
from iotrial_import.formats.sysstat.samples import COLUMNS, Run, Sample, recordings

_AGAIN = "take the whole output of iostat, from its first line on"
_BANNER = re.compile(r"Linux \S+ \(.*\)\s.*")
_NUMERIC = re.compile(r"\d+(?:[.,]\d+)?")
_FEW = 3  # numbers in a line that belongs to no report
_CPU = "cpu"
_JSON_CPU = {"user": "%user", "system": "%system"}


class _Iostat:
    name = "iostat"
    title = "iostat, text and JSON"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        text = head.decode("utf-8", "replace")
        if BEGINS.search(text):
            return 3 if '"disk_device"' in text else 0
        lines = text.splitlines()
        if any(map(_is_head, lines)):
            return 3 if any(_BANNER.fullmatch(line) for line in lines[:5]) else 2
        return 0

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        # iostat 11.6.0 prints a NUL at the end of its lines.
        text = text_of(bytes(data[:]).replace(b"\0", b""), raw)
        runs = _documents(text, raw) if BEGINS.search(text) else list(_runs(text, raw))
        found = tuple(
            each
            for devices, cpus in runs
            for run in (devices, cpus)
            for each in recordings(run, raw, "iostat", since_boot=True)
        )
        if not found:
            raise FormatError(f"{raw}: no report of devices by iostat", advice=_AGAIN)
        return found


FORMAT = _Iostat()


def _is_head(line: str) -> bool:
    words = line.split()
    named = bool(words) and (words[0] in ("Device", "Device:") or words[-1] == "Device")
    return named and any(word in COLUMNS for word in words)


def _runs(text: str, raw: str) -> Iterator[tuple[Run, Run]]:
    """Each execution's devices and CPUs; a banner begins the next."""
    devices, cpus = Run(1), Run(1)
    header: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if _BANNER.fullmatch(line):
            if devices.reports or cpus.reports:
                yield devices, cpus
            devices, cpus, header = Run(at), Run(at), []
        elif not words:
            header = []
        elif _is_head(line):
            header = words
            _alike(devices, header, f"{raw}: line {at}")
            devices.reports.append([])
        elif words[0] == "avg-cpu:":
            header = words
        elif header:
            _row(header, words, at, raw, devices if header[0] != "avg-cpu:" else cpus)
        elif sum(1 for word in words if _NUMERIC.fullmatch(word)) >= _FEW:
            raise FormatError(f"{raw}: line {at}: numbers below no header", advice=_AGAIN)
    yield devices, cpus


def _alike(devices: Run, header: list[str], place: str) -> None:
    """One execution prints the same columns all the time."""
    first = next((report[0] for report in devices.reports if report), None)
    names = [word for word in header if word.lower().rstrip(":") != "device"]
    if first and list(first.values) != names:
        raise FormatError(f"{place}: other columns than in the report before", advice=_AGAIN)


def _row(header: list[str], words: list[str], at: int, raw: str, run: Run) -> None:
    place = f"{raw}: line {at}"
    if header[0] == "avg-cpu:":
        names, device, values = header[1:], _CPU, words
        run.reports.append([])
    elif header[-1] == "Device":
        names, device, values = header[:-1], words[-1], words[:-1]
    else:
        names, device, values = header[1:], words[0], words[1:]
    if len(values) != len(names):
        what = f"{place}: {len(values)} numbers; the header has {len(names)} columns"
        raise FormatError(what, advice=_AGAIN)
    if device in [each.device for each in run.reports[-1]]:
        raise FormatError(f"{place}: {device} comes twice in one report", advice=_AGAIN)
    run.reports[-1].append(Sample(at, device, dict(zip(names, values, strict=True))))


def _documents(text: str, raw: str) -> list[tuple[Run, Run]]:
    try:
        found = list(documents(text))
        return [_host(host, raw) for each in found for host in each["sysstat"]["hosts"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{raw}: no whole JSON of iostat: {type(error).__name__}: {error}"
        raise FormatError(what, advice=_AGAIN) from None


def _host(host: Mapping[str, Any], raw: str) -> tuple[Run, Run]:
    devices, cpus = Run(0), Run(0)
    for statistics in host["statistics"]:
        report: list[Sample] = []
        for disk in statistics.get("disk", []):
            values = {("%util" if k == "util" else k): str(v) for k, v in disk.items()}
            device = values.pop("disk_device", "")
            if not device or device in [each.device for each in report]:
                raise FormatError(f"{raw}: device {device!r} comes twice, or has no name")
            if report and list(report[0].values) != list(values):
                raise FormatError(f"{raw}: {device} has other columns than the device before")
            report.append(Sample(0, device, values))
        first = next((each[0] for each in devices.reports if each), None)
        if first and report and list(first.values) != list(report[0].values):
            raise FormatError(f"{raw}: other columns than in the report before")
        devices.reports.append(report)
        if "avg-cpu" in statistics:
            cpu = statistics["avg-cpu"]
            values = {_JSON_CPU[key]: str(cpu[key]) for key in _JSON_CPU}
            cpus.reports.append([Sample(0, _CPU, values)])
    return devices, cpus
