"""Keywords that multipathd ignores now."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import Keyword, keywords
from iotrial.lint.rule import Rule, Said, Scene, at, spelled
from iotrial.lint.sheet import Entry, Sheet

_INSTEAD = {
    "getuid_callout": 'uid_attribute "ID_SERIAL"',
    "default_getuid_callout": 'uid_attribute "ID_SERIAL"',
    "prio_callout": 'prio "alua"',
    "default_prio_callout": 'prio "alua"',
    "selector": 'path_selector "service-time 0"',
    "default_selector": 'path_selector "service-time 0"',
    "default_features": "features",
    "default_path_checker": "path_checker",
    "default_path_grouping_policy": "path_grouping_policy",
    "default_uid_attribute": "uid_attribute",
    "devnode_blacklist": "blacklist",
    "disable_changed_wwids": "recheck_wwid yes",
}
_RENAMED = ("selector", "default_selector")


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        known = keywords().get(("/".join(entry.section), entry.key))
        if known and known.until and (not scene.multipath or scene.multipath >= known.until):
            what = f"multipath-tools ignores it from {spelled(known.until)} on"
            yield at(entry, what, _today(entry, known))
    for line, section in sheet.sections:
        if section == "devnode_blacklist" and (not scene.multipath or scene.multipath >= (0, 9, 0)):
            yield Said(line, section, "the section is called blacklist", "blacklist {")


def _today(entry: Entry, known: Keyword) -> str:
    instead = _INSTEAD.get(known.name, "")
    if known.name in _RENAMED or (known.name.startswith("default_") and " " not in instead):
        return f'{instead.partition(" ")[0]} "{entry.value}"' if instead else ""
    return instead or "Take the line out."


RULE = Rule(
    "multipath-removed",
    "a keyword that multipath ignores now",
    "error",
    ("multipath",),
    "multipathd says so once in its log.  Identities come from udev, priorities from prio: what"
    " the line was for is decided elsewhere.",
    "multipath-tools, libmultipath/dict.c of each release from 0.4.5 to 0.14.3; multipath.conf(5)",
    "Take the line out.",
    _judge,
)
