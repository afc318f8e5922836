"""A shell that writes what udev can write itself."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known.queue import REMOVED
from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Entry, Setting, Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    found: dict[Entry, list[str]] = {}
    for each in sheet.settings:
        if each.how == "echo":
            found.setdefault(each.entry, []).append(_itself(each, scene))
    for entry, words in found.items():
        what = "a shell is started to write settings, and nobody hears when it fails"
        yield at(entry, what, ", ".join(words))


def _itself(setting: Setting, scene: Scene) -> str:
    """The same as udev writes it, by the names of today."""
    if setting.family != "queue":
        return f'SYSCTL{{{setting.name}}}="{setting.value}"'
    value = setting.value
    if setting.name == "scheduler" and since(scene, 5, 0):
        value = REMOVED.get(value, value)
    return f'ATTR{{queue/{setting.name}}}="{value}"'


RULE = Rule(
    "udev-echo",
    "a setting written by a shell",
    "note",
    ("udev",),
    "RUN is done after all rules, in a process of its own: an echo that the kernel refuses is told"
    " to no one, and && leaves out what follows.  ATTR and SYSCTL are written by udev in order,"
    " and what fails is in its log.",
    "udev(7): RUN, ATTR, SYSCTL",
    'ATTR{queue/…}="…"',
    _judge,
)
