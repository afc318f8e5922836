"""Keeping on a host: files and live values together, all of them or none.

What is kept lies in ``kept.d`` beside the journals, by the profile's name::

    NAME.toml        the profile, as :mod:`iotrial.keep.profile` writes it
    NAME.files       the native files as they were written (JSON), for ``verify``
    NAME.journal     what was there before: begun, or being tried.  Whoever finds it pays it
    NAME.kept        the same file by its other name: kept.  The rename is the commit
    NAME.seen        when everything was last found in force, and during which boot
    NAME.menu        a boot loader's menu has words of it: :mod:`iotrial.execute.keep.loader`

The journal is that of a trial (:mod:`iotrial.execute.settings.journal`): every former value and
every file that was or was not there, as data, durable.  It is written before the first change, and
a guard on the host pays it when we die; where systemd runs, so does a unit at the next boot, so
that a power cut in the middle leaves nothing of it.  ``try`` leaves the guard behind: it pays when
the time is up, unless the journal has got its other name by then.

What was at a file's place before it was kept: put aside by a rename, and back by another.

So it comes back as it was: a link (dangling or not) is a link, and owner, mode, times, extended
attributes, ACLs and hard links are those that it had.  It lies beside, by a name that no program
takes for one of its files.  What an administrator has made of our file since is no part of what
was before: it is saved beside as well, and said.

The next boot: two units that undo what ``iotrial keep`` had begun when the machine went down.

The *early* one is before everything that reads the files that are kept (the ``readers`` of each
format): systemd-modules-load, systemd-sysctl, systemd-tmpfiles-setup, udev, multipathd.  So nothing
of a half-made change is put in force.  It waits for no mount: one of ``/var`` waits for its disk,
which waits for udev, which would wait for us.  Where the folder is not there yet, or a device or
program is not, the other one does it.

The *late* one is after all of these, and after udev's queue is empty: what they set from files that
were still there is given back, and nothing sets it again.  Both are before basic.target, so before
every ordinary service.  Whichever comes second finds no journal when all is done.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import PurePosixPath

from iotrial.errors import FileRefused, HostError, HostUnreachable, OwedError, RefusedError
from iotrial.execute.keep.kept import (
    KEPT,
    KeptProfile,
    ProfileNotFound,
    differing,
    find,
    find_now,
    folder,
    kept,
    live_settings,
    not_in_force,
    refuse_unprivileged,
    strangers,
    until_boot,
)
from iotrial.execute.keep.loader import (
    MENU,
    check_fitting,
    fitted,
    former_menu,
    give_back,
    make_menus,
    stamp_menus,
)
from iotrial.execute.load.load import TOKEN
from iotrial.execute.settings.guard import guard_argv, guarded, lease_of, script
from iotrial.execute.settings.journal import (
    REPORT,
    SUFFIX,
    JournalFile,
    SettingsUndo,
    open_journal,
    read_session,
)
from iotrial.execute.settings.moved import followed, moved, owed_there, renamings
from iotrial.execute.settings.restore import RestoreReport, boot_id, pay
from iotrial.execute.settings.tuning import apply as apply_settings
from iotrial.execute.settings.tuning import snapshots
from iotrial.hosts.places import lock_path
from iotrial.hosts.steps import reads
from iotrial.keep.native import NativeFile, export, formats
from iotrial.keep.profile import Profile, to_toml
from iotrial.look.boots import BOOT_SCRIPT, boot_debt
from iotrial.model.host import Host
from iotrial.model.step import ABSENT, Change, Ensure, Probe, Read
from iotrial.model.tunable import FormerValue, Setting
from iotrial.tunables.file import UNMARKED

ASIDE, SAVED = ".iotrial-former", ".iotrial-saved"
_THERE = "as it was"
_LOOK = """\
if [ -e "$1" ] || [ -L "$1" ]; then echo moved aside; exit; fi
if [ -f "$2" ] && [ ! -L "$2" ]; then
    sum=$(sha256sum <"$2") || exit
    [ "${sum%% *}" != "$3" ] || { echo lost; exit; }
