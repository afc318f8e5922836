"""Keys that udev reads no more."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, named
from iotrial.lint.sheet import Entry, Sheet

_INSTEAD = {
    "BUS": "SUBSYSTEMS",
    "ID": "KERNELS",
    "SYSFS": "ATTRS",
    "PLACE": "",
    "WAIT_FOR": "",
    "WAIT_FOR_SYSFS": "",
    "MODALIAS": "",
}
REMOVED = frozenset(_INSTEAD)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.key in REMOVED:
            what = f"udev knows no {named(entry)} any more, and skips the whole rule"
            yield at(entry, what, _today(entry))


def _today(entry: Entry) -> str:
    instead = _INSTEAD[entry.key]
    if not instead:
        return f"Take {entry.key} out."
    part = f"{{{entry.part}}}" if entry.part else ""
    return f'{instead}{part}{entry.sign}"{entry.value}"'


RULE = Rule(
    "udev-removed-key",
    "a key that udev reads no more",
    "error",
    ("udev",),
    "A rule with a key that udev does not know is left out altogether: all it would set stays as"
    " it is.  SYSFS, BUS and ID went in udev 174 (2011), WAIT_FOR in systemd 222.",
    "udev(7); systemd commit 289a1821a4a7 (udev 174), pull request 434 (WAIT_FOR)",
    "Write SUBSYSTEMS, KERNELS and ATTRS for a parent device; SUBSYSTEM and ATTR for the device"
    " itself.",
    _judge,
)
