"""``iotrial status``: done, missing, doubtful, owed.

How far each host is, where blocks are spread over hosts: for ``iotrial status``.

``iotrial status DIR --follow``: what the page of a run shows, in a terminal, until it ends.

On a terminal the picture moves (:mod:`iotrial.cli.screen`); elsewhere there is a plain line when
something changes, and one every few seconds of a load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.text import Text

from iotrial.called import called
from iotrial.cli import screen
from iotrial.cli.machine import file_or_host, machine, means_a_file, place_of
from iotrial.cli.output import LiveLines, Output, can_move, common, pretend
from iotrial.cli.screen import Document, picture, remembered
from iotrial.errors import UsageError
from iotrial.execute.keep.kept import kept
from iotrial.execute.settings.journal import JournalFile, sessions
from iotrial.execute.settings.restore import read_reports
from iotrial.hosts.places import holder, journal_folder, unseen
from iotrial.live.file import NAME, read
from iotrial.look.boots import boot_debt
from iotrial.model.hostlist import folded
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.plan.ahead import most_left, standing
from iotrial.plan.design import holders, waiting
from iotrial.plan.race import RaceStanding
from iotrial.plan.stages import next_trials
from iotrial.report.words import PRETENDED
from iotrial.store import is_finished, open_results

MOST = 16
"""Hosts with a line each; of more, those that are as far have one together."""


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """Numbers of blocks: ``done`` on ``host``, ``left`` for it (one that is begun is left), and
    ``given`` to others that were planned on it."""

    host: str
    done: tuple[int, ...]
    left: tuple[int, ...]
    given: tuple[int, ...]


def shares(results: Results) -> tuple[BlockCounts, ...]:
    """Every host, in the study's order; none where blocks are not spread."""
    if not results.study.spread:
        return ()
    held = holders(results.planned)
    mine: dict[str, set[int]] = {place.name: set() for place in results.study.places}
    for trial in results.planned:
        mine.setdefault(trial.host, set()).add(trial.block)
    left = {(trial.host, trial.block) for trial in waiting(results.planned, results.records)}
    return tuple(
        BlockCounts(
            host,
            tuple(b for b in sorted(own) if held[b] == host and (host, b) not in left),
            tuple(b for b in sorted(own) if (host, b) in left),
            tuple(b for b in sorted(own) if held[b] != host),
        )
        for host, own in mine.items()
    )


def lines(found: Sequence[BlockCounts]) -> Iterator[str]:
    """``h1: blocks 1, 4 done; 7 left``."""
    if len(found) <= MOST:
        yield from (f"  {each.host}: {_said(each)}" for each in found)
        return
    alike: dict[tuple[int, int, int], list[str]] = {}
    for each in found:
        key = (len(each.done), len(each.left), len(each.given))
        alike.setdefault(key, []).append(each.host)
    for (done, left, given), hosts in alike.items():
        words = [f"{done} done", *([f"{left} left"] * bool(left))]
        words += [f"{given} moved to other hosts"] * bool(given)
        yield f"  {folded(hosts)}: blocks on each: {', '.join(words)}"


def _said(each: BlockCounts) -> str:
    words = [
        f"{', '.join(map(str, numbers))} {what}"
        for numbers, what in (
            (each.done, "done"),
            (each.left, "left"),
            (each.given, "moved to other hosts"),
        )
        if numbers
    ]
    return f"blocks {'; '.join(words)}" if words else "no blocks"


@click.command()
@click.argument("what", required=False)
@click.option(
    "--follow", "-f", is_flag=True, help="Follow the run in the folder WHAT until it ends."
)
@pretend
@common
def command(output: Output, what: str | None, *, follow: bool, pretend: bool) -> int:
    """Show the progress of the results folder WHAT, or the settings to restore on a host.

    WHAT is a results folder or a host.  [default: this host]

    Exit code 4: settings are left to restore and no iotrial is running that will restore them. With
    --follow: the exit code of the run, or 1 when its process is gone before the end of the run.

    \b
    Example:
      iotrial status
      iotrial status results/2026-11-20-scheduler
      iotrial status results/2026-11-20-scheduler --follow
      iotrial status root@box7
    """
    if follow:
        return _follow(output, what)
    if what is not None and (Path(what).is_dir() or means_a_file(what)):
        _of_results(output, open_results(Path(what)))
        return 0
    return _of_host(output, what, pretend=pretend)


def _follow(output: Output, what: str | None) -> int:

    if what is None:
        raise UsageError("--follow needs a results folder", advice="`run` prints its name.")
    return follow(output, Path(what))


