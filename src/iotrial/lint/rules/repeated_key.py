"""The same key twice in one place."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Entry, Sheet

_MAY_REPEAT = {
    # multipath.conf: each of them adds one to a list.
    "multipath": {"devnode", "wwid", "property", "protocol", "device", "multipath"},
    # fio adds up these.
    "fio": {"filename", "opendir", "include"},
}


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    seen: dict[tuple[object, ...], Entry] = {}
    for entry in sheet.entries:
        if entry.key in _MAY_REPEAT.get(sheet.kind, ()) or _unnamed(sheet, entry):
            continue
        place = _place(sheet, entry)
        first = seen.setdefault(place, entry)
        if first.line < entry.line or (first is not entry and sheet.kind in ("fstab", "modprobe")):
            same = " with the same value" if first.value == entry.value else f" as {first.value!r}"
            yield at(entry, f"it stands in line {first.line} already{same}; the last one counts")
        seen[place] = entry


def _unnamed(sheet: Sheet, entry: Entry) -> bool:
    """Whether it is no value that is given to something."""
    if sheet.kind == "modprobe":
        return entry.section[0] != "options"
    if sheet.kind == "tuned":
        return entry.section[1] in (
            "bootloader",
            "script",
            "systemd",
            "scheduler",
            "main",
            "service",
        )
    return any(mark in entry.key for mark in "*?[")


def _place(sheet: Sheet, entry: Entry) -> tuple[object, ...]:
    if sheet.kind == "sysctl":
        return (entry.key.replace("/", "."),)
    if sheet.kind == "fio":
        return (entry.name, entry.section, entry.group if entry.section != ("global",) else -1)
    return (entry.key, entry.section, entry.group if sheet.kind in ("multipath", "fstab") else 0)


RULE = Rule(
    "repeated-key",
    "the same key twice",
    "warning",
    ("sysctl", "multipath", "modprobe", "fstab", "tuned", "fio"),
    "Only the last one counts: whoever changes the first wonders why nothing happens.",
    "sysctl.d(5), multipath.conf(5), modprobe.d(5), mount(8), tuned.conf(5), fio(1)",
    "Keep one of them.",
    _judge,
)
