"""What ``iotrial keep`` does on several hosts at once, and says of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from iotrial.cli.keeping import (
    DIFFERS,
    Given,
    difference,
    found_conflicts,
    of_kept,
    pending,
    row,
    say_conflicts,
    say_notes,
)
from iotrial.cli.output import Output
from iotrial.errors import HostUnreachable
from iotrial.units import format_wait

if TYPE_CHECKING:
    from iotrial.execute.interruption import Interruption
    from iotrial.execute.keep.kept import Kept
    from iotrial.execute.keep.many_hosts import Came, Outcome, Reach, Share
    from iotrial.keep.conflict import Conflict
    from iotrial.model.host import Host
    from iotrial.model.study import Place

_SAYS = {
    "kept": "kept",
    "trying": "being tried",
    "as-before": "as before",
    "lost": "LOST",
    "in-doubt": "IN DOUBT",
    "owed": "NOT AS BEFORE",
}


def put(
    output: Output,
    reach: Reach,
    given: Mapping[Place, Given],
    seconds: float,
    stop: Interruption,
) -> None:
    """Apply each host's share, on probation for so many seconds (0: to stay), on all or on none."""
    from iotrial.execute.keep.many_hosts import Share, apply, reached, unreached

    shares = {p.name: Share(each, exported.files) for p, (each, exported) in given.items()}
    with reached(tuple(given), reach, lock=True) as (hosts, errors):
        if error := unreached(errors):
            raise error
        came = apply(hosts, shares, trial=seconds, stop=stop.check)
        others = {} if came.error else _conflicts(hosts, shares)
    name = next(iter(shares.values())).profile.name
    output.document(
        {
            "name": name,
            "kept": not seconds and came.error is None,
            "trying": 0.0 if came.error else seconds,
            "hosts": [_put_row(each, shares[each.host], others) for each in came.outcomes],
        }
    )
    for outcome in came.outcomes:
        output.answer(Text(_line(outcome)))
        for entry in shares[outcome.host].profile.entries if came.error is None else ():
            output.answer(Text(f"  in force: {entry}"))
        for file in shares[outcome.host].files if came.error is None else ():
            output.answer(Text(f"  written: {file.path}"))
        for note in outcome.notes:
            output.note(note)
    if came.error is not None:
        raise came.error
    say_notes(output, [file for share in shares.values() for file in share.files])
    for host, found in others.items():
        say_conflicts(output, found, f"{host}: ")
    if seconds:
        output.answer(
            f"Each host undoes it in {format_wait(seconds)}, unless before that the same command"
            " with `confirm`"
        )
    else:
        output.answer("kept on every host; undo: the same command with `undo`")


def _put_row(
    outcome: Outcome, share: Share, others: Mapping[str, Sequence[Conflict]]
) -> dict[str, object]:
    return {
        **_row(outcome),
        "settings": [row(entry) for entry in share.profile.entries],
        "files": [each.path for each in share.files],
        "known": list(outcome.notes),
        "conflicts": list(map(asdict, others.get(outcome.host, ()))),
    }


def _row(outcome: Outcome) -> dict[str, object]:
    return {"host": outcome.host, "state": outcome.state, "why": outcome.why}


def _line(outcome: Outcome) -> str:
    why = f": {outcome.why}" if outcome.why else ""
    return f"{outcome.host}: {_SAYS[outcome.state]}{why}"


def _conflicts(
    hosts: Mapping[str, Host], shares: Mapping[str, Share]
) -> dict[str, tuple[Conflict, ...]]:
    """Who else sets it, by host; nothing of a host that was lost after all was done there."""
    from iotrial.hosts.at_once import at_once

    def asked(name: str) -> Callable[[], tuple[Conflict, ...]]:
        share = shares[name]
        return lambda: found_conflicts(hosts[name], share.profile.entries, share.files)

    found, _ = at_once({name: asked(name) for name in shares})
    return {name: found[name] for name in shares if name in found}


