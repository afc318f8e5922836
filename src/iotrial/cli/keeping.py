"""What ``iotrial keep`` does on one host, and says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from iotrial.cli.output import Output
from iotrial.units import format_wait

if TYPE_CHECKING:
    from iotrial.execute.interruption import Interruption
    from iotrial.execute.keep.kept import Difference, Kept
    from iotrial.keep.conflict import Conflict
    from iotrial.keep.entry import Entry
    from iotrial.keep.native import Export, NativeFile
    from iotrial.keep.profile import Profile
    from iotrial.model.host import Host

DIFFERS = 1


def document(profile: Profile, exported: Export) -> dict[str, object]:
    """A profile and its files, for JSON."""
    return {
        "name": profile.name,
        "settings": [row(entry) for entry in profile.entries],
        "files": [
            {"path": each.path, "text": each.text, "notes": list(each.notes)}
            for each in exported.files
        ],
        "left": [str(entry) for entry in exported.left],
        "does": [list(deed) for deed in deeds(profile, exported)],
    }


def deeds(profile: Profile, exported: Export) -> list[tuple[str, ...]]:
    """What is done on the host beside writing the files: ("write", path, value) of a control file,
    ("save", path, text) of a file that goes with a live value, ("remove", path), and the words of
    each command behind "run"."""
    from iotrial.execute.keep.kept import live_settings
    from iotrial.tunables import tunable

    found: list[tuple[str, ...]] = []
    for each in live_settings(profile):
        for act in tunable(each.tunable).acts(each.device, each.value):
            words = act.argv or (act.path, *([act.data] if act.kind != "remove" else ()))
            found.append((act.kind, *words))
    mine = [each for each in exported.files if not each.people]
    found += [("run", *command) for each in mine for command in each.reload]
    return list(dict.fromkeys(found))


def row(entry: Entry) -> dict[str, object]:
    """A setting, for JSON."""
    return {
        "tunable": entry.tunable,
        "value": entry.value,
        "on": entry.device,
        "ids": dict(entry.ids),
        "former": entry.former,
        "because": entry.because,
        **({"host": entry.host} if entry.host else {}),
    }


Given = tuple["Profile", "Export"]
"""What is to be kept on a host, and in which files."""


def put(output: Output, host: Host, given: Given, seconds: float, stop: Interruption) -> None:
    """Apply it, on probation for so many seconds (0: to stay)."""
    from iotrial.execute.keep.keeping import apply
    from iotrial.execute.settings.guard import locked

    profile, exported = given
    with locked(host):
        notes = apply(host, profile, exported.files, trial=seconds, stop=stop.check)
    others = found_conflicts(host, profile.entries, exported.files)
    state = {"kept": not seconds, "trying": seconds, "host": host.name}
    told = {"known": list(notes), "conflicts": list(map(asdict, others))}
    output.document({**document(profile, exported), **state, **told})
    for entry in profile.entries:
        output.answer(Text(f"in force: {entry}"))
    for each in exported.files:
        output.answer(Text(f"written: {each.path}"))
    for note in notes:
        output.note(note)
    say_notes(output, exported.files)
    say_conflicts(output, others)
    if seconds:
        output.answer(
            f"{host.name} undoes it in {format_wait(seconds)}, unless before that: "
            f"iotrial keep {profile.name} confirm"
        )
    else:
        output.answer(f"kept; undo: iotrial keep {profile.name} undo")


def settle(output: Output, host: Host, action: str, name: str) -> int:
    """Confirm, verify or undo what is kept by this name; the exit code."""
    from iotrial.execute.keep import keeping
    from iotrial.execute.settings.guard import locked

    if action == "verify":
        return _verify(output, host, name)
    with locked(host):
        if action == "confirm":
            keeping.confirm(host, name)
            output.document({"name": name, "host": host.name, "kept": True})
            output.answer(f"kept; undo: iotrial keep {name} undo")
            return 0
        payment = keeping.undo(host, name)
    output.document({"name": name, "host": host.name, **asdict(payment)})
    for line in (*payment.done, *payment.notes):
        output.answer(Text(line))
    output.answer(f"{name} is undone")
    return 0


def _verify(output: Output, host: Host, name: str) -> int:
    from iotrial.execute.keep.kept import verify
    from iotrial.execute.settings.moved import renamings

    there, differences = verify(host, name)
    others = of_kept(host, there)
    output.document(
        {
            "conflicts": list(map(asdict, others)),
            "name": name,
            "host": host.name,
            "pending": there.pending,
            "differences": list(map(asdict, differences)),
            "moved": dict(there.moved),
        }
    )
    for note in renamings(there.moved):
        output.note(note)
    for each in differences:
        output.answer(Text(difference(each)))
    say_conflicts(output, [each for each in others if each.wins != "ours"])
    if there.pending:
        output.answer(Text(pending(name)))
    elif not differences:
        output.answer(f"{name}: in force, every file and every value")
    return DIFFERS if differences or there.pending else 0


def difference(each: Difference) -> str:
    """A difference in words."""
    return f"{each.what}: wanted {each.wanted}, found {each.found}, {each.since}"


def pending(name: str) -> str:
    """That something waits to be confirmed, and what to do."""
    return (
        f"{name} is not confirmed: it is being tried, or was interrupted; "
        f"iotrial keep {name} confirm, or undo"
    )


def of_kept(host: Host, there: Kept) -> tuple[Conflict, ...]:
    """Who else sets on the host what is kept there."""
    from iotrial.keep.native import export

    return found_conflicts(host, there.profile.entries, export(there.profile).files)


def found_conflicts(
    host: Host, entries: Sequence[Entry], files: Sequence[NativeFile]
) -> tuple[Conflict, ...]:
    """Who else sets it on the host; of none where the wing that reads its files is missing
    (:func:`say_conflicts` says so)."""
    from iotrial.plugins import wing

    lint = wing("iotrial_lint.conflicts")
    found: tuple[Conflict, ...] = lint.conflicts_on(host, entries, files) if lint else ()
    return found


_WINS = {"ours": "ours wins", "theirs": "theirs wins", "perhaps": "it may win"}


def say_conflicts(output: Output, found: Sequence[Conflict], where: str = "") -> None:
    """Each with who wins and what to do; ``where`` is said first."""
    from iotrial.plugins import wing

    if wing("iotrial_lint") is None:
        output.note("other files that set the same were not looked for: iotrial_lint is missing")
    for each in found:
        value = f" to {each.value}" if each.value else ""
        words = f"{each.what}: {each.who} sets it too{value}; {_WINS[each.wins]}. {each.advice}"
        output.answer(Text(where + words))


def say_notes(output: Output, files: Sequence[NativeFile]) -> None:
    """What must be known of the files, each once."""
    for note in dict.fromkeys(note for each in files for note in each.notes):
        output.note(note)
