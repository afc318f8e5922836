"""``iotrial keep``: make the winner durable, on probation first; verify it, undo it, export it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from iotrial.cli.machine import machine, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.cli.verdicts import judged
from iotrial.cli.writing import writing
from iotrial.errors import UsageError
from iotrial.store import open_results
from iotrial.units import format_wait, parse_seconds

if TYPE_CHECKING:
    from iotrial.execute.kept import Kept
    from iotrial.keep.native import Export, NativeFile
    from iotrial.keep.profile import Entry, Profile
    from iotrial.lint.conflicts import Conflict
    from iotrial.model.host import Host

ACTIONS = ("show", "try", "apply", "confirm", "verify", "undo", "export")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
DIFFERS = 1


@click.command()
@click.argument("what")
@click.argument("action", type=click.Choice(ACTIONS), default="show")
@click.option(
    "--finding",
    "findings",
    multiple=True,
    metavar="FACTOR=LEVEL",
    help="Keep this level, whatever was found.  [default: what the findings carry]",
)
@click.option("--name", help="What it is called on the host.  [default: the study's name]")
@click.option("--on", "host", metavar="HOST", help="As ssh takes it.  [default: this machine]")
@click.option("--for", "time", default="60s", show_default=True, help="How long to try.")
@click.option("--as", "formats", multiple=True, metavar="FORMAT", help="Only these native files.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Export into this folder.  [default: NAME-kept]",
)
@pretend
@common
def command(  # noqa: PLR0913, PLR0917 (click hands over every option)
    output: Output,
    what: str,
    action: str,
    findings: tuple[str, ...],
    name: str | None,
    host: str | None,
    time: str,
    formats: tuple[str, ...],
    out: Path | None,
    *,
    pretend: bool,
) -> int:
    """Keep what won: WHAT is a results folder, a PROFILE.toml, or the name of what is kept.

    \b
    show     what would be kept, in which files, and what must be known
    try      apply it; the host undoes it by itself unless it is confirmed in time
    apply    files and values in force, all of them or none
    confirm  keep what is being tried
    verify   what is no longer as it was kept; exits with 1 then
    undo     everything as it was before, bit for bit
    export   the native files, and for a fleet apply.sh, undo.sh and an Ansible role

    \b
    Example:
      iotrial keep results/2026-11-20-scheduler
      sudo iotrial keep results/2026-11-20-scheduler try --for 2m
      sudo iotrial keep scheduler confirm
      sudo iotrial keep scheduler verify
      sudo iotrial keep scheduler undo
      iotrial keep results/2026-11-20-scheduler export --as udev --out files
    """
    if action in ("confirm", "verify", "undo"):
        called = name or (what if _NAME.fullmatch(what) else _profile(what, findings, name).name)
        with machine(pretend=pretend, place=place_of(host), purpose="keep") as here:
            return _on_host(output, here, action, called)
    from iotrial.keep.native import export

    profile = _profile(what, findings, name)
    exported = export(profile, formats)
    if action == "show":
        _show(output, profile, exported)
    elif action == "export":
        _export(output, profile, exported, out or Path(f"{profile.name}-kept"))
    else:
        seconds = parse_seconds(time) if action == "try" else 0.0
        with machine(pretend=pretend, place=place_of(host), purpose="keep") as here:
            _apply(output, here, profile, exported, seconds)
    return 0


def _profile(what: str, findings: tuple[str, ...], name: str | None) -> Profile:
    from dataclasses import replace

    from iotrial.keep.profile import named, parse
    from iotrial.keep.winner import profile

    path = Path(what)
    if path.is_file():
        found = parse(path.read_text("utf-8"), what)
        return replace(found, name=named(name)) if name else found
    if not path.is_dir():
        raise UsageError(
            f"{what} is neither a results folder nor a profile",
            advice="Name a results folder or a PROFILE.toml; `iotrial keep --help` shows how.",
        )
    results, comparison = judged(open_results(path))
    chosen: dict[str, str] = {}
    for text in findings:
        factor, equals, level = text.partition("=")
        if not equals:
            raise UsageError(f"--finding {text} is not FACTOR=LEVEL", advice="--finding sched=bfq")
        chosen[factor] = level
    return profile(results, comparison, chosen, name or "")


def _show(output: Output, profile: Profile, exported: Export) -> None:
    output.document(_document(profile, exported))
    output.answer(Text(f"{profile.name}: {profile.question}" if profile.question else profile.name))
    for entry in profile.entries:
        former = f" (was {entry.former})" if entry.former else ""
        output.answer(Text(f"  {entry}{former}"))
        if entry.because:
            output.note(f"    {entry.because}")
    for each in exported.files:
        output.answer(Text(each.path))
        for note in each.notes:
            output.note(f"    {note}")
    for entry in exported.left:
        output.answer(Text(f"no native file holds {entry}"))


def _document(profile: Profile, exported: Export) -> dict[str, object]:
    return {
        "name": profile.name,
        "settings": [
            {
                "tunable": entry.tunable,
                "value": entry.value,
                "on": entry.device,
                "ids": dict(entry.ids),
                "former": entry.former,
                "because": entry.because,
            }
            for entry in profile.entries
        ],
        "files": [
            {"path": each.path, "text": each.text, "notes": list(each.notes)}
            for each in exported.files
        ],
        "left": [str(entry) for entry in exported.left],
    }


def _export(output: Output, profile: Profile, exported: Export, out: Path) -> None:
    from iotrial.keep.fleet import fleet

    written = []
    files = {each.path.lstrip("/"): each for each in exported.files}
    for place, text, program in (
        *((f"files/{path}", each.text, each.program) for path, each in files.items()),
        *fleet(profile, exported.files),
    ):
        path = out / place
        with writing(path, "--out"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            path.chmod(0o755 if program else 0o644)
        written.append(str(path))
    output.document({**_document(profile, exported), "written": written})
    for line in written:
        output.answer(Text(line))
    _notes(output, exported.files)
    for entry in exported.left:
        output.answer(Text(f"no native file holds {entry}"))


def _notes(output: Output, files: tuple[NativeFile, ...]) -> None:
    for note in dict.fromkeys(note for each in files for note in each.notes):
        output.note(note)


def _apply(output: Output, host: Host, profile: Profile, exported: Export, seconds: float) -> None:
    from iotrial.execute.guard import locked
    from iotrial.execute.keeping import apply

    with locked(host):
        notes = apply(host, profile, exported.files, trial=seconds)
    others = _conflicts(host, profile.entries, exported.files)
    state = {"kept": not seconds, "trying": seconds, "host": host.name}
    told = {"known": list(notes), "conflicts": list(map(asdict, others))}
    output.document({**_document(profile, exported), **state, **told})
    for entry in profile.entries:
        output.answer(Text(f"in force: {entry}"))
    for each in exported.files:
        output.answer(Text(f"written: {each.path}"))
    for note in notes:
        output.note(note)
    _notes(output, exported.files)
    _say_conflicts(output, others)
    if seconds:
        output.answer(
            f"{host.name} undoes it in {format_wait(seconds)}, unless before that: "
            f"iotrial keep {profile.name} confirm"
        )
    else:
        output.answer(f"kept; undo: iotrial keep {profile.name} undo")


def _conflicts(
    host: Host, entries: Sequence[Entry], files: Sequence[NativeFile]
) -> tuple[Conflict, ...]:
    """Who else sets it on the host."""
    from iotrial.execute.machine import writers
    from iotrial.lint.conflicts import conflicts
    from iotrial.lint.machine import host_scene

    return conflicts(entries, files, host_scene(host).sheets, writers(host))


_WINS = {"ours": "ours wins", "theirs": "theirs wins", "perhaps": "it may win"}


def _say_conflicts(output: Output, found: Sequence[Conflict]) -> None:
    for each in found:
        value = f" to {each.value}" if each.value else ""
        words = f"{each.what}: {each.who} sets it too{value}; {_WINS[each.wins]}. {each.advice}"
        output.answer(Text(words))


def _on_host(output: Output, host: Host, action: str, name: str) -> int:
    from iotrial.execute import keeping
    from iotrial.execute.guard import locked

    if action == "verify":
        return _verify(output, host, name)
    with locked(host):
        if action == "confirm":
            keeping.confirm(host, name)
            output.document({"name": name, "host": host.name, "kept": True})
            output.answer(f"kept; undo: iotrial keep {name} undo")
            return 0
        payment = keeping.undo(host, name)
    said = {"done": payment.done, "notes": payment.notes, "owed": payment.owed}
    output.document({"name": name, "host": host.name, **said})
    for line in (*payment.done, *payment.notes):
        output.answer(Text(line))
    output.answer(f"{name} is undone")
    return 0


def _verify(output: Output, host: Host, name: str) -> int:
    from iotrial.execute.kept import verify

    there, differences = verify(host, name)
    from iotrial.keep.native import export

    others = _conflicts(host, there.profile.entries, export(there.profile).files)
    output.document(
        {
            "conflicts": list(map(asdict, others)),
            "name": name,
            "host": host.name,
            "pending": there.pending,
            "differences": [
                {"what": d.what, "wanted": d.wanted, "found": d.found, "since": d.since}
                for d in differences
            ],
        }
    )
    for each in differences:
        words = f"{each.what}: wanted {each.wanted}, found {each.found}, {each.since}"
        output.answer(Text(words))
    _say_conflicts(output, [each for each in others if each.wins != "ours"])
    if there.pending:
        output.answer(Text(_pending(there)))
    elif not differences:
        output.answer(f"{name}: in force, every file and every value")
    return DIFFERS if differences or there.pending else 0


def _pending(there: Kept) -> str:
    name = there.profile.name
    return (
        f"{name} is not confirmed: it is being tried, or was interrupted; "
        f"iotrial keep {name} confirm, or undo"
    )
