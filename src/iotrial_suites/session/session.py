"""A session of checks: every case that is not done yet, one after the other.

Read :func:`execute_checks`.  What a session did is in its folder as soon as it is done; called
again with the same folder, it goes on.  What lies in it is written so that a kill loses nothing::

    results/2026-11-22-081500-check-md/
      checks.json        what was asked for, on which hosts: written once
      results.jsonl      a line a result, as it comes
      cases/md.create-1/ evidence: commands.jsonl, kernel.log, notes
      report.html report.md report.xml report.tap    derived
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from iotrial.errors import (
    FormatError,
    HostError,
    HostUnreachable,
    Interrupted,
    OwedError,
    UsageError,
)
from iotrial.execute.interruption import Interruption
from iotrial.execute.settings.restore import restore
from iotrial.files import append, line, read_bytes, read_json, read_text, truncate, write_json
from iotrial.hosts.places import journal_folder
from iotrial.model.event import Message
from iotrial.rows import checked as checked_row
from iotrial_suites.case import Case, CaseResult, CheckResults, HostVersions, KnownFailure
from iotrial_suites.session.case import CaseEnvironment, CaseOutcome, play
from iotrial_suites.session.evidence import (
    CLEAN_UP,
    CaseEvidence,
    RecordingHost,
    Supervisor,
    base_of,
    checked_line,
    commands,
)
from iotrial_suites.session.stage import CLEANS_WITHIN

# -- the folder -----------------------------------------------------------------------------------

HEADER, ROWS = "checks.json", "results.jsonl"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What a session was asked for.  ``cases`` in their listed order, ``suites`` with titles;
    ``seed`` shuffles (None: not); ``ways`` are how ssh reaches the hosts (none: this machine)."""

    suites: tuple[tuple[str, str], ...]
    cases: tuple[str, ...]
    machines: tuple[HostVersions, ...]
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


_HEADER = TypeAdapter(SessionHeader)
_RESULT = TypeAdapter(CaseResult)


def new_folder(base: Path, suites: Sequence[str], started: float) -> Path:
    """A name for a new results folder below ``base``."""
    stamp = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(started))
    name = f"{stamp}-check-{'-'.join(suites)}"[:100]
    path, number = base / name, 2
    while path.exists():
        path, number = base / f"{name}-{number}", number + 1
    return path


def begin(folder: Path, header: SessionHeader) -> None:
    """Make the folder.  Raises UsageError where there is something already."""
    if folder.exists() and any(folder.iterdir()):
        ours = (folder / HEADER).is_file()
        going = f"To resume it: --resume {folder}; else name" if ours else "Name"
        raise UsageError(f"{folder} is not empty", advice=f"{going} another --out.")
    folder.mkdir(parents=True, exist_ok=True)
    row = {"format": FORMAT, **asdict(header)}
    write_json(folder / HEADER, row)


def header_of(folder: Path) -> SessionHeader:
    """Raises UsageError where there is no such session, FormatError where it cannot be read."""
    if not (folder / HEADER).is_file():
        raise UsageError(
            f"{folder} is not a folder of checks: it has no {HEADER}",
            advice="Name the folder that `iotrial check` printed, or that --out named.",
        )
    row: Any = read_json(folder / HEADER, folder)
    if not isinstance(row, dict) or row.get("format") != FORMAT:
        raise FormatError(f"{folder / HEADER}: not a session of checks of this format")
    try:
        return checked_row(_HEADER, row)
    except FormatError as error:
        raise FormatError(f"{folder / HEADER}: not a session of checks: {error.message}") from error


def add(folder: Path, result: CaseResult) -> None:
    """Append a result, durably."""
    row = {name: value for name, value in asdict(result).items() if value not in ("", (), 0)}
    append(folder / ROWS, line(row))


def results(folder: Path, *, mend: bool = False) -> tuple[CaseResult, ...]:
    """Every result so far.  A torn last line never was; ``mend`` cuts it off, before more is
    added."""
    path = folder / ROWS
    if not path.exists():
        return ()
    whole, newline, torn = read_text(path, folder).rpartition("\n")
    if mend and torn:
        truncate(path, len((whole + newline).encode()))
    return tuple(
        _result_of(path, number, text) for number, text in enumerate(whole.splitlines(), 1)
    )


def _result_of(path: Path, number: int, text: str) -> CaseResult:
    found = checked_line(path, number, text, _RESULT)
    parts = found.folder.split("/")
    if found.folder and (parts[0] != "cases" or {"", ".", ".."} & set(parts)):
        raise FormatError(f"{path}:{number}: folder: is none of those in cases/")
    return found


def last_before(folder: Path, header: SessionHeader) -> tuple[str, Mapping[str, CaseResult]]:
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
    newest, last = "", dict[str, CaseResult]()
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