def _of_host(output: Output, what: str | None, *, pretend: bool) -> int:
    place = place_of(what)
    with file_or_host(what), machine(pretend=pretend, place=place) as here:
        owing = tuple(
            each for each in sessions(here, journal_folder(here)) if each.token or each.describe()
        )
        told = read_reports(here, journal_folder(here))
        keeps, booted = kept(here), boot_debt(here)
        running = holder(here)
        blind = unseen(here)
    document = {"host": place.name, "running": running, "unseen": blind, "guard": list(told)}
    listed = [{"name": each.profile.name, "pending": each.pending} for each in keeps]
    document["boot"] = list(booted)
    output.document({**document, "sessions": [_session(each) for each in owing], "kept": listed})
    for each_kept in keeps:
        name = each_kept.profile.name
        how = "not confirmed: in its trial period, or interrupted" if each_kept.pending else "kept"
        output.answer(Text(f"{name}: {how} ({called()} keep {name} verify)"))
    for line in told:
        output.answer(Text(line))
    if running:
        output.answer(f"iotrial is running on this host: {running}. It will restore:")
    for each in owing:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.opened))
        owed = "" if running else ", to restore:"
        where = f" ({each.results})" if each.results else ""
        output.answer(Text(f"{each.study}{where}, since {since}{owed}"))
        for line in each.describe():
            output.answer(Text(f"  {line}"))
    for line in booted:
        output.answer(Text(line))
    if not owing and not booted:
        output.answer("No setting is left to restore.")
    if blind:
        output.note(blind)
    if owing and not running:
        there = f" -- '{place.way}'" if place.way else ""
        output.note(f"To restore: iotrial restore{there}")
    return 4 if owing and not running else 0


def _session(session: JournalFile) -> dict[str, object]:
    return {
        "study": session.study,
        "results": session.results,
        "since": session.opened,
        "journal": session.path,
        "owed": list(session.describe()),
    }


def _of_results(output: Output, results: Results) -> None:
    missing = len(waiting(results.planned, results.records))
    added = () if missing else next_trials(results.study, results.planned, results.records)
    more = len(added)
    states = [record.state for record in results.records]
    stands = standing(results.study, results.planned, results.records)
    doubtful = [record for record in results.records if record.doubts or record.error]
    counts = {
        "planned": len(results.planned) + more,
        "valid": states.count("valid"),
        "invalid": states.count("invalid"),
        "failed": states.count("failed"),
        "missing": missing + more,
    }
    planned = (*results.planned, *added)
    most = most_left(results.study, planned, results.records, stands)
    where = shares(results)
    output.document(
        {
            "results": str(results.folder),
            "question": results.study.question,
            "pretended": results.pretended,
            **counts,
            **({"hosts": [asdict(each) for each in where]} if where else {}),
            "extended": list(results.study.design.extended),
            "blocks": results.study.design.blocks,
            "at_most": most,
            "races": [_race(each) for each in stands],
            "doubts": [
                {"trial": d.trial, "what": d.what, "advice": d.advice, "invalid": d.invalid}
                for record in results.records
                for d in record.doubts
            ],
        }
    )
    if results.pretended:
        output.answer(Text(PRETENDED, style="bold yellow"))
    output.answer(results.study.question)
    output.answer(", ".join(f"{count} {name}" for name, count in counts.items()))
    if before := results.study.design.extended:
        past = " and ".join(map(str, before))
        output.answer(f"Extended after {past} blocks, to {results.study.design.blocks}.")
    for line in lines(where):
        output.answer(Text(line))
    for each in stands:
        output.answer(Text(each.told))
    if most > counts["missing"]:
        output.answer(f"At most {most} trials remain; the study ends as soon as it is decided.")
    for record in doubtful:
        words = [record.error, *(doubt.what for doubt in record.doubts)]
        output.answer(
            f"  {record.trial.folder} {record.trial.workload}"
            f" {treatment_text(record.trial.treatment)}: {record.state}:"
            f" {'; '.join(word for word in words if word)}"
        )
    if counts["missing"]:
        again = " --pretend" if results.pretended else ""
        here = results.folder
        output.answer(f"To resume: iotrial run {here}/study.toml --out {here}{again}")


def _race(stand: RaceStanding) -> dict[str, object]:
    return {
        "workload": stand.workload,
        "blocks": stand.blocks,
        "trials": stand.trials,
        "leads": stand.leader,
        "decided": stand.decided,
        "dropped": list(stand.dropped),
        "same": list(stand.same),
        "open": list(stand.still),
    }


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
        output.answer(f"The study in {folder} is complete: iotrial status {folder}")
        return 0
    moving = can_move(output.answers) and not output.json
    if document.get("pretended") and not moving:
        output.note(PRETENDED)
    document = (_moving if moving else _lines)(output, folder, document)
    output.document({"live": dict(document)})
    if document["state"] != "over":
        again = " --pretend" if document.get("pretended") else ""
        output.note(
            f"the run (process {document['pid']}) is gone before its end. Settings to restore:"
            f" iotrial status; to resume: iotrial run {folder}/study.toml --out {folder}{again}"
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
        f"{folder}: no live status of a run",
        advice="Start it with `iotrial run`, then follow the folder that it prints.",
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
    screen = LiveLines(output.answers)
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
                output.answer(screen.line(document))
            seen, told = mark, document["now"]
        last = document
    return last
