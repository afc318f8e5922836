"""A session of checks: every case that is not done yet, one after the other.

Read :func:`execute_checks`.  What a session did is in its folder as soon as it is done; called
again with the same folder, it goes on.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iotrial.errors import HostError, HostUnreachable, Interrupted, OwedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.settings.restore import restore
from iotrial.hosts.places import journal_folder
from iotrial.model.event import Said
from iotrial_suites.case import Case, Known
from iotrial_suites.result import Result
from iotrial_suites.session.case import Played, Venue, play
from iotrial_suites.session.evidence import CLEAN_UP, Evidence, Witness
from iotrial_suites.session.folder import add, results
from iotrial_suites.session.sentry import Sentry, base_of
from iotrial_suites.session.stage import CLEANS_WITHIN

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
    result: Result


CheckEvent = Said | CaseBegan | CaseEnded
"""What a session tells while it goes on."""


@dataclass
class Session:
    """What a session acts with.  ``known`` are failures that are known here, by case."""

    venue: Venue
    folder: Path
    tell: Callable[[CheckEvent], None]
    known: Mapping[str, Known] = field(default_factory=dict)
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


def execute_checks(session: Session, turns: Sequence[Turn]) -> str:
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
                advice="Mend what is named above, then run: iotrial restore",
            ) from stopped
        number = len(turns) - len(pending) + pending.index(turn) + 1
        session.tell(CaseBegan(turn, number, len(turns)))
        result = _result(session, turn, owing)
        add(session.folder, result)
        session.tell(CaseEnded(result))
        if result.owed and not owing:
            owing = _settled(session, result)
    return owing


def _result(session: Session, turn: Turn, owing: str) -> Result:
    name, case, number = turn
    folder = Path("cases") / f"{name.replace('/', '.')}-{number}"
    began, at = time.monotonic(), time.time()
    if owing:
        played = Played("not run", (owing,), (), 0)
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
    return Result(
        name, case.title, number, state, played.reasons, why, round(at, 3), round(seconds, 3),
        kept, played.commands, played.owed,
    )  # fmt: skip


def _is(known: Known, reasons: Sequence[str]) -> bool:
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


def _played(session: Session, turn: Turn, folder: Path) -> Played:
    """Play it; a host that was lost by the case before is asked once more whether it is back."""
    name, case, _ = turn
    for retry in (True, False):
        try:
            return play(name, case, session.venue, folder)
        except HostUnreachable as lost:
            if not retry or not _renewed(session):
                return Played("not run", (lost.message,), (), 0)
    raise AssertionError  # the second time answers


def _renewed(session: Session) -> bool:
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
                session.tell(Said(f"{host.name} is back"))
            except HostUnreachable:
                session.lost[number] = gone.message
    return not session.lost


def _settled(session: Session, result: Result) -> str:
    """Try once more to undo what a case left; '' when nothing is left, else what to say of all
    cases after it."""
    session.tell(Said(f"{result.name}: its clean-up failed; it is tried again"))
    evidence = Evidence(session.folder / "settling", phase=CLEAN_UP)
    left = []
    for host in session.venue.party.hosts:
        try:
            folder = f"{base_of(host)}/check-settling"
            witness = Witness(host, Sentry(host, folder, Interruption()), evidence)
            witness.calm(CLEANS_WITHIN)
            restore(witness.as_host(), journal_folder(host))
        except (OwedError, HostError) as error:
            left.append(error.message)
    return f"the clean-up of {result.name} is still owed: {'; '.join(left)}" if left else ""