fi
echo as it was
"""
"""Arguments: where it lies beside, our file, the sum of what we wrote.  Ours with nothing beside:
somebody has removed what was before."""
_NEEDS = """\
[ -e "$1" ] || [ -L "$1" ] || {
    echo "what was there before is gone from $1: put it there again, or remove $2" >&2
    exit 1
}
"""
"""Arguments: where it lies beside, our file, which stays until there is something in its place."""
_SAVE = """\
[ -e "$1" ] || [ -L "$1" ] || exit 0
if [ -f "$1" ] && [ ! -L "$1" ]; then
    sum=$(sha256sum <"$1") || exit
    [ "${sum%% *}" != "$2" ] || exit 0
fi
mv -T --backup=numbered -- "$1" "$3"
"""
"""Arguments: our file, the sum of what we wrote, where to save another content."""


def former_file(host: Host, file: NativeFile, empty: Sequence[Change]) -> FormerValue:
    """What gives back what is at the place of ``file`` now.  ``empty`` removes folders that are
    made for it.  Raises RefusedError for what cannot be moved aside."""
    path = file.path
    # What makes a menu anew is a debt of its own (loader.py).
    reload = () if file.loader else file.reload
    after = tuple(Change("run", argv=command) for command in reload)
    digest = _digest(file)
    saving = ("sh", "-c", _SAVE, "iotrial-saved", path, digest, f"{path}{SAVED}")
    gone = (Change("run", argv=saving), Change("remove", path=path))
    beside = f"{path}{ASIDE}"
    if _kind(host, beside):
        raise RefusedError(
            f"{host.name}: {beside} exists: the former file of an earlier keep, not restored",
            advice=f"Check it, then move it to {path} or elsewhere.",
        )
    kind = _kind(host, path)
    if not kind:
        unload = tuple(Change("run", argv=_ignoring(command)) for command in file.unload)
        acts = (*unload, *gone, *empty, *after)
        probe = Probe(path, pick="whole", absent=ABSENT)
        return FormerValue(Setting("", f"file:{path}", ABSENT), probe, acts, durable=True)
    if not kind.startswith(("regular", "symbolic link")):
        raise RefusedError(
            f"{host.name}: {path} is a {kind}", advice="Move it, or use another --name."
        )
    back = ("mv", "-fT", "--", beside, path)
    folder = path.rpartition("/")[0]
    needs = Change("run", argv=("sh", "-c", _NEEDS, "iotrial-needed", beside, path))
    acts = (
        needs,
        *gone,
        Change("run", argv=back),
        Change("run", argv=("sync", "--", folder)),
        *after,
    )
    # What was the same as ours cannot be told from ours, and need not be.
    same = kind.startswith("regular") and _sum(host, path) == digest
    looking = ("sh", "-c", _LOOK, "iotrial-former", beside, path, "" if same else digest)
    probe = Probe(argv=looking)
    return FormerValue(Setting("", f"file:{path}", _THERE), probe, acts, durable=True)


def _digest(file: NativeFile) -> str:
    return hashlib.sha256(file.text.encode("utf-8", "surrogateescape")).hexdigest()


def aside(host: Host, path: str) -> tuple[Change, ...]:
    """What moves aside what is there now."""
    if not _kind(host, path):
        return ()
    return (Change("run", argv=("mv", "-fT", "--", path, f"{path}{ASIDE}")),)


def edited(host: Host, files: Sequence[tuple[str, str]]) -> list[str]:
    """In words, each file that is another one than we wrote, and where it will be saved."""
    probes = [Probe(path, pick="whole", absent=ABSENT) for path, _ in files]
    answers = host.batch([Read(probe) for probe in probes])
    return [
        f"{path} was changed since it was kept: the changed file is saved as {path}{SAVED}"
        for (path, text), probe, answer in zip(files, probes, answers, strict=True)
        if reads(probe, answer) not in (text, ABSENT)
    ]


def _kind(host: Host, path: str) -> str:
    """What stat(1) calls it, links not followed; '' where there is nothing."""
    done = host.run(["stat", "-c", "%F", "--", path])
    return done.text.strip() if done.exit == 0 else ""


def _sum(host: Host, path: str) -> str:
    done = host.run(["sha256sum", "--", path])
    return done.text.removeprefix("\\").partition(" ")[0] if done.exit == 0 else ""


def _ignoring(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose failure keeps nothing from being undone."""
    return ("sh", "-c", '"$@" || :', "iotrial-unload", *command)


