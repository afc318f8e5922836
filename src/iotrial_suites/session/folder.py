"""The folder of a session of checks: what lies in it, written so that a kill loses nothing.

::

    results/2026-11-22-081500-check-md/
      checks.json        what was asked for, on which hosts: written once
      results.jsonl      a line a result, as it comes
      cases/md.create-1/ evidence: commands.jsonl, kernel.log, notes
      report.html report.md report.xml report.tap    derived
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from iotrial.errors import FormatError, UsageError
from iotrial.files import append, line, read_bytes, read_json, read_text, truncate, write_json
from iotrial.rows import checked as checked_row
from iotrial_suites.result import Checked, Machine, Result
from iotrial_suites.session.evidence import checked_line, commands

HEADER, ROWS = "checks.json", "results.jsonl"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Header:
    """What a session was asked for.  ``cases`` in their listed order, ``suites`` with titles;
    ``seed`` shuffles (None: not); ``ways`` are how ssh reaches the hosts (none: this machine)."""

    suites: tuple[tuple[str, str], ...]
    cases: tuple[str, ...]
    machines: tuple[Machine, ...]
    started: float
    rounds: int = 1
    seed: int | None = None
    ways: tuple[str, ...] = ()

    @property
    def same_as(self) -> tuple[object, ...]:
        """What must be equal for two sessions to be compared: suites and hosts."""
        return (
            tuple(sorted(name for name, _ in self.suites)),
            tuple(sorted(machine.name for machine in self.machines)),
        )


_HEADER = TypeAdapter(Header)
_RESULT = TypeAdapter(Result)


def new_folder(base: Path, suites: Sequence[str], started: float) -> Path:
    """A name for a new results folder below ``base``."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(started))
    name = f"{stamp}-check-{'-'.join(suites)}"[:100]
    path, number = base / name, 2
    while path.exists():
        path, number = base / f"{name}-{number}", number + 1
    return path


def begin(folder: Path, header: Header) -> None:
    """Make the folder.  Raises UsageError where there is something already."""
    if folder.exists() and any(folder.iterdir()):
        ours = (folder / HEADER).is_file()
        going = f"To go on with what is in it: --resume {folder}; else name" if ours else "Name"
        raise UsageError(f"{folder} is not empty", advice=f"{going} another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    row = {"format": FORMAT, **asdict(header)}
    write_json(folder / HEADER, row)


def header_of(folder: Path) -> Header:
    """Raises UsageError where there is no such session, FormatError where it cannot be read."""
    if not (folder / HEADER).is_file():
        raise UsageError(
            f"{folder} is no folder of checks: it has no {HEADER}",
            advice="Name the folder that `iotrial check` printed, or that --out named.",
        )
    row: Any = read_json(folder / HEADER, folder)
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise FormatError(f"{folder / HEADER}: not a session of checks of this format")
    try:
        return checked_row(_HEADER, row)
    except FormatError as error:
        raise FormatError(f"{folder / HEADER}: not a session of checks: {error.message}") from error


def add(folder: Path, result: Result) -> None:
    """Append a result, durably."""
    row = {name: value for name, value in asdict(result).items() if value not in ("", (), 0)}
    append(folder / ROWS, line(row))


def results(folder: Path, *, mend: bool = False) -> tuple[Result, ...]:
    """Every result so far.  A torn last line never was; ``mend`` cuts it off, before more is
    added."""
    path = folder / ROWS
    if not path.exists():
        return ()
    whole, newline, torn = read_text(path, folder).rpartition("\n")
    if mend and torn:
        truncate(path, len((whole + newline).encode()))
    return tuple(_result(path, number, text) for number, text in enumerate(whole.splitlines(), 1))


def _result(path: Path, number: int, text: str) -> Result:
    found = checked_line(path, number, text, _RESULT)
    parts = found.folder.split("/")
    if found.folder and (parts[0] != "cases" or {"", ".", ".."} & set(parts)):
        raise FormatError(f"{path}:{number}: folder: is none of those in cases/")
    return found


def last_before(folder: Path, header: Header) -> tuple[str, Mapping[str, Result]]:
    """Of each case its newest result in earlier sessions beside this folder, of the same suites and
    hosts; and the name of the newest session that has one.  That a case was not run says nothing
    of it.  '' and nothing where there is none."""
    earlier: list[tuple[float, Path]] = []
    for path in folder.parent.glob(f"*/{HEADER}"):
        try:
            other = header_of(path.parent)
        except FormatError:
            continue
        if other.same_as == header.same_as and other.started < header.started:
            earlier.append((other.started, path.parent))
    newest, last = "", dict[str, Result]()
    for _, place in sorted(earlier, reverse=True):
        if all(case in last for case in header.cases):
            break
        try:
            found = {each.case: each for each in results(place) if each.state != "not run"}
        except FormatError:
            continue
        if found and not newest:
            newest = place.name
        last = {**found, **last}
    return newest, last


def checked(folder: Path, *, stopped: str = "", evidence: bool = True) -> Checked:
    """All of a session, for a report; with ``evidence`` the commands and kernels' logs too."""
    header, rows = header_of(folder), results(folder)
    last_from, last = last_before(folder.absolute(), header)
    done = {each.key for each in rows}
    asked = ((case, turn) for turn in range(1, header.rounds + 1) for case in header.cases)
    kept = [(each, folder / each.folder) for each in rows if each.folder and evidence]
    return Checked(
        header.suites,
        header.machines,
        rows,
        header.started,
        last,
        last_from,
        header.seed,
        stopped,
        {each.key: tuple(commands(place)) for each, place in kept},
        {each.key: log for each, place in kept for log in _log(place)},
        tuple(key for key in asked if key not in done),
    )


def _log(place: Path) -> Iterator[str]:
    path = place / "kernel.log"
    if path.exists():
        yield read_bytes(path, place.parent.parent).decode("utf-8", "replace")
