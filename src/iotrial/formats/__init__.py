"""Bytes to measurements: what tools wrote, in every version of theirs.  Pure; needs no tool.

A module here, or in :mod:`iotrial_import.formats`, with a ``FORMAT`` is a plugin: adding a format
is adding a file, and what ``import`` recognises, its listing and the tests of mutated files follow.
Here are those of tools that iotrial runs, there those that an import alone reads.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from iotrial.plugins import values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iotrial.model.recording import RecordingFormat


@cache
def formats() -> Mapping[str, RecordingFormat]:
    """Every format by its name, in alphabetical order."""
    return values("formats")