UNIT = "/etc/systemd/system/iotrial-keep.service"
EARLY = "/etc/systemd/system/iotrial-keep-early.service"
_SYSTEMD = "/run/systemd/system"
_MISSING = 127


def at_next_boot(host: Host, place: str) -> tuple[str, ...]:
    """Have the next boot undo what was begun and not finished."""
    try:
        host.list(_SYSTEMD)
    except FileRefused:
        risk = (
            "after a power failure in the middle the change stays incomplete until `iotrial"
            " keep NAME undo`"
        )
        return (f"{host.name} is not run by systemd: {risk}",)
    host.save(f"{place}/guard.sh", script().encode(), private=False)
    host.save(f"{place}/boot.sh", boot_script(place, lock_path(host)).encode(), private=False)
    for path, text in units(place).items():
        host.save(path, text.encode(), private=False)
    tell(host, ("systemctl", "daemon-reload"))
    tell(host, ("systemctl", "enable", *(path.rpartition("/")[2] for path in units(place))))
    return ()


def boot_script(place: str, lock: str) -> str:
    """POSIX sh, with the word ``late`` after udev has begun.  Needs ``guard.sh`` beside the
    journals."""
    return (
        "# Undoes what `iotrial keep` had begun and not finished when the machine went down.\n"
        '[ "${1-}" != late ] || ! command -v udevadm >/dev/null || udevadm settle --timeout=60\n'
        f'mkdir -p -m 700 -- "{lock.rpartition("/")[0]}"\n'  # /run is empty now
        f'for each in "{place}"/*{SUFFIX}; do\n'
        '    [ -f "$each" ] || continue\n'
        f'    sh "{place}/guard.sh" "$each" "{lock}" 0 </dev/null\n'
        "done\n"
    )


def units(place: str) -> dict[str, str]:
    """The units by their paths."""
    readers = " ".join(dict.fromkeys(each for form in formats().values() for each in form.readers))
    early = (
        f"After=systemd-remount-fs.service\nBefore={readers} sysinit.target shutdown.target\n",
        "TimeoutStartSec=60\n",
        "sysinit.target",
    )
    late = (
        (
            f"RequiresMountsFor={place} /etc\nAfter=local-fs.target {readers}"
            f" {EARLY.rpartition('/')[2]}\nBefore=basic.target shutdown.target\n"
        ),
        "",
        "basic.target",
    )
    return {EARLY: _unit(place, early, ""), UNIT: _unit(place, late, " late")}


def _unit(place: str, order: tuple[str, str, str], word: str) -> str:
    when, limit, target = order
    return (
        "# Of `iotrial keep`: does nothing unless a change was interrupted.\n"
        "[Unit]\nDescription=Undo what iotrial keep had begun and not finished\n"
        f"ConditionPathExistsGlob={place}/*{SUFFIX}\nDefaultDependencies=no\n"
        f"Conflicts=shutdown.target\n{when}\n"
        f"[Service]\nType=oneshot\n{limit}ExecStart=/bin/sh {place}/boot.sh{word}\n\n"
        f"[Install]\nWantedBy={target}\n"
    )


def tell(host: Host, command: Sequence[str]) -> None:
    """Have a program read its files again; one that is not there has nothing to read."""
    done = host.run(command)
    if done.exit not in (0, _MISSING):
        raise HostError(
            f"{host.name}: `{' '.join(command)}` fails: {done.complaint}",
            advice="Fix this first; no setting was kept.",
        )


