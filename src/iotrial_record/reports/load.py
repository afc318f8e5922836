"""The report of recordings: what each load is, side by side, as tables and pictures.

One recording, or several of the same kind ("Monday's and Tuesday's"): each is a column of the
tables and a line of the pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import localtime, strftime
from typing import Any

import numpy as np

from iotrial.errors import UsageError
from iotrial.extras import missing
from iotrial.report.blocks import (
    Block,
    Callout,
    Column,
    Document,
    Figure,
    Figures,
    Section,
    Table,
    Text,
    TextSpan,
)
from iotrial.report.drawing import (
    NARROW,
    WIDE,
    Spec,
    by_group,
    channel,
    document,
    log_ticks,
    mark,
    svg,
)
from iotrial.report.render.html import html
from iotrial.report.render.markdown import markdown
from iotrial.report.sections import FolderReport, WrittenReport
from iotrial.report.words import visible
from iotrial.units import format_bytes, format_seconds, format_value, format_wait
from iotrial_record.character import LoadCharacter, character
from iotrial_record.model import job_file
from iotrial_record.trace import INDEX, TraceFacts, load_index, load_parts

_POINTS = 300
"""Of a line over time."""
_SIZES = 6
_HOTTEST = (0.01, 0.1, 0.5)
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """A recording and what it shows; ``name`` is what it is called beside others."""

    name: str
    folder: Path
    index: TraceFacts
    load: LoadCharacter


def read(folders: Sequence[Path]) -> tuple[RecordedLoad, ...]:
    """Raises UsageError where a folder holds no recording."""
    found = []
    for folder in folders:
        index = load_index(folder)
        load = character(index, load_parts(folder, index))
        name = visible(folder.resolve().name)
        found.append(RecordedLoad(name, folder, index, load))
    return tuple(found)


# -- tables ----------------------------------------------------------------------------------------


def _rows(load: RecordedLoad) -> dict[str, str]:
    """What is said of a load, by the name of the row."""
    rows: dict[str, str] = {}
    for part in (_of_all, _of_operations, _of_places, _of_time):
        rows |= part(load)
    return rows


def _of_all(load: RecordedLoad) -> dict[str, str]:
    of, seconds = load.load, load.load.seconds
    began = strftime("%Y-%m-%d %H:%M:%S", localtime(load.index.began))
    disks = (f"{visible(each.name)} ({format_bytes(each.size)})" for each in load.index.devices)
    rate = format_value(of.ios / seconds, "IOPS") if seconds else "–"
    return {
        "recorded": f"{began}, {format_wait(seconds)}",
        "of": ", ".join(disks),
        "I/Os": f"{of.ios}, {rate}",
    }


def _of_operations(load: RecordedLoad) -> dict[str, str]:
    of, seconds, rows = load.load, load.load.seconds or 1.0, {}
    for name, each in of.operations.items():
        parts = [f"{each.ios / of.ios:.1%} of the I/Os"]
        if each.bytes:
            parts.append(format_value(each.bytes / seconds, "bytes/s"))
            parts.append(f"{each.sequential:.0%} sequential")
        if name == "write":
            parts.append(f"{each.sync:.0%} synchronous")
            parts += [f"{each.fua:.0%} FUA"] if each.fua else []
        rows[_many(name)] = ", ".join(parts)
        if each.bytes:
            rows[f"sizes of {name}s"] = _sizes(each.sizes)
    return rows


def _of_places(load: RecordedLoad) -> dict[str, str]:
    of, rows = load.load, {}
    if of.aligned:
        below = sum(count for size, count in of.aligned.items() if size < _PAGE)
        rows["not aligned to 4 KiB"] = f"{below / max(1, sum(of.aligned.values())):.1%}"
    for share in _HOTTEST:
        if of.curve:
            places = [0.0, *(place for place, _ in of.curve)]
            hit = float(np.interp(share, places, [0.0, *(hits for _, hits in of.curve)]))
            rows[f"hottest {share:.0%} of the device"] = f"{hit:.0%} of reads and writes"
    if of.ios:
        rows["to a 64 KiB block asked for before"] = f"{of.reuse:.0%}"
    return rows


def _of_time(load: RecordedLoad) -> dict[str, str]:
    of, rows = load.load, {}
    for window, index in of.dispersion.items():
        rows[f"index of dispersion, {format_seconds(window)}"] = f"{index:.3g}"
    if of.depth:
        rows["requests in flight"] = _depth(of.depth)
    for name, found in of.response.items():
        told = [f"{q:.1%}: {format_seconds(at)}".replace(".0%", " %") for q, at in found.items()]
        if told:
            rows[f"response time of {name}s"] = ", ".join(told)
    return rows


def _many(operation: str) -> str:
    return f"{operation}es" if operation.endswith("sh") else f"{operation}s"


def _sizes(sizes: Mapping[int, int]) -> str:
    total = sum(sizes.values())
    most = sorted(sizes.items(), key=lambda pair: -pair[1])[:_SIZES]
    told = [f"{format_bytes(size)} {count / total:.0%}" for size, count in most]
    return ", ".join(told) + (", …" if len(sizes) > _SIZES else "")


def _depth(depth: Mapping[int, float]) -> str:
    total = sum(depth.values())
    mean = sum(each * seconds for each, seconds in depth.items()) / total
    busy = 1 - depth.get(0, 0.0) / total
    while_busy = mean / busy if busy else 0.0
    return (
        f"{mean:.2g} on average, {while_busy:.2g} while busy ({busy:.0%} of the time),"
        f" at most {max(depth)}"
    )


def _table(loads: Sequence[RecordedLoad]) -> Table:
    columns = [_rows(load) for load in loads]
    names = list(dict.fromkeys(name for column in columns for name in column))
    head = (Column("", "head"), *(Column(load.name) for load in loads))
    rows = tuple((name, *(column.get(name, "–") for column in columns)) for name in names)
    return Table(head, rows, "What each load is", look="facts")


def _phases(load: RecordedLoad, *, several: bool) -> Iterator[Block]:
    """A table of them, where there is more than one."""
    found = load.load.phases
    if len(found) < 2:  # noqa: PLR2004
        return
    names = list(dict.fromkeys(name for each in found for name in each.rates))
    head = (Column("phase", "head"), *(Column(_many(name)) for name in names))
    rows = tuple(
        (
            f"{format_wait(each.begin)} – {format_wait(each.end)}",
            *(format_value(each.rates.get(name, 0.0), "IOPS") for name in names),
        )
        for each in found
    )
    title = f"Phases of {load.name}" if several else "Phases"
    yield Table(head, rows, title, look="facts")


# -- pictures --------------------------------------------------------------------------------------


def _groups(loads: Sequence[RecordedLoad], operation: str) -> list[tuple[str, RecordedLoad]]:
    several = len(loads) > 1
    return [
        (f"{load.name}: {_many(operation)}" if several else _many(operation), load)
        for load in loads
        if operation in load.load.operations
    ]


def _each(
    loads: Sequence[RecordedLoad], operations: Iterable[str] = ("read", "write")
) -> list[tuple[str, str, RecordedLoad]]:
    return [
        (name, operation, load)
        for operation in operations
        for name, load in _groups(loads, operation)
    ]


def _lines(
    rows: list[dict[str, object]], groups: Sequence[str], width: int, x: Spec, y: Spec
) -> Spec:
    colour, _ = by_group(groups, width, first=1)
    line = mark("line", "", {"strokeWidth": 1.5, "interpolate": "step-after"},
                x=x, y=y, color=colour)  # fmt: skip
    return document([{**line, "data": {"name": "rows"}}], width, 220, {"rows": rows})


def _over_time(loads: Sequence[RecordedLoad]) -> Figure | None:
    rows: list[dict[str, object]] = []
    groups = []
    every = dict.fromkeys(operation for load in loads for operation in load.load.operations)
    for name, operation, load in _each(loads, every):
        rates = load.load.rates[operation]
        if not len(rates):
            continue
        each = max(1, -(-len(rates) // _POINTS))
        groups.append(name)
        shown = [(at, float(rates[at : at + each].mean())) for at in range(0, len(rates), each)]
        shown.append((len(rates), shown[-1][1]))  # a step goes on until the next point
        rows += [{"x": at, "y": rate, "g": name} for at, rate in shown]
    if not rows:
        return None
    x = channel("x:Q", axis={"title": "seconds since the recording began", "grid": False})
    y = channel("y:Q", axis={"title": "IOPS"})
    caption = "I/Os that were asked for in each second."
    return _drawn("trials", "Rate over time", caption, _lines(rows, groups, WIDE, x, y), "rate")


def _where(loads: Sequence[RecordedLoad]) -> Figure | None:
    rows: list[dict[str, object]] = []
    groups = []
    for name, operation, load in _each(loads):
        zones = load.load.zones[0 if operation == "read" else 1]
        total = max(1, int(zones.sum()))
        groups.append(name)
        rows += [
            {"x": 100 * at / len(zones), "y": 100 * int(count) / total, "g": name}
            for at, count in enumerate(zones)
        ]
    if not rows:
        return None
    x = channel("x:Q", axis={"title": "place on the device, %", "grid": False})
    y = channel("y:Q", axis={"title": "% of its I/Os"})
    caption = "Share of the I/Os of each 256th of the device."
    return _drawn("means", "Where", caption, _lines(rows, groups, NARROW, x, y), "where")


def _how_large(loads: Sequence[RecordedLoad]) -> Figure | None:
    rows: list[dict[str, object]] = []
    groups = []
    for name, operation, load in _each(loads):
        sizes = load.load.operations[operation].sizes
        total, so_far = sum(sizes.values()), 0
        groups.append(name)
        for size, count in sizes.items():
            rows.append({"x": size / 1024, "y": 100 * so_far / total, "g": name})
            so_far += count
            rows.append({"x": size / 1024, "y": 100 * so_far / total, "g": name})
    rows = [row for row in rows if isinstance(row["x"], float) and row["x"] > 0]
    if not rows:
        return None
    low, high = (pick(float(str(row["x"])) for row in rows) for pick in (min, max))
    x = channel(
        "x:Q",
        scale={"type": "log", "domain": [low / 1.5, high * 1.5]},
        axis={"title": "size, KiB", "values": log_ticks(low / 1.5, high * 1.5), "grid": False},
    )
    y = channel("y:Q", axis={"title": "% of the I/Os of at most this size"})
    caption = "Cumulative distribution of sizes."
    return _drawn("means", "Sizes", caption, _lines(rows, groups, NARROW, x, y), "sizes")


def _at_once(loads: Sequence[RecordedLoad]) -> Figure | None:
    rows: list[dict[str, object]] = []
    for load in loads:
        total, left = sum(load.load.depth.values()), 1.0
        for depth, seconds in load.load.depth.items():
            rows.append({"x": depth, "y": 100 * left, "g": load.name})
            left -= seconds / total
    if not rows:
        return None
    x = channel("x:Q", axis={"title": "requests in flight", "grid": False, "tickMinStep": 1})
    y = channel("y:Q", axis={"title": "% of the time at least so many"})
    groups = [load.name for load in loads]
    caption = "How many requests the device had, by time."
    return _drawn("means", "In flight", caption, _lines(rows, groups, NARROW, x, y), "flight")


def _drawn(kind: str, title: str, caption: str, spec: Spec, ident: str) -> Figure:
    return Figure(kind, svg(spec, title, caption, f"load-{ident}"), title, caption)


def _figures(loads: Sequence[RecordedLoad]) -> tuple[Block, ...]:
    if missing("charts"):
        return ()
    makers: tuple[Callable[[Sequence[RecordedLoad]], Figure | None], ...] = (
        _over_time, _where, _how_large, _at_once,
    )  # fmt: skip
    found = tuple(figure for make in makers if (figure := make(loads)))
    return (Figures(found),) if found else ()


# -- the document ----------------------------------------------------------------------------------


def page(loads: Sequence[RecordedLoad]) -> Document:
    """The report of these recordings as blocks."""
    title = " and ".join(load.name for load in loads)
    doubts = tuple(
        Callout(load.name, (Text(f"Doubtful: {load.index.doubt}."),), "doubt")
        for load in loads
        if load.index.doubt
    )
    more = (block for load in loads for block in _phases(load, several=len(loads) > 1))
    told = Section("What the load is", (*_figures(loads), _table(loads), *more), "load")
    hosts = ", ".join(
        dict.fromkeys(f"{visible(x.index.host)}, Linux {visible(x.index.kernel)}" for x in loads)
    )
    raw = Text(("Raw: ", *(TextSpan(f"{load.folder}/{INDEX} ", "code") for load in loads)), "note")
    return Document(
        f"Recorded load: {title}",
        (Text(hosts, "note"),),
        (*doubts, told, Section("Raw data", (raw,), "raw")),
    )


def _takes(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def _written(folders: Sequence[Path], shape: str, _base: Path) -> WrittenReport:
    other = next((folder for folder in folders if not _takes(folder)), None)
    if other is not None:
        raise UsageError(
            f"{other} is no recording, and others are",
            advice="Report recordings and studies by a command each.",
        )
    loads = read(folders)
    if shape == "fio":
        return WrittenReport(_model(loads), {})
    if shape == "json":
        return WrittenReport(json.dumps(_document(loads), indent=1) + "\n", {})
    write = html if shape == "html" else markdown
    return WrittenReport(write(page(loads)), {})


def _model(loads: Sequence[RecordedLoad]) -> str:
    if len(loads) > 1:
        raise UsageError("fio is a format for one recording", advice="Write one job file each.")
    try:
        return job_file(loads[0].index, loads[0].load)
    except ValueError as error:
        raise UsageError(f"{loads[0].folder}: {error}", advice="Record for longer.") from error


def _document(loads: Sequence[RecordedLoad]) -> dict[str, Any]:
    return {
        "format": 1,
        "loads": [
            {
                "folder": str(load.folder),
                "recording": asdict(load.index),
                "load": _plain(asdict(load.load)),
                "doubt": load.index.doubt,
            }
            for load in loads
        ],
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 (a JSON value)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


REPORT = FolderReport(
    "load",
    "a recorded load",
    {"html": "html", "md": "md", "json": "json", "fio": "fio"},
    _takes,
    _written,
)
