"""Who else sets what is to be kept: other files of the host, its tuned profile, programs that set
knobs by themselves; who wins, and what to do.

Files of one kind are read by name, and the last that sets a knob wins; a file that is not there
yet takes its place by its name.  tuned writes its profile when it starts, after all files, and
then reads the files of sysctl again unless ``reapply_sysctl`` is 0 (tuned-main.conf(5)).  A udev
rule is compared by the attribute alone: whether it matches the device is not looked at, and that is
said.

Sources: sysctl.d(5), sysctl(8), udev(7), tuned-main.conf(5), modprobe.d(5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iotrial.keep.entry import KeptSetting, SettingConflict, Wins
from iotrial.keep.native import NativeFile
from iotrial.look.machine import writers
from iotrial.model.host import Reader
from iotrial_lint.machine import sheets_of
from iotrial_lint.rule import ConfigFile, ConfigSetting, Family, Kind

_PLACES: dict[str, tuple[Family, Kind]] = {
    "sysctl.": ("sysctl", "sysctl"),
    "queue.": ("queue", "udev"),
    "module.": ("module", "modprobe"),
}
"""Beginning of a tunable's name → what it is called in a sheet, and the files that hold it."""
_WRITERS = {
    "irqbalance": (("irq.",), "Give it --policyscript= with the file that `keep` writes."),
    "tuned": (("cpu.", "mm.", "queue.", "net."), "See: tuned-adm active, and its tuned.conf."),
    "saptune": (("sysctl.", "cpu.", "queue.", "mm."), "See: saptune verify."),
    "multipathd": (("queue.max_sectors_kb", "scsi."), "See max_sectors_kb in multipath.conf."),
    "waagent": (("scsi.timeout",), "See OS.RootDeviceScsiTimeout in /etc/waagent.conf."),
    "google_guest_agent": (("irq.", "xps.", "rps."), "See its set_multiqueue."),
}
"""Programs that set knobs by themselves (doctor finds them at work), and which."""


def conflicts(
    entries: Iterable[KeptSetting],
    files: Sequence[NativeFile],
    sheets: Sequence[ConfigFile],
    writers: Iterable[str] = (),
) -> tuple[SettingConflict, ...]:
    """Of all entries, in their order.  ``sheets`` are the host's files in the order they are
    read, ``writers`` programs at work such as ``tuned (pid 812)``."""
    at_work = tuple(writers)
    return tuple(
        conflict
        for entry in entries
        for conflict in (
            *_of_files(entry, files, sheets),
            *_of_tuned(entry, sheets),
            *_of_programs(entry, at_work),
        )
    )


def _of_files(
    entry: KeptSetting, files: Sequence[NativeFile], sheets: Sequence[ConfigFile]
) -> Iterator[SettingConflict]:
    place = _place(entry)
    ours = next((each.path for each in files if entry in each.entries), "")
    if place is None or not ours:
        return
    family, kind, name = place
    for sheet in sheets:
        for each in sheet.of(family) if sheet.kind == kind and sheet.file != ours else ():
            if each.name != name or each.value == entry.value:
                continue
            later = _key(sheet.file) > _key(ours)
            wins: Wins = ("perhaps" if kind == "udev" else "theirs") if later else "ours"
            yield SettingConflict(
                str(entry), f"{sheet.file}:{each.line}", each.value, wins, _advice(kind, wins)
            )


def _place(entry: KeptSetting) -> tuple[Family, Kind, str] | None:
    for start, (family, kind) in _PLACES.items():
        if entry.tunable.startswith(start):
            name = entry.tunable.removeprefix(start)
            return family, kind, name.replace("iosched.", "iosched/")
    return None


def _key(path: str) -> tuple[bool, str]:
    """By what files are ordered: the name; /etc/sysctl.conf comes last."""
    return path == "/etc/sysctl.conf", path.rpartition("/")[2]


def _advice(kind: Kind, wins: Wins) -> str:
    if wins == "ours":
        return "Nothing: ours is read later. Take the other out when you can."
    if kind == "udev":
        return "It is read later, and counts where its rule matches the device: take it out."
    return "It is read later: take its line out, or change it."


def _of_tuned(entry: KeptSetting, sheets: Sequence[ConfigFile]) -> Iterator[SettingConflict]:
    place = _place(entry)
    if place is None:
        return
    family, _, name = place
    for sheet in sheets:
        for each in sheet.of(family) if sheet.kind == "tuned" else ():
            if each.name == name and each.value != entry.value:
                yield SettingConflict(
                    str(entry),
                    f"{sheet.file}:{each.line}",
                    each.value,
                    "ours" if family == "sysctl" else "theirs",
                    _tuned_advice(family, each),
                )


def _tuned_advice(family: Family, setting: ConfigSetting) -> str:
    if family == "sysctl":
        return "tuned reads sysctl.d again after its profile, unless reapply_sysctl = 0."
    return (
        f"tuned writes {setting.value} when it starts: use the format tuned, with include= of this"
        " profile, or take it out there."
    )


def _of_programs(entry: KeptSetting, writers: Iterable[str]) -> Iterator[SettingConflict]:
    for writer in writers:
        starts, advice = _WRITERS.get(writer.partition(" ")[0], ((), ""))
        if entry.tunable.startswith(starts or ("\0",)):
            yield SettingConflict(str(entry), writer, "", "perhaps", advice)


def conflicts_on(
    host: Reader, entries: Iterable[KeptSetting], files: Sequence[NativeFile]
) -> tuple[SettingConflict, ...]:
    """:func:`conflicts` with what lies on a host and works there.  Only reads."""
    sheets, _ = sheets_of(host)
    return conflicts(entries, files, sheets, writers(host))
