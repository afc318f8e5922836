"""Restore: pay what a host is owed, from its journal alone.

First the load ends, then settings go back, then what was made is removed, then the receipt: the
journal file goes.  Every step may be done twice; a crash in the middle is paid by the next call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from iotrial.errors import (
    FileRefused,
    HostError,
    HostUnreachable,
    IotrialError,
    OwedError,
    TargetRefused,
)
from iotrial.execute.boot import need_own_boot
from iotrial.execute.load.load import end_loads
from iotrial.execute.settings.debris import unmake
from iotrial.execute.settings.journal import (
    REPORT,
    JournalFile,
    SettingsUndo,
    made_name,
    sessions,
    sweep,
)
from iotrial.execute.settings.moved import owed_by, renamings
from iotrial.execute.settings.tuning import put_back
from iotrial.hosts.places import journal_folder
from iotrial.hosts.steps import beside, reads
from iotrial.look import reading
from iotrial.look.identity import disks, identify
from iotrial.model.host import Host
from iotrial.model.step import ABSENT, Probe, Read, StepResult
from iotrial.model.tunable import FormerValue

_ASIDE = ("owed", "note")
WAY_OUT = (
    "Fix the problems listed above, then: iotrial restore. To discard the records of settings"
    " that cannot be restored: iotrial restore --forget"
)
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass
class RestoreReport:
    """What one restore did, in words for people: ``done``, ``notes`` (nothing to do and why) and
    ``owed`` (what could not be paid)."""

    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)


def restore(host: Host, folder: str) -> RestoreReport:
    """Pay every session in the journal folder of ``host``.  The caller holds the host's lock.

    Raises OwedError (exit 4) naming each value that could not be restored; what could be, was.
    """
    payment = RestoreReport()
    sweep(host, folder)
    for session in sessions(host, folder):
        pay(host, session, payment)
    if payment.owed:
        raise OwedError(
            f"{host.name}: {len(payment.owed)} of its former settings could not be restored:",
            owed=payment.owed,
            advice=WAY_OUT,
        )
    return payment


def pay(host: Host, session: JournalFile, payment: RestoreReport) -> None:
    """Pay one session and, when nothing is left, remove its journal.

    Whatever one debt is up against, the others are paid.  Raises HostUnreachable.
    """
    before = len(payment.owed)
    rebooted = bool(session.boot_id) and session.boot_id != boot_id(host)
    if rebooted:
        payment.notes.append(
            f"{host.name} has rebooted since {session.study or 'the study'}: its settings have"
            " the values of the boot; only settings that survive a reboot are restored"
        )
    stuck = "" if rebooted else _end_loads(host, session, payment)
    try:
        _pay_settings(host, session.settings, payment, rebooted=rebooted)
    except HostUnreachable:
        raise
    except IotrialError as error:
        values = (each.setting for debt in session.settings for each in debt.values)
        payment.owed += [f"{value} ({error.message})" for value in values]
    for made in reversed(session.made):
        try:
            payment.done += unmake(host, made)
        except HostUnreachable:
            raise
        except IotrialError as error:
            advice = f" ({error.advice})" if error.advice else ""
            payment.owed.append(f"{made.what} {made_name(made)}: {error.message}{advice}")
    if stuck and (stuck := _end_loads(host, session, payment)):
        payment.owed.append(stuck)
    payment.owed += session.damage
    if len(payment.owed) == before:
        host.remove(session.path)


def _end_loads(host: Host, session: JournalFile, payment: RestoreReport) -> str:
    """Why processes of the load do not end, or ''.  One may wait for what is undone after it."""
    try:
        payment.done += end_loads(host, session.token)
    except HostUnreachable:
        raise
    except HostError as error:
        return error.message
    return ""


def boot_id(host: Host) -> str:
    return host.read(BOOT_ID).decode().strip()


def _pay_settings(
    host: Host, debts: Iterable[SettingsUndo], payment: RestoreReport, *, rebooted: bool
) -> None:
    """All devices together, in the order of the journal: what moves others goes back first, also
    across layers."""
    due: list[FormerValue] = []
    for debt in (_lasting(host, each, payment) if rebooted else each for each in debts):
        values = debt.values
        stranger = _stranger(host, debt) if values else ""
        if stranger:
            payment.owed += [f"{each.setting} ({stranger})" for each in values]
        elif values and _gone(host, debt):
            payment.notes.append(f"{debt.device} no longer exists, and neither do its settings")
        else:
            due += values
    seen = host.batch([Read(each.probe) for each in due])
    differing = [
        each.setting
        for each, answer in zip(due, seen, strict=True)
        if reads(each.probe, answer) != each.setting.value
    ]
    owed = put_back(host, due)
    payment.owed += owed
    payment.done += [f"restored {s}" for s in differing if not any(str(s) in o for o in owed)]
    for path in {act.path for each in due for act in each.acts if act.kind in ("save", "remove")}:
        payment.owed += _swept(host, beside(path))  # what a death in the middle of a save leaves


def _lasting(host: Host, debt: SettingsUndo, payment: RestoreReport) -> SettingsUndo:
    """What is still owed after a reboot, by the name that the device has now: an array that was
    ``md0`` may be ``md127``."""
    lasting = replace(debt, values=tuple(each for each in debt.values if each.durable))
    if not lasting.values or debt.identity is None:
        return lasting
    names = [name for name, who in disks(host).items() if who.stable == debt.identity.stable]
    if len(names) != 1 or debt.device in names:
        return lasting
    payment.notes += renamings({debt.device: names[0]})
    return owed_by(lasting, names[0])


def _swept(host: Host, path: str) -> list[str]:
    """Remove it; what stays there is owed.  On a read-only file system even removing what is not
    there is refused (unlink(2), EROFS)."""
    try:
        host.remove(path)
    except FileRefused as refused:
        probe = Probe(path, pick="whole", absent=ABSENT)
        if reads(probe, *host.batch([Read(probe)])) != ABSENT:
            return [refused.message]
    return []


def _gone(host: Host, debt: SettingsUndo) -> bool:
    """Whether there is no such thing any more: a disk, or what is known by its witnesses, such as
    an interface."""
    if debt.identity is not None:
        return debt.device not in host.list("/sys/block")
    first = [Probe(path) for path, _ in debt.witnesses[:1]]
    return any(reads(probe, answer) is None for probe, answer in _looked(host, first))


def _looked(host: Host, probes: Sequence[Probe]) -> Iterable[tuple[Probe, StepResult]]:
    return zip(probes, host.batch([Read(probe) for probe in probes]), strict=True)


def _stranger(host: Host, debt: SettingsUndo) -> str:
    """Why the device that has this name now is not the one that was changed, or ''."""
    if _gone(host, debt):
        return ""
    if debt.identity is None:
        return _other(host, debt)
    try:
        now = identify(host, f"/dev/{debt.device}")
    except TargetRefused as refused:
        return f"the identity of {debt.device} is unknown: {refused.message}"
    if now.stable == debt.identity.stable:
        return ""
    was = ", ".join(f"{kind} {value}" for kind, value in debt.identity.stable)
    found = ", ".join(f"{kind} {value}" for kind, value in now.stable)
    return f"{debt.device} is now another disk: was {was}; is {found}"


def _other(host: Host, debt: SettingsUndo) -> str:
    """The same for what has no identity but its witnesses, such as an interface."""
    seen = _looked(host, [Probe(path) for path, _ in debt.witnesses])
    for (path, was), (probe, answer) in zip(debt.witnesses, seen, strict=True):
        if (now := reads(probe, answer)) != was:
            return f"{debt.device} is now another device: {path} was {was}, is {now}"
    return ""


def settle(host: Host, said: Callable[[str], None], *, booted: bool = False) -> RestoreReport:
    """What every use of a host begins with, once its lock is held: say what guards did there, and
    pay what is owed from before.  ``booted``: a boot of the study runs there, as it should.  Raises
    OwedError as :func:`restore` does, and for a boot of another study."""
    folder = journal_folder(host)
    for line in read_reports(host, folder):
        said(line)
    payment = restore(host, folder)
    payment.done += [] if booted else need_own_boot(host)
    return payment


def reports(host: Host, folder: str) -> tuple[str, ...]:
    """What guards did there since anybody asked: for each a line in words, and below it, set in,
    what it could not do and why."""
    return tuple(line for path in _report_files(host, folder) for line in _report(host, path))


def read_reports(host: Host, folder: str) -> tuple[str, ...]:
    """The same, told once: they are gone then."""
    lines = reports(host, folder)
    for path in _report_files(host, folder):
        host.remove(path)
    return lines


def _report_files(host: Host, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in reading.names(host, folder) if name.endswith(REPORT)]


def _report(host: Host, path: str) -> list[str]:
    return in_words(reading.content(host, path).decode("utf-8", "replace"))


def in_words(report: str) -> list[str]:
    r"""A guard's report (the first line says when and why, the others are ``KIND: WORDS``).  One
    that did not fit on the disk says less.

    >>> in_words("2026-11-21 12:03:11, the controller died\nvalue: a=1\nvalue: b=2\n")
    ['the guard restored at 2026-11-21 12:03:11, the controller died: 2 values']
    """
    head, *rest = report.splitlines() or [""]
    told = [line.partition(": ")[::2] for line in rest]
    counts = Counter(kind for kind, _ in told if kind not in _ASIDE)
    done = [
        f"{n} {kind}{'es' if kind == 'process' else 's'}" if n > 1 else f"1 {kind}"
        for kind, n in counts.items()
    ]
    aside = [f"  {kind}: {words}" for kind, words in told if kind in _ASIDE]
    when = f" at {head}" if head else ", and could not write down what"
    return [f"the guard restored{when}: {', '.join(done) or 'nothing to restore'}", *aside]


def forget(host: Host, folder: str) -> RestoreReport:
    """Restore what can be, then give up the rest: its journals go, and each value is named."""
    payment = RestoreReport()
    for session in sessions(host, folder):
        before = len(payment.owed)
        pay(host, session, payment)
        if len(payment.owed) > before:
            payment.notes += [f"discarded: {line}" for line in payment.owed[before:]]
            host.remove(session.path)
    return payment