def settle(output: Output, reach: Reach, places: Sequence[Place], action: str, name: str) -> int:
    """Confirm, verify or undo what is kept by this name on each host; the exit code."""
    from iotrial.execute.keep.many_hosts import confirm, reached, unreached

    if action == "verify":
        return _verify(output, reach, places, name)
    if action == "undo":
        return _undo(output, reach, places, name)
    with reached(places, reach, lock=True) as (hosts, errors):
        if error := unreached(errors):
            raise error
        came = confirm(hosts, name)
    _say_confirmed(output, came, name)
    if came.error is not None:
        raise came.error
    output.answer("kept on every host; undo: the same command with `undo`")
    return 0


def _say_confirmed(output: Output, came: Came, name: str) -> None:
    kept = came.error is None
    output.document({"name": name, "kept": kept, "hosts": list(map(_row, came.outcomes))})
    for outcome in came.outcomes:
        output.answer(Text(_line(outcome)))


def _verify(output: Output, reach: Reach, places: Sequence[Place], name: str) -> int:
    from iotrial.execute.keep.many_hosts import gravest, reached, verified
    from iotrial.execute.settings.moved import renamings
    from iotrial.hosts.at_once import at_once

    with reached(places, reach, lock=False) as (hosts, lost):
        found, errors = verified(hosts, name)
        asked = {each: _asking(hosts[each], there) for each, (there, _) in found.items()}
        others, _ = at_once(asked)
    errors |= lost
    rows: list[dict[str, object]] = []
    bad = False
    for place in places:
        host = place.name
        if host in errors:
            rows.append(_missing(output, host, errors[host]))
            bad = True
            continue
        there, differences = found[host]
        conflicts = others.get(host, ())
        state = "pending" if there.pending else "differs" if differences else "in-force"
        rows.append(
            {
                "host": host,
                "state": state,
                "differences": list(map(asdict, differences)),
                "conflicts": list(map(asdict, conflicts)),
                "moved": dict(there.moved),
            }
        )
        for note in renamings(there.moved):
            output.note(f"{host}: {note}")
        bad |= state != "in-force"
        for each in differences:
            output.answer(Text(f"{host}: {difference(each)}"))
        say_conflicts(output, [each for each in conflicts if each.wins != "ours"], f"{host}: ")
        if there.pending:
            output.answer(Text(f"{host}: {pending(name)}"))
        elif not differences:
            output.answer(f"{host}: {name}: in force, every file and every value")
    output.document({"name": name, "hosts": rows})
    _raise_unless(errors, gravest(errors), nowhere=not found)
    return DIFFERS if bad else 0


def _asking(host: Host, there: Kept) -> Callable[[], tuple[Conflict, ...]]:
    return lambda: of_kept(host, there)


def _missing(output: Output, host: str, error: Exception) -> dict[str, object]:
    """A host of which nothing can be said, or on which nothing is kept."""
    why = str(getattr(error, "message", error)).removeprefix(f"{host}: ")
    output.answer(Text(f"{host}: {why}"))
    return {"host": host, "state": _without(error), "why": why}


def _without(error: Exception) -> str:
    from iotrial.execute.keep.kept import NothingKept

    if isinstance(error, HostUnreachable):
        return "lost"
    return "nothing" if isinstance(error, NothingKept) else "failed"


def _raise_unless(
    errors: Mapping[str, Exception], error: Exception | None, *, nowhere: bool
) -> None:
    """Nothing kept on one host is an answer; on no host it is an error."""
    if error is not None and (nowhere or any(_without(e) != "nothing" for e in errors.values())):
        raise error


def _undo(output: Output, reach: Reach, places: Sequence[Place], name: str) -> int:
    from iotrial.errors import OwedError
    from iotrial.execute.keep.many_hosts import gravest, reached, undone

    with reached(places, reach, lock=True) as (hosts, lost):
        found, errors = undone(hosts, name)
    errors |= lost
    rows: list[dict[str, object]] = []
    for place in places:
        host = place.name
        if host in found:
            rows.append({"host": host, "state": "undone", **asdict(found[host])})
            for line in (*found[host].done, *found[host].notes):
                output.answer(Text(f"{host}: {line}"))
            output.answer(f"{host}: {name} is undone")
            continue
        error = errors[host]
        missing = _missing(output, host, error)
        if isinstance(error, OwedError):
            missing |= {"state": "owed", "owed": list(error.owed)}
        rows.append(missing)
    output.document({"name": name, "hosts": rows})
    _raise_unless(errors, gravest(errors), nowhere=not found)
    return 0
