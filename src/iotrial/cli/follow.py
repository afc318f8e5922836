"""``iotrial status DIR --follow``: what the page of a run shows, in a terminal, until it ends.

On a terminal the picture moves; elsewhere there is a plain line when something changes, and one
every few seconds of a load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from iotrial.cli.output import Output
from iotrial.errors import UsageError
from iotrial.live.file import NAME, read
from iotrial.store import is_finished
from iotrial.units import format_change, format_seconds, format_value, format_wait

EVERY = 1.0
LINE_EVERY = 5.0
"""Seconds of a load between two plain lines."""
SILENT = 30.0
"""Seconds without news after which a run on a machine that cannot be asked counts as gone."""
PATIENCE = 5.0
"""The same where its process can be seen to be gone."""
GONE = 1
AT_FIRST = 20.0
"""Seconds in which a run must have said something: it prepares before it has a folder."""
SHOWN = 12

Document = Mapping[str, Any]


def follow(output: Output, folder: Path) -> int:
    """Show the run in ``folder`` until it ends; the exit code of the run, 1 where it is gone
    without having ended.  Raises UsageError where no run ever was, FormatError."""
    document = _first(output, folder)
    if document is None:
        output.answer(f"Nothing is left to do in {folder}: iotrial status {folder}")
        return 0
    moving = output.answers.is_terminal and not output.json
    document = (_moving if moving else _lines)(output, folder, document)
    output.document({"live": dict(document)})
    if document["state"] != "over":
        output.note(
            f"the run (process {document['pid']}) is gone without having ended. What it owes:"
            f" iotrial status; to go on: iotrial run {folder}/study.toml --out {folder}"
        )
        return GONE
    if document["why"]:
        output.note(str(document["why"]))
    return int(document["exit"] or 0)


def _first(output: Output, folder: Path) -> Document | None:
    """The first document, which a run that has just begun may still owe us; None for a folder
    whose run ended before runs said anything of themselves."""
    if not (folder / NAME).exists():
        if (folder / "plan.jsonl").exists() and is_finished(folder):
            return None
        output.note(f"waiting for a run in {folder}")
    deadline = time.monotonic() + AT_FIRST
    while (found := read(folder)) is None and time.monotonic() < deadline:
        time.sleep(EVERY / 4)
    if found is not None:
        return found
    raise UsageError(
        f"{folder}: no run says anything of itself there",
        advice="Begin it with `iotrial run`, then follow it by the folder that it prints.",
    )


def _news(folder: Path, document: Document) -> Iterator[Document]:
    """The document again and again, until the run ends or is gone."""
    while True:
        yield document
        if document["state"] == "over" or _gone(document):
            return
        time.sleep(EVERY)
        document = read(folder) or document


def _gone(document: Document) -> bool:
    silent = time.time() - document["now"]
    if silent < PATIENCE:
        return False
    return silent > SILENT or not Path(f"/proc/{document['pid']}").exists()


def _moving(output: Output, folder: Path, first: Document) -> Document:
    last = first
    with Live(console=output.answers, auto_refresh=False, screen=False) as live:
        for document in _news(folder, first):
            live.update(picture(document), refresh=True)
            last = document
    return last


def _lines(output: Output, folder: Path, first: Document) -> Document:
    seen, told, last = "", 0.0, first
    for document in _news(folder, first):
        loads = document["phase"] == "load"
        mark = f"{document['state']} {loads} {document['progress']['done']}"
        due = loads and document["total"] and document["now"] - told >= LINE_EVERY
        if mark != seen or due:
            if not output.json:
                output.text(line(document))
            seen, told = mark, document["now"]
        last = document
    return last


def line(document: Document) -> str:
    """``3/24  block 1  randread  scheduler=bfq  21.5 k/s read  …  ETA 2m10s``."""
    parts = [_done(document), *_trial(document), *_rates(document["total"])]
    if document["state"] == "over":
        parts.append("over")
    elif wait := document["progress"]["wait"]:
        bound = "at most " if document["progress"]["open_ended"] else ""
        parts.append(f"ETA {bound}{format_wait(wait)}")
    return "  ".join(parts)


def _done(document: Document) -> str:
    progress = document["progress"]
    mark = "≤" if progress["open_ended"] else ""
    return f"{progress['done']}/{mark}{progress['most']}"


def _trial(document: Document) -> list[str]:
    trial = document["trial"]
    if not trial:
        return [] if document["state"] == "over" else [document["phase"]]
    treatment = " ".join(f"{name}={level}" for name, level in trial["treatment"].items())
    attempt = [f"attempt {trial['attempt']}"] if trial["attempt"] > 1 else []
    phase = [] if document["phase"] == "load" else [document["phase"]]
    others = len(document.get("abreast", ())) - 1
    where = f" on {trial['host']}" if trial.get("host") else ""
    where += f" and {others} on other hosts" if where and others > 0 else ""
    return [f"block {trial['block']}{where}", trial["workload"], treatment or "-", *attempt, *phase]


def _rates(rates: Mapping[str, float]) -> list[str]:
    """What is done a second; latencies beside what they are of."""
    parts = []
    for way in ("read", "write"):
        if rates.get(f"{way}.iops"):
            text = f"{way} {format_value(rates[f'{way}.iops'], '1/s')}"
            text += f" {format_value(rates[f'{way}.bw'], 'bytes/s')}"
            if f"{way}.lat" in rates:
                text += f" {format_seconds(rates[f'{way}.lat'])}"
            parts.append(text)
    remote = [(way, rates.get(f"{way}.bw")) for way in ("received", "sent")]
    return [*parts, *(f"{way} {format_value(bw, 'bytes/s')}" for way, bw in remote if bw)]


def picture(document: Document) -> Group:
    """What the page shows, for a terminal; its height changes with hosts and findings alone."""
    return Group(
        Text(document["question"], style="bold", no_wrap=True, overflow="ellipsis"),
        Text(line(document), no_wrap=True, overflow="ellipsis"),
        Text(document["asked"] and f"asked at the terminal of the run: {document['asked']}"),
        _rows(document),
        Text(_in_force(document["settings"]), no_wrap=True, overflow="ellipsis"),
        *([_findings(document["findings"])] if document["findings"] else []),
        *([_trials(document["trials"])] if document["trials"] else []),
    )


def _rows(document: Document) -> Table:
    table = _table(
        "host", "target", "read", "write", "read lat", "write lat", "busy", "CPU", "waits I/O"
    )
    hosts = {each["host"]: each["rates"] for each in document["hosts"]}
    for row in document["rows"][:SHOWN]:
        rates, host = row["rates"], hosts.get(row["host"], {})
        table.add_row(
            row["host"], row["target"],
            *(_value(rates, f"{way}.iops", "1/s") for way in ("read", "write")),
            *(_value(rates, f"{way}.lat", "s") for way in ("read", "write")),
            _share(rates.get("busy")), _share(host.get("cpu.busy")),
            _share(host.get("pressure.io")),
        )  # fmt: skip
    return table


def _value(rates: Mapping[str, float], name: str, unit: str) -> str:
    return format_value(rates[name], unit) if name in rates else "–"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _in_force(settings: Sequence[Sequence[Any]]) -> str:
    varied = [f"{name}={value}" for _, _, name, value, mine in settings if mine]
    return f"in force: {', '.join(varied) or '–'}"


def _findings(findings: Sequence[Document]) -> Table:
    table = _table("workload", "level", "against", "change in % (interval)", "n", "verdict")
    for each in findings[:SHOWN]:
        ends = ""
        if each["low"] is not None:
            ends = f" ({format_change(each['low'])} … {format_change(each['high'])})"
        table.add_row(
            each["workload"], each["level"], each["baseline"],
            f"{format_change(each['ratio'])}{ends}", str(each["n"]),
            each["verdict"].replace("-", " ") or "so far",
        )  # fmt: skip
    return table


def _trials(trials: Sequence[Document]) -> Table:
    table = _table("last trials", "workload", "treatment", "value", "state")
    for each in trials[:6]:
        value = "–" if each["value"] is None else format_value(each["value"], each["unit"])
        treatment = " ".join(f"{name}={level}" for name, level in each["treatment"].items())
        state = each["state"] + (f": {each['why']}" if each["why"] else "")
        table.add_row(str(each["number"]), each["workload"], treatment or "-", value, state)
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    return table
