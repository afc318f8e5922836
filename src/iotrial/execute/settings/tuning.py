"""Settings: snapshot the group, apply in order, read back, put back.

The law (``docs/decisions/0004``): the *group* is what will be written and everything those writes
move, transitively.  A value is written only where it differs from what is read at that moment, on
the host itself: a needless write can move other values and can switch hidden state (writing
``wbt_lat_usec`` by hand stops bfq from managing it).

Each function is one round trip, however many settings there are, unless something is refused.

The control group of the load: made when a limit is varied, joined by every load, removed; a load
that runs beside has one of its own.

It is owed before it is made (``folder`` in the journal: rmdir).  A restore ends the load first, so
that the group is empty when it goes; its limits go with it.  Sources: the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from iotrial.errors import (
    FileRefused,
    HostError,
    OwedError,
    RefusedError,
    SettingLost,
    SettingRefused,
)
from iotrial.execute.settings.journal import Journal, ResourceUndo, SettingsUndo
from iotrial.hosts.steps import reads
from iotrial.look.identity import witness_probes
from iotrial.model.host import Host
from iotrial.model.step import NOT_HERE, Ensure, Probe, Read, Step, StepResult
from iotrial.model.target import Scope
from iotrial.model.tunable import FormerValue, Setting, Tunable
from iotrial.tunables import CATALOGUE, Catalogue
from iotrial.tunables.cgroup import V1, V1_ROOT, V2, V2_ROOT, aside

_EVERYWHERE = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Refusals that no other level would escape: a container, no root."""
PASSES = 3
"""Putting back one value may move one already put back (never seen with ranks right): look
again this often before calling a value owed."""


@dataclass(frozen=True, slots=True)
class SettingsGroup:
    """Tunables held together on one device, in rank order, what is owed of them (their values at
    the start), and by which files the device is known again (path, text).  ``booted`` are values
    that only a boot changes: they are read like the others, and nothing writes them."""

    device: str
    tunables: tuple[Tunable, ...]
    owed: tuple[FormerValue, ...]
    witnesses: tuple[tuple[str, str], ...] = ()
    booted: tuple[Setting, ...] = ()

    @property
    def values(self) -> tuple[Setting, ...]:
        return (*self.booted, *(each.setting for each in self.owed))


def scope_of(group: SettingsGroup) -> Scope:
    """What the device of a group is."""
    return _scope(group.tunables)


def _scope(rows: Iterable[Tunable]) -> Scope:
    """That of the first tunable (what is set on a disk and on what lies on it are all settings of
    block devices)."""
    return next((knob.scope for knob in rows), "host")


def observe(host: Host, knob: Tunable, device: str) -> str | None:
    """The value in force, or None where the knob does not exist now (``iosched/*`` of another
    scheduler).  Raises FileRefused for a file that is there and cannot be read."""
    return _value(host, knob.probe(device), _look(host, [knob.probe(device)])[0])


def _look(host: Host, probes: Iterable[Probe]) -> tuple[StepResult, ...]:
    return host.batch([Read(probe) for probe in probes])


def _value(host: Host, probe: Probe, answer: StepResult) -> str | None:
    value = reads(probe, answer)
    if value is None and probe.path and answer.errno and answer.errno not in NOT_HERE:
        raise FileRefused(host.name, "read", probe.path, answer.errno)
    return value


def snapshot(
    host: Host, names: Iterable[str], device: str, known: Catalogue = CATALOGUE
) -> SettingsGroup:
    """The group of these tunables on ``device``, as it is now."""
    return snapshots(host, {device: tuple(names)}, known)[0]


def snapshots(
    host: Host, wanted: Mapping[str, Iterable[str]], known: Catalogue = CATALOGUE
) -> tuple[SettingsGroup, ...]:
    """The groups of these tunables on each device.  What they move on another layer (the ports
    behind a map) is there where the caller asks for it by that layer's names."""
    knobs = {
        device: tuple(knob for knob in known.group(names) if not knob.device_problem(device))
        for device, names in wanted.items()
    }
    asked = [(device, knob, knob.probe(device)) for device in knobs for knob in knobs[device]]
    known_by = [
        (device, probe)
        for device, rows in knobs.items()
        for probe in witness_probes(_scope(rows), device)
    ]
    answers = _look(host, [*(probe for _, _, probe in asked), *(probe for _, probe in known_by)])
    owed: dict[str, list[FormerValue]] = {device: [] for device in knobs}
    booted: list[Setting] = []
    for (device, knob, probe), answer in zip(asked, answers, strict=False):
        value = _value(host, probe, answer)
        former = Setting(device, knob.name, value or "")
        if value is not None and knob.boot:
            booted.append(former)
        elif value is not None:
            owed[device].append(FormerValue(former, probe, knob.undo(device, value), knob.durable))
    seen = [
        (device, (probe.path, text))
        for (device, probe), answer in zip(known_by, answers[len(asked) :], strict=True)
        if (text := reads(probe, answer))
    ]
    return tuple(
        SettingsGroup(
            device,
            rows,
            tuple(owed[device]),
            tuple(pair for on, pair in seen if on == device),
            tuple(each for each in booted if each.device == device),
        )
        for device, rows in knobs.items()
    )


