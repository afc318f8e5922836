"""The screen of ``iotrial status --follow``: what the page of a run shows, for a terminal.

From the document of now (:mod:`iotrial.live.picture`) to a line, or to a picture as wide and as
high as the window: a row for everything together, for each host and target, and below it for each
path or member of a device.  A window that is too low for all of them shows the targets without
their paths, or one row a host; one that is too narrow leaves out columns, the least telling first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iotrial.live.picture import STALE, Rates, total
from iotrial.model.measurement import display_unit
from iotrial.report.layout import cut
from iotrial.report.words import PRETENDED
from iotrial.units import format_change, format_seconds, format_value, format_wait

Document = Mapping[str, Any]

SHOWN = 12
"""Findings."""
LAST_TRIALS = 6
LAST_WORDS = 3
_LEAST = 6
"""A column of names is never narrower."""
_NAMES = ("host", "target", "device")
_GAP = 2
"""Columns of the window between two of a table."""
_NONE = "–"


def line(document: Document) -> str:
    """``3/24  ETA 2m10s  block 1  randread  scheduler=bfq  read 21.5 k/s …``."""
    over = ["over"] if document["state"] == "over" else []
    return "  ".join([_done(document), *_trial(document), *_rates(document["total"]), *over])


def _done(document: Document) -> str:
    progress = document["progress"]
    mark = "≤" if progress["open_ended"] else ""
    done = f"{progress['done']}/{mark}{progress['most']}"
    bound = "at most " if progress["open_ended"] else ""
    wait = progress["wait"]
    left = wait and document["state"] != "over"
    return f"{done}  ETA {bound}{format_wait(wait)}" if left else done


def _trial(document: Document) -> list[str]:
    trial = document["trial"]
    if not trial:
        return [] if document["state"] == "over" else [document["phase"]]
    attempt = [f"attempt {trial['attempt']}"] if trial["attempt"] > 1 else []
    phase = [] if document["phase"] == "load" else [document["phase"]]
    others = len(document.get("abreast", ())) - 1
    where = f" on {trial['host']}" if trial.get("host") else ""
    where += f" and {others} on other hosts" if where and others > 0 else ""
    block = f"block {trial['block']}{where}"
    return [block, trial["workload"], _treatment(trial), *attempt, *phase]


def _treatment(trial: Document) -> str:
    return " ".join(f"{name}={level}" for name, level in trial["treatment"].items()) or "-"


def _rates(rates: Mapping[str, float]) -> list[str]:
    """What is done a second; latencies beside what they are of."""
    parts = []
    for way in ("read", "write"):
        if rates.get(f"{way}.iops"):
            text = f"{way} {format_value(rates[f'{way}.iops'], 'IOPS')}"
            text += f" {format_value(rates[f'{way}.bw'], 'bytes/s')}"
            if f"{way}.lat" in rates:
                text += f" {format_seconds(rates[f'{way}.lat'])}"
            parts.append(text)
    remote = [(way, rates.get(f"{way}.bw")) for way in ("received", "sent")]
    return [*parts, *(f"{way} {format_value(bw, 'bytes/s')}" for way, bw in remote if bw)]


def remembered(document: Document, before: Document) -> Document:
    """``document``, in which what says nothing between two loads has its last numbers, as
    ``before`` remembered them, marked ``old``: so nothing jumps."""
    known = {_key(each): each for each in _all(before)}

    def filled(each: Document) -> Document:
        silent = not each["rates"] or each.get("age", 0.0) > STALE
        rates = each["rates"] or known.get(_key(each), each)["rates"]
        return {**each, "rates": rates, "old": silent}

    hosts = {_key(each): each for each in (*before["hosts"], *document["hosts"])}
    total = document["total"] or before.get("together", {})
    return {
        **document,
        "rows": [filled(each) for each in document["rows"]],
        "paths": [filled(each) for each in document.get("paths", ())],
        "hosts": list(hosts.values()),
        "together": total,
    }


def picture(document: Document, width: int, height: int) -> Group:
    """All of a :func:`remembered` document, for a window of ``width`` by ``height``."""
    findings, trials = document["findings"][:SHOWN], document["trials"][:LAST_TRIALS]
    words = document["words"][-LAST_WORDS:]
    others = 6 + bool(document.get("pretended")) + len(words)
    others += sum(len(each) + 1 for each in (findings, trials) if each)
    rows = _lines(document, max(height - others, height // 2))
    return Group(
        *([_one(PRETENDED, width, "bold yellow")] if document.get("pretended") else []),
        _one(document["question"], width, "bold"),
        _one(line(document), width),
        _one("  ".join(_counts(document)), width),
        _one(_asked(document), width),
        *_rows(rows, width),
        _one(_in_force(document["settings"]), width),
        *([_findings(findings, width)] if findings else []),
        *([_trials(trials, width)] if trials else []),
        *(_one(text, width, "dim") for text in words),
    )


def _one(text: str, width: int, style: str = "") -> Text:
    return Text(cut(text, width), style=style, no_wrap=True)


def _asked(document: Document) -> str:
    return document["asked"] and f"asked at the terminal of the run: {document['asked']}"


def _counts(document: Document) -> list[str]:
    """How trials ended, what of the budget is spent, and how long this load has gone on."""
    progress, trial = document["progress"], document["trial"]
    found = [f"{progress['valid']} valid"]
    for name, said in (("invalid", "INVALID"), ("failed", "failed")):
        if progress[name]:
            found.append(f"{progress[name]} {said}")
    if progress["budget"]:
        found.append(f"{format_wait(progress['spent'])} of {format_wait(progress['budget'])} spent")
    if trial and document["phase"] == "load":
        found.append(
            f"trial {trial['number']} loads {trial['target']} for {trial['elapsed']:.0f} s"
        )
    return found


# -- the rows -------------------------------------------------------------------------------------


Key = tuple[str, ...]
"""Host, target, device."""


@dataclass(frozen=True, slots=True)
class _ScreenLine:
    """One row: ``rates`` of what it names, ``machine`` those of its host.  ``old`` ones are the
    last that were said."""

    host: str
    target: str
    device: str
    rates: Rates
    machine: Rates
    old: bool

    @property
    def key(self) -> Key:
        return self.host, self.target, self.device


def _lines(document: Document, room: int) -> tuple[list[_ScreenLine], str]:
    """As many as there is room for, and what there was none for."""
    machines = {each["host"]: each["rates"] for each in document["hosts"]}
    rows = [_line(row, machines) for row in document["rows"]]
    below: dict[Key, list[_ScreenLine]] = {}
    for path in document["paths"]:
        found = _ScreenLine("", "", f"└ {path['path']}", path["rates"], {}, path["old"])
        below.setdefault(_key(path)[:3], []).append(found)
    whole = [each for row in rows for each in (row, *below.get(row.key, ()))]
    sums = [_together(document, machines)] if len(rows) > 1 else []
    room -= len(sums)
    if len(whole) <= room:
        return [*sums, *whole], ""
    if len(rows) < room:
        return [*sums, *rows], (
            f"{len(whole) - len(rows)} paths not shown: the window is too small"
        )
    hosts = _by_host(rows)
    shown = hosts[: max(room - 1, 1)]
    said = "the window is too small for a row per target: totals by host"
    if len(shown) < len(hosts):
        said = f"{len(hosts) - len(shown)} hosts not shown: the window is too small"
    return [*sums, *shown], said


def _line(row: Document, machines: Mapping[str, Rates]) -> _ScreenLine:
    machine = machines.get(row["host"], {})
    return _ScreenLine(row["host"], row["target"], row["device"], row["rates"], machine, row["old"])


def _all(document: Document) -> Sequence[Document]:
    return [*document["rows"], *document.get("paths", ())]


def _key(each: Document) -> tuple[str, ...]:
    return tuple(each.get(name, "") for name in ("host", "target", "device", "path"))


def _together(document: Document, machines: Mapping[str, Rates]) -> _ScreenLine:
    """Everything together; of the hosts the busiest."""
    old = not document["total"]
    return _ScreenLine("total", "", "", document["together"], _most([*machines.values()]), old)


def _most(hosts: Sequence[Mapping[str, float]]) -> Rates:
    names = dict.fromkeys(name for each in hosts for name in each)
    return {name: max(each[name] for each in hosts if name in each) for name in names}


def _by_host(rows: Sequence[_ScreenLine]) -> list[_ScreenLine]:
    """Each host's targets added up."""
    found: dict[str, list[_ScreenLine]] = {}
    for row in rows:
        found.setdefault(row.host, []).append(row)
    return [
        _ScreenLine(
            host,
            f"{len(mine)} targets" if len(mine) > 1 else mine[0].target,
            "",
            total(row.rates for row in mine if not row.old) or total(row.rates for row in mine),
            mine[0].machine,
            all(row.old for row in mine),
        )
        for host, mine in found.items()
    ]


