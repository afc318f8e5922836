"""What is kept on a host, as it lies there, and whether it still is in force.

The folder is described in :mod:`iotrial.execute.keep.keeping`.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from iotrial.errors import FileRefused, IotrialError, LockedError, RefusedError, TargetRefused
from iotrial.execute.keep.loader import loader_of_paths, menu_has
from iotrial.execute.settings.journal import REPORT, SUFFIX, JournalFile, read_session
from iotrial.execute.settings.moved import followed, lasting, moved, same
from iotrial.execute.settings.restore import BOOT_ID, boot_id, in_words
from iotrial.hosts.places import journal_folder
from iotrial.hosts.steps import reads
from iotrial.keep.entry import KeptSetting
from iotrial.keep.native.boot import LOADERS, words
from iotrial.keep.profile import Profile, parse
from iotrial.look.identity import BLOCK, identify
from iotrial.model.host import Host
from iotrial.model.step import ABSENT, Probe, Read
from iotrial.model.target import Scope
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.boot import word

KEPT = ".kept"
_FILES_ONLY = ("multipath.", "module.")


def folder(host: Host) -> str:
    return f"{PurePosixPath(journal_folder(host)).parent}/kept.d"


class ProfileNotFound(RefusedError):
    """Nothing is kept by that name, nor tried."""


@dataclass(frozen=True, slots=True)
class KeptProfile:
    """One profile on a host.  ``pending``: begun, or being tried, and not confirmed; ``moved``: the
    names that its disks had (they have those of the profile)."""

    profile: Profile
    files: tuple[tuple[str, str], ...]
    session: JournalFile
    pending: bool
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def tried_by_boot(self) -> bool:
        """Whether the host was booted once for its trial period: the boot loader has nothing of
        it before it is confirmed."""
        booted = any(tunable(each.tunable).boot for each in self.profile.entries)
        return self.pending and booted and not loader_of_paths([path for path, _ in self.files])


def kept(host: Host) -> tuple[KeptProfile, ...]:
    """Everything that is kept on the host, or was begun, by name."""
    place = folder(host)
    try:
        names = host.list(place)
    except FileRefused:
        return ()
    found = []
    for name in names:
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        if suffix in (SUFFIX, KEPT):
            found.append(_read(host, place, stem, suffix))
    return tuple(found)


def undone(host: Host, name: str) -> str:
    """What the guard said when it undid ``name`` ('': it did not)."""
    try:
        report = _text(host, f"{folder(host)}/{name}{REPORT}")
    except FileRefused:
        return ""
    return "; ".join(line.strip() for line in in_words(report))


def refuse_pending(host: Host) -> None:
    """Nothing may hold the host's lock for long while a change waits to be undone: its guard needs
    the lock.  So it is as good as locked, and a study on many hosts goes on without this one.
    Raises LockedError naming what is begun or being tried."""
    pending = [each.profile.name for each in kept(host) if each.pending]
    if pending:
        name = pending[0]
        raise LockedError(
            f"{host.name}: {name} is in a trial period of `iotrial keep`, or was interrupted",
            advice=f"First: iotrial keep {name} confirm, or iotrial keep {name} undo",
        )


def refuse_unprivileged(host: Host) -> None:
    """What is kept is root's, and nobody else sees it.  Raises RefusedError."""
    if host.unprivileged:
        raise RefusedError(f"{host.name}: keep needs root", advice=host.unprivileged)
    if host.unguarded:
        raise RefusedError(f"{host.name}: keep needs a host that stays", advice=host.unguarded)


def find(host: Host, name: str) -> KeptProfile | None:
    return next((each for each in kept(host) if each.profile.name == name), None)


def find_now(host: Host, name: str) -> KeptProfile | None:
    """The same, with each disk by the name that it has now."""
    if (there := find(host, name)) is None:
        return None
    names = moved(host, there.profile)
    return replace(there, profile=followed(there.profile, names), moved=names)