def read_back(host: Host, groups: Iterable[SettingsGroup]) -> tuple[Setting, ...]:
    """Every value of the groups that can be read now, in rank order."""
    asked = _probes(groups)
    return _observed(host, asked, _look(host, [probe for _, _, probe in asked]))


def read_back_and(
    host: Host, groups: Iterable[SettingsGroup], look: Read
) -> tuple[tuple[Setting, ...], StepResult]:
    """The same, and the answer to one look more, in the same round trip."""
    asked = _probes(groups)
    *answers, answer = host.batch([*(Read(probe) for _, _, probe in asked), look])
    return _observed(host, asked, answers), answer


def _probes(groups: Iterable[SettingsGroup]) -> list[tuple[str, str, Probe]]:
    """(device, tunable, where it is read) of everything in the groups."""
    return [(g.device, knob.name, knob.probe(g.device)) for g in groups for knob in g.tunables]


def _observed(
    host: Host, asked: Sequence[tuple[str, str, Probe]], answers: Sequence[StepResult]
) -> tuple[Setting, ...]:
    seen = [
        (device, name, _value(host, probe, answer))
        for (device, name, probe), answer in zip(asked, answers, strict=True)
    ]
    return tuple(Setting(device, name, value) for device, name, value in seen if value is not None)


def changes(before: Iterable[Setting], after: Iterable[Setting]) -> Iterator[str]:
    """In words, each of ``before`` that has another value in ``after``, or none."""
    now = {(setting.device, setting.tunable): setting.value for setting in after}
    for each in before:
        value = now.get((each.device, each.tunable), "absent")
        if value != each.value:
            where = each.device or "the host"
            yield f"{each.tunable} on {where} went from {each.value} to {value}"


def in_order(settings: Iterable[Setting], known: Catalogue = CATALOGUE) -> list[Setting]:
    """By rank: a write comes before the values it moves, in apply and in restore alike."""
    return sorted(settings, key=lambda s: (known.tunable(s.tunable).rank, s.device, s.tunable))


def apply(host: Host, settings: Sequence[Setting], known: Catalogue = CATALOGUE) -> None:
    """Write each setting that is not in force already, in order, and read each back.

    The order that ranks give may be wrong for the values at hand, so what is refused is tried
    again as long as anything else goes through, and what a later write has moved is written once
    more.

    Raises SettingRefused when the kernel says no, SettingLost when it says yes and another value
    is read; in both cases the caller still owes, and pays, what was there before.
    """
    ordered = [_change(setting, known) for setting in in_order(settings, known)]
    if not ordered:
        return
    waiting = ordered
    while True:
        looks = [Read(each.step.probe) for each in ordered]
        answers = host.batch([*(each.step for each in waiting), *looks])
        tried = zip(waiting, answers[: len(waiting)], strict=True)
        refused = [(each, answer) for each, answer in tried if answer.errno]
        if not refused:
            break
        if len(refused) == len(waiting):
            raise _refusal(host, refused)
        # What was refused may be taken now: a low limit must stay below its high one.
        waiting = [each for each, _ in refused]
    seen = answers[len(waiting) :]
    if not all(map(_in_force, ordered, seen)):
        seen = host.batch([*(each.step for each in ordered), *looks])[len(ordered) :]
    for each, answer in zip(ordered, seen, strict=True):
        _confirm(host, each, answer)