def _value(name: str, unit: str, remote: str = "") -> Callable[[_ScreenLine], str]:
    def cell(row: _ScreenLine) -> str:
        value = row.rates.get(name, row.rates.get(remote))
        return _NONE if value is None else format_value(value, unit)

    return cell


def _share(name: str) -> Callable[[_ScreenLine], str]:
    def cell(row: _ScreenLine) -> str:
        value = (row.machine if name.startswith(("cpu.", "pressure.")) else row.rates).get(name)
        return _NONE if value is None else f"{value:.0%}"

    return cell


def _in_flight(row: _ScreenLine) -> str:
    value = row.rates.get("in_flight")
    return _NONE if value is None else f"{value:.0f}"


_COLUMNS: Mapping[str, Callable[[_ScreenLine], str]] = {
    "host": lambda row: row.host,
    "target": lambda row: row.target,
    "device": lambda row: row.device,
    "share": _share("share"),
    "read": _value("read.iops", "IOPS"),
    "write": _value("write.iops", "IOPS"),
    "read bytes": _value("read.bw", "bytes/s", "received.bw"),
    "write bytes": _value("write.bw", "bytes/s", "sent.bw"),
    "read lat": _value("read.lat", "s"),
    "write lat": _value("write.lat", "s"),
    "in flight": _in_flight,
    "busy": _share("busy"),
    "CPU": _share("cpu.busy"),
    "waits I/O": _share("pressure.io"),
    "waits CPU": _share("pressure.cpu"),
    "waits memory": _share("pressure.memory"),
}
_FIRST_OUT = (
    "waits memory", "waits CPU", "in flight", "waits I/O", "busy", "write bytes", "read bytes",
    "CPU", "share",
)  # fmt: skip