_LONGEST = 24 * 3600.0
LEASE = 30.0
"""Seconds after which a host that has lost us undoes what was begun."""


class OutcomeUnknown(HostUnreachable):
    """The link was lost while what was begun was made to stay: whether it stays is not known."""


def _nobody() -> None:
    """Nobody asks to stop."""


def apply(
    host: Host,
    profile: Profile,
    files: Sequence[NativeFile],
    *,
    trial: float = 0.0,
    stop: Callable[[], None] = _nobody,
) -> tuple[str, ...]:
    """Put the files of ``profile`` on the host and its values in force, all or none.

    With ``trial`` seconds it is undone by the host itself when they are over, unless
    :func:`confirm` comes first.  The caller holds the host's lock.  ``stop`` is called between
    steps, and may raise.  Gives back what a person should know.  Raises RefusedError where it is
    kept already, and whatever ``stop`` or a refused setting raises; then everything is as before,
    or OwedError names what is not.  HostUnreachable: the host undoes it by itself; or InDoubt.
    """
    with begun(host, profile, files, trial=trial, stop=stop) as notes:
        if not trial:
            commit(host, profile.name)
    return notes


@contextmanager
def begun(
    host: Host,
    profile: Profile,
    files: Sequence[NativeFile],
    *,
    trial: float = 0.0,
    stop: Callable[[], None] = _nobody,
) -> Iterator[tuple[str, ...]]:
    """As :func:`apply`, but within the context all of it is in force and can still be undone:
    without ``trial`` whoever opens it calls :func:`commit` in it.  An error in it undoes it."""
    profile, names = checked(host, profile, files)
    _check_trial(host, files, trial)
    place, name = folder(host), profile.name
    path = f"{place}/{name}{SUFFIX}"
    live = live_settings(profile)
    stamp = f"{place}/{name}{MENU}"  # of the menu of a boot loader
    debts = (*_former_files(host, files, stamp), *_former_values(host, live))
    notes = (*renamings(names), *at_next_boot(host, place))
    booted = bool(trial) and any(each.loader for each in files)
    if trial:  # the boot loader is told by `confirm`
        files = [each for each in files if not each.loader]
    # Whatever we have just begun ends with us, before the guard gives anything back: a rename that
    # comes late would make kept what was undone.  Over a link the guard knows the agent by its
    # fence (hosts/ssh.py); by the mark, hosts with common process numbers would end each other's.
    host.mark({} if host.remote else {TOKEN: name})
    try:
        with guarded(host, path, lock_path(host), lease_of(host, LEASE)):
            try:
                host.save(f"{place}/{name}.toml", to_toml(profile).encode())
                _save_texts(host, name, {each.path: each.text for each in files if not each.people})
                host.remove(f"{place}/{name}{REPORT}")  # of an earlier one that was undone
                stop()
                header = {"boot_id": boot_id(host), "token": name, "study": name, "at": time.time()}
                journal = open_journal(host, place, header)
            except HostUnreachable:
                raise
            except BaseException:
                _forget(host, name)
                raise
            try:
                journal.owe_all(debts)
                if trial:
                    # First: the change itself may cut the link.
                    _watch_on(host, name, trial, booted=booted)
                _change(host, files, stamp, live, stop)
                yield notes
            except OutcomeUnknown:
                raise
            except HostUnreachable as lost:
                within = max(LEASE, trial)
                lost.advice = (
                    f"{host.name} restores its former settings within about {within:.0f} s."
                )
                raise
            except BaseException:
                host.mark({})
                _undo_begun(host, path)
                _forget(host, name)
                raise
    finally:
        with suppress(HostUnreachable):
            host.mark({})


def _change(
    host: Host,
    files: Sequence[NativeFile],
    stamp: str,
    live: Sequence[Setting],
    stop: Callable[[], None],
) -> None:
    stop()
    stamp_menus(host, stamp, files)
    _save(host, files)
    stop()
    apply_settings(host, live)
    others = (each for each in files if not each.loader)
    for command in dict.fromkeys(command for each in others for command in each.reload):
        stop()
        tell(host, command)
    stop()
    make_menus(host, files)
    stop()


