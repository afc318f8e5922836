"""``iotrial keep``: make the winner durable, on probation first; verify it, undo it, export it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from iotrial import files
from iotrial.cli import keeping, keeping_many
from iotrial.cli.keeping import Given
from iotrial.cli.machine import HERE, machines, place_of
from iotrial.cli.output import Output, common, pretend
from iotrial.cli.writing import writing
from iotrial.errors import UsageError
from iotrial.execute.interruption import Interruption
from iotrial.plan.hostlist import expanded
from iotrial.store import open_results
from iotrial.units import parse_seconds

if TYPE_CHECKING:
    from iotrial.keep.native import Export
    from iotrial.keep.profile import Profile
    from iotrial.model.study import Place

ACTIONS = ("show", "try", "apply", "confirm", "verify", "undo", "export")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_RANGE = re.compile(r"\[[0-9][0-9,-]*\]")


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
@click.option(
    "--name", metavar="NAME", help="What it is called on the host.  [default: the study's name]"
)
@click.option(
    "--on",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="As ssh takes it, or one of the profile's hosts; box[1-4] for several."
    "  [default: the profile's hosts, or this machine]",
)
@click.option(
    "--for", "time", default="60s", show_default=True, metavar="TIME", help="How long to try."
)
@click.option("--as", "formats", multiple=True, metavar="FORMAT", help="Only these native files.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
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
    hosts: tuple[str, ...],
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
    export   native files; for a fleet apply.sh, undo.sh and an Ansible role

    \b
    Example:
      iotrial keep results/2026-11-20-scheduler
      sudo IOTRIAL keep results/2026-11-20-scheduler try --for 2m
      sudo IOTRIAL keep scheduler confirm
      sudo IOTRIAL keep scheduler verify
      sudo IOTRIAL keep scheduler undo
      iotrial keep results/2026-11-20-scheduler export --as udev --out files
      iotrial keep profile.toml try --on root@box[1-4]
    """
    if action in ("confirm", "verify", "undo"):
        named = name is not None or _NAME.fullmatch(what)
        known = None if named and hosts else _known(what, findings, name)
        called = name or (what if known is None else known.name)
        return _settled(output, action, called, _places(known, hosts), pretend=pretend)
    from iotrial.keep.native import export

    profile = _profile(what, findings, name)
    given = {
        place: (share, export(share, formats))
        for place, share in _shares(profile, _places(profile, hosts)).items()
    }
    if action == "show":
        _show(output, profile, given)
        words = shlex.join([what, *_said(findings, name, hosts), "try", "--for", "5m"])
        start = "iotrial" if any(place.ssh for place in given) else "sudo IOTRIAL"
        output.note(f"Nothing is changed yet. To try it: {start} keep {words}")
    elif action == "export":
        _export(output, profile, given, out)
    else:
        _put(output, given, _seconds(time) if action == "try" else 0.0, pretend=pretend)
    return 0


def _said(findings: Sequence[str], name: str | None, hosts: Sequence[str]) -> list[str]:
    """The options again, for the next command."""
    options = [("--finding", each) for each in findings] + [("--on", each) for each in hosts]
    options += [("--name", name)] if name else []
    return [word for option in options for word in option]


def _seconds(text: str) -> float:
    """How long to try.  Never 0: that would be for good."""
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}", advice="Such as --for 5m") from None
    if seconds < 1:
        raise UsageError(f"--for {text}: less than a second", advice="Such as --for 5m")
    return seconds


def _known(what: str, findings: tuple[str, ...], name: str | None) -> Profile | None:
    """The profile that WHAT is; None where it is the name of one."""
    if _NAME.fullmatch(what) and not Path(what).is_file():
        return None
    return _profile(what, findings, name)


def _profile(what: str, findings: tuple[str, ...], name: str | None) -> Profile:
    from dataclasses import replace

    from iotrial.keep.profile import load, named

    path = Path(what)
    if path.is_file():
        found = load(path)
        return replace(found, name=named(name)) if name else found
    if not path.is_dir():
        raise UsageError(
            f"{what} is neither a results folder nor a profile",
            advice="Name a results folder or a PROFILE.toml; `iotrial keep --help` shows how.",
        )
    from iotrial.judgement import judge
    from iotrial.keep.winner import profile

    judged = judge(open_results(path))
    chosen: dict[str, str] = {}
    for text in findings:
        factor, equals, level = text.partition("=")
        if not equals:
            raise UsageError(f"--finding {text} is not FACTOR=LEVEL", advice="--finding sched=bfq")
        chosen[factor] = level
    return profile(judged, chosen, name or "")


def _places(profile: Profile | None, on: tuple[str, ...]) -> tuple[Place, ...]:
    """The machines that are meant: the profile's, those of them that --on names, or others."""
    hosts = profile.hosts if profile else ()
    if not on:
        return hosts or (HERE,)
    if not all(on):
        raise UsageError("--on names no host", advice="Such as --on root@box7")
    names = [name for each in on for name in (_ranged(each) if _RANGE.search(each) else (each,))]
    known = {place.name: place for place in hosts}
    if all(name in known for name in names):
        return tuple(known[name] for name in dict.fromkeys(names))
    if len(hosts) > 1:
        other = next(name for name in names if name not in known)
        raise UsageError(
            f"--on {other}: the profile has no such host", advice=f"It has: {', '.join(known)}"
        )
    return tuple(place_of(name) for name in dict.fromkeys(names))


