"""``iotrial keep``: make the winner durable, on probation first; verify it, undo it, export it.

What ``iotrial keep`` does on one host, and says of it.

What ``iotrial keep`` does on several hosts at once, and says of each.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from iotrial import files
from iotrial.cli.machine import HERE, machines, place_of
from iotrial.cli.output import Output, common, pretend, writing
from iotrial.errors import HostUnreachable, UsageError
from iotrial.execute.interruption import Interruption
from iotrial.hosts.at_once import Pool, at_once, gravest
from iotrial.model.hostlist import expanded
from iotrial.store import open_results
from iotrial.units import format_wait, parse_seconds

if TYPE_CHECKING:
    from iotrial.execute.keep.kept import KeptProfile, ProfileDifference
    from iotrial.execute.keep.many_hosts import HostOutcome, HostOutcomes, HostProfile
    from iotrial.keep.entry import KeptSetting, SettingConflict
    from iotrial.keep.native import NativeExport, NativeFile
    from iotrial.keep.profile import Profile
    from iotrial.model.host import Connect, Host
    from iotrial.model.study import StudyHost
    from iotrial.model.tunable import Setting


DIFFERS = 1


def document(profile: Profile, exported: NativeExport) -> dict[str, object]:
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


def deeds(profile: Profile, exported: NativeExport) -> list[tuple[str, ...]]:
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


def row(entry: KeptSetting) -> dict[str, object]:
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


Given = tuple["Profile", "NativeExport"]
"""What is to be kept on a host, and in which files."""


def put(output: Output, host: Host, given: Given, seconds: float, stop: Interruption) -> None:
    """Apply it, on probation for so many seconds (0: to stay).  The host is locked."""
    from iotrial.execute.keep.keeping import apply

    profile, exported = given
    notes = apply(host, profile, exported.files, trial=seconds, stop=stop.check)
    others = found_conflicts(host, profile.entries, exported.files)
    state = {"kept": not seconds, "trying": seconds, "host": host.name}
    told = {"known": list(notes), "conflicts": list(map(asdict, others))}
    output.document({**document(profile, exported), **state, **told})
    for line in _came_to(profile.entries, exported.files, trying=bool(seconds)):
        output.answer(Text(line))
    for note in notes:
        output.note(note)
    say_notes(output, [each for each in exported.files if not (seconds and each.loader)])
    say_conflicts(output, others)
    if seconds:
        then = f"iotrial keep {profile.name} confirm"
        output.answer(
            f"{host.name} {_goes_back(exported.files)} in {format_wait(seconds)}. To keep the new"
            f" ones: {'the same command with `confirm`' if host.remote else then}"
        )
    else:
        output.answer(f"kept; undo: iotrial keep {profile.name} undo")


def _goes_back(files: Sequence[NativeFile]) -> str:
    boots = any(each.loader for each in files)
    return f"restores its former settings{' and boots into its own boot' if boots else ''}"


def _came_to(
    entries: Sequence[KeptSetting], files: Sequence[NativeFile], *, trying: bool
) -> Iterator[str]:
    """In words, what was done with each setting and each file."""
    from iotrial.tunables.boot import is_boot, word

    booted = {entry for each in files if each.loader for entry in each.entries}
    for entry in entries:
        if entry in booted and not trying:
            yield f"in force after the next boot: {entry}"
        elif is_boot(entry.tunable) and entry not in booted:
            added = word(entry.tunable, entry.value)
            yield f"not in any of these files: add {added} to the kernel's command line yourself"
        else:
            yield f"in force: {entry}"
    for file in files:
        later = trying and file.loader
        yield f"{'written when it is confirmed' if later else 'written'}: {file.path}"


def settle(output: Output, host: Host, action: str, name: str) -> int:
    """Confirm, verify or undo what is kept by this name on the host, which is locked unless it is
    only verified; the exit code."""
    from iotrial.execute.keep import keeping

    if action == "verify":
        return _verify(output, host, name)
    if action == "confirm":
        keeping.confirm(host, name)
        output.document({"name": name, "host": host.name, "kept": True})
        output.answer(f"kept; undo: iotrial keep {name} undo")
        return 0
    payment = keeping.undo(host, name)
    output.document({"name": name, "host": host.name, **asdict(payment)})
    for line in (*payment.done, *payment.notes):
        output.answer(Text(line))
    output.answer(f"{name}: former settings restored")
    return 0


def _verify(output: Output, host: Host, name: str) -> int:
    from iotrial.execute.keep.kept import after_boot, verify
    from iotrial.execute.settings.moved import renamings

    there, differences = verify(host, name)
    others, waiting = of_kept(host, there), after_boot(host, there)
    output.document(
        {
            "conflicts": list(map(asdict, others)),
            "name": name,
            "host": host.name,
            "pending": there.pending,
            "differences": list(map(asdict, differences)),
            "after_boot": list(map(str, waiting)),
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
        output.answer(Text(f"{name}: {_in_force(waiting)}"))
    return DIFFERS if differences or there.pending else 0


def _in_force(waiting: Sequence[Setting]) -> str:
    """That nothing differs, and what a boot will bring."""
    if not waiting:
        return "in force, every file and every value"
    told = ", ".join(map(str, waiting))
    return f"in force, every file and every value; after the next boot also {told}"


def difference(each: ProfileDifference) -> str:
    """A difference in words."""
    return f"{each.what}: wanted {each.wanted}, found {each.found}, {each.since}"


def pending(name: str) -> str:
    """That something waits to be confirmed, and what to do."""
    return (
        f"{name} is not confirmed: it is being tried, or was interrupted; "
        f"iotrial keep {name} confirm, or undo"
    )


def of_kept(host: Host, there: KeptProfile) -> tuple[SettingConflict, ...]:
    """Who else sets on the host what is kept there."""
    from iotrial.keep.native import export

    return found_conflicts(host, there.profile.entries, export(there.profile).files)


def found_conflicts(
    host: Host, entries: Sequence[KeptSetting], files: Sequence[NativeFile]
) -> tuple[SettingConflict, ...]:
    """Who else sets it on the host; of none where the wing that reads its files is missing
    (:func:`say_conflicts` says so)."""
    from iotrial.plugins import wing

    lint = wing("iotrial_lint.conflicts")
    found: tuple[SettingConflict, ...] = lint.conflicts_on(host, entries, files) if lint else ()
    return found


_WINS = {
    "ours": "this value has precedence",
    "theirs": "it overrides this value",
    "perhaps": "it may override this value",
}


def say_conflicts(output: Output, found: Sequence[SettingConflict], where: str = "") -> None:
    """Each with who wins and what to do; ``where`` is said first."""
    from iotrial.plugins import wing

    if wing("iotrial_lint") is None:
        output.note("no check for other files with the same settings: iotrial_lint is missing")
    for each in found:
        value = f" to {each.value}" if each.value else ""
        words = f"{each.what}: also set by {each.who}{value}; {_WINS[each.wins]}. {each.advice}"
        output.answer(Text(where + words))


def say_notes(output: Output, files: Sequence[NativeFile]) -> None:
    """What must be known of the files, each once."""
    for note in dict.fromkeys(note for each in files for note in each.notes):
        output.note(note)


_SAYS = {
    "kept": "kept",
    "trying": "being tried",
    "as-before": "former settings restored",
    "lost": "LOST",
    "in-doubt": "IN DOUBT",
    "owed": "NOT RESTORED",
}


def put_on_hosts(
    output: Output,
    hosts: Mapping[str, Host],
    given: Mapping[StudyHost, Given],
    seconds: float,
    stop: Interruption,
) -> None:
    """Apply each host's share, on probation for so many seconds (0: to stay), on all or on none."""
    from iotrial.execute.keep.many_hosts import HostProfile, apply

    shares = {p.name: HostProfile(each, exported.files) for p, (each, exported) in given.items()}
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
        share = shares[outcome.host]
        came_to = _came_to(share.profile.entries, share.files, trying=bool(seconds))
        for line in came_to if came.error is None else ():
            output.answer(Text(f"  {line}"))
        for note in outcome.notes:
            output.note(note)
    if came.error is not None:
        raise came.error
    every = [file for share in shares.values() for file in share.files]
    say_notes(output, [each for each in every if not (seconds and each.loader)])
    for host, found in others.items():
        say_conflicts(output, found, f"{host}: ")
    if seconds:
        output.answer(
            f"Each host {_goes_back(every)} in {format_wait(seconds)}. To keep the new ones: the"
            " same command with `confirm`"
        )
    else:
        output.answer("kept on every host; undo: the same command with `undo`")