def checked(folder: Path, *, stopped: str = "", evidence: bool = True) -> CheckResults:
    """All of a session, for a report; with ``evidence`` the commands and kernels' logs too."""
    header, rows = header_of(folder), results(folder)
    last_from, last = last_before(folder.absolute(), header)
    done = {each.key for each in rows}
    asked = ((case, turn) for turn in range(1, header.rounds + 1) for case in header.cases)
    kept = [(each, folder / each.folder) for each in rows if each.folder and evidence]
    return CheckResults(
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


# -- cases, one after the other -------------------------------------------------------------------

Turn = tuple[str, Case, int]
"""A case's id, the case, and which round it is."""


@dataclass(frozen=True, slots=True)
class CaseBegan:
    """A case begins, the ``number``-th ``of`` those that are to be played."""

    turn: Turn
    number: int
    of: int


@dataclass(frozen=True, slots=True)
class CaseEnded:
    result: CaseResult


CheckEvent = Message | CaseBegan | CaseEnded
"""What a session tells while it goes on."""


@dataclass
class CheckSession:
    """What a session acts with.  ``known`` are failures that are known here, by case."""

    venue: CaseEnvironment
    folder: Path
    tell: Callable[[CheckEvent], None]
    known: Mapping[str, KnownFailure] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


def in_order(cases: Sequence[tuple[str, Case]], rounds: int, seed: int | None) -> list[Turn]:
    """Every case in every round; with a seed each round in an order of its own, the same for the
    same seed."""
    luck = random.Random(seed)
    turns: list[Turn] = []
    for number in range(1, rounds + 1):
        chosen = [(name, case, number) for name, case in cases]
        if seed is not None:
            luck.shuffle(chosen)
        turns += chosen
    return turns


def execute_checks(session: CheckSession, turns: Sequence[Turn]) -> str:
    """Play all turns that have no result yet; gives back why it stopped before the last one ('').

    Raises Interrupted, and OwedError when what a case left cannot be undone although it was tried
    again: every other case would stand on it.
    """
    done = {each.key for each in results(session.folder, mend=True)}
    pending = [turn for turn in turns if (turn[0], turn[2]) not in done]
    owing = ""
    for turn in pending:
        try:
            session.venue.interruption.check()
        except Interrupted as stopped:
            if not owing:
                raise
            raise OwedError(
                f"{stopped.message}, and {owing}",
                advice="Fix what is named above, then run: iotrial restore",
            ) from stopped
        number = len(turns) - len(pending) + pending.index(turn) + 1
        session.tell(CaseBegan(turn, number, len(turns)))
        result = _result(session, turn, owing)
        add(session.folder, result)
        session.tell(CaseEnded(result))
        if result.owed and not owing:
            owing = _settled(session, result)
    return owing


def _result(session: CheckSession, turn: Turn, owing: str) -> CaseResult:
    name, case, number = turn
    folder = Path("cases") / f"{name.replace('/', '.')}-{number}"
    began, at = time.monotonic(), time.time()
    if owing:
        played = CaseOutcome("not run", (owing,), (), 0)
    else:
        played = _played(session, turn, _free(session.folder, folder))
    seconds = time.monotonic() - began
    known = session.known.get(name)
    state, why = played.state, ""
    if known and state == "pass":
        why = f"{known.reason} ({known.source})"
    elif known and state == "fail" and not played.owed and _is(known, played.reasons):
        state, why = "known failure", f"{known.reason} ({known.source})"
    kept = str(folder) if (session.folder / folder).exists() else ""
    return CaseResult(
        name, case.title, number, state, played.reasons, why, round(at, 3), round(seconds, 3),
        kept, played.commands, played.owed,
    )  # fmt: skip


def _is(known: KnownFailure, reasons: Sequence[str]) -> bool:
    """Every reason is the known one: a second trouble beside it is news."""
    return all(re.search(known.says, reason) for reason in reasons)


def _free(base: Path, folder: Path) -> Path:
    """Where the evidence goes; that of a turn that was killed is kept beside."""
    place = base / folder
    if place.exists():
        number = 1
        while (aside := place.with_name(f"{place.name}.killed-{number}")).exists():
            number += 1
        place.rename(aside)
    return place


def _played(session: CheckSession, turn: Turn, folder: Path) -> CaseOutcome:
    """Play it; a host that was lost by the case before is asked once more whether it is back."""
    name, case, _ = turn
    for retry in (True, False):
        try:
            return play(name, case, session.venue, folder)
        except HostUnreachable as lost:
            if not retry or not _renewed(session):
                return CaseOutcome("not run", (lost.message,), (), 0)
    raise AssertionError  # the second time answers


def _renewed(session: CheckSession) -> bool:
    """Whether every host can be reached, those that were lost anew."""
    session.lost.clear()
    for number, host in enumerate(session.venue.party.hosts):
        try:
            host.run(["true"], timeout=10.0)
        except HostUnreachable as gone:
            try:
                if session.venue.renew is None:
                    raise
                session.venue.renew(number)
                session.tell(Message(f"{host.name} is back"))
            except HostUnreachable:
                session.lost[number] = gone.message
    return not session.lost


def _settled(session: CheckSession, result: CaseResult) -> str:
    """Try once more to undo what a case left; '' when nothing is left, else what to say of all
    cases after it."""
    session.tell(Message(f"{result.name}: its clean-up failed; it is tried again"))
    evidence = CaseEvidence(session.folder / "settling", phase=CLEAN_UP)
    left = []
    for host in session.venue.party.hosts:
        try:
            folder = f"{base_of(host)}/check-settling"
            witness = RecordingHost(host, Supervisor(host, folder, Interruption()), evidence)
            witness.calm(CLEANS_WITHIN)
            restore(witness.as_host(), journal_folder(host))
        except (OwedError, HostError) as error:
            left.append(error.message)
    return f"the clean-up of {result.name} is incomplete: {'; '.join(left)}" if left else ""
