"""``iotrial status DIR --follow``: what the page of a run shows, in a terminal, until it ends.

On a terminal the picture moves (:mod:`iotrial.cli.screen`); elsewhere there is a plain line when
something changes, and one every few seconds of a load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from iotrial.cli.moving import Moving, can_move
from iotrial.cli.output import Output
from iotrial.cli.screen import Document, line, picture, remembered
from iotrial.errors import UsageError
from iotrial.live.file import NAME, read
from iotrial.report.words import PRETENDED
from iotrial.store import is_finished

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


def follow(output: Output, folder: Path) -> int:
    """Show the run in ``folder`` until it ends; the exit code of the run, 1 where it is gone
    without having ended.  Raises UsageError where no run ever was, FormatError."""
    document = _first(output, folder)
    if document is None:
        output.answer(f"Nothing is left to do in {folder}: iotrial status {folder}")
        return 0
    moving = can_move(output.answers) and not output.json
    if document.get("pretended") and not moving:
        output.note(PRETENDED)
    document = (_moving if moving else _lines)(output, folder, document)
    output.document({"live": dict(document)})
    if document["state"] != "over":
        again = " --pretend" if document.get("pretended") else ""
        output.note(
            f"the run (process {document['pid']}) is gone without having ended. What it owes:"
            f" iotrial status; to go on: iotrial run {folder}/study.toml --out {folder}{again}"
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
    return silent > SILENT or not Path(f"/proc/{int(document['pid'])}").exists()


def _moving(output: Output, folder: Path, first: Document) -> Document:
    last, shown = first, remembered(first, first)
    screen = Moving(output.answers)
    try:
        for document in _news(folder, first):
            last, shown = document, remembered(document, shown)
            width, height = output.answers.size
            screen.show(picture(shown, width, height - 1))
    finally:
        screen.end()
    output.answer(picture(shown, *output.answers.size))
    return last


def _lines(output: Output, folder: Path, first: Document) -> Document:
    seen, told, last = "", 0.0, first
    for document in _news(folder, first):
        loads = document["phase"] == "load"
        mark = f"{document['state']} {loads} {document['progress']['done']}"
        due = loads and document["total"] and document["now"] - told >= LINE_EVERY
        if mark != seen or due:
            if not output.json:
                output.answer(line(document))
            seen, told = mark, document["now"]
        last = document
    return last