def _put_row(
    outcome: HostOutcome, share: HostProfile, others: Mapping[str, Sequence[SettingConflict]]
) -> dict[str, object]:
    return {
        **_row(outcome),
        "settings": [row(entry) for entry in share.profile.entries],
        "files": [each.path for each in share.files],
        "known": list(outcome.notes),
        "conflicts": list(map(asdict, others.get(outcome.host, ()))),
    }


def _row(outcome: HostOutcome) -> dict[str, object]:
    return {"host": outcome.host, "state": outcome.state, "why": outcome.why}


def _line(outcome: HostOutcome) -> str:
    why = f": {outcome.why}" if outcome.why else ""
    return f"{outcome.host}: {_SAYS[outcome.state]}{why}"


def _conflicts(
    hosts: Mapping[str, Host], shares: Mapping[str, HostProfile]
) -> dict[str, tuple[SettingConflict, ...]]:
    """Who else sets it, by host; nothing of a host that was lost after all was done there."""
    found, _ = at_once(
        {
            name: partial(found_conflicts, hosts[name], share.profile.entries, share.files)
            for name, share in shares.items()
        }
    )
    return {name: found[name] for name in shares if name in found}


def settle_on_hosts(output: Output, pool: Pool[Host], action: str, name: str) -> int:
    """Confirm, verify or undo what is kept by this name on each host; the exit code."""
    from iotrial.execute.keep.many_hosts import confirm

    if action == "verify":
        return _verified_on_hosts(output, pool, name)
    if action == "undo":
        return _undo(output, pool, name)
    pool.check()
    came = confirm(pool.opened, name)
    _say_confirmed(output, came, name)
    if came.error is not None:
        raise came.error
    output.answer("kept on every host; undo: the same command with `undo`")
    return 0