def check_period(trial: float) -> None:
    """Raise RefusedError for a trial period that is too long."""
    if not 0 <= trial <= _LONGEST:
        raise RefusedError(
            f"a trial period of {trial:g} s is longer than one day",
            advice="Use a shorter trial period.",
        )


def _check_trial(host: Host, files: Sequence[NativeFile], trial: float) -> None:
    check_period(trial)
    booted = [entry for each in files if each.loader for entry in each.entries]
    if trial and (other := not_in_force(host, booted)):
        told = ", ".join(str(each) for each, _ in other)
        raise RefusedError(
            f"{host.name}: {told} takes effect at the next boot: the host has to be booted with it"
            " for a trial period",
            advice="Use `apply`, and `undo` to take it back.",
        )


def checked(
    host: Host, profile: Profile, files: Sequence[NativeFile]
) -> tuple[Profile, Mapping[str, str]]:
    """The profile with each disk by the name that it has now, and the names that have moved.
    Raises RefusedError where it cannot be kept on the host."""
    refuse_unprivileged(host)
    names = moved(host, profile)
    profile = followed(profile, names)
    there = find(host, profile.name)
    if there is not None:
        how = "was applied but not confirmed" if there.pending else "is kept already"
        raise RefusedError(
            f"{host.name}: {profile.name} {how}",
            advice=f"First: iotrial keep {profile.name} undo; or use another --name.",
        )
    check_fitting(host, files)
    for device, was, now in strangers(host, profile):
        raise RefusedError(
            f"{host.name}: {device} is now another device: was {was}; is {now}",
            advice="No disk, or more than one, has these ids: set `on` in the profile to the"
            " present name: see iotrial doctor.",
        )
    others = {path: each.profile.name for each in kept(host) for path, _ in each.files}
    for each in files:
        if each.path in others:
            raise RefusedError(
                f"{host.name}: {each.path} belongs to {others[each.path]}",
                advice=f"First: iotrial keep {others[each.path]} undo",
            )
    return profile, names


def _former_values(host: Host, live: Sequence[Setting]) -> tuple[SettingsUndo, ...]:
    """The groups of all that is set live.  Undone after a reboot too: the files that were kept
    have made the boot set them."""
    wanted: dict[str, list[str]] = {}
    for setting in live:
        wanted.setdefault(setting.device, []).append(setting.tunable)
    groups = snapshots(host, wanted) if wanted else ()
    missing = [
        str(setting)
        for setting in live
        if not any(s.device == setting.device and s.tunable == setting.tunable
                   for group in groups for s in group.values)
    ]  # fmt: skip
    if missing:
        raise RefusedError(
            f"{host.name}: does not exist: {', '.join(missing)}",
            advice=(
                "Remove it from the profile (iotrial keep … export writes one), or correct `on`."
            ),
        )
    return tuple(
        SettingsUndo(
            group.device,
            None,
            tuple(replace(each, durable=True) for each in group.owed),
            group.witnesses,
        )
        for group in groups
    )


def _former_files(host: Host, files: Sequence[NativeFile], stamp: str) -> tuple[SettingsUndo, ...]:
    """Each file as it is now: moved aside with all that a name is tied to, or not there.  Behind
    them the menus that are made of them."""
    found = [
        former_file(host, each, _made_folders(host, each.path)) for each in files if not each.people
    ]
    for each in files:
        if each.loader:
            digest = _digest(each)
            # What was the same as ours is there again when it is as before.
            told = "" if _sum(host, each.path) == digest else digest
            found.append(former_menu(each, stamp, f"{each.path}{ASIDE}", told))
    return (SettingsUndo("", None, tuple(found)),) if found else ()


