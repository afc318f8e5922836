"""A blacklist of every device, with exceptions."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.rules.multipath_blacklists_all import everything
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry, _, lifting in everything(sheet, scene):
        if lifting:
            what = f'{entry.key} "{entry.value}" is every device: only those that'
            yield at(entry, f"{what} blacklist_exceptions names by {entry.key} get a map")


RULE = Rule(
    "multipath-only-listed",
    "only devices that are listed are multipathed",
    "note",
    ("multipath",),
    "A new disk has one path until somebody lists it, and nothing says so.  Where disks are few it"
    " may be what is wanted.",
    "multipath.conf(5): blacklist section, blacklist_exceptions section",
    "`find_multipaths strict` instead, or see that each disk under test is listed: multipath -ll.",
    _judge,
)
