"""What plugins add to reports: sections after those that iotrial has, and reports of folders.

PLUGINS: a module with a ``SECTION`` (:mod:`iotrial.plugins`, kind ``sections``).  A section of
iotrial's own is a function in the file of what it is about, and has its place in
:mod:`iotrial.report.study`.

PLUGINS: a module with a ``REPORT`` (kind ``reports``) makes one document of several results
folders, or one of folders that hold no study's results; ``report`` asks for it by what lies in the
folders it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """What a report came to.  ``text`` is the document; ``pages`` are those of single folders that
    it leads to, with what is to be written there (None: it is there already)."""

    text: str
    pages: Mapping[Path, str | None]


@dataclass(frozen=True, slots=True)
class FolderReport:
    """``shapes`` are what it can be written as, with the ending of the file's name.  ``takes``
    says whether a folder holds what only this report reads.  ``written`` is given the folders, a
    shape and the folder that links in the document start from.  ``studies``: several folders are
    for it where no report takes one of them."""

    name: str
    title: str
    shapes: Mapping[str, str]
    takes: Callable[[Path], bool]
    written: Callable[[Sequence[Path], str, Path], WrittenReport]
    studies: bool = False