def hold(
    host: Host,
    groups: Sequence[SettingsGroup],
    settings: Sequence[Setting],
    known: Catalogue = CATALOGUE,
) -> tuple[Setting, ...]:
    """From wherever the groups are to their values at the start, and from there to ``settings``;
    gives back what the groups read then.  One round trip where nothing is refused.

    By way of the start, so that what is in force depends on the treatment alone and not on the
    one before it.  Raises as :func:`release` and :func:`apply`.
    """
    owed = [each for group in groups for each in group.owed]
    ordered = in_order(settings, known)
    asked = _probes(groups)
    steps: list[Step] = [
        *(Ensure(each.probe, each.setting.value, each.acts) for each in owed),
        *(Read(each.probe) for each in owed),
        *(_change(setting, known).step for setting in ordered),
        *(Read(probe) for _, _, probe in asked),
    ]
    rest = iter(host.batch(steps))
    tried = [next(rest) for _ in owed]
    at_start = [reads(each.probe, next(rest)) == each.setting.value for each in owed]
    tried += [next(rest) for _ in ordered]
    found = _observed(host, asked, tuple(rest))
    if all(at_start) and not any(answer.errno for answer in tried) and set(ordered) <= set(found):
        return found
    # Something was refused or moved: step by step, to mend it or to say what it is.
    release(host, groups)
    apply(host, settings, known)
    return read_back(host, groups)


def release(host: Host, groups: Iterable[SettingsGroup]) -> None:
    """The groups' values as they were at the start.  Raises OwedError when one does not go back."""
    if left := put_back(host, [each for group in groups for each in group.owed]):
        raise OwedError(
            f"{host.name}: settings cannot be restored between trials:",
            owed=left,
            advice="Another program may change them; stop it, then: iotrial restore",
        )


class _Change(NamedTuple):
    """A setting, its tunable, and the step that makes it so."""

    setting: Setting
    knob: Tunable
    step: Ensure


def _change(setting: Setting, known: Catalogue) -> _Change:
    knob = known.tunable(setting.tunable)
    acts = knob.acts(setting.device, setting.value)
    return _Change(setting, knob, Ensure(knob.probe(setting.device), setting.value, acts))


def _in_force(change: _Change, answer: StepResult) -> bool:
    return reads(change.step.probe, answer) == change.setting.value


def _refusal(host: Host, refused: Sequence[tuple[_Change, StepResult]]) -> SettingRefused:
    """The first of what was refused, and where else the same tunable was for the same reason."""
    change, answer = refused[0]
    setting, meaning = change.setting, dict(change.knob.means).get(answer.errno, "")
    why = f"{answer.complaint}: {meaning}" if meaning else answer.complaint
    others = [
        other.setting.device
        for other, said in refused[1:]
        if (other.knob.name, said.errno) == (change.knob.name, answer.errno)
    ]
    also = f", as on {', '.join(others)}" if others else ""
    return SettingRefused(
        f"{host.name}: the kernel rejects {setting}{also} ({why})",
        tunable=setting.tunable,
        device=setting.device,
        value=setting.value,
        advice=_remedy(0 if meaning else answer.errno, setting),
        everywhere=not meaning and answer.errno in _EVERYWHERE,
    )


def _remedy(code: int, setting: Setting) -> str:
    if code == errno.ENOENT:
        return (
            f"{setting.tunable} does not exist on {setting.device or 'this host'} now (it may"
            " belong to another scheduler). Exclude the cell with [[exclude]]."
        )
    if code == errno.EROFS:
        return "/sys is read-only here, as in a container: run on the host itself."
    if code in (errno.EACCES, errno.EPERM):
        return "Changing settings needs root."
    if code == errno.EBUSY:
        return "Another process uses it: find it (fuser, lsof), stop it, and try again."
    return (
        "Remove the level, or exclude the cell with [[exclude]]; `iotrial knobs` lists"
        " accepted values."
    )


def _confirm(host: Host, change: _Change, answer: StepResult) -> None:
    setting, probe = change.setting, change.step.probe
    observed = _value(host, probe, answer)
    if observed != setting.value:
        raise SettingLost(
            f"{host.name}: {setting} was accepted, but {probe.place} reads {observed!r}",
            tunable=setting.tunable,
            value=setting.value,
            advice="Use the value that the kernel reports as the level, or remove it.",
        )


def put_back(host: Host, owed: Sequence[FormerValue]) -> tuple[str, ...]:
    """Restore what differs, in the order given (of the snapshot: by rank), and read back.  Twice
    is once.

    Gives back one line for each value still owed; empty means that everything reads as before.
    """
    left: tuple[str, ...] = ()
    for _ in range(PASSES if owed else 0):
        holds = [Ensure(each.probe, each.setting.value, each.acts) for each in owed]
        answers = host.batch([*holds, *(Read(each.probe) for each in owed)])
        done, seen = answers[: len(owed)], answers[len(owed) :]
        left = tuple(
            f"{each.setting} ({_why(each.probe, act, now)})"
            for each, act, now in zip(owed, done, seen, strict=True)
            if reads(each.probe, now) != each.setting.value
        )
        if not left:
            break
    return left