def _made_folders(host: Host, path: str) -> tuple[Change, ...]:
    """What removes the folders again that are made for a file, the innermost first."""
    made = []
    for parent in PurePosixPath(path).parents:
        try:
            host.list(str(parent))
            break
        except FileRefused:
            made.append(str(parent))
    return (Change("run", argv=("rmdir", "--ignore-fail-on-non-empty", *made)),) if made else ()


def _save(host: Host, files: Sequence[NativeFile]) -> None:
    """Write them, and read each back."""
    mine = [each for each in files if not each.people]
    probes = [Probe(each.path, pick="whole", absent=ABSENT) for each in mine]
    steps = [
        Ensure(
            probe,
            each.text,
            (
                *aside(host, each.path),
                Change("save", path=each.path, data=each.text),
                *([Change("run", argv=("chmod", "755", each.path))] if each.program else []),
            ),
        )
        for each, probe in zip(mine, probes, strict=True)
    ]
    answers = host.batch([*steps, *(Read(probe) for probe in probes)])
    for each, probe, done, seen in zip(
        mine, probes, answers[: len(mine)], answers[len(mine) :], strict=True
    ):
        if reads(probe, seen) != each.text:
            raise RefusedError(
                f"{host.name}: {each.path} is not written: {done.complaint or 'read-back differs'}",
                advice="Free space, or make its folder writable; former settings are restored.",
            )


def commit(host: Host, name: str) -> None:
    """The rename after which it is kept.  Raises InDoubt where the link is lost meanwhile."""
    place = folder(host)
    former, latter = f"{place}/{name}{SUFFIX}", f"{place}/{name}{KEPT}"
    try:
        done = host.run(["mv", "-fT", "--", former, latter])
        if done.exit != 0:
            raise HostError(
                f"{host.name}: {done.complaint}", advice="No setting was kept: check df."
            )
        host.run(["sync", "--", place])
    except HostUnreachable as lost:
        raise OutcomeUnknown(
            f"{lost.message} during confirmation of {name}",
            advice=(
                f"The settings are kept, or {host.name} restores the former ones: iotrial"
                f" keep {name} verify"
            ),
        ) from lost


def _undo_begun(host: Host, path: str) -> None:
    payment, session = RestoreReport(), _as_now(host, read_session(path, host.read(path)))
    give_back(host, [value for debt in session.settings for value in debt.values])
    pay(host, session, payment)
    if payment.owed:
        raise OwedError(
            f"{host.name}: not fully restored:",
            owed=payment.owed,
            advice="Fix the listed problems, then: iotrial keep NAME undo",
        )


def _save_texts(host: Host, name: str, texts: Mapping[str, str]) -> None:
    host.save(f"{folder(host)}/{name}.files", (json.dumps(texts) + "\n").encode())


def _forget(host: Host, name: str) -> None:
    """Nothing is said of what is not kept.  What cannot be removed harms nobody, and does not hide
    why it was refused."""
    for suffix in (".toml", ".files"):
        with suppress(FileRefused, HostUnreachable):
            host.remove(f"{folder(host)}/{name}{suffix}")


def _as_now(host: Host, session: JournalFile) -> JournalFile:
    """As if there had been no reboot: what is kept is set again by every boot."""
    return replace(session, boot_id=boot_id(host))


