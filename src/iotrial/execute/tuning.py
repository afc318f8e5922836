"""Settings: snapshot the group, apply in order, read back, put back.

The law (``docs/decisions/0004``): the *group* is what will be written and everything those writes
move, transitively.  A value is written only where it differs from what is read at that moment:
a needless write can move other values and can switch hidden state (writing ``wbt_lat_usec`` by
hand stops bfq from managing it).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotrial.errors import FileRefused, SettingLost, SettingRefused
from iotrial.model.host import Host
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import group as closure
from iotrial.tunables import tunable as find

PASSES = 3
"""Putting back one value may move one already put back (never seen with ranks right): look
again this often before calling a value owed."""

_NOT_HERE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Group:
    """Tunables held together on one device, in rank order, and what they read at the start."""

    device: str
    tunables: tuple[Tunable, ...]
    values: tuple[Setting, ...]


def observe(host: Host, knob: Tunable, device: str) -> str | None:
    """The value in force, or None where the knob does not exist now (``iosched/*`` of another
    scheduler).  Raises FileRefused for a file that is there and cannot be read."""
    try:
        raw = host.read(knob.file(device))
    except FileRefused as refused:
        if refused.errno in _NOT_HERE:
            return None
        raise
    return knob.observe(raw)


def snapshot(host: Host, names: Iterable[str], device: str) -> Group:
    """The group of these tunables on ``device``, as it is now."""
    knobs = closure(names)
    seen = ((knob, observe(host, knob, device)) for knob in knobs)
    values = tuple(Setting(device, k.name, value) for k, value in seen if value is not None)
    return Group(device, tuple(knobs), values)


def read_back(host: Host, group: Group) -> tuple[Setting, ...]:
    """Every value of the group that can be read now, in rank order."""
    seen = ((knob, observe(host, knob, group.device)) for knob in group.tunables)
    return tuple(Setting(group.device, k.name, value) for k, value in seen if value is not None)


def in_order(settings: Iterable[Setting]) -> list[Setting]:
    """By rank: a write comes before the values it moves, in apply and in restore alike."""
    return sorted(settings, key=lambda s: (s.device, find(s.tunable).rank, s.tunable))


def apply(host: Host, settings: Sequence[Setting]) -> None:
    """Write each setting that is not in force already, in order, and read each back.

    The order that ranks give may be wrong for the values at hand, so what is refused is tried
    again as long as anything else goes through.

    Raises SettingRefused when the kernel says no, SettingLost when it says yes and another value
    is read; in both cases the caller still owes, and pays, what was there before.
    """
    waiting = in_order(settings)
    while waiting:
        refused = [(setting, refusal) for setting in waiting if (refusal := _try(host, setting))]
        if len(refused) == len(waiting):
            raise refused[0][1]
        # What was refused may be taken now: a low limit must stay below its high one.
        waiting = [setting for setting, _ in refused]
    for setting in in_order(settings):
        _confirm(host, find(setting.tunable), setting)


def _try(host: Host, setting: Setting) -> SettingRefused | None:
    """Write a setting that is not in force already; the refusal, if that is the answer."""
    knob = find(setting.tunable)
    if observe(host, knob, setting.device) == setting.value:
        return None
    try:
        _write(host, knob, setting)
    except SettingRefused as refusal:
        return refusal
    return None


def _write(host: Host, knob: Tunable, setting: Setting) -> None:
    try:
        host.write(knob.file(setting.device), setting.value.encode())
    except FileRefused as refused:
        raise SettingRefused(
            f"{host.name}: the kernel refuses {setting} ({refused})",
            tunable=setting.tunable,
            device=setting.device,
            value=setting.value,
            advice=_remedy(refused.errno, setting),
        ) from refused


def _remedy(code: int, setting: Setting) -> str:
    if code == errno.ENOENT:
        return (
            f"{setting.tunable} does not exist on {setting.device or 'this host'} now (it may"
            " belong to another scheduler). Leave the cell out with [[exclude]]."
        )
    if code == errno.EROFS:
        return "/sys is read-only here, as in a container: run on the host itself."
    if code in (errno.EACCES, errno.EPERM):
        return "Changing settings needs root."
    return "Leave the level out, or the cell with [[exclude]]; `iotrial knobs` says what is taken."


def _confirm(host: Host, knob: Tunable, setting: Setting) -> None:
    observed = observe(host, knob, setting.device)
    if observed != setting.value:
        raise SettingLost(
            f"{host.name}: {setting} was accepted, but {knob.file(setting.device)} reads"
            f" {observed!r}",
            advice="Use the value the kernel keeps as the level, or leave it out.",
        )


def put_back(host: Host, owed: Sequence[Setting]) -> tuple[str, ...]:
    """Restore what differs, in order, and read back.  Twice is once.

    Gives back one line for each value still owed; empty means that everything reads as before.
    """
    ordered = in_order(owed)
    complaints: dict[Setting, str] = {}
    for _ in range(PASSES):
        complaints = {}
        for setting in ordered:
            complaint = _put_back_one(host, setting)
            if complaint:
                complaints[setting] = complaint
        if all(_reads(host, setting) for setting in ordered):
            return ()
    return tuple(
        f"{setting} ({complaints.get(setting) or _now(host, setting)})"
        for setting in ordered
        if not _reads(host, setting)
    )


def _put_back_one(host: Host, setting: Setting) -> str:
    if _reads(host, setting):
        return ""
    try:
        host.write(find(setting.tunable).file(setting.device), setting.value.encode())
    except FileRefused as refused:
        return str(refused)
    return ""


def _reads(host: Host, setting: Setting) -> bool:
    try:
        return observe(host, find(setting.tunable), setting.device) == setting.value
    except FileRefused:
        return False


def _now(host: Host, setting: Setting) -> str:
    try:
        return f"reads {observe(host, find(setting.tunable), setting.device)!r}"
    except FileRefused as refused:
        return str(refused)