def _say_confirmed(output: Output, came: HostOutcomes, name: str) -> None:
    kept = came.error is None
    output.document({"name": name, "kept": kept, "hosts": list(map(_row, came.outcomes))})
    for outcome in came.outcomes:
        output.answer(Text(_line(outcome)))


def _verified_on_hosts(output: Output, pool: Pool[Host], name: str) -> int:
    from iotrial.execute.keep.kept import after_boot
    from iotrial.execute.keep.many_hosts import verified
    from iotrial.execute.settings.moved import renamings

    found, errors = verified(pool.opened, name)
    asked = {each: partial(of_kept, pool.opened[each], kept) for each, (kept, _) in found.items()}
    others, _ = at_once(asked)
    booting, _ = at_once(
        {each: partial(after_boot, pool.opened[each], kept) for each, (kept, _) in found.items()}
    )
    errors |= pool.lost
    rows: list[dict[str, object]] = []
    bad = False
    for host in pool.names:
        if host in errors:
            rows.append(_missing(output, host, errors[host]))
            bad = True
            continue
        there, differences = found[host]
        conflicts, waiting = others.get(host, ()), booting.get(host, ())
        state = "pending" if there.pending else "differs" if differences else "in-force"
        rows.append(
            {
                "host": host,
                "state": state,
                "differences": list(map(asdict, differences)),
                "conflicts": list(map(asdict, conflicts)),
                "after_boot": list(map(str, waiting)),
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
            output.answer(Text(f"{host}: {name}: {_in_force(waiting)}"))
    output.document({"name": name, "hosts": rows})
    _raise_unless(errors, gravest(errors), nowhere=not found)
    return DIFFERS if bad else 0


def _missing(output: Output, host: str, error: Exception) -> dict[str, object]:
    """A host of which nothing can be said, or on which nothing is kept."""
    why = str(getattr(error, "message", error)).removeprefix(f"{host}: ")
    output.answer(Text(f"{host}: {why}"))
    return {"host": host, "state": _without(error), "why": why}


def _without(error: Exception) -> str:
    from iotrial.execute.keep.kept import ProfileNotFound

    if isinstance(error, HostUnreachable):
        return "lost"
    return "nothing" if isinstance(error, ProfileNotFound) else "failed"


def _raise_unless(
    errors: Mapping[str, Exception], error: Exception | None, *, nowhere: bool
) -> None:
    """Nothing kept on one host is an answer; on no host it is an error."""
    if error is not None and (nowhere or any(_without(e) != "nothing" for e in errors.values())):
        raise error


def _undo(output: Output, pool: Pool[Host], name: str) -> int:
    from iotrial.errors import OwedError
    from iotrial.execute.keep.many_hosts import undone

    found, errors = undone(pool.opened, name)
    errors |= pool.lost
    rows: list[dict[str, object]] = []
    for host in pool.names:
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
    help="Keep this level regardless of the findings.  [default: the recommended level]",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the kept settings on the host.  [default: the study's name]",
)
@click.option(
    "--on",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="An ssh destination or a host of the profile; box[1-4] for several.  [default: the"
    " profile's hosts, or this host]",
)
@click.option(
    "--for",
    "time",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Duration of the trial period.",
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
    """Keep recommended settings: WHAT is a results folder, a PROFILE.toml, or a NAME that is kept.

    \b
    show     list the settings, the files and the notes
    try      apply; unless confirmed in time, the host restores its former settings
    apply    put all files and values in force, or none
    confirm  keep the settings under trial
    verify   list the settings that changed since; exit code 1 if any
    undo     restore the former files and values, bit for bit
    export   write native files; for a fleet apply.sh, undo.sh and an Ansible role

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
        boots = any(file.loader for _, each in given.values() for file in each.files)
        booted = boots and not all(place.ssh for place in given)  # this machine is not booted
        then = ["apply"] if booted else ["try", "--for", "5m"]
        words = shlex.join([what, *_said(findings, name, hosts), *then])
        start = "iotrial" if any(place.way for place in given) else "sudo IOTRIAL"
        how = "" if booted else " for a trial period"
        output.note(f"No setting changed yet. To apply{how}: {start} keep {words}")
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
        raise UsageError(f"--for: {error}", advice="For example --for 5m") from None
    if seconds < 1:
        raise UsageError(f"--for {text}: less than a second", advice="For example --for 5m")
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


def _places(profile: Profile | None, on: tuple[str, ...]) -> tuple[StudyHost, ...]:
    """The machines that are meant: the profile's, those of them that --on names, or others."""
    hosts = profile.hosts if profile else ()
    if profile and not on:
        from iotrial.hosts.via import need_chosen

        advice = "If that is how its hosts are reached: --on HOST, each of them."
        need_chosen((place.via for place in hosts), f"the profile {profile.name}", advice)
    if not on:
        return hosts or (HERE,)
    if not all(on):
        raise UsageError("--on does not name a host", advice="For example --on root@box7")
    names = [name for each in on for name in (_ranged(each) if _RANGE.search(each) else (each,))]
    known = {place.name: place for place in hosts}
    if all(name in known for name in names):
        return tuple(known[name] for name in dict.fromkeys(names))
    if len(hosts) > 1:
        other = next(name for name in names if name not in known)
        raise UsageError(
            f"--on {other}: the profile has no such host", advice=f"Its hosts: {', '.join(known)}"
        )
    return tuple(place_of(name) for name in dict.fromkeys(names))


def _ranged(text: str) -> tuple[str, ...]:
    try:
        return expanded(text)
    except ValueError as error:
        raise UsageError(f"--on: {error}", advice="For example --on root@box[1-4]") from None


def _shares(profile: Profile, places: tuple[StudyHost, ...]) -> dict[StudyHost, Profile]:
    """What of the profile is each place's."""
    own = profile.shares
    if len(own) == 1:
        return dict.fromkeys(places, *own.values())
    return {place: own[place] for place in places if place in own}


def _put(
    output: Output, given: Mapping[StudyHost, Given], seconds: float, *, pretend: bool
) -> None:
    if pretend and seconds:
        raise UsageError(
            "a simulated host exists only during this command: confirm and undo do not apply",
            advice="Remove --pretend, or use apply --pretend.",
        )
    from iotrial.execute.keep.loader import fitted
    from iotrial.execute.keep.many_hosts import HostProfile, reached
    from iotrial.execute.keep.trial_boot import booted_for_trial
    from iotrial.tunables.boot import is_boot

    places = tuple(given)
    with Interruption() as stop, _machines(places, pretend=pretend) as reach:
        with reached(places, reach, lock=True) as pool:
            pool.check()
            fits = {
                place: (share, fitted(pool.opened[place.name], exported))
                for place, (share, exported) in given.items()
            }
            entries = [entry for share, _ in fits.values() for entry in share.entries]
            if not seconds or not any(is_boot(each.tunable) for each in entries):
                _put_on(output, pool, fits, seconds, stop)
                return
        shares = {p: HostProfile(share, exported.files) for p, (share, exported) in fits.items()}
        with (
            booted_for_trial(reach, shares, seconds, said=output.note, stop=stop),
            reached(places, reach, lock=True) as pool,
        ):
            pool.check()
            _put_on(output, pool, fits, seconds, stop)


def _put_on(
    output: Output,
    pool: Pool[Host],
    fits: Mapping[StudyHost, Given],
    seconds: float,
    stop: Interruption,
) -> None:
    if len(fits) > 1:
        put_on_hosts(output, pool.opened, fits, seconds, stop)
        return
    (here,), (mine,) = pool.opened.values(), fits.values()
    put(output, here, mine, seconds, stop)


def _settled(
    output: Output, action: str, name: str, places: tuple[StudyHost, ...], *, pretend: bool
) -> int:
    from iotrial.execute.keep.many_hosts import reached
    from iotrial.execute.keep.trial_boot import booted_back, in_trial_boot

    if action == "verify":
        with (
            _machines(places, pretend=pretend) as reach,
            reached(places, reach, lock=False) as pool,
        ):
            return _settled_on(output, pool, action, name)
    # What is begun here is done to its end, whoever asks to stop.
    with (
        Interruption(),
        _machines(places, pretend=pretend) as reach,
        booted_back(reach, places, name, said=output.note) as tried,
        reached(places, reach, lock=True) as pool,
    ):
        tried += [each for each, host in pool.opened.items() if in_trial_boot(host, name)]
        return _settled_on(output, pool, action, name)


def _settled_on(output: Output, pool: Pool[Host], action: str, name: str) -> int:
    if len(pool.names) > 1:
        return settle_on_hosts(output, pool, action, name)
    pool.check()
    (here,) = pool.opened.values()
    return settle(output, here, action, name)


@contextmanager
def _machines(places: tuple[StudyHost, ...], *, pretend: bool) -> Iterator[Connect]:
    with machines(pretend=pretend, purpose="keep", several=len(places) > 1) as reach:
        yield reach


def _show(output: Output, profile: Profile, given: Mapping[StudyHost, Given]) -> None:
    output.document(_document(profile, given))
    output.answer(Text(f"{profile.name}: {profile.question}" if profile.question else profile.name))
    for place, (share, exported) in given.items():
        if profile.hosts or len(given) > 1:
            output.answer(Text(f"{place.name}: {place.reached}" if place.way else f"{place.name}:"))
        _show_share(output, share, exported)
    _say_apart(output, profile)


def _say_apart(output: Output, profile: Profile) -> None:
    for each in profile.apart:
        output.answer(Text(f"not kept, created by commands of the study: {each}"))


def _show_share(output: Output, share: Profile, exported: NativeExport) -> None:
    for entry in share.entries:
        former = f" (was {entry.former})" if entry.former else ""
        output.answer(Text(f"  {entry}{former}"))
        if entry.because:
            output.note(f"    {entry.because}")
    for each in exported.files:
        output.answer(Text(each.path))
        for note in each.notes:
            output.note(f"    {note}")
    for kind, *words in deeds(share, exported):
        output.answer(Text(f"  {kind}: {shlex.join(words)}"))
    _say_left(output, exported)


def _say_left(output: Output, exported: NativeExport) -> None:
    for entry in exported.left:
        output.answer(Text(f"not representable in a native file: {entry}"))


def _document(profile: Profile, given: Mapping[StudyHost, Given]) -> dict[str, object]:
    """Of one machine its settings and files; of several those of each."""
    rows: list[dict[str, object]] = [
        {"host": place.name, **document(share, exported)}
        for place, (share, exported) in given.items()
    ]
    whole = rows[0] if len(rows) == 1 else {"name": profile.name, "hosts": rows}
    return {**whole, "apart": list(profile.apart)}


def _export(
    output: Output, profile: Profile, given: Mapping[StudyHost, Given], named: Path | None
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
    say_notes(output, [file for each in every for file in each.files])
    for each in every:
        _say_left(output, each)