def _ranged(text: str) -> tuple[str, ...]:
    try:
        return expanded(text)
    except ValueError as error:
        raise UsageError(f"--on: {error}", advice="Such as --on root@box[1-4]") from None


def _shares(profile: Profile, places: tuple[Place, ...]) -> dict[Place, Profile]:
    """What of the profile is each place's."""
    own = profile.shares
    if len(own) == 1:
        return dict.fromkeys(places, *own.values())
    return {place: own[place] for place in places if place in own}


def _put(output: Output, given: Mapping[Place, Given], seconds: float, *, pretend: bool) -> None:
    if pretend and seconds:
        raise UsageError(
            "a made-up machine ends with this command: there is nothing to confirm or undo later",
            advice="Leave --pretend out, or see what apply --pretend does.",
        )
    several = len(given) > 1
    with (
        Interruption() as stop,
        machines(pretend=pretend, purpose="keep", several=several) as reach,
    ):
        if several:
            keeping_many.put(output, reach, given, seconds, stop)
            return
        ((place, mine),) = given.items()
        with reach(place) as here:
            keeping.put(output, here, mine, seconds, stop)


def _settled(
    output: Output, action: str, name: str, places: tuple[Place, ...], *, pretend: bool
) -> int:
    several = len(places) > 1
    # What is begun here is done to its end, whoever asks to stop; looking alone can be ended.
    with (
        nullcontext() if action == "verify" else Interruption(),
        machines(pretend=pretend, purpose="keep", several=several) as reach,
    ):
        if several:
            return keeping_many.settle(output, reach, places, action, name)
        with reach(places[0]) as here:
            return keeping.settle(output, here, action, name)


def _show(output: Output, profile: Profile, given: Mapping[Place, Given]) -> None:
    output.document(_document(profile, given))
    output.answer(Text(f"{profile.name}: {profile.question}" if profile.question else profile.name))
    for place, (share, exported) in given.items():
        if profile.hosts or len(given) > 1:
            output.answer(
                Text(f"{place.name}:" if not place.ssh else f"{place.name}: ssh {place.ssh}")
            )
        _show_share(output, share, exported)
    _say_apart(output, profile)


def _say_apart(output: Output, profile: Profile) -> None:
    for each in profile.apart:
        output.answer(Text(f"not kept, the study's own commands make it: {each}"))


def _show_share(output: Output, share: Profile, exported: Export) -> None:
    for entry in share.entries:
        former = f" (was {entry.former})" if entry.former else ""
        output.answer(Text(f"  {entry}{former}"))
        if entry.because:
            output.note(f"    {entry.because}")
    for each in exported.files:
        output.answer(Text(each.path))
        for note in each.notes:
            output.note(f"    {note}")
    for kind, *words in keeping.deeds(share, exported):
        output.answer(Text(f"  {kind}: {shlex.join(words)}"))
    _say_left(output, exported)


def _say_left(output: Output, exported: Export) -> None:
    for entry in exported.left:
        output.answer(Text(f"no native file holds {entry}"))


def _document(profile: Profile, given: Mapping[Place, Given]) -> dict[str, object]:
    """Of one machine its settings and files; of several those of each."""
    rows: list[dict[str, object]] = [
        {"host": place.name, **keeping.document(share, exported)}
        for place, (share, exported) in given.items()
    ]
    whole = rows[0] if len(rows) == 1 else {"name": profile.name, "hosts": rows}
    return {**whole, "apart": list(profile.apart)}


def _export(
    output: Output, profile: Profile, given: Mapping[Place, Given], named: Path | None
) -> None:
    """What lies there already may be somebody else's: below the folder that the command line names
    (else: where it is started) no link is followed, and a file replaces what has its name."""
    from iotrial.keep.fleet import exports
    from iotrial.keep.profile import to_toml

    top, out = named or Path(), named or Path(f"{profile.name}-kept")
    with writing(out, "--out"):
        top.mkdir(parents=True, exist_ok=True)
    written = []
    shares = {place: (share, exported.files) for place, (share, exported) in given.items()}
    for place, text, program in (
        ("profile.toml", to_toml(profile), False),
        *exports(profile.name, shares),
    ):
        path = out / place
        with writing(path, "--out"):
            files.make_folder(path.parent, top)
            content = text.encode("utf-8", "surrogateescape")
            files.write_bytes(path, content, top, mode=0o755 if program else 0o644)
        written.append(str(path))
    output.document({**_document(profile, given), "written": written})
    for line in written:
        output.answer(Text(line))
    every = [exported for _, exported in given.values()]
    keeping.say_notes(output, [file for each in every for file in each.files])
    for each in every:
        _say_left(output, each)
