"""Keeping on a host: files and live values together, all of them or none.

What is kept lies in ``kept.d`` beside the journals, by the profile's name::

    NAME.toml        the profile, as :mod:`iotrial.keep.profile` writes it
    NAME.files       the native files as they were written (JSON), for ``verify``
    NAME.journal     what was there before: begun, or being tried.  Whoever finds it pays it
    NAME.kept        the same file by its other name: kept.  The rename is the commit
    NAME.seen        when everything was last found in force, and during which boot

The journal is that of a trial (:mod:`iotrial.execute.settings.journal`): every former value and
every file that was or was not there, as data, durable.  It is written before the first change, and
a guard on the host pays it when we die; where systemd runs, so does a unit at the next boot, so
that a power cut in the middle leaves nothing of it.  ``try`` leaves the guard behind: it pays when
the time is up, unless the journal has got its other name by then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import PurePosixPath

from iotrial.errors import FileRefused, HostError, HostUnreachable, OwedError, RefusedError
from iotrial.execute.keep.former import aside, edited, former_file
from iotrial.execute.keep.kept import (
    KEPT,
    NothingKept,
    differing,
    find,
    find_now,
    folder,
    kept,
    live_settings,
    refuse_unprivileged,
    strangers,
)
from iotrial.execute.keep.reboot import at_next_boot, tell
from iotrial.execute.load.load import TOKEN
from iotrial.execute.settings.guard import guard_argv, guarded, lease_of
from iotrial.execute.settings.journal import (
    REPORT,
    SUFFIX,
    Session,
    SettingsDebt,
    open_journal,
    read_session,
)
from iotrial.execute.settings.moved import followed, moved, owed_there, renamings
from iotrial.execute.settings.restore import Payment, boot_id, pay
from iotrial.execute.settings.tuning import apply as apply_settings
from iotrial.execute.settings.tuning import snapshots
from iotrial.hosts.places import lock_path
from iotrial.hosts.steps import reads
from iotrial.keep.native import NativeFile
from iotrial.keep.profile import Profile, to_toml
from iotrial.model.host import Host
from iotrial.model.step import ABSENT, Act, Hold, Look, Probe
from iotrial.model.tunable import Setting
from iotrial.tunables.file import UNMARKED

_LONGEST = 24 * 3600.0
LEASE = 30.0
"""Seconds after which a host that has lost us undoes what was begun."""


class InDoubt(HostUnreachable):
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
    refuse_unprivileged(host)
    names = moved(host, profile)
    profile = followed(profile, names)
    _check(host, profile, files, trial)
    place, name = folder(host), profile.name
    path = f"{place}/{name}{SUFFIX}"
    live = live_settings(profile)
    debts = (*_former_files(host, files), *_former_values(host, live))
    notes = (*renamings(names), *at_next_boot(host, place))
    # Whatever we have just begun ends with us, before the guard gives anything back: a rename that
    # comes late would make kept what was undone.  Over a link the guard knows the agent by its
    # fence (hosts/ssh.py); by the mark, hosts with common process numbers would end each other's.
    host.mark({} if host.remote else {TOKEN: name})
    try:
        with guarded(host, path, lock_path(host), lease_of(host, LEASE)):
            try:
                host.save(f"{place}/{name}.toml", to_toml(profile).encode())
                texts = {each.path: each.text for each in files if not each.people}
                host.save(f"{place}/{name}.files", (json.dumps(texts) + "\n").encode())
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
                    _watch_on(host, path, trial)  # first: the change itself may cut the link
                _change(host, files, live, stop)
                yield notes
            except InDoubt:
                raise
            except HostUnreachable as lost:
                within = max(LEASE, trial)
                lost.advice = f"{host.name} undoes it by itself, within {within:.0f} s or so."
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
    host: Host, files: Sequence[NativeFile], live: Sequence[Setting], stop: Callable[[], None]
) -> None:
    stop()
    _save(host, files)
    stop()
    apply_settings(host, live)
    for command in dict.fromkeys(command for each in files for command in each.reload):
        stop()
        tell(host, command)
    stop()


def _check(host: Host, profile: Profile, files: Sequence[NativeFile], trial: float) -> None:
    if not 0 <= trial <= _LONGEST:
        raise RefusedError(
            f"a trial of {trial:g} s: it may be tried for a day at most", advice="Try it shorter."
        )
    there = find(host, profile.name)
    if there is not None:
        how = "was begun, and not confirmed" if there.pending else "is kept already"
        raise RefusedError(
            f"{host.name}: {profile.name} {how}",
            advice=f"First: iotrial keep {profile.name} undo; or give it another --name.",
        )
    for device, was, now in strangers(host, profile):
        raise RefusedError(
            f"{host.name}: {device} is another one now: it was {was}; it is {now}",
            advice="No disk here has its ids, or several have: write in the profile the name"
            " that it has now (`on`): see iotrial doctor.",
        )
    others = {path: each.profile.name for each in kept(host) for path, _ in each.files}
    for each in files:
        if each.path in others:
            raise RefusedError(
                f"{host.name}: {each.path} is of {others[each.path]}",
                advice=f"First: iotrial keep {others[each.path]} undo",
            )


def _former_values(host: Host, live: Sequence[Setting]) -> tuple[SettingsDebt, ...]:
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
            f"{host.name}: not here now: {', '.join(missing)}",
            advice="Leave it out of the profile (iotrial keep … export writes it), or mend `on`.",
        )
    return tuple(
        SettingsDebt(
            group.device,
            None,
            tuple(replace(each, durable=True) for each in group.owed),
            group.witnesses,
        )
        for group in groups
    )


def _former_files(host: Host, files: Sequence[NativeFile]) -> tuple[SettingsDebt, ...]:
    """Each file as it is now: moved aside with all that a name is tied to, or not there."""
    found = [
        former_file(host, each, _made_folders(host, each.path)) for each in files if not each.people
    ]
    return (SettingsDebt("", None, tuple(found)),) if found else ()


def _made_folders(host: Host, path: str) -> tuple[Act, ...]:
    """What removes the folders again that are made for a file, the innermost first."""
    made = []
    for parent in PurePosixPath(path).parents:
        try:
            host.list(str(parent))
            break
        except FileRefused:
            made.append(str(parent))
    return (Act("run", argv=("rmdir", "--ignore-fail-on-non-empty", *made)),) if made else ()


def _save(host: Host, files: Sequence[NativeFile]) -> None:
    """Write them, and read each back."""
    mine = [each for each in files if not each.people]
    probes = [Probe(each.path, pick="whole", absent=ABSENT) for each in mine]
    steps = [
        Hold(
            probe,
            each.text,
            (
                *aside(host, each.path),
                Act("save", path=each.path, data=each.text),
                *([Act("run", argv=("chmod", "755", each.path))] if each.program else []),
            ),
        )
        for each, probe in zip(mine, probes, strict=True)
    ]
    answers = host.batch([*steps, *(Look(probe) for probe in probes)])
    for each, probe, done, seen in zip(
        mine, probes, answers[: len(mine)], answers[len(mine) :], strict=True
    ):
        if reads(probe, seen) != each.text:
            raise RefusedError(
                f"{host.name}: {each.path} is not written: {done.complaint or 'it reads other'}",
                advice="Make room, or make its folder writable; everything is as before.",
            )


def commit(host: Host, name: str) -> None:
    """The rename after which it is kept.  Raises InDoubt where the link is lost meanwhile."""
    place = folder(host)
    former, latter = f"{place}/{name}{SUFFIX}", f"{place}/{name}{KEPT}"
    try:
        done = host.run(["mv", "-fT", "--", former, latter])
        if done.exit != 0:
            raise HostError(f"{host.name}: {done.complaint}", advice="Nothing is kept: see df.")
        host.run(["sync", "--", place])
    except HostUnreachable as lost:
        raise InDoubt(
            f"{lost.message}, while {name} was made to stay",
            advice=f"It is kept, or {host.name} undoes it by itself: iotrial keep {name} verify",
        ) from lost


def _undo_begun(host: Host, path: str) -> None:
    payment = Payment()
    pay(host, _as_now(host, read_session(path, host.read(path))), payment)
    if payment.owed:
        raise OwedError(
            f"{host.name}: not everything could be undone:",
            owed=payment.owed,
            advice="Mend what is named, then: iotrial keep NAME undo",
        )


def _forget(host: Host, name: str) -> None:
    """Nothing is said of what is not kept.  What cannot be removed harms nobody, and does not hide
    why it was refused."""
    for suffix in (".toml", ".files"):
        with suppress(FileRefused, HostUnreachable):
            host.remove(f"{folder(host)}/{name}{suffix}")


def _as_now(host: Host, session: Session) -> Session:
    """As if there had been no reboot: what is kept is set again by every boot."""
    return replace(session, boot_id=boot_id(host))


def _watch_on(host: Host, path: str, seconds: float) -> None:
    """Leave a guard behind, that pays when the time is over: its only sign of life is that
    somebody still waits.  It carries no mark: it lives on when we have ended.  Whoever waits looks
    each second whether the journal is still this one: what was confirmed or undone, and may be
    tried again by the same name, is no business of this guard's any more."""
    argv = guard_argv(path, lock_path(host), 0.0)
    waits = 'now=; read -r now <"$3"; [ "$now" = "$5" ] && [ "$left" -gt 0 ]'
    waiting = (
        f"{{ left=$1; while {waits}; do sleep 1; left=$((left - 1)); done; "
        '[ "$now" = "$5" ] || echo done; } | sh -c "$2" iotrial-guard "$3" "$4" 0'
    )
    # The journal is read before we go on: what waits may begin late, and find another or none.
    quiet = (
        f'read -r first <"$3" || exit; '
        f'setsid sh -c \'{waiting}\' iotrial-try "$@" "$first" </dev/null >/dev/null 2>&1 &'
    )
    words = (f"{seconds:.0f}", argv[2], path, argv[5])
    done = host.run([*UNMARKED, "sh", "-c", quiet, "iotrial-try", *words])
    if done.exit != 0:
        raise HostError(f"{host.name}: no guard can be left: {done.complaint}")


