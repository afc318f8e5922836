"""Folder report: several results folders as one document, or folders that hold no study's results.

PLUGINS: a module with a ``REPORT`` is one (:mod:`iotrial.plugins`, kind ``reports``); ``report``
asks for it by what lies in the folders it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


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
    shape and the folder that links in the document start from."""

    name: str
    title: str
    shapes: Mapping[str, str]
    takes: Callable[[Path], bool]
    written: Callable[[Sequence[Path], str, Path], WrittenReport]