def _rows(found: tuple[list[_ScreenLine], str], width: int) -> Iterator[RenderableType]:
    lines, missing = found
    cells = {head: [cell(row) for row in lines] for head, cell in _COLUMNS.items()}
    shown = fitting(cells, width)
    values = list(zip(*shown.values(), strict=True))
    named = [at for at, head in enumerate(shown) if head in _NAMES]
    table = _table(list(shown), values, width, names=named)
    for row, told in zip(table.rows, lines, strict=True):
        row.style = "dim" if told.old else ""
    if lines:
        yield table
    if missing:
        yield _one(missing, width, "dim")


def fitting(cells: Mapping[str, Sequence[str]], width: int) -> dict[str, Sequence[str]]:
    """The columns that say anything, less those for which ``width`` is too little."""
    left = {head: column for head, column in cells.items() if not {"", _NONE}.issuperset(column)}
    for head in _FIRST_OUT:
        if sum(max(map(cell_len, (h, *c))) + _GAP for h, c in left.items()) - _GAP <= width:
            break
        left.pop(head, None)
    return left


# -- the rest -------------------------------------------------------------------------------------


def _in_force(settings: Sequence[Sequence[Any]]) -> str:
    varied = [f"{name}={value}" for _, _, name, value, mine in settings if mine]
    return f"in force: {', '.join(varied) or '–'}"


def _findings(findings: Sequence[Document], width: int) -> Table:
    heads = ("workload", "level", "against", "change in % (interval)", "n", "verdict")
    return _table(heads, [_finding(each) for each in findings], width, names=(0, 1, 2))


def _finding(each: Document) -> tuple[str, ...]:
    ends = ""
    if each["low"] is not None:
        ends = f" ({format_change(each['low'])} … {format_change(each['high'])})"
    stage = f"stage {each['stage']} " if each["stage"] else ""
    return (
        f"{stage}{each['workload']} {each['metric']}", each["level"], each["baseline"],
        f"{format_change(each['ratio'])}{ends}", str(each["n"]),
        each["verdict"].replace("-", " ") or "so far",
    )  # fmt: skip


def _trials(trials: Sequence[Document], width: int) -> Table:
    heads = ("last trials", "block", "workload", "treatment", "value", "state")
    return _table(heads, [_ended(each) for each in trials], width, names=(1, 2, 3, 5))


def _ended(each: Document) -> tuple[str, ...]:
    unit = display_unit(each["metric"], each["unit"])
    value = _NONE if each["value"] is None else format_value(each["value"], unit)
    state = each["state"] + (f": {each['why']}" if each["why"] else "")
    block = f"{each['block']}{' on ' if each.get('host') else ''}{each.get('host', '')}"
    return str(each["number"]), block, each["workload"], _treatment(each), value, state


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, names: Sequence[int] = ()
) -> Table:
    """One line a row: of the columns ``names`` as much is left out as ``width`` has no room for,
    the widest first.  Numbers are whole."""
    room = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    while sum(room) + _GAP * (len(room) - 1) > width:
        widest = max(names, key=lambda at: room[at], default=-1)
        if widest < 0 or room[widest] <= _LEAST:
            break
        room[widest] -= 1
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head, cells in zip(heads, room, strict=True):
        table.add_column(Text(cut(head, cells)), no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cut(cell, room[at])) for at, cell in enumerate(row)))
    return table