def _why(probe: Probe, act: StepResult, now: StepResult) -> str:
    return act.complaint or now.complaint or f"reads {reads(probe, now)!r}"


_LIMITS = {V1: "cgroup.v1.", V2: "cgroup.v2."}
_CONTROLLER = "cgroup.v2.controller"
_JOIN = 'echo "$$" >"$1/cgroup.procs" && shift && exec "$@"'
"""The shell enters the group and becomes the load, with the pid and the mark it was given."""


def join(argv: Sequence[str], folder: str) -> tuple[str, ...]:
    """The command that does ``argv`` in the group ``folder`` ('': in no group of ours).

    >>> join(["fio", "job"], "/sys/fs/cgroup/blkio/iotrial")[3:]
    ('iotrial-join', '/sys/fs/cgroup/blkio/iotrial', 'fio', 'job')
    """
    if not folder:
        return tuple(argv)
    return ("sh", "-c", _JOIN, "iotrial-join", folder, *argv)


def wanted(names: Iterable[str]) -> str:
    """The group that these tunables limit; '' where they limit none.

    Raises RefusedError where they are of both versions: no kernel has both.
    """
    folders = [each for each, prefix in _LIMITS.items() if any(n.startswith(prefix) for n in names)]
    if len(folders) > 1:
        raise RefusedError(
            "limits of both cgroup v1 and cgroup v2: a kernel has only one of them",
            advice=(
                "Use cgroup.v1.… or cgroup.v2.…: `iotrial doctor` shows which one the kernel has."
            ),
        )
    return folders[0] if folders else ""


def own(host: Host, journal: Journal, names: Iterable[str], *, neighbour: bool = False) -> str:
    """Make the group that these tunables limit, owed first; gives back its folder, or ''.  With a
    ``neighbour``, also the one of the load that runs beside.

    Raises RefusedError where this kernel has no such controller, or where a group of that name
    is there already.  Its limits are owed by whoever sets them, as for any tunable.
    """
    folder = wanted(tuple(names))
    if not folder:
        return ""
    folders = (folder, aside(folder)) if neighbour else (folder,)
    _check(host, folder, folders)
    if folder == V2:
        _turn_on(host, journal)
    for each in folders:
        journal.owe_made(ResourceUndo("folder", {"folder": each}))
        made = host.run(["mkdir", each])
        if made.exit != 0:
            raise HostError(
                f"{host.name}: control group {each} cannot be created: {made.complaint}",
                advice="It needs root and a writable /sys/fs/cgroup (not in a container).",
            )
    return folder


def _check(host: Host, folder: str, folders: Iterable[str]) -> None:
    here = kinds(host)
    if folder not in here:
        other = " or ".join(f"{_LIMITS[each]}…" for each in here)
        raise RefusedError(
            f"{host.name}: this kernel has no {_nouns(folder)}",
            advice=f"Use {other}, which this kernel has." if other else "Remove the limits.",
        )
    for each in folders:
        if host.run(["stat", "-c", "%F", each]).exit == 0:
            raise RefusedError(
                f"{host.name}: control group {each} exists and belongs to no run",
                advice=(
                    f"Check the processes in {each}/cgroup.procs; `rmdir {each}` removes an"
                    " empty one."
                ),
            )


def _nouns(folder: str) -> str:
    if folder == V1:
        return f"blkio controller of cgroup v1 below {V1_ROOT}"
    return f"io controller of cgroup v2 below {V2_ROOT}"


def kinds(host: Host) -> tuple[str, ...]:
    """The groups that could be made on this host."""
    v1 = _text(host, f"{V1_ROOT}/blkio.throttle.read_iops_device")
    v2 = _text(host, f"{V2_ROOT}/cgroup.controllers") or ""
    return tuple(each for each, yes in ((V1, v1 is not None), (V2, "io" in v2.split())) if yes)


def _text(host: Host, path: str) -> str | None:
    try:
        return host.read(path).decode("ascii", "replace")
    except FileRefused:
        return None


def _turn_on(host: Host, journal: Journal) -> None:
    """Let groups below the root have the controller, for the whole run and not by trial: it is
    owed, but no part of the group of tunables that every treatment starts from."""
    group = snapshot(host, [_CONTROLLER], "")
    journal.owe_settings(SettingsUndo("", None, group.owed))
    apply(host, [Setting("", _CONTROLLER, "on")])
