"""Keywords that multipathd never knew, or not in that section."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import keywords, names_in, nearest, sections_of
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_SECTIONS = frozenset({
    "defaults", "blacklist", "blacklist_exceptions", "devices", "multipaths", "overrides",
    "devnode_blacklist",
})  # fmt: skip


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for line, section in sheet.sections:
        head, _, name = section.rpartition("/")
        if not head and name not in _SECTIONS:
            near = nearest(name, _SECTIONS, 0.7)
            yield Said(line, name, "there is no such section" + _hint(near))
        elif head and head in _SECTIONS and (head, name) not in keywords():
            near = nearest(name, names_in(head), 0.7)
            yield Said(line, name, f"there is no section {name} in {head}" + _hint(near))
    for entry in sheet.entries:
        place = "/".join(entry.section)
        known = names_in(place)
        if not known or entry.key in known:
            continue
        elsewhere = sections_of(entry.key)
        if elsewhere:
            yield at(entry, f"it belongs into {' or '.join(elsewhere)}, not into {place}")
        else:
            yield at(
                entry, "multipath knows no such keyword" + _hint(nearest(entry.key, known, 0.75))
            )


def _hint(near: str) -> str:
    return f"; the nearest is {near}" if near else ""


RULE = Rule(
    "multipath-unknown",
    "a keyword that multipath does not know",
    "error",
    ("multipath",),
    "multipathd says `invalid keyword` once in its log, and goes on without.",
    "multipath-tools 0.4.5 to 0.14.3, libmultipath/dict.c; multipath.conf(5)",
    "Take the real keyword, in its section.",
    _judge,
)