def _watch_on(host: Host, name: str, seconds: float, *, booted: bool) -> None:
    """Leave a guard behind, that pays when the time is over, and boots the host back where it was
    ``booted`` for the trial: its only sign of life is that somebody still waits.  It carries no
    mark: it lives on when we have ended.  Whoever waits looks each second whether the journal is
    still this one: what was confirmed or undone, and may be tried again by the same name, is no
    business of this guard's any more."""
    path = f"{folder(host)}/{name}{SUFFIX}"
    argv = guard_argv(path, lock_path(host), 0.0)
    waits = 'now=; read -r now <"$3"; [ "$now" = "$5" ] && [ "$left" -gt 0 ]'
    waiting = (
        f"{{ left=$1; while {waits}; do sleep 1; left=$((left - 1)); done; "
        '[ "$now" = "$5" ] || echo done; } | sh -c "$2" iotrial-guard "$3" "$4" 0; '
        # Only a guard that has paid leaves a report.
        '[ ! -e "$6" ] || [ -e "$3" ] || [ ! -e "$7" ] || sh "$7" back'
    )
    # The journal is read before we go on: what waits may begin late, and find another or none.
    quiet = (
        f'read -r first <"$3" || exit; '
        f'setsid sh -c \'{waiting}\' iotrial-try "$1" "$2" "$3" "$4" "$first" "$5" "$6"'
        " </dev/null >/dev/null 2>&1 &"
    )
    report = f"{folder(host)}/{name}{REPORT}"
    words = (f"{seconds:.0f}", argv[2], path, argv[5], report, BOOT_SCRIPT if booted else "")
    done = host.run([*UNMARKED, "sh", "-c", quiet, "iotrial-try", *words])
    if done.exit != 0:
        raise HostError(f"{host.name}: cannot start the guard: {done.complaint}")


def confirm(host: Host, name: str) -> None:
    """What is being tried is kept.  Raises as :func:`prepare` and :func:`commit`."""
    prepare(host, name)
    commit(host, name)


def prepare(host: Host, name: str) -> None:
    """Have everything ready that :func:`commit` makes stay: the boot loader is told of parameters
    that were tried in a boot.  Raises RefusedError where nothing is tried by that name, and where
    not all of it is in force, as after a death in the middle; HostError where the loader's menu
    cannot be made: the trial goes on, and its end restores it."""
    refuse_unprivileged(host)
    there = find_now(host, name)
    if there is None or not there.pending:
        how = "is kept already" if there else "is not in a trial period; possibly undone"
        raise RefusedError(f"{host.name}: {name} {how}", advice=f"See: iotrial keep {name} verify")
    if differences := differing(host, there):
        what = ", ".join(each.what for each in differences)
        raise RefusedError(
            f"{host.name}: {name} is only partly in force: {what}",
            advice=(
                f"Only complete changes can be confirmed: iotrial keep {name} undo, then try again."
            ),
        )
    if there.tried_by_boot and boot_debt(host):
        _tell_loader(host, there)


def _tell_loader(host: Host, there: KeptProfile) -> None:
    """What all of it was before is in the journal since the trial began."""
    name = there.profile.name
    files = [each for each in fitted(host, export(there.profile), tried=True).files if each.loader]
    check_fitting(host, files)
    stamp_menus(host, f"{folder(host)}/{name}{MENU}", files)
    _save_texts(host, name, {**dict(there.files), **{each.path: each.text for each in files}})
    _save(host, files)
    make_menus(host, files)


def undo(host: Host, name: str) -> RestoreReport:
    """Give everything back as it was before ``name`` was kept, bit for bit.

    Raises RefusedError where nothing is kept by that name, OwedError naming what does not go back.
    """
    refuse_unprivileged(host)
    there = find_now(host, name)
    if there is None:
        known = ", ".join(each.profile.name for each in kept(host)) or "nothing"
        raise ProfileNotFound(f"{host.name}: {name} is not kept", advice=f"Kept here: {known}")
    payment, edits = RestoreReport(), edited(host, there.files)
    session = owed_there(_as_now(host, there.session), there.moved)
    if not there.pending:
        owed = [value for debt in session.settings for value in debt.values]
        payment.done += give_back(host, owed)
    # What was begun may still be at work; what is kept has no process, whoever has such a mark.
    pay(host, session if there.pending else replace(session, token=""), payment)
    if payment.owed:
        raise OwedError(
            f"{host.name}: {len(payment.owed)} former settings could not be restored:",
            owed=payment.owed,
            advice=f"Fix the problems listed above, then: iotrial keep {name} undo",
        )
    payment.notes += [*edits, *([] if there.tried_by_boot else until_boot(host, there.profile))]
    for suffix in (".toml", ".files", ".seen", REPORT):
        host.remove(f"{folder(host)}/{name}{suffix}")
    return payment
