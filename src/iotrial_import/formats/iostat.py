"""iostat's reports: ``-x``, ``-d``, with ``-k``, ``-m``, ``-t``, ``-z``, ``-s``, and ``-o JSON``.

A recording a device, with the mean of its intervals, and one for the CPUs; the first report, which
covers the time since the machine was started, is left out.

Columns and units are those of sar too (:mod:`iotrial_import.formats.sar`), and sysstat's: a kB is
1024 bytes, a sector or block 512.  Rates and depths are the mean of the intervals, which are of one
length; a latency is weighted by the I/Os of its interval, since an idle one says nothing.
``svctm`` is not read: sysstat's own manual says not to trust it.

Sources: sysstat's ``iostat.c``, ``pr_stats.c`` and ``rd_stats.c`` of 10.1.5 to 12.7.5.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt

BEGINS = re.compile(r'^[ \t]*\{\s{0,20}"sysstat"\s*:', re.MULTILINE)


def documents(text: str) -> Iterator[Any]:
    """Numbers stay as they are printed: how many digits there are says how exact they are.

    Raises ValueError for one that is not whole."""
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    match = BEGINS.search(text)
    while match:
        document, end = decoder.raw_decode(text, text.index("{", match.start()))
        yield document
        match = BEGINS.search(text, end)


_K, _M, _S, _MS, _PCT = 1024.0, 1048576.0, 512.0, 1e-3, 0.01
COLUMNS: Mapping[str, tuple[str, float]] = {
    "tps": ("total.iops", 1.0), "r/s": ("read.iops", 1.0), "w/s": ("write.iops", 1.0),
    "d/s": ("trim.iops", 1.0), "f/s": ("flush.iops", 1.0), "rtps": ("read.iops", 1.0),
    "wtps": ("write.iops", 1.0), "dtps": ("trim.iops", 1.0),
    "rsec/s": ("read.bw", _S), "rkB/s": ("read.bw", _K), "rMB/s": ("read.bw", _M),
    "wsec/s": ("write.bw", _S), "wkB/s": ("write.bw", _K), "wMB/s": ("write.bw", _M),
    "dsec/s": ("trim.bw", _S), "dkB/s": ("trim.bw", _K), "dMB/s": ("trim.bw", _M),
    "Blk_read/s": ("read.bw", _S), "kB_read/s": ("read.bw", _K), "MB_read/s": ("read.bw", _M),
    "Blk_wrtn/s": ("write.bw", _S), "kB_wrtn/s": ("write.bw", _K), "MB_wrtn/s": ("write.bw", _M),
    "Blk_dscd/s": ("trim.bw", _S), "kB_dscd/s": ("trim.bw", _K), "MB_dscd/s": ("trim.bw", _M),
    "sec/s": ("total.bw", _S), "kB/s": ("total.bw", _K), "MB/s": ("total.bw", _M),
    "rd_sec/s": ("read.bw", _S), "wr_sec/s": ("write.bw", _S), "dc_sec/s": ("trim.bw", _S),
    "bread/s": ("read.bw", _S), "bwrtn/s": ("write.bw", _S), "bdscd/s": ("trim.bw", _S),
    "await": ("total.lat.mean", _MS), "r_await": ("read.lat.mean", _MS),
    "w_await": ("write.lat.mean", _MS), "d_await": ("trim.lat.mean", _MS),
    "f_await": ("flush.lat.mean", _MS),
    "avgqu-sz": ("total.depth", 1.0), "aqu-sz": ("total.depth", 1.0), "%util": ("total.util", _PCT),
    "%user": ("cpu.usr", _PCT), "%usr": ("cpu.usr", _PCT), "%system": ("cpu.sys", _PCT),
    "%sys": ("cpu.sys", _PCT),
    "rxpck/s": ("receive.rate", 1.0), "txpck/s": ("send.rate", 1.0),
    "rxkB/s": ("receive.bw", _K), "txkB/s": ("send.bw", _K), "%ifutil": ("total.util", _PCT),
    "rxbyt/s": ("receive.bw", 1.0), "txbyt/s": ("send.bw", 1.0),
}  # fmt: skip
"""A column of iostat or sar → metric and what one of it is in base units."""
_SIZES = (
    # What an I/O's mean size times their number must be: size, number of, columns of the product.
    ("rareq-sz", ("r/s",), ("rkB/s",)), ("wareq-sz", ("w/s",), ("wkB/s",)),
    ("avgrq-sz", ("r/s", "w/s"), ("rsec/s", "wsec/s")),
    ("areq-sz", ("tps",), ("rkB/s", "wkB/s", "dkB/s")),
    ("avgrq-sz", ("tps",), ("rd_sec/s", "wr_sec/s")),
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,15}([.,]\d{1,6})?")


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device in one interval: column → what is printed."""

    line: int
    device: str
    values: Mapping[str, str]


