"""A blacklist that leaves multipath nothing."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Entry, Sheet

_SECTIONS = (("blacklist",), ("devnode_blacklist",))
_EVERYTHING = ("*", ".*", "^.*", "^.*$", ".+", "^.+$", ".", "^", "")
"""Regular expressions that each name matches.  For regcomp() a star at the beginning repeats
nothing, which is everywhere."""


def everything(
    sheet: Sheet, scene: Scene
) -> Iterator[tuple[Entry, frozenset[str], frozenset[str]]]:
    """Each entry that blacklists all devices, with the keys that there are exceptions by (of all
    files that are judged at once), and those of them that lift it."""
    sheets = [each for each in scene.sheets if each.kind == "multipath"]
    exceptions = frozenset(
        entry.key if len(entry.section) == 1 else entry.section[1]
        for each in (*sheets, sheet)
        for entry in each.entries
        if entry.section[:1] == ("blacklist_exceptions",)
    )
    for entry in sheet.entries:
        listed = entry.section in _SECTIONS and entry.key in ("wwid", "devnode")
        if listed and entry.value in _EVERYTHING:
            yield entry, exceptions, exceptions & {entry.key}


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry, exceptions, lifting in everything(sheet, scene):
        if lifting:
            continue
        what = f'{entry.key} "{entry.value}" is every device: multipath makes no map'
        if exceptions:
            others = " and ".join(sorted(exceptions))
            what += f"; exceptions by {others} lift no blacklist by {entry.key}"
        yield at(entry, what)


RULE = Rule(
    "multipath-blacklists-all",
    "a blacklist of every device",
    "warning",
    ("multipath",),
    "Each disk is then used by one path, whatever stands in the other sections: what is measured"
    " is that path, and when it fails the I/O fails.  An exception lifts only what was blacklisted"
    " by the same keyword.",
    "multipath.conf(5): blacklist section, blacklist_exceptions section; libmultipath/blacklist.c",
    "Take the line out; `find_multipaths strict` leaves disks with one path alone.",
    _judge,
)
