"""Sections of the report that plugins add, after those that iotrial has.

PLUGINS: a module with a ``SECTION`` (:mod:`iotrial.plugins`, kind ``sections``).  A section of
iotrial's own is a function in the file of what it is about, and has its place in
:mod:`iotrial.report.study`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iotrial.judgement import Judged
from iotrial.plugins import values
from iotrial.report.blocks import Block, Section, Text
from iotrial.report.words import visible


@dataclass(frozen=True, slots=True)
class ReportSection:
    """``blocks`` gives what stands in it (nothing: the section is left out)."""

    name: str
    title: str
    blocks: Callable[[Judged], Iterable[Block]]


def added(judged: Judged) -> tuple[Section, ...]:
    """The sections of all plugins.  One that fails says so in its place: the report is written."""
    found = []
    for each in values("sections").values():
        try:
            blocks = tuple(each.blocks(judged))
        except Exception as error:  # noqa: BLE001 (whatever somebody else's module raises)
            said = visible(f"The plugin failed: {type(error).__name__}: {error}")
            blocks = (Text(said, "note"),)
        if blocks:
            found.append(Section(each.title, blocks, each.name))
    return tuple(found)