@dataclass(slots=True)
class IostatRun:
    """One execution of the tool: its ``reports``, each with a sample for each device."""

    line: int
    version: str = ""
    reports: list[list[DeviceSample]] = field(default_factory=list)


def number(text: str, place: str) -> float:
    """Raises FormatError for anything but digits with one decimal mark."""
    if not _NUMBER.fullmatch(text):
        what = f"{place}: {text[:40]!r} is not a number"
        raise FormatError(what, advice="Take it without -h or --human, and whole.")
    return float(text.replace(",", "."))


def checked(sample: DeviceSample, raw: str) -> None:
    """Raises FormatError where a mean size times the number of I/Os is not the bandwidth."""
    told = sample.values
    for size, counts, products in _SIZES:
        if size not in told or not all(each in told for each in (*counts, products[0])):
            continue
        place = f"{raw}: line {sample.line}: {sample.device}"
        events = sum(number(told[each], place) for each in counts)
        volume = sum(number(told[each], place) for each in products if each in told)
        mean = number(told[size], place)
        steps = [_step(told[each]) for each in (size, *counts, *products) if each in told]
        step = max(steps)
        slack = step * (events + mean * len(counts) + len(products) + step)
        if abs(events * mean - volume) > slack + 1e-9 * volume:
            what = f"{place}: {size} {mean:g} times {events:g}/s is not {volume:g}/s"
            raise FormatError(what, advice="A number was changed: take the file as it was written.")


def _step(text: str) -> float:
    """What one more in the last digit is worth, and half of it again for the rounding of both."""
    part = re.sub(r"^\d+[.,]?", "", text)
    return float(10.0 ** -len(part)) * 0.75


def recordings(
    run: IostatRun, raw: str, tool: str, *, since_boot: bool, zeros: bool = True
) -> Iterator[Recording]:
    """A recording for each device, in the order they came.

    ``since_boot``: the first report covers the time since the machine was started, and is left out
    where there are others.  ``zeros``: a device that is not in a report was idle then (``-z``).
    """
    reports = run.reports
    doubts: list[Doubt] = []
    if since_boot and len(reports) > 1:
        reports = reports[1:]
    elif since_boot:
        what = "one report only: unless -y was given, its means are those since the machine started"
        doubts.append(Doubt("since-boot", what, "Take two reports or more: iostat -x 1 10."))
    by_device: dict[str, list[DeviceSample]] = {}
    for report in reports:
        for sample in report:
            checked(sample, raw)
            by_device.setdefault(sample.device, []).append(sample)
    for device, samples in by_device.items():
        missing = len(reports) - len(samples) if zeros else 0
        own = list(doubts)
        if missing > 0:
            what = f"{device} is missing in {missing} of {len(reports)} reports: taken as idle then"
            own.append(Doubt("idle", what, "Was the device there all the time?"))
        found = tuple(_means(samples, max(0, missing), raw))
        if found:
            yield Recording(
                tool=tool,
                workload=tool,
                measurements=found,
                name=device,
                version=run.version,
                line=samples[0].line,
                treatment=(("device", device),) if device else (),
                doubts=tuple(own),
            )