def _read(host: Host, place: str, name: str, suffix: str) -> KeptProfile:
    path = f"{place}/{name}{suffix}"
    try:
        profile = parse(_text(host, f"{place}/{name}.toml"), f"{place}/{name}.toml")
        files = json.loads(_text(host, f"{place}/{name}.files"))
    except (IotrialError, ValueError):
        # Begun, and not even that far: the journal says what is owed.
        profile, files = Profile(name, ()), {}
    pairs = tuple((str(at), str(text)) for at, text in files.items())
    return KeptProfile(profile, pairs, read_session(path, host.read(path)), suffix == SUFFIX)


def _text(host: Host, path: str) -> str:
    return host.read(path).decode("utf-8", "surrogateescape")


def live_settings(profile: Profile) -> tuple[Setting, ...]:
    """What is put in force now.  Of multipath the file itself is what counts, the parameter of a
    module counts when it is loaded, and that of the command line when the host has booted."""
    return tuple(
        Setting(entry.device, entry.tunable, entry.value)
        for entry in profile.entries
        if not tunable(entry.tunable).reload
        and not tunable(entry.tunable).boot
        and not entry.tunable.startswith(_FILES_ONLY)
    )


def after_boot(host: Host, there: KeptProfile) -> tuple[Setting, ...]:
    """What of the command line is kept and not in force, for the host has not booted since: it is
    after the next boot."""
    return _not_booted(host, there)[0]


def until_boot(host: Host, profile: Profile) -> list[str]:
    """In words, what of the command line is undone and runs still."""
    mine = (each for each in profile.entries if tunable(each.tunable).boot)
    runs = _text(host, "/proc/cmdline").split()
    still = [each for each in mine if word(each.tunable, each.value) in runs]
    return [f"{each} is in force until the next boot" for each in still]


def _not_booted(
    host: Host, there: KeptProfile
) -> tuple[tuple[Setting, ...], tuple[ProfileDifference, ...]]:
    """What waits for the next boot; and what is not in force after one, or will not be."""
    other = not_in_force(host, there.profile.entries)
    entries = tuple(each for each in there.profile.entries if tunable(each.tunable).boot)
    loader, added = loader_of_paths([path for path, _ in there.files]), words(entries)
    if loader and not menu_has(host, loader, added):
        found = "no entry has them: regenerated without them, or overridden by another file"
        return (), (ProfileDifference(f"menu of {LOADERS[loader]}", added, found, "now"),)
    if there.session.boot_id == boot_id(host) and not there.tried_by_boot:
        return tuple(Setting("", each.tunable, each.value) for each, _ in other), ()
    booted = "the host has booted since it was kept"
    return (), tuple(
        ProfileDifference(each.tunable, each.value, is_now or "does not exist", booted)
        for each, is_now in other
    )


def not_in_force(host: Host, asked: Iterable[KeptSetting]) -> list[tuple[KeptSetting, str | None]]:
    """What of the command line is not in force, each with the value that is (None: it has none)."""
    entries = [each for each in asked if tunable(each.tunable).boot]
    probes = [tunable(each.tunable).probe("") for each in entries]
    answers = host.batch([Read(probe) for probe in probes]) if probes else ()
    now = [reads(probe, answer) for probe, answer in zip(probes, answers, strict=True)]
    return [pair for pair in zip(entries, now, strict=True) if pair[1] != pair[0].value]


def strangers(host: Host, profile: Profile) -> Iterator[tuple[str, str, str]]:
    """(device, who it was, who it is) of each that is another one now by the profile's ids: names
    move.  What is gone is not among them."""
    wanted = {(each.device, tunable(each.tunable).scope): each.ids for each in profile.entries}
    for (device, scope), ids in wanted.items():
        now = _ids(host, scope, device)
        known = lasting(ids)
        if now and known and not same(known, now):
            yield device, _words(known), _words(now.items())