def confirm(host: Host, name: str) -> None:
    """What is being tried is kept.  Raises as :func:`confirmable` and :func:`commit`."""
    confirmable(host, name)
    commit(host, name)


def confirmable(host: Host, name: str) -> None:
    """Raise RefusedError where nothing is tried by that name, and where not all of it is in force,
    as after a death in the middle."""
    refuse_unprivileged(host)
    there = find_now(host, name)
    if there is None or not there.pending:
        how = "is kept already" if there else "is not being tried: was it undone?"
        raise RefusedError(f"{host.name}: {name} {how}", advice=f"See: iotrial keep {name} verify")
    if differences := differing(host, there):
        what = ", ".join(each.what for each in differences)
        raise RefusedError(
            f"{host.name}: not all of {name} is in force: {what}",
            advice=f"Only a whole change is kept: iotrial keep {name} undo, and try again.",
        )


def undo(host: Host, name: str) -> Payment:
    """Give everything back as it was before ``name`` was kept, bit for bit.

    Raises RefusedError where nothing is kept by that name, OwedError naming what does not go back.
    """
    refuse_unprivileged(host)
    there = find_now(host, name)
    if there is None:
        known = ", ".join(each.profile.name for each in kept(host)) or "nothing"
        raise NothingKept(f"{host.name}: no {name} is kept", advice=f"Kept here: {known}")
    payment, edits = Payment(), edited(host, there.files)
    session = owed_there(_as_now(host, there.session), there.moved)
    # What was begun may still be at work; what is kept has no process, whoever has such a mark.
    pay(host, session if there.pending else replace(session, token=""), payment)
    if payment.owed:
        raise OwedError(
            f"{host.name}: {len(payment.owed)} of the former settings could not be given back:",
            owed=payment.owed,
            advice=f"Mend what is named above, then again: iotrial keep {name} undo",
        )
    payment.notes += edits
    for suffix in (".toml", ".files", ".seen", REPORT):
        host.remove(f"{folder(host)}/{name}{suffix}")
    return payment