def _means(samples: Sequence[DeviceSample], missing: int, raw: str) -> Iterator[Measurement]:
    columns = [name for name in samples[0].values if name in COLUMNS]
    for sample in samples:
        if list(sample.values) != list(samples[0].values):
            what = f"{raw}: line {sample.line}: other columns than in line {samples[0].line}"
            raise FormatError(what, advice="Take the whole output of one execution.")
    taken: set[str] = set()
    for name in columns:
        wanted, scale = COLUMNS[name]
        if wanted in taken:
            continue
        taken.add(wanted)
        told = [number(s.values[name], f"{raw}: line {s.line}: {name}") for s in samples]
        if ".lat." in wanted:
            weights = [_ios(sample, wanted, raw) for sample in samples]
            if not (total := math.fsum(weights)):
                continue
            value = math.fsum(v * w for v, w in zip(told, weights, strict=True)) / total
        else:
            value = math.fsum(told) / (len(told) + missing)
        yield of_metric(wanted, value * scale, raw)


def _ios(sample: DeviceSample, wanted: str, raw: str) -> float:
    """The I/Os per second that a latency is the mean of."""
    told = sample.values
    counts = {"read": ("r/s",), "write": ("w/s",), "trim": ("d/s",), "flush": ("f/s",)}.get(
        wanted.partition(".")[0], ("tps",) if "tps" in told else ("r/s", "w/s", "d/s")
    )
    place = f"{raw}: line {sample.line}"
    return math.fsum(number(told[each], place) for each in counts if each in told)


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


def _runs(text: str, raw: str) -> Iterator[tuple[IostatRun, IostatRun]]:
    """Each execution's devices and CPUs; a banner begins the next."""
    devices, cpus = IostatRun(1), IostatRun(1)
    header: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if _BANNER.fullmatch(line):
            if devices.reports or cpus.reports:
                yield devices, cpus
            devices, cpus, header = IostatRun(at), IostatRun(at), []
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


def _alike(devices: IostatRun, header: list[str], place: str) -> None:
    """One execution prints the same columns all the time."""
    first = next((report[0] for report in devices.reports if report), None)
    names = [word for word in header if word.lower().rstrip(":") != "device"]
    if first and list(first.values) != names:
        raise FormatError(f"{place}: other columns than in the report before", advice=_AGAIN)


def _row(header: list[str], words: list[str], at: int, raw: str, run: IostatRun) -> None:
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
    run.reports[-1].append(DeviceSample(at, device, dict(zip(names, values, strict=True))))


def _documents(text: str, raw: str) -> list[tuple[IostatRun, IostatRun]]:
    try:
        found = list(documents(text))
        return [_host(host, raw) for each in found for host in each["sysstat"]["hosts"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"{raw}: no whole JSON of iostat: {type(error).__name__}: {error}"
        raise FormatError(what, advice=_AGAIN) from None


def _host(host: Mapping[str, Any], raw: str) -> tuple[IostatRun, IostatRun]:
    devices, cpus = IostatRun(0), IostatRun(0)
    for statistics in host["statistics"]:
        report: list[DeviceSample] = []
        for disk in statistics.get("disk", []):
            values = {("%util" if k == "util" else k): str(v) for k, v in disk.items()}
            device = values.pop("disk_device", "")
            if not device or device in [each.device for each in report]:
                raise FormatError(f"{raw}: device {device!r} comes twice, or has no name")
            if report and list(report[0].values) != list(values):
                raise FormatError(f"{raw}: {device} has other columns than the device before")
            report.append(DeviceSample(0, device, values))
        first = next((each[0] for each in devices.reports if each), None)
        if first and report and list(first.values) != list(report[0].values):
            raise FormatError(f"{raw}: other columns than in the report before")
        devices.reports.append(report)
        if "avg-cpu" in statistics:
            cpu = statistics["avg-cpu"]
            values = {_JSON_CPU[key]: str(cpu[key]) for key in _JSON_CPU}
            cpus.reports.append([DeviceSample(0, _CPU, values)])
    return devices, cpus