def _ids(host: Host, scope: Scope, device: str) -> dict[str, str]:
    """What the thing of this name is known by now; empty where it is not there."""
    try:
        if scope in ("nic", "rx", "tx"):
            place = f"/sys/class/net/{device.partition('/')[0]}/address"
            return {"address": host.read(place).decode().strip()}
        if scope in BLOCK:
            who = identify(host, f"/dev/{device.replace('!', '/')}")
            return {"size": str(who.size), **dict(who.ids)}
    except (FileRefused, TargetRefused):
        pass
    return {}


def _words(ids: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in ids)


@dataclass(frozen=True, slots=True)
class ProfileDifference:
    """``what`` is not as it was kept: ``wanted`` against ``found``, ``since`` in words."""

    what: str
    wanted: str
    found: str
    since: str


def verify(host: Host, name: str) -> tuple[KeptProfile, tuple[ProfileDifference, ...]]:
    """What is no longer as it was kept.  Raises RefusedError where nothing is kept by that name."""
    refuse_unprivileged(host)
    there = find_now(host, name)
    place = folder(host)
    if there is None:
        known = ", ".join(each.profile.name for each in kept(host)) or "nothing"
        told = undone(host, name)
        raise ProfileNotFound(
            f"{host.name}: {name} is not kept{': ' if told else ''}{told}",
            advice=f"Kept here: {known}",
        )
    found = differing(host, there)
    if not found:
        stamp = {"boot_id": boot_id(host), "at": host.run(["date", "+%F %T"]).text.strip()}
        host.save(f"{place}/{name}.seen", (json.dumps(stamp) + "\n").encode())
    return there, tuple(found)


def differing(host: Host, there: KeptProfile) -> tuple[ProfileDifference, ...]:
    """What is no longer as it was kept; values of a device that is another one now are not read."""
    seen = _last_seen(host, f"{folder(host)}/{there.profile.name}.seen")
    others = {device: (was, now) for device, was, now in strangers(host, there.profile)}
    moved = [
        ProfileDifference(device, was, now, "now another device")
        for device, (was, now) in others.items()
    ]
    values = _values_differing(host, there, seen, others)
    return (*moved, *_files_differing(host, there, seen), *values, *_not_booted(host, there)[1])


def _last_seen(host: Host, path: str) -> str:
    try:
        stamp = json.loads(_text(host, path))
        at, boot = str(stamp["at"]), str(stamp["boot_id"])
    except (FileRefused, ValueError, KeyError):
        return "since some time after it was kept"
    here = host.read(BOOT_ID).decode().strip()
    return f"since some time after {at}" + ("" if boot == here else ", before the latest boot")


def _files_differing(host: Host, there: KeptProfile, seen: str) -> Iterable[ProfileDifference]:
    probes = [Probe(path, pick="whole", absent=ABSENT) for path, _ in there.files]
    answers = host.batch([Read(probe) for probe in probes])
    for (path, text), probe, answer in zip(there.files, probes, answers, strict=True):
        now = reads(probe, answer)
        if now == text:
            continue
        changed = host.run(["stat", "-c", "%y", path]).text.strip().partition(".")[0]
        found = "does not exist" if now == ABSENT else answer.complaint or "different content"
        yield ProfileDifference(
            path, "as written", found, f"changed {changed}" if changed else seen
        )


def _values_differing(
    host: Host, there: KeptProfile, seen: str, without: Container[str]
) -> Iterable[ProfileDifference]:
    live = [each for each in live_settings(there.profile) if each.device not in without]
    probes = [tunable(each.tunable).probe(each.device) for each in live]
    answers = host.batch([Read(probe) for probe in probes])
    for each, probe, answer in zip(live, probes, answers, strict=True):
        now = reads(probe, answer)
        if now != each.value:
            what = each.tunable + (f" on {each.device}" if each.device else "")
            yield ProfileDifference(
                what, each.value, now if now is not None else "does not exist", seen
            )
