"""Where the disks of a profile are now: after a boot ``sda`` may be what was ``sdb``.

What is written into files goes by ids anyway; this is for live values, and for what is owed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from iotrial.errors import UsageError
from iotrial.execute.settings.journal import JournalFile, SettingsUndo
from iotrial.keep.profile import Profile
from iotrial.look.identity import BLOCK, SOURCES, disks
from iotrial.model.host import Host
from iotrial.model.tunable import FormerValue, Setting
from iotrial.tunables import tunable

KINDS = {"address", *(kind for kind, _ in SOURCES)}
"""Of ids, those by which a thing is known again; an address is an interface's."""
Ids = Iterable[tuple[str, str]]


def moved(host: Host, profile: Profile) -> dict[str, str]:
    """Name then → name now of each disk of the profile that has another name now.  What has no
    ids, is gone, or is there twice (the paths to one disk) is not among them."""
    wanted = {
        each.device: known
        for each in profile.entries
        if tunable(each.tunable).scope in BLOCK and (known := lasting(each.ids))
    }
    there = {name: dict(disk.ids) for name, disk in disks(host).items()} if wanted else {}
    found = {}
    for device, ids in wanted.items():
        if same(ids, there.get(device, {})):
            continue
        names = [name for name, now in there.items() if set(ids) <= set(now.items())]
        if len(names) == 1:
            found[device] = names[0]
    return found


def lasting(ids: Ids) -> tuple[tuple[str, str], ...]:
    """Those of the kinds that a boot does not change."""
    return tuple((kind, value) for kind, value in ids if kind in KINDS)


def same(ids: Ids, now: Mapping[str, str]) -> bool:
    """Whether what is known by ``now`` is what had these ids: they may be told by fewer kinds."""
    told = [(kind, value) for kind, value in ids if kind in now]
    return bool(told) and all(now[kind] == value for kind, value in told)


def followed(profile: Profile, names: Mapping[str, str]) -> Profile:
    """The profile with the names of now."""
    entries = (
        replace(each, device=names.get(each.device, each.device)) for each in profile.entries
    )
    return profile.only(entries)


def renamings(names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{then} is now {now}, identified by its ids" for then, now in names.items())


def owed_there(session: JournalFile, names: Mapping[str, str]) -> JournalFile:
    """What is owed on disks that have other names now, owed by those."""
    debts = (
        owed_by(debt, names[debt.device]) if debt.device in names else debt
        for debt in session.settings
    )
    return replace(session, settings=tuple(debts))


def owed_by(debt: SettingsUndo, name: str) -> SettingsUndo:
    """The debt of a disk that has this name now; as it was where a tunable of it is none of ours
    any more, since only that knows the new paths."""
    values = []
    try:
        for each in debt.values:
            former, knob = each.setting.value, tunable(each.setting.tunable)
            setting = Setting(name, knob.name, former)
            values.append(
                FormerValue(setting, knob.probe(name), knob.undo(name, former), each.durable)
            )
    except UsageError:
        return debt
    witnesses = (
        (path.replace(f"/{debt.device}/", f"/{name}/", 1), is_) for path, is_ in debt.witnesses
    )
    return replace(debt, device=name, values=tuple(values), witnesses=tuple(witnesses))
